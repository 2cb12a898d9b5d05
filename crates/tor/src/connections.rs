//! The connections of a process that has a limit of its own, in tor's order (`connection_array`, `core/mainloop/mainloop.c`).
//!
//! Those that have found no tokens are watched again together, in this order (`reenable_blocked_connections_cb`), and the kernel says in the same order which of them
//! are ready. Where tokens are never enough, what comes last has none, however often all are woken: at a full exit a request to a
//! server may wait until its client gives up, while other connections go on. So it matters that a new connection is the last only until another is closed, whose place it then
//! takes.

use onionlab_net::SocketId;
use std::collections::HashMap;

/// The connections of one process.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    array: Vec<Connection>,
    /// Where each is in the array (`conn_array_index`).
    places: HashMap<SocketId, usize>,
}

#[derive(Debug, Clone, Copy)]
struct Connection {
    socket: SocketId,
    /// It has found no tokens, and is not watched for reading or for writing.
    waits: bool,
}

impl Connections {
    /// A new one is the last (`connection_add_impl`).
    pub fn add(&mut self, socket: SocketId) {
        self.places.entry(socket).or_insert_with(|| {
            self.array.push(Connection { socket, waits: false });
            self.array.len() - 1
        });
    }

    /// The last one takes the place of one that is closed (`connection_remove`).
    pub fn remove(&mut self, socket: SocketId) {
        let Some(place) = self.places.remove(&socket) else { return };
        self.array.swap_remove(place);
        if let Some(moved) = self.array.get(place) {
            self.places.insert(moved.socket, place);
        }
    }

    /// This one is to be watched again with all that wait.
    pub fn wait(&mut self, socket: SocketId) {
        if let Some(&place) = self.places.get(&socket) {
            self.array[place].waits = true;
        }
    }

    /// Those that wait, in order; they do not any more.
    pub fn take_waiting(&mut self) -> Vec<SocketId> {
        let waiting = self.array.iter_mut().filter(|connection| connection.waits);
        waiting
            .map(|connection| {
                connection.waits = false;
                connection.socket
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn sockets<const N: usize>(numbers: [u32; N]) -> [SocketId; N] {
        let mut sockets = [SocketId(0); N];
        let mut index = 0;
        while index < N {
            sockets[index] = SocketId(numbers[index]);
            index += 1;
        }
        sockets
    }

    #[test]
    fn the_last_takes_the_place_of_one_that_is_closed() {
        let mut connections = Connections::default();
        for socket in sockets([3, 8, 5, 9, 4]) {
            connections.add(socket);
        }
        connections.remove(SocketId(8));
        connections.add(SocketId(1));
        for socket in sockets([1, 3, 4, 5, 9, 8]) {
            connections.wait(socket);
        }
        assert_eq!(connections.take_waiting(), sockets([3, 4, 5, 9, 1]));
        assert_eq!(connections.take_waiting(), []);
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
                    0 => connections.add(socket),
                    1 => connections.remove(socket),
                    _ => connections.wait(socket),
                }
            }
            let waiting: Vec<_> = list.iter().filter(|(_, waits)| *waits).map(|&(socket, _)| socket).collect();
            prop_assert_eq!(connections.take_waiting(), waiting);
        }
    }
}
