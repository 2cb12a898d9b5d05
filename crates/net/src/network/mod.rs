//! Hosts and connections: packets from a socket through uplink, path and downlink to its peer.
//!
//! A packet costs three events at most: its uplink is free again (only if somebody waits for that), it arrives, it is
//! through the downlink. An event names its packet, so that between leaving and arriving nothing of the sender is looked at. A timer
//! that was put off is looked at when its old time comes, not moved.

mod downlink;
mod streams;
mod transport;
mod uplink;

use crate::link::{Shaper, Shaping};
pub use crate::packet::PacketId;
use crate::packet::{NONE, PacketList, PacketPool};
use crate::path::{Path, Topology};
use crate::queue::{CoDel, QueueConfig, UplinkQueue};
use crate::quic::{self, QuicConfig};
use crate::tcp::{Effects, Filled, Tcb, TcpConfig, TcpInfo};
use onionlab_engine::{EventQueue, HostId, prefetch};
use onionlab_quantities::{Bandwidth, Bytes, RandomStream, Seed, SimDuration, SimTime};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
pub(crate) use transport::Protocols;
use transport::Transport;

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
    const fn connection(self) -> usize {
        self.0 as usize / 2
    }
}

/// What the network asks its event queue to hand back to it. The host of the event is the host concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetEvent {
    /// A packet reaches its receiver's host.
    Arrive(PacketId),
    /// The packet in the downlink is through.
    Deliver(PacketId),
    /// The uplink is free and sockets wait for it.
    UplinkFree,
    /// A timer of this socket may be due.
    Timer(SocketId),
}

/// Something that happened to a socket and that its owner wants to know.
#[derive(Debug, Clone, Copy)]
pub struct Upcall {
    /// The socket.
    pub socket: SocketId,
    /// What happened.
    pub effects: Effects,
}

/// A host's access link.
#[derive(Debug, Clone)]
pub struct HostConfig {
    /// Unique name: it selects the host's random values.
    pub name: String,
    /// Rate towards the network.
    pub up: Bandwidth,
    /// Rate from the network.
    pub down: Bandwidth,
    /// How the rates limit packets.
    pub shaping: Shaping,
    /// What waits for the uplink.
    pub uplink_queue: UplinkQueue,
    /// The queue before the downlink.
    pub queue: QueueConfig,
}

/// What passed a host's access link since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HostCounters {
    /// Bytes that left through the uplink, headers included.
    pub bytes_sent: u64,
    /// Bytes that came through the downlink, headers included.
    pub bytes_received: u64,
    /// Packets that left.
    pub packets_sent: u64,
    /// Packets dropped before the uplink, where it has a queue of its own.
    pub uplink_drops: u64,
    /// Packets dropped by the downlink's queue.
    pub downlink_drops: u64,
    /// Packets that the host sent and the path lost.
    pub path_losses: u64,
}

/// A host's links. What each packet touches comes first.
#[derive(Debug)]
#[repr(C, align(64))]
struct Host {
    up: Shaper,
    /// Until then the uplink is busy.
    up_free: SimTime,
    /// Sockets that have something to send, chained through `Socket::ready_next`.
    ready_head: u32,
    ready_tail: u32,
    uplink_queue: UplinkQueue,
    up_event: bool,
    /// A packet is in the downlink.
    down_busy: bool,
    waiting_packets: u32,
    /// Packets that wait for the downlink.
    waiting: PacketList,
    waiting_bytes: u64,
    down: Shaper,
    counters: HostCounters,
    queue: QueueConfig,
    codel: CoDel,
    /// The same as `ready_head` and `ready_tail` where the order of writes decides: number of the write, then order of becoming ready.
    ready_by_write: BinaryHeap<Reverse<(u64, u64, u32)>>,
    /// How many became ready, and how many writes there were.
    made_ready: u64,
    writes: u64,
    /// Packets that wait for the uplink, where it has a queue of its own.
    leaving: PacketList,
    leaving_packets: u32,
    stream: RandomStream,
    connections: u64,
}

/// The part of a host that each packet touches.
const HOT_HOST: usize = std::mem::offset_of!(Host, codel);

#[derive(Debug)]
struct Socket {
    transport: Transport,
    host: HostId,
    ready_next: u32,
    /// When the packet sent last arrives: the next may not overtake it.
    last_arrival: SimTime,
    /// The earliest timer event that is pending for this socket.
    timer_at: SimTime,
    packets: u32,
    /// Packets that this end has put on the wire or into the queue before it, less those that were for it and have been received or dropped: the sum of both ends is what
    /// is on its way.
    balance: i32,
    timer_events: u16,
    in_ready: bool,
    released: bool,
}

