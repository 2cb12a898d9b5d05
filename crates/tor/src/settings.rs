//! What a treatment can set about tor.

use crate::bucket::TokenRefill;
use crate::cell::RELAY_PAYLOAD_SIZE_MAX;
use crate::client::BuildTimeoutParameters;
use crate::conflux::ConfluxSettings;
use crate::cpu::Cpu;
use crate::handshakes::Handshakes;
use crate::idle::{IdleChannels, IdleTimeout};
use crate::memory::MemoryLimit;
use crate::node::Node;
use crate::predictor::PredictorSettings;
use crate::switching::SwitchingSettings;
use crate::tls::Tls;
use crate::traffic::LightAndHeavy;
use onionlab_circuitmux::PolicyKind;
use onionlab_engine::HostId;
use onionlab_flowcontrol::xon_xoff::XonXoffParameters;
use onionlab_flowcontrol::{PathType, VegasParameters};
use onionlab_net::quic::QuicCongestion;
use onionlab_quantities::{Bytes, Cells, SimDuration};
use std::sync::Arc;

/// How channels of a relay take turns, and how much goes to the kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ChannelScheduler {
    /// None: a cell that finds the outbuf empty goes there at once, and each write to the kernel that leaves little in the outbuf fills it again. Channels
    /// take turns as their sockets become writable (tor up to 0.2.5: `append_cell_to_circuit_queue`, `connection_or_flushed_some`).
    Refill,
    /// Whatever fits the outbuf, channel by channel, as soon as it fits (`scheduler_vanilla.c`).
    Vanilla,
    /// As much as TCP will send soon, one cell at a time across all channels (`scheduler_kist.c`; Jansen et al. 2014).
    Kist {
        /// Between the end of a run and the next, at a relay (`KISTSchedRunInterval`).
        interval: SimDuration,
        /// The same at a client (`KISTSchedRunIntervalClient`; before 0.4.9 as at a relay).
        client_interval: SimDuration,
        /// How many congestion windows may wait in the kernel beyond what is in flight (`KISTSockBufSizeFactor`).
        socket_buffer_factor: f64,
        /// Whether the kernel tells what a socket holds and has not sent (`SIOCOUTQNSD`). Without, that counts as nothing and the socket fills up.
        knows_unsent: bool,
    },
    /// KIST's runs and order without the kernel's knowledge: each run may fill an outbuf (`scheduler_kist.c` in its lite mode).
    KistLite {
        /// Between the end of a run and the next, at a relay.
        interval: SimDuration,
        /// The same at a client.
        client_interval: SimDuration,
    },
}

/// What limits the DATA cells of a circuit and of its streams.
#[derive(Debug, Clone, PartialEq)]
pub enum FlowControl {
    /// Fixed windows with SENDMEs for circuits and streams (tor up to 0.4.6, and without congestion control).
    Windows,
    /// `TOR_VEGAS` for circuits, XON and XOFF for streams (proposal 324).
    Vegas(CongestionSettings),
    /// PredicTor: controllers of relays plan what passes towards clients, and no window limits it; towards exits tor's windows of 1000 and 500 cells (module `predictor`).
    Predictor(PredictorSettings),
}

/// Parameters of `TOR_VEGAS`, shared by all circuits, and of XON and XOFF.
#[derive(Debug, Clone, PartialEq)]
pub struct CongestionSettings {
    /// For circuits to an exit.
    pub exit_circuits: Arc<VegasParameters>,
    /// For circuits between a client and an onion service.
    pub onion_circuits: Arc<VegasParameters>,
    /// For streams where they end at an exit.
    pub exit_streams: XonXoffParameters,
    /// For streams where they end at a client or an onion service.
    pub client_streams: XonXoffParameters,
}

impl Default for CongestionSettings {
    /// tor 0.4.9's code defaults.
    fn default() -> Self {
        Self {
            exit_circuits: Arc::new(VegasParameters::new(PathType::Exit)),
            onion_circuits: Arc::new(VegasParameters::new(PathType::Onion)),
            exit_streams: XonXoffParameters::from_consensus(false, |_| None),
            client_streams: XonXoffParameters::from_consensus(true, |_| None),
        }
    }
}

