//! Drawing the relays of one circuit under tor's exclusions.

use crate::RelayIndex;
use crate::candidates::{Candidates, ExitDemand, Needs, PathError, PathOptions};
use crate::distribution::Distribution;
use crate::exclusions::Exclusions;
use onionlab_directory::{BandwidthWeights, Flag, Flags, Position, Relay};
use onionlab_quantities::RandomStream;
use onionlab_quantities::random::DrawSequence;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The relays of one circuit of three hops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Path {
    /// Next to the client.
    pub guard: RelayIndex,
    /// Between.
    pub middle: RelayIndex,
    /// Next to the destination, or the last relay of an internal circuit.
    pub exit: RelayIndex,
}

/// What one circuit to the outside must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Request<'a> {
    /// What its exit is for; its flags bind the middle relay too.
    pub demand: ExitDemand,
    /// It is a leg of a conflux set. Of its exit the guard need not be more than another relay (`entrynodes.c:guards_choose_guard`), where other circuits' keeps off its subnet and family too.
    pub leg: bool,
    /// The exit, where it is given: that of the first leg of a conflux set, for the others.
    pub exit: Option<RelayIndex>,
    /// Relays that may be neither guard nor middle: those of the set's other legs (`conflux_pool.c:conflux_add_guards_to_exclude_list`,
    /// `conflux_add_middles_to_exclude_list`). Deviation: tor lets one leg's guard be another's middle.
    pub exclude: &'a [RelayIndex],
}

/// A network's relays, ready for drawing paths from.
///
/// Invariant: every exit that can be drawn has a guard and a middle relay to go with.
#[derive(Debug)]
pub struct PathSelector {
    candidates: Candidates,
    exclusions: Exclusions,
    fast: bool,
    /// Relays that may be kept as guards.
    guards: Distribution,
    /// Relays with the Guard flag, for the first hop of a client that keeps no guards; by whether Stable is needed.
    entries: [Option<Distribution>; 2],
    /// The same where nothing else is left: any relay.
    any_entry: Distribution,
    /// By whether Stable is needed.
    middles: [Option<Distribution>; 2],
    any_middle: Distribution,
    any_exit: Arc<Distribution>,
    /// Exits by demand, as they are asked for.
    exits: Mutex<BTreeMap<ExitDemand, Arc<Distribution>>>,
}

/// A draw that meets an excluded relay is repeated this often before the exact, slower draw takes over.
const TRIES: usize = 32;

impl PathSelector {
    /// The distributions of these relays.
    ///
    /// # Errors
    /// A position has no candidate, or no three relays go together.
    pub fn new(relays: &[Relay], weights: &BandwidthWeights, options: &PathOptions) -> Result<Self, PathError> {
        let candidates = Candidates::new(relays, weights);
        let exclusions = Exclusions::new(relays, options);
        let needs = |stable| Needs { fast: options.fast, stable };
        let no_guard = PathError::NoCandidate { position: Position::Guard, needed: "the Guard flag" };
        let flagged = |needs: Needs| {
            candidates.weighted(Position::Guard, |relay| relay.flags.contains(Flag::Guard) && needs.met_by(relay.flags))
        };
        // A network without any relay that tor would keep as a guard is none of tor's: there the flag is enough.
        let kept = candidates.weighted(Position::Guard, |relay| keeps(relay.flags));
        let guards = kept.or_else(|| flagged(needs(false))).or_else(|| flagged(Needs::NOTHING)).ok_or(no_guard)?;
        let all = |position| candidates.weighted(position, |_| true).expect("there is at least a guard");
        let middles = |needs: Needs| candidates.weighted(Position::Middle, |relay| needs.met_by(relay.flags));
        let mut selector = Self {
            fast: options.fast,
            guards,
            entries: [false, true].map(|stable| flagged(needs(stable))),
            any_entry: all(Position::Guard),
            middles: [false, true].map(|stable| middles(needs(stable))),
            any_middle: all(Position::Middle),
            any_exit: Arc::new(all(Position::Exit)),
            exits: Mutex::default(),
            candidates,
            exclusions,
        };
        selector.any_exit = selector.exits(ExitDemand::ANY)?;
        Ok(selector)
    }

