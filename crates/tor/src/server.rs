//! The servers behind the exits: what they wait for, and how they write their answers.

use crate::ids::StreamId;
use crate::stream::ExitState;
use crate::world::{Event, World};
use onionlab_net::tcp::Effects;

/// A server writes so much of its answer at a time, as tgen's does (`DEFAULT_STREAM_WRITE_BUFLEN`).
const SERVER_WRITE: u64 = 32_768;

impl World {
    /// The server: when everything that it waits for is there, it writes.
    pub(crate) fn server_upcall(&mut self, id: StreamId, effects: Effects) {
        let stream = &self.streams[id.index()];
        let socket = stream.socket.peer();
        let mut session = id;
        if effects.has(Effects::READABLE) {
            let readable = self.net.readable(socket);
            self.net.read(&mut self.queue, socket, readable);
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
            if ended || waits || !self.is_resumed(id) || !self.write_answer(id) {
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
                return false;
            }
        }
        true
    }
}
