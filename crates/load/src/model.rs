//! The loads: bulk, web, and a sequence of transfers.

use crate::distribution::text_schema;
use crate::flow::DEFAULT_PORT;
use crate::{DurationDistribution, Exchange, Flow, LoadError, Pace, SizeDistribution};
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
        /// What of the size the server writes first, in a write of its own; nothing if not given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(schema_with = "size_schema")]
        header: Option<Bytes>,
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
        /// What of the size the server writes first, in a write of its own; nothing if not given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(schema_with = "size_schema")]
        header: Option<Bytes>,
    },
    /// Transfers in order, and then no more.
    Sequence {
        /// The transfers.
        transfers: Vec<Batch>,
        /// Size of the request for a transfer; 200 B if not given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(schema_with = "size_schema")]
        request: Option<Bytes>,
        /// What of the size the server writes first, in a write of its own; nothing if not given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(schema_with = "size_schema")]
        header: Option<Bytes>,
    },
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

/// One transfer of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// What the server sends.
    pub size: Bytes,
    /// What the client sends first.
    pub request: Bytes,
    /// What of the size the server writes first, in a write of its own.
    pub header: Bytes,
    /// From the end of this transfer, however it ends, to the start of the next.
    pub pause_after: SimDuration,
}

impl LoadModel {
    /// How the flows of a client follow each other.
    pub const fn pace(&self) -> Pace {
        match self {
            Self::Bulk { .. } | Self::Web { .. } | Self::Sequence { .. } => Pace::AfterPrevious,
        }
    }

    /// Whether each flow has a circuit of its own, whatever the client is told of other loads.
    pub const fn isolates(&self) -> bool {
        match self {
            Self::Bulk { .. } | Self::Web { .. } | Self::Sequence { .. } => false,
        }
    }

    /// The flow with ordinal `k`, from 0, of a client's user whose random values for the load are `stream`; none after the last one.
    ///
    /// The load must be one that [`Self::validate`] accepts.
    pub fn flow(&self, stream: RandomStream, k: u64) -> Option<Flow> {
        let Transfer { size, request, header, pause_after } = self.transfer(stream, k)?;
        Some(Flow::single(pause_after, Exchange::Download { request, size, header }, None, DEFAULT_PORT))
    }

    /// The transfer with ordinal `k`, from 0, of the client whose random stream for its load is `stream`; none after the
    /// last one of a sequence.
    ///
    /// The load must be one that [`Self::validate`] accepts.
    pub fn transfer(&self, stream: RandomStream, k: u64) -> Option<Transfer> {
        let (size, pause, request, header) = match self {
            Self::Bulk { size, pause, request, header } => (size, pause.as_ref(), request, header),
            Self::Web { size, pause, request, header } => (size, Some(pause), request, header),
            Self::Sequence { transfers, request, header } => {
                let mut before = 0;
                let batch = transfers.iter().find(|batch| {
                    before += u64::from(batch.count);
                    k < before
                })?;
                (&batch.size, batch.pause.as_ref(), request, header)
            }
        };
        Some(Transfer {
            size: size.draw(stream.member(0).at(k)),
            request: request.unwrap_or(DEFAULT_REQUEST),
            header: header.unwrap_or(Bytes::ZERO),
            pause_after: pause.map_or(SimDuration::ZERO, |pause| pause.draw(stream.member(1).at(k))),
        })
    }

    /// How many transfers there are; none if they never end.
    pub fn transfers(&self) -> Option<u64> {
        match self {
            Self::Bulk { .. } | Self::Web { .. } => None,
            Self::Sequence { transfers, .. } => Some(transfers.iter().map(|batch| u64::from(batch.count)).sum()),
        }
    }

