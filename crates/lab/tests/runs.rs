//! Whole runs of small worlds: their records, their determinism, their end by cancellation.

use onionlab_lab::{Continue, Progress, RunError, RunKey, Scenario, run};
use onionlab_quantities::{SimDuration, SimTime};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

const FIRST: RunKey = RunKey { treatment: 0, network: 0, seed: 1 };

/// Two clients, one bulk and one web, share a middle; loss on one link, so that the seed matters.
const BY_HAND: &str = r#"
title = "Two clients share a middle"
duration = "20 s"
seeds = [1, 2]
[network]
kind = "explicit"
default-latency = "10 ms"
hosts = [
  { name = "guard1", role = "guard", up = "20 Mbit/s", down = "20 Mbit/s" },
  { name = "guard2", role = "guard", up = "20 Mbit/s", down = "20 Mbit/s" },
  { name = "middle1", role = "middle", up = "5 Mbit/s", down = "20 Mbit/s" },
  { name = "exit1", role = "exit", up = "20 Mbit/s", down = "20 Mbit/s" },
  { name = "server1", role = "server", up = "1 Gbit/s", down = "1 Gbit/s" },
  { name = "client1", role = "client", up = "50 Mbit/s", down = "50 Mbit/s" },
  { name = "client2", role = "client", up = "50 Mbit/s", down = "50 Mbit/s" },
]
links = [{ between = ["guard1", "middle1"], latency = "5 ms", loss = 0.001 }]
[[clients]]
group = "bulk"
hosts = ["client1"]
path = ["guard1", "middle1", "exit1"]
server = "server1"
start = "1 s"
load = { kind = "bulk", size = "1 MB" }
[[clients]]
group = "web"
hosts = ["client2"]
path = ["guard2", "middle1", "exit1"]
start = { from = "1 s", to = "3 s" }
load = { kind = "web", size = "50 kB", pause = { uniform = ["500 ms", "2 s"] } }
[[treatments]]
name = "EWMA"
circuitmux = "ewma"
[[treatments]]
name = "round robin"
circuitmux = "round-robin"
channel-scheduler = "vanilla"
"#;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("onionlab-runs-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn go(text: &str, key: RunKey, out: &Path) -> PathBuf {
    let scenario = Scenario::parse(Path::new("test.toml"), text.to_owned()).unwrap().resolve().unwrap();
    let mut last = None;
    let mut listen = |progress: Progress| {
        assert!(last.is_none_or(|last| progress.sim_time > last), "time goes on");
        last = Some(progress.sim_time);
        Continue::Yes
    };
    run(&scenario, key, out, &mut listen).unwrap().0
}

type Rows = Vec<BTreeMap<String, Field>>;

fn rows(directory: &Path, table: &str) -> Rows {
    let reader = SerializedFileReader::new(File::open(directory.join(format!("{table}.parquet"))).unwrap()).unwrap();
    let row = |row: parquet::record::Row| row.get_column_iter().map(|(name, field)| (name.clone(), field.clone())).collect();
    reader.get_row_iter(None).unwrap().map(|read| row(read.unwrap())).collect()
}

fn number(field: &Field) -> u64 {
    match field {
        Field::UInt(number) => u64::from(*number),
        Field::ULong(number) => *number,
        Field::Long(number) => *number as u64,
        other => panic!("no number: {other:?}"),
    }
}

#[test]
fn the_records_of_a_run_agree_with_each_other() {
    let out = Folder::new("agree");
    let directory = go(BY_HAND, FIRST, &out.0);
    assert_eq!(directory.file_name().unwrap(), "ewma--net0--seed1");
    let transfers = rows(&directory, "transfers");
    let ok = |group: &str| {
        let ended = |row: &&BTreeMap<String, Field>| {
            row["outcome"] == Field::Str("ok".into()) && row["group"] == Field::Str(group.into())
        };
        transfers.iter().filter(ended).collect::<Vec<_>>()
    };
    let (bulk, web) = (ok("bulk"), ok("web"));
    assert!(bulk.len() >= 3 && web.len() >= 3, "{} bulk and {} web transfers", bulk.len(), web.len());
    for row in bulk.iter().chain(&web) {
        assert_eq!(row["size_bytes"], row["received_bytes"]);
        let times = ["start_ns", "connected_ns", "first_byte_ns", "last_byte_ns"].map(|name| number(&row[name]));
        assert!(times.is_sorted(), "{times:?}");
        // Four hops of 10, 5 or 10, 10 and 10 ms: no answer sooner than a round trip.
        assert!(times[2] - times[0] >= 70_000_000, "{times:?}");
    }
    let received: u64 = transfers.iter().map(|row| number(&row["received_bytes"])).sum();
    let network = rows(&directory, "network");
    assert_eq!(network.len(), 20);
    assert_eq!(received, network.iter().map(|row| number(&row["goodput_bytes"])).sum::<u64>());
    assert_eq!(number(&network[19]["transfers_ok"]), (bulk.len() + web.len()) as u64);
    assert_eq!(network[19]["utilisation_guard_exit"], Field::Null, "there is no such relay");
    let relays = rows(&directory, "relays");
    assert_eq!(relays.len(), 20 * 4);
    let sent: u64 = relays.iter().map(|row| number(&row["bytes_sent"])).sum();
    assert_eq!(sent, network.iter().map(|row| number(&row["relay_bytes_sent"])).sum::<u64>());
    assert!(relays.iter().all(|row| matches!(row["utilisation"], Field::Double(share) if (0.0..=1.01).contains(&share))));
    let circuits = rows(&directory, "circuits");
    assert!(
        circuits.iter().any(|row| row["middle"] == Field::Str("middle1".into()) && row["client"] == Field::Str("client2".into()))
    );
    let run = &rows(&directory, "run")[0];
    assert_eq!((number(&run["relays"]), number(&run["clients"])), (4, 2));
    let treatment = run["treatment_json"].to_string();
    assert!(treatment.contains("kist-interval") && treatment.contains("2 ms"), "what was left open is filled in: {treatment}");
}

