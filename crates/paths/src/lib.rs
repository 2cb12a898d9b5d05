#![doc = include_str!("../README.md")]
//!
//! Path selection: which relays a circuit goes over.
//!
//! As tor does it (C tor `circuitbuild.c`, `node_select.c`; order of choice: exit, guard, middle): each relay is drawn with
//! a chance in proportion to its consensus weight times the bandwidth weight of its class in the position; no relay twice,
//! no two of one IPv4 /16. [`PathSelector`] holds the network's distributions; [`GuardSet`] a client's guards.
//! A path is a function of the named random values that it is given, and of nothing else.

mod candidates;
mod distribution;
mod guards;
mod selector;

pub use candidates::{PathError, PathOptions};
pub use distribution::Distribution;
pub use guards::GuardSet;
pub use selector::{Path, PathSelector};

/// A relay by its place in the slice that a [`PathSelector`] was made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelayIndex(pub u32);

impl RelayIndex {
    /// The place as an index.
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}
