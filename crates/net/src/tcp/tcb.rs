//! One end of a connection: its state, and the calls that its owner makes.

use super::config::TcpConfig;
use super::congestion::Congestion;
use super::cuts::Cuts;
use super::effects::{State, TcpInfo};
use super::flight::{Flight, HOT_BYTES, Sent};
use super::reassembly::Filled;
use super::receive::Receive;
use super::rtt::Rtt;
use super::ticks::Ticks;
use onionlab_engine::prefetch;
use onionlab_quantities::{SimDuration, SimTime};

/// Most that Linux lets a socket have in its host's queue (`net.ipv4.tcp_limit_output_bytes`).
const LIMIT_OUTPUT: u64 = 4 << 20;
/// Bytes of memory that a segment takes beside its data (Linux 6.18: `ss` says 2280 B for each of 1448).
const SEGMENT_OVERHEAD: u64 = 832;

/// What the transmission timer will do. As in Linux one timer serves them all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Alarm {
    Retransmit,
    TailProbe,
    Reordering,
    ZeroWindow,
}

/// A segment without data that is due. The connection's state excludes all but one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    Syn,
    Reset,
    /// A probe of a window that is closed.
    WindowProbe,
}

/// The tail loss probe that is out (RFC 8985, section 7.4), if any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Probe {
    None,
    /// It was new data: its acknowledgement tells nothing.
    New,
    /// It repeated the last segment: unless a duplicate acknowledgement comes, that had been lost.
    Repeat,
}

/// One end of a TCP connection ("transmission control block").
///
/// At most 256 bytes; segments in flight and bytes beyond a hole are kept apart, and only while there are any. The owner passes the same
/// [`TcpConfig`] to every call, carries the segments, and calls [`Tcb::on_timer`] at or after [`Tcb::deadline`].
#[derive(Debug, Clone)]
pub struct Tcb {
    /// Lowest sequence number not acknowledged.
    pub(super) una: u64,
    /// Next sequence number to be sent for the first time.
    pub(super) next: u64,
    /// One past the last byte written.
    pub(super) written: u64,
    /// Present while anything is in flight.
    pub(super) flight: Option<Box<Flight>>,
    /// Ends of writes not yet sent, where segments follow writes.
    pub(super) cuts: Option<Box<Cuts>>,
    pub(super) alarm_at: SimTime,
    pub(super) receive: Receive,
    pub(super) congestion: Congestion,
    pub(super) rtt: Rtt,
    /// Bytes that the other end takes beyond `una`.
    pub(super) peer_window: u32,
    pub(super) send_buffer: u32,
    /// When data was last sent, for the first time or again (`lsndtime`).
    pub(super) last_sent: Ticks,
    pub(super) retransmitted: u32,
    /// Low bits of `next` when the probe was sent.
    pub(super) probe_end: u32,
    pub(super) probe: Probe,
    pub(super) alarm: Alarm,
    pub(super) state: State,
    /// Time-outs in a row: each doubles the next.
    pub(super) backoff: u8,
    /// The writer waits for room.
    pub(super) starved: bool,
    /// The FIN is to follow the data.
    pub(super) closing: bool,
    pub(super) fin_sent: bool,
    /// The buffers have what the path holds ([`RoundTrips::Released`](super::RoundTrips::Released)).
    pub(super) fitted: bool,
    pub(super) due: Due,
}

impl Tcb {
    /// A closed end.
    pub fn new(cfg: &TcpConfig) -> Self {
        Self {
            una: 0,
            next: 0,
            written: 1,
            flight: None,
            cuts: None,
            alarm_at: SimTime::MAX,
            receive: Receive::new(cfg),
            congestion: Congestion::new(cfg),
            rtt: Rtt::new(),
            peer_window: 0,
            send_buffer: cfg.send_buffer.initial.get() as u32,
            last_sent: Ticks::ZERO,
            retransmitted: 0,
            probe_end: 0,
            probe: Probe::None,
            alarm: Alarm::Retransmit,
            state: State::Closed,
            backoff: 0,
            starved: false,
            closing: false,
            fin_sent: false,
            fitted: false,
            due: Due::Nothing,
        }
    }

