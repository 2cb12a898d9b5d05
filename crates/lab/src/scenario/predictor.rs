//! `PredicTor` as a value of the axis `flow-control`, with the keys that shape it.

use super::error::Fault;
use super::resolve::{Checked, within};
use super::treatment::{BaseFile, FlowControl, Links};
use onionlab_predictor::{Form, Parameters, Weights};
use onionlab_quantities::SimDuration;
use onionlab_tor::{Feedback, Phase, PredictorSettings};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which problem a relay solves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PredictorForm {
    /// The journal paper's, with the virtual outgoing rate by which a relay asks for more; reconstructed from its prose.
    Journal,
    /// The conference paper's, as in its public program.
    Conference,
}

/// How trajectories reach a circuit's neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PredictorFeedback {
    /// Beside the network, just in time and without traffic, as in the paper.
    OutOfBand,
    /// As cells over a connection of their own beside each circuit's between two relays.
    InBand,
}

/// When the controllers of different relays plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PredictorPhase {
    /// All at the same instants, as in the paper.
    Together,
    /// Each later than the first by a part of a step, drawn for each relay.
    Random,
}

/// `PredicTor` with every key filled in.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Predictor {
    /// Which problem.
    pub form: PredictorForm,
    /// Between two plans.
    pub step: SimDuration,
    /// Steps that are planned ahead.
    pub horizon: u32,
    /// Soft limit of each circuit's queue in cells.
    pub queue_limit: f64,
    /// Share of a relay's rate that it plans with.
    pub capacity_share: f64,
    /// When the first plan is made.
    pub first_solve: SimDuration,
    /// How trajectories travel.
    pub feedback: PredictorFeedback,
    /// Chance that a message is lost, out of band.
    pub feedback_loss: Option<f64>,
    /// Whether controllers are in step.
    pub phase: PredictorPhase,
    /// Weight of the virtual rate's deviation from the outgoing rate, in the journal's form.
    pub deviation_weight: Option<f64>,
    /// Weight of the queue.
    pub queue_weight: f64,
}

const PREDICTOR: &str = "flow-control = \"predictor\"";
const JOURNAL: &str = "flow-control = \"predictor\" and predictor-form = \"journal\"";
const OUT_OF_BAND: &str = "flow-control = \"predictor\" and predictor-feedback = \"out-of-band\"";

/// Checks the keys of `PredicTor`, where it is the flow control, and that each circuit then has its own connections.
pub(super) fn checked(key: &impl Fn(&str) -> String, all: &BaseFile) -> Checked<Option<Predictor>> {
    if all.flow_control != Some(FlowControl::Predictor) {
        return Ok(None);
    }
    if all.links.is_some_and(|links| links != Links::PerCircuit) {
        let reason = "cannot be combined with flow-control = \"predictor\", whose token buckets are those of one circuit each: omit it, or write \"per-circuit\"";
        return Err(Fault::conflict(key("links"), reason));
    }
    if all.per_circuit_clients == Some(false) {
        let reason = "is false, but with flow-control = \"predictor\" each circuit has connections of its own on every hop: omit it, or write true";
        return Err(Fault::conflict(key("per-circuit-clients"), reason));
    }
    let usual = PredictorSettings::default();
    let (ms, day) = (SimDuration::from_millis, SimDuration::from_secs(86_400));
    let form = all.predictor_form.unwrap_or(PredictorForm::Journal);
    let feedback = all.predictor_feedback.unwrap_or(PredictorFeedback::OutOfBand);
    let share = all.predictor_capacity_share.unwrap_or(usual.capacity_share);
    if !(share > 0.0 && share <= 1.0) {
        return Err(Fault::out_of_range(key("predictor-capacity-share"), share, "above 0 and at most 1"));
    }
    let of = usual.parameters;
    Ok(Some(Predictor {
        form,
        step: within(key("predictor-step"), all.predictor_step.unwrap_or(usual.step), ms(1), ms(500))?,
        horizon: within(key("predictor-horizon"), all.predictor_horizon.unwrap_or(of.horizon as u32), 2, 100)?,
        queue_limit: within(key("predictor-queue-limit"), all.predictor_queue_limit.unwrap_or(of.queue_limit), 0.0, 1e6)?,
        capacity_share: share,
        first_solve: within(
            key("predictor-first-solve"),
            all.predictor_first_solve.unwrap_or(usual.first_step),
            SimDuration::ZERO,
            day,
        )?,
        feedback,
        feedback_loss: (feedback == PredictorFeedback::OutOfBand)
            .then(|| within(key("predictor-feedback-loss"), all.predictor_feedback_loss.unwrap_or(0.0), 0.0, 1.0))
            .transpose()?,
        phase: all.predictor_phase.unwrap_or(PredictorPhase::Together),
        deviation_weight: (form == PredictorForm::Journal)
            .then(|| {
                let weight = all.predictor_deviation_weight.unwrap_or(of.weights.deviation);
                within(key("predictor-deviation-weight"), weight, 0.0, 1e6)
            })
            .transpose()?,
        queue_weight: within(key("predictor-queue-weight"), all.predictor_queue_weight.unwrap_or(of.weights.queue), 0.0, 1e6)?,
    }))
}

