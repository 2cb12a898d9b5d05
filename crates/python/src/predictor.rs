//! PredicTor: arrays in through the buffer protocol, arrays out as bytes of `f64`.

use crate::errors;
use crate::released::released;
use onionlab_predictor::fluid::FluidNetwork;
use onionlab_predictor::{
    Alignment, Bottleneck, COMMITTED, CircuitInput, FastSolver, Form, Network, Parameters, Problem, Solution, Status, Weights,
    bottlenecks, max_min, projection, solve_trusted,
};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyByteArray;
use serde::Deserialize;
use std::fmt::Display;

fn refused(error: &impl Display) -> PyErr {
    errors::question(error, "question-predictor")
}

/// The parameters, each as the crate names it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    form: FormName,
    step_seconds: f64,
    horizon: usize,
    discount: f64,
    discount_floor: f64,
    scaling: f64,
    queue_limit: f64,
    intake: f64,
    outgoing: f64,
    virtual_outgoing: f64,
    deviation: f64,
    queue: f64,
    slack: f64,
    strict: bool,
    committed: bool,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
enum FormName {
    Conference,
    Journal,
}

fn parameters(json: &str) -> PyResult<Parameters> {
    let given: Given = serde_json::from_str(json).map_err(|error| refused(&error))?;
    let parameters = Parameters {
        form: match given.form {
            FormName::Conference => Form::Conference,
            FormName::Journal => Form::Journal,
        },
        step_seconds: given.step_seconds,
        horizon: given.horizon,
        discount: given.discount,
        discount_floor: given.discount_floor,
        scaling: given.scaling,
        queue_limit: given.queue_limit,
        weights: Weights {
            intake: given.intake,
            outgoing: given.outgoing,
            virtual_outgoing: given.virtual_outgoing,
            deviation: given.deviation,
            queue: given.queue,
            slack: given.slack,
        },
        alignment: if given.strict { Alignment::Strict } else { Alignment::Loose },
        committed: given.committed,
    };
    parameters.check().map_err(|error| refused(&error))?;
    Ok(parameters)
}

/// The network whose circuit p crosses `relays[starts[p]..starts[p + 1]]`.
fn network(py: Python<'_>, capacities: &PyBuffer<f64>, starts: &PyBuffer<i64>, relays: &PyBuffer<i64>) -> PyResult<Network> {
    let (capacities, starts, relays) = (capacities.to_vec(py)?, starts.to_vec(py)?, relays.to_vec(py)?);
    // A number below zero is no relay either: what it becomes is beyond all of them.
    let relays: Vec<usize> = relays.into_iter().map(|relay| usize::try_from(relay).unwrap_or(usize::MAX)).collect();
    let path = |pair: &[i64]| match pair {
        &[from, to] => relays.get(from as usize..to as usize).unwrap_or(&[]),
        _ => &[],
    };
    Network::new(&capacities, starts.windows(2).map(path)).map_err(|error| refused(&error))
}

fn limited(py: Python<'_>, network: Network, limits: Option<PyBuffer<f64>>) -> PyResult<Network> {
    match limits {
        None => Ok(network),
        Some(limits) => network.with_limits(&limits.to_vec(py)?).map_err(|error| refused(&error)),
    }
}

fn bytes<'py>(py: Python<'py>, values: &[f64]) -> Bound<'py, PyByteArray> {
    let flat: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    PyByteArray::new(py, &flat)
}

/// Max-min fair rates.
#[pyfunction]
pub fn predictor_max_min(
    py: Python<'_>,
    capacities: PyBuffer<f64>,
    starts: PyBuffer<i64>,
    relays: PyBuffer<i64>,
    limits: Option<PyBuffer<f64>>,
) -> PyResult<Bound<'_, PyByteArray>> {
    let network = limited(py, network(py, &capacities, &starts, &relays)?, limits)?;
    let rates = released(py, || Ok(max_min(&network)))?;
    Ok(bytes(py, &rates))
}

/// The bottlenecks of each circuit: relays, and -1 for its own limit.
#[pyfunction]
pub fn predictor_bottlenecks(
    py: Python<'_>,
    capacities: PyBuffer<f64>,
    starts: PyBuffer<i64>,
    relays: PyBuffer<i64>,
    limits: Option<PyBuffer<f64>>,
    rates: PyBuffer<f64>,
    tolerance: f64,
) -> PyResult<Vec<Vec<i64>>> {
    let network = limited(py, network(py, &capacities, &starts, &relays)?, limits)?;
    let found = bottlenecks(&network, &rates.to_vec(py)?, tolerance).map_err(|error| refused(&error))?;
    let number = |bottleneck: &Bottleneck| match bottleneck {
        Bottleneck::Relay(relay) => *relay as i64,
        Bottleneck::Limit => -1,
    };
    Ok(found.iter().map(|of| of.iter().map(number).collect()).collect())
}

/// The rates of Theorem 3.
#[pyfunction]
pub fn predictor_projection(
    py: Python<'_>,
    capacities: PyBuffer<f64>,
    starts: PyBuffer<i64>,
    relays: PyBuffer<i64>,
    limits: Option<PyBuffer<f64>>,
    common_rate: f64,
) -> PyResult<Bound<'_, PyByteArray>> {
    let network = limited(py, network(py, &capacities, &starts, &relays)?, limits)?;
    let rates = released(py, || projection(&network, common_rate).map_err(|error| refused(&error)))?;
    Ok(bytes(py, &rates))
}

