//! The congestion window: slow start, Reno and CUBIC growth, and what happens to a window that is not used.
//!
//! Windows count segments, as in Linux and RFC 5681's "SMSS" reading; slow start counts each acknowledged segment (appropriate byte
//! counting, RFC 3465, without a limit, as Linux).

use super::config::{CongestionControl, TcpConfig};
use super::cubic::Cubic;
use super::hystart::Round;
use super::ticks::Ticks;
use onionlab_quantities::{SimDuration, SimTime};

/// "Infinite" threshold of a connection that has seen no loss (Linux: `TCP_INFINITE_SSTHRESH`).
pub(super) const NO_THRESHOLD: u32 = 0x7fff_ffff;

#[derive(Debug, Clone)]
pub(super) struct Congestion {
    /// Segments that may be in flight; at least 1.
    pub(super) cwnd: u32,
    /// Below it the window grows by slow start.
    pub(super) ssthresh: u32,
    /// Acknowledged segments towards the next increase.
    credit: u32,
    /// Most segments in flight since the window was last full.
    used: u32,
    /// When the window was last full or last adapted, or data was last acknowledged (Linux: `snd_cwnd_stamp`).
    used_at: Ticks,
    cubic: Cubic,
}

impl Congestion {
    pub(super) fn new(cfg: &TcpConfig) -> Self {
        Self {
            cwnd: cfg.initial_window.max(1),
            ssthresh: NO_THRESHOLD,
            credit: 0,
            used: 0,
            used_at: Ticks::ZERO,
            cubic: Cubic::new(),
        }
    }

    pub(super) fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Grows the window for `acked` segments that arrived while the sender was limited by the window.
    pub(super) fn grow(&mut self, cfg: &TcpConfig, now: SimTime, acked: u32) {
        if cfg.congestion_control == CongestionControl::Unlimited {
            self.cwnd = NO_THRESHOLD;
            return;
        }
        let mut acked = acked;
        if self.in_slow_start() {
            let grown = self.cwnd.saturating_add(acked).min(self.ssthresh);
            acked -= grown - self.cwnd;
            self.cwnd = grown;
            if acked == 0 {
                return;
            }
        }
        if cfg.plain_reno && cfg.congestion_control == CongestionControl::Reno {
            return self.grow_by_windows(acked);
        }
        let per_increase = match cfg.congestion_control {
            CongestionControl::Reno => self.cwnd,
            CongestionControl::Cubic => self.cubic.per_increase(now, self.cwnd, acked),
            CongestionControl::Unlimited => unreachable!("its window has no steps"),
        }
        .max(1);
        if self.credit >= per_increase {
            self.credit = 0;
            self.cwnd += 1;
        }
        self.credit += acked;
        if self.credit >= per_increase {
            self.cwnd += self.credit / per_increase;
            self.credit %= per_increase;
        }
    }

    /// Shadow's congestion avoidance: each increase takes a window's acknowledgements, of the window as it is by then (`ca_reno_cong_avoid_new_ack_ev_`), so that ten at once make
    /// five of one, where Linux would have eleven.
    fn grow_by_windows(&mut self, acked: u32) {
        self.credit += acked;
        while self.credit >= self.cwnd.max(1) {
            self.credit -= self.cwnd.max(1);
            self.cwnd += 1;
        }
    }

    /// Data was acknowledged outside of a reduction, whether the window grows by it or not: what is not used of it does not decay yet
    /// (Linux: `tcp_cong_avoid`).
    pub(super) fn on_progress(&mut self, now: SimTime) {
        self.used_at = Ticks::at(now);
    }

    /// Takes a round trip that the flow control's own reductions did not distort: HyStart may end slow start.
    pub(super) fn on_rtt(&mut self, cfg: &TcpConfig, now: SimTime, rtt: SimDuration, round: &mut Round, una: u64, next: u64) {
        if cfg.congestion_control != CongestionControl::Cubic || !self.cubic.note_delay(now, rtt) {
            return;
        }
        if cfg.hystart
            && self.in_slow_start()
            && !self.cubic.found
            && round.on_ack(now, rtt, self.cubic.delay_min(), self.cwnd, una, next)
        {
            self.cubic.found = true;
            self.ssthresh = self.cwnd;
        }
    }

    /// The threshold that a loss sets.
    pub(super) fn threshold_after_loss(&mut self, cfg: &TcpConfig) -> u32 {
        self.credit = 0;
        match cfg.congestion_control {
            CongestionControl::Reno => (self.cwnd / 2).max(2),
            CongestionControl::Cubic => self.cubic.after_loss(self.cwnd),
            CongestionControl::Unlimited => NO_THRESHOLD,
        }
    }

    /// A time-out: CUBIC forgets everything but that (Linux: `bictcp_reset`).
    pub(super) fn on_timeout(&mut self) {
        self.cubic = Cubic::new();
        self.credit = 0;
    }

