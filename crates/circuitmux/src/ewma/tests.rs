//! EWMA against numbers worked out by hand, its closed form, and the quirks of tor's heap.

use super::*;
use proptest::prelude::*;

const HALF_LIFE: SimDuration = SimDuration::from_secs(30);
const TICK: SimDuration = SimDuration::from_secs(10);

fn seconds(s: f64) -> SimTime {
    SimTime::ZERO + SimDuration::from_secs_f64_rounded(s)
}

fn with_circuits(count: u32) -> Ewma {
    let mut policy = Ewma::new(HALF_LIFE, TICK, EwmaClock::Coarse);
    for slot in 0..count {
        policy.attach(Slot(slot), SimTime::ZERO, 0);
    }
    policy
}

#[test]
fn the_numbers_of_tors_defaults() {
    let mut policy = with_circuits(1);
    policy.notify_active(Slot(0), SimTime::ZERO);
    policy.notify_sent(Slot(0), 1, SimTime::ZERO);
    assert!((policy.count(Slot(0)) - 1.0).abs() < 1e-12);
    // The last coarse instant of the first tick: nearly 1/F = 2^(1/3).
    policy.notify_sent(Slot(0), 1, seconds(9.999));
    assert!((policy.count(Slot(0)) - 2.26).abs() < 0.001);
    // The next tick: everything so far times F = 0.7937005, then a little more than 1.
    policy.notify_sent(Slot(0), 1, seconds(10.004));
    assert!((policy.count(Slot(0)) - (2.259_805 * 0.793_700_5 + 1.0)).abs() < 2e-4, "{}", policy.count(Slot(0)));
}

#[test]
fn a_steady_rate_settles_at_rate_times_half_life_over_ln_two() {
    let mut policy = with_circuits(1);
    policy.notify_active(Slot(0), SimTime::ZERO);
    // 10 cells a second for 600 s, read at the start of a tick: 43.3 * 10.
    for k in 0..=6000 {
        policy.notify_sent(Slot(0), 1, seconds(f64::from(k) * 0.1 + 0.004));
    }
    assert!((policy.count(Slot(0)) - 433.0).abs() < 1.0, "{}", policy.count(Slot(0)));
}

#[test]
fn an_inactive_circuit_keeps_a_long_memory() {
    let mut policy = with_circuits(2);
    policy.notify_active(Slot(0), SimTime::ZERO);
    policy.notify_sent(Slot(0), 16, SimTime::ZERO);
    policy.notify_inactive(Slot(0), SimTime::ZERO);
    policy.notify_active(Slot(1), seconds(60.004));
    policy.notify_sent(Slot(1), 1, seconds(60.004));
    policy.notify_active(Slot(0), seconds(60.004));
    // Two half-lives later 16 cells weigh as much as 4.
    assert!((policy.count(Slot(0)) - 4.0).abs() < 1e-9);
    assert_eq!(policy.pick(seconds(60.004)), Some(Slot(1)));
}

#[test]
fn the_quieter_circuit_is_served_alone_until_counts_meet() {
    let mut policy = with_circuits(2);
    policy.notify_active(Slot(0), SimTime::ZERO);
    policy.notify_sent(Slot(0), 5, SimTime::ZERO);
    policy.notify_active(Slot(1), SimTime::ZERO);
    let order: Vec<u32> = (0..9)
        .map(|_| {
            let slot = policy.pick(SimTime::ZERO).unwrap();
            policy.notify_sent(slot, 1, SimTime::ZERO);
            slot.0
        })
        .collect();
    assert_eq!(order[..5], [1; 5]);
    assert_eq!(order[5..].iter().filter(|&&slot| slot == 0).count(), 2);
}

fn in_order(policy: &Ewma) -> bool {
    (1..policy.heap.len()).all(|place| policy.count(policy.heap[(place - 1) / 2]) <= policy.count(policy.heap[place]))
}

