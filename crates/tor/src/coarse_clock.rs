//! The clock by which KIST's timer goes off and token buckets are filled.
//!
//! tor measures what has passed since a run with a fine clock (`monotime_get`), but its timers are libevent's, which by default reads the kernel's coarse clock
//! (`CLOCK_MONOTONIC_COARSE`). That one stands still between two ticks of the kernel, 4 ms at 250 Hz. A timer counts from what the coarse clock shows
//! when it is set; `epoll_wait` then waits, in whole milliseconds, for what is missing by that clock, and again until the clock has moved far enough.
//! The intervals of a real relay: `docs/results/kist-intervals.md`.

use onionlab_quantities::{SimDuration, SimTime};

/// A kernel's coarse clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CoarseClock {
    /// From one tick to the next, at least 1 ns.
    pub tick: SimDuration,
    /// When it ticked first; machines do not tick together.
    pub phase: SimDuration,
}

impl CoarseClock {
    /// What the clock shows, as time since its first tick but one.
    pub fn shows(self, now: SimTime) -> u64 {
        let tick = self.tick.as_nanos();
        (now.as_nanos() + tick - self.phase.as_nanos()) / tick * tick
    }

    /// When a timer goes off that is set at `now` to `after`, if nothing else wakes the process before.
    pub fn goes_off(self, now: SimTime, after: SimDuration) -> SimTime {
        let target = self.shows(now) + after.as_nanos();
        let mut at = now;
        while self.shows(at) < target {
            at += SimDuration::from_millis((target - self.shows(at)).div_ceil(1_000_000));
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: f64) -> SimDuration {
        SimDuration::from_secs_f64_rounded(millis / 1e3)
    }

    /// Ticks at 1, 5, 9, 13 ms. A timer of 1 ms that is set between two ticks is looked at each millisecond until the next tick has passed; one of 9 ms waits for the
    /// third tick after the one before it was set.
    #[test]
    fn a_timer_waits_for_the_tick_and_is_looked_at_in_whole_milliseconds() {
        let clock = CoarseClock { tick: ms(4.0), phase: ms(1.0) };
        for (set, after, off) in [
            (1.0, 1.0, 5.0),
            (1.3, 1.0, 5.3),
            (4.9, 1.0, 5.9),
            (2.5, 2.0, 6.5),
            (0.2, 1.0, 1.2),
            (1.0, 9.0, 13.0),
            (4.0, 9.0, 13.0),
        ] {
            let got = clock.goes_off(SimTime::ZERO + ms(set), ms(after));
            assert_eq!(got, SimTime::ZERO + ms(off), "set at {set} ms to {after} ms");
        }
    }
}
