//! Shared links: a question as JSON in, answers as JSON out.

use crate::errors;
use crate::released::{Interrupt, released};
use onionlab_directory::{Consensus, Flavour, synth};
use onionlab_quantities::Seed;
use onionlab_shared_links::forecast::{self, Growth};
use onionlab_shared_links::{Blend, Method, Question, SharedLinksError, TrafficClass, Use, answer_while};
use pyo3::prelude::*;
use serde::Deserialize;
use serde_json::Value;

/// What the functions of this module are asked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    /// Consensus documents; without any, the built-in network.
    #[serde(default)]
    files: Vec<String>,
    question: Question,
    /// Takes the place of the question's blend.
    #[serde(default)]
    traffic: Option<Traffic>,
    /// This share of the circuits stays within the network.
    #[serde(default)]
    internal_share: Option<f64>,
    method: Method,
    repeat: u64,
    seed: u64,
}

/// Kinds of traffic by name.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Traffic {
    Mixture,
    Everything,
    #[serde(untagged)]
    Class(TrafficClass),
}

impl Request {
    fn parse(json: &str) -> PyResult<Self> {
        // By way of a value: a person gave the numbers, not the JSON, and can do nothing with a place in it.
        let value: Value = serde_json::from_str(json).map_err(|error| errors::options(&error))?;
        let mut request: Self = serde_json::from_value(value).map_err(|error| errors::question(&error, "question-value"))?;
        if let Some(traffic) = &request.traffic {
            request.question.blend = match traffic {
                Traffic::Mixture => Blend::traffic_mixture(),
                Traffic::Everything => Blend::everything(),
                Traffic::Class(class) => Blend::of_class(*class),
            };
        }
        if let Some(internal) = request.internal_share {
            let outside = request.question.blend.shares().map(|(of, share)| (of.clone(), share * (1.0 - internal)));
            let kinds = outside.chain([(Use::Internal, internal)]).collect();
            request.question.blend = Blend::new(kinds).map_err(|error| errors::shared_links(&error, None))?;
        }
        request.question.check().map_err(|error| errors::shared_links(&error, None))?;
        Ok(request)
    }

    /// Calls `one` with each network in turn, so that only one is in memory.
    fn each<T>(&self, mut one: impl FnMut(&Consensus) -> Result<T, SharedLinksError>) -> PyResult<Vec<T>> {
        if self.files.is_empty() {
            let answer = one(&built_in()?).map_err(|error| errors::shared_links(&error, None))?;
            return Ok(vec![answer]);
        }
        let files = self.files.iter();
        files.map(|file| one(&read(file)?).map_err(|error| errors::shared_links(&error, Some(file)))).collect()
    }
}

fn read(file: &str) -> PyResult<Consensus> {
    Consensus::read(file).map_err(|error| errors::document(&error))
}

/// The built-in network in the form that has exit policies.
fn built_in() -> PyResult<Consensus> {
    let options = synth::Options { flavour: Flavour::Unflavoured, ..synth::Options::default() };
    synth::synth(&synth::Model::built_in(), &options).map_err(|error| errors::document(&error))
}

/// One answer for each document.
#[pyfunction]
pub fn shared_links(py: Python<'_>, request_json: &str) -> PyResult<String> {
    released(py, || {
        let request = Request::parse(request_json)?;
        let Request { question, method, repeat, seed, .. } = &request;
        let interrupt = Interrupt::default();
        let goes_on = || interrupt.goes_on();
        let answers = request.each(|network| answer_while(network, question, *method, *repeat, Seed(*seed), &goes_on));
        Ok(crate::json(&interrupt.or(answers)?))
    })
}

/// For each document, an answer for each number of circuits.
#[pyfunction]
pub fn shared_links_by_circuits(py: Python<'_>, request_json: &str, circuits: Vec<u64>) -> PyResult<String> {
    released(py, || {
        let request = Request::parse(request_json)?;
        let interrupt = Interrupt::default();
        let goes_on = || interrupt.goes_on();
        let series = request.each(|network| forecast::by_circuits(network, &request.question, &circuits, &goes_on));
        Ok(crate::json(&interrupt.or(series)?))
    })
}

/// For each document, an answer for each number of circuits per client.
#[pyfunction]
pub fn shared_links_by_clients(py: Python<'_>, request_json: &str, per_client: Vec<u64>) -> PyResult<String> {
    released(py, || {
        let request = Request::parse(request_json)?;
        let interrupt = Interrupt::default();
        let goes_on = || interrupt.goes_on();
        let series = request.each(|network| forecast::by_clients(network, &request.question, &per_client, &goes_on));
        Ok(crate::json(&interrupt.or(series)?))
    })
}

/// For each document, a point for each scale, each with so many sampled networks as the request has repetitions.
#[pyfunction]
pub fn shared_links_by_scale(py: Python<'_>, request_json: &str, scales: Vec<f64>) -> PyResult<String> {
    released(py, || {
        let request = Request::parse(request_json)?;
        let Request { question, method, repeat, seed, .. } = &request;
        let interrupt = Interrupt::default();
        let goes_on = || interrupt.goes_on();
        let series =
            request.each(|network| forecast::by_scale(network, question, &scales, *repeat, *method, Seed(*seed), &goes_on));
        Ok(crate::json(&interrupt.or(series)?))
    })
}

/// An answer for each document, with circuits in proportion to its consensus weight if there is a document of reference.
#[pyfunction]
#[pyo3(signature = (request_json, reference=None))]
pub fn shared_links_over_time(py: Python<'_>, request_json: &str, reference: Option<&str>) -> PyResult<String> {
    released(py, || {
        let request = Request::parse(request_json)?;
        let growth = match reference {
            None => Growth::Fixed,
            Some(file) => Growth::WithWeight { reference: read(file)?.totals().total() },
        };
        let interrupt = Interrupt::default();
        let goes_on = || interrupt.goes_on();
        let answers = request.each(|network| forecast::over_time([network], &request.question, growth, &goes_on));
        Ok(crate::json(&interrupt.or(answers)?.concat()))
    })
}
