//! What a treatment can set about `PredicTor`.

use onionlab_predictor::{Form, PLANNED_SHARE, Parameters};
use onionlab_quantities::SimDuration;

/// How trajectories reach a circuit's neighbours.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Feedback {
    /// Beside the network: the latency that the relays take the hop to have, less 2 ms, so that a message is there just before its receiver plans; no traffic.
    OutOfBand {
        /// Chance that a message is lost, each independently; in [0, 1].
        loss: f64,
    },
    /// As cells over a connection of their own beside each circuit's, which take part in everything.
    InBand,
}

/// When the controllers of different relays plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// All at the same instants.
    Together,
    /// Each later by a part of a step, drawn for each relay.
    Random,
}

/// `PredicTor` at every relay.
///
/// Source: "Optimization-Based Predictive Congestion Control for the Tor Network" (ACM TOIT 2022) and its authors' public simulator of January 2020. What is certain and what is not:
/// `docs/models/predictor.md`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PredictorSettings {
    /// The problem that each controller solves; the length of its steps is [`Self::step`].
    pub parameters: Parameters,
    /// Between two plans.
    pub step: SimDuration,
    /// The share of its link's rate, or of its own limit where that is lower, that a controller plans with; above 0, at most 1.
    pub capacity_share: f64,
    /// The first plan, so long after the start.
    pub first_step: SimDuration,
    /// How trajectories travel.
    pub feedback: Feedback,
    /// Whether controllers are in step.
    pub phase: Phase,
}

impl PredictorSettings {
    /// A form's problem for circuits that come to an end. What a relay takes in its first steps is what was announced (row 10), in the journal's form too: a relay that plans to take a
    /// source's last cells at once never lets them go, because the source looks at what is taken two steps later, or more where messages are late.
    pub const fn problem(form: Form) -> Parameters {
        Parameters { committed: true, ..Parameters::of(form) }
    }

    /// What the controllers get.
    pub(super) fn controller(&self) -> Parameters {
        Parameters { step_seconds: self.step.as_secs_f64(), ..self.parameters }
    }
}

impl Default for PredictorSettings {
    /// The journal paper's problem with the public program's values.
    fn default() -> Self {
        Self {
            parameters: Self::problem(Form::Journal),
            step: SimDuration::from_millis(40),
            capacity_share: PLANNED_SHARE,
            first_step: SimDuration::from_millis(100),
            feedback: Feedback::OutOfBand { loss: 0.0 },
            phase: Phase::Together,
        }
    }
}
