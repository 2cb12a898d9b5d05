//! What a treatment leaves to the consensus and to its version's code.

use crate::scenario::consensus_params;
use crate::scenario::own_policy::Policy;
use crate::scenario::resolved::{Computing, Scheduling, Treatment};
use crate::scenario::some_relays::SomeRelays;
use crate::scenario::treatment::{ChannelScheduler, Circuitmux, FlowControl, Handshake};
use crate::scenario::version::TorVersion;
use onionlab_directory::params::{self, Param, Params};
use onionlab_paths::{EntryRules, GuardRules, GuardVersion};
use onionlab_quantities::{Bytes, SimDuration};

/// The network's parameters with those that the experiment gives in their place.
pub(super) fn in_force(treatment: &Treatment, mut params: Params) -> Params {
    for (name, &value) in &treatment.consensus_params {
        params.set(name, value);
    }
    params
}

/// Whether the version keeps relays of one IPv6 subnet apart.
pub(super) fn has_ipv6_subnets(version: TorVersion) -> bool {
    version >= TorVersion::V0_4_9
}

/// How a client chooses the first relay of its circuits: as the treatment's version of tor keeps guards, or without.
pub(super) fn guards(treatment: &Treatment, params: &Params) -> EntryRules {
    if treatment.guards == Some(0) {
        return EntryRules::PerCircuit;
    }
    let version = match treatment.tor {
        TorVersion::V0_2_4 => GuardVersion::V0_2_4,
        TorVersion::V0_3_5 => GuardVersion::V0_3_5,
        TorVersion::V0_4_9 => GuardVersion::V0_4_9,
    };
    EntryRules::Guards(GuardRules::new(version, params, treatment.guards))
}

/// What the consensus says, as a version of tor reads it.
struct Consensus<'a> {
    params: &'a Params,
    version: TorVersion,
}

/// The versions, as those since which a parameter is read.
const FIRST: TorVersion = TorVersion::V0_2_4;
const MIDDLE: TorVersion = TorVersion::V0_3_5;
const LATEST: TorVersion = TorVersion::V0_4_9;

impl Consensus<'_> {
    /// The value of a parameter that tor has read since a version, within its bounds.
    fn read(&self, since: TorVersion, param: &Param) -> Option<u32> {
        let value = self.params.get(param.name).filter(|_| self.version >= since);
        value.map(|value| value.clamp(param.min, param.max) as u32)
    }

    /// The same in milliseconds.
    fn millis(&self, since: TorVersion, param: &Param) -> Option<SimDuration> {
        self.read(since, param).map(|value| SimDuration::from_millis(u64::from(value)))
    }

    /// The same in seconds.
    fn secs(&self, since: TorVersion, param: &Param) -> Option<SimDuration> {
        self.read(since, param).map(|value| SimDuration::from_secs(u64::from(value)))
    }

    /// The same in bytes.
    fn bytes(&self, since: TorVersion, param: &Param) -> Option<Bytes> {
        self.read(since, param).map(|value| Bytes::new(u64::from(value)))
    }
}

