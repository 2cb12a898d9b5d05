//! What an entry sees of its outbufs, and which circuit it moves for it (Kale et al. 2015, Algorithm 1).

use super::{Averages, CircuitId, ENTRY, SwitchChoice, SwitchOccupancy};
use crate::cell::CellKind;
use crate::channel::Attached;
use crate::circuit::CircuitState;
use crate::ids::EndId;
use crate::records::{CircuitSerial, CloseReason};
use crate::world::{Event, World};
use onionlab_engine::HostId;
use onionlab_quantities::SimTime;

/// Bytes of an outbuf that alpha and beta are shares of.
const OUTBUF: f64 = 32_768.0;

impl Averages {
    const NONE: Self = Self { serial: CircuitSerial(u32::MAX), cells: [0; 2], average: [0.0; 2], active: SimTime::ZERO };
}

/// A circuit of a channel at its entry.
struct Sampled {
    circuit: CircuitId,
    average: f64,
}

impl World {
    /// A cell went from a circuit's queue to an outbuf. Only where switching is on.
    pub(crate) fn note_flushed(&mut self, end: EndId, circuit: CircuitId, hop: u8, outward: bool, kind: CellKind) {
        if hop == ENTRY {
            let now = self.queue.now();
            let averages = self.averages_of(circuit);
            averages.cells[usize::from(outward)] += 1;
            averages.active = now;
        }
        if kind == CellKind::PathSwitch && outward {
            self.queue.schedule(self.queue.now(), self.ends[end.index()].host, Event::PathDrained(circuit));
        }
    }

    /// What the entry knows of the circuit, from nothing if the slot was another's.
    fn averages_of(&mut self, circuit: CircuitId) -> &mut Averages {
        let serial = self.serials[circuit.index()];
        let averages = &mut self.switching.as_mut().expect("asked only where switching is on").averages;
        if averages.len() <= circuit.index() {
            averages.resize(circuit.index() + 1, Averages::NONE);
        }
        let of = &mut averages[circuit.index()];
        if of.serial != serial {
            *of = Averages { serial, ..Averages::NONE };
        }
        of
    }

    /// The entry begins to look, if it does not yet: it samples at multiples of the interval.
    pub(super) fn watch_entry(&mut self, host: HostId) {
        let now = self.queue.now();
        let Some(switching) = &mut self.switching else { return };
        if !std::mem::replace(&mut switching.watching[host.index()], true) {
            let interval = switching.settings.interval.as_nanos();
            let next = SimTime::from_nanos((now.as_nanos() / interval + 1) * interval);
            self.queue.schedule(next, host, Event::WatchOutbufs);
        }
    }

    /// A sample of all outbufs at an entry. It goes on as long as circuits that it could move are there.
    pub(crate) fn watch_outbufs(&mut self, host: HostId) {
        let Some(switching) = &mut self.switching else { return };
        switching.watching[host.index()] = false;
        let mut any = false;
        for end in self.nodes[host.index()].ends.clone() {
            any |= self.sample_outbuf(end);
        }
        if any {
            self.watch_entry(host);
        }
    }

    /// The circuits of an outbuf of which its node is the entry: averages are brought up to date, and what Algorithm 1 says is done.
    fn sample_outbuf(&mut self, end: EndId) -> bool {
        let Some(circuits) = self.ends[end.index()].circuits.as_deref() else { return false };
        let attached: Vec<Attached> = circuits.attached.iter().flatten().filter(|of| of.hop == ENTRY).copied().collect();
        if attached.is_empty() {
            return false;
        }
        let Some(settings) = self.switching.as_ref().map(|switching| switching.settings) else { return false };
        let (mut sampled, mut before) = (Vec::with_capacity(attached.len()), 0.0);
        for Attached { circuit, outward, .. } in attached {
            let of = self.averages_of(circuit);
            let direction = usize::from(outward);
            before += of.average[direction];
            let cells = f64::from(std::mem::take(&mut of.cells[direction]));
            of.average[direction] = settings.gamma * of.average[direction] + (1.0 - settings.gamma) * cells;
            sampled.push(Sampled { circuit, average: of.average[direction] });
        }
        let total: f64 = sampled.iter().map(|of| of.average).sum();
        let held = f64::from(self.ends[end.index()].outbuf.len());
        let occupancy = match settings.occupancy {
            SwitchOccupancy::Absolute => held / OUTBUF,
            SwitchOccupancy::Relative if before > 0.0 => total / before,
            SwitchOccupancy::Relative => 0.0,
        };
        let stuck = settings.unwritable && held > 0.0 && !self.net.is_writable(self.ends[end.index()].socket);
        if occupancy > settings.beta || stuck {
            self.relieve(end, &sampled, occupancy);
        } else if occupancy < settings.alpha {
            if let Some(switching) = &mut self.switching {
                switching.disarmed.remove(&end);
            }
            self.drop_idle(&sampled);
        }
        true
    }

