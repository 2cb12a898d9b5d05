//! Parameters of the consensus that shape clients and handshakes, and the keys for what a version has in its code: each changes the records.

use onionlab_lab::{Continue, RunKey, Scenario, run};
use std::fs;
use std::path::Path;

/// A client that builds a circuit for each small download and one whose tor has nothing to do, among relays that can be guard and exit, one of them
/// far away, over links with jitter.
const CLIENTS: &str = r#"
title = "Circuits that take a while"
duration = "150 s"
[network]
kind = "explicit"
default-latency = "20 ms"
hosts = [
  { name = "edge1", role = "guard-exit", up = "50 Mbit/s", down = "50 Mbit/s" },
  { name = "edge2", role = "guard-exit", up = "50 Mbit/s", down = "50 Mbit/s" },
  { name = "edge3", role = "guard-exit", up = "50 Mbit/s", down = "50 Mbit/s" },
  { name = "edge4", role = "guard-exit", up = "50 Mbit/s", down = "50 Mbit/s" },
  { name = "middle1", role = "middle", up = "50 Mbit/s", down = "50 Mbit/s" },
  { name = "middle2", role = "middle", up = "50 Mbit/s", down = "50 Mbit/s" },
  { name = "middle3", role = "middle", up = "50 Mbit/s", down = "50 Mbit/s" },
  { name = "middle4", role = "middle", up = "50 Mbit/s", down = "50 Mbit/s" },
  { name = "middle5", role = "middle", up = "50 Mbit/s", down = "50 Mbit/s" },
  { name = "middle6", role = "middle", up = "50 Mbit/s", down = "50 Mbit/s" },
  { name = "server1", role = "server", up = "1 Gbit/s", down = "1 Gbit/s" },
  { name = "busy", role = "client", up = "50 Mbit/s", down = "50 Mbit/s" },
  { name = "idle", role = "client", up = "50 Mbit/s", down = "50 Mbit/s" },
]
links = [
  { between = ["busy", "edge1"], latency = "20 ms", jitter = "300 ms" },
  { between = ["busy", "edge2"], latency = "20 ms", jitter = "300 ms" },
  { between = ["busy", "edge3"], latency = "20 ms", jitter = "300 ms" },
  { between = ["busy", "edge4"], latency = "20 ms", jitter = "300 ms" },
  { between = ["middle1", "edge4"], latency = "250 ms" },
  { between = ["middle2", "edge4"], latency = "250 ms" },
  { between = ["middle3", "edge4"], latency = "250 ms" },
  { between = ["middle4", "edge4"], latency = "250 ms" },
  { between = ["middle5", "edge4"], latency = "250 ms" },
  { between = ["middle6", "edge4"], latency = "250 ms" },
]
[[clients]]
group = "busy"
hosts = ["busy"]
circuit-per-transfer = true
load = { kind = "web", size = "5 kB", pause = { uniform = ["100 ms", "1 s"] } }
[[clients]]
group = "idle"
hosts = ["idle"]
start = "149 s"
boot-before = "149 s"
load = { kind = "bulk", size = "5 kB" }
[[treatments]]
name = "one"
"#;

/// Circuits, channels and transfers of the experiment's only run, as bytes.
fn records(text: &str) -> [Vec<u8>; 3] {
    let out = std::env::temp_dir().join(format!("onionlab-params-{}-{:?}", std::process::id(), std::thread::current().id()));
    let scenario = Scenario::parse(Path::new("test.toml"), text.to_owned()).and_then(|scenario| scenario.resolve());
    let scenario = scenario.unwrap_or_else(|error| panic!("{error}"));
    let (directory, _) = run(&scenario, RunKey { treatment: 0, network: 0, seed: 1 }, &out, |_| Continue::Yes).unwrap();
    let tables = ["circuits", "channels", "transfers"].map(|table| fs::read(directory.join(format!("{table}.parquet"))).unwrap());
    fs::remove_dir_all(&out).unwrap();
    tables
}

/// Those of the changes, each beside what it needs, that leave the records as they are.
fn without_effect(changes: &[(&str, &str, &str)], file: impl Fn(&str, &str) -> String) -> Vec<String> {
    let mut idle = Vec::new();
    for (keys, with, change) in changes {
        let both = if with.is_empty() { (*change).to_owned() } else { format!("{with}, {change}") };
        if records(&file(keys, with)) == records(&file(keys, &both)) {
            idle.push((*change).to_owned());
        }
    }
    idle
}

fn given(base: &str, keys: &str, params: &str) -> String {
    let params = if params.is_empty() { String::new() } else { format!("consensus-params = {{ {params} }}\n") };
    format!("{base}{keys}\n{params}")
}

/// Something is learned within the run.
const LEARN: &str = "cbtmincircs = 10";
/// With used sets no circuits are built ahead, so that too few are late.
const AHEAD: &str = "conflux = false";

