//! Treatments: a value on each of some named axes, which combine freely.
//!
//! What a treatment does not say comes from `[base]`, then from the consensus where the version of tor reads it there, then from the profiles `tor`
//! (a version's code) and `net` (what links and TCP are like).

mod choices;

pub use choices::{
    ChannelReads, ChannelScheduler, Circuitmux, CpuModel, DestroyCells, DownlinkQueue, Epoll, EwmaClock, FlowControl, Handshake,
    LinkProfile, LinkShaping, Links, MemoryCounts, RoundTrips, Simulator, Tcp, Tls, TokenRefill, UplinkQueue,
};

use super::own_policy::CircuitmuxFile;
use super::predictor::{PredictorFeedback, PredictorForm, PredictorPhase};
use super::some_relays::SomeRelaysFile;
use super::switching::{
    SwitchingAsk, SwitchingChoice, SwitchingEntry, SwitchingExit, SwitchingKind, SwitchingOccupancy, SwitchingSpares,
};
use super::text::{BytesText, DurationText};
use super::version::TorVersion;
use onionlab_quantities::{Bytes, SimDuration};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Declares every axis once: `[base]` has all of them, `[[treatments]]` has them and a name.
macro_rules! axes {
    ($($(#[$meta:meta])* $axis:ident: $type:ty,)+) => {
        /// Settings common to all treatments; a treatment's own settings come before these.
        #[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
        #[serde(rename_all = "kebab-case", deny_unknown_fields)]
        #[schemars(rename = "Base")]
        pub struct BaseFile {
            $($(#[$meta])* pub $axis: Option<$type>,)+
            /// Parameters of the network's consensus, by tor's names, in place of those of the document; a treatment's entries come before those of `[base]`. Only parameters that have an effect and no key of their own.
            pub consensus_params: Option<BTreeMap<String, i64>>,
        }

        /// One of the treatments to compare: a name, and where it differs from `[base]` and the defaults.
        #[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
        #[serde(rename_all = "kebab-case", deny_unknown_fields)]
        #[schemars(rename = "Treatment")]
        pub struct TreatmentFile {
            /// The name in tables and charts, unique; at most 100 characters.
            #[schemars(length(min = 1, max = 100))]
            pub name: String,
            /// Which relays have this treatment's own settings, where not all hosts have; the others, and all clients, have those of `[base]`. Only for settings of how a relay chooses the cells that it sends.
            pub relays: Option<SomeRelaysFile>,
            $($(#[$meta])* pub $axis: Option<$type>,)+
            /// Parameters of the network's consensus, by tor's names, in place of those of the document; a treatment's entries come before those of `[base]`. Only parameters that have an effect and no key of their own.
            pub consensus_params: Option<BTreeMap<String, i64>>,
        }

        impl TreatmentFile {
            /// The treatment's own settings, without its name.
            pub(super) fn own(&self) -> BaseFile {
                BaseFile { $($axis: Clone::clone(&self.$axis),)+ consensus_params: self.consensus_params.clone() }
            }
        }

        impl BaseFile {
            /// These settings, and `under` where they say nothing.
            pub(super) fn over(&self, under: &Self) -> Self {
                let mut consensus_params = under.consensus_params.clone();
                if let Some(own) = &self.consensus_params {
                    consensus_params.get_or_insert_default().extend(own.clone());
                }
                Self { $($axis: Clone::clone(&self.$axis).or_else(|| Clone::clone(&under.$axis)),)+ consensus_params }
            }

            /// The keys that are set, as they are written in the file, without `consensus-params`.
            pub(super) fn keys(&self) -> Vec<String> {
                let mut keys = Vec::new();
                $(if self.$axis.is_some() {
                    keys.push(stringify!($axis).replace('_', "-"));
                })+
                keys
            }
        }
    };
}

axes! {
    /// Another simulator, after which `net` and whatever of tor that simulator has in a way of its own are set; single keys can be set beside it. "nstor": see docs/fidelity.md for what it sets and what stays different. Default: none.
    simulator: Simulator,
    /// The version of tor that every host runs, which sets the defaults of its mechanisms: docs/models/versions.md lists them. Default: "0.4.9".
    tor: TorVersion,
    /// Which circuit of a channel sends its next cell: a policy by its name, or a table that names one of your own. Default: "ewma"; with tor "0.2.4" "round-robin-head" unless the consensus has, or `ewma-half-life` gives, a half-life.
    circuitmux: CircuitmuxFile,
    /// With circuitmux "ewma": time after which a sent cell counts half (tor's `CircuitPriorityHalflife`), "10 ms" to "1 d". Default: as the consensus says, else "30 s".
    #[schemars(with = "Option<DurationText>")]
    ewma_half_life: SimDuration,
    /// With circuitmux "ewma": how often counts are rescaled (`CircuitPriorityTickSecs`), "1 s" to "10 min", and at most a thousand half-lives. Default: as the consensus says (0.4.9), else "10 s".
    #[schemars(with = "Option<DurationText>")]
    ewma_tick: SimDuration,
    /// With circuitmux "ewma": the clock by which cells are weighed. Default: "coarse"; with tor "0.2.4" "wall".
    ewma_clock: EwmaClock,
    /// How a relay moves cells from circuits to its sockets. Default: "kist"; with tor "0.2.4" "refill".
    channel_scheduler: ChannelScheduler,
    /// With channel-scheduler "kist" or "kist-lite": shortest time between two runs of a relay (tor's `KISTSchedRunInterval`), "2 ms" to "100 ms", with an older tor than "0.4.9" from "1 ms". Default: as the consensus says, else "2 ms" (0.4.9) or "10 ms".
    #[schemars(with = "Option<DurationText>")]
    kist_interval: SimDuration,
    /// With channel-scheduler "kist" or "kist-lite": shortest time between two runs of a client (`KISTSchedRunIntervalClient`), within the same bounds. Default: as the consensus says, else "2 ms" (0.4.9); as `kist-interval` before.
    #[schemars(with = "Option<DurationText>")]
    kist_client_interval: SimDuration,
    /// With channel-scheduler "kist": unsent bytes that a socket may hold, in congestion windows (tor's `KISTSockBufSizeFactor`), 0 to 10. Default: 1.0.
    #[schemars(range(min = 0.0, max = 10.0))]
    kist_socket_buffer_factor: f64,
    /// With channel-scheduler "kist": whether the kernel tells how much of a socket's data is not sent (Linux's `SIOCOUTQNSD`). Default: true. False is what tor finds in Shadow 1, where that counts as nothing.
    kist_knows_unsent: bool,
    /// What limits the DATA cells of circuits and streams: fixed windows with SENDMEs, congestion control with XON/XOFF, or what relays plan (PredicTor, docs/models/predictor.md), which gives each circuit connections of its own. Default: as the consensus says (0.4.9: `cc_alg`), else "vegas"; with an older tor than "0.4.9" "windows".
    flow_control: FlowControl,
    /// Whether a relay's computing takes time: "none", or on one main thread with worker threads for onion handshakes. Default: "none", since a relay's
    /// capacity, as the consensus and measurements know it, has its computing in it.
    cpu: CpuModel,
    /// With cpu "main-thread": time of the main thread for each cell that a relay takes in, "0 s" to "10 ms". Default: "6 us", as measured with tor.
    #[schemars(with = "Option<DurationText>")]
    cpu_per_cell: SimDuration,
    /// With cpu "main-thread": time of a worker thread for each onion handshake, "0 s" to "10 s". Default: "0.16 ms", as measured with tor.
    #[schemars(with = "Option<DurationText>")]
    cpu_per_handshake: SimDuration,
    /// With cpu "main-thread" and TAP: the same for TAP, "0 s" to "10 s". Default: "0.3 ms", an estimate.
    #[schemars(with = "Option<DurationText>")]
    cpu_per_tap: SimDuration,
    /// With cpu "main-thread": whether clients make their first hop with CREATE_FAST, which costs no handshake. Default: false; with tor "0.2.4" true, with "0.3.5" as the consensus says (`usecreatefast`).
    create_fast: bool,
    /// With cpu "main-thread": the handshakes of the other hops. Default: "ntor"; with tor "0.2.4" as the consensus says (`UseNTorHandshake`), else "tap".
    handshake: Handshake,
    /// With cpu "main-thread" and an older tor than "0.4.9": share of clients that use TAP there whatever the others do, 0 to 1: those of an older tor. Default: 0.
    #[schemars(range(min = 0.0, max = 1.0))]
    tap_clients: f64,
    /// With `tap-clients`: handshakes with ntor that begin before one with TAP does, where both wait, 1 to 100000. Default: as the consensus says (`NumNTorsPerTAP`), else 10.
    #[schemars(range(min = 1, max = 100_000))]
    ntors_per_tap: u32,
    /// With cpu "main-thread": a relay's cores, which set the number of its worker threads (`NumCPUs`). Default: 2.
    #[schemars(range(min = 1, max = 128))]
    cpu_cores: u32,
    /// Bytes of data in a DATA cell: 498, or 488 where all relays speak the newer relay crypto, and between client and onion service 498 then, too. Default: 488 with tor "0.4.9" and flow-control "vegas", else 498.
    #[schemars(range(min = 1, max = 498))]
    cell_payload: u32,
    /// With flow-control "windows": circuit window in DATA cells. Default: as the consensus says (`circwindow`), else 1000.
    #[schemars(range(min = 1, max = 65_535))]
    circuit_window: u32,
    /// With flow-control "windows": DATA cells that one circuit SENDME acknowledges, 1 to `circuit-window`. Default: 100.
    #[schemars(range(min = 1, max = 65_535))]
    circuit_window_increment: u32,
    /// With flow-control "windows": stream window in DATA cells. Default: 500.
    #[schemars(range(min = 1, max = 65_535))]
    stream_window: u32,
    /// With flow-control "windows": DATA cells that one stream SENDME acknowledges, 1 to `stream-window`. Default: 50.
    #[schemars(range(min = 1, max = 65_535))]
    stream_window_increment: u32,
    /// With flow-control "predictor": which problem a relay solves. Default: "journal".
    predictor_form: PredictorForm,
    /// With flow-control "predictor": time from one plan to the next, "1 ms" to "500 ms". Default: "40 ms".
    #[schemars(with = "Option<DurationText>")]
    predictor_step: SimDuration,
    /// With flow-control "predictor": steps that are planned ahead, 2 to 100. Default: 10.
    #[schemars(range(min = 2, max = 100))]
    predictor_horizon: u32,
    /// With flow-control "predictor": cells that each circuit's queue at a relay is to hold at most, a soft limit, 0 to 1000000. Default: 100.
    #[schemars(range(min = 0.0, max = 1_000_000.0))]
    predictor_queue_limit: f64,
    /// With flow-control "predictor": share of its link, or of its own rate limit, that a relay plans with, above 0 and at most 1; the rest is for headers. Default: 0.85.
    #[schemars(range(min = 0.0, max = 1.0))]
    predictor_capacity_share: f64,
    /// With flow-control "predictor": when relays plan first, "0 s" to "1 d". Default: "100 ms".
    #[schemars(with = "Option<DurationText>")]
    predictor_first_solve: SimDuration,
    /// With flow-control "predictor": how relays tell their neighbours on a circuit what they plan. Default: "out-of-band".
    predictor_feedback: PredictorFeedback,
    /// With flow-control "predictor" and predictor-feedback "out-of-band": chance that a message is lost, 0 to 1. Default: 0.
    #[schemars(range(min = 0.0, max = 1.0))]
    predictor_feedback_loss: f64,
    /// With flow-control "predictor": whether all relays plan at the same instants. Default: "together".
    predictor_phase: PredictorPhase,
    /// With flow-control "predictor" and predictor-form "journal": weight of the virtual rate's deviation from the outgoing rate, 0 to 1000000 (gamma). Default: 10.
    #[schemars(range(min = 0.0, max = 1_000_000.0))]
    predictor_deviation_weight: f64,
    /// With flow-control "predictor": weight of the queue, 0 to 1000000 (w_q). Default: 0.
    #[schemars(range(min = 0.0, max = 1_000_000.0))]
    predictor_queue_weight: f64,
    /// A circuit takes no new stream so long after its first (tor's `MaxCircuitDirtiness`, which it raises to 10 s), "1 s" to "7 d". Default: "10 min".
    #[schemars(with = "Option<DurationText>")]
    circuit_lifetime: SimDuration,
    /// Whether clients build circuits before any stream needs them, and to learn how long that takes; otherwise only when a stream waits for one (tor's `DisablePredictedCircuits` and `LearnCircuitBuildTimeout`). Default: true.
    predicted_circuits: bool,
    /// With predicted-circuits true: width of the bins into which a client sorts the times that circuits took (tor's `CBT_BIN_WIDTH`), whole milliseconds, "1 ms" to "1 s". Default: "10 ms"; with an older tor than "0.4.9" "50 ms".
    #[schemars(with = "Option<DurationText>")]
    build_time_bin: SimDuration,
    /// With predicted-circuits true: the port for which a client builds its first circuits, 1 to 65535; not in an explicit network. Default: 443; with tor "0.2.4" 80.
    #[schemars(range(min = 1, max = 65_535))]
    first_port: u32,
    /// How circuits share the connections between relays: see docs/models/links.md. Default: "shared"; with flow-control "predictor" "per-circuit".
    links: Links,
    /// With links "per-circuit": whether each circuit has a connection of its own between client and guard too, where PCTCP and PCTLS leave tor as it is. Default: false; with flow-control "predictor" true.
    per_circuit_clients: bool,
    /// With links "light-and-heavy": a circuit is moved to the heavy connection when its count of sent cells exceeds so many times the average of the circuits that carry traffic to that relay, 1 to 1000. Default: 1.25.
    #[schemars(range(min = 1.0, max = 1000.0))]
    heavy_above: f64,
    /// With links "light-and-heavy": a circuit is moved back to the light connection when its count falls below so many times the average, 0 to `heavy-above`. Default: 0.75.
    #[schemars(range(min = 0.0, max = 1000.0))]
    light_below: f64,
    /// With links "light-and-heavy": time after which a sent cell counts half there, "10 ms" to "1 d". Default: "30 s".
    #[schemars(with = "Option<DurationText>")]
    heavy_half_life: SimDuration,
    /// How many sockets a relay may have open at one time, ends of channels and connections to servers (tor's `ConnLimit`), 2 to 10000000. Default: no limit.
    #[schemars(range(min = 2, max = 10_000_000))]
    socket_limit: u32,
    /// How long a channel between relays stays open without circuits, on average; each end draws from three quarters to five quarters of it (`nf_conntimeout_relays`), "1 min" to "7 d". Default: as the consensus says, else "1 h"; with tor "0.2.4" exactly "3 min".
    #[schemars(with = "Option<DurationText>")]
    relay_channel_idle: SimDuration,
    /// How long a channel between a client and its guard stays open without circuits at least; each end draws up to half as long on top, with tor "0.2.4" nothing, "1 min" to "7 d". Default: "3 min".
    #[schemars(with = "Option<DurationText>")]
    client_channel_idle: SimDuration,
    /// A circuit's queue of so many cells stops the streams attached to it there (tor's `cellq_high`). Default: as the consensus says (0.4.9), else 256.
    #[schemars(range(min = 1, max = 1000))]
    cell_queue_high: u32,
    /// A queue of so few cells lets them go on (tor's `cellq_low`), 1 to `cell-queue-high`, without which to 256. Default: as the consensus says, else 10 (0.4.9); 64 before.
    #[schemars(range(min = 1, max = 1000))]
    cell_queue_low: u32,
    /// A queue of so many cells towards the client closes the circuit (`circ_max_cell_queue_size`). Default: as the consensus says, else 2500 (0.4.9) or 50000 (0.3.5); 0.2.4 has no limit.
    #[schemars(range(min = 50, max = 1_000_000))]
    max_cell_queue_in: u32,
    /// The same away from the client (`circ_max_cell_queue_size_out`). Default: as the consensus says (0.4.9), else as `max-cell-queue-in`.
    #[schemars(range(min = 50, max = 1_000_000))]
    max_cell_queue_out: u32,
    /// How much memory a relay's queues may take before it kills the circuits with the oldest cells (tor's `MaxMemInQueues`), "64 KiB" to "1024 GiB". Default: no limit.
    #[schemars(with = "Option<BytesText>")]
    memory_limit: Bytes,
    /// With `memory-limit`: what counts. Default: "cells-and-buffers"; with tor "0.2.4" "cells".
    memory_counts: MemoryCounts,
    /// What DESTROY cells do beside others. Default: "alternate"; with tor "0.2.4" "overtake".
    destroy_cells: DestroyCells,
    /// With channel-scheduler "vanilla", "kist-lite" or "refill": bytes to which a connection's outbuf is filled (tor's `orconn_high`), "514 B" to "1 GiB". Default: as the consensus says (0.4.9), else "32 KiB".
    #[schemars(with = "Option<BytesText>")]
    outbuf_high: Bytes,
    /// With channel-scheduler "vanilla" or "refill": bytes below which it wants more (tor's `orconn_low`), "514 B" to `outbuf-high`. Default: as the consensus says (0.4.9), else "16 KiB".
    #[schemars(with = "Option<BytesText>")]
    outbuf_low: Bytes,
    /// Usable bytes of a chunk of the outbuf, and so the most data in a TLS record, "514 B" to "16 KiB". Default: "4048 B"; with tor "0.2.4" "4064 B".
    #[schemars(with = "Option<BytesText>")]
    outbuf_chunk: Bytes,
    /// The TLS of channels, which sets a record's overhead and how many round trips a channel takes to open. Default: "1.3"; with tor "0.2.4" "1.2-cbc".
    tls: Tls,
    /// How much a channel reads before others have their turn and cells are scheduled. Default: "share"; with tor "0.2.4" and "0.3.5" "record".
    channel_reads: ChannelReads,
    /// With a relay that has a `rate` of its own: how token buckets are filled. Default: "lazy"; with tor "0.2.4" "timer".
    token_refill: TokenRefill,
    /// With a relay that has a `rate` of its own: in which order its tor is told of connections that are ready together: the first get tokens where there are not enough for all. Default: "linux".
    epoll: Epoll,
    /// Whether a client's request leaves together with BEGIN, which takes a program that does not wait for tor's answer and a tor that sends early; otherwise it leaves a round trip later. Default: true; with tor "0.2.4" as the consensus says (`UseOptimisticData`), else false.
    optimistic_data: bool,
    /// Whether tor leaves a DATA cell 20 bytes short now and then, for random bytes by which its SENDME cannot be forged (since 0.4.1). Default: true; with an older tor than "0.4.9" false.
    random_cells: bool,
    /// With tor "0.4.9", flow-control "vegas", paths that are drawn and no switching: whether streams go over sets of circuits to one exit (Conflux). A client whose path is given has no second way and uses plain circuits. Default: as the consensus says (`cfx_enabled`), else true; false with switching.
    conflux: bool,
    /// With conflux: how many sets that no stream has used yet a client has or builds ahead, 1 to 100, as long as fewer than `cfx_max_linked_set` of `consensus-params` (10) are linked, used or not. Default: as the consensus says (`cfx_max_prebuilt_set`), else 3.
    #[schemars(range(min = 1, max = 100))]
    conflux_sets: u32,
    /// With conflux: circuits of a set, 2 to 8, no more than clients have primary guards (`guards`, at least 3 unless the consensus says otherwise), since each has one of its own. Default: as the consensus says (`cfx_num_legs_set`), else 2.
    #[schemars(range(min = 2, max = 8))]
    conflux_legs: u32,
    /// Whether entry relays move circuits away from congested outbufs: see docs/models/switching.md. Without Conflux, which a treatment with "active" does not have. Default: "none".
    switching: SwitchingKind,
    /// With switching: weight of the average before in the moving average of the cells that a circuit puts into the outbuf, 0.01 to 0.99 (the papers' gamma). Default: 0.7.
    #[schemars(range(min = 0.01, max = 0.99))]
    switching_gamma: f64,
    /// With switching and `switching-hysteresis` or `switching-drop-idle`: share below which an outbuf is underfull, 0 to 10 (alpha). Default: 0.1.
    #[schemars(range(min = 0.0, max = 10.0))]
    switching_alpha: f64,
    /// With switching: share above which an outbuf is overfull, 0 to 10 (beta). Default: 0.5.
    #[schemars(range(min = 0.0, max = 10.0))]
    switching_beta: f64,
    /// With switching: what these shares are of. Default: "absolute".
    switching_occupancy: SwitchingOccupancy,
    /// With switching: whether a socket that takes nothing more counts as congestion, whatever the outbuf holds. Default: true.
    switching_unwritable: bool,
    /// With switching: which circuits of a congested channel move. Default: "bulkiest".
    switching_choice: SwitchingChoice,
    /// With switching: where they move. Default: "same".
    switching_entry: SwitchingEntry,
    /// With switching: whether their streams go on over another exit, which connects to the servers anew, or with switching-entry "same" over the one that they have. Default: "new".
    switching_exit: SwitchingExit,
    /// With switching: whether the entry asks the new path at once or, with switching-entry "same", when SWITCH has left its outbuf for the old path. Default: "at-once".
    switching_ask: SwitchingAsk,
    /// With switching: whether the relays of spare circuits are drawn by bandwidth, among those at least as fast as the one replaced where there are such, or uniformly among all others of their class. Default: "bandwidth".
    switching_spares: SwitchingSpares,
    /// With switching: how often an entry looks at its outbufs, "10 ms" to "10 min". Default: "15 s".
    #[schemars(with = "Option<DurationText>")]
    switching_interval: SimDuration,
    /// With switching: whether an outbuf from which a circuit moved must have been underfull before the next one moves; not in the papers. Default: false.
    switching_hysteresis: bool,
    /// With switching: how often the streams of a circuit may move, 1 to 1000; not in the papers. Default: any number of times.
    #[schemars(range(min = 1, max = 1000))]
    switching_moves: u32,
    /// With switching: an entry closes circuits on an underfull outbuf that had no cell for so long, "1 s" to "1 d". Default: it does not.
    #[schemars(with = "Option<DurationText>")]
    switching_drop_idle: SimDuration,
    /// With switching: how long the answer to a switch is waited for, "100 ms" to "1 h". Default: "2 min".
    #[schemars(with = "Option<DurationText>")]
    switching_timeout: SimDuration,
    /// Where paths are drawn: how many guards a client uses, one of them drawn for each circuit, 0 to 20 (`NumEntryGuards`, and `NumPrimaryGuards` where it has more than tor's 3). With 0 it keeps none (`UseEntryGuards 0`): the first relay of each circuit is drawn by weight among those with the Guard flag. Default: as the consensus says (`guard-n-primary-guards-to-use`), else 1; with tor "0.2.4" 3.
    #[schemars(range(min = 0, max = 20))]
    guards: u32,
    /// The link profile, which sets the defaults of TCP, queues and links where a key says so ("with net ..."): "linux" behaves like Linux, "shadow" like the simulator Shadow 3, "nstor" like the simulator of the PredicTor paper, whose tor `simulator` sets too. Default: "linux".
    net: LinkProfile,
    /// TCP congestion control. Default: "cubic"; with net "shadow" "reno", with "nstor" "unlimited".
    tcp: Tcp,
    /// Time between two ticks of the hosts' kernels, for which the timers of KIST and KIST-lite wait and by which token buckets are filled, "1 ms" to "10 ms"; "0 s": clocks are exact and no time passes within an event, as in Shadow. It changes no other clock: EWMA's is `ewma-clock`. Default: "4 ms", a kernel of 250 Hz; with net "shadow" and "nstor" "0 s".
    #[schemars(with = "Option<DurationText>")]
    kernel_tick: SimDuration,
    /// Whether TCP holds back a short segment while others are unacknowledged. Default: true; with net "shadow" and "nstor" false.
    nagle: bool,
    /// With tcp "cubic": leave slow start when the round-trip time grows. Default: true; with net "shadow" and "nstor" false.
    hystart: bool,
    /// Whether a connection that was idle starts again from the initial window. Default: true; with net "shadow" and "nstor" false.
    slow_start_after_idle: bool,
    /// TCP's initial congestion window in segments. Default: 10; with net "shadow" 2, with "nstor" 5.
    #[schemars(range(min = 1, max = 1000))]
    initial_window: u32,
    /// Bytes of data in a full TCP segment. Default: 1448; with net "shadow" 1460, with "nstor" 536.
    #[schemars(range(min = 88, max = 65_483))]
    mss: u32,
    /// Bytes of headers in front of a packet's data, which links carry too, 20 to 200. Default: 52; with net "shadow" 40, with "nstor" 54.
    #[schemars(with = "Option<BytesText>")]
    packet_header: Bytes,
    /// Shortest delay of an acknowledgement that waits for a second segment, "0 s" to "1 s". Default: "40 ms"; with net "shadow" "1 ms", with "nstor" "200 ms".
    #[schemars(with = "Option<DurationText>")]
    delayed_ack: SimDuration,
    /// Least time that a retransmission time-out allows beyond the round trip (with net "shadow" and "nstor": altogether), "1 ms" to "10 s". With net "shadow" it needs round-trips "released" or "measured": without a round trip the time-out is 1 s. Default: "200 ms"; with net "shadow" and "nstor" "1 s".
    #[schemars(with = "Option<DurationText>")]
    min_rto: SimDuration,
    /// With net "shadow": which round trips set the retransmission time-out. Default: "never".
    round_trips: RoundTrips,
    /// Most bytes that a socket's send buffer grows to, "4 KiB" to "1 GiB". Default: "4 MiB"; with net "nstor" "128 KiB".
    #[schemars(with = "Option<BytesText>")]
    send_buffer: Bytes,
    /// Most bytes that a socket's receive buffer grows to, "4 KiB" to "1 GiB". Default: "32 MiB"; with net "shadow" "6 MiB", with net "nstor" "128 KiB".
    #[schemars(with = "Option<BytesText>")]
    receive_buffer: Bytes,
    /// How an access link keeps its rate. Default: "serialise"; with net "shadow" "token-batches".
    link_shaping: LinkShaping,
    /// What waits for each host's access link towards the network: its sockets, or packets in a queue. Default: "sockets"; with net "shadow" "write-order", with "nstor" "drop-tail".
    uplink_queue: UplinkQueue,
    /// With uplink-queue "drop-tail" or "small-queues": packets that it holds. Default: 1100, as nstor's (100 in the device, 1000 above it).
    #[schemars(range(min = 1, max = 1_000_000))]
    uplink_queue_packets: u32,
    /// The queue before each host's access link from the network. Default: "drop-tail"; with net "shadow" "codel".
    downlink_queue: DownlinkQueue,
    /// Most data that this queue holds, "4 KiB" to "1 GiB". Default: "1500 kB"; with net "shadow" and "nstor" "1 GiB".
    #[schemars(with = "Option<BytesText>")]
    downlink_queue_size: Bytes,
    /// Most packets that this queue holds, whatever their size. Default: no limit; with net "nstor" 1100.
    #[schemars(range(min = 1, max = 1_000_000))]
    downlink_queue_packets: u32,
    /// With downlink-queue "codel": the queueing delay that is acceptable, "1 ms" to "10 s". Default: "5 ms"; with net "shadow" "10 ms".
    #[schemars(with = "Option<DurationText>")]
    codel_target: SimDuration,
    /// With downlink-queue "codel": how long the delay must exceed the target before packets are dropped, "1 ms" to "100 s". Default: "100 ms".
    #[schemars(with = "Option<DurationText>")]
    codel_interval: SimDuration,
}
