//! What the axes that are no numbers can be.

use onionlab_quantities::{SimDuration, SimTime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Another simulator whose models a treatment can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Simulator {
    /// nstor, the `PredicTor` paper's simulator on ns-3: its links and TCP, fixed windows of 500 and 50 cells for circuits and none for streams, round robin, no TLS, no
    /// cells left short, circuits on demand. With links "per-circuit" it is that paper's PCTCP, with flow-control "predictor" its `PredicTor`.
    Nstor,
}

/// The policies of onionlab that choose which circuit of a channel sends its next cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Circuitmux {
    /// Each active circuit in turn, one cell each; one that becomes active behind the others, as up to tor 0.2.1.
    RoundRobin,
    /// The same with one that becomes active before the others, as in tor 0.2.4.
    RoundRobinHead,
    /// The circuit that has sent least, with exponential decay: tor's policy.
    Ewma,
    /// Sequential weighted round robin with the linear weight.
    SwrrLinear,
    /// Sequential weighted round robin with the proportional weight.
    SwrrProportional,
    /// Sequential weighted round robin with the logarithmic weight.
    SwrrLogarithmic,
}

/// The clock by which EWMA weighs cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EwmaClock {
    /// Steps of 4 ms, as the kernel's coarse clock.
    Coarse,
    /// The time of day in microseconds, as up to tor 0.3.3.
    Wall,
}

/// How a relay moves cells from circuits to its sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ChannelScheduler {
    /// None, as up to tor 0.2.5: a write to the socket that leaves little in the connection's buffer fills it again.
    Refill,
    /// As soon as there is room in the connection's buffer.
    Vanilla,
    /// Kernel-informed: no more than the congestion windows take, in an order over all channels.
    Kist,
    /// As KIST but without the kernel's knowledge: as much as fits the connections' buffers, at KIST's interval and in its order.
    KistLite,
}

impl ChannelScheduler {
    /// Whether it runs at intervals.
    pub(crate) const fn has_interval(self) -> bool {
        matches!(self, Self::Kist | Self::KistLite)
    }

    /// Whether it fills outbufs to a mark.
    pub(crate) const fn fills_outbufs(self) -> bool {
        matches!(self, Self::Refill | Self::Vanilla | Self::KistLite)
    }

    /// Whether it fills an outbuf again when that falls below a mark.
    pub(crate) const fn refills_outbufs(self) -> bool {
        matches!(self, Self::Refill | Self::Vanilla)
    }
}

/// How circuits share the connections between relays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Links {
    /// One connection for all circuits between two relays: tor's way.
    Shared,
    /// A connection for each circuit on each hop, opened for it and closed with it (PCTCP, PCTLS).
    PerCircuit,
    /// Two connections for each pair of relays, between which circuits move by how much they send (Torchestra).
    LightAndHeavy,
    /// One QUIC connection between any two hosts, in which each circuit has a stream of its own (QuicTor); its congestion control is what `tcp` says.
    Quic,
}

/// What counts as memory in queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryCounts {
    /// Cells in circuit queues, 24 bytes each, as tor 0.2.4 counted them.
    Cells,
    /// Cells in circuit queues, 528 bytes each, and the buffers of connections.
    CellsAndBuffers,
}

/// What DESTROY cells do beside others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DestroyCells {
    /// They go before all cells that wait in circuit queues.
    Overtake,
    /// They take turns with them.
    Alternate,
}

/// How much one read callback of a channel takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ChannelReads {
    /// One TLS record.
    Record,
    /// Records until they hold the connection's share of bytes, 32 cells if its relay has tokens enough.
    Share,
}

/// How token buckets are filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TokenRefill {
    /// Before each operation, in steps of 16.8 ms whose remainder is lost.
    Lazy,
    /// By a timer each 100 ms, as up to tor 0.3.3.
    Timer,
}

/// In which order sockets that become ready together are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum Epoll {
    /// In the order of tor's array of connections.
    #[serde(rename = "linux")]
    Linux,
    /// Each time in the order of a hash table over descriptors, as Shadow up to 1.13 has it.
    #[serde(rename = "shadow-1.13")]
    Shadow1_13,
}

