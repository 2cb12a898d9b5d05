//! The client's part: spares and standby streams ahead, and the move when SWITCH comes.

use super::{CircuitId, SpareRequest, StreamSwitching, SwitchEntry, SwitchOutcome, Switchable};
use crate::cell::{Cell, CellKind};
use crate::circuit::{CircuitState, Intent, Place};
use crate::ids::{ProbeId, StreamId};
use crate::queues::Direction;
use crate::records::CloseReason;
use crate::stream::ExitState;
use crate::world::World;
use onionlab_quantities::SimDuration;

/// A spare that cannot be built is tried so often anew.
const MOST_LAUNCHES: u8 = 3;
/// A spare is kept as long as its circuit; that outlives every circuit.
const KEPT: SimDuration = SimDuration::from_secs(366 * 86_400);

impl World {
    /// A stream was attached to the circuit: it needs a spare, or a standby stream on the one that it has.
    pub(crate) fn provide_spare(&mut self, id: CircuitId) {
        let Some(switching) = &mut self.switching else { return };
        let circuit = &self.circuits[id.index()];
        if circuit.intent != Intent::Exit || circuit.state != CircuitState::Open {
            return;
        }
        let most = switching.settings.most_moves;
        let of = switching.circuits.entry(id).or_default();
        if of.switch.is_some() {
            return;
        }
        match of.spare {
            Some(spare) if self.circuits[spare.index()].state == CircuitState::Open => self.stand_by(id, spare),
            None if of.launches < MOST_LAUNCHES && most.is_none_or(|most| of.moves < most) => self.launch_spare(id),
            _ => {}
        }
    }

    fn launch_spare(&mut self, id: CircuitId) {
        let circuit = &self.circuits[id.index()];
        let (client, stable) = (circuit.client, circuit.stable);
        let instead_of = [circuit.hops[1].host, circuit.hops[2].host, circuit.hops[3].host];
        let Some(switching) = &self.switching else { return };
        let (entry, exit) = (switching.settings.entry, switching.settings.exit);
        let ordinal = self.clients[client.index()].pool.spares;
        let Some(path) = self.paths.spare(&SpareRequest { client, circuit: ordinal, instead_of, entry, exit }) else { return };
        let spare = self.launch_on(client, path, Intent::Spare, stable);
        self.circuits[spare.index()].idle_timeout = KEPT;
        let Some(switching) = &mut self.switching else { return };
        let of = switching.circuits.entry(id).or_default();
        of.launches += 1;
        of.spare = Some(spare);
        let moves = of.moves;
        switching.circuits.insert(spare, Switchable { spare_of: Some(id), moves: moves + 1, ..Switchable::default() });
        self.extend_from(spare, 0);
    }

    /// A spare has all its hops; one that took too long is of no use.
    pub(crate) fn spare_opened(&mut self, spare: CircuitId, in_time: bool) {
        let Some(of) = self.switching.as_ref().and_then(|switching| switching.circuits.get(&spare)) else { return };
        match of.spare_of {
            Some(id) if in_time => {
                let entry = self.host_of(id, super::ENTRY);
                self.watch_entry(entry);
                self.stand_by(id, spare);
            }
            _ => self.close_at(spare, 0, None),
        }
    }

    /// Opens a standby stream for each stream of the circuit that has none.
    fn stand_by(&mut self, id: CircuitId, spare: CircuitId) {
        for stream in self.circuits[id.index()].client_streams.clone() {
            let of = &self.streams[stream.index()];
            if of.switching.standby.is_some() || of.client_ended {
                continue;
            }
            let standby = self.new_stream(spare, of.server, u64::MAX, 0, 0);
            self.streams[standby.index()].switching = StreamSwitching::standby_of(stream, self.keeps_exit());
            self.streams[stream.index()].switching.standby = standby;
            self.send_from(Place::Client, Cell::new(CellKind::Begin, spare).on(standby));
        }
    }

    /// CONNECTED on a standby stream.
    pub(crate) fn standby_connected(&mut self, id: StreamId) {
        self.streams[id.index()].switching.ready = true;
    }

    /// END on a standby stream: its stream has none any more.
    pub(crate) fn standby_ended(&mut self, id: StreamId) {
        let stream = &self.streams[id.index()];
        let before = stream.switching.before_it;
        if !stream.client_ended && before.is_some() && self.streams[before.index()].switching.standby == id {
            self.streams[before.index()].switching.standby = StreamId::NONE;
            self.streams[id.index()].switching.before_it = StreamId::NONE;
            self.end_standby(id, false);
        }
    }

