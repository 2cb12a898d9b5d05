//! Cells of a circuit that is being switched at its entry: on to the new circuit, to wait there for SWITCH_ACK, or lost.

use super::{CircuitId, ENTRY, SwitchEntry, SwitchOutcome};
use crate::cell::{Cell, CellKind};
use crate::circuit::Place;
use crate::ids::{ProbeId, StreamId};
use crate::queues::Direction;
use crate::records::CloseReason;
use crate::world::World;
use onionlab_flowcontrol::CongestionAlgorithm;

#[cfg(test)]
const EXIT: u8 = Place::Exit.hop();

impl World {
    /// A cell for a circuit that goes no further here: on to the circuit to which it was switched, to wait for SWITCH_ACK, or lost.
    pub(crate) fn forward_or_lose(&mut self, id: CircuitId, hop: u8, direction: Direction, cell: Cell) {
        let may = hop == ENTRY
            && direction == Direction::ToExit
            && matches!(cell.kind, CellKind::Data | CellKind::End)
            && !self.circuits[id.index()].hops[ENTRY as usize].closed;
        match self.forwarded(id, cell).filter(|_| may) {
            Some(renamed) => self.forward(id, cell, renamed),
            None => self.lose(cell),
        }
    }

    /// The same cell on the new circuit and the standby stream, if there are such.
    fn forwarded(&self, id: CircuitId, cell: Cell) -> Option<Cell> {
        let switch = self.switching.as_ref()?.switch(id)?;
        if switch.entry != SwitchEntry::Same || switch.failed.is_some() || !cell.stream.is_some() {
            return None;
        }
        let standby = self.streams[cell.stream.index()].switching.standby;
        let alive = standby.is_some() && self.streams[standby.index()].circuit == switch.to;
        let mut renamed = cell;
        (renamed.circuit, renamed.stream) = (switch.to, standby);
        alive.then_some(renamed)
    }

    #[cfg_attr(not(debug_assertions), expect(unused_mut, reason = "the sequence is set in debug builds"))]
    fn forward(&mut self, id: CircuitId, cell: Cell, mut renamed: Cell) {
        let to = renamed.circuit;
        #[cfg(debug_assertions)]
        {
            renamed.sequence = self.next_forwarded(id);
        }
        self.circuits[to.index()].live_cells += 1;
        self.streams[renamed.stream.index()].live_cells += 1;
        let now = self.queue.now();
        let Some(switch) = self.switching.as_mut().and_then(|switching| switching.switch_mut(id)) else { return };
        let (holds, moved) = (switch.acknowledged[1].is_none(), switch.moved.is_some());
        if cell.kind == CellKind::Data {
            switch.record.cells_forwarded += 1;
            self.streams[cell.stream.index()].switching.sent -= u64::from(cell.length);
            self.streams[renamed.stream.index()].switching.sent += u64::from(cell.length);
            if !moved {
                self.charge_forwarded(to, renamed.stream);
            }
        }
        self.discard(cell.followed_as(ProbeId::NONE));
        if !holds {
            self.append_cell(to, ENTRY, Direction::ToExit, renamed);
            return;
        }
        let Some(switch) = self.switching.as_mut().and_then(|switching| switching.switch_mut(id)) else { return };
        self.cells.push(&mut switch.held, renamed).queued_at = now;
        let (held, host) = (switch.held.len, switch.record.entry);
        switch.record.most_cells_held = switch.record.most_cells_held.max(u64::from(held));
        self.nodes[host.index()].early_cells += 1;
        if self.settings.max_cell_queue_out.is_some_and(|max| u64::from(held) >= max.get()) {
            self.circuits[id.index()].close_reason = Some(CloseReason::QueueLimit);
            self.fail_switch(id, SwitchOutcome::CircuitClosed);
        } else {
            self.check_memory(host);
        }
    }

    /// A cell that the client sent on the old circuit counts in the windows of the new one.
    pub(super) fn charge_forwarded(&mut self, to: CircuitId, stream: StreamId) {
        let now = self.queue.now();
        self.circuits[to.index()].edge(Place::Client).package.data_forwarded(now);
        self.streams[stream.index()].end(Place::Client).packaged(now);
    }

    #[cfg(debug_assertions)]
    fn next_forwarded(&mut self, id: CircuitId) -> u32 {
        let switch =
            self.switching.as_mut().and_then(|switching| switching.switch_mut(id)).expect("cells are forwarded in a switch");
        switch.forwarded[0] += 1;
        FORWARDED | switch.forwarded[0]
    }

    /// Whether the cell was forwarded, and if so, that none before it is missing.
    #[cfg(debug_assertions)]
    pub(crate) fn is_next_forwarded(&mut self, cell: Cell) -> bool {
        if cell.sequence & FORWARDED == 0 {
            return false;
        }
        let switching = self.switching.as_mut().expect("cells are forwarded where switching is on");
        let from = switching.circuits.get(&cell.circuit).and_then(|of| of.spare_of);
        if let Some(switch) = from.and_then(|from| switching.switch_mut(from)).filter(|switch| switch.to == cell.circuit) {
            switch.forwarded[1] += 1;
            assert_eq!(cell.sequence & !FORWARDED, switch.forwarded[1], "a forwarded cell was lost, doubled or overtaken");
        }
        #[cfg(test)]
        if cell.sequence == FORWARDED | 1 {
            let end = self.circuits[cell.circuit.index()].hops[EXIT as usize].sides[0].end;
            self.trace_switch(end, cell);
        }
        true
    }
}

/// Marks the sequence of a cell that was not numbered by the sender on its circuit.
#[cfg(debug_assertions)]
const FORWARDED: u32 = 1 << 31;
