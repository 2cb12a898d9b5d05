//! A circuit at all its hops.

use crate::cell::CellQueue;
use crate::ids::{ClientId, EndId, FlowId, SetId, StreamId};
use crate::queues::Direction;
use crate::random_cells::RandomCells;
use crate::records::CloseReason;
use onionlab_circuitmux::Slot;
use onionlab_engine::HostId;
use onionlab_flowcontrol::windows::DeliverWindow;
use onionlab_flowcontrol::{CongestionControl, Signals};
use onionlab_quantities::{SimDuration, SimTime};

/// Hops of a circuit, the client's own end included: client, guard, middle, exit.
pub(crate) const HOPS: usize = 4;

/// One of the two ends of a circuit, where DATA cells begin and end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The client, which built it.
    Client = 0,
    /// The last relay.
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
    pub hops: [Hop; HOPS],
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
    pub intent: Intent,
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
    pub built_at: Option<SimTime>,
    /// Why it was closed, at whichever hop that happened first.
    pub close_reason: Option<CloseReason>,
    /// When its first stream was attached.
    pub first_used: Option<SimTime>,
    pub cells_to_client: u64,
    pub cells_to_exit: u64,
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
            hops: path.map(|host| Hop { host, sides: [Side::NONE; 2], closed: false }),
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
            intent: Intent::Exit,
            set: SetId::NONE,
            stable: false,
            timed_out: false,
            relaxed: false,
            unusable: false,
            built_at: None,
            close_reason: None,
            first_used: None,
            cells_to_client: 0,
            cells_to_exit: 0,
            live_cells: 0,
            #[cfg(debug_assertions)]
            sequences: [0; 4],
        }
    }

    /// The relay at its end.
    pub const fn last_relay(&self) -> HostId {
        self.hops[HOPS - 1].host
    }

    pub fn edge(&mut self, place: Place) -> &mut Edge {
        &mut self.edges[place as usize]
    }

    /// The side on which the cells leave that this end sends.
    pub const fn way_out(&self, place: Place) -> &Side {
        &self.hops[place.hop() as usize].sides[place.outgoing() as usize]
    }

    /// What that side tells the end's congestion control.
    pub const fn signals(&self, place: Place) -> Signals {
        let side = self.way_out(place);
        Signals { blocked: side.blocked, queued: side.queue.len }
    }

    pub fn all_hops_closed(&self) -> bool {
        self.hops.iter().all(|hop| hop.closed)
    }
}