/// Fills in what the treatment leaves open: what the consensus says, where the treatment's version of tor reads it, else what that version's code says.
///
/// The result is what `treatment_json` of the table `run` shows. Where no path is drawn there are neither guards nor sets of circuits; with onion services (`onion`) the parameters for
/// their circuits are there too.
pub(super) fn effective(treatment: &Treatment, params: &Params, drawn: bool, onion: bool) -> Treatment {
    let version = treatment.tor;
    let code = version.code();
    let consensus = Consensus { params, version };

    let of_code = code
        .max_cell_queue
        .map(|(default, least)| consensus.read(MIDDLE, &params::MAX_CELL_QUEUE).map_or(default, |cells| cells.max(least)));
    let inbound = treatment.max_cell_queue_in.or(of_code);
    let outbound = treatment.max_cell_queue_out.or(consensus.read(LATEST, &params::MAX_CELL_QUEUE_OUT)).or(inbound);
    let high = treatment.cell_queue_high.or(consensus.read(LATEST, &params::CELL_QUEUE_HIGH)).unwrap_or(256);
    let low = treatment.cell_queue_low.or(consensus.read(LATEST, &params::CELL_QUEUE_LOW)).unwrap_or(code.cell_queue_low);

    // An algorithm that is neither of the two stands for the default.
    let windows_by_consensus = consensus.read(LATEST, &params::CC_ALG) == Some(0);
    let by_version = if windows_by_consensus { FlowControl::Windows } else { code.flow_control };
    let flow_control = treatment.flow_control.unwrap_or(by_version);
    let windows = flow_control == FlowControl::Windows;
    let vegas = flow_control == FlowControl::Vegas;
    let circuit_window = treatment.circuit_window.or(consensus.read(FIRST, &params::CIRCUIT_WINDOW)).unwrap_or(1000);

    let idle = consensus.secs(MIDDLE, &params::RELAY_CHANNEL_IDLE);
    let idle = idle.or_else(|| (version >= MIDDLE).then(|| SimDuration::from_secs(3600)));

    let conflux = treatment.can_have_conflux(flow_control, drawn);
    let conflux = conflux && treatment.conflux.unwrap_or_else(|| consensus.read(LATEST, &params::CONFLUX_ENABLED) != Some(0));
    let sets = treatment.conflux_sets.or(consensus.read(LATEST, &params::CONFLUX_MAX_PREBUILT_SET)).unwrap_or(3);
    let legs = treatment.conflux_legs.or(consensus.read(LATEST, &params::CONFLUX_NUM_LEGS_SET)).unwrap_or(2);
    // A consensus may ask for sets without legs, or for none, which is to do without; a set has eight at most, as in an experiment file.
    let (conflux, legs) = (conflux && sets > 0 && legs > 0, legs.min(8));

    let scheduling = scheduling(&treatment.scheduling, &consensus);
    let channel_scheduler = scheduling.channel_scheduler;
    let outbuf_high = treatment.outbuf_high.or(consensus.bytes(LATEST, &params::OR_CONN_HIGH)).unwrap_or(Bytes::new(32_768));
    let outbuf_low = treatment.outbuf_low.or(consensus.bytes(LATEST, &params::OR_CONN_LOW)).unwrap_or(Bytes::new(16_384));

    let relays = treatment
        .relays
        .as_ref()
        .map(|some| SomeRelays { others: Box::new(effective(&some.others, params, drawn, onion)), ..some.clone() });
    Treatment {
        relays,
        scheduling,
        computing: computing(&treatment.computing, &consensus),
        flow_control: Some(flow_control),
        cell_payload: treatment.cell_payload.or_else(|| Some(version.cell_payload(flow_control))),
        circuit_window: windows.then_some(circuit_window),
        circuit_window_increment: windows.then(|| treatment.circuit_window_increment.unwrap_or(100).min(circuit_window)),
        stream_window: windows.then(|| treatment.stream_window.unwrap_or(500)),
        stream_window_increment: windows.then(|| treatment.stream_window_increment.unwrap_or(50)),
        relay_channel_idle: treatment.relay_channel_idle.or(idle),
        cell_queue_high: Some(high),
        cell_queue_low: Some(low.min(high)),
        max_cell_queue_in: inbound,
        max_cell_queue_out: outbound,
        outbuf_high: channel_scheduler.fills_outbufs().then_some(outbuf_high),
        outbuf_low: channel_scheduler.refills_outbufs().then_some(outbuf_low.min(outbuf_high)),
        // 0.4.9 sends early without asking the consensus.
        optimistic_data: treatment.optimistic_data.or_else(|| {
            let read = consensus.read(FIRST, &params::USE_OPTIMISTIC_DATA).filter(|_| version < LATEST);
            Some(read.map_or(code.optimistic_data, |value| value == 1))
        }),
        conflux: Some(conflux),
        conflux_sets: conflux.then_some(sets),
        conflux_legs: conflux.then_some(legs),
        guards: drawn.then(|| match guards(treatment, params) {
            EntryRules::Guards(rules) => rules.in_use,
            EntryRules::PerCircuit => 0,
        }),
        consensus_params: consensus_params::known(onion)
            .into_iter()
            .filter(|known| if known.is_of_congestion_control() { vegas } else { known.has_effect(treatment, onion) })
            .filter_map(|known| {
                let value = treatment.consensus_params.get(&known.name).copied().or_else(|| params.get(&known.name));
                let value = value.or_else(|| known.is_of_congestion_control().then_some(known.default))?;
                let value = known.clamp(value);
                Some((known.name, value))
            })
            .collect(),
        ..treatment.clone()
    }
}

