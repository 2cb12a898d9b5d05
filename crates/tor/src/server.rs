//! The servers behind the exits: what they wait for, and how they write their answers.

use crate::ids::StreamId;
use crate::stream::ExitState;
use crate::world::{Event, World};
use onionlab_net::tcp::Effects;
use onionlab_quantities::{SimDuration, SimTime};

/// A server writes so much of its answer at a time, as tgen's does (`DEFAULT_STREAM_WRITE_BUFLEN`).
const SERVER_WRITE: u64 = 32_768;

impl World {
    /// The server: when everything that it waits for is there, it writes.
    pub(crate) fn server_upcall(&mut self, id: StreamId, effects: Effects) {
        let stream = &self.streams[id.index()];
        let socket = stream.socket.peer();
        let mut session = id;
        // Its patience begins when the connection is there (`_tgenstream_runTransportEventLoop`).
        if effects.has(Effects::CONNECTED) {
            self.note_progress(id);
        }
        if effects.has(Effects::READABLE) {
            let readable = self.net.readable(socket);
            self.net.read(&mut self.queue, socket, readable);
            if readable > 0 {
                self.note_progress(id);
            }
            session = self.count_at_server(id, readable);
        }
        self.server_writes(session);
    }

    /// The server writes what is due, and what a script adds to that.
    pub(crate) fn server_writes(&mut self, id: StreamId) {
        let now = self.queue.now();
        let id = self.session_of(id);
        loop {
            let stream = &mut self.streams[id.index()];
            let ended = matches!(stream.exit, ExitState::None | ExitState::Ended);
            let waits = stream.request_received < stream.awaited;
            if ended || waits || stream.patience.is_over || !self.is_resumed(id) || !self.write_answer(id) {
                return;
            }
            let stream = &mut self.streams[id.index()];
            let Some(writer) = &mut stream.writer else { return };
            let Some(bytes) = writer.write(now) else { return };
            stream.size += bytes;
            if let Some(next) = writer.next(now) {
                self.queue.schedule(next, stream.server, Event::ServerWrites(id));
            }
        }
    }

    /// The answer is written as fast as the socket takes it, in pieces. False if not everything fitted.
    fn write_answer(&mut self, id: StreamId) -> bool {
        let stream = &mut self.streams[id.index()];
        if stream.unread.is_some() {
            return self.write_to_service(id);
        }
        let socket = stream.socket.peer();
        let header = stream.header.min(stream.size);
        let before = stream.answer_written;
        while stream.answer_written < stream.size {
            // What of a piece did not fit is written before the next.
            let end = match stream.answer_written.checked_sub(header) {
                None => header,
                Some(body) => stream.size.min(header + (body / SERVER_WRITE + 1) * SERVER_WRITE),
            };
            let piece = end - stream.answer_written;
            let taken = self.net.write(&mut self.queue, socket, piece);
            stream.answer_written += taken;
            if taken < piece {
                break;
            }
        }
        let (written, all) = (stream.answer_written > before, stream.answer_written >= stream.size);
        if written {
            self.note_progress(id);
        }
        all
    }

    /// Something was received or written: if the server does not wait for ever, that is when its patience begins anew.
    fn note_progress(&mut self, id: StreamId) {
        let now = self.queue.now();
        self.streams[id.index()].patience.progress = now;
        if self.streams[id.index()].patience.look_at == SimTime::MAX
            && let Some(stall) = self.server_stall(id)
        {
            self.look_for_progress(id, now + stall);
        }
    }

    fn look_for_progress(&mut self, id: StreamId, at: SimTime) {
        let stream = &mut self.streams[id.index()];
        stream.patience.look_at = at;
        self.queue.schedule(at, stream.server, Event::ServerStalls(id));
    }

    /// How long the server of this stream waits for anything to happen.
    fn server_stall(&self, id: StreamId) -> Option<SimDuration> {
        let client = self.circuits[self.streams[id.index()].circuit.index()].client;
        self.clients[client.index()].config.server_stall
    }

    /// The time at which the server looks whether anything has happened (`_tgenstream_checkTimeout`). If not it closes the connection: what it has written still goes out.
    pub(crate) fn server_stalls(&mut self, id: StreamId) {
        let now = self.queue.now();
        let stream = &self.streams[id.index()];
        let ended = matches!(stream.exit, ExitState::None | ExitState::Waiting | ExitState::Ended);
        // The place of a stream that is over may be another's by now.
        if stream.patience.look_at != now || ended || stream.patience.is_over {
            return;
        }
        let Some(stall) = self.server_stall(id) else { return };
        let due = stream.patience.progress + stall;
        if due > now {
            self.look_for_progress(id, due);
            return;
        }
        let socket = stream.socket.peer();
        self.streams[id.index()].patience.is_over = true;
        self.net.close(&mut self.queue, socket);
    }
}
