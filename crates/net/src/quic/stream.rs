//! One end of a stream (RFC 9000, sections 2 and 3): what was written, sent, acknowledged and lost; what arrived, beyond a hole or before it.

use super::config::QuicConfig;
use super::packet::{Frame, stream_header};
use super::ranges::RangeSet;
use super::window::Window;
use onionlab_quantities::SimTime;

/// A frame that would carry less than this, and not all there is, waits for the next packet.
const LEAST_PIECE: u64 = 32;

/// The end of what is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fin {
    /// More may be written.
    Open,
    /// To be sent, for the first time or again.
    Due,
    Sent,
    Acknowledged,
}

/// Giving up what was to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reset {
    No,
    Sent,
    Acknowledged,
}

#[derive(Debug, Clone)]
pub(super) struct Stream {
    pub(super) id: u32,
    /// What the owner calls it.
    pub(super) owner: u32,
    /// Bytes written.
    pub(super) written: u64,
    /// Next byte to be sent for the first time.
    pub(super) next: u64,
    /// All bytes below it are acknowledged.
    pub(super) una: u64,
    /// Acknowledged beyond `una`.
    acked: RangeSet,
    /// To be sent again.
    lost: RangeSet,
    /// What the other end takes.
    pub(super) peer_max: u64,
    pub(super) fin: Fin,
    pub(super) reset: Reset,

    /// All bytes below it have arrived.
    pub(super) received: u64,
    /// Bytes that arrived in order and were not read.
    pub(super) readable: u64,
    /// One past the last byte that arrived.
    pub(super) highest: u64,
    /// Arrived beyond `received`.
    beyond: RangeSet,
    /// Bytes that the other end sends altogether, once it has told.
    final_size: Option<u64>,
    pub(super) window: Window,
    /// The other end gave up, or this one wants no more.
    pub(super) deaf: bool,

    /// The owner knows that the stream is open.
    pub(super) announced: bool,
    /// The owner knows that the other end has closed.
    pub(super) told_end: bool,
    /// The owner knows that the stream was reset.
    pub(super) told_reset: bool,
    /// The writer waits for room.
    pub(super) starved: bool,
    /// In the connection's queue of streams with new data, or of those that send something again.
    pub(super) in_fresh: bool,
    pub(super) in_again: bool,
    /// A MAX_STREAM_DATA waits to be sent.
    pub(super) offers: bool,
    /// The owner wants to hear no more of it.
    pub(super) released: bool,
    /// Counted among the connection's streams with bytes under way.
    pub(super) busy: bool,
}

/// What a frame's arrival did.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Arrival {
    /// Bytes beyond the highest so far, for the connection's flow control.
    pub(super) beyond_highest: u64,
    pub(super) readable: bool,
    pub(super) ended: bool,
}

impl Stream {
    pub(super) fn new(cfg: &QuicConfig, now: SimTime, id: u32, owner: u32) -> Self {
        Self {
            id,
            owner,
            written: 0,
            next: 0,
            una: 0,
            acked: RangeSet::default(),
            lost: RangeSet::default(),
            peer_max: cfg.stream_window.initial.get(),
            fin: Fin::Open,
            reset: Reset::No,
            received: 0,
            readable: 0,
            highest: 0,
            beyond: RangeSet::default(),
            final_size: None,
            window: Window::new(cfg.stream_window, now),
            deaf: false,
            announced: false,
            told_end: false,
            told_reset: false,
            starved: false,
            in_fresh: false,
            in_again: false,
            offers: false,
            released: false,
            busy: false,
        }
    }

    /// Bytes written and not acknowledged in sequence: what the send buffer holds.
    pub(super) fn buffered(&self) -> u64 {
        self.written - self.una
    }

    /// Whether bytes are written and not acknowledged.
    pub(super) fn is_busy(&self) -> bool {
        self.reset == Reset::No && self.una < self.written
    }

    /// Whether more may be written.
    pub(super) fn takes_data(&self) -> bool {
        self.fin == Fin::Open && self.reset == Reset::No
    }

