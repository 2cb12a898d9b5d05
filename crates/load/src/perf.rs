//! Clients that measure, as OnionPerf does and as tornettools sets its benchmark clients up (`generate_tgen.py`): a download of one of several sizes each
//! minute, each over a fresh circuit, with a time-out for each size.

use crate::distribution::text_schema;
use crate::flow::Flow;
use crate::{DEFAULT_PORT, Exchange, LoadError, MeanFlow, Pace, SizeDistribution};
use onionlab_quantities::{Bytes, RandomStream, SimDuration};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

/// The size of a request where the load does not say (`sendsize`).
const REQUEST: Bytes = Bytes::new(1000);
const PAUSE: SimDuration = SimDuration::from_secs(60);

/// Clients that measure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Perf {
    /// What is downloaded; 50 KiB, 1 MiB and 5 MiB with weights 12, 2 and 1 and time-outs of 15, 60 and 120 s if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 100))]
    pub sizes: Option<Vec<PerfSize>>,
    /// From one download to the next; 1 min if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "duration_schema")]
    pub pause: Option<SimDuration>,
    /// Whether the pause counts from the start of a download or from its end; from its start if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_from: Option<PauseFrom>,
    /// Size of a request; 1000 B if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "size_schema")]
    pub request: Option<Bytes>,
    /// So much of a request the server waits for before it writes anything; all of it if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "size_schema")]
    pub answer_after: Option<Bytes>,
    /// Which requests the client's tor reads in two parts, the rest right after the first; none if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 100))]
    pub split_requests: Option<Vec<Split>>,
    /// What the server writes before the download, in a write of its own, which counts neither in its size nor as its first byte; nothing if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "size_schema")]
    pub header: Option<Bytes>,
    /// The server's port; 443 if not given. Sampled networks need `exit-policies` for others than 80 and 443.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65_535))]
    pub port: Option<u16>,
}

/// A size of downloads.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PerfSize {
    /// What the server sends.
    #[schemars(schema_with = "size_schema")]
    pub size: Bytes,
    /// How often, relative to the other sizes.
    #[schemars(range(min = 0.0, max = 1e9))]
    pub weight: f64,
    /// It has failed if it takes longer.
    #[schemars(schema_with = "duration_schema")]
    pub timeout: SimDuration,
}

/// Requests that are read in two parts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Split {
    /// The first part.
    #[schemars(schema_with = "size_schema")]
    pub after: Bytes,
    /// Their share of all requests.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub share: f64,
}

/// From when a pause counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PauseFrom {
    /// From the start of the download, so that slow ones do not make for fewer.
    Start,
    /// From its end.
    End,
}

const SIZES: [PerfSize; 3] = [
    PerfSize { size: Bytes::new(51_200), weight: 12.0, timeout: SimDuration::from_secs(15) },
    PerfSize { size: Bytes::new(1 << 20), weight: 2.0, timeout: SimDuration::from_secs(60) },
    PerfSize { size: Bytes::new(5 << 20), weight: 1.0, timeout: SimDuration::from_secs(120) },
];

fn duration_schema(_: &mut SchemaGenerator) -> Schema {
    text_schema::<SimDuration>()
}

fn size_schema(_: &mut SchemaGenerator) -> Schema {
    text_schema::<Bytes>()
}

impl Perf {
    fn sizes(&self) -> &[PerfSize] {
        self.sizes.as_deref().unwrap_or(&SIZES)
    }

    pub(crate) fn pace(&self) -> Pace {
        match self.pause_from {
            None | Some(PauseFrom::Start) => Pace::Independent,
            Some(PauseFrom::End) => Pace::AfterPrevious,
        }
    }

    pub(crate) fn flow(&self, stream: RandomStream, k: u64) -> Flow {
        let sizes = self.sizes();
        let all: f64 = sizes.iter().map(|size| size.weight).sum();
        let found = at(sizes, |size| size.weight, stream.member(0).at(k).uniform() * all);
        let PerfSize { size, timeout, .. } = found.or(sizes.last().copied()).unwrap_or(SIZES[0]);
        let request = self.request.unwrap_or(REQUEST);
        let (awaited, header) = (self.answer_after.unwrap_or(request), self.header.unwrap_or(Bytes::ZERO));
        let splits = self.split_requests.as_deref().unwrap_or_default();
        let first = at(splits, |split| split.share, stream.member(1).at(k).uniform()).map_or(request, |split| split.after);
        let exchange = Exchange::Download { request, first, awaited, size, header };
        Flow::single(self.pause.unwrap_or(PAUSE), exchange, Some(timeout), self.port.unwrap_or(DEFAULT_PORT))
    }

