//! Sockets of a host's tor process: how many are open, and what happens when there are no more (`ConnLimit`, `core/mainloop/connection.c`).
//!
//! A socket is one end of a channel or an exit's connection to a server; listening sockets and files do not count. It is open from the call that connects, or
//! from the end of TCP's handshake at the side that accepts, to the call that closes it: what the kernel does afterwards takes no descriptor.
//!
//! At the limit tor's `connect` fails before a packet leaves (`connection_connect_sockaddr`: `ENOBUFS`). A circuit that was to be extended is closed there (END_CIRC_REASON_CONNECTFAILED),
//! a stream is ended with RESOURCELIMIT, upon which its client tries another circuit. `accept` fails too (`EMFILE`), and tor leaves the connection in the listener's queue: TCP
//! is up and the opener's ClientHello lies in the kernel, but nobody answers until a socket is closed. Whoever opened it waits, five minutes at most (`run_connection_housekeeping`: not open within
//! `KeepalivePeriod`); circuits that a relay extends over it run into their build time-out before.
//! Deviations: both happen at the same number, where tor's `connect` stops 33 descriptors short of the kernel's limit, at which `accept` stops; the listener's queue has no limit. Over QUIC all channels of a process share one UDP socket, which is not counted. tor's handler that closes connections when sockets run out is off, as it is by default (`DisableOOSCheck 1`).

use crate::channel::Opening;
use crate::head_of_line::Held;
use crate::ids::EndId;
use crate::node::Role;
use crate::world::World;
use onionlab_engine::HostId;
use std::collections::VecDeque;

/// What an open connection between relays, or with a client, costs a relay while nothing goes over it: bytes.
///
/// 16,700 in tor's process (its connection, channel and buffers, and OpenSSL's) as measured with tor 0.4.9.11 by the hundred connections (`tools/measure_tor/connections.py`), and 3,700 in the kernel: socket,
/// its inode, file and directory entry, and its place in the poll (sizes of Linux 6's slabs). The same figure stands for a connection of QUIC, which no tor has; its streams cost nothing here.
pub const CONNECTION_BYTES: u64 = 20_400;

/// The sockets of one host.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sockets {
    /// Open now, and most since the last sample.
    pub open: u32,
    pub most: u32,
    /// Since the start: opened and closed; calls to connect that failed and connections that had to wait to be accepted.
    pub opened: u64,
    pub closed: u64,
    pub refused: u64,
    /// Queues of circuits that were moved to another channel, since the start.
    pub moved: u64,
    /// What waited in them for lost bytes of other circuits, since the start.
    pub held: Held,
    /// Ends of channels whose TCP is up and which wait to be accepted.
    backlog: VecDeque<EndId>,
}

impl Sockets {
    fn open_one(&mut self) {
        self.open += 1;
        self.opened += 1;
        self.most = self.most.max(self.open);
    }
}

impl World {
    /// Whether this host's tor may have one more socket.
    pub(crate) fn has_socket_left(&self, host: HostId) -> bool {
        let limited = matches!(self.nodes[host.index()].role, Role::Relay { .. });
        !limited || self.settings.socket_limit.is_none_or(|limit| self.descriptors[host.index()].open < limit)
    }

    /// Takes a socket to connect with. False if there is none left.
    pub(crate) fn take_socket(&mut self, host: HostId) -> bool {
        let room = self.has_socket_left(host);
        let sockets = &mut self.descriptors[host.index()];
        if room {
            sockets.open_one();
        } else {
            sockets.refused += 1;
        }
        room
    }

    /// TCP is up at the side that was connected to: it is accepted now, or when another socket is closed.
    pub(crate) fn accept_channel(&mut self, id: EndId) {
        let host = self.ends[id.index()].host;
        let quic = self.settings.links.are_quic();
        if quic || self.has_socket_left(host) {
            if !quic {
                self.descriptors[host.index()].open_one();
            }
            let hello = self.flights(id)[0];
            self.ends[id.index()].opening = Opening::Awaiting { flight: 0, bytes: hello };
        } else {
            let sockets = &mut self.descriptors[host.index()];
            sockets.refused += 1;
            sockets.backlog.push_back(id);
            self.expire_unless_open(id.peer());
        }
    }

    /// A socket is closed: whoever has waited longest is accepted.
    pub(crate) fn give_back_socket(&mut self, host: HostId) {
        let sockets = &mut self.descriptors[host.index()];
        sockets.open -= 1;
        sockets.closed += 1;
        if self.has_socket_left(host)
            && let Some(id) = self.descriptors[host.index()].backlog.pop_front()
        {
            self.accept_channel(id);
            self.watch_channel_reading(id);
        }
    }

    /// The end of a channel is closed: its socket is given back, if it had one.
    pub(crate) fn close_socket_of(&mut self, id: EndId, was: Opening) {
        let host = self.ends[id.index()].host;
        if self.settings.links.are_quic() {
            return;
        }
        if was == Opening::Arriving {
            self.descriptors[host.index()].backlog.retain(|&other| other != id);
        } else {
            self.give_back_socket(host);
        }
    }

    /// Sockets that hosts have opened and closed since the start, all together.
    pub fn sockets_opened_and_closed(&self) -> (u64, u64) {
        self.descriptors.iter().fold((0, 0), |(opened, closed), of| (opened + of.opened, closed + of.closed))
    }
}
