//! Addresses in clusters, as providers make them: a Pitman-Yor process over /16 networks, one over the /24 of each.
//!
//! A relay joins a network with a chance that grows with the number of relays already in it, or opens a new one. That gives
//! few large clusters and very many networks with a single relay, as in the real documents (Pitman and Yor 1997).

use super::model::AddressModel;
use onionlab_quantities::random::DrawSequence;
use onionlab_quantities::{RandomStream, Seed};
use std::collections::HashSet;
use std::net::Ipv4Addr;

pub(super) struct Addresses {
    model: AddressModel,
    draws: DrawSequence,
    networks: Vec<Network>,
    relays: u32,
    taken: HashSet<u16>,
}

/// A /16 network.
struct Network {
    prefix: u16,
    relays: u32,
    subnets: Vec<Subnet>,
}

/// A /24 network.
struct Subnet {
    third: u8,
    relays: u32,
    /// Last octet and number of relays.
    hosts: Vec<(u8, u32)>,
}

/// Concentration of the /24 networks within a /16; the fit of their discount takes it as given.
const CONCENTRATION_24: f64 = 1.0;

impl Addresses {
    pub(super) fn new(model: &AddressModel, seed: Seed) -> Self {
        let draws = RandomStream::new(seed, "network", "synthetic addresses").sequence();
        Self { model: *model, draws, networks: Vec::new(), relays: 0, taken: HashSet::new() }
    }

    /// The address of the next relay.
    pub(super) fn next(&mut self) -> Ipv4Addr {
        let AddressModel { discount_16, concentration_16, discount_24, .. } = self.model;
        let sizes = self.networks.iter().map(|network| network.relays);
        let at = match join(sizes, self.relays, discount_16, concentration_16, self.draws.draw().uniform()) {
            // Every public /16 is in use only in networks much larger than Tor.
            None if self.taken.len() < 40_000 => {
                let prefix = self.new_prefix();
                self.networks.push(Network { prefix, relays: 0, subnets: Vec::new() });
                self.networks.len() - 1
            }
            None => self.draws.draw().below(self.networks.len() as u64) as usize,
            Some(at) => at,
        };
        self.relays += 1;
        let network = &mut self.networks[at];
        let sizes = network.subnets.iter().map(|subnet| subnet.relays);
        let at = match join(sizes, network.relays, discount_24, CONCENTRATION_24, self.draws.draw().uniform()) {
            None if network.subnets.len() < 256 => {
                let third = unused(&mut self.draws, |third| network.subnets.iter().any(|subnet| subnet.third == third));
                network.subnets.push(Subnet { third, relays: 0, hosts: Vec::new() });
                network.subnets.len() - 1
            }
            None => self.draws.draw().below(256) as usize,
            Some(at) => at,
        };
        network.relays += 1;
        let (subnet, prefix) = (&mut network.subnets[at], network.prefix);
        let last = host(&self.model, subnet, &mut self.draws);
        subnet.relays += 1;
        Ipv4Addr::from(u32::from(prefix) << 16 | u32::from(subnet.third) << 8 | u32::from(last))
    }

    /// A public /16 that no relay is in.
    fn new_prefix(&mut self) -> u16 {
        loop {
            let prefix = self.draws.draw().below(1 << 16) as u16;
            let [a, b] = prefix.to_be_bytes();
            let special = matches!((a, b), (0 | 10 | 127 | 224.., _) | (100, 64..=127) | (169, 254) | (172, 16..=31))
                || matches!((a, b), (192, 0 | 88 | 168) | (198, 18 | 19 | 51) | (203, 0));
            if !special && self.taken.insert(prefix) {
                return prefix;
            }
        }
    }
}

/// The cluster that the next member joins, `None` for a new one: chances (size - discount) and concentration + discount * clusters.
fn join(sizes: impl Iterator<Item = u32>, members: u32, discount: f64, concentration: f64, uniform: f64) -> Option<usize> {
    let mut left = uniform * (f64::from(members) + concentration);
    for (at, size) in sizes.enumerate() {
        left -= f64::from(size) - discount;
        if left < 0.0 {
            return Some(at);
        }
    }
    None
}

/// The last octet: that of another relay of the /24, as far as the authorities allow, or a new one.
fn host(model: &AddressModel, subnet: &mut Subnet, draws: &mut DrawSequence) -> u8 {
    let most = model.most_per_address;
    let share = draws.draw().chance(model.shared_address) || subnet.hosts.len() == 256;
    let open: Vec<usize> = (0..subnet.hosts.len()).filter(|&at| subnet.hosts[at].1 < most).collect();
    if share && !open.is_empty() {
        let at = open[draws.draw().below(open.len() as u64) as usize];
        subnet.hosts[at].1 += 1;
        return subnet.hosts[at].0;
    }
    if subnet.hosts.len() == 256 {
        // Full and every address at its limit: only in networks many times the size of Tor.
        return draws.draw().below(256) as u8;
    }
    let last = unused(draws, |last| subnet.hosts.iter().any(|&(host, _)| host == last));
    subnet.hosts.push((last, 1));
    last
}

/// An octet that is not in use; the caller knows that there is one.
fn unused(draws: &mut DrawSequence, in_use: impl Fn(u8) -> bool) -> u8 {
    loop {
        let octet = draws.draw().below(256) as u8;
        if !in_use(octet) {
            return octet;
        }
    }
}
