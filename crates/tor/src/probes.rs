//! Probes: single DATA cells that are followed from the client's tor to the server, as latency is measured in Kale et al. 2015 (section 5.2.1.3).
//!
//! The first cell that a client packages after each interval is marked. The mark goes wherever the cell does, to another circuit too if the cell is forwarded there, and costs
//! nothing: it is a cell of the client's own. At the exit it becomes a position in what goes to the server, and is there when the server has read that far.

use crate::cell::Cell;
use crate::ids::{CircuitId, ClientId, ProbeId, StreamId};
use crate::records::CircuitSerial;
use crate::world::World;
use onionlab_quantities::SimTime;
use slab::Slab;
use std::collections::{HashMap, VecDeque};

/// How a probe ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProbeOutcome {
    /// The server has read it.
    Arrived,
    /// The cell, or its bytes at the exit, came to nothing.
    Lost,
    /// The run ended before.
    UnderWay,
}

impl ProbeOutcome {
    /// The name in the records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Arrived => "arrived",
            Self::Lost => "lost",
            Self::UnderWay => "under-way",
        }
    }
}

/// One cell from a client to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeRecord {
    /// The client's tor packaged it.
    pub sent: SimTime,
    /// Whose.
    pub client: ClientId,
    /// For this circuit.
    pub circuit: CircuitSerial,
    /// It arrived at the exit.
    pub at_exit: Option<SimTime>,
    /// By this circuit, another one if it was forwarded.
    pub came_by: Option<CircuitSerial>,
    /// The server has read its last byte.
    pub at_server: Option<SimTime>,
    /// How it ended.
    pub outcome: ProbeOutcome,
}

/// The probes of a world that has any.
#[derive(Debug)]
pub(crate) struct Probes {
    /// By client: from when on a cell is marked.
    next: Vec<SimTime>,
    under_way: Slab<ProbeRecord>,
    /// Of streams: where in what goes to the server probes end.
    at_exits: HashMap<StreamId, VecDeque<(u64, ProbeId)>>,
}

impl Probes {
    /// For so many clients.
    pub fn new(clients: usize) -> Self {
        Self { next: vec![SimTime::ZERO; clients], under_way: Slab::new(), at_exits: HashMap::new() }
    }
}

impl World {
    /// The client packages a DATA cell for this circuit: whether it is followed, and as what.
    pub(crate) fn probe_of_next_cell(&mut self, id: CircuitId) -> ProbeId {
        let now = self.queue.now();
        let client = self.circuits[id.index()].client;
        let (Some(probes), Some(interval)) = (&mut self.probes, self.clients[client.index()].config.probe) else {
            return ProbeId::NONE;
        };
        let next = &mut probes.next[client.index()];
        if now < *next {
            return ProbeId::NONE;
        }
        *next = now + interval;
        let probe = ProbeRecord {
            sent: now,
            client,
            circuit: self.serials[id.index()],
            at_exit: None,
            came_by: None,
            at_server: None,
            outcome: ProbeOutcome::UnderWay,
        };
        ProbeId(probes.under_way.insert(probe) as u32)
    }

    /// A marked cell ends: unless it has come to the exit, it is lost.
    #[cold]
    pub(crate) fn probed_cell_ends(&mut self, id: ProbeId) {
        let Some(probes) = &mut self.probes else { return };
        if probes.under_way.get(id.index()).is_some_and(|probe| probe.at_exit.is_none()) {
            self.end_probe(id, ProbeOutcome::Lost);
        }
    }

    /// The bytes of a marked cell have joined what the exit holds for the server.
    #[cold]
    pub(crate) fn probe_at_exit(&mut self, cell: Cell) {
        let (now, position) = (self.queue.now(), self.bytes_for_server(cell.stream));
        let Some(probes) = &mut self.probes else { return };
        probes.at_exits.entry(cell.stream).or_default().push_back((position, cell.probe));
        if let Some(probe) = probes.under_way.get_mut(cell.probe.index()) {
            (probe.at_exit, probe.came_by) = (Some(now), Some(self.serials[cell.circuit.index()]));
        }
    }

    /// The server has read so many bytes of the stream's connection.
    pub(crate) fn probes_at_server(&mut self, stream: StreamId, read: u64) {
        let now = self.queue.now();
        while let Some(probes) = &mut self.probes
            && let Some(waiting) = probes.at_exits.get_mut(&stream)
            && let Some(&(position, id)) = waiting.front()
            && position <= read
        {
            waiting.pop_front();
            if waiting.is_empty() {
                probes.at_exits.remove(&stream);
            }
            if let Some(probe) = probes.under_way.get_mut(id.index()) {
                probe.at_server = Some(now);
            }
            self.end_probe(id, ProbeOutcome::Arrived);
        }
    }

    /// The stream is over at its exit: what the server has not read by now it never will.
    pub(crate) fn probes_end_with(&mut self, stream: StreamId) {
        let waiting = self.probes.as_mut().and_then(|probes| probes.at_exits.remove(&stream));
        for (_, id) in waiting.unwrap_or_default() {
            self.end_probe(id, ProbeOutcome::Lost);
        }
    }

    /// The connection of one stream goes on as another's, before whose bytes it has brought or holds `before`.
    pub(crate) fn probes_move(&mut self, from: StreamId, to: StreamId, before: u64) {
        let Some(probes) = &mut self.probes else { return };
        let mut waiting = probes.at_exits.remove(&from).unwrap_or_default();
        let behind = probes.at_exits.remove(&to).unwrap_or_default();
        waiting.extend(behind.into_iter().map(|(position, id)| (before + position, id)));
        if !waiting.is_empty() {
            probes.at_exits.insert(to, waiting);
        }
    }

    fn end_probe(&mut self, id: ProbeId, outcome: ProbeOutcome) {
        if let Some(probe) = self.probes.as_mut().and_then(|probes| probes.under_way.try_remove(id.index())) {
            self.records.probes.push(ProbeRecord { outcome, ..probe });
        }
    }

    /// Those that are under way when the run ends.
    pub(crate) fn finish_probes(&mut self) {
        let Some(probes) = &self.probes else { return };
        let mut left: Vec<ProbeRecord> = probes.under_way.iter().map(|(_, probe)| *probe).collect();
        left.sort_unstable_by_key(|probe| (probe.sent, probe.client));
        self.records.probes.extend(left);
    }

    /// How many of them are under way.
    pub fn probes_under_way(&self) -> usize {
        self.probes.as_ref().map_or(0, |probes| probes.under_way.len())
    }
}
