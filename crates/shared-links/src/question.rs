//! What is asked: how many circuits, of what kind, counted how.

use crate::error::SharedLinksError;
use crate::traffic::{Ports, TrafficClass};
use onionlab_directory::{Flag, Flags};
use serde::{Deserialize, Serialize};

/// One question about shared links. Everything but the number of circuits may be left out where a question is read from a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Question {
    /// Active circuits at one time (N).
    pub circuits: u64,
    /// What the circuits are for.
    #[serde(default = "Blend::external")]
    pub blend: Blend,
    /// Whether a link from A to B is another than one from B to A. A TLS connection is not directed; the paper counts both ways.
    #[serde(default = "directed_by_default")]
    pub directed: bool,
    /// Circuits of one client, all over its guard (the paper's k).
    #[serde(default = "one_by_default")]
    pub per_client: u64,
    /// Guards of one client, among which each of its circuits chooses one at random; 1 in the paper.
    #[serde(default = "one_by_default")]
    pub guards_per_client: u64,
    /// Which relays may stand where.
    #[serde(default)]
    pub filters: Filters,
    /// Which relays may not be together in one circuit. The paper excludes none; only the draw can.
    #[serde(default)]
    pub exclusions: Exclusions,
}

const fn directed_by_default() -> bool {
    true
}

const fn one_by_default() -> u64 {
    1
}

impl Question {
    /// A thousand times what Tor has; a draw of them takes 3 GiB of memory.
    pub const MAX_CIRCUITS: u64 = 100_000_000;
    /// More guards than any client of tor's has.
    pub const MAX_GUARDS: u64 = 20;
    /// Links with more circuits than this are counted as if they had so many.
    pub const MAX_PER_LINK: usize = 100_000;

    /// The paper's plain case: `circuits` web circuits to the outside, one per client, links directed, no exclusions.
    pub fn external(circuits: u64) -> Self {
        Self {
            circuits,
            blend: Blend::external(),
            directed: true,
            per_client: 1,
            guards_per_client: 1,
            filters: Filters::default(),
            exclusions: Exclusions::default(),
        }
    }

    /// Circuits within the network, as onion services have them: the last relay is chosen as a middle relay.
    pub fn internal(circuits: u64) -> Self {
        Self { blend: Blend::internal(), ..Self::external(circuits) }
    }

    /// The same question with links counted regardless of their direction.
    #[must_use]
    pub fn undirected(self) -> Self {
        Self { directed: false, ..self }
    }

    /// Checks the numbers that do not depend on a network.
    ///
    /// # Errors
    /// Circuits, circuits per client or guards per client are zero or too many.
    pub fn check(&self) -> Result<(), SharedLinksError> {
        let max = Self::MAX_CIRCUITS;
        match *self {
            Self { circuits: 0, .. } => Err(SharedLinksError::NoCircuits { max }),
            Self { circuits, .. } if circuits > max => Err(SharedLinksError::TooManyCircuits { circuits, max }),
            Self { circuits, per_client, .. } if per_client == 0 || per_client > circuits => {
                Err(SharedLinksError::PerClient { per_client, circuits })
            }
            Self { guards_per_client: guards, .. } if !(1..=Self::MAX_GUARDS).contains(&guards) => {
                Err(SharedLinksError::Guards { guards, max: Self::MAX_GUARDS })
            }
            _ => Ok(()),
        }
    }
}

/// What one circuit is for; it decides how its last relay is chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Use {
    /// To the outside, by any relay with a usable Exit flag.
    External,
    /// To the outside, by an exit whose policy serves all these ports.
    Ports(Ports),
    /// Within the network: the last relay is chosen like a middle relay.
    Internal,
}

/// Kinds of circuits with their shares. Each circuit is of one kind, drawn by share, independently of the others.
///
/// Invariant: shares are finite and not negative, at least one is positive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<(Use, f64)>", into = "Vec<(Use, f64)>")]
pub struct Blend(Vec<(Use, f64)>);

impl TryFrom<Vec<(Use, f64)>> for Blend {
    type Error = SharedLinksError;
    fn try_from(kinds: Vec<(Use, f64)>) -> Result<Self, Self::Error> {
        Self::new(kinds)
    }
}

impl From<Blend> for Vec<(Use, f64)> {
    fn from(blend: Blend) -> Self {
        blend.0
    }
}

impl Blend {
    /// Kinds with shares; these need not add up to 1.
    ///
    /// # Errors
    /// A share is negative or not finite, or none is positive.
    pub fn new(kinds: Vec<(Use, f64)>) -> Result<Self, SharedLinksError> {
        if let Some(&(_, share)) = kinds.iter().find(|(_, share)| !share.is_finite() || *share < 0.0) {
            return Err(SharedLinksError::Share { share });
        }
        let total: f64 = kinds.iter().map(|&(_, share)| share).sum();
        if !(total.is_finite() && total > 0.0) {
            return Err(SharedLinksError::Share { share: total });
        }
        Ok(Self(kinds))
    }

    /// External circuits only.
    pub fn external() -> Self {
        Self(vec![(Use::External, 1.0)])
    }

    /// Internal circuits only.
    pub fn internal() -> Self {
        Self(vec![(Use::Internal, 1.0)])
    }

    /// External circuits of one traffic class only.
    pub fn of_class(class: TrafficClass) -> Self {
        Self(vec![(Use::Ports(class.ports()), 1.0)])
    }

    /// External traffic as measured: 1.7 times as many other circuits as web circuits; the others in equal parts over the
    /// four other classes, because the paper gives no split.
    pub fn traffic_mixture() -> Self {
        Self::external_kinds(1.0)
    }

