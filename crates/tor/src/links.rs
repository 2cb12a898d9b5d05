//! Links: how many pairs of neighbouring relays the circuits in use go over, and how many of these pairs carry several.
//!
//! A circuit is in use while a stream is open on it, and busy in an interval in which a cell of it has passed its client; the paper counts the busy ones of a second. It has two parts, guard to middle and middle to exit; a link is a pair of relays with at
//! least one part, and shared with two or more (Pahl, Kaiser, Engel and Adamsky 2023, section 3; `crates/shared-links` has the expectation). Its
//! way from the client to the guard counts for nothing, as there. Of two circuits that are joined at a rendezvous point each counts; the service's has a third part,
//! from its middle to the rendezvous point.

use crate::ids::CircuitId;
use crate::world::World;
use onionlab_engine::HostId;

/// Links of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkCount {
    /// With at least one part of a circuit in use.
    pub links: u32,
    /// With two or more.
    pub shared: u32,
}

/// The links of all circuits in use at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkSample {
    /// Circuits in use: those with an open stream.
    pub circuits: u32,
    /// Pairs of relays whatever the direction: what share a channel.
    pub undirected: LinkCount,
    /// From one relay to another, away from the client: the paper's links.
    pub directed: LinkCount,
    /// The same, counting only the parts from guards to middles.
    pub guard_middle: LinkCount,
    /// The same, counting only the parts from middles to exits.
    pub middle_exit: LinkCount,
    /// Circuits with one of their two parts on a shared directed link.
    pub with_one: u32,
    /// Circuits with both, or more; an onion service's has three.
    pub with_two: u32,
}

impl LinkSample {
    /// Counts the links of circuits over these relays: guard, middle, exit.
    pub fn of(paths: &[[HostId; 3]]) -> Self {
        Self::with_third_parts(paths, &[])
    }

    /// The same where some circuits have a third part: from and to which relay, and of which path.
    fn with_third_parts(paths: &[[HostId; 3]], third: &[(HostId, HostId, u32)]) -> Self {
        // (from, to, circuit), sorted, so that the parts on one link stand together.
        let parts =
            |position: usize| paths.iter().zip(0_u32..).map(move |(path, circuit)| (path[position], path[position + 1], circuit));
        let mut directed: Vec<(HostId, HostId, u32)> = parts(0).chain(parts(1)).chain(third.iter().copied()).collect();
        let mut shared_parts = vec![0_u8; paths.len()];
        directed.sort_unstable();
        for on_link in directed.chunk_by(same_link).filter(|on_link| on_link.len() > 1) {
            for &(_, _, circuit) in on_link {
                shared_parts[circuit as usize] += 1;
            }
        }
        let mut with = [0_u32; 3];
        for parts in shared_parts {
            with[usize::from(parts).min(2)] += 1;
        }
        Self {
            circuits: paths.len() as u32,
            undirected: count(directed.iter().map(|&(from, to, circuit)| (from.min(to), from.max(to), circuit)).collect()),
            guard_middle: count(parts(0).collect()),
            middle_exit: count(parts(1).collect()),
            directed: count(directed),
            with_one: with[1],
            with_two: with[2],
        }
    }
}

fn same_link(a: &(HostId, HostId, u32), b: &(HostId, HostId, u32)) -> bool {
    (a.0, a.1) == (b.0, b.1)
}

fn count(mut parts: Vec<(HostId, HostId, u32)>) -> LinkCount {
    parts.sort_unstable();
    let mut count = LinkCount::default();
    for on_link in parts.chunk_by(same_link) {
        count.links += 1;
        count.shared += u32::from(on_link.len() > 1);
    }
    count
}

impl World {
    /// The links of circuits that were busy since this was asked last: built, and a relay cell has left their client or come to it.
    pub(crate) fn busy_links(&mut self) -> LinkSample {
        let (mut paths, mut third) = (Vec::new(), Vec::new());
        for circuit in &mut self.circuits {
            let busy = std::mem::take(&mut circuit.busy) && circuit.client.is_some();
            if busy && circuit.built == circuit.hops.last() {
                let hosts = |hop: usize| circuit.hops[hop].host;
                if circuit.hops.last() == 4 {
                    third.push((hosts(3), hosts(4), paths.len() as u32));
                }
                paths.push([1, 2, 3].map(hosts));
            }
        }
        LinkSample::with_third_parts(&paths, &third)
    }

