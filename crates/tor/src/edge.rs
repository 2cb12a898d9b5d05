//! Streams at the exit (`core/or/connection_edge.c`, `relay.c`).

use crate::cell::{Cell, CellKind};
use crate::circuit::Place;
use crate::event_loop::{Connection, Operation};
use crate::ids::{CircuitId, StreamId};
use crate::stream::{ExitState, StreamControl};
use crate::world::{SocketUse, World};
use onionlab_net::tcp::Effects;

/// The length of an END that says why: the exit has no socket left (`END_STREAM_REASON_RESOURCELIMIT`). All others have none.
pub(crate) const NO_RESOURCES: u16 = 1;

const EXIT: u8 = Place::Exit.hop();

impl World {
    /// BEGIN: the exit connects to the server, or ends the stream if it has no socket left.
    pub(crate) fn process_begin(&mut self, cell: Cell) {
        let of = self.streams[cell.stream.index()].circuit;
        if self.circuits[of.index()].hops.onion.is_some() {
            self.begin_at_service(cell);
            return;
        }
        if self.streams[cell.stream.index()].switching.shares {
            self.begin_beside(cell.stream);
            return;
        }
        let (exit, server) = (self.circuits[of.index()].hops[EXIT as usize].host, self.streams[cell.stream.index()].server);
        if !self.take_socket(exit) {
            self.streams[cell.stream.index()].exit = ExitState::Ended;
            self.send_from(Place::Exit, Cell::new(CellKind::End, of).on(cell.stream).carrying(NO_RESOURCES));
            return;
        }
        self.circuits[of.index()].streams.push(cell.stream);
        if self.predictor.is_some() {
            self.join_controllers(of);
        }
        let socket = self.net.connect(&mut self.queue, exit, server);
        self.use_socket(socket, SocketUse::Exit(cell.stream));
        self.use_socket(socket.peer(), SocketUse::Server(cell.stream));
        let stream = &mut self.streams[cell.stream.index()];
        stream.socket = socket;
        stream.exit = ExitState::Connecting;
    }

    /// The callbacks of an exit's connection to a server.
    pub(crate) fn serve_exit(&mut self, id: StreamId, effects: Effects, bytes: u64) {
        if effects.has(Effects::CONNECTED | Effects::PEER_CLOSED | Effects::RESET) {
            // Every callback refills, whether it moves bytes or not.
            self.refill_buckets(self.host_at(self.streams[id.index()].circuit, Place::Exit));
        }
        if effects.has(Effects::CONNECTED) && self.streams[id.index()].exit == ExitState::Connecting {
            self.streams[id.index()].exit = ExitState::Connected;
            let circuit = self.streams[id.index()].circuit;
            self.send_from(Place::Exit, Cell::new(CellKind::Connected, circuit).on(id));
        }
        if effects.has(Effects::WRITABLE | Effects::CONNECTED) {
            self.write_to_server(id);
        }
        if effects.has(Effects::PEER_CLOSED | Effects::RESET) {
            self.streams[id.index()].server_closed = true;
        }
        if self.streams[id.index()].exit == ExitState::Flushing && self.streams[id.index()].server_closed {
            self.end_at_exit(id);
        } else if effects.has(Effects::READABLE | Effects::PEER_CLOSED | Effects::RESET) {
            self.read_from_server(id, bytes);
        }
    }

    /// Bytes that the exit has written to the server or still holds for it.
    pub(crate) fn bytes_for_server(&self, id: StreamId) -> u64 {
        let stream = &self.streams[id.index()];
        let written = if stream.exit == ExitState::Waiting { 0 } else { self.net.bytes_written(stream.socket) };
        written + stream.ends[Place::Exit as usize].outbuf
    }

    /// A DATA cell of the client's, in its turn: its bytes go on to the server.
    pub(crate) fn data_at_exit(&mut self, cell: Cell) {
        if matches!(self.streams[cell.stream.index()].exit, ExitState::None | ExitState::Ended)
            || self.count_for_stream(cell, Place::Exit).is_err()
        {
            return;
        }
        if self.streams[cell.stream.index()].unread.is_some() {
            self.data_at_service(cell);
            return;
        }
        if cell.probe.is_some() {
            self.probe_at_exit(cell);
        }
        // Written in the next pass: cells that came in one read leave in one write, not in a segment each.
        if self.streams[cell.stream.index()].exit == ExitState::Connected {
            self.start_writing_to_server(cell.stream);
            self.consider_sending_sendmes(cell.stream, Place::Exit);
        }
    }

