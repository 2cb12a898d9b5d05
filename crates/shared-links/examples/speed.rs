//! How long reading, drawing and expecting take: `cargo run --release --example speed -- CONSENSUS` (built-in network without).

use onionlab_directory::{Consensus, synth};
use onionlab_paths::{PathOptions, PathSelector, Request};
use onionlab_quantities::{RandomStream, Seed};
use onionlab_shared_links::{Positions, Question, draw::draw, expectation::expect};
use std::hint::black_box;
use std::time::Instant;

/// Shortest of a few runs, in milliseconds.
fn milliseconds<T>(mut run: impl FnMut() -> T) -> f64 {
    let one = |_| {
        let start = Instant::now();
        black_box(run());
        start.elapsed().as_secs_f64() * 1e3
    };
    (0..5).map(one).fold(f64::INFINITY, f64::min)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let network = if let Some(path) = std::env::args().nth(1) {
        println!("read and parse        {:8.1} ms", milliseconds(|| Consensus::read(&path)));
        Consensus::read(&path)?
    } else {
        println!("synthesise            {:8.1} ms", milliseconds(synth::embedded));
        synth::embedded()
    };
    let text = network.to_document();
    println!("parse {:4} KiB plain   {:8.1} ms", text.len() >> 10, milliseconds(|| Consensus::parse(text.as_bytes())));
    let selector = PathSelector::new(&network.relays, &network.weights, &PathOptions::default())?;
    let stream = RandomStream::new(Seed(1), "speed", "path");
    let paths = milliseconds(|| {
        (0..1_000_000)
            .map(|i| selector.choose(&Request::default(), stream.member(i)).map_or(0, |path| u64::from(path.middle.0)))
            .sum::<u64>()
    });
    println!("1,000,000 paths       {paths:8.1} ms");
    for (name, question) in [
        ("external directed", Question::external(1_000_000)),
        ("internal undirected", Question::internal(1_000_000).undirected()),
    ] {
        let positions = Positions::new(&network, &question)?;
        println!("{name}: positions  {:8.1} ms", milliseconds(|| Positions::new(&network, &question)));
        println!("  draw of 1,000,000   {:8.1} ms", milliseconds(|| draw(&network, &positions, &question, Seed(1))));
        let question = Question { circuits: 96_000, ..question };
        println!("  draw of 96,000      {:8.1} ms", milliseconds(|| draw(&network, &positions, &question, Seed(1))));
        println!("  expectation         {:8.1} ms", milliseconds(|| expect(&positions, &question)));
        let question = Question { per_client: 64, ..question };
        println!("  expectation, k = 64 {:8.1} ms", milliseconds(|| expect(&positions, &question)));
        for guards in [3, 20] {
            let question = Question { guards_per_client: guards, ..question.clone() };
            println!("  {guards:2} guards           {:8.1} ms", milliseconds(|| expect(&positions, &question)));
        }
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    if let Some(peak) = status.lines().find(|line| line.starts_with("VmHWM")) {
        println!("peak memory           {peak}");
    }
    Ok(())
}
