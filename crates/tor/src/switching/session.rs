//! Streams that move: the standby stream beside a stream, the exits of both, and the session that the server goes on with.
//!
//! A program's exchange with its server is a session, which a second connection can resume (the papers: TLS session resumption). The first connection brings what the client sent
//! before SWITCH, the second what it sent after; the server takes what comes on the second into account as soon as it has it, and is through when it has everything. What it
//! has to say goes on the second connection from the byte at which the client is, once the client has said so.

use super::CircuitId;
use crate::cell::RELAY_PAYLOAD_SIZE_MAX;
use crate::circuit::Place;
use crate::ids::StreamId;
use crate::stream::ExitState;
use crate::world::World;
use onionlab_net::tcp::Effects;

/// Bytes with which a client's program resumes its session: a ClientHello with a ticket and a request for the rest, in one cell.
const RESUMPTION: u64 = RELAY_PAYLOAD_SIZE_MAX as u64;

/// A stream's part in switching.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StreamSwitching {
    /// The stream that goes on if this one's circuit is switched.
    pub standby: StreamId,
    /// The stream whose standby it is or was.
    pub before_it: StreamId,
    /// A standby stream: CONNECTED has come.
    pub ready: bool,
    /// The client has gone on with the standby.
    pub moved: bool,
    /// A standby at an exit that is kept, where it takes over the connection of the stream before it.
    pub shares: bool,
    /// Its connection goes on as its standby's.
    pub handed_over: bool,
    /// What the client sent on it, or on the one before it, never reached the server: the session cannot be resumed.
    pub broken: bool,
    /// Payload that the client sent on it, less what was forwarded to the standby.
    pub sent: u64,
    /// At the exit after SWITCH: all that the server gets over it.
    last: Option<u64>,
    /// Of what the server reads on a standby, where the resumption ends; and how much it has read.
    resumption_ends: Option<u64>,
    pub read: u64,
    /// A standby whose session the server has resumed, and every other stream.
    resumed: bool,
}

impl StreamSwitching {
    pub const NONE: Self = Self {
        standby: StreamId::NONE,
        before_it: StreamId::NONE,
        ready: false,
        moved: false,
        shares: false,
        handed_over: false,
        broken: false,
        sent: 0,
        last: None,
        resumption_ends: None,
        read: 0,
        resumed: true,
    };

    /// Whether SWITCH has come for it at the exit.
    pub const fn is_drained(&self) -> bool {
        self.last.is_some()
    }

    pub const fn standby_of(stream: StreamId, shares: bool) -> Self {
        Self { before_it: stream, shares, resumed: shares, ..Self::NONE }
    }
}

impl World {
    /// The stream on which this one's session goes on.
    pub(crate) fn session_of(&self, mut id: StreamId) -> StreamId {
        loop {
            let of = &self.streams[id.index()].switching;
            if !(of.moved || of.handed_over) || !of.standby.is_some() {
                return id;
            }
            id = of.standby;
        }
    }

    /// The client's program goes on with the standby of its stream, at the byte up to which it has the answer.
    pub(super) fn move_session(&mut self, from: StreamId, to: StreamId, received: u64) {
        let stream = &mut self.streams[from.index()];
        stream.switching.moved = true;
        let (awaited, size, header, writer) = (stream.awaited, stream.size, stream.header, stream.writer.take());
        let (came, inbuf) = (stream.request_received, std::mem::take(&mut stream.ends[Place::Client as usize].inbuf));
        let next = &mut self.streams[to.index()];
        (next.awaited, next.size, next.header, next.writer) = (awaited, size, header, writer);
        next.request_received += came;
        next.answer_written = received;
        next.ends[Place::Client as usize].inbuf += inbuf;
    }

    /// The same where the exit is kept and has moved the server's end.
    pub(super) fn move_client_end(&mut self, from: StreamId, to: StreamId) {
        let stream = &mut self.streams[from.index()];
        stream.switching.moved = true;
        let inbuf = std::mem::take(&mut stream.end(Place::Client).inbuf);
        self.streams[to.index()].end(Place::Client).inbuf += inbuf;
    }

    /// SWITCH at the exit: everything that came before it goes to the servers, then the connections are closed.
    pub(super) fn switch_at_exit(&mut self, id: CircuitId) {
        if self.keeps_exit() {
            self.hand_over(id);
            return;
        }
        for stream in self.circuits[id.index()].streams.clone() {
            let of = &self.streams[stream.index()];
            if !of.switching.standby.is_some() || of.exit != ExitState::Connected {
                continue;
            }
            let last = self.net.bytes_written(of.socket) + of.ends[Place::Exit as usize].outbuf;
            let of = &mut self.streams[stream.index()];
            of.exit = ExitState::Flushing;
            of.switching.last = Some(last);
            self.circuits[id.index()].streams.retain(|&other| other != stream);
            // The exit must be known as long as the connection is open.
            self.circuits[id.index()].live_cells += 1;
            self.watch_stream(stream, Effects::WRITABLE);
            self.end_if_drained(stream);
        }
    }

