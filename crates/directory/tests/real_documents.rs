//! The reader against consensuses that the real authorities signed, where they are at hand.

use onionlab_directory::{BandwidthWeights, Class, Consensus, DirectoryError, Flavour, Position};
use std::path::PathBuf;

/// The folder of real documents, or a printed reason why a test was skipped.
fn documents() -> Option<PathBuf> {
    onionlab_real_data::path("consensus")
}

fn read(name: &str) -> Option<Consensus> {
    Some(Consensus::read(documents()?.join(name)).unwrap())
}

#[test]
fn july_2021_as_counted_by_hand() {
    let Some(consensus) = read("md-2021-07-20.xz") else { return };
    let summary = consensus.summary();
    assert_eq!(summary.valid_after.to_string(), "2021-07-20 19:00:00");
    assert_eq!((summary.relays, summary.flavour, summary.policies), (6685, Flavour::Microdesc, false));
    let counts: Vec<_> = summary.classes.iter().map(|class| (class.relays, class.weight)).collect();
    assert_eq!(counts, [(2908, 57_000_590), (2554, 7_067_063), (257, 2_307_342), (966, 22_860_796)]);
    assert_eq!(consensus.method, 30);
    assert_eq!(consensus.params.get("KISTSchedRunInterval"), Some(2));
    assert!((consensus.weights.factor(Position::Guard, Class::Guard) - 0.5620).abs() < 1e-12);
    let relay = consensus.relays.iter().find(|relay| relay.nickname == "CalyxInstitute14").unwrap();
    assert_eq!(relay.fingerprint.to_string(), "0011BD2485AD45D984EC4159C88FC066E5E3300E");
    assert_eq!((relay.address.to_string().as_str(), relay.or_port, relay.weight), ("162.247.74.201", 443, 33_700));
    assert_eq!(relay.flags.to_string(), "Exit Fast Guard HSDir Running Stable V2Dir Valid");
    assert_eq!(relay.version.as_ref().unwrap().to_string(), "0.4.5.7");
    assert_eq!(relay.class(), Class::GuardExit);
    assert!(relay.measured && relay.exit_policy.is_none());
}

#[test]
fn both_flavours_of_one_hour_list_the_same_relays_and_one_has_policies() {
    let (Some(md), Some(ns)) = (read("md-2022-11-19.xz"), read("ns-2022-11-19.xz")) else { return };
    assert_eq!((md.valid_after, md.weights, &md.params), (ns.valid_after, ns.weights, &ns.params));
    assert!(ns.has_policies() && !md.has_policies());
    let bare =
        |relay: &onionlab_directory::Relay| onionlab_directory::Relay { exit_policy: None, microdesc: None, ..relay.clone() };
    assert!(ns.relays.iter().map(bare).eq(md.relays.iter().map(bare)));
    assert!(md.relays.iter().all(|relay| relay.microdesc.is_some()) && ns.relays.iter().all(|relay| relay.microdesc.is_none()));
    // As `grep -c '^a '` counts.
    assert_eq!(md.relays.iter().filter(|relay| relay.ipv6.is_some()).count(), 2686);
    assert!(ns.relays.iter().all(|relay| relay.exit_policy.is_some()));
    let titamon = ns.relays.iter().find(|relay| relay.nickname == "titamon3").unwrap();
    let policy = titamon.exit_policy.as_ref().unwrap();
    for (port, allowed) in [(80, true), (82, false), (443, true), (6881, false), (25, false), (64738, true)] {
        assert_eq!(policy.allows(port), allowed, "{port}");
    }
    // An Exit flag promises ports 80 and 443 (by all but the fewest addresses).
    let exits = ns.relays.iter().filter(|relay| matches!(relay.class(), Class::Exit | Class::GuardExit));
    let web = exits.clone().filter(|relay| relay.exit_policy.as_ref().unwrap().allows(443)).count();
    assert!(web * 100 >= exits.count() * 99);
}

/// Guard, middle and exit position get about the same total, where the flags allow: what the weights are for.
#[test]
fn computed_weights_are_the_documents_own() {
    let Some(folder) = documents() else { return };
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let consensus = Consensus::read(&path).unwrap();
        let computed = BandwidthWeights::compute(&consensus.totals());
        println!("{}: {:?}", path.display(), computed == consensus.weights);
        assert_eq!(computed, consensus.weights, "{}", path.display());
    }
}

#[test]
fn a_real_document_cut_anywhere_is_an_error() {
    let Some(folder) = documents() else { return };
    let whole = std::fs::read(folder.join("md-2026-06-27.xz")).unwrap();
    let error = Consensus::parse(&whole[..whole.len() / 2]).unwrap_err();
    assert!(matches!(error, DirectoryError::Compression { .. }), "{error}");
}