/// How circuits share connections.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Links {
    /// All circuits between two hosts go over one channel, tor's way.
    Shared,
    /// Between relays each circuit has a channel of its own on each hop (PCTCP, PCTLS; module `dedicated`).
    PerCircuit {
        /// Between a client and its guard too, where the papers leave it as it is.
        with_clients: bool,
    },
    /// Two relays have two channels, and circuits move between them (Torchestra).
    LightAndHeavy(LightAndHeavy),
    /// Any two hosts have one QUIC connection, in which each circuit has a stream of its own (QuicTor; module `over_quic`).
    Quic {
        /// The connections' congestion control.
        congestion: QuicCongestion,
    },
}

impl Links {
    /// Whether channels go over QUIC.
    pub const fn are_quic(self) -> bool {
        matches!(self, Self::Quic { .. })
    }

    /// Whether circuits move from channel to channel.
    #[inline]
    pub(crate) const fn move_circuits(self) -> bool {
        matches!(self, Self::LightAndHeavy(_))
    }
}

/// What DESTROY cells do beside others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DestroyCells {
    /// They go straight to the outbuf, before all cells in circuit queues (tor 0.2.4: `channel_send_destroy`).
    Overtake,
    /// They have a queue of their own, which takes turns with the circuits (`circuitmux_get_first_active_circuit`).
    Alternate,
}

/// How much one read callback of a channel takes.
///
/// `SSL_read` gives a record at most, and `buf_read_from_tls` took what is less than it asked for as a sign that there is no more (tor's ticket 40006).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChannelReads {
    /// One TLS record (before tor 0.4.5.1). Without TLS, `Share`.
    Record,
    /// Records until they hold the connection's share of bytes, the last of them whole.
    Share,
}

/// In which order a process that has a limit is told of sockets that are ready together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Epoll {
    /// In the order in which they became so (`ep_modify` puts what is ready at the list's end); those that have waited for tokens in that of tor's array of connections.
    Linux,
    /// Each time in that of a hash table over descriptors (Shadow up to 1.13: `shd-epoll.c`).
    Shadow1_13,
}

/// What clients do about circuits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClientSettings {
    /// How long they wait for circuits.
    pub build_timeout: BuildTimeoutParameters,
    /// Whether circuits are built ahead (`DisablePredictedCircuits`).
    pub predict: bool,
    /// The port that is expected to be used first (`predicted_ports_init`).
    pub first_port: u16,
    /// A port is expected again for so long after its use (`nf_conntimeout_clients`).
    pub prediction: SimDuration,
    /// And up to so much longer, drawn.
    pub prediction_spread: SimDuration,
    /// Unused internal circuits that are kept while they are expected to be needed (`SUFFICIENT_INTERNAL_HS_CLIENTS`).
    pub internal: usize,
    /// So many of them have to be Stable, else one more is launched, whether Stable or not (`SUFFICIENT_UPTIME_INTERNAL_HS_CLIENTS`).
    pub stable_internal: usize,
    /// Whether they are of the purpose of all: their failures hold back what is launched (`circuit_build_failed`), and when one opens streams that wait try again (`circuit_has_opened`). Since
    /// vanguards-lite they have one of their own, for which there is neither.
    pub internal_failures: bool,
    /// Whether tor comes to the newest of a client's circuits first; else as in an array in which the last fills each gap (`circuit_get_global_list`).
    pub newest_first: bool,
    /// Whether a new stream has all that wait for a circuit try again (`connection_ap_mark_as_pending_circuit`); else it tries alone.
    pub all_try: bool,
    /// The most that one read callback takes of a program (`connection_bucket_read_limit`: 16 KiB before such connections had a bucket of their own).
    pub program_read: Bytes,
    /// Unused circuits are closed after this; none: when nothing is predicted any more (`circuit_idle_timeout`).
    pub unused_idle: Option<SimDuration>,
}