    /// New bytes that the stream's own flow control lets pass.
    pub(super) fn fresh(&self) -> u64 {
        if self.reset == Reset::No { self.written.min(self.peer_max).saturating_sub(self.next) } else { 0 }
    }

    /// Lost bytes, or an end that needs no further bytes.
    pub(super) fn wants_again(&self) -> bool {
        self.reset == Reset::No && (!self.lost.is_empty() || self.fin == Fin::Due && self.next == self.written)
    }

    fn piece(&self, room: u32, start: u64, end: u64) -> Option<u16> {
        let whole = end - start;
        let room = u64::from(room.checked_sub(stream_header(self.id, start))?);
        let len = whole.min(room);
        (len == whole || len >= LEAST_PIECE).then_some(len as u16)
    }

    fn cut(&mut self, offset: u64, len: u16) -> Frame {
        let fin = self.fin == Fin::Due && self.next == self.written && offset + u64::from(len) == self.written;
        if fin {
            self.fin = Fin::Sent;
        }
        Frame::Stream { offset, stream: self.id, len, fin }
    }

    /// A frame of what was lost, or with the end alone, in at most `room` bytes.
    pub(super) fn take_again(&mut self, room: u32) -> Option<Frame> {
        let (start, end) = self.lost.first().unwrap_or((self.written, self.written));
        let len = self.piece(room, start, end)?;
        self.lost.remove(start, start + u64::from(len));
        Some(self.cut(start, len))
    }

    /// A frame of new bytes, of which at most `credit`, in at most `room` bytes.
    pub(super) fn take_fresh(&mut self, room: u32, credit: u64) -> Option<Frame> {
        let start = self.next;
        let len = self.piece(room, start, start + self.fresh().min(credit))?;
        if len == 0 {
            return None;
        }
        self.next += u64::from(len);
        Some(self.cut(start, len))
    }

    /// Bytes that a frame carried are acknowledged.
    pub(super) fn on_acked(&mut self, offset: u64, len: u16, fin: bool) {
        let end = offset + u64::from(len);
        if fin {
            self.fin = Fin::Acknowledged;
        }
        self.lost.remove(offset, end);
        if offset > self.una {
            self.acked.insert(offset, end);
        } else if end > self.una {
            self.una = self.acked.join(end);
        }
    }

    /// A packet with these bytes is lost: what nobody acknowledged goes again.
    pub(super) fn on_lost(&mut self, offset: u64, len: u16, fin: bool) {
        if self.reset != Reset::No {
            return;
        }
        if fin && self.fin == Fin::Sent {
            self.fin = Fin::Due;
        }
        let end = offset + u64::from(len);
        for (start, end) in self.acked.missing(offset.max(self.una), end) {
            self.lost.insert(start, end);
        }
    }

    /// Gives up what is to be sent; false if there is nothing to give up.
    pub(super) fn give_up(&mut self) -> bool {
        if self.reset != Reset::No || self.sent_all() {
            return false;
        }
        self.reset = Reset::Sent;
        self.acked.clear();
        self.lost.clear();
        self.starved = false;
        true
    }

    /// Takes bytes that arrived.
    pub(super) fn on_data(&mut self, offset: u64, len: u16, fin: bool) -> Arrival {
        let end = offset + u64::from(len);
        debug_assert!(end <= self.window.offered(), "the other end keeps to the stream's window");
        let mut arrival = Arrival { beyond_highest: end.saturating_sub(self.highest), ..Arrival::default() };
        self.highest = self.highest.max(end);
        if fin {
            self.final_size = Some(end);
        }
        if offset > self.received {
            self.beyond.insert(offset, end);
        } else if end > self.received {
            let reached = self.beyond.join(end);
            self.readable += reached - self.received;
            self.received = reached;
            arrival.readable = true;
        }
        arrival.ended = self.final_size == Some(self.received) && !self.told_end;
        arrival
    }

    /// Bytes that arrived beyond a hole.
    pub(super) fn bytes_beyond(&self) -> u64 {
        self.beyond.as_slice().iter().map(|(start, end)| end - start).sum()
    }

