//! A synthetic network whose distributions are those of real consensuses.
//!
//! The model (`model/consensus.json`) was fitted by `tools/fit_consensus_model.py` to one real consensus of each year from
//! 2021 to 2026: relays, mean weight and weight quantiles by class; flags, versions, ports, address clusters; exit policies
//! of November 2022 for all years. What it leaves out: weight and flags of a relay are independent given its class (but
//! relays without Fast are the lightest of their class), and so are address cluster, class and country.

mod addresses;
mod model;

use crate::consensus::{Consensus, Flavour};
use crate::error::DirectoryError;
use crate::policy::PortSummary;
use crate::relay::{Class, Fingerprint, Flag, Flags, Relay};
use crate::sample::{Size, apportion};
use crate::weights::BandwidthWeights;
use addresses::Addresses;
pub use model::Model;
use model::{ClassModel, Snapshot};
use onionlab_quantities::{RandomStream, Seed};
use std::collections::HashSet;

/// What network to make.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// How many relays; a share counts from the size that Tor had at that time.
    pub size: Size,
    /// Which year's network: 2024 is the model's consensus of that year, 2024.5 lies halfway to that of the next.
    pub year: f64,
    /// The unflavoured form has exit-policy summaries.
    pub flavour: Flavour,
    /// Another seed, another network of the same distributions.
    pub seed: Seed,
}

impl Default for Options {
    /// The network that is used where nothing is said: all of Tor in June 2025, 8,582 relays, one fixed seed.
    fn default() -> Self {
        Self { size: Size::Scale(1.0), year: 2025.0, flavour: Flavour::Microdesc, seed: Seed(2025) }
    }
}

/// A hundred times what Tor ever had; more is a mistake, and would not fit memory.
const MOST_RELAYS: usize = 1_000_000;

/// The built-in default network: `synth` with default options, sampled later to what a scenario wants.
pub fn embedded() -> Consensus {
    synth(&Model::built_in(), &Options::default()).expect("the built-in model covers the default options")
}

/// Makes a network. [`Consensus::to_document`] writes it as a document.
///
/// # Errors
/// The year is outside the model, the scale not above 0, or there are fewer relays than classes.
pub fn synth(model: &Model, options: &Options) -> Result<Consensus, DirectoryError> {
    let snapshot = model.at(options.year)?;
    let full = snapshot.classes.each_ref().map(|class| libm::round(class.relays) as usize);
    let wanted = match options.size {
        Size::Relays(wanted) => wanted,
        // More relays than Tor ever had are a legitimate wish, a share above one is that too.
        Size::Scale(scale) if scale > 0.0 && scale <= 100.0 => libm::round(full.iter().sum::<usize>() as f64 * scale) as usize,
        Size::Scale(scale) => return Err(DirectoryError::Scale { scale }),
    };
    if wanted > MOST_RELAYS {
        return Err(DirectoryError::SampleSize { wanted, reason: format!("a synthetic network has at most {MOST_RELAYS}") });
    }
    let counts = apportion_freely(full, wanted)?;
    let mut relays = Vec::with_capacity(wanted);
    let mut addresses = Addresses::new(&snapshot.addresses, options.seed);
    let mut taken = HashSet::with_capacity(wanted);
    for class in Class::ALL {
        make_class(&snapshot, class, counts[class.index()], options, &mut addresses, &mut relays);
    }
    for relay in &mut relays {
        // Relays of one address listen on different ports.
        while !taken.insert((relay.address, relay.or_port)) {
            relay.or_port = relay.or_port.checked_add(1).unwrap_or(1);
        }
    }
    relays.sort_by_key(|relay| relay.fingerprint);
    let mut network = Consensus {
        flavour: options.flavour,
        valid_after: snapshot.valid_after,
        method: snapshot.method,
        params: snapshot.params.clone(),
        relays,
        weights: BandwidthWeights::UNIFORM,
    };
    network.weights = network.computed_weights();
    Ok(network)
}

/// As sampling apportions; a multiple of the real size first by whole networks.
fn apportion_freely(full: [usize; 4], wanted: usize) -> Result<[usize; 4], DirectoryError> {
    let total: usize = full.iter().sum();
    let wholes = wanted.saturating_sub(1) / total;
    let rest = apportion(full, wanted - wholes * total);
    if wholes == 0 {
        return rest;
    }
    // A rest smaller than the number of classes goes to the guards.
    let rest = rest.unwrap_or([wanted - wholes * total, 0, 0, 0]);
    Ok(std::array::from_fn(|i| full[i] * wholes + rest[i]))
}