impl Default for ClientSettings {
    /// tor 0.4.9's code defaults.
    fn default() -> Self {
        Self {
            build_timeout: BuildTimeoutParameters::default(),
            predict: true,
            first_port: 443,
            prediction: SimDuration::from_secs(1800),
            prediction_spread: SimDuration::from_secs(1800),
            internal: 3,
            stable_internal: 2,
            internal_failures: false,
            newest_first: false,
            all_try: true,
            program_read: Bytes::new(u64::MAX),
            unused_idle: None,
        }
    }
}

/// How a tor process chooses the cells that it sends: what concerns no other host, so that some relays can have it and others not.
#[derive(Debug, Clone)]
pub struct Scheduling {
    /// Which circuit of a channel sends next.
    pub circuitmux: PolicyKind,
    /// Which channel sends next.
    pub channel_scheduler: ChannelScheduler,
    /// All schedulers but KIST fill the outbuf up to here (`orconn_high`).
    pub outbuf_high: Bytes,
    /// Below this the scheduler is told that the channel wants more (`orconn_low`).
    pub outbuf_low: Bytes,
}

impl Default for Scheduling {
    /// tor 0.4.9's code defaults.
    fn default() -> Self {
        Self {
            circuitmux: PolicyKind::TOR_EWMA,
            channel_scheduler: ChannelScheduler::Kist {
                interval: SimDuration::from_millis(2),
                client_interval: SimDuration::from_millis(2),
                socket_buffer_factor: 1.0,
                knows_unsent: true,
            },
            outbuf_high: Bytes::new(32_768),
            outbuf_low: Bytes::new(16_384),
        }
    }
}

/// Some relays that choose cells in a way of their own.
#[derive(Debug, Clone)]
pub struct SomeRelays {
    /// Which ones.
    pub relays: Vec<HostId>,
    /// How they choose.
    pub scheduling: Scheduling,
}

/// Mechanisms and constants of every tor process of a run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How cells are chosen.
    pub scheduling: Scheduling,
    /// Relays where they are chosen in another way.
    pub some_relays: Option<SomeRelays>,
    /// Payload of a DATA cell in bytes: 498, or 488 in the newer format that CGO brought (`relay_cell_max_payload_size`), which circuits
    /// that meet at a rendezvous point do not speak: theirs is 498 then.
    pub cell_payload: u16,
    /// What limits the DATA cells of a circuit and of its streams; the four settings of windows below apply to [`FlowControl::Windows`].
    pub flow_control: FlowControl,
    /// Circuit package and deliver window in cells at the start (`CIRCWINDOW_START`).
    pub circuit_window: Cells,
    /// Cells per circuit SENDME (`CIRCWINDOW_INCREMENT`).
    pub circuit_window_increment: Cells,
    /// Stream window in cells at the start (`STREAMWINDOW_START`).
    pub stream_window: Cells,
    /// Cells per stream SENDME (`STREAMWINDOW_INCREMENT`).
    pub stream_window_increment: Cells,
    /// A queue of so many cells stops the edge streams attached to the circuit there (`cellq_high`).
    pub cell_queue_high: Cells,
    /// A queue of so few lets them go on (`cellq_low`).
    pub cell_queue_low: Cells,
    /// A queue of so many cells towards the client closes the circuit (`circ_max_cell_queue_size`); none: no queue is too long.
    pub max_cell_queue_in: Option<Cells>,
    /// The same away from the client (`circ_max_cell_queue_size_out`).
    pub max_cell_queue_out: Option<Cells>,
    /// How much memory a node's queues may take before circuits are killed; none: any.
    pub memory_limit: Option<MemoryLimit>,
    /// What DESTROY cells do beside others.
    pub destroy_cells: DestroyCells,
    /// Usable bytes of an outbuf's chunk, and with it the most plaintext in a TLS record (`chunk_new_with_alloc_size`): 4,048, or 4,064 in 0.2.4.
    pub outbuf_chunk: u32,
    /// Which TLS channels speak.
    pub tls: Tls,
    /// How much a read callback of a channel takes.
    pub channel_reads: ChannelReads,
    /// How rate limits are filled.
    pub token_refill: TokenRefill,
    /// Who has tokens first where they are never enough.
    pub epoll: Epoll,
    /// A client's request leaves together with BEGIN, not after CONNECTED: tor sends what the program has written, if the program does not wait
    /// (`connection_ap_handshake_send_begin`).
    pub optimistic_data: bool,
    /// Now and then a DATA cell is left short, so that random bytes fill it and SENDMEs cannot be forged (since 0.4.1; module `random_cells`).
    pub random_cells: bool,
    /// A circuit takes no new streams so long after its first (`MaxCircuitDirtiness`).
    pub circuit_dirtiness: SimDuration,
    /// What clients do about circuits.
    pub client: ClientSettings,
    /// Streams over several circuits to one exit; none: Conflux is off.
    pub conflux: Option<ConfluxSettings>,
    /// Entry relays move circuits away from congested outbufs; none: they do not.
    pub switching: Option<SwitchingSettings>,
    /// Which handshakes circuits are built with; all the same where computing takes no time.
    pub handshakes: Handshakes,
    /// How circuits share connections.
    pub links: Links,
    /// How many sockets a relay may have open at one time; none: any number (module `sockets`).
    pub socket_limit: Option<u32>,
    /// When channels without circuits are closed; none: never.
    pub idle_channels: Option<IdleChannels>,
    /// What computing costs relays; none: nothing.
    pub cpu: Option<Cpu>,
    /// The time between two ticks of the kernels' coarse clock, by which KIST's timer goes off and token buckets are filled; none: that clock is as fine as the other, and
    /// no time passes between a run and the setting of the timer, as in Shadow.
    pub kernel_tick: Option<SimDuration>,
}

