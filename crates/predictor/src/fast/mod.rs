//! The fast solver: a primal-dual interior point made for this one problem.
//!
//! Mehrotra's predictor and corrector. Within a circuit the Newton system is eliminated step by step from the last to the first, in time linear in
//! the horizon ([`pack`], [`mesh`]); what couples the circuits are the capacity sums alone, two for each step (three in the journal problem), whose dense
//! system is the sum of the circuits' covariances ([`coupling`]). Four circuits are computed at a time ([`lanes`]). One iteration costs O(n N^2 + N^3) for n circuits and N steps.
//!
//! No memory is allocated by a solve that is no larger than the ones before.

// An index runs over several arrays at once, row by row and rate by rate.
#![allow(clippy::needless_range_loop)]

mod coupling;
mod lanes;
mod mesh;
mod pack;
mod setup;
mod step;

use crate::parameters::{Form, ParameterError, Parameters};
use crate::problem::{Problem, ProblemError, scaled};
use crate::solution::{Solution, Status};
use coupling::Coupling;
use lanes::{Lanes, WIDTH};
use mesh::{Eliminate, Mesh};
use pack::StepCost;
use step::{CONFERENCE_ROWS, JOURNAL_ROWS, Step, row};

/// Iterations after which the solver gives up. About 15 are usual from the beginning, fewer from the last solution.
pub const ITERATIONS_MAX: u32 = 100;

/// The fast solver, for one set of parameters. Keeps its memory and the last solution's neighbourhood, to start from there.
#[derive(Debug, Clone)]
pub struct FastSolver {
    parameters: Parameters,
    iterations_max: u32,
    core: Core,
}

#[derive(Debug, Clone)]
enum Core {
    Conference(Box<Interior<2, CONFERENCE_ROWS>>),
    Journal(Box<Interior<3, JOURNAL_ROWS>>),
}

impl FastSolver {
    /// A solver for problems with these parameters.
    ///
    /// # Errors
    ///
    /// A parameter is out of its range.
    pub fn new(parameters: Parameters) -> Result<Self, ParameterError> {
        parameters.check()?;
        let core = match parameters.form {
            Form::Conference => Core::Conference(Box::default()),
            Form::Journal => Core::Journal(Box::default()),
        };
        Ok(Self { parameters, iterations_max: ITERATIONS_MAX, core })
    }

    /// The parameters.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Allows only so many iterations.
    pub fn set_iterations_max(&mut self, iterations: u32) {
        self.iterations_max = iterations;
    }

    /// Solves from the beginning.
    ///
    /// # Errors
    ///
    /// The problem does not go with the parameters. How the solve ended is in the solution's status.
    pub fn solve(&mut self, problem: &Problem, solution: &mut Solution) -> Result<(), ProblemError> {
        self.solve_from(problem, solution, false)
    }

    /// Solves from the neighbourhood of the last solution, if that was one of as many circuits; for the next problem of the same relay.
    ///
    /// The optimum is the same, since the problem is strictly convex; only the iterations are fewer if the problems are alike.
    ///
    /// # Errors
    ///
    /// As [`FastSolver::solve`].
    pub fn solve_warm(&mut self, problem: &Problem, solution: &mut Solution) -> Result<(), ProblemError> {
        self.solve_from(problem, solution, true)
    }

    fn solve_from(&mut self, problem: &Problem, solution: &mut Solution, warm: bool) -> Result<(), ProblemError> {
        problem.check(&self.parameters)?;
        let Self { parameters, iterations_max, core } = self;
        match core {
            Core::Conference(core) => core.solve(parameters, *iterations_max, problem, solution, warm),
            Core::Journal(core) => core.solve(parameters, *iterations_max, problem, solution, warm),
        }
        Ok(())
    }
}

