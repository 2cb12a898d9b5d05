//! What one iteration does within four circuits: residuals, elimination in time, directions. Everything is linear in the number of steps but the covariance. All is
//! inlined into the call of [`widest`](super::lanes::widest) around it.

use super::lanes::Lanes;
use super::mesh::{Eliminate, Eliminated, Mesh};
use super::step::{FIXED, Step, row};

/// The cost of a step, on scaled rates and times the number of circuits. Half of `square` times the square of a rate's distance from its `aim`, and so on.
#[derive(Debug, Clone, Copy)]
pub struct StepCost<const M: usize> {
    pub square: [f64; M],
    pub aim: [f64; M],
    /// On half the square of z - y.
    pub deviation: f64,
    /// On half the square of the queue after the step.
    pub queue: f64,
    /// On the excess after the step.
    pub excess: f64,
}

/// What [`measure`] finds in a pack.
#[derive(Debug, Clone, Copy)]
pub struct Measure {
    /// The sum of slack times dual over the rows that count.
    pub gap: f64,
    pub primal: f64,
    pub gradient: f64,
}

/// A residual that is smaller than this share of what it was computed from is rounding, and counts as zero: near the optimum slacks are smaller than that, and a
/// residual above a slack would send the iteration away again.
pub const NOISE: f64 = 2e-15;

/// Sums, residuals and slacks' inverses. `duals` are those of the coupling rows, by step and rate; `queue` is the queue before the first step.
#[inline(always)]
pub fn measure<const M: usize, const R: usize>(
    steps: &mut [Step<M, R>],
    cost: &[StepCost<M>],
    queue: Lanes,
    duals: &[f64],
) -> Measure {
    let (mut gap, mut primal, mut gradient) = (Lanes::ZERO, Lanes::ZERO, Lanes::ZERO);
    let mut state = [Lanes::ZERO; M];
    for step in &mut *steps {
        state = Step::<M, R>::after(state, &step.rate);
        step.state = state;
        let left = Step::<M, R>::left(&step.rate, &state, step.excess);
        // The intake's sum bounds what went into the queues' rounding.
        let size = step.excess.abs() + state[0] + state[1].abs();
        for row in 0..R {
            step.inverse[row] = Lanes::ONE / step.slack[row];
            let missed = left[row] + step.slack[row] - step.bound[row];
            step.primal[row] = step.on[row] * missed.unless_within(Lanes::all(NOISE) * (size + step.bound[row].abs()));
            primal = primal.max(step.primal[row].abs());
            gap += step.on[row] * step.slack[row] * step.dual[row];
        }
    }
    // From the end: a rate moves all later states.
    let mut later = [Lanes::ZERO; M];
    for (k, step) in steps.iter_mut().enumerate().rev() {
        let cost = &cost[k];
        Step::<M, R>::onto_state(&step.dual, &mut later);
        if cost.queue > 0.0 {
            later[1] += Lanes::all(cost.queue) * (queue + step.state[1]);
        }
        let mut found = [Lanes::ZERO; M];
        found[0] = later[0];
        for other in 1..M {
            found[0] += later[other];
            found[other] = -later[other];
        }
        Step::<M, R>::onto_rate(&step.dual, &mut found);
        for rate in 0..M {
            let own = Lanes::all(cost.square[rate]) * (step.rate[rate] - Lanes::all(cost.aim[rate]));
            found[rate] += own + Lanes::all(duals[k * M + rate]);
        }
        if M == 3 {
            let apart = Lanes::all(cost.deviation) * (step.rate[2] - step.rate[1]);
            found[1] -= apart;
            found[2] += apart;
        }
        for rate in 0..M {
            step.gradient[rate] = found[rate] * step.free[rate];
            gradient = gradient.max(step.gradient[rate].abs());
        }
        step.gradient_excess = Lanes::all(cost.excess) - (step.dual[row::QUEUE_LIMIT] + step.dual[row::EXCESS]);
    }
    Measure { gap: gap.sum(), primal: primal.largest(), gradient: gradient.largest() }
}

