//! The parameters of a relay's optimal control problem, with the published values as defaults.

use thiserror::Error;

/// Which optimal control problem a relay solves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Form {
    /// That of the conference paper (CCTA 2020) and its public program: certain.
    #[default]
    Conference,
    /// That of the journal paper (2022), with the virtual outgoing rate by which a relay asks its predecessor for more: reconstructed from the
    /// paper's prose, since its formulas are lost and its program is not public.
    Journal,
}

/// How the source's announced queue bounds the intake (row 6 of the problem).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Alignment {
    /// What is taken before step k is bounded by the source's queue after its step k, as in the public program: one step too generous.
    #[default]
    Loose,
    /// It is bounded by the queue before step k, as in a real relay. Of a server, whose amount is what is left before the step, that is one step too generous, and `Loose` is exact.
    Strict,
}

/// Weights of the objective; all act on scaled rates and queues.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weights {
    /// On the square of the intake's shortfall from the capacity; positive.
    pub intake: f64,
    /// On the square of the outgoing rate's shortfall from the capacity; positive.
    pub outgoing: f64,
    /// On the square of the virtual outgoing rate's shortfall from the capacity (journal).
    pub virtual_outgoing: f64,
    /// On the square of the virtual outgoing rate's deviation from the outgoing rate (journal): the fixed point comes nearer to max-min
    /// fairness and convergence slower with a larger one.
    pub deviation: f64,
    /// On the square of the queue; 0 in the public program.
    pub queue: f64,
    /// On what a queue is above its limit: linear, not discounted; positive. Large, so that the limit is exceeded only where it cannot be kept.
    pub slack: f64,
}

/// Parameters of the optimal control problem, the same at all relays.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parameters {
    /// Conference or journal.
    pub form: Form,
    /// Length of a step in seconds.
    pub step_seconds: f64,
    /// Number of steps that are planned ahead; at least 2.
    pub horizon: usize,
    /// The weight of step k is this to the power of k: above 0, at most 1.
    pub discount: f64,
    /// No step weighs less.
    pub discount_floor: f64,
    /// All rates and queues are divided by this within the problem; matters only for the weight of the slack beside the others.
    pub scaling: f64,
    /// Soft limit of each circuit's queue, in packets.
    pub queue_limit: f64,
    /// Weights of the objective.
    pub weights: Weights,
    /// Row 6.
    pub alignment: Alignment,
    /// Row 10: what arrives in the first steps was decided by the source and cannot be changed; how many steps depends on how late messages are ([`crate::CircuitInput::committed`]).
    pub committed: bool,
}

impl Parameters {
    /// The conference problem with the values of the public program.
    pub const CONFERENCE: Self = Self {
        form: Form::Conference,
        step_seconds: 0.04,
        horizon: 10,
        discount: 1.0 / 3.0,
        discount_floor: 1e-6,
        scaling: 50.0,
        queue_limit: 100.0,
        weights: Weights { intake: 10.0, outgoing: 1.0, virtual_outgoing: 1.0, deviation: 10.0, queue: 0.0, slack: 1e5 },
        alignment: Alignment::Loose,
        committed: true,
    };

    /// The journal problem as reconstructed.
    pub const JOURNAL: Self = Self { form: Form::Journal, committed: false, ..Self::CONFERENCE };

    /// The defaults of a form.
    pub const fn of(form: Form) -> Self {
        match form {
            Form::Conference => Self::CONFERENCE,
            Form::Journal => Self::JOURNAL,
        }
    }

    /// The weight of step `k`.
    pub fn discount_at(&self, k: usize) -> f64 {
        (0..k).fold(1.0, |weight, _| weight * self.discount).max(self.discount_floor)
    }