impl Socket {
    /// A packet of this socket is on its way.
    fn add_packet(&mut self) {
        self.balance = self.balance.wrapping_add(1);
    }
    /// A packet that was for this socket, or of this socket and not sent yet, is no longer on its way.
    fn take_packet(&mut self) {
        self.balance = self.balance.wrapping_sub(1);
    }
}

#[derive(Debug, Clone, Copy)]
struct Connection {
    path: Path,
    stream: RandomStream,
}

/// All hosts, links, paths and connections.
pub struct Network {
    hosts: Vec<Host>,
    sockets: Vec<Socket>,
    connections: Vec<Connection>,
    free: Vec<u32>,
    packets: PacketPool,
    upcalls: VecDeque<Upcall>,
    filled: VecDeque<(SocketId, Filled)>,
    protocols: Protocols,
    /// The QUIC connection that streams between two hosts use: its end at the host that opened it.
    pairs: HashMap<(HostId, HostId), SocketId>,
    topology: Box<dyn Topology>,
}

impl Network {
    /// A network of `hosts` (their ids are their indices) whose paths `topology` knows and whose sockets all behave as `tcp` says.
    pub fn new(seed: Seed, hosts: &[HostConfig], topology: Box<dyn Topology>, tcp: TcpConfig) -> Self {
        let hosts = hosts
            .iter()
            .map(|host| Host {
                up: Shaper::new(host.up, host.shaping),
                up_free: SimTime::ZERO,
                ready_head: NONE,
                ready_tail: NONE,
                uplink_queue: host.uplink_queue,
                up_event: false,
                down_busy: false,
                waiting_packets: 0,
                waiting: PacketList::EMPTY,
                waiting_bytes: 0,
                down: Shaper::new(host.down, host.shaping),
                counters: HostCounters::default(),
                queue: host.queue,
                codel: CoDel::default(),
                ready_by_write: BinaryHeap::new(),
                made_ready: 0,
                writes: 0,
                leaving: PacketList::EMPTY,
                leaving_packets: 0,
                stream: RandomStream::new(seed, &host.name, "path"),
                connections: 0,
            })
            .collect();
        Self {
            hosts,
            sockets: Vec::new(),
            connections: Vec::new(),
            free: Vec::new(),
            packets: PacketPool::default(),
            upcalls: VecDeque::new(),
            filled: VecDeque::new(),
            protocols: Protocols { tcp, quic: QuicConfig::standard() },
            pairs: HashMap::new(),
            topology,
        }
    }

    /// The same with this behaviour of QUIC connections, of which there are none yet; otherwise it is [`QuicConfig::standard`].
    #[must_use]
    pub fn with_quic(mut self, quic: QuicConfig) -> Self {
        self.protocols.quic = quic;
        self
    }

    /// The next thing that an owner of a socket should know.
    pub fn next_upcall(&mut self) -> Option<Upcall> {
        self.upcalls.pop_front()
    }

    /// Whether a hole was filled of which the owner does not know yet; there is an upcall then too, unless the socket was released.
    #[inline]
    pub fn has_filled(&self) -> bool {
        !self.filled.is_empty()
    }

    /// The next hole that was filled, and the socket that received its bytes.
    pub fn next_filled(&mut self) -> Option<(SocketId, Filled)> {
        self.filled.pop_front()
    }

    /// What passed the link of `host`.
    pub fn counters(&self, host: HostId) -> HostCounters {
        self.hosts[host.index()].counters
    }

    /// The path between two hosts.
    pub fn path(&self, a: HostId, b: HostId) -> Path {
        self.topology.path(a, b)
    }

    /// Bytes that the uplink of `host` carries in `interval`.
    pub fn uplink_capacity(&self, host: HostId, interval: SimDuration) -> Bytes {
        self.hosts[host.index()].up.bytes_in(interval)
    }

    /// Bytes of memory that one open, idle connection takes, both ends.
    pub const fn connection_memory() -> usize {
        2 * size_of::<Socket>() + size_of::<Connection>()
    }

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
    fn new_path(&mut self, from: HostId, to: HostId) -> Connection {
        let path = self.topology.path(from, to);
        let host = &mut self.hosts[from.index()];
        let connection = Connection { path, stream: host.stream.member(host.connections) };
        host.connections += 1;
        connection
    }

