//! Any text as an experiment file: it resolves or is refused in one sentence. Seeds: `testdata/good` and `testdata/bad`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onionlab_lab::Scenario;
use std::path::Path;

fuzz_target!(|text: String| {
    if let Err(error) = Scenario::parse(Path::new("fuzz.toml"), text).and_then(|scenario| scenario.resolve()) {
        let sentence = error.to_string();
        assert!(!sentence.contains('\n') && sentence.len() < 4096, "{sentence}");
    }
});
