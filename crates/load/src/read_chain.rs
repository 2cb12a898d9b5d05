//! Reading the files of `Privacy-Preserving Dynamic Learning of Tor Network Traffic` (Jansen, Traudt, Hopper, CCS 2018).
//!
//! A file is a JSON object with a `stream_model` or a `packet_model`: the states, the symbols, the start weights, and by state the weights of the next state and of the
//! emissions. An emission is a list: weight, then mean and deviation of the logarithm of the delay in microseconds, then the rate of an exponential delay, which
//! counts instead if it is above zero; the emission "F" is the end and has a weight only. Converted as tornettools does it for tgen; what makes no sense is
//! refused in one sentence.

use crate::chain::{Chain, Delay, Symbol, Weights};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The largest file that is read, in bytes; the published ones have 16 kB.
pub const MAX_CHAIN_BYTES: usize = 1 << 20;
/// The most states of a chain.
const MAX_STATES: usize = 256;
/// The most observations in the mean, so that no walk fills a run on its own.
const MAX_OBSERVATIONS: f64 = 1e6;

/// What a chain is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChainKind {
    /// Streams of a circuit.
    Streams,
    /// Packets of a stream.
    Packets,
}

impl ChainKind {
    /// The key under which the model stands in its file.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Streams => "stream_model",
            Self::Packets => "packet_model",
        }
    }
}

/// Why a file is no traffic model: one sentence without the file's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    /// Too large.
    #[error("it has more than {} KiB, which no traffic model has", MAX_CHAIN_BYTES >> 10)]
    TooLarge,
    /// No JSON, or not of the form of a model.
    #[error("it is no traffic model in JSON: {0}")]
    Form(String),
    /// A JSON object without the model.
    #[error("it has no \"{0}\"")]
    Missing(&'static str),
    /// A value that makes no sense.
    #[error("in \"{model}\", {place}: {problem}")]
    Value {
        /// The model's key.
        model: &'static str,
        /// Where in it.
        place: String,
        /// What is wrong, and what is allowed.
        problem: String,
    },
}

