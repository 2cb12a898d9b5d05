//! Active circuit switching in an experiment: the table `switches`, each key with an effect, and what is refused.

use onionlab_lab::{Continue, RunKey, Scenario, run};
use parquet::file::reader::SerializedFileReader;
use parquet::record::Field;
use std::fs;
use std::path::Path;

const FIRST: RunKey = RunKey { treatment: 0, network: 0, seed: 1 };

/// Four clients that send over one slow entry with small sockets, and relays enough for spares.
const SMALL: &str = r#"
title = "A congested entry"
duration = "60 s"
[network]
kind = "explicit"
default-latency = "10 ms"
hosts = [
  { name = "entry1", role = "guard", up = "1.5 Mbit/s", down = "10 Mbit/s" },
  { name = "entry2", role = "guard", up = "1.5 Mbit/s", down = "10 Mbit/s" },
  { name = "middle1", role = "middle", up = "2 Mbit/s", down = "2 Mbit/s" },
  { name = "middle2", role = "middle", up = "3 Mbit/s", down = "3 Mbit/s" },
  { name = "middle3", role = "middle", up = "1 Mbit/s", down = "1 Mbit/s" },
  { name = "exit1", role = "exit", up = "2 Mbit/s", down = "2 Mbit/s" },
  { name = "exit2", role = "exit", up = "3 Mbit/s", down = "3 Mbit/s" },
  { name = "server1", role = "server", up = "1 Gbit/s", down = "1 Gbit/s" },
  { name = "client1", role = "client", up = "50 Mbit/s", down = "50 Mbit/s" },
  { name = "client2", role = "client", up = "50 Mbit/s", down = "50 Mbit/s" },
  { name = "client3", role = "client", up = "50 Mbit/s", down = "50 Mbit/s" },
]
links = [
  { between = ["client1", "entry1"], latency = "120 ms" },
  { between = ["client2", "entry1"], latency = "10 ms" },
]
[[clients]]
group = "bulk"
hosts = ["client1", "client2"]
path = ["entry1", "middle1", "exit1"]
load = { kind = "bulk", size = "1 kB", request = "1500 kB" }
[[clients]]
group = "web"
hosts = ["client3"]
path = ["entry1", "middle1", "exit1"]
load = { kind = "web", size = "1 kB", request = "50 kB", pause = "2 s" }
[[treatments]]
name = "one"
tor = "0.2.4"
send-buffer = "16 KiB"
"#;

fn records(settings: &str) -> [Vec<u8>; 2] {
    let out = std::env::temp_dir().join(format!("onionlab-switching-{}", std::process::id()));
    let scenario =
        Scenario::parse(Path::new("test.toml"), format!("{SMALL}{settings}\n")).and_then(|scenario| scenario.resolve());
    let (directory, _) = run(&scenario.unwrap(), FIRST, &out, |_| Continue::Yes).unwrap();
    let records = ["transfers", "relays"].map(|table| fs::read(directory.join(format!("{table}.parquet"))).unwrap());
    fs::remove_dir_all(out).unwrap();
    records
}

/// Each key, beside what it needs.
const KEYS: [(&str, &str); 16] = [
    ("", "switching = \"active\""),
    ("switching = \"active\"", "switching-entry = \"other\""),
    ("switching = \"active\"", "switching-interval = \"3 s\""),
    ("switching = \"active\"\nswitching-interval = \"3 s\"", "switching-exit = \"kept\""),
    ("switching = \"active\"\nswitching-interval = \"3 s\"", "switching-ask = \"drained\""),
    ("switching = \"active\"\nswitching-interval = \"3 s\"", "switching-gamma = 0.05"),
    ("switching = \"active\"\nswitching-interval = \"3 s\"\nswitching-unwritable = false", "switching-beta = 9.0"),
    ("switching = \"active\"\nswitching-interval = \"3 s\"", "switching-occupancy = \"relative\""),
    ("switching = \"active\"\nswitching-interval = \"3 s\"\nswitching-beta = 9.0", "switching-unwritable = false"),
    ("switching = \"active\"\nswitching-interval = \"3 s\"", "switching-choice = \"above-mean\""),
    ("switching = \"active\"\nswitching-interval = \"3 s\"", "switching-hysteresis = true"),
    (
        "switching = \"active\"\nswitching-interval = \"3 s\"\nswitching-hysteresis = true\nswitching-unwritable = false\nswitching-occupancy = \"relative\"\nswitching-beta = 1.0",
        "switching-alpha = 1.0",
    ),
    ("switching = \"active\"\nswitching-interval = \"3 s\"", "switching-spares = \"uniform\""),
    ("switching = \"active\"\nswitching-interval = \"3 s\"", "switching-moves = 1"),
    ("switching = \"active\"\nswitching-interval = \"3 s\"", "switching-drop-idle = \"1 s\""),
    ("switching = \"active\"\nswitching-interval = \"3 s\"", "switching-timeout = \"100 ms\""),
];

