//! Sockets: the ends of connections, and what their owners do with them.

use super::transport::Transport;
use super::{NetEvent, Network};
use crate::packet::NONE;
use crate::path::Path;
use crate::quic;
use crate::tcp::{Tcb, TcpInfo};
use onionlab_engine::{EventQueue, HostId};
use onionlab_quantities::{RandomStream, SimTime};

/// One end of a TCP connection or of a QUIC stream. The two ends are numbered 2n (it connected) and 2n + 1 (it accepted).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId(pub u32);

impl SocketId {
    /// The other end.
    #[must_use]
    pub const fn peer(self) -> Self {
        Self(self.0 ^ 1)
    }
    /// The index for arrays of sockets.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
    pub(super) const fn connection(self) -> usize {
        self.0 as usize / 2
    }
}

#[derive(Debug)]
pub(super) struct Socket {
    pub(super) transport: Transport,
    pub(super) host: HostId,
    pub(super) ready_next: u32,
    /// When the packet sent last arrives: the next may not overtake it.
    pub(super) last_arrival: SimTime,
    /// The earliest timer event that is pending for this socket.
    pub(super) timer_at: SimTime,
    pub(super) packets: u32,
    /// Packets that this end has put on the wire or into the queue before it, less those that were for it and have been received or dropped: the sum of both ends is what
    /// is on its way.
    pub(super) balance: i32,
    /// Timer events that are pending for this socket: an early one that fires leaves a later one where it is.
    pub(super) timer_events: u32,
    /// Segments with data in the host's queue of packets, where they are counted ([`UplinkQueue::SmallQueues`](crate::UplinkQueue::SmallQueues)).
    pub(super) leaving: u16,
    pub(super) ready: Ready,
    pub(super) released: bool,
}

/// Whether a socket waits for its host's uplink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ready {
    No,
    Waits,
    /// It waits in a heap by the number of its write, which it will leave sooner if it comes to owe something that has none.
    WaitsByNumber,
}

