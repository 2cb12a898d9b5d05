//! The table `consensus-params`: parameters of the consensus by tor's own names, where they have no key of their own.

use super::error::{Fault, clipped};
use super::resolve::Checked;
use super::resolve::effects::CONFLUX_ON;
use super::resolve::treatments::Circumstances;
use super::resolved::Treatment;
use super::treatment::{BaseFile, FlowControl};
use super::version::TorVersion;
use onionlab_directory::params::{self, Param};
use onionlab_flowcontrol::xon_xoff::XON_XOFF_TABLE;
use onionlab_flowcontrol::{PathType, VegasParameters};
use std::collections::BTreeMap;

/// A parameter that has an effect here, its range, and where the consensus is silent the value of tor 0.4.9.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub name: String,
    pub default: i32,
    least: i32,
    most: i32,
    serves: Serves,
}

/// What a parameter is for, which says where it has an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Serves {
    /// Congestion control of circuits, and what goes with it for streams.
    CongestionControl,
    /// Every client's time-out for building circuits.
    TimeOut,
    /// What clients learn about the time that circuits take.
    Learning,
    /// What they do meanwhile, and for how long they expect to use a port again; not in 0.2.4.
    BuildingAhead,
    /// The sample of guards.
    Guards,
    /// Layer-2 guards.
    Vanguards,
    /// The queue before the threads that compute onion handshakes.
    Handshakes,
    /// Sets of circuits of one client.
    Conflux,
}

/// Parameters with a key of their own in the experiment file.
const OWN_KEYS: [(&str, &str); 21] = [
    ("cfx_enabled", "conflux"),
    ("cfx_max_prebuilt_set", "conflux-sets"),
    ("cfx_num_legs_set", "conflux-legs"),
    ("CircuitPriorityHalflifeMsec", "ewma-half-life"),
    ("CircuitPriorityTickSecs", "ewma-tick"),
    ("nf_conntimeout_relays", "relay-channel-idle"),
    ("NumNTorsPerTAP", "ntors-per-tap"),
    ("usecreatefast", "create-fast"),
    ("UseNTorHandshake", "handshake"),
    ("KISTSchedRunInterval", "kist-interval"),
    ("KISTSchedRunIntervalClient", "kist-client-interval"),
    ("cc_alg", "flow-control"),
    ("cellq_high", "cell-queue-high"),
    ("cellq_low", "cell-queue-low"),
    ("circ_max_cell_queue_size", "max-cell-queue-in"),
    ("circ_max_cell_queue_size_out", "max-cell-queue-out"),
    ("circwindow", "circuit-window"),
    ("guard-n-primary-guards-to-use", "guards"),
    ("UseOptimisticData", "optimistic-data"),
    ("orconn_high", "outbuf-high"),
    ("orconn_low", "outbuf-low"),
];

const NO_GUARD_FAILS: &str = "no guard fails during a run";
const NO_GUARD_GROWS_OLD: &str = "no guard grows old during a run";

/// Parameters of tor that cannot change anything here, and why.
const IDLE: [(&str, &str); 13] = [
    ("cc_bwe_min", "tor reads it and does not use it"),
    ("cc_xoff_client", "a client's program takes every byte at once, so that nothing waits"),
    ("guard-max-sample-threshold-percent", NO_GUARD_FAILS),
    ("guard-max-sample-size", NO_GUARD_FAILS),
    ("guard-internet-likely-down-interval", NO_GUARD_FAILS),
    ("guard-nonprimary-guard-connect-timeout", NO_GUARD_FAILS),
    ("guard-nonprimary-guard-idle-timeout", NO_GUARD_FAILS),
    ("guard-lifetime-days", NO_GUARD_GROWS_OLD),
    ("guard-confirmed-min-lifetime-days", NO_GUARD_GROWS_OLD),
    ("guard-remove-unlisted-guards-after-days", NO_GUARD_GROWS_OLD),
    ("GuardLifetime", NO_GUARD_GROWS_OLD),
    ("guard-hs-l2-lifetime-min", NO_GUARD_GROWS_OLD),
    ("guard-hs-l2-lifetime-max", NO_GUARD_GROWS_OLD),
];

