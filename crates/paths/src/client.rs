//! A client's paths: its guards and the random values of its circuits.

use crate::RelayIndex;
use crate::candidates::PathError;
use crate::guards::{GuardRules, Guards, Standing};
use crate::onion::{Layer2, Layer2Rules, OnionPath};
use crate::selector::{Path, PathSelector, Request};
use onionlab_quantities::{RandomStream, Seed, SimTime};

/// How a client chooses the first relay of its circuits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryRules {
    /// It keeps guards.
    Guards(GuardRules),
    /// It draws one for each circuit among the relays with the Guard flag (`UseEntryGuards 0`).
    PerCircuit,
}

/// One client as far as paths are concerned.
///
/// The relays of its k-th circuit follow from seed, name, k and the network, and from which guards were down before, nothing else.
#[derive(Debug, Clone)]
pub struct ClientPaths {
    guards: Option<Guards>,
    layer2: Layer2,
    stream: RandomStream,
    onion: RandomStream,
}

/// An exit for which no guard can be used is drawn anew this often. Tor gives such a circuit up and begins another.
const TRIES: usize = 8;

impl ClientPaths {
    /// The client with this name.
    ///
    /// # Errors
    /// No guard of the network leaves a path.
    pub fn new(
        network: &PathSelector,
        entry: EntryRules,
        layer2: Layer2Rules,
        seed: Seed,
        client: &str,
    ) -> Result<Self, PathError> {
        let stream = |purpose| RandomStream::new(seed, client, purpose);
        let guards = match entry {
            EntryRules::Guards(rules) => Some(Guards::new(rules, seed, client)),
            EntryRules::PerCircuit => None,
        };
        let guarded = network.position(onionlab_directory::Position::Guard).chances();
        if !guarded.iter().any(|&(guard, _)| network.has_path_over(guard)) {
            return Err(PathError::NoGuardWithPath);
        }
        Ok(Self {
            guards,
            layer2: Layer2::new(layer2, stream("layer-2 guards")),
            stream: stream("circuit path"),
            onion: stream("onion circuit path"),
        })
    }

    /// The guards, if the client keeps any.
    pub const fn guards(&self) -> Option<&Guards> {
        self.guards.as_ref()
    }

    /// The path of circuit number `circuit` to the outside. `None` if what the request demands leaves none.
    ///
    /// Exit first, then guard, then middle. Where none of the client's guards goes with the exit, another exit is drawn.
    pub fn path(&mut self, now: SimTime, network: &PathSelector, circuit: u64, request: &Request<'_>) -> Option<Path> {
        let stream = self.stream.member(circuit);
        let Some(guards) = &mut self.guards else { return network.choose(request, stream) };
        let mut draws = stream.sequence();
        for _ in 0..TRIES {
            let exit = network.exit(request, &mut draws)?;
            let fits = |guard| network.guard_fits(request, guard, exit);
            let Some(choice) = guards.choose(now, network, request.demand.needs_stable(), fits, draws.draw()) else { continue };
            if choice.standing == Standing::UsableIfNoBetter && !guards.nothing_better(now) {
                // Only this exit rules the primary guards out: tor would never use the circuit.
                guards.cancelled(choice.guard);
                continue;
            }
            if let Some(middle) = network.middle(request, choice.guard, exit, &mut draws) {
                return Some(Path { guard: choice.guard, middle, exit });
            }
        }
        // All the client's guards exclude exit after exit, as in a network of a few relays: the guard decides.
        guards.first().into_iter().find_map(|guard| network.over_guard(request, guard, &mut draws))
    }

    /// A circuit of the client over this guard has been built.
    pub fn guard_succeeded(&mut self, now: SimTime, network: &PathSelector, guard: RelayIndex) {
        if let Some(guards) = &mut self.guards {
            guards.succeeded(now, network, guard, Standing::UsableOnCompletion);
        }
    }

    /// The channel to this guard, or the first hop of a circuit over it, has failed.
    pub fn guard_failed(&mut self, now: SimTime, guard: RelayIndex) {
        if let Some(guards) = &mut self.guards {
            guards.failed(now, guard);
        }
    }

    /// The path of an onion-service circuit; see [`OnionPath`]. `endpoint` is the last relay where somebody else has chosen it.
    /// `None` if the network has too few relays.
    pub fn onion_path(
        &mut self,
        now: SimTime,
        network: &PathSelector,
        circuit: u64,
        endpoint: Option<RelayIndex>,
    ) -> Option<OnionPath> {
        let mut draws = self.onion.member(circuit).sequence();
        // Nothing about the circuit restricts the guard (`guards_choose_guard`).
        let layer2 = &mut self.layer2;
        let guards = &mut self.guards;
        OnionPath::draw(network, endpoint, &mut draws, |draws, last| {
            let guard = match guards {
                Some(guards) => guards.choose(now, network, true, |_| true, draws.draw())?.guard,
                None => network.position(onionlab_directory::Position::Guard).pick(draws.draw()),
            };
            let second = layer2.choose(now, network, &[guard, last], draws.draw())?;
            Some((guard, second))
        })
    }
}