    /// Opens actively: a SYN is due.
    pub fn connect(&mut self, cfg: &TcpConfig, now: SimTime) {
        debug_assert_eq!(self.state, State::Closed, "connect() takes a new end");
        self.state = State::SynSent;
        self.due = Due::Syn;
        self.set_alarm(Alarm::Retransmit, now.saturating_add(self.rto(cfg)));
    }

    /// Opens passively: the next SYN is answered.
    pub fn listen(&mut self) {
        debug_assert_eq!(self.state, State::Closed, "listen() takes a new end");
        self.state = State::Listen;
    }

    /// Bytes that [`Tcb::write`] would take.
    pub fn send_space(&self, cfg: &TcpConfig) -> u64 {
        let filled = self.buffered() + self.stale_bytes(cfg);
        if self.takes_data() { u64::from(self.send_buffer).saturating_sub(filled) } else { 0 }
    }

    /// Writes up to `bytes` bytes; returns how many were taken. Data may be sendable afterwards: see [`Tcb::wants_send`].
    pub fn write(&mut self, cfg: &TcpConfig, now: SimTime, bytes: u64) -> u64 {
        let taken = bytes.min(self.send_space(cfg));
        if taken > 0 {
            // What waits for the uplink stands for what Linux has sent by now: the first write alone finds an idle connection.
            if cfg.slow_start_after_idle && self.flight.is_none() && self.written <= self.next {
                let idle = self.last_sent.until(now);
                let rto = self.rtt.timeout(cfg);
                if self.next > 1 && idle > rto {
                    self.congestion.restart_after_idle(cfg, now, idle, rto);
                }
            }
            if cfg.segment_per_write {
                self.cuts.get_or_insert_default().push(cfg.mss, self.written, self.written + taken);
            }
            self.written += taken;
            self.watch_window(cfg, now);
        }
        self.starved |= taken < bytes || !self.is_writable(cfg);
        taken
    }

    /// Numbers the last write among all of its host's, where segments follow writes.
    pub fn number_last_write(&mut self, order: u64) {
        if let Some(cuts) = &mut self.cuts {
            cuts.number_last(order);
        }
    }

    /// The number of the write that the next segment belongs to; zero for what has no payload and for what goes again.
    pub fn next_order(&self) -> u64 {
        let again = self.flight.as_deref().is_some_and(|flight| flight.to_resend > 0 || flight.owes_stale());
        if self.owes_unnumbered() || again { 0 } else { self.cuts.as_deref().and_then(Cuts::first).map_or(0, |(_, order)| order) }
    }

    /// Whether something without payload is due, which goes before all data.
    pub fn owes_unnumbered(&self) -> bool {
        self.receive.ack_now || self.receive.duplicates > 0 || self.due != Due::Nothing
    }

    /// Whether a SYN is due, one that opens or one that answers.
    pub fn owes_syn(&self) -> bool {
        self.due == Due::Syn
    }

    /// Bytes that may be read now.
    pub fn readable(&self) -> u64 {
        u64::from(self.receive.readable)
    }

    /// Reads up to `bytes` bytes (at most [`Tcb::readable`]). A window update or an acknowledgement may become due.
    pub fn read(&mut self, cfg: &TcpConfig, now: SimTime, bytes: u64) {
        self.receive.read(cfg, now, bytes, self.rtt.smoothed());
    }

    /// No more data will be written; a FIN follows what was.
    ///
    /// This is `shutdown(SHUT_WR)`: the other end's data is still taken.
    pub fn close(&mut self) {
        match self.state {
            State::Established | State::SynReceived => {
                self.closing = true;
                if self.state == State::Established {
                    self.state = State::FinWait1;
                }
            }
            State::CloseWait => {
                self.closing = true;
                self.state = State::LastAck;
            }
            State::SynSent | State::Listen => self.vanish(),
            _ => {}
        }
    }

