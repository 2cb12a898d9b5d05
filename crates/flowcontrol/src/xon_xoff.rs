//! XON and XOFF: flow control of streams on circuits with congestion control, in place of the stream window.
//!
//! The end that delivers a stream to an application or server sends XOFF when too much waits for delivery and XON, with the
//! rate at which it has been draining, when nothing waits any more. The end that reads the stream obeys.
//!
//! Source: tor 0.4.9 `core/or/congestion_control_flow.c`; proposal 324, section 4.

use onionlab_quantities::{Bandwidth, Bytes, SimDuration, SimTime};

/// How long an edge may be over its limit before XOFF is sent.
pub const XOFF_GRACE: SimDuration = SimDuration::from_millis(5);
/// Bytes of a cell, in the units of the limits and of the rate (`RELAY_PAYLOAD_SIZE_MIN`, `RELAY_PAYLOAD_SIZE_MAX`).
const LIMIT_CELL: u64 = 488;
const RATE_CELL: u64 = 498;
/// More than this many bytes in an edge's outbuf are taken for a queue: 32 cells.
const EXPECTED_BURST: u64 = 32 * LIMIT_CELL;

/// The settings of one end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XonXoffParameters {
    /// XOFF is sent when more than this waits for delivery. Consensus: `cc_xoff_client`, `cc_xoff_exit`, in cells of 488 bytes; 500.
    pub xoff_limit: Bytes,
    /// The drain rate is measured over this many bytes. Consensus: `cc_xon_rate`, in cells of 498 bytes; 500.
    pub xon_rate_bytes: Bytes,
    /// A changed rate is announced when it moved by more than this percentage. Consensus: `cc_xon_change_pct`; 25.
    pub xon_change_percent: u32,
    /// How many measurements the smoothed rate spans. Consensus: `cc_xon_ewma_cnt`; 2.
    pub xon_ewma_count: u32,
}

/// The consensus parameters: name, default, least and greatest value.
pub const XON_XOFF_TABLE: [(&str, i32, i32, i32); 5] = [
    ("cc_xoff_client", 500, 1, 10_000),
    ("cc_xoff_exit", 500, 1, 10_000),
    ("cc_xon_rate", 500, 1, 5_000),
    ("cc_xon_change_pct", 25, 1, 99),
    ("cc_xon_ewma_cnt", 2, 2, 100),
];

impl XonXoffParameters {
    /// The values of tor 0.4.9, where the consensus says nothing.
    pub fn new() -> Self {
        Self::from_consensus(true, |_| None)
    }

    /// The values of a consensus for the end at the client (or onion service) or at the exit. As in tor, a value outside its
    /// range becomes the nearest one inside.
    pub fn from_consensus(client: bool, lookup: impl Fn(&str) -> Option<i32>) -> Self {
        let [xoff_client, xoff_exit, xon_rate, change, count] =
            XON_XOFF_TABLE.map(|(name, default, low, high)| lookup(name).unwrap_or(default).clamp(low, high) as u32);
        let limit = if client { xoff_client } else { xoff_exit };
        Self {
            xoff_limit: Bytes::new(u64::from(limit) * LIMIT_CELL),
            xon_rate_bytes: Bytes::new(u64::from(xon_rate) * RATE_CELL),
            xon_change_percent: change,
            xon_ewma_count: count,
        }
    }
}

impl Default for XonXoffParameters {
    fn default() -> Self {
        Self::new()
    }
}

/// What the delivering end sends to the reading end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// Stop reading.
    Xoff,
    /// Read, at this rate in kB/s; 0 is without limit.
    Xon {
        /// The smoothed drain rate in kB/s.
        kilobytes_per_second: u32,
    },
}

/// The end of a stream that delivers to an application or server.
#[derive(Debug, Clone, Default)]
pub struct DeliveringEdge {
    xoff_sent: bool,
    grace_start: Option<SimTime>,
    /// Since when bytes have been waiting, for the measurement under way.
    drain_start: Option<SimTime>,
    /// Bytes written since then, or, if nothing waits, since the last reset.
    drained: u64,
    /// Bytes of the measurement before; 0 before the first.
    previous_drained: u64,
    /// Smoothed rate in kB/s; 0 before the first measurement and after XOFF.
    rate: u64,
    /// The rate in the last XON; 0 if none was sent or it had no limit.
    rate_sent: u64,
}

