//! Round robin: every active circuit sends one cell in turn.

use crate::list::List;
use crate::{CircuitmuxPolicy, Slot, Turn};
use onionlab_quantities::SimTime;
use std::cmp::Ordering;

/// A ring of active circuits; the head sends one cell and goes to the tail, and so does a circuit that becomes active.
///
/// Source: tor 0.2.1.30, `or/relay.c`: `connection_or_flush_from_first_active_circuit`, `make_circuit_active_on_conn`.
/// (The fallback of 0.2.4 to 0.3.3 puts a newly active circuit at the head instead.)
///
/// Between channels the mux goes first whose head has waited longest, that is, whose [`Turn`] is the earliest: all
/// circuits of all channels then share one round robin. Deviation: that tor had no order between channels.
#[derive(Debug)]
pub struct RoundRobin {
    ring: List,
    /// Per slot: when it was last put at the tail.
    queued: Vec<Turn>,
}

impl RoundRobin {
    /// A ring without circuits.
    pub const fn new() -> Self {
        Self { ring: List::new(), queued: Vec::new() }
    }

    fn head_turn(&self) -> Option<Turn> {
        self.ring.first().map(|head| self.queued[head.index()])
    }
}

impl Default for RoundRobin {
    fn default() -> Self {
        Self::new()
    }
}

impl CircuitmuxPolicy for RoundRobin {
    fn attach(&mut self, slot: Slot, now: SimTime, _cells: u32) {
        self.ring.grow_to(slot);
        if slot.index() >= self.queued.len() {
            self.queued.resize(slot.index() + 1, Turn::default());
        }
        self.queued[slot.index()] = Turn::at(now);
    }

    fn notify_active(&mut self, slot: Slot, now: SimTime) {
        // A circuit whose queue empties at each turn must not gain on the others by coming back at the same instant.
        self.queued[slot.index()] = self.queued[slot.index()].max(Turn::at(now));
        self.ring.insert_before(slot, None);
    }

    fn notify_inactive(&mut self, slot: Slot, _now: SimTime) {
        self.ring.remove(slot);
    }

    fn notify_sent(&mut self, slot: Slot, _cells: u32, now: SimTime) {
        self.queued[slot.index()] = self.queued[slot.index()].next(now);
        self.ring.remove(slot);
        self.ring.insert_before(slot, None);
    }

    fn pick(&mut self, _now: SimTime) -> Option<Slot> {
        self.ring.first()
    }

    fn compare(&self, other: &Self) -> Ordering {
        crate::turn::earlier_first(self.head_turn(), other.head_turn())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(policy: &mut RoundRobin, now: SimTime) -> u32 {
        let slot = policy.pick(now).unwrap();
        policy.notify_sent(slot, 1, now);
        slot.0
    }

    #[test]
    fn a_newly_active_circuit_waits_for_all_others() {
        let now = SimTime::ZERO;
        let mut policy = RoundRobin::new();
        for slot in 0..4 {
            policy.attach(Slot(slot), now, 0);
        }
        for slot in [2, 0, 1] {
            policy.notify_active(Slot(slot), now);
        }
        assert_eq!([(); 4].map(|()| served(&mut policy, now)), [2, 0, 1, 2]);
        policy.notify_active(Slot(3), now);
        policy.notify_inactive(Slot(1), now);
        assert_eq!([(); 5].map(|()| served(&mut policy, now)), [0, 2, 3, 0, 2]);
    }

    #[test]
    fn circuits_of_two_channels_share_one_round_robin() {
        let now = SimTime::ZERO;
        let later = SimTime::from_nanos(2_000_000);
        let mut muxes = [RoundRobin::new(), RoundRobin::new()];
        for (mux, circuits) in muxes.iter_mut().zip([3, 1]) {
            for slot in 0..circuits {
                mux.attach(Slot(slot), now, 0);
                mux.notify_active(Slot(slot), now);
            }
        }
        let mut cells = [0, 0];
        for _ in 0..400 {
            let first = usize::from(muxes[0].compare(&muxes[1]) == Ordering::Greater);
            served(&mut muxes[first], later);
            cells[first] += 1;
        }
        assert_eq!(cells, [300, 100]);
    }
}
