//! What an end of a connection runs: TCP, or QUIC with streams that are sockets of their own.

use crate::network::SocketId;
use crate::packet::{Body, Packet};
use crate::quic::{self, QuicConfig};
use crate::tcp::{Tcb, TcpConfig};
use onionlab_quantities::SimTime;

/// How all connections behave.
#[derive(Debug, Clone)]
pub(crate) struct Protocols {
    pub tcp: TcpConfig,
    pub quic: QuicConfig,
}

/// A socket's state. Streams lie with their connection, which has a pair of ends that no owner knows.
///
/// Nearly all are TCP's, so that is looked for first, and the rest is done elsewhere.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all are the large one")]
pub(super) enum Transport {
    Tcp(Tcb),
    Quic(Box<quic::Connection>),
    /// A stream of the connection that this end belongs to, by its ID.
    Stream {
        connection: SocketId,
        id: u32,
    },
    /// A stream that is over and forgotten.
    Over,
}

impl Transport {
    #[inline]
    pub fn wants_send(&self, protocols: &Protocols, now: SimTime) -> bool {
        if let Self::Tcp(tcb) = self { tcb.wants_send(&protocols.tcp) } else { self.wants_datagram(&protocols.quic, now) }
    }

    #[inline(never)]
    fn wants_datagram(&self, cfg: &QuicConfig, now: SimTime) -> bool {
        self.quic().is_some_and(|connection| connection.wants_send(cfg, now))
    }

    #[inline]
    pub fn deadline(&self) -> SimTime {
        if let Self::Tcp(tcb) = self { tcb.deadline() } else { self.quic_deadline() }
    }

    #[inline(never)]
    fn quic_deadline(&self) -> SimTime {
        self.quic().map_or(SimTime::MAX, quic::Connection::deadline)
    }

    /// Writes the packet to be sent now; false if there is none.
    #[inline]
    pub fn write_packet(&mut self, protocols: &Protocols, now: SimTime, packet: &mut Packet) -> bool {
        if let Self::Tcp(tcb) = self {
            tcb.write_segment(&protocols.tcp, now, packet.segment_mut())
        } else {
            self.write_datagram(&protocols.quic, now, packet)
        }
    }

    #[inline(never)]
    fn write_datagram(&mut self, cfg: &QuicConfig, now: SimTime, packet: &mut Packet) -> bool {
        let Self::Quic(connection) = self else { return false };
        let Some(datagram) = connection.next_packet(cfg, now) else { return false };
        packet.body = Body::Datagram(datagram);
        true
    }

    pub fn quic(&self) -> Option<&quic::Connection> {
        if let Self::Quic(connection) = self { Some(connection) } else { None }
    }

    /// Where the order of writes decides: whether the packet that is due takes its number now, as what QUIC sends does and, if they are numbered, a SYN, and otherwise its number.
    pub fn order(&self, syns: bool) -> (bool, u64) {
        match self {
            Self::Tcp(tcb) => (syns && tcb.owes_syn(), tcb.next_order()),
            Self::Quic(connection) => (connection.has_content(), 0),
            Self::Stream { .. } | Self::Over => (false, 0),
        }
    }

    /// Whether something without payload is due, which goes before all data where the order of writes decides.
    pub fn owes_unnumbered(&self) -> bool {
        matches!(self, Self::Tcp(tcb) if tcb.owes_unnumbered())
    }

    /// How many segments with data it may have in its host's queue of packets, where those are counted; datagrams are not.
    pub fn small_queue(&self, protocols: &Protocols) -> u32 {
        if let Self::Tcp(tcb) = self { tcb.small_queue(&protocols.tcp) } else { u32::MAX }
    }

    /// Nothing of it is needed any more, once its owner has released it and no packet is on its way.
    pub fn is_over(&self) -> bool {
        match self {
            Self::Tcp(_) | Self::Over => true,
            Self::Quic(connection) => connection.is_over(),
            Self::Stream { .. } => false,
        }
    }

    /// Asks for the memory of what TCP has in flight.
    #[inline]
    pub fn prefetch(&self, whole: bool) {
        if let Self::Tcp(tcb) = self {
            tcb.prefetch_flight(whole);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_cost_tcp_no_memory() {
        assert_eq!(size_of::<Transport>(), size_of::<Tcb>());
    }
}