    pub(crate) fn validate(&self) -> Result<(), LoadError> {
        let wait = |key: String, value: SimDuration, allowed| {
            if (SimDuration::from_millis(1)..=SimDuration::from_secs(7 * 86_400)).contains(&value) {
                Ok(())
            } else {
                Err(LoadError { key, value: format!("\"{value}\""), allowed })
            }
        };
        let request = self.request.unwrap_or(REQUEST);
        if let Some(after) = self.answer_after
            && !(Bytes::new(1)..=request).contains(&after)
        {
            let (key, value) = ("answer-after".to_owned(), format!("\"{after}\""));
            return Err(LoadError { key, value, allowed: "it must be at least 1 B and at most the request" });
        }
        if let Some(splits) = &self.split_requests {
            if !(1..=100).contains(&splits.len()) {
                let (key, value) = ("split-requests".to_owned(), format!("a list of {} entries", splits.len()));
                return Err(LoadError { key, value, allowed: "it must have 1 to 100 entries" });
            }
            for (index, split) in splits.iter().enumerate() {
                let key = |name: &str| format!("split-requests[{index}].{name}");
                if !(Bytes::new(1)..=request).contains(&split.after) {
                    let value = format!("\"{}\"", split.after);
                    return Err(LoadError {
                        key: key("after"),
                        value,
                        allowed: "it must be at least 1 B and at most the request",
                    });
                }
                let all: f64 = splits[..=index].iter().map(|split| split.share).sum();
                if !(0.0..=1.0).contains(&split.share) || all > 1.0 {
                    let allowed = "it must be at least 0, and all shares together at most 1";
                    return Err(LoadError { key: key("share"), value: split.share.to_string(), allowed });
                }
            }
        }
        if let Some(sizes) = &self.sizes {
            if !(1..=100).contains(&sizes.len()) {
                let (key, value) = ("sizes".to_owned(), format!("a list of {} entries", sizes.len()));
                return Err(LoadError { key, value, allowed: "it must have 1 to 100 entries" });
            }
            for (index, size) in sizes.iter().enumerate() {
                let key = |name: &str| format!("sizes[{index}].{name}");
                SizeDistribution::Constant(size.size).validate(&key("size"))?;
                if !(size.weight > 0.0 && size.weight <= 1e9) {
                    let allowed = "it must be above 0 and at most 1000000000";
                    return Err(LoadError { key: key("weight"), value: size.weight.to_string(), allowed });
                }
                wait(key("timeout"), size.timeout, "it must be from 1 ms to 7 d")?;
            }
        }
        self.pause.map_or(Ok(()), |pause| wait("pause".to_owned(), pause, "it must be from 1 ms to 7 d"))
    }

    pub(crate) fn mean(&self) -> MeanFlow {
        let all: f64 = self.sizes().iter().map(|size| size.weight).sum();
        let bytes: f64 = self.sizes().iter().map(|size| size.weight * size.size.get() as f64).sum();
        MeanFlow {
            to_server: self.request.unwrap_or(REQUEST).get() as f64,
            to_client: self.header.unwrap_or(Bytes::ZERO).get() as f64 + bytes / all,
            pause: self.pause.unwrap_or(PAUSE).as_secs_f64(),
            lasts: 0.0,
        }
    }
}

/// Which of `all`, laid in a row as long as they weigh, lies at `place`; none behind the last.
fn at<T: Copy>(all: &[T], weight: impl Fn(&T) -> f64, mut place: f64) -> Option<T> {
    let found = all.iter().find(|one| {
        place -= weight(one);
        place < 0.0
    });
    found.copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LoadModel;
    use onionlab_quantities::Seed;

    #[test]
    fn sizes_have_their_weights_and_time_outs() {
        let perf: LoadModel = toml::from_str("kind = \"perf\"").unwrap();
        assert!(perf.isolates() && perf.has_timeouts() && perf.pace() == Pace::Independent);
        let random = RandomStream::new(Seed(1), "client1", "load");
        let n = 30_000;
        let mut counts = [0_u32; 3];
        for k in 0..n {
            let mut flow = perf.flow(random, k).unwrap();
            assert_eq!(flow.pause, SimDuration::from_secs(60));
            let plan = flow.next().unwrap();
            let Exchange::Download { size, request, .. } = plan.exchange else { panic!("{plan:?}") };
            let at = SIZES.iter().position(|of| of.size == size && Some(of.timeout) == plan.timeout).unwrap();
            assert_eq!(request.get(), 1000);
            counts[at] += 1;
        }
        for (count, share) in counts.into_iter().zip([12.0 / 15.0, 2.0 / 15.0, 1.0 / 15.0]) {
            let error = 5.0 * (share * (1.0 - share) / n as f64).sqrt();
            assert!((f64::from(count) / n as f64 - share).abs() < error, "{counts:?}");
        }
    }

    #[test]
    fn so_many_requests_are_split() {
        let splits = "[{ after = \"222 B\", share = 0.1 }, { after = \"900 B\", share = 0.3 }]";
        let perf: LoadModel = toml::from_str(&format!("kind = \"perf\"\nsplit-requests = {splits}")).unwrap();
        let random = RandomStream::new(Seed(1), "client1", "load");
        let n = 20_000;
        let firsts: Vec<u64> = (0..n)
            .map(|k| {
                let plan = perf.flow(random, k).unwrap().next().unwrap();
                let Exchange::Download { first, request, .. } = plan.exchange else { panic!("{plan:?}") };
                assert_eq!(request.get(), 1000);
                first.get()
            })
            .collect();
        for (first, share) in [(222, 0.1), (900, 0.3), (1000, 0.6)] {
            let found = firsts.iter().filter(|&&other| other == first).count() as f64 / n as f64;
            assert!((found - share).abs() < 5.0 * (share * (1.0 - share) / n as f64).sqrt(), "{first} B: {found}");
        }
    }

    #[test]
    fn a_pause_can_count_from_the_end() {
        let perf: LoadModel = toml::from_str("kind = \"perf\"\npause-from = \"end\"").unwrap();
        assert_eq!(perf.pace(), Pace::AfterPrevious);
    }
}
