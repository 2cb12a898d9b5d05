//! What happens when a relay's queues take too much memory (`circuits_handle_oom`, `cell_queues_check_size`).
//!
//! Each cell that joins a circuit queue is followed by a look at what all queues take. At the limit, circuits are killed, first
//! those whose oldest queued cell has waited longest, until nine tenths of the limit are left.

use crate::ids::CircuitId;
use crate::node::Role;
use crate::queues::Direction;
use crate::records::CloseReason;
use crate::world::World;
use onionlab_engine::HostId;
use onionlab_quantities::{Bytes, SimTime};
use std::collections::BTreeMap;

/// Bytes of a chunk of an outbuf, its header included.
const CHUNK_ALLOCATION: u64 = 4096;

/// Bytes of a cell that waits for its turn in a Conflux set (`total_ooo_q_bytes`).
const EARLY_CELL: u64 = 520;

/// A relay's limit of memory for its queues (`MaxMemInQueues`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLimit {
    /// At this much the circuits with the oldest cells are killed.
    pub most: Bytes,
    /// What counts.
    pub counts: MemoryCounts,
}

/// What counts as memory in queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryCounts {
    /// Cells in circuit queues alone (tor 0.2.4, `MaxMemInCellQueues`). A missing pair of brackets in its `packed_cell_mem_cost` makes a cell count
    /// 24 bytes on a 64-bit machine, not the 536 that it takes.
    Cells,
    /// Cells of 528 bytes and the chunks of outbufs (tor since 0.2.5).
    CellsAndBuffers,
}

impl MemoryCounts {
    const fn of_cell(self) -> u64 {
        match self {
            Self::Cells => 24,
            Self::CellsAndBuffers => 528,
        }
    }
}

impl World {
    /// `cell_queues_check_size`, after a cell has joined a queue of this node. The limit is relays': tor has one for clients too, but its default is far beyond what they queue. It looks at every channel of the node, which costs nothing where there is no
    /// limit.
    pub(crate) fn check_memory(&mut self, host: HostId) {
        let Some(limit) = self.settings.memory_limit else { return };
        if !matches!(self.nodes[host.index()].role, Role::Relay { .. }) {
            return;
        }
        let mut allocated = 0;
        for &end in &self.nodes[host.index()].ends {
            let end = &self.ends[end.index()];
            allocated += end.circuits.as_deref().map_or(0, |circuits| circuits.mux.cells()) * limit.counts.of_cell();
            if limit.counts == MemoryCounts::CellsAndBuffers {
                allocated += u64::from(end.outbuf.chunks(self.settings.outbuf_chunk)) * CHUNK_ALLOCATION;
            }
        }
        if limit.counts == MemoryCounts::CellsAndBuffers {
            allocated += u64::from(self.nodes[host.index()].early_cells) * EARLY_CELL;
        }
        if allocated >= limit.most.get() {
            self.kill_oldest(host, limit, allocated - limit.most.get() / 10 * 9);
        }
    }

