//! The synthetic network and the capacities against real networks, where documents of those are at hand.

use onionlab_directory::synth::{Model, Options, embedded, synth};
use onionlab_directory::{CapacityModel, Class, Consensus, Relay, Size, sample};
use onionlab_quantities::Seed;
use std::path::PathBuf;

const DOCUMENTS: [(f64, &str); 6] = [
    (2021.0, "md-2021-07-20.xz"),
    (2022.0, "md-2022-11-19.xz"),
    (2023.0, "md-2023-04-03.xz"),
    (2024.0, "md-2024-05-17.xz"),
    (2025.0, "md-2025-06-15.xz"),
    (2026.0, "md-2026-06-27.xz"),
];

fn documents() -> Option<PathBuf> {
    onionlab_real_data::path("consensus")
}

fn weights(network: &Consensus, class: Class) -> Vec<u64> {
    let mut weights: Vec<_> = network.relays.iter().filter(|relay| relay.class() == class).map(|relay| relay.weight).collect();
    weights.sort_unstable();
    weights
}

fn ks_distance(a: &[u64], b: &[u64]) -> f64 {
    let at_most = |of: &[u64], weight| of.partition_point(|&other| other <= weight) as f64 / of.len() as f64;
    a.iter().chain(b).map(|&weight| (at_most(a, weight) - at_most(b, weight)).abs()).fold(0.0, f64::max)
}

/// Counts exactly, bandwidth shares within 0.002, bandwidth weights within 0.02; the distributions of weight differ by at
/// most 0.05 (Kolmogorov-Smirnov) and their percentiles by 12 % on average. (Not each: real weights are rounded to two
/// digits and some operators run dozens of equal relays, so that a percentile may stand at the edge of a jump.)
#[test]
fn a_synthetic_network_is_like_the_real_one() {
    let Some(folder) = documents() else { return };
    for (year, name) in DOCUMENTS {
        let real = Consensus::read(folder.join(name)).unwrap();
        let made = synth(&Model::built_in(), &Options { year, seed: Seed(77), ..Options::default() }).unwrap();
        assert_eq!(made.params, real.params);
        for (real, made) in real.summary().classes.iter().zip(made.summary().classes) {
            assert_eq!(made.relays, real.relays, "{year} {}", real.class);
            assert!((made.share - real.share).abs() < 0.002, "{year} {}: {} {}", real.class, made.share, real.share);
            for (a, b) in made.factors.iter().zip(real.factors) {
                assert!((a - b).abs() < 0.02, "{year} {}: {made:?} {real:?}", real.class);
            }
        }
        for class in Class::ALL {
            let (real, made) = (weights(&real, class), weights(&made, class));
            let quantile = |of: &[u64], percent: usize| of[(of.len() - 1) * percent / 100].max(1) as f64;
            let ratio = |percent| (quantile(&made, percent) / quantile(&real, percent)).ln().abs();
            let apart = (1..100).map(ratio).sum::<f64>() / 99.0;
            assert!(apart < 0.12, "{year} {class}: quantiles differ by a factor of exp({apart}) on average");
            let distance = ks_distance(&real, &made);
            println!("{year} {class}: distance {distance:.3}, percentiles apart by {apart:.3}");
            assert!(distance < 0.05, "{year} {class}: {distance}");
        }
    }
}

#[test]
fn a_real_network_sampled_keeps_its_shape() {
    let Some(folder) = documents() else { return };
    let full = Consensus::read(folder.join("md-2021-07-20.xz")).unwrap();
    for relays in [100, 668, 3000] {
        for seed in 0..5 {
            let sample = sample(&full, Size::Relays(relays), Seed(seed)).unwrap();
            assert_eq!(sample.network.relays.len(), relays);
            for class in &sample.report.classes {
                assert!((class.share_sample - class.share_full).abs() < 1e-3, "{class:?}");
                assert!(class.ks_distance <= 1.0 / class.relays_sample as f64, "{class:?}");
            }
            let (a, b) = (sample.report.weights_sample, sample.report.weights_full);
            assert!(a.wgg.abs_diff(b.wgg) < 50 && a.wed.abs_diff(b.wed) < 50, "{a:?} {b:?}");
        }
    }
}

/// The fit, carried over from 2019, must give a network about the bandwidth that it advertises: 84 % of its weight read as kB/s.
#[test]
fn capacities_add_up_to_about_what_the_network_advertises() {
    let Some(folder) = documents() else { return };
    for (year, name) in DOCUMENTS {
        let network = Consensus::read(folder.join(name)).unwrap();
        let total = |model: &CapacityModel| -> f64 {
            network.relays.iter().map(|relay| model.rate(relay).as_bits_per_sec() as f64 / 1e9).sum()
        };
        let model = CapacityModel::for_network(&network);
        let advertised = network.totals().total() as f64 * 8e3 / 1e9 * 0.84;
        let (median, spread) = (total(&model), total(&model.clone().with_spread(Seed(1))));
        println!("{year}: {advertised:.0} Gbit/s by weight, {median:.0} by the fit, {spread:.0} with spread");
        assert!((0.6..1.5).contains(&(median / advertised)), "{year}: {median} of {advertised}");
        assert!((1.0..1.3).contains(&(spread / median)), "{year}: {spread} of {median}");
    }
}

#[test]
fn a_weight_has_the_same_capacity_in_every_sample() {
    let full = embedded();
    let sample = sample(&full, Size::Relays(858), Seed(4)).unwrap().network;
    let rate = |network: &Consensus, relay: &Relay| CapacityModel::for_network(network).rate(relay).as_bits_per_sec() as f64;
    for relay in &sample.relays {
        // With the weight that it had before its class was scaled to its share, its rate is what it was, as far as rounding of weights changes the mean.
        let before = full.relays.iter().find(|other| other.fingerprint == relay.fingerprint).unwrap();
        let ratio = rate(&sample, before) / rate(&full, before);
        assert!((ratio - 1.0).abs() < 0.01, "{ratio}");
    }
}

#[test]
fn capacities_can_be_overridden() {
    let network = embedded();
    let model = CapacityModel::for_network(&network);
    let relay = network.relays.iter().max_by_key(|relay| relay.weight).unwrap();
    let doubled = model.clone().scaled(2.0).unwrap().rate(relay).as_bits_per_sec() as f64;
    assert!((doubled / model.rate(relay).as_bits_per_sec() as f64 - 2.0).abs() < 1e-6);
    let linear = model.clone().with_class(relay.class(), 1.0, 1.0).unwrap();
    assert!((linear.rate(relay).as_bytes_per_sec() as f64 / (relay.weight as f64 * 840.0) - 1.0).abs() < 1e-6);
    let small = network.relays.iter().min_by_key(|relay| model.rate(relay)).unwrap();
    assert_eq!(model.rate(small).as_bytes_per_sec(), 75_000);
    assert_eq!(model.clone().scaled(0.02).unwrap().rate(small).as_bytes_per_sec(), 1500, "the least rate is multiplied too");
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(model.clone().scaled(bad).is_err());
        assert!(model.clone().with_class(Class::Exit, 1.0, bad).is_err());
    }
    let slowest = network.relays.iter().map(|relay| model.rate(relay).as_bytes_per_sec()).min().unwrap();
    assert!(slowest >= 75_000);
}
