//! What a run leaves behind: plain rows, announced here, written by whoever runs the world.

use crate::channel::ChannelKind;
use crate::circuit::{Circuit, Intent};
use crate::head_of_line::Held;
use crate::ids::ClientId;
use crate::links::LinkSample;
use crate::node::PerClass;
use crate::predictor::{ControllerSample, PlanSample};
use crate::probes::ProbeRecord;
use crate::switching::{SwitchRecord, SwitchSample};
use onionlab_engine::HostId;
use onionlab_quantities::{SimDuration, SimTime};

/// How a stream of a client's program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// The last byte arrived.
    Ok,
    /// The whole took too long.
    Timeout,
    /// No byte came for too long.
    Stall,
    /// The circuit was closed under it.
    CircuitClosed,
    /// It waited for a circuit for too long (`SocksTimeout`).
    NoCircuit,
    /// The run ended before it did.
    Unfinished,
}

impl Outcome {
    /// The name in the records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Timeout => "timeout",
            Self::Stall => "stall",
            Self::CircuitClosed => "circuit-closed",
            Self::NoCircuit => "no-circuit",
            Self::Unfinished => "unfinished",
        }
    }
}

/// What the ends of a stream send each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExchangeKind {
    /// The client asks, the server answers, whichever is longer.
    Download,
    /// Both write at times of their own.
    Script,
}

impl ExchangeKind {
    /// The name in the records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Download => "download",
            Self::Script => "script",
        }
    }
}

/// One stream of a client's program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransferRecord {
    /// Who.
    pub client: ClientId,
    /// Number of the stream among its own, from 0.
    pub ordinal: u64,
    /// Which of the client's users, from 0; always 0 where its flows are independent.
    pub user: u32,
    /// Number of the flow that it belongs to among those of that user, from 0.
    pub flow: u64,
    /// What the ends send each other.
    pub kind: ExchangeKind,
    /// Over which circuit; none if it never got one.
    pub circuit: Option<CircuitSerial>,
    /// BEGINs before the last that were not answered in time.
    pub retries: u8,
    /// Bytes that the server was to send; for a script as far as the client knows.
    pub size: u64,
    /// Bytes that arrived.
    pub received: u64,
    /// Bytes that the client's tor took from the program to send.
    pub sent: u64,
    /// The program opened the stream.
    pub start: SimTime,
    /// CONNECTED arrived.
    pub connected: Option<SimTime>,
    /// The first byte of the answer arrived, be it one of its header.
    pub answered: Option<SimTime>,
    /// The first byte beyond its header arrived.
    pub first_byte: Option<SimTime>,
    /// The last byte of the answer arrived.
    pub last_byte: Option<SimTime>,
    /// It ended, well or not.
    pub end: SimTime,
    /// How.
    pub outcome: Outcome,
}

/// A circuit's number in the records: in order of launch, never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CircuitSerial(pub u32);

/// How a circuit stood when it was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CircuitOutcome {
    /// The run ended while it was open or being built.
    Open,
    /// Closed after it had been built.
    Closed,
    /// Closed before it was built.
    Failed,
}

impl CircuitOutcome {
    /// The name in the records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Failed => "failed",
        }
    }
}

/// What a client, or an onion service, built a circuit for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CircuitPurpose {
    /// Streams that leave at its last relay.
    Exit,
    /// The same, as a leg of a Conflux set.
    Leg,
    /// Anything within the network: built ahead.
    Internal,
    /// A client's, to a rendezvous point: streams to an onion service.
    Rendezvous,
    /// A client's, to an introduction point.
    Introduce,
    /// An onion service's, to an introduction point.
    ServiceIntroduction,
    /// An onion service's, to a rendezvous point.
    ServiceRendezvous,
}

impl CircuitPurpose {
    /// What it was launched for, or turned into: circuits that are late are built on for measurement alone, and are counted as what they were.
    pub(crate) fn of(circuit: &Circuit) -> Self {
        if circuit.set.is_some() {
            return Self::Leg;
        }
        match circuit.intent {
            Intent::Internal if circuit.hops.onion.is_some() => Self::Rendezvous,
            Intent::Exit | Intent::Spare => Self::Exit,
            Intent::Leg => Self::Leg,
            Intent::Internal => Self::Internal,
            Intent::Rendezvous => Self::Rendezvous,
            Intent::Introduce => Self::Introduce,
            Intent::Introduction => Self::ServiceIntroduction,
            Intent::Answer => Self::ServiceRendezvous,
        }
    }

    /// The name in the records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exit => "exit",
            Self::Leg => "leg",
            Self::Internal => "internal",
            Self::Rendezvous => "rendezvous",
            Self::Introduce => "introduce",
            Self::ServiceIntroduction => "service-introduction",
            Self::ServiceRendezvous => "service-rendezvous",
        }
    }
}

