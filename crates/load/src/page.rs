//! A web page of many objects: the document first, then what it names, over a few streams at a time.
//!
//! Numbers from the HTTP Archive (Web Almanac 2024, chapter on page weight, desktop pages): 24, 42, 71, 115 and 176 requests at the 10th, 25th, 50th, 75th and 90th
//! percentile, which a log-normal number with median 71 and sigma 0.8 meets within an eighth; 18 kB of HTML and 2,652 kB in all in the median,
//! so 37 kB an object. Sizes of objects and documents are log-normal about those; their spread is an assumption between the models of Barford and Crovella
//! (SIGMETRICS 1998: sigma 1.32) and of the 3GPP2 and NGMN evaluations (1.37 for documents, 2.36 for objects). Browsers open at most six connections to a
//! server (HTTP/1.1). All objects are asked for when the document is there: what a browser finds on the way, and what scripts ask for later, is not modelled.

use crate::distribution::text_schema;
use crate::flow::{Flow, Streams};
use crate::{
    DEFAULT_PORT, Distribution, DurationDistribution, Exchange, LoadError, MeanFlow, Shape, SizeDistribution, StreamPlan,
};
use onionlab_quantities::{Bytes, RandomStream, SimDuration};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The size of a request where the load does not say: header lines and cookies of a browser's.
const REQUEST: Bytes = Bytes::new(600);
/// Most objects of a page.
const MOST_OBJECTS: f64 = 100_000.0;

/// Pages with objects.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Page {
    /// Size of the document; log-normal with median 18 kB and sigma 1.37 if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<SizeDistribution>,
    /// How many objects beside the document; log-normal with median 70 and sigma 0.8 if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects: Option<Count>,
    /// Size of an object; log-normal with median 8 kB and sigma 1.75, 37 kB in the mean, if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<SizeDistribution>,
    /// How many streams are open at most; 6 if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub parallel: Option<u32>,
    /// Pause after a page.
    pub pause: DurationDistribution,
    /// Size of a request; 600 B if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "size_schema")]
    pub request: Option<Bytes>,
    /// The server's port; 443 if not given. Sampled networks need `exit-policies` for others than 80 and 443.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65_535))]
    pub port: Option<u16>,
}

/// A number of things: always the same, or log-normal.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a whole number or { log-normal = { median, sigma } }")]
pub enum Count {
    /// Always so many.
    Constant(u32),
    /// The logarithm is normal.
    Random(RandomCount),
}

/// A random number of things.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum RandomCount {
    /// The logarithm is normal; rounded to a whole number.
    LogNormal {
        /// Half of the numbers are below it.
        median: f64,
        /// Standard deviation of the natural logarithm.
        sigma: f64,
    },
}

const OBJECTS: Count = Count::Random(RandomCount::LogNormal { median: 70.0, sigma: 0.8 });
const DOCUMENT: SizeDistribution = Distribution::Random(Shape::LogNormal { median: Bytes::new(18_000), sigma: 1.37 });
const OBJECT: SizeDistribution = Distribution::Random(Shape::LogNormal { median: Bytes::new(8_000), sigma: 1.75 });

fn size_schema(_: &mut SchemaGenerator) -> Schema {
    text_schema::<Bytes>()
}

impl Count {
    fn draw(self, draw: onionlab_quantities::Draw) -> u32 {
        match self {
            Self::Constant(count) => count,
            Self::Random(RandomCount::LogNormal { median, sigma }) => {
                libm::round(median * draw.log_normal(0.0, sigma)).min(MOST_OBJECTS) as u32
            }
        }
    }

    fn mean(self) -> f64 {
        match self {
            Self::Constant(count) => f64::from(count),
            Self::Random(RandomCount::LogNormal { median, sigma }) => median * libm::exp(sigma * sigma / 2.0),
        }
    }

    fn validate(self, key: &str) -> Result<(), LoadError> {
        let wrong = |key: String, value: f64, allowed| Err(LoadError { key, value: value.to_string(), allowed });
        match self {
            Self::Constant(count) if f64::from(count) > MOST_OBJECTS => {
                wrong(key.to_owned(), f64::from(count), "it must be at most 100000")
            }
            Self::Random(RandomCount::LogNormal { median, .. }) if !(median > 0.0 && median <= MOST_OBJECTS) => {
                wrong(format!("{key}.log-normal.median"), median, "it must be above 0 and at most 100000")
            }
            Self::Random(RandomCount::LogNormal { sigma, .. }) if !(sigma > 0.0 && sigma <= 10.0) => {
                wrong(format!("{key}.log-normal.sigma"), sigma, "it must be above 0 and at most 10")
            }
            _ => Ok(()),
        }
    }
}

impl Page {
    pub(crate) fn flow(&self, stream: RandomStream, k: u64) -> Flow {
        let pause = self.pause.draw(stream.member(1).at(k));
        let objects = self.objects.unwrap_or(OBJECTS).draw(stream.member(2).at(k));
        let document = self.document.as_ref().unwrap_or(&DOCUMENT).draw(stream.member(0).at(k));
        let request = self.request.unwrap_or(REQUEST);
        let port = self.port.unwrap_or(DEFAULT_PORT);
        let sizes = Arc::new(self.object.clone().unwrap_or(OBJECT));
        let state =
            PageStreams { document: Some(document), sizes, random: stream.member(3).member(k), objects, given: 0, request, port };
        Flow { pause, parallel: self.parallel.unwrap_or(6), streams: Streams::Page(state) }
    }

