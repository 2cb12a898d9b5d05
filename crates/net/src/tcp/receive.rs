//! The receiving half: what has come, what is acknowledged when, and how much window to offer.
//!
//! Acknowledgements follow Linux's `__tcp_ack_snd_check`: at once for every second full segment, for the first 16 segments, beyond or
//! into a hole, and for duplicates; when a reader empties the buffer of a segment that ended a write; else after a delay (RFC 1122,
//! 4.2.3.2) that adapts to the arrivals' spacing, and not at all if data takes the acknowledgement along. The buffer grows by dynamic
//! right-sizing (`tcp_rcv_space_adjust`, `tcp_rcvbuf_grow` as in Linux 6.18): twice what was read in a round trip, less what still lies unread, and room for what slow
//! start adds and for what lies beyond a hole.

mod counted;
mod timed;

use super::config::{AckRule, RoundTrips, TcpConfig};
use super::reassembly::{Filled, Reassembly};
use super::rtt::Rtt;
use super::segment::{Flags, Segment};
use super::ticks::Ticks;
use onionlab_quantities::{SimDuration, SimTime};

/// Segments acknowledged at once when a connection begins or after a hole (Linux: `TCP_MAX_QUICKACKS`).
const QUICK_ACKS: u32 = 16;
/// What a sender's segments are assumed to hold before any came (RFC 1122: 536).
const ASSUMED_MSS: u16 = 536;
/// What the timestamps' option takes of a segment: Linux holds what came against [`ASSUMED_MSS`] options included.
const TIMESTAMPS: u16 = 12;
/// The least that a sender's full segments hold, options included (`TCP_MIN_MSS`).
const LEAST_MSS: u16 = 88;
/// Window fields of SYNs are not scaled.
const MAX_UNSCALED: u32 = 65_535;

#[derive(Debug, Clone)]
pub(super) struct Receive {
    /// Next byte expected.
    pub(super) next: u64,
    /// Beyond a hole.
    beyond: Option<Box<Reassembly>>,
    /// When the delayed acknowledgement is due.
    pub(super) ack_at: SimTime,
    /// The timestamp to be echoed.
    pub(super) echo: SimTime,
    /// Since when `copied` counts.
    space_since: Ticks,
    pub(super) readable: u32,
    /// Bytes from `next` on that the other end may send.
    open: u32,
    /// Bytes in order since the last acknowledgement went.
    unacked: u32,
    /// Size of the buffer.
    buffer: u32,
    /// Read since `space_since`, and in the round trip before. Under other rules than Linux's: ever read, and the window last offered.
    copied: u32,
    space: u32,
    /// Round trip as the receiver sees it, in eighths of a microsecond; 0 before any sample.
    rtt8: u32,
    /// Low bits of the last `ts_echo` sampled. With [`RoundTrips::Released`] what the segment that is being processed brought in order.
    sampled_echo: u32,
    last_arrival: Ticks,
    /// Delay of acknowledgements in microseconds; 0 before any data. Where the clock alone decides: how many waited the shorter while. Where
    /// segments are counted: how many came since the last.
    delay: u32,
    /// Estimate of the other end's full segment.
    full: u16,
    last_short: u16,
    /// Acknowledgements still sent at once.
    quick: u8,
    /// An acknowledgement is due now.
    pub(super) ack_now: bool,
    /// Acknowledgements due now, one each, that go by themselves and say what they are: for segments that had come before (as D-SACK tells); where the clock
    /// alone decides, for data beyond a hole.
    pub(super) duplicates: u8,
    /// There too: acknowledgements that timers made and that wait for the uplink, one each.
    waiting: u8,
    /// One is owed.
    owed: bool,
    /// Data goes both ways in turns: wait for data to take the acknowledgement along.
    pingpong: bool,
    /// 1: a segment came that is not known to be one of several: a reader who empties the buffer acknowledges it, unless data goes both ways. 2: a short one after such a
    /// one, which is acknowledged in any case (`ICSK_ACK_PUSHED`, `ICSK_ACK_PUSHED2`).
    pushed: u8,
    pub(super) fin: bool,
}

/// What a segment's arrival did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arrival {
    pub(super) new_bytes: bool,
    pub(super) fin: bool,
}

