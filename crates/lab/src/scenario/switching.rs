//! Active circuit switching as an axis of a treatment, with the keys that shape it.

use super::error::Fault;
use super::network::Role;
use super::resolve::{Checked, within};
use super::resolved::{Network, Treatment};
use super::treatment::{BaseFile, Links};
use onionlab_quantities::SimDuration;
use onionlab_tor::SwitchingSettings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether entry relays move circuits away from congested outbufs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SwitchingKind {
    /// They do not.
    None,
    /// To a path that the client built beforehand (Kale et al. 2015 and 2017).
    Active,
}

/// What an outbuf's occupancy is held against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SwitchingOccupancy {
    /// Its bytes, as a share of 32 KiB.
    Absolute,
    /// The moving average of cells put into it, as a share of the one before: Algorithm 1 as it is printed.
    Relative,
}

/// Which circuits of a congested channel move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SwitchingChoice {
    /// The one with the greatest moving average.
    Bulkiest,
    /// All whose average is above the mean of the channel's circuits that carry traffic.
    AboveMean,
}

/// Where circuits move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SwitchingEntry {
    /// To another middle and exit at the same entry.
    Same,
    /// To another entry, middle and exit.
    Other,
}

/// Which exit a circuit that moves goes on over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SwitchingExit {
    /// Another one, which connects to the servers anew.
    New,
    /// The same one, over another middle; only at the same entry.
    Kept,
}

/// When the entry asks the new path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SwitchingAsk {
    /// At once, as it tells the old one.
    AtOnce,
    /// When everything of the circuit on the old path has left the outbuf; only at the same entry.
    Drained,
}

/// How the relays of spare circuits are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SwitchingSpares {
    /// By bandwidth, among relays at least as fast as the one replaced where there are such.
    Bandwidth,
    /// Each relay that fits as often as every other.
    Uniform,
}

/// Active circuit switching with every key filled in.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Switching {
    /// Weight of the average before.
    pub gamma: f64,
    /// Share below which an outbuf is underfull; `None` where nothing follows from that.
    pub alpha: Option<f64>,
    /// Share above which it is overfull.
    pub beta: f64,
    /// What the shares are of.
    pub occupancy: SwitchingOccupancy,
    /// Whether a socket that takes nothing more counts as congestion.
    pub unwritable: bool,
    /// Which circuits move.
    pub choice: SwitchingChoice,
    /// Where to.
    pub entry: SwitchingEntry,
    /// Which exit streams go on over.
    pub exit: SwitchingExit,
    /// When the new path is asked.
    pub ask: SwitchingAsk,
    /// How the relays of spares are drawn.
    pub spares: SwitchingSpares,
    /// Between two samples.
    pub interval: SimDuration,
    /// Whether an outbuf must have been underfull between two moves.
    pub hysteresis: bool,
    /// How often the streams of a circuit may move; `None`: any number of times.
    pub moves: Option<u32>,
    /// How long a circuit may be idle on an underfull outbuf; `None`: for ever.
    pub drop_idle: Option<SimDuration>,
    /// How long an answer is waited for.
    pub timeout: SimDuration,
}

const ACTIVE: &str = "switching = \"active\"";
const WITH_ALPHA: &str = "switching = \"active\" and switching-hysteresis = true or `switching-drop-idle`";

/// Checks the keys of switching, where it is on. `planned`: relays plan, over connections that circuits do not share.
pub(super) fn checked(key: &impl Fn(&str) -> String, all: &BaseFile, links: Links, planned: bool) -> Checked<Option<Switching>> {
    if all.switching.unwrap_or(SwitchingKind::None) == SwitchingKind::None {
        return Ok(None);
    }
    if links != Links::Shared && planned {
        let reason = "is \"active\", but with flow-control = \"predictor\" each circuit has its own connection between two relays, and no outbuf is shared that it could leave";
        return Err(Fault::conflict(key("switching"), reason));
    }
    if links != Links::Shared {
        let reason = "is \"active\", but only with links = \"shared\" do all circuits between two relays share an outbuf that one of them could leave";
        return Err(Fault::conflict(key("switching"), reason));
    }
    let paper = SwitchingSettings::default();
    let (ms, day) = (SimDuration::from_millis, SimDuration::from_secs(86_400));
    let hysteresis = all.switching_hysteresis.unwrap_or(false);
    let matters = hysteresis || all.switching_drop_idle.is_some();
    let alpha = within(key("switching-alpha"), all.switching_alpha.unwrap_or(paper.alpha), 0.0, 10.0)?;
    let beta = within(key("switching-beta"), all.switching_beta.unwrap_or(paper.beta), 0.0, 10.0)?;
    if alpha > beta && matters {
        let reason = format!("is {beta}, below switching-alpha, which is {alpha}: an outbuf cannot be underfull and overfull");
        return Err(Fault::conflict(key("switching-beta"), reason));
    }
    if alpha == 0.0 && matters {
        let reason = "is 0, but no outbuf holds less than nothing: what `switching-hysteresis` and `switching-drop-idle` wait for would never be";
        return Err(Fault::conflict(key("switching-alpha"), reason));
    }
    let entry = all.switching_entry.unwrap_or(SwitchingEntry::Same);
    if all.switching_exit == Some(SwitchingExit::Kept) && entry == SwitchingEntry::Other {
        let reason = "is \"kept\", but a circuit that moves to another entry leaves its exit: with switching-entry = \"other\" only \"new\" has a meaning";
        return Err(Fault::conflict(key("switching-exit"), reason));
    }
    if all.switching_ask == Some(SwitchingAsk::Drained) && entry == SwitchingEntry::Other {
        let reason =
            "is \"drained\", but with switching-entry = \"other\" the old path is told only when the new one has answered";
        return Err(Fault::conflict(key("switching-ask"), reason));
    }
    let drop_idle = all.switching_drop_idle.map(|idle| within(key("switching-drop-idle"), idle, ms(1000), day)).transpose()?;
    Ok(Some(Switching {
        gamma: within(key("switching-gamma"), all.switching_gamma.unwrap_or(paper.gamma), 0.01, 0.99)?,
        alpha: matters.then_some(alpha),
        beta,
        occupancy: all.switching_occupancy.unwrap_or(SwitchingOccupancy::Absolute),
        unwritable: all.switching_unwritable.unwrap_or(paper.unwritable),
        choice: all.switching_choice.unwrap_or(SwitchingChoice::Bulkiest),
        entry,
        exit: all.switching_exit.unwrap_or(SwitchingExit::New),
        ask: all.switching_ask.unwrap_or(SwitchingAsk::AtOnce),
        spares: all.switching_spares.unwrap_or(SwitchingSpares::Bandwidth),
        interval: within(key("switching-interval"), all.switching_interval.unwrap_or(paper.interval), ms(10), ms(600_000))?,
        hysteresis,
        moves: all.switching_moves.map(|moves| within(key("switching-moves"), moves, 1, 1000)).transpose()?,
        drop_idle,
        timeout: within(key("switching-timeout"), all.switching_timeout.unwrap_or(paper.timeout), ms(100), ms(3_600_000))?,
    }))
}

