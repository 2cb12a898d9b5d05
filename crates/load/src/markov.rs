//! Tor's users by the hidden Markov models that were learned from the network, or by the compact model: circuits at exponential intervals, on each circuit streams, in each
//! stream packets. As tornettools sets tgen up (`generate_tgen.py`).

use crate::chain::{Chain, Walk};
use crate::distribution::text_schema;
use crate::flow::{Flow, Streams};
use crate::script::{PACKET, Script};
use crate::tor_users::{self, Session};
use crate::{DEFAULT_PORT, LoadError, MeanFlow, StreamPlan};
use onionlab_quantities::{RandomStream, SimDuration};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Mean interval between the circuits of a user: 1.88 circuits in ten minutes.
///
/// By PrivCount's counts of 2018 as tornettools scales them: the networks of "Once is Never Enough" (USENIX Security 2021) have 79,194 active users and 148,896 circuits in ten minutes at
/// 10 % of Tor.
pub const FLOW_INTERVAL: SimDuration = SimDuration::from_millis(319_149);

/// Users by the traffic models of Jansen, Traudt and Hopper (CCS 2018), from their files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Markov {
    /// The file with the model of the streams of a circuit (`stream_model` in JSON).
    pub streams: String,
    /// The file with the model of the packets of a stream (`packet_model` in JSON).
    pub packets: String,
    /// Mean interval between the circuits of one user; 319.149 s if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "duration_schema")]
    pub flow_interval: Option<SimDuration>,
    /// The server's port; 443 if not given. Sampled networks need `exit-policies` for others than 80 and 443.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65_535))]
    pub port: Option<u16>,
    /// The models, once read.
    #[serde(skip)]
    pub chains: Option<Chains>,
    /// What tells the files' contents from others, once read.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub digests: Option<[String; 2]>,
}

/// The models of the two files.
#[derive(Debug, Clone, PartialEq)]
pub struct Chains {
    /// Streams of a circuit.
    pub streams: Arc<Chain>,
    /// Packets of a stream.
    pub packets: Arc<Chain>,
}

/// Users by the compact model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct TorUsers {
    /// Mean interval between the circuits of one user; 319.149 s if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "duration_schema")]
    pub flow_interval: Option<SimDuration>,
    /// The server's port; 443 if not given. Sampled networks need `exit-policies` for others than 80 and 443.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65_535))]
    pub port: Option<u16>,
}

fn duration_schema(_: &mut SchemaGenerator) -> Schema {
    text_schema::<SimDuration>()
}

/// The circuit with ordinal `k`: `streams` are its streams.
fn flow(interval: Option<SimDuration>, stream: RandomStream, k: u64, streams: Streams) -> Flow {
    let mean = interval.unwrap_or(FLOW_INTERVAL).as_nanos() as f64;
    let pause = SimDuration::from_nanos(libm::round(stream.member(0).at(k).exponential(mean)) as u64);
    Flow { pause, parallel: u32::MAX, streams }
}

fn validate(interval: Option<SimDuration>) -> Result<(), LoadError> {
    let allowed = "it must be from 1 ms to 7 d";
    let range = SimDuration::from_millis(1)..=SimDuration::from_secs(7 * 86_400);
    match interval {
        Some(interval) if !range.contains(&interval) => {
            Err(LoadError { key: "flow-interval".to_owned(), value: format!("\"{interval}\""), allowed })
        }
        _ => Ok(()),
    }
}

impl Markov {
    /// The chains; they must have been read.
    fn chains(&self) -> &Chains {
        self.chains.as_ref().expect("a load by files has read them before it is used")
    }

    pub(crate) fn flow(&self, stream: RandomStream, k: u64) -> Flow {
        let chains = self.chains();
        let circuit = stream.member(1).member(k);
        let streams = Walk::new(Arc::clone(&chains.streams), circuit.member(0));
        let packets = Arc::clone(&chains.packets);
        let port = self.port.unwrap_or(DEFAULT_PORT);
        let state = MarkovStreams { streams, packets, random: circuit.member(1), ordinal: 0, delay: SimDuration::ZERO, port };
        flow(self.flow_interval, stream, k, Streams::Markov(state))
    }

    pub(crate) fn validate(&self) -> Result<(), LoadError> {
        validate(self.flow_interval)
    }

