//! A circuit at all its hops.

use crate::cell::CellQueue;
use crate::ids::{CircuitId, ClientId, EndId, FlowId, MeetingId, SetId, StreamId};
use crate::queues::Direction;
use crate::random_cells::RandomCells;
use crate::records::CloseReason;
use onionlab_circuitmux::Slot;
use onionlab_engine::HostId;
use onionlab_flowcontrol::CongestionControl;
use onionlab_flowcontrol::windows::DeliverWindow;
use onionlab_quantities::{SimDuration, SimTime};
use std::collections::VecDeque;
use std::ops::{Index, IndexMut};

/// Hops of a circuit, the client's own end included: client, guard, middle, exit. Some circuits of onion services have one more.
pub(crate) const HOPS: usize = 4;

/// What a cell aims at that goes on over another circuit, joined to its own at a rendezvous point: no hop has this number.
pub(crate) const ACROSS: u8 = 15;

/// One of the two ends of a circuit, where DATA cells begin and end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// The client, which built it.
    Client = 0,
    /// The last relay; of a client's circuit that is joined to one of an onion service, the service.
    Exit = 1,
}

impl Place {
    pub(crate) const fn hop(self) -> u8 {
        match self {
            Self::Client => 0,
            Self::Exit => HOPS as u8 - 1,
        }
    }
    /// Where its cells go.
    pub(crate) const fn outgoing(self) -> Direction {
        match self {
            Self::Client => Direction::ToExit,
            Self::Exit => Direction::ToClient,
        }
    }
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Client => Self::Exit,
            Self::Exit => Self::Client,
        }
    }
}

/// One of the two sides of a circuit at one node: the channel towards the client (`p_chan`) or away from it (`n_chan`), and its queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Side {
    /// This node's end of the channel.
    pub end: EndId,
    pub slot: Slot,
    pub queue: CellQueue,
    /// The queue reached the high mark and has not yet fallen to the low one (`circuit_blocked_on_*_chan`).
    pub blocked: bool,
}

impl Hop {
    const fn new(host: HostId) -> Self {
        Self { host, sides: [Side::NONE; 2], closed: false }
    }
}

impl Side {
    const NONE: Self = Self { end: EndId::NONE, slot: Slot(u32::MAX), queue: CellQueue::EMPTY, blocked: false };
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Hop {
    pub host: HostId,
    /// Index 0: towards the client; 1: away from it.
    pub sides: [Side; 2],
    pub closed: bool,
}

/// The hops of a circuit, the client's own end first. What only circuits of onion services have is out of the way of all others.
#[derive(Debug)]
pub(crate) struct Hops {
    near: [Hop; HOPS],
    /// What it has as a circuit of an onion service or of its client.
    pub onion: Option<Box<OnionPart>>,
}

/// What a circuit has as one of an onion service or of its client (module `onion`).
#[derive(Debug)]
pub(crate) struct OnionPart {
    /// The hop at its fourth relay.
    fourth: Option<Hop>,
    /// What it is a part of; none if it serves all meetings.
    pub meeting: MeetingId,
    /// The circuit to which it is joined at its last relay, which is the last relay of both (`rend_splice`).
    pub splice: CircuitId,
    /// Its last relay has answered ESTABLISH_RENDEZVOUS.
    pub awaited: bool,
    /// INTRODUCE2 cells that are under way on it, by what they introduce.
    pub introductions: VecDeque<MeetingId>,
}

impl OnionPart {
    pub const NONE: Self =
        Self { fourth: None, meeting: MeetingId::NONE, splice: CircuitId::NONE, awaited: false, introductions: VecDeque::new() };
}

impl Hops {
    fn new(path: [HostId; HOPS]) -> Self {
        Self { near: path.map(Hop::new), onion: None }
    }

    /// The last of them.
    pub fn last(&self) -> u8 {
        let fourth = self.onion.as_ref().is_some_and(|part| part.fourth.is_some());
        HOPS as u8 - u8::from(!fourth)
    }

    /// One more relay, at the end of three.
    pub fn lengthen(&mut self, host: HostId) {
        self.onion.get_or_insert_with(|| Box::new(OnionPart::NONE)).fourth = Some(Hop::new(host));
    }

    pub fn get(&self, hop: u8) -> Option<&Hop> {
        (hop <= self.last()).then(|| &self[hop as usize])
    }