/// The TLS of channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum Tls {
    /// TLS 1.3 with AES-GCM: 22 bytes a record.
    #[serde(rename = "1.3")]
    V1_3,
    /// TLS 1.2 with AES-GCM: 29 bytes a record.
    #[serde(rename = "1.2")]
    V1_2,
    /// TLS 1.1 or 1.2 with AES-CBC and HMAC-SHA1: 42 to 57 bytes a record.
    #[serde(rename = "1.2-cbc")]
    Cbc,
    /// No TLS: cells as they are, as in nstor.
    #[serde(rename = "none")]
    Absent,
}

/// What limits the DATA cells of circuits and streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FlowControl {
    /// Fixed windows for circuits and for streams.
    Windows,
    /// tor's congestion control `TOR_VEGAS` for circuits, XON and XOFF for streams.
    Vegas,
    /// `PredicTor`: each relay plans what its circuits send towards clients; nothing else limits that, and links are "per-circuit".
    Predictor,
}

/// A kind of onion handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Handshake {
    /// RSA and Diffie-Hellman, as up to tor 0.2.3 and by default in 0.2.4.
    Tap,
    /// Curve25519; ntor-v3 costs the same.
    Ntor,
}

/// What a relay's computing costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CpuModel {
    /// No time.
    None,
    /// Time of one main thread for each cell, of worker threads for each onion handshake.
    MainThread,
}

/// A link profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LinkProfile {
    /// TCP and queues like Linux's.
    Linux,
    /// TCP and queues like those of the simulator Shadow 3.
    Shadow,
    /// TCP and queues like those of nstor, the PredicTor paper's simulator on ns-3.
    Nstor,
}

impl LinkProfile {
    /// Between two ticks of its hosts' kernels, of 250 Hz; zero where clocks are exact.
    pub(crate) const fn kernel_tick(self) -> SimDuration {
        match self {
            Self::Linux => SimDuration::from_millis(4),
            Self::Shadow | Self::Nstor => SimDuration::ZERO,
        }
    }

    /// When a client's tor starts that is to start at `time`. Shadow starts processes at whole seconds, and computing takes them no time, so that all look after their circuits and
    /// time-outs in the same instant of each second; elsewhere each has instants of its own.
    pub(crate) const fn starts_tor(self, time: SimTime) -> SimTime {
        match self {
            Self::Shadow => SimTime::from_nanos(time.as_nanos() / 1_000_000_000 * 1_000_000_000),
            Self::Linux | Self::Nstor => time,
        }
    }
}

/// TCP congestion control.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Tcp {
    /// Additive increase (RFC 5681).
    Reno,
    /// CUBIC (RFC 9438).
    Cubic,
    /// No congestion window after the first acknowledgement: buffers alone limit what is in flight.
    Unlimited,
}

/// How an access link keeps its rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LinkShaping {
    /// A wire: each packet takes its length divided by the rate.
    Serialise,
    /// Tokens that come in batches of one millisecond, as in Shadow 3.
    TokenBatches,
    /// A packet that finds the link free passes at once; what waits for it passes together, five milliseconds of it at most, as in Shadow 1.
    Bursts,
}

/// Which round trips set TCP's retransmission time-out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RoundTrips {
    /// All, as on Linux.
    Measured,
    /// Those of segments that leave at once in answer to another, above all of data that an acknowledgement releases, as in Shadow 1.13: they tell the end that receives them. Time-outs, buffers and the order at an uplink are that version's too.
    Released,
    /// None, as in Shadow 3: the time-out begins with a second, and each time-out doubles it.
    Never,
}

/// What waits for an uplink.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum UplinkQueue {
    /// The sockets, which take turns when the wire is free: nothing is lost.
    Sockets,
    /// The sockets, in the order in which they were written, as in Shadow: nothing is lost.
    WriteOrder,
    /// Packets, first in, first out: what finds the queue full is dropped.
    DropTail,
    /// The same, but that each socket has few packets there at a time (Linux's TCP small queues): next to nothing is dropped.
    SmallQueues,
}

impl UplinkQueue {
    /// Whether packets wait there, a number of which is set.
    pub fn has_packets(self) -> bool {
        matches!(self, Self::DropTail | Self::SmallQueues)
    }
}

/// A downlink's queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DownlinkQueue {
    /// Drop what does not fit.
    DropTail,
    /// Drop from the head when the delay stays above a target (RFC 8289).
    Codel,
}
