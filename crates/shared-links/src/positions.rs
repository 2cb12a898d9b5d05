//! Chances of every relay in every position, as they follow from a consensus and a question.

use crate::error::SharedLinksError;
use crate::question::{Question, Use};
use onionlab_directory::{Consensus, Position, Relay};
use onionlab_paths::{Distribution, RelayIndex};
use std::collections::{BTreeMap, BTreeSet};

/// The three distributions of one question over one network: guard, middle, and last relay.
///
/// The last relay's is the blend of the exits' of all kinds of circuits; with independent kinds nothing else matters.
/// Exclusions are not in it.
#[derive(Debug, Clone)]
pub struct Positions {
    relays: usize,
    guard: Distribution,
    middle: Distribution,
    last: Distribution,
    /// Relays that can be the exit of external circuits (or the last of internal ones, if all are).
    exits: usize,
}

/// Relays with the same three chances; a consensus has far fewer of these groups than relays.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Group {
    /// Number of relays.
    pub relays: f64,
    pub guard: f64,
    pub middle: f64,
    pub last: f64,
}

impl Positions {
    /// The chances of the relays of `network` under `question`.
    ///
    /// # Errors
    /// A position has no relay, or ports were asked for that the consensus cannot tell.
    pub fn new(network: &Consensus, question: &Question) -> Result<Self, SharedLinksError> {
        let filters = &question.filters;
        let chances = |position, admits: &dyn Fn(&Relay) -> bool, needed: &dyn Fn() -> String| {
            let weight = |relay: &Relay| relay.weight as f64 * network.weights.factor(position, relay.class());
            let admitted = network.relays.iter().zip(0..).filter(|(relay, _)| admits(relay));
            let weighted = admitted.map(|(relay, index)| (RelayIndex(index), weight(relay)));
            Distribution::new(weighted).ok_or_else(|| SharedLinksError::NoCandidate {
                consensus: network.valid_after.to_string(),
                position: position.as_str(),
                needed: needed(),
            })
        };
        let flags = |filter: crate::Filter| {
            move || match (filter.needed.to_string(), filter.refused.to_string()) {
                (needed, refused) if needed.is_empty() && refused.is_empty() => "whatever its flags".to_owned(),
                (needed, refused) if refused.is_empty() => format!("flags needed: {needed}"),
                (needed, refused) if needed.is_empty() => format!("flags refused: {refused}"),
                (needed, refused) => format!("flags needed: {needed}; refused: {refused}"),
            }
        };
        let guard = chances(Position::Guard, &|relay| filters.guard.admits(relay.flags), &flags(filters.guard))?;
        let middle = chances(Position::Middle, &|relay| filters.middle.admits(relay.flags), &flags(filters.middle))?;

        let mut last: BTreeMap<RelayIndex, f64> = BTreeMap::new();
        let mut external: BTreeSet<RelayIndex> = BTreeSet::new();
        for (of, share) in question.blend.shares().filter(|&(_, share)| share > 0.0) {
            let is_exit = |relay: &Relay| filters.exit.admits(relay.flags);
            let kind = match of {
                Use::Internal => middle.clone(),
                Use::External => chances(Position::Exit, &is_exit, &flags(filters.exit))?,
                Use::Ports(ports) if network.has_policies() => {
                    let serves = |relay: &Relay| relay.exit_policy.as_ref().is_some_and(|policy| ports.served_by(policy));
                    let needed = || format!("{}; policy for ports {ports}", flags(filters.exit)());
                    chances(Position::Exit, &|relay| is_exit(relay) && serves(relay), &needed)?
                }
                Use::Ports(ports) if ports.is_web() => chances(Position::Exit, &is_exit, &flags(filters.exit))?,
                Use::Ports(ports) => {
                    let (ports, consensus) = (ports.to_string(), network.valid_after.to_string());
                    return Err(SharedLinksError::NoPolicies { ports, consensus });
                }
            };
            for &(relay, chance) in kind.chances() {
                *last.entry(relay).or_default() += share * chance;
                if *of != Use::Internal {
                    external.insert(relay);
                }
            }
        }
        let exits = if external.is_empty() { last.len() } else { external.len() };
        let last = Distribution::new(last).expect("a blend has a kind, and each kind has relays");
        Ok(Self { relays: network.relays.len(), guard, middle, last, exits })
    }

    /// Relays of the network.
    pub const fn relays(&self) -> usize {
        self.relays
    }

    /// Chances in the first position.
    pub const fn guard(&self) -> &Distribution {
        &self.guard
    }

    /// Chances in the second position.
    pub const fn middle(&self) -> &Distribution {
        &self.middle
    }

    /// Chances in the third position.
    pub const fn last(&self) -> &Distribution {
        &self.last
    }

    /// How many relays can be the exit of an external circuit; of a purely internal blend, the last relay.
    pub const fn exits(&self) -> usize {
        self.exits
    }

    /// Relays grouped by equal chances, in a fixed order.
    pub(crate) fn groups(&self) -> Vec<Group> {
        let mut chances = vec![[0.0_f64; 3]; self.relays];
        for (position, distribution) in [&self.guard, &self.middle, &self.last].into_iter().enumerate() {
            for &(relay, chance) in distribution.chances() {
                chances[relay.get()][position] = chance;
            }
        }
        // Chances are not negative: their bit patterns order as they do.
        let mut counted: BTreeMap<[u64; 3], f64> = BTreeMap::new();
        for chance in chances.iter().filter(|chance| chance.iter().any(|&p| p > 0.0)) {
            *counted.entry(chance.map(f64::to_bits)).or_default() += 1.0;
        }
        let group = |(bits, relays): ([u64; 3], f64)| {
            let [guard, middle, last] = bits.map(f64::from_bits);
            Group { relays, guard, middle, last }
        };
        counted.into_iter().map(group).collect()
    }
}
