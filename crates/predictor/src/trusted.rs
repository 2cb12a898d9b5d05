//! The trusted solver: the problem as it is written down, row by row, given to Clarabel.
//!
//! Nothing is eliminated and nothing presolved, so that it judges the fast solver ([`crate::FastSolver`]), which does both. Row numbers are those of
//! `docs/models/predictor.md`.

use crate::parameters::{Form, Parameters};
use crate::problem::{Factors, Problem, ProblemError, scaled};
use crate::solution::{Solution, Status};
use clarabel::algebra::CscMatrix;
use clarabel::solver::{DefaultSettings, DefaultSolver, IPSolver, NonnegativeConeT, SolverStatus, ZeroConeT};

/// Tolerance on gap and feasibility, relative and absolute: late steps weigh 5e-5 of the first and need a tight one.
pub const TOLERANCE: f64 = 1e-12;

/// Solves the problem with Clarabel at [`TOLERANCE`].
///
/// # Errors
///
/// The problem does not go with the parameters (their own ranges are taken as checked).
pub fn solve_trusted(parameters: &Parameters, problem: &Problem) -> Result<Solution, ProblemError> {
    solve_trusted_to(parameters, problem, TOLERANCE)
}

/// The same with another tolerance.
///
/// # Errors
///
/// As [`solve_trusted`].
pub fn solve_trusted_to(parameters: &Parameters, problem: &Problem, tolerance: f64) -> Result<Solution, ProblemError> {
    problem.check(parameters)?;
    let mut solution = Solution::default();
    solution.reset(problem.circuits(), parameters);
    let factors = problem.commitment_factors(parameters);
    solution.commitments_scaled = scaled(&factors);
    if problem.circuits() == 0 {
        return Ok(solution);
    }
    let layout = Layout::new(parameters, problem);
    let mut program = Program::default();
    rows(&mut program, &layout, parameters, problem, &factors);
    let units = units(&layout, parameters);
    let (cost, linear, constant) = cost(&layout, parameters, problem, &units);
    let (matrix, bounds, equalities) = program.finish(&units);
    let settings = DefaultSettings {
        verbose: false,
        tol_gap_abs: tolerance,
        // Relative to an objective that the slack's weight may make large: not the measure of accuracy.
        tol_gap_rel: tolerance * 1e-4,
        tol_feas: tolerance,
        reduced_tol_gap_abs: tolerance * 1e3,
        reduced_tol_gap_rel: tolerance,
        reduced_tol_feas: tolerance * 1e3,
        ..DefaultSettings::default()
    };
    let cones = [ZeroConeT(equalities), NonnegativeConeT(bounds.len() - equalities)];
    let Ok(mut solver) = DefaultSolver::new(&cost, &linear, &matrix, &bounds, &cones, settings) else {
        solution.status = Status::Failed;
        return Ok(solution);
    };
    solver.solve();
    let found = &solver.solution;
    let value = |variable: usize| found.x[variable] * units[variable];
    solution.iterations = found.iterations;
    solution.status = match found.status {
        // Almost: within the reduced tolerances above, where the last digits are beyond the arithmetic.
        SolverStatus::Solved | SolverStatus::AlmostSolved => Status::Solved,
        SolverStatus::MaxIterations => Status::IterationLimit,
        _ => Status::Failed,
    };
    for p in 0..layout.circuits {
        for k in 0..layout.steps {
            let at = p * layout.steps + k;
            let y = value(layout.outgoing(p, k));
            solution.rate_in[at] = (value(layout.intake(p, k)) * parameters.scaling).max(0.0);
            solution.rate_out[at] = (y * parameters.scaling).max(0.0);
            if layout.journal {
                let z = y + value(layout.more(p, k)) - value(layout.less(p, k));
                solution.virtual_rate_out[at] = (z * parameters.scaling).max(0.0);
            }
        }
    }
    solution.conclude(parameters, problem);
    if solution.status == Status::Solved && !keeps_capacities(problem, &solution) {
        solution.status = Status::Failed;
    }
    // The solver's own value: where a queue is above its limit by a rounding error, the weight of the slack would make much of it.
    solution.objective = found.obj_val + constant;
    Ok(solution)
}

/// Whether a plan keeps the capacities, which the solver's word alone does not warrant: "almost solved" is relative to the numbers it met on its way, and they may be large.
fn keeps_capacities(problem: &Problem, solution: &Solution) -> bool {
    let within = |rates: &[f64], capacity: f64| {
        (0..solution.horizon).all(|k| {
            let sum: f64 = rates.iter().skip(k).step_by(solution.horizon).sum();
            sum <= capacity * (1.0 + 1e-6) + 1e-6
        })
    };
    within(&solution.rate_in, problem.capacity_in) && within(&solution.rate_out, problem.capacity_out)
}

/// Where each variable stands. By circuit; within one, by step.
struct Layout {
    circuits: usize,
    steps: usize,
    journal: bool,
    /// Variables of one circuit.
    stride: usize,
    variables: usize,
}

