//! What lies between two hosts.

use onionlab_engine::HostId;
use onionlab_quantities::SimDuration;

/// A path between two hosts, the same in both directions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Path {
    /// One-way latency, without serialisation and queueing.
    pub latency: SimDuration,
    /// Mean of an exponentially distributed extra delay per packet. It never reorders: a packet arrives no earlier than the one
    /// before it on the same connection.
    pub jitter: SimDuration,
    /// Probability that a packet is lost, each independently of all others; in [0, 1].
    pub loss: f32,
    /// The two are beside each other, as programs of one host: what passes between them takes neither's access link, and nothing of it is lost.
    pub beside: bool,
}

/// The paths between all hosts: a table by place, or one that was written by hand. Never a host-by-host matrix.
pub trait Topology: Send {
    /// The path from `a` to `b`; the same as from `b` to `a`.
    fn path(&self, a: HostId, b: HostId) -> Path;

    /// The one-way latency that the hosts take this path to have, where they plan with it: the true one, unless that deviates from what is known of it.
    fn nominal_latency(&self, a: HostId, b: HostId) -> SimDuration {
        self.path(a, b).latency
    }
}
