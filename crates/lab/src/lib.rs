#![doc = include_str!("../README.md")]

mod memory;
pub mod records;
pub mod run;
pub mod scenario;
pub mod world;

pub use run::{Continue, Progress, RunError, Summary, run};
pub use scenario::{Scenario, ScenarioError, network_schema, schema};

/// The version of onionlab.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
