//! Writes `docs/results/path-selection.md`: a million circuits in several networks, relay frequencies in each position against what follows from
//! the weights, and what families and policies change.
//!
//!     cargo run --release -p onionlab-paths --example frequencies -- ../shared/data/consensus/ns-2022-11-19.xz \
//!         ../shared/data/consensus/md-2026-06-27.xz > docs/results/path-selection.md

#[path = "../tests/support/mod.rs"]
mod support;

use onionlab_directory::{Consensus, Families, Params, synth};
use onionlab_paths::{
    ClientPaths, EntryRules, ExitDemand, GuardRules, GuardVersion, Guards, Layer2Rules, Path, PathOptions, PathSelector, Request,
};
use onionlab_quantities::{Seed, SimTime};
use support::{Counts, Rules, Verdict, compare, observed, sampled_guards};

const CLIENTS: usize = 2000;
const CIRCUITS: u64 = 500;
/// Clients whose samples of guards are looked at.
const SAMPLES: usize = 60_000;

type Error = Box<dyn std::error::Error>;

fn main() -> Result<(), Error> {
    let mut networks: Vec<(String, Consensus)> = Vec::new();
    for path in std::env::args().skip(1) {
        let network = Consensus::read(&path)?;
        networks.push((format!("Tor of {}", network.valid_after.to_string().split(' ').next().unwrap_or_default()), network));
    }
    networks.push(("synthetic, 2025".to_owned(), synth::embedded()));
    for (_, network) in &mut networks {
        if !network.has_policies() {
            synth::draw_policies(&mut network.relays, Seed(9));
        }
    }
    println!("# Path selection against the weights\n");
    println!(
        "Written by `crates/paths/examples/frequencies.rs` (the command stands at its beginning); the same check with fewer circuits is a test of the"
    );
    println!("ordinary suite, with a million in `make check-slow` (`crates/paths/tests/frequencies.rs`).\n");
    println!(
        "A million circuits to port 443 in each network, with subnets (/16, and /32 of IPv6), families (made up, sizes as in 2025) and exit policies (the"
    );
    println!(
        "document's, or drawn where it has none) on. Expected counts are exact: exit by weight; given the exit, the client's guards in use that it does not"
    );
    println!(
        "exclude, evenly, or without guards the relays that it does not exclude by weight; given both, the middle by weight among those that neither excludes."
    );
    println!(
        "Pearson's chi-square over all relays with at least five circuits expected, the others as one cell. A deviation above {:.2} (of a standard normal",
        support::LIMIT
    );
    println!(
        "variable, by Wilson and Hilferty) would come by chance once in a hundred million times. With guards the guard's statistic is below its degrees of"
    );
    println!(
        "freedom, because a client's circuits go evenly over its two guards: less chance is in them than the test allows for.\n"
    );
    println!(
        "| network | relays | first hop | position | chi-square | degrees of freedom | deviation | over relays that may not be there |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for (name, network) in &networks {
        let families = Families::model(&network.relays, Seed(9));
        for (entry, (expected, counts)) in
            [("two guards of 0.4.9", with_guards(network, &families)?), ("drawn each time", without_guards(network, &families)?)]
        {
            for (position, title) in ["guard", "middle", "exit"].into_iter().enumerate() {
                let verdict = compare(&expected[position], &counts[position]);
                if !verdict.holds() {
                    return Err(format!("{name}, {title}: the counts do not follow the weights: {verdict:?}").into());
                }
                println!(
                    "| {name} | {} | {entry} | {title} | {:.0} | {:.0} | {:+.2} | {:.0} |",
                    network.relays.len(),
                    verdict.chi_square,
                    verdict.freedom,
                    verdict.deviation,
                    verdict.impossible
                );
            }
        }
    }
    println!("\n## The guards that clients keep\n");
    println!(
        "Above, guards are held against what a client's own guards give. Here are those themselves: the first and the second of the samples of {SAMPLES} clients,"
    );
    println!(
        "against the weights of the relays that tor keeps as guards (Stable, Fast, Valid and V2Dir too); the second is drawn from those that are left.\n"
    );
    println!("| network | guard | chi-square | degrees of freedom | deviation | over relays that may not be there |");
    println!("| --- | --- | --- | --- | --- | --- |");
    for (name, network) in &networks {
        let families = Families::model(&network.relays, Seed(9));
        for (place, verdict) in ["first", "second"].into_iter().zip(samples(network, &families)?) {
            if !verdict.holds() {
                return Err(format!("{name}, {place} guard: the samples do not follow the weights: {verdict:?}").into());
            }
            println!(
                "| {name} | {place} | {:.0} | {:.0} | {:+.2} | {:.0} |",
                verdict.chi_square, verdict.freedom, verdict.deviation, verdict.impossible
            );
        }
    }
    println!("\n## What exclusions and policies change\n");
    println!(
        "The total variation distance between exact frequencies with everything on and with one thing off (half the sum of the differences), for circuits"
    );
    println!(
        "whose first hop is drawn each time, in the first of the networks: the share of circuits that would stand elsewhere.\n"
    );
    println!("| network | off | guard | middle | exit |");
    println!("| --- | --- | --- | --- | --- |");
    for (name, network) in networks.iter().take(1) {
        let families = Families::model(&network.relays, Seed(9));
        let all = Rules::new(network, &families, 443).expected_without_guards(1.0);
        let strangers = Rules::new(network, &Families::none(), 443).expected_without_guards(1.0);
        let mut bare = network.clone();
        bare.relays.iter_mut().for_each(|relay| relay.exit_policy = None);
        let by_flag = Rules::new(&bare, &families, 443).expected_without_guards(1.0);
        for (off, other) in [("families", strangers), ("policies (the Exit flag instead)", by_flag)] {
            let distance = |position: usize| {
                let pairs = all[position].iter().zip(&other[position]);
                50.0 * pairs.map(|(a, b): (&f64, &f64)| (a - b).abs()).sum::<f64>()
            };
            println!("| {name} | {off} | {:.3} % | {:.3} % | {:.3} % |", distance(0), distance(1), distance(2));
        }
    }
    Ok(())
}

