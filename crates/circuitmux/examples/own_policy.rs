//! A policy of one's own: the circuit with the shortest queue goes first.

use onionlab_circuitmux::{Circuitmux, CircuitmuxPolicy, CustomPolicy, PolicyKind, Slot};
use onionlab_quantities::SimTime;
use std::cmp::Ordering;
use std::collections::BTreeMap;

#[derive(Default)]
struct ShortestQueue(BTreeMap<Slot, u32>);

impl CircuitmuxPolicy for ShortestQueue {
    fn notify_set_cells(&mut self, slot: Slot, cells: u32, _now: SimTime) {
        if cells > 0 {
            self.0.insert(slot, cells)
        } else {
            self.0.remove(&slot)
        };
    }
    fn notify_inactive(&mut self, slot: Slot, _now: SimTime) {
        self.0.remove(&slot);
    }
    fn pick(&mut self, _now: SimTime) -> Option<Slot> {
        self.0.iter().min_by_key(|&(_, cells)| cells).map(|(&slot, _)| slot)
    }
    fn compare(&self, other: &Self) -> Ordering {
        let shortest = |policy: &Self| policy.0.values().min().copied().unwrap_or(u32::MAX);
        shortest(self).cmp(&shortest(other))
    }
}

fn main() {
    let now = SimTime::ZERO;
    let mut mux = Circuitmux::new(&PolicyKind::Custom(CustomPolicy::new("shortest-queue", ShortestQueue::default)));
    let circuits = [mux.attach(now, 3), mux.attach(now, 1), mux.attach(now, 2)];
    let mut queued = [3, 1, 2];
    while let Some(slot) = mux.pick(now) {
        let circuit = circuits.iter().position(|&s| s == slot).expect("only attached circuits are picked");
        queued[circuit] -= 1;
        mux.sent(slot, queued[circuit], now);
        println!("circuit {circuit} sends a cell, {} left", queued[circuit]);
    }
    assert_eq!(mux.cells(), 0);
}
