//! Shortest queue first: short answers pass long downloads, but nobody waits longer than `patience` for their turn.

use onionlab_policy::{CircuitmuxPolicy, OwnPolicy, Parameters, SimDuration, SimTime, Slot};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Each active circuit with its queue in cells and since when it waits for its turn.
struct ShortestQueue(BTreeMap<Slot, (u32, SimTime)>, SimDuration, SimTime);

impl ShortestQueue {
    /// The circuit that goes first and its rank: those that have lost patience, then the shortest queue, then the longest wait.
    fn first(&self) -> Option<(u32, SimTime, Slot)> {
        let rank = |(&slot, &(cells, since)): (&Slot, &(u32, SimTime))| {
            let patient = self.2 - since < self.1;
            (if patient { cells } else { 0 }, since, slot)
        };
        self.0.iter().map(rank).min()
    }
}

impl OwnPolicy for ShortestQueue {
    fn new(parameters: &mut Parameters<'_>) -> Result<Self, String> {
        let patience = parameters.get_or("patience", SimDuration::from_secs(1))?;
        Ok(Self(BTreeMap::new(), patience, SimTime::ZERO))
    }
}

impl CircuitmuxPolicy for ShortestQueue {
    fn notify_set_cells(&mut self, slot: Slot, cells: u32, now: SimTime) {
        self.2 = now;
        if cells > 0 {
            self.0.entry(slot).or_insert((0, now)).0 = cells;
        } else {
            self.0.remove(&slot);
        }
    }
    fn notify_inactive(&mut self, slot: Slot, _now: SimTime) {
        self.0.remove(&slot);
    }
    fn notify_sent(&mut self, slot: Slot, _cells: u32, now: SimTime) {
        self.0.entry(slot).and_modify(|(_, since)| *since = now);
    }
    fn pick(&mut self, now: SimTime) -> Option<Slot> {
        self.2 = now;
        self.first().map(|(_, _, slot)| slot)
    }
    fn compare(&self, other: &Self) -> Ordering {
        self.first().map(|(cells, since, _)| (cells, since)).cmp(&other.first().map(|(cells, since, _)| (cells, since)))
    }
}

onionlab_policy::export!(ShortestQueue);

#[cfg(test)]
mod tests {
    use super::*;
    use onionlab_policy::{Circuitmux, CustomPolicy, PolicyKind};

    #[test]
    fn a_short_queue_passes_a_long_one_until_that_has_waited_a_second() {
        let make = || ShortestQueue::new(&mut Parameters::new([])).unwrap();
        let mut mux = Circuitmux::new(&PolicyKind::Custom(CustomPolicy::new("shortest queue", make)));
        let at = |millis: u64| SimTime::from_nanos(millis * 1_000_000);
        let (long, short) = (mux.attach(at(0), 100), mux.attach(at(0), 5));
        assert_eq!(mux.pick(at(1)), Some(short));
        mux.sent(short, 4, at(1));
        assert_eq!(mux.pick(at(999)), Some(short));
        assert_eq!(mux.pick(at(1000)), Some(long));
    }
}
