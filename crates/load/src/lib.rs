//! Traffic models: what clients exchange with servers, how much, and how long they pause in between.
//!
//! A [`LoadModel`] is what an experiment file says under `load`; [`LoadModel::flow`] gives the k-th [`Flow`] of a
//! client as a pure function of the client's random stream and k: [`StreamPlan`]s, each with an [`Exchange`]. Sizes and pauses are [`Distribution`]s.

mod chain;
mod distribution;
mod flow;
mod markov;
mod model;
mod page;
mod perf;
mod read_chain;
mod replay;
mod script;
mod streaming;
mod tor_users;

pub use chain::{Chain, LONGEST_DELAY, Symbol};
pub use distribution::{Distribution, DurationDistribution, Quantity, Shape, SizeDistribution};
pub use flow::{DEFAULT_PORT, Exchange, Flow, MeanFlow, Pace, StreamPlan, user_stream};
pub use markov::{Chains, FLOW_INTERVAL, Markov, TorUsers};
pub use model::{Batch, DEFAULT_REQUEST, LoadModel};
pub use page::{Count, Page, RandomCount};
pub use perf::{PauseFrom, Perf, PerfSize};
pub use read_chain::{ChainError, ChainKind, MAX_CHAIN_BYTES};
pub use replay::{MAX_TRAFFIC_BYTES, Replay, Traffic, TrafficError};
pub use script::{AT_ONCE, BURST, Burst, PACKET, Script, ScriptEnd, Write};

pub use streaming::Streaming;

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
