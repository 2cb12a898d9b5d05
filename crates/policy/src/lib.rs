#![doc = include_str!("../README.md")]

pub mod abi;
pub mod author;
#[cfg(feature = "host")]
pub mod host;
mod parameters;

pub use author::OwnPolicy;
pub use onionlab_circuitmux::{Circuitmux, CircuitmuxPolicy, CustomPolicy, PolicyKind, Slot, Turn};
pub use onionlab_quantities::{SimDuration, SimTime};
pub use parameters::Parameters;
