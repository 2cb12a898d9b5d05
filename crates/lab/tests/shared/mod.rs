//! Links in a simulation beside what `onionlab-shared-links` expects of the same network.

use onionlab_directory::{Consensus, Sample, Size, sample, synth};
use onionlab_lab::scenario::ResolvedScenario;
use onionlab_lab::{RunKey, Scenario, world};
use onionlab_quantities::{Seed, SimTime};
use onionlab_shared_links::{Exclusions, Filters, Method, Question, answer};
use onionlab_tor::{LinkCount, LinkSample};
use std::fmt::Write as _;
use std::path::Path;

/// A part of a network with as many clients, each of which keeps one circuit in use.
pub struct Case {
    pub scenario: ResolvedScenario,
    /// The sampled relays.
    pub network: Consensus,
    pub clients: u32,
}

/// Share of shared links in percent: mean, standard deviation of one network of circuits, number of these.
#[derive(Clone, Copy)]
pub struct Share {
    pub mean: f64,
    pub deviation: f64,
    pub count: usize,
}

impl Share {
    /// Half of the 95 % interval of the mean.
    pub fn half_width(self) -> f64 {
        1.96 * self.deviation / (self.count as f64).sqrt()
    }
}

impl Case {
    /// `document`: a consensus; none for the built-in network. Clients load by a trickle, so that few cells keep circuits in use. By the
    /// time they start each has two circuits and takes the one that tor's list has first, not the one that is built more quickly, which would favour near relays.
    pub fn new(document: Option<&Path>, scale: f64, clients: u32) -> Self {
        let mut text = format!(
            "title = \"Links\"\nduration = \"30 s\"\nbase-seed = 1\n[base]\nflow-control = \"windows\"\n[[clients]]\ngroup = \"trickle\"\ncount = {clients}\n\
             up = \"100 kbit/s\"\ndown = \"30 kbit/s\"\nstart = \"10 s\"\nload = {{ kind = \"bulk\", size = \"10 MB\" }}\n[network]\nscale = {scale}\njitter = false\n"
        );
        match document {
            Some(path) => writeln!(text, "kind = \"consensus\"\npath = '{}'", path.display()).unwrap(),
            None => text.push_str("kind = \"synthetic\"\n"),
        }
        let scenario = Scenario::parse(Path::new("links.toml"), text).and_then(|scenario| scenario.resolve()).unwrap();
        let full = match document {
            Some(path) => Consensus::read(path).unwrap(),
            None => {
                synth::synth(&synth::Model::built_in(), &synth::Options { year: 2025.0, ..synth::Options::default() }).unwrap()
            }
        };
        let Sample { network, .. } = sample(&full, Size::Scale(scale), scenario.network_seed(0)).unwrap();
        Self { scenario, network, clients }
    }

    /// The links in use after so many seconds, by seed.
    pub fn simulate(&self, seeds: std::ops::Range<u64>, seconds: u64) -> Vec<LinkSample> {
        seeds
            .map(|seed| {
                let mut built = world::build(&self.scenario, RunKey { treatment: 0, network: 0, seed }).unwrap();
                built.world.run_until(SimTime::from_nanos(seconds * 1_000_000_000));
                built.world.links_in_use()
            })
            .collect()
    }

    /// What is expected of so many circuits: by draw under tor's rules about relays of one circuit, and in closed form without these.
    pub fn expected(&self, directed: bool, draws: u64) -> (Share, f64) {
        let question = Question {
            directed,
            exclusions: Exclusions { same_relay: true, same_subnet: true, families: None },
            filters: Filters::default(),
            ..Question::external(u64::from(self.clients))
        };
        let drawn = answer(&self.network, &question, Method::Draw, draws, Seed(7)).unwrap();
        let free = Question { exclusions: Exclusions::default(), ..question };
        let formula = answer(&self.network, &free, Method::Expectation, 1, Seed(7)).unwrap();
        let deviation = drawn.stddev_percent.unwrap();
        (Share { mean: drawn.shared_percent, deviation, count: draws as usize }, formula.shared_percent)
    }
}

/// The share of one kind of links over several samples.
pub fn share(samples: &[LinkSample], kind: impl Fn(&LinkSample) -> LinkCount) -> Share {
    let percents: Vec<f64> =
        samples.iter().map(kind).map(|count| 100.0 * f64::from(count.shared) / f64::from(count.links)).collect();
    let mean = percents.iter().sum::<f64>() / percents.len() as f64;
    let squares: f64 = percents.iter().map(|percent| (percent - mean).powi(2)).sum();
    Share { mean, deviation: (squares / (percents.len() - 1) as f64).sqrt(), count: percents.len() }
}
