//! Round-trip times and the retransmission time-out (RFC 6298, with Linux's refinements).
//!
//! Linux keeps the mean deviation's maximum over a round trip, lets the variance fall only once a round, and damps the deviation when a
//! sample is below the mean, so that a falling round trip does not raise the time-out. Its floor of 200 ms applies to the variance term:
//! the time-out is never below the smoothed round trip + 200 ms.

use super::config::TcpConfig;
use super::ticks::Ticks;
use onionlab_quantities::{SimDuration, SimTime};

/// Least variance term where the floor is that of the sum, in microseconds (RFC 6298's G; ns-3: `ClockGranularity`, 1 ms).
const GRANULARITY: u32 = 1000;
/// How long a minimum round trip is believed (`net.ipv4.tcp_min_rtt_wlen`).
const MIN_RTT_LIFE: SimDuration = SimDuration::from_secs(300);

/// Estimates in whole microseconds; all zero before the first sample.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rtt {
    /// Smoothed round trip, times 8.
    smoothed8: u32,
    /// Mean deviation, times 4.
    deviation4: u32,
    /// Greatest `deviation4` of the current round, never below the floor.
    round_max4: u32,
    /// The time-out's variance term (4 deviations).
    variance4: u32,
    /// Low bits of the sequence number whose acknowledgement ends the round.
    round_end: u32,
    min: u32,
    min_at: Ticks,
    /// Least of the second half of the minimum's life, which takes over when that ends; `u32::MAX` before.
    next_min: u32,
}

impl Rtt {
    pub(super) const fn new() -> Self {
        Self {
            smoothed8: 0,
            deviation4: 0,
            round_max4: 0,
            variance4: 0,
            round_end: 0,
            min: u32::MAX,
            min_at: Ticks::ZERO,
            next_min: u32::MAX,
        }
    }

    /// Takes a sample; `una` and `next` are the lowest unacknowledged and the next sequence number.
    pub(super) fn sample(&mut self, cfg: &TcpConfig, rtt: SimDuration, una: u64, next: u64) {
        let micros = (rtt.as_micros() as u32).clamp(1, 1 << 28);
        let floor = if cfg.min_rto_is_total { GRANULARITY } else { cfg.min_rto.as_micros() as u32 };
        if self.smoothed8 == 0 {
            self.smoothed8 = micros * 8;
            self.deviation4 = micros * 2;
            self.variance4 = self.deviation4.max(floor);
            self.round_max4 = self.variance4;
            self.round_end = next as u32;
            return;
        }
        let error = micros as i32 - (self.smoothed8 >> 3) as i32;
        self.smoothed8 = self.smoothed8.saturating_add_signed(error).max(8);
        let mut change = error.abs() - (self.deviation4 >> 2) as i32;
        if error < 0 && change > 0 {
            change >>= 3;
        }
        self.deviation4 = self.deviation4.saturating_add_signed(change);
        self.round_max4 = self.round_max4.max(self.deviation4);
        self.variance4 = self.variance4.max(self.round_max4);
        if (una as u32).wrapping_sub(self.round_end) as i32 > 0 {
            self.variance4 -= self.variance4.saturating_sub(self.round_max4) >> 2;
            self.round_end = next as u32;
            self.round_max4 = floor;
        }
    }

    /// Takes a sample by RFC 6298 without refinements, in whole milliseconds (Shadow 1.13: `_tcp_updateRTTEstimate`).
    pub(super) fn sample_plainly(&mut self, rtt: SimDuration) {
        let millis = (rtt.as_micros() / 1000).clamp(1, 1 << 18) as u32;
        let (mut smoothed, mut variance) = (self.smoothed8 / 8000, self.variance4 / 4000);
        if smoothed == 0 {
            (smoothed, variance) = (millis, millis / 2);
        } else {
            variance = 3 * variance / 4 + smoothed.abs_diff(millis) / 4;
            smoothed = 7 * smoothed / 8 + millis / 8;
        }
        self.smoothed8 = smoothed * 8000;
        self.variance4 = variance * 4000;
    }

    /// Whether a round trip is known.
    pub(super) const fn is_known(&self) -> bool {
        self.smoothed8 > 0
    }

    /// Nothing is known of round trips any more.
    pub(super) fn forget(&mut self) {
        self.smoothed8 = 0;
        self.variance4 = 0;
    }

