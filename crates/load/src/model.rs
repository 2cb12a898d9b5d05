//! The loads, by the names that an experiment file gives them; bulk, web and a sequence of transfers.

use crate::distribution::text_schema;
use crate::flow::DEFAULT_PORT;
use crate::markov::{Markov, TorUsers};
use crate::page::Page;
use crate::perf::Perf;
use crate::replay::Replay;
use crate::streaming::{AUDIO, Streaming, VIDEO};
use crate::{DurationDistribution, Exchange, Flow, LoadError, MeanFlow, Pace, SizeDistribution};
use onionlab_quantities::{Bytes, RandomStream, SimDuration};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

/// The size of a request where the load does not say: it fits in one cell, as a short HTTP request does.
pub const DEFAULT_REQUEST: Bytes = Bytes::new(200);

/// What a client does: which transfers, one after the other.
///
/// In an experiment file: `load = { kind = "web", size = "320 KiB", pause = { uniform = ["1 s", "20 s"] } }`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum LoadModel {
    /// A size again and again, as a downloader of large files does.
    Bulk {
        /// Size of a transfer.
        size: SizeDistribution,
        /// Pause after a transfer; none if not given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pause: Option<DurationDistribution>,
        /// Size of the request for a transfer; 200 B if not given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(schema_with = "size_schema")]
        request: Option<Bytes>,
        /// What the server writes before the download, in a write of its own, which counts neither in its size nor as its first byte; nothing if not given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(schema_with = "size_schema")]
        header: Option<Bytes>,
        /// The server's port; 443 if not given. Sampled networks need `exit-policies` for others than 80 and 443.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 65_535))]
        port: Option<u16>,
    },
    /// A size, then a pause to read, as someone browsing does.
    Web {
        /// Size of a transfer.
        size: SizeDistribution,
        /// Pause after a transfer.
        pause: DurationDistribution,
        /// Size of the request for a transfer; 200 B if not given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(schema_with = "size_schema")]
        request: Option<Bytes>,
        /// What the server writes before the download, in a write of its own, which counts neither in its size nor as its first byte; nothing if not given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(schema_with = "size_schema")]
        header: Option<Bytes>,
        /// The server's port; 443 if not given. Sampled networks need `exit-policies` for others than 80 and 443.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 65_535))]
        port: Option<u16>,
    },
    /// Transfers in order, and then no more.
    Sequence {
        /// The transfers.
        transfers: Vec<Batch>,
        /// Size of the request for a transfer; 200 B if not given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(schema_with = "size_schema")]
        request: Option<Bytes>,
        /// What the server writes before the download, in a write of its own, which counts neither in its size nor as its first byte; nothing if not given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(schema_with = "size_schema")]
        header: Option<Bytes>,
        /// The server's port; 443 if not given. Sampled networks need `exit-policies` for others than 80 and 443.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 65_535))]
        port: Option<u16>,
    },
    /// Audio as it is played: 50 kB/s if nothing else is said.
    Audio(Streaming),
    /// Video as it is played: 1 MB/s if nothing else is said.
    Video(Streaming),
    /// Pages of many objects, over several streams at a time.
    Page(Page),
    /// Clients that measure, as OnionPerf does: a download a minute, each over a fresh circuit.
    Perf(Perf),
    /// Tor's users by the traffic models that were learned from the network.
    Markov(Markov),
    /// Tor's users by a compact model fitted to those.
    TorUsers(TorUsers),
    /// What was recorded, or made by another program: the same streams at the same times.
    Replay(Replay),
}

/// Some like transfers of a sequence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Batch {
    /// Size of a transfer.
    pub size: SizeDistribution,
    /// How many of them; 1 if not given.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    pub count: u32,
    /// Pause after each of them; none if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<DurationDistribution>,
}

const fn one() -> u32 {
    1
}

fn size_schema(_: &mut SchemaGenerator) -> Schema {
    text_schema::<Bytes>()
}

/// A download of a bulk, web or sequence load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Transfer {
    size: Bytes,
    request: Bytes,
    header: Bytes,
    pause_after: SimDuration,
}

impl LoadModel {
    /// How the flows of a client follow each other.
    pub fn pace(&self) -> Pace {
        match self {
            Self::Bulk { .. } | Self::Web { .. } | Self::Sequence { .. } | Self::Audio(_) | Self::Video(_) | Self::Page(_) => {
                Pace::AfterPrevious
            }
            Self::Perf(perf) => perf.pace(),
            Self::Markov(_) | Self::TorUsers(_) | Self::Replay(_) => Pace::Independent,
        }
    }

