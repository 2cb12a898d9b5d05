//! Streams at the exit, and the servers behind them (`core/or/connection_edge.c`, `relay.c`, `sendme.c`).

use crate::cell::{Cell, CellKind};
use crate::circuit::HOPS;
use crate::event_loop::Operation;
use crate::ids::{CircuitId, StreamId};
use crate::queues::Direction;
use crate::stream::ExitState;
use crate::world::{SocketUse, World};
use onionlab_flowcontrol::CongestionAlgorithm;
use onionlab_flowcontrol::windows::STREAM_SENDME_MAX_OUTBUF;
use onionlab_net::tcp::Effects;

const EXIT: u8 = HOPS as u8 - 1;

/// Unit of an operation on an edge connection, whatever a DATA cell holds (`RELAY_PAYLOAD_SIZE_MAX`): 32 make the 15,936 bytes of a read.
const UNIT: u64 = 498;

impl World {
    /// BEGIN: the exit connects to the server.
    pub(crate) fn process_begin(&mut self, cell: Cell) {
        let circuit = &mut self.circuits[cell.circuit.index()];
        circuit.streams.push(cell.stream);
        let (exit, server) = (circuit.hops[EXIT as usize].host, self.streams[cell.stream.index()].server);
        let socket = self.net.connect(&mut self.queue, exit, server);
        self.use_socket(socket, SocketUse::Exit(cell.stream));
        self.use_socket(socket.peer(), SocketUse::Server(cell.stream));
        let stream = &mut self.streams[cell.stream.index()];
        stream.socket = socket;
        stream.exit = ExitState::Connecting;
    }

    /// The callbacks of an exit's connection to a server.
    pub(crate) fn serve_exit(&mut self, id: StreamId, effects: Effects) {
        if effects.has(Effects::CONNECTED) && self.streams[id.index()].exit == ExitState::Connecting {
            self.streams[id.index()].exit = ExitState::Connected;
            let circuit = self.streams[id.index()].circuit;
            self.originate(EXIT, Direction::ToClient, Cell::new(CellKind::Connected, circuit).on(id));
        }
        if effects.has(Effects::WRITABLE | Effects::CONNECTED) {
            self.write_to_server(id);
        }
        if effects.has(Effects::PEER_CLOSED | Effects::RESET) {
            self.streams[id.index()].server_closed = true;
        }
        if effects.has(Effects::READABLE | Effects::PEER_CLOSED | Effects::RESET) {
            self.read_from_server(id);
        }
    }

    /// A DATA cell of the client's request: its bytes go on to the server, and both windows are looked after.
    pub(crate) fn data_at_exit(&mut self, cell: Cell) {
        let circuit = &mut self.circuits[cell.circuit.index()];
        circuit.cells_to_exit += 1;
        let owed = circuit.exit_edge.deliver.data_received().unwrap_or(0);
        for _ in 0..owed {
            self.originate(EXIT, Direction::ToClient, Cell::new(CellKind::SendmeCircuit, cell.circuit));
        }
        let stream = &mut self.streams[cell.stream.index()];
        if matches!(stream.exit, ExitState::None | ExitState::Ended) || stream.exit_edge.deliver.count_received().is_err() {
            return;
        }
        stream.outbuf += u64::from(cell.length);
        // Written in the next pass: cells that came in one read leave in one write, not in a segment each.
        if stream.exit == ExitState::Connected {
            self.watch_stream(cell.stream, Effects::WRITABLE);
        }
    }

    /// One write callback.
    fn write_to_server(&mut self, id: StreamId) {
        let stream = &mut self.streams[id.index()];
        if stream.exit != ExitState::Connected {
            return;
        }
        let written = self.net.write(&mut self.queue, stream.socket, stream.outbuf.min(32 * UNIT));
        stream.outbuf -= written;
        if stream.outbuf > 0 && self.net.is_writable(stream.socket) {
            self.event_loop.watch(stream.socket, Effects::WRITABLE);
        }
        if stream.outbuf <= u64::from(STREAM_SENDME_MAX_OUTBUF) {
            let circuit = stream.circuit;
            for _ in 0..stream.exit_edge.deliver.take_sendmes() {
                self.originate(EXIT, Direction::ToClient, Cell::new(CellKind::SendmeStream, circuit).on(id));
            }
        }
    }

    /// Reading from the server may go on (`connection_start_reading`): if there is anything, in the next pass.
    pub(crate) fn resume_reading(&mut self, id: StreamId) {
        let stream = &self.streams[id.index()];
        if stream.exit == ExitState::Connected && (stream.server_closed || self.net.readable(stream.socket) > 0) {
            self.watch_stream(id, Effects::READABLE);
        }
    }