/// Eliminates the steps from the last to the first.
#[inline(always)]
pub fn eliminate<const M: usize, const R: usize>(steps: &mut [Step<M, R>], cost: &[StepCost<M>])
where
    Mesh<M>: Eliminate<M>,
{
    let mut mesh = Mesh { ground: [Lanes::ZERO; M], edge: [Lanes::ZERO; 3] };
    for (step, cost) in steps.iter_mut().zip(cost).rev() {
        let (limit, excess) = (step.stiffness(row::QUEUE_LIMIT), step.stiffness(row::EXCESS));
        mesh.ground[0] += step.stiffness(row::SOURCE);
        mesh.edge[0] += step.stiffness(row::QUEUE) + Lanes::all(cost.queue);
        // The excess gives way to the queue: conductances in series.
        mesh.edge[0] += limit * excess / (limit + excess);
        if M == 3 {
            mesh.edge[1] += step.stiffness(row::VIRTUAL_QUEUE);
        }
        let mut own = [Lanes::ZERO; M];
        own[0] = step.stiffness(row::INTAKE);
        own[1] = step.stiffness(row::OUTGOING) + step.stiffness(row::LIMIT);
        if M == 3 {
            own[2] = step.stiffness(row::VIRTUAL);
        }
        for rate in 0..M {
            own[rate] += Lanes::all(cost.square[rate]) + (Lanes::ONE - step.free[rate]) * Lanes::all(FIXED);
        }
        (step.eliminated, mesh) = mesh.eliminate(&own, Lanes::all(cost.deviation));
    }
}

/// Adds the covariance of the rates of each two steps to `covariance`: blocks of M x M, that of steps j and k (k at most j) at j N + k, a row for each rate of j.
///
/// The covariance is the inverse of the circuit's Hessian: the elimination read as a random walk, whose rates are -K s plus noise with the elimination's inverse as covariance.
#[inline(always)]
pub fn covariance<const M: usize, const R: usize>(steps: &[Step<M, R>], covariance: &mut [[[Lanes; M]; M]]) {
    let count = steps.len();
    // Of the state before the step.
    let mut state = [[Lanes::ZERO; M]; M];
    for (k, step) in steps.iter().enumerate() {
        let Eliminated { inverse, cross, noise, gain, pass } = &step.eliminated;
        // Of the state before the step with its rates, but for the sign.
        let with_state = times_transposed(&state, gain);
        let own = times(gain, &with_state);
        let passed = times(pass, &with_state);
        // Of the state after the step with its rates.
        let mut carried = [[Lanes::ZERO; M]; M];
        let block = &mut covariance[k * count + k];
        for a in 0..M {
            for b in 0..M {
                block[a][b] += own[a][b] + inverse[a][b];
                carried[a][b] = cross[b][a] - passed[a][b];
            }
        }
        let passed = times_transposed(&state, pass);
        state = times(pass, &passed);
        for a in 0..M {
            for b in 0..M {
                state[a][b] += noise[a][b];
            }
        }
        for (j, later) in steps.iter().enumerate().skip(k + 1) {
            let block = &mut covariance[j * count + k];
            let response = times(&later.eliminated.gain, &carried);
            for a in 0..M {
                for b in 0..M {
                    block[a][b] -= response[a][b];
                }
            }
            carried = times(&later.eliminated.pass, &carried);
        }
    }
}

#[inline(always)]
fn times<const M: usize>(a: &[[Lanes; M]; M], b: &[[Lanes; M]; M]) -> [[Lanes; M]; M] {
    let mut product = [[Lanes::ZERO; M]; M];
    for row in 0..M {
        product[row] = each(|column| dot::<M>(|m| a[row][m] * b[m][column]));
    }
    product
}

#[inline(always)]
fn times_transposed<const M: usize>(a: &[[Lanes; M]; M], b: &[[Lanes; M]; M]) -> [[Lanes; M]; M] {
    let mut product = [[Lanes::ZERO; M]; M];
    for row in 0..M {
        product[row] = each(|column| dot::<M>(|m| a[row][m] * b[column][m]));
    }
    product
}

/// As `std::array::from_fn`, which is not always inlined.
#[inline(always)]
fn each<const M: usize>(value: impl Fn(usize) -> Lanes) -> [Lanes; M] {
    let mut values = [Lanes::ZERO; M];
    for index in 0..M {
        values[index] = value(index);
    }
    values
}

#[inline(always)]
fn dot<const M: usize>(product: impl Fn(usize) -> Lanes) -> Lanes {
    let mut sum = product(0);
    for m in 1..M {
        sum += product(m);
    }
    sum
}

/// The linear terms of the problem that gives the direction, from residuals and targets.
#[inline(always)]
pub fn prepare<const M: usize, const R: usize>(steps: &mut [Step<M, R>]) {
    for step in steps {
        let mut terms = [Lanes::ZERO; R];
        for row in 0..R {
            terms[row] = step.inverse[row] * (step.dual[row] * step.primal[row] - step.target[row]);
        }
        let (limit, excess) = (step.stiffness(row::QUEUE_LIMIT), step.stiffness(row::EXCESS));
        let scale = Lanes::ONE / (limit + excess);
        // What is left of the limit's term when the excess has given way.
        let beside = terms[row::EXCESS] - step.gradient_excess;
        step.excess_base = (terms[row::QUEUE_LIMIT] + beside) * scale;
        terms[row::QUEUE_LIMIT] = (terms[row::QUEUE_LIMIT] * excess - limit * beside) * scale;
        step.on_rate = step.gradient;
        Step::<M, R>::onto_rate(&terms, &mut step.on_rate);
        step.on_state = [Lanes::ZERO; M];
        Step::<M, R>::onto_state(&terms, &mut step.on_state);
    }
}

