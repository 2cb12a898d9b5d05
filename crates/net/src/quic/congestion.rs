//! The congestion window (RFC 9002, section 7 and appendix B; RFC 9438), in bytes, and the pacer.

use super::config::{QuicConfig, QuicCongestion};
use crate::tcp::cubic::Cubic;
use onionlab_quantities::{SimDuration, SimTime};

/// The pacer's bucket in datagrams (RFC 9002, section 7.7: bursts up to the initial window).
const BURST: u64 = 10;

/// `kPersistentCongestionThreshold`.
pub(super) const PERSISTENT_THRESHOLD: u64 = 3;

#[derive(Debug, Clone)]
pub(super) struct Congestion {
    /// `congestion_window`
    pub(super) cwnd: u64,
    /// `ssthresh`; `u64::MAX` before the first loss.
    pub(super) ssthresh: u64,
    /// `bytes_in_flight`: of packets that ask for an acknowledgement or are padded.
    pub(super) in_flight: u64,
    /// `congestion_recovery_start_time`; `None` before the first loss.
    recovery_start: Option<SimTime>,
    /// Acknowledged bytes times a datagram's, not yet divided by the window.
    credit: u64,
    cubic: Option<Cubic>,
    /// Acknowledged bytes that make no whole datagram yet, for the Reno estimate of [`Cubic`], which counts datagrams.
    part: u64,
    /// Bytes that may leave at once, as of `refilled`.
    tokens: u64,
    refilled: SimTime,
    /// When the pacer's bucket, which was found empty, will be full: what waits leaves then without anything else happening.
    pub(super) paced_until: SimTime,
}

impl Congestion {
    pub(super) fn new(cfg: &QuicConfig) -> Self {
        Self {
            cwnd: cfg.initial_window_bytes(),
            ssthresh: u64::MAX,
            in_flight: 0,
            recovery_start: None,
            credit: 0,
            cubic: (cfg.congestion_control == QuicCongestion::Cubic).then(Cubic::new),
            part: 0,
            tokens: BURST * cfg.full(),
            refilled: SimTime::ZERO,
            paced_until: SimTime::ZERO,
        }
    }

    /// Whether a full datagram fits.
    pub(super) fn has_room(&self, cfg: &QuicConfig) -> bool {
        self.in_flight + cfg.full() <= self.cwnd
    }

    pub(super) fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// `InCongestionRecovery`
    pub(super) fn in_recovery(&self, sent: SimTime) -> bool {
        self.recovery_start.is_some_and(|start| sent <= start)
    }

    /// A packet that counts leaves; `smoothed`: the round trip, once measured.
    pub(super) fn on_sent(&mut self, cfg: &QuicConfig, now: SimTime, bytes: u64, smoothed: Option<SimDuration>) {
        self.in_flight += bytes;
        let (true, Some(smoothed)) = (cfg.pacing, smoothed) else { return };
        self.tokens = self.tokens_at(cfg, now, smoothed).saturating_sub(bytes);
        self.refilled = now;
        if self.tokens < cfg.full() {
            let [window, round] = self.pace(smoothed);
            let missing = u128::from(BURST * cfg.full() - self.tokens) * round / window;
            self.paced_until = now + SimDuration::from_nanos(u64::try_from(missing).unwrap_or(u64::MAX));
        }
    }

    /// The pacer fills its bucket with so many bytes in so many nanoseconds: 5/4 of a window in a round trip.
    fn pace(&self, smoothed: SimDuration) -> [u128; 2] {
        [u128::from(self.cwnd) * 5, u128::from(smoothed.as_nanos().max(1)) * 4]
    }

    /// What the pacer's bucket holds.
    fn tokens_at(&self, cfg: &QuicConfig, now: SimTime, smoothed: SimDuration) -> u64 {
        let [window, round] = self.pace(smoothed);
        let elapsed = u128::from(now.saturating_since(self.refilled).as_nanos());
        let gained = u64::try_from(window * elapsed / round).unwrap_or(u64::MAX);
        self.tokens.saturating_add(gained).min(BURST * cfg.full())
    }

