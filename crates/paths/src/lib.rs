#![doc = include_str!("../README.md")]
//!
//! Path selection: which relays a circuit goes over.
//!
//! As tor does it (C tor `circuitbuild.c`, `node_select.c`, `entrynodes.c`; order of choice: exit, guard, middle): each relay is drawn with
//! a chance in proportion to its consensus weight times the bandwidth weight of its class in the position; no relay twice,
//! no two of one subnet or family. [`PathSelector`] holds the network's distributions; [`ClientPaths`] a client with its guards.
//! A path is a function of the named random values that it is given and of what became of the client's guards, and of nothing else.

mod candidates;
mod client;
mod distribution;
mod exclusions;
mod guards;
mod onion;
mod selector;

pub use candidates::{ExitDemand, PathError, PathOptions};
pub use client::{ClientPaths, EntryRules};
pub use distribution::Distribution;
pub use guards::{Choice, CircuitOnGuard, GuardRules, GuardVersion, Guards, ListedGuards, SampledGuards, Standing};
pub use onion::{Layer2, Layer2Rules, OnionPath};
pub use selector::{Path, PathSelector, Request};

/// A relay by its place in the slice that a [`PathSelector`] was made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelayIndex(pub u32);

impl RelayIndex {
    /// The place as an index.
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}
