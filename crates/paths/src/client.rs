//! A client's paths: its guards and the random values of its circuits.

use crate::RelayIndex;
use crate::candidates::{ExitDemand, PathError};
use crate::guards::{GuardRules, Guards, Standing};
use crate::onion::{Layer2, Layer2Rules, OnionPath};
use crate::selector::{Path, PathSelector, Request};
use onionlab_directory::{Flag, Position};
use onionlab_quantities::{RandomStream, Seed, SimTime};

/// So often an internal path is drawn whose guard must not be its last relay, and the bit from which on the number of its circuit says how often.
const DRAWS: u64 = 8;
const DRAWS_FROM: u32 = 40;

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
/// The relays of its k-th circuit follow from seed, name, k and the network, and from which guards were down before, nothing else; two things follow from
/// what was asked before as well: the list of guards of 0.2.4, which grows as it is used, and the second hops of onion services' circuits, drawn in turn.
#[derive(Debug, Clone)]
pub struct ClientPaths {
    guards: Option<Guards>,
    /// None in versions before vanguards-lite.
    layer2: Option<Layer2>,
    stream: RandomStream,
    onion: RandomStream,
    introductions: RandomStream,
}

/// An exit for which no guard can be used is drawn anew this often. Tor gives such a circuit up and begins another.
const TRIES: usize = 8;

impl ClientPaths {
    /// The client with this name; `layer2` if its version of tor has vanguards-lite.
    ///
    /// # Errors
    /// No guard of the network leaves a path.
    pub fn new(
        network: &PathSelector,
        entry: EntryRules,
        layer2: Option<Layer2Rules>,
        seed: Seed,
        client: &str,
    ) -> Result<Self, PathError> {
        let stream = |purpose| RandomStream::new(seed, client, purpose);
        let guards = match entry {
            EntryRules::Guards(rules) => Some(Guards::new(rules, seed, client)),
            EntryRules::PerCircuit => None,
        };
        if !network.position(Position::Guard).relays().any(|guard| network.has_path_over(guard)) {
            return Err(PathError::NoGuardWithPath);
        }
        Ok(Self {
            guards,
            layer2: layer2.map(|rules| Layer2::new(rules, stream("layer-2 guards"))),
            stream: stream("circuit path"),
            onion: stream("onion circuit path"),
            introductions: stream("introduction point"),
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
            guards.cancelled(choice.guard);
        }
        // All the client's guards exclude exit after exit, as in a network of a few relays: the guard decides.
        guards.first().into_iter().find_map(|guard| network.over_guard(request, guard, &mut draws))
    }

    /// The path of an onion-service circuit of a client with vanguards-lite; see [`OnionPath`]. `endpoint` is the last relay where somebody
    /// else has chosen it; `stable`: the relays drawn as middle ones are to be Stable. `None` if the network has too few relays, or the client's version no vanguards.
    pub fn onion_path(
        &mut self,
        now: SimTime,
        network: &PathSelector,
        circuit: u64,
        endpoint: Option<RelayIndex>,
        stable: bool,
    ) -> Option<OnionPath> {
        let mut draws = self.onion.member(circuit).sequence();
        let layer2 = self.layer2.as_mut()?;
        let guards = &mut self.guards;
        OnionPath::draw(network, endpoint, stable, &mut draws, |draws, last| {
            let guard = if let Some(guards) = guards {
                // Nothing about the circuit restricts the guard (`guards_choose_guard`).
                guards.choose(now, network, true, |_| true, draws.draw())?.guard
            } else {
                // A client without guards keeps the first relay apart from the last (`choose_good_entry_server`).
                let demand = if stable { ExitDemand::ANY.stable() } else { ExitDemand::ANY };
                network.entry(&Request { demand, leg: false, exit: Some(last), exclude: &[] }, last, draws)?
            };
            let second = layer2.choose(now, network, &[guard, last], draws.draw())?;
            Some((guard, second))
        })
    }

    /// The relay number `ordinal` that an onion service draws for an introduction point, as a middle one is, among Stable ones (`pick_intro_point`). `None` if the
    /// network has none.
    pub fn introduction_point(&self, network: &PathSelector, ordinal: u64) -> Option<RelayIndex> {
        let draws = &mut self.introductions.member(ordinal).sequence();
        network.pick_middle(true, draws, |relay| !network.flags(relay).contains(Flag::MiddleOnly))
    }

    /// The path of a circuit of three relays that ends within the network, for onion services: the last drawn as a middle one is, all relays Stable if they are to be. With
    /// vanguards-lite as [`Self::onion_path`], drawn again where the guard is the last relay too (which tor allows); before, with the exclusions of other circuits.
    pub fn internal_path(&mut self, now: SimTime, network: &PathSelector, circuit: u64, stable: bool) -> Option<Path> {
        if self.layer2.is_some() {
            let drawn = |draw: u64| self.onion_path(now, network, circuit + (draw << DRAWS_FROM), None, stable);
            let path = (0..DRAWS).filter_map(drawn).find(|path| path.guard != path.last)?;
            return Some(Path { guard: path.guard, middle: path.layer2, exit: path.last });
        }
        let last = network.pick_middle(stable, &mut self.onion.member(circuit).sequence(), |relay| network.has_path_to(relay))?;
        let demand = if stable { ExitDemand::ANY.stable() } else { ExitDemand::ANY };
        self.path(now, network, circuit, &Request { demand, leg: false, exit: Some(last), exclude: &[] })
    }
}
