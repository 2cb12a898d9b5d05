//! SWRR: weighted round robin, the weights from waiting time and queue length.

use crate::list::List;
use crate::turn::{Turn, earlier_first};
use crate::{CircuitmuxPolicy, Slot};
use onionlab_quantities::SimTime;
use std::cmp::Ordering;

/// What a circuit is worth: F(T, D) of the microseconds T since it was last served and its queue length D in cells.
///
/// Source: Lu et al. 2019, section 4.1.2, equations 1 to 3.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SwrrWeight {
    /// 10000 T - D, the paper's choice: waiting time alone, the queue length only breaks ties.
    Linear,
    /// (T + 1000) / (D + 1000).
    Proportional,
    /// c log(T + 1) to the base D + 2. The order does not depend on `c`.
    Logarithmic {
        /// Any positive constant.
        c: f64,
    },
}

impl SwrrWeight {
    /// F(T, D) for `waited` microseconds and `queued` cells.
    pub fn of(self, waited: u64, queued: u32) -> f64 {
        let (t, d) = (waited as f64, f64::from(queued));
        match self {
            Self::Linear => 10_000.0 * t - d,
            Self::Proportional => (t + 1_000.0) / (d + 1_000.0),
            Self::Logarithmic { c } => c * libm::log(t + 1.0) / libm::log(d + 2.0),
        }
    }
}

/// Active circuits in order of weight, greatest first; the first circuits of the list are the selectable range.
///
/// A pass serves every circuit of the range once, one cell each, from the greatest weight to the least; then the range
/// loses its last circuit. When it has none left, all circuits are weighed anew and sorted, and the range is the whole
/// list again. Of N circuits that stay active the first is therefore served N times in a set of passes, and the last once.
/// A circuit that becomes active is weighed and inserted by weight in the range, behind those of equal weight; one that
/// goes inactive leaves the list. Circuits of equal weight, such as those served at one instant, keep their order when sorted.
///
/// Source: Lu et al. 2019, section 3. Where the paper's Algorithm 3 differs from Algorithm 1 (its pointers are one off at the
/// ends of the range), Algorithm 1 is the rule. Where the paper is silent: T of a circuit that was never served counts from its
/// attachment; a range that becomes empty because its circuits went inactive ends the set of passes; the order of
/// channels, which the tor of the paper did not have, is by the [`Turn`] of the circuit to be served next, the one that
/// has waited longest first, and then the shorter queue, which is the linear weight at a common instant.
///
/// Invariant: weights do not increase along the range; the circuit to be served next is in the range unless nothing is active.
#[derive(Debug)]
pub struct Swrr {
    weight: SwrrWeight,
    list: List,
    /// The circuit to be served next.
    current: Option<Slot>,
    /// The first circuit behind the range; none if the range is the whole list.
    tail: Option<Slot>,
    circuits: Vec<Circuit>,
    /// Room for sorting.
    scratch: Vec<Slot>,
}

#[derive(Debug, Clone)]
struct Circuit {
    weight: f64,
    served: Turn,
    queued: u32,
    /// While sorting: the place in the list so far.
    place: u32,
}

impl Swrr {
    /// A mux without circuits.
    pub const fn new(weight: SwrrWeight) -> Self {
        Self { weight, list: List::new(), current: None, tail: None, circuits: Vec::new(), scratch: Vec::new() }
    }

    pub(crate) const fn foreseen(&self) -> Option<Slot> {
        self.current
    }

    fn weigh(&mut self, slot: Slot, now: SimTime) {
        let circuit = &mut self.circuits[slot.index()];
        circuit.weight = self.weight.of(circuit.served.micros_until(now), circuit.queued);
    }

    /// The end of a pass: the range loses its last circuit.
    fn end_pass(&mut self, now: SimTime) {
        self.tail = self.range_last();
        self.current = self.list.first();
        if self.current == self.tail {
            self.weigh_all(now);
        }
    }

    /// The last circuit of the range, which has at least one.
    fn range_last(&self) -> Option<Slot> {
        self.tail.map_or_else(|| self.list.last(), |tail| self.list.prev(tail))
    }