    /// More is to be written, or all of it before the end: in the next pass, whatever tokens there were before (`connection_start_writing`).
    pub(crate) fn start_writing_to_server(&mut self, id: StreamId) {
        self.streams[id.index()].blocked.writing = false;
        self.watch_stream(id, Effects::WRITABLE);
    }

    /// One write callback.
    fn write_to_server(&mut self, id: StreamId) {
        let stream = &self.streams[id.index()];
        if !matches!(stream.exit, ExitState::Connected | ExitState::Flushing) || stream.blocked.writing || self.is_held_open(id) {
            return;
        }
        let (circuit, socket, waiting) = (stream.circuit, stream.socket, stream.ends[Place::Exit as usize].outbuf);
        let exit = self.circuits[circuit.index()].hops[EXIT as usize].host;
        let mut written = 0;
        if waiting > 0 {
            let Some(share) = self.share(exit, Connection::Edge, Operation::Write) else {
                // A callback without tokens measures how fast the server takes data like any other (`connection_handle_write_impl`).
                let stream = &self.streams[id.index()];
                let measures = matches!(stream.ends[Place::Exit as usize].control, StreamControl::XonXoff(_));
                if measures && stream.exit == ExitState::Connected {
                    self.delivered(id, Place::Exit, 0);
                }
                self.block_stream(id, Operation::Write);
                return;
            };
            written = self.net.write(&mut self.queue, socket, waiting.min(share));
            self.charge(exit, Connection::Edge, Operation::Write, written);
        }
        self.sampler.bytes_to_servers += written;
        if waiting > written {
            if self.tokens_are_used_up(exit, Connection::Edge, Operation::Write) {
                self.block_stream(id, Operation::Write);
            } else if self.net.is_writable(socket) {
                self.watch(socket, Effects::WRITABLE);
            }
        }
        if self.streams[id.index()].exit == ExitState::Connected {
            self.delivered(id, Place::Exit, written);
            return;
        }
        let end = self.streams[id.index()].end(Place::Exit);
        end.outbuf -= written;
        if end.outbuf == 0 && self.may_end_flushed(id) {
            self.end_at_exit(id);
        }
    }

    /// END from the client: once everything that it sent is in the server's socket, the stream is over here too (`connection_mark_and_flush`).
    pub(crate) fn end_from_client(&mut self, id: StreamId) {
        let stream = &mut self.streams[id.index()];
        if stream.exit == ExitState::Connected && stream.end(Place::Exit).outbuf > 0 {
            self.hold_open(id);
        } else {
            self.end_at_exit(id);
        }
    }

    /// The stream's circuit is closed here: what the exit still holds for the server is flushed all the same (`connection_edge_destroy`).
    pub(crate) fn end_with_circuit(&mut self, id: StreamId) {
        let stream = &mut self.streams[id.index()];
        let holds = stream.exit == ExitState::Connected && stream.end(Place::Exit).outbuf > 0;
        if stream.unread.is_some() || !holds && stream.exit != ExitState::Flushing {
            return self.end_at_exit(id);
        }
        // Streams know their exit by their circuit.
        stream.outlives = stream.circuit;
        self.circuits[stream.circuit.index()].live_cells += 1;
        if holds {
            self.hold_open(id);
        }
    }

    /// Reading may go on at this end (`connection_start_reading`): if there is anything, in the next pass.
    pub(crate) fn resume_reading(&mut self, id: StreamId, place: Place) {
        let stream = &mut self.streams[id.index()];
        let end = stream.end(place);
        (end.waits_for_tokens, end.reads_once_more) = (false, false);
        if !stream.is_open(place) {
            return;
        }
        match place {
            Place::Client => self.event_loop.watch_program(id),
            Place::Exit if stream.unread.is_some() => self.event_loop.watch_service(id),
            // Bytes that tor has read but not packaged are packaged now, too, since 0.4.8.1 (`connection_start_reading`); before, they waited for the next that come, or a SENDME.
            Place::Exit => {
                self.streams[id.index()].blocked.reading = false;
                let stream = &self.streams[id.index()];
                let waiting = stream.ends[Place::Exit as usize].inbuf > 0 || self.net.readable(stream.socket) > 0;
                if waiting || stream.server_closed {
                    self.watch_stream(id, Effects::READABLE);
                }
            }
        }
    }

