//! Circuitmux policies from a library: whole runs with them, and how a run with a bad one ends.

use onionlab_lab::world::try_policies;
use onionlab_lab::{Continue, RunError, RunKey, Scenario, run};
use std::fs;
use std::path::{Path, PathBuf};

/// Two clients share a middle that is slow, so that circuits queue there.
const TEXT: &str = r#"
title = "A policy of one's own"
duration = "8 s"
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
[[clients]]
group = "bulk"
hosts = ["client1"]
path = ["guard1", "middle1", "exit1"]
load = { kind = "bulk", size = "1 MB" }
[[clients]]
group = "web"
hosts = ["client2"]
path = ["guard2", "middle1", "exit1"]
load = { kind = "web", size = "50 kB", pause = { uniform = ["100 ms", "1 s"] } }
[[treatments]]
name = "round robin"
circuitmux = "round-robin"
[[treatments]]
name = "EWMA"
circuitmux = "ewma"
[[treatments]]
name = "own"
circuitmux = { library = 'LIBRARY', parameters = { PARAMETERS } }
"#;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("onionlab-own-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The library of `examples/own_policy.rs`, which cargo builds with the tests of the crate.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path =
        test.parent().unwrap().parent().unwrap().join(format!("examples/libown_policy.{}", std::env::consts::DLL_EXTENSION));
    assert!(path.is_file(), "`cargo build -p onionlab-lab --example own_policy` makes {}", path.display());
    path
}

fn text(library: &Path, parameters: &str) -> String {
    TEXT.replace("LIBRARY", library.to_str().unwrap()).replace("PARAMETERS", parameters)
}

/// The records of a run: transfers, circuits, channels, relays.
fn records(text: &str, treatment: usize, name: &str) -> Result<[Vec<u8>; 4], RunError> {
    let out = Folder::new(name);
    let scenario = Scenario::parse(Path::new("test.toml"), text.to_owned()).unwrap().resolve().unwrap();
    let (directory, _) = run(&scenario, RunKey { treatment, network: 0, seed: 1 }, &out.0, |_| Continue::Yes)?;
    Ok(["transfers", "circuits", "channels", "relays"].map(|table| fs::read(directory.join(format!("{table}.parquet"))).unwrap()))
}

fn sentence(parameters: &str, name: &str) -> String {
    let error = records(&text(&library(), parameters), 2, name).unwrap_err();
    assert!(matches!(error, RunError::Policy(_) | RunError::World(_)), "{error}");
    error.to_string().replace(library().to_str().unwrap(), "LIBRARY")
}

#[test]
fn a_policy_from_a_library_decides_as_the_same_one_built_in() {
    let text = text(&library(), "");
    let own = records(&text, 2, "same-own").unwrap();
    assert!(own == records(&text, 0, "same-built-in").unwrap());
    assert!(own != records(&text, 1, "same-ewma").unwrap());
    let threads = ["a", "b"].map(|name| {
        let text = text.clone();
        std::thread::spawn(move || records(&text, 2, name).unwrap())
    });
    assert!(threads.into_iter().all(|thread| thread.join().unwrap() == own), "two at a time do not disturb each other");
}

#[test]
fn a_run_with_a_bad_policy_ends_with_one_sentence() {
    let start = "the circuitmux policy \"Fallible\"";
    for (how, said) in [
        ("panic", " of LIBRARY failed in `pick` at "),
        ("compare", " of LIBRARY failed in `compare` at "),
        ("sent", " of LIBRARY failed in `notify_sent` at "),
        ("nothing", " picked no circuit although some have cells queued, at "),
        ("absent", " picked circuit 1000000, which this mux does not have, at "),
    ] {
        let said_now = sentence(&format!("how = '{how}', from = 100"), how);
        let rest = said_now.strip_prefix(start).and_then(|rest| rest.strip_prefix(said));
        let rest = rest.unwrap_or_else(|| panic!("{how}: {said_now}"));
        let (time, rest) = rest.split_once(" s of simulated time").unwrap();
        assert!(time.parse::<f64>().unwrap() > 0.1 && !rest.contains('\n'), "{said_now}");
        if rest.starts_with(':') {
            assert!(rest.contains(" cells are enough (") && rest.ends_with(')') && rest.contains("own_policy.rs:"), "{rest}");
        }
        assert_eq!(said_now, sentence(&format!("how = '{how}', from = 100"), how), "it is the same each time");
    }
}

