//! A client's guards, which it keeps.
//!
//! A state machine without a clock: the time is an argument, successes and failures are told to it, random values come from the client's
//! named streams. Source: C tor `feature/client/entrynodes.c` (Tor specification "guard-spec"), and for 0.2.4 `or/entrynodes.c`.

mod listed;
mod rules;
mod sampled;

pub use listed::ListedGuards;
pub use rules::{GuardRules, GuardVersion};
pub use sampled::{CircuitOnGuard, SampledGuards};

use crate::RelayIndex;
use crate::selector::PathSelector;
use onionlab_quantities::{Draw, RandomStream, Seed, SimTime};

/// Whether a circuit over a guard may be used once it is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// At once (`GUARD_CIRC_STATE_USABLE_ON_COMPLETION`).
    UsableOnCompletion,
    /// Not before better guards are ruled out, and it is not built yet (`..._USABLE_IF_NO_BETTER_GUARD`).
    UsableIfNoBetter,
    /// The same, built (`..._WAITING_FOR_BETTER_GUARD`).
    Waiting,
    /// Built and in use (`..._COMPLETE`).
    Complete,
}

/// A guard for a circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// The guard.
    pub guard: RelayIndex,
    /// What the circuit over it is worth.
    pub standing: Standing,
}

/// The guards of one client, as its version of tor keeps them.
#[derive(Debug, Clone)]
pub enum Guards {
    /// 0.2.4.
    Listed(ListedGuards),
    /// 0.3.5 and 0.4.9.
    Sampled(SampledGuards),
}

impl Guards {
    /// A client without a history: a function of seed, name and rules only.
    pub fn new(rules: GuardRules, seed: Seed, client: &str) -> Self {
        let stream = |purpose| RandomStream::new(seed, client, purpose);
        match rules.version {
            GuardVersion::V0_2_4 => Self::Listed(ListedGuards::new(rules, stream("guards"), stream("guard dates"))),
            GuardVersion::V0_3_5 | GuardVersion::V0_4_9 => {
                Self::Sampled(SampledGuards::new(rules, stream("guards"), stream("guard dates"), stream("guard from sample")))
            }
        }
    }

    /// A guard for a circuit whose other relays admit what `fits` says; `stable` if the circuit wants Stable relays (looked at by 0.2.4 only,
    /// whose guards need not be). `None` if no guard can be used now.
    pub fn choose(
        &mut self,
        now: SimTime,
        network: &PathSelector,
        stable: bool,
        fits: impl Fn(RelayIndex) -> bool,
        draw: Draw,
    ) -> Option<Choice> {
        match self {
            Self::Listed(guards) => guards.choose(now, network, stable, fits, draw),
            Self::Sampled(guards) => guards.choose(now, network, fits, draw),
        }
    }

    /// A circuit over the guard has been built (`entry_guard_succeeded`); what the circuit is worth from now on.
    pub fn succeeded(&mut self, now: SimTime, network: &PathSelector, guard: RelayIndex, standing: Standing) -> Standing {
        match self {
            Self::Listed(guards) => guards.succeeded(now, guard),
            Self::Sampled(guards) => guards.succeeded(now, network, guard, standing),
        }
    }

    /// The channel to the guard, or a circuit's first hop, has failed (`entry_guard_failed`, `entry_guard_chan_failed`).
    pub fn failed(&mut self, now: SimTime, guard: RelayIndex) {
        match self {
            Self::Listed(guards) => guards.failed(now, guard),
            Self::Sampled(guards) => guards.failed(now, guard),
        }
    }

    /// A circuit is given up without a verdict about its guard (`entry_guard_cancel`).
    pub fn cancelled(&mut self, guard: RelayIndex) {
        if let Self::Sampled(guards) = self {
            guards.cancelled(guard);
        }
    }

    /// A new consensus has come, in which `listed` says who is a guard: what is too old goes.
    pub fn consensus_arrived(&mut self, now: SimTime, listed: impl Fn(RelayIndex) -> bool) {
        match self {
            Self::Listed(guards) => guards.forget_old(now),
            Self::Sampled(guards) => guards.consensus_arrived(now, listed),
        }
    }

    /// The guards that the client would use first, in order: the primary ones, or the first on 0.2.4's list. Empty before the first choice.
    pub fn first(&self) -> Vec<RelayIndex> {
        match self {
            Self::Listed(guards) => guards.first(),
            Self::Sampled(guards) => guards.primary().to_vec(),
        }
    }

    /// Whether a circuit over a lesser guard may be used although it is one: every better one is down.
    pub(crate) fn nothing_better(&mut self, now: SimTime) -> bool {
        match self {
            Self::Listed(_) => true,
            Self::Sampled(guards) => guards.all_primary_down(now),
        }
    }
}

/// Whole seconds, the unit of tor's clock for guards. Dates before the simulation's beginning are negative.
fn seconds(now: SimTime) -> i64 {
    (now.as_nanos() / 1_000_000_000) as i64
}

/// A date up to `slop` seconds before `now`, so that it tells less (`entrynodes.c:randomize_time`).
fn smudged(now: i64, slop: u32, draw: Draw) -> i64 {
    now - draw.below(u64::from(slop.max(1))) as i64
}
