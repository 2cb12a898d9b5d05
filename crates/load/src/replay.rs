//! Streams that were recorded, or made by another program: who opens which when, and what its ends write.

use crate::flow::{Flow, Streams};
use crate::script::Script;
use crate::{DEFAULT_PORT, MeanFlow, StreamPlan};
use onionlab_quantities::{Bytes, SimDuration};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The largest file that is read, in bytes.
pub const MAX_TRAFFIC_BYTES: usize = 512 << 20;
/// Most bytes of a write.
const MAX_WRITE: u32 = 1 << 30;
/// The last microsecond at which anything begins: after a year.
const MAX_AT: u64 = 365 * 86_400 * 1_000_000;

/// What a file says that each client does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Replay {
    /// The file, a document of the format "onionlab-traffic", relative to the experiment file.
    pub path: String,
    /// The server's port; 443 if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65_535))]
    pub port: Option<u16>,
    /// What tells the file's content from others, once read.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub digest: Option<String>,
    /// What all clients do, once read.
    #[serde(skip)]
    pub traffic: Option<Arc<Traffic>>,
    /// What one client does.
    #[serde(skip)]
    own: Option<Arc<[RecordedFlow]>>,
}

/// What clients do, by their hosts' names.
#[derive(Debug, Default, PartialEq)]
pub struct Traffic {
    clients: BTreeMap<String, Arc<[RecordedFlow]>>,
}

/// Why a file is no recorded traffic: one sentence without the file's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it is no recorded traffic: {0}")]
pub struct TrafficError(String);

/// Streams that share a circuit.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecordedFlow {
    /// Microseconds after the client's start.
    at: u64,
    streams: Vec<RecordedStream>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordedStream {
    /// Microseconds after the client's start.
    at: u64,
    #[serde(deserialize_with = "shared")]
    writes: Arc<[RecordedWrite]>,
}

fn shared<'de, D: Deserializer<'de>>(writes: D) -> Result<Arc<[RecordedWrite]>, D::Error> {
    Ok(Vec::deserialize(writes)?.into())
}

/// A write, and the microseconds from it to the next of either end, or to the stream's end.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub(crate) struct RecordedWrite(i32, u32);

impl RecordedWrite {
    /// Whether the client writes, which is said by a minus.
    pub const fn is_to_server(self) -> bool {
        self.0 < 0
    }

    pub fn bytes(self) -> Bytes {
        Bytes::new(u64::from(self.0.unsigned_abs()))
    }

    pub fn then(self) -> SimDuration {
        SimDuration::from_micros(u64::from(self.1))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: String,
    version: u32,
    clients: BTreeMap<String, Vec<RecordedFlow>>,
}

impl Traffic {
    /// Reads a file's content.
    ///
    /// # Errors
    /// It is no document of this format, or something in it is out of range or order.
    pub fn parse(content: &[u8]) -> Result<Self, TrafficError> {
        let File { format, version, clients } =
            serde_json::from_slice(content).map_err(|error| TrafficError(one_line(&error.to_string())))?;
        if (format.as_str(), version) != ("onionlab-traffic", 1) {
            let found = format!("its format is \"{format}\", version {version}, and must be \"onionlab-traffic\", version 1");
            return Err(TrafficError(one_line(&found)));
        }
        for (client, flows) in &clients {
            check(flows).map_err(|problem| TrafficError(one_line(&format!("of \"{client}\", {problem}"))))?;
        }
        Ok(Self { clients: clients.into_iter().map(|(client, flows)| (client, flows.into())).collect() })
    }

    /// Whether it says what this client does.
    pub fn has(&self, client: &str) -> bool {
        self.clients.contains_key(client)
    }

