//! EWMA: the circuit that has sent least lately sends next.

use crate::{CircuitmuxPolicy, Slot};
use onionlab_quantities::{SimDuration, SimTime};
use std::cmp::Ordering;

/// Granularity of the clock that tor reads here, `CLOCK_MONOTONIC_COARSE` on a kernel with 250 timer ticks a second.
const COARSE_NANOS: u64 = 4_000_000;

/// Exponentially decayed counts of the cells that circuits have sent; the circuit with the smallest count sends next.
///
/// A cell counts 1 when it is sent and half as much each half-life later. Instead of decaying all counts all the time,
/// a cell sent at fraction f of a tick adds F^-f, F being the decay over a tick, and counts are multiplied by F once a
/// tick: those of active circuits when a cell is first sent in a new tick, that of an inactive circuit when it becomes
/// active. The order is that of A(t) = sum over sent cells of 2^(-(t - `t_i`)/H). A newly attached circuit starts at 0.
///
/// Source: Tang and Goldberg 2010, section 4; tor `core/or/circuitmux_ewma.c`. Consensus: `CircuitPriorityHalflifeMsec`.
/// Deviations: ticks start with the simulation; the first instant of a tick belongs to it (in tor to the one before).
///
/// Between channels the mux with the smaller head count goes first, as in tor, though the two may be scaled to
/// different ticks.
#[derive(Debug)]
pub struct Ewma {
    half_life: f64,
    tick_nanos: u64,
    /// The tick to which the counts of active circuits are scaled.
    recalibrated: u32,
    clock: Clock,
    circuits: Vec<Circuit>,
    /// Binary min-heap of the active circuits by count.
    heap: Vec<Slot>,
}

/// What one cell is worth at one coarse instant.
#[derive(Debug)]
struct Clock {
    coarse: u64,
    tick: u32,
    weight: f64,
}

#[derive(Debug, Clone)]
struct Circuit {
    /// Unit: cells at the start of tick `scaled_to`. Invariant: never negative, finite.
    count: f64,
    scaled_to: u32,
    /// Index in the heap while active.
    place: u32,
}

impl Ewma {
    /// A mux without circuits. The settings must be ones that [`crate::PolicyKind::check`] accepts.
    pub const fn new(half_life: SimDuration, tick: SimDuration) -> Self {
        Self {
            half_life: half_life.as_nanos() as f64,
            tick_nanos: tick.as_nanos(),
            recalibrated: 0,
            clock: Clock { coarse: 0, tick: 0, weight: 1.0 },
            circuits: Vec::new(),
            heap: Vec::new(),
        }
    }

    /// The tick at `now` and the weight F^-f of a cell sent then, computed once per instant of the coarse clock.
    fn read_clock(&mut self, now: SimTime) -> (u32, f64) {
        let coarse = now.as_nanos() / COARSE_NANOS;
        if coarse != self.clock.coarse {
            let nanos = coarse * COARSE_NANOS;
            let elapsed = (nanos % self.tick_nanos) as f64;
            let tick = (nanos / self.tick_nanos) as u32;
            self.clock = Clock { coarse, tick, weight: libm::exp2(elapsed / self.half_life) };
        }
        (self.clock.tick, self.clock.weight)
    }

    /// F^ticks.
    fn decay(&self, ticks: u32) -> f64 {
        libm::exp2(-(f64::from(ticks) * self.tick_nanos as f64) / self.half_life)
    }

    /// Brings the counts of all active circuits to `tick`. The order of the heap does not change.
    fn recalibrate(&mut self, tick: u32) {
        let decay = self.decay(tick - self.recalibrated);
        self.recalibrated = tick;
        for slot in &self.heap {
            let circuit = &mut self.circuits[slot.index()];
            circuit.count *= decay;
            circuit.scaled_to = tick;
        }
    }

    /// The count of a circuit as the heap sees it, in cells.
    fn count(&self, slot: Slot) -> f64 {
        self.circuits[slot.index()].count
    }

    fn put(&mut self, place: usize, slot: Slot) {
        self.heap[place] = slot;
        self.circuits[slot.index()].place = place as u32;
    }

    /// Moves the circuit at `place` towards the root past greater counts only.
    fn sift_up(&mut self, mut place: usize) {
        let slot = self.heap[place];
        let count = self.count(slot);
        while place > 0 {
            let parent = (place - 1) / 2;
            let above = self.heap[parent];
            if count >= self.count(above) {
                break;
            }
            self.put(place, above);
            place = parent;
        }
        self.put(place, slot);
    }

