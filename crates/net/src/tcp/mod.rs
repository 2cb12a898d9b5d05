//! TCP without I/O: a state machine that takes segments, instants and byte counts, and returns segments.

mod acknowledge;
mod config;
mod congestion;
mod cubic;
mod effects;
mod flight;
mod hystart;
mod input;
mod output;
mod reassembly;
mod receive;
mod rtt;
mod segment;
mod tcb;
mod ticks;
mod timer;

#[cfg(test)]
mod tests;

pub use config::{BufferLimits, CongestionControl, TcpConfig};
pub use effects::{Effects, State, TcpInfo};
pub use segment::{Flags, SackBlock, Segment};
pub use tcb::Tcb;