    /// One read callback: the share of an edge connection, packaged at once. What is left is read in the next pass, if queue and windows allow.
    fn read_from_server(&mut self, id: StreamId) {
        if !self.may_read(id) {
            return;
        }
        let (circuit, socket) = (self.streams[id.index()].circuit, self.streams[id.index()].socket);
        let readable = self.net.readable(socket);
        if readable > 0 {
            let exit = self.circuits[circuit.index()].hops[EXIT as usize].host;
            let Some(share) = self.share(exit, Operation::Read, UNIT) else {
                if let Some(buckets) = &mut self.nodes[exit.index()].buckets {
                    buckets.waiting_streams.push(id);
                }
                self.wait_for_tokens(exit);
                return;
            };
            let taken = readable.min(share);
            self.charge(exit, Operation::Read, taken);
            self.net.read(&mut self.queue, socket, taken);
            self.streams[id.index()].inbuf += taken;
            self.package(id);
            if !self.may_read(id) {
                return;
            }
        }
        if self.net.readable(socket) > 0 {
            self.watch_stream(id, Effects::READABLE);
        } else if self.streams[id.index()].server_closed {
            self.originate(EXIT, Direction::ToClient, Cell::new(CellKind::End, circuit).on(id));
            self.end_at_exit(id);
        }
    }

    /// Whether tor reads this connection: the circuit's queue is not blocked, and both windows are open for what has been read.
    fn may_read(&self, id: StreamId) -> bool {
        let stream = &self.streams[id.index()];
        if stream.exit != ExitState::Connected || stream.inbuf > 0 {
            return false;
        }
        let circuit = &self.circuits[stream.circuit.index()];
        let windows_open = circuit.exit_edge.package.available() > 0 && stream.exit_edge.package.available() > 0;
        windows_open && !circuit.hops[EXIT as usize].sides[0].blocked
    }

    /// `connection_edge_package_raw_inbuf`: whole payloads first, what remains as a short cell.
    fn package(&mut self, id: StreamId) {
        let now = self.queue.now();
        let payload = u64::from(self.settings.cell_payload);
        loop {
            let stream = &mut self.streams[id.index()];
            let circuit_id = stream.circuit;
            let circuit = &mut self.circuits[circuit_id.index()];
            if stream.inbuf == 0 || stream.exit_edge.package.available() == 0 || circuit.exit_edge.package.available() == 0 {
                return;
            }
            let length = stream.inbuf.min(payload);
            stream.inbuf -= length;
            stream.exit_edge.package.data_sent(now);
            circuit.exit_edge.package.data_sent(now);
            self.originate(EXIT, Direction::ToClient, Cell::new(CellKind::Data, circuit_id).on(id).carrying(length as u16));
            if self.streams[id.index()].exit != ExitState::Connected {
                return;
            }
        }
    }

    pub(crate) fn circuit_sendme_at_exit(&mut self, id: CircuitId) {
        let now = self.queue.now();
        let circuit = &mut self.circuits[id.index()];
        if circuit.exit_edge.package.sendme_received(now, onionlab_flowcontrol::Signals::default()).is_err() {
            self.close_at(id, EXIT, None);
            return;
        }
        if circuit.hops[EXIT as usize].sides[0].blocked {
            return;
        }
        // `circuit_resume_edge_reading`: what has been read already is packaged at once.
        for index in 0..circuit.streams.len() {
            if let Some(&stream) = self.circuits[id.index()].streams.get(index) {
                self.package(stream);
            }
        }
        self.resume_streams(id);
    }

    pub(crate) fn stream_sendme_at_exit(&mut self, cell: Cell) {
        let now = self.queue.now();
        let stream = &mut self.streams[cell.stream.index()];
        if stream.exit == ExitState::Connected
            && stream.exit_edge.package.sendme_received(now, onionlab_flowcontrol::Signals::default()).is_ok()
        {
            self.package(cell.stream);
            self.resume_reading(cell.stream);
        }
    }

    /// The stream is over at the exit: its connection to the server is reset if anything is left in it, closed otherwise.
    pub(crate) fn end_at_exit(&mut self, id: StreamId) {
        let stream = &mut self.streams[id.index()];
        if !matches!(stream.exit, ExitState::Connecting | ExitState::Connected) {
            if stream.exit == ExitState::None {
                stream.exit = ExitState::Ended;
            }
            return;
        }
        stream.exit = ExitState::Ended;
        let (circuit, socket, done) = (stream.circuit, stream.socket, stream.answer_written >= stream.size && stream.inbuf == 0);
        self.circuits[circuit.index()].streams.retain(|&other| other != id);
        self.use_socket(socket, SocketUse::Nothing);
        self.use_socket(socket.peer(), SocketUse::Nothing);
        if done && self.net.readable(socket) == 0 {
            self.net.close(&mut self.queue, socket);
            self.net.close(&mut self.queue, socket.peer());
        } else {
            self.net.abort(&mut self.queue, socket);
        }
        self.net.release(socket);
        self.net.release(socket.peer());
        self.recycle_stream(id);
    }

    /// The server: when the whole request is there, the answer is written as fast as the socket takes it.
    pub(crate) fn server_upcall(&mut self, id: StreamId, effects: Effects) {
        let stream = &mut self.streams[id.index()];
        let socket = stream.socket.peer();
        if effects.has(Effects::READABLE) {
            let readable = self.net.readable(socket);
            stream.request_received += readable;
            self.net.read(&mut self.queue, socket, readable);
        }
        let stream = &mut self.streams[id.index()];
        if stream.request_received >= stream.request && stream.answer_written < stream.size {
            stream.answer_written += self.net.write(&mut self.queue, socket, stream.size - stream.answer_written);
        }
    }
}
