//! Sampled guards through their lives, against values worked out from entrynodes.c.

use super::*;
use crate::candidates::PathOptions;
use crate::guards::Guards;
use onionlab_directory::{BandwidthWeights, Class, ClassTotals, Params, Relay};
use onionlab_quantities::{Seed, SimDuration};
use std::net::Ipv4Addr;

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

fn at(secs: u64) -> SimTime {
    SimTime::ZERO + SimDuration::from_secs(secs)
}

/// `guards` guards of growing weight, twelve middle relays, eight exits, each in a /16 of its own.
fn network(guards: u64) -> PathSelector {
    let mut relays = Vec::new();
    for (class, count) in [(Class::Guard, guards), (Class::Middle, 12), (Class::Exit, 8)] {
        for i in 0..count {
            let address = Ipv4Addr::new(10 + class as u8, i as u8, 0, 1);
            relays.push(Relay::by_hand(&format!("{class}{i}"), class, 100 + 10 * i, address));
        }
    }
    let weights = BandwidthWeights::compute(&ClassTotals::of(&relays));
    PathSelector::new(&relays, &weights, &PathOptions::default()).unwrap()
}

struct Client {
    guards: SampledGuards,
    network: PathSelector,
    draws: DrawSequence,
}

impl Client {
    fn new(version: GuardVersion, params: &Params, guards: u64) -> Self {
        let Guards::Sampled(guards_of) = Guards::new(GuardRules::new(version, params, None), Seed(3), "client") else {
            unreachable!("0.2.4 is not tested here")
        };
        let draws = RandomStream::new(Seed(3), "test", "draws").sequence();
        Self { guards: guards_of, network: network(guards), draws }
    }

    fn choose(&mut self, secs: u64) -> Option<Choice> {
        self.choose_but(secs, &[])
    }

    fn choose_but(&mut self, secs: u64, excluded: &[RelayIndex]) -> Option<Choice> {
        let draw = self.draws.draw();
        self.guards.choose(at(secs), &self.network, |relay| !excluded.contains(&relay), draw)
    }

    fn succeed(&mut self, secs: u64, choice: Choice) -> Standing {
        self.guards.succeeded(at(secs), &self.network, choice.guard, choice.standing)
    }

    /// Guards that many circuits at one time use.
    fn used(&mut self, secs: u64, excluded: &[RelayIndex]) -> Vec<RelayIndex> {
        let mut used: Vec<_> = (0..60).filter_map(|_| self.choose_but(secs, excluded)).map(|choice| choice.guard).collect();
        used.sort_unstable();
        used.dedup();
        used
    }
}

fn two_in_use() -> Params {
    Params::from_iter([("guard-n-primary-guards-to-use", 2)])
}

#[test]
fn a_client_samples_twenty_and_prefers_the_first_three() {
    let mut client = Client::new(GuardVersion::V0_4_9, &two_in_use(), 40);
    client.choose(0).unwrap();
    let sample: Vec<_> = client.guards.sample().collect();
    assert_eq!(sample.len(), 20);
    assert_eq!(client.guards.primary(), &sample[..3]);
    let mut first_two = sample[..2].to_vec();
    first_two.sort_unstable();
    assert_eq!(client.used(1, &[]), first_two);
}

#[test]
fn the_sample_of_0_3_5_has_no_order() {
    let mut client = Client::new(GuardVersion::V0_3_5, &Params::default(), 40);
    client.choose(0).unwrap();
    let sample: Vec<_> = client.guards.sample().collect();
    assert_eq!(sample.len(), 20);
    assert!(client.guards.primary().iter().all(|guard| sample.contains(guard)));
    assert_ne!(client.guards.primary(), &sample[..3], "with this seed");
    assert_eq!(client.used(1, &[]), [client.guards.primary()[0]]);
}

#[test]
fn a_small_network_is_sampled_whole() {
    let mut client = Client::new(GuardVersion::V0_4_9, &Params::default(), 4);
    client.choose(0).unwrap();
    assert_eq!(client.guards.sample().count(), 4);
}