    /// How many relays there are.
    pub fn relays(&self) -> usize {
        self.candidates.len()
    }

    /// A relay's flags.
    pub fn flags(&self, relay: RelayIndex) -> Flags {
        self.candidates.flags(relay)
    }

    /// A position's relays and chances, exclusions left aside (which change them a little): those that may be kept as guards, those that may
    /// be the middle of a circuit that does not need Stable, and the exits of any kind.
    ///
    /// Exits without any possible path are not among them.
    pub fn position(&self, position: Position) -> &Distribution {
        match position {
            Position::Guard => &self.guards,
            Position::Middle => self.middles[0].as_ref().unwrap_or(&self.any_middle),
            Position::Exit => &self.any_exit,
        }
    }

    /// The exits for a demand, with their chances.
    ///
    /// # Errors
    /// The network has none, cannot tell, or none has a path.
    pub fn exits(&self, demand: ExitDemand) -> Result<Arc<Distribution>, PathError> {
        // A panic elsewhere leaves the map whole: it only ever gains complete entries.
        let mut known = self.exits.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(exits) = known.get(&demand) {
            return Ok(Arc::clone(exits));
        }
        let all = self.candidates.exits(demand, self.fast)?;
        let reason = "a guard, a middle and an exit are needed that are three relays, in three different /16 networks (unless subnets \
                      do not count) and of different families";
        let exits = Arc::new(all.among(|exit| self.has_path_to(exit)).ok_or(PathError::NoPath { reason })?);
        known.insert(demand, Arc::clone(&exits));
        Ok(exits)
    }

    /// Whether a relay lets streams to a port out; without policies the Exit flag stands for ports 80 and 443.
    pub fn serves(&self, relay: RelayIndex, port: u16) -> bool {
        self.candidates.serves(relay, port)
    }

    /// Whether two relays may stand in one path.
    #[inline]
    pub fn compatible(&self, a: RelayIndex, b: RelayIndex) -> bool {
        self.exclusions.apart(a, b)
    }

    /// A path with an entry drawn for it, from the first values of `stream`: that of a client which keeps no guards (`UseEntryGuards 0`).
    /// `None` if what the request demands leaves none.
    pub fn choose(&self, request: &Request<'_>, stream: RandomStream) -> Option<Path> {
        let mut draws = stream.sequence();
        for _ in 0..TRIES {
            let exit = self.exit(request, &mut draws)?;
            let entry = self.entry(request, exit, &mut draws);
            let path = entry.and_then(|guard| Some(Path { guard, middle: self.middle(request, guard, exit, &mut draws)?, exit }));
            if path.is_some() {
                return path;
            }
        }
        None
    }

    /// The exit: the given one, or one by weight among those that the demand admits.
    pub(crate) fn exit(&self, request: &Request<'_>, draws: &mut DrawSequence) -> Option<RelayIndex> {
        match request.exit {
            Some(exit) => Some(exit),
            None if request.demand == ExitDemand::ANY => Some(self.any_exit.pick(draws.draw())),
            None => Some(self.exits(request.demand).ok()?.pick(draws.draw())),
        }
    }

    /// Whether a guard goes with the exit of a request and with its siblings.
    pub(crate) fn guard_fits(&self, request: &Request<'_>, guard: RelayIndex, exit: RelayIndex) -> bool {
        let goes = if request.leg { guard != exit } else { self.compatible(guard, exit) };
        goes && !request.exclude.contains(&guard) && self.has_middle(guard, exit)
    }

    pub(crate) fn entry(&self, request: &Request<'_>, exit: RelayIndex, draws: &mut DrawSequence) -> Option<RelayIndex> {
        // Only guards are kept apart from those of a set's other legs (`guards_choose_guard`), not the first relays of clients without (`choose_good_entry_server`).
        let fits = |guard| self.compatible(guard, exit) && self.has_middle(guard, exit);
        let flagged = self.entries[usize::from(request.demand.needs_stable())].as_ref();
        flagged.and_then(|entries| pick(entries, draws, fits)).or_else(|| pick(&self.any_entry, draws, fits))
    }