/// The same of how cells are chosen.
fn scheduling(given: &Scheduling, consensus: &Consensus<'_>) -> Scheduling {
    let code = consensus.version.code();
    // Every version asks for it.
    let half_life = consensus.params.get(params::CIRCUIT_PRIORITY_HALFLIFE_MSEC.name).filter(|&half_life| half_life > 0);
    let by_consensus = if half_life.is_some() { Circuitmux::Ewma } else { Circuitmux::RoundRobinHead };
    let circuitmux = given.circuitmux.clone().unwrap_or(Policy::BuiltIn(by_consensus));
    let ewma = circuitmux == Policy::BuiltIn(Circuitmux::Ewma);
    let half_life = half_life.map_or(SimDuration::from_secs(30), |half_life| SimDuration::from_millis(half_life as u64));
    let tick = given.ewma_tick.or(consensus.secs(LATEST, &params::CIRCUIT_PRIORITY_TICK_SECS));
    let tick = tick.unwrap_or(SimDuration::from_secs(10));

    // Before 0.4.9 an interval of 0 in the consensus turned KIST off, and KIST-lite took its place: in tor without any pause between its runs as long as a
    // channel waits (`set_scheduler_run_interval` takes the 0), which would be no end of runs in one instant; here at the code's interval.
    let in_consensus = consensus.millis(MIDDLE, &params::KIST_SCHED_RUN_INTERVAL);
    let off = consensus.version < LATEST && in_consensus == Some(SimDuration::ZERO) && given.kist_interval.is_none();
    let channel_scheduler = match given.channel_scheduler {
        ChannelScheduler::Kist if off => ChannelScheduler::KistLite,
        other => other,
    };
    let (kist, intervals) = (channel_scheduler == ChannelScheduler::Kist, channel_scheduler.has_interval());
    let of_consensus = in_consensus.filter(|_| !off).map(|interval| interval.max(code.kist_interval_least));
    let interval = given.kist_interval.or(of_consensus).unwrap_or(code.kist_interval);
    // A client's interval is its own since 0.4.9.
    let of_clients = consensus.millis(LATEST, &params::KIST_SCHED_RUN_INTERVAL_CLIENT).unwrap_or(code.kist_interval);
    let by_version = if consensus.version < LATEST { interval } else { of_clients };

    Scheduling {
        circuitmux: Some(circuitmux),
        // A half-life so short that counts overflow within a tick is no use to anyone.
        ewma_half_life: ewma.then(|| given.ewma_half_life.unwrap_or(half_life).max(tick / 1000)),
        ewma_tick: ewma.then_some(tick),
        ewma_clock: ewma.then(|| given.ewma_clock.unwrap_or(code.ewma_clock)),
        channel_scheduler,
        kist_interval: intervals.then_some(interval),
        kist_client_interval: intervals.then(|| given.kist_client_interval.unwrap_or(by_version)),
        kist_socket_buffer_factor: given.kist_socket_buffer_factor.filter(|_| kist),
        kist_knows_unsent: given.kist_knows_unsent.filter(|_| kist),
    }
}

