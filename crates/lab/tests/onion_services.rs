//! Clients of onion services in whole runs: what the tables say about who met whom where, and that services cost what their distance costs.

use onionlab_lab::{Continue, RunKey, Scenario, run};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::Path;

type Row = BTreeMap<String, Field>;

/// The tables `circuits`, `transfers` and `network` of a run of this experiment, and the bytes of all three.
fn tables(name: &str, path: &Path, text: &str) -> ([Vec<Row>; 3], Vec<Vec<u8>>) {
    let folder = std::env::temp_dir().join(format!("onionlab-onion-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    let scenario = Scenario::parse(path, text.to_owned()).unwrap().resolve().unwrap();
    let (directory, _) = run(&scenario, RunKey { treatment: 0, network: 0, seed: 1 }, &folder, |_| Continue::Yes).unwrap();
    let files = ["circuits", "transfers", "network"].map(|table| directory.join(format!("{table}.parquet")));
    let rows = |file: &Path| -> Vec<Row> {
        let reader = SerializedFileReader::new(File::open(file).unwrap()).unwrap();
        let row = |row: parquet::record::Row| row.get_column_iter().map(|(name, field)| (name.clone(), field.clone())).collect();
        reader.get_row_iter(None).unwrap().map(|read| row(read.unwrap())).collect()
    };
    let found = [0, 1, 2].map(|index: usize| rows(&files[index]));
    let bytes = files.iter().map(|file| fs::read(file).unwrap()).collect();
    fs::remove_dir_all(&folder).unwrap();
    (found, bytes)
}

fn text(row: &Row, column: &str) -> String {
    match &row[column] {
        Field::Str(text) => text.clone(),
        other => panic!("{column} is {other}"),
    }
}

fn nanos(row: &Row, column: &str) -> Option<i64> {
    match &row[column] {
        Field::Long(value) => Some(*value),
        Field::Null => None,
        other => panic!("{column} is {other}"),
    }
}

fn of<'a>(rows: &'a [Row], column: &str, value: &str) -> Vec<&'a Row> {
    rows.iter().filter(|row| text(row, column) == value).collect()
}

/// Eight relays by hand, all hosts 20 ms apart. A download of one cell from the service takes at least the seven links to and fro after the two have met; tor and the service have
/// circuits of the lengths that tor has, and the two that are joined end at one relay.
#[test]
fn client_and_service_meet_at_a_relay() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/good/onion.toml");
    let file = fs::read_to_string(&path)
        .unwrap()
        .replace(r#"kind = "bulk", size = "1 MB""#, r#"kind = "bulk", size = "100 B", pause = "8 s""#);
    let ([circuits, transfers, _], _) = tables("by-hand", &path, &file);
    assert!(transfers.len() >= 3 && of(&transfers, "outcome", "ok").len() == transfers.len());
    for transfer in &transfers {
        let took = nanos(transfer, "last_byte_ns").unwrap() - nanos(transfer, "start_ns").unwrap();
        assert!(took >= 280_000_000, "{took} ns for fourteen links");
    }
    let rendezvous = of(&circuits, "purpose", "rendezvous");
    let answers = of(&circuits, "purpose", "service-rendezvous");
    assert_eq!((rendezvous.len(), answers.len()), (1, 1), "downloads share a circuit");
    assert_eq!(text(rendezvous[0], "exit"), text(answers[0], "exit"));
    assert_eq!([text(rendezvous[0], "client"), text(answers[0], "client")], ["client1", "service1"]);
    assert!(nanos(rendezvous[0], "joined_ns") > nanos(rendezvous[0], "built_ns"));
    assert_eq!(text(rendezvous[0], "third"), "");
    let introductions = of(&circuits, "purpose", "service-introduction");
    let points: BTreeSet<String> = introductions.iter().map(|circuit| text(circuit, "exit")).collect();
    assert_eq!((introductions.len(), points.len()), (3, 3));
    let introduce = of(&circuits, "purpose", "introduce");
    assert!(introduce.len() == 1 && points.contains(&text(introduce[0], "exit")));
    for circuit in introductions.into_iter().chain(introduce).chain(answers) {
        let relays = ["guard", "middle", "third", "exit"].map(|column| text(circuit, column));
        assert!(
            relays.windows(2).all(|pair| pair[0] != pair[1]) && relays[2] != relays[0] && relays[1] != relays[3],
            "{relays:?}"
        );
    }
}

/// A download from a service goes over five links, two of the client's circuit and three of the service's, whether circuits in use are counted or busy ones.
#[test]
fn busy_circuits_of_services_have_three_parts() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/good/onion.toml");
    let ([_, _, network], _) = tables("busy", &path, &fs::read_to_string(&path).unwrap());
    let count = |row: &Row, column: &str| match row[column] {
        Field::UInt(count) => count,
        ref other => panic!("{column} is {other}"),
    };
    let joined: Vec<_> =
        network.iter().filter(|row| count(row, "active_circuits") == 2 && count(row, "busy_circuits") == 2).collect();
    assert!(joined.len() >= 10, "{} of {} samples", joined.len(), network.len());
    for row in joined {
        assert_eq!(count(row, "busy_links_directed"), count(row, "links_directed"));
        assert_eq!(count(row, "links_directed") + count(row, "shared_links_directed"), 5);
    }
}

/// The experiment of the repository, its first half minute: every download from a service goes over a rendezvous circuit of its own, as every other goes over one to an exit, and takes longer
/// in the median than one from a server; the same run leaves the same bytes.
#[test]
fn services_are_farther_than_servers() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/onion-services/onion-services.toml");
    let file = fs::read_to_string(&path).unwrap().replace("duration = \"1 min\"", "duration = \"30 s\"");
    let ([circuits, transfers, network], bytes) = tables("sampled", &path, &file);
    let number = |row: &Row| match row["circuit"] {
        Field::UInt(number) => Some(number),
        _ => None,
    };
    let purposes: BTreeMap<u32, String> =
        circuits.iter().map(|circuit| (number(circuit).unwrap(), text(circuit, "purpose"))).collect();
    let times = |group: &str, wanted: &[&str]| {
        let ended: Vec<_> =
            of(&transfers, "group", group).into_iter().filter(|row| text(row, "outcome") != "unfinished").collect();
        assert!(ended.len() >= 20 && ended.iter().all(|row| text(row, "outcome") == "ok"), "{ended:?}");
        assert!(ended.iter().all(|row| wanted.contains(&purposes[&number(row).unwrap()].as_str())));
        let used: BTreeSet<_> = ended.iter().map(|row| number(row)).collect();
        assert_eq!(used.len(), ended.len(), "each has a circuit of its own");
        let first = |row: &&Row| nanos(row, "first_byte_ns").unwrap() - nanos(row, "start_ns").unwrap();
        let mut times: Vec<i64> = ended.iter().map(first).collect();
        times.sort_unstable();
        times[times.len() / 2]
    };
    let (servers, services) = (times("servers", &["exit", "leg"]), times("onion", &["rendezvous"]));
    assert!(services > 2 * servers, "first byte after {services} and {servers} ns in the median");
    assert_eq!(network.len(), 30);
    assert!(tables("again", &path, &file).1 == bytes, "the same run");
}