/// The iteration with M rates a step and R constraints.
#[derive(Debug, Clone)]
struct Interior<const M: usize, const R: usize> {
    /// By pack, then step.
    steps: Vec<Step<M, R>>,
    /// The queue before the first step, by pack.
    queues: Vec<Lanes>,
    costs: Vec<StepCost<M>>,
    coupling: Coupling,
    covariance: Vec<[[Lanes; M]; M]>,
    scratch: setup::Scratch,
    /// Circuits and horizon of the iterate that is here, if it ended well.
    last: Option<(usize, usize)>,
    /// The mean product of the best iterate of this solve that may count as the optimum.
    kept: Option<f64>,
}

impl<const M: usize, const R: usize> Default for Interior<M, R> {
    fn default() -> Self {
        Self {
            steps: Vec::new(),
            queues: Vec::new(),
            costs: Vec::new(),
            coupling: Coupling::default(),
            covariance: Vec::new(),
            scratch: setup::Scratch::default(),
            last: None,
            kept: None,
        }
    }
}

impl<const M: usize, const R: usize> Interior<M, R>
where
    Mesh<M>: Eliminate<M>,
{
    fn solve(&mut self, parameters: &Parameters, most: u32, problem: &Problem, solution: &mut Solution, warm: bool) {
        let (circuits, horizon) = (problem.circuits(), parameters.horizon);
        solution.reset(circuits, parameters);
        solution.commitments_scaled = scaled(problem.commitment_factors(parameters));
        if circuits == 0 {
            return;
        }
        let warm = warm && self.last == Some((circuits, horizon));
        if warm {
            self.run(parameters, most, problem, solution, true);
        }
        // A start that was no good must not be the end.
        if !warm || solution.status != Status::Solved {
            self.run(parameters, most, problem, solution, false);
        }
        for p in 0..circuits {
            let steps = &self.steps[p / WIDTH * horizon..][..horizon];
            for (k, step) in steps.iter().enumerate() {
                let rate = |rate: usize| (step.rate[rate].0[p % WIDTH] * parameters.scaling).max(0.0);
                solution.rate_in[p * horizon + k] = rate(0);
                solution.rate_out[p * horizon + k] = rate(1);
                if M == 3 {
                    solution.virtual_rate_out[p * horizon + k] = rate(2);
                }
            }
        }
        solution.conclude(parameters, problem);
    }

    /// Iterates to the optimum, from the last one or from the middle, and adds the iterations to the solution's.
    fn run(&mut self, parameters: &Parameters, most: u32, problem: &Problem, solution: &mut Solution, warm: bool) {
        let (circuits, horizon) = (problem.circuits(), parameters.horizon);
        if warm {
            // A row that did not count has no dual.
            for step in &mut self.steps {
                for row in 0..R {
                    step.dual[row] = step.dual[row] * step.on[row];
                }
            }
        } else {
            let packs = circuits.div_ceil(WIDTH);
            self.steps.clear();
            self.steps.resize(packs * horizon, Step::NOBODY);
            self.queues.clear();
            self.queues.resize(packs, Lanes::ZERO);
            self.coupling.resize(horizon * M);
            self.covariance.resize(horizon * horizon, [[Lanes::ZERO; M]; M]);
        }
        (self.last, self.kept) = (None, None);
        setup::costs(parameters, problem, &mut self.costs);
        setup::fill(&mut self.steps, &mut self.queues, &mut self.coupling, &mut self.scratch, parameters, problem);
        if warm {
            self.start_warm();
        } else {
            self.start_cold(circuits);
        }
        let rows = self.rows();
        let patience = if warm { BRISK } else { PATIENT };
        solution.status = Status::IterationLimit;
        for _ in 0..most {
            match self.iterate(rows, patience) {
                Progress::Step => solution.iterations += 1,
                Progress::Optimal => {
                    solution.status = Status::Solved;
                    self.last = Some((circuits, horizon));
                    break;
                }
                Progress::Broken => {
                    solution.status = Status::Failed;
                    break;
                }
            }
        }
        if solution.status != Status::Solved && self.kept.is_some() {
            self.restore();
            solution.status = Status::Solved;
            self.last = Some((circuits, horizon));
        }
    }
}

