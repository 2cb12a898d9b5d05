//! Checks of `[base]` and `[[treatments]]`: a value on every axis, and no setting without an effect.

use super::Scenario;
use super::consensus_params;
use super::error::{Fault, clipped};
use super::own_policy::{self, CircuitmuxFile, Policy};
use super::predictor;
use super::resolve::{Checked, count, text, within};
use super::resolved::Treatment;
use super::some_relays;
use super::switching;
use super::treatment::{
    BaseFile, ChannelScheduler, Circuitmux, CpuModel, DownlinkQueue, Epoll, FlowControl, Handshake, LinkProfile, LinkShaping,
    Links, Simulator, Tcp, Tls, TreatmentFile, UplinkQueue,
};
use super::version::TorVersion;
use onionlab_net::tcp::{CongestionControl, TcpConfig};
use onionlab_quantities::{Bytes, SimDuration};
use std::collections::{BTreeMap, BTreeSet};

/// What of the network decides whether a setting has an effect.
#[derive(Debug, Clone, Copy)]
pub(super) struct Circumstances {
    /// A relay has a rate limit of its own.
    pub limited: bool,
    /// A client's paths are drawn.
    pub drawn: bool,
    /// Exits may differ in the ports that they let out.
    pub policies: bool,
    /// There are onion services.
    pub onion: bool,
    /// A group of clients has no circuit lifetime of its own.
    pub lifetime: bool,
}

pub(super) fn treatments(
    scenario: &Scenario,
    base: Option<&BaseFile>,
    files: Option<&[TreatmentFile]>,
    network: Circumstances,
) -> Checked<Vec<Treatment>> {
    let nothing = BaseFile::default();
    let base = base.unwrap_or(&nothing);
    let alone = [TreatmentFile { name: "base".to_owned(), ..TreatmentFile::default() }];
    let files = files.unwrap_or(&alone);
    count("treatments", files.len(), 1000)?;
    let mut names = BTreeSet::new();
    let mut slugs = BTreeSet::new();
    let mut resolved = Vec::with_capacity(files.len());
    for (index, file) in files.iter().enumerate() {
        let key = format!("treatments[{index}]");
        let name = text(format!("{key}.name"), &file.name, 100)?;
        let slug = slug(&name);
        if slug.is_empty() {
            let allowed = "a name with at least one letter or digit of ASCII";
            return Err(Fault::out_of_range(format!("{key}.name"), format!("\"{}\"", clipped(&name, 60)), allowed));
        }
        if !names.insert(name.clone()) || !slugs.insert(slug.clone()) {
            let reason =
                format!("is \"{}\", too like the name of another treatment (records are kept as \"{slug}\")", clipped(&name, 60));
            return Err(Fault::conflict(format!("{key}.name"), reason));
        }
        let own = file.own();
        let (own_keys, base_keys) = (own.keys(), base.keys());
        // Where a setting stands, so that an error names the right line.
        let place = |setting: &str| {
            let from_base = !own_keys.iter().any(|key| key == setting) && base_keys.iter().any(|key| key == setting);
            if from_base { format!("base.{setting}") } else { format!("{key}.{setting}") }
        };
        let mut treatment = one(scenario, place, name.clone(), slug.clone(), &own.over(base))?;
        treatment.epoll = treatment.epoll.filter(|_| network.limited);
        treatment.consensus_params = consensus_params::checked(&key, &treatment, &own, base, network)?;
        if let Some(relays) = &file.relays {
            let mut others = one(scenario, |setting: &str| format!("base.{setting}"), name, slug, base)?;
            others.epoll = treatment.epoll;
            others.consensus_params = consensus_params::checked(&key, &others, &BaseFile::default(), base, network)?;
            treatment.relays = Some(some_relays::checked(&key, relays, &own, others)?);
        }
        if let Some((setting, needs)) = without_effect(&treatment, &own, network).first() {
            return Err(Fault::conflict(
                format!("{key}.{setting}"),
                format!("has no effect in this treatment: it needs {needs}"),
            ));
        }
        some_relays::must_differ(&key, &treatment)?;
        resolved.push(treatment);
    }
    consensus_params::base_serves(base, &resolved, network)?;
    // A setting of `[base]` may serve some of the treatments only, but it must serve one.
    for setting in base.keys() {
        let needs: Vec<Option<&str>> = resolved
            .iter()
            .flat_map(Treatment::everywhere)
            .map(|treatment| without_effect(treatment, base, network).into_iter().find(|(key, _)| *key == setting))
            .map(|idle| idle.map(|(_, needs)| needs))
            .collect();
        if let Some(needs) = needs[0].filter(|_| needs.iter().all(Option::is_some)) {
            return Err(Fault::conflict(format!("base.{setting}"), format!("has no effect in any treatment: it needs {needs}")));
        }
    }
    Ok(resolved)
}

