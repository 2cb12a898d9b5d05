//! Against traces of real exits: tor 0.4.9.11 in Shadow, one line for each look at the window.
//!
//! Lines do not say whose circuit they speak of, so each must be a step from the last line of one of the circuits that have left slow start, and all lines together must be
//! explained by one assignment. Times are whole milliseconds, but the bandwidth estimate (window / smoothed time) gives the smoothed time to some microseconds,
//! and with it each line narrows down its circuit's least time, which then tells circuits apart.

use super::*;
use std::collections::BTreeMap;
use std::io::Read;

/// From the least to the greatest possible value, both included.
type Range = (u64, u64);

fn both(a: Range, b: Range) -> Option<Range> {
    let both = (a.0.max(b.0), a.1.min(b.1));
    (both.0 <= both.1).then_some(both)
}

/// What was cut to whole milliseconds, in microseconds.
fn milliseconds(value: u64) -> Range {
    (value * 1000, value * 1000 + 999)
}

struct Line {
    cwnd: u64,
    /// Before the acknowledged cells are taken off.
    inflight: u64,
    min_rtt: Range,
    ewma_rtt: Range,
    max_rtt: Range,
    bdp: u64,
    slow_start: bool,
}

fn read(folder: &str) -> Option<Vec<Line>> {
    let path = onionlab_real_data::path(&format!("reference/shadow-tor/{folder}/vegas_trace_exit.csv.xz"))?;
    let file = std::fs::File::open(path).unwrap();
    let mut text = String::new();
    liblzma::read::XzDecoder::new(file).read_to_string(&mut text).unwrap();
    let mut rows = text.lines();
    let names: Vec<&str> = rows.next().unwrap().split(',').collect();
    let column = |name: &str| names.iter().position(|&n| n == name).unwrap();
    let columns = ["cwnd", "inflight", "min_rtt_ms", "ewma_rtt_ms", "max_rtt_ms", "vegas_bdp", "bwe", "slow_start"].map(column);
    let line = |row: &str| {
        let cells: Vec<&str> = row.split(',').collect();
        let [cwnd, inflight, min_rtt, ewma_rtt, max_rtt, bdp, bwe, slow_start] =
            columns.map(|c| cells[c].parse::<u64>().unwrap());
        let bytes = cwnd * 514_000;
        let ewma_rtt = both(milliseconds(ewma_rtt), (bytes / (bwe + 1) + 1, bytes / bwe)).expect("two ways to say the same");
        let [min_rtt, max_rtt] = [min_rtt, max_rtt].map(milliseconds);
        Line { cwnd, inflight, min_rtt, ewma_rtt, max_rtt, bdp, slow_start: slow_start == 1 }
    };
    Some(rows.map(line).collect())
}

/// What is known of a circuit after one of its lines.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Circuit {
    cwnd: u64,
    inflight: u64,
    min_rtt: Range,
    ewma_rtt: Range,
    max_rtt: Range,
}

/// An exit's circuit in steady state with this window.
fn steady(cwnd: u64) -> Vegas {
    let mut vegas = Vegas::new(Arc::new(VegasParameters::new(PathType::Exit)));
    (vegas.in_slow_start, vegas.cwnd) = (false, cwnd);
    vegas
}

/// The products that a window and such times make.
fn products(cwnd: u64, min_rtt: Range, ewma_rtt: Range) -> Range {
    let of = |min_rtt, ewma_rtt| {
        let vegas = Vegas { ewma_rtt, min_rtt, ..steady(cwnd) };
        vegas.estimate_bdp(Signals::default())
    };
    (of(min_rtt.0, ewma_rtt.1), of(min_rtt.1, ewma_rtt.0))
}

