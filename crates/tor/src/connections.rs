//! The connections of a process that has a limit of its own, in tor's order (`connection_array`, `core/mainloop/mainloop.c`).
//!
//! Those that have found no tokens are watched again together, in this order (`reenable_blocked_connections_cb`), and the kernel says in the same order which of them
//! are ready. Where tokens are never enough, what comes last has none, however often all are woken: at a full exit a request to a
//! server may wait until its client gives up, while other connections go on. So it matters that a new connection is the last only until another is closed, whose place it then
//! takes.
//!
//! Shadow 1.13 tells what is ready by going through a hash table over descriptors ([`hash_order`](crate::hash_order), `shd-epoll.c`), each time that it is asked (`World::order_pass`). Of these a new connection has the lowest that is free (`shd-host.c`). Numbers grow fast
//! there: each time a program waits, its wait has a timer with a descriptor of its own (`pth_event.c`), which is not free again when the wait is over, because an epoll goes on watching it (`shd-timer.c`). So one that became free is taken
//! by the next wait, and by the number that a connection has its place in the table is as good as drawn, for channels, which are opened first, as for streams: real tor 0.3.5 there, an exit short of tokens, had channels with 807 to 1,543 and streams with up to 236,558 after six minutes of load. With the lowest numbers for connections alone
//! the channels would lie at the beginning of the table and have the tokens first, each time. A socket that is closed here first is
//! free after a minute (`TCPS_TIMEWAIT` of `shd-tcp.c`); one whose other end has closed it is free as soon as that end knows of it (`TCPS_LASTACK`, as of a7b7d49, four commits after
//! v1.13.2), here at once. Simplified: the table is empty at each pass and what is ready is put into it in the order in which it became so, where Shadow's keeps what was ready before; a wait that lasts until its timer is over
//! keeps its number too, where Shadow gives it back (a tenth of them, of which the next wait has nearly all).

use onionlab_net::SocketId;
use onionlab_quantities::{SimDuration, SimTime};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

/// The first that a connection has. Shadow's processes have none below 10 (`MIN_DESCRIPTOR`), and a relay's program has taken some eight hundred until it has learned of the network and others connect to it:
/// the first channels of an exit of real tor 0.3.5 with other relays there had 786 and 805 (two runs; that with an authority, before, 32).
const FIRST_DESCRIPTOR: u32 = 794;
/// A program to which nothing else happens is called so often (`second_elapsed_callback`).
const CALLED_EACH: SimDuration = SimDuration::from_secs(1);
/// How long Shadow keeps a descriptor after its connection is closed (`CONFIG_TCPCLOSETIMER_DELAY`).
const KEPT: SimDuration = SimDuration::from_secs(60);
/// The connections of one process.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    array: Vec<Connection>,
    /// Where each is in the array (`conn_array_index`).
    places: HashMap<SocketId, usize>,
    /// Descriptors of connections that are closed, and when they may be given again.
    closed: VecDeque<(SimTime, u32)>,
    /// Those that may, and how many there are of all.
    free: BinaryHeap<Reverse<u32>>,
    given: u32,
    /// When the program was called last.
    called: SimTime,
}

#[derive(Debug, Clone, Copy)]
struct Connection {
    socket: SocketId,
    descriptor: u32,
    /// It has found no tokens, and is not watched for reading or for writing.
    waits: bool,
    /// The other end closes it first.
    passive: bool,
}

impl Connections {
    /// A new one is the last (`connection_add_impl`).
    pub fn add(&mut self, socket: SocketId, now: SimTime) {
        if self.places.contains_key(&socket) {
            return;
        }
        let descriptor = self.lowest_free(now);
        self.places.insert(socket, self.array.len());
        self.array.push(Connection { socket, descriptor, waits: false, passive: false });
    }

    /// The lowest descriptor that is free, or a new one.
    fn lowest_free(&mut self, now: SimTime) -> u32 {
        while self.closed.front().is_some_and(|&(free_at, _)| free_at <= now) {
            self.free.extend(self.closed.pop_front().map(|(_, descriptor)| Reverse(descriptor)));
        }
        self.free.pop().map_or_else(
            || {
                self.given = self.given.saturating_add(1);
                (FIRST_DESCRIPTOR - 1).saturating_add(self.given)
            },
            |Reverse(lowest)| lowest,
        )
    }

