//! A switch at the entry: SWITCH, SWITCHED_CONN, SWITCH_ACK, and the cells in between (Kale et al. 2015, sections 4.3.1 and 4.3.2).

use super::{CircuitId, ENTRY, Switch, SwitchEntry};
use crate::cell::{Cell, CellKind, CellQueue};
use crate::channel::Opening;
use crate::circuit::{HOPS, Place};
use crate::ids::{EndId, StreamId};
use crate::queues::Direction;
use crate::records::{CloseReason, SwitchOutcome, SwitchRecord};
use crate::world::{Event, World};
use onionlab_flowcontrol::CongestionAlgorithm;

const EXIT: u8 = Place::Exit.hop();

impl World {
    /// The entry moves the circuit to its spare.
    pub(super) fn begin_switch(&mut self, id: CircuitId, average: f64, occupancy: f64) {
        let now = self.queue.now();
        let entry = self.host_of(id, ENTRY);
        let Some(switching) = &mut self.switching else { return };
        let timeout = switching.settings.timeout;
        let Some(of) = switching.circuits.get_mut(&id) else { return };
        let Some(to) = of.spare.take() else { return };
        let same = self.circuits[to.index()].hops[ENTRY as usize].host == entry;
        let record = SwitchRecord {
            client: self.circuits[id.index()].client,
            circuit: self.serials[id.index()],
            to: self.serials[to.index()],
            entry,
            same_entry: same,
            average,
            occupancy,
            time: now,
            middle_acknowledged: None,
            acknowledged: None,
            moved: None,
            streams: 0,
            cells_forwarded: 0,
            cells_lost: 0,
            bytes_lost: 0,
            started_over: 0,
            bytes_started_over: 0,
            outcome: SwitchOutcome::Unfinished,
        };
        of.switch = Some(Switch {
            to,
            entry: if same { SwitchEntry::Same } else { SwitchEntry::Other },
            since: now,
            acknowledged: [None; 2],
            moved: None,
            failed: None,
            held: CellQueue::EMPTY,
            control: EndId::NONE,
            #[cfg(debug_assertions)]
            forwarded: [0; 2],
            record,
        });
        // What happens below may close a circuit; neither may be recycled under it.
        for circuit in [id, to] {
            self.circuits[circuit.index()].live_cells += 1;
        }
        self.queue.schedule(now + timeout, entry, Event::SwitchTimeout(id));
        if same {
            self.leave_path(id);
            self.originate(ENTRY, Direction::ToExit, Cell::new(CellKind::SwitchedConn, to).for_hop(EXIT));
        } else {
            self.ask_new_middle(id, to);
        }
        for circuit in [id, to] {
            self.circuits[circuit.index()].live_cells -= 1;
            self.recycle_circuit(circuit);
        }
    }

    /// SWITCH and DESTROY on the old path; the cells that have not left go elsewhere. Both go the way of DESTROY cells, behind what is in the outbuf: nothing of the circuit is left
    /// in its queue.
    fn leave_path(&mut self, id: CircuitId) {
        let now = self.queue.now();
        self.closes_because(id, CloseReason::Switched);
        let side = self.circuits[id.index()].hops[ENTRY as usize].sides[Direction::ToExit as usize];
        if let Some(circuits) = self.ends[side.end.index()].circuits.as_deref_mut() {
            circuits.mux.set_cells(side.slot, 0, now);
            circuits.mux.detach(side.slot, now);
            circuits.set_attached(side.slot, None);
        }
        self.channel_logs[side.end.channel()].detached();
        if !self.ends[side.end.index()].has_circuits() {
            self.has_no_circuits(side.end);
        }
        self.circuits[id.index()].hops[ENTRY as usize].sides[Direction::ToExit as usize].end = EndId::NONE;
        for kind in [CellKind::PathSwitch, CellKind::Destroy] {
            let mut cell = Cell::new(kind, id).for_hop(EXIT);
            cell.set_arrives_at(ENTRY + 1);
            self.circuits[id.index()].live_cells += 1;
            self.send_destroy(side.end, cell);
        }
        while let Some(cell) =
            self.cells.pop(&mut self.circuits[id.index()].hops[ENTRY as usize].sides[Direction::ToExit as usize].queue)
        {
            self.forward_or_lose(id, ENTRY, Direction::ToExit, cell);
        }
        self.circuits[id.index()].hops[ENTRY as usize].sides[Direction::ToExit as usize].blocked = false;
    }

    /// SWITCHED_CONN to the spare's middle, over a channel between the two and no circuit.
    fn ask_new_middle(&mut self, id: CircuitId, to: CircuitId) {
        let (entry, middle) = (self.host_of(id, ENTRY), self.host_of(to, ENTRY + 1));
        // Without a socket for it there will be no answer.
        let Some(end) = self.channel_between(entry, middle) else { return };
        let open = self.ends[end.index()].opening == Opening::Open;
        let Some(switching) = &mut self.switching else { return };
        if let Some(switch) = switching.switch_mut(id) {
            switch.control = end;
        }
        if open {
            self.send_switched_conn(id);
        } else {
            switching.waiting.entry(end).or_default().push(id);
        }
    }