/// tor's heap sifts away from the root only when it removes: what takes the place may be smaller than what is above it, and
/// stays there until the heap moves it for another reason (`smartlist_pqueue_remove`).
#[test]
fn a_removal_can_leave_a_smaller_count_below_a_greater_one() {
    let mut policy = with_circuits(7);
    // Sent before they are active, so that the heap has this shape: 1 over (10, 2), 10 over (11, 12), 2 over (3, 4).
    for (slot, cells) in [1, 10, 2, 11, 12, 3, 4].into_iter().enumerate() {
        policy.circuits[slot].count = f64::from(cells);
        policy.notify_active(Slot(slot as u32), SimTime::ZERO);
    }
    assert!(in_order(&policy));
    // The last, of count 4, takes the place of 11, below 10.
    policy.notify_inactive(Slot(3), SimTime::ZERO);
    assert!(!in_order(&policy));
    assert_eq!(policy.heap[..], [0, 1, 2, 6, 4, 5].map(Slot));
}

/// One step of the table below, in words of the specification's section 2.1 (tick 10 s, half-life 30 s, F = 0.5^(1/3) = 0.7937005).
enum Step {
    /// At so many milliseconds the circuit has cells, or has none.
    Active(u64, u32),
    Inactive(u64, u32),
    /// At so many milliseconds it sends so many; afterwards the counts of circuits 0, 1, 2 are these.
    Sends(u64, u32, u32, [f64; 3]),
}

/// Values worked out by hand: weight F^-f = 2^(milliseconds into the tick / 30000), F = 2^(-1/3), F^2 = 2^(-2/3).
#[test]
fn counts_follow_the_specification_step_by_step() {
    use Step::{Active, Inactive, Sends};
    let steps = [
        Active(0, 0),
        Active(0, 1),
        // The tick's start: weight 1.
        Sends(0, 0, 3, [3.0, 0.0, 0.0]),
        // Half a tick: 2^(1/6) = 1.122462.
        Sends(5_000, 1, 2, [3.0, 2.244_924, 0.0]),
        // 5,003 ms is 5,000 ms on the coarse clock.
        Sends(5_003, 1, 1, [3.0, 3.367_386, 0.0]),
        // Exactly when the tick is over: still the first tick, weight 1/F = 2^(1/3) = 1.259921.
        Sends(10_000, 0, 1, [4.259_921, 3.367_386, 0.0]),
        // 0 falls silent with its count on the first tick's scale.
        Inactive(10_000, 0),
        // 5 s into the second tick: the active circuit 1 is rescaled by F, 3.367386 * 0.793701 = 2.672696; then 2^(1/6). 0 is left alone.
        Sends(15_000, 1, 1, [4.259_921, 3.795_158, 0.0]),
        // 2 joins in the fourth tick (its count is 0 on any scale); nothing is rescaled by an arrival.
        Active(32_000, 2),
        // 0 comes back in the fourth tick, but is brought to the last tick that a send has seen, the second: times F, 3.381102.
        Active(32_000, 0),
        // The send sees the fourth tick, two after the second: 0 and 1 times F^2 = 0.629961; weight 2^(2/30) = 1.047294.
        Sends(32_000, 2, 4, [2.129_961, 2.390_800, 4.189_176]),
        // 1 pauses; it is not rescaled by what others send in the fifth tick: 0 and 2 times F, weight 2^(8/30) = 1.203025.
        Inactive(32_000, 1),
        Sends(48_000, 0, 1, [2.893_577, 2.390_800, 3.324_951]),
        Active(48_000, 1),
        Sends(48_000, 1, 1, [2.893_577, 3.100_604, 3.324_951]),
    ];
    let mut policy = with_circuits(3);
    let at = |millis: u64| SimTime::from_nanos(millis * 1_000_000);
    for (number, step) in steps.into_iter().enumerate() {
        match step {
            Active(millis, slot) => policy.notify_active(Slot(slot), at(millis)),
            Inactive(millis, slot) => policy.notify_inactive(Slot(slot), at(millis)),
            Sends(millis, slot, cells, counts) => {
                policy.notify_sent(Slot(slot), cells, at(millis));
                for (slot, expected) in counts.into_iter().enumerate() {
                    let count = policy.count(Slot(slot as u32));
                    assert!((count - expected).abs() < 2e-6, "step {number}, circuit {slot}: {count}, not {expected}");
                }
            }
        }
        let head = policy.pick(at(0)).map(|slot| policy.count(slot));
        let least = policy.heap.iter().map(|&slot| policy.count(slot)).fold(f64::INFINITY, f64::min);
        assert!(head.is_none_or(|head| head <= least), "step {number}: the smallest count is at the head");
    }
}

