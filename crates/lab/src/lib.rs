#![doc = include_str!("../README.md")]

mod memory;
mod processor;
pub mod records;
pub mod run;
pub mod scenario;
pub mod world;

pub use run::{Continue, Progress, RunError, Summary, run, run_with};
pub use scenario::{RunKey, Scenario, ScenarioError, network_schema, schema};

/// The version of onionlab.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The identity of the code that this was built from: 16 hexadecimal digits, the same wherever the same sources are built
/// (`build/identity.rs`). Records of another build may differ although both have the same [`VERSION`].
pub const BUILD: &str = env!("ONIONLAB_BUILD");