    /// The program is called at `now`. Before, it has waited, if not in this instant, and again each second: each time with a timer, whose descriptor is gone for good.
    pub fn called(&mut self, now: SimTime) {
        if now > self.called {
            let idle = now.saturating_since(self.called).as_nanos() / CALLED_EACH.as_nanos();
            self.called = now;
            for _ in 0..=idle {
                self.lowest_free(now);
            }
        }
    }

    /// When the program was called last.
    pub const fn last_called(&self) -> SimTime {
        self.called
    }

    /// The other end of this one has closed it, or will have before it is closed here.
    pub fn other_end_closes(&mut self, socket: SocketId) {
        if let Some(&place) = self.places.get(&socket) {
            self.array[place].passive = true;
        }
    }

    /// The last one takes the place of one that is closed (`connection_remove`).
    pub fn remove(&mut self, socket: SocketId, now: SimTime) {
        let Some(place) = self.places.remove(&socket) else { return };
        let closed = self.array.swap_remove(place);
        if closed.passive {
            self.free.push(Reverse(closed.descriptor));
        } else {
            self.closed.push_back((now + KEPT, closed.descriptor));
        }
        if let Some(moved) = self.array.get(place) {
            self.places.insert(moved.socket, place);
        }
    }

    /// How many descriptors there have been.
    #[cfg(test)]
    pub const fn descriptors(&self) -> u32 {
        self.given
    }

    /// All, in order.
    #[cfg(test)]
    pub fn sockets(&self) -> Vec<SocketId> {
        self.array.iter().map(|connection| connection.socket).collect()
    }

    /// This one is to be watched again with all that wait.
    pub fn wait(&mut self, socket: SocketId) {
        if let Some(&place) = self.places.get(&socket) {
            self.array[place].waits = true;
        }
    }

    /// Those that wait, in order; they do not any more.
    pub fn take_waiting(&mut self) -> Vec<SocketId> {
        let took = |connection: &mut Connection| std::mem::take(&mut connection.waits).then_some(connection.socket);
        self.array.iter_mut().filter_map(took).collect()
    }