/// Between channels the heads' counts are compared as they are, though each may be scaled to another tick: the mux that sends more often keeps
/// its counts small, the other's stand on an old scale.
#[test]
fn heads_of_different_ticks_are_compared_as_they_are() {
    let (mut busy, mut quiet) = (with_circuits(1), with_circuits(1));
    for policy in [&mut busy, &mut quiet] {
        policy.notify_active(Slot(0), SimTime::ZERO);
    }
    quiet.notify_sent(Slot(0), 4, SimTime::ZERO);
    busy.notify_sent(Slot(0), 4, SimTime::ZERO);
    assert_eq!(busy.compare(&quiet), Ordering::Equal);
    // In the third tick: 4 * F^2 + 1.000 = 3.519842 beside 4 on the first tick's scale (2.519842 on the third's).
    busy.notify_sent(Slot(0), 1, seconds(20.004));
    assert!((busy.count(Slot(0)) - 3.519_935).abs() < 2e-6, "{}", busy.count(Slot(0)));
    assert!((quiet.count(Slot(0)) - 4.0).abs() < 1e-12);
    assert_eq!(busy.compare(&quiet), Ordering::Less);
}

#[test]
fn the_time_of_day_is_finer_and_begins_a_tick_at_its_first_instant() {
    let mut policy = Ewma::new(HALF_LIFE, TICK, EwmaClock::Wall);
    policy.attach(Slot(0), SimTime::ZERO, 0);
    policy.notify_active(Slot(0), SimTime::ZERO);
    // 2^(5.003/30) = 1.122540, where the coarse clock reads 5.000 s.
    policy.notify_sent(Slot(0), 1, seconds(5.003));
    assert!((policy.count(Slot(0)) - 1.122_540).abs() < 2e-6, "{}", policy.count(Slot(0)));
    // The first instant of the second tick: times F, then 1.
    policy.notify_sent(Slot(0), 1, seconds(10.0));
    assert!((policy.count(Slot(0)) - 1.890_960).abs() < 2e-6, "{}", policy.count(Slot(0)));
}

proptest! {
    /// Against the closed form, and with it against a model that keeps every cell ever sent: whichever circuit is
    /// picked has the smallest A(t) among the active ones, within rounding, as long as the heap is in order.
    #[test]
    fn the_order_is_that_of_the_closed_form(
        half_life in 1_u64..60, tick in 1_u64..20, wall in any::<bool>(),
        steps in prop::collection::vec((0_u32..8, 0_u64..3_000, 1_u32..4), 1..300),
    ) {
        let half_life = SimDuration::from_secs(half_life);
        let clock = if wall { EwmaClock::Wall } else { EwmaClock::Coarse };
        let mut policy = Ewma::new(half_life, SimDuration::from_secs(tick), clock);
        let mut sent: Vec<Vec<SimTime>> = vec![Vec::new(); 8];
        let mut active = [false; 8];
        let mut now = SimTime::ZERO;
        for slot in 0..8 {
            policy.attach(Slot(slot), now, 0);
        }
        for (slot, wait, cells) in steps {
            now += SimDuration::from_millis(wait * 4);
            let activity = |slot: u32| -> f64 {
                sent[slot as usize].iter().map(|&at| libm::exp2(-(now - at).as_secs_f64() / half_life.as_secs_f64())).sum()
            };
            if active[slot as usize] {
                let picked = policy.pick(now).unwrap();
                prop_assert!(active[picked.index()]);
                let least = (0..8).filter(|&s| active[s as usize]).map(activity).fold(f64::INFINITY, f64::min);
                prop_assert!(!in_order(&policy) || activity(picked.0) <= least * (1.0 + 1e-9) + 1e-12);
                policy.notify_sent(picked, cells, now);
                sent[picked.index()].extend(std::iter::repeat_n(now, cells as usize));
                if cells == 3 {
                    policy.notify_inactive(picked, now);
                    active[picked.index()] = false;
                }
            } else {
                policy.notify_active(Slot(slot), now);
                active[slot as usize] = true;
            }
            for (place, slot) in policy.heap.iter().enumerate() {
                prop_assert_eq!(policy.circuits[slot.index()].place as usize, place);
            }
            let first = policy.pick(now).map_or(f64::INFINITY, |first| policy.count(first));
            prop_assert_eq!(policy.head.to_bits(), first.to_bits());
        }
    }
}
