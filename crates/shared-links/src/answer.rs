//! Answers, by either method, in the form that is written out.

use crate::draw;
use crate::error::SharedLinksError;
use crate::expectation;
use crate::positions::Positions;
use crate::question::{Question, Use};
use onionlab_directory::Consensus;
use onionlab_quantities::{RandomStream, Seed};
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// How the answer is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Circuits drawn at random and counted.
    Draw,
    /// Closed form.
    Expectation,
}

/// What the circuits of an answer are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// To the outside.
    External,
    /// Within the network.
    Internal,
    /// Some of each.
    Mixed,
}

/// How many circuits meet others.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SharedCircuits {
    /// Circuits with one shared link.
    pub one: f64,
    /// Circuits with two.
    pub two: f64,
}

/// How many links are shared in one network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// `valid-after` of the consensus, UTC.
    pub consensus: String,
    /// Relays of the network.
    pub relays: usize,
    /// Relays that can be drawn in the first position.
    pub guards: usize,
    /// In the second.
    pub middles: usize,
    /// In the third of external circuits; of internal ones, if there are no external.
    pub exits: usize,
    /// Active circuits.
    pub circuits: u64,
    /// What they are for.
    pub kind: Kind,
    /// Whether direction makes another link.
    pub directed: bool,
    /// Circuits per client.
    pub per_client: u64,
    /// How the answer was found.
    pub method: Method,
    /// Links with at least one circuit: mean over the draws, or expectation.
    pub links: f64,
    /// Links with at least two.
    pub shared_links: f64,
    /// Shared links in percent of the links.
    pub shared_percent: f64,
    /// Standard deviation of that percentage between draws: of the sample where drawn (absent for a single draw), approximated
    /// in the expectation.
    pub stddev_percent: Option<f64>,
    /// Links with 1, 2, 3... circuits; at most [`Question::MAX_PER_LINK`] numbers, the last one for that many and more.
    pub circuits_per_link: Vec<f64>,
    /// Circuits on shared links.
    pub shared_circuits: SharedCircuits,
    /// Seed of the draws; absent for an expectation.
    pub seed: Option<u64>,
    /// Number of draws; 1 for an expectation.
    pub repeat: u64,
    /// Wall time of the computation, reading the consensus left aside. Provenance: differs from run to run.
    pub seconds: f64,
}

/// Answers `question` for `network`, `repeat` times if by draw (the answer is then the mean).
///
/// # Errors
/// The question is impossible, for this network or at all.
pub fn answer(
    network: &Consensus,
    question: &Question,
    method: Method,
    repeat: u64,
    seed: Seed,
) -> Result<Answer, SharedLinksError> {
    answer_while(network, question, method, repeat, seed, &|| true)
}

/// The same as long as `goes_on` says so, which is asked before each repetition and within long ones, and for each group of relays that an expectation adds up.
///
/// # Errors
/// As [`answer`]; it is to stop, or has too many repetitions.
pub fn answer_while(
    network: &Consensus,
    question: &Question,
    method: Method,
    repeat: u64,
    seed: Seed,
    goes_on: &dyn Fn() -> bool,
) -> Result<Answer, SharedLinksError> {
    question.check()?;
    check_repeat(repeat)?;
    let start = Instant::now();
    let positions = Positions::new(network, question)?;
    let mut answer = Answer {
        consensus: network.valid_after.to_string(),
        relays: network.relays.len(),
        guards: positions.guard().chances().len(),
        middles: positions.middle().chances().len(),
        exits: positions.exits(),
        circuits: question.circuits,
        kind: kind(question),
        directed: question.directed,
        per_client: question.per_client,
        method,
        links: 0.0,
        shared_links: 0.0,
        shared_percent: 0.0,
        stddev_percent: None,
        circuits_per_link: Vec::new(),
        shared_circuits: SharedCircuits { one: 0.0, two: 0.0 },
        seed: None,
        repeat: 1,
        seconds: 0.0,
    };
    match method {
        Method::Expectation => {
            let expected = expectation::expect_while(&positions, question, goes_on)?;
            answer.links = expected.links;
            answer.shared_links = expected.shared_links;
            answer.shared_percent = 100.0 * expected.share();
            answer.stddev_percent = Some(100.0 * expected.share_deviation);
            answer.shared_circuits = SharedCircuits { one: expected.with_one, two: expected.with_two };
            answer.circuits_per_link = expected.circuits_per_link;
        }
        Method::Draw => {
            answer.seed = Some(seed.0);
            answer.repeat = repeat.max(1);
            draw_repeatedly(network, &positions, question, seed, goes_on, &mut answer)?;
        }
    }
    answer.seconds = start.elapsed().as_secs_f64();
    Ok(answer)
}

/// Most repetitions of a draw: what they come to is then known to a thousandth of what one deviates by.
const MAX_REPEAT: u64 = 1_000_000;

pub(crate) fn check_repeat(repeat: u64) -> Result<(), SharedLinksError> {
    if repeat > MAX_REPEAT { Err(SharedLinksError::Repeat { repeat, most: MAX_REPEAT }) } else { Ok(()) }
}

fn draw_repeatedly(
    network: &Consensus,
    positions: &Positions,
    question: &Question,
    seed: Seed,
    goes_on: &dyn Fn() -> bool,
    answer: &mut Answer,
) -> Result<(), SharedLinksError> {
    let seeds = RandomStream::new(seed, "shared links", "repetition");
    let mut percents = Vec::new();
    for repetition in 0..answer.repeat {
        if !goes_on() {
            return Err(SharedLinksError::Stopped);
        }
        let count = draw::draw_while(network, positions, question, Seed(seeds.at(repetition).bits()), goes_on)?;
        let part = 1.0 / answer.repeat as f64;
        answer.links += part * count.links as f64;
        answer.shared_links += part * count.shared_links as f64;
        answer.shared_circuits.one += part * count.with_one as f64;
        answer.shared_circuits.two += part * count.with_two as f64;
        let longest = answer.circuits_per_link.len().max(count.circuits_per_link.len());
        answer.circuits_per_link.resize(longest, 0.0);
        for (sum, &links) in answer.circuits_per_link.iter_mut().zip(&count.circuits_per_link) {
            *sum += part * links as f64;
        }
        percents.push(100.0 * count.share());
    }
    let (mean, deviation) = mean_and_deviation(&percents);
    answer.shared_percent = mean;
    answer.stddev_percent = deviation;
    Ok(())
}

/// Mean, and standard deviation of the sample where there is more than one value.
pub(crate) fn mean_and_deviation(values: &[f64]) -> (f64, Option<f64>) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    (mean, (values.len() > 1).then(|| libm::sqrt(squares / (n - 1.0))))
}

fn kind(question: &Question) -> Kind {
    let internal: f64 = question.blend.shares().filter(|(of, _)| **of == Use::Internal).map(|(_, share)| share).sum();
    if internal <= 0.0 {
        Kind::External
    } else if internal >= 1.0 {
        Kind::Internal
    } else {
        Kind::Mixed
    }
}
