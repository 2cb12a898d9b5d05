//! A host's access link: what it is given, what it keeps and what it has counted.

use super::write_queue::WriteQueue;
use crate::link::{Shaper, Shaping};
use crate::packet::{NONE, PacketList};
use crate::queue::{CoDel, QueueConfig, UplinkQueue};
use onionlab_quantities::{Bandwidth, RandomStream, Seed, SimTime};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A host's access link.
#[derive(Debug, Clone)]
pub struct HostConfig {
    /// Unique name: it selects the host's random values.
    pub name: String,
    /// Rate towards the network.
    pub up: Bandwidth,
    /// Rate from the network.
    pub down: Bandwidth,
    /// How the rates limit packets.
    pub shaping: Shaping,
    /// What waits for the uplink.
    pub uplink_queue: UplinkQueue,
    /// The queue before the downlink.
    pub queue: QueueConfig,
}

/// What passed a host's access link since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HostCounters {
    /// Bytes that left through the uplink, headers included.
    pub bytes_sent: u64,
    /// Bytes that came through the downlink, headers included.
    pub bytes_received: u64,
    /// Packets that left.
    pub packets_sent: u64,
    /// Packets dropped before the uplink, where it has a queue of its own.
    pub uplink_drops: u64,
    /// Packets dropped by the downlink's queue.
    pub downlink_drops: u64,
    /// Packets that the host sent and the path lost.
    pub path_losses: u64,
}

/// A host's links. What each packet touches comes first.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Host {
    pub(super) up: Shaper,
    /// Until then the uplink is busy.
    pub(super) up_free: SimTime,
    /// Sockets that have something to send, chained through `Socket::ready_next`.
    pub(super) ready_head: u32,
    pub(super) ready_tail: u32,
    pub(super) uplink_queue: UplinkQueue,
    pub(super) up_event: bool,
    /// A packet is in the downlink.
    pub(super) down_busy: bool,
    pub(super) waiting_packets: u32,
    /// Packets that wait for the downlink.
    pub(super) waiting: PacketList,
    pub(super) waiting_bytes: u64,
    pub(super) down: Shaper,
    pub(super) counters: HostCounters,
    pub(super) queue: QueueConfig,
    pub(super) codel: CoDel,
    /// The same as `ready_head` and `ready_tail` where the order of writes decides: number of the write, then order of becoming ready.
    pub(super) ready_by_write: BinaryHeap<Reverse<(u64, u64, u32)>>,
    /// The same where Shadow 1.13's order does.
    pub(super) write_queue: WriteQueue,
    /// How many became ready, and how many writes there were.
    pub(super) made_ready: u64,
    pub(super) writes: u64,
    /// Packets that wait for the uplink, where it has a queue of its own.
    pub(super) leaving: PacketList,
    pub(super) leaving_packets: u32,
    pub(super) stream: RandomStream,
    pub(super) connections: u64,
}

/// The part of a host that each packet touches.
pub(super) const HOT_HOST: usize = std::mem::offset_of!(Host, codel);

impl Host {
    /// A host at whose link nothing has happened yet.
    pub(super) fn new(seed: Seed, config: &HostConfig) -> Self {
        Self {
            up: Shaper::new(config.up, config.shaping),
            up_free: SimTime::ZERO,
            ready_head: NONE,
            ready_tail: NONE,
            uplink_queue: config.uplink_queue,
            up_event: false,
            down_busy: false,
            waiting_packets: 0,
            waiting: PacketList::EMPTY,
            waiting_bytes: 0,
            down: Shaper::new(config.down, config.shaping),
            counters: HostCounters::default(),
            queue: config.queue,
            codel: CoDel::default(),
            ready_by_write: BinaryHeap::new(),
            write_queue: WriteQueue::default(),
            made_ready: 0,
            writes: 0,
            leaving: PacketList::EMPTY,
            leaving_packets: 0,
            stream: RandomStream::new(seed, &config.name, "path"),
            connections: 0,
        }
    }
}