/// The keys of switching that are given, whether each means something under this switching, and what it would need.
pub(super) fn effects(given: &BaseFile, switching: Option<&Switching>) -> [(&'static str, bool, bool, &'static str); 15] {
    let on = switching.is_some();
    let underfull = switching.is_some_and(|switching| switching.alpha.is_some());
    [
        ("switching-gamma", given.switching_gamma.is_some(), on, ACTIVE),
        ("switching-alpha", given.switching_alpha.is_some(), underfull, WITH_ALPHA),
        ("switching-beta", given.switching_beta.is_some(), on, ACTIVE),
        ("switching-occupancy", given.switching_occupancy.is_some(), on, ACTIVE),
        ("switching-unwritable", given.switching_unwritable.is_some(), on, ACTIVE),
        ("switching-choice", given.switching_choice.is_some(), on, ACTIVE),
        ("switching-entry", given.switching_entry.is_some(), on, ACTIVE),
        ("switching-exit", given.switching_exit.is_some(), on, ACTIVE),
        ("switching-ask", given.switching_ask.is_some(), on, ACTIVE),
        ("switching-spares", given.switching_spares.is_some(), on, ACTIVE),
        ("switching-interval", given.switching_interval.is_some(), on, ACTIVE),
        ("switching-hysteresis", given.switching_hysteresis.is_some(), on, ACTIVE),
        ("switching-moves", given.switching_moves.is_some(), on, ACTIVE),
        ("switching-drop-idle", given.switching_drop_idle.is_some(), on, ACTIVE),
        ("switching-timeout", given.switching_timeout.is_some(), on, ACTIVE),
    ]
}

/// Refuses a treatment in which nothing could ever move, since a network by hand has no relays for spares.
pub(super) fn spares_exist(treatments: &[Treatment], network: &Network) -> Checked<()> {
    let Network::Explicit(network) = network else { return Ok(()) };
    let count = |roles: &[Role]| network.hosts.iter().filter(|host| roles.contains(&host.role)).count();
    let guards = count(&[Role::Guard, Role::GuardExit]);
    let exits = count(&[Role::Exit, Role::GuardExit]);
    let relays = count(&[Role::Guard, Role::Middle, Role::Exit, Role::GuardExit]);
    for (index, treatment) in treatments.iter().enumerate() {
        let Some(switching) = &treatment.switching else { continue };
        let (other, new) = (switching.entry == SwitchingEntry::Other, switching.exit == SwitchingExit::New);
        if other && guards < 2 {
            let reason = "is \"other\", but the network has one guard, and no circuit another entry to move to";
            return Err(Fault::conflict(format!("treatments[{index}].switching-entry"), reason));
        }
        if new && exits < 2 {
            let reason = if other {
                "is \"active\" with switching-entry = \"other\", but the network has one exit, and no circuit another to move to"
            } else {
                "is \"active\", but the network has one exit, and no circuit another to move to: with switching-exit = \"kept\" it needs none"
            };
            return Err(Fault::conflict(format!("treatments[{index}].switching"), reason));
        }
        if relays < 4 + usize::from(other) + usize::from(new) {
            let reason = "is \"active\", but the network has no relay left for another middle to move to";
            return Err(Fault::conflict(format!("treatments[{index}].switching"), reason));
        }
    }
    Ok(())
}
