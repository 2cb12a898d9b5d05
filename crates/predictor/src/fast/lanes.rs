//! Four circuits at a time: plain arithmetic on four numbers, which the compiler turns into vector instructions.

use pulp::Arch;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub, SubAssign};

/// Circuits in a pack.
pub const WIDTH: usize = 4;

/// Does something with the widest vectors that this processor has: `work`, and all that is to be wide in it, has to be inlined.
///
/// The numbers are the same with all of them, for no sum is fused with a product.
#[inline(always)]
pub fn widest<T>(work: impl FnOnce() -> T) -> T {
    Arch::new().dispatch(work)
}

/// One number for each circuit of a pack.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(align(32))]
pub struct Lanes(pub [f64; WIDTH]);

impl Lanes {
    pub const ZERO: Self = Self([0.0; WIDTH]);
    pub const ONE: Self = Self([1.0; WIDTH]);

    #[inline(always)]
    pub const fn all(value: f64) -> Self {
        Self([value; WIDTH])
    }

    #[inline(always)]
    fn map(self, other: Self, with: impl Fn(f64, f64) -> f64) -> Self {
        let mut result = [0.0; WIDTH];
        for lane in 0..WIDTH {
            result[lane] = with(self.0[lane], other.0[lane]);
        }
        Self(result)
    }

    /// The larger of the two; `other` where one is no number, so that a `self` that is none is lost.
    #[inline(always)]
    pub fn max(self, other: Self) -> Self {
        self.map(other, |a, b| if a > b { a } else { b })
    }

    /// Zero where the value is no further from zero than `noise`.
    #[inline(always)]
    pub fn unless_within(self, noise: Self) -> Self {
        self.map(noise, |value, noise| if value.abs() <= noise { 0.0 } else { value })
    }

    #[inline(always)]
    pub fn abs(self) -> Self {
        Self(self.0.map(f64::abs))
    }

    #[inline(always)]
    pub fn sum(self) -> f64 {
        (self.0[0] + self.0[1]) + (self.0[2] + self.0[3])
    }

    #[inline(always)]
    pub fn largest(self) -> f64 {
        self.0.iter().copied().fold(f64::NEG_INFINITY, |a, b| if a > b { a } else { b })
    }
}

macro_rules! operator {
    ($trait:ident, $function:ident, $sign:tt) => {
        impl $trait for Lanes {
            type Output = Self;
            #[inline(always)]
            fn $function(self, other: Self) -> Self {
                self.map(other, |a, b| a $sign b)
            }
        }
    };
}

operator!(Add, add, +);
operator!(Sub, sub, -);
operator!(Mul, mul, *);
operator!(Div, div, /);

impl Neg for Lanes {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Self(self.0.map(|value| -value))
    }
}

impl AddAssign for Lanes {
    #[inline(always)]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Lanes {
    #[inline(always)]
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}
