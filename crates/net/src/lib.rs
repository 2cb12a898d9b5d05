#![doc = include_str!("../README.md")]

pub mod latency;
mod link;
mod network;
mod packet;
mod path;
mod queue;
pub mod quic;
pub mod tcp;

pub use link::Shaping;
pub use network::{HostConfig, HostCounters, NetEvent, Network, PacketId, SocketId, Upcall};
pub use path::{Path, Topology};
pub use queue::{CoDel, QueueConfig, QueueDiscipline, UplinkQueue};