    /// All influences of the paper's section 4.1.7: ten times as many circuits at entries as at exits, so that nine of
    /// ten are internal, and the external ones as in [`Self::traffic_mixture`].
    pub fn everything() -> Self {
        let mut kinds = Self::external_kinds(0.1);
        kinds.0.push((Use::Internal, 0.9));
        kinds
    }

    fn external_kinds(share: f64) -> Self {
        let other = share * 1.7 / 2.7 / 4.0;
        let kind = |class: TrafficClass| {
            let of_class = if class == TrafficClass::Web { share / 2.7 } else { other };
            (Use::Ports(class.ports()), of_class)
        };
        Self(TrafficClass::ALL.map(kind).to_vec())
    }

    /// The kinds with shares that add up to 1.
    pub fn shares(&self) -> impl Iterator<Item = (&Use, f64)> {
        let total: f64 = self.0.iter().map(|&(_, share)| share).sum();
        self.0.iter().map(move |(of, share)| (of, share / total))
    }
}

/// Flags that a relay needs for a position, and flags that rule it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Filter {
    /// All of these are needed.
    pub needed: Flags,
    /// None of these may be there.
    pub refused: Flags,
}

impl Filter {
    /// Whether a relay with these flags passes.
    pub fn admits(self, flags: Flags) -> bool {
        self.needed.iter().all(|flag| flags.contains(flag)) && !self.refused.iter().any(|flag| flags.contains(flag))
    }
}

/// Which relays may stand in which position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Filters {
    /// First position; tor and the paper's text want the Guard flag. (The paper's pseudo-code admits exits too.)
    pub guard: Filter,
    /// Second position, and the third of internal circuits; any relay in the paper.
    pub middle: Filter,
    /// Third position of external circuits; the Exit flag without BadExit.
    pub exit: Filter,
}

impl Default for Filters {
    fn default() -> Self {
        let filter = |needed: &[Flag], refused: &[Flag]| Filter {
            needed: needed.iter().copied().collect(),
            refused: refused.iter().copied().collect(),
        };
        Self { guard: filter(&[Flag::Guard], &[]), middle: filter(&[], &[]), exit: filter(&[Flag::Exit], &[Flag::BadExit]) }
    }
}

/// Which relays may not be together in one circuit. Tor obeys all three; any of them includes `same_relay`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Exclusions {
    /// One relay may stand in a circuit once only.
    pub same_relay: bool,
    /// No two relays of one IPv4 /16.
    pub same_subnet: bool,
    /// No two relays of one family: a number for each relay of the consensus in its order, equal within a family, 0 for none.
    /// A consensus says nothing of families; they stand in the relays' descriptors.
    pub families: Option<Vec<u32>>,
}

impl Exclusions {
    /// Whether nothing is excluded.
    pub fn is_none(&self) -> bool {
        !self.same_relay && !self.same_subnet && self.families.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_numbers_are_refused() {
        let error = |question: Question| question.check().unwrap_err().to_string();
        assert!(error(Question::external(0)).contains("0 circuits share nothing"));
        assert!(error(Question::external(u64::MAX)).contains("too many"));
        assert!(error(Question { per_client: 11, ..Question::external(10) }).contains("from 1 to 10"));
        assert!(error(Question { per_client: 0, ..Question::external(10) }).contains("0 circuits per client"));
        for guards in [0, 21] {
            let told = error(Question { guards_per_client: guards, ..Question::external(10) });
            assert_eq!(told, format!("{guards} guards per client are impossible: from 1 to 20 are allowed"));
        }
        assert!(Question { per_client: 10, ..Question::external(10) }.check().is_ok());
    }

    #[test]
    fn shares_are_shares() {
        for bad in [vec![], vec![(Use::Internal, -1.0)], vec![(Use::Internal, f64::NAN)], vec![(Use::External, 0.0)]] {
            assert!(Blend::new(bad).is_err());
        }
        for blend in [Blend::everything(), Blend::traffic_mixture(), Blend::new(vec![(Use::External, 3.0)]).unwrap()] {
            assert!((blend.shares().map(|(_, share)| share).sum::<f64>() - 1.0).abs() < 1e-12);
        }
        let web = Blend::traffic_mixture().shares().next().unwrap().1;
        assert!((web - 1.0 / 2.7).abs() < 1e-12);
    }

    #[test]
    fn questions_are_read_and_written() {
        let question: Question = serde_json::from_str(r#"{ "circuits": 96000 }"#).unwrap();
        assert_eq!(question, Question::external(96_000));
        for question in [
            Question::internal(5).undirected(),
            Question { blend: Blend::everything(), per_client: 2, guards_per_client: 3, ..Question::external(7) },
            Question { exclusions: Exclusions { same_relay: true, ..Exclusions::default() }, ..Question::external(7) },
        ] {
            let text = serde_json::to_string(&question).unwrap();
            assert_eq!(serde_json::from_str::<Question>(&text).unwrap(), question, "{text}");
        }
        for bad in [
            r#"{ "circuits": 1, "speed": 5 }"#,
            r#"{ "circuits": -1 }"#,
            r#"{ "circuits": 1, "blend": [["internal", -2.0]] }"#,
            r#"{ "circuits": 1, "blend": [[{ "ports": "0" }, 1.0]] }"#,
            r#"{ "circuits": 1, "filters": { "exit": { "needed": "Speedy" } } }"#,
        ] {
            assert!(serde_json::from_str::<Question>(bad).is_err(), "{bad}");
        }
    }
}
