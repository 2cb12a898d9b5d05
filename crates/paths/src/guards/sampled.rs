//! Sampled, confirmed and primary guards: tor since 0.3 (proposal 271; 0.4.9 with proposal 310's order).
//!
//! A client samples guards by weight, without replacement, until 20 of them can be used; it prefers its few primary guards, which are those
//! that have worked before, then the first of the sample. Source: C tor `feature/client/entrynodes.c`; each function here names its own.

use super::rules::{GuardRules, GuardVersion};
use super::{Choice, Standing, seconds, smudged};
use crate::RelayIndex;
use crate::selector::PathSelector;
use onionlab_directory::Position;
use onionlab_quantities::random::DrawSequence;
use onionlab_quantities::{Draw, RandomStream, SimTime};

/// The guards of one client of 0.3.5 or 0.4.9.
///
/// Invariant: `sample` is in the order in which guards were sampled; every primary guard is in it.
#[derive(Debug, Clone)]
pub struct SampledGuards {
    rules: GuardRules,
    sample: Vec<Sampled>,
    primary: Vec<RelayIndex>,
    /// Whether `primary` still follows from the sample.
    primary_current: bool,
    next_confirmed: u32,
    last_online: Option<i64>,
    draws: DrawSequence,
    dates: DrawSequence,
    /// 0.3.5's choices from the sample.
    choices: DrawSequence,
}

/// One guard of the sample. Dates are seconds of the simulated clock.
#[derive(Debug, Clone, Copy)]
struct Sampled {
    relay: RelayIndex,
    chosen_on: i64,
    /// Place among the confirmed and date; none before it has worked.
    confirmed: Option<(u32, i64)>,
    /// None while it is listed as a guard.
    unlisted_since: Option<i64>,
    failing_since: Option<i64>,
    last_tried: i64,
    reachable: Reachable,
    /// A circuit that waits for better guards is being built over it.
    pending: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reachable {
    Maybe,
    Yes,
    No,
}

impl Sampled {
    /// `is_usable_filtered_guard`.
    fn usable(&self) -> bool {
        self.unlisted_since.is_none() && self.reachable != Reachable::No
    }
}

/// A circuit as [`SampledGuards::upgrade`] looks at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CircuitOnGuard {
    /// Its guard.
    pub guard: RelayIndex,
    /// What it is worth.
    pub standing: Standing,
    /// Since when.
    pub since: SimTime,
}

impl SampledGuards {
    pub(super) fn new(rules: GuardRules, guards: RandomStream, dates: RandomStream, choices: RandomStream) -> Self {
        Self {
            rules,
            sample: Vec::new(),
            primary: Vec::new(),
            primary_current: false,
            next_confirmed: 0,
            last_online: None,
            draws: guards.sequence(),
            dates: dates.sequence(),
            choices: choices.sequence(),
        }
    }

    /// The primary guards, the one used first in front.
    pub fn primary(&self) -> &[RelayIndex] {
        &self.primary
    }