    /// Checks the values.
    ///
    /// # Errors
    /// The first value that makes no sense, with its key below the load.
    pub fn validate(&self) -> Result<(), LoadError> {
        let (request, header) = match self {
            Self::Bulk { size, pause, request, header } => {
                size.validate("size")?;
                pause.as_ref().map_or(Ok(()), |pause| pause.validate("pause"))?;
                (request, header)
            }
            Self::Web { size, pause, request, header } => {
                size.validate("size")?;
                pause.validate("pause")?;
                (request, header)
            }
            Self::Sequence { transfers, request, header } => {
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
                (request, header)
            }
        };
        for (key, given) in [("request", request), ("header", header)] {
            given.map_or(Ok(()), |bytes| SizeDistribution::Constant(bytes).validate(key))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onionlab_quantities::Seed;
    use proptest::prelude::*;

    fn load(text: &str) -> LoadModel {
        let load: LoadModel = toml::from_str(text).unwrap();
        load.validate().unwrap();
        assert_eq!(toml::from_str::<LoadModel>(&toml::to_string(&load).unwrap()).unwrap(), load);
        load
    }

    fn stream(client: &str) -> RandomStream {
        RandomStream::new(Seed(1), client, "load")
    }

    const WEB: &str = "kind = \"web\"\nsize = \"320 KiB\"\npause = { uniform = [\"1 s\", \"20 s\"] }";

    #[test]
    fn a_web_client_pauses_for_a_time_of_its_own() {
        let web = load(WEB);
        let transfers: Vec<Transfer> = (0..1000).map(|k| web.transfer(stream("client1"), k).unwrap()).collect();
        for transfer in &transfers {
            assert_eq!((transfer.size.get(), transfer.request), (327_680, DEFAULT_REQUEST));
            assert!((1.0..=20.0).contains(&transfer.pause_after.as_secs_f64()));
        }
        let mean = transfers.iter().map(|t| t.pause_after.as_secs_f64()).sum::<f64>() / 1000.0;
        assert!((mean - 10.5).abs() < 5.0 * 5.48 / 1000.0_f64.sqrt(), "{mean}");
        assert_ne!(transfers[0], transfers[1]);
        assert_ne!(web.transfer(stream("client2"), 0), Some(transfers[0]));
        assert_eq!(web.transfers(), None);
    }

    #[test]
    fn a_bulk_client_goes_on_at_once() {
        let bulk = load("kind = \"bulk\"\nsize = \"5 MiB\"\nrequest = \"1 kB\"");
        let headed = load("kind = \"bulk\"\nsize = \"5 MiB\"\nheader = \"68 B\"");
        assert_eq!(headed.transfer(stream("client1"), 0).unwrap().header, Bytes::new(68));
        let expected = Transfer {
            size: Bytes::new(5_242_880),
            request: Bytes::new(1_000),
            header: Bytes::ZERO,
            pause_after: SimDuration::ZERO,
        };
        assert_eq!(bulk.transfer(stream("client1"), 1_000_000), Some(expected));
    }

    #[test]
    fn a_sequence_ends() {
        let text = "kind = \"sequence\"\ntransfers = [{ size = \"50 kB\", count = 2, pause = \"5 s\" }, { size = \"1 MB\" }]";
        let sequence = load(text);
        let sizes: Vec<_> = (0..5).map(|k| sequence.transfer(stream("client1"), k).map(|t| t.size.get())).collect();
        assert_eq!(sizes, [Some(50_000), Some(50_000), Some(1_000_000), None, None]);
        assert_eq!(sequence.transfer(stream("client1"), 1).unwrap().pause_after, SimDuration::from_secs(5));
        assert_eq!(sequence.transfers(), Some(3));
    }

    #[test]
    fn each_transfer_is_a_flow_of_one_download() {
        let text = "kind = \"sequence\"\ntransfers = [{ size = \"50 kB\", pause = \"5 s\" }]\nheader = \"68 B\"";
        let sequence = load(text);
        assert_eq!((sequence.pace(), sequence.isolates()), (Pace::AfterPrevious, false));
        let mut flow = sequence.flow(stream("client1"), 0).unwrap();
        assert_eq!((flow.pause, flow.parallel), (SimDuration::from_secs(5), 1));
        let plan = flow.next().unwrap();
        assert_eq!((plan.delay, plan.after_all, plan.timeout, plan.port), (SimDuration::ZERO, false, None, 443));
        let Exchange::Download { request, size, header } = plan.exchange else { panic!("{plan:?}") };
        assert_eq!((request.get(), size.get(), header.get()), (200, 50_000, 68));
        assert!(flow.next().is_none());
        assert!(sequence.flow(stream("client1"), 1).is_none());
    }

    #[test]
    fn what_makes_no_sense_is_refused_in_a_sentence() {
        for (text, words) in [
            ("kind = \"bulk\"\nsize = \"0 B\"", "size = \"0 B\": it must be at least 1 B"),
            ("kind = \"bulk\"\nsize = \"1 B\"\nrequest = \"0 B\"", "request = \"0 B\": it must be at least 1 B"),
            ("kind = \"bulk\"\nsize = \"1 B\"\nheader = \"0 B\"", "header = \"0 B\": it must be at least 1 B"),
            ("kind = \"sequence\"\ntransfers = []", "transfers = []: at least one transfer is needed"),
            ("kind = \"sequence\"\ntransfers = [{ size = \"1 B\", count = 0 }]", "transfers[0].count = 0: it must be at least 1"),
            (
                "kind = \"sequence\"\ntransfers = [{ size = \"1 B\", pause = { pareto = { minimum = \"1 s\", shape = 0.0 } } }]",
                "transfers[0].pause.pareto.shape = 0: it must be a finite number above zero",
            ),
        ] {
            let load: LoadModel = toml::from_str(text).unwrap();
            assert_eq!(load.validate().unwrap_err().to_string(), words);
        }
        for (text, words) in [
            ("kind = \"sporadic\"\nsize = \"1 B\"", "unknown variant `sporadic`, expected one of `bulk`, `web`, `sequence`"),
            ("kind = \"web\"\nsize = \"1 B\"", "missing field `pause`"),
            ("kind = \"bulk\"\nsize = \"1 B\"\ncolour = \"red\"", "unknown field `colour`"),
            ("size = \"1 B\"", "missing field `kind`"),
        ] {
            let error = toml::from_str::<LoadModel>(text).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn the_schema_knows_every_key() {
        let schema = serde_json::to_string(&schemars::schema_for!(LoadModel)).unwrap();
        for word in
            ["bulk", "web", "sequence", "transfers", "count", "uniform", "log-normal", "pareto", "choice", "320 KiB", "oneOf"]
        {
            assert!(schema.contains(word), "{word} in {schema}");
        }
    }

    proptest! {
        /// A transfer depends on its name alone, not on which others were asked for before.
        #[test]
        fn a_transfer_is_a_pure_function(ordinals in prop::collection::vec(0_u64..100, 1..20)) {
            let web = load(WEB);
            let forward: Vec<_> = (0..100).map(|k| web.transfer(stream("client1"), k)).collect();
            for k in ordinals {
                prop_assert_eq!(web.transfer(stream("client1"), k), forward[k as usize]);
            }
        }
    }
}
