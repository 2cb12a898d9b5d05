//! Streaming: a server that sends what is played, at the rate at which it is played.
//!
//! What is modelled is what servers and players have been seen to do: a first part at once, so that the player has something in hand, then a piece at regular intervals, as long as it
//! plays (Rao, Lim, Barakat, Legout, Towsley, Dabbous: "Network Characteristics of Video Streaming Traffic", CoNEXT 2011: a buffering phase, then on and off in turn). It is one
//! stream, on which the server writes by the clock; a network that is slower than the rate leaves it behind, and nothing is left out or made smaller.
//!
//! Audio of 50 kB/s and video of 1 MB/s are the models of the testbed of the paper on shared links (section 4.5, figure 14), which sends a second's worth each second.
//! Audio here does the same, as a server of web radio does. A video comes in segments of four seconds, as players ask for them (HLS and DASH use
//! two to ten), two of them at the start; `interval = "1 s"` and `ahead = "1 s"` make it the paper's.

use crate::distribution::{rate_schema, text_schema};
use crate::flow::Flow;
use crate::{DEFAULT_PORT, DEFAULT_REQUEST, DurationDistribution, Exchange, LoadError, MeanFlow, Script};
use onionlab_quantities::{Bandwidth, Bytes, RandomStream, SimDuration};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

/// What is streamed, and how. What is not given is as usual for audio or for video.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Streaming {
    /// The rate at which it is played; 50 kB/s for audio and 1 MB/s for video if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "rate_schema")]
    pub rate: Option<Bandwidth>,
    /// How much playing time a piece is, and how long after the one before it comes; 1 s for audio and 4 s for video if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "duration_schema")]
    pub interval: Option<SimDuration>,
    /// How much playing time comes at once at the start; 1 s for audio and 8 s for video if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "duration_schema")]
    pub ahead: Option<SimDuration>,
    /// How long it plays; 5 min if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<DurationDistribution>,
    /// Pause after it; none if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<DurationDistribution>,
    /// Size of the request; 200 B if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "size_schema")]
    pub request: Option<Bytes>,
    /// The server's port; 443 if not given. Sampled networks need `exit-policies` for others than 80 and 443.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65_535))]
    pub port: Option<u16>,
}

fn duration_schema(_: &mut SchemaGenerator) -> Schema {
    text_schema::<SimDuration>()
}

fn size_schema(_: &mut SchemaGenerator) -> Schema {
    text_schema::<Bytes>()
}

/// What is usual.
pub(crate) struct Usual {
    rate: Bandwidth,
    interval: SimDuration,
    ahead: SimDuration,
}

/// Of audio.
pub(crate) const AUDIO: Usual =
    Usual { rate: Bandwidth::from_bytes_per_sec(50_000), interval: SimDuration::from_secs(1), ahead: SimDuration::from_secs(1) };
/// Of video.
pub(crate) const VIDEO: Usual = Usual {
    rate: Bandwidth::from_bytes_per_sec(1_000_000),
    interval: SimDuration::from_secs(4),
    ahead: SimDuration::from_secs(8),
};
const LENGTH: SimDuration = SimDuration::from_secs(300);

impl Streaming {
    pub(crate) fn flow(&self, usual: &Usual, stream: RandomStream, k: u64) -> Flow {
        let rate = self.rate.unwrap_or(usual.rate);
        let length = self.length.as_ref().map_or(LENGTH, |length| length.draw(stream.member(0).at(k)));
        let pause = self.pause.as_ref().map_or(SimDuration::ZERO, |pause| pause.draw(stream.member(1).at(k)));
        let bytes = |duration: SimDuration| rate.bytes_in(duration).max(Bytes::new(1));
        let interval = self.interval(usual);
        let first = bytes(self.ahead.unwrap_or(usual.ahead));
        let request = self.request.unwrap_or(DEFAULT_REQUEST);
        let script = Script::paced(request, bytes(length), bytes(interval), interval).beginning_with(first);
        Flow::single(pause, Exchange::Script(script), None, self.port.unwrap_or(DEFAULT_PORT))
    }

    /// Nothing comes for so long where the network keeps up.
    pub(crate) fn interval(&self, usual: &Usual) -> SimDuration {
        self.interval.unwrap_or(usual.interval)
    }

