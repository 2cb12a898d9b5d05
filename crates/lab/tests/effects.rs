//! No setting without an effect: each axis of a treatment, and each key that shapes a sampled network, changes the records, here or where it says.

use onionlab_lab::{Continue, RunKey, Scenario, run, schema};
use std::fs;
use std::path::{Path, PathBuf};

const FIRST: RunKey = RunKey { treatment: 0, network: 0, seed: 1 };

/// A world in which everything is scarce: a slow middle, a slower access link of one client, loss, idle times.
const SCARCE: &str = r#"
title = "Everything is scarce"
duration = "30 s"
[network]
kind = "explicit"
default-latency = "10 ms"
hosts = [
  { name = "guard1", role = "guard", up = "20 Mbit/s", down = "20 Mbit/s" },
  { name = "guard2", role = "guard", up = "20 Mbit/s", down = "20 Mbit/s" },
  { name = "middle1", role = "middle", up = "6 Mbit/s", down = "8 Mbit/s" },
  { name = "exit1", role = "exit", up = "100 Mbit/s", down = "100 Mbit/s" },
  { name = "server1", role = "server", up = "1 Gbit/s", down = "1 Gbit/s" },
  { name = "client1", role = "client", up = "50 Mbit/s", down = "3 Mbit/s" },
  { name = "client2", role = "client", up = "50 Mbit/s", down = "50 Mbit/s" },
  { name = "client3", role = "client", up = "50 Mbit/s", down = "50 Mbit/s" },
]
links = [
  { between = ["guard1", "middle1"], latency = "30 ms", loss = 0.01 },
  { between = ["exit1", "server1"], latency = "20 ms", loss = 0.01 },
]
[[clients]]
group = "bulk"
hosts = ["client1", "client3"]
path = ["guard1", "middle1", "exit1"]
load = { kind = "bulk", size = "2 MB" }
[[clients]]
group = "web"
hosts = ["client2"]
path = ["guard1", "middle1", "exit1"]
load = { kind = "web", size = "200 kB", pause = { uniform = ["100 ms", "3 s"] } }
[[treatments]]
name = "one"
"#;

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Transfers and relays of the experiment's only run, as bytes.
fn records(text: &str) -> [Vec<u8>; 2] {
    let name = format!("onionlab-effects-{}-{:?}", std::process::id(), std::thread::current().id());
    let out = Folder(std::env::temp_dir().join(name));
    let scenario = Scenario::parse(Path::new("test.toml"), text.to_owned()).and_then(|scenario| scenario.resolve());
    let (directory, _) = run(&scenario.unwrap(), FIRST, &out.0, |_| Continue::Yes).unwrap();
    ["transfers", "relays"].map(|table| fs::read(directory.join(format!("{table}.parquet"))).unwrap())
}

fn without_effect(base: &str, changes: &[(&str, &str)], insert: impl Fn(&str, &str) -> String) -> Vec<String> {
    // Several changes share what they are compared with.
    let mut known = std::collections::HashMap::new();
    let mut idle = Vec::new();
    for (with, change) in changes {
        let before = known.entry(*with).or_insert_with(|| records(&insert(base, with))).clone();
        if records(&insert(base, &format!("{with}\n{change}"))) == before {
            idle.push((*change).to_owned());
        }
    }
    idle
}

const PREDICTOR: &str = "flow-control = \"predictor\"";

