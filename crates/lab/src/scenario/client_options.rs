//! Keys of a group of clients that are options of its torrc.

use super::clients::ClientsFile;
use super::error::Fault;
use super::resolve::{Checked, refuse, within};
use onionlab_load::LoadModel;
use onionlab_quantities::SimDuration;
use serde::Serialize;

/// Longest time of all of them.
const MAX_TIME: SimDuration = SimDuration::from_secs(7 * 86_400);

/// Most circuits that a tor lets be built at a time (`MAX_MAX_CLIENT_CIRCUITS_PENDING`).
const MAX_PENDING: u32 = 1024;

/// `MaxCircuitDirtiness` of clients that measure, as tornettools writes it: with ten minutes, ten used Conflux sets would soon keep them from building more.
const PERF_LIFETIME: SimDuration = SimDuration::from_secs(10);

/// What the torrc of a group's clients says; `None`: nothing, so that tor's default applies.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ClientOptions {
    /// A circuit takes no new stream so long after its first; `None`: as the treatment says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub circuit_lifetime: Option<SimDuration>,
    /// A stream whose exit does not answer for so long tries another circuit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub circuit_stream_timeout: Option<SimDuration>,
    /// A stream that gets no circuit for so long has failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socks_timeout: Option<SimDuration>,
    /// While so many circuits are being built, none is launched for a stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_client_circuits_pending: Option<u32>,
    /// Time between two looks for old circuits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_circuit_period: Option<SimDuration>,
}

impl ClientOptions {
    /// As the simulator has them.
    pub(crate) fn for_tor(&self) -> onionlab_tor::ClientOptions {
        let usual = onionlab_tor::ClientOptions::default();
        onionlab_tor::ClientOptions {
            circuit_lifetime: self.circuit_lifetime,
            stream_timeout: self.circuit_stream_timeout,
            socks_timeout: self.socks_timeout.unwrap_or(usual.socks_timeout),
            max_pending: self.max_client_circuits_pending.unwrap_or(usual.max_pending),
            new_circuit_period: self.new_circuit_period.unwrap_or(usual.new_circuit_period),
        }
    }
}

/// Checks the keys of the group `key`, whose transfers have failed after `patience` unless its load has time-outs of its own.
pub(super) fn options(key: &str, file: &ClientsFile, load: &LoadModel, patience: SimDuration) -> Checked<ClientOptions> {
    let time = |name: &str, given: Option<SimDuration>, least: u64| {
        given.map(|time| within(format!("{key}.{name}"), time, SimDuration::from_secs(least), MAX_TIME)).transpose()
    };
    if file.onion.is_some() {
        let reason = "has no effect with `onion`: circuits to onion services are not limited in number";
        refuse(key, "max-client-circuits-pending", file.max_client_circuits_pending.as_ref(), reason)?;
    }
    let usual = onionlab_tor::ClientOptions::default().socks_timeout;
    let idle = |timeout: &SimDuration| !load.has_timeouts() && usual.min(*timeout) >= patience;
    if let Some(timeout) = file.socks_timeout.filter(idle) {
        let reason = format!("is {timeout} and has no effect: a transfer has failed after {patience} (`timeout`, `stall`)");
        return Err(Fault::conflict(format!("{key}.socks-timeout"), reason));
    }
    let usual_lifetime = matches!(load, LoadModel::Perf(_)).then_some(PERF_LIFETIME);
    let pending = file.max_client_circuits_pending;
    let pending = pending.map(|most| within(format!("{key}.max-client-circuits-pending"), most, 1, MAX_PENDING)).transpose()?;
    Ok(ClientOptions {
        circuit_lifetime: time("circuit-lifetime", file.circuit_lifetime, 1)?.or(usual_lifetime),
        // tor raises less to ten seconds.
        circuit_stream_timeout: time("circuit-stream-timeout", file.circuit_stream_timeout, 10)?,
        socks_timeout: time("socks-timeout", file.socks_timeout, 1)?,
        max_client_circuits_pending: pending,
        new_circuit_period: time("new-circuit-period", file.new_circuit_period, 1)?,
    })
}
