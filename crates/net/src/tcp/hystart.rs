//! HyStart (Ha and Rhee 2011) as in Linux's CUBIC: slow start ends before the queue overflows.
//!
//! Two signs, either is enough, from 16 segments of window on: the acknowledgements of one round form a train (gaps of at most 2 ms)
//! longer than half the least round trip (plus half a millisecond); or the least of at least eight round trips of this round exceeds the least ever by an
//! eighth of it, within 4 to 16 ms.

use onionlab_quantities::{SimDuration, SimTime};

const LOW_WINDOW: u32 = 16;
const TRAIN_GAP: SimDuration = SimDuration::from_millis(2);
/// Linux allows for bursts of segmentation offload: up to a millisecond.
const BURST_ALLOWANCE: SimDuration = SimDuration::from_millis(1);
const MIN_SAMPLES: u8 = 8;
const DELAY_FLOOR: SimDuration = SimDuration::from_millis(4);
const DELAY_CEILING: SimDuration = SimDuration::from_millis(16);

/// What is known of the current round of slow start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Round {
    started: SimTime,
    last_ack: SimTime,
    /// The round ends when this sequence number is acknowledged.
    end: u64,
    least: SimDuration,
    samples: u8,
}

impl Round {
    pub(super) const fn new() -> Self {
        Self { started: SimTime::ZERO, last_ack: SimTime::ZERO, end: 0, least: SimDuration::ZERO, samples: 0 }
    }

    /// Takes an acknowledgement with its round trip; true if slow start should end here.
    ///
    /// `una` and `next`: lowest unacknowledged and next sequence number; `delay_min`: the least round trip ever.
    pub(super) fn on_ack(
        &mut self,
        now: SimTime,
        rtt: SimDuration,
        delay_min: SimDuration,
        cwnd: u32,
        una: u64,
        next: u64,
    ) -> bool {
        if una > self.end {
            *self = Self { started: now, last_ack: now, end: next, least: rtt, samples: 0 };
        }
        if cwnd < LOW_WINDOW {
            return false;
        }
        if now.saturating_since(self.last_ack) <= TRAIN_GAP {
            self.last_ack = now;
            if now.saturating_since(self.started) > (delay_min + BURST_ALLOWANCE) / 2 {
                return true;
            }
        }
        self.least = self.least.min(rtt);
        if self.samples < MIN_SAMPLES {
            self.samples += 1;
            return false;
        }
        self.least > delay_min + (delay_min / 8).clamp(DELAY_FLOOR, DELAY_CEILING)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(rtt_of: impl Fn(u64) -> u64, gap_micros: u64) -> Option<u64> {
        let mut round = Round::new();
        let delay_min = SimDuration::from_millis(100);
        (0..100_u64).find(|&i| {
            let now = SimTime::from_nanos(1_000_000_000 + i * gap_micros * 1000);
            round.on_ack(now, SimDuration::from_micros(rtt_of(i)), delay_min, 32, 1 + i, 1_000_000)
        })
    }

    #[test]
    fn delay_growth_ends_slow_start_after_eight_samples() {
        assert_eq!(run(|_| 113_000, 5000), Some(8));
        assert_eq!(run(|_| 112_000, 5000), None);
    }

    /// A round begins with its first acknowledgement also while the window is too small to end slow start; then its train is not one any more, and the next
    /// round's is the first that counts.
    #[test]
    fn a_round_begins_below_the_least_window() {
        let mut round = Round::new();
        let delay_min = SimDuration::from_millis(100);
        let ended = (0..200_u64).find(|&i| {
            let now = SimTime::from_nanos(1_000_000_000 + i * 1_500_000);
            round.on_ack(now, delay_min, delay_min, if i < 20 { 10 } else { 32 }, 1 + i, if i < 100 { 100 } else { 1000 })
        });
        assert_eq!(ended, Some(100 + 34));
    }

    #[test]
    fn a_long_train_ends_slow_start() {
        // Half of 100 ms plus half a millisecond, in steps of 1.5 ms.
        assert_eq!(run(|_| 100_000, 1500), Some(34));
        // Gaps beyond 2 ms are no train.
        assert_eq!(run(|_| 100_000, 2500), None);
    }
}