    /// Gives the connection up: a RST is due, everything buffered is gone.
    pub fn abort(&mut self) {
        let tell = self.state.is_synchronized() && self.state != State::TimeWait || self.state == State::SynReceived;
        self.vanish();
        if tell {
            self.due = Due::Reset;
        }
    }

    /// The earliest instant at which [`Tcb::on_timer`] has something to do; [`SimTime::MAX`] if none.
    ///
    /// It moves with most calls. The owner may leave an event scheduled that has become too early, and look here when it fires.
    pub fn deadline(&self) -> SimTime {
        self.alarm_at.min(self.receive.ack_at)
    }

    /// Asks for the memory of what is in flight: its first lines, or (once they have come) the oldest segment.
    #[inline]
    pub(crate) fn prefetch_flight(&self, whole: bool) {
        if let Some(flight) = self.flight.as_deref() {
            if whole {
                prefetch(flight, HOT_BYTES);
            } else if let Some(front) = flight.ring.front() {
                prefetch(front, size_of::<Sent>());
            }
        }
        if let Some(cuts) = self.cuts.as_deref() {
            if whole {
                prefetch(cuts, size_of_val(cuts));
            } else {
                cuts.prefetch_first();
            }
        }
    }

    /// What `TCP_INFO` would say.
    #[inline]
    pub fn info(&self, cfg: &TcpConfig) -> TcpInfo {
        let out = self.flight.as_deref().map_or(0, Flight::out);
        let (unacked_segments, notsent_bytes) = if cfg.segment_per_write {
            let (waiting, held_back) = self.unsent_segments(cfg, out);
            (out + waiting, held_back)
        } else {
            (out, self.written.saturating_sub(self.next.max(1)))
        };
        TcpInfo {
            cwnd_segments: self.congestion.cwnd,
            ssthresh_segments: self.congestion.ssthresh,
            unacked_segments,
            mss: cfg.mss,
            notsent_bytes,
            unacked_bytes: self.next.min(self.written).saturating_sub(self.una.max(1)),
            send_buffer: u64::from(self.send_buffer),
            peer_window: u64::from(self.peer_window),
            srtt: self.rtt.smoothed(),
            min_rtt: self.rtt.min(),
            rto: self.rto(cfg),
            retransmitted_segments: u64::from(self.retransmitted),
        }
    }

    /// Where segments follow writes: how many were cut and not sent, and the bytes of those that lie beyond the window.
    ///
    /// Shadow numbers segments when they are written, and its `TCP_INFO` counts as unacknowledged all that were numbered (`tcp_getInfo`); its
    /// `SIOCOUTQNSD` counts what the window holds back, not what waits for the uplink (`tcp_getNotSentBytes`).
    fn unsent_segments(&self, cfg: &TcpConfig, out: u32) -> (u32, u64) {
        let room = self.congestion.cwnd.min(self.peer_window / cfg.mss).saturating_sub(out);
        self.cuts.as_deref().map_or((0, 0), |cuts| cuts.beyond(cfg.mss, self.next.max(1), room))
    }

    /// How many segments with data Linux lets this end have in its host's queue (TCP small queues: `tcp_small_queue_check`, `tcp_update_pacing_rate`): two, or what it paces in
    /// 1/1024 s, each with its buffer.
    pub fn small_queue(&self, cfg: &TcpConfig) -> u32 {
        let limit = self.rtt.smoothed().map_or(LIMIT_OUTPUT, |srtt| {
            let Congestion { cwnd, ssthresh, .. } = self.congestion;
            let window = cwnd.max(self.flight.as_deref().map_or(0, Flight::out));
            let percent = if cwnd < ssthresh / 2 { 200 } else { 120 };
            // A window without a limit fills 31 bits.
            let bytes = u64::from(cfg.mss) * u64::from(window);
            let rate = bytes.saturating_mul(percent * 10_000) / srtt.as_micros().max(1);
            (rate >> 10).min(LIMIT_OUTPUT)
        });
        let segment = u64::from(cfg.mss) + SEGMENT_OVERHEAD;
        (limit.saturating_sub(1) / segment + 1).max(2) as u32
    }

