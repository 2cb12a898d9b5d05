//! Instants in half the space, for what needs no better than a tenth of a millisecond.

use onionlab_quantities::{SimDuration, SimTime};

/// An instant in units of 2^16 ns (65.5 us), which wraps after 78 hours: intervals longer than that read short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Ticks(u32);

const SHIFT: u32 = 16;

impl Ticks {
    pub(super) const ZERO: Self = Self(0);

    pub(super) fn at(now: SimTime) -> Self {
        Self((now.as_nanos() >> SHIFT) as u32)
    }
    /// The interval from this instant to `now`, rounded to ticks.
    pub(super) fn until(self, now: SimTime) -> SimDuration {
        SimDuration::from_nanos(u64::from(Self::at(now).0.wrapping_sub(self.0)) << SHIFT)
    }
    /// This instant, `interval` later.
    pub(super) fn later_by(self, interval: SimDuration) -> Self {
        Self(self.0.wrapping_add((interval.as_nanos() >> SHIFT) as u32))
    }
}