/// Each axis, with what it needs to have an effect.
const AXES: &[(&str, &str)] = &[
    ("", "circuitmux = \"round-robin\""),
    ("circuitmux = \"round-robin\"", "relays = { names = [\"middle1\"] }"),
    ("circuitmux = \"round-robin\"\nrelays = { names = [\"middle1\"] }", "relays = { classes = [\"guard\"] }"),
    ("", "circuitmux = \"swrr-linear\""),
    ("flow-control = \"windows\"\nkernel-tick = \"0 s\"\ncircuitmux = \"swrr-linear\"", "\ncircuitmux = \"swrr-proportional\""),
    ("circuitmux = \"swrr-linear\"", "\ncircuitmux = \"swrr-logarithmic\""),
    ("", "tor = \"0.2.4\""),
    ("", "tor = \"0.3.5\""),
    ("tor = \"0.3.5\"", "tor = \"0.2.4\""),
    ("", "channel-scheduler = \"refill\""),
    ("channel-scheduler = \"vanilla\"", "channel-scheduler = \"refill\""),
    ("channel-scheduler = \"refill\"\nflow-control = \"windows\"", "outbuf-high = \"64 KiB\""),
    ("channel-scheduler = \"refill\"", "outbuf-low = \"4 KiB\""),
    ("max-cell-queue-in = 70", "destroy-cells = \"overtake\""),
    ("", "optimistic-data = false"),
    ("", "random-cells = false"),
    ("tor = \"0.3.5\"", "random-cells = true"),
    ("flow-control = \"windows\"", "memory-limit = \"100 KiB\""),
    ("flow-control = \"windows\"\nmemory-limit = \"100 KiB\"", "memory-counts = \"cells\""),
    ("", "circuitmux = \"round-robin-head\""),
    ("circuitmux = \"round-robin\"", "\ncircuitmux = \"round-robin-head\""),
    ("", "ewma-half-life = \"100 ms\""),
    ("ewma-half-life = \"100 ms\"", "ewma-tick = \"1 s\""),
    ("ewma-half-life = \"20 ms\"\newma-tick = \"1 s\"", "ewma-clock = \"wall\""),
    ("", "channel-scheduler = \"vanilla\""),
    ("", "channel-scheduler = \"kist-lite\""),
    ("", "kist-interval = \"20 ms\""),
    ("", "kist-client-interval = \"100 ms\""),
    ("", "kist-socket-buffer-factor = 0.1"),
    ("", "kist-knows-unsent = false"),
    ("", "kernel-tick = \"0 s\""),
    ("", "kernel-tick = \"1 ms\""),
    ("channel-scheduler = \"kist-lite\"", "kernel-tick = \"0 s\""),
    ("", "cell-payload = 498"),
    ("", "flow-control = \"windows\""),
    ("flow-control = \"windows\"", "circuit-window = 200"),
    ("flow-control = \"windows\"", "circuit-window-increment = 50"),
    ("flow-control = \"windows\"", "stream-window = 100"),
    ("flow-control = \"windows\"", "stream-window-increment = 25"),
    ("", "cpu = \"main-thread\""),
    ("cpu = \"main-thread\"", "cpu-per-cell = \"100 us\""),
    ("cpu = \"main-thread\"", "cpu-per-handshake = \"200 ms\""),
    ("cpu = \"main-thread\"\ncpu-per-handshake = \"200 ms\"", "cpu-cores = 8"),
    ("cpu = \"main-thread\"\ncpu-per-handshake = \"200 ms\"", "create-fast = true"),
    ("tor = \"0.3.5\"\ncpu = \"main-thread\"", "handshake = \"tap\""),
    ("tor = \"0.3.5\"\ncpu = \"main-thread\"\nhandshake = \"tap\"", "cpu-per-tap = \"200 ms\""),
    ("tor = \"0.3.5\"\ncpu = \"main-thread\"", "tap-clients = 1.0"),
    ("", "predicted-circuits = false"),
    ("", "links = \"per-circuit\""),
    ("links = \"per-circuit\"", "per-circuit-clients = true"),
    ("links = \"per-circuit\"", "socket-limit = 5"),
    ("", "links = \"light-and-heavy\""),
    ("links = \"light-and-heavy\"", "heavy-above = 1.9"),
    ("links = \"light-and-heavy\"\nheavy-half-life = \"1 s\"", "light-below = 1.2"),
    ("links = \"light-and-heavy\"", "heavy-half-life = \"1 s\""),
    ("", "links = \"quic\""),
    ("links = \"quic\"", "tcp = \"reno\""),
    ("", "flow-control = \"predictor\""),
    (PREDICTOR, "predictor-form = \"conference\""),
    (PREDICTOR, "predictor-step = \"50 ms\""),
    (PREDICTOR, "predictor-horizon = 5"),
    (PREDICTOR, "predictor-queue-limit = 20.0"),
    (PREDICTOR, "predictor-capacity-share = 0.7"),
    (PREDICTOR, "predictor-first-solve = \"110 ms\""),
    (PREDICTOR, "predictor-feedback = \"in-band\""),
    (PREDICTOR, "predictor-feedback-loss = 0.2"),
    (PREDICTOR, "predictor-phase = \"random\""),
    (PREDICTOR, "predictor-deviation-weight = 1.0"),
    (PREDICTOR, "predictor-queue-weight = 1000.0"),
    ("", "circuit-lifetime = \"5 s\""),
    ("", "cell-queue-high = 50"),
    ("cell-queue-high = 50\nkist-socket-buffer-factor = 0.0", "cell-queue-low = 40"),
    ("", "max-cell-queue-in = 50"),
    ("channel-scheduler = \"vanilla\"", "outbuf-high = \"64 KiB\""),
    ("channel-scheduler = \"vanilla\"\nsend-buffer = \"32 KiB\"", "outbuf-low = \"4 KiB\""),
    ("channel-scheduler = \"kist-lite\"", "outbuf-high = \"4 KiB\""),
    ("", "outbuf-chunk = \"4064 B\""),
    ("", "channel-reads = \"record\""),
    ("", "tls = \"1.2\""),
    ("", "net = \"shadow\""),
    ("", "net = \"nstor\""),
    ("", "tcp = \"reno\""),
    ("", "tcp = \"unlimited\""),
    ("", "nagle = false"),
    ("", "hystart = false"),
    ("", "slow-start-after-idle = false"),
    ("", "initial-window = 2"),
    ("", "mss = 1000"),
    ("", "packet-header = \"100 B\""),
    ("", "delayed-ack = \"0 s\""),
    ("", "min-rto = \"1 s\""),
    ("", "send-buffer = \"16 KiB\""),
    ("", "receive-buffer = \"16 KiB\""),
    ("", "link-shaping = \"token-batches\""),
    ("", "uplink-queue = \"drop-tail\""),
    ("", "uplink-queue = \"small-queues\""),
    ("links = \"per-circuit\"", "uplink-queue = \"write-order\""),
    ("net = \"shadow\"", "uplink-queue = \"sockets\""),
    ("net = \"shadow\"", "round-trips = \"released\""),
    ("net = \"shadow\"", "round-trips = \"measured\""),
    ("uplink-queue = \"drop-tail\"", "uplink-queue-packets = 5"),
    ("", "downlink-queue-size = \"8 KiB\""),
    ("", "downlink-queue-packets = 5"),
    ("", "downlink-queue = \"codel\""),
    ("downlink-queue = \"codel\"", "codel-target = \"50 ms\""),
    ("downlink-queue = \"codel\"", "codel-interval = \"20 ms\""),
];

