//! What clients do, in whole runs: every kind of load asks for what it says, and the group's keys about users and records count.

use onionlab_lab::{Continue, RunKey, Scenario, run};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// One client on an empty network of fast links.
const ALONE: &str = r#"
title = "One client alone"
duration = "DURATION"
[network]
kind = "explicit"
default-latency = "5 ms"
hosts = [
  { name = "guard1", role = "guard", up = "1 Gbit/s", down = "1 Gbit/s" },
  { name = "middle1", role = "middle", up = "1 Gbit/s", down = "1 Gbit/s" },
  { name = "exit1", role = "exit", up = "1 Gbit/s", down = "1 Gbit/s" },
  { name = "server1", role = "server", up = "1 Gbit/s", down = "1 Gbit/s" },
  { name = "client1", role = "client", up = "1 Gbit/s", down = "1 Gbit/s" },
]
[[clients]]
group = "one"
hosts = ["client1"]
path = ["guard1", "middle1", "exit1"]
start = "1 s"
"#;

type Row = BTreeMap<String, Field>;

/// The tables of a run of this experiment.
struct Records(PathBuf);

impl Drop for Records {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Records {
    fn of(name: &str, text: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("onionlab-loads-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/good/test.toml");
        let scenario = Scenario::parse(&path, text.to_owned()).unwrap().resolve().unwrap();
        run(&scenario, RunKey { treatment: 0, network: 0, seed: 1 }, &folder, |_| Continue::Yes).unwrap();
        Self(folder)
    }