/// What became of an iteration.
enum Progress {
    Step,
    Optimal,
    Broken,
}

/// The mean product of slack and dual at which the iterate is the optimum. A rate next to its bound that weighs 5e-5, as in the tenth step, is then within 1e-3
/// packets a second even if its bound hardly binds.
const OPTIMAL: f64 = 1e-14;

/// When to be content with less, for problems whose duals are not unique: there rounding drives the iteration away again before it gets to the optimum.
#[derive(Debug, Clone, Copy)]
struct Patience {
    /// The mean product of an iterate from which it need not get better.
    acceptable: f64,
    /// It is the last if the next is not better by this factor.
    stalled: f64,
}

/// If nothing better comes, this still counts as the optimum: the first step is within 1e-3 packets a second, the tenth within 0.2.
const LAST_RESORT: f64 = 1e-9;
/// The largest residual of the gradient then.
const LAST_RESORT_GRADIENT: f64 = 1e-7;

/// From the beginning: for single problems, where accuracy is all.
const PATIENT: Patience = Patience { acceptable: 1e-12, stalled: 0.5 };
/// From the last optimum: for a controller, which applies the first step alone. Late steps may be off by some 1e-2 packets a second, where they weigh 1e-4 of the first.
const BRISK: Patience = Patience { acceptable: 1e-11, stalled: 0.1 };
/// The least mean product that a start at the last optimum begins with.
const WARM: f64 = 1e-8;
/// The largest residual of an optimum, in the constraints (scaled rates) and in the gradient.
const FEASIBLE: f64 = 1e-9;

