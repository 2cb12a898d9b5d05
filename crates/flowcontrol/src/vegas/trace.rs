//! Against the trace of a real exit: tor 0.4.9.11 in Shadow, one line a SENDME.
//!
//! The trace has whole milliseconds and only the smoothed times, so each line is checked as a step from the line before: the
//! product from window and times, and the window from the product.

use super::*;
use std::io::Read;

struct Line {
    host: String,
    cwnd: u64,
    min_rtt: f64,
    ewma_rtt: f64,
    bdp: u64,
    slow_start: bool,
}

fn read(folder: &str) -> Option<Vec<Line>> {
    let path =
        format!("{}/../../../shared/data/reference/shadow-tor/{folder}/vegas_trace_exit.csv.xz", env!("CARGO_MANIFEST_DIR"));
    let Ok(file) = std::fs::File::open(&path) else {
        println!("skipped: there is no {path}");
        return None;
    };
    let mut text = String::new();
    liblzma::read::XzDecoder::new(file).read_to_string(&mut text).unwrap();
    let mut rows = text.lines();
    let names: Vec<&str> = rows.next().unwrap().split(',').collect();
    let column = |name: &str| names.iter().position(|&n| n == name).unwrap();
    let columns = ["host", "cwnd", "min_rtt_ms", "ewma_rtt_ms", "vegas_bdp", "slow_start"].map(column);
    let line = |row: &str| {
        let cells: Vec<&str> = row.split(',').collect();
        let [host, cwnd, min_rtt, ewma_rtt, bdp, slow_start] = columns.map(|c| cells[c]);
        Line {
            host: host.to_owned(),
            cwnd: cwnd.parse().unwrap(),
            min_rtt: min_rtt.parse().unwrap(),
            ewma_rtt: ewma_rtt.parse().unwrap(),
            bdp: bdp.parse().unwrap(),
            slow_start: slow_start == "1",
        }
    };
    Some(rows.map(line).collect())
}

/// The windows that one SENDME can make of `cwnd` in steady state, the circuit not blocked, when the product is `bdp`.
fn steps(cwnd: u64, bdp: u64) -> [u64; 2] {
    [false, true].map(|full| {
        let mut vegas = Vegas::new(Arc::new(VegasParameters::new(PathType::Exit)));
        (vegas.in_slow_start, vegas.cwnd, vegas.bdp, vegas.full) = (false, cwnd, bdp, full);
        vegas.steady_state();
        vegas.cwnd
    })
}

/// Lines in steady state, and how many of them have an explicable product and an explicable window.
fn explained(lines: &[Line]) -> (usize, usize, usize) {
    let (mut all, mut products, mut windows) = (0, 0, 0);
    for pair in lines.windows(2) {
        let [before, after] = pair else { unreachable!() };
        if before.slow_start || after.slow_start || before.host != after.host {
            continue;
        }
        all += 1;
        let cwnd = before.cwnd as f64;
        let bounds = [(-0.5, 0.5), (0.5, -0.5)].map(|(min, ewma)| cwnd * (after.min_rtt + min) / (after.ewma_rtt + ewma));
        products += usize::from((bounds[0] - 1.0..=bounds[1]).contains(&(after.bdp as f64)));
        windows += usize::from(steps(before.cwnd, after.bdp).contains(&after.cwnd));
    }
    (all, products, windows)
}

/// One client on an idle network, with a new circuit for each transfer and with one circuit for all.
#[test]
fn a_real_exit_takes_the_same_steps() {
    // In four lines of the second trace the window shrinks by one cell with less than beta queued: the circuit was blocked.
    for (folder, least_lines, blocked) in [("E0/cc2-freshcirc", 3_700, 0), ("E0/cc2-samecirc", 4_000, 4)] {
        let Some(lines) = read(folder) else { return };
        let (all, products, windows) = explained(&lines);
        assert!(all > least_lines, "{folder}: {all}");
        assert_eq!((products, windows), (all, all - blocked), "{folder}");
    }
}
