//! Active circuit switching: an entry relay whose outbuf is congested moves its bulkiest circuit to another path, which its client built beforehand
//! (Kale et al. 2015 and 2017).
//!
//! A client that uses a circuit builds a **spare** for it, and opens on it a **standby** stream to the same server for each of the circuit's streams. The entry
//! samples its outbufs (`watch`). Finding one congested it switches (`entry`): SWITCH and DESTROY on the old path, SWITCHED_CONN on the new one, and with SWITCH_ACK the cells
//! that it held back. Relays of the old path close it when SWITCH has left their queues (`path`). The client learns of it by a SWITCH of its own and goes on with the standby
//! streams (`client`), whose server resumes the session (`session`), if not the exit is kept (`kept`). The steps, and what the papers leave open: `docs/models/switching.md`.

mod client;
mod draining;
mod entry;
mod for_tests;
mod forwarding;
mod kept;
mod path;
mod records;
mod session;
mod settings;
#[cfg(test)]
mod tests;
mod watch;

pub use records::{AT_REST, SwitchOutcome, SwitchRecord, SwitchSample, SwitchVerdict};
pub(crate) use session::StreamSwitching;
pub use settings::{SpareRequest, SwitchAsk, SwitchChoice, SwitchEntry, SwitchExit, SwitchOccupancy, SwitchingSettings};

use crate::cell::{Cell, CellKind, CellQueue};
use crate::circuit::Place;
use crate::ids::{CircuitId, EndId, StreamId};
use crate::records::CircuitSerial;
use crate::world::World;
use onionlab_engine::HostId;
use onionlab_quantities::SimTime;
use std::collections::{HashMap, HashSet};

/// What the world knows about switching, where it is on.
#[derive(Debug)]
pub(crate) struct Switching {
    pub settings: SwitchingSettings,
    circuits: HashMap<CircuitId, Switchable>,
    /// By circuit, at its entry.
    averages: Vec<Averages>,
    /// Channels from which a circuit moved and whose outbuf has not been underfull since.
    disarmed: HashSet<EndId>,
    /// By host: an event will look at its outbufs.
    watching: Vec<bool>,
    /// SWITCHED_CONNs that wait until a channel is open, by the circuit that moves.
    waiting: HashMap<EndId, Vec<CircuitId>>,
    /// SWITCHes in outbufs of entries: up to which byte of all that was ever put into the outbuf.
    draining: Vec<(EndId, u64, CircuitId)>,
    /// Cells of switches as they arrive: when, what, from where, to where.
    #[cfg(test)]
    trace: Vec<(SimTime, CellKind, HostId, HostId)>,
    /// SWITCHED_CONN is lost at this host.
    #[cfg(test)]
    deaf: Option<HostId>,
}

/// Cells of one circuit that its entry put into outbufs, by direction.
#[derive(Debug, Clone, Copy)]
struct Averages {
    /// Of which circuit; the slot may be another's by now.
    serial: CircuitSerial,
    /// Since the sample before.
    cells: [u32; 2],
    /// The moving averages.
    average: [f64; 2],
    /// When it last had a cell.
    active: SimTime,
}

/// A circuit that has a spare, is one, or is being switched.
#[derive(Debug, Default)]
struct Switchable {
    spare: Option<CircuitId>,
    /// Whose spare it is.
    spare_of: Option<CircuitId>,
    /// Spares that were launched for it.
    launches: u8,
    /// How often its streams have moved.
    moves: u32,
    /// The switch to it, once the circuit that its streams left is forgotten: what starts over counts for it.
    came_by: Option<Box<SwitchRecord>>,
    switch: Option<Switch>,
    /// By hop: SWITCH waits in its queue; DESTROY has come meanwhile.
    switch_queued: [bool; 4],
    destroy_waits: [bool; 4],
}

/// A switch, from SWITCH on.
#[derive(Debug)]
struct Switch {
    to: CircuitId,
    entry: SwitchEntry,
    since: SimTime,
    /// SWITCH_ACK came from the new middle, and from the new exit.
    acknowledged: [Option<SimTime>; 2],
    /// The client has its streams on the new circuit.
    moved: Option<SimTime>,
    /// How it failed.
    failed: Option<SwitchOutcome>,
    /// Cells that wait at the entry for SWITCH_ACK.
    held: CellQueue,
    /// With another entry: the old entry's end of the channel to the new middle.
    control: EndId,
    /// With a kept exit: the entry's end of the channel that the old path went over, until it is closed; and whether SWITCH has come back over it.
    left: EndId,
    returned: bool,
    /// Forwarded and received cells, to check their order.
    #[cfg(debug_assertions)]
    forwarded: [u32; 2],
    record: SwitchRecord,
}

impl Switch {
    /// Its record, with how it ended.
    fn ended(self) -> Box<SwitchRecord> {
        let outcome = self.failed.unwrap_or(if self.moved.is_some() { SwitchOutcome::Moved } else { SwitchOutcome::Unfinished });
        let [middle, exit] = self.acknowledged;
        Box::new(SwitchRecord { middle_acknowledged: middle, acknowledged: exit, moved: self.moved, outcome, ..self.record })
    }
}