impl<const M: usize, const R: usize> Interior<M, R>
where
    Mesh<M>: Eliminate<M>,
{
    fn horizon(&self) -> usize {
        self.costs.len()
    }

    /// Rows that count.
    fn rows(&self) -> f64 {
        let local: f64 = self.steps.iter().flat_map(|step| step.on).map(Lanes::sum).sum();
        local + self.coupling.on.iter().filter(|on| **on).count() as f64
    }

    fn iterate(&mut self, rows: f64, patience: Patience) -> Progress {
        let horizon = self.horizon();
        let (mut gap, mut primal, mut gradient) = (0.0, 0.0_f64, 0.0_f64);
        for (pack, steps) in self.steps.chunks_exact_mut(horizon).enumerate() {
            let found = pack::measure(steps, &self.costs, self.queues[pack], &self.coupling.dual);
            gap += found.gap;
            primal = primal.max(found.primal);
            gradient = gradient.max(found.gradient);
        }
        self.total(|step| step.rate, false);
        let (coupled, missed) = self.coupling.measure();
        let mean = (gap + coupled) / rows;
        let feasible = primal.max(missed) <= FEASIBLE && gradient <= FEASIBLE;
        let near = primal.max(missed) <= FEASIBLE && gradient <= LAST_RESORT_GRADIENT;
        if mean <= OPTIMAL && feasible {
            return Progress::Optimal;
        }
        match self.kept {
            // It does not get better: rounding.
            Some(before) if before <= patience.acceptable && (!feasible || mean > patience.stalled * before) => {
                return Progress::Broken;
            }
            before if mean <= LAST_RESORT && near && before.is_none_or(|before| mean < before) => self.keep(mean),
            _ => {}
        }
        if !mean.is_finite() {
            return Progress::Broken;
        }
        self.covariance.fill([[Lanes::ZERO; M]; M]);
        for steps in self.steps.chunks_exact_mut(horizon) {
            pack::eliminate(steps, &self.costs);
            pack::covariance(steps, &mut self.covariance);
        }
        if !self.coupling.factor(&self.covariance, horizon) {
            return Progress::Broken;
        }
        for steps in self.steps.chunks_exact_mut(horizon) {
            pack::aim_at_zero(steps);
        }
        self.coupling.aim_at_zero();
        let (shrink, products) = self.direction();
        let reach = if shrink > 1.0 { 1.0 / shrink } else { 1.0 };
        let predicted = (1.0 - reach) * mean + reach * reach * products / rows;
        let share = (predicted / mean).clamp(0.0, 1.0);
        let centre = share * share * share * mean;
        for steps in self.steps.chunks_exact_mut(horizon) {
            pack::aim_at_centre(steps, centre);
        }
        self.coupling.aim_at_centre(centre);
        let (shrink, _) = self.direction();
        let near = (1.0 - mean).max(0.995);
        let length = if shrink > near { near / shrink } else { 1.0 };
        if !length.is_finite() || length <= 1e-12 {
            return Progress::Broken;
        }
        self.steps.chunks_exact_mut(horizon).for_each(|steps| pack::go(steps, length));
        self.coupling.go(length);
        Progress::Step
    }

    /// Remembers the iterate.
    fn keep(&mut self, mean: f64) {
        for step in &mut self.steps {
            (step.kept_rate, step.kept_excess, step.kept_dual) = (step.rate, step.excess, step.dual);
        }
        self.coupling.kept_dual.clone_from(&self.coupling.dual);
        self.kept = Some(mean);
    }

    /// Goes back to the iterate that was kept.
    fn restore(&mut self) {
        for step in &mut self.steps {
            (step.rate, step.excess, step.dual) = (step.kept_rate, step.kept_excess, step.kept_dual);
        }
        self.coupling.dual.clone_from(&self.coupling.kept_dual);
    }

    /// The direction for the targets that are set; the largest share of a slack or dual it takes away, and the sum of the products of their moves.
    fn direction(&mut self) -> (f64, f64) {
        let horizon = self.horizon();
        for steps in self.steps.chunks_exact_mut(horizon) {
            pack::prepare(steps);
            pack::sweep(steps, None);
        }
        self.total(|step| step.move_rate, true);
        self.coupling.solve();
        let (mut shrink, mut products) = self.coupling.finish();
        for steps in self.steps.chunks_exact_mut(horizon) {
            pack::sweep(steps, Some(&self.coupling.move_dual));
            let reach = pack::finish(steps);
            shrink = shrink.max(reach.shrink);
            products += reach.products;
        }
        (shrink, products)
    }

    /// Sums over the circuits, by step and rate.
    fn total(&mut self, of: impl Fn(&Step<M, R>) -> [Lanes; M], moves: bool) {
        let horizon = self.horizon();
        let totals = if moves { &mut self.coupling.move_total } else { &mut self.coupling.total };
        totals.fill(0.0);
        for steps in self.steps.chunks_exact(horizon) {
            for (step, totals) in steps.iter().zip(totals.chunks_exact_mut(M)) {
                for (total, lanes) in totals.iter_mut().zip(of(step)) {
                    *total += lanes.sum();
                }
            }
        }
    }

    /// A start in the middle: all products of slack and dual alike.
    fn start_cold(&mut self, circuits: usize) {
        let fair = |cost: &StepCost<M>, rate: usize| 0.5 * cost.aim[rate] / circuits as f64;
        let cost = self.costs[0];
        let room = (0.1 * fair(&cost, 0).min(fair(&cost, 1))).max(1e-3);
        let product = (0..M).map(|rate| cost.square[rate] * cost.aim[rate] * fair(&cost, rate)).fold(0.0, f64::max).max(1e-6);
        let horizon = self.horizon();
        for steps in self.steps.chunks_exact_mut(horizon) {
            let mut state = [Lanes::ZERO; M];
            for step in steps {
                for rate in 0..M {
                    let free = step.free[rate];
                    step.rate[rate] = step.rate[rate] * (Lanes::ONE - free) + free * Lanes::all(fair(&cost, rate));
                }
                state = Step::<M, R>::after(state, &step.rate);
                let without = Step::<M, R>::left(&step.rate, &state, Lanes::ZERO);
                let over = (without[row::QUEUE_LIMIT] - step.bound[row::QUEUE_LIMIT]).max(Lanes::ZERO);
                step.excess = (over + Lanes::all(product / cost.excess)) * step.on[row::EXCESS];
                let left = Step::<M, R>::left(&step.rate, &state, step.excess);
                for row in 0..R {
                    let least = if row == row::EXCESS || row == row::QUEUE_LIMIT { product / cost.excess } else { room };
                    let slack = (step.bound[row] - left[row]).max(Lanes::all(least));
                    let off = Lanes::ONE - step.on[row];
                    step.slack[row] = slack * step.on[row] + off;
                    step.dual[row] = step.on[row] * Lanes::all(product) / slack + off;
                }
            }
        }
        self.total(|step| step.rate, false);
        for row in 0..self.coupling.bound.len() {
            let slack = (self.coupling.bound[row] - self.coupling.total[row]).max(room);
            let on = self.coupling.on[row];
            self.coupling.slack[row] = if on { slack } else { 1.0 };
            self.coupling.dual[row] = if on { product / slack } else { 0.0 };
        }
    }

    /// A start at the last optimum, moved into the interior: each slack and dual multiply to the same, and are no further from what they were than that takes. The product is as
    /// large as the last optimum is wrong for this problem.
    fn start_warm(&mut self) {
        let horizon = self.horizon();
        self.total(|step| step.rate, false);
        // By how much the last optimum's products are off, and its violations.
        let (mut wrong, mut rows) = (0.0, 0.0);
        for steps in self.steps.chunks_exact_mut(horizon) {
            let mut state = [Lanes::ZERO; M];
            for (step, cost) in steps.iter_mut().zip(&self.costs) {
                state = Step::<M, R>::after(state, &step.rate);
                step.state = state;
                let stiff = Lanes::all(cost.square[0]);
                let left = Step::<M, R>::left(&step.rate, &state, step.excess);
                for row in 0..R {
                    let slack = step.bound[row] - left[row];
                    let short = (-slack).max(Lanes::ZERO);
                    let off = slack.abs() * step.dual[row] + stiff * short * short;
                    wrong += (off * step.on[row]).sum();
                    rows += step.on[row].sum();
                }
            }
        }
        for row in 0..self.coupling.bound.len() {
            if self.coupling.on[row] {
                let slack = self.coupling.bound[row] - self.coupling.total[row];
                let stiff = self.costs[row / M].square[row % M];
                wrong += slack.abs() * self.coupling.dual[row] + stiff * slack.min(0.0) * slack.min(0.0);
                rows += 1.0;
            }
        }
        let product = f64::max(wrong / rows, WARM);
        for steps in self.steps.chunks_exact_mut(horizon) {
            for (step, cost) in steps.iter_mut().zip(&self.costs) {
                let stiff = cost.square[0];
                let left = Step::<M, R>::left(&step.rate, &step.state, step.excess);
                for row in 0..R {
                    for lane in 0..WIDTH {
                        let on = step.on[row].0[lane] > 0.0;
                        let slack = step.bound[row].0[lane] - left[row].0[lane];
                        let (slack, dual) = if on { inside(slack, step.dual[row].0[lane], stiff, product) } else { (1.0, 1.0) };
                        step.slack[row].0[lane] = slack;
                        step.dual[row].0[lane] = dual;
                    }
                }
            }
        }
        for row in 0..self.coupling.bound.len() {
            let slack = self.coupling.bound[row] - self.coupling.total[row];
            let stiff = self.costs[row / M].square[row % M];
            let (slack, dual) = inside(slack, self.coupling.dual[row], stiff, product);
            self.coupling.slack[row] = if self.coupling.on[row] { slack } else { 1.0 };
            self.coupling.dual[row] = if self.coupling.on[row] { dual } else { 0.0 };
        }
    }
}

