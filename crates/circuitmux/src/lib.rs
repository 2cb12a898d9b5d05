//! Circuitmuxes: which circuit of a channel sends the next cell.
//!
//! Every channel has one mux at each of its ends, for the cells of all circuits that leave there, outward and inward ones. A [`Circuitmux`] knows how many
//! cells each attached circuit has queued and asks a policy to pick among the active ones (those with a cell). The calls
//! a policy gets, and their order, are those of tor's `circuitmux_policy_t`, so that a policy written here can be carried
//! over to tor and back.
//!
//! Policies: [`RoundRobin`] (tor up to 0.2.1, and with another rule the fallback up to 0.3.3), [`Ewma`] (tor since 0.2.2; Tang and Goldberg 2010), [`Swrr`] (Lu et al. 2019),
//! and whatever implements [`CircuitmuxPolicy`] outside this crate.
//!
//! There is no clock here: time is an argument. All calls of one mux must pass instants that never decrease.

#[doc = include_str!("../README.md")]
#[cfg(doctest)]
struct Readme;

mod custom;
mod ewma;
mod list;
mod mux;
mod policy;
mod round_robin;
mod swrr;
mod turn;

pub use custom::{CustomPolicy, DynPolicy, Trouble};
pub use ewma::{Ewma, EwmaClock};
pub use mux::Circuitmux;
pub use policy::{CircuitmuxPolicy, PolicyError, PolicyKind};
pub use round_robin::{NewlyActive, RoundRobin};
pub use swrr::{Swrr, SwrrWeight};
pub use turn::Turn;

/// The place of a circuit in one mux: a dense index, given out again after the circuit is detached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u32);

impl Slot {
    /// The slot as an index into a policy's own table.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}