impl Layout {
    fn new(parameters: &Parameters, problem: &Problem) -> Self {
        let (circuits, steps, journal) = (problem.circuits(), parameters.horizon, parameters.form == Form::Journal);
        // x, y, q, d and e for each step; e before the first; g+, g- and v.
        let stride = steps * if journal { 8 } else { 5 } + 1;
        Self { circuits, steps, journal, stride, variables: circuits * stride }
    }

    fn intake(&self, p: usize, k: usize) -> usize {
        p * self.stride + k
    }

    fn outgoing(&self, p: usize, k: usize) -> usize {
        p * self.stride + self.steps + k
    }

    /// The queue before step `k`, from 1 on.
    fn queue(&self, p: usize, k: usize) -> usize {
        p * self.stride + 2 * self.steps + k - 1
    }

    /// The source's deviation before step `k`, from 1 on.
    fn deviation(&self, p: usize, k: usize) -> usize {
        p * self.stride + 3 * self.steps + k - 1
    }

    /// The slack before step `k`, from 0 on.
    fn slack(&self, p: usize, k: usize) -> usize {
        p * self.stride + 4 * self.steps + k
    }

    /// g+ of step `k`.
    fn more(&self, p: usize, k: usize) -> usize {
        p * self.stride + 5 * self.steps + 1 + k
    }

    /// g- of step `k`.
    fn less(&self, p: usize, k: usize) -> usize {
        p * self.stride + 6 * self.steps + 1 + k
    }

    /// The virtual queue before step `k`, from 1 on.
    fn virtual_queue(&self, p: usize, k: usize) -> usize {
        p * self.stride + 7 * self.steps + k
    }
}

/// Rows of a program: terms, right-hand side, equality or at most.
#[derive(Default)]
struct Program {
    equal: Vec<(Vec<(usize, f64)>, f64)>,
    at_most: Vec<(Vec<(usize, f64)>, f64)>,
}

impl Program {
    fn equal(&mut self, terms: Vec<(usize, f64)>, value: f64) {
        self.equal.push((terms, value));
    }

    fn at_most(&mut self, terms: Vec<(usize, f64)>, value: f64) {
        self.at_most.push((terms, value));
    }

    fn not_negative(&mut self, variable: usize) {
        self.at_most(vec![(variable, -1.0)], 0.0);
    }

    /// The matrix for variables in these units, the right-hand sides, and how many of the rows are equalities.
    fn finish(self, units: &[f64]) -> (CscMatrix<f64>, Vec<f64>, usize) {
        let equalities = self.equal.len();
        let (mut rows, mut columns, mut values, mut bounds) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (row, (terms, bound)) in self.equal.into_iter().chain(self.at_most).enumerate() {
            for (column, value) in terms {
                rows.push(row);
                columns.push(column);
                values.push(value * units[column]);
            }
            bounds.push(bound);
        }
        (CscMatrix::new_from_triplets(bounds.len(), units.len(), rows, columns, values), bounds, equalities)
    }
}

fn rows(program: &mut Program, at: &Layout, parameters: &Parameters, problem: &Problem, factors: &Factors) {
    let (steps, h, scaling) = (at.steps, parameters.step_seconds, parameters.scaling);
    let limit = parameters.queue_limit / scaling;
    for p in 0..at.circuits {
        let queue = problem.queue[p] / scaling;
        let mut virtual_sum = 0.0;
        for k in 0..steps {
            let announced = problem.announced(p, k, factors) / scaling;
            let (x, y) = (at.intake(p, k), at.outgoing(p, k));
            // Rows 1 to 3: q and d after step k; before the first they are measured and zero.
            let mut next = vec![(at.queue(p, k + 1), 1.0), (x, -h), (y, h)];
            let mut deviation = vec![(at.deviation(p, k + 1), 1.0), (x, -h)];
            if k > 0 {
                next.push((at.queue(p, k), -1.0));
                deviation.push((at.deviation(p, k), -1.0));
            }
            program.equal(next, if k == 0 { queue } else { 0.0 });
            program.equal(deviation, -h * announced);
            // Rows 4 to 6, after step k.
            program.not_negative(at.queue(p, k + 1));
            program.at_most(vec![(at.queue(p, k + 1), 1.0), (at.slack(p, k + 1), -1.0)], limit);
            program.at_most(vec![(at.deviation(p, k + 1), 1.0)], problem.source_queue_before(p, k + 1, parameters) / scaling);
            program.not_negative(at.slack(p, k + 1));
            // Rows 7 and 9.
            program.not_negative(x);
            program.not_negative(y);
            let most = problem.limit[p * steps + k];
            if most.is_finite() {
                program.at_most(vec![(y, 1.0)], most / scaling);
            }
            // Row 10.
            if problem.is_committed(p, k, parameters) {
                program.equal(vec![(x, 1.0)], announced);
            }
            if !at.journal {
                continue;
            }
            // Rows 11 to 14; z is y + g+ - g-.
            let (more, less) = (at.more(p, k), at.less(p, k));
            program.not_negative(more);
            program.not_negative(less);
            program.at_most(vec![(y, -1.0), (more, -1.0), (less, 1.0)], 0.0);
            let mut next = vec![(at.virtual_queue(p, k + 1), 1.0), (x, -h), (y, h), (more, h), (less, -h)];
            if k > 0 {
                next.push((at.virtual_queue(p, k), -1.0));
            }
            program.equal(next, if k == 0 { queue } else { 0.0 });
            program.not_negative(at.virtual_queue(p, k + 1));
            // Row 15.
            virtual_sum += problem.virtual_bound(p, k, factors, parameters).unwrap_or(f64::INFINITY) / scaling;
            if virtual_sum.is_finite() {
                program.at_most((0..=k).map(|earlier| (at.intake(p, earlier), 1.0)).collect(), virtual_sum);
            }
        }
        // Rows 4 and 5 before the first step: only the slack is free.
        program.at_most(vec![(at.slack(p, 0), -1.0)], limit - queue);
        program.not_negative(at.slack(p, 0));
    }
    // Rows 8 and 14.
    let sum = |variable: &dyn Fn(usize) -> usize| (0..at.circuits).map(|p| (variable(p), 1.0)).collect::<Vec<_>>();
    for k in 0..steps {
        // A step whose intakes are all committed has no row: its commitments were made to fit.
        if !(0..at.circuits).all(|p| problem.is_committed(p, k, parameters)) {
            program.at_most(sum(&|p| at.intake(p, k)), problem.capacity_in / scaling);
        }
        program.at_most(sum(&|p| at.outgoing(p, k)), problem.capacity_out / scaling);
        if at.journal {
            let mut terms = sum(&|p| at.outgoing(p, k));
            terms.extend(sum(&|p| at.more(p, k)));
            terms.extend((0..at.circuits).map(|p| (at.less(p, k), -1.0)));
            program.at_most(terms, problem.capacity_out / scaling);
        }
    }
}