/// The fairness index in its four readings.
#[pyfunction]
pub fn predictor_fairness(py: Python<'_>, rates: PyBuffer<f64>, fair: PyBuffer<f64>) -> PyResult<(f64, f64, f64, f64)> {
    let found = onionlab_predictor::Fairness::of(&rates.to_vec(py)?, &fair.to_vec(py)?).map_err(|error| refused(&error))?;
    Ok((found.served, found.conforming, found.deviation, found.shares))
}

/// Status, iterations, whether commitments were scaled, objective, intake rates, outgoing rates, virtual rates, queues.
type Solved<'py> = (
    &'static str,
    u32,
    bool,
    f64,
    Bound<'py, PyByteArray>,
    Bound<'py, PyByteArray>,
    Bound<'py, PyByteArray>,
    Bound<'py, PyByteArray>,
);

/// One relay's optimal control problem.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "one for each array")]
pub fn predictor_solve<'py>(
    py: Python<'py>,
    parameters_json: &str,
    capacities: (f64, f64),
    queue: PyBuffer<f64>,
    from_relay: Vec<bool>,
    source_rate: PyBuffer<f64>,
    source_queue: PyBuffer<f64>,
    source_virtual_rate: Option<PyBuffer<f64>>,
    limit: PyBuffer<f64>,
    trusted: bool,
) -> PyResult<Solved<'py>> {
    let parameters = parameters(parameters_json)?;
    let steps = parameters.horizon;
    let mut problem = Problem::new(steps, capacities.0, capacities.1).map_err(|error| refused(&error))?;
    let queue = queue.to_vec(py)?;
    let (rate, announced, limit) = (source_rate.to_vec(py)?, source_queue.to_vec(py)?, limit.to_vec(py)?);
    let virtual_rate = source_virtual_rate.map(|values| values.to_vec(py)).transpose()?;
    for (p, queue) in queue.into_iter().enumerate() {
        let of = |values: &'_ [f64]| values.get(p * steps..(p + 1) * steps).unwrap_or(&[]).to_vec();
        let circuit = CircuitInput {
            queue,
            committed: if from_relay.get(p).copied().unwrap_or(true) { COMMITTED } else { 0 },
            source_rate: &of(&rate),
            source_queue: &of(&announced),
            source_virtual_rate: &virtual_rate.as_deref().map_or(Vec::new(), of),
            limit: &of(&limit),
        };
        problem.push(&circuit).map_err(|error| refused(&error))?;
    }
    let found = released(py, || {
        if trusted {
            return solve_trusted(&parameters, &problem).map_err(|error| refused(&error));
        }
        let mut solution = Solution::default();
        let mut solver = FastSolver::new(parameters).map_err(|error| refused(&error))?;
        solver.solve(&problem, &mut solution).map_err(|error| refused(&error))?;
        Ok(solution)
    })?;
    let status = match found.status {
        Status::Solved => "solved",
        Status::IterationLimit => "iteration-limit",
        Status::Failed => "failed",
    };
    Ok((
        status,
        found.iterations,
        found.commitments_scaled,
        found.objective,
        bytes(py, &found.rate_in),
        bytes(py, &found.rate_out),
        bytes(py, &found.virtual_rate_out),
        bytes(py, &found.queue),
    ))
}

/// Rates read, rates delivered, backlogs; solves, iterations, plans of the trusted solver, old plans, scaled commitments.
type Loop<'py> = (Bound<'py, PyByteArray>, Bound<'py, PyByteArray>, Bound<'py, PyByteArray>, [u64; 5]);

/// Controllers at all relays with fluid between them.
#[pyfunction]
pub fn predictor_closed_loop<'py>(
    py: Python<'py>,
    parameters_json: &str,
    capacities: PyBuffer<f64>,
    starts: PyBuffer<i64>,
    relays: PyBuffer<i64>,
    begins: Vec<u64>,
    steps: usize,
) -> PyResult<Loop<'py>> {
    let parameters = parameters(parameters_json)?;
    let network = network(py, &capacities, &starts, &relays)?;
    let mut fluid = FluidNetwork::new(&network, parameters, &begins).map_err(|error| refused(&error))?;
    let (mut read, mut delivered, mut backlog) = (Vec::new(), Vec::new(), Vec::new());
    let counts = released(py, || {
        for _ in 0..steps {
            fluid.step(|_, _| {});
            for circuit in 0..network.circuits() {
                read.push(fluid.rate_read(circuit));
                delivered.push(fluid.rate_delivered(circuit));
                backlog.push(fluid.backlog(circuit));
            }
        }
        let counts = (0..network.relays()).map(|relay| fluid.counts(relay)).fold([0; 5], |sum, of| {
            let [solves, iterations, trusted, old, scaled] = sum;
            [
                solves + of.steps,
                iterations + of.iterations,
                trusted + of.trusted,
                old + of.old_plans,
                scaled + of.commitments_scaled,
            ]
        });
        Ok(counts)
    })?;
    Ok((bytes(py, &read), bytes(py, &delivered), bytes(py, &backlog), counts))
}