impl Receive {
    pub(super) fn new(cfg: &TcpConfig) -> Self {
        let buffer = cfg.receive_buffer.initial.get() as u32;
        Self {
            next: 0,
            beyond: None,
            ack_at: SimTime::MAX,
            echo: SimTime::ZERO,
            space_since: Ticks::ZERO,
            readable: 0,
            open: 0,
            unacked: 0,
            buffer,
            copied: 0,
            space: (cfg.initial_window * cfg.mss).min(offered(buffer, cfg)).max(1),
            rtt8: 0,
            sampled_echo: 0,
            last_arrival: Ticks::ZERO,
            delay: 0,
            full: ASSUMED_MSS.min(cfg.mss as u16),
            last_short: 0,
            quick: 0,
            ack_now: false,
            duplicates: 0,
            waiting: 0,
            owed: false,
            pingpong: false,
            pushed: 0,
            fin: false,
        }
    }

    /// The other end's SYN came.
    pub(super) fn on_syn(&mut self, now: SimTime, segment: &Segment) {
        self.next = 1;
        self.echo = segment.ts_val;
        self.space_since = Ticks::at(now);
    }

    pub(super) fn bytes_in_order(&self) -> u64 {
        self.next.max(1) - 1 - u64::from(self.fin)
    }

    /// RFC 7323, section 4.3: the timestamp of the earliest segment not acknowledged. With [`RoundTrips::Released`] that of the segment being processed.
    pub(super) fn note_timestamp(&mut self, cfg: &TcpConfig, segment: &Segment) {
        if cfg.round_trips == RoundTrips::Released {
            self.echo = segment.ts_val;
            self.sampled_echo = 0;
        } else if segment.seq <= self.next - u64::from(self.unacked) {
            self.echo = self.echo.max(segment.ts_val);
        }
    }

    /// Takes a segment with payload or FIN.
    pub(super) fn on_data(&mut self, cfg: &TcpConfig, now: SimTime, segment: &Segment, rtt: &Rtt) -> Arrival {
        let (start, end) = (segment.seq, segment.end());
        let fin = segment.flags.has(Flags::FIN);
        let nothing = Arrival { new_bytes: false, fin: false };
        if end <= self.next {
            // A duplicate: the acknowledgement was lost or a probe asks.
            if cfg.acks == AckRule::Adaptive {
                self.enter_quick(cfg);
                self.duplicates = self.duplicates.saturating_add(1);
            } else {
                self.ack_now = true;
            }
            return nothing;
        }
        if end - self.next > u64::from(self.open) + u64::from(fin) || self.fin {
            self.ack_now = true;
            return nothing;
        }
        if cfg.acks == AckRule::Adaptive {
            self.measure(cfg, now, segment, rtt);
        }
        self.owed = true;
        if start > self.next {
            self.beyond.get_or_insert_default().insert(start, end, fin, now);
            if cfg.acks == AckRule::Adaptive {
                self.grow_buffer(cfg, self.space);
            }
            if cfg.acks == AckRule::Timed {
                self.duplicates = self.duplicates.saturating_add(1);
            } else {
                self.ack_now = true;
            }
            return nothing;
        }
        let before = self.bytes_in_order();
        let mut reached = end;
        let mut fin = fin;
        if let Some(beyond) = self.beyond.as_deref_mut().filter(|beyond| !beyond.is_empty()) {
            let (joined, with_fin) = beyond.join(self.next, end, now);
            reached = joined;
            fin |= with_fin;
            // Into a hole.
            self.ack_now |= cfg.acks != AckRule::Timed;
        }
        let advance = (reached - self.next) as u32;
        self.unacked += advance;
        self.open = self.open.saturating_sub(advance);
        self.next = reached;
        self.fin = fin;
        let new = (self.bytes_in_order() - before) as u32;
        self.readable += new;
        if fin {
            self.ack_now = true;
            self.pingpong = true;
        } else if cfg.round_trips == RoundTrips::Released {
            self.sampled_echo = advance;
        }
        self.decide(cfg, now, rtt);
        Arrival { new_bytes: new > 0, fin }
    }

