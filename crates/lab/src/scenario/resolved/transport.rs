//! What links and TCP are like.

use crate::scenario::treatment::{DownlinkQueue, LinkProfile, LinkShaping, RoundTrips, Tcp, UplinkQueue};
use onionlab_quantities::{Bytes, SimDuration};
use serde::Serialize;

/// A value on every axis of the link profile.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Transport {
    /// The link profile.
    pub net: LinkProfile,
    /// Congestion control.
    pub tcp: Tcp,
    /// Between two ticks of the hosts' kernels, with KIST and KIST-lite, and where the file says so; zero: clocks are exact. `None`: the link profile's.
    pub kernel_tick: Option<SimDuration>,
    /// Nagle's algorithm.
    pub nagle: bool,
    /// HyStart, with CUBIC.
    pub hystart: Option<bool>,
    /// Slow start after idle.
    pub slow_start_after_idle: bool,
    /// Initial window in segments.
    pub initial_window: u32,
    /// Bytes in a full segment.
    pub mss: u32,
    /// Headers of a packet.
    pub packet_header: Bytes,
    /// Shortest delay of an acknowledgement that waits for a second segment.
    pub delayed_ack: SimDuration,
    /// Least time that a retransmission time-out allows beyond the round trip.
    pub min_rto: SimDuration,
    /// Which round trips set the retransmission time-out; `None`: the link profile's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round_trips: Option<RoundTrips>,
    /// Limit of a send buffer.
    pub send_buffer: Bytes,
    /// Limit of a receive buffer.
    pub receive_buffer: Bytes,
    /// How an access link keeps its rate.
    pub link_shaping: LinkShaping,
    /// What waits for an uplink.
    pub uplink_queue: UplinkQueue,
    /// Packets before an uplink at most, where they have a queue.
    pub uplink_queue_packets: Option<u32>,
    /// Queue before a downlink.
    pub downlink_queue: DownlinkQueue,
    /// What it holds at most.
    pub downlink_queue_size: Bytes,
    /// Packets that it holds at most; `None`: only their bytes count.
    pub downlink_queue_packets: Option<u32>,
    /// CoDel's target, with CoDel.
    pub codel_target: Option<SimDuration>,
    /// CoDel's interval, with CoDel.
    pub codel_interval: Option<SimDuration>,
}