/// The axes that need a world of their own, with the test in which they have it. A star stands for what a name ends with.
const ELSEWHERE: &[(&str, &str, &str)] = &[
    ("build-time-bin", "consensus_params", "keys_for_what_a_version_has_in_its_code_have_an_effect"),
    ("client-channel-idle", "consensus_params", "keys_for_what_a_version_has_in_its_code_have_an_effect"),
    ("conflux*", "effects", "settings_of_limits_and_guards_have_an_effect"),
    ("consensus-params", "effects", "every_consensus_parameter_has_an_effect"),
    ("epoll", "effects", "settings_of_limits_and_guards_have_an_effect"),
    ("first-port", "consensus_params", "keys_for_what_a_version_has_in_its_code_have_an_effect"),
    ("guards", "effects", "settings_of_limits_and_guards_have_an_effect"),
    ("max-cell-queue-out", "effects", "the_limit_of_queues_away_from_clients_has_an_effect_on_uploads"),
    ("ntors-per-tap", "consensus_params", "how_many_ntors_go_before_one_tap_has_an_effect"),
    ("relay-channel-idle", "idle_channels", "channels_without_circuits_are_closed_and_the_records_say_so"),
    ("simulator", "simulator", "one_key_makes_the_treatments_that_the_experiments_spell_out"),
    ("switching*", "switching", "every_key_of_switching_has_an_effect"),
    ("token-refill", "effects", "settings_of_limits_and_guards_have_an_effect"),
];

