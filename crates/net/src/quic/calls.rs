//! What the owner of a stream does with it: the calls of a socket.

use super::config::QuicConfig;
use super::connection::{Connection, ConnectionState, Role};
use super::packet::Frame;
use super::stream::{Fin, Stream};
use crate::tcp::Effects;
use onionlab_quantities::SimTime;

impl Connection {
    /// Opens a stream and returns its ID; the other end has to [`Self::accept`] it. It carries data once [`Effects::CONNECTED`] is told, which
    /// happens at once if the connection is established.
    pub fn open(&mut self, cfg: &QuicConfig, now: SimTime, owner: u32) -> u32 {
        let id = self.streams.next_id(u32::from(self.role == Role::Server));
        let place = self.streams.add(Stream::new(cfg, now, id, owner));
        if self.state == ConnectionState::Established {
            self.streams.at(place).announced = true;
            self.tell(owner, Effects::CONNECTED | Effects::WRITABLE);
        }
        self.keep(cfg, now);
        id
    }

    /// Is ready for a stream that the other end opened, as a listening socket is for a connection. [`Effects::CONNECTED`] is told with its first frame.
    pub fn accept(&mut self, cfg: &QuicConfig, now: SimTime, id: u32, owner: u32) {
        self.streams.add(Stream::new(cfg, now, id, owner));
        self.keep(cfg, now);
    }

    fn keep(&mut self, cfg: &QuicConfig, now: SimTime) {
        if let Some(interval) = cfg.keep_alive {
            self.keep_at = now.saturating_add(interval);
        }
    }

    /// Makes room for twice the congestion window, within the configured limits. What was there stays: a stream that could be written can be until it is.
    pub(super) fn tune_send_buffer(&mut self, cfg: &QuicConfig) {
        self.send_buffer = self.send_buffer.max((2 * self.congestion.cwnd).min(cfg.send_buffer.max.get()));
    }

    /// Bytes that [`Self::write`] would take.
    pub fn send_space(&self, id: u32) -> u64 {
        match self.streams.get(id) {
            Some(stream) if stream.takes_data() && self.may_write(stream) => self.send_buffer.saturating_sub(stream.buffered()),
            _ => 0,
        }
    }

    fn may_write(&self, stream: &Stream) -> bool {
        self.state == ConnectionState::Established && stream.announced
    }

    /// Whether a third of the stream's send buffer is free.
    pub fn is_writable(&self, id: u32) -> bool {
        self.streams
            .get(id)
            .is_some_and(|stream| stream.takes_data() && self.may_write(stream) && stream.buffered() * 3 <= self.send_buffer * 2)
    }

    /// Writes up to `bytes` bytes; returns how many were taken.
    pub fn write(&mut self, id: u32, bytes: u64) -> u64 {
        let taken = bytes.min(self.send_space(id));
        let Some(place) = self.streams.place(id) else { return 0 };
        self.streams.at(place).written += taken;
        self.note_busy(place);
        self.enqueue(place);
        let writable = self.is_writable(id);
        self.streams.at(place).starved |= taken < bytes || !writable;
        taken
    }

    /// Counts the stream among those with bytes under way, or no longer.
    pub(super) fn note_busy(&mut self, place: u32) {
        let stream = self.streams.at(place);
        let busy = stream.is_busy();
        if busy != std::mem::replace(&mut stream.busy, busy) {
            self.busy = if busy { self.busy + 1 } else { self.busy - 1 };
        }
    }

    /// Gives the stream its turns, if it has something to send.
    pub(super) fn enqueue(&mut self, place: u32) {
        let stream = self.streams.at(place);
        if !stream.in_fresh && stream.fresh() > 0 {
            stream.in_fresh = true;
            self.fresh.push_back(place);
        }
        if !stream.in_again && stream.wants_again() {
            stream.in_again = true;
            self.again.push_back(place);
        }
    }

    /// Bytes that may be read now.
    pub fn readable(&self, id: u32) -> u64 {
        self.streams.get(id).map_or(0, |stream| stream.readable)
    }