/// Why a circuit was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CloseReason {
    /// Its client had no more use for it.
    Finished,
    /// It was not built in time.
    BuildTimeout,
    /// It was over its time and built on for measurement, and was not built in the time for that either.
    MeasurementExpired,
    /// One of its cell queues reached its limit (`circ_max_cell_queue_size`).
    QueueLimit,
    /// Its cells were the oldest when a relay's queues took too much memory (`MaxMemInQueues`).
    OutOfMemory,
    /// A relay had too many handshakes to compute.
    HandshakeQueue,
    /// A channel under it was closed.
    ChannelClosed,
    /// A relay had no socket left to extend it (`ConnLimit`).
    OutOfSockets,
    /// The client did not meet the onion service in time, or no longer waits for it.
    NoRendezvous,
    /// An end or a relay broke the rules of flow control.
    Protocol,
    /// Its streams go on over another one (active circuit switching).
    Switched,
    /// They should have, and nothing came of it.
    SwitchFailed,
    /// Its entry had no cell of it for long (active circuit switching).
    DroppedIdle,
}

impl CloseReason {
    /// The name in the records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::BuildTimeout => "build-timeout",
            Self::MeasurementExpired => "measurement-expired",
            Self::QueueLimit => "queue-limit",
            Self::OutOfMemory => "out-of-memory",
            Self::HandshakeQueue => "handshake-queue",
            Self::ChannelClosed => "channel-closed",
            Self::OutOfSockets => "out-of-sockets",
            Self::NoRendezvous => "no-rendezvous",
            Self::Protocol => "protocol",
            Self::Switched => "switched",
            Self::SwitchFailed => "switch-failed",
            Self::DroppedIdle => "dropped-idle",
        }
    }
}

/// One circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CircuitRecord {
    /// Its number.
    pub circuit: CircuitSerial,
    /// Whose.
    pub client: ClientId,
    /// First, second and last relay.
    pub path: [HostId; 3],
    /// The third of four.
    pub third: Option<HostId>,
    /// CREATE2 was wanted.
    pub launched: SimTime,
    /// The last EXTENDED2 arrived.
    pub built: Option<SimTime>,
    /// It took longer than the client waits for circuits, so that no stream used it.
    pub timed_out: bool,
    /// What for.
    pub purpose: CircuitPurpose,
    /// A client's circuit to a rendezvous point: RENDEZVOUS2 arrived.
    pub joined: Option<SimTime>,
    /// It was closed.
    pub closed: Option<SimTime>,
    /// How.
    pub outcome: CircuitOutcome,
    /// Why it was closed, at whichever hop that happened first; a relay can have closed what is still open at the client.
    pub reason: Option<CloseReason>,
    /// DATA cells that reached the client.
    pub cells_in: u64,
    /// DATA cells that reached the exit, or the onion service.
    pub cells_out: u64,
    /// The congestion control of the exit, or of the onion service, as it stood; none with fixed windows.
    pub vegas: Option<VegasState>,
}

/// `TOR_VEGAS` at one end of a circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VegasState {
    /// The least of the smoothed round-trip times; zero before the first.
    pub min_rtt: SimDuration,
    /// The smoothed round-trip time.
    pub ewma_rtt: SimDuration,
    /// The greatest round-trip time, not smoothed.
    pub max_rtt: SimDuration,
    /// The window in cells.
    pub cwnd: u32,
    /// The estimate of the cells that the path holds without queueing.
    pub bdp: u64,
    /// The estimate of the cells that queue.
    pub queue_use: u64,
    /// Whether slow start goes on.
    pub slow_start: bool,
    /// Whether the circuit's own queue was too long at the last SENDME.
    pub blocked: bool,
}

/// The congestion control of an exit just after a SENDME.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VegasSample {
    /// The SENDME arrived.
    pub time: SimTime,
    /// On this circuit.
    pub circuit: CircuitSerial,
    /// Of this client.
    pub client: ClientId,
    /// What it made of it.
    pub state: VegasState,
    /// Cells in flight, those that the SENDME acknowledges still counted, as tor logs it.
    pub inflight: u32,
}

/// Why a channel was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChannelClose {
    /// It had had no circuits for long enough.
    Idle,
    /// TCP gave it up.
    Lost,
    /// The circuit that had it to itself was closed.
    Circuit,
}

impl ChannelClose {
    /// The name in the records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Lost => "lost",
            Self::Circuit => "circuit",
        }
    }
}

/// One channel, as it stood when it was closed or the run ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChannelRecord {
    /// Its number: in order of opening, never used again.
    pub channel: u32,
    /// What it was there for.
    pub kind: ChannelKind,
    /// Who connected.
    pub opener: HostId,
    /// Who accepted.
    pub peer: HostId,
    /// TCP's SYN was wanted.
    pub opened: SimTime,
    /// The opener had finished the handshakes and could send cells.
    pub open: Option<SimTime>,
    /// It was closed.
    pub closed: Option<SimTime>,
    /// Why; none while it is not.
    pub reason: Option<ChannelClose>,
    /// Cells that the opener and the peer moved to their outbufs.
    pub cells: [u64; 2],
    /// Bytes that the opener and the peer wrote to TCP: records, and the flights of the opening.
    pub bytes: [u64; 2],
    /// Circuits that ever extended over it.
    pub circuits: u32,
    /// Most of them at one time.
    pub most_circuits: u32,
    /// What waited at the opener and at the peer for lost bytes of other circuits (module `head_of_line`).
    pub held: [Held; 2],
}

