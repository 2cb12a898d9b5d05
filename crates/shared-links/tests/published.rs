//! Real consensuses against the numbers of the SALSA paper, where documents are at hand.

use onionlab_directory::{Consensus, Position};
use onionlab_quantities::Seed;
use onionlab_shared_links::forecast::{self, Growth};
use onionlab_shared_links::{Blend, Exclusions, Kind, Method, Positions, Question, TrafficClass, Use, answer};

fn read(name: &str) -> Option<Consensus> {
    Some(Consensus::read(onionlab_real_data::path("consensus")?.join(name)).unwrap())
}

fn percent(network: &Consensus, question: &Question) -> f64 {
    answer(network, question, Method::Expectation, 1, Seed(0)).unwrap().shared_percent
}

/// Section 4.1.7: 3.7 to 6.9 % in 2021. The four numbers for July 2021 were computed by another program.
#[test]
fn july_2021() {
    let Some(network) = read("md-2021-07-20.xz") else { return };
    let n = 96_000;
    for (question, published) in [
        (Question::external(n), 3.7),
        (Question::external(n).undirected(), 4.6),
        (Question::internal(n), 4.0),
        (Question::internal(n).undirected(), 6.9),
    ] {
        let percent = percent(&network, &question);
        println!("{:?} directed {}: {percent:.3} % (published {published})", question.blend, question.directed);
        assert!((percent - published).abs() < 0.1, "{percent} {published}");
    }
}

/// Three guards per client, whose shares for July 2021 another program computed, from the sum over the guards that are a link's first relay.
#[test]
fn july_2021_over_three_guards() {
    let Some(network) = read("md-2021-07-20.xz") else { return };
    for (circuits, per_client, other) in [(1_000, 3, 0.055_098), (1_000, 9, 0.088_567), (96_876, 3, 3.754_092)] {
        let question = Question { per_client, guards_per_client: 3, ..Question::external(circuits) };
        let percent = percent(&network, &question);
        println!("{circuits} circuits, {per_client} a client: {percent:.6} % ({other})");
        // That program takes a relay's link to itself like one to another relay.
        assert!((percent / other - 1.0).abs() < 2e-5, "{percent} {other}");
    }
}

/// Position chances from the weights of the document, computed here by hand: an exit-only relay of weight w has
/// w Wee / (E Wee + D Wed) in the last position, with Wee = Wed = 10000 in July 2021.
#[test]
fn position_chances_from_the_documents_weights() {
    let Some(network) = read("md-2021-07-20.xz") else { return };
    let positions = Positions::new(&network, &Question::external(1)).unwrap();
    let at = network.relays.iter().position(|relay| relay.nickname == "CalyxInstitute14").unwrap();
    let relay = onionlab_paths::RelayIndex(at as u32);
    // Guard and exit, weight 33700: Wgd = Wmd = 0, so that it is an exit only.
    assert!((positions.last().chance(relay) - 33_700.0 / (2_307_342.0 + 22_860_796.0)).abs() < 1e-12);
    assert!(positions.guard().chance(relay) <= 0.0 && positions.middle().chance(relay) <= 0.0);
    // A guard of weight w as middle: w 0.4380 / (G 0.4380 + M).
    let at = network.relays.iter().position(|relay| relay.class().as_str() == "guard").unwrap();
    let expected = network.relays[at].weight as f64 * 0.4380 / (57_000_590.0 * 0.4380 + 7_067_063.0);
    assert!((positions.middle().chance(onionlab_paths::RelayIndex(at as u32)) - expected).abs() < 1e-12);
    assert_eq!(positions.exits(), 257 + 966);
    assert!(network.weights.factor(Position::Guard, onionlab_directory::Class::GuardExit) <= 0.0);
}

/// Figure 4, from another month: Shadow measured 54.82, 20.56 and 12.51 % at 1, 10 and 25 %.
#[test]
fn smaller_networks() {
    let Some(network) = read("md-2021-07-20.xz") else { return };
    let question = Question::external(96_876);
    let points = forecast::by_scale(&network, &question, &[0.01, 0.1, 0.25], 5, Method::Expectation, Seed(1), &|| true).unwrap();
    for (point, (measured, within)) in points.iter().zip([(54.82, 5.0), (20.56, 1.0), (12.51, 2.0)]) {
        println!(
            "{}: {:.2} +/- {:.2} % ({measured} in Shadow)",
            point.scale,
            point.shared_percent,
            point.stddev_percent.unwrap()
        );
        assert!((point.shared_percent - measured).abs() < within, "{point:?}");
    }
}

