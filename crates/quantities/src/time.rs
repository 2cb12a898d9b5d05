//! Instants and intervals of simulated time, in whole nanoseconds.

use crate::parse::{Kind, textual};
use std::ops::{Add, AddAssign, Div, Mul, Sub};

const DURATION: Kind = Kind {
    wanted: "a duration",
    example: "\"20 ms\" or \"2 h 30 min\" (units: ns, us, ms, s, min, h, d)",
    printed: 7,
    composed: true,
    units: &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 60e9), ("h", 3600e9), ("d", 86400e9)],
};

/// An instant: nanoseconds since the start of the simulation.
///
/// Integer, so that the order of events never depends on rounding (`docs/architecture.md`, rule 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SimTime(u64);

/// An interval of simulated time in nanoseconds; never negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SimDuration(pub(crate) u64);

textual!(SimDuration, DURATION);

impl SimTime {
    /// The start of the simulation.
    pub const ZERO: Self = Self(0);
    /// Later than every event; "never".
    pub const MAX: Self = Self(u64::MAX);

    /// The instant `nanos` nanoseconds after the start.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }
    /// Nanoseconds since the start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
    /// Whole microseconds since the start, rounded down.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }
    /// Seconds since the start.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// The interval from `earlier` to this instant; zero if `earlier` is later.
    pub const fn saturating_since(self, earlier: Self) -> SimDuration {
        SimDuration(self.0.saturating_sub(earlier.0))
    }
    /// This instant plus `interval`, or [`Self::MAX`] where that would overflow.
    pub const fn saturating_add(self, interval: SimDuration) -> Self {
        Self(self.0.saturating_add(interval.0))
    }
}

impl SimDuration {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// `nanos` nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }
    /// `micros` microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros * 1_000)
    }
    /// `millis` milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }
    /// `secs` seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs * 1_000_000_000)
    }
    /// `secs` seconds rounded to the nearest nanosecond; negative and undefined values become zero.
    pub fn from_secs_f64_rounded(secs: f64) -> Self {
        Self(libm::round(secs * 1e9) as u64)
    }
    /// Nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
    /// Whole microseconds, rounded down.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }
    /// Seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// The difference to a shorter interval; zero if it is longer.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
    /// This interval times a factor, rounded to the nearest nanosecond.
    pub fn mul_f64_rounded(self, factor: f64) -> Self {
        Self(libm::round(self.0 as f64 * factor) as u64)
    }
}

impl Add<SimDuration> for SimTime {
    type Output = Self;
    fn add(self, interval: SimDuration) -> Self {
        Self(self.0 + interval.0)
    }
}
impl AddAssign<SimDuration> for SimTime {
    fn add_assign(&mut self, interval: SimDuration) {
        self.0 += interval.0;
    }
}
/// Panics in debug builds if the right instant is later: use [`SimTime::saturating_since`] where that can be.
impl Sub for SimTime {
    type Output = SimDuration;
    fn sub(self, earlier: Self) -> SimDuration {
        SimDuration(self.0 - earlier.0)
    }
}
impl Add for SimDuration {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}
impl AddAssign for SimDuration {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}
impl Sub for SimDuration {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}
impl Mul<u64> for SimDuration {
    type Output = Self;
    fn mul(self, factor: u64) -> Self {
        Self(self.0 * factor)
    }
}
impl Div<u64> for SimDuration {
    type Output = Self;
    fn div(self, divisor: u64) -> Self {
        Self(self.0 / divisor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_and_print_what_people_write() {
        for (text, nanos, printed) in [
            ("20 ms", 20_000_000, "20 ms"),
            ("1.5s", 1_500_000_000, "1.5 s"),
            ("10 min", 600_000_000_000, "600 s"),
            ("0", 0, "0 ns"),
            ("12.5 ms", 12_500_000, "12.5 ms"),
            ("2 h 30 min", 9_000_000_000_000, "2.5 h"),
            ("1min15s", 75_000_000_000, "75 s"),
        ] {
            let duration: SimDuration = text.parse().unwrap();
            assert_eq!(duration.as_nanos(), nanos, "{text}");
            assert_eq!(duration.to_string(), printed);
        }
    }

    #[test]
    fn nonsense_is_refused_with_what_is_allowed() {
        for text in ["", "ms", "20", "-x", "20 parsecs", "1e300 s", "1.2.3 s"] {
            let error = text.parse::<SimDuration>().unwrap_err().to_string();
            assert!(error.contains("20 ms"), "{error}");
        }
        for (text, reason) in [
            ("-1 s", "is below zero"),
            ("9999999999 d", "is too large for a duration"),
            ("6 S", "did you mean \"s\"?"),
            ("6 Min", "did you mean \"min\"?"),
        ] {
            let error = text.parse::<SimDuration>().unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
        // However many signs: each was a call within a call, which the stack does not hold.
        assert!("-".repeat(1_000_000).parse::<SimDuration>().is_err());
        for text in ["--1 s", "30 min 2 h", "1 s 1 s", "2 h 30", "0 5 s"] {
            let error = text.parse::<SimDuration>().unwrap_err().to_string();
            assert!(error.contains("20 ms"), "{error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn printing_and_reading_is_the_identity(nanos in 0_u64..4_000_000_000_000_000) {
            let duration = SimDuration::from_nanos(nanos);
            proptest::prop_assert_eq!(duration.to_string().parse::<SimDuration>().unwrap(), duration);
        }
    }
}
