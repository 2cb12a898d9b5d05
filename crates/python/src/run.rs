//! `run_one`: a run without the interpreter lock, which is taken for a moment to tell how far it is.

use crate::errors;
use crate::policy::Policies;
use crate::released::defect;
use crate::under_way::UnderWay;
use onionlab_lab::{Continue, Progress, RunKey};
use onionlab_quantities::{SimDuration, SimTime};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

/// Between two calls of the callback, in wall time.
const PACE: Duration = Duration::from_millis(50);

/// What the callback may return.
#[derive(FromPyObject)]
enum Answer {
    #[pyo3(annotation = "bool")]
    GoesOn(bool),
    #[pyo3(annotation = "float")]
    Until(f64),
}

/// Simulate one run, at one point of the sweep if there is one, and write its record tables to `out_dir`/runs; the row of its `run` table as JSON.
#[pyfunction]
#[pyo3(signature = (path, treatment_index, network_index, seed, out_dir, callback, text=None, point=0))]
#[allow(clippy::too_many_arguments, reason = "the arguments have names in Python")]
pub fn run_one(
    py: Python<'_>,
    path: &str,
    treatment_index: usize,
    network_index: u32,
    seed: u64,
    out_dir: &str,
    callback: Py<PyAny>,
    text: Option<String>,
    point: usize,
) -> PyResult<String> {
    py.detach(|| {
        let _run = UnderWay::new();
        let scenario = crate::resolved_at(path, text, point)?;
        let runs = Path::new(out_dir).join("runs");
        let policies = Policies::default();
        let mut raised = None;
        let mut told = None;
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let key = RunKey { treatment: treatment_index, network: network_index, seed };
            onionlab_lab::run_with(&scenario, key, &runs, Some(&policies), |progress| {
                let due = told.is_none_or(|told: Instant| told.elapsed() >= PACE) || progress.sim_time == progress.sim_end;
                if !due {
                    return Continue::Yes;
                }
                told = Some(Instant::now());
                match Python::attach(|py| tell(py, &callback, progress)) {
                    Ok(answer) => answer,
                    Err(error) => {
                        raised = Some(error);
                        Continue::No
                    }
                }
            })
        }));
        match (raised.or_else(|| policies.stopped()), outcome) {
            (Some(error), _) => Err(error),
            (None, Ok(Ok((_, summary)))) => Ok(crate::json(&summary)),
            (None, Ok(Err(error))) => Err(errors::run(&error)),
            (None, Err(panic)) => Err(defect(&*panic)),
        }
    })
}

/// Calls the callback, after giving Python's signal handlers (Ctrl-C) their turn.
fn tell(py: Python<'_>, callback: &Py<PyAny>, progress: Progress) -> PyResult<Continue> {
    py.check_signals()?;
    let fields = PyDict::new(py);
    fields.set_item("sim_seconds", progress.sim_time.as_secs_f64())?;
    fields.set_item("duration_seconds", progress.sim_end.as_secs_f64())?;
    fields.set_item("events", progress.events)?;
    let answer = callback.call1(py, (fields,))?;
    Ok(match answer.extract::<Answer>(py)? {
        Answer::GoesOn(true) => Continue::Yes,
        Answer::GoesOn(false) => Continue::No,
        Answer::Until(seconds) => Continue::Until(SimTime::ZERO + SimDuration::from_secs_f64_rounded(seconds)),
    })
}
