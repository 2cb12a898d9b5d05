//! A circuit at all its hops.

use crate::cell::CellQueue;
use crate::ids::{ClientId, EndId, StreamId};
use onionlab_circuitmux::Slot;
use onionlab_engine::HostId;
use onionlab_flowcontrol::windows::{DeliverWindow, PackageWindow};
use onionlab_quantities::SimTime;

/// Hops of a circuit, the client's own end included: client, guard, middle, exit.
pub(crate) const HOPS: usize = 4;

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

/// Sender and receiver windows of one end of the circuit.
#[derive(Debug, Clone)]
pub(crate) struct Edge {
    pub package: PackageWindow,
    pub deliver: DeliverWindow,
}

#[derive(Debug)]
pub(crate) struct Circuit {
    pub client: ClientId,
    pub hops: [Hop; HOPS],
    /// The last hop that is built: 0 is the client alone.
    pub built: u8,
    pub state: CircuitState,
    pub client_edge: Edge,
    pub exit_edge: Edge,
    /// Streams at the exit that are not ended there.
    pub streams: Vec<StreamId>,
    pub launched: SimTime,
    pub built_at: Option<SimTime>,
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
    pub fn new(client: ClientId, path: [HostId; HOPS], edge: &Edge, now: SimTime) -> Self {
        Self {
            client,
            hops: path.map(|host| Hop { host, sides: [Side::NONE; 2], closed: false }),
            built: 0,
            state: CircuitState::Building,
            client_edge: edge.clone(),
            exit_edge: edge.clone(),
            streams: Vec::new(),
            launched: now,
            built_at: None,
            first_used: None,
            cells_to_client: 0,
            cells_to_exit: 0,
            live_cells: 0,
            #[cfg(debug_assertions)]
            sequences: [0; 4],
        }
    }

    pub fn all_hops_closed(&self) -> bool {
        self.hops.iter().all(|hop| hop.closed)
    }
}