/// The unit of each variable as the solver sees it. Its tolerance is for all rows of the gradient alike; in these units what is left in a late step, which weighs
/// little, moves a rate as little as in an early one, and the weight of the slack does not set the measure.
fn units(at: &Layout, parameters: &Parameters) -> Vec<f64> {
    let mut units = vec![1.0; at.variables];
    for p in 0..at.circuits {
        for k in 0..at.steps {
            let unit = 1.0 / parameters.discount_at(k).sqrt();
            units[at.intake(p, k)] = unit;
            units[at.outgoing(p, k)] = unit;
            if at.journal {
                units[at.more(p, k)] = unit;
                units[at.less(p, k)] = unit;
            }
        }
        for k in 0..=at.steps {
            units[at.slack(p, k)] = 1.0 / parameters.weights.slack;
        }
    }
    units
}

/// Matrix, vector and constant of the cost: half of x'Px, plus q'x, plus the constant.
fn cost(at: &Layout, parameters: &Parameters, problem: &Problem, units: &[f64]) -> (CscMatrix<f64>, Vec<f64>, f64) {
    let weights = &parameters.weights;
    let (c_in, c_out) = (problem.capacity_in / parameters.scaling, problem.capacity_out / parameters.scaling);
    let (mut rows, mut columns, mut values) = (Vec::new(), Vec::new(), Vec::new());
    let mut linear = vec![0.0; at.variables];
    let mut constant = 0.0;
    // weight (target - sum of terms)^2
    let mut square = |weight: f64, target: f64, terms: &[(usize, f64)]| {
        for (i, &(row, a)) in terms.iter().enumerate() {
            linear[row] -= 2.0 * weight * target * a * units[row];
            for &(column, b) in &terms[i..] {
                rows.push(row.min(column));
                columns.push(row.max(column));
                values.push(2.0 * weight * a * b * units[row] * units[column]);
            }
        }
        constant += weight * target * target;
    };
    for p in 0..at.circuits {
        for k in 0..at.steps {
            let discount = parameters.discount_at(k) / at.circuits as f64;
            let y = (at.outgoing(p, k), 1.0);
            square(discount * weights.intake, c_in, &[(at.intake(p, k), 1.0)]);
            square(discount * weights.outgoing, c_out, &[y]);
            if weights.queue > 0.0 {
                if k == 0 {
                    square(discount * weights.queue, problem.queue[p] / parameters.scaling, &[]);
                } else {
                    square(discount * weights.queue, 0.0, &[(at.queue(p, k), 1.0)]);
                }
            }
            if at.journal {
                let (more, less) = ((at.more(p, k), 1.0), (at.less(p, k), -1.0));
                square(discount * weights.virtual_outgoing, c_out, &[y, more, less]);
                square(discount * weights.deviation, 0.0, &[more]);
                square(discount * weights.deviation, 0.0, &[less]);
            }
        }
    }
    for p in 0..at.circuits {
        for k in 0..=at.steps {
            linear[at.slack(p, k)] += weights.slack * units[at.slack(p, k)];
        }
    }
    (CscMatrix::new_from_triplets(at.variables, at.variables, rows, columns, values), linear, constant)
}