#[derive(Deserialize)]
struct File {
    stream_model: Option<Model>,
    packet_model: Option<Model>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Model {
    state_space: Vec<String>,
    observation_space: Vec<String>,
    start_probability: BTreeMap<String, f64>,
    transition_probability: BTreeMap<String, BTreeMap<String, f64>>,
    emission_probability: BTreeMap<String, BTreeMap<String, Vec<f64>>>,
}

impl Chain {
    /// Reads the model of this kind out of a file's content.
    ///
    /// # Errors
    /// The content is no such model, or the model has no end.
    pub fn parse(content: &[u8], kind: ChainKind) -> Result<Self, ChainError> {
        if content.len() > MAX_CHAIN_BYTES {
            return Err(ChainError::TooLarge);
        }
        let file: File = serde_json::from_slice(content).map_err(|error| ChainError::Form(one_line(&error.to_string())))?;
        let model = match kind {
            ChainKind::Streams => file.stream_model,
            ChainKind::Packets => file.packet_model,
        };
        Reader { kind }.chain(&model.ok_or(ChainError::Missing(kind.key()))?)
    }
}

/// At most 160 characters without line breaks or other control characters.
fn one_line(text: &str) -> String {
    text.chars().take(160).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

struct Reader {
    kind: ChainKind,
}

impl Reader {
    fn fault(&self, place: impl AsRef<str>, problem: impl AsRef<str>) -> ChainError {
        ChainError::Value { model: self.kind.key(), place: one_line(place.as_ref()), problem: one_line(problem.as_ref()) }
    }

    fn chain(&self, model: &Model) -> Result<Chain, ChainError> {
        let count = model.state_space.len();
        if !(1..=MAX_STATES).contains(&count) {
            return Err(self.fault("state_space", format!("{count} states, where 1 to {MAX_STATES} are allowed")));
        }
        let mut index = BTreeMap::new();
        for (state, at) in model.state_space.iter().zip(0_u16..) {
            if index.insert(state.as_str(), at).is_some() {
                return Err(self.fault("state_space", format!("the state \"{state}\" stands there twice")));
            }
        }
        for symbol in &model.observation_space {
            self.symbol("observation_space", symbol)?;
        }
        let start = self.weights("start_probability", &model.start_probability, &index)?;
        if start.iter().all(|(weight, _)| *weight == 0.0) {
            return Err(self.fault("start_probability", "no state has a weight above 0"));
        }
        let mut states = vec![Weights::default(); count];
        for (state, next) in &model.transition_probability {
            let place = format!("transition_probability of \"{state}\"");
            states[usize::from(self.state(&place, state, &index)?)].next = self.weights(&place, next, &index)?;
        }
        for (state, emissions) in &model.emission_probability {
            let place = format!("emission_probability of \"{state}\"");
            let at = usize::from(self.state(&place, state, &index)?);
            for (symbol, values) in emissions {
                if !model.observation_space.contains(symbol) {
                    return Err(self.fault(place, format!("\"{symbol}\" is not in the observation_space")));
                }
                states[at].emissions.push(self.emission(&place, symbol, values)?);
            }
        }
        for (state, weights) in model.state_space.iter().zip(&states) {
            if weights.emissions.iter().all(|(weight, _)| *weight == 0.0) {
                return Err(self.fault(format!("emission_probability of \"{state}\""), "nothing has a weight above 0"));
            }
        }
        let chain = Chain::new(start, states);
        let expected =
            chain.expected().ok_or_else(|| self.fault("transition_probability", "from some state the end is never reached"))?;
        let observations = expected[0] + expected[1];
        if !(0.0..=MAX_OBSERVATIONS).contains(&observations) {
            let problem = format!("{observations:.0} observations in the mean, where at most {MAX_OBSERVATIONS:.0} are allowed");
            return Err(self.fault("transition_probability", problem));
        }
        Ok(chain)
    }

    fn state(&self, place: &str, state: &str, index: &BTreeMap<&str, u16>) -> Result<u16, ChainError> {
        index.get(state).copied().ok_or_else(|| self.fault(place, format!("\"{state}\" is not in the state_space")))
    }

    fn weights(
        &self,
        place: &str,
        weights: &BTreeMap<String, f64>,
        index: &BTreeMap<&str, u16>,
    ) -> Result<Vec<(f64, u16)>, ChainError> {
        weights.iter().map(|(state, weight)| Ok((self.weight(place, *weight)?, self.state(place, state, index)?))).collect()
    }

    fn weight(&self, place: &str, weight: f64) -> Result<f64, ChainError> {
        if (0.0..=1e9).contains(&weight) {
            Ok(weight)
        } else {
            Err(self.fault(place, format!("the weight {weight} is not from 0 to 1000000000")))
        }
    }

    fn symbol(&self, place: &str, symbol: &str) -> Result<Symbol, ChainError> {
        match (symbol, self.kind) {
            ("+", _) | ("$", ChainKind::Streams) => Ok(Symbol::ToServer),
            ("-", _) => Ok(Symbol::ToClient),
            ("F", _) => Ok(Symbol::End),
            _ => {
                let allowed =
                    if self.kind == ChainKind::Streams { "\"$\", \"+\", \"-\" and \"F\"" } else { "\"+\", \"-\" and \"F\"" };
                Err(self.fault(place, format!("\"{symbol}\" is no observation; allowed are {allowed}")))
            }
        }
    }

    fn emission(&self, place: &str, symbol: &str, values: &[f64]) -> Result<(f64, (Symbol, Delay)), ChainError> {
        let place = format!("{place}, \"{symbol}\"");
        let symbol = self.symbol(&place, symbol)?;
        let (weight, delay) = match (symbol, values) {
            (Symbol::End, [weight, ..]) => (weight, Delay::LogNormal(0.0, 0.0)),
            (_, [weight, _, _, rate]) if *rate > 0.0 => (weight, Delay::Exponential(self.parameter(&place, "rate", *rate, 1e9)?)),
            (_, [weight, mu, sigma, rate]) => {
                self.parameter(&place, "rate", *rate, 1e9)?;
                let (mu, sigma) = (self.parameter(&place, "mu", *mu, 100.0)?, self.parameter(&place, "sigma", *sigma, 100.0)?);
                (weight, Delay::LogNormal(mu, sigma))
            }
            _ => return Err(self.fault(place, format!("{} numbers, where weight, mu, sigma and rate are needed", values.len()))),
        };
        Ok((self.weight(&place, *weight)?, (symbol, delay)))
    }

    /// tgen, too, takes no negative one.
    fn parameter(&self, place: &str, name: &str, value: f64, most: f64) -> Result<f64, ChainError> {
        if (0.0..=most).contains(&value) {
            Ok(value)
        } else {
            Err(self.fault(place, format!("{name} is {value}, which is not from 0 to {most}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn model() -> Value {
        json!({ "packet_model": {
            "state_space": ["a", "end"],
            "observation_space": ["+", "-", "F"],
            "start_probability": { "a": 1.0 },
            "transition_probability": { "a": { "a": 0.75, "end": 0.25 }, "end": {} },
            "emission_probability": { "a": { "+": [0.25, 3.0, 1.0, 0.0], "-": [0.75, 0.0, 0.0, 0.001] }, "end": { "F": [1.0] } }
        } })
    }

    fn parse(value: &Value) -> Result<Chain, ChainError> {
        Chain::parse(value.to_string().as_bytes(), ChainKind::Packets)
    }

    #[test]
    fn a_small_model_is_read() {
        let [up, down] = parse(&model()).unwrap().expected().unwrap();
        assert!((up - 1.0).abs() < 1e-12 && (down - 3.0).abs() < 1e-12);
    }

    /// The published models, where they are at hand: streams in a circuit and packets in a stream by the fundamental matrix.
    #[test]
    fn the_published_models_are_read() {
        let Some(directory) = onionlab_real_data::path("network") else { return };
        let read = |name: &str, kind| {
            let content = std::fs::read(directory.join(name)).unwrap();
            Chain::parse(&content, kind).unwrap().expected().unwrap()
        };
        let streams = read("stream-model-2018.json", ChainKind::Streams);
        let packets = read("packet-model-2018.json", ChainKind::Packets);
        assert!((streams[0] - 11.32).abs() < 0.005 && streams[1] == 0.0, "{streams:?}");
        assert!((packets[0] - 11.14).abs() < 0.005 && (packets[1] - 194.01).abs() < 0.005, "{packets:?}");
    }

    #[test]
    fn what_makes_no_sense_is_refused_in_a_sentence() {
        let broken = |path: &str, value: Value| {
            let mut model = model();
            *model.pointer_mut(path).unwrap() = value;
            parse(&model).unwrap_err().to_string()
        };
        for (path, value, words) in [
            ("/packet_model", json!(null), "it has no \"packet_model\""),
            ("/packet_model/state_space", json!([]), "in \"packet_model\", state_space: 0 states, where 1 to 256 are allowed"),
            ("/packet_model/state_space", json!(["a", "a"]), "the state \"a\" stands there twice"),
            (
                "/packet_model/observation_space",
                json!(["x"]),
                "observation_space: \"x\" is no observation; allowed are \"+\", \"-\" and \"F\"",
            ),
            ("/packet_model/observation_space", json!(["+"]), "\"-\" is not in the observation_space"),
            ("/packet_model/start_probability", json!({ "b": 1 }), "start_probability: \"b\" is not in the state_space"),
            ("/packet_model/start_probability", json!({ "a": 0 }), "start_probability: no state has a weight above 0"),
            ("/packet_model/start_probability/a", json!(-1), "start_probability: the weight -1 is not from 0 to 1000000000"),
            (
                "/packet_model/transition_probability/a/end",
                json!(0),
                "transition_probability: from some state the end is never reached",
            ),
            (
                "/packet_model/transition_probability/a/end",
                json!(1e-8),
                "observations in the mean, where at most 1000000 are allowed",
            ),
            ("/packet_model/emission_probability/a", json!({}), "emission_probability of \"a\": nothing has a weight above 0"),
            (
                "/packet_model/emission_probability/a/+",
                json!([1.0]),
                "\"+\": 1 numbers, where weight, mu, sigma and rate are needed",
            ),
            ("/packet_model/emission_probability/a/+/1", json!(-2.0), "mu is -2, which is not from 0 to 100"),
            ("/packet_model/emission_probability/a/+/2", json!(1e9), "sigma is 1000000000, which is not from 0 to 100"),
            ("/packet_model/emission_probability/a/-/3", json!(-1e-9), "rate is -0.000000001, which is not from 0 to 1000000000"),
            ("/packet_model/emission_probability/end/F", json!([]), "0 numbers, where weight, mu, sigma and rate are needed"),
        ] {
            let error = broken(path, value);
            assert!(error.contains(words), "{error}");
        }
        let many: Vec<String> = (0..257).map(|state| state.to_string()).collect();
        assert!(broken("/packet_model/state_space", json!(many)).contains("257 states"));
        for (content, words) in [
            (&b"[]"[..], "it is no traffic model in JSON"),
            (b"{", "it is no traffic model in JSON: EOF"),
            (b"{\"packet_model\": {\"colour\": 1}}", "unknown field `colour`"),
            (&vec![b' '; MAX_CHAIN_BYTES + 1], "it has more than 1024 KiB"),
        ] {
            let error = Chain::parse(content, ChainKind::Packets).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(json!(null)),
            prop_oneof![Just(0.0), Just(1.0), Just(-1.0), Just(1e300), any::<f64>()].prop_map(|x| json!(x)),
            prop_oneof![Just("a"), Just("end"), Just("+"), Just("F"), Just("\n")].prop_map(|x| json!(x)),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(|x| json!(x)),
                prop::collection::btree_map(
                    prop_oneof![Just("a".to_owned()), Just("+".to_owned()), Just("F".to_owned())],
                    inner,
                    0..4
                )
                .prop_map(|x| json!(x)),
            ]
        })
    }

    proptest! {
        /// Any part replaced by anything: a chain that ends, or one short line.
        #[test]
        fn broken_files_are_refused_in_one_line(
            key in prop::sample::select(vec!["state_space", "observation_space", "start_probability", "transition_probability", "emission_probability"]),
            value in any_json(),
        ) {
            let mut model = model();
            model["packet_model"][key] = value;
            match parse(&model) {
                Ok(chain) => prop_assert!(chain.expected().is_some()),
                Err(error) => {
                    let sentence = error.to_string();
                    prop_assert!(!sentence.contains('\n') && sentence.len() < 1000, "{}", sentence);
                }
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Chain::parse(&bytes, ChainKind::Streams);
        }
    }
}
