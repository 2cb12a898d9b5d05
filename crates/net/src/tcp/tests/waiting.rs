//! How long cells wait for Nagle's algorithm and delayed acknowledgements, held against Linux's own TCP.
//!
//! Linux's figures: `tools/measure_tcp.py`, Linux 6.18 with CUBIC, two namespaces and a path of 12.5 ms between them, November 2026. That machine adds a
//! tenth of a millisecond, and a few ms to one time in a hundred. (Figures that stood here before were BBR's, which was that machine's default and paces.)

use super::at;
use super::harness::Pair;
use crate::tcp::TcpConfig;
use onionlab_quantities::{RandomStream, Seed, SimDuration, SimTime};

/// What one end writes: when, in ms, and how many bytes.
type Writes = Vec<(f64, u64)>;

const QUANTILES: [f64; 5] = [0.1, 0.25, 0.5, 0.75, 0.9];
/// Writes at the beginning that do not count: the window opens, and quick acknowledgements are used up.
const LEFT_OUT: usize = 50;

/// Bytes of a record of TLS 1.3 with so many cells.
fn record(cells: u64) -> u64 {
    cells * 514 + 22
}

/// One of so many cells each `interval` ms, for so many seconds.
fn repeated(interval: u32, cells: &[u64], seconds: u32) -> Writes {
    let random = RandomStream::new(Seed(u64::from(interval)), "waiting", "cells");
    let draw = |i| cells[random.at(u64::from(i)).below(cells.len() as u64) as usize];
    (0..1000 * seconds / interval).map(|i| (f64::from(i * interval), record(draw(i)))).collect()
}

/// From each write of either end to the arrival of its last byte, in ms; 12.5 ms one way.
fn times(nagle: bool, flows: [&Writes; 2], seed: u64) -> [Vec<f64>; 2] {
    let mut pair = Pair::connected(TcpConfig { nagle, ..TcpConfig::linux() }, SimDuration::from_micros(12_500), seed);
    // Without it times would keep step with the writes, as they do nowhere.
    pair.wires.iter_mut().for_each(|wire| wire.jitter = SimDuration::from_micros(200));
    let mut writes: Vec<_> =
        [0, 1].into_iter().flat_map(|side| flows[side].iter().map(move |&(ms, bytes)| (ms, side, bytes))).collect();
    writes.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut written: [Vec<(SimTime, u64)>; 2] = Default::default();
    let mut found: [Vec<f64>; 2] = Default::default();
    let mut run_until = |pair: &mut Pair, written: &[Vec<(SimTime, u64)>; 2], end: SimTime| {
        while pair.step(end) {
            for side in [0, 1] {
                let reader = &pair.ends[1 - side];
                while let Some(write) = written[side].get(found[side].len()).filter(|write| write.1 <= reader.read) {
                    found[side].push((reader.last_read_at - write.0).as_secs_f64() * 1000.0);
                }
            }
        }
        pair.now = pair.now.max(end);
    };
    let mut total = [0; 2];
    for (ms, side, bytes) in writes {
        run_until(&mut pair, &written, at(200) + SimDuration::from_micros((ms * 1000.0) as u64));
        pair.ends[side].to_write += bytes;
        total[side] += bytes;
        written[side].push((pair.now, total[side]));
    }
    let end = pair.now + SimDuration::from_secs(2);
    run_until(&mut pair, &written, end);
    assert!([0, 1].iter().all(|&side| found[side].len() == flows[side].len()));
    found
}

fn quantiles(mut times: Vec<f64>) -> [f64; 5] {
    times.sort_by(f64::total_cmp);
    QUANTILES.map(|quantile| times[(quantile * times.len() as f64) as usize])
}

/// Fails unless each quantile is within `bound` ms of Linux's.
fn compare(name: &str, times: Vec<f64>, linux: [f64; 5], bound: f64) {
    let ours = quantiles(times);
    let near = ours.iter().zip(linux).all(|(ours, linux)| (ours - linux).abs() < bound);
    assert!(near, "{name}: {ours:.1?} ms, Linux {linux:.1?} ms");
}

const MIXED: [u64; 8] = [1, 2, 3, 4, 5, 6, 8, 12];