/// Whoever adds an axis is told that nothing asks whether it has an effect.
#[test]
fn every_axis_is_tested() {
    let schema: serde_json::Value = serde_json::from_str(&schema()).unwrap();
    let axes: Vec<&String> = schema["$defs"]["Base"]["properties"].as_object().unwrap().keys().collect();
    let sets = |line: &str, key: &str| line.trim_start().split(" = ").next() == Some(key);
    let named = |pattern: &str, key: &str| pattern.strip_suffix('*').map_or(pattern == key, |start| key.starts_with(start));
    let elsewhere = |key: &str| {
        ELSEWHERE.iter().find(|(pattern, ..)| named(pattern, key)).is_some_and(|(_, file, test)| {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/{file}.rs"));
            let text = fs::read_to_string(path).unwrap();
            text.contains(&format!("fn {test}()")) && text.contains(&format!("{key} = "))
        })
    };
    let here = |key: &str| AXES.iter().any(|(_, change)| sets(change, key));
    let untested: Vec<_> = axes.iter().filter(|key| !here(key) && !elsewhere(key)).collect();
    assert!(untested.is_empty(), "without a test: {untested:?}");
    let twice: Vec<_> = axes.iter().filter(|key| here(key) && elsewhere(key)).collect();
    assert!(twice.is_empty(), "tested with the others: {twice:?}");
    let unknown = ELSEWHERE.iter().filter(|(pattern, ..)| !axes.iter().any(|key| named(pattern, key)));
    assert_eq!(unknown.count(), 0);
}

#[test]
fn every_axis_has_an_effect() {
    let replaced = |base: &str, settings: &str| {
        // A later line of the same key takes the place of an earlier one, as no file may.
        let mut lines: Vec<&str> = Vec::new();
        for line in settings.lines().filter(|line| !line.is_empty()) {
            let key = line.split('=').next();
            lines.retain(|earlier| earlier.split('=').next() != key);
            lines.push(line);
        }
        format!("{base}{}\n", lines.join("\n"))
    };
    let idle = without_effect(SCARCE, AXES, replaced);
    assert!(idle.is_empty(), "without effect: {idle:?}");
}