#[test]
fn the_same_run_gives_the_same_bytes_and_another_seed_or_treatment_others() {
    let out = Folder::new("bytes");
    let read = |key: RunKey, name: &str| {
        let directory = go(BY_HAND, key, &out.0.join(name));
        ["transfers", "circuits", "relays", "network"].map(|table| fs::read(directory.join(format!("{table}.parquet"))).unwrap())
    };
    let first = read(FIRST, "a");
    // Another thread, and two at a time.
    let again = std::thread::scope(|scope| {
        let threads = ["b", "c"].map(|name| {
            scope.spawn(move || {
                let out = Folder::new(name);
                let directory = go(BY_HAND, FIRST, &out.0);
                ["transfers", "circuits", "relays", "network"]
                    .map(|table| fs::read(directory.join(format!("{table}.parquet"))).unwrap())
            })
        });
        threads.map(|thread| thread.join().unwrap())
    });
    assert!(again.iter().all(|again| *again == first));
    assert!(read(RunKey { seed: 2, ..FIRST }, "d")[0] != first[0]);
    assert!(read(RunKey { treatment: 1, ..FIRST }, "e")[0] != first[0]);
}

/// The table `vegas` is there only where clients are traced and have congestion control, and agrees with the table of circuits.
#[test]
fn traced_clients_leave_their_congestion_control() {
    let out = Folder::new("traced");
    let traced = BY_HAND
        .replace("group = \"bulk\"", "group = \"bulk\"\ntrace = true")
        .replace("circuitmux = \"ewma\"", "flow-control = \"windows\"")
        .replace("channel-scheduler = \"vanilla\"", "flow-control = \"vegas\"\nconsensus-params = { cc_cwnd_init = 200 }");
    let directory = go(&traced, FIRST, &out.0);
    assert!(!directory.join("vegas.parquet").exists());
    assert!(rows(&directory, "circuits").iter().all(|row| row["cwnd"] == Field::Null && row["min_rtt_ns"] == Field::Null));

    let directory = go(&traced, RunKey { treatment: 1, ..FIRST }, &out.0);
    let trace = rows(&directory, "vegas");
    assert!(trace.len() > 50 && trace.iter().all(|row| row["client"] == Field::Str("client1".into())));
    let times: Vec<u64> = trace.iter().map(|row| number(&row["time_ns"])).collect();
    assert!(times.is_sorted());
    for row in &trace {
        let [min, ewma, max] = ["min_rtt_ns", "ewma_rtt_ns", "max_rtt_ns"].map(|name| number(&row[name]));
        // Client to exit: 35 ms each way.
        assert!(70_000_000 <= min && min <= ewma && ewma <= max);
        let [cwnd, bdp, queue] = ["cwnd", "bdp", "queue_use"].map(|name| number(&row[name]));
        assert_eq!(queue, cwnd.saturating_sub(bdp));
    }
    assert_eq!(number(&trace[0]["cwnd"]), 200 + 31, "the first SENDME adds an increment to the window that the file gives");
    let circuits = rows(&directory, "circuits");
    let last = trace.last().unwrap();
    let circuit = circuits.iter().find(|row| row["circuit"] == last["circuit"]).unwrap();
    assert!(["cwnd", "min_rtt_ns", "ewma_rtt_ns"].iter().all(|name| circuit[*name] == last[*name]));
    let treatment = rows(&directory, "run")[0]["treatment_json"].to_string();
    assert!(treatment.contains("cc_cwnd_init\\\":200") || treatment.contains("\"cc_cwnd_init\":200"), "{treatment}");
    assert!(treatment.contains("cc_vegas_beta_exit"), "what was left open is filled in: {treatment}");
}

