//! The experiment file, in two stages.
//!
//! [`Scenario::read`] parses: unknown keys are refused, quantities carry units, nothing looks at the machine except to read the file.
//! [`Scenario::resolve`] checks and fills in: ranges, references to files and hosts, combinations that make no sense. Whatever is
//! wrong is one sentence that names file, line or key, value, and what is allowed ([`ScenarioError`]).

pub mod client_options;
pub mod clients;
pub(crate) mod consensus_params;
mod diagnose;
pub mod document;
mod error;
mod file;
pub mod network;
pub mod onion;
pub mod own_policy;
pub mod predictor;
mod resolve;
pub mod resolved;
mod schema;
pub mod some_relays;
mod sweep;
pub mod switching;
mod text;
pub mod treatment;
pub mod version;

pub use error::{Fault, Place, ScenarioError};
pub use file::ScenarioFile;
pub(crate) use resolve::MAX_SEQUENCES;
pub use resolve::{MAX_CLIENTS, MAX_DURATION, MAX_RUNS};
pub use resolved::{PlannedRun, ResolvedScenario, RunKey, plan};
pub use schema::{network_schema, schema};
pub use sweep::{MAX_POINTS, Point, SweepFile};

use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::DeTable;

/// The largest experiment file that is read.
pub const MAX_FILE_BYTES: u64 = 4 << 20;

/// What stands for a file's content in a scenario: xxh3-64 in hexadecimal.
pub(crate) fn digest(content: &[u8]) -> String {
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(content))
}

/// A parsed experiment file, at one point of its sweep if it has one.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// What the file says; with a sweep, with the values of the point in their places.
    pub file: ScenarioFile,
    path: PathBuf,
    text: String,
    /// Points of the sweep; `None` without one.
    points: Option<usize>,
    point: Option<Point>,
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

    /// Parses `text` as the experiment file `path`, which need not exist but to which other files are relative. With a sweep, the result is the experiment at its
    /// first point.
    ///
    /// # Errors
    /// The text is no TOML or not in the format of an experiment.
    pub fn parse(path: &Path, text: String) -> Result<Self, ScenarioError> {
        let points = match DeTable::parse(&text) {
            Ok(document) => sweep::count(document.get_ref()).map_err(|fault| resolve::located_in(path, &text, fault))?,
            Err(error) => return Err(diagnose::explain(path, &text, &error)),
        };
        if points.is_some() {
            return Self::parse_point(path, text, points, 0);
        }
        match toml::from_str(&text) {
            Ok(file) => Ok(Self { file, path: path.into(), text, points, point: None }),
            Err(error) => Err(diagnose::explain(path, &text, &error)),
        }
    }

    /// Parses a file that has a sweep, at one of its points.
    fn parse_point(path: &Path, text: String, points: Option<usize>, index: usize) -> Result<Self, ScenarioError> {
        let document = DeTable::parse(&text).map_err(|error| diagnose::explain(path, &text, &error))?;
        let (point, file) =
            sweep::at(&document, index, read_document).map_err(|fault| resolve::located_in(path, &text, fault))?;
        match file {
            Ok(file) => Ok(Self { file, path: path.into(), text, points, point: Some(point) }),
            Err(error) => {
                let mut explained = diagnose::explain(path, &text, &error);
                let named = diagnose::swept_key(&text, &point, &explained.fault, &error);
                if let Some(line) = named {
                    explained.place.line = Some(line);
                }
                if named.is_some() || diagnose::is_within_sweep(&text, &error) {
                    explained.fault = Fault::AtPoint { point: point.to_string(), fault: Box::new(explained.fault) };
                }
                Err(explained)
            }
        }
    }

    /// How many points the experiment has: one without a sweep.
    pub fn points(&self) -> usize {
        self.points.unwrap_or(1)
    }

    /// The experiment at another point of its sweep.
    ///
    /// # Errors
    /// The values of the point do not fit the format.
    ///
    /// # Panics
    /// There is no such point.
    pub fn at(&self, point: usize) -> Result<Self, ScenarioError> {
        assert!(point < self.points(), "there are {} points", self.points());
        match self.points {
            None => Ok(self.clone()),
            Some(_) => Self::parse_point(&self.path, self.text.clone(), self.points, point),
        }
    }

    /// Checks everything and fills in every default, at this point of the sweep if there is one.
    ///
    /// # Errors
    /// A value out of range, a reference to nothing, or settings that make no sense together.
    pub fn resolve(&self) -> Result<ResolvedScenario, ScenarioError> {
        resolve::resolve(self)
    }

    /// The same at every point of the sweep, in their order; the experiment alone where there is none.
    ///
    /// # Errors
    /// As for one point; also where two points are the same experiment, or all of them together have too many runs.
    pub fn resolve_points(&self) -> Result<Vec<ResolvedScenario>, ScenarioError> {
        let mut resolved: Vec<ResolvedScenario> = Vec::new();
        let mut known = BTreeMap::new();
        for index in 0..self.points() {
            let point = self.at(index)?.resolve()?;
            if let Some(twin) = known.insert(xxhash_rust::xxh3::xxh3_128(point.to_json().as_bytes()), index) {
                let name = |index: usize| {
                    resolved.get(index).unwrap_or(&point).point.as_ref().map_or_else(String::new, Point::to_string)
                };
                let reason = format!("has points {} and {}, which are the same experiment", name(twin), name(index));
                return Err(resolve::located(self, Fault::conflict("sweep", reason)));
            }
            resolved.push(point);
        }
        // Points may share runs: how many there are is known once they are planned, which is not done for far too many.
        let most = resolved::most_runs(&resolved);
        let runs = if most > MAX_RUNS * 10 { most } else { plan(&resolved).len() };
        if runs > MAX_RUNS {
            let fault = Fault::out_of_range("sweep", format!("{runs} runs"), format!("at most {MAX_RUNS} in one experiment"));
            return Err(resolve::located(self, fault));
        }
        Ok(resolved)
    }

    /// The directory to which paths in the file are relative.
    fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }
}

/// The experiment file that a document is.
fn read_document(document: Spanned<DeTable<'_>>) -> Result<ScenarioFile, toml::de::Error> {
    ScenarioFile::deserialize(toml::Deserializer::from(document))
}