    /// The threshold that remembers an unused window: three quarters of it.
    fn remembered_threshold(&self) -> u32 {
        self.ssthresh.max((self.cwnd >> 1) + (self.cwnd >> 2))
    }

    /// A write after `idle` with nothing in flight: halves the window once per time-out passed (RFC 2861; `tcp_cwnd_restart`).
    pub(super) fn restart_after_idle(&mut self, cfg: &TcpConfig, now: SimTime, idle: SimDuration, rto: SimDuration) {
        let floor = cfg.initial_window.min(self.cwnd).max(1);
        self.ssthresh = self.remembered_threshold();
        let mut left = idle;
        while self.cwnd > floor && left > rto {
            left = left - rto;
            self.cwnd >>= 1;
        }
        self.cwnd = self.cwnd.max(floor);
        self.used = 0;
        self.used_at = Ticks::at(now);
    }

    /// Sending begins after `idle` with nothing in flight.
    pub(super) fn resume(&mut self, idle: SimDuration, now: SimTime) {
        self.cubic.resume(idle, now);
    }

    /// After a segment left: decays a window that the application did not fill for a time-out (RFC 2861), in which nothing was acknowledged either.
    ///
    /// `limited`: the window is what limits the sender; `out`: segments in flight; `idle_ok`: an undisturbed connection with buffer free.
    pub(super) fn validate(&mut self, cfg: &TcpConfig, now: SimTime, limited: bool, out: u32, idle_ok: bool, rto: SimDuration) {
        if limited {
            self.used = 0;
            self.used_at = Ticks::at(now);
            return;
        }
        self.used = self.used.max(out);
        if cfg.slow_start_after_idle && self.used_at.until(now) >= rto {
            if idle_ok {
                let used = self.used.max(cfg.initial_window);
                if used < self.cwnd {
                    self.ssthresh = self.remembered_threshold();
                    self.cwnd = u32::midpoint(self.cwnd, used);
                }
                self.used = 0;
            }
            self.used_at = Ticks::at(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reno() -> TcpConfig {
        TcpConfig { congestion_control: CongestionControl::Reno, ..TcpConfig::linux() }
    }

    #[test]
    fn slow_start_doubles_and_reno_adds_one_a_round() {
        let cfg = reno();
        let mut window = Congestion::new(&cfg);
        for _ in 0..10 {
            window.grow(&cfg, SimTime::ZERO, 1);
        }
        assert_eq!(window.cwnd, 20);
        window.ssthresh = window.threshold_after_loss(&cfg);
        window.cwnd = window.ssthresh;
        assert_eq!(window.cwnd, 10);
        for _ in 0..10 {
            window.grow(&cfg, SimTime::ZERO, 1);
        }
        assert_eq!(window.cwnd, 11);
    }

    /// By hand: of ten acknowledged at a window of one, one makes it two, two three, three four and four five; at three, three make it four, four five, and three are left for the next.
    #[test]
    fn shadows_reno_asks_for_each_window_as_it_is_by_then() {
        let cfg = TcpConfig { plain_reno: true, ..reno() };
        for (before, after) in [(1, 5), (3, 5)] {
            let mut window = Congestion::new(&cfg);
            (window.cwnd, window.ssthresh) = (before, before);
            window.grow(&cfg, SimTime::ZERO, 10);
            assert_eq!(window.cwnd, after);
            window.grow(&cfg, SimTime::ZERO, after - window.credit);
            assert_eq!(window.cwnd, after + 1);
        }
    }

    #[test]
    fn idleness_halves_once_per_timeout_down_to_the_initial_window() {
        let cfg = reno();
        let rto = SimDuration::from_millis(300);
        for (idle_millis, wanted) in [(301, 50), (601, 25), (901, 12), (5000, 10)] {
            let mut window = Congestion::new(&cfg);
            window.cwnd = 100;
            window.restart_after_idle(&cfg, SimTime::ZERO, SimDuration::from_millis(idle_millis), rto);
            assert_eq!(window.cwnd, wanted, "{idle_millis}");
            assert!(window.ssthresh >= 75);
        }
    }

    #[test]
    fn an_unused_window_decays_towards_what_is_used() {
        let cfg = reno();
        let mut window = Congestion::new(&cfg);
        window.cwnd = 100;
        let rto = SimDuration::from_millis(300);
        window.validate(&cfg, SimTime::from_nanos(0), true, 100, true, rto);
        window.validate(&cfg, SimTime::from_nanos(200_000_000), false, 20, true, rto);
        assert_eq!(window.cwnd, 100);
        window.validate(&cfg, SimTime::from_nanos(301_000_000), false, 15, true, rto);
        assert_eq!(window.cwnd, 60);
        // Whatever is acknowledged meanwhile puts that off.
        window.on_progress(SimTime::from_nanos(500_000_000));
        window.validate(&cfg, SimTime::from_nanos(799_000_000), false, 15, true, rto);
        assert_eq!(window.cwnd, 60);
    }
}