    /// A place for two ends; returns the first.
    fn add(&mut self, ends: [(HostId, Transport); 2], connection: Connection) -> SocketId {
        let [first, second] = ends.map(|(host, transport)| Socket {
            transport,
            host,
            ready_next: NONE,
            last_arrival: SimTime::ZERO,
            timer_at: SimTime::MAX,
            packets: 0,
            balance: 0,
            timer_events: 0,
            in_ready: false,
            released: false,
        });
        if let Some(slot) = self.free.pop() {
            self.connections[slot as usize] = connection;
            self.sockets[slot as usize * 2] = first;
            self.sockets[slot as usize * 2 + 1] = second;
            SocketId(slot * 2)
        } else {
            self.connections.push(connection);
            self.sockets.push(first);
            self.sockets.push(second);
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
            None => self.ask(socket, quic::Connection::send_space).unwrap_or(0),
        }
    }

    /// Whether poll would call the socket writable: a third of its send buffer is free.
    pub fn is_writable(&self, socket: SocketId) -> bool {
        match self.tcb(socket) {
            Some(tcb) => tcb.is_writable(&self.protocols.tcp),
            None => self.ask(socket, quic::Connection::is_writable).unwrap_or(false),
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

    /// Bytes in this end's buffers: written and not acknowledged, received and not read, and received beyond a hole (of a stream without these).
    pub fn buffered_bytes(&self, socket: SocketId) -> u64 {
        match self.tcb(socket) {
            Some(tcb) => tcb.bytes_in_buffers(),
            None => self
                .ask(socket, |connection, quic, id| {
                    let info = connection.info(quic, id);
                    info.unacked_bytes + info.notsent_bytes + connection.readable(id)
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

    /// Puts up to `bytes` into the send buffer; returns how many fitted.
    pub fn write<E: Copy + From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, socket: SocketId, bytes: u64) -> u64 {
        let Socket { transport: Transport::Tcp(tcb), host, .. } = &mut self.sockets[socket.index()] else {
            return self.on_stream(queue, socket, |connection, quic, id| connection.write(quic, id, bytes)).unwrap_or(0);
        };
        let accepted = tcb.write(&self.protocols.tcp, queue.now(), bytes);
        let host = &mut self.hosts[host.index()];
        if accepted > 0 && host.uplink_queue == UplinkQueue::WriteOrder {
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
        tcb.close();
        self.serve(queue, socket);
    }

    /// Resets the connection; of a QUIC connection this stream alone.
    pub fn abort<E: Copy + From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, socket: SocketId) {
        let Transport::Tcp(tcb) = &mut self.sockets[socket.index()].transport else {
            self.on_stream(queue, socket, |connection, _, id| connection.reset(id));
            return;
        };
        tcb.abort();
        self.serve(queue, socket);
    }

    /// The owner wants no more upcalls of this end. When both ends are released and silent, the connection is forgotten and its
    /// number used again. An end that is released must have been closed or aborted, or its peer have reset it.
    pub fn release(&mut self, socket: SocketId) {
        self.sockets[socket.index()].released = true;
        if let Transport::Tcp(_) = self.sockets[socket.index()].transport {
            self.forget_if_silent(socket);
        } else {
            self.release_stream(socket);
        }
    }

    fn forget_if_silent(&mut self, socket: SocketId) {
        let silent =
            |socket: &Socket| socket.released && socket.timer_events == 0 && !socket.in_ready && socket.transport.is_over();
        let ends = [socket.index(), socket.peer().index()];
        let on_their_way = self.sockets[ends[0]].balance.wrapping_add(self.sockets[ends[1]].balance);
        if on_their_way == 0 && ends.iter().all(|&end| silent(&self.sockets[end])) {
            for end in ends {
                self.sockets[end].released = false;
            }
            if let Transport::Quic(_) = self.sockets[socket.index()].transport {
                self.forget_pair(socket);
            }
            self.free.push(socket.connection() as u32);
        }
    }

    /// Asks for the memory that an event will need, step by step, of which each needs the one before to have come: 0 is to be called well before
    /// the event is handled, 3 shortly before. It returns the socket that will receive data, once that is known.
    #[inline]
    pub fn prefetch(&self, host: HostId, event: NetEvent, step: u8) -> Option<SocketId> {
        match (event, step) {
            (NetEvent::Arrive(packet) | NetEvent::Deliver(packet), 0) => {
                prefetch(self.packets.get(packet), 64);
                prefetch(&self.hosts[host.index()], HOT_HOST);
            }
            (NetEvent::Deliver(packet), _) => {
                if step == 1 {
                    // The packet that comes into the downlink then.
                    self.packets.prefetch_first(self.hosts[host.index()].waiting);
                }
                let packet = self.packets.get(packet);
                self.prefetch_socket(packet.to, step);
                return packet.brings_data().then_some(packet.to);
            }
            (NetEvent::UplinkFree, 0) => prefetch(&self.hosts[host.index()], HOT_HOST),
            (NetEvent::UplinkFree, _) => {
                let first = self.hosts[host.index()].ready_head;
                if first != NONE {
                    self.prefetch_socket(SocketId(first), step);
                }
            }
            (NetEvent::Timer(socket), 1 | 2) => self.prefetch_socket(socket, step),
            _ => {}
        }
        None
    }

    /// The TCP socket that will receive data with this event.
    #[inline]
    pub fn receiver(&self, event: NetEvent) -> Option<SocketId> {
        let NetEvent::Deliver(packet) = event else { return None };
        let packet = self.packets.get(packet);
        packet.brings_data().then_some(packet.to)
    }

    /// The socket itself with step 1, what it keeps apart while segments are in flight with steps 2 and 3.
    #[inline]
    pub fn prefetch_socket(&self, id: SocketId, step: u8) {
        let socket = &self.sockets[id.index()];
        if step == 1 {
            prefetch(socket, size_of::<Socket>());
            prefetch(&self.connections[id.connection()], size_of::<Connection>());
        } else {
            socket.transport.prefetch(step == 2);
        }
    }

    /// Handles an event that the network scheduled.
    pub fn handle<E: Copy + From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, host: HostId, event: NetEvent) {
        match event {
            NetEvent::Arrive(packet) => self.arrive(queue, host, packet),
            NetEvent::Deliver(packet) => self.deliver(queue, host, packet),
            NetEvent::UplinkFree => {
                self.hosts[host.index()].up_event = false;
                self.transmit(queue, host);
            }
            NetEvent::Timer(socket) => self.timer(queue, socket),
        }
    }

    /// Tells the owner what it wants to know, sends what can be sent, sets the timer.
    #[inline]
    fn react<E: Copy + From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, id: SocketId, effects: Effects) {
        let for_owner = Effects::READABLE | Effects::WRITABLE | Effects::CONNECTED | Effects::PEER_CLOSED | Effects::RESET;
        if effects.has(Effects::FILLED) {
            self.note_filled(id);
        }
        if effects.has(for_owner) && !self.sockets[id.index()].released {
            self.upcalls.push_back(Upcall { socket: id, effects });
        }
        self.serve(queue, id);
    }

    #[cold]
    #[inline(never)]
    fn note_filled(&mut self, id: SocketId) {
        if let Transport::Tcp(tcb) = &mut self.sockets[id.index()].transport {
            self.filled.extend(tcb.take_filled().map(|filled| (id, filled)));
        }
    }

    fn serve<E: Copy + From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, id: SocketId) {
        let socket = &mut self.sockets[id.index()];
        if !socket.in_ready && socket.transport.wants_send(&self.protocols, queue.now()) {
            socket.in_ready = true;
            let host_id = socket.host;
            self.push_ready(host_id, id);
            self.transmit(queue, host_id);
        }
        self.arm_timer(queue, id);
    }

    fn arm_timer<E: Copy + From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, id: SocketId) {
        let socket = &mut self.sockets[id.index()];
        let deadline = socket.transport.deadline();
        if deadline < socket.timer_at {
            let deadline = deadline.max(queue.now());
            socket.timer_at = deadline;
            socket.timer_events += 1;
            queue.schedule(deadline, socket.host, NetEvent::Timer(id).into());
        }
    }

    fn timer<E: Copy + From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, id: SocketId) {
        let now = queue.now();
        let socket = &mut self.sockets[id.index()];
        socket.timer_events -= 1;
        if socket.timer_at <= now {
            socket.timer_at = SimTime::MAX;
        }
        if socket.transport.deadline() <= now {
            let effects = if let Transport::Tcp(tcb) = &mut socket.transport {
                tcb.on_timer(&self.protocols.tcp, now)
            } else {
                self.quic_timer(id, now);
                Effects::NONE
            };
            self.react(queue, id, effects);
        } else {
            self.arm_timer(queue, id);
        }
        if self.sockets[id.index()].released {
            self.forget_if_silent(id);
        }
    }
}