    pub(crate) fn validate(&self) -> Result<(), LoadError> {
        self.document.as_ref().map_or(Ok(()), |document| document.validate("document"))?;
        self.object.as_ref().map_or(Ok(()), |object| object.validate("object"))?;
        self.objects.map_or(Ok(()), |objects| objects.validate("objects"))?;
        self.pause.validate("pause")?;
        if let Some(parallel) = self.parallel
            && !(1..=1000).contains(&parallel)
        {
            let allowed = "it must be from 1 to 1000";
            return Err(LoadError { key: "parallel".to_owned(), value: parallel.to_string(), allowed });
        }
        Ok(())
    }

    pub(crate) fn mean(&self) -> MeanFlow {
        let objects = self.objects.unwrap_or(OBJECTS).mean();
        let object = self.object.as_ref().unwrap_or(&OBJECT).mean_units();
        MeanFlow {
            to_server: (1.0 + objects) * self.request.unwrap_or(REQUEST).get() as f64,
            to_client: self.document.as_ref().unwrap_or(&DOCUMENT).mean_units() + objects * object,
            pause: self.pause.mean_units() / 1e9,
            lasts: 0.0,
        }
    }
}

/// The streams of a page.
#[derive(Debug, Clone)]
pub(crate) struct PageStreams {
    /// As long as it has not been asked for.
    document: Option<Bytes>,
    sizes: Arc<SizeDistribution>,
    random: RandomStream,
    objects: u32,
    given: u32,
    request: Bytes,
    port: u16,
}

impl PageStreams {
    pub fn next(&mut self) -> Option<StreamPlan> {
        let (size, after_all) = if let Some(document) = self.document.take() {
            (document, false)
        } else if self.given < self.objects {
            self.given += 1;
            (self.sizes.draw(self.random.at(u64::from(self.given))), self.given == 1)
        } else {
            return None;
        };
        let exchange =
            Exchange::Download { request: self.request, first: self.request, awaited: self.request, size, header: Bytes::ZERO };
        Some(StreamPlan { delay: SimDuration::ZERO, after_all, exchange, timeout: None, port: self.port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LoadModel, Pace};
    use onionlab_quantities::Seed;

    fn page(text: &str) -> LoadModel {
        let load: LoadModel = toml::from_str(&format!("kind = \"page\"\n{text}")).unwrap();
        load.validate().unwrap();
        load
    }

    fn random() -> RandomStream {
        RandomStream::new(Seed(1), "client1", "load")
    }

    #[test]
    fn the_document_is_first_and_the_objects_come_together() {
        let page =
            page("pause = \"10 s\"\nobjects = 3\ndocument = \"18 kB\"\nobject = { uniform = [\"1 kB\", \"9 kB\"] }\nport = 80");
        assert_eq!(page.pace(), Pace::AfterPrevious);
        let mut flow = page.flow(random(), 0).unwrap();
        assert_eq!((flow.parallel, flow.pause), (6, SimDuration::from_secs(10)));
        let plans: Vec<StreamPlan> = flow.by_ref().collect();
        assert_eq!(plans.iter().map(|plan| plan.after_all).collect::<Vec<_>>(), [false, true, false, false]);
        let sizes: Vec<u64> = plans
            .iter()
            .map(|plan| match plan.exchange {
                Exchange::Download { request, size, header, .. } => {
                    assert_eq!((request, header, plan.port, plan.delay), (REQUEST, Bytes::ZERO, 80, SimDuration::ZERO));
                    size.get()
                }
                Exchange::Script(_) => panic!("{plan:?}"),
            })
            .collect();
        assert_eq!(sizes[0], 18_000);
        assert!(sizes[1..].iter().all(|size| (1000..=9000).contains(size)) && sizes[1] != sizes[2], "{sizes:?}");
    }

    /// Web Almanac 2024: requests at the 10th, 25th, 50th, 75th and 90th percentile of desktop pages.
    #[test]
    fn pages_have_the_numbers_of_the_http_archive() {
        let page = page("pause = \"10 s\"");
        let mut requests: Vec<usize> = (0..4000).map(|k| page.flow(random(), k).unwrap().count()).collect();
        requests.sort_unstable();
        for (percentile, archive) in [(10, 24.0), (25, 42.0), (50, 71.0), (75, 115.0), (90, 176.0)] {
            let ours = requests[requests.len() * percentile / 100] as f64;
            assert!((ours / archive - 1.0_f64).abs() < 0.15, "{percentile} %: {ours} against {archive}");
        }
        let mean = page.mean_flow();
        let objects = OBJECTS.mean();
        assert!(((mean.to_client - DOCUMENT.mean_units()) / objects / 37_000.0 - 1.0).abs() < 0.01, "{mean:?}");
    }
}