    /// Moves the circuit at `place` away from the root; as in tor's heap, past an equal left child too.
    fn sift_down(&mut self, mut place: usize) {
        let slot = self.heap[place];
        let count = self.count(slot);
        loop {
            let left = 2 * place + 1;
            let Some(&below_left) = self.heap.get(left) else { break };
            let mut best = (left, below_left, self.count(below_left));
            let stays = count < best.2;
            if let Some(&below_right) = self.heap.get(left + 1) {
                let right_count = self.count(below_right);
                if right_count < if stays { count } else { best.2 } {
                    best = (left + 1, below_right, right_count);
                } else if stays {
                    break;
                }
            } else if stays {
                break;
            }
            self.put(place, best.1);
            place = best.0;
        }
        self.put(place, slot);
    }

    fn push(&mut self, slot: Slot) {
        self.heap.push(slot);
        self.sift_up(self.heap.len() - 1);
    }

    fn remove(&mut self, slot: Slot) {
        let place = self.circuits[slot.index()].place as usize;
        debug_assert_eq!(self.heap[place], slot, "an active circuit knows its place");
        self.heap.swap_remove(place);
        if place < self.heap.len() {
            let moved = self.heap[place];
            self.sift_down(place);
            if self.heap[place] == moved {
                self.sift_up(place);
            }
        }
    }
}

impl CircuitmuxPolicy for Ewma {
    fn attach(&mut self, slot: Slot, _now: SimTime, _cells: u32) {
        let new = Circuit { count: 0.0, scaled_to: self.recalibrated, place: 0 };
        if slot.index() < self.circuits.len() {
            self.circuits[slot.index()] = new;
        } else {
            self.circuits.resize(slot.index() + 1, new);
        }
    }

    fn notify_active(&mut self, slot: Slot, _now: SimTime) {
        let scaled_to = self.circuits[slot.index()].scaled_to;
        if scaled_to != self.recalibrated {
            let decay = self.decay(self.recalibrated - scaled_to);
            let circuit = &mut self.circuits[slot.index()];
            circuit.count *= decay;
            circuit.scaled_to = self.recalibrated;
        }
        self.push(slot);
    }

    fn notify_inactive(&mut self, slot: Slot, _now: SimTime) {
        self.remove(slot);
    }

    fn notify_sent(&mut self, slot: Slot, cells: u32, now: SimTime) {
        let (tick, weight) = self.read_clock(now);
        if tick != self.recalibrated {
            self.recalibrate(tick);
        }
        self.circuits[slot.index()].count += f64::from(cells) * weight;
        if self.heap.len() > 1 {
            self.remove(slot);
            self.push(slot);
        }
    }

    fn pick(&mut self, _now: SimTime) -> Option<Slot> {
        self.heap.first().copied()
    }