    /// What an arrival tells of the sender's segments, spacing and round trip (`tcp_event_data_recv`).
    fn measure(&mut self, cfg: &TcpConfig, now: SimTime, segment: &Segment, rtt: &Rtt) {
        let len = segment.len;
        let last_short = std::mem::take(&mut self.last_short);
        let pushes = segment.flags.has(Flags::PSH);
        if len >= self.full {
            self.full = len.min(cfg.mss as u16);
            self.pushed = self.pushed.max(u8::from(pushes));
            let echo = segment.ts_echo.as_nanos();
            if echo != 0 && echo as u32 != self.sampled_echo {
                self.sampled_echo = echo as u32;
                self.sample_rtt(now.saturating_since(segment.ts_echo));
            }
        } else {
            // SACK blocks shorten a full segment.
            let len = len.saturating_add(blocks_bytes(segment));
            let least = if pushes || segment.flags.has(Flags::FIN) { ASSUMED_MSS } else { LEAST_MSS };
            if len >= least - TIMESTAMPS {
                self.last_short = len;
            }
            if self.last_short > 0 && len == last_short {
                self.full = len;
            } else {
                self.pushed = (self.pushed + 1).min(2);
            }
        }
        let least = cfg.delayed_ack.as_micros() as u32;
        if self.delay == 0 {
            self.add_quick();
            self.delay = least;
        } else {
            let gap = self.last_arrival.until(now).as_micros().min(1 << 30) as u32;
            if gap <= least / 2 {
                self.delay = self.delay / 2 + least / 2;
            } else if gap < self.delay {
                self.delay = (self.delay / 2 + gap).min(timeout(cfg, rtt));
            } else if gap > timeout(cfg, rtt) {
                // The sender restarted from a small window.
                self.add_quick();
            }
        }
        self.last_arrival = Ticks::at(now);
    }

    /// A shorter round trip counts at once, a longer one by an eighth, and not while something lies unread: the sender may wait for the reader (`tcp_rcv_rtt_update`).
    fn sample_rtt(&mut self, rtt: SimDuration) {
        let sample = (rtt.as_micros() as u32).clamp(1, 1 << 28);
        if self.rtt8 == 0 || sample * 8 < self.rtt8 {
            self.rtt8 = sample * 8;
        } else if self.readable == 0 {
            self.rtt8 += sample - self.rtt8 / 8;
        }
    }

    fn add_quick(&mut self) {
        let wanted = (self.open / (2 * u32::from(self.full).max(1))).clamp(2, QUICK_ACKS);
        self.quick = self.quick.max(wanted as u8);
    }

    /// A reader who is behind has no haste: with less than half of the buffer free nothing is acknowledged at once for being among the first (`__tcp_select_window`).
    fn calm(&mut self, cfg: &TcpConfig) {
        let whole = offered(self.buffer, cfg);
        if whole.saturating_sub(self.readable) < whole / 2 {
            self.quick = 0;
        }
    }

    fn enter_quick(&mut self, cfg: &TcpConfig) {
        self.add_quick();
        self.pingpong = false;
        self.delay = cfg.delayed_ack.as_micros() as u32;
    }

    /// Acknowledge now or later (`__tcp_ack_snd_check`, `tcp_send_delayed_ack`).
    fn decide(&mut self, cfg: &TcpConfig, now: SimTime, rtt: &Rtt) {
        match cfg.acks {
            AckRule::Adaptive => {}
            AckRule::Timed => return self.decide_timed(cfg, now),
            AckRule::Counted => return self.decide_counted(cfg, now),
        }
        // The window that was offered last must be free again, or the reader will acknowledge.
        let beyond_one = self.unacked > u32::from(self.full);
        if beyond_one {
            self.calm(cfg);
        }
        let many = beyond_one && self.free(cfg) >= self.open + self.unacked;
        if many || self.quick > 0 && !self.pingpong || !self.is_whole() || cfg.delayed_ack == SimDuration::ZERO {
            self.ack_now = true;
        }
        if self.ack_now || !self.owed {
            return;
        }
        let least = cfg.delayed_ack.as_micros() as u32;
        let mut delay = self.delay.max(least);
        if delay > least {
            // A round trip, as far as one was measured.
            let measured = rtt.smoothed().map_or(u32::MAX, |rtt| rtt.as_micros() as u32);
            delay = delay.min(measured.max(least)).min(longest_delay(cfg));
        }
        let delay = SimDuration::from_micros(u64::from(delay));
        if self.ack_at == SimTime::MAX {
            self.ack_at = now + delay;
        } else if self.ack_at <= now + delay / 4 {
            self.ack_now = true;
        } else {
            self.ack_at = self.ack_at.min(now + delay);
        }
    }

