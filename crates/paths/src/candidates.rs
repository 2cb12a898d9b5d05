//! Which relays may stand in which position, and with what weight.

use crate::RelayIndex;
use crate::distribution::Distribution;
use onionlab_directory::{BandwidthWeights, Families, Flag, Flags, PortSummary, Position, Relay};

/// What a client demands of its paths, whatever the circuit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathOptions {
    /// No two relays of one subnet (tor's `EnforceDistinctSubnets`, on by default): of one IPv4 /16 and, with `ipv6_subnets`, of one IPv6 /32. Off, only
    /// families and the same relay are excluded.
    pub distinct_subnets: bool,
    /// Subnets of IPv6 count as those of IPv4 do, as from tor 0.4.0 on (ticket 24393).
    pub ipv6_subnets: bool,
    /// Only relays with the Fast flag (tor's `need_capacity`, demanded of practically every client circuit).
    pub fast: bool,
    /// Who is of one family with whom; such relays exclude each other.
    pub families: Families,
}

impl Default for PathOptions {
    fn default() -> Self {
        Self { distinct_subnets: true, ipv6_subnets: true, fast: true, families: Families::none() }
    }
}

/// What is asked of a circuit's exit.
///
/// Source: C tor `circuitbuild.c:choose_good_exit_server_general`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ExitDemand {
    /// Distinct ports, ascending, zeros behind them.
    ports: [u16; Self::MAX_PORTS],
    /// Streams wait for these ports; else they are only foreseen.
    pending: bool,
    /// Only relays with the flag Stable.
    stable: bool,
}

impl ExitDemand {
    /// More ports than these are not looked at.
    pub const MAX_PORTS: usize = 4;
    /// Any relay that lets anything out.
    pub const ANY: Self = Self { ports: [0; Self::MAX_PORTS], pending: false, stable: false };

    /// Streams wait for these ports: the exits that serve the most of them are considered.
    pub fn pending(ports: &[u16]) -> Self {
        Self { pending: true, ..Self::of(ports) }
    }

    /// A circuit built ahead: exits that serve at least one of these ports, or if there is none, any exit.
    pub fn predicted(ports: &[u16]) -> Self {
        Self::of(ports)
    }

    fn of(given: &[u16]) -> Self {
        let mut sorted = given.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let mut ports = [0; Self::MAX_PORTS];
        for (slot, port) in ports.iter_mut().zip(&sorted) {
            *slot = *port;
        }
        Self { ports, ..Self::ANY }
    }

    /// The same, with Stable demanded too, as for ports whose streams live long and for the legs of conflux.
    #[must_use]
    pub const fn stable(self) -> Self {
        Self { stable: true, ..self }
    }

    /// The ports.
    pub fn ports(&self) -> impl Iterator<Item = u16> + '_ {
        self.ports.iter().copied().filter(|&port| port > 0)
    }

    /// Whether the other relays of the circuit must be Stable too.
    pub const fn needs_stable(&self) -> bool {
        self.stable
    }
}

/// Why a network has no paths.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// No relay for a position.
    #[error("no relay of the network can be the {}: {needed} is needed", position.as_str())]
    NoCandidate {
        /// The position.
        position: Position,
        /// What a relay needs for it.
        needed: &'static str,
    },
    /// No exit for the ports.
    #[error("no exit of the network serves {}", if ports.len() == 1 { format!("port {}", ports[0]) } else { format!("any of the ports {}", list(ports)) })]
    NoExitForPorts {
        /// The ports.
        ports: Vec<u16>,
    },
    /// Ports were asked for that need policies.
    #[error(
        "exits for {} {} cannot be told: the network has no exit-policy summaries, which only an unflavoured consensus has \
         (without them ports 80 and 443 can be asked for, which the Exit flag promises; `exit-policies = \"model\"` gives relays policies)",
        if ports.len() == 1 { "port" } else { "ports" },
        list(ports)
    )]
    NoPolicies {
        /// The ports.
        ports: Vec<u16>,
    },
    /// Each position has candidates, but no three of them go together.
    #[error("no three relays of the network make a path: {reason}")]
    NoPath {
        /// What stands in the way.
        reason: &'static str,
    },
    /// Every guard leaves no path.
    #[error(
        "no guard of the network leaves a path: every exit or every middle relay is the same relay, in the same subnet or of the same family"
    )]
    NoGuardWithPath,
}

fn list(ports: &[u16]) -> String {
    ports.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// A relay as far as drawing it is concerned.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub flags: Flags,
    /// Consensus weight times bandwidth weight, by [`Position`].
    weights: [f64; 3],
    policy: Option<PortSummary>,
}