/// The rates' direction, with `push` on each rate beside the prepared terms; by step and rate.
#[inline(always)]
pub fn sweep<const M: usize, const R: usize>(steps: &mut [Step<M, R>], push: Option<&[f64]>) {
    let mut later = [Lanes::ZERO; M];
    for (k, step) in steps.iter_mut().enumerate().rev() {
        let Eliminated { inverse, cross, noise, gain, pass } = &step.eliminated;
        let mut on_rate = step.on_rate;
        if let Some(push) = push {
            for rate in 0..M {
                on_rate[rate] += Lanes::all(push[k * M + rate]);
            }
        }
        for (later, own) in later.iter_mut().zip(&step.on_state) {
            *later += *own;
        }
        step.rate_constant = each(|a| -dot::<M>(|b| cross[a][b] * later[b] + inverse[a][b] * on_rate[b]));
        step.state_constant = each(|a| -dot::<M>(|b| noise[a][b] * later[b] + cross[b][a] * on_rate[b]));
        later = each(|a| dot::<M>(|b| pass[b][a] * later[b] - gain[b][a] * on_rate[b]));
    }
    let mut state = [Lanes::ZERO; M];
    for step in steps {
        let Eliminated { gain, pass, .. } = &step.eliminated;
        step.move_rate = each(|a| step.rate_constant[a] - dot::<M>(|b| gain[a][b] * state[b]));
        state = each(|a| step.state_constant[a] + dot::<M>(|b| pass[a][b] * state[b]));
        step.move_state = state;
    }
}

/// What [`finish`] finds: the largest share of a slack or dual that the full direction takes away, and the sum of the products of their moves.
#[derive(Debug, Clone, Copy)]
pub struct Reach {
    pub shrink: f64,
    pub products: f64,
}

/// The direction of excesses, slacks and duals, once the rates' is known.
#[inline(always)]
pub fn finish<const M: usize, const R: usize>(steps: &mut [Step<M, R>]) -> Reach {
    let (mut shrink, mut products) = (Lanes::ZERO, Lanes::ZERO);
    for step in steps {
        let (limit, excess) = (step.stiffness(row::QUEUE_LIMIT), step.stiffness(row::EXCESS));
        let queue = step.move_state[1];
        let scale = Lanes::ONE / (limit + excess);
        step.move_excess = step.excess_base + limit * queue * scale;
        let mut left = Step::<M, R>::left(&step.move_rate, &step.move_state, step.move_excess);
        // The queue's move less the excess's, which is nearly as large where the limit is exceeded, without subtracting them.
        left[row::QUEUE_LIMIT] = excess * queue * scale - step.excess_base;
        for row in 0..R {
            let slack = -(left[row] + step.primal[row]) * step.on[row];
            let dual = -(step.dual[row] * slack + step.target[row]) * step.inverse[row];
            step.move_slack[row] = slack;
            step.move_dual[row] = dual;
            shrink = shrink.max(-slack * step.inverse[row]).max(-dual / step.dual[row]);
            products += slack * dual;
        }
    }
    Reach { shrink: shrink.largest(), products: products.sum() }
}

/// Targets of the predictor: all products to zero.
#[inline(always)]
pub fn aim_at_zero<const M: usize, const R: usize>(steps: &mut [Step<M, R>]) {
    for step in steps {
        for row in 0..R {
            step.target[row] = step.on[row] * step.slack[row] * step.dual[row];
        }
    }
}

/// Targets of the corrector: all products to `centre`, less what the predictor's moves multiply to.
#[inline(always)]
pub fn aim_at_centre<const M: usize, const R: usize>(steps: &mut [Step<M, R>], centre: f64) {
    for step in steps {
        for row in 0..R {
            let second = step.move_slack[row] * step.move_dual[row];
            step.target[row] += step.on[row] * (second - Lanes::all(centre));
        }
    }
}

/// Goes along the direction.
#[inline(always)]
pub fn go<const M: usize, const R: usize>(steps: &mut [Step<M, R>], length: f64) {
    let length = Lanes::all(length);
    for step in steps {
        for rate in 0..M {
            step.rate[rate] += length * step.move_rate[rate];
        }
        step.excess += length * step.move_excess;
        for row in 0..R {
            step.slack[row] += length * step.move_slack[row];
            step.dual[row] += length * step.move_dual[row];
        }
    }
}