    /// The delayed acknowledgement is due.
    pub(super) fn on_timer(&mut self, cfg: &TcpConfig, rtt: &Rtt) {
        self.ack_at = SimTime::MAX;
        if self.owed {
            self.ack_now = true;
            match cfg.acks {
                AckRule::Adaptive => {}
                AckRule::Timed => return self.make_one(),
                AckRule::Counted => return,
            }
            if self.pingpong {
                self.pingpong = false;
                self.delay = cfg.delayed_ack.as_micros() as u32;
            } else {
                self.delay = (self.delay * 2).min(timeout(cfg, rtt));
            }
        }
    }

    /// Data was sent: does it answer?
    pub(super) fn on_data_sent(&mut self, cfg: &TcpConfig, now: SimTime) {
        if cfg.acks == AckRule::Adaptive && self.delay != 0 && self.last_arrival.until(now).as_micros() < u64::from(self.delay) {
            self.pingpong = true;
        }
    }

    /// The segment that arrived is processed: what is sent from now on answers none.
    pub(super) fn processed(&mut self) {
        self.echo = SimTime::ZERO;
        self.sampled_echo = 0;
    }

    /// Fills the acknowledgement of a segment that leaves now.
    ///
    /// With [`RoundTrips::Released`] one that leaves while another is being processed does not acknowledge what that brings, and counts as its acknowledgement all
    /// the same (`_tcp_flush` of Shadow 1.13 puts segments out before it takes in what came, `tcp_networkInterfaceIsAboutToSendPacket` forgets the delayed one).
    pub(super) fn acknowledge(&mut self, cfg: &TcpConfig, segment: &mut Segment) {
        let withheld = if cfg.round_trips == RoundTrips::Released { self.sampled_echo } else { 0 };
        segment.ack = self.next - u64::from(withheld);
        segment.flags = segment.flags.with(Flags::ACK);
        let mut window = self.free(cfg);
        if segment.flags.has(Flags::SYN) && cfg.acks != AckRule::Timed {
            window = window.min(MAX_UNSCALED);
        }
        // The window's right edge never moves back.
        self.open = self.open.max(window);
        segment.window = self.open + withheld;
        segment.ts_echo = self.echo;
        if let Some(beyond) = self.beyond.as_deref()
            && !beyond.is_empty()
            && cfg.sack
        {
            beyond.describe(segment);
        }
        if self.owed && self.quick > 0 {
            self.quick -= 1;
            if self.quick == 0 {
                self.delay = cfg.delayed_ack.as_micros() as u32;
            }
        }
        match cfg.acks {
            AckRule::Adaptive => {
                self.ack_at = SimTime::MAX;
                self.calm(cfg);
            }
            AckRule::Timed => self.space = segment.window,
            AckRule::Counted => {
                self.ack_at = SimTime::MAX;
                self.delay = 0;
                // A SYN's window is cut, but counts as what it would be.
                self.space = self.free(cfg);
            }
        }
        self.ack_now = self.waiting > 0;
        self.owed = false;
        self.pushed = 0;
        self.unacked = 0;
    }

    /// The window of a SYN, which acknowledges nothing yet.
    pub(super) fn syn_window(&mut self, cfg: &TcpConfig) -> u32 {
        // Shadow's windows count packets: 16 bits are enough.
        let window = if cfg.acks == AckRule::Timed { self.free(cfg) } else { self.free(cfg).min(MAX_UNSCALED) };
        self.open = self.open.max(window);
        window
    }

    /// Window that the buffer allows; nothing rather than a silly one (RFC 1122, 4.2.3.3).
    fn free(&self, cfg: &TcpConfig) -> u32 {
        let whole = offered(self.buffer, cfg);
        let free = whole.saturating_sub(self.readable);
        let may_be_silly = cfg.acks == AckRule::Counted || cfg.round_trips == RoundTrips::Released;
        if !may_be_silly && free < whole / 2 && (free < whole / 16 || free < u32::from(self.full)) { 0 } else { free }
    }

