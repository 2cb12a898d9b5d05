//! The fitted distributions and what lies between two years of them.

use crate::error::DirectoryError;
use crate::params::Params;
use crate::policy::PortSummary;
use crate::relay::{Class, Flag, TorVersion};
use crate::time::Timestamp;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Distributions of real networks, one snapshot a year. See `tools/fit_consensus_model.py` for each parameter.
#[derive(Debug, Clone)]
pub struct Model {
    first_year: u16,
    snapshots: Vec<Snapshot>,
}

/// The network of one moment.
#[derive(Debug, Clone)]
pub(super) struct Snapshot {
    pub valid_after: Timestamp,
    pub method: u32,
    pub params: Params,
    /// Significant digits of weights.
    pub digits: u32,
    /// Levels of the weight quantiles, 0 to 1, ascending.
    pub levels: Vec<f64>,
    /// By [`Class::index`].
    pub classes: [ClassModel; 4],
    pub versions: Vec<(TorVersion, f64)>,
    pub or_ports: Vec<(u16, f64)>,
    pub addresses: AddressModel,
}

/// One class of relays at one moment.
#[derive(Debug, Clone)]
pub(super) struct ClassModel {
    pub relays: f64,
    pub mean_weight: f64,
    pub quantiles: Vec<f64>,
    /// Share with the flag Fast.
    pub fast: f64,
    pub unmeasured: f64,
    /// Chances of the other flags that the class does not imply.
    pub flags: Vec<(Flag, f64)>,
    pub policies: Vec<(PortSummary, f64)>,
}

/// How addresses cluster; see [`super::addresses`].
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AddressModel {
    pub discount_16: f64,
    pub concentration_16: f64,
    pub discount_24: f64,
    /// Chance that a relay shares its address with another of its /24.
    pub shared_address: f64,
    pub most_per_address: u32,
}

impl ClassModel {
    /// The weight below which the share `level` of the class lies; piecewise log-linear.
    pub(super) fn quantile(&self, levels: &[f64], level: f64) -> f64 {
        let above = levels.partition_point(|&at| at <= level).clamp(1, levels.len() - 1);
        let (low, high) = (self.quantiles[above - 1], self.quantiles[above]);
        let part = (level - levels[above - 1]) / (levels[above] - levels[above - 1]);
        log_between(low, high, part)
    }
}

impl Model {
    /// The model that comes with onionlab.
    pub fn built_in() -> Self {
        let text = include_str!("../../model/consensus.json");
        let file: ModelFile = serde_json::from_str(text).expect("the built-in model is well-formed");
        file.into_model()
    }

    /// First and last year.
    pub fn years(&self) -> (u16, u16) {
        (self.first_year, self.first_year + self.snapshots.len() as u16 - 1)
    }

    /// The earliest network.
    pub(super) fn first(self) -> Snapshot {
        self.snapshots.into_iter().next().expect("a model has at least one year")
    }

    /// The network of a year; between two years, in between.
    pub(super) fn at(&self, year: f64) -> Result<Snapshot, DirectoryError> {
        let (first, last) = self.years();
        if !(f64::from(first)..=f64::from(last)).contains(&year) {
            return Err(DirectoryError::Year { year, first, last });
        }
        let offset = year - f64::from(first);
        let before = &self.snapshots[offset as usize];
        let part = offset - libm::floor(offset);
        Ok(match self.snapshots.get(offset as usize + 1) {
            Some(after) if part > 0.0 => before.toward(after, part),
            _ => before.clone(),
        })
    }
}

