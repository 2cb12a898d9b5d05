//! Two ends over two wires, judged from outside.

mod behaviour;
mod delivery;
mod harness;
mod quinn;
mod recovery;
mod throughput;

use super::QuicConfig;
use crate::tcp::BufferLimits;
use crate::tcp::tests::{at, millis};

/// No pacing, no delayed acknowledgements, windows that never limit: what the formulas of the literature assume.
fn textbook() -> QuicConfig {
    QuicConfig {
        pacing: false,
        ack_every: 1,
        stream_window: BufferLimits::fixed(256 << 20),
        connection_window: BufferLimits::fixed(1 << 30),
        send_buffer: BufferLimits::fixed(64 << 20),
        ..QuicConfig::standard()
    }
}