    /// The application reads (`tcp_cleanup_rbuf`, `tcp_rcv_space_adjust`).
    pub(super) fn read(&mut self, cfg: &TcpConfig, now: SimTime, bytes: u64, smoothed: Option<SimDuration>) {
        let bytes = bytes.min(u64::from(self.readable)) as u32;
        if bytes == 0 {
            return;
        }
        self.readable -= bytes;
        self.copied = self.copied.saturating_add(bytes);
        match cfg.acks {
            AckRule::Adaptive => {}
            AckRule::Timed => return self.read_timed(cfg, now, smoothed),
            AckRule::Counted => return self.read_counted(cfg),
        }
        self.tune(cfg, now);
        if self.ack_now {
            return;
        }
        if self.owed && (self.unacked > u32::from(self.full) || self.readable == 0 && self.pushed > u8::from(self.pingpong)) {
            self.ack_now = true;
            return;
        }
        // An update is worth a segment if it doubles the window.
        let whole = offered(self.buffer, cfg);
        if !self.fin && self.next > 0 && self.open <= whole / 2 {
            let free = self.free(cfg);
            if free > 0 && free >= 2 * self.open {
                self.ack_now = true;
            }
        }
    }

    /// Dynamic right-sizing: once a round trip.
    fn tune(&mut self, cfg: &TcpConfig, now: SimTime) {
        if self.rtt8 == 0 || self.space_since.until(now).as_micros() < u64::from(self.rtt8 / 8) {
            return;
        }
        let copied = self.copied.saturating_sub(self.readable);
        if copied > self.space {
            self.grow_buffer(cfg, copied);
        }
        self.copied = 0;
        self.space_since = Ticks::at(now);
    }

    /// Room for the window that a sender needs who sent `space` bytes in the last round trip (`tcp_rcvbuf_grow`).
    fn grow_buffer(&mut self, cfg: &TcpConfig, space: u32) {
        let before = u64::from(std::mem::replace(&mut self.space, space).max(1));
        if cfg.receive_buffer.max > cfg.receive_buffer.initial {
            // What is read is a round trip old, and slow start doubles.
            let window = 2 * u64::from(space);
            let window = window + 2 * window * (u64::from(space) - before.min(u64::from(space))) / before + self.reach_beyond();
            let wanted = window * 100 / u64::from(cfg.window_percent.max(1));
            self.buffer = self.buffer.max(wanted.min(cfg.receive_buffer.max.get()) as u32);
        }
    }

    /// How far what lies beyond holes reaches.
    fn reach_beyond(&self) -> u64 {
        self.beyond.as_deref().and_then(Reassembly::end).map_or(0, |end| end.saturating_sub(self.next))
    }

    /// Whether a hole was filled since the last call of [`Self::take_filled`].
    #[inline]
    pub(super) fn has_filled(&self) -> bool {
        self.beyond.as_deref().is_some_and(Reassembly::has_filled)
    }

    #[cold]
    pub(super) fn take_filled(&mut self) -> Vec<Filled> {
        let Some(beyond) = self.beyond.as_deref_mut() else { return Vec::new() };
        let filled = beyond.take_filled();
        if beyond.is_empty() {
            self.beyond = None;
        }
        filled
    }

    /// Bytes that lie beyond a hole.
    pub(super) fn bytes_beyond(&self) -> u64 {
        self.beyond.as_deref().map_or(0, Reassembly::bytes)
    }

    /// Whether nothing lies beyond a hole.
    pub(super) fn is_whole(&self) -> bool {
        self.beyond.as_deref().is_none_or(Reassembly::is_empty)
    }

    /// Nothing is owed any more.
    pub(super) fn vanish(&mut self) {
        self.beyond = None;
        self.ack_now = false;
        self.duplicates = 0;
        self.waiting = 0;
        self.owed = false;
        self.ack_at = SimTime::MAX;
    }
}

/// Longest delay of an acknowledgement, in microseconds.
fn longest_delay(cfg: &TcpConfig) -> u32 {
    cfg.delayed_ack.as_micros() as u32 * 5
}

/// The retransmission time-out, in microseconds, which bounds what is learnt of the arrivals' spacing.
fn timeout(cfg: &TcpConfig, rtt: &Rtt) -> u32 {
    rtt.timeout(cfg).as_micros() as u32
}

/// What SACK blocks take of a segment.
fn blocks_bytes(segment: &Segment) -> u16 {
    if segment.sack_count == 0 { 0 } else { 4 + 8 * u16::from(segment.sack_count) }
}

/// The window that a buffer of this size can offer.
fn offered(buffer: u32, cfg: &TcpConfig) -> u32 {
    (u64::from(buffer) * u64::from(cfg.window_percent) / 100) as u32
}