    /// The sample, in its order.
    pub fn sample(&self) -> impl Iterator<Item = RelayIndex> + '_ {
        self.sample.iter().map(|guard| guard.relay)
    }

    /// The confirmed guards, the one used first in front.
    pub fn confirmed(&self) -> Vec<RelayIndex> {
        self.confirmed_places().into_iter().map(|at| self.sample[at].relay).collect()
    }

    /// `select_entry_guard_for_circuit`.
    pub(super) fn choose(
        &mut self,
        now: SimTime,
        network: &PathSelector,
        fits: impl Fn(RelayIndex) -> bool,
        draw: Draw,
    ) -> Option<Choice> {
        let now = seconds(now);
        if !self.primary_current {
            self.update_primary(now, network);
        }
        if let Some(guard) = self.choose_primary(now, &fits, draw) {
            return Some(Choice { guard, standing: Standing::UsableOnCompletion });
        }
        let lesser = self.confirmed_to_try(now, &fits).or_else(|| self.sampled_to_try(now, network, &fits));
        let Some(at) = lesser else {
            // Nobody is left: all get another chance, but not for this circuit.
            self.sample
                .iter_mut()
                .filter(|guard| guard.reachable == Reachable::No)
                .for_each(|guard| guard.reachable = Reachable::Maybe);
            return None;
        };
        let guard = &mut self.sample[at];
        guard.pending = true;
        guard.last_tried = now;
        Some(Choice { guard: guard.relay, standing: Standing::UsableIfNoBetter })
    }

    /// `select_primary_guard_for_circuit`: evenly among the first few primary guards that fit. In 0.4.9 one that the circuit's other relays
    /// exclude counts among the few, unless none has been found yet.
    fn choose_primary(&mut self, now: i64, fits: impl Fn(RelayIndex) -> bool, draw: Draw) -> Option<RelayIndex> {
        let excluded_count = self.rules.version == GuardVersion::V0_4_9;
        let mut usable: Vec<RelayIndex> = Vec::new();
        let mut considered = 0;
        for relay in self.primary.clone() {
            let at = self.place(relay).expect("primary guards are sampled");
            self.consider_retry(at, now);
            if fits(relay) {
                if self.sample[at].reachable == Reachable::No {
                    continue;
                }
                self.sample[at].last_tried = now;
                usable.push(relay);
                considered += 1;
            } else if excluded_count {
                considered += 1;
            }
            if considered >= self.rules.in_use && !usable.is_empty() {
                break;
            }
        }
        usable.get(draw.below(usable.len() as u64) as usize).copied()
    }

    /// `select_confirmed_guard_for_circuit`.
    fn confirmed_to_try(&mut self, now: i64, fits: impl Fn(RelayIndex) -> bool) -> Option<usize> {
        for at in self.confirmed_places() {
            if self.is_primary(at) || !fits(self.sample[at].relay) {
                continue;
            }
            self.consider_retry(at, now);
            if self.sample[at].usable() && !self.sample[at].pending {
                return Some(at);
            }
        }
        None
    }

    /// `select_filtered_guard_for_circuit`.
    fn sampled_to_try(&mut self, now: i64, network: &PathSelector, fits: impl Fn(RelayIndex) -> bool) -> Option<usize> {
        let usable = self.usable(now, &fits);
        if usable < self.rules.min_filtered_sample as usize {
            self.expand(now, network);
        }
        self.pick_from_sample(now, |guards, at| {
            let guard = &guards.sample[at];
            guard.confirmed.is_none() && !guards.is_primary(at) && !guard.pending && fits(guard.relay)
        })
    }

    /// `first_reachable_filtered_entry_guard`: the first of the sample that can be used and that `admits` lets through; in 0.3.5 any of them.
    fn pick_from_sample(&mut self, now: i64, admits: impl Fn(&Self, usize) -> bool) -> Option<usize> {
        (0..self.sample.len()).for_each(|at| self.consider_retry(at, now));
        let found: Vec<usize> = (0..self.sample.len()).filter(|&at| self.sample[at].usable() && admits(self, at)).collect();
        let nth = match self.rules.version {
            GuardVersion::V0_3_5 if !found.is_empty() => self.choices.draw().below(found.len() as u64) as usize,
            _ => 0,
        };
        found.get(nth).copied()
    }

    /// `num_reachable_filtered_guards`.
    fn usable(&mut self, now: i64, fits: impl Fn(RelayIndex) -> bool) -> usize {
        (0..self.sample.len()).for_each(|at| self.consider_retry(at, now));
        self.sample.iter().filter(|guard| guard.usable() && fits(guard.relay)).count()
    }

    /// `entry_guards_expand_sample`. Deviation: relays over which no path leads are left out, which only a tiny network has.
    fn expand(&mut self, now: i64, network: &PathSelector) {
        let guards = network.position(Position::Guard);
        let limit = self.rules.sample_limit(guards.relays().count());
        let mut usable = self.usable(now, |_| true);
        while usable < self.rules.min_filtered_sample as usize && self.sample.len() < limit {
            let free = |relay| self.sample.iter().all(|guard| guard.relay != relay) && network.has_path_over(relay);
            // A first try by alias table, then exactly: there are few to avoid.
            let first = guards.pick(self.draws.draw());
            let next = if free(first) { Some(first) } else { guards.pick_among(self.draws.draw(), free) };
            let Some(relay) = next else { return };
            self.sample.push(Sampled {
                relay,
                chosen_on: smudged(now, self.rules.lifetime / 10, self.dates.draw()),
                confirmed: None,
                unlisted_since: None,
                failing_since: None,
                last_tried: 0,
                reachable: Reachable::Maybe,
                pending: false,
            });
            usable += 1;
        }
    }

    /// `entry_guards_update_primary`: the confirmed guards that are listed, then former primary guards, then the sample.
    fn update_primary(&mut self, now: i64, network: &PathSelector) {
        self.primary_current = true;
        let wanted = self.rules.primary as usize;
        let old = std::mem::take(&mut self.primary);
        let listed = |guards: &Self, at: usize| guards.sample[at].unlisted_since.is_none();
        let confirmed = self.confirmed_places().into_iter().filter(|&at| listed(self, at));
        let mut new: Vec<usize> = confirmed.take(wanted).collect();
        for relay in old {
            let Some(at) = self.place(relay) else { continue };
            if new.len() < wanted && !new.contains(&at) && listed(self, at) {
                new.push(at);
            }
        }
        let relays = |guards: &Self, places: &[usize]| places.iter().map(|&at| guards.sample[at].relay).collect::<Vec<_>>();
        self.primary = relays(self, &new);
        while new.len() < wanted {
            if self.usable(now, |_| true) < self.rules.min_filtered_sample as usize {
                self.expand(now, network);
            }
            let free = |guards: &Self, at: usize| guards.sample[at].confirmed.is_none() && !new.contains(&at);
            let Some(at) = self.pick_from_sample(now, free) else { break };
            new.push(at);
        }
        if self.rules.version == GuardVersion::V0_4_9 {
            new.sort_unstable();
        }
        self.primary = relays(self, &new);
    }

    /// Places of the confirmed guards in the sample: in the order of confirmation, since 0.4.9 of the sample.
    fn confirmed_places(&self) -> Vec<usize> {
        let mut places: Vec<usize> = (0..self.sample.len()).filter(|&at| self.sample[at].confirmed.is_some()).collect();
        if self.rules.version == GuardVersion::V0_3_5 {
            places.sort_by_key(|&at| self.sample[at].confirmed);
        }
        places
    }

    fn place(&self, relay: RelayIndex) -> Option<usize> {
        self.sample.iter().position(|guard| guard.relay == relay)
    }

    fn is_primary(&self, at: usize) -> bool {
        self.primary.contains(&self.sample[at].relay)
    }

    /// `entry_guard_consider_retry`.
    fn consider_retry(&mut self, at: usize, now: i64) {
        let guard = &self.sample[at];
        if guard.reachable == Reachable::No {
            let failing = guard.failing_since.map_or(0, |since| (now - since).max(0));
            if now >= guard.last_tried + self.rules.retry_delay(failing, self.is_primary(at)) {
                self.sample[at].reachable = Reachable::Maybe;
            }
        }
    }

    /// `entry_guards_note_guard_success`.
    pub(super) fn succeeded(&mut self, now: SimTime, network: &PathSelector, guard: RelayIndex, standing: Standing) -> Standing {
        let now = seconds(now);
        let before = self.last_online.replace(now);
        let Some(at) = self.place(guard) else { return Standing::Complete };
        let next = self.next_confirmed;
        let sampled = &mut self.sample[at];
        sampled.reachable = Reachable::Yes;
        sampled.failing_since = None;
        sampled.pending = false;
        if sampled.confirmed.is_none() {
            sampled.confirmed = Some((next, smudged(now, self.rules.lifetime / 10, self.dates.draw())));
            self.next_confirmed += 1;
            self.update_primary(now, network);
        }
        let primary = self.is_primary(at);
        let off_line = before.is_none_or(|before| before + i64::from(self.rules.internet_likely_down) < now);
        if !primary && off_line {
            // Perhaps only the internet was away: the primary guards get another chance.
            for relay in self.primary.clone() {
                let at = self.place(relay).expect("primary guards are sampled");
                if self.sample[at].reachable == Reachable::No {
                    self.sample[at].reachable = Reachable::Maybe;
                }
            }
        }
        match standing {
            Standing::UsableOnCompletion | Standing::Complete => Standing::Complete,
            Standing::UsableIfNoBetter | Standing::Waiting if primary => Standing::Complete,
            Standing::UsableIfNoBetter | Standing::Waiting => Standing::Waiting,
        }
    }

    /// `entry_guards_note_guard_failure`.
    pub(super) fn failed(&mut self, now: SimTime, guard: RelayIndex) {
        if let Some(at) = self.place(guard) {
            let guard = &mut self.sample[at];
            guard.reachable = Reachable::No;
            guard.pending = false;
            guard.failing_since.get_or_insert(seconds(now));
        }
    }

    pub(super) fn cancelled(&mut self, guard: RelayIndex) {
        if let Some(at) = self.place(guard) {
            self.sample[at].pending = false;
        }
    }

    /// `entry_guards_all_primary_guards_are_down`.
    pub(super) fn all_primary_down(&mut self, now: SimTime) -> bool {
        let places: Vec<usize> = self.primary.iter().filter_map(|&relay| self.place(relay)).collect();
        for &at in &places {
            self.consider_retry(at, seconds(now));
        }
        places.iter().all(|&at| self.sample[at].reachable == Reachable::No)
    }

    /// `sampled_guards_update_from_consensus`.
    pub(super) fn consensus_arrived(&mut self, now: SimTime, listed: impl Fn(RelayIndex) -> bool) {
        let now = seconds(now);
        for guard in &mut self.sample {
            match (listed(guard.relay), guard.unlisted_since) {
                (true, _) => guard.unlisted_since = None,
                (false, None) => guard.unlisted_since = Some(smudged(now, self.rules.remove_unlisted / 5, self.dates.draw())),
                (false, Some(_)) => {}
            }
        }
        let before = |seconds: u32| now - i64::from(seconds);
        let (unlisted, old) = (before(self.rules.remove_unlisted), before(self.rules.lifetime));
        let confirmed_long_ago = before(self.rules.confirmed_lifetime);
        // 0.3.5 keeps a confirmed guard for its whole lifetime, and longer if it was confirmed late.
        let spares_the_young = self.rules.version == GuardVersion::V0_3_5;
        self.sample.retain(|guard| {
            let young = guard.chosen_on >= old;
            let keep = match guard.confirmed {
                None => young,
                Some((_, on)) => on >= confirmed_long_ago || (spares_the_young && young),
            };
            guard.unlisted_since.is_none_or(|since| since >= unlisted) && keep
        });
        let sample = &self.sample;
        self.primary.retain(|&relay| sample.iter().any(|guard| guard.relay == relay));
        self.primary_current = false;
    }

    /// Which of a client's circuits may be used from now on though their guards are not primary (`entry_guards_upgrade_waiting_circuits`):
    /// all primary guards are down, and no circuit over a better guard, of those that `fits` says the waiting circuit could have had, is in
    /// use or has been in building for less than 15 s. The places of these circuits in `circuits`.
    pub fn upgrade(&mut self, now: SimTime, circuits: &[CircuitOnGuard], fits: impl Fn(usize, RelayIndex) -> bool) -> Vec<usize> {
        if !self.all_primary_down(now) {
            return Vec::new();
        }
        let waiting = |at: &usize| circuits[*at].standing == Standing::Waiting;
        let better = |a: usize, b: usize| self.has_priority(circuits[a].guard, circuits[b].guard);
        let Some(best) = (0..circuits.len()).filter(waiting).reduce(|best, other| if better(other, best) { other } else { best })
        else {
            return Vec::new();
        };
        let recent = |circuit: &CircuitOnGuard| seconds(now) - seconds(circuit.since) < i64::from(self.rules.connect_timeout);
        let blocks = |circuit: &CircuitOnGuard| match circuit.standing {
            Standing::Complete => true,
            Standing::UsableIfNoBetter => recent(circuit),
            Standing::UsableOnCompletion | Standing::Waiting => false,
        };
        if (0..circuits.len()).any(|at| blocks(&circuits[at]) && fits(best, circuits[at].guard) && better(at, best)) {
            return Vec::new();
        }
        (0..circuits.len()).filter(waiting).filter(|&at| !better(best, at)).collect()
    }

    /// Whether a circuit has waited for a better guard for too long (`entry_guard_state_should_expire`).
    pub fn is_expired(&self, now: SimTime, circuit: &CircuitOnGuard) -> bool {
        circuit.standing == Standing::Waiting && seconds(circuit.since) < seconds(now) - i64::from(self.rules.idle_timeout)
    }

    /// `entry_guard_has_higher_priority`: confirmed before others, by order of confirmation; then those being tried, the earlier first.
    fn has_priority(&self, a: RelayIndex, b: RelayIndex) -> bool {
        let (Some(a), Some(b)) = (self.place(a), self.place(b)) else { return false };
        let (a, b) = (&self.sample[a], &self.sample[b]);
        match (a.confirmed, b.confirmed) {
            (Some((a, _)), Some((b, _))) => a < b,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => a.pending && (!b.pending || a.last_tried < b.last_tried),
        }
    }
}

#[cfg(test)]
#[path = "sampled_tests.rs"]
mod tests;
