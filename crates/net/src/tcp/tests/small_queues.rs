//! How much of a connection its host's queue may hold, against Linux 6.18 (`tools/measure_small_queues.py`).

use super::super::{Tcb, TcpConfig};
use onionlab_quantities::SimDuration;

/// cwnd, ssthresh, smoothed round trip in microseconds; what the socket had in the queue, in segments of 2280 B.
const LINUX: [(u32, u32, u64, u32); 4] = [
    // 2 Mbit/s.
    (26, u32::MAX, 40_000, 2),
    (10, u32::MAX, 35_488, 2),
    // 300 Mbit/s.
    (135, 100, 2_909, 35),
    (128, 96, 2_983, 32),
];

#[test]
fn a_socket_has_two_segments_in_the_queue_or_a_millisecond() {
    let cfg = TcpConfig::linux();
    for (cwnd, ssthresh, srtt, segments) in LINUX {
        let mut tcb = Tcb::new(&cfg);
        (tcb.congestion.cwnd, tcb.congestion.ssthresh) = (cwnd, ssthresh);
        tcb.rtt.sample(&cfg, SimDuration::from_micros(srtt), 1, 1);
        assert_eq!(tcb.small_queue(&cfg), segments, "cwnd {cwnd}, {srtt} us");
    }
}

/// Before any round trip is known nothing is paced: the initial window goes at once.
#[test]
fn the_first_window_is_not_held_back() {
    let cfg = TcpConfig::linux();
    assert!(Tcb::new(&cfg).small_queue(&cfg) > cfg.initial_window);
}

/// A window without a limit fills 31 bits, and times a large segment and the pacing of slow start more than 64.
#[test]
fn a_window_without_a_limit_is_held_to_the_limit_of_the_queue() {
    let cfg = TcpConfig { mss: 8948, ..TcpConfig::linux() };
    let mut tcb = Tcb::new(&cfg);
    tcb.congestion.cwnd = 0x7fff_ffff;
    tcb.rtt.sample(&cfg, SimDuration::from_micros(40_000), 1, 1);
    let most = tcb.small_queue(&cfg);
    tcb.congestion.cwnd = 100_000_000;
    assert_eq!(tcb.small_queue(&cfg), most);
}
