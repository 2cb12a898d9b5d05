//! Where the iteration begins: in the middle, or at the last optimum, moved into the interior.

use super::interior::Interior;
use super::lanes::{Lanes, WIDTH};
use super::mesh::{Eliminate, Mesh};
use super::pack::StepCost;
use super::step::{Step, row};

/// The least mean product that a start at the last optimum begins with.
const WARM: f64 = 1e-8;

impl<const M: usize, const R: usize> Interior<M, R>
where
    Mesh<M>: Eliminate<M>,
{
    /// A start in the middle: all products of slack and dual alike.
    pub fn start_cold(&mut self, circuits: usize) {
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
    pub fn start_warm(&mut self) {
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
