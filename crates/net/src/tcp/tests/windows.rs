//! The congestion window of a download over a narrow link, held against Linux's own TCP: slow start, HyStart's end of it, CUBIC's growth, a loss.
//!
//! Linux's figures: `tools/measure_tcp.py --only window`, Linux 6.18 with CUBIC, two namespaces, a path and a link with a queue between them, November 2026.
//! In the third case one of two runs had no end of slow start at 490 segments, but a queue that overflowed; which it is hangs on tenths of a millisecond.

use super::harness::Pair;
use super::millis;
use crate::tcp::TcpConfig;
use onionlab_quantities::Bandwidth;

/// A link's Mbit/s, the bytes that may wait before it, ms one way, and Linux's window each 100 ms.
type Case = (u64, u64, u64, [u32; 30]);

const LINUX: [Case; 4] = [
    (
        20,
        200_000,
        40,
        [
            10, 20, 40, 80, 150, 158, 166, 175, 183, 191, 200, 208, 216, 225, 233, 241, 250, 258, 266, 275, 13, 196, 196, 196,
            196, 196, 196, 196, 196, 196,
        ],
    ),
    (
        20,
        400_000,
        40,
        [
            10, 20, 40, 80, 150, 158, 166, 175, 183, 191, 200, 208, 216, 225, 233, 241, 250, 258, 266, 275, 281, 281, 281, 281,
            281, 281, 281, 281, 281, 281,
        ],
    ),
    (
        20,
        400_000,
        100,
        [
            10, 10, 10, 20, 20, 40, 40, 80, 80, 160, 160, 318, 320, 476, 497, 505, 513, 521, 530, 538, 546, 555, 563, 571, 580,
            588, 596, 604, 604, 604,
        ],
    ),
    (
        100,
        1_000_000,
        40,
        [
            10, 20, 40, 80, 160, 473, 937, 1006, 1048, 1057, 1057, 1057, 1057, 1057, 1057, 1057, 1057, 1057, 1057, 1057, 1057,
            1057, 1057, 1057, 1057, 1057, 1057, 1057, 1057, 1057,
        ],
    ),
];

/// Within 4 % and a segment at each instant, while the window grows and after the loss of one segment.
#[test]
fn a_download_over_a_narrow_link_has_linux_s_window() {
    for (megabits, queue, delay, linux) in LINUX {
        let mut pair = Pair::connected(TcpConfig::linux(), millis(delay), 1);
        pair.wires[0].rate = Bandwidth::from_bits_per_sec(10_000_000_000);
        pair.wires[0].bottleneck = Some((Bandwidth::from_bits_per_sec(megabits * 1_000_000), queue));
        let begin = pair.now;
        pair.ends[0].to_write = 4_000_000;
        let ours: Vec<u32> = (0..30)
            .map(|number| {
                pair.run_until(begin + millis(100 * number));
                pair.ends[0].tcb.info(&pair.cfg).cwnd_segments
            })
            .collect();
        assert_eq!(pair.ends[1].read, 4_000_000);
        for (at, (ours_then, linux_then)) in ours.iter().zip(linux).enumerate() {
            let near = (f64::from(*ours_then) - f64::from(linux_then)).abs() <= 1.0 + 0.04 * f64::from(linux_then);
            assert!(near, "{megabits} Mbit/s, {delay} ms, after {at}00 ms: {ours_then} and {linux_then} in {ours:?}");
        }
    }
}
