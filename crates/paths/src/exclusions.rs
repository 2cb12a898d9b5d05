//! Which relays may not stand in one circuit.

use crate::RelayIndex;
use crate::candidates::PathOptions;
use onionlab_directory::{Fingerprint, Relay};
use std::collections::HashMap;
use std::net::Ipv6Addr;
use std::sync::Arc;

/// For each pair of relays, whether they exclude each other: the same relay, one subnet, one family.
///
/// Source: C tor `nodelist.c:nodelist_add_node_and_family`, `nodes_in_same_family`.
#[derive(Debug, Clone)]
pub(crate) struct Exclusions {
    /// By relay: its /16, or its own place where subnets do not count.
    ipv4: Vec<u32>,
    /// By relay: its /32 of IPv6; empty where no relay has any.
    ipv6: Vec<Option<u32>>,
    /// By relay: its family, ascending; empty where no relay has any.
    family: Vec<Arc<[RelayIndex]>>,
}

impl Exclusions {
    pub fn new(relays: &[Relay], options: &PathOptions) -> Self {
        let subnets = options.distinct_subnets;
        let ipv4 = |(relay, index): (&Relay, u32)| if subnets { u32::from(relay.address) >> 16 } else { index };
        let prefix = |address: Ipv6Addr| (u128::from(address) >> 96) as u32;
        let any_ipv6 = subnets && options.ipv6_subnets && relays.iter().any(|relay| relay.ipv6.is_some());
        let ipv6 = relays.iter().filter(|_| any_ipv6).map(|relay| relay.ipv6.map(prefix)).collect();
        let places: HashMap<Fingerprint, RelayIndex> =
            relays.iter().zip(0..).map(|(relay, index)| (relay.fingerprint, RelayIndex(index))).collect();
        let family = |relay: &Relay| -> Arc<[RelayIndex]> {
            let family = options.families.of(relay.fingerprint).iter();
            let mut here: Vec<RelayIndex> = family.filter_map(|other| places.get(other).copied()).collect();
            here.sort_unstable();
            here.into()
        };
        let any_family = options.families.relays() > 0;
        let family = relays.iter().filter(|_| any_family).map(family).collect();
        Self { ipv4: relays.iter().zip(0..).map(ipv4).collect(), ipv6, family }
    }

    /// Whether two relays may stand in one circuit.
    #[inline]
    pub fn apart(&self, a: RelayIndex, b: RelayIndex) -> bool {
        a != b && self.ipv4[a.get()] != self.ipv4[b.get()] && !self.one_ipv6_subnet(a, b) && !self.one_family(a, b)
    }

    fn one_ipv6_subnet(&self, a: RelayIndex, b: RelayIndex) -> bool {
        let of = |relay: RelayIndex| self.ipv6.get(relay.get()).copied().flatten();
        of(a).is_some_and(|subnet| of(b) == Some(subnet))
    }

    fn one_family(&self, a: RelayIndex, b: RelayIndex) -> bool {
        self.family.get(a.get()).is_some_and(|family| family.binary_search(&b).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onionlab_directory::{Class, Families};
    use std::net::Ipv4Addr;

    #[test]
    fn subnets_of_both_kinds_and_families_exclude() {
        let mut relays: Vec<Relay> =
            (0..5).map(|i| Relay::by_hand(&format!("r{i}"), Class::Middle, 1, Ipv4Addr::new(10, i / 2, i, 1))).collect();
        for (at, address) in [(1, "2001:db8::1"), (2, "2001:db8:9::1"), (3, "2001:db9::1")] {
            relays[at].ipv6 = Some(address.parse().unwrap());
        }
        let families = Families::from_lists([[relays[3].fingerprint, relays[4].fingerprint]]);
        let excluded = |options: PathOptions| {
            let exclusions = Exclusions::new(&relays, &options);
            let all = || (0..5).map(RelayIndex);
            let pairs = all().flat_map(|a| all().filter(move |&b| a < b).map(move |b| (a, b)));
            pairs
                .filter(|&(a, b)| !exclusions.apart(a, b) && !exclusions.apart(b, a))
                .map(|(a, b)| (a.0, b.0))
                .collect::<Vec<_>>()
        };
        // 0 and 1, 2 and 3 share a /16; 1 and 2 a /32 of IPv6.
        assert_eq!(excluded(PathOptions::default()), [(0, 1), (1, 2), (2, 3)]);
        assert_eq!(excluded(PathOptions { ipv6_subnets: false, ..PathOptions::default() }), [(0, 1), (2, 3)]);
        assert_eq!(
            excluded(PathOptions { families: families.clone(), ..PathOptions::default() }),
            [(0, 1), (1, 2), (2, 3), (3, 4)]
        );
        assert_eq!(excluded(PathOptions { families, distinct_subnets: false, ..PathOptions::default() }), [(3, 4)]);
    }
}