    /// Checks what the solvers rely on.
    ///
    /// # Errors
    ///
    /// The first parameter that is out of its range.
    pub fn check(&self) -> Result<(), ParameterError> {
        let positive = |value: f64| value.is_finite() && value > 0.0;
        let not_negative = |value: f64| value.is_finite() && value >= 0.0;
        let w = &self.weights;
        let journal = self.form == Form::Journal;
        let checks = [
            ("step_seconds", self.step_seconds, positive(self.step_seconds), "must be positive"),
            ("horizon", self.horizon as f64, (2..=HORIZON_MAX).contains(&self.horizon), "must be from 2 to 100"),
            ("discount", self.discount, positive(self.discount) && self.discount <= 1.0, "must be above 0 and at most 1"),
            (
                "discount_floor",
                self.discount_floor,
                not_negative(self.discount_floor) && self.discount_floor <= 1.0,
                "must be from 0 to 1",
            ),
            ("scaling", self.scaling, positive(self.scaling), "must be positive"),
            ("queue_limit", self.queue_limit, not_negative(self.queue_limit), "must be 0 or more"),
            ("weight intake", w.intake, positive(w.intake), "must be positive: without it the intake is not determined"),
            ("weight outgoing", w.outgoing, positive(w.outgoing), "must be positive: without it the rate is not determined"),
            ("weight virtual_outgoing", w.virtual_outgoing, not_negative(w.virtual_outgoing), "must be 0 or more"),
            ("weight deviation", w.deviation, not_negative(w.deviation), "must be 0 or more"),
            (
                "weights virtual_outgoing and deviation, which",
                w.virtual_outgoing + w.deviation,
                !journal || positive(w.virtual_outgoing + w.deviation),
                "must not both be 0: the virtual rate would not be determined",
            ),
            ("weight queue", w.queue, not_negative(w.queue), "must be 0 or more"),
            ("weight slack", w.slack, positive(w.slack), "must be positive"),
        ];
        for (name, value, holds, allowed) in checks {
            if !holds {
                return Err(ParameterError::Range { name, value, allowed });
            }
        }
        Ok(())
    }
}

impl Default for Parameters {
    fn default() -> Self {
        Self::CONFERENCE
    }
}

/// The longest horizon: the time of a solve grows with its cube.
pub(crate) const HORIZON_MAX: usize = 100;

/// A parameter that cannot be used.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ParameterError {
    /// Out of range.
    #[error("{name} is {value}: it {allowed}")]
    Range {
        /// Which parameter.
        name: &'static str,
        /// Its value.
        value: f64,
        /// What is allowed.
        allowed: &'static str,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_hold_and_each_range_is_kept() {
        assert_eq!(Parameters::CONFERENCE.check(), Ok(()));
        assert_eq!(Parameters::JOURNAL.check(), Ok(()));
        let refused = |change: fn(&mut Parameters)| {
            let mut parameters = Parameters::JOURNAL;
            change(&mut parameters);
            parameters.check().unwrap_err().to_string()
        };
        assert_eq!(refused(|p| p.horizon = 1), "horizon is 1: it must be from 2 to 100");
        assert_eq!(refused(|p| p.discount = 1.5), "discount is 1.5: it must be above 0 and at most 1");
        assert!(refused(|p| p.step_seconds = f64::NAN).starts_with("step_seconds is NaN"));
        assert!(refused(|p| p.scaling = 0.0).starts_with("scaling"));
        assert!(refused(|p| p.queue_limit = -1.0).starts_with("queue_limit"));
        assert!(refused(|p| p.weights.intake = 0.0).starts_with("weight intake"));
        assert!(refused(|p| p.weights.outgoing = f64::INFINITY).starts_with("weight outgoing"));
        assert!(refused(|p| p.weights.slack = 0.0).starts_with("weight slack"));
        assert!(refused(|p| (p.weights.virtual_outgoing, p.weights.deviation) = (0.0, 0.0)).contains("must not both be 0"));
    }

    #[test]
    fn the_discount_falls_to_its_floor() {
        let parameters = Parameters::CONFERENCE;
        assert!((parameters.discount_at(9) - 3.0_f64.powi(-9)).abs() < 1e-18);
        assert!((parameters.discount_at(99) - 1e-6).abs() < 1e-18);
    }
}
