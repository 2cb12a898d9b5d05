//! A switch at the same entry that keeps the exit and its connections to servers: only entry, old and new middle and exit know of it (Kale et al. 2015, the note at the end of
//! section 4.3.1).
//!
//! A standby stream at the exit has no connection of its own. SWITCH has everything of the old path before it: when it arrives, the standby takes its stream's connection over,
//! and what has come for it by the new path follows. The exit sends SWITCH back, behind everything that it sent on the old path; when the entry has that, it closes the path and
//! sends SWITCH on to the client, for which what came early on the new path waits. So nothing is lost and nothing overtakes, in either direction, and the server learns nothing.

use super::{CircuitId, ENTRY, SwitchExit, SwitchOutcome};
use crate::cell::{Cell, CellKind};
use crate::channel::Opening;
use crate::circuit::Place;
use crate::ids::{EndId, StreamId};
use crate::queues::Direction;
use crate::stream::ExitState;
use crate::world::{SocketUse, World};
use onionlab_net::tcp::Effects;

const EXIT: u8 = Place::Exit.hop();

impl World {
    /// Whether switches keep the exit.
    pub(super) fn keeps_exit(&self) -> bool {
        self.switching.as_ref().is_some_and(|switching| switching.settings.exit == SwitchExit::Kept)
    }

    /// BEGIN of a standby at the exit that its stream has already: nothing is connected.
    pub(crate) fn begin_beside(&mut self, id: StreamId) {
        let of = self.streams[id.index()].circuit;
        self.circuits[of.index()].streams.push(id);
        self.streams[id.index()].exit = ExitState::Waiting;
        self.send_from(Place::Exit, Cell::new(CellKind::Connected, of).on(id));
    }

    /// SWITCH at the exit that is kept: each stream's connection goes on as its standby's, and SWITCH goes back.
    pub(super) fn hand_over(&mut self, id: CircuitId) {
        for stream in self.circuits[id.index()].streams.clone() {
            let of = &self.streams[stream.index()];
            let next = of.switching.standby;
            let waits = next.is_some() && self.streams[next.index()].exit == ExitState::Waiting;
            if of.exit == ExitState::Connected && waits {
                self.circuits[id.index()].streams.retain(|&other| other != stream);
                self.take_over_connection(stream, next);
            }
        }
        self.originate(EXIT, Direction::ToClient, Cell::new(CellKind::PathSwitch, id));
    }

    fn take_over_connection(&mut self, from: StreamId, to: StreamId) {
        self.probes_move(from, to, self.bytes_for_server(from));
        let of = &mut self.streams[from.index()];
        of.exit = ExitState::Ended;
        of.switching.handed_over = true;
        let (socket, closed, read) = (of.socket, of.server_closed, of.switching.read);
        let server = (of.awaited, of.size, of.header, of.writer.take());
        let counts = (of.request_received, of.answer_written);
        let end = of.end(Place::Exit);
        let (inbuf, outbuf) = (std::mem::take(&mut end.inbuf), std::mem::take(&mut end.outbuf));
        let next = &mut self.streams[to.index()];
        next.exit = ExitState::Connected;
        (next.socket, next.server_closed, next.switching.read) = (socket, closed, read);
        (next.awaited, next.size, next.header, next.writer) = server;
        (next.request_received, next.answer_written) = counts;
        let end = next.end(Place::Exit);
        end.inbuf += inbuf;
        end.outbuf += outbuf;
        self.use_socket(socket, SocketUse::Exit(to));
        self.use_socket(socket.peer(), SocketUse::Server(to));
        self.watch_stream(to, Effects::READABLE | Effects::WRITABLE);
        // Its client may have ended it already, and END goes to the standby.
        self.recycle_stream(from);
    }

    /// SWITCH has come back to the entry: the old path is empty in both directions and closed, and the client goes on over the new one as soon as that has answered.
    pub(super) fn path_returned(&mut self, id: CircuitId) {
        let Some(switch) = self.switching.as_mut().and_then(|switching| switching.switch_mut(id)) else { return };
        switch.returned = true;
        let acknowledged = switch.acknowledged[1].is_some();
        self.close_left(id);
        if acknowledged {
            self.originate(ENTRY, Direction::ToClient, Cell::new(CellKind::PathSwitch, id));
        }
    }

    /// DESTROY on the path that the entry has left, if that is still there.
    pub(super) fn close_left(&mut self, id: CircuitId) {
        let Some(switch) = self.switching.as_mut().and_then(|switching| switching.switch_mut(id)) else { return };
        let end = std::mem::replace(&mut switch.left, EndId::NONE);
        if end.is_some() && self.ends[end.index()].opening == Opening::Open {
            let mut cell = Cell::new(CellKind::Destroy, id).for_hop(EXIT);
            cell.set_arrives_at(ENTRY + 1);
            self.circuits[id.index()].live_cells += 1;
            self.send_destroy(end, cell);
        }
    }

    /// A channel is gone: switches whose SWITCH would have come back over it have failed.
    pub(super) fn fail_left_over(&mut self, end: EndId) {
        let Some(switching) = &self.switching else { return };
        let left = switching.circuits.iter().filter(|(_, of)| of.switch.as_ref().is_some_and(|switch| switch.left == end));
        let mut left: Vec<CircuitId> = left.map(|(&id, _)| id).collect();
        left.sort_unstable();
        for id in left {
            self.fail_switch(id, SwitchOutcome::CircuitClosed);
        }
    }

    /// DATA for a standby that has not taken over yet: it waits in the client's tor. False if it is none.
    pub(crate) fn arrives_early(&mut self, cell: Cell) -> bool {
        let stream = &self.streams[cell.stream.index()];
        let early = stream.switching.shares && !stream.client_ended;
        early && self.count_for_stream(cell, Place::Client).is_ok()
    }
}