    /// The descriptor of one of its connections.
    pub fn descriptor(&self, socket: SocketId) -> Option<u32> {
        self.places.get(&socket).map(|&place| self.array[place].descriptor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sockets<const N: usize>(numbers: [u32; N]) -> [SocketId; N] {
        numbers.map(SocketId)
    }

    #[test]
    fn the_last_takes_the_place_of_one_that_is_closed() {
        let mut connections = Connections::default();
        for socket in sockets([3, 8, 5, 9, 4]) {
            connections.add(socket, SimTime::ZERO);
        }
        connections.remove(SocketId(8), SimTime::ZERO);
        connections.add(SocketId(1), SimTime::ZERO);
        for socket in sockets([1, 3, 4, 5, 9, 8]) {
            connections.wait(socket);
        }
        assert_eq!(connections.take_waiting(), sockets([3, 4, 5, 9, 1]));
        assert_eq!(connections.take_waiting(), []);
    }

    /// Four connections have the first four descriptors; one is closed, and the lowest that is free is taken again.
    #[test]
    fn a_descriptor_is_the_lowest_that_is_free() {
        let mut connections = Connections::default();
        for socket in sockets([1, 2, 3, 4]) {
            connections.add(socket, SimTime::ZERO);
        }
        connections.remove(SocketId(2), SimTime::ZERO);
        connections.remove(SocketId(3), SimTime::ZERO);
        // A minute later: before, it would have the sixth.
        connections.add(SocketId(6), SimTime::ZERO);
        connections.add(SocketId(5), SimTime::ZERO + KEPT);
        let descriptors =
            |connections: &Connections, numbers: [u32; 4]| numbers.map(|number| connections.descriptor(SocketId(number)));
        let nth = |places: [u32; 4]| places.map(|place| Some(FIRST_DESCRIPTOR + place));
        assert_eq!(descriptors(&connections, [1, 4, 6, 5]), nth([0, 3, 4, 1]));
        connections.remove(SocketId(6), SimTime::ZERO + KEPT);
        // The third is given at last, and the fourth, whose connection the other end has closed, at once.
        connections.other_end_closes(SocketId(4));
        connections.remove(SocketId(4), SimTime::ZERO + KEPT);
        connections.add(SocketId(7), SimTime::ZERO + KEPT);
        connections.add(SocketId(4), SimTime::ZERO + KEPT);
        assert_eq!(descriptors(&connections, [1, 5, 7, 4]), nth([0, 1, 2, 3]));
        assert_eq!(connections.descriptor(SocketId(2)), None);
    }

    /// By hand: connections have the first two; each instant in which the program is called takes one, however often it is called then. What a closed one gives back goes to the wait before the next connection.
    #[test]
    fn each_wait_takes_a_descriptor_for_good() {
        let at = |nanos: u64| SimTime::from_nanos(nanos);
        let mut connections = Connections::default();
        connections.add(SocketId(1), at(0));
        connections.add(SocketId(2), at(0));
        for now in [5, 5, 9] {
            connections.called(at(now));
        }
        connections.add(SocketId(3), at(9));
        connections.other_end_closes(SocketId(1));
        connections.remove(SocketId(1), at(9));
        // Without a wait between them the first would be given again.
        connections.called(at(12));
        connections.add(SocketId(4), at(12));
        let descriptors: Vec<_> =
            connections.array.iter().map(|connection| (connection.socket.0, connection.descriptor - FIRST_DESCRIPTOR)).collect();
        assert_eq!(descriptors, [(3, 4), (2, 1), (4, 5)]);
    }

    /// Forty channels, a second apart, and five hundred streams that came later wait in a table of 1,024 places. Were the channels' descriptors the lowest, they would all be in its first quarter.
    #[test]
    fn channels_are_not_at_the_front_of_a_large_table() {
        let mut connections = Connections::default();
        for channel in 0..40 {
            let now = SimTime::from_nanos(u64::from(channel) * CALLED_EACH.as_nanos());
            connections.called(now);
            connections.add(SocketId(channel), now);
        }
        let channels = connections.array.iter().map(|connection| connection.descriptor);
        let keys: Vec<u32> = channels.chain((0..500).map(|stream| 100_000 + 197 * stream)).collect();
        let first_quarter: Vec<usize> = crate::hash_order::order(&keys).take(keys.len() / 4).collect();
        assert!(first_quarter.iter().all(|&index| index >= 40), "{first_quarter:?}");
    }

    /// By hand: a program that is called 3.4 s after its start has waited four times, and 0.9 s later once more.
    #[test]
    fn a_program_waits_anew_each_second() {
        let mut connections = Connections::default();
        for (millis, expected) in [(3400, 4), (4300, 5)] {
            connections.called(SimTime::from_nanos(millis * 1_000_000));
            assert_eq!(connections.descriptors(), expected);
        }
    }

    proptest! {
        /// Against a list in which the last is moved by hand.
        #[test]
        fn whatever_comes_and_goes(steps in proptest::collection::vec((0u32..12, 0u8..3), 0..60)) {
            let (mut connections, mut list) = (Connections::default(), Vec::<(SocketId, bool)>::new());
            for (number, step) in steps {
                let socket = SocketId(number);
                let place = list.iter().position(|&(other, _)| other == socket);
                match (step, place) {
                    (0, None) => list.push((socket, false)),
                    (1, Some(place)) => {
                        let last = list.pop().expect("one is there");
                        if place < list.len() {
                            list[place] = last;
                        }
                    }
                    (2, Some(place)) => list[place].1 = true,
                    _ => {}
                }
                match step {
                    0 => connections.add(socket, SimTime::ZERO),
                    1 => connections.remove(socket, SimTime::ZERO),
                    _ => connections.wait(socket),
                }
            }
            let waiting: Vec<_> = list.iter().filter(|(_, waits)| *waits).map(|&(socket, _)| socket).collect();
            prop_assert_eq!(connections.take_waiting(), waiting);
        }
    }
}
