//! `make bench`: events and cell-hops a second, memory and instructions, on fixed worlds.
//!
//! The worlds do not change from one version to the next: figures of two versions compare. What is timed is `World::run_until` after the
//! circuits are built and the load has set in. Instructions are counted by `valgrind --tool=callgrind` on the small world, where valgrind is
//! installed: they repeat exactly whatever else the machine does.

mod predictor;
mod world;

use onionlab_allocator as _;
use onionlab_quantities::{SimDuration, SimTime};
use onionlab_tor::World;
use serde_json::{Value, json};
use std::process::Command;
use std::time::Instant;
use world::LITTLE_LOSS;

/// Simulated seconds before the clock is started.
const WARM_UP: u64 = 30;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    match arguments.first().map(String::as_str) {
        Some("--instructions") => {
            // Run by this program itself, under callgrind: prints the cell-hops that it simulated.
            let seconds: u64 = arguments.get(1).and_then(|text| text.parse().ok()).unwrap_or(1);
            let mut world = world::build(20, 60, LITTLE_LOSS);
            world.run_until(at(10 + seconds));
            println!("{}", world.cell_hops());
        }
        Some("--profile") => {
            let seconds: u64 = arguments.get(1).and_then(|text| text.parse().ok()).unwrap_or(WARM_UP + 20);
            let mut world = world::build(130, 5000, LITTLE_LOSS);
            world.run_until(at(seconds));
            println!("{} events, {} cell-hops, {} cells in flight", world.events(), world.cell_hops(), world.cells_in_flight());
        }
        Some("--predictor") => {
            predictor::measure();
        }
        other => run(other),
    }
}

fn at(seconds: u64) -> SimTime {
    SimTime::ZERO + SimDuration::from_secs(seconds)
}

fn run(output: Option<&str>) {
    let mut rows = Vec::new();
    for (name, relays, clients, loss, seconds) in [
        ("130 relays, 5,000 circuits", 130, 5000, LITTLE_LOSS, 20),
        ("the same, 1 % lost", 130, 5000, 0.01, 20),
        ("20 relays, 60 circuits", 20, 60, LITTLE_LOSS, 60),
    ] {
        rows.push(measure(name, || world::build(relays, clients, loss), seconds));
    }
    println!(
        "{:<28} {:>12} {:>14} {:>12} {:>10} {:>12}",
        "world", "events/s", "cell-hops/s", "x real time", "events/hop", "peak memory"
    );
    for row in &rows {
        println!(
            "{:<28} {:>12} {:>14} {:>12.2} {:>10.2} {:>9} MiB",
            row["world"].as_str().unwrap_or(""),
            thousands(row["events_per_second"].as_f64()),
            thousands(row["cell_hops_per_second"].as_f64()),
            row["simulated_per_wall_second"].as_f64().unwrap_or(0.0),
            row["events_per_cell_hop"].as_f64().unwrap_or(0.0),
            row["peak_memory_bytes"].as_u64().unwrap_or(0) >> 20,
        );
    }
    println!(
        "an idle channel, both ends: {} bytes; an idle circuit: {} bytes",
        World::idle_channel_memory(),
        World::idle_circuit_memory()
    );
    let instructions = instructions_per_cell_hop();
    match &instructions {
        Ok(count) => println!("instructions a cell-hop (20 relays, 60 circuits): {count:.0}"),
        Err(reason) => println!("instructions a cell-hop: not counted, {reason}"),
    }
    let predictor = predictor::measure();
    let report = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "worlds": rows,
        "idle_channel_bytes": World::idle_channel_memory(),
        "idle_circuit_bytes": World::idle_circuit_memory(),
        "instructions_per_cell_hop": instructions.ok(),
        "predictor": predictor,
    });
    let path = output.unwrap_or("target/bench.json");
    match std::fs::write(path, format!("{report:#}\n")) {
        Ok(()) => println!("kept in {path}"),
        Err(error) => println!("not kept: {path}: {error}"),
    }
}

fn thousands(value: Option<f64>) -> String {
    let digits = format!("{:.0}", value.unwrap_or(0.0));
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).unwrap_or("")).collect();
    groups.join(",")
}

/// Runs the world for `seconds` after the warm-up; the best of three runs, since whatever else the machine does only adds.
fn measure(name: &str, build: impl Fn() -> World, seconds: u64) -> Value {
    let mut best: Option<(f64, u64, u64)> = None;
    for _ in 0..3 {
        let mut world = build();
        world.run_until(at(WARM_UP));
        let (events, hops) = (world.events(), world.cell_hops());
        let start = Instant::now();
        world.run_until(at(WARM_UP + seconds));
        let wall = start.elapsed().as_secs_f64();
        if best.is_none_or(|(least, _, _)| wall < least) {
            best = Some((wall, world.events() - events, world.cell_hops() - hops));
        }
    }
    let (wall, events, hops) = best.unwrap_or((1.0, 0, 0));
    json!({
        "world": name,
        "simulated_seconds": seconds,
        "wall_seconds": wall,
        "events": events,
        "cell_hops": hops,
        "events_per_second": events as f64 / wall,
        "cell_hops_per_second": hops as f64 / wall,
        "events_per_cell_hop": events as f64 / hops as f64,
        "simulated_per_wall_second": seconds as f64 / wall,
        "peak_memory_bytes": peak_memory(),
    })
}

fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or("");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Instructions of a longer run less those of a shorter one, over the cell-hops between them: building the world drops out.
fn instructions_per_cell_hop() -> Result<f64, String> {
    let (short, long) = (callgrind(1)?, callgrind(6)?);
    Ok((long.0 - short.0) / (long.1 - short.1))
}

fn callgrind(seconds: u64) -> Result<(f64, f64), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(["--instructions", &seconds.to_string()])
        .output()
        .map_err(|error| format!("valgrind does not start ({error})"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    let collected = errors.lines().find_map(|line| line.split("Collected :").nth(1)).and_then(|count| count.trim().parse().ok());
    let hops = String::from_utf8_lossy(&output.stdout).trim().parse().ok();
    collected.zip(hops).ok_or_else(|| "valgrind reported no count".to_owned())
}