    /// Moves what makes the outbuf full, if it may.
    fn relieve(&mut self, end: EndId, sampled: &[Sampled], occupancy: f64) {
        let Some(switching) = &mut self.switching else { return };
        let settings = switching.settings;
        if settings.hysteresis && switching.disarmed.contains(&end) {
            return;
        }
        let mean = sampled.iter().map(|of| of.average).sum::<f64>() / sampled.len() as f64;
        let mut bulky: Vec<&Sampled> = sampled.iter().filter(|of| of.average > 0.0 && self.may_switch(of.circuit)).collect();
        // The greatest first; of equals the one with the lower number.
        bulky.sort_by(|a, b| b.average.total_cmp(&a.average).then(a.circuit.cmp(&b.circuit)));
        match settings.choice {
            SwitchChoice::Bulkiest => bulky.truncate(1),
            SwitchChoice::AboveMean => bulky.retain(|of| of.average > mean),
        }
        let chosen: Vec<(CircuitId, f64)> = bulky.into_iter().map(|of| (of.circuit, of.average)).collect();
        for &(circuit, average) in &chosen {
            // One move may have closed what another needs.
            if self.may_switch(circuit) {
                self.begin_switch(circuit, average, occupancy);
            }
        }
        if !chosen.is_empty()
            && let Some(switching) = &mut self.switching
        {
            switching.disarmed.insert(end);
        }
    }

    /// Whether the circuit has a spare on which all its streams are ready.
    fn may_switch(&self, id: CircuitId) -> bool {
        let Some(switching) = &self.switching else { return false };
        let Some(of) = switching.circuits.get(&id) else { return false };
        let Some(spare) = of.spare else { return false };
        let few = switching.settings.most_moves.is_none_or(|most| of.moves < most);
        let (circuit, spare) = (&self.circuits[id.index()], &self.circuits[spare.index()]);
        let whole = |circuit: &crate::circuit::Circuit| {
            circuit.state == CircuitState::Open && !circuit.timed_out && circuit.hops.iter().all(|hop| !hop.closed)
        };
        few && of.switch.is_none() && whole(circuit) && whole(spare) && self.streams_are_ready(id)
    }

    /// Circuits without a cell for long are closed, but for spares.
    fn drop_idle(&mut self, sampled: &[Sampled]) {
        let now = self.queue.now();
        let Some(switching) = &self.switching else { return };
        let Some(after) = switching.settings.drop_idle else { return };
        let is_spare = |id: &CircuitId| switching.circuits.get(id).is_some_and(|of| of.spare_of.is_some() || of.switch.is_some());
        let idle: Vec<CircuitId> = sampled
            .iter()
            .map(|of| of.circuit)
            .filter(|id| {
                let circuit = &self.circuits[id.index()];
                circuit.state == CircuitState::Open && !is_spare(id)
            })
            .collect();
        for id in idle {
            let active = self.averages_of(id).active.max(self.circuits[id.index()].built_at.unwrap_or(now));
            if active + after <= now && !self.circuits[id.index()].hops[ENTRY as usize].closed {
                self.closes_because(id, CloseReason::DroppedIdle);
                self.close_at(id, ENTRY, None);
            }
        }
    }
}
