//! Relays stand in each position as often as the weights say, with guards, families, subnets and exit policies on.
//!
//! Expected counts are exact (`support`); the test is Pearson's chi-square for each position. Its statistic has at most the distribution that
//! the test assumes: circuits of one client share guards, which only makes counts given the guards more regular. False alarms: one in a hundred
//! million for each position, if the seed were not fixed. Here 150,000 circuits; a million in `make check-slow`.

mod support;

use onionlab_directory::{Consensus, Families, Params, Size, synth};
use onionlab_paths::{
    ClientPaths, EntryRules, ExitDemand, GuardRules, GuardVersion, Guards, Layer2Rules, Path, PathOptions, PathSelector, Request,
};
use onionlab_quantities::{Seed, SimTime};
use support::{Counts, Rules, compare, observed, sampled_guards};

/// Circuits of each client.
const CIRCUITS: u64 = 500;

/// A network with everything on: families made up where there are none, exit policies its own or drawn.
fn complete(mut network: Consensus) -> (Consensus, Families) {
    if !network.has_policies() {
        synth::draw_policies(&mut network.relays, Seed(9));
    }
    let families = Families::model(&network.relays, Seed(9));
    (network, families)
}

fn real() -> Option<Consensus> {
    Some(Consensus::read(onionlab_real_data::path("consensus/ns-2022-11-19.xz")?).unwrap())
}

fn request() -> Request<'static> {
    Request { demand: ExitDemand::pending(&[443]), ..Request::default() }
}

fn clients(network: &PathSelector, entry: EntryRules, number: usize) -> Vec<ClientPaths> {
    let layer2 = Some(Layer2Rules::new(&Params::default()));
    (0..number).map(|i| ClientPaths::new(network, entry, layer2, Seed(21), &format!("client{i}")).unwrap()).collect()
}

/// Two guards in use, as live since 2022.
fn with_guards(network: &Consensus, families: &Families, number: usize) {
    let params = Params::from_iter([("guard-n-primary-guards-to-use", 2)]);
    let options = PathOptions { families: families.clone(), ..PathOptions::default() };
    let selector = PathSelector::new(&network.relays, &network.weights, &options).unwrap();
    let entry = EntryRules::Guards(GuardRules::new(GuardVersion::V0_4_9, &params, None));
    let mut clients = clients(&selector, entry, number);
    let mut paths: Vec<Path> = Vec::with_capacity(number * CIRCUITS as usize);
    for client in &mut clients {
        paths.extend((0..CIRCUITS).map(|k| client.path(SimTime::ZERO, &selector, k, &request()).unwrap()));
    }
    let primary: Vec<_> = clients.iter().map(|client| client.guards().map(Guards::first).unwrap()).collect();
    let expected = Rules::new(network, families, 443).expected_with_guards(&primary, 2, CIRCUITS as f64);
    check(&expected, &observed(network.relays.len(), paths.into_iter()));
}

fn without_guards(network: &Consensus, families: &Families, circuits: u64) -> Counts {
    let options = PathOptions { families: families.clone(), ..PathOptions::default() };
    let selector = PathSelector::new(&network.relays, &network.weights, &options).unwrap();
    let mut client = clients(&selector, EntryRules::PerCircuit, 1).remove(0);
    let paths = (0..circuits).map(|k| client.path(SimTime::ZERO, &selector, k, &request()).unwrap());
    observed(network.relays.len(), paths)
}

/// Small enough for all pairs of guard and exit.
fn small() -> (Consensus, Families) {
    let options = synth::Options { size: Size::Relays(900), ..synth::Options::default() };
    complete(synth::synth(&synth::Model::built_in(), &options).unwrap())
}

fn check(expected: &Counts, counts: &Counts) {
    for position in 0..3 {
        let name = ["guard", "middle", "exit"][position];
        let total: f64 = counts[position].iter().sum();
        let sum: f64 = expected[position].iter().sum();
        assert!((sum / total - 1.0).abs() < 1e-9, "{name}: {sum} expected of {total}");
        let verdict = compare(&expected[position], &counts[position]);
        eprintln!("{name}: chi-square {:.0}, {} degrees of freedom", verdict.chi_square, verdict.freedom);
        assert!(verdict.freedom > 50.0, "{name}: {verdict:?}");
        assert!(verdict.holds(), "{name}: {verdict:?}");
    }
}

#[test]
fn relays_are_as_frequent_as_their_weights_say_in_a_real_network() {
    let Some(network) = real() else { return };
    let (network, families) = complete(network);
    with_guards(&network, &families, 300);
}

#[test]
fn relays_are_as_frequent_as_their_weights_say_in_a_synthetic_network() {
    let (network, families) = complete(synth::embedded());
    with_guards(&network, &families, 300);
}

#[test]
fn without_guards_too() {
    let (network, families) = small();
    let counts = without_guards(&network, &families, 150_000);
    check(&Rules::new(&network, &families, 443).expected_without_guards(150_000.0), &counts);
}

/// The first guard of a client's sample is drawn by weight, the second by weight among the others.
#[test]
fn guards_are_sampled_by_weight() {
    let (network, families) = complete(synth::embedded());
    let options = PathOptions { families, ..PathOptions::default() };
    let selector = PathSelector::new(&network.relays, &network.weights, &options).unwrap();
    let entry = EntryRules::Guards(GuardRules::new(GuardVersion::V0_4_9, &Params::default(), None));
    let number = 60_000;
    let chances = sampled_guards(&network);
    let mut counts = chances.each_ref().map(|of| vec![0.0; of.len()]);
    for mut client in clients(&selector, entry, number) {
        client.path(SimTime::ZERO, &selector, 0, &request()).unwrap();
        let primary = client.guards().map(Guards::first).unwrap();
        for (place, guard) in primary.into_iter().take(2).enumerate() {
            counts[place][guard.get()] += 1.0;
        }
    }
    for (chances, counts) in chances.iter().zip(&counts) {
        let expected: Vec<f64> = chances.iter().map(|chance| chance * number as f64).collect();
        let verdict = compare(&expected, counts);
        assert!(verdict.impossible < 0.5 && verdict.deviation < support::LIMIT && verdict.freedom > 100.0, "{verdict:?}");
    }
}

/// A wrong weight is found: counts against weights in which guards count a tenth more in the middle.
#[test]
fn a_wrong_weight_is_noticed() {
    let (mut network, families) = small();
    let circuits = 150_000;
    let counts = without_guards(&network, &families, circuits);
    network.weights.wmg += network.weights.wmg / 10;
    let expected = Rules::new(&network, &families, 443).expected_without_guards(circuits as f64);
    assert!(compare(&expected[1], &counts[1]).deviation > support::LIMIT);
    assert!(compare(&expected[2], &counts[2]).deviation < support::LIMIT, "the exits are right");
}

/// A million circuits in each of both networks; `make check-slow`.
#[test]
#[ignore = "a minute: run by make check-slow"]
fn a_million_circuits() {
    for network in real().into_iter().chain([synth::embedded()]) {
        let (network, families) = complete(network);
        with_guards(&network, &families, 2000);
        let counts = without_guards(&network, &families, 1_000_000);
        check(&Rules::new(&network, &families, 443).expected_without_guards(1e6), &counts);
    }
}