    /// Whether each flow has a circuit of its own, whatever the client is told of other loads.
    pub const fn isolates(&self) -> bool {
        matches!(self, Self::Perf(_) | Self::Markov(_) | Self::TorUsers(_) | Self::Replay(_))
    }

    /// Whether each stream brings its own time-out.
    pub const fn has_timeouts(&self) -> bool {
        matches!(self, Self::Perf(_))
    }

    /// Time-out and stall of streams where the experiment file says nothing.
    ///
    /// A perf client has no stall (`stallout="0 seconds"` in tornettools) and users have 10 min and 5 min; what is played takes as long as it takes,
    /// and has not stalled between two of its pieces.
    pub fn patience(&self) -> [SimDuration; 2] {
        const ENDLESS: SimDuration = SimDuration::from_secs(7 * 86_400);
        let secs = SimDuration::from_secs;
        match self {
            Self::Bulk { .. } | Self::Web { .. } | Self::Sequence { .. } | Self::Page(_) => [secs(120), secs(30)],
            Self::Audio(_) | Self::Video(_) => {
                [ENDLESS, self.longest_silence().map_or(secs(30), |silence| (silence * 2).max(secs(30)))]
            }
            Self::Perf(_) => [ENDLESS, ENDLESS],
            Self::Markov(_) | Self::TorUsers(_) | Self::Replay(_) => [secs(600), secs(300)],
        }
    }

    /// For how long a server says nothing by itself, where it sends by the clock.
    pub fn longest_silence(&self) -> Option<SimDuration> {
        match self {
            Self::Audio(audio) => Some(audio.interval(&AUDIO)),
            Self::Video(video) => Some(video.interval(&VIDEO)),
            _ => None,
        }
    }

    /// What the client of this name does, where a file says it of each.
    #[must_use]
    pub fn of_client(self, name: &str) -> Self {
        if let Self::Replay(replay) = self { Self::Replay(replay.of(name)) } else { self }
    }

    /// The flow with ordinal `k`, from 0, of a client's user whose random values for the load are `stream`; none after the last one.
    ///
    /// The load must be one that [`Self::validate`] accepts, and the files that it names must have been read.
    pub fn flow(&self, stream: RandomStream, k: u64) -> Option<Flow> {
        let port = match self {
            Self::Bulk { port, .. } | Self::Web { port, .. } | Self::Sequence { port, .. } => port.unwrap_or(DEFAULT_PORT),
            Self::Audio(audio) => return Some(audio.flow(&AUDIO, stream, k)),
            Self::Video(video) => return Some(video.flow(&VIDEO, stream, k)),
            Self::Page(page) => return Some(page.flow(stream, k)),
            Self::Perf(perf) => return Some(perf.flow(stream, k)),
            Self::Markov(markov) => return Some(markov.flow(stream, k)),
            Self::TorUsers(users) => return Some(users.flow(stream, k)),
            Self::Replay(replay) => return replay.flow(k),
        };
        let Transfer { size, request, header, pause_after } = self.transfer(stream, k)?;
        Some(Flow::single(
            pause_after,
            Exchange::Download { request, first: request, awaited: request, size, header },
            None,
            port,
        ))
    }

    /// What a flow is in the mean. Infinite where a distribution has no mean.
    ///
    /// The load must be one that [`Self::validate`] accepts, and the files that it names must have been read.
    pub fn mean_flow(&self) -> MeanFlow {
        let mean_pause = |pause: Option<&DurationDistribution>| pause.map_or(0.0, |pause| pause.mean_units() / 1e9);
        let (to_client, pause, request) = match self {
            Self::Bulk { size, pause, request, .. } => (size.mean_units(), mean_pause(pause.as_ref()), request),
            Self::Web { size, pause, request, .. } => (size.mean_units(), mean_pause(Some(pause)), request),
            Self::Sequence { transfers, request, .. } => {
                let all: f64 = transfers.iter().map(|batch| f64::from(batch.count)).sum();
                let mean = |of: &dyn Fn(&Batch) -> f64| {
                    transfers.iter().map(|batch| f64::from(batch.count) * of(batch)).sum::<f64>() / all
                };
                (mean(&|batch| batch.size.mean_units()), mean(&|batch| mean_pause(batch.pause.as_ref())), request)
            }
            Self::Audio(audio) => return audio.mean(&AUDIO),
            Self::Video(video) => return video.mean(&VIDEO),
            Self::Page(page) => return page.mean(),
            Self::Perf(perf) => return perf.mean(),
            Self::Markov(markov) => return markov.mean(),
            Self::TorUsers(users) => return users.mean(),
            Self::Replay(replay) => return replay.mean(),
        };
        let header = self.asked().1.unwrap_or(Bytes::ZERO).get() as f64;
        let to_server = request.unwrap_or(DEFAULT_REQUEST).get() as f64;
        MeanFlow { to_server, to_client: header + to_client, pause, lasts: 0.0 }
    }