    /// Whether the circuit has an open stream, and each has a standby to which the exit has connected the server.
    pub(super) fn streams_are_ready(&self, id: CircuitId) -> bool {
        let mut streams = self.circuits[id.index()].client_streams.iter().map(|stream| &self.streams[stream.index()]).peekable();
        let ready = |of: &crate::stream::Stream| {
            of.exit == ExitState::Connected
                && of.switching.standby.is_some()
                && self.streams[of.switching.standby.index()].switching.ready
        };
        streams.peek().is_some() && streams.all(ready)
    }

    /// The client is done with a stream: with its standby too.
    pub(crate) fn leave_standby(&mut self, id: StreamId) {
        let stream = &self.streams[id.index()];
        let standby = stream.switching.standby;
        if !standby.is_some() || stream.switching.moved {
            return;
        }
        // In a switch END follows the forwarded cells.
        let switching = self.switching.as_ref().and_then(|switching| switching.switch(stream.circuit));
        let forwards = switching
            .is_some_and(|switch| switch.entry == SwitchEntry::Same && switch.failed.is_none() && switch.moved.is_none());
        self.end_standby(standby, !forwards);
    }

    fn end_standby(&mut self, standby: StreamId, say: bool) {
        let circuit = self.streams[standby.index()].circuit;
        self.streams[standby.index()].client_ended = true;
        if say && self.circuits[circuit.index()].state == CircuitState::Open {
            self.send_from(Place::Client, Cell::new(CellKind::End, circuit).on(standby));
        }
        self.recycle_stream(standby);
    }

    /// SWITCH at the client: its streams go on over the new circuit.
    pub(super) fn switch_at_client(&mut self, id: CircuitId) {
        let now = self.queue.now();
        let Some(switch) = self.switching.as_ref().and_then(|switching| switching.switch(id)) else { return };
        let (to, entry, failed) = (switch.to, switch.entry, switch.failed.is_some());
        if failed || switch.moved.is_some() || self.circuits[id.index()].state != CircuitState::Open {
            return;
        }
        if self.circuits[to.index()].state != CircuitState::Open {
            self.fail_switch(id, SwitchOutcome::SpareClosed);
            return;
        }
        for circuit in [id, to] {
            self.circuits[circuit.index()].live_cells += 1;
        }
        if entry == SwitchEntry::Same {
            self.repackage(id, to);
        }
        if let Some(switch) = self.switching.as_mut().and_then(|switching| switching.switch_mut(id)) {
            switch.moved = Some(now);
        }
        self.take_over(id, to);
        // Nor does one that starts over find the old one.
        self.circuits[id.index()].unusable = true;
        self.forget_for_streams(id);
        for stream in self.circuits[id.index()].client_streams.clone() {
            self.move_stream(stream, to);
        }
        self.provide_spare(to);
        match entry {
            SwitchEntry::Same => {
                self.closes_because(id, CloseReason::Switched);
                self.close_at(id, 0, None);
            }
            SwitchEntry::Other => {
                self.closes_because(id, CloseReason::Switched);
                self.circuits[id.index()].live_cells += 1;
                self.queue_switch(0, Cell::new(CellKind::PathSwitch, id).for_hop(Place::Exit.hop()));
            }
        }
        for circuit in [id, to] {
            self.circuits[circuit.index()].live_cells -= 1;
            self.recycle_circuit(circuit);
        }
    }

    /// The new circuit takes the place of the old one for the streams of its flow.
    fn take_over(&mut self, id: CircuitId, to: CircuitId) {
        let (client, flow) = (self.circuits[id.index()].client, self.circuits[id.index()].flow);
        self.circuits[to.index()].intent = Intent::Exit;
        self.join_list(client, to);
        self.first_use(client, to, flow.is_some().then_some(flow));
    }