/// Of two in use the first is excluded by the path: it counts in 0.4.9, so that the second is the only one; in 0.3.5 the third steps in.
#[test]
fn an_excluded_guard_counts_or_is_passed_over() {
    for (version, expected) in [(GuardVersion::V0_4_9, 1..2), (GuardVersion::V0_3_5, 1..3)] {
        let mut client = Client::new(version, &two_in_use(), 40);
        client.choose(0).unwrap();
        let primary = client.guards.primary().to_vec();
        let mut wanted = primary[expected].to_vec();
        wanted.sort_unstable();
        assert_eq!(client.used(0, &primary[..1]), wanted);
        // If the path excludes both, 0.4.9 too goes on to the third.
        assert_eq!(client.used(0, &primary[..2]), primary[2..]);
    }
}

#[test]
fn a_guard_that_is_down_is_tried_again_as_the_schedule_has_it() {
    let mut client = Client::new(GuardVersion::V0_4_9, &Params::default(), 40);
    let first = client.choose(1000).unwrap();
    client.guards.failed(at(1000), first.guard);
    let second = client.choose(1000).unwrap();
    assert_ne!(second.guard, first.guard);
    assert_eq!(second.standing, Standing::UsableOnCompletion, "the next primary guard");
    // Ten minutes after the last attempt, again and again while it has failed for at most six hours.
    assert_eq!(client.choose(1599).unwrap().guard, second.guard);
    assert_eq!(client.choose(1600).unwrap().guard, first.guard);
    client.guards.failed(at(1600), first.guard);
    assert_eq!(client.choose(2199).unwrap().guard, second.guard);
    assert_eq!(client.choose(1000 + 6 * HOUR + 1).unwrap().guard, first.guard);
    // From then on 90 minutes.
    let last = 1000 + 6 * HOUR + 1;
    client.guards.failed(at(last), first.guard);
    assert_eq!(client.choose(last + 5399).unwrap().guard, second.guard);
    assert_eq!(client.choose(last + 5400).unwrap().guard, first.guard);
    // A success wipes the slate clean.
    assert_eq!(client.succeed(last + 5400, first), Standing::Complete);
    client.guards.failed(at(last + 6000), first.guard);
    assert_eq!(client.choose(last + 6599).unwrap().guard, first.guard, "the last attempt was 1200 s ago");
}

#[test]
fn without_a_primary_guard_the_others_wait_for_better_ones() {
    let mut client = Client::new(GuardVersion::V0_4_9, &Params::default(), 40);
    client.choose(0).unwrap();
    let sample: Vec<_> = client.guards.sample().collect();
    for &guard in &sample[..3] {
        client.guards.failed(at(0), guard);
    }
    let choices: Vec<_> = (0..3).map(|_| client.choose(1).unwrap()).collect();
    // In the order of the sample, each once while it is being tried.
    assert_eq!(choices.iter().map(|choice| choice.guard).collect::<Vec<_>>(), &sample[3..6]);
    assert!(choices.iter().all(|choice| choice.standing == Standing::UsableIfNoBetter));
    let circuit = |at: usize, standing, secs| CircuitOnGuard {
        guard: sample[at],
        standing,
        since: SimTime::ZERO + SimDuration::from_secs(secs),
    };
    // The second of the three is built first; confirmed, it becomes primary (there is none confirmed before it).
    assert_eq!(client.succeed(5, choices[1]), Standing::Complete);
    assert_eq!(
        client.guards.primary(),
        [sample[0], sample[1], sample[4]],
        "confirmed, then former primary guards, by place in the sample"
    );
    // The third: confirmed too, and primary.
    assert_eq!(client.succeed(6, choices[2]), Standing::Complete);
    assert_eq!(client.guards.primary(), [sample[0], sample[4], sample[5]]);
    let circuits = [circuit(4, Standing::Complete, 5), circuit(5, Standing::Waiting, 6)];
    assert!(client.guards.upgrade(at(7), &circuits, |_, _| true).is_empty(), "not all primary guards are down");
    for guard in [sample[4], sample[5]] {
        client.guards.failed(at(7), guard);
    }
    assert!(client.guards.upgrade(at(8), &circuits, |_, _| true).is_empty(), "the first confirmed one is in use");
    assert_eq!(
        client.guards.upgrade(at(8), &circuits, |_, guard| guard != sample[4]),
        [1],
        "which this circuit could not have had"
    );
    let trying = [circuit(4, Standing::UsableIfNoBetter, 5), circuit(5, Standing::Waiting, 6)];
    assert!(client.guards.upgrade(at(19), &trying, |_, _| true).is_empty(), "a better one is being tried");
    assert_eq!(client.guards.upgrade(at(20), &trying, |_, _| true), [1], "but for 15 s now");
    assert!(!client.guards.is_expired(at(606), &trying[1]) && client.guards.is_expired(at(607), &trying[1]));
}

