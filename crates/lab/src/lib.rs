//! The experiment: its file, the world built from it, its run, and the records that the run leaves.

pub mod records;
pub mod scenario;

pub use scenario::{Scenario, ScenarioError, schema};
