//! The guards of tor 0.2.4: a list, used from its front, that grows when too few of it can be used.
//!
//! Source: C tor 0.2.4.19 `or/entrynodes.c:choose_random_entry_impl`, `add_an_entry_guard`, `entry_guard_register_connect_status`,
//! `remove_obsolete_entry_guards`.

use super::rules::GuardRules;
use super::{Choice, Standing, seconds, smudged};
use crate::RelayIndex;
use crate::candidates::Needs;
use crate::selector::PathSelector;
use onionlab_quantities::random::DrawSequence;
use onionlab_quantities::{Draw, RandomStream, SimTime};

/// Days by which the date of a choice is smudged.
const DATE_SLOP: u32 = 30 * 86_400;

/// Circuits shall have this many guards to choose from, else one is added.
const PREFERRED_CHOICES: usize = 2;

/// The guards of one client of 0.2.4.
#[derive(Debug, Clone)]
pub struct ListedGuards {
    rules: GuardRules,
    list: Vec<Listed>,
    draws: DrawSequence,
    dates: DrawSequence,
}

#[derive(Debug, Clone, Copy)]
struct Listed {
    relay: RelayIndex,
    chosen_on: i64,
    /// A connection to it has been made, or it counts as if.
    contacted: bool,
    unreachable_since: Option<i64>,
    last_attempted: i64,
    /// To be tried at once though it is down: a new guard has just worked.
    can_retry: bool,
}

impl ListedGuards {
    pub(super) fn new(rules: GuardRules, guards: RandomStream, dates: RandomStream) -> Self {
        Self { rules, list: Vec::new(), draws: guards.sequence(), dates: dates.sequence() }
    }

    pub(super) fn choose(
        &mut self,
        now: SimTime,
        network: &PathSelector,
        stable: bool,
        fits: impl Fn(RelayIndex) -> bool,
        draw: Draw,
    ) -> Option<Choice> {
        let now = seconds(now);
        while self.list.len() < self.rules.in_use as usize {
            if !self.add(now, network, true) {
                break;
            }
        }
        let mut needs = Needs { fast: true, stable };
        let live = loop {
            let live = self.live(now, network, needs, &fits);
            if live.len() >= PREFERRED_CHOICES.min(self.rules.in_use as usize) || self.ends_in_a_new_one(&live) {
                break live;
            }
            if self.add(now, network, false) {
                continue;
            }
            // Nobody is left to add: less is asked for, first without Stable, then without Fast.
            if needs == Needs::NOTHING {
                break live;
            }
            needs = Needs { fast: needs.stable && needs.fast, stable: false };
        };
        let guard = *live.get(draw.below(live.len() as u64) as usize)?;
        Some(Choice { guard, standing: Standing::UsableOnCompletion })
    }

    /// The guards that a circuit chooses among: the first few usable ones, up to the first that was never contacted.
    fn live(&self, now: i64, network: &PathSelector, needs: Needs, fits: impl Fn(RelayIndex) -> bool) -> Vec<RelayIndex> {
        let mut live = Vec::new();
        for guard in &self.list {
            let down = guard.unreachable_since.is_some() && !guard.can_retry && !self.is_time_to_retry(guard, now);
            if down || !needs.met_by(network.flags(guard.relay)) || !fits(guard.relay) {
                continue;
            }
            live.push(guard.relay);
            if !guard.contacted || live.len() >= self.rules.in_use as usize {
                break;
            }
        }
        live
    }

    fn ends_in_a_new_one(&self, live: &[RelayIndex]) -> bool {
        live.last().is_some_and(|last| self.list.iter().any(|guard| guard.relay == *last && !guard.contacted))
    }

    fn is_time_to_retry(&self, guard: &Listed, now: i64) -> bool {
        guard.unreachable_since.is_none_or(|since| {
            guard.last_attempted < since || now > guard.last_attempted + self.rules.retry_delay(now - since, false)
        })
    }

    /// Adds a guard by weight that is of no listed guard's family; `contacted` if it is to count as known from the beginning.
    fn add(&mut self, now: i64, network: &PathSelector, contacted: bool) -> bool {
        let list = &self.list;
        let free = |relay| list.iter().all(|guard| network.compatible(guard.relay, relay)) && network.has_path_over(relay);
        let Some(relay) = network.pick_flagged_guard(&mut self.draws, free) else { return false };
        let chosen_on = smudged(now, DATE_SLOP, self.dates.draw());
        self.list.push(Listed { relay, chosen_on, contacted, unreachable_since: None, last_attempted: 0, can_retry: false });
        true
    }

    pub(super) fn succeeded(&mut self, now: SimTime, guard: RelayIndex) -> Standing {
        let Some(at) = self.list.iter().position(|listed| listed.relay == guard) else { return Standing::Complete };
        let listed = &mut self.list[at];
        if listed.unreachable_since.take().is_some() {
            listed.can_retry = false;
            listed.last_attempted = seconds(now);
        }
        if !std::mem::replace(&mut listed.contacted, true) {
            // The network may be back: the guards before it get another chance.
            for earlier in self.list[..at].iter_mut().filter(|earlier| earlier.unreachable_since.is_some()) {
                earlier.can_retry = true;
            }
        }
        Standing::Complete
    }

    pub(super) fn failed(&mut self, now: SimTime, guard: RelayIndex) {
        let Some(at) = self.list.iter().position(|listed| listed.relay == guard) else { return };
        if !self.list[at].contacted {
            self.list.remove(at);
            return;
        }
        let listed = &mut self.list[at];
        listed.unreachable_since.get_or_insert(seconds(now));
        listed.last_attempted = seconds(now);
        listed.can_retry = false;
    }

    pub(super) fn forget_old(&mut self, now: SimTime) {
        let oldest = seconds(now) - i64::from(self.rules.lifetime);
        self.list.retain(|guard| guard.chosen_on >= oldest);
    }

    pub(super) fn first(&self) -> Vec<RelayIndex> {
        self.list.iter().take(self.rules.in_use as usize).map(|guard| guard.relay).collect()
    }
}
