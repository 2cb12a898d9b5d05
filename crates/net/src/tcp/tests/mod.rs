//! Two ends over two wires, judged from outside.

mod harness;

use crate::tcp::TcpConfig;
use harness::Pair;
use onionlab_quantities::{SimDuration, SimTime};

#[test]
fn a_megabyte_arrives() {
    let mut pair = Pair::new(TcpConfig::linux(), SimDuration::from_millis(20), 1);
    pair.ends[0].to_write = 1_000_000;
    pair.run_until_read(1_000_000, SimTime::from_nanos(10_000_000_000));
    println!("{:?}", pair.ends[1].last_read_at);
}