/// The instant of the call that failed, not that of the one before.
#[test]
fn a_failure_says_when_it_was() {
    let said = sentence("how = 'active', from = 100", "active");
    let (_, rest) = said.split_once(" failed in `notify_active` at ").unwrap();
    let (time, rest) = rest.split_once(" s of simulated time: it is ").unwrap();
    assert!(rest.starts_with(&format!("{time} s (")), "{said}");
}

#[test]
fn a_policy_that_cannot_be_made_is_refused_before_the_run() {
    let start = "LIBRARY, a circuitmux policy, cannot make the policy \"Fallible\": ";
    assert_eq!(sentence("haste = 1", "unknown"), format!("{start}it has no parameter `haste`; it has `how`, `from`"));
    let said = sentence("from = 'soon'", "text");
    assert!(said.starts_with(&format!("{start}the parameter `from` is \"soon\": invalid digit")), "{said}");
    let said = sentence("how = 'born'", "born");
    assert!(said.starts_with(&format!("{start}no policy was made (")), "{said}");
}

/// What is in the library belongs to the experiment, not when or where it was built. A library that is built anew under the same name is another.
#[test]
fn the_scenario_knows_the_library_by_its_content() {
    let folder = Folder::new("content");
    let copy = folder.0.join("libmine.so");
    let content = fs::read(library()).unwrap();
    let resolved = |bytes: &[u8]| {
        fs::write(&copy, bytes).unwrap();
        Scenario::parse(&folder.0.join("test.toml"), text(Path::new("libmine.so"), "from = 3")).unwrap().resolve().unwrap()
    };
    let first = resolved(&content);
    let json = serde_json::to_value(&first).unwrap()["treatments"][2]["circuitmux"].clone();
    assert_eq!(json["library"]["path"], "libmine.so");
    assert_eq!(json["parameters"]["from"], 3);
    assert_eq!(first.to_json(), resolved(&content).to_json());
    let longer = [content.as_slice(), &[0]].concat();
    assert_ne!(first.to_json(), resolved(&longer).to_json());
    // The file is the longer one now, and the experiment that was read before is told.
    let error = run(&first, RunKey { treatment: 2, network: 0, seed: 1 }, &folder.0.join("out"), |_| Continue::Yes).unwrap_err();
    assert_eq!(
        error.to_string(),
        "libmine.so, a circuitmux policy, has changed since the run was planned; the same command makes it anew"
    );
    let no_library = resolved(b"ABI");
    let error = run(&no_library, RunKey { treatment: 2, network: 0, seed: 1 }, &folder.0.join("out"), |_| Continue::Yes)
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("libmine.so, a circuitmux policy, cannot be loaded (") && !error.contains("onionlab-policy-"),
        "{error}"
    );
}

/// Before anything runs, and by the line that names it.
#[test]
fn policies_are_tried_before_the_first_run() {
    let tried = |text: String| try_policies(&Scenario::parse(Path::new("test.toml"), text).unwrap(), None);
    tried(text(&library(), "from = 3")).unwrap();
    let line = 1 + TEXT.lines().position(|line| line.contains("LIBRARY")).unwrap();
    let refused = |text: &str| tried(text.to_owned()).unwrap_err().to_string().replace(library().to_str().unwrap(), "LIBRARY");
    let why = "which cannot make the policy \"Fallible\": it has no parameter `haste`; it has `how`, `from`";
    assert_eq!(
        refused(&text(&library(), "haste = 1")),
        format!("test.toml, line {line}: `treatments[2].circuitmux.library` names LIBRARY, {why}")
    );
    // A later treatment's is found too, and one that only a point of a sweep has.
    let swept = text(&library(), "from = 3") + "[sweep]\ntreatments.own.circuitmux.parameters.from = [3, -1]\n";
    let said = refused(&swept);
    assert!(said.contains("which cannot make the policy \"Fallible\": the parameter `from` is \"-1\""), "{said}");
    let folder = Folder::new("no-library");
    fs::write(folder.0.join("libmine.so"), "ABI").unwrap();
    let scenario = Scenario::parse(&folder.0.join("test.toml"), text(Path::new("libmine.so"), "from = 3")).unwrap();
    let said = try_policies(&scenario, None).unwrap_err().to_string();
    assert!(
        said.contains(&format!("line {line}: `treatments[2].circuitmux.library` names libmine.so, which cannot be loaded (")),
        "{said}"
    );
}
