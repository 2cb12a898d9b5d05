//! A channel: one TLS connection between two tor processes, seen from one of its ends.

use crate::cell::CellQueue;
use crate::head_of_line::Held;
use crate::ids::{CircuitId, EndId};
use crate::node::Role;
use crate::outbuf::Outbuf;
use crate::sent::SentId;
use crate::tls::Tls;
use onionlab_circuitmux::{Circuitmux, PolicyKind, Slot};
use onionlab_engine::HostId;
use onionlab_net::SocketId;
use onionlab_quantities::SimTime;
use smallvec::SmallVec;
use std::cmp::Ordering;

/// Bytes of the flights that open a channel, in order, the initiator's first (`core/or/channeltls.c`, `connection_or.c`).
///
/// With TLS 1.3 as measured between processes of tor 0.4.9.11 (`docs/results/tor-cpu.md`; certificates differ by some bytes): ClientHello;
/// ServerHello, certificate and Finished; the initiator's Finished and VERSIONS; two session tickets, the responder's VERSIONS, CERTS, AUTH_CHALLENGE and
/// NETINFO; at last NETINFO of a client, or CERTS, AUTHENTICATE and NETINFO of a relay. Before TLS 1.3 VERSIONS cannot leave with Finished, which makes one round
/// trip more (RFC 5246, section 7.3); those sizes are sums of the parts, good to some hundred bytes. Without TLS a channel opens as with TLS 1.3.
///
/// Over QUIC the handshake of TLS is the connection's own, so that the link handshake begins with VERSIONS (11 bytes) as the first data.
pub(crate) fn flights(tls: Tls, quic: bool, initiator: Role) -> &'static [u32] {
    const FOR_CLIENTS: u32 = 536;
    const FOR_RELAYS: u32 = 2226;
    match (tls, initiator) {
        (_, Role::Relay { .. }) if quic => &[11, 2224, FOR_RELAYS],
        _ if quic => &[11, 2224, FOR_CLIENTS],
        (Tls::V1_3 | Tls::Absent, Role::Relay { .. }) => &[517, 1176, 113, 2224, FOR_RELAYS],
        (Tls::V1_3 | Tls::Absent, _) => &[517, 1176, 113, 2224, FOR_CLIENTS],
        (Tls::V1_2 | Tls::Cbc, Role::Relay { .. }) => &[250, 1400, 900, 75, 50, 2100, FOR_RELAYS],
        (Tls::V1_2 | Tls::Cbc, _) => &[250, 1400, 900, 75, 50, 2100, FOR_CLIENTS],
    }
}

/// How many of them are the handshake of TLS, which asks no token bucket: those before the one that has VERSIONS.
pub(crate) const fn tls_flights(tls: Tls, quic: bool) -> u8 {
    match tls {
        _ if quic => 0,
        Tls::V1_3 | Tls::Absent => 2,
        Tls::V1_2 | Tls::Cbc => 4,
    }
}

/// How far the opening of a channel is, at one end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opening {
    /// The initiator waits for TCP.
    Connecting,
    /// The other side has not accepted it yet.
    Arriving,
    /// So many bytes of the flight with this index are still to be written.
    Sending {
        flight: u8,
        bytes: u32,
    },
    /// So many bytes of the flight with this index are still to come from the peer.
    Awaiting {
        flight: u8,
        bytes: u32,
    },
    Open,
    Closed,
}

/// (Can it write? Has it cells?), as `scheduler.c` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SchedulerState {
    /// Its node has no scheduler (`ChannelScheduler::Refill`).
    None,
    Idle,
    WaitingForCells,
    WaitingToWrite,
    Pending,
}

/// What a slot of the circuitmux stands for: a hop of a circuit, and which of its two queues.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attached {
    pub circuit: CircuitId,
    pub hop: u8,
    /// True: the queue away from the client (`n_chan_cells`).
    pub outward: bool,
}

/// One end of a channel, which takes one line of the cache.
#[derive(Debug)]
pub(crate) struct ChannelEnd {
    pub host: HostId,
    pub socket: SocketId,
    pub opening: Opening,
    pub scheduler: SchedulerState,
    /// What its circuits have here; from the first on.
    pub circuits: Option<Box<Circuits>>,
    /// Where it stands among other channels by its circuits, so that these need not be touched to compare channels: kept by [`Self::rerank`].
    rank: Rank,
    pub outbuf: Outbuf,
    /// What is on its way to the peer.
    pub sent: SentId,
    /// Bytes of the peer's first record that have been read, and of plaintext that is not a whole cell yet.
    pub record_read: u16,
    pub plaintext_read: u16,
    /// Stopped because a token bucket is empty.
    pub read_blocked: bool,
    pub write_blocked: bool,
    /// KIST: its outbuf is to be written before the run ends.
    pub kist_touched: bool,
    /// KIST: bytes of cells that may still go to the outbuf; by what TCP said last, until it has news.
    pub kist_left: u32,
    /// Cells moved to the outbuf.
    pub cells_sent: u32,
}

