#![doc = include_str!("../README.md")]
// pyo3's macros turn signatures into Python's, where arguments are owned and errors are raised.
#![allow(clippy::needless_pass_by_value, clippy::missing_errors_doc)]

mod errors;
mod policy;
mod predictor;
mod released;
mod run;
mod shared_links;
mod under_way;

use errors::{Cancelled, DocumentError, OnionlabError, QuestionError, RunError, ScenarioError};
use onionlab_directory::synth as model;
use onionlab_directory::{Consensus, Size};
use onionlab_lab::scenario::ResolvedScenario;
use onionlab_lab::{BUILD, Scenario, VERSION};
use onionlab_quantities::Seed;
use pyo3::prelude::*;
use released::released;
use std::path::Path;

/// Version of the simulator, as written into the `run` table.
#[pyfunction]
fn version() -> &'static str {
    VERSION
}

/// Identity of the simulator's code, as written into the `run` table.
#[pyfunction]
fn build() -> &'static str {
    BUILD
}

/// JSON Schema of the experiment file.
#[pyfunction]
fn schema() -> String {
    onionlab_lab::schema()
}

/// JSON Schema of the network document.
#[pyfunction]
fn network_schema() -> String {
    onionlab_lab::network_schema()
}

/// JSON list of the tables that a run may leave, with the meaning, type and unit of each column.
#[pyfunction]
fn record_tables() -> String {
    onionlab_lab::records::described()
}

/// Check an experiment file, at every point of its sweep; canonical JSON of the scenario with every default filled in, at the first point.
#[pyfunction]
#[pyo3(signature = (path, text=None))]
fn resolve(py: Python<'_>, path: &str, text: Option<String>) -> PyResult<String> {
    released(py, || resolved(path, text).map(|points| points[0].to_json()))
}

/// A point of a sweep as Python sees it.
#[derive(serde::Serialize)]
struct PointOf<'a> {
    values: &'a [(String, serde_json::Value)],
    scenario: &'a ResolvedScenario,
}

/// JSON list of the points of the sweep, empty without one.
#[pyfunction]
#[pyo3(signature = (path, text=None))]
fn points(py: Python<'_>, path: &str, text: Option<String>) -> PyResult<String> {
    released(py, || {
        let resolved = resolved(path, text)?;
        let points: Vec<PointOf<'_>> = resolved
            .iter()
            .filter_map(|scenario| scenario.point.as_ref().map(|point| PointOf { values: &point.values, scenario }))
            .collect();
        Ok(json(&points))
    })
}

/// JSON list of all runs.
#[pyfunction]
#[pyo3(signature = (path, text=None))]
fn plan(py: Python<'_>, path: &str, text: Option<String>) -> PyResult<String> {
    released(py, || resolved(path, text).map(|points| json(&onionlab_lab::scenario::plan(&points))))
}

/// Make every policy of the user's own that the experiment names once, which runs its code: whether a run would end for want of it.
#[pyfunction]
#[pyo3(signature = (path, text=None))]
fn try_policies(py: Python<'_>, path: &str, text: Option<String>) -> PyResult<()> {
    released(py, || {
        let scenario = parsed(path, text)?;
        let policies = policy::Policies::default();
        let tried = onionlab_lab::world::try_policies(&scenario, Some(&policies)).map_err(|error| errors::scenario(&error));
        policies.stopped().map_or(tried, Err)
    })
}

/// Options of `synth`, each optional.
#[derive(Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SynthOptions {
    relays: Option<usize>,
    year: Option<f64>,
    seed: Option<u64>,
}

/// Text of a synthetic consensus; options `relays`, `year`, `seed`, each optional.
#[pyfunction]
fn synth(py: Python<'_>, options_json: &str) -> PyResult<String> {
    released(py, || {
        let given: SynthOptions = serde_json::from_str(options_json).map_err(|error| errors::options(&error))?;
        let defaults = model::Options::default();
        let options = model::Options {
            size: given.relays.map_or(defaults.size, Size::Relays),
            year: given.year.unwrap_or(defaults.year),
            seed: given.seed.map_or(defaults.seed, Seed),
            ..defaults
        };
        let network = model::synth(&model::Model::built_in(), &options).map_err(|error| errors::document(&error))?;
        Ok(network.to_document())
    })
}

