//! PredicTor: what each relay of a network should give each circuit, and the controller that gets there.
//!
//! Source: "Optimization-Based Predictive Congestion Control for the Tor Network" (ACM Transactions on Internet Technology, 2022), and the
//! conference paper before it (CCTA 2020). What is certain and what had to be inferred: `docs/models/predictor.md`.

#[doc = include_str!("../README.md")]
#[cfg(doctest)]
struct Readme;

mod bottleneck;
mod controller;
mod error;
mod fairness;
mod fast;
pub mod fluid;
mod network;
mod parameters;
mod problem;
pub mod projection;
mod solution;
mod trajectory;
mod trusted;
mod water_filling;

pub use bottleneck::{Bottleneck, bottlenecks, is_max_min};
pub use controller::{CircuitSlot, Controller, ControllerError, Counts, Fallback, Outcome, PLANNED_SHARE, Plan, Sink, Source};
pub use error::NetworkError;
pub use fairness::Fairness;
pub use fast::{FastSolver, ITERATIONS_MAX};
pub use network::Network;
pub use parameters::{Alignment, Form, ParameterError, Parameters, Weights};
pub use problem::{COMMITTED, CircuitInput, Problem, ProblemError};
pub use projection::projection;
pub use solution::{Solution, Status, objective};
pub use trajectory::{FROM_SINK, FROM_SOURCE, SinkMessage, SourceMessage};
pub use trusted::{TOLERANCE, solve_trusted, solve_trusted_to};
pub use water_filling::{REACHED, WaterFilling, max_min};