    /// Whether the pacer lets a datagram pass. Its timer waits for a full bucket, so that not each datagram takes a timer; but what an acknowledgement or a
    /// write has looked at meanwhile leaves as soon as there are tokens for it (as in quinn).
    pub(super) fn lets_pass(&self, cfg: &QuicConfig, now: SimTime, smoothed: Option<SimDuration>) -> bool {
        now >= self.paced_until || smoothed.is_some_and(|smoothed| self.tokens_at(cfg, now, smoothed) >= cfg.full())
    }

    /// `IsAppOrFlowControlLimited`, as Chromium and quic-go tell: a window with room for more than three datagrams, in slow start one less than
    /// half full, is not used; but it is while the pacer holds back what would fill it (section 7.8). `waits`: there is something to send.
    pub(super) fn is_used(&self, cfg: &QuicConfig, now: SimTime, waits: bool) -> bool {
        let room = self.cwnd.saturating_sub(self.in_flight);
        let held_back = waits && now < self.paced_until;
        room <= 3 * cfg.full() || self.in_slow_start() && self.in_flight > self.cwnd / 2 || held_back
    }

    /// A packet that counts, sent at `sent`, is acknowledged (`OnPacketAcked`); `used`: the window was, when the acknowledgement came.
    pub(super) fn on_acked(&mut self, cfg: &QuicConfig, now: SimTime, sent: SimTime, bytes: u64, used: bool) {
        self.in_flight -= bytes;
        if !used || self.in_recovery(sent) {
            return;
        }
        let mut acked = bytes;
        if self.in_slow_start() {
            let grown = (self.cwnd + acked).min(self.ssthresh);
            acked -= grown - self.cwnd;
            self.cwnd = grown;
            if acked == 0 {
                return;
            }
        }
        // A datagram more for each `per_increase` bytes acknowledged, by the byte as in the RFC; what is left of the division counts next time.
        let per_increase = match &mut self.cubic {
            None => self.cwnd,
            Some(cubic) => {
                self.part += acked;
                let whole = self.part / cfg.full();
                self.part %= cfg.full();
                u64::from(cubic.per_increase(now, (self.cwnd / cfg.full()) as u32, whole as u32)) * cfg.full()
            }
        };
        self.credit += acked * cfg.full();
        self.cwnd += self.credit / per_increase;
        self.credit %= per_increase;
    }

    /// A round trip was measured.
    pub(super) fn on_rtt(&mut self, now: SimTime, rtt: SimDuration) {
        if let Some(cubic) = &mut self.cubic {
            cubic.note_delay(now, rtt);
        }
    }

    /// A packet that counts is lost or no longer to be acknowledged.
    pub(super) fn forget(&mut self, bytes: u64) {
        self.in_flight -= bytes;
    }

    /// `OnCongestionEvent` for a packet sent at `sent`; true if a recovery period begins.
    pub(super) fn on_loss(&mut self, cfg: &QuicConfig, now: SimTime, sent: SimTime) -> bool {
        if self.in_recovery(sent) {
            return false;
        }
        self.recovery_start = Some(now);
        self.credit = 0;
        self.ssthresh = match &mut self.cubic {
            None => self.cwnd / 2,
            Some(cubic) => u64::from(cubic.after_loss((self.cwnd / cfg.full()) as u32)) * cfg.full(),
        };
        self.cwnd = self.ssthresh.max(cfg.minimum_window());
        true
    }

    /// Persistent congestion (section 7.6.2).
    pub(super) fn on_persistent(&mut self, cfg: &QuicConfig) {
        self.cwnd = cfg.minimum_window();
        self.recovery_start = None;
        self.credit = 0;
        if let Some(cubic) = &mut self.cubic {
            *cubic = Cubic::new();
        }
    }