/// Flags, weights and class shares of a consensus document, as JSON.
#[pyfunction]
fn consensus_summary(py: Python<'_>, path: &str) -> PyResult<String> {
    released(py, || Consensus::read(path).map(|network| json(&network.summary())).map_err(|error| errors::document(&error)))
}

/// The experiment file at `path`, or `text` that was read from it before: a file may change while its experiment runs.
fn parsed(path: &str, text: Option<String>) -> PyResult<Scenario> {
    let path = Path::new(path);
    text.map_or_else(|| Scenario::read(path), |text| Scenario::parse(path, text)).map_err(|error| errors::scenario(&error))
}

/// It at every point of its sweep: at least one.
fn resolved(path: &str, text: Option<String>) -> PyResult<Vec<ResolvedScenario>> {
    parsed(path, text)?.resolve_points().map_err(|error| errors::scenario(&error))
}

/// It at one point of its sweep.
fn resolved_at(path: &str, text: Option<String>, point: usize) -> PyResult<ResolvedScenario> {
    let scenario = parsed(path, text)?;
    if point >= scenario.points() {
        return Err(errors::no_such_point(point, scenario.points()));
    }
    scenario.at(point).and_then(|scenario| scenario.resolve()).map_err(|error| errors::scenario(&error))
}

/// JSON with sorted keys.
fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).expect("no map with keys other than strings").to_string()
}

/// The compiled half of onionlab; see `_core.pyi`.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    for (name, class, code) in [
        ("OnionlabError", py.get_type::<OnionlabError>(), "onionlab"),
        ("ScenarioError", py.get_type::<ScenarioError>(), "scenario"),
        ("DocumentError", py.get_type::<DocumentError>(), "document"),
        ("QuestionError", py.get_type::<QuestionError>(), "question"),
        ("RunError", py.get_type::<RunError>(), "run"),
        ("Cancelled", py.get_type::<Cancelled>(), "run-cancelled"),
    ] {
        class.setattr("code", code)?;
        module.add(name, class)?;
    }
    module.add_function(wrap_pyfunction!(version, module)?)?;
    module.add_function(wrap_pyfunction!(build, module)?)?;
    module.add_function(wrap_pyfunction!(schema, module)?)?;
    module.add_function(wrap_pyfunction!(network_schema, module)?)?;
    module.add_function(wrap_pyfunction!(record_tables, module)?)?;
    module.add_function(wrap_pyfunction!(resolve, module)?)?;
    module.add_function(wrap_pyfunction!(points, module)?)?;
    module.add_function(wrap_pyfunction!(plan, module)?)?;
    module.add_function(wrap_pyfunction!(try_policies, module)?)?;
    module.add_function(wrap_pyfunction!(run::run_one, module)?)?;
    module.add_function(wrap_pyfunction!(synth, module)?)?;
    module.add_function(wrap_pyfunction!(consensus_summary, module)?)?;
    module.add_function(wrap_pyfunction!(predictor::predictor_max_min, module)?)?;
    module.add_function(wrap_pyfunction!(predictor::predictor_bottlenecks, module)?)?;
    module.add_function(wrap_pyfunction!(predictor::predictor_projection, module)?)?;
    module.add_function(wrap_pyfunction!(predictor::predictor_fairness, module)?)?;
    module.add_function(wrap_pyfunction!(predictor::predictor_solve, module)?)?;
    module.add_function(wrap_pyfunction!(predictor::predictor_closed_loop, module)?)?;
    module.add_function(wrap_pyfunction!(shared_links::shared_links, module)?)?;
    module.add_function(wrap_pyfunction!(shared_links::shared_links_by_circuits, module)?)?;
    module.add_function(wrap_pyfunction!(shared_links::shared_links_by_clients, module)?)?;
    module.add_function(wrap_pyfunction!(shared_links::shared_links_by_scale, module)?)?;
    module.add_function(wrap_pyfunction!(shared_links::shared_links_over_time, module)?)
}