    pub(crate) fn mean(&self) -> MeanFlow {
        let chains = self.chains();
        let expected = |chain: &Chain| chain.expected().unwrap_or([0.0; 2]);
        let streams: f64 = expected(&chains.streams).iter().sum();
        mean(self.flow_interval, streams, expected(&chains.packets).map(|packets| packets * PACKET.get() as f64))
    }
}

impl TorUsers {
    pub(crate) fn flow(&self, stream: RandomStream, k: u64) -> Flow {
        let circuit = stream.member(1).member(k);
        let port = self.port.unwrap_or(DEFAULT_PORT);
        let state = CompactStreams { session: Session::new(circuit.member(0)), random: circuit.member(1), ordinal: 0, port };
        flow(self.flow_interval, stream, k, Streams::Compact(state))
    }

    pub(crate) fn validate(&self) -> Result<(), LoadError> {
        validate(self.flow_interval)
    }

    pub(crate) fn mean(&self) -> MeanFlow {
        mean(self.flow_interval, tor_users::mean_streams(), tor_users::mean_bytes())
    }
}

fn mean(interval: Option<SimDuration>, streams: f64, [up, down]: [f64; 2]) -> MeanFlow {
    let [command, response] = Script::TGEN_GREETING.map(f64::from);
    MeanFlow {
        to_server: streams * (up + command),
        to_client: streams * (down + response),
        pause: interval.unwrap_or(FLOW_INTERVAL).as_secs_f64(),
        lasts: 0.0,
    }
}

/// The streams of a circuit by the hidden Markov models.
#[derive(Debug, Clone)]
pub(crate) struct MarkovStreams {
    streams: Walk,
    packets: Arc<Chain>,
    random: RandomStream,
    ordinal: u64,
    /// From the last stream to the next.
    delay: SimDuration,
    port: u16,
}

impl MarkovStreams {
    pub fn next(&mut self) -> Option<StreamPlan> {
        let (_, then) = self.streams.next()?;
        let delay = std::mem::replace(&mut self.delay, then);
        let script = Script::markov(&self.packets, self.random.member(self.ordinal));
        self.ordinal += 1;
        Some(StreamPlan::scripted(delay, script, self.port))
    }
}

/// The streams of a circuit by the compact model.
#[derive(Debug, Clone)]
pub(crate) struct CompactStreams {
    session: Session,
    random: RandomStream,
    ordinal: u64,
    port: u16,
}

