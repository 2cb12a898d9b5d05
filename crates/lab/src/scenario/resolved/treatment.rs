//! The checked treatments.

use super::{Computing, Scheduling, Transport};
use crate::scenario::predictor::Predictor;
use crate::scenario::some_relays::SomeRelays;
use crate::scenario::switching::Switching;
use crate::scenario::treatment::{ChannelReads, DestroyCells, Epoll, FlowControl, Links, MemoryCounts, Tls, TokenRefill};
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
    /// How cells are chosen.
    #[serde(flatten)]
    pub scheduling: Scheduling,
    /// What limits the DATA cells of circuits and streams.
    ///
    /// `None`: as the consensus says.
    pub flow_control: Option<FlowControl>,
    /// What computing costs.
    #[serde(flatten)]
    pub computing: Computing,
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
    /// What links and TCP are like.
    #[serde(flatten)]
    pub transport: Transport,
}

impl Treatment {
    /// This treatment and, where it is for some of the relays, what the other hosts have.
    pub(crate) fn everywhere(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(self.relays.as_ref().map(|some| &*some.others))
    }

    /// Whether there can be Conflux sets with this flow control: this version of tor knows them, no circuit is switched, and some path is drawn.
    pub(crate) fn can_have_conflux(&self, flow_control: FlowControl, drawn: bool) -> bool {
        self.tor >= TorVersion::V0_4_9 && flow_control == FlowControl::Vegas && self.switching.is_none() && drawn
    }

    /// What limits DATA cells as far as is known without a consensus: what the file says, else the version's code.
    pub(crate) fn flow_control_by_file(&self) -> FlowControl {
        self.flow_control.unwrap_or(self.tor.code().flow_control)
    }
}
