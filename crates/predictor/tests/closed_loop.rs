//! Controllers at all relays, with fluid between them.

use onionlab_predictor::fluid::FluidNetwork;
use onionlab_predictor::{Network, Outcome, PLANNED_SHARE, Parameters, Weights};
use serde_json::Value;

/// The toy network's links in packets a second: 4 Mbit/s in the middle, 10 Mbit/s elsewhere, cells of 512 bytes. Relays: exit 1, exit 2, bottleneck, three entries.
fn toy() -> Network {
    let (fast, slow) = (10e6 / 4096.0, 4e6 / 4096.0);
    Network::new(&[fast, fast, slow, fast, fast, fast], [[0, 2, 3], [0, 2, 4], [1, 2, 5]]).unwrap()
}

/// The authors' program at all six relays, three circuits that start one after another.
#[test]
fn the_toy_goes_as_with_the_authors_program() {
    let Some(path) = onionlab_real_data::path("reference/predictor_cases.json") else { return };
    let reference: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let expected = &reference["closed_loop_fluid"]["runs"]["scenario2_bulk_only"]["trajectories"];
    let mut fluid = FluidNetwork::new(&toy(), Parameters::CONFERENCE, &[10, 20, 30]).unwrap();
    let (mut furthest, mut late, mut latency) = (0.0_f64, 0.0_f64, Vec::new());
    for step in 0..120 {
        fluid.step(|relay, outcome| assert_eq!(outcome, Outcome::Solved, "relay {relay}, step {step}"));
        for circuit in 0..3 {
            let apart = (fluid.rate_out(circuit, 1) - expected["rate_out_bottleneck"][step][circuit].as_f64().unwrap()).abs();
            furthest = furthest.max(apart);
            if step > 45 {
                late = late.max(apart);
            }
            if step >= 90 {
                latency.push((fluid.backlog(circuit), fluid.rate_delivered(circuit)));
            }
        }
    }
    // Little's law: what is on its way over what arrives.
    let latency = latency.iter().map(|pair| pair.0).sum::<f64>() / latency.iter().map(|pair| pair.1).sum::<f64>();
    let rates: Vec<f64> = (0..3).map(|circuit| fluid.rate_out(circuit, 1)).collect();
    let iterations: u64 = (0..6).map(|relay| fluid.counts(relay).iterations).sum();
    println!(
        "{furthest} packets/s apart at most, {late} after step 45; at the end {rates:?}, latency {latency} s; {iterations} iterations in 720 solves"
    );
    assert!(furthest < 0.5, "{furthest}");
    assert!(late < 0.12, "{late}");
    assert!(rates.iter().all(|rate| (rate - 276.693).abs() < 0.02), "{rates:?}");
    assert!((latency - 0.0823).abs() < 0.0005, "{latency}");
}

/// The rates after so many steps; circuits start at once where no starts are given. Capacities are what the controllers plan with.
fn settled(capacities: &[f64], circuits: &[&[usize]], parameters: Parameters, starts: &[u64], steps: usize) -> Vec<f64> {
    let links: Vec<f64> = capacities.iter().map(|capacity| capacity / PLANNED_SHARE).collect();
    let network = Network::new(&links, circuits).unwrap();
    let mut fluid = FluidNetwork::new(&network, parameters, starts).unwrap();
    let mut sums = vec![0.0; circuits.len()];
    let last = 20;
    for step in 0..steps {
        fluid.step(|relay, outcome| assert_eq!(outcome, Outcome::Solved, "relay {relay}, step {step}"));
        if step + last >= steps {
            for (circuit, sum) in sums.iter_mut().enumerate() {
                *sum += fluid.rate_delivered(circuit) / last as f64;
            }
        }
    }
    sums
}

fn journal(deviation: f64) -> Parameters {
    Parameters { weights: Weights { deviation, ..Parameters::JOURNAL.weights }, ..Parameters::JOURNAL }
}

fn near(found: &[f64], expected: &[f64], tolerance: f64) -> bool {
    found.len() == expected.len() && found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < tolerance)
}

