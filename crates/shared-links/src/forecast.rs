//! Series of answers: over circuits, network scale, circuits per client, and time (figures 8, 4 and 6 of the paper, and beyond).

use crate::answer::{Answer, Method, answer_while, check_repeat, mean_and_deviation};
use crate::error::SharedLinksError;
use crate::question::Question;
use onionlab_directory::{Consensus, Size, sample};
use onionlab_quantities::{RandomStream, Seed};
use serde::{Deserialize, Serialize};

/// The share against the number of active circuits (figure 8); expectation.
///
/// # Errors
/// The list is empty, a question is impossible, or `goes_on` says that it is to stop.
pub fn by_circuits(
    network: &Consensus,
    question: &Question,
    circuits: &[u64],
    goes_on: &dyn Fn() -> bool,
) -> Result<Vec<Answer>, SharedLinksError> {
    series(circuits, "numbers of circuits", |&circuits| {
        let question = Question { circuits, ..question.clone() };
        answer_while(network, &question, Method::Expectation, 1, Seed(0), goes_on)
    })
}

/// The share against the number of circuits per client (figure 6); expectation.
///
/// # Errors
/// The list is empty, a question is impossible, or `goes_on` says that it is to stop.
pub fn by_clients(
    network: &Consensus,
    question: &Question,
    per_client: &[u64],
    goes_on: &dyn Fn() -> bool,
) -> Result<Vec<Answer>, SharedLinksError> {
    series(per_client, "numbers of circuits per client", |&per_client| {
        let question = Question { per_client, ..question.clone() };
        answer_while(network, &question, Method::Expectation, 1, Seed(0), goes_on)
    })
}

/// One point of the share against the scale of the network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScalePoint {
    /// Relays and circuits of the network in relation to the full one.
    pub scale: f64,
    /// Mean over the samples, in percent.
    pub shared_percent: f64,
    /// Standard deviation between samples, in percent points; absent for a single one.
    pub stddev_percent: Option<f64>,
    /// One answer for each sampled network.
    pub samples: Vec<Answer>,
}

/// The share against the scale of the network (figure 4): relays sampled as for a simulation, circuits in proportion.
///
/// # Errors
/// The list is empty, a scale is not in (0, 1] or too small for a network, the question is impossible, or `goes_on` says that it is to stop.
pub fn by_scale(
    network: &Consensus,
    question: &Question,
    scales: &[f64],
    samples: u64,
    method: Method,
    seed: Seed,
    goes_on: &dyn Fn() -> bool,
) -> Result<Vec<ScalePoint>, SharedLinksError> {
    check_repeat(samples)?;
    series(scales, "network scales", |&scale| {
        let seeds = RandomStream::new(seed, "shared links", "sampled network");
        let circuits = (libm::round(question.circuits as f64 * scale) as u64).max(1);
        let question = Question { circuits, ..question.clone() };
        let one = |index: u64| {
            let seed = Seed(seeds.at(index).bits());
            let part = sample(network, Size::Scale(scale), seed)?.network;
            answer_while(&part, &question, method, 1, seed, goes_on)
        };
        let samples: Vec<Answer> = (0..samples.max(1)).map(one).collect::<Result<_, _>>()?;
        let percents: Vec<f64> = samples.iter().map(|answer| answer.shared_percent).collect();
        let (shared_percent, stddev_percent) = mean_and_deviation(&percents);
        Ok(ScalePoint { scale, shared_percent, stddev_percent, samples })
    })
}

/// How many circuits a network of another time is taken to have.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Growth {
    /// Those of the question.
    Fixed,
    /// Those of the question in a network with this total consensus weight, in proportion to the weight in others.
    ///
    /// Weights are roughly kB/s, but bandwidth scanners have changed: proportion within the years from 2021 on is fair, across
    /// that change it is not.
    WithWeight {
        /// Total consensus weight of the network to which the question's circuits belong.
        reference: u64,
    },
}

impl Growth {
    /// The circuits of `network`.
    fn circuits(self, question: &Question, network: &Consensus) -> u64 {
        match self {
            Self::Fixed => question.circuits,
            Self::WithWeight { reference } => {
                let ratio = network.totals().total() as f64 / reference.max(1) as f64;
                (libm::round(question.circuits as f64 * ratio) as u64).max(1)
            }
        }
    }
}

/// The share over time: one answer for each consensus, in their order; expectation.
///
/// # Errors
/// The list is empty, the question is impossible for one of the networks, or `goes_on` says that it is to stop.
pub fn over_time<'a>(
    networks: impl IntoIterator<Item = &'a Consensus>,
    question: &Question,
    growth: Growth,
    goes_on: &dyn Fn() -> bool,
) -> Result<Vec<Answer>, SharedLinksError> {
    let networks: Vec<&Consensus> = networks.into_iter().collect();
    series(&networks, "consensuses", |network| {
        let question = Question { circuits: growth.circuits(question, network), ..question.clone() };
        answer_while(network, &question, Method::Expectation, 1, Seed(0), goes_on)
    })
}

fn series<T, A>(
    list: &[T],
    what: &'static str,
    one: impl FnMut(&T) -> Result<A, SharedLinksError>,
) -> Result<Vec<A>, SharedLinksError> {
    if list.is_empty() {
        return Err(SharedLinksError::EmptySeries { what });
    }
    list.iter().map(one).collect()
}
