//! One end of a linked set: which leg the next cell takes, and in which order what arrives is handed on (`core/or/conflux.c`, proposal 329).
//!
//! A pure state machine. Cells that are **multiplexed** (BEGIN, CONNECTED, DATA, END, XON, XOFF) are numbered through at each end, whichever leg they take. A change of leg is announced on the new one by
//! CONFLUX_SWITCH, which says by how many cells the number jumps there; the receiver counts along on each leg and holds back what comes too early.

use crate::cell::Cell;
use onionlab_quantities::SimDuration;
use std::collections::BTreeMap;

/// How an end chooses a leg (`conflux_decide_next_circ`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The one with the least round-trip time; if that cannot send, none. What a client does.
    MinRtt,
    /// Of those that can send, the one with the least round-trip time. What an exit does.
    LowRtt,
}

#[derive(Debug, Clone, Default)]
struct Leg {
    /// Measured by LINK and LINKED or their answer at first, then by SENDMEs; none yet: the leg is not used.
    rtt: Option<SimDuration>,
    /// Numbers of the last multiplexed cell sent and received on it.
    sent: u64,
    received: u64,
}

/// What an end does with a cell: the leg, and what a CONFLUX_SWITCH before it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decision {
    pub leg: usize,
    pub switch: Option<u64>,
}

#[derive(Debug, Clone)]
pub(crate) struct End {
    choice: Choice,
    legs: Vec<Leg>,
    current: Option<usize>,
    /// Number of the last cell handed on.
    delivered: u64,
    /// Cells that have come too early, by number.
    early: BTreeMap<u64, Cell>,
}

impl End {
    pub fn new(choice: Choice, legs: usize) -> Self {
        Self { choice, legs: vec![Leg::default(); legs], current: None, delivered: 0, early: BTreeMap::new() }
    }

    /// A round-trip time of a leg (`conflux_update_rtt`).
    pub fn measured(&mut self, leg: usize, rtt: SimDuration) {
        self.legs[leg].rtt = Some(rtt);
    }

    /// The leg that the next DATA cell would take; `ready`: whether a leg's window and queue have room.
    pub fn next_leg(&self, ready: impl Fn(usize) -> bool) -> Option<usize> {
        let measured = || self.legs.iter().enumerate().filter_map(|(leg, state)| Some((state.rtt?, leg)));
        match self.choice {
            Choice::MinRtt => measured().min().map(|(_, leg)| leg).filter(|&leg| ready(leg)),
            Choice::LowRtt => measured().filter(|&(_, leg)| ready(leg)).min().map(|(_, leg)| leg),
        }
    }

    /// A multiplexed cell is sent now (`conflux_decide_circ_for_send`, `conflux_note_cell_sent`); `next`: the leg for it by [`Self::next_leg`]. Cells without data go even when
    /// no leg has room, on the current one.
    pub fn send(&mut self, data: bool, next: Option<usize>) -> Option<Decision> {
        let current = *self.current.get_or_insert_with(|| {
            let measured = self.legs.iter().enumerate().filter_map(|(leg, state)| Some((state.rtt?, leg)));
            measured.min().map_or(0, |(_, leg)| leg)
        });
        let leg = match next {
            Some(leg) => leg,
            None if data => return None,
            None => current,
        };
        let mut switch = None;
        if leg != current {
            switch = Some(self.legs[current].sent - self.legs[leg].sent);
            self.legs[leg].sent = self.legs[current].sent;
            self.current = Some(leg);
        }
        self.legs[leg].sent += 1;
        Some(Decision { leg, switch })
    }

    /// CONFLUX_SWITCH came on this leg.
    pub fn switched(&mut self, leg: usize, by: u64) {
        self.legs[leg].received += by;
    }

    /// A multiplexed cell came on this leg (`conflux_process_relay_msg`): it is handed back if it is its turn, and kept otherwise.
    pub fn arrived(&mut self, leg: usize, cell: Cell) -> Option<Cell> {
        let leg = &mut self.legs[leg];
        leg.received += 1;
        if leg.received == self.delivered + 1 {
            self.delivered += 1;
            return Some(cell);
        }
        self.early.insert(leg.received, cell);
        None
    }

    /// The next cell that was kept, if its turn has come (`conflux_dequeue_relay_msg`).
    pub fn next_kept(&mut self) -> Option<Cell> {
        let cell = self.early.remove(&(self.delivered + 1))?;
        self.delivered += 1;
        Some(cell)
    }

    /// The leg is another one now, of which nothing is known.
    pub fn replaced(&mut self, leg: usize) {
        self.legs[leg] = Leg::default();
    }

    /// Cells that are kept.
    #[cfg(test)]
    pub fn kept(&self) -> usize {
        self.early.len()
    }