/// Settings that need a certain network: a relay's own limit, paths that are drawn.
#[test]
fn settings_of_limits_and_guards_have_an_effect() {
    let limited =
        SCARCE.replacen("up = \"6 Mbit/s\", down = \"8 Mbit/s\" }", "up = \"6 Mbit/s\", down = \"8 Mbit/s\", LIMIT }", 1);
    let with = |limit: &str, settings: &str| records(&format!("{}{settings}\n", limited.replace("LIMIT", limit)));
    let rate = "rate = \"3 Mbit/s\", burst = \"50 kB\"";
    let base = with(rate, "");
    assert_ne!(base, with(rate, "token-refill = \"timer\""));
    assert_ne!(base, with("relay-rate = \"2 Mbit/s\"", ""));
    assert_ne!(with("relay-rate = \"2 Mbit/s\"", ""), with("relay-rate = \"2 Mbit/s\", relay-burst = \"20 kB\"", ""));
    // At a middle everything passes over channels, so that both limits are one.
    let relayed = rate.replace("rate", "relay-rate").replace("burst", "relay-burst");
    assert_eq!(base, with(&relayed, ""));

    // Streams that come and go have other descriptors than places.
    let exit = "role = \"exit\", up = \"100 Mbit/s\", down = \"100 Mbit/s\"";
    let scarce_exit = SCARCE.replacen(exit, &format!("{exit}, {rate}"), 1);
    assert_ne!(records(&scarce_exit), records(&format!("{scarce_exit}epoll = \"shadow-1.13\"\n")));

    let drawn =
        |settings: &str| records(&format!("{}{settings}\n", SCARCE.replace("path = [\"guard1\", \"middle1\", \"exit1\"]", "")));
    assert_ne!(drawn(""), drawn("guards = 2"));
    let wide = [
        "{ name = \"guard2\"",
        "{ name = \"guard3\", role = \"guard\", up = \"20 Mbit/s\", down = \"20 Mbit/s\" },\n  { name = \"middle2\", role = \"middle\", up = \"20 Mbit/s\", down = \"20 Mbit/s\" },\n  { name = \"middle3\", role = \"middle\", up = \"20 Mbit/s\", down = \"20 Mbit/s\" },\n  { name = \"guard2\"",
    ];
    let wide = |settings: &str| {
        let base = SCARCE.replace("path = [\"guard1\", \"middle1\", \"exit1\"]", "").replace(wide[0], wide[1]);
        records(&format!("{base}guards = 3\n{settings}\n"))
    };
    assert_ne!(wide(""), wide("conflux = false"));
    assert_ne!(wide(""), wide("conflux-sets = 1"));
    assert_ne!(wide(""), wide("conflux-legs = 3"));
    assert_ne!(drawn(""), drawn("guards = 0"));
    let beside = |keys: &str| {
        let link = format!("links = [\n  {{ between = [\"guard1\", \"client1\"], latency = \"1 ms\"{keys} }},");
        records(&SCARCE.replacen("links = [", &link, 1))
    };
    assert_ne!(beside(""), beside(", beside = true"));
    assert_eq!(beside(""), beside(", beside = false"));
    let of_families = |families: &str| {
        let drawn = SCARCE.replace("path = [\"guard1\", \"middle1\", \"exit1\"]", "");
        records(&drawn.replacen("links = [", &format!("families = {families}\nlinks = ["), 1))
    };
    assert_eq!(drawn(""), of_families("\"none\""));
    // Whoever of the two is a client's guard, its middle cannot be middle1 in one of the cases.
    let of_one = ["guard1", "guard2"].map(|guard| of_families(&format!("[[\"{guard}\", \"middle1\"]]")));
    assert_ne!(of_one[0], of_one[1]);
}

/// Each circuit of a set has a guard of its own: with fewer primary guards than circuits there would be no set, and nobody would say so.
#[test]
fn sets_of_more_circuits_than_there_are_guards_are_refused() {
    let built = |settings: &str| {
        let text = format!("{}{settings}\n", SCARCE.replace("path = [\"guard1\", \"middle1\", \"exit1\"]", ""));
        let scenario = Scenario::parse(Path::new("test.toml"), text).and_then(|scenario| scenario.resolve()).unwrap();
        onionlab_lab::world::build(&scenario, FIRST).map(|_| ()).map_err(|error| error.to_string())
    };
    let refused = "a Conflux set of 4 circuits needs as many guards, and clients have 3 primary ones: lower `conflux-legs`, or give more `guards` (0 for none)";
    assert_eq!(built("conflux-legs = 4"), Err(refused.to_owned()));
    for allowed in
        ["conflux-legs = 3", "conflux-legs = 4\nguards = 4", "conflux-legs = 4\nguards = 0", "conflux-legs = 2\nguards = 1"]
    {
        assert_eq!(built(allowed), Ok(()), "{allowed}");
    }
}

/// Where a server needs 14 s to answer an exit, a stream waits as long as its client's torrc says, and is given up when that says so.
#[test]
fn time_outs_of_streams_have_an_effect() {
    let slow = SCARCE.replace("latency = \"20 ms\", loss = 0.01", "latency = \"7 s\"");
    let of_group = |base: &str, keys: &str| base.replacen("group = \"web\"", &format!("group = \"web\"\n{keys}"), 1);
    let changes = [("", "circuit-stream-timeout = \"20 s\""), ("", "socks-timeout = \"12 s\"")];
    let idle = without_effect(&slow, &changes, of_group);
    assert!(idle.is_empty(), "without effect: {idle:?}");
}

