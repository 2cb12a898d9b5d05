//! Which settings of a treatment mean nothing, given what its others say, and what each would need.

use super::treatments::Circumstances;
use crate::scenario::predictor;
use crate::scenario::resolved::Treatment;
use crate::scenario::switching;
use crate::scenario::treatment::{
    BaseFile, ChannelScheduler, DownlinkQueue, FlowControl, Handshake, LinkProfile, Links, RoundTrips, Tcp,
};
use crate::scenario::version::TorVersion;

const MAIN_THREAD: &str = "cpu = \"main-thread\"";

const CONFLUX: &str = "tor = \"0.4.9\", flow-control = \"vegas\", no switching and a client whose path is drawn";
pub(in crate::scenario) const CONFLUX_ON: &str =
    "tor = \"0.4.9\", flow-control = \"vegas\", conflux = true, no switching and a client whose path is drawn";

const LIGHT_AND_HEAVY: &str = "links = \"light-and-heavy\"";
const AHEAD: &str = "predicted-circuits = true";
const KIST_OR_LITE: &str = "channel-scheduler = \"kist\" or \"kist-lite\"";
const KIST_OR_LIMIT: &str = "channel-scheduler = \"kist\" or \"kist-lite\", or a relay with a `rate` of its own";

/// The settings among `given` that mean nothing under `treatment`, and what each would need.
pub(super) fn without_effect(
    treatment: &Treatment,
    given: &BaseFile,
    network: Circumstances,
) -> Vec<(&'static str, &'static str)> {
    let Treatment { scheduling, computing, transport, .. } = treatment;
    let ewma = scheduling.has_ewma();
    let scheduler = scheduling.channel_scheduler;
    let kist = scheduler == ChannelScheduler::Kist;
    let intervals = scheduler.has_interval();
    let codel = transport.downlink_queue == DownlinkQueue::Codel;
    let windows = treatment.flow_control_by_file() == FlowControl::Windows;
    let conflux = treatment.can_have_conflux(treatment.flow_control_by_file(), network.drawn);
    let computes = computing.takes_time();
    let old_clients = computing.has_old_clients();
    let by_default = computing.handshake.is_none() && treatment.tor == TorVersion::V0_2_4;
    let tap = computes && (old_clients || by_default || computing.handshake == Some(Handshake::Tap));
    let heavy = treatment.links == Links::LightAndHeavy;
    let ahead = treatment.predicted_circuits != Some(false);
    let for_windows = "flow-control = \"windows\"";
    let queue = transport.uplink_queue.has_packets();
    let times_out = transport.net != LinkProfile::Shadow || transport.round_trips.is_some_and(|trips| trips != RoundTrips::Never);
    [
        ("uplink-queue-packets", given.uplink_queue_packets.is_some(), queue, "uplink-queue = \"drop-tail\" or \"small-queues\""),
        ("ewma-half-life", given.ewma_half_life.is_some(), ewma, "circuitmux = \"ewma\""),
        ("ewma-tick", given.ewma_tick.is_some(), ewma, "circuitmux = \"ewma\""),
        ("ewma-clock", given.ewma_clock.is_some(), ewma, "circuitmux = \"ewma\""),
        ("kist-interval", given.kist_interval.is_some(), intervals, KIST_OR_LITE),
        ("kist-client-interval", given.kist_client_interval.is_some(), intervals, KIST_OR_LITE),
        ("kist-socket-buffer-factor", given.kist_socket_buffer_factor.is_some(), kist, "channel-scheduler = \"kist\""),
        ("kist-knows-unsent", given.kist_knows_unsent.is_some(), kist, "channel-scheduler = \"kist\""),
        ("kernel-tick", given.kernel_tick.is_some(), intervals || network.limited, KIST_OR_LIMIT),
        (
            "min-rto",
            given.min_rto.is_some(),
            times_out,
            "net other than \"shadow\", or round-trips = \"released\" or \"measured\"",
        ),
        ("round-trips", given.round_trips.is_some(), transport.net == LinkProfile::Shadow, "net = \"shadow\""),
        (
            "outbuf-high",
            given.outbuf_high.is_some(),
            scheduler.fills_outbufs(),
            "channel-scheduler = \"vanilla\", \"kist-lite\" or \"refill\"",
        ),
        ("outbuf-low", given.outbuf_low.is_some(), scheduler.refills_outbufs(), "channel-scheduler = \"vanilla\" or \"refill\""),
        ("memory-counts", given.memory_counts.is_some(), treatment.memory_limit.is_some(), "`memory-limit`"),
        ("token-refill", given.token_refill.is_some(), network.limited, "a relay with a `rate` of its own"),
        ("epoll", given.epoll.is_some(), treatment.epoll.is_some(), "a relay with a `rate` of its own"),
        (
            "circuit-lifetime",
            given.circuit_lifetime.is_some(),
            network.lifetime,
            "a group of clients without a `circuit-lifetime` of its own",
        ),
        ("guards", given.guards.is_some(), network.drawn, "a client whose path is drawn"),
        ("conflux", given.conflux.is_some(), conflux, CONFLUX),
        ("conflux-sets", given.conflux_sets.is_some(), conflux && treatment.conflux != Some(false), CONFLUX_ON),
        ("conflux-legs", given.conflux_legs.is_some(), conflux && treatment.conflux != Some(false), CONFLUX_ON),
        ("circuit-window", given.circuit_window.is_some(), windows, for_windows),
        ("circuit-window-increment", given.circuit_window_increment.is_some(), windows, for_windows),
        ("stream-window", given.stream_window.is_some(), windows, for_windows),
        ("stream-window-increment", given.stream_window_increment.is_some(), windows, for_windows),
        ("cpu-per-cell", given.cpu_per_cell.is_some(), computes, MAIN_THREAD),
        ("cpu-per-handshake", given.cpu_per_handshake.is_some(), computes, MAIN_THREAD),
        ("cpu-per-tap", given.cpu_per_tap.is_some(), tap, "cpu = \"main-thread\" and handshake = \"tap\" or `tap-clients`"),
        ("create-fast", given.create_fast.is_some(), computes, MAIN_THREAD),
        ("handshake", given.handshake.is_some(), computes, MAIN_THREAD),
        ("tap-clients", given.tap_clients.is_some(), computes, MAIN_THREAD),
        ("ntors-per-tap", given.ntors_per_tap.is_some(), old_clients, "`tap-clients` above 0"),
        ("cpu-cores", given.cpu_cores.is_some(), computes, MAIN_THREAD),
        ("heavy-above", given.heavy_above.is_some(), heavy, LIGHT_AND_HEAVY),
        ("light-below", given.light_below.is_some(), heavy, LIGHT_AND_HEAVY),
        ("heavy-half-life", given.heavy_half_life.is_some(), heavy, LIGHT_AND_HEAVY),
        (
            "per-circuit-clients",
            given.per_circuit_clients.is_some(),
            treatment.links == Links::PerCircuit,
            "links = \"per-circuit\"",
        ),
        (
            "relay-channel-idle",
            given.relay_channel_idle.is_some(),
            treatment.links != Links::PerCircuit,
            "channels between relays that several circuits share",
        ),
        (
            "client-channel-idle",
            given.client_channel_idle.is_some(),
            treatment.per_circuit_clients != Some(true),
            "channels between clients and guards that several circuits share",
        ),
        ("build-time-bin", given.build_time_bin.is_some(), ahead, AHEAD),
        (
            "first-port",
            given.first_port.is_some(),
            ahead && network.policies,
            "predicted-circuits = true and a network that is not by hand, whose exits let every port out",
        ),
        ("tls", given.tls.is_some(), treatment.links != Links::Quic, "links other than \"quic\", which has its own"),
        (
            "outbuf-chunk",
            given.outbuf_chunk.is_some(),
            treatment.links != Links::Quic || treatment.memory_limit.is_some(),
            "links other than \"quic\", which has no records, or `memory-limit`",
        ),
        (
            "channel-reads",
            given.channel_reads.is_some(),
            treatment.channel_reads.is_some(),
            "links other than \"quic\" and a `tls` other than \"none\": it counts records",
        ),
        ("hystart", given.hystart.is_some(), transport.tcp == Tcp::Cubic, "tcp = \"cubic\""),
        ("codel-target", given.codel_target.is_some(), codel, "downlink-queue = \"codel\""),
        ("codel-interval", given.codel_interval.is_some(), codel, "downlink-queue = \"codel\""),
    ]
    .into_iter()
    .chain(switching::effects(given, treatment.switching.as_ref()))
    .chain(predictor::effects(given, treatment.predictor.as_ref()))
    .filter(|(_, given, effective, _)| *given && !effective)
    .map(|(key, _, _, needs)| (key, needs))
    .collect()
}
