//! Round robin: every active circuit sends one cell in turn.

use crate::list::List;
use crate::{CircuitmuxPolicy, Slot, Turn};
use onionlab_quantities::SimTime;
use std::cmp::Ordering;

/// Where a circuit that becomes active joins the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewlyActive {
    /// Behind all others. Source: tor 0.2.1.30, `or/relay.c`: `make_circuit_active_on_conn`.
    AtTail,
    /// Before all others, so that it is served next: a circuit with one cell at a time passes the long queues at each arrival. Source: the
    /// fallback of tor 0.2.4 to 0.3.3, `or/circuitmux.c`: `circuitmux_make_circuit_active`.
    AtHead,
}

/// A ring of active circuits; the head sends one cell and goes to the tail.
///
/// Source: tor 0.2.1.30, `or/relay.c`: `connection_or_flush_from_first_active_circuit`; tor 0.2.4.19, `or/circuitmux.c`:
/// `circuitmux_notify_xmit_cells`, `circuitmux_move_active_circ_to_tail`.
///
/// Between channels the mux goes first whose head has waited longest, that is, whose [`Turn`] is the earliest: all
/// circuits of all channels then share one round robin. Deviation: those tors had no order between channels.
#[derive(Debug)]
pub struct RoundRobin {
    ring: List,
    newly_active: NewlyActive,
    /// Per slot: when it was last put at the tail, or joined the ring.
    queued: Vec<Turn>,
}

impl RoundRobin {
    /// A ring without circuits, which newly active ones join at the tail.
    pub const fn new() -> Self {
        Self::joined(NewlyActive::AtTail)
    }

    /// A ring without circuits.
    pub const fn joined(newly_active: NewlyActive) -> Self {
        Self { ring: List::new(), newly_active, queued: Vec::new() }
    }

    pub(crate) fn foreseen(&self) -> Option<Slot> {
        self.ring.first()
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
        let place = match self.newly_active {
            NewlyActive::AtTail => None,
            NewlyActive::AtHead => self.ring.first(),
        };
        self.ring.insert_before(slot, place);
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
        self.foreseen()
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

    /// The rule of tor 0.2.4: each arrival at an empty queue is served at once, then the ring goes on where it was.
    #[test]
    fn at_the_head_a_circuit_with_one_cell_at_a_time_is_served_at_each_arrival() {
        let now = SimTime::ZERO;
        let mut policy = RoundRobin::joined(NewlyActive::AtHead);
        for slot in 0..4 {
            policy.attach(Slot(slot), now, 0);
        }
        for slot in [2, 1, 0] {
            policy.notify_active(Slot(slot), now);
        }
        assert_eq!([(); 4].map(|()| served(&mut policy, now)), [0, 1, 2, 0]);
        let mut order = Vec::new();
        for _ in 0..3 {
            policy.notify_active(Slot(3), now);
            order.push(served(&mut policy, now));
            policy.notify_inactive(Slot(3), now);
            order.push(served(&mut policy, now));
        }
        assert_eq!(order, [3, 1, 3, 2, 3, 0]);
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