impl DeliveringEdge {
    /// A stream that has delivered nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// A DATA cell arrived at the edge, whose outbuf holds `waiting` without it: advice to send, in this order.
    pub fn data_arrived(&mut self, now: SimTime, waiting: Bytes, parameters: &XonXoffParameters) -> [Option<Advice>; 2] {
        let mut xoff = None;
        if waiting > parameters.xoff_limit {
            if !self.xoff_sent {
                let start = *self.grace_start.get_or_insert(now);
                if now.saturating_since(start) > XOFF_GRACE {
                    self.xoff_sent = true;
                    self.grace_start = None;
                    // The measured rate was wrong if it came to this.
                    self.rate = 0;
                    xoff = Some(Advice::Xoff);
                }
            }
        } else {
            self.grace_start = None;
        }
        // Writes only happen when the socket takes them: look at a long queue now.
        let xon = if waiting.get() > EXPECTED_BURST { self.consider_xon(now, 0, waiting, parameters) } else { None };
        [xoff, xon]
    }

    /// `written` bytes went to the socket and `waiting` are left in the outbuf: advice to send.
    pub fn drained(&mut self, now: SimTime, written: Bytes, waiting: Bytes, parameters: &XonXoffParameters) -> Option<Advice> {
        self.consider_xon(now, written.get(), waiting, parameters)
    }

    /// Whether a measurement of how fast its program or server takes data is under way.
    pub const fn is_measuring(&self) -> bool {
        self.drain_start.is_some()
    }

    fn consider_xon(&mut self, now: SimTime, written: u64, waiting: Bytes, p: &XonXoffParameters) -> Option<Advice> {
        self.drained += written;
        if self.drain_start.is_none() && waiting > Bytes::ZERO {
            self.drain_start = Some(now);
            self.drained = 0;
        }
        if let Some(start) = self.drain_start
            && self.drained > p.xon_rate_bytes.get()
        {
            self.measure(now.saturating_since(start), p);
        }
        let advice = if self.xoff_sent { waiting == Bytes::ZERO } else { self.rate_moved(p) };
        if advice {
            self.xoff_sent = false;
            self.rate_sent = self.rate;
        }
        // Sent before the rate is doubled below: the advice carries the rate of this moment.
        let sent = advice.then_some(Advice::Xon { kilobytes_per_second: self.rate as u32 });
        if waiting == Bytes::ZERO {
            self.drain_start = None;
            if self.drained >= p.xon_rate_bytes.get() && self.rate_sent > 0 {
                self.rate = (2 * self.rate).min(i32::MAX as u64);
                self.previous_drained = self.drained;
                self.drained = 0;
            }
        }
        sent
    }

    /// Takes the measurement that is complete into the smoothed rate: the bytes of the one before over the time of this one.
    fn measure(&mut self, elapsed: SimDuration, p: &XonXoffParameters) {
        if self.previous_drained == 0 {
            self.previous_drained = self.drained;
        }
        let rate = compute_drain_rate(self.previous_drained, elapsed);
        self.previous_drained = self.drained;
        if rate > 0 {
            let n = u64::from(p.xon_ewma_count);
            self.rate = if self.rate == 0 { rate } else { (2 * rate + (n - 1) * self.rate) / (n + 1) };
            self.drained = 0;
            self.drain_start = None;
        }
    }

    fn rate_moved(&self, p: &XonXoffParameters) -> bool {
        let (change, sent) = (u64::from(p.xon_change_percent), self.rate_sent);
        sent > 0 && (self.rate > (100 + change) * sent / 100 || self.rate < (100 - change) * sent / 100)
    }
}

