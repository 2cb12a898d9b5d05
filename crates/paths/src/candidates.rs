//! Which relays may stand in which position, and with what weight.

use crate::RelayIndex;
use crate::distribution::Distribution;
use onionlab_directory::{BandwidthWeights, Class, Flag, Position, Relay};

/// What a client demands of its paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathOptions {
    /// No two relays of one IPv4 /16 (tor's `EnforceDistinctSubnets`, on by default). Off, only the same relay is excluded.
    pub distinct_subnets: bool,
    /// Only relays with the Fast flag, as tor demands for practically every client circuit; a position in which
    /// no relay has it goes without, as in tor.
    pub fast_only: bool,
    /// Ports that the exit must serve, all of them. Empty: any relay with the Exit flag will do. With ports, as in tor,
    /// the exit-policy summary decides and the flag is not asked for.
    pub exit_ports: Vec<u16>,
}

impl Default for PathOptions {
    fn default() -> Self {
        Self { distinct_subnets: true, fast_only: true, exit_ports: Vec::new() }
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
    #[error("no exit of the network serves {} {}", if ports.len() == 1 { "port" } else { "all of the ports" }, list(ports))]
    NoExitForPorts {
        /// The ports.
        ports: Vec<u16>,
    },
    /// Ports were asked for that need policies.
    #[error(
        "exits for {} {} cannot be told: the network has no exit-policy summaries, which only an unflavoured consensus has \
         (without them ports 80 and 443 can be asked for, which the Exit flag promises)",
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
    /// A guard that leaves no path.
    #[error("no path over guard {guard}: every exit or every middle relay is the same relay or in the same /16")]
    NoPathOverGuard {
        /// Place of the guard among the relays.
        guard: u32,
    },
    /// A port that does not exist.
    #[error("port 0 does not exist: write ports from 1 to 65535")]
    PortZero,
}

fn list(ports: &[u16]) -> String {
    ports.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The distribution of one position, all relays considered.
pub(crate) fn distribution(
    relays: &[Relay],
    weights: &BandwidthWeights,
    position: Position,
    options: &PathOptions,
) -> Result<Distribution, PathError> {
    let eligible = eligibility(relays, position, options)?;
    let candidates = |fast_only: bool| {
        let eligible = &eligible;
        let chosen =
            relays.iter().zip(0..).filter(move |(relay, _)| eligible(relay) && (!fast_only || relay.flags.contains(Flag::Fast)));
        chosen.map(|(relay, index)| (RelayIndex(index), relay))
    };
    let fast_only = options.fast_only && candidates(true).next().is_some();
    let weighted =
        candidates(fast_only).map(|(index, relay)| (index, relay.weight as f64 * weights.factor(position, relay.class())));
    // Tor draws uniformly where all weights are zero.
    let uniform = || Distribution::new(candidates(fast_only).map(|(index, _)| (index, 1.0)));
    Distribution::new(weighted).or_else(uniform).ok_or_else(|| match position {
        Position::Exit if !options.exit_ports.is_empty() => PathError::NoExitForPorts { ports: options.exit_ports.clone() },
        Position::Exit => PathError::NoCandidate { position, needed: "the Exit flag without BadExit" },
        Position::Guard => PathError::NoCandidate { position, needed: "the Guard flag" },
        Position::Middle => PathError::NoCandidate { position, needed: "any relay" },
    })
}

type Eligible<'a> = Box<dyn Fn(&Relay) -> bool + 'a>;

fn eligibility<'a>(relays: &[Relay], position: Position, options: &'a PathOptions) -> Result<Eligible<'a>, PathError> {
    Ok(match position {
        Position::Guard => Box::new(|relay| relay.flags.contains(Flag::Guard)),
        Position::Middle => Box::new(|_| true),
        Position::Exit => {
            let ports = &options.exit_ports;
            if ports.contains(&0) {
                return Err(PathError::PortZero);
            }
            let is_exit = |relay: &Relay| matches!(relay.class(), Class::Exit | Class::GuardExit);
            if ports.is_empty() {
                Box::new(is_exit)
            } else if relays.iter().any(|relay| relay.exit_policy.is_some()) {
                Box::new(move |relay| {
                    let policy = relay.exit_policy.as_ref();
                    !relay.flags.contains(Flag::BadExit)
                        && policy.is_some_and(|policy| ports.iter().all(|&port| policy.allows(port)))
                })
            } else if ports.iter().all(|port| matches!(port, 80 | 443)) {
                Box::new(is_exit)
            } else {
                return Err(PathError::NoPolicies { ports: ports.clone() });
            }
        }
    })
}