    /// Notes a round trip of a segment that went once; one that a delayed acknowledgement may have stretched counts as a new minimum only.
    ///
    /// The minimum is that of the last five minutes (`tcp_update_rtt_min`). When its life ends, the least of the later half takes over, as of Linux's three samples the
    /// second does (`win_minmax.c`).
    pub(super) fn note_min(&mut self, now: SimTime, rtt: SimDuration, maybe_delayed: bool) {
        let micros = (rtt.as_micros() as u32).max(1);
        if micros <= self.min {
            (self.min, self.min_at, self.next_min) = (micros, Ticks::at(now), u32::MAX);
            return;
        }
        let age = self.min_at.until(now);
        if maybe_delayed || age <= MIN_RTT_LIFE / 2 {
            return;
        }
        self.next_min = self.next_min.min(micros);
        if age > MIN_RTT_LIFE {
            (self.min, self.min_at, self.next_min) = (self.next_min, self.min_at.later_by(MIN_RTT_LIFE / 2), u32::MAX);
            if self.min_at.until(now) > MIN_RTT_LIFE {
                self.min_at = Ticks::at(now);
            }
        }
    }

    pub(super) fn smoothed(&self) -> Option<SimDuration> {
        (self.smoothed8 > 0).then(|| SimDuration::from_nanos(u64::from(self.smoothed8) * 125))
    }
    pub(super) fn min(&self) -> Option<SimDuration> {
        (self.min != u32::MAX).then(|| SimDuration::from_micros(u64::from(self.min)))
    }
    /// The time-out without backing off.
    pub(super) fn timeout(&self, cfg: &TcpConfig) -> SimDuration {
        if self.smoothed8 == 0 {
            return cfg.initial_rto;
        }
        let timeout = SimDuration::from_micros(u64::from(self.smoothed8 >> 3) + u64::from(self.variance4));
        let least = if cfg.min_rto_is_total { cfg.min_rto } else { SimDuration::ZERO };
        timeout.max(least).min(cfg.max_rto)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fed(samples: impl Iterator<Item = u64>) -> Rtt {
        let mut rtt = Rtt::new();
        for (i, millis) in samples.enumerate() {
            rtt.sample(&TcpConfig::linux(), SimDuration::from_millis(millis), i as u64 * 10 + 11, i as u64 * 10 + 20);
        }
        rtt
    }

    #[test]
    fn a_steady_round_trip_gives_the_floor_above_it() {
        let rtt = fed((0..200).map(|_| 50));
        assert_eq!(rtt.smoothed(), Some(SimDuration::from_millis(50)));
        assert_eq!(rtt.timeout(&TcpConfig::linux()), SimDuration::from_millis(250));
    }

    /// Once five minutes old, a minimum gives way to the least of the later half of them, not to whatever comes next; what a delay may have stretched never takes over.
    #[test]
    fn a_minimum_that_is_too_old_gives_way_to_the_least_of_its_later_half() {
        let mut rtt = Rtt::new();
        let mut note = |second: u64, millis: u64, maybe_delayed: bool| {
            rtt.note_min(SimTime::from_nanos(second * 1_000_000_000), SimDuration::from_millis(millis), maybe_delayed);
            rtt.min().unwrap().as_micros() / 1000
        };
        assert_eq!([note(0, 50, false), note(100, 51, false), note(200, 60, false), note(250, 90, false)], [50; 4]);
        assert_eq!(note(301, 55, true), 50);
        assert_eq!(note(302, 400, false), 60);
        assert_eq!([note(303, 58, false), note(304, 400, false)], [58; 2]);
        // After a long silence nothing else is known.
        assert_eq!(note(2000, 300, false), 300);
    }

    /// RFC 6298 (2.2): the first sample R gives R + 4 R/2.
    #[test]
    fn the_first_sample_trebles() {
        assert_eq!(fed([300].into_iter()).timeout(&TcpConfig::linux()), SimDuration::from_millis(900));
    }

    /// RFC 6298 (2.4): the sum is rounded up to the floor, and stays what it is above.
    #[test]
    fn a_floor_of_the_whole_does_not_add_to_the_round_trip() {
        let cfg = TcpConfig::nstor();
        let timeout = |millis: u64| {
            let mut rtt = Rtt::new();
            for i in 0..200 {
                rtt.sample(&cfg, SimDuration::from_millis(millis), i * 10 + 11, i * 10 + 20);
            }
            rtt.timeout(&cfg)
        };
        assert_eq!(timeout(80), SimDuration::from_secs(1));
        assert_eq!(timeout(1500).as_micros() / 10, 150_100);
    }

    #[test]
    fn a_falling_round_trip_does_not_raise_the_timeout() {
        let steady = fed((0..100).map(|_| 400)).timeout(&TcpConfig::linux());
        let fallen = fed((0..101).map(|i| if i < 100 { 400 } else { 100 })).timeout(&TcpConfig::linux());
        assert!(fallen <= steady, "{fallen} {steady}");
    }

    #[test]
    fn a_varying_round_trip_raises_it_above_the_floor() {
        let rtt = fed((0..400).map(|i| if i % 2 == 0 { 100 } else { 500 }));
        assert!(rtt.timeout(&TcpConfig::linux()) > SimDuration::from_millis(900));
    }
}
