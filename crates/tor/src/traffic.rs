//! How much each circuit sends to a neighbouring relay, beside those that share the way with it: whether it is light or heavy (module `light_heavy`).
//!
//! A relay counts the cells of each circuit with exponential decay and compares the count with the average over the circuits that carry traffic to the same neighbour.
//!
//! **Who carries traffic.** A circuit whose count is one cell or more. Cells that build a circuit or join it to others don't count, and what was sent long ago has decayed. tor's clients build most of
//! their circuits ahead and never use some: with those in the average every circuit in use would be far above it, and the light channel would carry next to nothing.

use crate::ids::CircuitId;
use onionlab_quantities::{SimDuration, SimTime};
use std::collections::{BTreeSet, HashMap};

/// When a circuit moves between the light and the heavy channel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LightAndHeavy {
    /// To the heavy one above so many times the average count of the circuits that carry traffic.
    pub heavy_above: f64,
    /// Back below so many times the average.
    pub light_below: f64,
    /// A cell counts half after this time.
    pub half_life: SimDuration,
}

/// A decaying sum, as it was at some time.
#[derive(Debug, Clone, Copy, Default)]
struct Decaying {
    value: f64,
    at: SimTime,
}

impl Decaying {
    fn at(self, now: SimTime, half_life: SimDuration) -> f64 {
        self.value * libm::exp2(-(now.saturating_since(self.at).as_secs_f64() / half_life.as_secs_f64()))
    }

    fn add(&mut self, amount: f64, now: SimTime, half_life: SimDuration) -> f64 {
        *self = Self { value: (self.at(now, half_life) + amount).max(0.0), at: now };
        self.value
    }

    /// When it will have come down to one: in a nanosecond at least.
    fn fades(self, now: SimTime, half_life: SimDuration) -> SimTime {
        let half_lives = libm::log2(self.at(now, half_life).max(1.0));
        now + SimDuration::from_secs_f64_rounded(half_lives * half_life.as_secs_f64()).max(SimDuration::from_nanos(1))
    }
}

/// One of the two queues of a circuit at one of its hops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct QueueId {
    pub circuit: CircuitId,
    pub hop: u8,
    pub direction: u8,
}

/// What a relay has sent from one queue.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    cells: Decaying,
    /// It carries traffic, at least until then.
    carries_until: Option<SimTime>,
    /// It is to move when nothing else is left to do in this instant.
    noted: bool,
}

/// What a relay sends to one neighbour on circuits that carry traffic.
#[derive(Debug, Default)]
struct Load {
    /// Sum of their counts.
    sum: Decaying,
    /// Each once, by when its count is to be looked at next.
    carrying: BTreeSet<(SimTime, QueueId)>,
}

/// The counts of all relays.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    counts: HashMap<QueueId, Count>,
    /// From one host to another.
    loads: HashMap<u64, Load>,
}

impl Traffic {
    /// Cells of this queue are counted from now on.
    pub fn follow(&mut self, of: QueueId) {
        self.counts.insert(of, Count::default());
    }

    /// Whether they are.
    pub fn follows(&self, of: QueueId) -> bool {
        self.counts.contains_key(&of)
    }

    /// The queue is to move; false if that was known.
    pub fn note(&mut self, of: QueueId) -> bool {
        self.counts.get_mut(&of).is_some_and(|count| !std::mem::replace(&mut count.noted, true))
    }

    /// It is no longer to move; false if it is not there any more.
    pub fn denote(&mut self, of: QueueId) -> bool {
        self.counts.get_mut(&of).map(|count| count.noted = false).is_some()
    }

    /// A cell was sent: the circuit's count and the average over all that carry traffic to that neighbour, none if the cell is not counted.
    pub fn count(&mut self, of: QueueId, pair: u64, now: SimTime, half_life: SimDuration) -> Option<(f64, f64)> {
        let load = self.loads.entry(pair).or_default();
        while let Some(&(look, other)) = load.carrying.first().filter(|(look, _)| *look <= now) {
            load.carrying.remove(&(look, other));
            let count = self.counts.get_mut(&other)?;
            let cells = count.cells.at(now, half_life);
            count.carries_until = (cells > 1.0).then(|| count.cells.fades(now, half_life));
            match count.carries_until {
                Some(until) => _ = load.carrying.insert((until, other)),
                None => _ = load.sum.add(-cells, now, half_life),
            }
        }
        let count = self.counts.get_mut(&of)?;
        let own = count.cells.add(1.0, now, half_life);
        let joins = count.carries_until.is_none();
        if joins {
            let until = count.cells.fades(now, half_life);
            count.carries_until = Some(until);
            load.carrying.insert((until, of));
        }
        let sum = load.sum.add(if joins { own } else { 1.0 }, now, half_life);
        Some((own, sum / load.carrying.len() as f64))
    }