/// The flags that a draw asks for; an empty set of candidates is retried without Fast and Stable, as in tor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Needs {
    pub fast: bool,
    pub stable: bool,
}

impl Needs {
    pub const NOTHING: Self = Self { fast: false, stable: false };

    pub fn met_by(self, flags: Flags) -> bool {
        (!self.fast || flags.contains(Flag::Fast)) && (!self.stable || flags.contains(Flag::Stable))
    }
}

/// A network's relays with their weights in each position.
#[derive(Debug)]
pub(crate) struct Candidates {
    relays: Vec<Candidate>,
    /// Whether exit policies are known; else the Exit flag stands for [`Flag::EXIT_PORTS`].
    policies: bool,
}

impl Candidates {
    pub fn new(relays: &[Relay], weights: &BandwidthWeights) -> Self {
        let candidate = |relay: &Relay| Candidate {
            flags: relay.flags,
            weights: Position::ALL.map(|position| relay.weight as f64 * weights.factor(position, relay.class())),
            policy: relay.exit_policy.clone(),
        };
        Self { relays: relays.iter().map(candidate).collect(), policies: relays.iter().any(|relay| relay.exit_policy.is_some()) }
    }

    pub fn len(&self) -> usize {
        self.relays.len()
    }

    pub fn flags(&self, relay: RelayIndex) -> Flags {
        self.relays[relay.get()].flags
    }

    /// The relays that `admits` lets through, by their weight in `position`; all alike where each of them weighs nothing, as in tor.
    pub fn weighted(&self, position: Position, admits: impl Fn(&Candidate) -> bool) -> Option<Distribution> {
        let admitted = || self.relays.iter().zip(0..).filter(|(relay, _)| admits(relay));
        let by_weight = admitted().map(|(relay, at)| (RelayIndex(at), relay.weights[position.index()]));
        Distribution::new(by_weight).or_else(|| Distribution::new(admitted().map(|(_, at)| (RelayIndex(at), 1.0))))
    }

    /// Whether a relay lets streams to a port out.
    pub fn serves(&self, relay: RelayIndex, port: u16) -> bool {
        let relay = &self.relays[relay.get()];
        match &relay.policy {
            _ if relay.flags.contains(Flag::BadExit) => false,
            Some(policy) => policy.allows(port),
            None => !self.policies && relay.flags.contains(Flag::Exit) && Flag::exit_promises(port),
        }
    }

    /// The exits for a demand, exclusions left aside.
    pub fn exits(&self, demand: ExitDemand, fast: bool) -> Result<Distribution, PathError> {
        let ports: Vec<u16> = demand.ports().collect();
        if demand.pending && !self.policies && !ports.iter().all(|port| Flag::exit_promises(*port)) {
            return Err(PathError::NoPolicies { ports });
        }
        let needs = Needs { fast, stable: demand.stable };
        let found = self.exits_with(demand, needs).or_else(|| self.exits_with(demand, Needs::NOTHING));
        found.ok_or(match (ports.is_empty(), self.policies) {
            (false, true) if demand.pending => PathError::NoExitForPorts { ports },
            (_, true) => PathError::NoCandidate {
                position: Position::Exit,
                needed: "an exit policy that lets something out, without BadExit,",
            },
            (_, false) => PathError::NoCandidate { position: Position::Exit, needed: "the Exit flag without BadExit" },
        })
    }

    fn exits_with(&self, demand: ExitDemand, needs: Needs) -> Option<Distribution> {
        let usable = |relay: &Candidate| {
            let lets_out = match &relay.policy {
                Some(policy) => policy.allows_any(),
                None => !self.policies && relay.flags.contains(Flag::Exit),
            };
            lets_out && !relay.flags.contains(Flag::BadExit) && needs.met_by(relay.flags)
        };
        // Without policies every usable relay has the Exit flag, which promises two ports.
        let served = |relay: &Candidate| {
            let allows = |port: &u16| relay.policy.as_ref().map_or(Flag::exit_promises(*port), |policy| policy.allows(*port));
            demand.ports().filter(allows).count()
        };
        let most = self.relays.iter().filter(|relay| usable(relay)).map(served).max()?;
        match (most, demand.pending) {
            (0, true) if demand.ports().next().is_some() => None,
            (0, _) => self.weighted(Position::Exit, usable),
            (_, true) => self.weighted(Position::Exit, |relay| usable(relay) && served(relay) == most),
            (_, false) => self.weighted(Position::Exit, |relay| usable(relay) && served(relay) > 0),
        }
    }
}