    /// Nothing was in flight for `idle`: the curve's clock stood still.
    pub(super) fn resume(&mut self, idle: SimDuration, now: SimTime) {
        if let Some(cubic) = &mut self.cubic {
            cubic.resume(idle, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND: SimDuration = SimDuration::from_millis(100);

    /// A window of so many datagrams, of which the pacer's bucket was emptied at time zero.
    fn emptied(cfg: &QuicConfig, datagrams: u64) -> Congestion {
        let mut congestion = Congestion::new(cfg);
        congestion.cwnd = datagrams * cfg.full();
        while congestion.lets_pass(cfg, SimTime::ZERO, Some(ROUND)) {
            congestion.on_sent(cfg, SimTime::ZERO, cfg.full(), Some(ROUND));
        }
        congestion
    }

    /// The first microsecond in which a datagram may leave.
    fn passes_at(congestion: &Congestion, cfg: &QuicConfig) -> u64 {
        (0..200_000).find(|&micros| congestion.lets_pass(cfg, SimTime::from_nanos(1000 * micros), Some(ROUND))).unwrap()
    }

    /// A window of 40 datagrams: one each 2 ms, so 20 ms for the bucket's ten. What is looked at meanwhile waits for one.
    #[test]
    fn a_datagram_leaves_when_there_are_tokens_for_it() {
        let cfg = QuicConfig::standard();
        let mut congestion = emptied(&cfg, 40);
        assert_eq!(congestion.in_flight, 10 * cfg.full());
        assert_eq!(congestion.paced_until, SimTime::from_nanos(20_000_000));
        assert_eq!(passes_at(&congestion, &cfg), 2_000);
        congestion.on_sent(&cfg, SimTime::from_nanos(2_000_000), cfg.full(), Some(ROUND));
        assert!(!congestion.lets_pass(&cfg, SimTime::from_nanos(3_999_000), Some(ROUND)));
        assert!(congestion.lets_pass(&cfg, SimTime::from_nanos(4_000_000), Some(ROUND)));
    }

    #[test]
    fn a_window_that_grows_during_a_pause_shortens_it() {
        let cfg = QuicConfig::standard();
        let mut congestion = emptied(&cfg, 40);
        congestion.cwnd *= 2;
        assert_eq!(passes_at(&congestion, &cfg), 1_000);
    }

    /// The bucket, and 5/4 of a window in each round trip: whoever always has something to send gets that and no more.
    #[test]
    fn the_pacer_gives_its_rate() {
        let cfg = QuicConfig::standard();
        for datagrams in [4, 13, 40, 300] {
            let mut congestion = emptied(&cfg, datagrams);
            let mut sent = 10;
            for micros in (0..1_000_000).step_by(50) {
                let now = SimTime::from_nanos(1000 * micros);
                while congestion.lets_pass(&cfg, now, Some(ROUND)) {
                    congestion.on_sent(&cfg, now, cfg.full(), Some(ROUND));
                    sent += 1;
                }
            }
            // Ten round trips.
            let most = 10 + datagrams * 10 * 5 / 4;
            assert!(sent <= most && sent >= most - 11, "{datagrams}: {sent} of {most}");
        }
    }

    /// The same bytes, acknowledged in packets of a cell or in full ones, give the same window: CUBIC's Reno estimate counts datagrams' worth.
    #[test]
    fn small_packets_do_not_count_as_full_ones() {
        let cfg = QuicConfig { congestion_control: QuicCongestion::Cubic, ..QuicConfig::standard() };
        let window = |packet: u64| {
            let mut congestion = Congestion::new(&cfg);
            congestion.cwnd = 20 * cfg.full();
            congestion.on_rtt(SimTime::ZERO, SimDuration::from_millis(100));
            congestion.on_loss(&cfg, SimTime::ZERO, SimTime::ZERO);
            for round in 1..=50 {
                let now = SimTime::from_nanos(round * 100_000_000);
                for _ in 0..20 * cfg.full() / packet {
                    congestion.in_flight = packet;
                    congestion.on_acked(&cfg, now, now, packet, true);
                }
            }
            congestion.cwnd
        };
        let (full, cells) = (window(cfg.full()), window(cfg.full() / 4));
        assert!(full > 30 * cfg.full(), "{full}");
        assert!(cells.abs_diff(full) < cfg.full() / 4, "{cells} {full}");
    }
}
