use super::*;
use proptest::prelude::*;

fn exit() -> Vegas {
    Vegas::new(Arc::new(VegasParameters::new(PathType::Exit)))
}

fn at(micros: u64) -> SimTime {
    SimTime::ZERO + SimDuration::from_micros(micros)
}

/// Sends until the window is full at `now`, then acknowledges the oldest increment as if it had taken `rtt` microseconds.
fn round(vegas: &mut Vegas, now: u64, rtt: u64, blocked: bool) {
    while vegas.can_send() {
        vegas.data_sent(at(now));
    }
    vegas.sent_at[0] = now as u32;
    vegas.sendme_received(at(now + rtt), Signals { blocked, queued: 0 }).unwrap();
}

/// What an exit running tor 0.4.9 logged, in milliseconds: round-trip times 7, 57, 64, 64; smoothed 7, 40, 56, 62; bandwidth-delay
/// products 124, 28, 24, 26; windows before each SENDME 124, 155, 186, 217, and 212 at the end of slow start. The
/// microseconds are ours, chosen within the rounding of the log.
#[test]
fn slow_start_as_a_real_exit_logged_it() {
    let mut vegas = exit();
    let mut seen = Vec::new();
    for rtt in [7_400, 57_000, 64_400, 64_400] {
        let before = vegas.cwnd();
        round(&mut vegas, 1_000_000, rtt, false);
        seen.push((before, (vegas.ewma_rtt + 500) / 1_000, vegas.bdp()));
    }
    assert_eq!(seen, [(124, 7, 124), (155, 40, 28), (186, 56, 24), (217, 62, 26)]);
    assert_eq!(vegas.cwnd(), 212);
    assert!(!vegas.in_slow_start());
}

/// The same log later: with 251 cells queued, more than beta, the window falls by one cell at each SENDME.
#[test]
fn steady_state_moves_one_cell_a_sendme() {
    let mut vegas = exit();
    vegas.in_slow_start = false;
    vegas.next_cc_event = 0;
    vegas.cwnd = 270;
    vegas.min_rtt = 7_400;
    let windows: Vec<u32> = (0..3)
        .map(|_| {
            // A time that keeps the estimate of the queue at 251 cells.
            vegas.ewma_rtt = vegas.cwnd * 7_400 / (vegas.cwnd - 251);
            let rtt = vegas.ewma_rtt;
            round(&mut vegas, 1_000_000, rtt, false);
            vegas.cwnd()
        })
        .collect();
    assert_eq!(windows, [269, 268, 267]);
}

#[test]
fn a_long_queue_cuts_the_window_to_delta() {
    let mut vegas = exit();
    (vegas.in_slow_start, vegas.next_cc_event, vegas.cwnd) = (false, 0, 1_000);
    (vegas.min_rtt, vegas.ewma_rtt) = (50_000, 100_000);
    round(&mut vegas, 1_000_000, 100_000, false);
    assert_eq!((vegas.bdp(), vegas.cwnd()), (500, 500 + 310 - 1));
}

#[test]
fn a_blocked_channel_ends_slow_start_and_then_shrinks_the_window() {
    let mut vegas = exit();
    round(&mut vegas, 1_000_000, 50_000, true);
    // No queue is seen, so the product is the window: it even grows, but slow start is over.
    assert_eq!((vegas.in_slow_start(), vegas.cwnd()), (false, 124 + 186));
    round(&mut vegas, 1_100_000, 50_000, true);
    assert_eq!(vegas.cwnd(), 309);
    // Unblocked: the window is free to grow again.
    round(&mut vegas, 1_200_000, 50_000, false);
    assert_eq!(vegas.cwnd(), 310);
}

#[test]
fn beyond_the_cap_slow_start_slows_down() {
    let mut vegas = exit();
    vegas.cwnd = 600;
    assert_eq!(vegas.slow_start_step(), 31);
    vegas.cwnd = 601;
    // (31 * 600 + 601) / 1202
    assert_eq!(vegas.slow_start_step(), 15);
    vegas.cwnd = 50_000;
    assert_eq!(vegas.slow_start_step(), 1);
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    let mut vegas = exit();
    // 31 of 124 cells are 25 percent: neither full nor, by the least percentage, empty; the window starts as not full.
    Arc::make_mut(&mut vegas.parameters).cwnd_full_gap = 1;
    for _ in 0..31 {
        vegas.data_sent(at(0));
    }
    vegas.sendme_received(at(50_000), Signals::default()).unwrap();
    assert_eq!((vegas.cwnd(), vegas.inflight()), (124, 0));
}

