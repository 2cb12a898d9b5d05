//! Links of Shadow 1: what waits passes together, and what leaves at once tells the round trip.

mod star;

use onionlab_net::tcp::{RoundTrips, TcpConfig};
use onionlab_net::{Shaping, UplinkQueue};
use onionlab_quantities::{SimDuration, SimTime};
use star::Star;

const BURSTS: Shaping = Shaping::Bursts { span: SimDuration::from_millis(5) };
/// A full segment with its headers, in bytes.
const PACKET: u64 = 1500;

fn millis(millis: u64) -> SimTime {
    SimTime::from_nanos(millis * 1_000_000)
}

fn shadow_1() -> TcpConfig {
    TcpConfig { round_trips: RoundTrips::Released, min_rto: SimDuration::from_millis(200), ..TcpConfig::shadow() }
}

/// Hosts of these rates in Mbit/s, 40 ms apart.
fn star(rates: &[u64]) -> Star {
    Star::shaped(BURSTS, shadow_1(), rates, UplinkQueue::WriteHeap, 1_000_000)
}

/// A bulk flow before a narrow uplink, and one before a narrow downlink: both carry what a wire would, and it comes each 5 ms and a packet, together.
#[test]
fn what_waits_passes_together_and_the_rate_is_kept() {
    for rates in [[20, 1000], [1000, 20]] {
        let mut star = star(&rates);
        star.start(0, 1, 1 << 40);
        star.run_until(millis(5000));
        let start = star.delivered()[0];
        let (mut before, mut bursts) = (start, Vec::new());
        for milli in 5001..=10_000 {
            star.run_until(millis(milli));
            let delivered = star.delivered()[0];
            if delivered > before {
                bursts.push(delivered - before);
            }
            before = delivered;
        }
        let rate = (before - start) as f64 / 5.0;
        let wire = 2_500_000.0 * 1460.0 / 1500.0;
        assert!((rate / wire - 1.0).abs() < 0.01, "{rates:?}: {rate} bytes a second, a wire has {wire}");
        // More than 5 ms are taken as soon as the packet that begins before their end is there: nine packets of 0.6 ms, each 5.4 ms.
        let packets = bursts.iter().sum::<u64>() as f64 / bursts.len() as f64 / 1460.0;
        assert!((packets - 9.0).abs() < 0.3, "{rates:?}: {packets} packets at a time");
    }
}

/// A packet that finds both links free takes no longer than the path, however narrow they are.
#[test]
fn a_packet_that_finds_the_link_free_passes_at_once() {
    let mut star = star(&[1, 1]);
    star.start(0, 1, PACKET - 40);
    star.run_until(millis(121));
    // SYN, its answer, the data: three ways of 40 ms; at 1 Mbit/s a wire would take 12 ms for the segment at each end.
    assert_eq!(star.delivered()[0], PACKET - 40);
}

/// The answer to a SYN echoes its time if it leaves at once. If the uplink is busy it leaves later, and the opener knows no round trip.
#[test]
fn what_waits_for_the_uplink_tells_no_round_trip() {
    for (busy, rto) in [(false, 240), (true, 1000)] {
        let mut star = Star::shaped(BURSTS, shadow_1(), &[1000, 1000, 2], UplinkQueue::Sockets, 1_000_000);
        star.start(2, 1, if busy { 1 << 40 } else { 1000 });
        star.run_until(millis(3000));
        star.start(0, 2, 1000);
        star.run_until(millis(4500));
        let info = star.info(1);
        assert!(info.peer_window > 0, "it was answered");
        assert_eq!(info.rto.as_micros() / 1000, rto, "busy: {busy}");
    }
}

/// 80 ms of 4 Mbit/s, the slower link, are 40,000 bytes; a quarter more are 50,000, which the opener has for a send buffer when the SYN is answered. Whoever reads has 87,380
/// at least, which grow to twice what comes in a round trip; the window, offered before, follows as data comes. Without a round trip all are what they began with.
#[test]
fn buffers_have_what_the_path_holds() {
    let fitted = |tcp: TcpConfig| {
        let mut star = Star::shaped(BURSTS, tcp, &[20, 4, 1000], UplinkQueue::WriteHeap, 1_000_000);
        // What is sent at time nought has no time that could be echoed.
        star.start(2, 1, 1000);
        star.run_until(millis(1000));
        star.start(0, 1, 200_000);
        star.run_until(millis(1100));
        let buffer = star.info(1).send_buffer;
        star.run_until(millis(5000));
        assert_eq!(star.delivered()[1], 200_000);
        (buffer, star.info(1).peer_window)
    };
    let (buffer, window) = fitted(shadow_1());
    assert_eq!(buffer, 50_000);
    assert!((87_380..120_000).contains(&window), "{window}");
    let (buffer, window) = fitted(TcpConfig { round_trips: RoundTrips::Never, ..shadow_1() });
    assert!(buffer == 131_072 && window > 174_000, "{buffer} {window}");
}
