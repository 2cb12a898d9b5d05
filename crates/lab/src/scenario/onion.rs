//! The key `onion` of a group of clients: its streams go to onion services instead of servers.

use super::clients::ClientsFile;
use super::error::{Fault, clipped};
use super::network::Role;
use super::resolve::network::{host_index, rate};
use super::resolve::{Checked, count, refuse, within};
use super::resolved::{ClientGroup, ExplicitNetwork, Network, Treatment};
use super::text::BandwidthText;
use super::treatment::FlowControl;
use super::version::TorVersion;
use onionlab_quantities::Bandwidth;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Access rate of an onion service where the file says none.
const USUAL_RATE: Bandwidth = Bandwidth::from_bits_per_sec(1_000_000_000);

/// Fewest relays of a network by hand with onion services: a circuit has four.
const FEWEST_RELAYS: usize = 6;

/// Onion services that a group of clients loads from. Each is a host of its own, on which a tor and the program behind it run.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(rename = "Onion")]
pub struct OnionFile {
    /// How many services; each stream goes to any of them. In an explicit network name `hosts` instead.
    #[schemars(range(min = 1, max = 100_000))]
    pub services: Option<u32>,
    /// Access rate of each service, up and down; not in an explicit network. Default: "1 Gbit/s".
    #[schemars(with = "Option<BandwidthText>")]
    pub rate: Option<Bandwidth>,
    /// Explicit network: the hosts on which the services run, of role "client" and in no group.
    #[schemars(length(min = 1, max = 100_000))]
    pub hosts: Option<Vec<String>>,
}

/// Onion services that a group loads from.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Onion {
    /// So many, with places that are drawn.
    Services {
        /// How many.
        services: u32,
        /// Access rate of each, up and down.
        rate: Bandwidth,
    },
    /// On these hosts of a network by hand, by index.
    Hosts(Vec<u32>),
}

/// Checks the key of one group. `taken`: the hosts that are in a group, or have a service.
pub(super) fn onion<'a>(
    key: &str,
    file: &'a ClientsFile,
    network: &Network,
    derived: bool,
    taken: &mut BTreeSet<&'a str>,
) -> Checked<Option<Onion>> {
    let Some(of) = &file.onion else { return Ok(None) };
    let no_exit = "has no effect with `onion`: circuits to onion services end at relays that are drawn";
    refuse(key, "path", file.path.as_ref(), no_exit)?;
    refuse(key, "server", file.server.as_ref(), "and `onion` both say where the clients load from: give one of them")?;
    refuse(key, "probe", file.probe.as_ref(), "has no effect with `onion`: cells are followed to servers behind exits")?;
    let to_exits = "has no effect with `onion`: payload is timed from an exit to the entry";
    refuse(key, "record-latency", file.record_latency.filter(|&on| on).as_ref(), to_exits)?;
    refuse(key, "load.port", file.load.port().as_ref(), "has no effect with `onion`: a service takes streams to any port")?;
    let key = format!("{key}.onion");
    if derived {
        let reason = "and `load-target` do not go together: what a load asks of relays is reckoned for circuits to exits";
        return Err(Fault::conflict(key, reason));
    }
    let Network::Explicit(explicit) = network else {
        refuse(&key, "hosts", of.hosts.as_ref(), "applies only to a network of kind \"explicit\"")?;
        let missing = || Fault::MissingKey { key: "services".to_owned(), table: key.clone() };
        let services = within(format!("{key}.services"), of.services.ok_or_else(missing)?, 1, 100_000)?;
        let rate = of.rate.map_or(Ok(USUAL_RATE), |given| rate(format!("{key}.rate"), given))?;
        return Ok(Some(Onion::Services { services, rate }));
    };
    let by_hand = "does not apply to a network by hand: name the `hosts`, which have rates of their own";
    refuse(&key, "services", of.services.as_ref(), by_hand)?;
    refuse(&key, "rate", of.rate.as_ref(), by_hand)?;
    let missing = || Fault::MissingKey { key: "hosts".to_owned(), table: key.clone() };
    hosts(&key, of.hosts.as_ref().ok_or_else(missing)?, explicit, taken).map(Some)
}

fn hosts<'a>(key: &str, names: &'a [String], network: &ExplicitNetwork, taken: &mut BTreeSet<&'a str>) -> Checked<Onion> {
    let hosts_key = format!("{key}.hosts");
    count(hosts_key.clone(), names.len(), 100_000)?;
    let relays = network.hosts.iter().filter(|host| host.role.is_relay()).count();
    if relays < FEWEST_RELAYS {
        let reason = format!("needs {FEWEST_RELAYS} relays to draw circuits of four from, and the network has {relays}");
        return Err(Fault::conflict(key, reason));
    }
    let indices: BTreeMap<&str, u32> =
        network.hosts.iter().enumerate().map(|(index, host)| (host.name.as_str(), index as u32)).collect();
    let mut hosts = Vec::with_capacity(names.len());
    for name in names {
        let index = host_index(&hosts_key, name, &indices)?;
        let role = network.hosts[index as usize].role;
        if role != Role::Client {
            let reason = format!("names \"{}\", a host of role \"{}\": allowed is \"client\"", clipped(name, 64), role.name());
            return Err(Fault::conflict(hosts_key, reason));
        }
        if !taken.insert(name) {
            let reason = format!("names \"{}\", which is in a group or has a service already", clipped(name, 64));
            return Err(Fault::conflict(hosts_key, reason));
        }
        hosts.push(index);
    }
    Ok(Onion::Hosts(hosts))
}

/// Refuses treatments under which nobody comes to an onion service.
pub(super) fn possible(clients: &[ClientGroup], treatments: &[Treatment]) -> Checked<()> {
    let Some(index) = clients.iter().position(|group| group.onion.is_some()) else { return Ok(()) };
    for treatment in treatments {
        let reason = if treatment.tor < TorVersion::V0_4_9 {
            "paths with vanguards-lite need tor = \"0.4.9\""
        } else if treatment.switching.is_some() {
            "switching moves circuits that lead to exits"
        } else if treatment.flow_control_by_file() == FlowControl::Predictor {
            "relays plan for circuits that lead to exits"
        } else {
            continue;
        };
        let reason = format!("is not possible in treatment \"{}\": {reason}", treatment.name);
        return Err(Fault::conflict(format!("clients[{index}].onion"), reason));
    }
    Ok(())
}