    fn rows(&self, table: &str) -> Vec<Row> {
        let run = fs::read_dir(&self.0).unwrap().next().unwrap().unwrap().path();
        let reader = SerializedFileReader::new(File::open(run.join(format!("{table}.parquet"))).unwrap()).unwrap();
        let row = |row: parquet::record::Row| row.get_column_iter().map(|(name, field)| (name.clone(), field.clone())).collect();
        reader.get_row_iter(None).unwrap().map(|read| row(read.unwrap())).collect()
    }
}

fn number(field: &Field) -> u64 {
    match field {
        Field::UInt(number) => u64::from(*number),
        Field::ULong(number) => *number,
        Field::Long(number) => *number as u64,
        other => panic!("no number: {other:?}"),
    }
}

fn is(row: &Row, column: &str, text: &str) -> bool {
    row[column] == Field::Str(text.into())
}

fn alone(name: &str, duration: &str, keys: &str) -> Records {
    Records::of(name, &(ALONE.replace("DURATION", duration) + keys))
}

#[test]
fn perf_clients_download_at_intervals_over_circuits_of_their_own() {
    let records = alone(
        "perf",
        "35 s",
        "load = { kind = \"perf\", pause = \"10 s\", sizes = [{ size = \"1 MB\", weight = 1.0, timeout = \"9 s\" }] }",
    );
    let transfers = records.rows("transfers");
    let starts: Vec<u64> = transfers.iter().map(|row| number(&row["start_ns"])).collect();
    assert_eq!(starts, [1, 11, 21, 31].map(|second| second * 1_000_000_000));
    assert!(transfers.iter().all(|row| is(row, "outcome", "ok") && number(&row["received_bytes"]) == 1_000_000));
    let circuits: BTreeSet<u64> = transfers.iter().map(|row| number(&row["circuit"])).collect();
    assert_eq!(circuits.len(), 4);
}

#[test]
fn a_time_out_of_a_size_ends_its_downloads() {
    let load = "load = { kind = \"perf\", sizes = [{ size = \"500 MB\", weight = 1.0, timeout = \"2 s\" }] }";
    let transfers = alone("perf-timeout", "20 s", load).rows("transfers");
    let [only] = transfers.as_slice() else { panic!("{transfers:?}") };
    assert!(is(only, "outcome", "timeout") && number(&only["end_ns"]) == 3_000_000_000, "{only:?}");
}

#[test]
fn a_page_is_a_document_and_then_objects_beside_each_other() {
    let load =
        "load = { kind = \"page\", pause = \"1 min\", objects = 9, parallel = 3, document = \"20 kB\", object = \"100 kB\" }";
    let mut transfers = alone("page", "30 s", load).rows("transfers");
    transfers.sort_by_key(|row| number(&row["ordinal"]));
    assert_eq!(
        transfers.iter().map(|row| number(&row["size_bytes"])).collect::<Vec<_>>(),
        [vec![20_000], vec![100_000; 9]].concat()
    );
    let times = |row: &Row| (number(&row["start_ns"]), number(&row["end_ns"]));
    let document = times(&transfers[0]);
    let objects: Vec<_> = transfers[1..].iter().map(times).collect();
    assert!(objects.iter().all(|object| object.0 >= document.1), "objects wait for the document");
    let open = |at: u64| objects.iter().filter(|(start, end)| (*start..*end).contains(&at)).count();
    let most = objects.iter().map(|(start, _)| open(*start)).max();
    assert_eq!(most, Some(3));
    let circuits: BTreeSet<u64> = transfers.iter().map(|row| number(&row["circuit"])).collect();
    assert_eq!(circuits.len(), 1, "a page shares a circuit");
}

#[test]
fn audio_comes_as_it_is_played() {
    let records = alone("audio", "15 s", "load = { kind = \"audio\", length = \"10 s\", pause = \"1 min\" }");
    let transfers = records.rows("transfers");
    let [only] = transfers.as_slice() else { panic!("{transfers:?}") };
    assert!(
        is(only, "outcome", "ok") && is(only, "exchange", "script") && number(&only["received_bytes"]) == 500_000,
        "{only:?}"
    );
    // The first second's worth at once, the last after nine seconds more.
    let took = number(&only["last_byte_ns"]) - number(&only["first_byte_ns"]);
    assert!((8_900_000_000..9_500_000_000).contains(&took), "{took}");
    let samples = records.rows("network");
    assert!(samples[3..10].iter().all(|row| number(&row["goodput_bytes"]) == 50_000), "a second's worth in each second");
}

/// What the client's end of the script expects is what arrives, for the learned models and the compact one.
#[test]
fn users_get_what_their_scripts_say() {
    for (name, load) in [
        (
            "markov",
            "{ kind = \"markov\", streams = \"stream-model.json\", packets = \"packet-model.json\", flow-interval = \"2 s\" }",
        ),
        ("compact", "{ kind = \"tor-users\", flow-interval = \"5 s\" }"),
    ] {
        let transfers = alone(name, "2 min", &format!("load = {load}")).rows("transfers");
        let ok: Vec<&Row> = transfers.iter().filter(|row| is(row, "outcome", "ok")).collect();
        assert!(ok.len() > 20, "{name}: {} of {} streams are over", ok.len(), transfers.len());
        for row in &ok {
            assert_eq!(row["size_bytes"], row["received_bytes"]);
            assert!(
                is(row, "exchange", "script") && number(&row["sent_bytes"]) >= 261 && number(&row["received_bytes"]) >= 73,
                "{row:?}"
            );
        }
        let late = |row: &&Row| !is(row, "outcome", "ok") && !is(row, "outcome", "unfinished");
        assert_eq!(transfers.iter().filter(late).count(), 0, "{name}: nothing fails on an empty network");
        let circuits = |flow: u64| {
            let of_flow = transfers.iter().filter(|row| number(&row["flow"]) == flow && row["circuit"] != Field::Null);
            of_flow.map(|row| number(&row["circuit"])).collect::<BTreeSet<_>>()
        };
        assert_eq!(circuits(0).len(), 1, "the streams of a flow share a circuit");
        assert!(circuits(0).is_disjoint(&circuits(1)), "flows do not");
    }
}

/// The client starts at 1 s; circuits by flow, and of each stream what the file says and the greetings, 261 and 73 bytes.
#[test]
fn what_was_recorded_is_replayed() {
    let transfers = alone("replay", "10 s", "load = { kind = \"replay\", path = \"traffic.json\" }").rows("transfers");
    let mut seen: Vec<[u64; 4]> = transfers
        .iter()
        .inspect(|row| assert!(is(row, "outcome", "ok") && row["size_bytes"] == row["received_bytes"], "{row:?}"))
        .map(|row| ["start_ns", "flow", "sent_bytes", "received_bytes"].map(|column| number(&row[column])))
        .collect();
    seen.sort_unstable();
    let expected = [
        [1_500_000_000, 0, 261 + 1734, 73 + 105_000],
        [1_700_000_000, 0, 261 + 1434, 73 + 20_000],
        [5_000_000_000, 1, 261 + 1434, 73 + 1434],
    ];
    assert_eq!(seen, expected);
    // The server writes the last 5,000 bytes two seconds after the others, which nobody waits for.
    let longest = transfers.iter().find(|row| number(&row["received_bytes"]) > 100_000).unwrap();
    let took = number(&longest["last_byte_ns"]) - number(&longest["first_byte_ns"]);
    assert!((1_900_000_000..2_100_000_000).contains(&took), "{took}");
}

#[test]
fn many_users_of_a_client_do_as_many_things() {
    let keys = "users = 3\nload = { kind = \"web\", size = \"50 kB\", pause = \"1 s\" }";
    let transfers = alone("users", "10 s", keys).rows("transfers");
    let users: BTreeSet<u64> = transfers.iter().map(|row| number(&row["user"])).collect();
    assert_eq!(users, BTreeSet::from([0, 1, 2]));
    let flows = |users: u32| {
        let keys = format!("users = {users}\nload = {{ kind = \"perf\", pause = \"8 s\" }}");
        alone(&format!("users{users}"), "30 s", &keys).rows("transfers").len()
    };
    assert_eq!([1, 4].map(flows), [4, 15], "a quarter of the pause");
}

#[test]
fn without_records_streams_are_counted() {
    let load = "load = { kind = \"web\", size = \"50 kB\", pause = \"1 s\" }";
    let [with, without] = ["true", "false"].map(|record| alone(record, "10 s", &format!("record = {record}\n{load}")));
    let counted = |records: &Records| records.rows("network").iter().map(|row| number(&row["goodput_bytes"])).collect::<Vec<_>>();
    assert!(with.rows("transfers").len() > 4 && !with.rows("circuits").is_empty());
    assert!(without.rows("transfers").is_empty() && without.rows("circuits").is_empty());
    assert_eq!(counted(&with), counted(&without));
    let ok = |records: &Records| number(&records.rows("network").last().unwrap()["transfers_ok"]);
    assert_eq!(ok(&with), ok(&without));
}

/// Clients by scale, and by load target: a target is met by so many clients fewer as each stands for more users.
#[test]
fn clients_follow_from_the_scale_or_the_target() {
    let clients = |name: &str, group: &str, rest: &str| {
        let text = format!(
            "title = \"Small\"\nduration = \"1 s\"\n[network]\nkind = \"synthetic\"\nrelays = 60\n[[clients]]\ngroup = \"users\"\n{group}\n\
             load = {{ kind = \"tor-users\" }}\n{rest}"
        );
        number(&Records::of(name, &text).rows("run")[0]["clients"])
    };
    let many = clients("scale100", "users = 100\nusers-at-full-scale = 792_000", "");
    let few = clients("scale1000", "users = 1000\nusers-at-full-scale = 792_000", "");
    assert!(many > 20 && (many as f64 / 10.0 - few as f64).abs() <= 0.5, "{many} and {few}");
    let target = "[load-target]\nutilisation = 0.1\nposition = \"exit\"\n[network.capacity]\nfactor = 0.05\n";
    let (many, few) = (clients("target10", "users = 10", target), clients("target100", "users = 100", target));
    assert!(many > 20 && (many as f64 / 10.0 - few as f64).abs() <= 1.0, "{many} and {few}");
}
