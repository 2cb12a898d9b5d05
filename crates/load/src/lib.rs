//! Traffic models: which transfers a client makes, how large they are, and how long it pauses between them.
//!
//! A [`LoadModel`] is what an experiment file says under `load`; [`LoadModel::transfer`] gives the k-th [`Transfer`] of a
//! client as a pure function of the client's random stream and k. Sizes and pauses are [`Distribution`]s.

mod distribution;
mod model;

pub use distribution::{Distribution, DurationDistribution, Quantity, Shape, SizeDistribution};
pub use model::{Batch, DEFAULT_REQUEST, LoadModel, Transfer};

/// A value of a load that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key} = {value}: {allowed}")]
pub struct LoadError {
    /// The key below the load: `size`, `pause.uniform`, `transfers[2].count`.
    pub key: String,
    /// The value as the experiment file writes it.
    pub value: String,
    /// What is allowed, as a sentence.
    pub allowed: &'static str,
}

#[doc = include_str!("../README.md")]
#[cfg(doctest)]
struct Readme;
