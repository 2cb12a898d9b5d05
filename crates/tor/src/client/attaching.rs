//! How a client's streams get their circuits: the best that is open, one that is on its way, or one that is launched for them (`core/or/circuituse.c`).

use super::Purpose;
use super::flows::Flow;
use super::pool::long_lived;
use super::transfers::Transfer;
use crate::circuit::{CircuitState, Intent};
use crate::ids::{CircuitId, ClientId, FlowId, TransferId};
use crate::world::World;
use onionlab_engine::prefetch;

/// What a client's circuits that nobody has used are to streams that wait.
struct Prospects {
    /// Some are open, and there may be one among them for any stream.
    open: bool,
    /// Some are being built for which nobody waits.
    building: bool,
    /// Those that somebody waits for.
    awaited: Vec<(FlowId, CircuitId)>,
    /// No more may be launched for streams.
    full: bool,
}

impl World {
    /// The stream needs a circuit. It joins those that wait, and all of them try, the oldest first (`connection_ap_mark_as_pending_circuit`): one whose circuit is late or lost
    /// does not wait for the next second. Before 0.3.5 it tries alone.
    pub(super) fn needs_circuit(&mut self, id: TransferId) {
        let client = self.transfers[id.index()].client;
        let waiting = &mut self.clients[client.index()].waiting;
        if !self.settings.client.all_try || waiting.is_empty() {
            self.attach_or_wait(id);
            return;
        }
        if !waiting.contains(&id) {
            waiting.push(id);
        }
        self.attach_waiting(client);
    }

    /// The stream gets a circuit that is open, or waits for one that is on its way, launched now if there is none
    /// (`circuit_get_open_circ_or_launch`).
    pub(crate) fn attach_or_wait(&mut self, id: TransferId) {
        if self.transfers[id.index()].service.is_some() {
            self.attach_to_service(id);
            return;
        }
        let client = self.transfers[id.index()].client;
        if self.attach(id) {
            return;
        }
        let state = &mut self.clients[client.index()];
        if !state.waiting.contains(&id) {
            state.waiting.push(id);
        }
        let (port, owner) = (self.transfers[id.index()].port, self.owner(id));
        let circuit = self.on_its_way(client, port, owner).or_else(|| {
            let may = self.pending(client) < self.clients[client.index()].config.options.max_pending as usize;
            may.then(|| self.launch(client, Purpose::Exit { ports: &[port], pending: true }, long_lived(port))).flatten()
        });
        if let Some(circuit) = circuit {
            self.circuits[circuit.index()].awaited_by = Some(owner);
        }
        self.second_by(client, self.queue.now());
    }

    /// Whose circuit the stream needs: its flow's, or that of all flows that share circuits.
    fn owner(&self, id: TransferId) -> FlowId {
        let flow = self.transfers[id.index()].flow;
        if self.flows[flow.index()].isolated { flow } else { FlowId::NONE }
    }

    /// The flow is over: what was launched for it is nobody's until it is open.
    pub(super) fn flow_awaits_nothing(&mut self, client: ClientId, flow: FlowId) {
        for id in &self.clients[client.index()].pool.clean {
            let owner = &mut self.circuits[id.index()].awaited_by;
            if *owner == Some(flow) {
                *owner = Some(FlowId::NONE);
            }
        }
    }

    /// The best circuit that is being built and that nobody else waits for: one that is not late, one for which the stream waits already, the first in the client's list.
    fn on_its_way(&self, client: ClientId, port: u16, owner: FlowId) -> Option<CircuitId> {
        let fits = |id: &&CircuitId| {
            let circuit = &self.circuits[id.index()];
            circuit.state == CircuitState::Building && circuit.is_for(owner) && self.takes(**id, port)
        };
        let rank = |id: &&CircuitId| {
            let circuit = &self.circuits[id.index()];
            (circuit.relaxed, circuit.awaited_by.is_none(), self.turn(**id))
        };
        self.clients[client.index()].pool.clean.iter().filter(fits).min_by_key(rank).copied()
    }

    /// Circuits for streams that are being built (`count_pending_general_client_circuits`).
    fn pending(&self, client: ClientId) -> usize {
        let pending = |circuit: &&CircuitId| {
            let circuit = &self.circuits[circuit.index()];
            circuit.state == CircuitState::Building && circuit.intent == Intent::Exit && !circuit.timed_out
        };
        self.clients[client.index()].pool.clean.iter().filter(pending).count()
    }