    fn compare(&self, other: &Self) -> Ordering {
        match (self.heap.first(), other.heap.first()) {
            (Some(&one), Some(&two)) => self.count(one).total_cmp(&other.count(two)),
            (one, two) => two.is_some().cmp(&one.is_some()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HALF_LIFE: SimDuration = SimDuration::from_secs(30);
    const TICK: SimDuration = SimDuration::from_secs(10);

    fn seconds(s: f64) -> SimTime {
        SimTime::ZERO + SimDuration::from_secs_f64_rounded(s)
    }

    fn with_circuits(count: u32) -> Ewma {
        let mut policy = Ewma::new(HALF_LIFE, TICK);
        for slot in 0..count {
            policy.attach(Slot(slot), SimTime::ZERO, 0);
        }
        policy
    }

    #[test]
    fn the_numbers_of_tors_defaults() {
        let mut policy = with_circuits(1);
        policy.notify_active(Slot(0), SimTime::ZERO);
        policy.notify_sent(Slot(0), 1, SimTime::ZERO);
        assert!((policy.count(Slot(0)) - 1.0).abs() < 1e-12);
        // The last coarse instant of the first tick: nearly 1/F = 2^(1/3).
        policy.notify_sent(Slot(0), 1, seconds(9.999));
        assert!((policy.count(Slot(0)) - 2.26).abs() < 0.001);
        // The next tick: everything so far times F = 0.7937005, then 1.
        policy.notify_sent(Slot(0), 1, seconds(10.0));
        assert!((policy.count(Slot(0)) - (2.259_805 * 0.793_700_5 + 1.0)).abs() < 1e-4, "{}", policy.count(Slot(0)));
    }

    #[test]
    fn a_steady_rate_settles_at_rate_times_half_life_over_ln_two() {
        let mut policy = with_circuits(1);
        policy.notify_active(Slot(0), SimTime::ZERO);
        // 10 cells a second for 600 s, read at the start of a tick: 43.3 * 10.
        for k in 0..=6000 {
            policy.notify_sent(Slot(0), 1, seconds(f64::from(k) * 0.1));
        }
        assert!((policy.count(Slot(0)) - 433.0).abs() < 1.0, "{}", policy.count(Slot(0)));
    }

    #[test]
    fn an_inactive_circuit_keeps_a_long_memory() {
        let mut policy = with_circuits(2);
        policy.notify_active(Slot(0), SimTime::ZERO);
        policy.notify_sent(Slot(0), 16, SimTime::ZERO);
        policy.notify_inactive(Slot(0), SimTime::ZERO);
        policy.notify_active(Slot(1), seconds(60.0));
        policy.notify_sent(Slot(1), 1, seconds(60.0));
        policy.notify_active(Slot(0), seconds(60.0));
        // Two half-lives later 16 cells weigh as much as 4.
        assert!((policy.count(Slot(0)) - 4.0).abs() < 1e-9);
        assert_eq!(policy.pick(seconds(60.0)), Some(Slot(1)));
    }

    #[test]
    fn the_quieter_circuit_is_served_alone_until_counts_meet() {
        let mut policy = with_circuits(2);
        policy.notify_active(Slot(0), SimTime::ZERO);
        policy.notify_sent(Slot(0), 5, SimTime::ZERO);
        policy.notify_active(Slot(1), SimTime::ZERO);
        let order: Vec<u32> = (0..9)
            .map(|_| {
                let slot = policy.pick(SimTime::ZERO).unwrap();
                policy.notify_sent(slot, 1, SimTime::ZERO);
                slot.0
            })
            .collect();
        assert_eq!(order[..5], [1; 5]);
        assert_eq!(order[5..].iter().filter(|&&slot| slot == 0).count(), 2);
    }

    proptest! {
        /// Against the closed form, and with it against a model that keeps every cell ever sent: whichever circuit is
        /// picked has the smallest A(t) among the active ones, within rounding.
        #[test]
        fn the_order_is_that_of_the_closed_form(
            half_life in 1_u64..60, tick in 1_u64..20,
            steps in prop::collection::vec((0_u32..8, 0_u64..3_000, 1_u32..4), 1..300),
        ) {
            let half_life = SimDuration::from_secs(half_life);
            let mut policy = Ewma::new(half_life, SimDuration::from_secs(tick));
            let mut sent: Vec<Vec<SimTime>> = vec![Vec::new(); 8];
            let mut active = [false; 8];
            let mut now = SimTime::ZERO;
            for slot in 0..8 {
                policy.attach(Slot(slot), now, 0);
            }
            for (slot, wait, cells) in steps {
                now += SimDuration::from_millis(wait * 4);
                let activity = |slot: u32| -> f64 {
                    sent[slot as usize].iter().map(|&at| libm::exp2(-(now - at).as_secs_f64() / half_life.as_secs_f64())).sum()
                };
                if active[slot as usize] {
                    let picked = policy.pick(now).unwrap();
                    prop_assert!(active[picked.index()]);
                    let least = (0..8).filter(|&s| active[s as usize]).map(activity).fold(f64::INFINITY, f64::min);
                    prop_assert!(activity(picked.0) <= least * (1.0 + 1e-9) + 1e-12);
                    policy.notify_sent(picked, cells, now);
                    sent[picked.index()].extend(std::iter::repeat_n(now, cells as usize));
                    if cells == 3 {
                        policy.notify_inactive(picked, now);
                        active[picked.index()] = false;
                    }
                } else {
                    policy.notify_active(Slot(slot), now);
                    active[slot as usize] = true;
                }
                for (place, slot) in policy.heap.iter().enumerate() {
                    prop_assert_eq!(policy.circuits[slot.index()].place as usize, place);
                    prop_assert!(place == 0 || policy.count(policy.heap[(place - 1) / 2]) <= policy.count(*slot));
                }
            }
        }
    }
}