fn make_class(
    snapshot: &Snapshot,
    class: Class,
    count: usize,
    options: &Options,
    addresses: &mut Addresses,
    relays: &mut Vec<Relay>,
) {
    let of_class = &snapshot.classes[class.index()];
    let stream = |purpose| RandomStream::new(options.seed, class.as_str(), purpose);
    let weights = weights(snapshot, of_class, count, stream("synthetic weight"));
    let identities = stream("synthetic identity");
    let choices = stream("synthetic properties");
    let slow = libm::round(count as f64 * (1.0 - of_class.fast)) as usize;
    for (i, weight) in weights.into_iter().enumerate() {
        let choice = choices.member(i as u64);
        let mut flags = Flags::from_iter([Flag::Running, Flag::Valid]);
        match class {
            Class::Guard => flags.insert(Flag::Guard),
            Class::Exit => flags.insert(Flag::Exit),
            Class::GuardExit => {
                flags.insert(Flag::Guard);
                flags.insert(Flag::Exit);
            }
            Class::Middle => {}
        }
        // Weights ascend: the relays without Fast are the lightest.
        if i >= slow {
            flags.insert(Flag::Fast);
        }
        for (&(flag, chance), ordinal) in of_class.flags.iter().zip(0..) {
            if choice.at(ordinal).chance(chance) {
                flags.insert(flag);
            }
        }
        let prefix = match class {
            Class::GuardExit => "guardexit",
            other => other.as_str(),
        };
        let name = format!("{prefix}{}", i + 1);
        let mut fingerprint = [0; 20];
        for (chunk, ordinal) in fingerprint.chunks_mut(8).zip(0..) {
            let bytes = identities.member(i as u64).at(ordinal).bits().to_be_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
        let fingerprint = Fingerprint(fingerprint);
        relays.push(Relay {
            nickname: name.clone(),
            name,
            fingerprint,
            address: addresses.next(),
            ipv6: None,
            or_port: *pick(&snapshot.or_ports, choice.at(100).uniform()),
            flags,
            weight,
            measured: !choice.at(101).chance(of_class.unmeasured),
            version: Some(pick(&snapshot.versions, choice.at(102).uniform()).clone()),
            exit_policy: match options.flavour {
                Flavour::Microdesc => None,
                Flavour::Unflavoured => Some(policy(of_class, choice.at(103).uniform())),
            },
            microdesc: (options.flavour == Flavour::Microdesc).then(|| fingerprint.digest_of_nothing()),
        });
    }
}

fn policy(class: &ClassModel, uniform: f64) -> PortSummary {
    pick(&class.policies, uniform).clone()
}

/// Gives every relay an exit-policy summary, where a network has none: drawn by class from those of November 2022, when a consensus with
/// summaries was at hand. Relays with the Exit flag serve ports 80 and 443 as the flag demands; of the others one in a hundred serves some port.
/// The same seed gives a relay the same policy, whatever the other relays.
///
/// Deviation: a policy does not depend on the relay's weight.
pub fn draw_policies(relays: &mut [Relay], seed: Seed) {
    let snapshot = Model::built_in().first();
    for relay in relays {
        let stream = RandomStream::new(seed, &relay.fingerprint.to_string(), "exit policy");
        relay.exit_policy = Some(policy(&snapshot.classes[relay.class().index()], stream.at(0).uniform()));
    }
}

/// The value into whose share `uniform` falls; shares need not add up to one.
fn pick<T>(shares: &[(T, f64)], uniform: f64) -> &T {
    let total: f64 = shares.iter().map(|(_, share)| share).sum();
    let mut left = uniform * total;
    for (value, share) in shares {
        left -= share;
        if left < 0.0 {
            return value;
        }
    }
    &shares.last().expect("a model has at least one value of each kind").0
}

/// Weights in ascending order: one from each of `count` equal steps of the quantile function, then scaled to the class's
/// mean and rounded to as many digits as the authorities round to.
fn weights(snapshot: &Snapshot, class: &ClassModel, count: usize, stream: RandomStream) -> Vec<u64> {
    let level = |i: usize| (i as f64 + stream.at(i as u64).uniform()) / count as f64;
    let raw: Vec<f64> = (0..count).map(|i| class.quantile(&snapshot.levels, level(i))).collect();
    let scale = class.mean_weight * count as f64 / raw.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    let mut weights: Vec<u64> = raw.into_iter().map(|weight| round_to_digits(weight * scale, snapshot.digits)).collect();
    weights.sort_unstable();
    weights
}

fn round_to_digits(value: f64, digits: u32) -> u64 {
    let mut unit = 1.0;
    while value / unit >= libm::pow(10.0, f64::from(digits)) {
        unit *= 10.0;
    }
    (libm::round(value / unit) * unit) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(options: &Options) -> Consensus {
        synth(&Model::built_in(), options).unwrap()
    }

    #[test]
    fn the_default_network_is_tor_of_2025() {
        let network = embedded();
        assert_eq!(network, embedded());
        assert_eq!(network.relays.len(), 8582);
        assert_eq!(network.valid_after.to_string(), "2025-06-15 17:00:00");
        let names: HashSet<_> = network.relays.iter().map(|relay| &relay.name).collect();
        assert_eq!(names.len(), 8582);
    }

    #[test]
    fn a_document_reads_back_as_the_same_network() {
        for flavour in [Flavour::Microdesc, Flavour::Unflavoured] {
            for (year, relays) in [(2021.0, 300), (2023.4, 150), (2026.0, 20)] {
                let network = make(&Options { flavour, year, size: Size::Relays(relays), seed: Seed(3) });
                assert_eq!(network.relays.len(), relays);
                let read = Consensus::parse(network.to_document().as_bytes()).unwrap();
                assert_eq!(read, network);
            }
        }
    }

    #[test]
    fn another_seed_is_another_network_of_the_same_shape() {
        let [a, b] = [1, 2].map(|seed| make(&Options { seed: Seed(seed), ..Options::default() }));
        assert_ne!(a.relays, b.relays);
        for (a, b) in a.summary().classes.iter().zip(b.summary().classes) {
            assert_eq!(a.relays, b.relays);
            assert!((a.share - b.share).abs() < 1e-3);
        }
    }

    #[test]
    fn addresses_are_public_and_clustered() {
        let network = embedded();
        for relay in &network.relays {
            let address = relay.address;
            assert!(!(address.is_private() || address.is_loopback() || address.is_link_local() || address.is_multicast()));
        }
        let distinct =
            |bits: u32| network.relays.iter().map(|relay| u32::from(relay.address) >> (32 - bits)).collect::<HashSet<_>>().len();
        // The consensus of June 2025 has 2,199 /16, 4,214 /24 and 6,145 addresses; random clusters come within 10 %.
        for (bits, real) in [(16, 2199.0), (24, 4214.0), (32, 6145.0)] {
            let made = distinct(bits) as f64;
            assert!((made / real - 1.0).abs() < 0.1, "/{bits}: {made}");
        }
    }

    #[test]
    fn years_and_sizes_outside_are_refused() {
        let error = |options: &Options| synth(&Model::built_in(), options).unwrap_err().to_string();
        assert!(error(&Options { size: Size::Relays(1_000_000_000_000), ..Options::default() }).contains("at most 1000000"));
        assert!(error(&Options { year: 2019.0, ..Options::default() }).contains("2021 to 2026"));
        assert!(error(&Options { year: f64::NAN, ..Options::default() }).contains("2021 to 2026"));
        assert!(error(&Options { size: Size::Relays(3), ..Options::default() }).contains("at least 4"));
        assert!(error(&Options { size: Size::Scale(0.0), ..Options::default() }).contains("scale"));
        let double = make(&Options { size: Size::Scale(2.0), ..Options::default() });
        assert_eq!(double.relays.len(), 2 * 8582);
    }

    #[test]
    fn drawn_policies_keep_what_the_exit_flag_promises() {
        let mut network = embedded();
        draw_policies(&mut network.relays, Seed(1));
        let serve = |relay: &Relay, port| relay.exit_policy.as_ref().is_some_and(|policy| policy.allows(port));
        let exits: Vec<&Relay> = network
            .relays
            .iter()
            .filter(|relay| relay.flags.contains(Flag::Exit) && !relay.flags.contains(Flag::BadExit))
            .collect();
        assert!(exits.iter().all(|relay| serve(relay, 80) && serve(relay, 443)));
        let share = |port| exits.iter().filter(|relay| serve(relay, port)).count() as f64 / exits.len() as f64;
        assert!(share(25) < 0.1 && (0.1..0.9).contains(&share(6667)), "{} {}", share(25), share(6667));
        let others = network.relays.len() - exits.len();
        let odd = network.relays.iter().filter(|relay| relay.class() == Class::Middle || relay.class() == Class::Guard);
        let odd = odd.filter(|relay| relay.exit_policy.as_ref().is_some_and(PortSummary::allows_any)).count();
        assert!((0.002..0.03).contains(&(odd as f64 / others as f64)), "{odd} of {others}");
        let mut again = embedded().relays;
        again.truncate(100);
        draw_policies(&mut again, Seed(1));
        assert_eq!(again, network.relays[..100]);
    }

    #[test]
    fn digits_are_kept() {
        assert_eq!([7.4, 123.0, 1_251.0, 99_900.0].map(|value| round_to_digits(value, 2)), [7, 120, 1300, 100_000]);
    }
}
