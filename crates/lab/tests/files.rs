//! Experiment files, good and bad: what comes out of the good ones, and the one sentence that each bad one earns.
//!
//! With `ONIONLAB_UPDATE_GOLDEN=1` the expected files are written anew.

use onionlab_lab::{Scenario, schema};
use std::fs;
use std::path::{Path, PathBuf};

fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata")
}

fn experiments(folder: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(testdata().join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

fn expect(path: &Path, actual: &str) -> Result<(), String> {
    if std::env::var_os("ONIONLAB_UPDATE_GOLDEN").is_some() {
        fs::write(path, actual).unwrap();
    }
    let expected = fs::read_to_string(path).unwrap_or_default();
    if expected == actual {
        return Ok(());
    }
    let differ = expected.lines().zip(actual.lines()).position(|(expected, actual)| expected != actual);
    let line = differ.unwrap_or_else(|| expected.lines().count().min(actual.lines().count()));
    let [expected, actual] = [expected.as_str(), actual].map(|text| text.lines().nth(line).unwrap_or("(the end)"));
    Err(format!("{}, line {}\n expected: {expected}\n   actual: {actual}", path.display(), line + 1))
}

#[test]
fn every_bad_file_earns_its_sentence() {
    let mut failures = Vec::new();
    for path in experiments("bad") {
        let name = path.file_name().unwrap();
        // Relative to the folder, so that the sentence does not name this machine.
        let text = fs::read_to_string(&path).unwrap();
        let outcome = Scenario::parse(Path::new(name), text).and_then(|scenario| scenario.resolve_points());
        let actual = match outcome {
            Ok(_) => "accepted\n".to_owned(),
            Err(error) => format!("{}: {error}\n", error.fault.code()),
        };
        assert!(actual.len() < 2000, "{}: a sentence of {} bytes", path.display(), actual.len());
        failures.extend(expect(&path.with_extension("txt"), &actual).err());
        if actual == "accepted\n" {
            failures.push(format!("{}: accepted", path.display()));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn good_files_resolve_to_their_canonical_form() {
    for path in experiments("good") {
        let resolved = Scenario::read(&path).and_then(|scenario| scenario.resolve()).unwrap();
        let pretty = format!("{}\n", serde_json::to_string_pretty(&resolved).unwrap());
        expect(&path.with_extension("json"), &pretty).unwrap();
        let runs = resolved.plan();
        assert_eq!(runs.len(), resolved.treatments.len() * resolved.networks as usize * resolved.seeds.len());
    }
}

#[test]
fn the_schema_is_the_one_in_the_repository() {
    expect(&testdata().join("schema.json"), &format!("{}\n", schema())).unwrap();
}

#[test]
fn thirty_thousand_lines_of_nonsense_are_refused_at_once_and_not_echoed() {
    let started = std::time::Instant::now();
    for line in
        ["lorem ipsum dolor sit amet\n", "[[clients]]\nx = 1\n", "a.b.c = [[[[[\n", "\"\"\"\n", "= = =\n", "x = \"\u{1F9C5}\n"]
    {
        let error = Scenario::parse(Path::new("nonsense.toml"), line.repeat(30_000)).unwrap_err().to_string();
        assert!(error.starts_with("nonsense.toml, line "), "{error}");
        assert!(error.len() < 1000, "{} bytes: {error}", error.len());
    }
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
}

#[test]
fn a_file_that_is_too_large_or_no_text_is_refused() {
    let folder = std::env::temp_dir().join(format!("onionlab-files-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("large.toml");
    fs::write(&path, vec![b'#'; (onionlab_lab::scenario::MAX_FILE_BYTES + 1) as usize]).unwrap();
    assert!(Scenario::read(&path).unwrap_err().to_string().contains("larger than 4 MiB"));
    fs::write(&path, [b'a', 0xff, 0xfe]).unwrap();
    assert!(Scenario::read(&path).unwrap_err().to_string().contains("UTF-8"));
    assert!(Scenario::read(&folder.join("absent.toml")).unwrap_err().to_string().contains("cannot read"));
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn resolving_twice_gives_the_same_bytes_and_other_networks_other_seeds() {
    let path = testdata().join("good/full.toml");
    let [first, second] = [0, 1].map(|_| Scenario::read(&path).and_then(|scenario| scenario.resolve()).unwrap());
    assert_eq!(first.to_json(), second.to_json());
    assert_ne!(first.network_seed(0), first.network_seed(1));
    assert_ne!(first.run_seed(0, 1), first.run_seed(1, 1));
    assert_ne!(first.run_seed(0, 1), first.run_seed(0, 2));
}

mod arbitrary {
    use super::*;
    use proptest::prelude::*;

    /// Files that are nearly right: the good ones with a line cut, doubled, or a value replaced.
    fn nearly_right() -> impl Strategy<Value = String> {
        let texts: Vec<String> = experiments("good").iter().map(|path| fs::read_to_string(path).unwrap()).collect();
        let value = prop_oneof![
            Just("\"-1 s\"".to_owned()),
            Just("nan".to_owned()),
            Just("-9223372036854775808".to_owned()),
            Just("[]".to_owned()),
            Just("{}".to_owned()),
            Just("true".to_owned()),
            any::<String>().prop_map(|text| format!("{text:?}")),
            any::<i64>().prop_map(|number| number.to_string()),
            any::<f64>().prop_map(|number| format!("{number:?}")),
        ];
        (proptest::sample::select(texts), any::<prop::sample::Index>(), value, 0..4).prop_map(|(text, index, value, what)| {
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            let at = index.index(lines.len());
            match what {
                0 => drop(lines.remove(at)),
                1 => lines.insert(at, lines[at].clone()),
                _ => {
                    if let Some((key, _)) = lines[at].clone().split_once('=') {
                        lines[at] = format!("{key}= {value}");
                    }
                }
            }
            lines.join("\n")
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn text_never_panics(text in ".{0,400}") {
            let _ = Scenario::parse(Path::new("any.toml"), text).and_then(|scenario| scenario.resolve());
        }
        #[test]
        fn a_nearly_right_file_is_accepted_or_refused_in_one_sentence(text in nearly_right()) {
            if let Err(error) = Scenario::parse(Path::new("near.toml"), text).and_then(|scenario| scenario.resolve()) {
                let sentence = error.to_string();
                prop_assert!(!sentence.contains('\n') && sentence.len() < 2000, "{}", sentence);
            }
        }
    }
}