impl Switching {
    pub fn new(settings: SwitchingSettings, hosts: usize) -> Self {
        Self {
            settings,
            circuits: HashMap::new(),
            averages: Vec::new(),
            disarmed: HashSet::new(),
            watching: vec![false; hosts],
            waiting: HashMap::new(),
            draining: Vec::new(),
            #[cfg(test)]
            trace: Vec::new(),
            #[cfg(test)]
            deaf: None,
        }
    }

    fn switch(&self, circuit: CircuitId) -> Option<&Switch> {
        self.circuits.get(&circuit)?.switch.as_ref()
    }

    fn switch_mut(&mut self, circuit: CircuitId) -> Option<&mut Switch> {
        self.circuits.get_mut(&circuit)?.switch.as_mut()
    }
}

/// The entry's hop of a circuit.
const ENTRY: u8 = 1;

impl World {
    /// A cell that reaches nobody: if its circuit was switched, it counts as lost by that.
    pub(crate) fn lose(&mut self, cell: Cell) {
        if cell.kind == CellKind::Data {
            self.note_lost(cell);
        }
        self.discard(cell);
    }

    /// The same of a DATA cell, which may have come to the client, for a stream that has moved or ended.
    pub(crate) fn note_lost(&mut self, cell: Cell) {
        let switch = self.switching.as_mut().and_then(|switching| switching.switch_mut(cell.circuit));
        let by_switch = switch.is_some();
        if let Some(switch) = switch {
            switch.record.cells_lost += 1;
            switch.record.bytes_lost += u64::from(cell.length);
        }
        if cell.target() == Place::Client.hop() {
            self.sampler.lost_to_clients[usize::from(!by_switch)] += u64::from(cell.length);
        }
    }

    /// What the exit has for the server of a stream that ends with a failed switch.
    pub(crate) fn lose_at_exit(&mut self, id: StreamId) {
        let stream = &self.streams[id.index()];
        let (circuit, waits) = (stream.circuit, stream.ends[Place::Exit as usize].outbuf);
        let switch = self.switching.as_mut().and_then(|switching| switching.switch_mut(circuit));
        if let Some(switch) = switch.filter(|switch| switch.failed.is_some()) {
            switch.record.cells_lost += waits.div_ceil(u64::from(self.settings.cell_payload));
            switch.record.bytes_lost += waits;
        }
    }

    /// The circuit's slot is free: the switch to it, if there was one, is recorded; a switch from it when the circuit to which it went is forgotten too.
    pub(crate) fn forget_switching(&mut self, id: CircuitId) {
        let Some(switching) = &mut self.switching else { return };
        let Some(mut of) = switching.circuits.remove(&id) else { return };
        // Nothing is to take the slot's next circuit for this one.
        if let Some(spare) = of.spare.and_then(|spare| switching.circuits.get_mut(&spare))
            && spare.spare_of == Some(id)
        {
            spare.spare_of = None;
        }
        if let Some(first) = of.spare_of
            && let Some(first) = switching.circuits.get_mut(&first)
            && first.spare == Some(id)
        {
            first.spare = None;
        }
        let mut left = of.switch.take();
        if let Some(switch) = &left
            && let Some(to) = switching.circuits.get_mut(&switch.to)
            && to.spare_of == Some(id)
        {
            to.spare_of = None;
            to.came_by = left.take().map(Switch::ended);
        }
        for record in [of.came_by, left.map(Switch::ended)].into_iter().flatten() {
            self.record_switch(*record);
        }
    }

    /// What is still going on when the run ends.
    pub(crate) fn finish_switches(&mut self) {
        let Some(switching) = &mut self.switching else { return };
        let mut circuits: Vec<(CircuitId, &mut Switchable)> = switching.circuits.iter_mut().map(|(&id, of)| (id, of)).collect();
        circuits.sort_unstable_by_key(|&(id, _)| id);
        let records: Vec<_> =
            circuits.into_iter().flat_map(|(_, of)| [of.came_by.take(), of.switch.take().map(Switch::ended)]).flatten().collect();
        for record in records {
            self.record_switch(*record);
        }
    }

    fn record_switch(&mut self, record: SwitchRecord) {
        if self.clients[record.client.index()].config.record {
            self.records.switches.push(record);
        }
    }

    /// A stream starts over, with so much payload exchanged for nothing: it counts for the switch to or from its circuit.
    pub(crate) fn count_start_over(&mut self, stream: StreamId, bytes: u64) {
        let Some(switching) = &mut self.switching else { return };
        let id = self.streams[stream.index()].circuit;
        let Some(of) = switching.circuits.get_mut(&id) else { return };
        let from = of.spare_of;
        let record = match (&mut of.switch, &mut of.came_by, from) {
            (Some(switch), ..) => Some(&mut switch.record),
            (None, Some(record), _) => Some(&mut **record),
            (None, None, from) => from.and_then(|from| switching.switch_mut(from)).map(|switch| &mut switch.record),
        };
        if let Some(record) = record {
            record.started_over += 1;
            record.bytes_started_over += bytes;
        }
    }

    /// Whether the circuit was in a switch that failed: its streams start over.
    pub(crate) fn failed_by_switching(&self, id: CircuitId) -> bool {
        self.switching.as_ref().and_then(|switching| switching.switch(id)).is_some_and(|switch| switch.failed.is_some())
    }

    fn host_of(&self, id: CircuitId, hop: u8) -> HostId {
        self.circuits[id.index()].hops[hop as usize].host
    }
}
