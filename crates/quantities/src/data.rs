//! Amounts of data.

use crate::parse::{Kind, textual};
use std::ops::{Add, AddAssign, Sub};

const BYTES: Kind = Kind {
    wanted: "an amount of data",
    example: "\"320 KiB\" (units: B, kB, KB, MB, GB, KiB, MiB, GiB)",
    printed: 7,
    composed: false,
    units: &[
        ("B", 1.0),
        ("kB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("KiB", 1024.0),
        ("MiB", 1_048_576.0),
        ("GiB", 1_073_741_824.0),
        ("KB", 1e3),
    ],
};

/// An amount of data in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(pub(crate) u64);

textual!(Bytes, BYTES);

/// A number of tor cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Cells(u64);

macro_rules! counted {
    ($type:ident, $get:ident) => {
        impl $type {
            /// Nothing.
            pub const ZERO: Self = Self(0);
            /// The amount `count`.
            pub const fn new(count: u64) -> Self {
                Self(count)
            }
            /// The amount as a number.
            pub const fn $get(self) -> u64 {
                self.0
            }
            /// The difference to a smaller amount; nothing if it is greater.
            pub const fn saturating_sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }
        }
        impl Add for $type {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }
        impl AddAssign for $type {
            fn add_assign(&mut self, other: Self) {
                self.0 += other.0;
            }
        }
        impl Sub for $type {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }
    };
}
counted!(Bytes, get);
counted!(Cells, get);

impl std::fmt::Display for Cells {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} cells", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_read_and_print_what_people_write() {
        for (text, count, printed) in
            [("320 KiB", 327_680, "320 KiB"), ("5 MB", 5_000_000, "5 MB"), ("50 kB", 50_000, "50 kB"), ("1 B", 1, "1 B")]
        {
            let bytes: Bytes = text.parse().unwrap();
            assert_eq!(bytes.get(), count);
            assert_eq!(bytes.to_string(), printed);
        }
        assert!("5 Mbit".parse::<Bytes>().is_err());
    }
}