/// What a channel is there for ([`crate::Links`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChannelKind {
    /// All circuits between its two hosts.
    Shared,
    /// One circuit.
    Circuit,
    /// Light circuits between two relays.
    Light,
    /// Heavy ones.
    Heavy,
    /// One circuit, as a stream of a QUIC connection, whose shared channel did the link handshake.
    Stream,
    /// The trajectories of one circuit, where relays plan and tell each other in band.
    Control,
}

impl ChannelKind {
    /// The name in the records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Circuit => "circuit",
            Self::Light => "light",
            Self::Heavy => "heavy",
            Self::Stream => "stream",
            Self::Control => "control",
        }
    }

    /// Whether it is there for one circuit and closed with it.
    pub const fn is_of_one_circuit(self) -> bool {
        matches!(self, Self::Circuit | Self::Stream)
    }
}

/// What the records will say of a channel, apart from it because only openings and closings touch it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChannelLog {
    /// Its number in the records: in order of opening, never used again.
    pub number: u32,
    pub kind: ChannelKind,
    /// The circuit that it was opened for did not wait for it.
    pub abandoned: bool,
    pub opened: SimTime,
    pub open: Option<SimTime>,
    /// Circuits that extended over it: ever, now, and most at one time.
    pub circuits: u32,
    pub circuits_now: u32,
    pub most_circuits: u32,
    /// Channels that are streams of the same connection, now; and of one that is such a stream, the number of the channel that counts it.
    pub streams: u32,
    pub counted_by: u32,
    /// Of its two ends, the opener's first: bytes of circuits that waited there for lost bytes of others.
    pub held: [Held; 2],
    pub idle: [Idle; 2],
}

/// Since when an end has no circuits, in whole seconds (module `idle`).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Idle {
    pub since: u32,
    /// An event will look whether it still has none.
    pub watched: bool,
}

impl ChannelLog {
    pub const fn new(number: u32, kind: ChannelKind, opened: SimTime) -> Self {
        Self {
            number,
            kind,
            abandoned: false,
            opened,
            open: None,
            circuits: 0,
            circuits_now: 0,
            most_circuits: 0,
            streams: 0,
            counted_by: u32::MAX,
            held: [Held { bytes: 0, byte_seconds: 0.0 }; 2],
            idle: [Idle { since: 0, watched: false }; 2],
        }
    }

    pub fn attached(&mut self) {
        self.circuits += 1;
        self.circuits_now += 1;
        self.most_circuits = self.most_circuits.max(self.circuits_now);
    }

    pub fn detached(&mut self) {
        self.circuits_now -= 1;
    }
}

impl ChannelEnd {
    pub fn new(host: HostId, socket: SocketId, opening: Opening, scheduler: SchedulerState) -> Self {
        Self {
            host,
            socket,
            opening,
            scheduler,
            circuits: None,
            rank: Rank::NO_CIRCUITS,
            outbuf: Outbuf::default(),
            sent: SentId::NONE,
            record_read: 0,
            plaintext_read: 0,
            read_blocked: false,
            write_blocked: false,
            kist_touched: false,
            kist_left: 0,
            cells_sent: 0,
        }
    }

    /// Its circuits have changed in what the comparison of channels goes by, or may have.
    #[inline]
    pub fn rerank(&mut self) {
        self.rank = Rank::of(self.circuits.as_deref());
    }

    /// Which of two channels of a node sends first, `Less` being the first (`scheduler_compare_channels`).
    #[inline]
    pub fn compare(&self, other: &Self) -> Ordering {
        debug_assert_eq!([self.rank, other.rank], [self, other].map(|end| Rank::of(end.circuits.as_deref())), "ranks are kept");
        if let (Some(one), Some(two)) = (self.rank.told(), other.rank.told()) {
            return one.cmp(&two);
        }
        match (&self.circuits, &other.circuits) {
            (Some(one), Some(two)) => one.mux.compare(&two.mux),
            (one, two) => two.is_some().cmp(&one.is_some()),
        }
    }

    /// Whether it has cells for sure, as far as can be told without a look at its circuits.
    #[inline]
    pub fn surely_has_cells(&self) -> bool {
        self.rank < Rank::UNTOLD
    }