    /// The exit has nothing more to write on a stream that the client has ended, or whose circuit was switched. False: the server has not read everything yet.
    pub(crate) fn may_end_flushed(&self, id: StreamId) -> bool {
        self.streams[id.index()].switching.last.is_none()
    }

    fn end_if_drained(&mut self, id: StreamId) {
        let stream = &self.streams[id.index()];
        if stream.switching.last.is_some_and(|last| stream.switching.read >= last) {
            self.end_at_exit(id);
        }
    }

    /// The stream ends at its exit: if it was drained, its circuit may go; if something was lost, the client's program must start over.
    pub(crate) fn switched_stream_ends(&mut self, id: StreamId) {
        if self.keeps_exit() {
            return;
        }
        let stream = &mut self.streams[id.index()];
        let (circuit, switching) = (stream.circuit, &mut stream.switching);
        let last = switching.last.take();
        // Without SWITCH whatever the client sent should have come, beside the resumption.
        let resumption = if switching.resumption_ends.is_some() { RESUMPTION } else { 0 };
        switching.broken |= switching.read < last.unwrap_or(switching.sent + resumption);
        let drained = last.is_some();
        let (broken, moved) = (switching.broken, switching.moved);
        if broken && moved {
            // The server knows from the resumption that bytes are missing.
            let next = self.session_of(id);
            let next = &mut self.streams[next.index()];
            next.switching.broken = true;
            if next.exit == ExitState::Connected {
                self.net.abort(&mut self.queue, next.socket.peer());
            }
        }
        if drained {
            self.circuits[circuit.index()].live_cells -= 1;
            self.recycle_circuit(circuit);
        }
    }

    /// The client's resumption at the exit: it joins what goes to the server.
    pub(crate) fn resume_at_exit(&mut self, id: StreamId) {
        let stream = &mut self.streams[id.index()];
        if !matches!(stream.exit, ExitState::Connecting | ExitState::Connected) {
            return;
        }
        stream.end(Place::Exit).outbuf += RESUMPTION;
        let ends = self.net.bytes_written(stream.socket) + stream.ends[Place::Exit as usize].outbuf;
        stream.switching.resumption_ends = Some(ends);
        if stream.exit == ExitState::Connected {
            self.watch_stream(id, Effects::WRITABLE);
        }
    }

    /// The server has read `bytes` on this stream: they count for its session, which is returned.
    pub(crate) fn count_at_server(&mut self, id: StreamId, bytes: u64) -> StreamId {
        let session = self.session_of(id);
        self.streams[session.index()].request_received += bytes;
        let stream = &mut self.streams[id.index()];
        stream.switching.read += bytes;
        if !stream.switching.resumed && stream.switching.resumption_ends.is_some_and(|ends| stream.switching.read >= ends) {
            stream.switching.resumed = true;
            self.streams[session.index()].request_received -= RESUMPTION;
        }
        if self.probes.is_some() {
            self.probes_at_server(id, self.streams[id.index()].switching.read);
        }
        self.end_if_drained(id);
        session
    }

    /// Whether the server may write on this stream.
    pub(crate) fn is_resumed(&self, id: StreamId) -> bool {
        self.streams[id.index()].switching.resumed
    }

    /// The stream's slot is free: nothing names it any more.
    pub(crate) fn forget_twin(&mut self, id: StreamId) {
        let StreamSwitching { standby, before_it, moved, .. } =
            std::mem::replace(&mut self.streams[id.index()].switching, StreamSwitching::NONE);
        if moved && standby.is_some() {
            // One that is older may still bring something for the session.
            self.streams[standby.index()].switching.before_it = before_it;
            if before_it.is_some() {
                self.streams[before_it.index()].switching.standby = standby;
            }
            return;
        }
        if standby.is_some() {
            self.streams[standby.index()].switching.before_it = StreamId::NONE;
        }
        if before_it.is_some() {
            self.streams[before_it.index()].switching.standby = StreamId::NONE;
            // What the exchange before it still brings is wanted by nobody.
            if self.streams[before_it.index()].switching.moved {
                self.end_at_exit(before_it);
            }
        }
    }
}
