//! When a circuit last had its turn: an instant fine enough that turns within one instant stay in order.

use onionlab_quantities::SimTime;
use std::cmp::Ordering;

/// The instant of a circuit's last turn in whole microseconds, then the number of turns it has had in that microsecond.
///
/// A scheduler run happens at one instant, and in it many cells are sent. Compared by the instant alone, all circuits
/// served in the run would tie and a heap of channels would serve some of them only. With the count of turns, the circuit
/// that was served fewest times in this run is the one that has waited longest. Counts saturate at 4095 in a microsecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Turn(u64);

const COUNT_BITS: u32 = 12;
const MAX_COUNT: u64 = (1 << COUNT_BITS) - 1;

impl Turn {
    /// The first turn at `now`.
    pub const fn at(now: SimTime) -> Self {
        Self(now.as_micros() << COUNT_BITS)
    }

    /// The turn after this one, had at `now`.
    #[must_use]
    pub const fn next(self, now: SimTime) -> Self {
        let first = Self::at(now);
        if self.0 < first.0 {
            first
        } else if self.0 & MAX_COUNT == MAX_COUNT {
            self
        } else {
            Self(self.0 + 1)
        }
    }

    /// Whole microseconds from this turn to `now`, both rounded down to a microsecond first, as in tor's cached
    /// `struct timeval`; zero if `now` is earlier.
    pub const fn micros_until(self, now: SimTime) -> u64 {
        now.as_micros().saturating_sub(self.0 >> COUNT_BITS)
    }
}

/// The earlier turn first, and any turn before none.
pub(crate) fn earlier_first(one: Option<Turn>, two: Option<Turn>) -> Ordering {
    match (one, two) {
        (Some(one), Some(two)) => one.cmp(&two),
        _ => two.is_some().cmp(&one.is_some()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_at_one_instant_are_in_order_and_as_old_as_each_other() {
        let (now, later) = (SimTime::from_nanos(5_999), SimTime::from_nanos(9_001));
        let first = Turn::at(now);
        let second = first.next(now);
        assert!(first < second && second < second.next(later));
        assert_eq!(second.next(later), Turn::at(later));
        assert_eq!((first.micros_until(later), second.micros_until(later)), (4, 4));
        assert_eq!(Turn::at(later).micros_until(now), 0);
        let many = (0..5000).fold(first, |turn, _| turn.next(now));
        assert!(many < Turn::at(SimTime::from_nanos(6_000)));
    }
}
