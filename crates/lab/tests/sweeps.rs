//! Sweeps: which runs they plan, that each point is the experiment that a file of its own would be, and that extending one keeps its runs.

use onionlab_lab::Scenario;
use onionlab_lab::scenario::resolved::Network;
use onionlab_lab::scenario::{PlannedRun, ResolvedScenario, plan};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

const FILE: &str = r#"
title = "Two treatments"
duration = "1 min"
networks = 2
[network]
kind = "synthetic"
relays = 20
[[clients]]
group = "web"
count = 5
load = { kind = "bulk", size = "320 KiB" }
[[treatments]]
name = "round robin"
circuitmux = "round-robin"
[[treatments]]
name = "EWMA, v1.5"
circuitmux = "ewma"
"#;

fn points(sweep: &str) -> Vec<ResolvedScenario> {
    Scenario::parse(Path::new("sweep.toml"), format!("{FILE}{sweep}")).and_then(|scenario| scenario.resolve_points()).unwrap()
}

fn directories(runs: &[PlannedRun]) -> BTreeSet<&str> {
    runs.iter().map(|run| run.directory.as_str()).collect()
}

#[test]
fn a_point_is_the_experiment_of_a_file_of_its_own() {
    let swept = points("[sweep]\n\"clients.web.count\" = [7, 9]\nbase.tcp = [\"reno\"]\n");
    let plain =
        Scenario::parse(Path::new("plain.toml"), format!("{}[base]\ntcp = \"reno\"\n", FILE.replace("count = 5", "count = 9")));
    assert_eq!(swept[1].to_json(), plain.unwrap().resolve().unwrap().to_json());
    let point = swept[1].point.as_ref().unwrap();
    assert_eq!(point.to_string(), "2 (clients.web.count = 9, base.tcp = \"reno\")");
}

#[test]
fn keys_make_a_grid_in_the_order_of_the_file() {
    let swept = points("[sweep]\nnetwork.relays = [30, 40]\n[sweep.base]\ntcp = [\"reno\", \"cubic\"]\n");
    let names: Vec<String> = swept.iter().map(|scenario| scenario.point.as_ref().unwrap().to_string()).collect();
    assert_eq!(
        names,
        [
            "1 (network.relays = 30, base.tcp = \"reno\")",
            "2 (network.relays = 30, base.tcp = \"cubic\")",
            "3 (network.relays = 40, base.tcp = \"reno\")",
            "4 (network.relays = 40, base.tcp = \"cubic\")",
        ]
    );
    let runs = plan(&swept);
    assert_eq!(runs.len(), 4 * 2 * 2);
    assert_eq!(directories(&runs).len(), runs.len());
    assert!(runs.iter().all(|run| run.also.is_empty()));
    let first = &runs[0];
    assert!(first.directory.starts_with("round-robin--relays-30-tcp-reno-"), "{}", first.directory);
    assert!(first.directory.ends_with("--net0--seed1"), "{}", first.directory);
    // All points and treatments of a network come before the next network.
    assert!(runs[..8].iter().all(|run| run.network == 0));
}

#[test]
fn without_a_sweep_directories_are_called_as_ever() {
    let runs = plan(&points(""));
    let names: Vec<&str> = runs.iter().map(|run| run.directory.as_str()).collect();
    assert_eq!(
        names,
        ["round-robin--net0--seed1", "ewma-v1-5--net0--seed1", "round-robin--net1--seed1", "ewma-v1-5--net1--seed1"]
    );
}

#[test]
fn a_longer_sweep_keeps_the_directories_of_the_shorter() {
    let short = plan(&points("[sweep]\nnetwork.relays = [30, 40]\n"));
    let long = plan(&points("[sweep]\nnetwork.relays = { from = 20, to = 40, steps = 3 }\n"));
    assert!(directories(&short).is_subset(&directories(&long)));
    assert_eq!(long.len(), short.len() / 2 * 3);
}

#[test]
fn a_treatment_is_run_once_for_points_that_do_not_concern_it() {
    let swept = points("[sweep]\ntreatments.\"EWMA, v1.5\".ewma-half-life = [\"1 s\", \"10 s\", \"66 s\"]\n");
    let runs = plan(&swept);
    assert_eq!(runs.len(), 2 * (1 + 3));
    let alone: Vec<&PlannedRun> = runs.iter().filter(|run| run.treatment == "round robin").collect();
    assert_eq!(alone.len(), 2);
    assert!(alone.iter().all(|run| run.point == Some(0) && run.also == [1, 2]));
    assert_eq!(alone[0].directory, "round-robin--net0--seed1");
}

/// Every two keys are compared: there are not too many.
#[test]
fn a_sweep_has_a_hundred_keys_at_most() {
    let sweep = |keys: usize| {
        let keys = (0..keys).map(|number| format!("key{number} = [1]")).collect::<Vec<_>>().join("\n");
        let scenario = Scenario::parse(Path::new("sweep.toml"), format!("{FILE}[sweep]\n{keys}"));
        scenario.and_then(|scenario| scenario.resolve_points()).unwrap_err().to_string()
    };
    assert!(sweep(100).contains("key0"), "{}", sweep(100));
    assert!(sweep(101).contains("more than 100 keys"), "{}", sweep(101));
}

/// A network document may be large, and there may be a thousand points.
#[test]
fn points_share_a_network_document() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/good/sweep-of-document.toml");
    let text = "title = \"x\"\nduration = \"30 s\"\n[network]\nkind = \"file\"\npath = \"../documents/small.json\"\n[[clients]]\ngroup = \"perf\"\n\
                load = { kind = \"bulk\", size = \"50 KiB\" }\n[sweep]\n\"network.loss\" = [0.0, 0.1]\n";
    let points = Scenario::parse(&path, text.to_owned()).and_then(|scenario| scenario.resolve_points()).unwrap();
    let [Network::File(first), Network::File(second)] = [&points[0].network, &points[1].network] else { panic!("two documents") };
    assert!(Arc::ptr_eq(&first.network, &second.network));
}