    /// Weighs and sorts all circuits and makes all of them selectable.
    fn weigh_all(&mut self, now: SimTime) {
        let mut order = std::mem::take(&mut self.scratch);
        order.extend(self.list.iter());
        for (place, &slot) in order.iter().enumerate() {
            self.weigh(slot, now);
            self.circuits[slot.index()].place = place as u32;
        }
        let key = |slot: &Slot| {
            let circuit = &self.circuits[slot.index()];
            (circuit.weight, circuit.place)
        };
        order.sort_unstable_by(|one, two| {
            let (one, two) = (key(one), key(two));
            two.0.total_cmp(&one.0).then(one.1.cmp(&two.1))
        });
        self.list.clear();
        for &slot in &order {
            self.list.insert_before(slot, None);
        }
        order.clear();
        self.scratch = order;
        self.tail = None;
        self.current = self.list.first();
    }

    /// The circuit before which one of this weight belongs: the first of the range that weighs less, or the range's end.
    /// Searched from both ends at once, because circuits come back either after a long wait or at once.
    fn place_for(&self, weight: f64) -> Option<Slot> {
        let mut front = self.list.first();
        let mut back = self.tail;
        while front != back {
            let at = front.expect("the range ends at its tail");
            if self.circuits[at.index()].weight < weight {
                return Some(at);
            }
            let last = back.map_or_else(|| self.list.last(), |at| self.list.prev(at)).expect("the range is not empty");
            if self.circuits[last.index()].weight >= weight {
                return back;
            }
            front = self.list.next(at);
            back = Some(last);
        }
        back
    }
}

impl CircuitmuxPolicy for Swrr {
    fn attach(&mut self, slot: Slot, now: SimTime, cells: u32) {
        let new = Circuit { weight: 0.0, served: Turn::at(now), queued: cells, place: 0 };
        self.list.grow_to(slot);
        if slot.index() < self.circuits.len() {
            self.circuits[slot.index()] = new;
        } else {
            self.circuits.resize(slot.index() + 1, new);
        }
    }

    fn notify_active(&mut self, slot: Slot, now: SimTime) {
        self.weigh(slot, now);
        let before = self.place_for(self.circuits[slot.index()].weight);
        self.list.insert_before(slot, before);
        if self.current.is_none() {
            self.current = Some(slot);
        }
    }

    fn notify_inactive(&mut self, slot: Slot, now: SimTime) {
        let next = self.list.next(slot);
        if self.tail == Some(slot) {
            self.tail = next;
        }
        self.list.remove(slot);
        if self.current == Some(slot) {
            self.current = next;
        }
        if self.current == self.tail && self.list.first().is_some() {
            // The pass is over, because the circuit that should have ended it is gone; if the whole range is gone, so is
            // the set of passes.
            if self.list.first() == self.tail {
                self.weigh_all(now);
            } else {
                self.end_pass(now);
            }
        }
    }

    fn notify_set_cells(&mut self, slot: Slot, cells: u32, _now: SimTime) {
        self.circuits[slot.index()].queued = cells;
    }

    fn notify_sent(&mut self, slot: Slot, cells: u32, now: SimTime) {
        let circuit = &mut self.circuits[slot.index()];
        circuit.served = circuit.served.next(now);
        circuit.queued = circuit.queued.saturating_sub(cells);
        self.current = self.list.next(slot);
        if self.current == self.tail {
            self.end_pass(now);
        }
    }

    fn pick(&mut self, _now: SimTime) -> Option<Slot> {
        self.current
    }