/// The same of which handshakes there are, where computing takes time.
fn computing(given: &Computing, consensus: &Consensus<'_>) -> Computing {
    let version = consensus.version;
    let (fast, kind) = version.handshakes();
    let fast = consensus.read(MIDDLE, &params::USE_CREATE_FAST).filter(|_| version == MIDDLE).map_or(fast, |value| value == 1);
    let ntor = consensus.read(FIRST, &params::USE_NTOR_HANDSHAKE).filter(|_| version == FIRST);
    let kind = ntor.map_or(kind, |value| if value == 1 { Handshake::Ntor } else { Handshake::Tap });
    let ntors_per_tap = consensus.read(FIRST, &params::NTORS_PER_TAP).unwrap_or(10);
    Computing {
        create_fast: given.takes_time().then(|| given.create_fast.unwrap_or(fast)),
        handshake: given.takes_time().then(|| given.handshake.unwrap_or(kind)),
        ntors_per_tap: given.has_old_clients().then(|| given.ntors_per_tap.unwrap_or(ntors_per_tap)),
        ..given.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;
    use crate::scenario::treatment::EwmaClock;
    use std::path::Path;

    /// What a version makes of these parameters, where the experiment says nothing else.
    fn of(version: &str, params: &[(&str, i32)]) -> Treatment {
        with(version, "", params)
    }

    /// The same with more of `[base]`; TAP is for all but 0.4.9.
    fn with(version: &str, base: &str, params: &[(&str, i32)]) -> Treatment {
        let base = base.replace("TAP", if version == "0.4.9" { "0.0" } else { "0.5" });
        let file = format!(
            "title = \"A test\"\nduration = \"1 s\"\n[network]\nkind = \"synthetic\"\n[base]\ntor = \"{version}\"\n{base}\
             [[clients]]\ngroup = \"a\"\ncount = 1\nload = {{ kind = \"bulk\", size = \"1 MB\" }}\n"
        );
        let scenario = Scenario::parse(Path::new("test.toml"), file).and_then(|scenario| scenario.resolve()).unwrap();
        effective(&scenario.treatments[0], &params.iter().copied().collect(), true, false)
    }

    const YEAR_2015: [(&str, i32); 4] =
        [("CircuitPriorityHalflifeMsec", 30_000), ("NumEntryGuards", 1), ("UseNTorHandshake", 1), ("UseOptimisticData", 1)];
    const YEAR_2021: [(&str, i32); 3] =
        [("CircuitPriorityHalflifeMsec", 30_000), ("KISTSchedRunInterval", 2), ("UseOptimisticData", 1)];
    const YEAR_2026: [(&str, i32); 6] = [
        ("CircuitPriorityHalflifeMsec", 30_000),
        ("KISTSchedRunInterval", 3),
        ("cc_alg", 2),
        ("circ_max_cell_queue_size", 1750),
        ("circ_max_cell_queue_size_out", 1500),
        ("guard-n-primary-guards-to-use", 2),
    ];

    fn ms(millis: u64) -> SimDuration {
        SimDuration::from_millis(millis)
    }

    #[test]
    fn tor_0_2_4_has_round_robin_until_the_consensus_has_a_half_life() {
        let code = of("0.2.4", &[]);
        assert_eq!(
            (code.scheduling.circuitmux, code.scheduling.ewma_half_life),
            (Some(Policy::BuiltIn(Circuitmux::RoundRobinHead)), None)
        );
        assert_eq!((code.scheduling.channel_scheduler, code.scheduling.kist_interval), (ChannelScheduler::Refill, None));
        assert_eq!((code.cell_queue_high, code.cell_queue_low), (Some(256), Some(64)));
        assert_eq!((code.max_cell_queue_in, code.max_cell_queue_out), (None, None));
        assert_eq!((code.optimistic_data, code.guards, code.cell_payload), (Some(false), Some(3), Some(498)));
        let live = of("0.2.4", &YEAR_2015);
        assert_eq!(
            (live.scheduling.circuitmux, live.scheduling.ewma_half_life),
            (Some(Policy::BuiltIn(Circuitmux::Ewma)), Some(ms(30_000)))
        );
        assert_eq!(live.scheduling.ewma_clock, Some(EwmaClock::Wall));
        assert_eq!((live.optimistic_data, live.guards), (Some(true), Some(3)), "NumEntryGuards is not read");
    }

    #[test]
    fn tor_0_3_5_reads_one_interval_and_one_limit() {
        let code = of("0.3.5", &[]);
        assert_eq!(
            (code.scheduling.circuitmux, code.scheduling.ewma_clock),
            (Some(Policy::BuiltIn(Circuitmux::Ewma)), Some(EwmaClock::Coarse))
        );
        assert_eq!((code.scheduling.kist_interval, code.scheduling.kist_client_interval), (Some(ms(10)), Some(ms(10))));
        assert_eq!(
            (code.cell_queue_low, code.max_cell_queue_in, code.max_cell_queue_out),
            (Some(64), Some(50_000), Some(50_000))
        );
        let live = of("0.3.5", &YEAR_2021);
        assert_eq!(
            (live.scheduling.kist_interval, live.scheduling.kist_client_interval, live.guards),
            (Some(ms(2)), Some(ms(2)), Some(1))
        );
        let later = of("0.3.5", &YEAR_2026);
        assert_eq!((later.max_cell_queue_in, later.max_cell_queue_out), (Some(1750), Some(1750)), "there is but one parameter");
        let off = of("0.3.5", &[("KISTSchedRunInterval", 0)]);
        assert_eq!((off.scheduling.channel_scheduler, off.scheduling.kist_interval), (ChannelScheduler::KistLite, Some(ms(10))));
    }

    #[test]
    fn tor_0_4_9_reads_all_of_them() {
        let code = of("0.4.9", &[]);
        assert_eq!((code.scheduling.kist_interval, code.scheduling.kist_client_interval), (Some(ms(2)), Some(ms(2))));
        assert_eq!((code.max_cell_queue_in, code.max_cell_queue_out, code.cell_queue_low), (Some(2500), Some(2500), Some(10)));
        assert_eq!((code.cell_payload, code.guards, code.optimistic_data), (Some(488), Some(1), Some(true)));
        let live = of("0.4.9", &YEAR_2026);
        assert_eq!(
            (live.scheduling.kist_interval, live.scheduling.kist_client_interval, live.guards),
            (Some(ms(3)), Some(ms(2)), Some(2))
        );
        assert_eq!((live.max_cell_queue_in, live.max_cell_queue_out), (Some(1750), Some(1500)));
        let off = of("0.4.9", &[("KISTSchedRunInterval", 0), ("cellq_low", 20), ("orconn_high", 1)]);
        assert_eq!(
            (off.scheduling.channel_scheduler, off.scheduling.kist_interval),
            (ChannelScheduler::Kist, Some(ms(2))),
            "2 ms is the least"
        );
        assert_eq!((off.cell_queue_low, off.outbuf_high), (Some(20), None), "KIST fills no outbuf");
    }

    /// `cc_alg` is read by 0.4.9 only: 0 means windows, and with them the payload and the window of the consensus; what stands for no algorithm, the default.
    #[test]
    fn the_consensus_chooses_the_flow_control_and_the_circuit_window() {
        let of = |version: &str, params: &[(&str, i32)]| {
            let got = of(version, params);
            (got.flow_control.unwrap(), got.cell_payload.unwrap(), got.circuit_window, !got.consensus_params.is_empty())
        };
        let (windows, vegas) = (FlowControl::Windows, FlowControl::Vegas);
        assert_eq!(of("0.4.9", &[]), (vegas, 488, None, true));
        assert_eq!(of("0.4.9", &[("cc_alg", 0)]), (windows, 498, Some(1000), false));
        assert_eq!(of("0.4.9", &[("cc_alg", 0), ("circwindow", 300)]), (windows, 498, Some(300), false));
        assert_eq!(of("0.4.9", &[("cc_alg", 1), ("circwindow", 300)]), (vegas, 488, None, true));
        assert_eq!(of("0.3.5", &[("cc_alg", 2)]), (windows, 498, Some(1000), false));
        assert_eq!(of("0.2.4", &[("circwindow", 20)]), (windows, 498, Some(100), false), "100 is the least");
    }

    #[test]
    fn where_no_path_is_drawn_there_are_neither_guards_nor_sets() {
        let drawn = of("0.4.9", &[]);
        assert_eq!(
            (drawn.guards, drawn.conflux, drawn.conflux_sets, drawn.conflux_legs),
            (Some(1), Some(true), Some(3), Some(2))
        );
        let given = effective(&drawn, &Params::default(), false, false);
        assert_eq!((given.guards, given.conflux, given.conflux_sets, given.conflux_legs), (None, Some(false), None, None));
    }

    /// What the experiment says comes before the document, and only what the version reads is shown.
    #[test]
    fn what_clients_and_relays_read_is_shown_where_it_is_given() {
        let document = [("cbttestfreq", 60), ("cbtmaxopencircs", 200), ("onion_queue_wait_cutoff", 9)];
        let shown = |version: &str, base: &str, name: &str| with(version, base, &document).consensus_params.get(name).copied();
        assert_eq!(shown("0.4.9", "", "cbttestfreq"), Some(60));
        assert_eq!(shown("0.4.9", "consensus-params = { cbttestfreq = 30 }\n", "cbttestfreq"), Some(30));
        assert_eq!(shown("0.4.9", "", "cbtmaxopencircs"), Some(14), "14 is the most");
        assert_eq!(shown("0.2.4", "", "cbtmaxopencircs"), None, "0.2.4 does not read it");
        assert_eq!(shown("0.4.9", "", "onion_queue_wait_cutoff"), None, "computing takes no time");
        assert_eq!(shown("0.4.9", "cpu = \"main-thread\"\n", "onion_queue_wait_cutoff"), Some(9));
        assert_eq!(shown("0.4.9", "", "cbtquantile"), None, "nobody says anything");
        let treatment = with("0.4.9", "consensus-params = { cbttestfreq = 30 }\n", &[]);
        let params = in_force(&treatment, document.iter().copied().collect());
        assert_eq!((params.get("cbttestfreq"), params.get("onion_queue_wait_cutoff")), (Some(30), Some(9)));
    }

    #[test]
    fn the_consensus_chooses_handshakes_where_computing_takes_time() {
        let of = |version: &str, params: &[(&str, i32)]| {
            let got = with(version, "cpu = \"main-thread\"\ntap-clients = TAP\n", params);
            (got.computing.create_fast.unwrap(), got.computing.handshake.unwrap(), got.computing.ntors_per_tap)
        };
        let (tap, ntor) = (Handshake::Tap, Handshake::Ntor);
        assert_eq!(of("0.2.4", &[]), (true, tap, Some(10)));
        assert_eq!(of("0.2.4", &YEAR_2015), (true, ntor, Some(10)), "usecreatefast is not read");
        assert_eq!(of("0.2.4", &[("NumNTorsPerTAP", 100), ("usecreatefast", 0)]), (true, tap, Some(100)));
        assert_eq!(of("0.3.5", &[("UseNTorHandshake", 0)]), (false, ntor, Some(10)));
        assert_eq!(of("0.3.5", &[("usecreatefast", 1)]), (true, ntor, Some(10)));
        assert_eq!(of("0.4.9", &[("usecreatefast", 1)]), (false, ntor, None));
    }

    #[test]
    fn the_consensus_says_when_channels_between_relays_close() {
        let idle = |version: &str, params: &[(&str, i32)]| of(version, params).relay_channel_idle;
        let param = [("nf_conntimeout_relays", 1800)];
        assert_eq!((idle("0.4.9", &[]), idle("0.4.9", &param)), (Some(ms(3_600_000)), Some(ms(1_800_000))));
        assert_eq!((idle("0.2.4", &[]), idle("0.2.4", &param)), (None, None));
    }
}