/// One relay in one sample interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RelaySample {
    /// End of the interval.
    pub time: SimTime,
    /// Which.
    pub relay: HostId,
    /// Bytes that left through its uplink, headers included.
    pub bytes_sent: u64,
    /// Bytes that came through its downlink, headers included.
    pub bytes_received: u64,
    /// Cells moved from circuit queues to outbufs.
    pub cells_sent: u64,
    /// Cells in its circuit queues at the end of the interval.
    pub queued_cells: u64,
    /// Plaintext bytes in its outbufs at the end of the interval.
    pub outbuf_bytes: u64,
    /// Nanoseconds that the cells sent had waited in circuit queues, summed.
    pub queue_wait: u64,
    /// Nanoseconds for which its main thread computed.
    pub cpu_busy: u64,
    /// Packets that left through its uplink.
    pub packets_sent: u64,
    /// Packets dropped before its uplink, where that has a queue of packets.
    pub uplink_drops: u64,
    /// Packets that its downlink's queue dropped.
    pub downlink_drops: u64,
    /// Sockets that its tor has open at the end of the interval, and most in it: ends of channels and connections to servers.
    pub sockets: u32,
    /// The most in the interval.
    pub most_sockets: u32,
    /// Sockets that it opened or accepted in the interval.
    pub sockets_opened: u64,
    /// Sockets that it closed.
    pub sockets_closed: u64,
    /// Connections that it could not open, or not accept at once, for want of sockets.
    pub sockets_refused: u64,
    /// Bytes in the kernel's buffers of these sockets at the end of the interval: sent and not acknowledged or not sent yet, received and not read.
    pub socket_bytes: u64,
    /// Bytes that its open connections to relays and clients take up apart from what waits in them ([`CONNECTION_BYTES`] each), at the end of the interval.
    pub connection_bytes: u64,
    /// Queues of circuits that it moved between light and heavy channels in the interval.
    pub circuits_moved: u64,
    /// What waited in them in the interval for lost bytes of other circuits.
    pub held: Held,
    /// Bytes sent as a share of what its uplink, or its rate limit where that is lower, could carry.
    pub utilisation: f64,
}

/// The whole network in one sample interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NetworkSample {
    /// End of the interval.
    pub time: SimTime,
    /// Payload delivered to clients.
    pub goodput_bytes: u64,
    /// Bytes that left relays, headers included.
    pub relay_bytes_sent: u64,
    /// Streams that ended well since the start.
    pub transfers_ok: u64,
    /// Streams that failed since the start.
    pub transfers_failed: u64,
    /// Circuits with an open stream at the end of the interval, and the links that they go over.
    pub links: LinkSample,
    /// The same of circuits that are built and of which a relay cell has left the client or come to it in the interval, of each its first two parts.
    pub busy: LinkSample,
    /// Bytes sent over capacity of all relays of a class.
    pub utilisation: PerClass<f64>,
}

/// What one circuit carried from its exit to its entry in one sample interval (module `byte_latency`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LatencySample {
    /// End of the interval.
    pub time: SimTime,
    /// Which.
    pub circuit: CircuitSerial,
    /// Whose.
    pub client: ClientId,
    /// Payload that the exit wrote to its socket.
    pub written: u64,
    /// Payload that the entry read.
    pub read: u64,
    /// How long that took from the one to the other, in seconds, summed over its bytes.
    pub latency: f64,
    /// How long it had been in the exit's outbuf before, in seconds, summed over its bytes.
    pub outbuf_wait: f64,
    /// Payload under way between the two at the end of the interval.
    pub in_flight: u64,
}

/// Rows that have not been collected yet.
#[derive(Debug, Default)]
pub struct Records {
    /// Streams, in the order in which they ended.
    pub transfers: Vec<TransferRecord>,
    /// Circuits, in the order in which they were closed.
    pub circuits: Vec<CircuitRecord>,
    /// Channels, in the order in which they were closed.
    pub channels: Vec<ChannelRecord>,
    /// Relays over time.
    pub relays: Vec<RelaySample>,
    /// The network over time.
    pub network: Vec<NetworkSample>,
    /// Circuits over time, of clients that want it.
    pub latency: Vec<LatencySample>,
    /// Switches of circuits, in the order in which the last cell of each was gone.
    pub switches: Vec<SwitchRecord>,
    /// What entries saw of their outbufs when they sampled them, where circuits are switched.
    pub switch_samples: Vec<SwitchSample>,
    /// DATA cells that were followed to their servers, in the order in which they ended.
    pub probes: Vec<ProbeRecord>,
    /// Congestion control at exits, of clients that are traced.
    pub vegas: Vec<VegasSample>,
    /// Controllers of relays over time, with `PredicTor`.
    pub controllers: Vec<ControllerSample>,
    /// What they planned for circuits of clients that are traced.
    pub plans: Vec<PlanSample>,
}