    /// The download with ordinal `k`; none after the last one of a sequence, and of loads that do something else.
    fn transfer(&self, stream: RandomStream, k: u64) -> Option<Transfer> {
        let (size, pause, request, header) = match self {
            Self::Bulk { size, pause, request, header, .. } => (size, pause.as_ref(), request, header),
            Self::Web { size, pause, request, header, .. } => (size, Some(pause), request, header),
            Self::Sequence { transfers, request, header, .. } => {
                let mut before = 0;
                let batch = transfers.iter().find(|batch| {
                    before += u64::from(batch.count);
                    k < before
                })?;
                (&batch.size, batch.pause.as_ref(), request, header)
            }
            _ => return None,
        };
        Some(Transfer {
            size: size.draw(stream.member(0).at(k)),
            request: request.unwrap_or(DEFAULT_REQUEST),
            header: header.unwrap_or(Bytes::ZERO),
            pause_after: pause.map_or(SimDuration::ZERO, |pause| pause.draw(stream.member(1).at(k))),
        })
    }

    /// How many flows a user has; none if they never end.
    pub fn transfers(&self) -> Option<u64> {
        match self {
            Self::Sequence { transfers, .. } => Some(transfers.iter().map(|batch| u64::from(batch.count)).sum()),
            Self::Replay(replay) => Some(replay.flows()),
            _ => None,
        }
    }

    /// The server's port, if the load says one.
    pub const fn port(&self) -> Option<u16> {
        self.asked().2
    }

    /// The size of a request, what is written before an answer, and the port, as far as the load says.
    const fn asked(&self) -> (Option<Bytes>, Option<Bytes>, Option<u16>) {
        match self {
            Self::Bulk { request, header, port, .. }
            | Self::Web { request, header, port, .. }
            | Self::Sequence { request, header, port, .. }
            | Self::Perf(Perf { request, header, port, .. }) => (*request, *header, *port),
            Self::Audio(Streaming { request, port, .. })
            | Self::Video(Streaming { request, port, .. })
            | Self::Page(Page { request, port, .. }) => (*request, None, *port),
            Self::Markov(Markov { port, .. }) | Self::TorUsers(TorUsers { port, .. }) | Self::Replay(Replay { port, .. }) => {
                (None, None, *port)
            }
        }
    }

    /// The size of a request, where the load says it.
    pub const fn request(&self) -> Option<Bytes> {
        self.asked().0
    }

    /// Checks the values.
    ///
    /// # Errors
    /// The first value that makes no sense, with its key below the load.
    pub fn validate(&self) -> Result<(), LoadError> {
        match self {
            Self::Bulk { size, pause, .. } => {
                size.validate("size")?;
                pause.as_ref().map_or(Ok(()), |pause| pause.validate("pause"))?;
            }
            Self::Web { size, pause, .. } => {
                size.validate("size")?;
                pause.validate("pause")?;
            }
            Self::Sequence { transfers, .. } => {
                if transfers.is_empty() {
                    let (key, value) = ("transfers".to_owned(), "[]".to_owned());
                    return Err(LoadError { key, value, allowed: "at least one transfer is needed" });
                }
                for (index, batch) in transfers.iter().enumerate() {
                    let key = |name: &str| format!("transfers[{index}].{name}");
                    batch.size.validate(&key("size"))?;
                    batch.pause.as_ref().map_or(Ok(()), |pause| pause.validate(&key("pause")))?;
                    if batch.count == 0 {
                        return Err(LoadError { key: key("count"), value: "0".to_owned(), allowed: "it must be at least 1" });
                    }
                }
            }
            Self::Audio(audio) => audio.validate(&AUDIO)?,
            Self::Video(video) => video.validate(&VIDEO)?,
            Self::Page(page) => page.validate()?,
            Self::Perf(perf) => perf.validate()?,
            Self::Markov(markov) => markov.validate()?,
            Self::TorUsers(users) => users.validate()?,
            Self::Replay(_) => {}
        }
        let (request, header, port) = self.asked();
        for (key, given) in [("request", request), ("header", header)] {
            given.map_or(Ok(()), |bytes| SizeDistribution::Constant(bytes).validate(key))?;
        }
        if port == Some(0) {
            let (key, value) = ("port".to_owned(), "0".to_owned());
            return Err(LoadError { key, value, allowed: "it must be from 1 to 65535" });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
