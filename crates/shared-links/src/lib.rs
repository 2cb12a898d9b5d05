#![doc = include_str!("../README.md")]
//!
//! The parts: [`Question`] (what is asked), [`Positions`] (chances of the relays that follow from it), [`draw`] (Monte
//! Carlo), [`expectation`] (closed form), [`Answer`] (what both give), [`forecast`] (series of answers).

mod answer;
pub mod draw;
mod error;
pub mod expectation;
pub mod forecast;
mod positions;
mod question;
mod traffic;

pub use answer::{Answer, Kind, Method, SharedCircuits, answer, answer_while};
pub use error::SharedLinksError;
pub use positions::Positions;
pub use question::{Blend, Exclusions, Filter, Filters, Question, Use};
pub use traffic::{PortRange, Ports, TrafficClass};