    /// Whether the circuit is one for new streams to this port, open or not (`circuit_is_acceptable`).
    fn takes(&self, id: CircuitId, port: u16) -> bool {
        let circuit = &self.circuits[id.index()];
        let dirty = circuit.first_used.is_some_and(|used| used + self.circuit_lifetime(circuit.client) <= self.queue.now());
        !dirty
            && self.takes_streams(id)
            && (circuit.stable || !long_lived(port))
            && self.is_served(circuit.client, circuit.last_relay(), port)
    }

    /// The same as far as the port does not matter.
    fn takes_streams(&self, id: CircuitId) -> bool {
        let circuit = &self.circuits[id.index()];
        !circuit.unusable && !circuit.timed_out && (circuit.intent == Intent::Exit || self.leads_a_set(id))
    }

    /// The best open circuit for the stream: one that is not late, one that its owner has used or waited for, the first in the client's list (`circuit_get_best`, `circuit_is_better`).
    ///
    /// That function means to prefer the one that was used first most recently, then the youngest, but asks for the purpose of the stream's connection where it means the circuit's; a
    /// client's connections have none, so that this never applies.
    fn best_circuit(&self, id: TransferId) -> Option<CircuitId> {
        let transfer = &self.transfers[id.index()];
        let pool = &self.clients[transfer.client.index()].pool;
        let flow = &self.flows[transfer.flow.index()];
        let used = if flow.isolated { &flow.circuits } else { &pool.shared };
        let owner = self.owner(id);
        let open = |id: &&CircuitId| {
            let circuit = &self.circuits[id.index()];
            circuit.state == CircuitState::Open && circuit.is_for(owner) && self.takes(**id, transfer.port)
        };
        let rank = |id: &&CircuitId| {
            let circuit = &self.circuits[id.index()];
            if circuit.intent == Intent::Leg {
                // The first in the order of a hash table whose keys are random (`conflux_get_circ_for_conn`).
                return (false, false, false, self.sets[circuit.set.index()].place);
            }
            let unmarked = circuit.first_used.is_none() && circuit.awaited_by.is_none();
            (true, circuit.relaxed, unmarked, self.turn(**id))
        };
        used.iter().chain(&pool.clean).filter(open).min_by_key(rank).copied()
    }

    fn attach(&mut self, id: TransferId) -> bool {
        let now = self.queue.now();
        let Some(best) = self.best_circuit(id) else { return false };
        let transfer = &self.transfers[id.index()];
        let (client, flow_id) = (transfer.client, transfer.flow);
        self.clients[client.index()].waiting.retain(|&other| other != id);
        if self.circuits[best.index()].first_used.is_none() {
            let isolated = self.flows[flow_id.index()].isolated.then_some(flow_id);
            self.first_use(client, best, isolated);
            self.second_by(client, now);
        }
        self.attach_to(id, best);
        self.provide_spare(best);
        true
    }

    /// A stream is the first to use the circuit, for its flow alone where that is given.
    pub(crate) fn first_use(&mut self, client: ClientId, id: CircuitId, flow: Option<FlowId>) {
        let serial = self.serials[id.index()];
        self.circuits[id.index()].first_used = Some(self.queue.now());
        let legs = self.siblings(id);
        let pool = &mut self.clients[client.index()].pool;
        pool.clean.retain(|other| *other != id && !legs.contains(other));
        pool.dirty.push_back((id, serial));
        match flow {
            Some(flow) => {
                self.circuits[id.index()].flow = flow;
                self.flows[flow.index()].circuits.push(id);
            }
            None => pool.shared.push(id),
        }
    }

    /// Streams that wait try again (`connection_ap_attach_pending`).
    ///
    /// Where a client stands for many users hundreds wait, and one circuit more or less changes nothing for nearly all of them.
    pub(crate) fn attach_waiting(&mut self, client: ClientId) {
        let waiting = self.clients[client.index()].waiting.clone();
        let mut prospects = self.prospects(client);
        let mut as_before = true;
        for (index, &id) in waiting.iter().enumerate() {
            self.prefetch_waiting(&waiting, index);
            // The ones before may have led to the end of this one.
            if !as_before && !self.clients[client.index()].waiting.contains(&id) {
                continue;
            }
            if self.waits_on(id, &prospects) {
                self.second_by(client, self.queue.now());
                continue;
            }
            self.attach_or_wait(id);
            prospects = self.prospects(client);
            as_before = false;
        }
    }

    /// Fetches the streams that come soon, and the flows of those that come next.
    fn prefetch_waiting(&self, waiting: &[TransferId], index: usize) {
        if let Some(id) = waiting.get(index + 16) {
            prefetch(&self.transfers[id.index()], size_of::<Transfer>());
        }
        if let Some(id) = waiting.get(index + 8) {
            prefetch(&self.flows[self.transfers[id.index()].flow.index()], size_of::<Flow>());
        }
    }