    /// One read callback: the share of an edge connection, packaged at once. What is left is read in the next pass, if queue and windows allow.
    fn read_from_server(&mut self, id: StreamId, at_most: u64) {
        if !self.is_watched_for_reading(id) {
            return;
        }
        let (circuit, socket) = (self.streams[id.index()].circuit, self.streams[id.index()].socket);
        let readable = self.net.readable(socket).min(at_most);
        if readable > 0 {
            let exit = self.circuits[circuit.index()].hops[EXIT as usize].host;
            let Some(tokens) = self.edge_tokens(id, Place::Exit, readable) else {
                self.package_what_was_read(id);
                return;
            };
            let Some(share) = self.share(exit, Connection::Edge, Operation::Read) else {
                self.block_stream(id, Operation::Read);
                self.package_what_was_read(id);
                return;
            };
            let mut taken = tokens.min(share);
            if let Some(planned) = self.planned_reading(circuit) {
                // With nothing left it goes on after the exit's next plan.
                taken = taken.min(planned);
                if taken == 0 {
                    return;
                }
                self.charge_reading(circuit, taken);
            }
            self.charge(exit, Connection::Edge, Operation::Read, taken);
            self.net.read(&mut self.queue, socket, taken);
            self.edge_has_read(id, Place::Exit, taken);
            if self.tokens_are_used_up(exit, Connection::Edge, Operation::Read) {
                self.block_stream(id, Operation::Read);
            }
        }
        let mut cells = u32::MAX;
        if self.net.readable(socket) > 0 && self.planned_reading(circuit).is_some() {
            // A plan ends anywhere: what makes no whole cell waits for what is read next, as in the public simulator.
            let whole = self.streams[id.index()].ends[Place::Exit as usize].inbuf / self.cell_payload(circuit);
            cells = u32::try_from(whole).unwrap_or(u32::MAX);
        }
        self.package(id, Place::Exit, cells);
        self.consider_stop_reading(id, Place::Exit);
        if !self.is_watched_for_reading(id) {
            return;
        }
        if self.net.readable(socket) > 0 {
            self.watch_stream(id, Effects::READABLE);
        } else if self.streams[id.index()].server_closed {
            self.send_from(Place::Exit, Cell::new(CellKind::End, circuit).on(id));
            self.end_at_exit(id);
        }
    }

    /// A read callback that has no tokens packages all the same what lies in the inbuf (`connection_handle_read_impl`).
    fn package_what_was_read(&mut self, id: StreamId) {
        self.package(id, Place::Exit, u32::MAX);
        self.consider_stop_reading(id, Place::Exit);
    }

    /// Whether the exit's connection to the server is read as soon as there is anything.
    pub(crate) fn is_watched_for_reading(&self, id: StreamId) -> bool {
        !self.streams[id.index()].blocked.reading && self.is_reading(id, Place::Exit)
    }

