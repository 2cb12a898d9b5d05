//! The experiment file, in two stages.
//!
//! [`Scenario::read`] parses: unknown keys are refused, quantities carry units, nothing looks at the machine except to read the file.
//! [`Scenario::resolve`] checks and fills in: ranges, references to files and hosts, combinations that make no sense. Whatever is
//! wrong is one sentence that names file, line or key, value, and what is allowed ([`ScenarioError`]).

pub mod clients;
pub(crate) mod consensus_params;
mod diagnose;
pub mod document;
mod error;
mod file;
pub mod network;
mod resolve;
mod resolve_clients;
mod resolve_network;
mod resolve_treatments;
pub mod resolved;
mod schema;
mod text;
pub mod treatment;
pub mod version;

pub use error::{Fault, Place, ScenarioError};
pub use file::ScenarioFile;
pub use resolve::{MAX_CLIENTS, MAX_DURATION, MAX_RUNS};
pub use resolved::{PlannedRun, ResolvedScenario};
pub use schema::{network_schema, schema};

use std::io::Read;
use std::path::{Path, PathBuf};

/// The largest experiment file that is read.
pub const MAX_FILE_BYTES: u64 = 4 << 20;

/// A parsed experiment file.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// What the file says.
    pub file: ScenarioFile,
    path: PathBuf,
    text: String,
}

impl Scenario {
    /// Reads and parses the file at `path`.
    ///
    /// # Errors
    /// The file cannot be read, is too large, is no text, no TOML, or not in the format of an experiment.
    pub fn read(path: &Path) -> Result<Self, ScenarioError> {
        let error = |fault| ScenarioError { place: Place { file: path.into(), line: None }, fault };
        let file = std::fs::File::open(path).map_err(|cause| error(Fault::Unreadable(cause)))?;
        let mut bytes = Vec::new();
        file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(|cause| error(Fault::Unreadable(cause)))?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(error(Fault::TooLarge));
        }
        let text = String::from_utf8(bytes).map_err(|_| error(Fault::NotText))?;
        Self::parse(path, text)
    }

    /// Parses `text` as the experiment file `path`, which need not exist but to which other files are relative.
    ///
    /// # Errors
    /// The text is no TOML or not in the format of an experiment.
    pub fn parse(path: &Path, text: String) -> Result<Self, ScenarioError> {
        match toml::from_str(&text) {
            Ok(file) => Ok(Self { file, path: path.into(), text }),
            Err(error) => Err(diagnose::explain(path, &text, &error)),
        }
    }

    /// Checks everything and fills in every default.
    ///
    /// # Errors
    /// A value out of range, a reference to nothing, or settings that make no sense together.
    pub fn resolve(&self) -> Result<ResolvedScenario, ScenarioError> {
        resolve::resolve(self)
    }

    /// The directory to which paths in the file are relative.
    fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }
}