    pub(crate) fn validate(&self, usual: &Usual) -> Result<(), LoadError> {
        let within = |key: &str, value: Option<SimDuration>, allowed, least| match value {
            Some(value) if !(least..=SimDuration::from_secs(3600)).contains(&value) => {
                Err(LoadError { key: key.to_owned(), value: format!("\"{value}\""), allowed })
            }
            _ => Ok(()),
        };
        // A shorter interval than tgen's coalescing would not be kept.
        within("interval", self.interval, "it must be from 20 ms to 1 h", SimDuration::from_millis(20))?;
        within("ahead", self.ahead, "it must be at most 1 h", SimDuration::ZERO)?;
        if let Some(rate) = self.rate
            && !(1..=1_000_000_000).contains(&rate.as_bytes_per_sec())
        {
            return Err(LoadError {
                key: "rate".to_owned(),
                value: format!("\"{rate}\""),
                allowed: "it must be from 1 B/s to 1 GB/s",
            });
        }
        // Pieces are whole bytes: a smaller one would not be the rate's.
        let rate = self.rate.unwrap_or(usual.rate);
        if rate.bytes_in(self.interval(usual)) < Bytes::new(1000) {
            return Err(LoadError {
                key: "rate".to_owned(),
                value: format!("\"{rate}\""),
                allowed: "it must bring at least 1 kB in each interval",
            });
        }
        self.length.as_ref().map_or(Ok(()), |length| length.validate("length"))?;
        let request = self.request.unwrap_or(DEFAULT_REQUEST);
        if request.get() > u64::from(u32::MAX) {
            return Err(LoadError {
                key: "request".to_owned(),
                value: format!("\"{request}\""),
                allowed: "it must be at most 4 GB",
            });
        }
        self.pause.as_ref().map_or(Ok(()), |pause| pause.validate("pause"))
    }

    pub(crate) fn mean(&self, usual: &Usual) -> MeanFlow {
        let length = self.length.as_ref().map_or(LENGTH.as_secs_f64(), |length| length.mean_units() / 1e9);
        let ahead = self.ahead.unwrap_or(usual.ahead).as_secs_f64();
        let interval = self.interval(usual).as_secs_f64();
        MeanFlow {
            to_server: self.request.unwrap_or(DEFAULT_REQUEST).get() as f64,
            to_client: self.rate.unwrap_or(usual.rate).as_bytes_per_sec() as f64 * length,
            pause: self.pause.as_ref().map_or(0.0, |pause| pause.mean_units() / 1e9),
            // What comes at once at the start is there that much sooner, and the last piece comes on the beat.
            lasts: ((length - ahead).max(0.0) / interval).ceil() * interval,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LoadModel, ScriptEnd};
    use onionlab_quantities::Seed;

    fn bursts(text: &str) -> (Vec<(u64, u64)>, Bytes) {
        let load: LoadModel = toml::from_str(text).unwrap();
        load.validate().unwrap();
        let mut flow = load.flow(RandomStream::new(Seed(1), "client1", "load"), 0).unwrap();
        let plan = flow.next().unwrap();
        assert!(flow.next().is_none() && plan.timeout.is_none());
        let Exchange::Script(script) = plan.exchange else { panic!("{plan:?}") };
        let mut server = ScriptEnd::new(&script, false);
        let bursts =
            std::iter::from_fn(|| server.next_burst()).map(|burst| (burst.bytes.get(), burst.pause.as_nanos() / 1_000_000));
        (bursts.collect(), script.greeting()[0])
    }

    /// The testbed of the paper on shared links: a second's worth each second.
    #[test]
    fn audio_is_a_second_each_second() {
        let (bursts, request) = bursts("kind = \"audio\"\nlength = \"3500 ms\"");
        assert_eq!(bursts, [(50_000, 1000), (50_000, 1000), (50_000, 1000), (25_000, 0)]);
        assert_eq!(request, DEFAULT_REQUEST);
    }

    #[test]
    fn pieces_are_of_the_rate() {
        let refused = |text: &str| toml::from_str::<LoadModel>(text).unwrap().validate().unwrap_err().to_string();
        let message = refused("kind = \"audio\"\nrate = \"100 B/s\"");
        assert!(message.contains("rate") && message.contains("at least 1 kB in each interval"), "{message}");
        assert!(refused("kind = \"video\"\nrate = \"40 kB/s\"\ninterval = \"20 ms\"").contains("1 kB"));
        assert!(refused("kind = \"audio\"\nrequest = \"5 GB\"").contains("at most 4 GB"));
        assert!(!bursts("kind = \"audio\"\nrate = \"50 kB/s\"\ninterval = \"20 ms\"").0.is_empty());
    }

    #[test]
    fn a_video_begins_with_two_segments() {
        let (video, _) = bursts("kind = \"video\"\nlength = \"14 s\"");
        assert_eq!(video, [(8_000_000, 4000), (4_000_000, 4000), (2_000_000, 0)]);
        let (video, request) = bursts(
            "kind = \"video\"\nrate = \"8 Mbit/s\"\nlength = \"2 s\"\ninterval = \"1 s\"\nahead = \"1 s\"\nrequest = \"1 kB\"",
        );
        assert_eq!((video, request.get()), (vec![(1_000_000, 1000), (1_000_000, 0)], 1000));
    }
}
