//! EWMA: the circuit that has sent least lately sends next.

use crate::mux::FEW;
use crate::{CircuitmuxPolicy, Slot};
use onionlab_quantities::{SimDuration, SimTime};
use smallvec::SmallVec;
use std::cmp::Ordering;

/// Granularity of the clock that tor reads here, `CLOCK_MONOTONIC_COARSE` on a kernel with 250 timer ticks a second.
const COARSE_NANOS: u64 = 4_000_000;

/// The clock by which EWMA weighs cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EwmaClock {
    /// `CLOCK_MONOTONIC_COARSE`, here 4 ms fine: a cell that is sent exactly when a tick is over still counts to it, as 1/F
    /// (tor since 0.3.4: `cell_ewma_get_current_tick_and_fraction`).
    Coarse,
    /// The time of day in microseconds, read once a pass of the event loop: a tick's first instant belongs to it
    /// (tor up to 0.3.3: `cell_ewma_tick_from_timeval`).
    Wall,
}

/// Exponentially decayed counts of the cells that circuits have sent; the circuit with the smallest count sends next.
///
/// A cell counts 1 when it is sent and half as much each half-life later. Instead of decaying all counts all the time,
/// a cell sent at fraction f of a tick adds F^-f, F being the decay over a tick, and counts are multiplied by F once a
/// tick: those of active circuits when a cell is first sent in a new tick, that of an inactive circuit when it becomes
/// active. The order is that of A(t) = sum over sent cells of 2^(-(t - `t_i`)/H). A newly attached circuit starts at 0.
///
/// Source: Tang and Goldberg 2010, section 4; tor `core/or/circuitmux_ewma.c`. Consensus: `CircuitPriorityHalflifeMsec`.
/// Deviation: ticks start with the simulation, in tor with the process or the Unix epoch ([`EwmaClock`]).
///
/// Between channels the mux with the smaller head count goes first, as in tor, though the two may be scaled to
/// different ticks.
#[derive(Debug)]
pub struct Ewma {
    half_life: f64,
    tick_nanos: u64,
    kind: EwmaClock,
    /// The tick to which the counts of active circuits are scaled.
    recalibrated: u32,
    clock: Clock,
    circuits: SmallVec<[Circuit; 2]>,
    /// Binary min-heap of the active circuits by count.
    heap: SmallVec<[Slot; FEW]>,
    /// The count of the first in the heap, infinite if there is none. All that is compared between channels: so a comparison touches no array.
    head: f64,
}

/// What one cell is worth at one instant of the clock.
#[derive(Debug)]
struct Clock {
    nanos: u64,
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
    pub const fn new(half_life: SimDuration, tick: SimDuration, clock: EwmaClock) -> Self {
        Self {
            half_life: half_life.as_nanos() as f64,
            tick_nanos: tick.as_nanos(),
            kind: clock,
            recalibrated: 0,
            clock: Clock { nanos: 0, tick: 0, weight: 1.0 },
            circuits: SmallVec::new_const(),
            heap: SmallVec::new_const(),
            head: f64::INFINITY,
        }
    }

    /// The tick at `now` and the weight F^-f of a cell sent then, computed once per instant of the clock.
    #[inline]
    fn read_clock(&mut self, now: SimTime) -> (u32, f64) {
        let nanos = match self.kind {
            EwmaClock::Coarse => now.as_nanos() / COARSE_NANOS * COARSE_NANOS,
            EwmaClock::Wall => now.as_nanos() / 1000 * 1000,
        };
        if nanos != self.clock.nanos {
            self.turn_clock(nanos);
        }
        (self.clock.tick, self.clock.weight)
    }

    #[inline(never)]
    fn turn_clock(&mut self, nanos: u64) {
        let (mut tick, mut elapsed) = (nanos / self.tick_nanos, nanos % self.tick_nanos);
        if elapsed == 0 && self.kind == EwmaClock::Coarse {
            (tick, elapsed) = (tick - 1, self.tick_nanos);
        }
        self.clock = Clock { nanos, tick: tick as u32, weight: libm::exp2(elapsed as f64 / self.half_life) };
    }

    /// F^ticks.
    fn decay(&self, ticks: u32) -> f64 {
        libm::exp2(-(f64::from(ticks) * self.tick_nanos as f64) / self.half_life)
    }

    /// The head count as a number of the same order: that of the bits of floats that are not negative.
    pub(crate) const fn rank(&self) -> u64 {
        self.head.to_bits()
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

    fn note_head(&mut self) {
        self.head = self.heap.first().map_or(f64::INFINITY, |&slot| self.count(slot));
    }

    fn push(&mut self, slot: Slot) {
        self.heap.push(slot);
        self.sift_up(self.heap.len() - 1);
    }

    pub(crate) fn foreseen(&self) -> Option<Slot> {
        self.heap.first().copied()
    }

    /// As tor's `smartlist_pqueue_remove`, which sifts what takes the free place away from the root only: the circuit there can then be
    /// above one with a smaller count, until it is moved again.
    fn remove(&mut self, slot: Slot) {
        let place = self.circuits[slot.index()].place as usize;
        debug_assert_eq!(self.heap[place], slot, "an active circuit knows its place");
        self.heap.swap_remove(place);
        if place < self.heap.len() {
            self.sift_down(place);
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
        self.note_head();
    }

    fn notify_inactive(&mut self, slot: Slot, _now: SimTime) {
        self.remove(slot);
        self.note_head();
    }

    #[inline]
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
        self.note_head();
    }

    fn pick(&mut self, _now: SimTime) -> Option<Slot> {
        self.foreseen()
    }

    fn compare(&self, other: &Self) -> Ordering {
        self.head.total_cmp(&other.head)
    }
}

#[cfg(test)]
mod tests;