/// What the clients and relays of a run read beside the parameters of congestion control.
const OTHERS: [(Param, Serves); 21] = [
    (params::CBT_INITIAL_TIMEOUT, Serves::TimeOut),
    (params::CBT_MIN_TIMEOUT, Serves::TimeOut),
    (params::CBT_DISABLED, Serves::Learning),
    (params::CBT_NUM_MODES, Serves::Learning),
    (params::CBT_RECENT_COUNT, Serves::Learning),
    (params::CBT_MAX_TIMEOUTS, Serves::Learning),
    (params::CBT_MIN_CIRCUITS, Serves::Learning),
    (params::CBT_QUANTILE, Serves::Learning),
    (params::CBT_CLOSE_QUANTILE, Serves::Learning),
    (params::CBT_TEST_FREQUENCY, Serves::Learning),
    (params::CBT_LEARN_TIMEOUT, Serves::BuildingAhead),
    (params::CBT_MAX_OPEN_CIRCUITS, Serves::BuildingAhead),
    (params::CLIENT_CIRCUITS_AVAILABLE, Serves::BuildingAhead),
    (params::PRIMARY_GUARDS, Serves::Guards),
    (params::GUARD_MIN_FILTERED_SAMPLE, Serves::Guards),
    (params::HS_LAYER2_GUARDS, Serves::Vanguards),
    (params::MAX_ONION_QUEUE_DELAY, Serves::Handshakes),
    (params::ONION_QUEUE_WAIT_CUTOFF, Serves::Handshakes),
    (params::MAX_PENDING_TASKS_PER_CPU, Serves::Handshakes),
    (params::CONFLUX_MAX_LINKED_SET, Serves::Conflux),
    (params::CONFLUX_MAX_UNLINKED_LEG_RETRY, Serves::Conflux),
];

impl Known {
    /// `value` as tor would take it from a consensus.
    pub(crate) fn clamp(&self, value: i32) -> i32 {
        value.clamp(self.least, self.most)
    }

    /// Whether it is one of congestion control's, all of which `treatment_json` shows.
    pub(crate) fn is_of_congestion_control(&self) -> bool {
        self.serves == Serves::CongestionControl
    }

    /// Whether it has an effect under the treatment in a network whose paths are drawn, with onion services or without.
    pub(crate) fn has_effect(&self, treatment: &Treatment, onion: bool) -> bool {
        self.serves.lacks(treatment, true, onion).is_none()
    }

    /// The least value that this version takes: bins of build times were wider before 0.4.9, and time-outs no shorter than half a second.
    fn least(&self, version: TorVersion) -> i32 {
        if self.serves == Serves::TimeOut && version < TorVersion::V0_4_9 { 500 } else { self.least }
    }
}

impl Serves {
    /// What the treatment would need for these parameters to have an effect; none: it has all.
    fn lacks(self, treatment: &Treatment, drawn: bool, onion: bool) -> Option<&'static str> {
        let ahead = treatment.predicted_circuits != Some(false);
        let guards = treatment.guards != Some(0) && drawn;
        let later = treatment.tor >= TorVersion::V0_3_5;
        let latest = treatment.tor >= TorVersion::V0_4_9;
        let (has_all, needs) = match self {
            Self::CongestionControl => (treatment.flow_control_by_file() == FlowControl::Vegas, "flow-control = \"vegas\""),
            Self::TimeOut => return None,
            Self::Learning => (ahead, "predicted-circuits = true"),
            Self::BuildingAhead => (ahead && later, "tor = \"0.3.5\" or \"0.4.9\", and predicted-circuits = true"),
            Self::Guards => (guards && later, "tor = \"0.3.5\" or \"0.4.9\", guards and a client whose path is drawn"),
            Self::Vanguards => (
                drawn && (ahead || onion) && latest,
                "tor = \"0.4.9\" and a client whose path is drawn, with predicted-circuits = true or a group with `onion`",
            ),
            Self::Handshakes => (treatment.computing.takes_time() && latest, "tor = \"0.4.9\" and cpu = \"main-thread\""),
            Self::Conflux => (
                treatment.can_have_conflux(treatment.flow_control_by_file(), drawn) && treatment.conflux != Some(false),
                CONFLUX_ON,
            ),
        };
        (!has_all).then_some(needs)
    }
}

/// How parameters for circuits of onion services end.
const ONION: &str = "_onion";