impl Socket {
    /// A packet of this socket is on its way.
    pub(super) fn add_packet(&mut self) {
        self.balance = self.balance.wrapping_add(1);
    }
    /// A packet that was for this socket, or of this socket and not sent yet, is no longer on its way.
    pub(super) fn take_packet(&mut self) {
        self.balance = self.balance.wrapping_sub(1);
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Connection {
    pub(super) path: Path,
    pub(super) stream: RandomStream,
}

impl Network {
    /// Opens a connection from `from` to `to` and returns the end at `from`; the other end is its peer and accepts at once.
    pub fn connect<E: Copy + From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, from: HostId, to: HostId) -> SocketId {
        let connection = self.new_path(from, to);
        let [mut initiator, mut acceptor] = [Tcb::new(&self.protocols.tcp), Tcb::new(&self.protocols.tcp)];
        acceptor.listen();
        initiator.connect(&self.protocols.tcp, queue.now());
        let id = self.add([(from, Transport::Tcp(initiator)), (to, Transport::Tcp(acceptor))], connection);
        self.serve(queue, id);
        id
    }

    /// What a new connection meets on its way, by its ordinal among those that the host opened.
    pub(super) fn new_path(&mut self, from: HostId, to: HostId) -> Connection {
        let path = self.topology.path(from, to);
        let host = &mut self.hosts[from.index()];
        let connection = Connection { path, stream: host.stream.member(host.connections) };
        host.connections += 1;
        connection
    }

    /// A place for two ends; returns the first.
    pub(super) fn add(&mut self, ends: [(HostId, Transport); 2], connection: Connection) -> SocketId {
        let [first, second] = ends.map(|(host, transport)| Socket {
            transport,
            host,
            ready_next: NONE,
            last_arrival: SimTime::ZERO,
            timer_at: SimTime::MAX,
            packets: 0,
            balance: 0,
            timer_events: 0,
            leaving: 0,
            ready: Ready::No,
            released: false,
        });
        if let Some(slot) = self.free.pop() {
            self.connections[slot as usize] = connection;
            self.sockets[slot as usize * 2] = first;
            self.sockets[slot as usize * 2 + 1] = second;
            self.changed[slot as usize * 2..][..2].fill(true);
            SocketId(slot * 2)
        } else {
            self.connections.push(connection);
            self.sockets.push(first);
            self.sockets.push(second);
            self.changed.extend([true; 2]);
            SocketId(self.sockets.len() as u32 - 2)
        }
    }

    /// The host of a socket.
    pub fn host(&self, socket: SocketId) -> HostId {
        self.sockets[socket.index()].host
    }

    /// Room in the send buffer.
    pub fn send_space(&self, socket: SocketId) -> u64 {
        match self.tcb(socket) {
            Some(tcb) => tcb.send_space(&self.protocols.tcp),
            None => self.ask(socket, |connection, _, id| connection.send_space(id)).unwrap_or(0),
        }
    }

    /// Whether poll would call the socket writable: a third of its send buffer is free.
    pub fn is_writable(&self, socket: SocketId) -> bool {
        match self.tcb(socket) {
            Some(tcb) => tcb.is_writable(&self.protocols.tcp),
            None => self.ask(socket, |connection, _, id| connection.is_writable(id)).unwrap_or(false),
        }
    }

    /// Bytes received in order and not read.
    #[inline]
    pub fn readable(&self, socket: SocketId) -> u64 {
        match self.tcb(socket) {
            Some(tcb) => tcb.readable(),
            None => self.ask(socket, |connection, _, id| connection.readable(id)).unwrap_or(0),
        }
    }

    /// Bytes that the owner of this end has written so far, those excepted that were given up with the connection before they were sent.
    pub fn bytes_written(&self, socket: SocketId) -> u64 {
        match self.tcb(socket) {
            Some(tcb) => tcb.bytes_written(),
            None => self.ask(socket, |connection, _, id| connection.bytes_written(id)).unwrap_or(0),
        }
    }

    /// Bytes that the owner of this end of a TCP connection has read so far; of a stream nobody asks.
    pub fn bytes_read(&self, socket: SocketId) -> u64 {
        self.tcb(socket).map_or(0, |tcb| tcb.bytes_received() - tcb.readable())
    }

    /// Bytes in this end's buffers: written and not acknowledged, received and not read, and received beyond a hole.
    pub fn buffered_bytes(&self, socket: SocketId) -> u64 {
        match self.tcb(socket) {
            Some(tcb) => tcb.bytes_in_buffers(),
            None => self
                .ask(socket, |connection, quic, id| {
                    let info = connection.info(quic, id);
                    info.unacked_bytes + info.notsent_bytes + connection.readable(id) + connection.bytes_beyond(id)
                })
                .unwrap_or(0),
        }
    }

    /// What `TCP_INFO` and `SIOCOUTQNSD` would show; of a stream [what they would](crate::quic::Connection::info) if it were a connection.
    #[inline]
    pub fn info(&self, socket: SocketId) -> TcpInfo {
        match self.tcb(socket) {
            Some(tcb) => tcb.info(&self.protocols.tcp),
            None => self.ask(socket, quic::Connection::info).expect("a released socket is not asked"),
        }
    }

    /// The same if anything of it may have changed since this was last asked. What is the same as ever is told without a look at the socket; of a stream,
    /// which shares its window with others, it always may have changed.
    #[inline]
    pub fn news(&mut self, socket: SocketId) -> Option<TcpInfo> {
        self.has_news(socket).then(|| {
            self.changed[socket.index()] = self.tcb(socket).is_none();
            self.info(socket)
        })
    }

    /// [`Self::news`] tells again: what the owner made of it holds no more.
    #[inline]
    pub fn tell_again(&mut self, socket: SocketId) {
        self.changed[socket.index()] = true;
    }

    /// Whether [`Self::news`] would tell any.
    #[inline]
    pub fn has_news(&self, socket: SocketId) -> bool {
        self.changed[socket.index()]
    }

    /// Puts up to `bytes` into the send buffer; returns how many fitted.
    pub fn write<E: Copy + From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, socket: SocketId, bytes: u64) -> u64 {
        let Socket { transport: Transport::Tcp(tcb), host, .. } = &mut self.sockets[socket.index()] else {
            return self.on_stream(queue, socket, |connection, _, id| connection.write(id, bytes)).unwrap_or(0);
        };
        self.changed[socket.index()] = true;
        let accepted = tcb.write(&self.protocols.tcp, queue.now(), bytes);
        let host = &mut self.hosts[host.index()];
        if accepted > 0 && host.uplink_queue.follows_writes() {
            host.writes += 1;
            tcb.number_last_write(host.writes);
        }
        self.serve(queue, socket);
        accepted
    }

    /// Takes `bytes` (at most [`Self::readable`]) out of the receive buffer.
    pub fn read<E: Copy + From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, socket: SocketId, bytes: u64) {
        let Transport::Tcp(tcb) = &mut self.sockets[socket.index()].transport else {
            self.on_stream(queue, socket, |connection, _, id| connection.read(id, bytes));
            return;
        };
        tcb.read(&self.protocols.tcp, queue.now(), bytes);
        self.serve(queue, socket);
    }

    /// Closes in order, after all that was written.
    pub fn close<E: Copy + From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, socket: SocketId) {
        let Transport::Tcp(tcb) = &mut self.sockets[socket.index()].transport else {
            self.on_stream(queue, socket, |connection, _, id| connection.finish(id));
            return;
        };
        self.changed[socket.index()] = true;
        tcb.close();
        self.serve(queue, socket);
    }

    /// Resets the connection; of a QUIC connection this stream alone.
    pub fn abort<E: Copy + From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, socket: SocketId) {
        let Transport::Tcp(tcb) = &mut self.sockets[socket.index()].transport else {
            self.on_stream(queue, socket, |connection, _, id| connection.reset(id));
            return;
        };
        self.changed[socket.index()] = true;
        tcb.abort();
        self.serve(queue, socket);
    }

    /// The owner wants no more upcalls of this end. When both ends are released and silent, the connection is forgotten and its
    /// number used again. An end that is released must have been closed or aborted, or its peer have reset it.
    pub fn release<E: Copy + From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, socket: SocketId) {
        self.sockets[socket.index()].released = true;
        if let Transport::Tcp(_) = self.sockets[socket.index()].transport {
            self.forget_if_silent(socket);
        } else {
            self.release_stream(queue, socket);
        }
    }
}