    fn compare(&self, other: &Self) -> Ordering {
        let key = |mux: &Self| mux.current.map(|slot| &mux.circuits[slot.index()]).map(|next| (next.served, next.queued));
        let (one, two) = (key(self), key(other));
        earlier_first(one.map(|key| key.0), two.map(|key| key.0)).then_with(|| one.map(|key| key.1).cmp(&two.map(|key| key.1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onionlab_quantities::SimDuration;
    use proptest::prelude::*;

    const WEIGHTS: [SwrrWeight; 3] = [SwrrWeight::Linear, SwrrWeight::Proportional, SwrrWeight::Logarithmic { c: 2.5 }];

    fn at_micros(micros: u64) -> SimTime {
        SimTime::ZERO + SimDuration::from_micros(micros)
    }

    fn serve(policy: &mut Swrr, now: SimTime) -> u32 {
        let slot = policy.pick(now).unwrap();
        policy.notify_sent(slot, 1, now);
        slot.0
    }

    #[test]
    fn the_papers_weights() {
        assert_eq!(SwrrWeight::Linear.of(3, 7).to_bits(), 29_993_f64.to_bits());
        assert!((SwrrWeight::Proportional.of(1_000, 250) - 1.6).abs() < 1e-12);
        // Base 4: log of 64 is 3.
        assert!((SwrrWeight::Logarithmic { c: 2.0 }.of(63, 2) - 6.0).abs() < 1e-12);
    }

    /// The order of one set of passes: N circuits, then N-1, down to the heaviest alone.
    #[test]
    fn the_heaviest_is_served_n_times_and_the_lightest_once() {
        for weight in WEIGHTS {
            let mut policy = Swrr::new(weight);
            for slot in 0..4 {
                // The higher the slot, the longer it has waited.
                policy.attach(Slot(slot), at_micros(u64::from(4 - slot) * 100), 1);
                policy.notify_set_cells(Slot(slot), 50, at_micros(400));
            }
            for slot in [3, 1, 0, 2] {
                policy.notify_active(Slot(slot), at_micros(1_000));
            }
            let now = at_micros(1_000);
            assert_eq!([(); 10].map(|()| serve(&mut policy, now)), [3, 2, 1, 0, 3, 2, 1, 3, 2, 3], "{weight:?}");
        }
    }

    #[test]
    fn at_the_end_of_the_set_the_longest_waiting_comes_first() {
        let mut policy = Swrr::new(SwrrWeight::Linear);
        for slot in 0..3 {
            policy.attach(Slot(slot), SimTime::ZERO, 1);
            policy.notify_set_cells(Slot(slot), 100, SimTime::ZERO);
            policy.notify_active(Slot(slot), SimTime::ZERO);
        }
        // Equal weights: in order of activation. One cell every 10 us; the last turns of 0, 1 and 2 are at 60, 50 and 30 us.
        let order: Vec<u32> = (1..=6).map(|k| serve(&mut policy, at_micros(10 * k))).collect();
        assert_eq!(order, [0, 1, 2, 0, 1, 0]);
        assert_eq!([(); 6].map(|()| serve(&mut policy, at_micros(70))), [2, 1, 0, 2, 1, 2]);
        // All three were served at one instant and have sent four cells each: equal weights keep their order.
        assert_eq!([(); 3].map(|()| serve(&mut policy, at_micros(80))), [2, 1, 0]);
    }

    #[test]
    fn a_newly_active_circuit_joins_the_range_by_weight() {
        let mut policy = Swrr::new(SwrrWeight::Linear);
        for slot in 0..4 {
            policy.attach(Slot(slot), SimTime::ZERO, 1);
        }
        for slot in 0..3 {
            policy.notify_set_cells(Slot(slot), 100, SimTime::ZERO);
            policy.notify_active(Slot(slot), SimTime::ZERO);
        }
        assert_eq!([(); 4].map(|()| serve(&mut policy, at_micros(5))), [0, 1, 2, 0]);
        // Slot 3 has waited longer than any weight in the range tells: it leads the next pass, not this one.
        policy.notify_set_cells(Slot(3), 1, at_micros(5));
        policy.notify_active(Slot(3), at_micros(5));
        assert_eq!([(); 4].map(|()| serve(&mut policy, at_micros(5))), [1, 3, 0, 3]);
        // The set is over; slot 2 was left out of the range since the first pass.
        assert!(policy.tail.is_none());
    }

    #[test]
    fn a_range_that_runs_dry_begins_a_new_set() {
        let mut policy = Swrr::new(SwrrWeight::Linear);
        for slot in 0..2 {
            policy.attach(Slot(slot), SimTime::ZERO, 1);
            policy.notify_active(Slot(slot), SimTime::ZERO);
        }
        assert_eq!([(); 2].map(|()| serve(&mut policy, at_micros(1))), [0, 1]);
        policy.notify_inactive(Slot(0), at_micros(1));
        assert_eq!(policy.pick(at_micros(1)), Some(Slot(1)));
        policy.notify_inactive(Slot(1), at_micros(1));
        assert_eq!(policy.pick(at_micros(1)), None);
    }

    #[test]
    fn circuits_of_two_channels_share_the_run() {
        for weight in WEIGHTS {
            let mut muxes = [Swrr::new(weight), Swrr::new(weight)];
            for mux in &mut muxes {
                mux.attach(Slot(0), SimTime::ZERO, 1_000);
                mux.notify_active(Slot(0), SimTime::ZERO);
            }
            let mut cells = [0, 0];
            for _ in 0..1_000 {
                let first = usize::from(muxes[0].compare(&muxes[1]) == Ordering::Greater);
                serve(&mut muxes[first], at_micros(2_000));
                cells[first] += 1;
            }
            assert_eq!(cells, [500, 500]);
        }
    }

    proptest! {
        /// Against Algorithm 1 written down naively: two vectors, weights computed anew, stable sort.
        #[test]
        fn follows_algorithm_1(steps in prop::collection::vec((0_u32..7, 0_u64..400, 0_u32..4), 1..300), which in 0_usize..3) {
            let weight = WEIGHTS[which];
            let mut policy = Swrr::new(weight);
            let mut now = SimTime::ZERO;
            for slot in 0..7 {
                policy.attach(Slot(slot), now, 0);
            }
            let mut model = Model { weight, served: [0; 7], cells: [0; 7], weights: [0.0; 7], range: vec![], rest: vec![], next: 0 };
            for (slot, wait, arrivals) in steps {
                now += SimDuration::from_micros(wait / 40);
                if arrivals > 0 {
                    let i = slot as usize;
                    model.cells[i] += arrivals;
                    policy.notify_set_cells(Slot(slot), model.cells[i], now);
                    if model.cells[i] == arrivals {
                        policy.notify_active(Slot(slot), now);
                        model.activate(i, now);
                    }
                } else {
                    prop_assert_eq!(policy.pick(now).map(Slot::index), model.range.get(model.next).copied());
                    if let Some(picked) = policy.pick(now) {
                        model.send(now);
                        policy.notify_sent(picked, 1, now);
                        if model.cells[picked.index()] == 0 {
                            policy.notify_inactive(picked, now);
                            model.deactivate(picked.index(), now);
                        }
                        policy.notify_set_cells(picked, model.cells[picked.index()], now);
                    }
                }
            }
        }
    }

    struct Model {
        weight: SwrrWeight,
        served: [u64; 7],
        cells: [u32; 7],
        weights: [f64; 7],
        range: Vec<usize>,
        rest: Vec<usize>,
        next: usize,
    }

    impl Model {
        fn weigh(&self, i: usize, now: SimTime) -> f64 {
            self.weight.of(now.as_micros() - self.served[i], self.cells[i])
        }
        fn activate(&mut self, i: usize, now: SimTime) {
            self.weights[i] = self.weigh(i, now);
            let place = self.range.iter().position(|&j| self.weights[j] < self.weights[i]).unwrap_or(self.range.len());
            self.range.insert(place, i);
            if place <= self.next && self.range.len() > 1 {
                self.next += 1;
            }
        }
        fn end_of_pass(&mut self, now: SimTime) {
            if self.next < self.range.len() {
                return;
            }
            self.next = 0;
            if let Some(lowest) = self.range.pop() {
                self.rest.insert(0, lowest);
            }
            if self.range.is_empty() {
                self.range = std::mem::take(&mut self.rest);
                for k in 0..self.range.len() {
                    self.weights[self.range[k]] = self.weigh(self.range[k], now);
                }
                let weights = self.weights;
                self.range.sort_by(|&a, &b| weights[b].total_cmp(&weights[a]));
            }
        }
        fn send(&mut self, now: SimTime) {
            let i = self.range[self.next];
            self.cells[i] -= 1;
            self.served[i] = now.as_micros();
            self.next += 1;
            self.end_of_pass(now);
        }
        fn deactivate(&mut self, i: usize, now: SimTime) {
            if let Some(place) = self.range.iter().position(|&j| j == i) {
                self.range.remove(place);
                if place < self.next {
                    self.next -= 1;
                }
            } else {
                self.rest.retain(|&j| j != i);
            }
            self.end_of_pass(now);
        }
    }
}