/// Figures 6, 7 and 8 and the circuits on shared links.
#[test]
fn the_other_numbers_of_the_paper() {
    let Some(network) = read("md-2021-07-20.xz") else { return };
    let question = Question::external(96_876);
    let answer = answer(&network, &question, Method::Expectation, 1, Seed(0)).unwrap();
    println!("links with two: {:.2} %", 100.0 * answer.circuits_per_link[1] / answer.links);
    println!("circuits on one, two shared links: {:.0}, {:.0}", answer.shared_circuits.one, answer.shared_circuits.two);
    // Figure 7: 3.5 % of the links carry two circuits.
    assert!((100.0 * answer.circuits_per_link[1] / answer.links - 3.5).abs() < 0.3);
    assert_eq!(answer.kind, Kind::External);

    // Figure 6: 64 circuits a client make 5 % of 4 %.
    let by_clients = forecast::by_clients(&network, &question, &[1, 16, 32, 64], &|| true).unwrap();
    let percents: Vec<f64> = by_clients.iter().map(|answer| answer.shared_percent).collect();
    println!("by circuits per client: {percents:.2?}");
    assert!(percents.windows(2).all(|pair| pair[0] < pair[1]));
    assert!((0.5..1.6).contains(&(percents[3] - percents[0])));

    // Figure 8: 8 to 16 % at capacity, on average over all of 2021.
    let at_capacity = [Question::external(290_000), Question::internal(290_000).undirected()];
    let [low, high] = at_capacity.map(|question| percent(&network, &question));
    println!("at 290,000 circuits: {low:.2} to {high:.2} %");
    assert!((low - 8.0).abs() < 1.5 && (high - 16.0).abs() < 1.5);
}

/// Figure 5 by the policies of November 2022 (none of 2021 is at hand), so that only the order is expected to hold.
#[test]
fn traffic_classes() {
    let Some(network) = read("ns-2022-11-19.xz") else { return };
    let mut percents = Vec::new();
    for class in TrafficClass::ALL {
        let question = Question { blend: Blend::of_class(class), ..Question::external(96_876) };
        let answer = answer(&network, &question, Method::Expectation, 1, Seed(0)).unwrap();
        println!("{class:?}: {:.2} % with {} exits", answer.shared_percent, answer.exits);
        percents.push(answer.shared_percent);
    }
    let plain = percent(&network, &Question::external(96_876));
    assert!((percents[0] - plain).abs() < 0.1, "nearly every exit serves the web: {plain}");
    assert!(percents[1..4].iter().all(|&sharing| sharing > 1.5 * percents[0]));
    assert!(percents[4] > percents[3]);
    for (name, blend) in [("traffic mixture", Blend::traffic_mixture()), ("everything", Blend::everything())] {
        for directed in [true, false] {
            let question = Question { blend: blend.clone(), directed, ..Question::external(96_876) };
            println!("{name}, directed {directed}: {:.2} %", percent(&network, &question));
        }
    }
}

