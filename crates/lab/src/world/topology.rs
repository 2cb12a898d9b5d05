//! Paths between hosts: by place and access delay, or by hand.

use onionlab_engine::HostId;
use onionlab_net::latency::{LatencyTable, Location};
use onionlab_net::{Path, Topology};
use onionlab_quantities::{RandomStream, Seed, SimDuration};
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
        let jitter = if self.jitter { self.table.jitter(from.place, to.place) } else { SimDuration::ZERO };
        Path { latency: self.table.between(from, to), jitter, loss: self.loss as f32, beside: false }
    }
}

/// Paths whose true latencies deviate from what the network says: half of a path's is each end's access link's, which has a factor of its own.
pub(super) struct Uncertain {
    known: Box<dyn Topology>,
    /// By host.
    factors: Vec<f64>,
}

impl Uncertain {
    /// Factors for hosts of these names, from `1 - error` (at least 0.01) to `1 + error`.
    pub fn new<'a>(known: Box<dyn Topology>, error: f64, seed: Seed, names: impl Iterator<Item = &'a str>) -> Self {
        let least = (1.0 - error).max(0.01);
        let factor = |name| least + (1.0 + error - least) * RandomStream::new(seed, name, "latency error").at(0).uniform();
        Self { known, factors: names.map(factor).collect() }
    }
}

impl Topology for Uncertain {
    fn path(&self, a: HostId, b: HostId) -> Path {
        let path = self.known.path(a, b);
        let factor = f64::midpoint(self.factors[a.index()], self.factors[b.index()]);
        Path { latency: path.latency.mul_f64_rounded(factor), ..path }
    }

    fn nominal_latency(&self, a: HostId, b: HostId) -> SimDuration {
        self.known.nominal_latency(a, b)
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
