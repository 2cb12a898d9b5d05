//! The table `consensus-params`: parameters of the consensus by tor's own names, where they have no key of their own.

use super::error::{Fault, clipped};
use super::resolve::Checked;
use super::resolved::Treatment;
use super::treatment::{BaseFile, FlowControl};
use onionlab_flowcontrol::xon_xoff::XON_XOFF_TABLE;
use onionlab_flowcontrol::{PathType, VegasParameters};
use std::collections::BTreeMap;

/// A parameter of congestion control that has an effect here, its range, and where the consensus is silent its value.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub name: String,
    pub default: i32,
    least: i32,
    most: i32,
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

/// Parameters of tor that cannot change anything here, and why.
const IDLE: [(&str, &str); 2] = [
    ("cc_bwe_min", "tor reads it and does not use it"),
    ("cc_xoff_client", "a client's program takes every byte at once, so that nothing waits"),
];

impl Known {
    /// `value` as tor would take it from a consensus.
    pub(crate) fn clamp(&self, value: i32) -> i32 {
        value.clamp(self.least, self.most)
    }
}

/// Whether these parameters have an effect under the treatment.
pub(crate) fn serve(treatment: &Treatment) -> bool {
    treatment.flow_control_by_file() == FlowControl::Vegas
}

const NEEDS: &str = "flow-control = \"vegas\"";

/// Every parameter that the table may name, in the order of their names.
pub(crate) fn known() -> Vec<Known> {
    let vegas = VegasParameters::new(PathType::Exit).table(PathType::Exit);
    let vegas = vegas.into_iter().map(|(name, default, least, most)| Known { name, default, least, most });
    let streams = XON_XOFF_TABLE.into_iter().filter(|(name, ..)| IDLE.iter().all(|(idle, _)| idle != name));
    let streams = streams.map(|(name, default, least, most)| Known { name: name.to_owned(), default, least, most });
    let mut all: Vec<Known> = vegas.chain(streams).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

/// The treatment's parameters with those of `[base]` under them, as far as they serve it.
pub(super) fn checked(key: &str, treatment: &Treatment, own: &BaseFile, base: &BaseFile) -> Checked<BTreeMap<String, i32>> {
    let known = known();
    let mut all = BTreeMap::new();
    for (table, given) in [("base", base), (key, own)] {
        for (name, &value) in given.consensus_params.iter().flatten() {
            let key = format!("{table}.consensus-params.{}", clipped(name, 80));
            let known = find(&key, name, &known)?;
            let value = i32::try_from(value)
                .ok()
                .filter(|value| (known.least..=known.most).contains(value))
                .ok_or_else(|| Fault::out_of_range(key.clone(), value, format!("from {} to {}", known.least, known.most)))?;
            if serve(treatment) {
                all.insert(name.clone(), value);
            } else if table != "base" {
                return Err(Fault::conflict(key, format!("has no effect in this treatment: it needs {NEEDS}")));
            }
        }
    }
    Ok(all)
}

/// A parameter of `[base]` may serve some of the treatments only, but it must serve one.
pub(super) fn base_serves(base: &BaseFile, treatments: &[Treatment]) -> Checked<()> {
    let known = known();
    for name in base.consensus_params.iter().flatten().map(|(name, _)| name) {
        let key = format!("base.consensus-params.{}", clipped(name, 80));
        find(&key, name, &known)?;
        if !treatments.iter().any(serve) {
            return Err(Fault::conflict(key, format!("has no effect in any treatment: it needs {NEEDS}")));
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
    if name.starts_with("cc_") && (name.ends_with("_onion") || name.ends_with("_sbws")) {
        return Err(Fault::conflict(key, "has no effect: every circuit leads to an exit over three relays"));
    }
    let names: Vec<&str> = known.iter().map(|known| known.name.as_str()).collect();
    Err(Fault::conflict(key, format!("is no consensus parameter that has an effect here; these have: {}", names.join(", "))))
}