    /// The circuit is gone.
    pub fn forget(&mut self, of: QueueId, pair: u64, now: SimTime, half_life: SimDuration) {
        let Some(count) = self.counts.remove(&of) else { return };
        if let (Some(until), Some(load)) = (count.carries_until, self.loads.get_mut(&pair)) {
            load.carrying.remove(&(until, of));
            load.sum.add(-count.cells.at(now, half_life), now, half_life);
            if load.carrying.is_empty() {
                self.loads.remove(&pair);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_world::at;

    const TEN: SimDuration = SimDuration::from_secs(10);
    const PAIR: u64 = 7;

    fn queue(circuit: u32) -> QueueId {
        QueueId { circuit: CircuitId(circuit), hop: 1, direction: 1 }
    }

    fn send(traffic: &mut Traffic, circuit: u32, cells: u32, seconds: u64) -> (f64, f64) {
        (0..cells).map(|_| traffic.count(queue(circuit), PAIR, at(1000 * seconds), TEN).unwrap()).last().unwrap()
    }

    /// Counts and averages by hand, with a half-life of ten seconds. The average is over who has sent a cell's worth of late: not over who has never sent, nor over who has come down to one.
    #[test]
    fn the_average_is_over_circuits_that_carry_traffic() {
        let mut traffic = Traffic::default();
        (0..10).for_each(|circuit| traffic.follow(queue(circuit)));
        assert_eq!(send(&mut traffic, 0, 8, 0), (8.0, 8.0));
        assert_eq!(send(&mut traffic, 1, 2, 0), (2.0, 5.0));
        // The second has come down to one.
        assert_eq!(send(&mut traffic, 0, 1, 10), (5.0, 5.0));
        // Its half cell counts again.
        assert_eq!(send(&mut traffic, 1, 1, 20), (1.5, 2.0));
        traffic.forget(queue(0), PAIR, at(20_000), TEN);
        assert_eq!(send(&mut traffic, 1, 1, 20), (2.5, 2.5));
        // To another neighbour is another average.
        let other = traffic.count(queue(2), PAIR + 1, at(20_000), TEN);
        assert_eq!(other, Some((1.0, 1.0)));
        // Who is forgotten has no count.
        traffic.forget(queue(1), PAIR, at(20_000), TEN);
        assert!(!traffic.loads.contains_key(&PAIR) && traffic.count(queue(1), PAIR, at(20_000), TEN).is_none());
    }

    /// However long circuits send and rest, the average is that of the counts above one, worked out anew.
    #[test]
    fn the_average_is_right_after_long_times() {
        let mut traffic = Traffic::default();
        let mut sent: Vec<Vec<f64>> = vec![Vec::new(); 5];
        (0..5).for_each(|circuit| traffic.follow(queue(circuit)));
        for step in 0..4000_u64 {
            // Each rests for 20, 40, ... steps of a second at a time.
            let circuit = (step * step / 3 % 5) as usize;
            if (step / (20 * (circuit as u64 + 1))).is_multiple_of(3) {
                continue;
            }
            sent[circuit].push(step as f64);
            let (own, average) = send(&mut traffic, circuit as u32, 1, step);
            let counts: Vec<f64> =
                sent.iter().map(|times| times.iter().map(|time| libm::exp2((time - step as f64) / 10.0)).sum()).collect();
            let carrying: Vec<f64> = counts.iter().copied().filter(|&count| count > 1.0 - 1e-6).collect();
            assert!((own - counts[circuit]).abs() < 1e-6, "{own} of {counts:?}");
            let expected = carrying.iter().sum::<f64>() / carrying.len() as f64;
            assert!((average - expected).abs() < 1e-6, "step {step}: {average} of {counts:?}");
        }
    }
}
