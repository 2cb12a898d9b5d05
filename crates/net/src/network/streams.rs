//! Streams as sockets: several between two hosts share one QUIC connection, which the first opens and which ends by its idle time-out.

use super::transport::Transport;
use super::{Connection, NetEvent, Network, Socket, SocketId, Upcall};
use crate::packet::{Body, PacketId};
use crate::quic::{self, ConnectionInfo, ConnectionState, QuicConfig, Role};
use crate::tcp::Tcb;
use onionlab_engine::{EventQueue, HostId};
use onionlab_quantities::SimTime;

fn pair(a: HostId, b: HostId) -> (HostId, HostId) {
    if a < b { (a, b) } else { (b, a) }
}

impl Network {
    /// Opens a QUIC stream from `from` to `to` and returns the end at `from`; the other end is its peer and accepts at once.
    ///
    /// To its owner it is a socket like one that [`Self::connect`] opens. All streams between two hosts, whichever end opened them, share one
    /// connection. The first opens it; a stream of a connection that is up is connected at once, its peer with the first packet.
    pub fn connect_stream<E: Copy + From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, from: HostId, to: HostId) -> SocketId {
        let connection = self.quic_connection(from, to).unwrap_or_else(|| self.open_quic(queue, from, to));
        let connection = if self.host(connection) == from { connection } else { connection.peer() };
        let path = self.connections[connection.connection()];
        let over = [(from, Transport::Over), (to, Transport::Over)];
        let socket = self.add(over, Connection { ..path });
        let now = queue.now();
        let quic = &self.protocols.quic;
        let Transport::Quic(end) = &mut self.sockets[connection.index()].transport else {
            unreachable!("an end of a connection")
        };
        let id = end.open(quic, now, socket.0);
        let Transport::Quic(end) = &mut self.sockets[connection.peer().index()].transport else { unreachable!("its other end") };
        end.accept(quic, now, id, socket.peer().0);
        for (socket, connection) in [(socket, connection), (socket.peer(), connection.peer())] {
            self.sockets[socket.index()].transport = Transport::Stream { connection, id };
            self.tell_streams(connection);
            self.serve(queue, connection);
        }
        socket
    }

    fn open_quic<E: Copy + From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, from: HostId, to: HostId) -> SocketId {
        let path = self.new_path(from, to);
        let end = |role| Transport::Quic(Box::new(quic::Connection::new(&self.protocols.quic, queue.now(), role)));
        let ends = [(from, end(Role::Client)), (to, end(Role::Server))];
        let connection = self.add(ends, path);
        for end in [connection, connection.peer()] {
            // It has no owner.
            self.sockets[end.index()].released = true;
        }
        self.pairs.insert(pair(from, to), connection);
        connection
    }

    /// The QUIC connection that a stream between two hosts would use: one of its ends. `None` if it would open one.
    pub fn quic_connection(&self, a: HostId, b: HostId) -> Option<SocketId> {
        let connection = *self.pairs.get(&pair(a, b))?;
        let lives = |end: SocketId| matches!(&self.sockets[end.index()].transport, Transport::Quic(quic) if quic.state() != ConnectionState::Closed);
        (lives(connection) && lives(connection.peer())).then_some(connection)
    }

    /// Closes the QUIC connection between two hosts, if there is one, at the end of `from`; its streams are reset.
    pub fn disconnect<E: Copy + From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, from: HostId, to: HostId) {
        let Some(connection) = self.quic_connection(from, to) else { return };
        let end = if self.host(connection) == from { connection } else { connection.peer() };
        if let Transport::Quic(quic) = &mut self.sockets[end.index()].transport {
            quic.close();
        }
        self.tell_streams(end);
        self.serve(queue, end);
    }

    /// The sender of the QUIC connection that a stream belongs to, at the stream's end; `None` if it is not a stream, or over.
    pub fn quic_info(&self, stream: SocketId) -> Option<ConnectionInfo> {
        self.ask(stream, |connection, _, _| connection.connection_info())
    }

    /// Bytes of memory that one open, idle QUIC connection takes, both ends, without its streams.
    pub const fn quic_connection_memory() -> usize {
        Self::connection_memory() + 2 * size_of::<quic::Connection>()
    }

    /// Bytes of memory that one open, idle stream takes, both ends.
    pub const fn stream_memory() -> usize {
        Self::connection_memory() + 2 * quic::Connection::STREAM_BYTES
    }

    #[inline]
    pub(super) fn tcb(&self, socket: SocketId) -> Option<&Tcb> {
        if let Transport::Tcp(tcb) = &self.sockets[socket.index()].transport { Some(tcb) } else { None }
    }

    /// Asks a stream's connection something about it; nothing if the stream is over.
    #[inline(never)]
    pub(super) fn ask<R>(&self, stream: SocketId, what: impl FnOnce(&quic::Connection, &QuicConfig, u32) -> R) -> Option<R> {
        let Transport::Stream { connection, id } = self.sockets[stream.index()].transport else { return None };
        let quic = self.sockets[connection.index()].transport.quic()?;
        Some(what(quic, &self.protocols.quic, id))
    }

    /// Does something with a stream, and what follows from it; nothing if the stream is over.
    #[inline(never)]
    pub(super) fn on_stream<E: Copy + From<NetEvent>, R>(
        &mut self,
        queue: &mut EventQueue<E>,
        socket: SocketId,
        what: impl FnOnce(&mut quic::Connection, &QuicConfig, u32) -> R,
    ) -> Option<R> {
        let Transport::Stream { connection, id } = self.sockets[socket.index()].transport else { return None };
        let Transport::Quic(quic) = &mut self.sockets[connection.index()].transport else { return None };
        let result = what(quic, &self.protocols.quic, id);
        self.tell_streams(connection);
        self.serve(queue, connection);
        Some(result)
    }

    /// A datagram reaches an end of a connection.
    #[inline(never)]
    pub(super) fn receive_datagram(&mut self, to: SocketId, packet: PacketId, now: SimTime) {
        if let (Transport::Quic(quic), Body::Datagram(datagram)) =
            (&mut self.sockets[to.index()].transport, &self.packets.get(packet).body)
        {
            quic.on_packet(&self.protocols.quic, now, datagram);
        }
        self.tell_streams(to);
    }

    /// A timer of a connection is due.
    #[inline(never)]
    pub(super) fn quic_timer(&mut self, connection: SocketId, now: SimTime) {
        if let Transport::Quic(quic) = &mut self.sockets[connection.index()].transport {
            quic.on_timer(&self.protocols.quic, now);
        }
        self.tell_streams(connection);
    }

    pub(super) fn release_stream<E: Copy + From<NetEvent>>(&mut self, queue: &mut EventQueue<E>, socket: SocketId) {
        let Transport::Stream { connection, .. } = self.sockets[socket.index()].transport else { return };
        // What lay unread makes room in the connection's window, which the other end has to hear.
        self.on_stream(queue, socket, |quic, _, id| quic.release(id));
        self.forget_if_silent(connection);
    }

    /// Tells owners of streams what happened at this end of a connection, and forgets streams that are over at both ends.
    pub(super) fn tell_streams(&mut self, connection: SocketId) {
        let Transport::Quic(quic) = &mut self.sockets[connection.index()].transport else { return };
        let mut over = Vec::new();
        while let Some((owner, effects)) = quic.next_event() {
            self.upcalls.push_back(Upcall { socket: SocketId(owner), effects });
        }
        while let Some(owner) = quic.next_forgotten() {
            over.push(SocketId(owner));
        }
        for socket in over {
            self.sockets[socket.index()].transport = Transport::Over;
            if let Socket { transport: Transport::Over, .. } = self.sockets[socket.peer().index()] {
                for end in [socket, socket.peer()] {
                    self.sockets[end.index()].released = false;
                }
                self.free.push(socket.connection() as u32);
            }
        }
    }

    /// A connection is gone at both ends.
    pub(super) fn forget_pair(&mut self, connection: SocketId) {
        let ends = [connection, connection.peer()];
        let key = pair(self.host(ends[0]), self.host(ends[1]));
        if self.pairs.get(&key).is_some_and(|current| ends.contains(current)) {
            self.pairs.remove(&key);
        }
        for end in ends {
            self.sockets[end.index()].transport = Transport::Over;
        }
    }
}