#[test]
fn the_least_window_resets_the_least_time() {
    let mut vegas = exit();
    (vegas.in_slow_start, vegas.cwnd) = (false, 124);
    (vegas.min_rtt, vegas.ewma_rtt) = (10_000, 40_000);
    vegas.take_rtt(40_000);
    assert_eq!(vegas.min_rtt, 40_000);
    vegas.cwnd = 125;
    vegas.take_rtt(400_000);
    assert_eq!((vegas.min_rtt, vegas.ewma_rtt), (40_000, (800_000 + 40_000) / 3));
}

#[test]
fn a_sendme_for_nothing_is_refused_and_changes_nothing() {
    let mut vegas = exit();
    for _ in 0..30 {
        vegas.data_sent(at(0));
    }
    assert_eq!(vegas.sendme_received(at(50_000), Signals::default()), Err(FlowError::UnexpectedSendme));
    assert_eq!((vegas.inflight(), vegas.cwnd()), (30, 124));
}

/// A path that holds 500 cells without queueing: the window must settle where alpha to beta more cells are queued.
#[test]
fn on_a_steady_bottleneck_the_queue_settles_between_alpha_and_beta() {
    let mut vegas = exit();
    // One cell leaves the bottleneck every 200 us; the way there and back takes 100 ms.
    let (gap, way) = (200, 100_000);
    let mut deliveries: VecDeque<(u64, u64)> = VecDeque::new();
    let (mut now, mut free_at, mut delivered) = (0, 0_u64, 0_u64);
    for _ in 0..200_000 {
        while vegas.can_send() {
            vegas.data_sent(at(now));
            free_at = free_at.max(now) + gap;
            deliveries.push_back((free_at + way, now));
        }
        let (arrival, _) = deliveries.pop_front().unwrap();
        now = arrival;
        delivered += 1;
        if delivered.is_multiple_of(31) {
            vegas.sendme_received(at(now), Signals::default()).unwrap();
        }
    }
    assert!(!vegas.in_slow_start());
    assert!((186..=248).contains(&vegas.queue_use()), "{}", vegas.queue_use());
    let path = way / gap;
    assert!((path + 150..=path + 300).contains(&vegas.cwnd), "{}", vegas.cwnd);
}

proptest! {
    /// Whatever arrives when: the cells in flight never exceed the window they were sent under, never go negative, and the window
    /// stays within its bounds.
    #[test]
    fn the_window_is_never_exceeded(steps in prop::collection::vec((0_u32..200, 0_u64..200_000, any::<bool>(), 0_u32..300), 1..400)) {
        let mut vegas = exit();
        let (mut now, mut sent, mut acknowledged) = (1_u64, 0_u64, 0_u64);
        for (cells, wait, blocked, queued) in steps {
            now += wait;
            for _ in 0..cells {
                if vegas.can_send() {
                    prop_assert!(vegas.inflight() < vegas.cwnd());
                    vegas.data_sent(at(now));
                    sent += 1;
                }
            }
            if sent - acknowledged >= 31 && wait % 3 != 0 {
                vegas.sendme_received(at(now), Signals { blocked, queued }).unwrap();
                acknowledged += 31;
            } else if sent - acknowledged < 31 {
                let signals = Signals { blocked, queued };
                prop_assert!(vegas.clone().sendme_received(at(now), signals).is_err());
            }
            prop_assert_eq!(u64::from(vegas.inflight()), sent - acknowledged);
            prop_assert_eq!(vegas.sent_at.len() as u64, (sent - acknowledged) / 31);
            prop_assert!(vegas.in_slow_start() || vegas.cwnd() >= 124);
            prop_assert!(i32::try_from(vegas.cwnd()).is_ok());
        }
    }
}
