//! What a solver gives back, and what it is worth.

use crate::parameters::{Form, Parameters};
use crate::problem::Problem;

/// How a solve ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Status {
    /// The optimum, to the solver's tolerance.
    #[default]
    Solved,
    /// Not the optimum: as many iterations as are allowed were made.
    IterationLimit,
    /// Not the optimum: the arithmetic broke down, or the solver says that there is no solution.
    Failed,
}

/// A relay's plan. Rates in packets a second, queues in packets; by circuit, then step.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Solution {
    /// How the solve ended; unless solved, the rest is the solver's last iterate and may break limits.
    pub status: Status,
    /// Iterations of the solver.
    pub iterations: u32,
    /// The announced rates of the first two steps did not fit into the intake capacity together and were scaled down.
    pub commitments_scaled: bool,
    /// The objective's value, in scaled units.
    pub objective: f64,
    /// Number of circuits.
    pub circuits: usize,
    /// Number of steps.
    pub horizon: usize,
    /// Intake rates x.
    pub rate_in: Vec<f64>,
    /// Outgoing rates y.
    pub rate_out: Vec<f64>,
    /// Virtual outgoing rates z; empty in the conference problem.
    pub virtual_rate_out: Vec<f64>,
    /// Queues, N + 1 for each circuit: before the first step and after each.
    pub queue: Vec<f64>,
}

impl Solution {
    /// Makes room for the plan of so many circuits, all zero.
    pub(crate) fn reset(&mut self, circuits: usize, parameters: &Parameters) {
        let horizon = parameters.horizon;
        (self.circuits, self.horizon) = (circuits, horizon);
        let journal = if parameters.form == Form::Journal { circuits * horizon } else { 0 };
        for (values, length) in [
            (&mut self.rate_in, circuits * horizon),
            (&mut self.rate_out, circuits * horizon),
            (&mut self.virtual_rate_out, journal),
            (&mut self.queue, circuits * (horizon + 1)),
        ] {
            values.clear();
            values.resize(length, 0.0);
        }
        (self.status, self.iterations, self.commitments_scaled, self.objective) = (Status::Solved, 0, false, 0.0);
    }

    /// Sets the queues that follow from the rates, and the objective's value.
    pub(crate) fn conclude(&mut self, parameters: &Parameters, problem: &Problem) {
        let steps = self.horizon;
        for p in 0..self.circuits {
            let mut queue = problem.queue[p];
            self.queue[p * (steps + 1)] = queue;
            for k in 0..steps {
                queue += parameters.step_seconds * (self.rate_in[p * steps + k] - self.rate_out[p * steps + k]);
                self.queue[p * (steps + 1) + k + 1] = queue;
            }
        }
        self.objective = objective(parameters, problem, self);
    }
}

/// The objective's value for these rates and queues, in scaled units (section 2 of `docs/models/predictor.md`); the slack is what the queue exceeds its limit by.
pub fn objective(parameters: &Parameters, problem: &Problem, solution: &Solution) -> f64 {
    let (steps, weights, scaling) = (parameters.horizon, &parameters.weights, parameters.scaling);
    let square = |value: f64| (value / scaling) * (value / scaling);
    let mut sum = 0.0;
    for k in 0..steps {
        let mut cost = 0.0;
        for p in 0..solution.circuits {
            let (at, y) = (p * steps + k, solution.rate_out[p * steps + k]);
            cost += weights.intake * square(problem.capacity_in - solution.rate_in[at]);
            cost += weights.outgoing * square(problem.capacity_out - y);
            cost += weights.queue * square(solution.queue[p * (steps + 1) + k]);
            if let Some(z) = solution.virtual_rate_out.get(at) {
                cost += weights.virtual_outgoing * square(problem.capacity_out - z) + weights.deviation * square(z - y);
            }
        }
        sum += parameters.discount_at(k) / solution.circuits as f64 * cost;
    }
    let mut slack = 0.0;
    for p in 0..solution.circuits {
        for k in 0..=steps {
            slack += ((solution.queue[p * (steps + 1) + k] - parameters.queue_limit) / scaling).max(0.0);
        }
    }
    if solution.circuits == 0 { 0.0 } else { sum + weights.slack * slack }
}
