//! What is wrong with an input, and where.

use thiserror::Error;

/// A network, or rates for one, that cannot be used.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum NetworkError {
    /// A capacity is negative or not finite.
    #[error("relay {relay} has capacity {capacity}, which must be finite and not negative")]
    Capacity {
        /// Which relay.
        relay: usize,
        /// Its capacity.
        capacity: f64,
    },
    /// A circuit without relays.
    #[error("circuit {circuit} crosses no relay: nothing limits it")]
    NoRelay {
        /// Which circuit.
        circuit: usize,
    },
    /// A circuit over a relay that does not exist.
    #[error("circuit {circuit} crosses relay {relay}, but the {relays} relays are numbered from 0")]
    NoSuchRelay {
        /// Which circuit.
        circuit: usize,
        /// The number it gave.
        relay: usize,
        /// How many relays there are.
        relays: usize,
    },
    /// A circuit over one relay twice.
    #[error("circuit {circuit} crosses relay {relay} twice")]
    Twice {
        /// Which circuit.
        circuit: usize,
        /// Which relay.
        relay: usize,
    },
    /// A circuit's limit is negative or not a number.
    #[error("circuit {circuit} has the limit {limit}, which must be 0 or more (infinite for none)")]
    Limit {
        /// Which circuit.
        circuit: usize,
        /// Its limit.
        limit: f64,
    },
    /// Not one value for each circuit.
    #[error("{given} {what} for {circuits} circuits: one each is needed")]
    Lengths {
        /// What was given.
        what: &'static str,
        /// How many.
        given: usize,
        /// How many circuits there are.
        circuits: usize,
    },
    /// The common constant of Theorem 3 is negative or not finite.
    #[error("the common rate is {rate}, which must be finite and not negative")]
    CommonRate {
        /// The constant.
        rate: f64,
    },
    /// A rate is negative or not a number, or the fair rates sum to zero.
    #[error("no fairness index: {reason}")]
    Index {
        /// Why.
        reason: &'static str,
    },
    /// The solver did not find the optimum.
    #[error("the solver ended with {status}")]
    Solver {
        /// Clarabel's word for it.
        status: String,
    },
}