/// The table `latency` is there only where clients want it, and what it has read is what the other tables have.
#[test]
fn the_latency_of_circuits_is_recorded_where_it_is_wanted() {
    let out = Folder::new("latency");
    let plain = go(BY_HAND, FIRST, &out.0);
    assert!(!plain.join("latency.parquet").exists());
    let relays = fs::read(plain.join("relays.parquet")).unwrap();
    let directory = go(&BY_HAND.replace("group = \"bulk\"", "group = \"bulk\"\nrecord-latency = true"), FIRST, &out.0);
    assert!(relays == fs::read(directory.join("relays.parquet")).unwrap(), "to be measured changes nothing");
    let latency = rows(&directory, "latency");
    assert!(latency.len() > 10 && latency.iter().all(|row| row["client"] == Field::Str("client1".into())));
    let sum = |name: &str| latency.iter().map(|row| number(&row[name])).sum::<u64>();
    let last = latency.iter().map(|row| number(&row["time_ns"])).max().unwrap();
    let open: u64 = latency.iter().filter(|row| number(&row["time_ns"]) == last).map(|row| number(&row["in_flight_bytes"])).sum();
    assert_eq!(sum("written_bytes"), sum("read_bytes") + open);
    let of_transfers = |column: &str| {
        let transfers = rows(&directory, "transfers");
        let own = transfers.iter().filter(|row| row["client"] == Field::Str("client1".into()));
        own.map(|row| number(&row[column])).sum::<u64>()
    };
    assert!(of_transfers("received_bytes") <= sum("read_bytes") && sum("read_bytes") <= of_transfers("size_bytes"));
    for row in latency.iter().filter(|row| number(&row["read_bytes"]) > 0) {
        let [Field::Double(latency), Field::Double(wait)] = [&row["latency"], &row["outbuf_wait"]] else { panic!("{row:?}") };
        // Exit to middle to guard: 15 ms on the way alone.
        assert!(latency / number(&row["read_bytes"]) as f64 > 0.015 && *wait >= 0.0, "{row:?}");
    }
}

#[test]
fn hosts_that_nobody_uses_change_nothing_for_the_others() {
    let out = Folder::new("unused");
    let more = BY_HAND.replace(
        "  { name = \"client1\"",
        "  { name = \"idle1\", role = \"client\", up = \"1 Mbit/s\", down = \"1 Mbit/s\" },\n\
         \x20 { name = \"idle2\", role = \"guard\", up = \"1 Mbit/s\", down = \"1 Mbit/s\" },\n  { name = \"client1\"",
    );
    let [few, many] = [(BY_HAND, "few"), (more.as_str(), "many")]
        .map(|(text, name)| fs::read(go(text, FIRST, &out.0.join(name)).join("transfers.parquet")).unwrap());
    assert!(few == many);
}

#[test]
fn a_cancelled_run_leaves_nothing() {
    let out = Folder::new("cancel");
    let scenario = Scenario::parse(Path::new("test.toml"), BY_HAND.to_owned()).unwrap().resolve().unwrap();
    let mut reports = 0;
    let outcome = run(&scenario, FIRST, &out.0, |_| {
        reports += 1;
        if reports == 30 { Continue::No } else { Continue::Yes }
    });
    assert!(matches!(outcome, Err(RunError::Cancelled)));
    assert_eq!(fs::read_dir(&out.0).unwrap().count(), 0);
    let outcome = run(&scenario, RunKey { network: 1, ..FIRST }, &out.0, |_| Continue::Yes);
    assert!(matches!(outcome, Err(RunError::NoSuchRun(_))));
}