    /// The clients of which it says something, sorted.
    pub fn clients(&self) -> BTreeSet<&str> {
        self.clients.keys().map(String::as_str).collect()
    }
}

/// At most 200 characters without line breaks or other control characters.
fn one_line(text: &str) -> String {
    text.chars().take(200).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn check(flows: &[RecordedFlow]) -> Result<(), String> {
    let mut before = 0;
    for (number, flow) in flows.iter().enumerate() {
        if !(before..=MAX_AT).contains(&flow.at) {
            return Err(format!("flow {number} begins at {} µs, where {before} to {MAX_AT} is allowed", flow.at));
        }
        before = flow.at;
        let mut earlier = flow.at;
        for (ordinal, stream) in flow.streams.iter().enumerate() {
            let place = format!("flow {number}, stream {ordinal}");
            if !(earlier..=MAX_AT).contains(&stream.at) {
                return Err(format!("{place} begins at {} µs, where {earlier} to {MAX_AT} is allowed", stream.at));
            }
            earlier = stream.at;
            if let Some(write) = stream.writes.iter().find(|write| !(1..=MAX_WRITE).contains(&write.0.unsigned_abs())) {
                return Err(format!(
                    "{place} has a write of {} bytes, where 1 to {MAX_WRITE} are allowed, or -1 to -{MAX_WRITE}",
                    write.0
                ));
            }
        }
    }
    Ok(())
}

impl Replay {
    /// The same for the client of this name, of which the file says something.
    #[must_use]
    pub fn of(mut self, client: &str) -> Self {
        self.own = self.traffic.as_ref().and_then(|traffic| traffic.clients.get(client).cloned());
        self
    }

    /// The flow with ordinal `k`; none after the last.
    pub(crate) fn flow(&self, k: u64) -> Option<Flow> {
        let flows = self.own.as_ref()?;
        let k = usize::try_from(k).ok()?;
        // The first flow begins with the client; what it waits for first its first stream waits for.
        let begin = if k == 0 { 0 } else { flows.get(k)?.at };
        let next = flows.get(k + 1).map_or(begin, |flow| flow.at);
        let port = self.port.unwrap_or(DEFAULT_PORT);
        let streams = ReplayedStreams { flows: Arc::clone(flows), flow: k, next: 0, last: begin, port };
        flows.get(k)?;
        Some(Flow { pause: SimDuration::from_micros(next - begin), parallel: u32::MAX, streams: Streams::Replayed(streams) })
    }

    /// How many flows the client has.
    pub(crate) fn flows(&self) -> u64 {
        self.own.as_ref().map_or(0, |flows| flows.len() as u64)
    }

    /// A flow in the mean over all clients.
    pub(crate) fn mean(&self) -> MeanFlow {
        let mut sums = [0.0_f64; 2];
        let (mut flows, mut span) = (0.0_f64, 0.0_f64);
        for of_client in self.traffic.iter().flat_map(|traffic| traffic.clients.values()) {
            flows += of_client.len() as f64;
            span += of_client.last().map_or(0.0, |last| last.at as f64 / 1e6);
            for stream in of_client.iter().flat_map(|flow| &flow.streams) {
                Script::TGEN_GREETING.iter().zip(&mut sums).for_each(|(&bytes, sum)| *sum += f64::from(bytes));
                for write in stream.writes.iter() {
                    sums[usize::from(!write.is_to_server())] += write.bytes().get() as f64;
                }
            }
        }
        let [to_server, to_client] = sums.map(|sum| sum / flows.max(1.0));
        MeanFlow { to_server, to_client, pause: (span / flows.max(1.0)).max(1e-3), lasts: 0.0 }
    }
}

/// The streams of a flow that are still to come.
#[derive(Debug, Clone)]
pub(crate) struct ReplayedStreams {
    flows: Arc<[RecordedFlow]>,
    flow: usize,
    next: usize,
    /// When the one before was due, or the flow began.
    last: u64,
    port: u16,
}

impl ReplayedStreams {
    pub fn next(&mut self) -> Option<StreamPlan> {
        let stream = self.flows[self.flow].streams.get(self.next)?;
        self.next += 1;
        let delay = SimDuration::from_micros(stream.at - std::mem::replace(&mut self.last, stream.at));
        Some(StreamPlan::scripted(delay, Script::replay(&stream.writes), self.port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Exchange, LoadModel, Write};
    use onionlab_quantities::{RandomStream, Seed};

    const TWO: &str = r#"{ "format": "onionlab-traffic", "version": 1, "clients": {
        "a": [
            { "at": 1500000, "streams": [{ "at": 1500000, "writes": [[-1434, 20], [2868, 30000], [-100, 0]] }, { "at": 1700000, "writes": [] }] },
            { "at": 1600000, "streams": [] },
            { "at": 9000000, "streams": [{ "at": 9000001, "writes": [[10, 0]] }] } ],
        "b": [] } }"#;

    fn of(client: &str) -> LoadModel {
        let traffic = Arc::new(Traffic::parse(TWO.as_bytes()).unwrap());
        let replay = Replay { path: "x".to_owned(), port: None, digest: None, traffic: Some(traffic), own: None };
        LoadModel::Replay(replay.of(client))
    }

    /// Of each stream the delay in microseconds and the writes.
    type Streams = Vec<(u64, Vec<Write>)>;

    /// Flow by flow: the pause in microseconds, and the streams.
    fn played(load: &LoadModel) -> Vec<(u64, Streams)> {
        let micros = |duration: SimDuration| duration.as_nanos() / 1000;
        let flows = (0..).map_while(|k| load.flow(RandomStream::new(Seed(1), "a", "load"), k));
        let streams = |plan: StreamPlan| {
            let Exchange::Script(script) = plan.exchange else { panic!("both ends write") };
            (micros(plan.delay), script.collect())
        };
        flows.map(|flow| (micros(flow.pause), flow.map(streams).collect())).collect()
    }

    #[test]
    fn what_was_recorded_comes_again_at_its_times() {
        let write =
            |after, to_server, bytes| Write { after: SimDuration::from_micros(after), to_server, bytes: Bytes::new(bytes) };
        let first = vec![write(0, true, 1434), write(20, false, 2868), write(30_000, true, 100)];
        let expected = vec![
            (1_600_000, vec![(1_500_000, first), (200_000, vec![])]),
            (7_400_000, vec![]),
            (0, vec![(1, vec![write(0, false, 10)])]),
        ];
        assert_eq!(played(&of("a")), expected);
        assert_eq!(played(&of("b")), []);
        assert_eq!((of("a").transfers(), of("b").transfers()), (Some(3), Some(0)));
    }

    /// By hand: three flows of which two have streams, three in all, each with tgen's greeting of 261 and 73 bytes.
    #[test]
    fn its_mean_is_over_all_clients() {
        let mean = of("a").mean_flow();
        assert_eq!(
            mean,
            MeanFlow { to_server: (1534.0 + 783.0) / 3.0, to_client: (2878.0 + 219.0) / 3.0, pause: 3.0, lasts: 0.0 }
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused_in_a_sentence() {
        for (from, to, says) in [
            ("onionlab-traffic", "other", "its format is \"other\", version 1, and must be"),
            ("\"version\": 1", "\"version\": 2", "version 2"),
            ("9000001", "90000000000000", "flow 2, stream 0 begins at 90000000000000 µs"),
            ("\"at\": 1600000", "\"at\": 1", "of \"a\", flow 1 begins at 1 µs, where 1500000 to"),
            ("\"at\": 1700000", "\"at\": 1", "flow 0, stream 1 begins at 1 µs"),
            ("[10, 0]", "[0, 0]", "flow 2, stream 0 has a write of 0 bytes"),
            ("[10, 0]", "[2000000000, 0]", "a write of 2000000000 bytes"),
            ("[10, 0]", "[10, -1]", "invalid value"),
            ("\"streams\": []", "\"strems\": []", "unknown field `strems`"),
        ] {
            assert!(TWO.contains(from));
            let error = Traffic::parse(TWO.replace(from, to).as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with("it is no recorded traffic: ") && error.contains(says), "{error}");
        }
    }
}
