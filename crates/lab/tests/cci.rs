//! The testbeds of the paper on shared links (`experiments/cci`): every file is an experiment, and runs.

use onionlab_lab::{Continue, RunKey, Scenario, run};
use parquet::file::reader::SerializedFileReader;
use parquet::record::Field;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/cci")
}

#[test]
fn every_testbed_is_an_experiment_with_both_treatments() {
    let two = ["one", "two", "three"].into_iter().flat_map(|scenario| {
        let loads = ["bulk", "audio", "video", "web"].into_iter();
        // The web client's pages do not fit 2 Mbit/s.
        loads.filter(move |load| (scenario, *load) != ("three", "web")).map(move |load| format!("{scenario}-{load}"))
    });
    let eight = ["no-dropping", "shared-dropping", "dropping-remaining"].map(str::to_owned);
    for name in eight.into_iter().chain(two) {
        let file = folder().join(format!("{name}.toml"));
        let scenario = Scenario::read(&file).and_then(|scenario| scenario.resolve()).unwrap_or_else(|error| panic!("{error}"));
        let names: Vec<&str> = scenario.treatments.iter().map(|treatment| treatment.name.as_str()).collect();
        let without_nagle = (name == "no-dropping").then_some(["vanilla, no Nagle", "PCTLS, no Nagle"]);
        let wanted: Vec<&str> = ["vanilla", "PCTLS"].into_iter().chain(without_nagle.into_iter().flatten()).collect();
        assert_eq!(names, wanted, "{}", file.display());
        assert_eq!(scenario.duration.as_nanos(), 315_000_000_000, "{}", file.display());
    }
}

/// Bytes that the clients of a group had received at the end of the first seconds, and byte seconds that bytes waited for others' losses.
fn short_run(name: &str, treatment: usize, seconds: u64, group: &str) -> (u64, f64) {
    let text = fs::read_to_string(folder().join(format!("{name}.toml"))).unwrap();
    let text = text.replace("duration = \"315 s\"", &format!("duration = \"{} s\"", 15 + seconds));
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cci-{name}-{treatment}"));
    let _ = fs::remove_dir_all(&out);
    let scenario = Scenario::parse(Path::new("test.toml"), text).and_then(|scenario| scenario.resolve()).unwrap();
    let (directory, _) = run(&scenario, RunKey { treatment, network: 0, seed: 1 }, &out, |_| Continue::Yes).unwrap();
    let rows = |table: &str| {
        let reader = SerializedFileReader::new(File::open(directory.join(format!("{table}.parquet"))).unwrap()).unwrap();
        reader.into_iter().map(Result::unwrap).collect::<Vec<_>>()
    };
    let field =
        |row: &parquet::record::Row, wanted: &str| row.get_column_iter().find(|(name, _)| *name == wanted).unwrap().1.clone();
    let (transfers, relays) = (rows("transfers"), rows("relays"));
    let received = transfers.iter().filter_map(|row| match (field(row, "group"), field(row, "received_bytes")) {
        (Field::Str(of), Field::ULong(bytes)) => of.starts_with(group).then_some(bytes),
        other => panic!("{other:?}"),
    });
    let held = relays.iter().map(|row| match field(row, "held") {
        Field::Double(held) => held,
        other => panic!("{other:?}"),
    });
    (received.sum(), held.sum())
}

/// Ten seconds of the testbed with eight clients: with losses on the shared link vanilla loses most of its throughput and PCTLS little, and only vanilla's circuits wait for each other's losses; without
/// losses they are nearly equal, though eight windows open more slowly than one, and nobody waits.
#[test]
fn losses_on_the_shared_link_cost_vanilla_most() {
    let [no, shared] =
        ["no-dropping", "shared-dropping"].map(|name| [0, 1].map(|treatment| short_run(name, treatment, 10, "bulk")));
    println!("NoDropping {no:?}, SharedDropping {shared:?}");
    assert!((0.9..1.2).contains(&(no[0].0 as f64 / no[1].0 as f64)), "{no:?}");
    assert!(no.iter().all(|(_, held)| *held == 0.0), "{no:?}");
    assert!(shared[0].0 < shared[1].0 / 2, "{shared:?}");
    assert!(shared[0].1 > 0.0 && shared[1].1 == 0.0, "{shared:?}");
}

/// The four streams beside it leave either circuit a part of the narrow link, and no more.
#[test]
fn other_streams_fill_the_narrow_link() {
    for treatment in [0, 1] {
        let (bulk, _) = short_run("three-audio", treatment, 20, "bulk");
        // 2 Mbit/s for 20 s are 5 MB.
        assert!((100_000..4_000_000).contains(&bulk), "{bulk} bytes in 20 s");
    }
}