#[test]
fn every_key_of_switching_has_an_effect() {
    let idle: Vec<&str> =
        KEYS.iter().filter(|(with, key)| records(with) == records(&format!("{with}\n{key}"))).map(|(_, key)| *key).collect();
    assert!(idle.is_empty(), "without effect: {idle:?}");
}

type Row = std::collections::BTreeMap<String, Field>;

/// The rows of a table of a run, none where there is no such table.
fn read(directory: &Path, table: &str) -> Option<Vec<Row>> {
    let file = fs::File::open(directory.join(format!("{table}.parquet"))).ok()?;
    let reader = SerializedFileReader::new(file).unwrap();
    Some(reader.into_iter().map(|row| row.unwrap().into_columns().into_iter().collect()).collect())
}

/// The rows of tables of a run, none where there is no such table.
fn rows<const N: usize>(settings: &str, tables: [&str; N]) -> [Option<Vec<Row>>; N] {
    rows_of(SMALL, settings, tables)
}

/// The same of a run of another experiment.
fn rows_of<const N: usize>(experiment: &str, settings: &str, tables: [&str; N]) -> [Option<Vec<Row>>; N] {
    let out = std::env::temp_dir().join(format!("onionlab-switches-{:?}-{}", std::thread::current().id(), std::process::id()));
    let scenario =
        Scenario::parse(Path::new("test.toml"), format!("{experiment}{settings}\n")).and_then(|scenario| scenario.resolve());
    let (directory, _) = run(&scenario.unwrap(), FIRST, &out, |_| Continue::Yes).unwrap();
    let rows = tables.map(|table| read(&directory, table));
    fs::remove_dir_all(out).unwrap();
    rows
}

/// Each row is of a circuit of the table `circuits` with this entry, and its times are in order. Without switching there is no such table.
#[test]
fn switches_have_rows() {
    let [switches, circuits] = rows("switching = \"active\"\nswitching-interval = \"5 s\"", ["switches", "circuits"]);
    let (switches, circuits) = (switches.unwrap(), circuits.unwrap());
    assert!(switches.len() > 2);
    let text = |text: &str| Field::Str(text.to_owned());
    for switch in &switches {
        let circuit = circuits.iter().find(|circuit| circuit["circuit"] == switch["circuit"]).unwrap();
        assert_eq!(circuit["guard"], switch["entry"]);
        assert_eq!(switch["to_entry"], text("same"));
        if switch["outcome"] == text("moved") {
            let times = ["time_ns", "middle_acknowledged_ns", "acknowledged_ns", "moved_ns"].map(|time| switch[time].clone());
            let times = times.map(|time| if let Field::Long(nanos) = time { nanos } else { panic!("{switch:?}") });
            assert!(times.is_sorted(), "{switch:?}");
            assert_eq!(circuit["reason"], text("switched"), "{switch:?}");
        }
    }
    assert_eq!(rows("", ["switches"]), [None]);
}

/// Each sample of an outbuf says what was seen and what followed: averages follow the formula, one row a switch, and nothing moves but from a congested outbuf.
#[test]
fn samples_have_rows() {
    let settings = "switching = \"active\"\nswitching-interval = \"3 s\"\nswitching-unwritable = false\nswitching-moves = 2";
    let [samples, switches, channels] = rows(settings, ["switching_samples", "switches", "channels"]);
    let (samples, switches, channels) = (samples.unwrap(), switches.unwrap(), channels.unwrap());
    let (text, fraction) = (
        |text: &str| Field::Str(text.to_owned()),
        |field: &Field| match field {
            Field::Double(value) => *value,
            other => panic!("{other:?}"),
        },
    );
    let mut before = std::collections::HashMap::new();
    for row in &samples {
        let (Field::Long(time), Field::UInt(cells), Field::ULong(held)) = (&row["time_ns"], &row["cells"], &row["outbuf_bytes"])
        else {
            panic!("{row:?}")
        };
        assert_eq!(time % 3_000_000_000, 0);
        let channel = channels.iter().find(|channel| channel["channel"] == row["channel"]).unwrap();
        assert!([&channel["opener"], &channel["peer"]].contains(&&row["entry"]), "{row:?} {channel:?}");
        let of = (format!("{:?}", row["circuit"]), format!("{:?}", row["direction"]));
        let average = fraction(&row["average_cells"]);
        let last: f64 = before.insert(of, average).unwrap_or(0.0);
        // A circuit that was at rest, or new, has no row for its average before.
        let expected = 0.7 * last + 0.3 * f64::from(*cells);
        assert!((average - expected).abs() < 0.002, "{row:?} after {last}");
        assert!((fraction(&row["occupancy"]) - *held as f64 / 32_768.0).abs() < 1e-9, "{row:?}");
        let congested = fraction(&row["occupancy"]) > 0.5;
        let calm = ["accepted", "underfull"].map(text);
        assert_eq!(calm.contains(&row["verdict"]), !congested, "{row:?}");
    }
    let moves: Vec<_> = samples.iter().filter(|row| row["verdict"] == text("moves")).collect();
    assert!(moves.len() > 2 && moves.len() == switches.len(), "{} and {}", moves.len(), switches.len());
    for switch in &switches {
        let same = |row: &&&Row| {
            ["time_ns", "entry", "circuit", "average_cells", "occupancy"].iter().all(|key| row[*key] == switch[*key])
        };
        assert_eq!(moves.iter().filter(same).count(), 1, "{switch:?}");
    }
    for verdict in ["limit", "lighter", "no-spare"] {
        assert!(samples.iter().any(|row| row["verdict"] == text(verdict)), "{verdict}");
    }
    assert_eq!(rows("", ["switching_samples"]), [None]);
}

