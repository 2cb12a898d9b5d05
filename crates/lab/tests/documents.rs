//! Network documents, good and bad: the world that a good one gives, and the one sentence that each bad one earns.
//!
//! With `ONIONLAB_UPDATE_GOLDEN=1` the expected files are written anew.

use onionlab_engine::HostId;
use onionlab_lab::scenario::document::NetworkDocument;
use onionlab_lab::{RunKey, Scenario, network_schema, world};
use onionlab_quantities::SimTime;
use onionlab_tor::{CircuitPurpose, RelayClass};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata")
}

fn expect(path: &Path, actual: &str) -> Option<String> {
    if std::env::var_os("ONIONLAB_UPDATE_GOLDEN").is_some() {
        fs::write(path, actual).unwrap();
    }
    let expected = fs::read_to_string(path).unwrap_or_default();
    (expected != actual).then(|| format!("{}\n expected: {expected}\n   actual: {actual}", path.display()))
}

#[test]
fn every_bad_document_earns_its_sentence() {
    let mut paths: Vec<PathBuf> = fs::read_dir(testdata().join("documents/bad"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    paths.sort();
    assert!(paths.len() > 20);
    let failures: Vec<String> = paths
        .iter()
        .filter_map(|path| {
            let Err(sentence) = NetworkDocument::parse(&fs::read(path).unwrap()) else {
                return Some(format!("{}: accepted", path.display()));
            };
            assert!(sentence.len() < 500 && !sentence.contains('\n'), "{}: {sentence}", path.display());
            expect(&path.with_extension("txt"), &format!("{sentence}\n"))
        })
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn the_schema_is_the_one_in_the_repository() {
    let failure = expect(&testdata().join("network-schema.json"), &format!("{}\n", network_schema()));
    assert!(failure.is_none(), "the schema has changed: make it anew with ONIONLAB_UPDATE_GOLDEN=1");
}

fn small(extra: &str) -> world::Built {
    placed("", extra).unwrap()
}

/// The same with more said of the network.
fn placed(network: &str, extra: &str) -> Result<world::Built, world::WorldError> {
    let text = format!(
        "title = \"x\"\nduration = \"30 s\"\n[network]\nkind = \"file\"\npath = \"documents/small.json\"\njitter = false\n{network}[base]\ntor = \"0.3.5\"\n\
         [[clients]]\ngroup = \"perf\"\nstart = \"1 s\"\nload = {{ kind = \"bulk\", size = \"50 KiB\", pause = \"1 s\" }}\n\
         circuit-per-transfer = true\n{extra}"
    );
    let scenario = Scenario::parse(&testdata().join("small.toml"), text).and_then(|scenario| scenario.resolve()).unwrap();
    world::build(&scenario, RunKey { treatment: 0, network: 0, seed: 1 })
}

#[test]
fn a_round_trip_may_be_known_for_two_countries() {
    assert!(placed("latency-between = { DE-FR = \"66 ms\" }\n", "").is_ok());
}

#[test]
fn hosts_are_those_of_the_document() {
    let built = small("");
    assert_eq!(built.names.hosts.len(), 6 + 2 + 1, "a group that the experiment lacks is left out");
    assert_eq!(built.names.hosts[..2], ["relay1exitguard", "relay2exit"]);
    assert_eq!(built.names.clients, [(HostId(8), "perf".to_owned())]);
    let (class, capacity) = built.names.relays[0].unwrap();
    assert_eq!((class, capacity.to_string().as_str()), (RelayClass::GuardExit, "48 Mbit/s"), "its rate, below its link");
    assert_eq!(built.names.relays[3].unwrap().1.to_string(), "40 Mbit/s", "its rate for what it relays");
    assert_eq!(built.names.relays[4].unwrap().0, RelayClass::Middle);
    assert_eq!(
        built.treatment.scheduling.kist_interval.unwrap().to_string(),
        "2 ms",
        "the document's consensus parameters are read"
    );
    let both = small("[[clients]]\ngroup = \"markov\"\nload = { kind = \"bulk\", size = \"1 MB\" }\n");
    assert_eq!(both.names.hosts.len(), 6 + 2 + 3);
}

/// A relay that is limited in what it relays alone is limited: settings of token buckets have an effect.
#[test]
fn a_rate_for_what_is_relayed_is_a_rate() {
    let text = fs::read_to_string(testdata().join("documents/small.json")).unwrap();
    let folder = std::env::temp_dir().join(format!("onionlab-relay-rate-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let with = |left_out: &[&str]| {
        let mut document: serde_json::Value = serde_json::from_str(&text).unwrap();
        for relay in document["relays"].as_array_mut().unwrap() {
            relay.as_object_mut().unwrap().retain(|key, _| !left_out.contains(&key.as_str()));
        }
        fs::write(folder.join("network.json"), document.to_string()).unwrap();
        let experiment = "title = \"x\"\nduration = \"30 s\"\n[network]\nkind = \"file\"\npath = \"network.json\"\n[base]\ntor = \"0.3.5\"\n\
             token-refill = \"timer\"\n[[clients]]\ngroup = \"perf\"\nload = { kind = \"bulk\", size = \"50 KiB\" }\n";
        Scenario::parse(&folder.join("x.toml"), experiment.to_owned()).and_then(|scenario| scenario.resolve()).map(drop)
    };
    assert!(with(&["rate", "burst"]).is_ok());
    assert!(
        with(&["rate", "burst", "relay-rate", "relay-burst"])
            .unwrap_err()
            .to_string()
            .contains("needs a relay with a `rate` of its own")
    );
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_small_network_runs() {
    let mut built = small("");
    built.world.run_until(SimTime::from_nanos(30_000_000_000));
    built.world.finish();
    let records = built.world.take_records();
    let done = records.transfers.iter().filter(|transfer| transfer.last_byte.is_some()).count();
    assert!(done >= 10, "{done} transfers in 30 s");
    let outward = records.circuits.iter().filter(|circuit| circuit.purpose == CircuitPurpose::Exit);
    let exits: BTreeSet<&str> = outward.map(|circuit| built.names.hosts[circuit.path[2].index()].as_str()).collect();
    assert!(exits.iter().all(|exit| exit.contains("exit")), "{exits:?}");
    assert!(records.circuits.iter().all(|circuit| built.names.hosts[circuit.path[0].index()].contains("guard")));
}

mod arbitrary {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        /// The good document with a value replaced by another: accepted, or refused in one sentence.
        #[test]
        fn a_nearly_right_document_never_panics(line in any::<prop::sample::Index>(), value in prop_oneof![
            Just("null".to_owned()), Just("[]".to_owned()), Just("{}".to_owned()), Just("1e999".to_owned()), Just("-1".to_owned()),
            any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap()), any::<i64>().prop_map(|number| number.to_string()),
        ]) {
            let text = fs::read_to_string(testdata().join("documents/small.json")).unwrap();
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            let at = line.index(lines.len());
            if let Some((key, rest)) = lines[at].clone().split_once(": ") {
                lines[at] = format!("{key}: {value}{}", if rest.ends_with(',') { "," } else { "" });
            }
            if let Err(sentence) = NetworkDocument::parse(lines.join("\n").as_bytes()) {
                prop_assert!(!sentence.contains('\n') && sentence.len() < 600, "{}", sentence);
            }
        }
    }
}