/// What clients upload waits in queues that lead away from them: at relays, and, with a limit below what a window lets out at once, in their own, where the
/// circuit ends as its first stream writes.
#[test]
fn the_limit_of_queues_away_from_clients_has_an_effect_on_uploads() {
    let upload = SCARCE.replace("size = \"2 MB\"", "size = \"1 kB\", request = \"3 MB\"");
    let changes = [("", "max-cell-queue-out = 200"), ("", "max-cell-queue-out = 50")];
    let idle = without_effect(&upload, &changes, |base, settings| format!("{base}{settings}\n"));
    assert!(idle.is_empty(), "without effect: {idle:?}");
}

/// Each parameter of the consensus that `consensus-params` may name, with what it needs to have an effect.
const PARAMS: [(&str, &str); 20] = [
    ("", "cc_sendme_inc = 62"),
    ("", "cc_cwnd_init = 300"),
    ("", "cc_cwnd_min = 400"),
    (
        "cc_vegas_alpha_exit = 700, cc_vegas_beta_exit = 800, cc_vegas_gamma_exit = 800, cc_vegas_delta_exit = 900",
        "cc_cwnd_max = 500",
    ),
    ("", "cc_cwnd_inc = 5"),
    ("", "cc_cwnd_inc_rate = 2"),
    ("", "cc_cwnd_inc_pct_ss = 200"),
    ("cc_vegas_gamma_exit = 1000", "cc_ss_max = 500"),
    ("cc_cwnd_inc_rate = 1, cc_vegas_gamma_exit = 60", "cc_ewma_cwnd_pct = 255"),
    ("cc_cwnd_inc_rate = 1, cc_vegas_gamma_exit = 60, cc_ewma_cwnd_pct = 255", "cc_ewma_max = 2"),
    ("", "cc_ewma_ss = 10"),
    ("cc_cwnd_min = 400", "cc_rtt_reset_pct = 0"),
    ("", "cc_cwnd_full_gap = 0"),
    ("", "cc_cwnd_full_minpct = 100"),
    ("cc_cwnd_full_gap = 0, cc_cwnd_full_minpct = 0", "cc_cwnd_full_per_cwnd = 0"),
    ("", "cc_vegas_alpha_exit = 20"),
    ("", "cc_vegas_beta_exit = 60"),
    ("", "cc_vegas_gamma_exit = 60"),
    ("", "cc_vegas_delta_exit = 60"),
    ("", "cc_sscap_exit = 100"),
];

/// Those of streams, which need an upload that a server takes slowly.
const UPLOAD_PARAMS: [(&str, &str); 4] = [
    ("", "cc_xoff_exit = 100"),
    ("", "cc_xon_rate = 50"),
    ("cc_xon_rate = 50", "cc_xon_change_pct = 99"),
    ("cc_xon_rate = 50", "cc_xon_ewma_cnt = 100"),
];

#[test]
fn every_consensus_parameter_has_an_effect() {
    let with = |base: &str, params: &str| {
        let params: Vec<&str> = params.lines().filter(|line| !line.is_empty()).collect();
        format!("{base}flow-control = \"vegas\"\nconsensus-params = {{ {} }}\n", params.join(", "))
    };
    let mut idle = without_effect(SCARCE, &PARAMS, with);
    let upload = SCARCE.replace("size = \"2 MB\"", "size = \"1 kB\", request = \"3 MB\"");
    let upload = upload.replace("up = \"1 Gbit/s\", down = \"1 Gbit/s\"", "up = \"1 Gbit/s\", down = \"2 Mbit/s\"");
    let upload = format!("{upload}send-buffer = \"64 KiB\"\n");
    idle.extend(without_effect(&upload, &UPLOAD_PARAMS, with));
    assert!(idle.is_empty(), "without effect: {idle:?}");
}

