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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candidates::PathOptions;
    use crate::guards::{GuardVersion, Guards};
    use onionlab_directory::{BandwidthWeights, Class, ClassTotals, Families, Flag, Params, Relay};
    use onionlab_quantities::{Seed, SimDuration};
    use std::collections::BTreeSet;
    use std::net::Ipv4Addr;

    const HOUR: u64 = 3600;
    const DAY: u64 = 24 * HOUR;

    fn at(secs: u64) -> SimTime {
        SimTime::ZERO + SimDuration::from_secs(secs)
    }

    /// `guards` guards, of which the first `family` are one family and only the last is Stable; four middle relays, four exits.
    fn network(guards: u64, family: usize) -> PathSelector {
        let mut relays = Vec::new();
        for (class, count) in [(Class::Guard, guards), (Class::Middle, 4), (Class::Exit, 4)] {
            for i in 0..count {
                let address = Ipv4Addr::new(10 + class as u8, i as u8, 0, 1);
                relays.push(Relay::by_hand(&format!("{class}{i}"), class, 100, address));
            }
        }
        for relay in &mut relays[..guards as usize - 1] {
            relay.flags = relay.flags.iter().filter(|&flag| flag != Flag::Stable).collect();
        }
        let families = Families::from_lists([relays[..family].iter().map(|relay| relay.fingerprint)]);
        let weights = BandwidthWeights::compute(&ClassTotals::of(&relays));
        PathSelector::new(&relays, &weights, &PathOptions { families, ..PathOptions::default() }).unwrap()
    }

    struct Client {
        guards: Guards,
        network: PathSelector,
        draws: DrawSequence,
    }

    impl Client {
        fn new(network: PathSelector) -> Self {
            let rules = GuardRules::new(GuardVersion::V0_2_4, &Params::default(), None);
            let draws = RandomStream::new(Seed(8), "test", "draws").sequence();
            Self { guards: Guards::new(rules, Seed(8), "client"), network, draws }
        }

        /// Guards that many circuits at one time use.
        fn used(&mut self, secs: u64, stable: bool, excluded: &[RelayIndex]) -> BTreeSet<RelayIndex> {
            let Self { guards, network, draws } = self;
            let fits = |relay| !excluded.contains(&relay);
            let choices = (0..80).filter_map(|_| guards.choose(at(secs), network, stable, fits, draws.draw()));
            choices.map(|choice| choice.guard).collect()
        }
    }

    #[test]
    fn three_guards_of_different_families_are_used_alike() {
        let mut client = Client::new(network(12, 10));
        let used = client.used(0, false, &[]);
        assert_eq!(used.len(), 3);
        assert!(used.iter().filter(|guard| guard.0 < 10).count() <= 1, "{used:?}");
        let first = client.guards.first();
        assert_eq!(used, first.iter().copied().collect());
        // The exit excludes one: the other two are enough.
        assert_eq!(client.used(0, false, &first[..1]), first[1..].iter().copied().collect());
    }

    #[test]
    fn with_fewer_than_two_that_work_another_is_tried_and_forgotten_if_it_fails() {
        let mut client = Client::new(network(12, 0));
        client.used(0, false, &[]);
        let first = client.guards.first();
        for &guard in &first[..2] {
            client.guards.failed(at(0), guard);
        }
        let used = client.used(1, false, &[]);
        assert!(used.len() == 2 && used.contains(&first[2]), "{used:?}");
        let new = *used.iter().find(|guard| **guard != first[2]).unwrap();
        client.guards.failed(at(2), new);
        let other = client.used(3, false, &[]);
        assert!(!other.contains(&new) && other.len() == 2, "a guard that never worked is no guard: {other:?}");
        // One that works at once gives those before it another chance.
        let new = *other.iter().find(|guard| **guard != first[2]).unwrap();
        client.guards.succeeded(at(4), &client.network, new, Standing::UsableOnCompletion);
        assert_eq!(client.used(5, false, &[]), first.iter().copied().collect());
    }

    #[test]
    fn a_guard_that_is_down_is_tried_again_after_an_hour() {
        let mut client = Client::new(network(12, 0));
        client.used(0, false, &[]);
        let first = client.guards.first();
        client.guards.failed(at(10), first[0]);
        assert!(!client.used(10 + HOUR, false, &[]).contains(&first[0]));
        assert!(client.used(11 + HOUR, false, &[]).contains(&first[0]));
        client.guards.succeeded(at(12 + HOUR), &client.network, first[0], Standing::UsableOnCompletion);
        assert_eq!(client.used(13 + HOUR, false, &[]).len(), 3);
    }

    /// Only one guard of the network is Stable, which is no choice: all others are added in the hope for a second, then the wish is given up.
    #[test]
    fn a_wish_for_stable_is_given_up_when_nobody_is_left() {
        let stable = RelayIndex(4);
        let mut client = Client::new(network(5, 0));
        client.used(0, false, &[]);
        assert!(client.guards.first().contains(&stable), "with this seed");
        assert_eq!(client.used(0, true, &[]), client.guards.first().into_iter().collect());
        let Guards::Listed(guards) = &client.guards else { unreachable!("the version is 0.2.4") };
        assert_eq!(guards.list.len(), 5);
        assert_eq!(client.used(0, true, &[stable]).len(), 3, "any that is Fast will do");
    }

    #[test]
    fn guards_are_kept_for_two_to_three_months() {
        let mut client = Client::new(network(12, 0));
        client.used(0, false, &[]);
        let first = client.guards.first();
        client.guards.consensus_arrived(at(59 * DAY), |_| true);
        assert_eq!(client.guards.first(), first);
        client.guards.consensus_arrived(at(90 * DAY + 1), |_| true);
        assert!(client.guards.first().is_empty());
        assert_eq!(client.used(90 * DAY + 2, false, &[]).len(), 3);
    }
}