    /// The stream is over at the exit: its connection to the server is reset if anything of the answer is left in it or under way, closed otherwise.
    pub(crate) fn end_at_exit(&mut self, id: StreamId) {
        let stream = &mut self.streams[id.index()];
        if !matches!(stream.exit, ExitState::Connecting | ExitState::Waiting | ExitState::Connected | ExitState::Flushing) {
            if stream.exit == ExitState::None {
                stream.exit = ExitState::Ended;
            }
            return;
        }
        if stream.unread.is_some() {
            self.end_at_service(id);
            return;
        }
        let before = std::mem::replace(&mut stream.exit, ExitState::Ended);
        let outlived = std::mem::replace(&mut stream.outlives, CircuitId::NONE);
        let had_a_connection = before != ExitState::Waiting;
        if before == ExitState::Flushing {
            let exit = self.host_at(self.streams[id.index()].circuit, Place::Exit);
            self.hold_no_longer(exit, id);
        }
        self.probes_end_with(id);
        let stream = &mut self.streams[id.index()];
        if !had_a_connection {
            let circuit = stream.circuit;
            self.circuits[circuit.index()].streams.retain(|&other| other != id);
            self.recycle_stream(id);
            return;
        }
        if stream.switching.standby.is_some() || stream.switching.is_drained() {
            self.switched_stream_ends(id);
        }
        if self.switching.is_some() {
            self.lose_at_exit(id);
        }
        let stream = &self.streams[id.index()];
        let end = &stream.ends[Place::Exit as usize];
        let all_read = self.net.bytes_read(stream.socket) == self.net.bytes_written(stream.socket.peer());
        let done = stream.answer_written >= stream.size && all_read && end.inbuf == 0 && end.outbuf == 0;
        // A server closes as soon as it has sent and received everything, which is mostly before the client's END comes.
        let script = stream.writer.as_ref();
        let all = script.map_or(stream.awaited, |writer| writer.expects());
        let server_closes = done && stream.request_received >= all && script.is_none_or(|writer| writer.is_finished());
        let (circuit, socket) = (stream.circuit, stream.socket);
        self.circuits[circuit.index()].streams.retain(|&other| other != id);
        let exit = self.net.host(socket);
        if server_closes && let Some(buckets) = &mut self.nodes[exit.index()].buckets {
            buckets.connections.other_end_closes(socket);
        }
        self.use_socket(socket, SocketUse::Nothing);
        self.use_socket(socket.peer(), SocketUse::Nothing);
        if done {
            self.net.close(&mut self.queue, socket);
            self.net.close(&mut self.queue, socket.peer());
        } else {
            self.net.abort(&mut self.queue, socket);
        }
        self.net.release(&mut self.queue, socket);
        self.net.release(&mut self.queue, socket.peer());
        self.give_back_socket(exit);
        self.recycle_stream(id);
        if outlived.is_some() {
            self.circuits[outlived.index()].live_cells -= 1;
            self.recycle_circuit(outlived);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;
    use crate::bucket::{Buckets, RefillClock};
    use crate::node::RateLimit;
    use crate::test_world::{at, in_a_row};
    use onionlab_engine::HostId;
    use onionlab_quantities::{Bandwidth, Bytes};

    /// A circuit ends at an exit that holds bytes for the server: they are written all the same, and the circuit's entry is free afterwards.
    #[test]
    fn what_is_held_for_a_server_outlives_its_circuit() {
        let load = "kind = \"sequence\"\nrequest = \"6 MB\"\ntransfers = [{ size = \"1 kB\" }]";
        let mut world = in_a_row(Settings::default(), Bandwidth::from_bits_per_sec(1_000_000), load);
        let exit = HostId(3);
        world.run_until(at(12_000));
        let limit = RateLimit { rate: Bandwidth::from_bytes_per_sec(20_000), burst: Bytes::new(20_000), relayed: None };
        world.limit(exit, Buckets::new(limit, RefillClock::Exact));
        world.run_until(at(20_000));
        let (circuit, waiting) = (world.streams[0].circuit, world.streams[0].ends[Place::Exit as usize].outbuf);
        assert!(waiting > 10_000, "{waiting}");
        let before = world.sampler.bytes_to_servers;
        world.close_at(circuit, EXIT, None);
        assert_eq!(world.streams[0].exit, ExitState::Flushing);
        let serial = world.serials[circuit.index()];
        world.run_until(at(20_200));
        assert!(world.circuits[circuit.index()].live_cells > 0 && world.serials[circuit.index()] == serial);
        world.run_until(at(40_000));
        assert_eq!(world.sampler.bytes_to_servers - before, waiting);
        let entry = &world.circuits[circuit.index()];
        assert!(!entry.client.is_some() || world.serials[circuit.index()] != serial, "it is free, or in use again");
    }

    /// The server's socket has taken the whole answer, of which most is still to come, when the stream ends at the exit: the server is told to stop, and what it had is not sent.
    #[test]
    fn an_answer_that_nobody_waits_for_any_more_is_not_sent() {
        let mut world = in_a_row(
            Settings::default(),
            Bandwidth::from_bits_per_sec(1_000_000),
            "kind = \"web\"\nsize = \"50 kB\"\npause = \"100 s\"",
        );
        let exit = HostId(3);
        let mut now = 10_000;
        while world
            .streams
            .first()
            .is_none_or(|stream| stream.answer_written < stream.size || world.net.bytes_read(stream.socket) == 0)
        {
            now += 10;
            world.run_until(at(now));
        }
        let before = world.net.counters(exit).bytes_received;
        world.end_at_exit(StreamId(0));
        world.run_until(at(now + 5000));
        let after = world.net.counters(exit).bytes_received - before;
        // What is on the way there and back, of 125 bytes each ms.
        assert!(after < 10_000, "{after} bytes came to the exit");
    }
}