/// The positive slack and dual that multiply to `product` and keep the difference of the dual and `stiff` times the slack.
fn inside(slack: f64, dual: f64, stiff: f64, product: f64) -> (f64, f64) {
    let difference = stiff * slack - dual;
    let root = (difference * difference + 4.0 * stiff * product).sqrt();
    if difference > 0.0 {
        let slack = (difference + root) / (2.0 * stiff);
        (slack, product / slack)
    } else {
        let dual = (root - difference) / 2.0;
        (product / dual, dual)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::CircuitInput;

    fn problem(circuits: usize, rate: f64) -> Problem {
        let mut problem = Problem::new(10, 1000.0, 1000.0).unwrap();
        for _ in 0..circuits {
            let input = CircuitInput {
                queue: 5.0,
                from_relay: true,
                source_rate: &[rate; 10],
                source_queue: &[2.0; 10],
                source_virtual_rate: &[],
                limit: &[300.0; 10],
            };
            problem.push(&input).unwrap();
        }
        problem
    }

    /// Where everything lies that a solve writes.
    fn places(solver: &FastSolver, solution: &Solution) -> Vec<usize> {
        let Core::Conference(core) = &solver.core else { panic!("conference") };
        let coupling = &core.coupling;
        let mut places = vec![
            core.steps.as_ptr() as usize,
            core.queues.as_ptr() as usize,
            core.costs.as_ptr() as usize,
            core.covariance.as_ptr() as usize,
        ];
        places.extend(
            [&coupling.slack, &coupling.dual, &coupling.kept_dual, &coupling.total].map(|values| values.as_ptr() as usize),
        );
        places.extend([&solution.rate_in, &solution.rate_out, &solution.queue].map(|values| values.as_ptr() as usize));
        places
    }

    #[test]
    fn a_repeated_solve_keeps_its_memory() {
        let mut solver = FastSolver::new(Parameters::CONFERENCE).unwrap();
        let mut solution = Solution::default();
        solver.solve(&problem(9, 100.0), &mut solution).unwrap();
        let before = places(&solver, &solution);
        for (circuits, rate) in [(9, 90.0), (9, 250.0), (4, 80.0), (0, 0.0), (9, 10.0)] {
            let problem = problem(circuits, rate);
            solver.solve_warm(&problem, &mut solution).unwrap();
            solver.solve(&problem, &mut solution).unwrap();
            assert_eq!(solution.status, Status::Solved);
            assert_eq!(places(&solver, &solution), before);
        }
    }

    #[test]
    fn a_problem_of_another_kind_is_refused() {
        let mut solver = FastSolver::new(Parameters { horizon: 7, ..Parameters::CONFERENCE }).unwrap();
        assert!(solver.solve(&problem(1, 1.0), &mut Solution::default()).is_err());
        assert!(FastSolver::new(Parameters { horizon: 0, ..Parameters::CONFERENCE }).is_err());
    }

    /// Nothing to take, nothing to send, no room: all rates are fixed at zero, and that is the optimum.
    #[test]
    fn a_relay_with_nothing_to_do_does_nothing() {
        let mut problem = Problem::new(10, 0.0, 0.0).unwrap();
        let nothing = CircuitInput {
            queue: 0.0,
            from_relay: false,
            source_rate: &[0.0; 10],
            source_queue: &[0.0; 10],
            source_virtual_rate: &[],
            limit: &[0.0; 10],
        };
        problem.push(&nothing).unwrap();
        let mut solution = Solution::default();
        FastSolver::new(Parameters::CONFERENCE).unwrap().solve(&problem, &mut solution).unwrap();
        assert_eq!(solution.status, Status::Solved);
        assert!(solution.rate_in.iter().chain(&solution.rate_out).all(|rate| rate.abs() < 1e-9));
    }
}
