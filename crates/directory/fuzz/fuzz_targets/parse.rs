//! Whatever the bytes: a network that can be written and read again, or an error. `cargo +nightly fuzz run parse ../testdata`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use onionlab_directory::{Consensus, MissingWeights};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(consensus) = Consensus::parse_with(bytes, "input", MissingWeights::Compute) {
        Consensus::parse(consensus.to_document().as_bytes()).expect("what was read can be read again");
    }
});
