//! What a segment costs. Not a test of time: it prints, and is run by hand with `--release -- --ignored --nocapture`.

use super::{at, millis, textbook};
use crate::tcp::{Tcb, TcpConfig};
use onionlab_quantities::SimTime;
use std::collections::VecDeque;
use std::time::Instant;

fn connected(cfg: &TcpConfig) -> (Tcb, Tcb) {
    let (mut a, mut b) = (Tcb::new(cfg), Tcb::new(cfg));
    b.listen();
    a.connect(cfg, SimTime::ZERO);
    for step in 1..10 {
        if let Some(segment) = a.next_segment(cfg, at(step)) {
            b.on_segment(cfg, at(step), &segment);
        }
        if let Some(segment) = b.next_segment(cfg, at(step)) {
            a.on_segment(cfg, at(step), &segment);
        }
    }
    (a, b)
}

/// A stream at a window of about 100 segments: writing, sending, receiving, reading, acknowledging.
#[test]
#[ignore = "measures"]
fn cost_of_a_segment() {
    for (name, cfg) in [("linux", TcpConfig::linux()), ("textbook", textbook()), ("shadow", TcpConfig::shadow())] {
        let (mut a, mut b) = connected(&cfg);
        let (mut forth, mut back) = (VecDeque::new(), VecDeque::new());
        let mut segments = 0_u64;
        let start = Instant::now();
        for step in 0..1_000_000_u64 {
            // A wire that takes a segment every 10 us, and 100 of them in each direction.
            let now = SimTime::from_nanos(100_000_000 + step * 10_000);
            a.write(&cfg, now, 1448);
            if let Some(segment) = a.next_segment(&cfg, now) {
                forth.push_back((step + 50, segment));
            }
            if forth.front().is_some_and(|(due, _)| *due <= step) {
                let (_, segment) = forth.pop_front().unwrap();
                segments += 1;
                b.on_segment(&cfg, now, &segment);
                b.read(&cfg, now, b.readable());
            }
            if let Some(segment) = b.next_segment(&cfg, now) {
                back.push_back((step + 50, segment));
            }
            if back.front().is_some_and(|(due, _)| *due <= step) {
                let (_, segment) = back.pop_front().unwrap();
                a.on_segment(&cfg, now, &segment);
            }
            if a.deadline() <= now {
                a.on_timer(&cfg, now);
            }
            if b.deadline() <= now {
                b.on_timer(&cfg, now);
            }
        }
        let nanos = start.elapsed().as_nanos() as f64 / segments as f64;
        println!("{name}: {nanos:.0} ns per data segment with its share of acknowledgements ({segments} segments)");
    }
}

/// A cell at a time: each is acknowledged before the next is written.
#[test]
#[ignore = "measures"]
fn cost_of_a_lonely_cell() {
    let cfg = TcpConfig::linux();
    let (mut a, mut b) = connected(&cfg);
    let start = Instant::now();
    for step in 0..1_000_000_u64 {
        let now = SimTime::from_nanos(100_000_000 + step * 300_000_000);
        a.write(&cfg, now, 543);
        let segment = a.next_segment(&cfg, now).unwrap();
        b.on_segment(&cfg, now + millis(20), &segment);
        b.read(&cfg, now + millis(20), 543);
        let mut answered = now + millis(20);
        if !b.wants_send(&cfg) {
            answered = b.deadline();
            b.on_timer(&cfg, answered);
        }
        let answer = b.next_segment(&cfg, answered).unwrap();
        a.on_segment(&cfg, answered + millis(20), &answer);
    }
    println!("{:.0} ns per cell with its acknowledgement", start.elapsed().as_nanos() as f64 / 1e6);
}
