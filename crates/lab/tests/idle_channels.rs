//! Channels without circuits: closed after their time, and the records say why.

use onionlab_lab::{Continue, RunKey, Scenario, run};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use std::fs::{self, File};
use std::path::Path;

/// A client draws a path for each download of the first seconds; then it stops, its circuits end, and most channels have none any more.
const FILE: &str = r#"
title = "Channels that nobody needs"
duration = "6 min"
[network]
kind = "explicit"
default-latency = "10 ms"
hosts = [
  { name = "guard1", role = "guard", up = "20 Mbit/s", down = "20 Mbit/s" },
  { name = "middle1", role = "middle", up = "20 Mbit/s", down = "20 Mbit/s" },
  { name = "middle2", role = "middle", up = "20 Mbit/s", down = "20 Mbit/s" },
  { name = "middle3", role = "middle", up = "20 Mbit/s", down = "20 Mbit/s" },
  { name = "exit1", role = "exit", up = "20 Mbit/s", down = "20 Mbit/s" },
  { name = "exit2", role = "exit", up = "20 Mbit/s", down = "20 Mbit/s" },
  { name = "server1", role = "server", up = "1 Gbit/s", down = "1 Gbit/s" },
  { name = "client1", role = "client", up = "50 Mbit/s", down = "50 Mbit/s" },
]
[[clients]]
group = "a"
hosts = ["client1"]
stop = "40 s"
circuit-per-transfer = true
load = { kind = "bulk", size = "50 kB" }
[base]
circuit-lifetime = "5 s"
"#;

/// For each channel: when it opened and closed in seconds, and why.
fn channels(base: &str) -> Vec<(f64, Option<f64>, String)> {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("idle-channels");
    let _ = fs::remove_dir_all(&out);
    let scenario = Scenario::parse(Path::new("test.toml"), format!("{FILE}{base}\n")).and_then(|scenario| scenario.resolve());
    let (directory, _) = run(&scenario.unwrap(), RunKey { treatment: 0, network: 0, seed: 1 }, &out, |_| Continue::Yes).unwrap();
    let reader = SerializedFileReader::new(File::open(directory.join("channels.parquet")).unwrap()).unwrap();
    let rows = reader.get_row_iter(None).unwrap().map(|row| {
        let row = row.unwrap();
        let field = |wanted: &str| row.get_column_iter().find(|(name, _)| *name == wanted).unwrap().1.clone();
        let seconds = |name: &str| match field(name) {
            Field::Long(nanos) => Some(nanos as f64 / 1e9),
            _ => None,
        };
        let Field::Str(reason) = field("close_reason") else { panic!("a channel has a reason or none") };
        (seconds("opened_ns").unwrap(), seconds("closed_ns"), reason)
    });
    rows.collect()
}

#[test]
fn channels_without_circuits_are_closed_and_the_records_say_so() {
    let usual = channels("");
    assert!(usual.len() > 5);
    assert!(usual.iter().all(|(_, closed, reason)| closed.is_none() && reason == "none"), "an hour is not over: {usual:?}");
    for (base, least) in [("relay-channel-idle = \"1 min\"", 45.0), ("tor = \"0.2.4\"", 180.0)] {
        let closed: Vec<_> = channels(base).into_iter().filter(|(_, closed, _)| closed.is_some()).collect();
        // In 0.2.4 circuits built ahead stay for an hour, and most channels with them.
        assert!(closed.len() >= 2, "{base}: {closed:?}");
        for (opened, closed, reason) in closed {
            let closed = closed.unwrap();
            assert_eq!((reason.as_str(), closed.fract()), ("idle", 0.0));
            assert!(closed >= opened.floor() + least, "{base}: opened at {opened} s, closed at {closed} s");
        }
    }
}
