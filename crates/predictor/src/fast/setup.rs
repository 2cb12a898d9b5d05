//! From a problem to steps: bounds, what cannot move, and where the iteration starts.
//!
//! An interior point needs an interior. A rate that can only be zero (the successor takes nothing, nothing is there or can come in time, others committed the whole capacity) is
//! fixed at zero, and what the sources committed is fixed as announced; what remains has room in every constraint.

use super::coupling::Coupling;
use super::lanes::{Lanes, WIDTH};
use super::pack::StepCost;
use super::step::{Step, row};
use crate::parameters::{HORIZON_MAX, Parameters};
use crate::problem::Problem;

/// A rate that cannot exceed this, scaled, is zero.
const NOTHING: f64 = 1e-9;

/// Lengths of vectors by step of one circuit, for [`fill`].
#[derive(Debug, Clone, Default)]
pub struct Scratch {
    source: Vec<f64>,
    least: Vec<f64>,
}

/// The costs of the steps, times the number of circuits, on rates scaled.
pub fn costs<const M: usize>(parameters: &Parameters, problem: &Problem, costs: &mut Vec<StepCost<M>>) {
    let (weights, h) = (&parameters.weights, parameters.step_seconds);
    let (c_in, c_out) = (problem.capacity_in / parameters.scaling, problem.capacity_out / parameters.scaling);
    let by_rate = [weights.intake, weights.outgoing, weights.virtual_outgoing];
    costs.clear();
    costs.extend((0..parameters.horizon).map(|k| {
        let discount = 2.0 * parameters.discount_at(k);
        StepCost {
            square: std::array::from_fn(|rate| discount * by_rate[rate]),
            aim: std::array::from_fn(|rate| if rate == 0 { c_in } else { c_out }),
            deviation: discount * weights.deviation,
            // The queue after the step is the one before the next, which after the last costs nothing.
            queue: if k + 1 < parameters.horizon { 2.0 * parameters.discount_at(k + 1) * weights.queue * h * h } else { 0.0 },
            excess: weights.slack * h * problem.circuits() as f64,
        }
    }));
}

/// Writes the problem's bounds and fixed rates into the steps. Rates that can move keep their values.
pub fn fill<const M: usize, const R: usize>(
    steps: &mut [Step<M, R>],
    queues: &mut [Lanes],
    coupling: &mut Coupling,
    scratch: &mut Scratch,
    parameters: &Parameters,
    problem: &Problem,
) {
    let (horizon, scaling, h) = (parameters.horizon, parameters.scaling, parameters.step_seconds);
    let (c_in, c_out) = (problem.capacity_in / scaling, problem.capacity_out / scaling);
    let factors = problem.commitment_factors(parameters);
    let is_committed = |p: usize, k: usize| problem.is_committed(p, k, parameters);
    for k in 0..horizon {
        for rate in 0..M {
            coupling.bound[k * M + rate] = if rate == 0 { c_in } else { c_out };
            coupling.on[k * M + rate] = false;
        }
    }
    // What is left of the intake when the commitments are taken.
    let mut room = [c_in; HORIZON_MAX];
    for (k, room) in room[..horizon].iter_mut().enumerate() {
        for p in (0..problem.circuits()).filter(|&p| is_committed(p, k)) {
            *room -= problem.announced(p, k, &factors) / scaling;
        }
    }
    let queue_limit = parameters.queue_limit / (scaling * h);
    for p in 0..problem.circuits() {
        let (pack, lane) = (p / WIDTH, p % WIDTH);
        let steps = &mut steps[pack * horizon..(pack + 1) * horizon];
        let queue = problem.queue[p] / (scaling * h);
        queues[pack].0[lane] = queue;
        // Rows 6 and 15: the most that can have been taken after each step, and after it and all later ones.
        let (source, least) = (&mut scratch.source, &mut scratch.least);
        source.clear();
        let (mut announced, mut virtual_sum) = (0.0, 0.0);
        for k in 0..horizon {
            announced += problem.announced(p, k, &factors) / scaling;
            virtual_sum += problem.virtual_bound(p, k, &factors, parameters).unwrap_or(f64::INFINITY) / scaling;
            let there = problem.source_queue_before(p, k + 1, parameters) / (scaling * h);
            // Beyond what the capacity lets in, no bound means anything.
            source.push((announced + there).min(virtual_sum).min(2.0 * (k + 1) as f64 * c_in));
        }
        least.clear();
        least.extend_from_slice(source);
        for k in (1..horizon).rev() {
            least[k - 1] = least[k - 1].min(least[k]);
        }
        // Taken in steps whose intake is fixed, and the most that can have been taken.
        let (mut taken, mut most) = (0.0, 0.0);
        let (mut intake_moves, mut queue_moves, mut virtual_moves) = (false, false, false);
        for (k, step) in steps.iter_mut().enumerate() {
            let committed = is_committed(p, k);
            let shut = room[k] <= NOTHING || least[k] - taken <= NOTHING;
            let intake = !(committed || shut);
            if committed {
                let rate = problem.announced(p, k, &factors) / scaling;
                step.rate[0].0[lane] = rate;
                taken += rate;
                most += rate;
            } else if intake {
                most = least[k].min(most + c_in);
            } else {
                step.rate[0].0[lane] = 0.0;
            }
            let limit = (problem.limit[p * horizon + k] / scaling).min(2.0 * c_out);
            let something = c_out > NOTHING && queue + most > NOTHING;
            let outgoing = something && limit > NOTHING;
            if !outgoing {
                step.rate[1].0[lane] = 0.0;
            }
            intake_moves |= intake;
            queue_moves |= intake || outgoing;
            let mut free = [intake, outgoing, something];
            if M == 3 {
                if !something {
                    step.rate[2].0[lane] = 0.0;
                }
                virtual_moves |= intake || something;
            } else {
                free[2] = false;
            }
            for rate in 0..M {
                step.free[rate].0[lane] = f64::from(u8::from(free[rate]));
                coupling.on[k * M + rate] |= free[rate];
            }
            let mut set = |row: usize, on: bool, bound: f64| {
                step.on[row].0[lane] = f64::from(u8::from(on));
                step.bound[row].0[lane] = bound;
            };
            set(row::INTAKE, intake, 0.0);
            set(row::OUTGOING, outgoing, 0.0);
            set(row::LIMIT, outgoing, limit);
            set(row::SOURCE, intake_moves, source[k]);
            set(row::QUEUE, queue_moves, queue);
            set(row::QUEUE_LIMIT, true, queue_limit - queue);
            set(row::EXCESS, true, 0.0);
            if M == 3 {
                set(row::VIRTUAL, something, 0.0);
                set(row::VIRTUAL_QUEUE, virtual_moves, queue);
            }
        }
    }
}
