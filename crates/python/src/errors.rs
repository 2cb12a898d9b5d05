//! Errors of the floors below as Python exceptions: a small tree, each with a stable `code`.

use onionlab_lab::scenario::ScenarioError as LabScenarioError;
use onionlab_lab::world::WorldError;
use onionlab_shared_links::SharedLinksError;
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use std::fmt::Display;

create_exception!(onionlab._core, OnionlabError, PyException, "Any refusal or failure; `code` is a stable word for scripts.");
create_exception!(
    onionlab._core,
    ScenarioError,
    OnionlabError,
    "The experiment file cannot be read or asks for something impossible."
);
create_exception!(onionlab._core, DocumentError, OnionlabError, "A consensus or another input document cannot be used.");
create_exception!(onionlab._core, QuestionError, OnionlabError, "A question about shared links or rates has no answer.");
create_exception!(onionlab._core, RunError, OnionlabError, "A simulation failed although its input was accepted.");
create_exception!(onionlab._core, Cancelled, OnionlabError, "The callback of `run_one` asked to stop; nothing was written.");

/// The error of an experiment file.
pub fn scenario(error: &LabScenarioError) -> PyErr {
    coded(ScenarioError::new_err, error, error.fault.code())
}

/// The error of a document.
pub fn document(error: &impl Display) -> PyErr {
    coded(DocumentError::new_err, error, "document-consensus")
}

/// The error of options given as JSON.
pub fn options(error: &impl Display) -> PyErr {
    coded(DocumentError::new_err, &format!("options: {error}"), "document-options")
}

/// The error of a value within a question.
pub fn question(error: &impl Display, code: &str) -> PyErr {
    coded(QuestionError::new_err, error, code)
}

/// The error of a question about shared links, to the network of `file`.
pub fn shared_links(error: &SharedLinksError, file: Option<&str>) -> PyErr {
    use SharedLinksError as Links;
    let code = match error {
        Links::NoCircuits { .. } | Links::TooManyCircuits { .. } => "question-circuits",
        Links::PerClient { .. } => "question-per-client",
        Links::Guards { .. } => "question-guards",
        Links::Ports { .. } => "question-ports",
        Links::NoPolicies { .. } => "question-policies",
        Links::NoCandidate { .. } => "question-candidate",
        Links::Share { .. } => "question-share",
        Links::OnlyDraw { .. } => "question-method",
        Links::NoCircuit { .. } | Links::Families { .. } => "question-exclusions",
        Links::EmptySeries { .. } => "question-series",
        Links::Directory(_) => "question-scale",
        _ => "question",
    };
    file.map_or_else(|| question(error, code), |file| question(&format!("{file}: {error}"), code))
}

/// The error of a point that a sweep does not have.
pub fn no_such_point(point: usize, points: usize) -> PyErr {
    coded(RunError::new_err, &format!("the experiment has no point {point}, only those from 0 to {}", points - 1), "run-unknown")
}

/// The error of a run.
pub fn run(error: &onionlab_lab::RunError) -> PyErr {
    use onionlab_lab::RunError as Lab;
    let make = match error {
        Lab::World(
            WorldError::Directory(_)
            | WorldError::Latency(_)
            | WorldError::NoExitPolicies { .. }
            | WorldError::NoSuchCountry { .. },
        ) => DocumentError::new_err,
        Lab::World(WorldError::Policy { .. }) => ScenarioError::new_err,
        Lab::Cancelled => Cancelled::new_err,
        Lab::World(_) | Lab::Policy(_) | Lab::NoSuchRun(_) | Lab::Records(_) => RunError::new_err::<String>,
    };
    coded(make, error, error.code())
}

/// A broken invariant of the simulator.
pub fn defect(message: &str) -> PyErr {
    coded(RunError::new_err, &format!("a defect of onionlab, please report it: {message}"), "run-defect")
}

fn coded(make: fn(String) -> PyErr, error: &impl Display, code: &str) -> PyErr {
    let exception = make(error.to_string());
    // An attribute of a new exception can be set; if not, the code of its class stands.
    let _ = Python::attach(|py| exception.value(py).setattr("code", code));
    exception
}