/// Section 4.1.7: 3.70 and 6.05 % with all influences together, in November 2021. The policies of that time are not at hand:
/// relays of July 2021 get the policy that they had in November 2022 if they were still there, other exits that of the next exit in
/// order of weight that was.
#[test]
fn all_influences_together() {
    let (Some(mut network), Some(later)) = (read("md-2021-07-20.xz"), read("ns-2022-11-19.xz")) else { return };
    let known: std::collections::HashMap<_, _> =
        later.relays.iter().map(|relay| (relay.fingerprint, relay.exit_policy.clone())).collect();
    let exits = |relay: &onionlab_directory::Relay| relay.flags.contains(onionlab_directory::Flag::Exit);
    let mut by_weight: Vec<usize> = (0..network.relays.len()).filter(|&at| exits(&network.relays[at])).collect();
    by_weight.sort_by_key(|&at| (network.relays[at].weight, network.relays[at].fingerprint));
    let mut found = 0;
    let mut last = None;
    for &at in &by_weight {
        let policy = known.get(&network.relays[at].fingerprint).cloned().flatten().filter(|policy| policy.allows(443));
        found += usize::from(policy.is_some());
        last = policy.or(last);
        network.relays[at].exit_policy.clone_from(&last);
    }
    println!("{found} of {} exits of 2021 known in 2022", by_weight.len());
    for class in TrafficClass::ALL {
        let question = Question { blend: Blend::of_class(class), ..Question::external(96_876) };
        let answer = answer(&network, &question, Method::Expectation, 1, Seed(0)).unwrap();
        println!("{class:?}: {:.2} % with {} exits", answer.shared_percent, answer.exits);
    }
    let [directed, undirected] = [true, false].map(|directed| {
        let question = Question { blend: Blend::everything(), directed, ..Question::external(96_876) };
        percent(&network, &question)
    });
    let mixture = percent(&network, &Question { blend: Blend::traffic_mixture(), ..Question::external(96_876) });
    println!("mixture {mixture:.2} %; everything: directed {directed:.2} %, undirected {undirected:.2} %");
    assert!((3.2..4.7).contains(&directed) && (5.4..7.5).contains(&undirected));
}

#[test]
fn over_the_years() {
    let names = [2017, 2021, 2022, 2023, 2024, 2025, 2026];
    let documents = [
        "md-2017-03-10.xz",
        "md-2021-07-20.xz",
        "md-2022-11-19.xz",
        "md-2023-04-03.xz",
        "md-2024-05-17.xz",
        "md-2025-06-15.xz",
        "md-2026-06-27.xz",
    ];
    let Some(networks) = documents.iter().map(|name| read(name)).collect::<Option<Vec<_>>>() else { return };
    let reference = networks[1].totals().total();
    let question = Question::external(96_876);
    let fixed = forecast::over_time(&networks, &question, Growth::Fixed, &|| true).unwrap();
    let grown = forecast::over_time(&networks, &question, Growth::WithWeight { reference }, &|| true).unwrap();
    for (i, year) in names.iter().enumerate() {
        println!(
            "{year}: {:.2} % fixed; {:.2} % with {} circuits; {:.3} s",
            fixed[i].shared_percent, grown[i].shared_percent, grown[i].circuits, fixed[i].seconds
        );
    }
    assert!((fixed[1].shared_percent - grown[1].shared_percent).abs() < 1e-9);
    assert!(fixed.iter().all(|answer| (1.0..10.0).contains(&answer.shared_percent)));
}

/// What the paper leaves out, but for families, measured: no relay twice, no two of one /16.
#[test]
fn the_papers_simplification() {
    let Some(network) = read("md-2021-07-20.xz") else { return };
    let with = |exclusions: Exclusions| {
        let question = Question { exclusions, ..Question::external(96_000) };
        answer(&network, &question, Method::Draw, 4, Seed(5)).unwrap().shared_percent
    };
    let none = with(Exclusions::default());
    let relay = with(Exclusions { same_relay: true, ..Exclusions::default() });
    let subnet = with(Exclusions { same_relay: true, same_subnet: true, families: None });
    println!("no exclusion {none:.3} %, same relay {relay:.3} %, same /16 {subnet:.3} %");
    assert!((none - relay).abs() < 0.15 && (none - subnet).abs() < 0.3);
}

#[test]
fn a_microdescriptor_consensus_has_no_port_classes() {
    let Some(network) = read("md-2021-07-20.xz") else { return };
    let error = |class| {
        let question = Question { blend: Blend::of_class(class), ..Question::external(100) };
        answer(&network, &question, Method::Expectation, 1, Seed(0))
    };
    let message = error(TrafficClass::BittorrentBase).unwrap_err().to_string();
    assert!(message.contains("6881-6889") && message.contains("unflavoured"), "{message}");
    // The web is what the Exit flag promises.
    assert!(error(TrafficClass::Web).is_ok());
    let internal = Blend::new(vec![(Use::Internal, 1.0), (Use::Ports("25".parse().unwrap()), 0.0)]).unwrap();
    let question = Question { blend: internal, ..Question::external(100) };
    assert!(answer(&network, &question, Method::Expectation, 1, Seed(0)).is_ok());
}
