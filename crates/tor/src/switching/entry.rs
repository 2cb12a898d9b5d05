//! A switch at the entry: SWITCH, SWITCHED_CONN, SWITCH_ACK, and the cells in between (Kale et al. 2015, sections 4.3.1 and 4.3.2).

use super::{CircuitId, ENTRY, Switch, SwitchAsk, SwitchEntry, SwitchOutcome, SwitchRecord};
use crate::cell::{Cell, CellKind, CellQueue};
use crate::channel::Opening;
use crate::circuit::{HOPS, Place};
use crate::ids::EndId;
use crate::queues::Direction;
use crate::records::CloseReason;
use crate::world::{Event, World};

const EXIT: u8 = Place::Exit.hop();

impl World {
    /// The entry moves the circuit to its spare.
    pub(super) fn begin_switch(&mut self, id: CircuitId, average: f64, occupancy: f64) {
        let now = self.queue.now();
        let entry = self.host_of(id, ENTRY);
        let Some(switching) = &mut self.switching else { return };
        let (timeout, ask) = (switching.settings.timeout, switching.settings.ask);
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
            drained: None,
            middle_acknowledged: None,
            acknowledged: None,
            moved: None,
            streams: 0,
            cells_forwarded: 0,
            most_cells_held: 0,
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
            left: EndId::NONE,
            returned: false,
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
            if ask == SwitchAsk::AtOnce {
                self.ask_new_path(to);
            }
        } else {
            self.ask_new_middle(id, to);
        }
        for circuit in [id, to] {
            self.circuits[circuit.index()].live_cells -= 1;
            self.recycle_circuit(circuit);
        }
    }

    /// SWITCHED_CONN on the new path, from the entry that it shares with the old one.
    pub(super) fn ask_new_path(&mut self, to: CircuitId) {
        self.originate(ENTRY, Direction::ToExit, Cell::new(CellKind::SwitchedConn, to).for_hop(EXIT));
    }

    /// SWITCH and DESTROY on the old path; the cells that have not left go elsewhere. Both go the way of DESTROY cells, behind what is in the outbuf: nothing of the circuit is left
    /// in its queue.
    fn leave_path(&mut self, id: CircuitId) {
        let now = self.queue.now();
        self.closes_because(id, CloseReason::Switched);
        let side = self.circuits[id.index()].hops[ENTRY as usize].sides[Direction::ToExit as usize];
        self.ends[side.end.index()].detach(side.slot, now);
        self.channel_logs[side.end.channel()].detached();
        if !self.ends[side.end.index()].has_circuits() {
            self.has_no_circuits(side.end);
        }
        self.circuits[id.index()].hops[ENTRY as usize].sides[Direction::ToExit as usize].end = EndId::NONE;
        // If the exit is kept, DESTROY follows when SWITCH has come back.
        let kept = self.keeps_exit();
        if kept && let Some(switch) = self.switching.as_mut().and_then(|switching| switching.switch_mut(id)) {
            switch.left = side.end;
        }
        let kinds = [CellKind::PathSwitch, CellKind::Destroy];
        for &kind in if kept { &kinds[..1] } else { &kinds[..] } {
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
        self.fail_left_over(end);
        self.drained_up_to(end, u64::MAX);
    }

    /// SWITCH_ACK at the entry that asked. With the exit's, the cells that were held follow, and the client is told.
    pub(super) fn acknowledged(&mut self, id: CircuitId, by: u16) {
        let now = self.queue.now();
        let Some(switch) = self.switching.as_mut().and_then(|switching| switching.switch_mut(id)) else { return };
        if switch.failed.is_some() {
            return;
        }
        let (to, returned) = (switch.to, switch.returned);
        let exit = by == u16::from(EXIT);
        switch.acknowledged[usize::from(exit)].get_or_insert(now);
        if !exit {
            return;
        }
        self.circuits[id.index()].live_cells += 1;
        while let Some(cell) = self.pop_held(id) {
            self.append_cell(to, ENTRY, Direction::ToExit, cell);
        }
        // If the exit is kept, the client is told behind everything that comes by the old path.
        if returned || !self.keeps_exit() {
            self.originate(ENTRY, Direction::ToClient, Cell::new(CellKind::PathSwitch, id));
        }
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
        self.close_left(id);
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
}

const _: () = assert!(ENTRY as usize + 2 == HOPS - 1);