    /// Bytes received beyond a hole.
    pub fn bytes_beyond(&self, id: u32) -> u64 {
        self.streams.get(id).map_or(0, Stream::bytes_beyond)
    }

    /// Reads up to `bytes` bytes (at most [`Self::readable`]). Offers of flow control may become due.
    pub fn read(&mut self, id: u32, bytes: u64) {
        let Some(place) = self.streams.place(id) else { return };
        let stream = self.streams.at(place);
        let bytes = bytes.min(stream.readable);
        stream.readable -= bytes;
        if stream.window.on_read(bytes) && !stream.received_all() && !stream.offers {
            stream.offers = true;
            self.controls.push_back(Frame::MaxStreamData { max: 0, stream: id });
        }
        self.consume(bytes);
    }

    /// Bytes that came are read or given up: the connection's window may move.
    pub(super) fn consume(&mut self, bytes: u64) {
        if self.window.on_read(bytes) && !self.offers && self.state == ConnectionState::Established {
            self.offers = true;
            self.controls.push_back(Frame::MaxData { max: 0 });
        }
    }

    /// No more will be written to the stream; its end follows what was. The other direction stays open.
    pub fn finish(&mut self, id: u32) {
        let Some(place) = self.streams.place(id) else { return };
        let stream = self.streams.at(place);
        if stream.takes_data() {
            stream.fin = Fin::Due;
            self.enqueue(place);
        }
    }

    /// Gives the stream up in both directions (RESET_STREAM and STOP_SENDING).
    pub fn reset(&mut self, id: u32) {
        let Some(place) = self.streams.place(id) else { return };
        self.give_up(place);
        let stream = self.streams.at(place);
        if !stream.deaf && !stream.received_all() {
            let unread = stream.stop_listening();
            self.controls.push_back(Frame::StopSending { stream: id });
            self.consume(unread);
        }
    }

    /// Sends no more of a stream.
    pub(super) fn give_up(&mut self, place: u32) {
        let stream = self.streams.at(place);
        let id = stream.id;
        if stream.give_up() {
            (stream.in_fresh, stream.in_again) = (false, false);
            self.fresh.retain(|&other| other != place);
            self.again.retain(|&other| other != place);
            self.controls.push_back(Frame::Reset { final_size: 0, stream: id });
            self.note_busy(place);
        }
    }

    /// The owner wants to hear no more of the stream, which it has finished or reset, or whose other end has reset it. Once all of it is acknowledged
    /// it is forgotten.
    pub fn release(&mut self, id: u32) {
        let Some(place) = self.streams.place(id) else { return };
        let stream = self.streams.at(place);
        stream.released = true;
        if !stream.deaf && !stream.received_all() {
            let unread = stream.stop_listening();
            self.consume(unread);
        } else {
            let unread = std::mem::take(&mut stream.readable);
            self.consume(unread);
        }
        self.reap(place);
    }

    /// Whether the stream still exists at this end.
    pub fn has_stream(&self, id: u32) -> bool {
        self.streams.place(id).is_some()
    }

    /// Forgets a released stream that is over.
    pub(super) fn reap(&mut self, place: u32) {
        let gone = self.state == ConnectionState::Closed;
        let stream = self.streams.at(place);
        if stream.released && (gone || stream.sent_all() && stream.received_all()) {
            if std::mem::take(&mut stream.busy) {
                self.busy -= 1;
            }
            let (id, owner) = (stream.id, stream.owner);
            self.forgotten.push(owner);
            self.streams.remove(place);
            self.controls.retain(|control| !control.is_of(id));
        }
    }

    /// Bytes of a stream written, sent or not.
    pub fn bytes_written(&self, id: u32) -> u64 {
        self.streams.get(id).map_or(0, |stream| stream.written)
    }

    /// Bytes of a stream that the other end has acknowledged in sequence.
    pub fn bytes_acked(&self, id: u32) -> u64 {
        self.streams.get(id).map_or(0, |stream| stream.una)
    }
}
