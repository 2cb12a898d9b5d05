//! Any bytes as a traffic model: a chain that ends, or one short line. Seeds: `crates/lab/testdata/good/stream-model.json` and `packet-model.json`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onionlab_load::{Chain, ChainKind};

fuzz_target!(|bytes: &[u8]| {
    for kind in [ChainKind::Streams, ChainKind::Packets] {
        match Chain::parse(bytes, kind) {
            Ok(chain) => assert!(chain.expected().is_some()),
            Err(error) => {
                let sentence = error.to_string();
                assert!(!sentence.contains('\n') && sentence.len() < 1024, "{sentence}");
            }
        }
    }
});