impl CompactStreams {
    pub fn next(&mut self) -> Option<StreamPlan> {
        let delay = self.session.next()?;
        let script = Script::tor_users(self.random.member(self.ordinal));
        self.ordinal += 1;
        Some(StreamPlan::scripted(delay, script, self.port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ChainKind, Exchange, LoadModel, ScriptEnd};
    use onionlab_quantities::{Bytes, Seed};

    /// Three streams in the mean, of two packets up and six down.
    fn small() -> Chains {
        let model = |key: &str, up: &str, down: &str, ends: f64| {
            format!(
                r#"{{ "{key}": {{ "state_space": ["a", "end"], "observation_space": ["+", "-", "F"], "start_probability": {{ "a": 1 }},
                "transition_probability": {{ "a": {{ "a": {}, "end": {ends} }} }},
                "emission_probability": {{ "a": {{ "+": {up}, "-": {down} }}, "end": {{ "F": [1] }} }} }} }}"#,
                1.0 - ends
            )
        };
        let parse = |text: String, kind| Arc::new(Chain::parse(text.as_bytes(), kind).unwrap());
        Chains {
            streams: parse(model("stream_model", "[1, 15, 1, 0]", "[0, 0, 0, 0]", 1.0 / 3.0), ChainKind::Streams),
            packets: parse(model("packet_model", "[0.25, 8, 3, 0]", "[0.75, 0, 0, 1e-4]", 1.0 / 8.0), ChainKind::Packets),
        }
    }

    fn load(chains: Chains) -> LoadModel {
        let mut load: Markov = toml::from_str("streams = \"a\"\npackets = \"b\"\nflow-interval = \"100 s\"").unwrap();
        load.chains = Some(chains);
        LoadModel::Markov(load)
    }

    fn random() -> RandomStream {
        RandomStream::new(Seed(5), "client1", "load")
    }

    /// Sums over flows: streams, bytes to the server, bytes to the client, pauses in seconds; their squares beside them.
    fn sums(load: &LoadModel, flows: u64) -> [(f64, f64); 4] {
        let mut sums = [(0.0, 0.0); 4];
        for k in 0..flows {
            let flow = load.flow(random(), k).unwrap();
            assert_eq!(flow.parallel, u32::MAX);
            let mut values = [0.0, 0.0, 0.0, flow.pause.as_secs_f64()];
            for plan in flow {
                let Exchange::Script(script) = plan.exchange else { panic!("a user's streams are scripted") };
                let [up, down] = script.totals().unwrap().map(|bytes| bytes.get() as f64);
                values[0] += 1.0;
                values[1] += up - 261.0;
                values[2] += down - 73.0;
            }
            sums.iter_mut().zip(values).for_each(|(sum, value)| *sum = (sum.0 + value, sum.1 + value * value));
        }
        sums
    }

    /// Streams, packets and intervals have the means of the fundamental matrix, within five standard errors of the sample.
    fn agrees(load: &LoadModel, flows: u64, expected: [f64; 4]) {
        let n = flows as f64;
        for ((sum, squares), expected) in sums(load, flows).into_iter().zip(expected) {
            let mean = sum / n;
            let error = 5.0 * ((squares / n - mean * mean) / n).sqrt();
            assert!((mean - expected).abs() < error, "{mean} against {expected}, error {error}");
        }
    }

    #[test]
    fn circuits_have_the_means_of_the_chains() {
        agrees(&load(small()), 5000, [3.0, 3.0 * 2.0 * 1434.0, 3.0 * 6.0 * 1434.0, 100.0]);
    }

    /// The published models, where they are at hand.
    #[test]
    fn circuits_of_the_published_models_have_their_means() {
        let Some(directory) = onionlab_real_data::path("network") else { return };
        let read = |name: &str, kind| Arc::new(Chain::parse(&std::fs::read(directory.join(name)).unwrap(), kind).unwrap());
        let streams = read("stream-model-2018.json", ChainKind::Streams);
        let packets = read("packet-model-2018.json", ChainKind::Packets);
        let load = load(Chains { streams, packets });
        let (streams, up, down) = (11.323_83, 11.141_68 * 1434.0, 194.014_25 * 1434.0);
        agrees(&load, 4000, [streams, streams * up, streams * down, 100.0]);
        let mean = load.mean_flow();
        assert!((mean.to_client / (streams * (down + 73.0)) - 1.0).abs() < 1e-6, "{mean:?}");
    }

    /// Each end writes what the other expects, however they are interleaved.
    #[test]
    fn the_ends_agree_on_what_they_send() {
        for load in [load(small()), LoadModel::TorUsers(TorUsers { flow_interval: None, port: Some(80) })] {
            for plan in (0..50).filter_map(|k| load.flow(random(), k)).flatten() {
                let Exchange::Script(script) = plan.exchange else { panic!("a user's streams are scripted") };
                let mut ends = [true, false].map(|client| ScriptEnd::new(&script, client));
                let written = ends.each_mut().map(|end| {
                    let mut sum = Bytes::ZERO;
                    while let Some(burst) = end.next_burst() {
                        assert!(burst.bytes > Bytes::ZERO || burst.pause > SimDuration::ZERO, "a burst is something");
                        sum += burst.bytes;
                    }
                    assert!(end.ended());
                    sum
                });
                let greeting = script.greeting();
                assert_eq!(ends[1].expected(), written[0] + greeting[0]);
                assert_eq!(ends[0].expected(), written[1] + greeting[1]);
                assert_eq!(script.totals(), Some([written[0] + greeting[0], written[1] + greeting[1]]));
            }
        }
    }

    /// The first stream of a circuit starts at once; the delay behind a stream is that of the next one.
    #[test]
    fn streams_follow_the_delays_of_the_chain() {
        let chains = small();
        let mut walk = Walk::new(Arc::clone(&chains.streams), random().member(1).member(7).member(0));
        let flow = load(chains).flow(random(), 7).unwrap();
        let mut due = SimDuration::ZERO;
        for plan in flow {
            assert_eq!(plan.delay, due);
            due = walk.next().unwrap().1;
        }
        assert_eq!(walk.next(), None);
    }
}