/// The journal's reason for the virtual rate: with the conference problem a relay believes that it may take all that is at the source, also where the source's own capacity is the limit. What
/// the third circuit then keeps depends on who began when: 365 to 440 packets a second, where 630 are fair.
#[test]
fn a_source_that_limits_needs_the_journal_form() {
    let capacities = [200.0, 2075.0, 830.0, 2075.0, 2075.0, 2075.0];
    let circuits: [&[usize]; 3] = [&[0, 2, 3], &[0, 2, 4], &[1, 2, 5]];
    for starts in [[0, 0, 0], [0, 10, 20], [10, 20, 0]] {
        let conference = settled(&capacities, &circuits, Parameters::CONFERENCE, &starts, 150);
        assert!(near(&conference[..2], &[100.0, 100.0], 1.0), "{starts:?}: {conference:?}");
        assert!((300.0..500.0).contains(&conference[2]), "{starts:?}: {conference:?}");
        let journal = settled(&capacities, &circuits, journal(10.0), &starts, 150);
        assert!(near(&journal, &[100.0, 100.0, 630.0], 5.0), "{starts:?}: {journal:?}");
    }
}

/// Circuit A can use a fifth of the relay that it shares with B. By hand, B gets C (0.8 g + 1) / (g + 2) in the journal form with g for the deviation's weight; 0.8 C would be fair,
/// and is what the conference form gives.
#[test]
fn the_deviations_weight_sets_what_a_neighbour_leaves() {
    let (c, wide) = (830.0, 2075.0);
    let capacities = [wide, wide, c, 0.2 * c, wide];
    let circuits: [&[usize]; 2] = [&[0, 2, 3], &[1, 2, 4]];
    let conference = settled(&capacities, &circuits, Parameters::CONFERENCE, &[], 150);
    assert!(near(&conference, &[0.2 * c, 0.8 * c], 0.01 * c), "{conference:?}");
    for (weight, steps) in [(0.0, 150), (1.0, 150), (10.0, 200)] {
        let found = settled(&capacities, &circuits, journal(weight), &[], steps);
        let b = c * (0.8 * weight + 1.0) / (weight + 2.0);
        assert!(near(&found, &[0.2 * c, b], 0.01 * c), "{weight}: {found:?} for {b}");
    }
}

/// Both forms are max-min fair on a parking lot, where the paper's Theorem 3 is not.
#[test]
fn a_parking_lot_is_shared_fairly() {
    let capacities = [830.0, 830.0, 2075.0, 2075.0];
    let circuits: [&[usize]; 3] = [&[2, 0, 1], &[2, 0], &[3, 1]];
    for parameters in [Parameters::CONFERENCE, journal(0.0), journal(1.0), journal(10.0)] {
        let found = settled(&capacities, &circuits, parameters, &[], 200);
        assert!(near(&found, &[415.0; 3], 5.0), "{parameters:?}: {found:?}");
    }
}

/// What the toy's circuits have delivered after so many steps; the second's server has 411 packets, the others have no end.
fn delivered(parameters: Parameters, late: usize, steps: usize) -> [f64; 3] {
    let mut fluid = FluidNetwork::new(&toy(), parameters, &[10, 20, 30]).unwrap().with_late_messages(late);
    fluid.set_server(1, 411.0);
    let mut delivered = [0.0; 3];
    for step in 0..steps {
        fluid.step(|relay, outcome| assert_eq!(outcome, Outcome::Solved, "relay {relay}, step {step}"));
        for (circuit, delivered) in delivered.iter_mut().enumerate() {
            *delivered += fluid.rate_delivered(circuit) * parameters.step_seconds;
        }
    }
    delivered
}

/// A download comes to its end however late messages are, since relays do not plan to take in what was decided before their sources can hear of it, and remember what these could have sent meanwhile. Were it
/// always the two steps of prompt messages, ten packets would stay where they are.
#[test]
fn downloads_end_with_late_messages() {
    let committed = |parameters| Parameters { committed: true, ..parameters };
    for (name, parameters) in [
        ("conference", Parameters::CONFERENCE),
        ("journal", committed(journal(10.0))),
        ("journal, 1", committed(journal(1.0))),
        ("journal, 0", committed(journal(0.0))),
    ] {
        for late in 0..4 {
            let found = delivered(parameters, late, 140);
            println!("{name}, {late} steps late: {found:.3?}");
            assert!((found[1] - 411.0).abs() < 0.01, "{name}, {late} steps late: {found:?}");
        }
    }
}