    /// The links of the circuits that are in use now.
    pub fn links_in_use(&self) -> LinkSample {
        let mut circuits: Vec<_> = self.open_streams().map(|stream| self.streams[stream.index()].circuit).collect();
        // A circuit counts once, however many streams it has.
        circuits.sort_unstable();
        circuits.dedup();
        let joined: Vec<_> = circuits.iter().filter_map(|circuit| self.circuits[circuit.index()].splice()).collect();
        circuits.extend(joined);
        let hosts = |hop: usize| move |circuit: &CircuitId| self.circuits[circuit.index()].hops[hop].host;
        let paths: Vec<[HostId; 3]> = circuits.iter().map(|circuit| [1, 2, 3].map(|hop| hosts(hop)(circuit))).collect();
        let longer = circuits.iter().zip(0..).filter(|(circuit, _)| self.circuits[circuit.index()].hops.last() == 4);
        let third: Vec<_> = longer.map(|(circuit, index)| (hosts(3)(circuit), hosts(4)(circuit), index)).collect();
        LinkSample::with_third_parts(&paths, &third)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;
    use crate::test_world::{at, in_a_row};
    use onionlab_quantities::Bandwidth;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn sample(paths: &[[u32; 3]]) -> LinkSample {
        LinkSample::of(&paths.iter().map(|path| path.map(HostId)).collect::<Vec<_>>())
    }

    #[test]
    fn three_circuits_by_hand() {
        // 1-2-3 twice; 2-1-4 uses 1 and 2 the other way round.
        let links = |links, shared| LinkCount { links, shared };
        let got = sample(&[[1, 2, 3], [1, 2, 3], [2, 1, 4]]);
        let expected = LinkSample {
            circuits: 3,
            undirected: links(3, 2),
            directed: links(4, 2),
            guard_middle: links(2, 1),
            middle_exit: links(2, 1),
            with_one: 0,
            with_two: 2,
        };
        assert_eq!(got, expected);
        assert_eq!(sample(&[]), LinkSample::default());
    }

    /// A part from guard to middle and one from middle to exit may share a link; each class alone does not see it.
    #[test]
    fn a_link_of_both_classes_is_shared_in_neither() {
        let got = sample(&[[1, 2, 3], [4, 1, 2]]);
        assert_eq!((got.directed, got.guard_middle.shared, got.middle_exit.shared), (LinkCount { links: 3, shared: 1 }, 0, 0));
        assert_eq!((got.with_one, got.with_two), (2, 0));
    }

    /// A bulk download keeps one circuit busy; those built ahead are busy in the interval in which they are built, and no more.
    #[test]
    fn busy_circuits_are_those_of_which_cells_pass_their_client() {
        let load = "kind = \"sequence\"\ntransfers = [{ size = \"10 MB\" }]";
        let mut world = in_a_row(Settings::default(), Bandwidth::from_bits_per_sec(2_000_000), load);
        world.run_until(at(9_000));
        assert!(world.busy_links().circuits >= 1, "circuits were built ahead");
        assert_eq!(world.busy_links(), LinkSample::default(), "what was asked for is over");
        world.run_until(at(15_000));
        world.busy_links();
        world.run_until(at(16_000));
        let one = LinkCount { links: 2, shared: 0 };
        let busy = world.busy_links();
        assert_eq!((busy.circuits, busy.directed), (1, one));
    }

    proptest! {
        /// Against counting in maps.
        #[test]
        fn agrees_with_counting_link_by_link(paths in proptest::collection::vec([0_u32..6, 0_u32..6, 0_u32..6], 0..40)) {
            let got = sample(&paths);
            let mut maps = [const { BTreeMap::<(u32, u32), u32>::new() }; 4];
            for &[guard, middle, exit] in &paths {
                for (class, link) in [(2, (guard, middle)), (3, (middle, exit))] {
                    *maps[0].entry((link.0.min(link.1), link.0.max(link.1))).or_default() += 1;
                    *maps[1].entry(link).or_default() += 1;
                    *maps[class].entry(link).or_default() += 1;
                }
            }
            let counts = [got.undirected, got.directed, got.guard_middle, got.middle_exit];
            for (map, count) in maps.iter().zip(counts) {
                let shared = map.values().filter(|circuits| **circuits > 1).count() as u32;
                prop_assert_eq!(count, LinkCount { links: map.len() as u32, shared });
            }
            let shared = |from: u32, to: u32| usize::from(maps[1][&(from, to)] > 1);
            let on_shared = paths.iter().map(|path| shared(path[0], path[1]) + shared(path[1], path[2]));
            let mut with = [0; 3];
            on_shared.for_each(|parts| with[parts] += 1);
            prop_assert_eq!([got.with_one, got.with_two], [with[1], with[2]]);
        }
    }
}
