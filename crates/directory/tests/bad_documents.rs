//! Broken documents, one small defect per file: each is refused with one sentence that names file and defect.

use onionlab_directory::{BandwidthWeights, Consensus, DirectoryError, MissingWeights};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::path::PathBuf;

fn testdata(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata")).join(name)
}

/// File and what its error must say.
const BAD: &[(&str, &str)] = &[
    ("empty", "not a consensus"),
    ("only-zeros", "not a consensus"),
    ("prose", "It was a dark and stormy night"),
    ("html-error-page", "<!DOCTYPE html>"),
    ("a-vote", "line 2 (\"vote-status vote\")"),
    ("version-4", "network-status-version 4"),
    ("unknown-flavour", "sausage"),
    ("cut-in-header", "cut off after line 8"),
    ("cut-in-relays", "directory-footer"),
    ("cut-in-signature", "cut off"),
    ("no-relays", "no relays"),
    ("no-bandwidth-weights", "no \"bandwidth-weights\" line"),
    ("bandwidth-weight-missing", "Wmd is absent"),
    ("bandwidth-weight-negative", "Wgg is -5; a whole number from 0 to 10000"),
    ("bandwidth-weight-too-large", "Wgg is 10001"),
    ("bandwidth-weight-no-number", "line 68"),
    ("all-weights-zero", "no relay has a consensus weight above zero"),
    ("weight-negative", "line 24"),
    ("weight-no-number", "line 24"),
    ("relay-twice", "is listed twice"),
    ("no-flags-line", "missing item s"),
    ("no-digest-line", "missing item m"),
    ("address-impossible", "line 19"),
    ("port-impossible", "line 19"),
    ("identity-too-short", "line 19"),
    ("date-impossible", "line 4"),
    ("no-valid-after", "valid-after"),
    ("no-params-equals", "line 15"),
    ("policy-no-ports", "line 24"),
    ("policy-impossible-port", "line 24"),
    ("not-utf-8", "line 17 (\"contact \"): not UTF-8"),
    ("second-document", "line 73"),
    ("cut.xz", "the xz data is damaged or cut off"),
    ("flipped-bit.gz", "the gzip data is damaged or cut off"),
];