/// Spares take no numbers from the circuits that they stand by: where nothing ever moves, each transfer goes over the relays over which it goes without switching.
#[test]
fn spares_leave_paths_as_they_are() {
    const SAMPLED: &str = "title = \"Paths\"\nduration = \"90 s\"\n[network]\nkind = \"synthetic\"\nrelays = 30\n[[clients]]\n\
        group = \"web\"\ncount = 10\nload = { kind = \"web\", size = \"20 kB\", pause = \"3 s\" }\n[[treatments]]\nname = \"one\"\n\
        tor = \"0.2.4\"\ncircuit-lifetime = \"10 s\"\n";
    let paths = |settings: &str| {
        let [transfers, circuits] = rows_of(SAMPLED, settings, ["transfers", "circuits"]);
        let (transfers, circuits) = (transfers.unwrap(), circuits.unwrap());
        let relays = |circuit: &Field| {
            let found = circuits.iter().find(|row| row["circuit"] == *circuit).unwrap();
            ["guard", "middle", "exit"].map(|position| found[position].to_string())
        };
        let key = |row: &Row| (row["client"].to_string(), row["ordinal"].to_string());
        let used = |row: &&Row| row["circuit"] != Field::Null;
        transfers.iter().filter(used).map(|row| (key(row), relays(&row["circuit"]))).collect::<std::collections::BTreeMap<_, _>>()
    };
    let (without, with) = (paths(""), paths("switching = \"active\"\nswitching-beta = 9.0\nswitching-unwritable = false"));
    let both: Vec<_> = without.iter().filter(|(key, _)| with.contains_key(*key)).collect();
    assert!(both.len() > 150, "{}", both.len());
    let same = both.iter().filter(|(key, path)| with[*key] == **path).count();
    // Not all: a circuit that is being built can be what a stream finds first.
    assert!(same * 100 >= both.len() * 80, "{same} of {}", both.len());
}

/// Cells are followed to the server, with switching and without: at most one each second of each client that asks for it, later ones over the circuit to which theirs moved.
#[test]
fn probes_have_rows() {
    let with_probe = SMALL.replacen("group = \"bulk\"", "group = \"bulk\"\nprobe = \"1 s\"", 1);
    let text = |text: &str| Field::Str(text.to_owned());
    for settings in
        ["", "switching = \"active\"\nswitching-interval = \"5 s\"", "switching = \"active\"\nswitching-exit = \"kept\""]
    {
        let [probes, circuits] = rows_of(&with_probe, settings, ["probes", "circuits"]);
        let (probes, circuits) = (probes.unwrap(), circuits.unwrap());
        // Two clients that send from at most ten seconds on; where a window is used up nothing is packaged for seconds.
        assert!((40..=120).contains(&probes.len()), "{}", probes.len());
        let time = |row: &Row, key: &str| if let Field::Long(nanos) = row[key] { nanos } else { panic!("{key}: {row:?}") };
        for probe in &probes {
            assert_eq!(probe["group"], text("bulk"));
            if probe["outcome"] == text("arrived") {
                assert!(time(probe, "time_ns") + 30_000_000 < time(probe, "exit_ns"), "three hops of 10 ms or more: {probe:?}");
                assert!(time(probe, "exit_ns") + 10_000_000 < time(probe, "server_ns"), "{probe:?}");
                assert!(circuits.iter().any(|circuit| circuit["circuit"] == probe["came_by_circuit"]));
            }
        }
        let arrived = probes.iter().filter(|probe| probe["outcome"] == text("arrived")).count();
        let under_way = probes.iter().filter(|probe| probe["outcome"] == text("under-way")).count();
        assert_eq!(arrived + under_way, probes.len(), "uploads lose nothing");
        let by: std::collections::BTreeSet<_> = probes.iter().map(|probe| format!("{:?}", probe["circuit"])).collect();
        assert_eq!(by.len() > 2, settings.contains("active"), "{by:?}");
    }
    assert_eq!(rows("", ["probes"]), [None]);
}

