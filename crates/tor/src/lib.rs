#![doc = include_str!("../README.md")]

#[cfg(test)]
mod bench_relay;
mod bucket;
mod building;
mod byte_latency;
mod cell;
mod channel;
mod circuit;
mod client;
mod closing;
mod coarse_clock;
mod conflux;
mod connections;
mod cpu;
mod dedicated;
mod delivering;
mod edge;
mod edge_tokens;
mod event_loop;
mod handshakes;
mod hash_order;
mod head_of_line;
mod held_open;
mod idle;
mod ids;
mod light_heavy;
mod links;
mod memory;
mod node;
mod onion;
mod opening;
mod outbuf;
mod over_quic;
mod packaging;
mod predictor;
mod probes;
mod queues;
mod random_cells;
mod reading;
mod records;
mod sampling;
mod scheduler;
mod sent;
mod server;
mod settings;
mod sockets;
mod stream;
mod switching;
#[cfg(test)]
mod test_world;
mod tls;
mod traffic;
mod world;
mod writing;

pub use bucket::TokenRefill;
pub use cell::{CELL_BYTES, RELAY_PAYLOAD_SIZE_MAX, RELAY_PAYLOAD_SIZE_V1};
pub use channel::ChannelKind;
pub use client::{BuildTimeModel, BuildTimeoutParameters, ClientConfig, ClientOptions, PathRequest, PathSource, Purpose};
pub use conflux::ConfluxSettings;
pub use cpu::Cpu;
pub use handshakes::{Handshake, Handshakes};
pub use head_of_line::Held;
pub use idle::{IdleChannels, IdleTimeout};
pub use ids::ClientId;
pub use links::{LinkCount, LinkSample};
pub use memory::{MemoryCounts, MemoryLimit};
pub use node::{PerClass, RateLimit, RelayClass, Role};
pub use predictor::{ControllerSample, Feedback, Phase, PlanSample, PredictorSettings};
pub use probes::{ProbeOutcome, ProbeRecord};
pub use records::{
    ChannelClose, ChannelRecord, CircuitOutcome, CircuitPurpose, CircuitRecord, CircuitSerial, CloseReason, ExchangeKind,
    LatencySample, NetworkSample, Outcome, Records, RelaySample, TransferRecord, VegasSample, VegasState,
};
pub use settings::{
    ChannelReads, ChannelScheduler, ClientSettings, CongestionSettings, DestroyCells, Epoll, FlowControl, Links, Scheduling,
    Settings, SomeRelays,
};
pub use sockets::CONNECTION_BYTES;
pub use switching::{
    AT_REST, SpareRequest, SwitchAsk, SwitchChoice, SwitchEntry, SwitchExit, SwitchOccupancy, SwitchOutcome, SwitchRecord,
    SwitchSample, SwitchVerdict, SwitchingSettings,
};
pub use tls::Tls;
pub use traffic::LightAndHeavy;
pub use world::{World, WorldConfig};
