//! A host that runs a program: a relay, a client, a server.

use crate::bucket::Buckets;
use crate::coarse_clock::CoarseClock;
use crate::cpu::MainThread;
use crate::handshakes::Workers;
use crate::ids::{ClientId, EndId};
use onionlab_quantities::{Bandwidth, Bytes, SimTime};
use std::ops::{Index, IndexMut};

/// The position class of a relay in the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RelayClass {
    /// Guard flag only.
    Guard,
    /// Neither guard nor exit.
    Middle,
    /// Exit flag only.
    Exit,
    /// Both flags.
    GuardExit,
}

impl RelayClass {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Guard, Self::Middle, Self::Exit, Self::GuardExit];

    /// Position in [`Self::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name in the records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Guard => "guard",
            Self::Middle => "middle",
            Self::Exit => "exit",
            Self::GuardExit => "guard-exit",
        }
    }
}

/// Something of each class of relays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PerClass<T>([T; 4]);

impl<T> PerClass<T> {
    /// What `of` says of each.
    pub fn from_fn(of: impl FnMut(RelayClass) -> T) -> Self {
        Self(RelayClass::ALL.map(of))
    }
}

impl<T> Index<RelayClass> for PerClass<T> {
    type Output = T;
    fn index(&self, class: RelayClass) -> &T {
        &self.0[class.index()]
    }
}

impl<T> IndexMut<RelayClass> for PerClass<T> {
    fn index_mut(&mut self, class: RelayClass) -> &mut T {
        &mut self.0[class.index()]
    }
}

/// A relay's own rate limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    /// Average rate in each direction (`BandwidthRate`).
    pub rate: Bandwidth,
    /// What may pass at once after a pause (`BandwidthBurst`).
    pub burst: Bytes,
    /// Rate and burst of what passes over channels, where these are less (`RelayBandwidthRate`, `RelayBandwidthBurst`).
    pub relayed: Option<(Bandwidth, Bytes)>,
}

impl RateLimit {
    /// The most that a relay can pass on, on average.
    pub fn relays(self) -> Bandwidth {
        self.relayed.map_or(self.rate, |(rate, _)| rate.min(self.rate))
    }
}

/// What a host runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A tor relay.
    Relay {
        /// For the records.
        class: RelayClass,
        /// Its own limit, if it has one.
        limit: Option<RateLimit>,
    },
    /// A client; which one follows from the order of clients.
    Client,
    /// A server outside of tor that answers requests.
    Server,
}

/// What a node did since the start.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct NodeCounters {
    /// Cells moved from a circuit queue to an outbuf.
    pub cells_sent: u64,
    /// Nanoseconds that those cells waited in their queues.
    pub queue_wait: u64,
    /// TLS bytes written to and read from channels.
    pub channel_bytes_written: u64,
    pub channel_bytes_read: u64,
}

#[derive(Debug)]
pub(crate) struct Node {
    pub role: Role,
    pub client: ClientId,
    /// It is one of those that choose cells in a way of their own (`Settings::some_relays`).
    pub apart: bool,
    pub ends: Vec<EndId>,
    /// Channels that can write and have cells, the heap of `scheduler.c`.
    pub pending: Vec<EndId>,
    /// The scheduler runs at the end of this event-loop pass.
    pub activated: bool,
    /// KIST: when its last run ended, and when its timer goes off.
    pub last_run: Option<SimTime>,
    /// Its kernel's coarse clock; none: clocks are exact.
    pub clock: Option<CoarseClock>,
    pub run_timer: Option<SimTime>,
    /// The earliest event that stands for that timer: one that moves keeps its event, and has another only if it is to go off earlier.
    pub timer_event: Option<SimTime>,
    pub buckets: Option<Box<Buckets>>,
    pub counters: NodeCounters,
    /// Cells of Conflux sets that have come here too early.
    pub early_cells: u32,
    /// At relays whose computing takes time.
    pub main_thread: Option<Box<MainThread>>,
    pub workers: Option<Box<Workers>>,
}

impl Node {
    pub fn new(role: Role, buckets: Option<Box<Buckets>>) -> Self {
        Self {
            role,
            client: ClientId::NONE,
            apart: false,
            ends: Vec::new(),
            pending: Vec::new(),
            activated: false,
            last_run: None,
            clock: None,
            run_timer: None,
            timer_event: None,
            buckets,
            counters: NodeCounters::default(),
            early_cells: 0,
            main_thread: None,
            workers: None,
        }
    }
}