#[test]
fn when_nobody_is_left_all_get_another_chance() {
    let mut client = Client::new(GuardVersion::V0_4_9, &Params::default(), 4);
    client.choose(0).unwrap();
    let sample: Vec<_> = client.guards.sample().collect();
    for &guard in &sample {
        client.guards.failed(at(0), guard);
    }
    assert_eq!(client.choose(1), None);
    assert_eq!(client.choose(1).unwrap().guard, sample[0]);
}

/// A fourth guard works while the three primary ones, all confirmed, are down: within ten minutes of the last success that says nothing of
/// them, later it means that the internet is back.
#[test]
fn back_on_line_the_primary_guards_get_another_chance() {
    let mut client = Client::new(GuardVersion::V0_4_9, &Params::default(), 40);
    client.choose(0).unwrap();
    let sample: Vec<_> = client.guards.sample().collect();
    for &guard in &sample[..3] {
        client.guards.succeeded(at(0), &client.network, guard, Standing::UsableOnCompletion);
    }
    for (secs, retried) in [(300, false), (901, true)] {
        for &guard in &sample[..3] {
            let only = |relay| relay == guard;
            client.guards.choose(at(secs), &client.network, only, RandomStream::new(Seed(1), "test", "draw").at(0));
            client.guards.failed(at(secs), guard);
        }
        assert!(client.guards.all_primary_down(at(secs)));
        let standing = client.guards.succeeded(at(secs), &client.network, sample[10], Standing::UsableIfNoBetter);
        assert_eq!(standing, Standing::Waiting);
        assert_eq!(client.guards.primary(), &sample[..3]);
        assert_eq!(client.guards.all_primary_down(at(secs)), !retried);
    }
}

#[test]
fn guards_grow_old() {
    let mut client = Client::new(GuardVersion::V0_4_9, &Params::default(), 40);
    let choice = client.choose(0).unwrap();
    client.succeed(0, choice);
    // Dates lie up to twelve days in the past.
    client.guards.consensus_arrived(at(47 * DAY), |_| true);
    assert_eq!(client.guards.sample().count(), 20);
    assert_eq!(client.guards.confirmed(), [choice.guard]);
    client.guards.consensus_arrived(at(60 * DAY + 1), |_| true);
    assert!(client.guards.confirmed().is_empty(), "a confirmed guard is kept for 60 days");
    assert_eq!(client.guards.sample().count(), 19);
    client.guards.consensus_arrived(at(107 * DAY), |_| true);
    assert_eq!(client.guards.sample().count(), 19);
    client.guards.consensus_arrived(at(120 * DAY + 1), |_| true);
    assert_eq!(client.guards.sample().count(), 0);
    assert!(client.choose(120 * DAY + 2).is_some(), "the sample is filled anew");
    assert_eq!(client.guards.sample().count(), 20);
}

#[test]
fn a_confirmed_guard_of_0_3_5_is_kept_for_its_whole_lifetime() {
    let mut client = Client::new(GuardVersion::V0_3_5, &Params::default(), 40);
    let choice = client.choose(0).unwrap();
    client.succeed(0, choice);
    client.guards.consensus_arrived(at(107 * DAY), |_| true);
    assert_eq!(client.guards.confirmed(), [choice.guard]);
    client.guards.consensus_arrived(at(120 * DAY + 1), |_| true);
    assert!(client.guards.confirmed().is_empty());
}

#[test]
fn a_guard_that_is_not_listed_is_not_used_and_in_the_end_forgotten() {
    let mut client = Client::new(GuardVersion::V0_4_9, &Params::default(), 40);
    let choice = client.choose(0).unwrap();
    client.succeed(0, choice);
    client.guards.consensus_arrived(at(DAY), |relay| relay != choice.guard);
    let next = client.choose(DAY).unwrap();
    assert_ne!(next.guard, choice.guard);
    client.guards.consensus_arrived(at(2 * DAY), |_| true);
    assert_eq!(client.choose(2 * DAY).unwrap().guard, choice.guard, "back in the list, confirmed, and so primary");
    client.guards.consensus_arrived(at(3 * DAY), |relay| relay != choice.guard);
    client.guards.consensus_arrived(at(23 * DAY + 1), |relay| relay != choice.guard);
    assert!(client.guards.sample().all(|guard| guard != choice.guard), "after 20 days");
}