    /// The other end gave up after so many bytes; returns those that had not arrived, for the connection's flow control, and all that nobody will read.
    pub(super) fn on_reset(&mut self, final_size: u64) -> (u64, u64) {
        let missing = final_size - self.highest;
        let unread = final_size - (self.received - self.readable);
        self.highest = final_size;
        self.final_size = Some(final_size);
        self.received = final_size;
        self.readable = 0;
        self.beyond.clear();
        (missing, unread)
    }

    /// This end wants no more: what comes is dropped. Returns the bytes that nobody will read.
    pub(super) fn stop_listening(&mut self) -> u64 {
        self.deaf = true;
        let unread = self.highest - (self.received - self.readable);
        self.received = self.highest;
        self.readable = 0;
        self.beyond.clear();
        unread
    }

    /// Takes bytes of a stream that nobody reads any more; returns how many are new.
    pub(super) fn on_unwanted(&mut self, offset: u64, len: u16, fin: bool) -> u64 {
        let end = offset + u64::from(len);
        let new = end.saturating_sub(self.highest);
        self.highest = self.highest.max(end);
        self.received = self.highest;
        if fin {
            self.final_size = Some(end);
        }
        new
    }

    /// All that is to be sent has been acknowledged ("Data Recvd" or "Reset Recvd").
    pub(super) fn sent_all(&self) -> bool {
        self.fin == Fin::Acknowledged && self.una == self.written || self.reset == Reset::Acknowledged
    }

    /// All that the other end sends has arrived.
    pub(super) fn received_all(&self) -> bool {
        self.final_size.is_some_and(|size| size <= self.received)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(offset: u64, len: u16, fin: bool) -> Frame {
        Frame::Stream { offset, stream: 0, len, fin }
    }

    #[test]
    fn what_is_lost_goes_again_unless_acknowledged_meanwhile() {
        let mut stream = Stream::new(&QuicConfig::standard(), SimTime::ZERO, 0, 0);
        stream.written = 3000;
        stream.fin = Fin::Due;
        assert_eq!(stream.take_fresh(1004, u64::MAX), Some(frame(0, 1000, false)));
        assert_eq!(stream.take_fresh(1006, u64::MAX), Some(frame(1000, 1000, false)));
        assert_eq!(stream.take_fresh(1006, u64::MAX), Some(frame(2000, 1000, true)));
        stream.on_acked(1000, 1000, false);
        stream.on_lost(0, 1000, false);
        stream.on_lost(2000, 1000, true);
        // The first was not lost after all.
        stream.on_acked(0, 400, false);
        assert_eq!(stream.una, 400);
        assert_eq!(stream.take_again(2000), Some(frame(400, 600, false)));
        assert_eq!(stream.take_again(2000), Some(frame(2000, 1000, true)));
        assert!(!stream.wants_again());
        stream.on_acked(400, 600, false);
        stream.on_acked(2000, 1000, true);
        assert!(stream.sent_all());
    }

    #[test]
    fn a_small_rest_of_a_packet_takes_only_what_ends_there() {
        let mut stream = Stream::new(&QuicConfig::standard(), SimTime::ZERO, 0, 0);
        stream.written = 1000;
        assert_eq!(stream.take_fresh(20, u64::MAX), None);
        stream.written = 10;
        assert_eq!(stream.take_fresh(20, u64::MAX), Some(frame(0, 10, false)));
    }

    #[test]
    fn bytes_beyond_a_hole_wait_for_it() {
        let mut stream = Stream::new(&QuicConfig::standard(), SimTime::ZERO, 0, 0);
        let arrival = stream.on_data(100, 100, true);
        assert_eq!((arrival.beyond_highest, arrival.readable, arrival.ended), (200, false, false));
        let arrival = stream.on_data(0, 150, false);
        assert_eq!((arrival.beyond_highest, arrival.readable, arrival.ended), (0, true, true));
        assert_eq!(stream.readable, 200);
    }
}
