//! Paths between hosts: by place and access delay, or by hand.

use onionlab_engine::HostId;
use onionlab_net::latency::{LatencyTable, Location};
use onionlab_net::{Path, Topology};
use std::collections::BTreeMap;

/// Paths of a sampled network: latency by the places of the two hosts and their access delays.
pub(super) struct ByPlace {
    pub table: LatencyTable,
    /// By host.
    pub locations: Vec<Location>,
    pub jitter: bool,
    pub loss: f64,
}

impl Topology for ByPlace {
    fn path(&self, a: HostId, b: HostId) -> Path {
        let [from, to] = [a, b].map(|host| self.locations[host.index()]);
        let jitter = if self.jitter { self.table.jitter(from.place, to.place) } else { onionlab_quantities::SimDuration::ZERO };
        Path { latency: self.table.between(from, to), jitter, loss: self.loss as f32 }
    }
}

/// Paths of a network by hand: the links that were named, and one path for all other pairs.
pub(super) struct ByHand {
    /// By the two hosts, the lesser first.
    pub links: BTreeMap<[u32; 2], Path>,
    pub default: Path,
}

impl Topology for ByHand {
    fn path(&self, a: HostId, b: HostId) -> Path {
        self.links.get(&[a.0.min(b.0), a.0.max(b.0)]).copied().unwrap_or(self.default)
    }
}
