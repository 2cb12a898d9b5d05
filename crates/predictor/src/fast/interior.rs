//! The iteration: Mehrotra's predictor and corrector, when it is over, and what it falls back on.

use super::coupling::Coupling;
use super::lanes::{Lanes, WIDTH, widest};
use super::mesh::{Eliminate, Mesh};
use super::pack::{self, StepCost};
use super::setup;
use super::step::Step;
use crate::parameters::Parameters;
use crate::problem::{Problem, scaled};
use crate::solution::{Solution, Status};

/// The iteration with M rates a step and R constraints.
#[derive(Debug, Clone)]
pub struct Interior<const M: usize, const R: usize> {
    /// By pack, then step.
    pub steps: Vec<Step<M, R>>,
    /// The queue before the first step, by pack.
    pub queues: Vec<Lanes>,
    pub costs: Vec<StepCost<M>>,
    pub coupling: Coupling,
    pub covariance: Vec<[[Lanes; M]; M]>,
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
    pub fn solve(&mut self, parameters: &Parameters, most: u32, problem: &Problem, solution: &mut Solution, warm: bool) {
        let (circuits, horizon) = (problem.circuits(), parameters.horizon);
        solution.reset(circuits, parameters);
        solution.commitments_scaled = scaled(&problem.commitment_factors(parameters));
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
/// The largest residual of an optimum, in the constraints (scaled rates) and in the gradient.
const FEASIBLE: f64 = 1e-9;

impl<const M: usize, const R: usize> Interior<M, R>
where
    Mesh<M>: Eliminate<M>,
{
    pub fn horizon(&self) -> usize {
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
            let found = widest(
                #[inline(always)]
                || pack::measure(steps, &self.costs, self.queues[pack], &self.coupling.dual),
            );
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
            widest(
                #[inline(always)]
                || {
                    pack::eliminate(steps, &self.costs);
                    pack::covariance(steps, &mut self.covariance);
                },
            );
        }
        if !self.coupling.factor(&self.covariance, horizon) {
            return Progress::Broken;
        }
        for steps in self.steps.chunks_exact_mut(horizon) {
            widest(
                #[inline(always)]
                || pack::aim_at_zero(steps),
            );
        }
        self.coupling.aim_at_zero();
        let (shrink, products) = self.direction();
        let reach = if shrink > 1.0 { 1.0 / shrink } else { 1.0 };
        let predicted = (1.0 - reach) * mean + reach * reach * products / rows;
        let share = (predicted / mean).clamp(0.0, 1.0);
        let centre = share * share * share * mean;
        for steps in self.steps.chunks_exact_mut(horizon) {
            widest(
                #[inline(always)]
                || pack::aim_at_centre(steps, centre),
            );
        }
        self.coupling.aim_at_centre(centre);
        let (shrink, _) = self.direction();
        let near = (1.0 - mean).max(0.995);
        let length = if shrink > near { near / shrink } else { 1.0 };
        if !length.is_finite() || length <= 1e-12 {
            return Progress::Broken;
        }
        for steps in self.steps.chunks_exact_mut(horizon) {
            widest(
                #[inline(always)]
                || pack::go(steps, length),
            );
        }
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
            widest(
                #[inline(always)]
                || {
                    pack::prepare(steps);
                    pack::sweep(steps, None);
                },
            );
        }
        self.total(|step| step.move_rate, true);
        self.coupling.solve();
        let (mut shrink, mut products) = self.coupling.finish();
        for steps in self.steps.chunks_exact_mut(horizon) {
            let reach = widest(
                #[inline(always)]
                || {
                    pack::sweep(steps, Some(&self.coupling.move_dual));
                    pack::finish(steps)
                },
            );
            shrink = shrink.max(reach.shrink);
            products += reach.products;
        }
        (shrink, products)
    }

    /// Sums over the circuits, by step and rate.
    pub fn total(&mut self, of: impl Fn(&Step<M, R>) -> [Lanes; M], moves: bool) {
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
}