    /// A path over a given guard: the exit among those that go with the guard. `None` if there is none.
    pub(crate) fn over_guard(&self, request: &Request<'_>, guard: RelayIndex, draws: &mut DrawSequence) -> Option<Path> {
        let fits = |exit| self.guard_fits(request, guard, exit);
        let exit = match request.exit {
            Some(exit) => Some(exit).filter(|&exit| fits(exit)),
            None => pick(&*self.exits(request.demand).ok()?, draws, fits),
        }?;
        Some(Path { guard, middle: self.middle(request, guard, exit, draws)?, exit })
    }

    /// The middle: by weight among those that go with both ends; without Fast and Stable where none is left. `None` where even then none is.
    pub(crate) fn middle(
        &self,
        request: &Request<'_>,
        guard: RelayIndex,
        exit: RelayIndex,
        draws: &mut DrawSequence,
    ) -> Option<RelayIndex> {
        let fits = |middle| self.compatible(middle, guard) && self.compatible(middle, exit) && !request.exclude.contains(&middle);
        self.pick_middle(request.demand.needs_stable(), draws, fits)
    }

    /// A relay drawn as a middle one is (`router_choose_random_node` with `WEIGHT_FOR_MID`) among those that `allowed` admits.
    pub(crate) fn pick_middle(
        &self,
        stable: bool,
        draws: &mut DrawSequence,
        allowed: impl Fn(RelayIndex) -> bool,
    ) -> Option<RelayIndex> {
        let flagged = self.middles[usize::from(stable)].as_ref();
        flagged.and_then(|middles| pick(middles, draws, &allowed)).or_else(|| pick(&self.any_middle, draws, &allowed))
    }

    /// All relays by middle weight, whatever their flags.
    pub(crate) const fn any_middle(&self) -> &Distribution {
        &self.any_middle
    }

    /// A relay with the Guard flag by guard weight among those that `allowed` admits.
    pub(crate) fn pick_flagged_guard(
        &self,
        draws: &mut DrawSequence,
        allowed: impl Fn(RelayIndex) -> bool,
    ) -> Option<RelayIndex> {
        self.entries[0].as_ref().and_then(|entries| pick(entries, draws, allowed))
    }

    /// Whether any path leads over the guard.
    pub(crate) fn has_path_over(&self, guard: RelayIndex) -> bool {
        let mut exits = self.any_exit.relays();
        exits.any(|exit| self.compatible(guard, exit) && self.has_middle(guard, exit))
    }

    /// Whether some middle relay goes with both ends, which must go together.
    pub(crate) fn has_middle(&self, guard: RelayIndex, exit: RelayIndex) -> bool {
        let mut middles = self.any_middle.relays();
        middles.any(|middle| self.compatible(middle, guard) && self.compatible(middle, exit))
    }

    /// Whether any path leads to the relay.
    pub(crate) fn has_path_to(&self, exit: RelayIndex) -> bool {
        let mut guards = self.guards.relays();
        guards.any(|guard| self.compatible(guard, exit) && self.has_middle(guard, exit))
    }
}

/// Whether tor keeps a relay with these flags as a guard (`entrynodes.c:node_is_possible_guard`).
pub(crate) fn keeps(flags: Flags) -> bool {
    [Flag::Guard, Flag::Stable, Flag::Fast, Flag::Valid, Flag::V2Dir].into_iter().all(|flag| flags.contains(flag))
}

/// Draws until `allowed` admits the relay, then exactly; `None` if it admits none.
pub(crate) fn pick(
    distribution: &Distribution,
    draws: &mut DrawSequence,
    allowed: impl Fn(RelayIndex) -> bool,
) -> Option<RelayIndex> {
    for _ in 0..TRIES {
        let relay = distribution.pick(draws.draw());
        if allowed(relay) {
            return Some(relay);
        }
    }
    distribution.pick_among(draws.draw(), allowed)
}

#[cfg(test)]
mod tests;