    /// The hop at this host that extends the circuit, or waits to: there is one, since only the last relay may be another one of them too.
    pub fn at(&self, host: HostId) -> Option<usize> {
        self.iter().position(|hop| hop.host == host)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Hop> {
        self.near.iter().chain(self.onion.as_ref().and_then(|part| part.fourth.as_ref()))
    }

    #[cfg(test)]
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Hop> {
        self.near.iter_mut().chain(self.onion.as_mut().and_then(|part| part.fourth.as_mut()))
    }

    #[cold]
    #[inline(never)]
    fn fourth(&self) -> Option<&Hop> {
        self.onion.as_ref().and_then(|part| part.fourth.as_ref())
    }

    #[cold]
    #[inline(never)]
    fn fourth_mut(&mut self) -> Option<&mut Hop> {
        self.onion.as_mut().and_then(|part| part.fourth.as_mut())
    }
}

/// The fourth relay takes the place of the check of bounds: circuits of three pay nothing for it.
impl Index<usize> for Hops {
    type Output = Hop;
    #[inline]
    fn index(&self, hop: usize) -> &Hop {
        match self.near.get(hop) {
            Some(here) => here,
            None => self.fourth().expect("a circuit has no more hops than relays"),
        }
    }
}

impl IndexMut<usize> for Hops {
    #[inline]
    fn index_mut(&mut self, hop: usize) -> &mut Hop {
        if hop < HOPS { &mut self.near[hop] } else { self.fourth_mut().expect("a circuit has no more hops than relays") }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CircuitState {
    Building,
    Open,
    Closed,
}

/// What its client built a circuit for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Intent {
    /// Streams that leave at its last relay.
    Exit,
    /// Something within the network.
    Internal,
    /// Streams, as a leg of a Conflux set.
    Leg,
    /// Streams of another circuit, when that is switched.
    Spare,
    /// A client's, to the rendezvous point of its choice: streams to an onion service.
    Rendezvous,
    /// A client's, to an introduction point of an onion service.
    Introduce,
    /// An onion service's, to an introduction point of its own.
    Introduction,
    /// An onion service's, to the rendezvous point of a client's choice.
    Answer,
}

/// What one end of the circuit may send, and what it owes for what it received.
#[derive(Debug, Clone)]
pub(crate) struct Edge {
    pub package: CongestionControl,
    pub deliver: DeliverWindow,
}

#[derive(Debug)]
pub(crate) struct Circuit {
    pub client: ClientId,
    pub hops: Hops,
    /// The last hop that is built: 0 is the client alone.
    pub built: u8,
    pub state: CircuitState,
    /// The client's end and the exit's.
    pub edges: [Edge; 2],
    /// Which DATA cell of each end is left short next.
    pub random_cells: [RandomCells; 2],
    /// Streams at the exit that are not ended there.
    pub streams: Vec<StreamId>,
    /// Streams at the client that are not ended there.
    pub client_streams: Vec<StreamId>,
    pub launched: SimTime,
    /// The first CREATE2 joined its queue; the end of time before that.
    pub began: SimTime,
    /// Unused, the client closes it so long after that.
    pub idle_timeout: SimDuration,
    /// The flow that shares it with no other.
    pub flow: FlowId,
    /// While it is being built: the flow whose stream waits for it, or none for all that share circuits. Streams of others do not count on it
    /// (`connection_edge_update_circuit_isolation`).
    pub awaited_by: Option<FlowId>,
    pub intent: Intent,
    /// Its place among all circuits of its client, if it is in their list.
    pub place: u32,
    /// The Conflux set of which it is a leg.
    pub set: SetId,
    /// Its relays stay up long.
    pub stable: bool,
    /// It takes longer than the client waits for circuits: it is built on for measurement and never used.
    pub timed_out: bool,
    /// It took longer, but the client had no other.
    pub relaxed: bool,
    /// It takes no new streams.
    pub unusable: bool,
    /// The end of time before it is.
    pub built_at: SimTime,
    /// Why it was closed, at whichever hop that happened first.
    pub close_reason: Option<CloseReason>,
    /// When its first stream was attached.
    pub first_used: Option<SimTime>,
    pub cells_to_client: u64,
    pub cells_to_exit: u64,
    /// A relay cell has left its client or come to it since the last sample.
    pub busy: bool,
    /// Cells of this circuit that exist: its slot is used again when the last is gone.
    pub live_cells: u32,
    /// Cells sent and received, towards the client and away from it, to check their order.
    #[cfg(debug_assertions)]
    pub sequences: [u32; 4],
}

impl Circuit {
    pub fn new(client: ClientId, path: [HostId; HOPS], edges: [Edge; 2], now: SimTime) -> Self {
        Self {
            client,
            hops: Hops::new(path),
            built: 0,
            state: CircuitState::Building,
            edges,
            random_cells: [RandomCells::default(); 2],
            streams: Vec::new(),
            client_streams: Vec::new(),
            launched: now,
            began: SimTime::MAX,
            idle_timeout: SimDuration::ZERO,
            flow: FlowId::NONE,
            awaited_by: None,
            intent: Intent::Exit,
            place: u32::MAX,
            set: SetId::NONE,
            stable: false,
            timed_out: false,
            relaxed: false,
            unusable: false,
            built_at: SimTime::MAX,
            close_reason: None,
            first_used: None,
            cells_to_client: 0,
            cells_to_exit: 0,
            busy: false,
            live_cells: 0,
            #[cfg(debug_assertions)]
            sequences: [0; 4],
        }
    }

    /// Whether nobody else waits for it.
    pub fn is_for(&self, owner: FlowId) -> bool {
        self.awaited_by.is_none_or(|other| other == owner)
    }

    /// The relay at its end.
    pub fn last_relay(&self) -> HostId {
        self.hops[self.hops.last() as usize].host
    }

    /// When it had all its relays, or, if it was built ahead and got a fourth later, the first three.
    pub fn built_at(&self) -> Option<SimTime> {
        (self.built_at != SimTime::MAX).then_some(self.built_at)
    }

    /// The circuit to which it is joined at a rendezvous point.
    #[inline]
    pub fn splice(&self) -> Option<CircuitId> {
        self.hops.onion.as_ref().map(|part| part.splice).filter(|splice| splice.is_some())
    }

    pub fn edge(&mut self, place: Place) -> &mut Edge {
        &mut self.edges[place as usize]
    }

    /// The side on which the cells leave that this end sends.
    pub fn way_out(&self, place: Place) -> &Side {
        &self.hops[place.hop() as usize].sides[place.outgoing() as usize]
    }

    /// Nothing is left of it anywhere.
    pub fn is_gone(&self) -> bool {
        self.state == CircuitState::Closed && self.live_cells == 0 && self.all_hops_closed()
    }

    pub fn all_hops_closed(&self) -> bool {
        self.hops.iter().all(|hop| hop.closed)
    }
}