/// Every parameter that the table may name, in the order of their names: with onion services (`onion`) those for their circuits too.
pub(crate) fn known(onion: bool) -> Vec<Known> {
    let of = |path| VegasParameters::new(path).table(path).into_iter();
    let vegas = of(PathType::Exit).chain(of(PathType::Onion).filter(|(name, ..)| onion && name.ends_with(ONION)));
    let streams = XON_XOFF_TABLE.into_iter().filter(|(name, ..)| IDLE.iter().all(|(idle, _)| idle != name));
    let congestion = vegas.chain(streams.map(|(name, default, least, most)| (name.to_owned(), default, least, most)));
    let others = OTHERS.into_iter().map(|(param, serves)| Known {
        name: param.name.to_owned(),
        default: param.default,
        least: param.min,
        most: param.max,
        serves,
    });
    let serves = Serves::CongestionControl;
    let mut all: Vec<Known> =
        congestion.map(|(name, default, least, most)| Known { name, default, least, most, serves }).chain(others).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

/// The treatment's parameters with those of `[base]` under them, as far as they serve it.
pub(super) fn checked(
    key: &str,
    treatment: &Treatment,
    own: &BaseFile,
    base: &BaseFile,
    network: Circumstances,
) -> Checked<BTreeMap<String, i32>> {
    let known = known(network.onion);
    let mut all = BTreeMap::new();
    for (table, given) in [("base", base), (key, own)] {
        for (name, &value) in given.consensus_params.iter().flatten() {
            let key = format!("{table}.consensus-params.{}", clipped(name, 80));
            let known = find(&key, name, &known)?;
            if let Some(needs) = known.serves.lacks(treatment, network.drawn, network.onion) {
                if table != "base" {
                    return Err(Fault::conflict(key, format!("has no effect in this treatment: it needs {needs}")));
                }
                continue;
            }
            let least = known.least(treatment.tor);
            let value = i32::try_from(value)
                .ok()
                .filter(|value| (least..=known.most).contains(value))
                .ok_or_else(|| Fault::out_of_range(key, value, format!("from {least} to {}", known.most)))?;
            all.insert(name.clone(), value);
        }
    }
    sendme_in_time(key, own, &all)?;
    Ok(all)
}

/// A window that is smaller than the increment is used up before a SENDME is due, and nothing moves any more.
fn sendme_in_time(key: &str, own: &BaseFile, all: &BTreeMap<String, i32>) -> Checked<()> {
    const INCREMENT: &str = "cc_sendme_inc";
    let params = VegasParameters::from_consensus(PathType::Exit, |name| all.get(name).copied());
    let (window, of) =
        if params.cwnd_min < params.cwnd_init { (params.cwnd_min, "cc_cwnd_min") } else { (params.cwnd_init, "cc_cwnd_init") };
    if params.sendme_inc <= window {
        return Ok(());
    }
    let is_own = own.consensus_params.iter().flatten().any(|(name, _)| name == INCREMENT);
    let table = if is_own { key } else { "base" };
    let range = format!("from 1 to `{of}`, which is {window}: a SENDME must come before the window is used up");
    Err(Fault::out_of_range(format!("{table}.consensus-params.{INCREMENT}"), params.sendme_inc, range))
}

/// A parameter of `[base]` may serve some of the treatments only, but it must serve one.
pub(super) fn base_serves(base: &BaseFile, treatments: &[Treatment], network: Circumstances) -> Checked<()> {
    let known = known(network.onion);
    for name in base.consensus_params.iter().flatten().map(|(name, _)| name) {
        let key = format!("base.consensus-params.{}", clipped(name, 80));
        let known = find(&key, name, &known)?;
        let lacks: Vec<_> =
            treatments.iter().map(|treatment| known.serves.lacks(treatment, network.drawn, network.onion)).collect();
        if let Some(needs) = lacks[0].filter(|_| lacks.iter().all(Option::is_some)) {
            return Err(Fault::conflict(key, format!("has no effect in any treatment: it needs {needs}")));
        }
    }
    Ok(())
}

fn find<'a>(key: &str, name: &str, known: &'a [Known]) -> Checked<&'a Known> {
    if let Some(known) = known.iter().find(|known| known.name == name) {
        return Ok(known);
    }
    if let Some((_, own)) = OWN_KEYS.iter().find(|(param, _)| *param == name) {
        return Err(Fault::conflict(key, format!("has a key of its own in a treatment: `{own}`")));
    }
    if let Some((_, reason)) = IDLE.iter().find(|(param, _)| *param == name) {
        return Err(Fault::conflict(key, format!("has no effect: {reason}")));
    }
    if name.starts_with("cc_") && name.ends_with(ONION) {
        return Err(Fault::conflict(key, "has no effect: no group of clients has `onion`"));
    }
    if name.starts_with("cc_") && name.ends_with("_sbws") {
        return Err(Fault::conflict(key, "has no effect: no circuit is as short as those of bandwidth scanners"));
    }
    let names: Vec<&str> = known.iter().map(|known| known.name.as_str()).collect();
    let names = names.join(", ");
    Err(Fault::conflict(
        key,
        format!("is no consensus parameter that has an effect here; without a key of their own these have: {names}"),
    ))
}