    /// A circuit is attached, with so many cells in its queue.
    pub fn attach(&mut self, kind: &PolicyKind, now: SimTime, attached: Attached, cells: u32) -> Slot {
        let circuits = self.circuits_mut(kind);
        let slot = circuits.mux.attach(now, cells);
        circuits.set_attached(slot, Some(attached));
        self.rerank();
        slot
    }

    /// A circuit goes, whatever it has queued.
    pub fn detach(&mut self, slot: Slot, now: SimTime) {
        if let Some(circuits) = self.circuits.as_deref_mut() {
            circuits.mux.set_cells(slot, 0, now);
            circuits.mux.detach(slot, now);
            circuits.set_attached(slot, None);
        }
        self.rerank();
    }

    /// It is closed.
    pub fn forget_circuits(&mut self) {
        self.circuits = None;
        self.rerank();
    }

    /// A circuit has so many cells queued now.
    #[inline]
    pub fn set_cells(&mut self, slot: Slot, cells: u32, now: SimTime) {
        if let Some(circuits) = self.circuits.as_deref_mut() {
            circuits.mux.set_cells(slot, cells, now);
        }
        self.rerank();
    }

    /// Its queue of DESTROY cells.
    pub fn destroys(&mut self, kind: &PolicyKind) -> &mut CellQueue {
        self.circuits_mut(kind);
        self.rerank();
        &mut self.circuits_mut(kind).destroys
    }

    /// Cells that wait for this end's outbuf.
    pub fn queued_cells(&self) -> u64 {
        self.circuits.as_ref().map_or(0, |circuits| circuits.mux.cells() + u64::from(circuits.destroys.len))
    }

    /// Whether a circuit is attached to it, in either direction.
    pub fn has_circuits(&self) -> bool {
        self.circuits.as_ref().is_some_and(|circuits| circuits.attached_now > 0)
    }

    /// Its circuits, which begin here if there were none.
    fn circuits_mut(&mut self, kind: &PolicyKind) -> &mut Circuits {
        self.circuits.get_or_insert_with(|| {
            let mux = Circuitmux::new(kind);
            Box::new(Circuits {
                mux,
                attached: SmallVec::new(),
                attached_now: 0,
                destroys: CellQueue::EMPTY,
                destroy_was_last: false,
            })
        })
    }
}

/// The circuits of one end of a channel: kept apart, because most channels of a large network have none.
#[derive(Debug)]
pub(crate) struct Circuits {
    pub mux: Circuitmux,
    pub attached: SmallVec<[Option<Attached>; 2]>,
    /// How many of them are there.
    pub attached_now: u32,
    /// DESTROY cells have a queue of their own, which takes turns with the circuits.
    pub destroys: CellQueue,
    pub destroy_was_last: bool,
}

impl Circuits {
    fn set_attached(&mut self, slot: Slot, attached: Option<Attached>) {
        let index = slot.0 as usize;
        if self.attached.len() <= index {
            self.attached.resize(index + 1, None);
        }
        self.attached_now -= u32::from(self.attached[index].is_some());
        self.attached_now += u32::from(attached.is_some());
        self.attached[index] = attached;
    }
}

/// Where a channel stands among the pending ones of its node: the smaller first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank(u64);

impl Rank {
    /// The circuitmuxes themselves have to be asked. All smaller ones are of channels with cells.
    const UNTOLD: Self = Self(u64::MAX - 1);
    const NO_CIRCUITS: Self = Self(u64::MAX);

    #[inline]
    fn of(circuits: Option<&Circuits>) -> Self {
        circuits.map_or(Self::NO_CIRCUITS, |circuits| circuits.mux.rank().map_or(Self::UNTOLD, Self))
    }

    #[inline]
    fn told(self) -> Option<u64> {
        (self != Self::UNTOLD).then_some(self.0)
    }
}

/// The channel between two hosts, whoever opened it (`channel_get_for_extend`).
pub(crate) const fn pair(a: HostId, b: HostId) -> u64 {
    if a.0 < b.0 { (a.0 as u64) << 32 | b.0 as u64 } else { (b.0 as u64) << 32 | a.0 as u64 }
}

/// One end of the channel between two hosts, the one at `from`, whoever opened it.
pub(crate) const fn directed_pair(from: HostId, to: HostId) -> u64 {
    (from.0 as u64) << 32 | to.0 as u64
}

/// The end of the channel `first` (its even end) that lies at `host`.
pub(crate) fn end_at(ends: &[ChannelEnd], first: EndId, host: HostId) -> EndId {
    if ends[first.index()].host == host { first } else { first.peer() }
}