/// `compute_drain_rate`: kB/s, at least 1, at most what a signed 32-bit number holds; 0 if no time passed.
fn compute_drain_rate(drained: u64, elapsed: SimDuration) -> u64 {
    const MOST: u64 = i32::MAX as u64;
    match elapsed.as_micros() {
        0 => 0,
        _ if drained > MOST / 1_000 => MOST,
        micros => (drained * 1_000 / micros).max(1),
    }
}

/// The end of a stream that reads from an application or server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadingEdge {
    stopped: bool,
    rate: Bandwidth,
}

impl Default for ReadingEdge {
    fn default() -> Self {
        Self::new()
    }
}

impl ReadingEdge {
    /// A stream that may be read without limit.
    pub const fn new() -> Self {
        Self { stopped: false, rate: Bandwidth::UNLIMITED }
    }

    /// Whether the stream may be read.
    pub const fn may_read(&self) -> bool {
        !self.stopped
    }

    /// Rate, and burst of one second, of the stream's read bucket.
    pub const fn rate(&self) -> Bandwidth {
        self.rate
    }

    /// Advice from the other end arrived.
    pub const fn advised(&mut self, advice: Advice) {
        match advice {
            Advice::Xoff => self.stopped = true,
            Advice::Xon { kilobytes_per_second } => {
                self.stopped = false;
                // tor's buckets are signed 32-bit: what does not fit is no limit.
                let bytes = kilobytes_per_second as u64 * 1_000;
                self.rate = if bytes == 0 || bytes > i32::MAX as u64 {
                    Bandwidth::UNLIMITED
                } else {
                    Bandwidth::from_bytes_per_sec(bytes)
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(millis: u64) -> SimTime {
        SimTime::ZERO + SimDuration::from_millis(millis)
    }

    const P: XonXoffParameters = XonXoffParameters {
        xoff_limit: Bytes::new(244_000),
        xon_rate_bytes: Bytes::new(249_000),
        xon_change_percent: 25,
        xon_ewma_count: 2,
    };

    #[test]
    fn the_defaults_are_tors() {
        assert_eq!(XonXoffParameters::new(), P);
        let lookup = |name: &str| if name == "cc_xoff_exit" { Some(20_000) } else { None };
        assert_eq!(XonXoffParameters::from_consensus(true, lookup), P);
        assert_eq!(XonXoffParameters::from_consensus(false, lookup).xoff_limit, Bytes::new(4_880_000));
    }

    #[test]
    fn xoff_comes_after_five_milliseconds_over_the_limit() {
        let mut edge = DeliveringEdge::new();
        let over = Bytes::new(244_001);
        assert_eq!(edge.data_arrived(at(0), over, &P), [None, None]);
        assert_eq!(edge.data_arrived(at(5), over, &P), [None, None]);
        // A moment below the limit starts the wait anew.
        assert_eq!(edge.data_arrived(at(6), Bytes::new(244_000), &P), [None, None]);
        assert_eq!(edge.data_arrived(at(7), over, &P), [None, None]);
        assert_eq!(edge.data_arrived(at(12), over, &P), [None, None]);
        assert_eq!(edge.data_arrived(at(13), over, &P), [Some(Advice::Xoff), None]);
        assert_eq!(edge.data_arrived(at(30), over, &P), [None, None]);
        // XON only when nothing is left, and without a rate, since none was measured.
        assert_eq!(edge.drained(at(40), Bytes::new(244_000), Bytes::new(1), &P), None);
        assert_eq!(edge.drained(at(41), Bytes::new(1), Bytes::ZERO, &P), Some(Advice::Xon { kilobytes_per_second: 0 }));
        assert!(!edge.xoff_sent);
    }

    /// An edge that drains 1 MB/s and is never empty but at the end: the XON carries that rate.
    #[test]
    fn xon_carries_the_drain_rate() {
        let mut edge = DeliveringEdge::new();
        let mut now = 0;
        let full = Bytes::new(300_000);
        while edge.data_arrived(at(now), full, &P)[0].is_none() {
            now += 1;
        }
        for _ in 0..1_000 {
            now += 1;
            assert_eq!(edge.drained(at(now), Bytes::new(1_000), full, &P), None);
        }
        let xon = edge.drained(at(now + 1), Bytes::new(1_000), Bytes::ZERO, &P);
        let Some(Advice::Xon { kilobytes_per_second }) = xon else { panic!("{xon:?}") };
        assert!((980..=1_020).contains(&kilobytes_per_second), "{kilobytes_per_second}");
        // The drain slows to a quarter: an update without XOFF, after at most two measurements of 249 kB.
        let mut update = None;
        for _ in 0..2_500 {
            now += 1;
            update = update.or(edge.drained(at(now), Bytes::new(250), Bytes::new(200_000), &P));
        }
        let Some(Advice::Xon { kilobytes_per_second: slower }) = update else { panic!("no update") };
        assert!(slower < kilobytes_per_second * 3 / 4, "{slower}");
    }

    #[test]
    fn a_stream_without_a_queue_earns_twice_the_rate() {
        let mut edge = DeliveringEdge { rate: 1_000, rate_sent: 1_000, ..DeliveringEdge::new() };
        assert_eq!(edge.drained(at(1), Bytes::new(249_000), Bytes::ZERO, &P), None);
        // The doubled rate is announced with the next look.
        let advice = edge.drained(at(2), Bytes::new(1), Bytes::ZERO, &P);
        assert_eq!(advice, Some(Advice::Xon { kilobytes_per_second: 2_000 }));
    }

    /// Nothing that was never announced is doubled, and 2.2 MB in one measurement are beyond what tor's 32 bits hold.
    #[test]
    fn rates_stay_within_what_tor_can_say() {
        let mut edge = DeliveringEdge { rate: 1_000, ..DeliveringEdge::new() };
        assert_eq!(edge.drained(at(1), Bytes::new(249_000), Bytes::ZERO, &P), None);
        assert_eq!(edge.rate, 1_000);
        assert_eq!(compute_drain_rate(249_001, SimDuration::from_secs(1_000)), 1);
        assert_eq!(compute_drain_rate(249_001, SimDuration::from_secs(1)), 249);
        assert_eq!(compute_drain_rate(2_200_000, SimDuration::from_secs(1)), i32::MAX as u64);
        assert_eq!(compute_drain_rate(249_001, SimDuration::ZERO), 0);
    }

    #[test]
    fn the_reading_edge_obeys() {
        let mut edge = ReadingEdge::new();
        edge.advised(Advice::Xoff);
        assert!(!edge.may_read());
        edge.advised(Advice::Xon { kilobytes_per_second: 250 });
        assert_eq!((edge.may_read(), edge.rate()), (true, Bandwidth::from_bytes_per_sec(250_000)));
        for unlimited in [0, 3_000_000] {
            edge.advised(Advice::Xon { kilobytes_per_second: unlimited });
            assert_eq!(edge.rate(), Bandwidth::UNLIMITED);
        }
    }

    proptest! {
        /// XOFF and XON alternate as far as the reader can tell, and an empty queue never leaves it stopped.
        #[test]
        fn an_empty_queue_never_leaves_the_reader_stopped(steps in prop::collection::vec((any::<bool>(), 0_u64..200_000, 0_u64..20), 1..300)) {
            let mut edge = DeliveringEdge::new();
            let mut reader = ReadingEdge::new();
            let (mut waiting, mut now) = (0_u64, 0);
            for (arrives, bytes, wait) in steps {
                now += wait;
                if arrives {
                    waiting += bytes;
                    for advice in edge.data_arrived(at(now), Bytes::new(waiting), &P).into_iter().flatten() {
                        prop_assert!(advice != Advice::Xoff || reader.may_read());
                        reader.advised(advice);
                    }
                } else {
                    let written = bytes.min(waiting);
                    waiting -= written;
                    if let Some(advice) = edge.drained(at(now), Bytes::new(written), Bytes::new(waiting), &P) {
                        reader.advised(advice);
                    }
                    prop_assert!(waiting > 0 || reader.may_read());
                }
                prop_assert_eq!(reader.may_read(), !edge.xoff_sent);
            }
        }
    }
}
