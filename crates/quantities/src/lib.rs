//! The quantities that cross crate boundaries in onionlab, and the random values that every model draws.
//!
//! A bare number never crosses a crate: an instant is a [`SimTime`], an interval a [`SimDuration`], an amount of data
//! [`Bytes`] or [`Cells`], a rate a [`Bandwidth`]. Each parses from and prints to what a person writes (`"20 ms"`,
//! `"1.5 Mbit/s"`, `"320 KiB"`). Randomness is not drawn from a generator that is passed around but looked up by name:
//! see [`random`].

mod bandwidth;
mod data;
mod parse;
pub mod random;
mod time;

pub use bandwidth::Bandwidth;
pub use data::{Bytes, Cells};
pub use parse::{Flaw, QuantityError};
pub use random::{Draw, RandomStream, Seed};
pub use time::{SimDuration, SimTime};