/// A client and an onion service over relays of which the slowest is one of six.
const ONION: &str = r#"
title = "A slow way to an onion service"
duration = "30 s"
[network]
kind = "explicit"
default-latency = "10 ms"
hosts = [
  { name = "guard1", role = "guard", up = "4 Mbit/s", down = "4 Mbit/s" },
  { name = "guard2", role = "guard", up = "4 Mbit/s", down = "4 Mbit/s" },
  { name = "middle1", role = "middle", up = "4 Mbit/s", down = "4 Mbit/s" },
  { name = "middle2", role = "middle", up = "4 Mbit/s", down = "4 Mbit/s" },
  { name = "middle3", role = "middle", up = "4 Mbit/s", down = "4 Mbit/s" },
  { name = "exit1", role = "exit", up = "4 Mbit/s", down = "4 Mbit/s" },
  { name = "client1", role = "client", up = "50 Mbit/s", down = "50 Mbit/s" },
  { name = "client2", role = "client", up = "50 Mbit/s", down = "50 Mbit/s" },
  { name = "service1", role = "client", up = "50 Mbit/s", down = "50 Mbit/s" },
]
[[clients]]
group = "bulk"
hosts = ["client1", "client2"]
load = { kind = "bulk", size = "2 MB" }
onion = { hosts = ["service1"] }
[[treatments]]
name = "one"
"#;

/// The congestion control of circuits to onion services has parameters of its own; those for circuits to exits have no effect where there are none.
#[test]
fn every_consensus_parameter_of_onion_services_has_an_effect() {
    let with = |base: &str, params: &str| {
        let params: Vec<&str> = params.lines().filter(|line| !line.is_empty()).collect();
        format!("{base}flow-control = \"vegas\"\nconsensus-params = {{ {} }}\n", params.join(", "))
    };
    let changes = [
        ("cc_vegas_gamma_onion = 31", "cc_vegas_alpha_onion = 31"),
        ("", "cc_vegas_beta_onion = 186"),
        ("", "cc_vegas_gamma_onion = 31"),
        ("", "cc_vegas_delta_onion = 93"),
        ("", "cc_sscap_onion = 100"),
    ];
    assert_eq!(without_effect(ONION, &changes, with), Vec::<String>::new());
    let of_exits = "cc_vegas_beta_exit = 186\ncc_vegas_gamma_exit = 31\ncc_vegas_delta_exit = 93\ncc_sscap_exit = 100";
    assert_eq!(without_effect(ONION, &[("", of_exits)], with).len(), 1, "no stream leaves at an exit");
}

const SAMPLED: &str = r#"
title = "A small synthetic network"
duration = "10 s"
[[treatments]]
name = "one"
[[clients]]
group = "bulk"
CLIENTS
load = { kind = "bulk", size = "1 MB" }
[network]
kind = "synthetic"
"#;