impl Default for Settings {
    /// tor 0.4.9's code defaults with fixed windows.
    fn default() -> Self {
        Self {
            scheduling: Scheduling::default(),
            some_relays: None,
            cell_payload: RELAY_PAYLOAD_SIZE_MAX,
            flow_control: FlowControl::Windows,
            circuit_window: Cells::new(1000),
            circuit_window_increment: Cells::new(100),
            stream_window: Cells::new(500),
            stream_window_increment: Cells::new(50),
            cell_queue_high: Cells::new(256),
            cell_queue_low: Cells::new(10),
            max_cell_queue_in: Some(Cells::new(2500)),
            max_cell_queue_out: Some(Cells::new(2500)),
            memory_limit: None,
            destroy_cells: DestroyCells::Alternate,
            outbuf_chunk: 4048,
            tls: Tls::V1_3,
            channel_reads: ChannelReads::Share,
            token_refill: TokenRefill::Lazy,
            epoll: Epoll::Linux,
            optimistic_data: true,
            random_cells: true,
            circuit_dirtiness: SimDuration::from_secs(600),
            client: ClientSettings::default(),
            conflux: None,
            links: Links::Shared,
            socket_limit: None,
            switching: None,
            handshakes: Handshakes::default(),
            idle_channels: Some(IdleChannels {
                clients: IdleTimeout { least: 180, spread: 90 },
                relays: IdleTimeout { least: 2700, spread: 1800 },
            }),
            cpu: None,
            kernel_tick: None,
        }
    }
}

impl Settings {
    /// How this node chooses cells.
    #[inline]
    pub(crate) fn scheduling_at(&self, node: &Node) -> &Scheduling {
        match &self.some_relays {
            Some(some) if node.apart => &some.scheduling,
            _ => &self.scheduling,
        }
    }

    /// All ways in which nodes choose cells.
    pub(crate) fn all_scheduling(&self) -> impl Iterator<Item = &Scheduling> {
        std::iter::once(&self.scheduling).chain(self.some_relays.as_ref().map(|some| &some.scheduling))
    }
}