/// The experiments of the two papers, cut short: each treatment runs, and on the testbed each with switching moves something.
#[test]
fn the_papers_experiments_run() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/switching");
    let out = std::env::temp_dir().join(format!("onionlab-switching-papers-{}", std::process::id()));
    for (name, long, short) in [
        ("testbed", "15 min\"\nseeds", "60 s\"\nseeds"),
        ("attack", "15 min\"\nseeds", "560 s\"\nseeds"),
        ("live", "duration = \"10 min\"", "duration = \"100 s\""),
        ("network", "duration = \"100 min\"", "duration = \"61 s\""),
    ] {
        let path = folder.join(format!("{name}.toml"));
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(long), "{name}");
        let scenario = Scenario::parse(&path, text.replacen(long, short, 1)).and_then(|scenario| scenario.resolve()).unwrap();
        for treatment in 0..scenario.treatments.len() {
            let (directory, _) = run(&scenario, RunKey { treatment, network: 0, seed: 1 }, &out, |_| Continue::Yes).unwrap();
            let switches = fs::File::open(directory.join("switches.parquet")).ok();
            let rows = switches.map(|file| SerializedFileReader::new(file).unwrap().into_iter().count());
            assert_eq!(rows.is_some(), scenario.treatments[treatment].switching.is_some());
            println!("{}: {rows:?} switches", scenario.treatments[treatment].name);
            // One of the testbed's is there to look at averages, and moves nothing.
            let watched = scenario.treatments[treatment].name == "watched";
            assert!(
                ["network", "live"].contains(&name) || (rows == Some(0)) == watched,
                "{}",
                scenario.treatments[treatment].name
            );
        }
    }
    fs::remove_dir_all(out).unwrap();
}

/// A client that sends without end through an entry that looks each second has its circuit moved again and again. No switch holds more than a stream's window, no upload of the others fails, and they
/// are better off than under the same load without switching.
#[test]
fn a_guard_under_attack_keeps_its_limits() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/switching/attack.toml");
    let text = fs::read_to_string(&path).unwrap();
    let scenario = Scenario::parse(&path, text).and_then(|scenario| scenario.resolve()).unwrap();
    let out = std::env::temp_dir().join(format!("onionlab-attack-{}", std::process::id()));
    let long = |row: &Row, key: &str| if let Field::Long(value) = row[key] { value } else { panic!("{key}: {row:?}") };
    let text = |text: &str| Field::Str(text.to_owned());
    let mut uploads = ["no switching", "each second"].map(|name| {
        let treatment = scenario.treatments.iter().position(|treatment| treatment.name == name).unwrap();
        let (directory, _) = run(&scenario, RunKey { treatment, network: 0, seed: 1 }, &out, |_| Continue::Yes).unwrap();
        let [transfers, switches] = ["transfers", "switches"].map(|table| read(&directory, table));
        let others: Vec<Row> = transfers.unwrap().into_iter().filter(|row| row["group"] == text("others")).collect();
        assert!(others.iter().all(|row| [text("ok"), text("unfinished")].contains(&row["outcome"])));
        let switches = switches.unwrap_or_default();
        let provoked = switches.iter().filter(|row| row["group"] == text("bulky")).count();
        assert_eq!(provoked > 60, name == "each second", "{provoked}");
        for switch in &switches {
            let Field::ULong(held) = switch["most_cells_held"] else { panic!("{switch:?}") };
            assert!(held <= 500, "{switch:?}");
        }
        // While the bulky one sends.
        let attacked = others.iter().filter(|row| (300_000_000_000..500_000_000_000).contains(&long(row, "start_ns")));
        attacked.map(|row| long(row, "end_ns") - long(row, "start_ns")).collect::<Vec<_>>()
    });
    fs::remove_dir_all(out).unwrap();
    let [without, with] = uploads.each_mut().map(|times| {
        times.sort_unstable();
        times[times.len() / 2] as f64 / 1e9
    });
    assert!(with < 0.75 * without, "{with} s with switching, {without} s without");
}