    /// What the client's tor has packaged for the old circuit and not sent is sent on the new one; what is on its way counts in the new one's windows from now on.
    fn repackage(&mut self, id: CircuitId, to: CircuitId) {
        let side = self.circuits[id.index()].hops[0].sides[Direction::ToExit as usize];
        let on_its_way = self.sent.first_cells(self.ends[side.end.index()].sent, usize::MAX);
        let on_its_way = on_its_way.filter(|cell| cell.circuit == id && cell.kind == CellKind::Data).map(|cell| cell.stream);
        for stream in on_its_way.collect::<Vec<_>>() {
            let standby = self.streams[stream.index()].switching.standby;
            if standby.is_some() {
                self.charge_forwarded(to, standby);
            }
        }
        while let Some(cell) = self.cells.pop(&mut self.circuits[id.index()].hops[0].sides[Direction::ToExit as usize].queue) {
            let standby =
                if cell.stream.is_some() { self.streams[cell.stream.index()].switching.standby } else { StreamId::NONE };
            match cell.kind {
                CellKind::Data if standby.is_some() => {
                    self.streams[cell.stream.index()].switching.sent -= u64::from(cell.length);
                    self.streams[standby.index()].switching.sent += u64::from(cell.length);
                    self.charge_forwarded(to, standby);
                    let again = Cell::new(CellKind::Data, to).on(standby).carrying(cell.length);
                    self.send_on(Place::Client, again.followed_as(cell.probe));
                    self.discard(cell.followed_as(ProbeId::NONE));
                }
                CellKind::End if standby.is_some() => {
                    self.send_on(Place::Client, Cell::new(CellKind::End, to).on(standby));
                    self.discard(cell);
                }
                _ => self.lose(cell),
            }
        }
        let now = self.queue.now();
        self.ends[side.end.index()].set_cells(side.slot, 0, now);
    }

    /// One stream goes on with its standby; one that has none starts over.
    fn move_stream(&mut self, from: StreamId, to: CircuitId) {
        let stream = &self.streams[from.index()];
        let (id, standby, broken) = (stream.transfer, stream.switching.standby, stream.switching.broken);
        if stream.client_ended || !id.is_some() {
            return;
        }
        let next = &self.streams.get(standby.index());
        let usable = standby.is_some() && !broken && next.is_some_and(|next| next.circuit == to && next.switching.ready);
        if !usable {
            self.start_over(id);
            return;
        }
        let received = self.transfers[id.index()].received();
        self.streams[standby.index()].transfer = id;
        let kept = self.streams[standby.index()].switching.shares;
        if kept {
            self.move_client_end(from, standby);
        } else {
            self.move_session(from, standby, received);
        }
        self.goes_on_with(id, standby);
        let old = self.streams[from.index()].circuit;
        if let Some(switch) = self.switching.as_mut().and_then(|switching| switching.switch_mut(old)) {
            switch.record.streams += 1;
        }
        self.circuits[old.index()].client_streams.retain(|&other| other != from);
        self.circuits[to.index()].client_streams.push(standby);
        self.streams[from.index()].client_ended = true;
        if !kept {
            self.send_from(Place::Client, Cell::new(CellKind::Resume, to).on(standby));
        }
        self.event_loop.watch_program(standby);
        self.recycle_stream(from);
        let early = self.streams[standby.index()].ends[Place::Client as usize].outbuf;
        if kept && early > 0 {
            self.program_gets(standby, early);
        }
    }

    /// The client has lost a circuit whose switch to another entry failed: streams on it start over on the circuit that was built for that, if it is open, as any new stream would (4.3.2).
    pub(crate) fn start_over_on_spare(&mut self, id: CircuitId) {
        let Some(switch) = self.switching.as_ref().and_then(|switching| switching.switch(id)) else { return };
        // A spare that is being closed may still look open to the client.
        let failed = switch.failed.is_some_and(|outcome| outcome != SwitchOutcome::SpareClosed);
        let (to, entry) = (switch.to, switch.entry);
        let open = self.circuits[to.index()].state == CircuitState::Open && !self.circuits[to.index()].timed_out;
        if entry == SwitchEntry::Other && failed && open && !self.circuits[id.index()].client_streams.is_empty() {
            self.take_over(id, to);
        }
    }

    /// The client has lost a circuit: the spare goes with the circuit for which it is, and a circuit without its spare gets another.
    pub(crate) fn lost_by_client(&mut self, id: CircuitId) {
        let Some(of) = self.switching.as_mut().and_then(|switching| switching.circuits.get_mut(&id)) else { return };
        let (spare, spare_of) = (of.spare.take(), of.spare_of);
        let failed_to = of.switch.as_ref().filter(|switch| switch.moved.is_none()).map(|switch| switch.to);
        if let Some(spare) = spare.or(failed_to)
            && self.circuits[spare.index()].intent == Intent::Spare
        {
            self.close_at(spare, 0, None);
        }
        let Some(first) = spare_of else { return };
        let unused = self.circuits[id.index()].intent == Intent::Spare;
        // Standby streams that are still there end with it.
        for stream in self.circuits[first.index()].client_streams.clone() {
            let standby = self.streams[stream.index()].switching.standby;
            if unused && standby.is_some() && self.streams[standby.index()].circuit == id {
                self.standby_ended(standby);
            }
        }
        if let Some(of) = self.switching.as_mut().and_then(|switching| switching.circuits.get_mut(&first))
            && of.spare == Some(id)
        {
            of.spare = None;
            self.provide_spare(first);
        }
    }
}