#[test]
fn what_clients_read_of_the_consensus_has_an_effect() {
    let changes = [
        ("", "", "cbtdisabled = 1"),
        ("", "", "cbtinitialtimeout = 300"),
        ("predicted-circuits = false", "", "cbtinitialtimeout = 300"),
        (AHEAD, LEARN, "cbtmintimeout = 30000"),
        (AHEAD, LEARN, "cbtnummodes = 1"),
        ("", "", LEARN),
        ("", LEARN, "cbtquantile = 50"),
        ("", "cbtmincircs = 10, cbtinitialtimeout = 1000", "cbtclosequantile = 80"),
        (AHEAD, LEARN, "cbtmaxtimeouts = 3"),
        (AHEAD, "cbtmincircs = 10, cbtmaxtimeouts = 3", "cbtrecentcount = 3"),
        ("", "", "cbttestfreq = 1"),
        ("", "", "cbtmaxopencircs = 1"),
        ("", "", "cbtlearntimeout = 10"),
        ("", "cbtlearntimeout = 10", "nf_conntimeout_clients = 60"),
        ("guards = 1", "", "guard-n-primary-guards = 1"),
        ("", "", "guard-min-filtered-sample-size = 1"),
        ("tor = \"0.3.5\"", "", "guard-min-filtered-sample-size = 1"),
        ("", "", "guard-hs-l2-number = 1"),
        ("", "", "cfx_max_linked_set = 1"),
        ("", "cbtinitialtimeout = 300", "cfx_max_unlinked_leg_retry = 0"),
    ];
    let idle = without_effect(&changes, |keys, params| given(CLIENTS, keys, params));
    assert!(idle.is_empty(), "without effect: {idle:?}");
}

/// Keys for what is no parameter of the consensus.
#[test]
fn keys_for_what_a_version_has_in_its_code_have_an_effect() {
    let bins = "conflux = false\nbuild-time-bin = \"50 ms\"";
    let [learning, wide] = [AHEAD, bins].map(|keys| records(&given(CLIENTS, keys, LEARN)));
    assert_ne!(learning, wide);
    let idle = CLIENTS.replace("load = { kind = \"web\"", "stop = \"10 s\"\nload = { kind = \"web\"");
    let early = format!("{idle}circuit-lifetime = \"5 s\"\npredicted-circuits = false\n");
    let [usual, short] = ["", "client-channel-idle = \"1 min\""].map(|keys| records(&given(&early, keys, "")));
    assert_ne!(usual[1], short[1]);
    assert_eq!(usual[2], short[2], "after 10 s nobody asks for anything");
    let sampled = "title = \"Ports\"\nduration = \"20 s\"\n[network]\nkind = \"synthetic\"\nrelays = 60\nexit-policies = \"model\"\n\
        [[clients]]\ngroup = \"a\"\ncount = 5\nload = { kind = \"bulk\", size = \"5 kB\" }\n[base]\n";
    assert_ne!(records(sampled), records(&format!("{sampled}first-port = 25\n")));
}

/// Two hundred clients at once over one guard that needs 200 ms for a handshake.
const CROWD: &str = r#"
title = "Handshakes"
duration = "20 s"
[network]
kind = "explicit"
default-latency = "20 ms"
hosts = [
  { name = "guard1", role = "guard", up = "50 Mbit/s", down = "50 Mbit/s" },
  { name = "middle1", role = "middle", up = "50 Mbit/s", down = "50 Mbit/s" },
  { name = "exit1", role = "exit", up = "50 Mbit/s", down = "50 Mbit/s" },
  { name = "server1", role = "server", up = "1 Gbit/s", down = "1 Gbit/s" },
  HOSTS
]
[[clients]]
group = "crowd"
hosts = [NAMES]
start = "0 s"
path = ["guard1", "middle1", "exit1"]
circuit-per-transfer = true
load = { kind = "bulk", size = "5 kB" }
[[treatments]]
name = "one"
cpu = "main-thread"
cpu-per-handshake = "200 ms"
"#;

fn crowd() -> String {
    let names: Vec<String> = (1..=200).map(|client| format!("client{client}")).collect();
    let rest = "role = \"client\", up = \"50 Mbit/s\", down = \"50 Mbit/s\"";
    let hosts: Vec<String> = names.iter().map(|name| format!("{{ name = \"{name}\", {rest} }},")).collect();
    CROWD.replace("HOSTS", &hosts.join("\n  ")).replace("NAMES", &format!("\"{}\"", names.join("\", \"")))
}

/// Where circuits of both kinds of client wait for their handshakes.
#[test]
fn how_many_ntors_go_before_one_tap_has_an_effect() {
    let both_kinds = format!("{}tor = \"0.3.5\"\ntap-clients = 0.5\n", crowd());
    assert_ne!(records(&both_kinds), records(&format!("{both_kinds}ntors-per-tap = 1\n")));
}

#[test]
fn what_relays_read_of_the_consensus_about_handshakes_has_an_effect() {
    let changes = [
        ("", "", "MaxOnionQueueDelay = 1"),
        ("", "", "max_pending_tasks_per_cpu = 1"),
        ("", "max_pending_tasks_per_cpu = 1", "onion_queue_wait_cutoff = 1"),
    ];
    let idle = without_effect(&changes, |keys, params| given(&crowd(), keys, params));
    assert!(idle.is_empty(), "without effect: {idle:?}");
}
