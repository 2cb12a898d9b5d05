//! Any bytes as recorded traffic: flows and streams in order, or one short line. Seed: `crates/lab/testdata/good/traffic.json`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onionlab_load::{LoadModel, Traffic};
use onionlab_quantities::{RandomStream, Seed};
use std::sync::Arc;

fuzz_target!(|bytes: &[u8]| match Traffic::parse(bytes) {
    Ok(traffic) => {
        let names: Vec<String> = traffic.clients().into_iter().map(str::to_owned).collect();
        let traffic = Arc::new(traffic);
        for name in names {
            let LoadModel::Replay(mut replay) = toml::from_str("kind = \"replay\"\npath = \"x\"").unwrap() else { unreachable!() };
            replay.traffic = Some(Arc::clone(&traffic));
            let load = LoadModel::Replay(replay).of_client(&name);
            for k in 0..load.transfers().unwrap() {
                load.flow(RandomStream::new(Seed(1), &name, "load"), k).unwrap().for_each(drop);
            }
        }
    }
    Err(error) => {
        let sentence = error.to_string();
        assert!(!sentence.contains('\n') && sentence.len() < 1024, "{sentence}");
    }
});
