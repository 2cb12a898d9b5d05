//! A treatment for some of the relays: a network does not change its scheduler in a day.

use super::error::{Fault, clipped};
use super::network::Role;
use super::resolve::{Checked, count};
use super::resolved::{Network, Treatment};
use super::treatment::BaseFile;
use onionlab_tor::RelayClass;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a relay can have for itself: the choice of the cells that it sends.
const OWN_AXES: [&str; 10] = [
    "circuitmux",
    "ewma-half-life",
    "ewma-tick",
    "ewma-clock",
    "channel-scheduler",
    "kist-interval",
    "kist-socket-buffer-factor",
    "kist-knows-unsent",
    "outbuf-high",
    "outbuf-low",
];

/// Which relays have the treatment's own settings; the others, and all clients, have those of `[base]`. At least one key.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(rename = "SomeRelays")]
pub struct SomeRelaysFile {
    /// This share of the relays, by number, above 0 to 1: drawn in each run, the same ones under each treatment; a greater share has those of a lesser, and more.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub share: Option<f64>,
    /// Only relays of these classes.
    #[schemars(length(min = 1, max = 4))]
    pub classes: Option<Vec<Class>>,
    /// Only relays with these names, where the experiment file or a network document names the relays.
    #[schemars(length(min = 1, max = 10_000))]
    pub names: Option<Vec<String>>,
}

/// A relay's class, by its flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Guard flag only.
    Guard,
    /// Neither guard nor exit.
    Middle,
    /// Exit flag only.
    Exit,
    /// Both flags.
    GuardExit,
}

impl Class {
    /// The same as the world has it.
    pub(crate) const fn of_relay(self) -> RelayClass {
        match self {
            Self::Guard => RelayClass::Guard,
            Self::Middle => RelayClass::Middle,
            Self::Exit => RelayClass::Exit,
            Self::GuardExit => RelayClass::GuardExit,
        }
    }
}

/// Which relays a treatment is for, and what the others have.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct SomeRelays {
    /// Share of the relays that the rest describes.
    pub share: f64,
    /// Of which classes; none: of any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<Class>,
    /// With which names; none: with any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// What the other relays, and all clients, have.
    pub others: Box<Treatment>,
}

/// Checks for which relays the treatment `key` is, whose `own` settings are these; `others`: what `[base]` alone makes.
pub(super) fn checked(key: &str, file: &SomeRelaysFile, own: &BaseFile, others: Treatment) -> Checked<SomeRelays> {
    let relays = format!("{key}.relays");
    if *file == SomeRelaysFile::default() {
        return Err(Fault::conflict(relays, "needs `share`, `classes` or `names`"));
    }
    let share = file.share.unwrap_or(1.0);
    if !(share > 0.0 && share <= 1.0) {
        return Err(Fault::out_of_range(format!("{relays}.share"), share, "above 0 and at most 1"));
    }
    if let Some(classes) = &file.classes {
        count(format!("{relays}.classes"), classes.len(), 4)?;
    }
    if let Some(names) = &file.names {
        count(format!("{relays}.names"), names.len(), 10_000)?;
    }
    let mut set = own.keys();
    if own.consensus_params.is_some() {
        set.push("consensus-params".to_owned());
    }
    if let Some(axis) = set.iter().find(|axis| !OWN_AXES.contains(&axis.as_str())) {
        let reason = format!(
            "concerns more than one host and cannot be for some of the relays: allowed with `relays` are {}",
            OWN_AXES.join(", ")
        );
        return Err(Fault::conflict(format!("{key}.{axis}"), reason));
    }
    Ok(SomeRelays {
        share,
        classes: file.classes.clone().unwrap_or_default(),
        names: file.names.clone().unwrap_or_default(),
        others: Box::new(others),
    })
}

/// Refuses a treatment for some of the relays in which these are like the others.
pub(super) fn must_differ(key: &str, treatment: &Treatment) -> Checked<()> {
    let Some(some) = &treatment.relays else { return Ok(()) };
    if (Treatment { relays: None, ..treatment.clone() }) == *some.others {
        return Err(Fault::conflict(
            format!("{key}.relays"),
            "has no effect: the treatment sets nothing that differs from `[base]`",
        ));
    }
    Ok(())
}

/// Refuses names of relays that the network does not have.
pub(super) fn names_exist(treatments: &[Treatment], network: &Network) -> Checked<()> {
    let known: Option<Vec<&str>> = match network {
        Network::Explicit(network) => {
            let relays = network.hosts.iter().filter(|host| !matches!(host.role, Role::Server | Role::Client));
            Some(relays.map(|host| host.name.as_str()).collect())
        }
        Network::File(file) => Some(file.network.relays.iter().map(|relay| relay.name.as_str()).collect()),
        Network::Consensus(_) | Network::Synthetic(_) => None,
    };
    for (index, treatment) in treatments.iter().enumerate() {
        let key = format!("treatments[{index}].relays.names");
        let names = treatment.relays.as_ref().map_or(&[][..], |some| &some.names);
        match &known {
            None if !names.is_empty() => {
                return Err(Fault::conflict(
                    key,
                    "needs a network whose relays are named beforehand: a sampled one has a `share` or `classes`",
                ));
            }
            Some(known) => {
                if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
                    return Err(Fault::out_of_range(
                        key,
                        format!("\"{}\"", clipped(name, 60)),
                        "names of relays of this network",
                    ));
                }
            }
            None => {}
        }
    }
    Ok(())
}
