#![doc = include_str!("../README.md")]

mod chunks;
mod far;
mod prefetch;
mod queue;

pub use prefetch::prefetch;
pub use queue::{EventQueue, Popped};

/// A host of the simulated network: a dense index from 0.
///
/// Invariant: below 2^24, so that it fits the ordering key of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub u32);

impl HostId {
    /// The index for arrays of hosts.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}
