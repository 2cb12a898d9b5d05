//! What the records say of switching: each switch, and what an entry saw of each circuit at each sample.

use crate::ids::ClientId;
use crate::records::CircuitSerial;
use onionlab_engine::HostId;
use onionlab_quantities::SimTime;

/// How a switch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SwitchOutcome {
    /// The client's streams go on over the new circuit.
    Moved,
    /// SWITCH_ACK did not come in time.
    TimedOut,
    /// The new circuit was closed before the client had moved.
    SpareClosed,
    /// The old one was, by its client or for another reason.
    CircuitClosed,
    /// The run ended before it did.
    Unfinished,
}

impl SwitchOutcome {
    /// The name in the records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Moved => "moved",
            Self::TimedOut => "timed-out",
            Self::SpareClosed => "spare-closed",
            Self::CircuitClosed => "circuit-closed",
            Self::Unfinished => "unfinished",
        }
    }
}

/// One switch of a circuit by its entry.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SwitchRecord {
    /// Whose circuit.
    pub client: ClientId,
    /// The circuit that its streams leave.
    pub circuit: CircuitSerial,
    /// The one to which they go.
    pub to: CircuitSerial,
    /// The entry that decided it.
    pub entry: HostId,
    /// The new circuit has the same entry.
    pub same_entry: bool,
    /// The circuit's moving average of cells put into the outbuf in a sample interval.
    pub average: f64,
    /// The outbuf's occupancy, as alpha and beta count it; infinite if it is relative to an average of nothing.
    pub occupancy: f64,
    /// SWITCH, or with another entry SWITCHED_CONN, was sent.
    pub time: SimTime,
    /// At the same entry: SWITCH had left the outbuf, behind the circuit's last cell on the old path.
    pub drained: Option<SimTime>,
    /// SWITCH_ACK of the new middle arrived at the entry.
    pub middle_acknowledged: Option<SimTime>,
    /// SWITCH_ACK of the new exit did: the first cell may follow.
    pub acknowledged: Option<SimTime>,
    /// The client had its streams on the new circuit.
    pub moved: Option<SimTime>,
    /// Streams that went on over the new circuit.
    pub streams: u64,
    /// DATA cells of the old circuit that the entry sent on the new one.
    pub cells_forwarded: u64,
    /// Most cells of the old circuit that waited at the entry for SWITCH_ACK at one time.
    pub most_cells_held: u64,
    /// DATA cells of the old circuit that reached nobody, or came to the client too late; and their payload.
    pub cells_lost: u64,
    /// Their payload.
    pub bytes_lost: u64,
    /// Streams that had to start over, and the payload that they had exchanged.
    pub started_over: u64,
    /// That payload.
    pub bytes_started_over: u64,
    /// How it ended.
    pub outcome: SwitchOutcome,
}

/// What an entry made of a circuit at a sample of one of its outbufs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SwitchVerdict {
    /// Its switch began.
    Moves,
    /// The outbuf is between alpha and beta and its socket takes more: nothing is done.
    Accepted,
    /// The outbuf is below alpha.
    Underfull,
    /// The same, and the circuit was closed since nothing had moved on it for long.
    DroppedIdle,
    /// The outbuf is congested, but has not been underfull since the last move (hysteresis).
    Disarmed,
    /// Congested, but another circuit is bulkier, or this one not above the mean, or without a cell in this sample.
    Lighter,
    /// Congested, but this circuit is being switched already, or was.
    InSwitch,
    /// Congested, but its streams have moved as often as they may.
    Limit,
    /// Congested, but there is no spare of which all hops are open: a spare itself, a circuit without streams, or one whose spare is being built or cannot be.
    NoSpare,
    /// Congested, but a stream is not open yet, or has no standby stream that is.
    NotReady,
}

impl SwitchVerdict {
    /// The name in the records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Moves => "moves",
            Self::Accepted => "accepted",
            Self::Underfull => "underfull",
            Self::DroppedIdle => "dropped-idle",
            Self::Disarmed => "disarmed",
            Self::Lighter => "lighter",
            Self::InSwitch => "in-switch",
            Self::Limit => "limit",
            Self::NoSpare => "no-spare",
            Self::NotReady => "not-ready",
        }
    }
}

/// One circuit in one sample of an outbuf at its entry.
///
/// A circuit whose moving average is below [`AT_REST`] has none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SwitchSample {
    /// When.
    pub time: SimTime,
    /// The relay that sampled.
    pub entry: HostId,
    /// The number of the channel whose outbuf it is.
    pub channel: u32,
    /// Towards the circuit's middle; otherwise towards its client.
    pub outward: bool,
    /// Whose circuit.
    pub client: ClientId,
    /// Which.
    pub circuit: CircuitSerial,
    /// Its cells that went into the outbuf since the sample before: the papers' B_sample.
    pub cells: u32,
    /// Their moving average, this sample included: B_t.
    pub average: f64,
    /// Plaintext bytes in the outbuf, of all circuits.
    pub outbuf_bytes: u32,
    /// What was held against alpha and beta; infinite if it is relative to an average of nothing.
    pub occupancy: f64,
    /// Whether the socket took more.
    pub writable: bool,
    /// What followed.
    pub verdict: SwitchVerdict,
}

/// Cells in a sample interval below which a moving average leaves no row.
pub const AT_REST: f64 = 0.001;