    /// The connection's state.
    pub fn state(&self) -> State {
        self.state
    }
    /// Bytes written, sent or not.
    pub fn bytes_written(&self) -> u64 {
        self.written - 1
    }
    /// Bytes that the other end has acknowledged.
    pub fn bytes_acked(&self) -> u64 {
        self.una.clamp(1, self.written) - 1
    }
    /// Bytes in this end's buffers: written and not acknowledged, received and not read, received beyond a hole.
    pub fn bytes_in_buffers(&self) -> u64 {
        self.buffered() + self.readable() + self.receive.bytes_beyond()
    }
    /// The holes that were filled since the last call, which [`Effects::FILLED`](super::Effects::FILLED) announced.
    pub fn take_filled(&mut self) -> impl Iterator<Item = Filled> + use<> {
        self.receive.take_filled().into_iter()
    }
    /// Bytes received in order, read or not.
    pub fn bytes_received(&self) -> u64 {
        self.receive.bytes_in_order()
    }

    /// Bytes written and not acknowledged.
    pub(super) fn buffered(&self) -> u64 {
        self.written.saturating_sub(self.una.max(1))
    }
    /// Whether a third of the send buffer is free, so that poll would call the socket writable (`sk_stream_is_writeable`); or any of it, if so
    /// configured.
    pub fn is_writable(&self, cfg: &TcpConfig) -> bool {
        let (buffered, whole) = (self.buffered() + self.stale_bytes(cfg), u64::from(self.send_buffer));
        self.takes_data() && if cfg.writable_at_once { buffered < whole } else { buffered * 3 <= whole * 2 }
    }
    fn takes_data(&self) -> bool {
        matches!(self.state, State::Established | State::CloseWait) && !self.closing
    }

    /// The retransmission time-out, backing off included.
    pub(super) fn rto(&self, cfg: &TcpConfig) -> SimDuration {
        (self.rtt.timeout(cfg) * (1 << self.backoff.min(16))).min(cfg.max_rto)
    }
    pub(super) fn set_alarm(&mut self, alarm: Alarm, at: SimTime) {
        self.alarm = alarm;
        self.alarm_at = at;
    }
    pub(super) fn clear_alarm(&mut self) {
        self.alarm_at = SimTime::MAX;
    }
    /// Straight to `Closed`, nothing kept.
    pub(super) fn vanish(&mut self) {
        self.state = State::Closed;
        self.flight = None;
        self.cuts = None;
        self.clear_alarm();
        self.written = self.written.min(self.next.max(1));
        self.due = Due::Nothing;
        self.receive.vanish();
    }
    /// Arms the zero-window probe if the window alone keeps data back and nothing is in flight.
    pub(super) fn watch_window(&mut self, cfg: &TcpConfig, now: SimTime) {
        if self.flight.as_deref().is_none_or(Flight::is_empty)
            && self.state.is_synchronized()
            && self.peer_window == 0
            && (self.written > self.next || self.closing && !self.fin_sent)
        {
            if self.alarm_at == SimTime::MAX {
                self.set_alarm(Alarm::ZeroWindow, now.saturating_add(self.rto(cfg)));
            }
        } else if self.alarm == Alarm::ZeroWindow && self.alarm_at != SimTime::MAX {
            self.clear_alarm();
            self.backoff = 0;
            self.due = Due::Nothing;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_at_most_256_bytes() {
        assert!(size_of::<Tcb>() <= 256, "{}", size_of::<Tcb>());
    }
}