#[test]
fn every_defect_is_named() {
    let mut wrong = Vec::new();
    for (name, says) in BAD {
        match Consensus::read(testdata("bad").join(name)) {
            Ok(_) => wrong.push(format!("{name}: accepted")),
            Err(error) => {
                let message = error.to_string();
                println!("{message}");
                if !message.contains(says) || !message.contains(name) || message.contains('\n') {
                    wrong.push(format!("{name}: wanted {says:?} in {message:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_file_has_its_expectation() {
    let there = std::fs::read_dir(testdata("bad")).unwrap();
    let there: BTreeSet<String> = there.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let expected: BTreeSet<String> = BAD.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(there, expected);
}

#[test]
fn missing_weights_are_computed_where_asked_for() {
    let path = testdata("bad").join("no-bandwidth-weights");
    let computed = Consensus::read_with(path, MissingWeights::Compute).unwrap();
    assert_eq!(computed, Consensus::read(testdata("microdesc")).unwrap());
    assert_eq!(computed.weights, BandwidthWeights::compute(&computed.totals()));
}

/// Found by fuzzing: weights were computed in units of 1/10000 whatever the network's own unit.
#[test]
fn computed_weights_are_in_the_networks_units() {
    let text = std::fs::read_to_string(testdata("bad").join("no-bandwidth-weights")).unwrap();
    let text = text.replace("params ", "params bwweightscale=600 ");
    let network = Consensus::parse_with(text.as_bytes(), "other units", MissingWeights::Compute).unwrap();
    assert_eq!((network.weights.scale, network.weights.wmm), (600, 600));
    assert_eq!(Consensus::parse(network.to_document().as_bytes()).unwrap(), network);
    let sample = onionlab_directory::sample(&network, onionlab_directory::Size::Relays(6), onionlab_quantities::Seed(1)).unwrap();
    assert_eq!(sample.network.weights.scale, 600);
}

#[test]
fn a_file_that_is_not_there() {
    let error = Consensus::read(testdata("no-such-file")).unwrap_err();
    assert!(matches!(error, DirectoryError::Unreadable { .. }), "{error}");
    assert!(error.to_string().contains("no-such-file"));
}

/// One change to a valid document.
#[derive(Debug, Clone)]
enum Mutation {
    Byte { at: prop::sample::Index, value: u8 },
    Cut { at: prop::sample::Index },
    DeleteLine { at: prop::sample::Index },
    RepeatLine { at: prop::sample::Index },
    SwapLines { a: prop::sample::Index, b: prop::sample::Index },
    Number { at: prop::sample::Index, value: i128 },
}

fn mutation() -> impl Strategy<Value = Mutation> {
    use Mutation::{Byte, Cut, DeleteLine, Number, RepeatLine, SwapLines};
    let index = any::<prop::sample::Index>;
    prop_oneof![
        4 => (index(), any::<u8>()).prop_map(|(at, value)| Byte { at, value }),
        1 => index().prop_map(|at| Cut { at }),
        3 => index().prop_map(|at| DeleteLine { at }),
        3 => index().prop_map(|at| RepeatLine { at }),
        3 => (index(), index()).prop_map(|(a, b)| SwapLines { a, b }),
        3 => (index(), any::<i128>()).prop_map(|(at, value)| Number { at, value }),
    ]
}

fn apply(document: &[u8], mutation: &Mutation) -> Vec<u8> {
    let mut lines: Vec<&[u8]> = document.split_inclusive(|&byte| byte == b'\n').collect();
    match mutation {
        _ if lines.is_empty() => {}
        Mutation::Byte { at, value } => {
            let mut bytes = document.to_vec();
            let at = at.index(bytes.len());
            bytes[at] = *value;
            return bytes;
        }
        Mutation::Cut { at } => return document[..at.index(document.len())].to_vec(),
        Mutation::DeleteLine { at } => {
            let at = at.index(lines.len());
            lines.remove(at);
        }
        Mutation::RepeatLine { at } => {
            let at = at.index(lines.len());
            lines.insert(at, lines[at]);
        }
        Mutation::SwapLines { a, b } => {
            let (a, b) = (a.index(lines.len()), b.index(lines.len()));
            lines.swap(a, b);
        }
        Mutation::Number { at, value } => {
            let text = String::from_utf8_lossy(document).into_owned();
            let digits: Vec<_> = text.match_indices(|c: char| c.is_ascii_digit()).map(|(at, _)| at).collect();
            let Some(&from) = digits.get(at.index(digits.len().max(1))) else { return document.to_vec() };
            let to = text[from..].find(|c: char| !c.is_ascii_digit()).map_or(text.len(), |length| from + length);
            return format!("{}{value}{}", &text[..from], &text[to..]).into_bytes();
        }
    }
    lines.concat()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever happens to a document, reading it gives a network that keeps its promises, or an error.
    #[test]
    fn a_mutated_document_never_panics(flavour in prop::sample::select(vec!["microdesc", "unflavoured"]), mutations in prop::collection::vec(mutation(), 1..6)) {
        let document = std::fs::read(testdata(flavour)).unwrap();
        let document = mutations.iter().fold(document, |document, mutation| apply(&document, mutation));
        match Consensus::parse_with(&document, "mutated", MissingWeights::Compute) {
            Ok(consensus) => {
                prop_assert!(consensus.relays.iter().any(|relay| relay.weight > 0));
                let names: BTreeSet<_> = consensus.relays.iter().map(|relay| &relay.name).collect();
                prop_assert_eq!(names.len(), consensus.relays.len());
                // What was read can be written and read again.
                let again = Consensus::parse(consensus.to_document().as_bytes());
                prop_assert!(again.is_ok(), "{:?}", again);
            }
            Err(error) => prop_assert!(!error.to_string().contains('\n'), "{}", error),
        }
    }

    #[test]
    fn noise_is_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..400), magic in 0..4_usize) {
        // Half of the cases begin like something that could be read.
        let start: &[u8] = [&b""[..], b"\xfd7zXZ\0", b"\x1f\x8b", b"network-status-version 3 microdesc\n"][magic];
        bytes.splice(..0, start.iter().copied());
        prop_assert!(Consensus::parse(&bytes).is_err());
    }
}