    /// `circuits_handle_oom`
    fn kill_oldest(&mut self, host: HostId, limit: MemoryLimit, recover: u64) {
        let now = self.queue.now();
        let mut oldest: BTreeMap<(CircuitId, u8), (SimTime, u64)> = BTreeMap::new();
        for &end in &self.nodes[host.index()].ends {
            let Some(circuits) = self.ends[end.index()].circuits.as_deref() else { continue };
            for attached in circuits.attached.iter().flatten() {
                let direction = if attached.outward { Direction::ToExit } else { Direction::ToClient };
                let queue = &self.circuits[attached.circuit.index()].hops[attached.hop as usize].sides[direction as usize].queue;
                let since = self.cells.front(queue).map_or(now, |cell| cell.queued_at);
                let entry = oldest.entry((attached.circuit, attached.hop)).or_insert((now, 0));
                *entry = (entry.0.min(since), entry.1 + u64::from(queue.len));
            }
        }
        let mut circuits: Vec<_> = oldest.into_iter().map(|(circuit, (since, cells))| (since, circuit, cells)).collect();
        circuits.sort_unstable();
        let mut recovered = 0;
        for (_, (circuit, hop), cells) in circuits {
            self.closes_because(circuit, CloseReason::OutOfMemory);
            let early = self.nodes[host.index()].early_cells;
            self.close_at(circuit, hop, None);
            recovered += cells * limit.counts.of_cell();
            if limit.counts == MemoryCounts::CellsAndBuffers {
                recovered += u64::from(early.saturating_sub(self.nodes[host.index()].early_cells)) * EARLY_CELL;
            }
            if recovered >= recover {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench_relay::Bench;
    use crate::ids::EndId;
    use crate::records::Outcome;
    use crate::settings::{ChannelScheduler, Scheduling, Settings};
    use crate::test_world::{at, in_a_row};
    use onionlab_quantities::Bandwidth;

    /// Ten circuits with cells since one instant after the other, on a channel that does not write. A limit of 1,000 cells' memory is reached by the
    /// thousandth: the circuits that began to wait first go, until a tenth is free.
    #[test]
    fn the_circuits_with_the_oldest_cells_go_until_a_tenth_is_free() {
        for (counts, bytes) in [(MemoryCounts::Cells, 24_000), (MemoryCounts::CellsAndBuffers, 528_000)] {
            let limit = MemoryLimit { most: Bytes::new(bytes), counts };
            let scheduling = Scheduling { channel_scheduler: ChannelScheduler::Vanilla, ..Scheduling::default() };
            let settings = Settings { scheduling, memory_limit: Some(limit), max_cell_queue_out: None, ..Settings::default() };
            let mut bench = Bench::new(settings, 1);
            let circuits: Vec<_> = (0..10).map(|_| bench.circuit(0)).collect();
            for (index, &circuit) in circuits.iter().enumerate() {
                // Later circuits first, so that age and number are not the same order.
                let circuit = if index < 2 { circuits[1 - index] } else { circuit };
                bench.advance_to(SimTime::from_nanos(2_000_000_000 + index as u64));
                bench.world.doesnt_want_writes(bench.ends[0]);
                bench.queue(circuit, if index < 2 { 60 } else { 109 });
            }
            // 60 + 60 + 8 * 109 = 992 cells so far.
            for &circuit in &circuits[2..] {
                bench.queue(circuit, 1);
            }
            let closed: Vec<bool> =
                circuits.iter().map(|&circuit| reason(&bench, circuit) == Some(CloseReason::OutOfMemory)).collect();
            let mut expected = [false; 10];
            expected[..2].fill(true);
            assert_eq!(closed, expected, "{counts:?}");
            assert_eq!(queued(&bench, &circuits), 880);
        }
    }

    /// A client that uploads has more in its queues than its relays may; it is not one.
    #[test]
    fn the_limit_is_relays() {
        let limit = MemoryLimit { most: Bytes::new(65_536), counts: MemoryCounts::CellsAndBuffers };
        let settings = Settings { memory_limit: Some(limit), ..Settings::default() };
        let load = "kind = \"sequence\"\nrequest = \"2 MB\"\ntransfers = [{ size = \"10 kB\" }]";
        let mut world = in_a_row(settings, Bandwidth::from_bits_per_sec(50_000_000), load);
        let mut most = 0;
        for step in 0..400 {
            world.run_until(at(10_000 + 10 * step));
            let cells = |end: &EndId| world.ends[end.index()].circuits.as_deref().map_or(0, |circuits| circuits.mux.cells());
            most = most.max(world.nodes[0].ends.iter().map(cells).sum());
        }
        assert!(most * 528 > limit.most.get(), "{most} cells wait at the client");
        let records = world.take_records();
        assert_eq!(records.transfers.iter().map(|transfer| transfer.outcome).collect::<Vec<_>>(), [Outcome::Ok]);
    }

    fn queued(bench: &Bench, circuits: &[CircuitId]) -> u64 {
        let queues = circuits.iter().flat_map(|circuit| bench.world.circuits[circuit.index()].hops.iter());
        queues.flat_map(|hop| &hop.sides).map(|side| u64::from(side.queue.len)).sum()
    }

    fn reason(bench: &Bench, circuit: CircuitId) -> Option<CloseReason> {
        bench.world.circuits[circuit.index()].close_reason
    }
}