    /// Everything that is kept: the set is gone.
    pub fn take_kept(&mut self) -> BTreeMap<u64, Cell> {
        std::mem::take(&mut self.early)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::CellKind;
    use crate::ids::CircuitId;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn send(end: &mut End, data: bool, ready: impl Fn(usize) -> bool) -> Option<Decision> {
        let next = end.next_leg(ready);
        end.send(data, next)
    }

    fn ms(millis: u64) -> SimDuration {
        SimDuration::from_millis(millis)
    }

    fn cell(number: u32) -> Cell {
        Cell::new(CellKind::Data, CircuitId(number))
    }

    fn end(choice: Choice, rtts: &[Option<u64>]) -> End {
        let mut end = End::new(choice, rtts.len());
        for (leg, rtt) in rtts.iter().enumerate() {
            if let Some(rtt) = rtt {
                end.measured(leg, ms(*rtt));
            }
        }
        end
    }

    /// Two legs of 100 and 60 ms. The second has room for three cells: they go there, then two to the first, after a switch by the three that it has not seen. When the second has room again, it is told of
    /// the two. Then its round trip grows beyond the other's.
    #[test]
    fn low_rtt_step_by_step() {
        let mut exit = end(Choice::LowRtt, &[Some(100), Some(60)]);
        let decision = |leg, switch| Some(Decision { leg, switch });
        for _ in 0..3 {
            assert_eq!(send(&mut exit, true, |_| true), decision(1, None));
        }
        assert_eq!(send(&mut exit, true, |leg| leg == 0), decision(0, Some(3)));
        assert_eq!(send(&mut exit, true, |leg| leg == 0), decision(0, None));
        assert_eq!(send(&mut exit, true, |_| true), decision(1, Some(2)));
        assert_eq!(send(&mut exit, true, |_| false), None);
        assert_eq!(send(&mut exit, false, |_| false), decision(1, None), "an END goes all the same");
        exit.measured(1, ms(140));
        assert_eq!(send(&mut exit, true, |_| true), decision(0, Some(2)));
    }

    #[test]
    fn min_rtt_uses_one_leg_and_waits_for_it() {
        let mut client = end(Choice::MinRtt, &[Some(100), Some(60)]);
        assert_eq!(client.next_leg(|leg| leg == 0), None);
        assert_eq!(send(&mut client, true, |leg| leg == 0), None);
        assert_eq!(send(&mut client, true, |_| true), Some(Decision { leg: 1, switch: None }));
    }

    /// BEGIN can be faster than LINKED_ACK on another leg: that one is not used before it is measured; without any measurement the first is.
    #[test]
    fn a_leg_without_a_round_trip_time_is_not_used() {
        let mut exit = end(Choice::LowRtt, &[None, Some(60)]);
        assert_eq!(send(&mut exit, true, |leg| leg == 0), None);
        assert_eq!(send(&mut exit, true, |_| true), Some(Decision { leg: 1, switch: None }));
        let mut exit = end(Choice::LowRtt, &[None, None]);
        assert_eq!(send(&mut exit, false, |_| true), Some(Decision { leg: 0, switch: None }));
    }

    /// What a channel carries: a switch, or a numbered cell.
    enum Sent {
        Switch(u64),
        Cell(u32),
    }

    proptest! {
        /// Cells over up to three legs whose rooms and round-trip times change at random, read from the legs in any order, come out in order and each once.
        #[test]
        fn cells_come_out_in_order(
            legs in 1_usize..4,
            steps in prop::collection::vec((0_u8..3, 0_usize..3, any::<[bool; 3]>(), 1_u64..200, any::<bool>()), 0..400),
            low in any::<bool>(),
        ) {
            let choice = if low { Choice::LowRtt } else { Choice::MinRtt };
            let (mut sender, mut receiver) = (end(choice, &vec![Some(50); legs]), End::new(Choice::MinRtt, legs));
            let mut wires: Vec<VecDeque<Sent>> = (0..legs).map(|_| VecDeque::new()).collect();
            let (mut sent, mut came) = (0, 0);
            let mut read = |wire: &mut VecDeque<Sent>, leg: usize, came: &mut u32| {
                match wire.pop_front() {
                    Some(Sent::Switch(by)) => receiver.switched(leg, by),
                    Some(Sent::Cell(number)) => {
                        let mut next = receiver.arrived(leg, cell(number));
                        while let Some(cell) = next {
                            assert_eq!(cell.circuit.0, *came);
                            *came += 1;
                            next = receiver.next_kept();
                        }
                    }
                    None => {}
                }
            };
            for (step, leg, ready, rtt, data) in steps {
                let leg = leg % legs;
                match step {
                    0 => sender.measured(leg, ms(rtt)),
                    1 => if let Some(Decision { leg, switch }) = send(&mut sender, data, |leg| ready[leg]) {
                        wires[leg].extend(switch.map(Sent::Switch));
                        wires[leg].push_back(Sent::Cell(sent));
                        sent += 1;
                    },
                    _ => read(&mut wires[leg], leg, &mut came),
                }
            }
            for (leg, wire) in wires.iter_mut().enumerate() {
                while !wire.is_empty() {
                    read(wire, leg, &mut came);
                }
            }
            prop_assert_eq!(came, sent);
            prop_assert_eq!(receiver.kept(), 0);
        }
    }
}