/// KIST of tor 0.3.5 writes each 10 ms.
#[test]
fn bursts_each_10_ms() {
    let linux: [(bool, &[u64], [f64; 5]); 8] = [
        (true, &[1], [14.8, 18.7, 22.5, 31.3, 32.5]),
        (true, &[3], [15.3, 18.6, 22.5, 22.5, 22.6]),
        (true, &[7], [12.5, 12.6, 12.6, 22.5, 22.6]),
        (true, &MIXED, [13.2, 17.7, 22.5, 22.6, 22.6]),
        (false, &[1], [12.5, 12.5, 12.5, 12.5, 12.6]),
        (false, &[3], [12.5, 12.5, 12.5, 12.6, 12.6]),
        (false, &[7], [12.5, 12.5, 12.5, 12.6, 12.6]),
        (false, &MIXED, [12.5, 12.5, 12.5, 12.6, 12.6]),
    ];
    for (nagle, cells, linux) in linux {
        let times = times(nagle, [&repeated(10, cells, 20), &vec![]], 1);
        compare(&format!("Nagle {nagle}, {cells:?} cells each 10 ms"), times[0][LEFT_OUT..].to_vec(), linux, 1.0);
    }
}

/// What one end writes regularly: each so many ms one of so many cells.
type Flow<'a> = (u32, &'a [u64]);

/// Few writes, alone or against others: what the acknowledgement waits for depends on what was written the other way.
#[test]
fn few_writes_and_writes_both_ways() {
    let none: Flow = (20_001, &[1]);
    let cases: [(Flow, Flow, [f64; 5], [f64; 5]); 4] = [
        ((60, &[1]), none, [12.5, 12.5, 12.6, 12.6, 12.6], [0.0; 5]),
        ((60, &[7]), none, [12.6, 12.6, 12.6, 12.7, 12.7], [0.0; 5]),
        ((60, &[1]), (170, &[1]), [12.5, 12.6, 12.6, 12.7, 20.4], [12.5, 12.6, 12.6, 12.6, 12.6]),
        ((10, &[5, 10, 15, 20]), (20, &[1]), [15.4, 18.9, 22.5, 22.5, 22.6], [14.7, 18.7, 24.8, 31.1, 34.8]),
    ];
    for ((interval, cells), against, linux, linux_back) in cases {
        let flows = [repeated(interval, cells, 20), repeated(against.0, against.1, 20)];
        let times = times(true, [&flows[0], &flows[1]], 1);
        let name = format!("{cells:?} cells each {interval} ms against {against:?}");
        // Where writes and acknowledgements meet by chance it is Linux's tick of 4 ms that decides.
        let bound = if against.0 == 170 { 3.0 } else { 1.5 };
        compare(&name, times[0][LEFT_OUT..].to_vec(), linux, bound);
        if against != none {
            compare(&format!("{name}, the other way"), times[1][LEFT_OUT..].to_vec(), linux_back, 1.5);
        }
    }
}

/// Seven cells each 60 ms against one each 97 ms: Linux's timers go off up to a tick of 4 ms late.
#[test]
fn the_ends_of_records_wait_in_turns() {
    let flows = [repeated(60, &[7], 20), repeated(97, &[1], 20)];
    let times = times(true, [&flows[0], &flows[1]], 1);
    compare("7 cells each 60 ms", times[0][LEFT_OUT..].to_vec(), [12.5, 12.5, 12.6, 15.1, 18.4], 3.0);
    compare("1 cell each 97 ms", times[1][LEFT_OUT..].to_vec(), [12.5, 12.5, 12.5, 12.6, 12.6], 1.5);
}

/// Downloads of a second, SENDMEs against them, and 1 to 9 ms after the last SENDME of each the BEGIN of the next stream.
#[test]
fn a_begin_after_the_last_sendme() {
    let random = RandomStream::new(Seed(1), "waiting", "begins");
    let mut drawn = 0;
    let mut draw = || {
        drawn += 1;
        random.at(drawn).uniform()
    };
    let (mut data, mut answers, mut begins) = (Writes::new(), Writes::new(), Vec::new());
    for download in 0..400 {
        let first = f64::from(1500 * download);
        let mut next = first;
        while next < first + 1000.0 {
            data.push((next, record(36 + 2 * (draw() * 4.0) as u64) + 4 * 22));
            next += 8.0 + 4.0 * draw();
        }
        let last = data.last().unwrap().0 + 13.0;
        next = first + 13.0;
        while next < last - 1.0 {
            answers.push((next, record(1)));
            next += 6.0 + 8.0 * draw();
        }
        begins.push(answers.len() + 1);
        answers.extend([(last, record(1)), (last + 1.0 + 8.0 * draw(), record(1))]);
    }
    // Four runs together: the quantiles of one differ from another's by up to 1.4 ms.
    let of_seed = |seed| {
        let times = times(true, [&data, &answers], seed);
        begins.iter().map(|&begin| times[1][begin]).collect::<Vec<_>>()
    };
    compare("BEGIN", (1..=4).flat_map(of_seed).collect(), [14.6, 17.3, 22.5, 28.5, 34.6], 3.0);
}
