//! All circuits of a client in the order in which its tor goes through them (`circuit_get_global_list`).
//!
//! A new one joins at the end, and where one is freed the last moves into the gap (`circuit_close_all_marked`), so that the first need be neither the oldest nor the
//! youngest. Of circuits that are equally good for a stream it is the first that carries it. Up to 0.2.4 the list was linked, with the newest at its head.

use crate::circuit::Intent;
use crate::ids::{CircuitId, ClientId};
use crate::world::World;

impl World {
    /// The client has launched the circuit. A spare of active circuit switching joins when it takes a circuit's place, so that until then others are where they are without switching.
    pub(crate) fn join_list(&mut self, client: ClientId, id: CircuitId) {
        if self.circuits[id.index()].intent == Intent::Spare {
            return;
        }
        let list = &mut self.clients[client.index()].pool.all;
        self.circuits[id.index()].place = list.len() as u32;
        list.push(id);
    }

    /// The client has closed it.
    pub(super) fn leave_list(&mut self, client: ClientId, id: CircuitId) {
        let list = &mut self.clients[client.index()].pool.all;
        let gap = self.circuits[id.index()].place;
        // A spare was never there.
        if list.get(gap as usize) != Some(&id) {
            return;
        }
        list.swap_remove(gap as usize);
        if let Some(moved) = list.get(gap as usize) {
            self.circuits[moved.index()].place = gap;
        }
    }

    /// These circuits as tor comes to them.
    pub(super) fn as_listed(&self, mut circuits: Vec<CircuitId>) -> Vec<CircuitId> {
        circuits.sort_by_key(|&id| self.turn(id));
        circuits
    }

    /// The smaller, the sooner tor comes to it.
    pub(crate) fn turn(&self, id: CircuitId) -> u64 {
        if self.settings.client.newest_first {
            u64::MAX - u64::from(self.serials[id.index()].0)
        } else {
            u64::from(self.circuits[id.index()].place)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;
    use crate::test_world::{at, in_a_row};
    use onionlab_quantities::Bandwidth;

    /// Of five circuits the second is freed: the fifth has its place. Then the first: the fourth has.
    #[test]
    fn the_last_fills_the_gap() {
        let load = "kind = \"sequence\"\ntransfers = [{ size = \"50 kB\" }]";
        for (newest_first, before, after) in [(false, [0, 1, 2, 3, 4], vec![3, 4, 2]), (true, [4, 3, 2, 1, 0], vec![4, 3, 2])] {
            let mut world = in_a_row(Settings::default(), Bandwidth::from_bits_per_sec(50_000_000), load);
            world.run_until(at(9_000));
            world.settings.client.newest_first = newest_first;
            let client = ClientId(0);
            let ready = world.clients[0].pool.all.clone();
            for id in ready {
                world.close_at(id, 0, None);
            }
            let path = [1, 2, 3].map(onionlab_engine::HostId);
            let circuits: Vec<_> = (0..5).map(|_| world.launch_on(client, path, Intent::Internal, false)).collect();
            let order = |world: &World| {
                let listed = world.as_listed(world.clients[0].pool.all.clone());
                listed.iter().map(|id| circuits.iter().position(|other| other == id).unwrap()).collect::<Vec<_>>()
            };
            assert_eq!(order(&world), before);
            world.close_at(circuits[1], 0, None);
            world.close_at(circuits[0], 0, None);
            assert_eq!(order(&world), after);
        }
    }
}