    fn prospects(&self, client: ClientId) -> Prospects {
        let pool = &self.clients[client.index()].pool;
        let mut prospects = Prospects { open: !pool.shared.is_empty(), building: false, awaited: Vec::new(), full: false };
        for &id in &pool.clean {
            let circuit = &self.circuits[id.index()];
            match circuit.awaited_by {
                _ if !self.takes_streams(id) => {}
                Some(owner) => prospects.awaited.push((owner, id)),
                None if circuit.state == CircuitState::Building => prospects.building = true,
                None => prospects.open = true,
            }
        }
        prospects.full = self.pending(client) >= self.clients[client.index()].config.options.max_pending as usize;
        prospects
    }

    /// Whether [`Self::attach_or_wait`] would change nothing for a stream that waits already: no circuit is open for it, and either one that is being built in time is its own, or there is none
    /// but its own and no more may be launched.
    fn waits_on(&self, id: TransferId, prospects: &Prospects) -> bool {
        let transfer = &self.transfers[id.index()];
        let flow = &self.flows[transfer.flow.index()];
        if prospects.open || transfer.service.is_some() || flow.isolated && !flow.circuits.is_empty() {
            return false;
        }
        let owner = self.owner(id);
        let own = |state: CircuitState| {
            let of_owner = prospects.awaited.iter().filter(move |(other, _)| *other == owner).map(|(_, id)| *id);
            of_owner.filter(move |id| self.circuits[id.index()].state == state && self.takes(*id, transfer.port))
        };
        let in_time = || own(CircuitState::Building).any(|id| !self.circuits[id.index()].relaxed);
        let no_other = || !prospects.building && (prospects.full || own(CircuitState::Building).next().is_some());
        let waits = own(CircuitState::Open).next().is_none() && (in_time() || no_other());
        debug_assert!(!waits || self.best_circuit(id).is_none(), "a circuit is open for the stream");
        waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;
    use crate::test_world::{at, in_a_row};
    use onionlab_quantities::Bandwidth;

    /// Two users, each with a circuit of its own on its way. That of the first is late, which a hop has shown: it needs another. And the second's stream.
    fn one_of_two_is_late(all_try: bool, internal_failures: bool) -> (World, TransferId) {
        let mut settings = Settings::default();
        (settings.client.predict, settings.conflux) = (false, None);
        (settings.client.all_try, settings.client.internal_failures) = (all_try, internal_failures);
        let load = "kind = \"sequence\"\ntransfers = [{ size = \"50 kB\" }]";
        let mut world = in_a_row(settings, Bandwidth::from_bits_per_sec(50_000_000), load);
        let config = &mut world.clients[0].config;
        (config.users, config.circuit_per_transfer) = (2, true);
        world.run_until(at(10_050));
        let client = ClientId(0);
        assert_eq!((world.pending(client), world.clients[0].waiting.len()), (2, 2));
        let [first, second] = world.clients[0].waiting[..] else { unreachable!() };
        let owner = world.owner(first);
        let own = world.clients[0].pool.clean.iter().find(|id| world.circuits[id.index()].awaited_by == Some(owner));
        let own = *own.unwrap();
        world.circuits[own.index()].timed_out = true;
        (world, second)
    }

    /// When the second's stream looks for a circuit again, the first's does.
    #[test]
    fn a_stream_that_needs_a_circuit_has_those_that_wait_try_again() {
        for (all_try, launched) in [(true, 3), (false, 2)] {
            let (mut world, second) = one_of_two_is_late(all_try, false);
            world.needs_circuit(second);
            assert_eq!(world.clients[0].pool.clean.len(), launched, "all try: {all_try}");
        }
    }

    /// A circuit within the network opens. As long as such are of the purpose of all, which is also why their failures count, the first's stream then looks for one.
    #[test]
    fn a_circuit_within_the_network_has_those_that_wait_try_again_before_vanguards() {
        for (of_all, launched) in [(true, 4), (false, 3)] {
            let (mut world, _) = one_of_two_is_late(true, of_all);
            let path = [1, 2, 3].map(onionlab_engine::HostId);
            let internal = world.launch_on(ClientId(0), path, Intent::Internal, false);
            let circuit = &mut world.circuits[internal.index()];
            (circuit.state, circuit.built) = (CircuitState::Open, 3);
            world.hop_added(internal);
            assert_eq!(world.clients[0].pool.clean.len(), launched, "of the purpose of all: {of_all}");
        }
    }
}
