//! The checked treatments.

use crate::scenario::own_policy::Policy;
use crate::scenario::predictor::Predictor;
use crate::scenario::some_relays::SomeRelays;
use crate::scenario::switching::Switching;
use crate::scenario::treatment::{
    ChannelReads, ChannelScheduler, Circuitmux, CpuModel, DestroyCells, DownlinkQueue, Epoll, EwmaClock, FlowControl, Handshake,
    LinkProfile, LinkShaping, Links, MemoryCounts, RoundTrips, Tcp, Tls, TokenRefill, UplinkQueue,
};
use crate::scenario::version::TorVersion;
use onionlab_quantities::{Bytes, SimDuration};
use serde::Serialize;
use std::collections::BTreeMap;

/// A treatment with a value on every axis. `None` on an axis that the others make meaningless, and where the network decides: what the file leaves
/// open and a consensus can set is filled in when the world is built.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Treatment {
    /// Its name.
    pub name: String,
    /// The name as part of a file name: lower-case letters, digits and single hyphens.
    pub slug: String,
    /// Which relays have these settings; `None`: all hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relays: Option<SomeRelays>,
    /// The version of tor.
    pub tor: TorVersion,
    /// Which circuit of a channel sends next; `None`: as the consensus says.
    pub circuitmux: Option<Policy>,
    /// EWMA's half-life, with EWMA; `None`: as the consensus says.
    pub ewma_half_life: Option<SimDuration>,
    /// How often EWMA rescales its counts, with EWMA; `None`: as the consensus says.
    pub ewma_tick: Option<SimDuration>,
    /// EWMA's clock, with EWMA; `None` as long as the policy is open.
    pub ewma_clock: Option<EwmaClock>,
    /// How cells move to sockets.
    pub channel_scheduler: ChannelScheduler,
    /// KIST's interval, with KIST and KIST-lite; `None`: as the consensus says.
    pub kist_interval: Option<SimDuration>,
    /// The same at clients.
    pub kist_client_interval: Option<SimDuration>,
    /// KIST's socket buffer factor, with KIST.
    pub kist_socket_buffer_factor: Option<f64>,
    /// Whether KIST is told what sockets have not sent, with KIST.
    pub kist_knows_unsent: Option<bool>,
    /// What limits the DATA cells of circuits and streams.
    ///
    /// `None`: as the consensus says.
    pub flow_control: Option<FlowControl>,
    /// What relays' computing costs.
    pub cpu: CpuModel,
    /// Of the main thread for each cell, where computing takes time.
    pub cpu_per_cell: Option<SimDuration>,
    /// Of a worker thread for each onion handshake.
    pub cpu_per_handshake: Option<SimDuration>,
    /// Of a worker thread for each handshake with TAP.
    pub cpu_per_tap: Option<SimDuration>,
    /// Whether a first hop is made with CREATE_FAST, where computing takes time; `None`: as the consensus says.
    pub create_fast: Option<bool>,
    /// The handshakes of the other hops, where computing takes time; `None`: as the consensus says.
    pub handshake: Option<Handshake>,
    /// Share of clients that use TAP there whatever the others do, where computing takes time.
    pub tap_clients: Option<f64>,
    /// How many of ntor go before one of TAP, where some clients use TAP; `None`: as the consensus says.
    pub ntors_per_tap: Option<u32>,
    /// Cores of each relay.
    pub cpu_cores: Option<u32>,
    /// Bytes of data in a DATA cell; `None`: as the flow control has it.
    pub cell_payload: Option<u32>,
    /// Whether clients build circuits ahead; `None`: they do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted_circuits: Option<bool>,
    /// Width of the bins of build times; `None`: the version's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build_time_bin: Option<SimDuration>,
    /// The port of a client's first circuits; `None`: the version's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_port: Option<u32>,
    /// How circuits share the connections between relays.
    pub links: Links,
    /// Whether each circuit has a connection of its own between client and guard too, with a connection per circuit.
    pub per_circuit_clients: Option<bool>,
    /// Above so many times the average a circuit is heavy, with two connections.
    pub heavy_above: Option<f64>,
    /// Below so many times the average it is light again.
    pub light_below: Option<f64>,
    /// Half-life of the counts that are compared.
    pub heavy_half_life: Option<SimDuration>,
    /// How many sockets a relay may have open; `None`: any number.
    pub socket_limit: Option<u32>,
    /// How long a channel between relays stays open without circuits, on average; `None`: as the consensus says, and in a run of 0.2.4 three minutes.
    pub relay_channel_idle: Option<SimDuration>,
    /// How long a channel between a client and its guard stays open without circuits at least; `None`: three minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_channel_idle: Option<SimDuration>,
    /// Age from which a circuit gets no new stream.
    pub circuit_lifetime: SimDuration,
    /// A queue of so many cells stops the streams attached to the circuit there; `None`: as the consensus says.
    pub cell_queue_high: Option<u32>,
    /// A queue of so few cells lets them go on; `None`: as the consensus says.
    pub cell_queue_low: Option<u32>,
    /// A queue of so many cells towards the client closes the circuit; `None`: as the consensus says, and in a run no limit.
    pub max_cell_queue_in: Option<u32>,
    /// The same away from the client.
    pub max_cell_queue_out: Option<u32>,
    /// How much memory a relay's queues may take; `None`: any.
    pub memory_limit: Option<Bytes>,
    /// What counts, with a limit.
    pub memory_counts: Option<MemoryCounts>,
    /// What DESTROY cells do beside others.
    pub destroy_cells: DestroyCells,
    /// Bytes to which an outbuf is filled, with a scheduler that does; `None`: as the consensus says.
    pub outbuf_high: Option<Bytes>,
    /// Bytes below which an outbuf wants more, with a scheduler that asks; `None`: as the consensus says.
    pub outbuf_low: Option<Bytes>,
    /// Usable bytes of an outbuf's chunk.
    pub outbuf_chunk: Bytes,
    /// The TLS of channels.
    pub tls: Tls,
    /// How much a read of a channel takes; `None` where channels have no records.
    pub channel_reads: Option<ChannelReads>,
    /// How token buckets are filled.
    pub token_refill: TokenRefill,
    /// In which order connections that are ready together are told so; `None` where no relay has a rate of its own.
    pub epoll: Option<Epoll>,
    /// Whether requests leave with BEGIN; `None`: as the consensus says.
    pub optimistic_data: Option<bool>,
    /// Whether DATA cells are left short for random bytes.
    pub random_cells: bool,
    /// Whether streams go over sets of circuits; `None`: as the consensus says; in a run false where no path is drawn.
    pub conflux: Option<bool>,
    /// Sets that a client has or builds, with Conflux; `None`: as the consensus says.
    pub conflux_sets: Option<u32>,
    /// Circuits of a set, with Conflux; `None`: as the consensus says.
    pub conflux_legs: Option<u32>,
    /// What shapes `PredicTor`, where that is the flow control.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predictor: Option<Predictor>,
    /// Active circuit switching; `None`: no circuit is switched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub switching: Option<Switching>,
    /// How many guards a client uses; `None`: as the consensus says, and in a run where no path is drawn.
    pub guards: Option<u32>,
    /// Circuit window in cells, with windows; `None`: as the consensus says.
    pub circuit_window: Option<u32>,
    /// Cells per circuit SENDME, with windows.
    pub circuit_window_increment: Option<u32>,
    /// Stream window in cells, with windows.
    pub stream_window: Option<u32>,
    /// Cells per stream SENDME, with windows.
    pub stream_window_increment: Option<u32>,
    /// Consensus parameters: what the file gives; in a run, all of congestion control, where that is on, and of the others those that the file or the consensus gives and
    /// that have an effect.
    pub consensus_params: BTreeMap<String, i32>,
    /// The link profile.
    pub net: LinkProfile,
    /// Congestion control.
    pub tcp: Tcp,
    /// Between two ticks of the hosts' kernels, with KIST and KIST-lite, and where the file says so; zero: clocks are exact. `None`: the link profile's.
    pub kernel_tick: Option<SimDuration>,
    /// Nagle's algorithm.
    pub nagle: bool,
    /// HyStart, with CUBIC.
    pub hystart: Option<bool>,
    /// Slow start after idle.
    pub slow_start_after_idle: bool,
    /// Initial window in segments.
    pub initial_window: u32,
    /// Bytes in a full segment.
    pub mss: u32,
    /// Headers of a packet.
    pub packet_header: Bytes,
    /// Shortest delay of an acknowledgement that waits for a second segment.
    pub delayed_ack: SimDuration,
    /// Least time that a retransmission time-out allows beyond the round trip.
    pub min_rto: SimDuration,
    /// Which round trips set the retransmission time-out; `None`: the link profile's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round_trips: Option<RoundTrips>,
    /// Limit of a send buffer.
    pub send_buffer: Bytes,
    /// Limit of a receive buffer.
    pub receive_buffer: Bytes,
    /// How an access link keeps its rate.
    pub link_shaping: LinkShaping,
    /// What waits for an uplink.
    pub uplink_queue: UplinkQueue,
    /// Packets before an uplink at most, where they have a queue.
    pub uplink_queue_packets: Option<u32>,
    /// Queue before a downlink.
    pub downlink_queue: DownlinkQueue,
    /// What it holds at most.
    pub downlink_queue_size: Bytes,
    /// Packets that it holds at most; `None`: only their bytes count.
    pub downlink_queue_packets: Option<u32>,
    /// CoDel's target, with CoDel.
    pub codel_target: Option<SimDuration>,
    /// CoDel's interval, with CoDel.
    pub codel_interval: Option<SimDuration>,
}

impl Treatment {
    /// This treatment and, where it is for some of the relays, what the other hosts have.
    pub(crate) fn everywhere(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(self.relays.as_ref().map(|some| &*some.others))
    }

    /// Whether EWMA chooses among circuits, as far as is known.
    pub(crate) fn has_ewma(&self) -> bool {
        self.circuitmux == Some(Policy::BuiltIn(Circuitmux::Ewma))
    }

    /// Whether there can be Conflux sets with this flow control: this version of tor knows them, no circuit is switched, and some path is drawn.
    pub(crate) fn can_have_conflux(&self, flow_control: FlowControl, drawn: bool) -> bool {
        self.tor >= TorVersion::V0_4_9 && flow_control == FlowControl::Vegas && self.switching.is_none() && drawn
    }

    /// Whether some clients know no handshake but TAP.
    pub(crate) fn has_old_clients(&self) -> bool {
        self.tap_clients.is_some_and(|share| share > 0.0)
    }

    /// What limits DATA cells as far as is known without a consensus: what the file says, else the version's code.
    pub(crate) fn flow_control_by_file(&self) -> FlowControl {
        self.flow_control.unwrap_or(self.tor.code().flow_control)
    }
}