impl Predictor {
    /// The settings of every relay.
    pub(crate) fn settings(&self) -> PredictorSettings {
        let form = match self.form {
            PredictorForm::Journal => Form::Journal,
            PredictorForm::Conference => Form::Conference,
        };
        let of = PredictorSettings::problem(form);
        let deviation = self.deviation_weight.unwrap_or(of.weights.deviation);
        let weights = Weights { deviation, queue: self.queue_weight, ..of.weights };
        PredictorSettings {
            parameters: Parameters { horizon: self.horizon as usize, queue_limit: self.queue_limit, weights, ..of },
            step: self.step,
            capacity_share: self.capacity_share,
            first_step: self.first_solve,
            feedback: match self.feedback {
                PredictorFeedback::OutOfBand => Feedback::OutOfBand { loss: self.feedback_loss.unwrap_or(0.0) },
                PredictorFeedback::InBand => Feedback::InBand,
            },
            phase: match self.phase {
                PredictorPhase::Together => Phase::Together,
                PredictorPhase::Random => Phase::Random,
            },
        }
    }
}

/// The keys of `PredicTor` that are given, whether each means something in this treatment, and what it would need.
pub(super) fn effects(given: &BaseFile, predictor: Option<&Predictor>) -> [(&'static str, bool, bool, &'static str); 11] {
    let on = predictor.is_some();
    let journal = predictor.is_some_and(|predictor| predictor.form == PredictorForm::Journal);
    let out_of_band = predictor.is_some_and(|predictor| predictor.feedback == PredictorFeedback::OutOfBand);
    [
        ("predictor-form", given.predictor_form.is_some(), on, PREDICTOR),
        ("predictor-step", given.predictor_step.is_some(), on, PREDICTOR),
        ("predictor-horizon", given.predictor_horizon.is_some(), on, PREDICTOR),
        ("predictor-queue-limit", given.predictor_queue_limit.is_some(), on, PREDICTOR),
        ("predictor-capacity-share", given.predictor_capacity_share.is_some(), on, PREDICTOR),
        ("predictor-first-solve", given.predictor_first_solve.is_some(), on, PREDICTOR),
        ("predictor-feedback", given.predictor_feedback.is_some(), on, PREDICTOR),
        ("predictor-feedback-loss", given.predictor_feedback_loss.is_some(), out_of_band, OUT_OF_BAND),
        ("predictor-phase", given.predictor_phase.is_some(), on, PREDICTOR),
        ("predictor-deviation-weight", given.predictor_deviation_weight.is_some(), journal, JOURNAL),
        ("predictor-queue-weight", given.predictor_queue_weight.is_some(), on, PREDICTOR),
    ]
}
