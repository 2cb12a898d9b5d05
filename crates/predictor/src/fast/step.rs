//! One step of four circuits: its constraints, and where the iteration stands in it.
//!
//! The variables are the rates of the step (intake x, outgoing y and, in the journal problem, virtual outgoing z), scaled, and the excess of the queue over its limit. What a
//! circuit has taken and sent up to the step are running sums X, Y, Z of them; queues are differences of such sums, and divided by the
//! step's length, so that no factor stands between a rate and a sum.

use super::lanes::Lanes;
use super::mesh::Eliminated;

/// The constraints of a step, each "this is at most its bound".
pub mod row {
    /// -x: intake not negative.
    pub const INTAKE: usize = 0;
    /// -y: outgoing rate not negative.
    pub const OUTGOING: usize = 1;
    /// y: the successor's limit.
    pub const LIMIT: usize = 2;
    /// X: what the source has.
    pub const SOURCE: usize = 3;
    /// Y - X: queue not negative.
    pub const QUEUE: usize = 4;
    /// X - Y - e: queue at most its limit and the excess.
    pub const QUEUE_LIMIT: usize = 5;
    /// -e: excess not negative.
    pub const EXCESS: usize = 6;
    /// -z: virtual rate not negative.
    pub const VIRTUAL: usize = 7;
    /// Z - X: virtual queue not negative.
    pub const VIRTUAL_QUEUE: usize = 8;
}

/// Rows of the conference and of the journal problem.
pub const CONFERENCE_ROWS: usize = 7;
/// See [`CONFERENCE_ROWS`].
pub const JOURNAL_ROWS: usize = 9;

/// What a variable that is fixed costs, so that it does not move.
pub const FIXED: f64 = 1e30;

/// One step of a pack of four circuits with M rates and R constraints.
///
/// A row that constrains only fixed variables is off: its slack and dual stay at one, and it counts for nothing.
#[derive(Debug, Clone, Copy)]
pub struct Step<const M: usize, const R: usize> {
    /// 1 for a rate that can move, 0 for one that is fixed.
    pub free: [Lanes; M],
    pub bound: [Lanes; R],
    /// 1 for a row that counts.
    pub on: [Lanes; R],

    pub rate: [Lanes; M],
    pub excess: Lanes,
    pub slack: [Lanes; R],
    pub dual: [Lanes; R],
    /// The best iterate so far that may count as the optimum.
    pub kept_rate: [Lanes; M],
    pub kept_excess: Lanes,
    pub kept_dual: [Lanes; R],

    /// The state after this step.
    pub state: [Lanes; M],
    /// One over the slack.
    pub inverse: [Lanes; R],
    /// By how much each row misses its equation with the slack.
    pub primal: [Lanes; R],
    /// Gradient of the Lagrangian in the rates that can move, and in the excess.
    pub gradient: [Lanes; M],
    pub gradient_excess: Lanes,
    pub eliminated: Eliminated<M>,

    /// What slack times dual should be lowered by.
    pub target: [Lanes; R],
    /// Linear terms of the direction's problem, in the rates and in the state.
    pub on_rate: [Lanes; M],
    pub on_state: [Lanes; M],
    /// The constants of the best rates and of the state after them.
    pub rate_constant: [Lanes; M],
    pub state_constant: [Lanes; M],
    /// The excess's direction before the queues' move.
    pub excess_base: Lanes,
    /// The direction.
    pub move_rate: [Lanes; M],
    pub move_state: [Lanes; M],
    pub move_excess: Lanes,
    pub move_slack: [Lanes; R],
    pub move_dual: [Lanes; R],
}

impl<const M: usize, const R: usize> Step<M, R> {
    /// A step of nobody: everything fixed at zero, all rows off.
    pub const NOBODY: Self = {
        // A constraint that is off holds with slack one at zero.
        Self {
            free: [Lanes::ZERO; M],
            bound: [Lanes::ONE; R],
            on: [Lanes::ZERO; R],
            rate: [Lanes::ZERO; M],
            kept_rate: [Lanes::ZERO; M],
            kept_excess: Lanes::ZERO,
            kept_dual: [Lanes::ONE; R],
            excess: Lanes::ZERO,
            slack: [Lanes::ONE; R],
            dual: [Lanes::ONE; R],
            state: [Lanes::ZERO; M],
            inverse: [Lanes::ONE; R],
            primal: [Lanes::ZERO; R],
            gradient: [Lanes::ZERO; M],
            gradient_excess: Lanes::ZERO,
            eliminated: Eliminated::ZERO,
            target: [Lanes::ZERO; R],
            on_rate: [Lanes::ZERO; M],
            on_state: [Lanes::ZERO; M],
            rate_constant: [Lanes::ZERO; M],
            state_constant: [Lanes::ZERO; M],
            excess_base: Lanes::ZERO,
            move_rate: [Lanes::ZERO; M],
            move_state: [Lanes::ZERO; M],
            move_excess: Lanes::ZERO,
            move_slack: [Lanes::ZERO; R],
            move_dual: [Lanes::ZERO; R],
        }
    };

    /// The constraints' left sides for rates, a state and an excess, or for moves of them.
    #[inline(always)]
    pub fn left(rate: &[Lanes; M], state: &[Lanes; M], excess: Lanes) -> [Lanes; R] {
        let mut left = [Lanes::ZERO; R];
        left[row::INTAKE] = -rate[0];
        left[row::OUTGOING] = -rate[1];
        left[row::LIMIT] = rate[1];
        left[row::SOURCE] = state[0];
        left[row::QUEUE] = -state[1];
        left[row::QUEUE_LIMIT] = state[1] - excess;
        left[row::EXCESS] = -excess;
        if M == 3 {
            left[row::VIRTUAL] = -rate[2];
            left[row::VIRTUAL_QUEUE] = -state[2];
        }
        left
    }

    /// Adds `values` of the rows, each times its left side's gradient in the rates, to `rate`.
    #[inline(always)]
    pub fn onto_rate(values: &[Lanes; R], rate: &mut [Lanes; M]) {
        rate[0] -= values[row::INTAKE];
        rate[1] += values[row::LIMIT] - values[row::OUTGOING];
        if M == 3 {
            rate[2] -= values[row::VIRTUAL];
        }
    }

    /// The same for the state.
    #[inline(always)]
    pub fn onto_state(values: &[Lanes; R], state: &mut [Lanes; M]) {
        state[0] += values[row::SOURCE];
        state[1] += values[row::QUEUE_LIMIT] - values[row::QUEUE];
        if M == 3 {
            state[2] -= values[row::VIRTUAL_QUEUE];
        }
    }

    /// The state after rates, from the one before.
    #[inline(always)]
    pub fn after(mut state: [Lanes; M], rate: &[Lanes; M]) -> [Lanes; M] {
        state[0] += rate[0];
        for other in 1..M {
            state[other] += rate[0] - rate[other];
        }
        state
    }

    /// The stiffness of a row: its dual over its slack.
    #[inline(always)]
    pub fn stiffness(&self, row: usize) -> Lanes {
        self.dual[row] * self.inverse[row]
    }
}