fn selector(network: &Consensus, families: &Families) -> Result<PathSelector, Error> {
    let options = PathOptions { families: families.clone(), ..PathOptions::default() };
    Ok(PathSelector::new(&network.relays, &network.weights, &options)?)
}

fn request() -> Request<'static> {
    Request { demand: ExitDemand::pending(&[443]), ..Request::default() }
}

fn client(selector: &PathSelector, entry: EntryRules, index: usize) -> Result<ClientPaths, Error> {
    let layer2 = Some(Layer2Rules::new(&Params::default()));
    Ok(ClientPaths::new(selector, entry, layer2, Seed(21), &format!("client{index}"))?)
}

fn with_guards(network: &Consensus, families: &Families) -> Result<(Counts, Counts), Error> {
    let selector = selector(network, families)?;
    let params = Params::from_iter([("guard-n-primary-guards-to-use", 2)]);
    let entry = EntryRules::Guards(GuardRules::new(GuardVersion::V0_4_9, &params, None));
    let mut paths: Vec<Path> = Vec::new();
    let mut primary = Vec::new();
    for index in 0..CLIENTS {
        let mut client = client(&selector, entry, index)?;
        paths.extend((0..CIRCUITS).filter_map(|k| client.path(SimTime::ZERO, &selector, k, &request())));
        primary.push(client.guards().map(Guards::first).unwrap_or_default());
    }
    let expected = Rules::new(network, families, 443).expected_with_guards(&primary, 2, CIRCUITS as f64);
    Ok((expected, observed(network.relays.len(), paths.into_iter())))
}

/// The first and the second guard of each of `SAMPLES` clients against the weights.
fn samples(network: &Consensus, families: &Families) -> Result<[Verdict; 2], Error> {
    let selector = selector(network, families)?;
    let entry = EntryRules::Guards(GuardRules::new(GuardVersion::V0_4_9, &Params::default(), None));
    let chances = sampled_guards(network);
    let mut counts = chances.each_ref().map(|of| vec![0.0; of.len()]);
    for index in 0..SAMPLES {
        let mut client = client(&selector, entry, index)?;
        client.path(SimTime::ZERO, &selector, 0, &request());
        for (place, guard) in client.guards().map(Guards::first).unwrap_or_default().into_iter().take(2).enumerate() {
            counts[place][guard.get()] += 1.0;
        }
    }
    let [first, second] = chances.map(|of| of.into_iter().map(|chance| chance * SAMPLES as f64).collect::<Vec<_>>());
    Ok([compare(&first, &counts[0]), compare(&second, &counts[1])])
}

fn without_guards(network: &Consensus, families: &Families) -> Result<(Counts, Counts), Error> {
    let selector = selector(network, families)?;
    let circuits = CLIENTS as u64 * CIRCUITS;
    let mut client = client(&selector, EntryRules::PerCircuit, 0)?;
    let paths = (0..circuits).filter_map(|k| client.path(SimTime::ZERO, &selector, k, &request()));
    let counts = observed(network.relays.len(), paths);
    Ok((Rules::new(network, families, 443).expected_without_guards(circuits as f64), counts))
}
