//! Rates of data.

use crate::data::Bytes;
use crate::parse::{Kind, textual};
use crate::time::SimDuration;

const BANDWIDTH: Kind = Kind {
    wanted: "a bandwidth",
    example: "\"1.5 Mbit/s\" (units: bit/s, kbit/s, Mbit/s, Gbit/s, B/s, kB/s, MB/s, KiB/s, MiB/s)",
    printed: 4,
    composed: false,
    units: &[
        ("bit/s", 1.0),
        ("kbit/s", 1e3),
        ("Mbit/s", 1e6),
        ("Gbit/s", 1e9),
        ("B/s", 8.0),
        ("kB/s", 8e3),
        ("MB/s", 8e6),
        ("KiB/s", 8192.0),
        ("MiB/s", 8_388_608.0),
    ],
};

/// A rate of data in bits per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bandwidth(u64);

textual!(Bandwidth, BANDWIDTH);

impl Bandwidth {
    /// So fast that a transmission takes no time: 2^63 bit/s stands for "no limit".
    pub const UNLIMITED: Self = Self(1 << 63);

    /// `bits` bits per second.
    pub const fn from_bits_per_sec(bits: u64) -> Self {
        Self(bits)
    }
    /// `bytes` bytes per second.
    pub const fn from_bytes_per_sec(bytes: u64) -> Self {
        Self(bytes * 8)
    }
    /// Bits per second.
    pub const fn as_bits_per_sec(self) -> u64 {
        self.0
    }
    /// Bytes per second, rounded down.
    pub const fn as_bytes_per_sec(self) -> u64 {
        self.0 / 8
    }
    /// How long `bytes` take at this rate, rounded up to a nanosecond.
    ///
    /// A rate of zero never finishes: the longest interval.
    pub fn transmission_time(self, bytes: Bytes) -> SimDuration {
        if self.0 == 0 {
            return SimDuration::from_nanos(u64::MAX / 4);
        }
        let bits_nanos = u128::from(bytes.get()) * 8_000_000_000;
        SimDuration::from_nanos(u64::try_from(bits_nanos.div_ceil(u128::from(self.0))).unwrap_or(u64::MAX / 4))
    }
    /// How many whole bytes pass in `interval`, rounded down.
    pub fn bytes_in(self, interval: SimDuration) -> Bytes {
        let bits_nanos = u128::from(self.0) * u128::from(interval.as_nanos());
        Bytes::new(u64::try_from(bits_nanos / 8_000_000_000).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_segment_at_ten_megabits() {
        let rate: Bandwidth = "10 Mbit/s".parse().unwrap();
        assert_eq!(rate.transmission_time(Bytes::new(1500)), SimDuration::from_micros(1200));
        assert_eq!(rate.bytes_in(SimDuration::from_millis(1)), Bytes::new(1250));
        assert_eq!(rate.to_string(), "10 Mbit/s");
        assert_eq!("1.5 Mbit/s".parse::<Bandwidth>().unwrap().to_string(), "1.5 Mbit/s");
        assert!("-3 Mbit/s".parse::<Bandwidth>().is_err());
    }

    #[test]
    fn without_a_limit_nothing_takes_time_worth_the_name() {
        assert!(Bandwidth::UNLIMITED.transmission_time(Bytes::new(1500)) <= SimDuration::from_nanos(1));
    }
}