impl Snapshot {
    /// The moment `part` of the way to a later one: counts and chances linearly, weights on a logarithmic scale; what
    /// has no between (parameters, versions, ports) from the earlier.
    fn toward(&self, later: &Self, part: f64) -> Self {
        let between = |a: f64, b: f64| a + (b - a) * part;
        let classes = std::array::from_fn(|i| {
            let (a, b) = (&self.classes[i], &later.classes[i]);
            let chance = |class: &ClassModel, flag| class.flags.iter().find(|(of, _)| *of == flag).map_or(0.0, |&(_, p)| p);
            ClassModel {
                relays: between(a.relays, b.relays),
                mean_weight: log_between(a.mean_weight, b.mean_weight, part),
                quantiles: a.quantiles.iter().zip(&b.quantiles).map(|(&a, &b)| log_between(a, b, part)).collect(),
                fast: between(a.fast, b.fast),
                unmeasured: between(a.unmeasured, b.unmeasured),
                flags: a.flags.iter().map(|&(flag, p)| (flag, between(p, chance(b, flag)))).collect(),
                policies: a.policies.clone(),
            }
        });
        let (a, b) = (&self.addresses, &later.addresses);
        let addresses = AddressModel {
            discount_16: between(a.discount_16, b.discount_16),
            concentration_16: between(a.concentration_16, b.concentration_16),
            discount_24: between(a.discount_24, b.discount_24),
            shared_address: between(a.shared_address, b.shared_address),
            most_per_address: a.most_per_address,
        };
        let seconds = between(self.valid_after.as_unix_secs() as f64, later.valid_after.as_unix_secs() as f64);
        // Consensuses begin on the hour.
        let valid_after = Timestamp::from_unix_secs(seconds as u64 / 3600 * 3600);
        Self { valid_after, classes, addresses, ..self.clone() }
    }
}

fn log_between(a: f64, b: f64, part: f64) -> f64 {
    libm::exp(libm::log(a) + (libm::log(b) - libm::log(a)) * part)
}

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelFile {
    levels: Vec<f64>,
    first_year: u16,
    years: Vec<YearFile>,
    policies: BTreeMap<Class, Vec<(String, f64)>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct YearFile {
    valid_after: String,
    method: u32,
    params: String,
    digits: u32,
    classes: BTreeMap<Class, ClassFile>,
    versions: Vec<(String, f64)>,
    or_ports: Vec<(u16, f64)>,
    addresses: AddressModel,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClassFile {
    relays: f64,
    mean_weight: f64,
    quantiles: Vec<f64>,
    fast: f64,
    unmeasured: f64,
    flags: BTreeMap<String, f64>,
}

impl ModelFile {
    /// Panics where the file is not what the fitting script writes: it is part of the program.
    fn into_model(self) -> Model {
        let policies: [Vec<(PortSummary, f64)>; 4] = Class::ALL.map(|class| {
            let summary = |(text, share): &(String, f64)| (text.parse().expect("a summary"), *share);
            self.policies[&class].iter().map(summary).collect()
        });
        let snapshots = self.years.into_iter().map(|year| year.into_snapshot(&self.levels, &policies)).collect();
        Model { first_year: self.first_year, snapshots }
    }
}

impl YearFile {
    fn into_snapshot(mut self, levels: &[f64], policies: &[Vec<(PortSummary, f64)>; 4]) -> Snapshot {
        let flag = |name: &str| Flag::ALL.into_iter().find(|flag| flag.as_str() == name).expect("a flag");
        let classes = Class::ALL.map(|class| {
            let file = self.classes.remove(&class).expect("every class");
            assert_eq!(file.quantiles.len(), levels.len(), "one quantile per level");
            ClassModel {
                relays: file.relays,
                mean_weight: file.mean_weight,
                quantiles: file.quantiles,
                fast: file.fast,
                unmeasured: file.unmeasured,
                flags: file.flags.iter().map(|(name, &chance)| (flag(name), chance)).collect(),
                policies: policies[class.index()].clone(),
            }
        });
        let param = |pair: &str| {
            let (name, value) = pair.split_once('=').expect("name=value");
            (name.to_owned(), value.parse().expect("a number"))
        };
        Snapshot {
            valid_after: timestamp(&self.valid_after),
            method: self.method,
            params: self.params.split_ascii_whitespace().map(param).collect(),
            digits: self.digits,
            levels: levels.to_vec(),
            classes,
            versions: self.versions.iter().map(|(text, share)| (text.parse().expect("a version"), *share)).collect(),
            or_ports: self.or_ports,
            addresses: self.addresses,
        }
    }
}

/// Reads "2021-07-20 19:00:00".
fn timestamp(text: &str) -> Timestamp {
    let numbers: Vec<u64> = text.split(['-', ' ', ':']).map(|number| number.parse().expect("a number")).collect();
    let [year, month, day, hour, minute, second] = numbers[..] else { panic!("a date and a time: {text}") };
    Timestamp::from_date(year, month, day).plus_secs(hour * 3600 + minute * 60 + second)
}