#[test]
fn a_run_that_ends_sooner_is_that_of_a_shorter_experiment() {
    let out = Folder::new("sooner");
    let long = BY_HAND.replace("duration = \"20 s\"", "duration = \"20 s\"\nmeasure-from = \"2 s\"");
    let starts: Vec<_> = rows(&go(&long, FIRST, &out.0), "transfers").iter().map(|row| number(&row["start_ns"])).collect();
    // Just when a download would begin.
    let begins = starts.into_iter().find(|&start| start > 8_000_000_000).unwrap();
    let ends = [
        (3.0, 8_250_000_000, 8_250_000_000),
        (3.0, begins, begins),
        (6.0, 2_000_000_000, 6_000_000_001),
        (0.1, 500_000_000, 3_000_000_001),
    ];
    for (case, (asked_at, end, reached)) in ends.into_iter().enumerate() {
        let scenario = Scenario::parse(Path::new("test.toml"), long.clone()).unwrap().resolve().unwrap();
        let out = out.0.join(case.to_string());
        let mut ends = Vec::new();
        let (directory, summary) = run(&scenario, FIRST, &out.join("sooner"), |progress| {
            ends.push(progress.sim_end);
            let asked = progress.sim_time.as_secs_f64() >= asked_at - 1e-9;
            if asked { Continue::Until(SimTime::from_nanos(end)) } else { Continue::Yes }
        })
        .unwrap();
        assert_eq!(ends[0], SimTime::ZERO + SimDuration::from_secs(20));
        let short = long.replace("duration = \"20 s\"", &format!("duration = \"{reached} ns\""));
        let scenario = Scenario::parse(Path::new("test.toml"), short).unwrap().resolve().unwrap();
        let (shorter, of_shorter) = run(&scenario, FIRST, &out.join("shorter"), |_| Continue::Yes).unwrap();
        assert_eq!((&summary.scenario, summary.sim_seconds), (&of_shorter.scenario, of_shorter.sim_seconds), "{reached}");
        assert_eq!((summary.events, summary.cell_hops), (of_shorter.events, of_shorter.cell_hops), "{reached}");
        for table in ["transfers", "circuits", "channels", "relays", "network"].map(|table| format!("{table}.parquet")) {
            assert!(
                fs::read(directory.join(&table)).unwrap() == fs::read(shorter.join(&table)).unwrap(),
                "{table} until {reached}"
            );
        }
    }
}

const SAMPLED: &str = r#"
title = "A small synthetic network"
duration = "20 s"
networks = 2
[network]
NETWORK
relays = 30
[load-target]
utilisation = 0.5
position = "middle"
[[clients]]
group = "web"
share = 3
load = { kind = "web", size = "320 KiB", pause = { uniform = ["1 s", "20 s"] } }
[[clients]]
group = "bulk"
load = { kind = "bulk", size = "5 MiB" }
[network.capacity]
factor = 0.02
"#;

/// Names of relays, and of the guard of each client's first circuit, in a run's records.
fn relays_and_guards(directory: &Path) -> (Vec<String>, BTreeMap<String, String>) {
    let relays = rows(directory, "relays").iter().take(30).map(|row| row["relay"].to_string()).collect();
    let mut circuits = rows(directory, "circuits");
    // The last one first, and overwritten.
    circuits.sort_by_key(|row| std::cmp::Reverse(number(&row["circuit"])));
    let guards = circuits.iter().map(|row| (row["client"].to_string(), row["guard"].to_string())).collect();
    (relays, guards)
}

#[test]
fn a_synthetic_network_runs_and_treatments_meet_the_same_one() {
    let text = SAMPLED.replace("NETWORK", "kind = \"synthetic\"")
        + "[[treatments]]\nname = \"a\"\ncircuitmux = \"ewma\"\n[[treatments]]\nname = \"b\"\ncircuitmux = \"swrr-linear\"\n";
    let out = Folder::new("synthetic");
    let [first, other_treatment, other_network] =
        [FIRST, RunKey { treatment: 1, ..FIRST }, RunKey { network: 1, ..FIRST }].map(|key| go(&text, key, &out.0));
    assert!(rows(&first, "transfers").iter().filter(|row| row["outcome"] == Field::Str("ok".into())).count() > 5);
    let run = &rows(&first, "run")[0];
    assert!(number(&run["clients"]) > 10, "{run:?}");
    assert!(run["divergence_json"].to_string().contains("ks_distance"));
    assert!(run["divergence_json"].to_string().contains("expected_utilisation"));
    let (relays, guards) = relays_and_guards(&first);
    assert_eq!(relays, relays_and_guards(&other_treatment).0);
    assert_eq!(guards, relays_and_guards(&other_treatment).1);
    assert_ne!(relays, relays_and_guards(&other_network).0);
}

#[test]
fn a_real_consensus_runs() {
    let real = onionlab_real_data::path;
    let (Some(consensus), Some(rtt)) = (real("consensus/md-2021-07-20.xz"), real("network/country-rtt-2025.csv.gz")) else {
        return;
    };
    let source = format!("kind = \"consensus\"\npath = {consensus:?}\nlatency = {rtt:?}\nloss = 0.001");
    let out = Folder::new("real");
    let directory = go(&SAMPLED.replace("NETWORK", &source), FIRST, &out.0);
    let network = rows(&directory, "network");
    let used: Vec<f64> = network
        .iter()
        .map(|row| if let Field::Double(used) = row["utilisation_middle"] { used } else { panic!("{row:?}") })
        .collect();
    let mean = used.iter().sum::<f64>() / used.len() as f64;
    assert!(mean > 0.05 && used.iter().any(|&used| used > 0.1), "{used:?}");
}