const MAIN_THREAD: &str = "cpu = \"main-thread\"";
/// Measured with tor 0.4.9.11 (docs/results/tor-cpu.md).
const CPU_PER_CELL: SimDuration = SimDuration::from_nanos(6000);
const CPU_PER_HANDSHAKE: SimDuration = SimDuration::from_nanos(160_000);
/// An estimate (docs/models/cpu.md).
const CPU_PER_TAP: SimDuration = SimDuration::from_nanos(300_000);

const CONFLUX: &str = "tor = \"0.4.9\", flow-control = \"vegas\", no switching and a client whose path is drawn";
pub(super) const CONFLUX_ON: &str =
    "tor = \"0.4.9\", flow-control = \"vegas\", conflux = true, no switching and a client whose path is drawn";

const LIGHT_AND_HEAVY: &str = "links = \"light-and-heavy\"";
const AHEAD: &str = "predicted-circuits = true";
const KIST_OR_LITE: &str = "channel-scheduler = \"kist\" or \"kist-lite\"";
const KIST_OR_LIMIT: &str = "channel-scheduler = \"kist\" or \"kist-lite\", or a relay with a `rate` of its own";

/// The settings among `given` that mean nothing under `treatment`, and what each would need.
fn without_effect(treatment: &Treatment, given: &BaseFile, network: Circumstances) -> Vec<(&'static str, &'static str)> {
    let ewma = treatment.has_ewma();
    let scheduler = treatment.channel_scheduler;
    let kist = scheduler == ChannelScheduler::Kist;
    let intervals = kist || scheduler == ChannelScheduler::KistLite;
    let codel = treatment.downlink_queue == DownlinkQueue::Codel;
    let windows = treatment.flow_control_by_file() == FlowControl::Windows;
    let conflux = treatment.knows_conflux() && treatment.switching.is_none() && network.drawn;
    let computes = treatment.cpu == CpuModel::MainThread;
    let old_clients = treatment.tap_clients.is_some_and(|share| share > 0.0);
    let by_default = treatment.handshake.is_none() && treatment.tor == TorVersion::V0_2_4;
    let tap = computes && (old_clients || by_default || treatment.handshake == Some(Handshake::Tap));
    let heavy = treatment.links == Links::LightAndHeavy;
    let ahead = treatment.predicted_circuits != Some(false);
    let for_windows = "flow-control = \"windows\"";
    let queue = treatment.uplink_queue.has_packets();
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
        ("round-trips", given.round_trips.is_some(), treatment.net == LinkProfile::Shadow, "net = \"shadow\""),
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
        ("hystart", given.hystart.is_some(), treatment.tcp == Tcp::Cubic, "tcp = \"cubic\""),
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

/// Packets before nstor's links: 100 in the device, 1000 in the queue above it (ns-3.29's default `pfifo_fast`).
const NSTOR_PACKETS: u32 = 1100;

/// What another simulator has, where neither the treatment nor `[base]` says anything: nstor's baseline, as its example script sets it. Of windows only what the flow
/// control uses counts, so that `PredicTor` has the rest.
fn of_simulator(simulator: Simulator) -> BaseFile {
    match simulator {
        Simulator::Nstor => BaseFile {
            net: Some(LinkProfile::Nstor),
            tls: Some(Tls::Absent),
            circuitmux: Some(CircuitmuxFile::BuiltIn(Circuitmux::RoundRobin)),
            channel_scheduler: Some(ChannelScheduler::Vanilla),
            predicted_circuits: Some(false),
            random_cells: Some(false),
            flow_control: Some(FlowControl::Windows),
            circuit_window: Some(500),
            circuit_window_increment: Some(50),
            // It has no windows of streams.
            stream_window: Some(65_535),
            stream_window_increment: Some(65_535),
            ..BaseFile::default()
        },
    }
}

/// What a link profile says where neither the treatment nor `[base]` does.
fn profile(net: LinkProfile) -> BaseFile {
    let (tcp, link_shaping, downlink_queue, codel_target) = match net {
        LinkProfile::Linux => (TcpConfig::linux(), LinkShaping::Serialise, DownlinkQueue::DropTail, 5),
        LinkProfile::Shadow => (TcpConfig::shadow(), LinkShaping::TokenBatches, DownlinkQueue::Codel, 10),
        LinkProfile::Nstor => (TcpConfig::nstor(), LinkShaping::Serialise, DownlinkQueue::DropTail, 5),
    };
    let uplink_queue = match net {
        LinkProfile::Linux => UplinkQueue::Sockets,
        LinkProfile::Shadow => UplinkQueue::WriteOrder,
        LinkProfile::Nstor => UplinkQueue::DropTail,
    };
    let nstor = net == LinkProfile::Nstor;
    BaseFile {
        tcp: Some(match tcp.congestion_control {
            CongestionControl::Reno => Tcp::Reno,
            CongestionControl::Cubic => Tcp::Cubic,
            CongestionControl::Unlimited => Tcp::Unlimited,
        }),
        kernel_tick: Some(net.kernel_tick()),
        nagle: Some(tcp.nagle),
        hystart: Some(tcp.hystart),
        slow_start_after_idle: Some(tcp.slow_start_after_idle),
        initial_window: Some(tcp.initial_window),
        mss: Some(tcp.mss),
        packet_header: Some(Bytes::new(tcp.header_bytes.into())),
        delayed_ack: Some(tcp.delayed_ack),
        min_rto: Some(tcp.min_rto),
        send_buffer: Some(tcp.send_buffer.max),
        receive_buffer: Some(tcp.receive_buffer.max),
        link_shaping: Some(link_shaping),
        uplink_queue: Some(uplink_queue),
        uplink_queue_packets: Some(NSTOR_PACKETS),
        downlink_queue: Some(downlink_queue),
        // A thousand full packets, as Shadow's queue and Linux's default interface queue hold; nstor's counts packets.
        downlink_queue_size: Some(Bytes::new(if nstor { 1 << 30 } else { 1_500_000 })),
        downlink_queue_packets: nstor.then_some(NSTOR_PACKETS),
        codel_target: Some(SimDuration::from_millis(codel_target)),
        codel_interval: Some(SimDuration::from_millis(100)),
        ..BaseFile::default()
    }
}

fn one(scenario: &Scenario, key: impl Fn(&str) -> String, name: String, slug: String, given: &BaseFile) -> Checked<Treatment> {
    let given = given.over(&given.simulator.map(of_simulator).unwrap_or_default());
    let net = given.net.unwrap_or(LinkProfile::Linux);
    let all = given.over(&profile(net));
    let says_tick = given.kernel_tick.is_some();
    let filled = "the profile fills every axis of the link";
    let tor = all.tor.unwrap_or(TorVersion::V0_4_9);
    let code = tor.code();
    // A half-life above zero turns EWMA on in every version (`cmux_ewma_set_options`).
    let by_default = all.ewma_half_life.map(|_| Circuitmux::Ewma).or(code.circuitmux).map(Policy::BuiltIn);
    let given = all.circuitmux.as_ref().map(|file| own_policy::policy(scenario, &key("circuitmux"), file)).transpose()?;
    let circuitmux = given.or(by_default);
    let channel_scheduler = all.channel_scheduler.unwrap_or(code.channel_scheduler);
    let ewma = circuitmux == Some(Policy::BuiltIn(Circuitmux::Ewma));
    let kist = channel_scheduler == ChannelScheduler::Kist;
    let flow_control = all.flow_control.unwrap_or(code.flow_control);
    let windows = flow_control == FlowControl::Windows;
    let intervals = kist || channel_scheduler == ChannelScheduler::KistLite;
    let cpu = all.cpu.unwrap_or(CpuModel::None);
    let computes = |name: &str, given: Option<SimDuration>, usual: SimDuration, most: SimDuration| {
        let cost = (cpu == CpuModel::MainThread).then(|| within(key(name), given.unwrap_or(usual), SimDuration::ZERO, most));
        cost.transpose()
    };
    let tcp = all.tcp.expect(filled);
    let uplink_queue = all.uplink_queue.expect(filled);
    let downlink_queue = all.downlink_queue.expect(filled);
    let codel = downlink_queue == DownlinkQueue::Codel;
    let factor = all.kist_socket_buffer_factor.unwrap_or(1.0);
    let circuit_window = all.circuit_window.map(|window| within(key("circuit-window"), window, 1, 65_535)).transpose()?;
    for (name, tap) in
        [("handshake", all.handshake == Some(Handshake::Tap)), ("tap-clients", all.tap_clients.is_some_and(|share| share > 0.0))]
    {
        if tap && tor == TorVersion::V0_4_9 {
            return Err(Fault::conflict(key(name), "asks for TAP, which tor 0.4.9 does not answer; older ones do"));
        }
    }
    let planned = predictor::checked(&key, &all)?;
    let links = all.links.unwrap_or(if planned.is_some() { Links::PerCircuit } else { Links::Shared });
    let tls = all.tls.unwrap_or(code.tls);
    let two_classes = links == Links::LightAndHeavy;
    let heavy_above = within(key("heavy-above"), all.heavy_above.unwrap_or(1.25), 1.0, 1000.0)?;
    if links == Links::Quic && tcp == Tcp::Unlimited {
        return Err(Fault::conflict(
            key("links"),
            "is \"quic\", which has a congestion window: it needs tcp = \"reno\" or \"cubic\"",
        ));
    }
    let computing = cpu == CpuModel::MainThread;
    let tap_clients = within(key("tap-clients"), all.tap_clients.unwrap_or(0.0), 0.0, 1.0)?;
    let stream_window = within(key("stream-window"), all.stream_window.unwrap_or(500), 1, 65_535)?;
    let circuit_increment = all.circuit_window_increment.unwrap_or(100);
    let stream_increment = all.stream_window_increment.unwrap_or(50);
    let lifetime = all.circuit_lifetime.unwrap_or(SimDuration::from_secs(600));
    let cell_queue_high = all.cell_queue_high.map(|high| within(key("cell-queue-high"), high, 1, 1000)).transpose()?;
    let outbuf_mark = |name: &str, mark: Option<Bytes>, most: Bytes| {
        mark.map(|mark| within(key(name), mark, Bytes::new(514), most)).transpose()
    };
    let outbuf_high =
        outbuf_mark("outbuf-high", all.outbuf_high.filter(|_| channel_scheduler.fills_outbufs()), Bytes::new(1 << 30))?;
    let outbuf_low = all.outbuf_low.filter(|_| channel_scheduler.refills_outbufs());
    let outbuf_low = outbuf_mark("outbuf-low", outbuf_low, outbuf_high.unwrap_or(Bytes::new(32_768)))?;
    let ms = SimDuration::from_millis;
    let interval = |name: &str, given: Option<SimDuration>| {
        let given = given.filter(|_| intervals);
        given.map(|interval| within(key(name), interval, code.kist_interval_least, ms(100))).transpose()
    };
    Ok(Treatment {
        name,
        slug,
        relays: None,
        tor,
        circuitmux,
        ewma_half_life: all
            .ewma_half_life
            .filter(|_| ewma)
            .map(|half_life| within(key("ewma-half-life"), half_life, ms(10), SimDuration::from_secs(86_400)))
            .transpose()?,
        ewma_tick: all
            .ewma_tick
            .filter(|_| ewma)
            .map(|tick| within(key("ewma-tick"), tick, ms(1000), longest_tick(all.ewma_half_life)))
            .transpose()?,
        ewma_clock: ewma.then(|| all.ewma_clock.unwrap_or(code.ewma_clock)),
        channel_scheduler,
        kist_interval: interval("kist-interval", all.kist_interval)?,
        kist_client_interval: interval("kist-client-interval", all.kist_client_interval)?,
        kist_socket_buffer_factor: kist.then(|| within(key("kist-socket-buffer-factor"), factor, 0.0, 10.0)).transpose()?,
        kist_knows_unsent: kist.then_some(all.kist_knows_unsent.unwrap_or(true)),
        flow_control: all.flow_control,
        cpu,
        cpu_per_cell: computes("cpu-per-cell", all.cpu_per_cell, CPU_PER_CELL, ms(10))?,
        cpu_per_handshake: computes("cpu-per-handshake", all.cpu_per_handshake, CPU_PER_HANDSHAKE, SimDuration::from_secs(10))?,
        cpu_per_tap: computes("cpu-per-tap", all.cpu_per_tap, CPU_PER_TAP, SimDuration::from_secs(10))?,
        create_fast: all.create_fast.filter(|_| computing),
        handshake: all.handshake.filter(|_| computing),
        tap_clients: computing.then_some(tap_clients),
        ntors_per_tap: all
            .ntors_per_tap
            .filter(|_| computing && tap_clients > 0.0)
            .map(|count| within(key("ntors-per-tap"), count, 1, 100_000))
            .transpose()?,
        cpu_cores: (cpu == CpuModel::MainThread)
            .then(|| within(key("cpu-cores"), all.cpu_cores.unwrap_or(2), 1, 128))
            .transpose()?,
        cell_payload: all.cell_payload.map(|bytes| within(key("cell-payload"), bytes, 1, 498)).transpose()?,
        predicted_circuits: all.predicted_circuits,
        build_time_bin: all.build_time_bin.map(|bin| bins(key("build-time-bin"), bin)).transpose()?,
        first_port: all.first_port.map(|port| within(key("first-port"), port, 1, 65_535)).transpose()?,
        links,
        per_circuit_clients: (links == Links::PerCircuit).then_some(all.per_circuit_clients.unwrap_or(planned.is_some())),
        heavy_above: two_classes.then_some(heavy_above),
        light_below: two_classes
            .then(|| within(key("light-below"), all.light_below.unwrap_or(0.75), 0.0, heavy_above))
            .transpose()?,
        heavy_half_life: two_classes
            .then(|| {
                let half_life = all.heavy_half_life.unwrap_or(SimDuration::from_secs(30));
                within(key("heavy-half-life"), half_life, ms(10), SimDuration::from_secs(86_400))
            })
            .transpose()?,
        socket_limit: all.socket_limit.map(|limit| within(key("socket-limit"), limit, 2, 10_000_000)).transpose()?,
        relay_channel_idle: all
            .relay_channel_idle
            .map(|idle| within(key("relay-channel-idle"), idle, SimDuration::from_secs(60), SimDuration::from_secs(7 * 86_400)))
            .transpose()?,
        client_channel_idle: all
            .client_channel_idle
            .map(|idle| within(key("client-channel-idle"), idle, SimDuration::from_secs(60), SimDuration::from_secs(7 * 86_400)))
            .transpose()?,
        circuit_lifetime: within(key("circuit-lifetime"), lifetime, ms(1000), SimDuration::from_secs(7 * 86_400))?,
        cell_queue_high,
        cell_queue_low: all
            .cell_queue_low
            .map(|low| within(key("cell-queue-low"), low, 1, cell_queue_high.unwrap_or(256)))
            .transpose()?,
        max_cell_queue_in: all.max_cell_queue_in.map(|max| within(key("max-cell-queue-in"), max, 50, 1_000_000)).transpose()?,
        max_cell_queue_out: all
            .max_cell_queue_out
            .map(|max| within(key("max-cell-queue-out"), max, 50, 1_000_000))
            .transpose()?,
        memory_limit: all
            .memory_limit
            .map(|limit| within(key("memory-limit"), limit, Bytes::new(65_536), Bytes::new(1 << 40)))
            .transpose()?,
        memory_counts: all.memory_limit.map(|_| all.memory_counts.unwrap_or(code.memory_counts)),
        destroy_cells: all.destroy_cells.unwrap_or(code.destroy_cells),
        outbuf_high,
        outbuf_low,
        outbuf_chunk: within(
            key("outbuf-chunk"),
            all.outbuf_chunk.unwrap_or(code.outbuf_chunk),
            Bytes::new(514),
            Bytes::new(16_384),
        )?,
        tls,
        channel_reads: (links != Links::Quic && tls != Tls::Absent).then_some(all.channel_reads.unwrap_or(code.channel_reads)),
        token_refill: all.token_refill.unwrap_or(code.token_refill),
        epoll: Some(all.epoll.unwrap_or(Epoll::Linux)),
        optimistic_data: all.optimistic_data,
        random_cells: all.random_cells.unwrap_or(code.random_cells),
        conflux: all.conflux,
        conflux_sets: all.conflux_sets.map(|sets| within(key("conflux-sets"), sets, 1, 100)).transpose()?,
        conflux_legs: all.conflux_legs.map(|legs| within(key("conflux-legs"), legs, 2, 8)).transpose()?,
        switching: switching::checked(&key, &all, links, planned.is_some())?,
        predictor: planned,
        guards: all.guards.map(|guards| within(key("guards"), guards, 0, 20)).transpose()?,
        circuit_window: circuit_window.filter(|_| windows),
        circuit_window_increment: windows
            .then(|| increment(key("circuit-window-increment"), circuit_increment, circuit_window.unwrap_or(1000)))
            .transpose()?,
        stream_window: windows.then_some(stream_window),
        stream_window_increment: windows
            .then(|| increment(key("stream-window-increment"), stream_increment, stream_window))
            .transpose()?,
        consensus_params: BTreeMap::new(),
        net,
        tcp,
        kernel_tick: (intervals || says_tick).then(|| tick(key("kernel-tick"), all.kernel_tick.expect(filled))).transpose()?,
        nagle: all.nagle.expect(filled),
        hystart: (tcp == Tcp::Cubic).then_some(all.hystart.expect(filled)),
        slow_start_after_idle: all.slow_start_after_idle.expect(filled),
        initial_window: within(key("initial-window"), all.initial_window.expect(filled), 1, 1000)?,
        mss: within(key("mss"), all.mss.expect(filled), 88, 65_483)?,
        packet_header: within(key("packet-header"), all.packet_header.expect(filled), Bytes::new(20), Bytes::new(200))?,
        delayed_ack: within(key("delayed-ack"), all.delayed_ack.expect(filled), SimDuration::ZERO, ms(1000))?,
        min_rto: within(key("min-rto"), all.min_rto.expect(filled), ms(1), ms(10_000))?,
        // The losses of other TCPs are judged by round trips of their own.
        round_trips: all.round_trips.filter(|_| net == LinkProfile::Shadow),
        send_buffer: buffer(key("send-buffer"), all.send_buffer.expect(filled))?,
        receive_buffer: buffer(key("receive-buffer"), all.receive_buffer.expect(filled))?,
        link_shaping: all.link_shaping.expect(filled),
        uplink_queue,
        uplink_queue_packets: uplink_queue
            .has_packets()
            .then(|| within(key("uplink-queue-packets"), all.uplink_queue_packets.expect(filled), 1, 1_000_000))
            .transpose()?,
        downlink_queue,
        downlink_queue_packets: all
            .downlink_queue_packets
            .map(|packets| within(key("downlink-queue-packets"), packets, 1, 1_000_000))
            .transpose()?,
        downlink_queue_size: buffer(key("downlink-queue-size"), all.downlink_queue_size.expect(filled))?,
        codel_target: codel
            .then(|| within(key("codel-target"), all.codel_target.expect(filled), ms(1), SimDuration::from_secs(10)))
            .transpose()?,
        codel_interval: codel
            .then(|| within(key("codel-interval"), all.codel_interval.expect(filled), ms(1), SimDuration::from_secs(100)))
            .transpose()?,
    })
}

/// Kernels tick 100 to 1000 times a second; zero stands for timers that are exact.
fn tick(key: String, tick: SimDuration) -> Checked<SimDuration> {
    if tick == SimDuration::ZERO {
        return Ok(tick);
    }
    within(key, tick, SimDuration::from_millis(1), SimDuration::from_millis(10))
}

/// tor counts build times in whole milliseconds.
fn bins(key: String, width: SimDuration) -> Checked<SimDuration> {
    let whole = width.as_nanos().is_multiple_of(1_000_000);
    if whole && (SimDuration::from_millis(1)..=SimDuration::from_secs(1)).contains(&width) {
        return Ok(width);
    }
    Err(Fault::out_of_range(key, width, "whole milliseconds from 1 ms to 1 s"))
}

/// Ten minutes, or a thousand half-lives: counts must not overflow within a tick.
fn longest_tick(half_life: Option<SimDuration>) -> SimDuration {
    let most = SimDuration::from_secs(600);
    half_life.map_or(most, |half_life| most.min(half_life * 1000))
}

/// A SENDME must come before the window is used up, or nothing moves any more.
fn increment(key: String, increment: u32, window: u32) -> Checked<u32> {
    if (1..=window).contains(&increment) {
        return Ok(increment);
    }
    Err(Fault::out_of_range(key, increment, format!("from 1 to the window, which is {window} cells")))
}

fn buffer(key: String, size: Bytes) -> Checked<Bytes> {
    within(key, size, Bytes::new(4096), Bytes::new(1 << 30))
}

/// `name` as part of a file name.
pub(super) fn slug(name: &str) -> String {
    let mut slug = String::new();
    for c in name.chars().take(100) {
        if c.is_ascii_alphanumeric() {
            slug.push(c.to_ascii_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    slug.trim_end_matches('-').chars().take(60).collect()
}