/// The round-trip times that take the smoothed one from `before` to `after`.
fn times_between(vegas: &mut Vegas, before: Range, after: Range) -> Range {
    let mut smoothed = |ewma_rtt, rtt| {
        (vegas.ewma_rtt, vegas.min_rtt) = (ewma_rtt, ewma_rtt);
        vegas.take_rtt(rtt);
        vegas.ewma_rtt
    };
    // The first time for which this holds.
    let first = |holds: &mut dyn FnMut(u64) -> bool| {
        let (mut no, mut yes) = (0, 60_000_000);
        while yes - no > 1 {
            let middle = u64::midpoint(no, yes);
            *(if holds(middle) { &mut yes } else { &mut no }) = middle;
        }
        yes
    };
    let least = first(&mut |rtt| smoothed(before.1, rtt) >= after.0);
    (least, first(&mut |rtt| smoothed(before.0, rtt) > after.1) - 1)
}

impl Circuit {
    /// The circuit after `line`, and whether it must have been blocked then; none: the line is another's.
    fn step(&self, line: &Line) -> Option<(Self, bool)> {
        let mut vegas = steady(self.cwnd);
        let sendmes = vegas.update_rate().max(1);
        // Since the line before that many cells were acknowledged at most, 31 at least, and nothing was sent beyond the window.
        let inflight = (self.inflight.saturating_sub(31 * sendmes), self.cwnd.max(self.inflight.saturating_sub(31)));
        both(inflight, (line.inflight, line.inflight))?;
        if line.min_rtt.0 > self.min_rtt.1 || line.max_rtt < self.max_rtt {
            return None;
        }
        let mut window = |full, blocked| {
            (vegas.cwnd, vegas.bdp, vegas.inflight) = (self.cwnd, line.bdp, line.inflight);
            (vegas.full, vegas.blocked) = (full, blocked);
            vegas.update_full();
            vegas.steady_state();
            vegas.cwnd == line.cwnd
        };
        // Whether the window was used before is not in the line; whether it is now, mostly.
        let blocked = !window(false, false) && !window(true, false);
        if blocked && !window(false, true) && !window(true, true) {
            return None;
        }
        vegas.cwnd = self.cwnd;
        // The least time as before, as far as the product tells; or the smoothed time is the least now.
        let told = ((line.bdp * line.ewma_rtt.0).div_ceil(self.cwnd), ((line.bdp + 1) * line.ewma_rtt.1 - 1) / self.cwnd);
        let before = both(self.min_rtt, (0, line.ewma_rtt.1)).and_then(|range| both(range, line.min_rtt));
        let as_before = before.and_then(|range| both(range, told));
        let below = both(line.ewma_rtt, line.min_rtt).and_then(|range| both(range, (0, self.min_rtt.1)));
        let new = below.filter(|_| line.bdp == self.cwnd);
        let min_rtt = match (as_before, new) {
            (Some(a), Some(b)) => (a.0.min(b.0), a.1.max(b.1)),
            (a, b) => a.or(b)?,
        };
        both(products(self.cwnd, min_rtt, line.ewma_rtt), (line.bdp, line.bdp))?;
        if sendmes == 1 {
            let rtt = times_between(&mut vegas, self.ewma_rtt, line.ewma_rtt);
            let grown = line.max_rtt > self.max_rtt;
            both(rtt, (if grown { line.max_rtt.0 } else { 0 }, line.max_rtt.1))?;
        }
        Some((Self { min_rtt, ..Self::after(line) }, blocked))
    }

    fn after(line: &Line) -> Self {
        let Line { cwnd, inflight, min_rtt, ewma_rtt, max_rtt, .. } = *line;
        Self { cwnd, inflight, min_rtt, ewma_rtt, max_rtt }
    }
}

/// The windows of slow start, one SENDME after the other.
fn ladder() -> Vec<u64> {
    let mut vegas = Vegas::new(Arc::new(VegasParameters::new(PathType::Exit)));
    let mut windows = Vec::new();
    while vegas.in_slow_start {
        windows.push(vegas.cwnd);
        (vegas.bdp, vegas.full) = (vegas.cwnd, true);
        vegas.slow_start();
    }
    windows
}