    fn send_switched_conn(&mut self, id: CircuitId) {
        let Some(switch) = self.switching.as_ref().and_then(|switching| switching.switch(id)) else { return };
        let (to, control) = (switch.to, switch.control);
        if switch.failed.is_some() {
            return;
        }
        let mut cell = Cell::new(CellKind::SwitchedConn, to).for_hop(EXIT);
        cell.set_arrives_at(ENTRY + 1);
        self.circuits[to.index()].live_cells += 1;
        self.send_destroy(control, cell);
    }

    /// A channel is open: SWITCHED_CONNs that waited for it leave.
    pub(crate) fn channel_open_for_switches(&mut self, end: EndId) {
        let waiting = self.switching.as_mut().and_then(|switching| switching.waiting.remove(&end));
        for id in waiting.unwrap_or_default() {
            self.send_switched_conn(id);
        }
    }

    /// A channel is gone: nothing of it may be taken for the next one's in its place.
    pub(crate) fn channel_gone_for_switches(&mut self, end: EndId) {
        let Some(switching) = &mut self.switching else { return };
        switching.disarmed.remove(&end);
        switching.waiting.remove(&end);
        for switch in switching.circuits.values_mut().filter_map(|of| of.switch.as_mut()) {
            if switch.control == end {
                switch.control = EndId::NONE;
            }
        }
    }

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
        self.discard(cell);
        if !holds {
            self.append_cell(to, ENTRY, Direction::ToExit, renamed);
            return;
        }
        let Some(switch) = self.switching.as_mut().and_then(|switching| switching.switch_mut(id)) else { return };
        self.cells.push(&mut switch.held, renamed).queued_at = now;
        let (held, host) = (switch.held.len, switch.record.entry);
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

    /// SWITCH_ACK at the entry that asked. With the exit's, the cells that were held follow, and the client is told.
    pub(super) fn acknowledged(&mut self, id: CircuitId, by: u16) {
        let now = self.queue.now();
        let Some(switch) = self.switching.as_mut().and_then(|switching| switching.switch_mut(id)) else { return };
        if switch.failed.is_some() {
            return;
        }
        let to = switch.to;
        let exit = by == u16::from(EXIT);
        switch.acknowledged[usize::from(exit)].get_or_insert(now);
        if !exit {
            return;
        }
        self.circuits[id.index()].live_cells += 1;
        while let Some(cell) = self.pop_held(id) {
            self.append_cell(to, ENTRY, Direction::ToExit, cell);
        }
        self.originate(ENTRY, Direction::ToClient, Cell::new(CellKind::PathSwitch, id));
        self.circuits[id.index()].live_cells -= 1;
        self.recycle_circuit(id);
    }

    fn pop_held(&mut self, id: CircuitId) -> Option<Cell> {
        let switch = self.switching.as_mut()?.switch_mut(id)?;
        let host = switch.record.entry;
        let cell = self.cells.pop(&mut switch.held)?;
        self.nodes[host.index()].early_cells -= 1;
        Some(cell)
    }

    /// No answer for too long.
    pub(crate) fn switch_timeout(&mut self, id: CircuitId) {
        let now = self.queue.now();
        let Some(switching) = &self.switching else { return };
        let timeout = switching.settings.timeout;
        // The slot may be another circuit's by now, and in a switch of its own.
        let due = switching
            .switch(id)
            .is_some_and(|switch| switch.since + timeout <= now && switch.acknowledged[1].is_none() && switch.failed.is_none());
        if due {
            self.fail_switch(id, SwitchOutcome::TimedOut);
        }
    }

    /// The switch came to nothing: what was held is lost, and the circuit is closed towards the client, whose streams start over.
    pub(super) fn fail_switch(&mut self, id: CircuitId, outcome: SwitchOutcome) {
        let Some(switch) = self.switching.as_mut().and_then(|switching| switching.switch_mut(id)) else { return };
        if switch.failed.is_some() || switch.moved.is_some() {
            return;
        }
        switch.failed = Some(outcome);
        self.circuits[id.index()].live_cells += 1;
        while let Some(cell) = self.pop_held(id) {
            if cell.kind == CellKind::Data
                && let Some(switch) = self.switching.as_mut().and_then(|switching| switching.switch_mut(id))
            {
                switch.record.cells_lost += 1;
                switch.record.bytes_lost += u64::from(cell.length);
            }
            self.discard(cell);
        }
        let reason = &mut self.circuits[id.index()].close_reason;
        *reason = reason.filter(|reason| *reason != CloseReason::Switched).or(Some(CloseReason::SwitchFailed));
        self.close_at(id, ENTRY, None);
        self.circuits[id.index()].live_cells -= 1;
        self.recycle_circuit(id);
    }

    /// A circuit was closed at one of its hops: what that means for a switch from it, or to it.
    pub(crate) fn switch_interrupted(&mut self, id: CircuitId, hop: u8) {
        let Some(of) = self.switching.as_ref().and_then(|switching| switching.circuits.get(&id)) else { return };
        let from = of.spare_of;
        if hop == ENTRY && of.switch.as_ref().is_some_and(|switch| switch.moved.is_none()) {
            self.fail_switch(id, SwitchOutcome::CircuitClosed);
        }
        if let Some(from) = from
            && hop == ENTRY
        {
            self.fail_switch(from, SwitchOutcome::SpareClosed);
        }
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

const _: () = assert!(ENTRY as usize + 2 == HOPS - 1);