#[test]
fn every_key_of_a_sampled_network_has_an_effect() {
    let changes = [
        ("", "relays = 99"),
        ("", "scale = 0.01"),
        ("", "year = 2021"),
        ("", "capacity = { factor = 0.01 }"),
        ("", "capacity = { spread = false }"),
        ("", "capacity = { guard = { factor = 0.01, exponent = 1.0 } }"),
        ("", "capacity = { middle = { factor = 0.01, exponent = 1.0 } }"),
        ("", "capacity = { exit = { factor = 0.01, exponent = 1.0 } }"),
        ("", "capacity = { guard-exit = { factor = 0.01, exponent = 1.0 } }"),
        ("", "latency-factor = 1.5"),
        ("", "latency-floor = \"60 ms\""),
        ("", "latency-between = { DE-DE = \"200 ms\", DE-FR = \"200 ms\", US-US = \"200 ms\", DE-US = \"500 ms\" }"),
        ("", "latency-error = 0.3"),
        ("", "jitter = false"),
        ("", "loss = 0.01"),
        ("", "servers = 3"),
        ("", "server-rate = \"1 Mbit/s\""),
    ];
    let base = SAMPLED.replace("CLIENTS", "count = 10");
    let mut idle = without_effect(&base, &changes, |base, keys| format!("{base}{keys}\n"));
    let changes = [
        ("", "count = 11"),
        ("", "up = \"100 kbit/s\""),
        ("", "down = \"1 Mbit/s\""),
        ("", "start = \"1 s\""),
        ("", "boot-before = \"1 s\""),
        ("", "stop = \"5 s\""),
        ("", "timeout = \"1 s\""),
        ("", "stall = \"200 ms\""),
        ("", "server-stall = \"1 s\""),
        ("", "circuit-per-transfer = true"),
        ("", "users = 2"),
        ("", "users-at-full-scale = 5000"),
        ("", "record = false"),
        ("", "onion = { services = 2 }"),
        ("users = 5\ncircuit-per-transfer = true", "max-client-circuits-pending = 1"),
        ("new-circuit-period = \"1 s\"", "circuit-lifetime = \"2 s\""),
        ("circuit-lifetime = \"2 s\"", "new-circuit-period = \"1 s\""),
    ];
    let in_group = |base: &str, keys: &str| {
        let count = if keys.contains("count") || keys.contains("full-scale") { "" } else { "count = 10\n" };
        base.replace("CLIENTS", &format!("{count}{keys}"))
    };
    idle.extend(without_effect(SAMPLED, &changes, in_group));
    let services = ["services = 2", "services = 3", "services = 2, rate = \"1 Mbit/s\""]
        .map(|keys| records(&in_group(SAMPLED, &format!("onion = {{ {keys} }}"))));
    assert!(services[0] != services[1] && services[0] != services[2], "the number of services or their rate is without effect");
    // Each key of each load, beside the load alone.
    let changes = [
        ("size = \"1 MB\"", "request = \"50 kB\""),
        ("kind = \"audio\"", "rate = \"60 kB/s\""),
        ("kind = \"audio\"", "interval = \"2 s\""),
        ("kind = \"audio\"", "ahead = \"3 s\""),
        ("kind = \"audio\"", "length = \"3 s\""),
        ("kind = \"audio\", length = \"1 s\"", "pause = \"1 s\""),
        ("kind = \"audio\"", "request = \"50 kB\""),
        ("kind = \"video\"", "ahead = \"1 s\""),
        ("kind = \"page\", pause = \"1 s\"", "document = \"1 MB\""),
        ("kind = \"page\", pause = \"1 s\"", "objects = 3"),
        ("kind = \"page\", pause = \"1 s\"", "object = \"1 kB\""),
        ("kind = \"page\", pause = \"1 s\"", "parallel = 2"),
        ("kind = \"page\", pause = \"1 s\"", "request = \"50 kB\""),
        ("kind = \"perf\"", "sizes = [{ size = \"60 kB\", weight = 1, timeout = \"1 s\" }]"),
        ("kind = \"perf\"", "pause = \"2 s\""),
        ("kind = \"perf\", pause = \"2 s\"", "pause-from = \"end\""),
        ("kind = \"perf\"", "request = \"50 kB\""),
        ("kind = \"tor-users\"", "flow-interval = \"1 s\""),
    ];
    let of_load = |base: &str, keys: &str| {
        let kind = if keys.starts_with("size = ") { "kind = \"bulk\", " } else { "" };
        let keys = keys.trim().replace('\n', ", ");
        base.replace("{ kind = \"bulk\", size = \"1 MB\" }", &format!("{{ {kind}{keys} }}"))
    };
    idle.extend(without_effect(&base, &changes, of_load));
    // All guards are of one family: none is the middle of a circuit any more.
    let file = std::env::temp_dir().join(format!("onionlab-families-{}", std::process::id()));
    let relays = onionlab_directory::synth::embedded().relays;
    let guards: Vec<String> = relays.iter().map(|relay| relay.name.clone()).filter(|name| name.starts_with("guard")).collect();
    fs::write(&file, guards.join(" ")).unwrap();
    let families = format!("families = '{}'", file.display());
    idle.extend(without_effect(&base, &[("", &families)], |base, keys| format!("{base}{keys}\n")));
    fs::remove_file(&file).unwrap();
    let base_seed = |seed: u32| records(&format!("base-seed = {seed}\n{base}"));
    if base_seed(1) == base_seed(2) {
        idle.push("base-seed".to_owned());
    }
    assert!(idle.is_empty(), "without effect: {idle:?}");
}