/// Whether the circuit must have been blocked when it left slow start for the window of this line, from one of the windows of slow start that make its product; none: no
/// window does.
fn leaves_slow_start(line: &Line, ladder: &[u64]) -> Option<bool> {
    let leaves = |cwnd: u64, blocked: bool| {
        let mut vegas = Vegas { in_slow_start: true, bdp: line.bdp, full: true, blocked, ..steady(cwnd) };
        vegas.slow_start();
        both(products(cwnd, line.min_rtt, line.ewma_rtt), (line.bdp, line.bdp)).is_some()
            && (vegas.cwnd, vegas.in_slow_start) == (line.cwnd, false)
    };
    [false, true].into_iter().find(|&blocked| ladder.iter().any(|&cwnd| leaves(cwnd, blocked)))
}

/// How a trace was explained.
#[derive(Debug, PartialEq)]
struct Explained {
    /// Exits from slow start, each logged before and after.
    circuits: usize,
    /// Of them, those with less than gamma queued: the circuit was blocked.
    left_blocked: u32,
    steady: usize,
    /// Of the lines in steady state, those that one assignment of all lines up to them explains and no other.
    alone: usize,
    /// Lines whose window shrank with too little queued for it: the circuit was blocked.
    blocked: u32,
}

fn explain(folder: &str, lines: &[Line]) -> Explained {
    let ladder = ladder();
    let mut explained = Explained { circuits: 0, left_blocked: 0, steady: 0, alone: 0, blocked: 0 };
    // Each assignment as the circuits that it makes, and how many lines must have been blocked.
    let mut assignments = BTreeMap::from([(Vec::<Circuit>::new(), 0_u32)]);
    let mut number = 0;
    while let Some(line) = lines.get(number) {
        if line.slow_start {
            let Some(blocked) = leaves_slow_start(line, &ladder) else { panic!("{folder}, line {number}: {}", line.cwnd) };
            explained.circuits += 1;
            explained.left_blocked += u32::from(blocked);
            // The next line says the same with slow start over.
            number += 1;
            let again = &lines[number];
            assert!((again.cwnd, again.bdp, again.slow_start) == (line.cwnd, line.bdp, false), "{folder}, line {number}");
            for (mut circuits, blocked) in std::mem::take(&mut assignments) {
                circuits.push(Circuit::after(again));
                circuits.sort();
                assignments.insert(circuits, blocked);
            }
        } else {
            let mut next = BTreeMap::new();
            for (circuits, blocked) in &assignments {
                for (place, circuit) in circuits.iter().enumerate() {
                    let Some((after, was_blocked)) = circuit.step(line) else { continue };
                    let mut circuits = circuits.clone();
                    circuits[place] = after;
                    circuits.sort();
                    let blocked = blocked + u32::from(was_blocked);
                    let least = next.entry(circuits).or_insert(blocked);
                    *least = blocked.min(*least);
                }
            }
            assert!(!next.is_empty(), "{folder}, line {number}: no step of ours leads there");
            assert!(next.len() <= 64, "{folder}, line {number}: too many assignments to follow");
            explained.steady += 1;
            explained.alone += usize::from(next.len() == 1);
            assignments = next;
        }
        number += 1;
    }
    explained.blocked = assignments.into_values().min().unwrap_or(0);
    explained
}

/// One client on an idle network, with a new circuit for each transfer and with one circuit for all; eight clients that share an exit; two over a slow relay.
#[test]
fn a_real_exit_takes_the_same_steps() {
    for (folder, expected) in [
        ("E0/cc2-freshcirc", Explained { circuits: 20, left_blocked: 0, steady: 3720, alone: 3427, blocked: 0 }),
        ("E0/cc2-samecirc", Explained { circuits: 1, left_blocked: 0, steady: 4018, alone: 4018, blocked: 4 }),
        ("E1/cc2-noloss", Explained { circuits: 8, left_blocked: 1, steady: 127_008, alone: 126_808, blocked: 21 }),
        ("E2/cc2-hldefault-upbn", Explained { circuits: 2, left_blocked: 0, steady: 12_686, alone: 12_686, blocked: 0 }),
    ] {
        let Some(lines) = read(folder) else { return };
        assert_eq!(explain(folder, &lines), expected, "{folder}");
    }
}
