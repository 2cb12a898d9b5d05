//! Two ends over two wires, judged from outside.

mod acknowledgements;
mod behaviour;
mod cost;
mod delivery;
pub(crate) mod harness;
mod nstor;
mod recovery;
mod shadow;
mod small_queues;
mod throughput;
mod waiting;
mod windows;

use super::{BufferLimits, CongestionControl, TcpConfig};
use onionlab_quantities::{SimDuration, SimTime};

pub(crate) fn millis(millis: u64) -> SimDuration {
    SimDuration::from_millis(millis)
}
pub(crate) fn at(millis: u64) -> SimTime {
    SimTime::from_nanos(millis * 1_000_000)
}

/// Linux with Reno, buffers that never limit, and every segment acknowledged: what the formulas of the literature assume.
pub(crate) fn textbook() -> TcpConfig {
    TcpConfig {
        congestion_control: CongestionControl::Reno,
        delayed_ack: SimDuration::ZERO,
        send_buffer: BufferLimits::fixed(64 << 20),
        receive_buffer: BufferLimits::fixed(256 << 20),
        ..TcpConfig::linux()
    }
}
