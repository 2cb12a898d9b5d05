//! What differs between versions of tor, against sums worked out by hand.

mod common;

use common::{in_a_row, mbit};
use onionlab_tor::{ChannelScheduler, Tls};

/// The first circuit opens three channels one after the other, 20 ms away each: TLS 1.2 takes one round trip more at each, 40 ms.
#[test]
fn before_tls_1_3_a_channel_takes_a_round_trip_more() {
    let built = [Tls::V1_3, Tls::V1_2, Tls::Cbc].map(|tls| {
        let mut plan = in_a_row(mbit(1000.0), "kind = \"sequence\"\ntransfers = [{ size = \"1 kB\" }]");
        plan.settings.tls = tls;
        plan.settings.scheduling.channel_scheduler = ChannelScheduler::Vanilla;
        let records = plan.run(30).1;
        let first = records.circuits.iter().min_by_key(|circuit| circuit.circuit).unwrap();
        (first.built.unwrap() - first.launched).as_secs_f64() * 1e3
    });
    // Three round trips to open, and one for each hop that the circuit has by then: 3 * 3 * 40 + (1 + 2 + 3) * 40.
    assert!((built[0] - 600.0).abs() < 3.0, "{built:?}");
    for older in &built[1..] {
        assert!((older - built[0] - 120.0).abs() < 1.0, "{built:?}");
    }
}
