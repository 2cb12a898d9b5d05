//! `simulator = "nstor"`: one key for all that the experiments with that simulator's models set one by one.

use onionlab_lab::Scenario;
use onionlab_lab::scenario::resolved::Treatment;
use onionlab_lab::scenario::treatment::{ChannelReads, FlowControl, Links, Tls};
use std::fs;
use std::path::Path;

fn treatments(text: String) -> Vec<Treatment> {
    Scenario::parse(Path::new("test.toml"), text).and_then(|scenario| scenario.resolve()).unwrap().treatments
}

/// The experiments name every key, as their records must not change with what the one key stands for.
#[test]
fn one_key_makes_the_treatments_that_the_experiments_spell_out() {
    const SPELT_OUT: [&str; 11] = [
        "net = ",
        "tls = ",
        "circuitmux = ",
        "channel-scheduler = ",
        "predicted-circuits = ",
        "flow-control = \"windows\"",
        "circuit-window = ",
        "circuit-window-increment = ",
        "stream-window = ",
        "stream-window-increment = ",
        "[base]",
    ];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/predictor");
    for file in ["toy-1.toml", "toy-2.toml"] {
        let text = fs::read_to_string(folder.join(file)).unwrap();
        let left: Vec<&str> = text.lines().filter(|line| !SPELT_OUT.iter().any(|key| line.starts_with(key))).collect();
        assert!(text.lines().count() - left.len() > 10, "{file} spells out what the key stands for");
        let short = treatments(format!("{}\n[base]\nsimulator = \"nstor\"\n", left.join("\n")));
        // The one thing that they do not set: a cell of 50 or more is left 20 bytes short.
        let spelt: Vec<Treatment> =
            treatments(text).into_iter().map(|treatment| Treatment { random_cells: false, ..treatment }).collect();
        assert_eq!(short, spelt, "{file}");
        assert_eq!(short.len(), 6);
    }
}

#[test]
fn single_values_can_be_set_beside_it() {
    let of = |keys: &str| {
        let text = format!(
            "title = \"A test\"\nduration = \"1 s\"\n[network]\nkind = \"synthetic\"\n[base]\nsimulator = \"nstor\"\n{keys}\n\
             [[clients]]\ngroup = \"a\"\ncount = 1\nload = {{ kind = \"bulk\", size = \"1 MB\" }}\n"
        );
        treatments(text).remove(0)
    };
    let nstor = of("");
    assert_eq!((nstor.circuit_window, nstor.circuit_window_increment, nstor.transport.mss), (Some(500), Some(50), 536));
    assert_eq!(of("circuit-window = 1000"), Treatment { circuit_window: Some(1000), ..nstor.clone() });
    let with_tls = Treatment { tls: Tls::V1_3, channel_reads: Some(ChannelReads::Share), ..nstor.clone() };
    assert_eq!(of("tls = \"1.3\""), with_tls);
    let pctcp = of("links = \"per-circuit\"");
    assert_eq!(pctcp, Treatment { links: Links::PerCircuit, per_circuit_clients: Some(false), ..nstor.clone() });
    let linux = of("net = \"linux\"");
    assert_eq!((linux.transport.mss, linux.circuit_window, linux.flow_control), (1448, Some(500), Some(FlowControl::Windows)));
    let planned = of("flow-control = \"predictor\"");
    assert_eq!((planned.circuit_window, planned.links, planned.transport.mss), (None, Links::PerCircuit, 536));
}
