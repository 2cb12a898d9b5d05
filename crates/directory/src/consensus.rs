//! A consensus: the authorities' list of relays at one hour.
//!
//! Both flavours are read by `tor-netdoc`, the Tor project's own parser (its newer one, `parse2`, which alone keeps the
//! exit-policy summaries of the unflavoured consensus). **Signatures are not checked and dates are not compared with the
//! clock**: a consensus of any age is read, and whoever needs authenticity must check it elsewhere.

use crate::error::DirectoryError;
use crate::params::{self, Params};
use crate::policy::PortSummary;
use crate::read;
use crate::relay::{Fingerprint, Flag, Flags, Relay, TorVersion};
use crate::time::Timestamp;
use crate::weights::{BandwidthWeights, ClassTotals, Position};
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::path::Path;
use tor_netdoc::doc::netstatus::{NetParams, RelayWeight, md, plain};
use tor_netdoc::parse2::{NetdocParseableUnverified, ParseInput, parse_netdoc};
use tor_netdoc::types::relay_flags::{RelayFlag, RelayFlags};

/// Which form of the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Flavour {
    /// `network-status-version 3 microdesc`: what clients use; without exit-policy summaries.
    Microdesc,
    /// `network-status-version 3` (also called "ns"): with exit-policy summaries.
    Unflavoured,
}

/// What to do with a consensus that has no `bandwidth-weights` line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MissingWeights {
    /// It is an error.
    #[default]
    Refuse,
    /// Compute them as the authorities would ([`BandwidthWeights::compute`]).
    Compute,
}

/// The relays of one network with what the authorities say of them.
///
/// Invariant: at least one relay, at least one weight above zero, names and fingerprints unique.
#[derive(Debug, Clone, PartialEq)]
pub struct Consensus {
    /// Which form the document had.
    pub flavour: Flavour,
    /// From when on it was valid.
    pub valid_after: Timestamp,
    /// The version of the algorithm by which the authorities made it.
    pub method: u32,
    /// Consensus parameters.
    pub params: Params,
    /// Ordered by fingerprint.
    pub relays: Vec<Relay>,
    /// Weights of the positions.
    pub weights: BandwidthWeights,
}

impl Consensus {
    /// Reads a document from a file: plain, .xz or .gz.
    ///
    /// # Errors
    /// The file cannot be read, is damaged, or is no whole consensus with relays and weights.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, DirectoryError> {
        Self::read_with(path, MissingWeights::Refuse)
    }

    /// [`Self::read`], with a choice for documents without `bandwidth-weights`.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_with(path: impl AsRef<Path>, missing: MissingWeights) -> Result<Self, DirectoryError> {
        let path = path.as_ref();
        parse(&read::file(path)?, &path.display().to_string(), missing)
    }

    /// Reads a document from memory: plain, .xz or .gz.
    ///
    /// # Errors
    /// The bytes are damaged, or no whole consensus with relays and weights.
    pub fn parse(bytes: &[u8]) -> Result<Self, DirectoryError> {
        Self::parse_with(bytes, "the document", MissingWeights::Refuse)
    }

    /// [`Self::parse`], with the document's name for error messages and a choice for absent weights.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn parse_with(bytes: &[u8], document: &str, missing: MissingWeights) -> Result<Self, DirectoryError> {
        parse(bytes, document, missing)
    }

    /// Total consensus weight by class.
    pub fn totals(&self) -> ClassTotals {
        ClassTotals::of(&self.relays)
    }

    /// The bandwidth weights that the authorities would compute for these relays, in this network's units.
    pub fn computed_weights(&self) -> BandwidthWeights {
        self.computed_weights_for(&self.totals())
    }

    /// The bandwidth weights for other totals, in this network's units.
    pub(crate) fn computed_weights_for(&self, totals: &ClassTotals) -> BandwidthWeights {
        let scale = self.params.value(&params::BANDWIDTH_WEIGHT_SCALE) as u32;
        BandwidthWeights::compute_in_units(totals, scale)
    }

    /// Whether relays have exit-policy summaries.
    pub fn has_policies(&self) -> bool {
        self.relays.iter().any(|relay| relay.exit_policy.is_some())
    }
}

fn parse(bytes: &[u8], document: &str, missing: MissingWeights) -> Result<Consensus, DirectoryError> {
    let text = read::text(bytes, document)?;
    let first = text.lines().next().unwrap_or_default();
    let flavour = match first.split_ascii_whitespace().collect::<Vec<_>>()[..] {
        ["network-status-version", "3", "microdesc"] => Flavour::Microdesc,
        ["network-status-version", "3"] | ["network-status-version", "3", "ns"] => Flavour::Unflavoured,
        _ => return Err(read::not_a_consensus(&text, document)),
    };
    check_whole(&text, document)?;
    let input = ParseInput::new(&text, document);
    let malformed = |error: tor_netdoc::parse2::ParseError| DirectoryError::Malformed {
        document: document.to_owned(),
        line: error.lno,
        found: text.lines().nth(error.lno.saturating_sub(1)).unwrap_or_default().chars().take(60).collect(),
        problem: error.problem.to_string(),
    };
    let mut summaries = Summaries::default();
    // The two flavours are two families of types with the same fields.
    macro_rules! convert {
        ($flavour:ident, $policy:expr, $microdesc:expr) => {{
            let (body, _unchecked) =
                parse_netdoc::<$flavour::NetworkStatusUnverified>(&input).map_err(malformed)?.unwrap_unverified();
            let relays = body.routers.iter().map(|router| Relay {
                name: router.nickname().to_owned(),
                nickname: router.nickname().to_owned(),
                fingerprint: fingerprint(router.rsa_identity().as_bytes()),
                address: router.r.ip,
                or_port: router.r.or_port,
                flags: flags(router.flags.known),
                weight: match router.weight.effective() {
                    RelayWeight::Measured(weight) | RelayWeight::Unmeasured(weight) => u64::from(weight),
                    _ => 0,
                },
                measured: router.weight.effective().is_measured(),
                version: router.version.as_ref().and_then(|line| version(&line.to_string())),
                exit_policy: $policy(&router.port_policy).map(|policy| summaries.of(policy)),
                ipv6: router.a.iter().find_map(|address| match address.ip() {
                    IpAddr::V6(address) => Some(address),
                    IpAddr::V4(_) => None,
                }),
                microdesc: $microdesc(router),
            });
            let relays: Vec<Relay> = relays.collect();
            let valid_after = *body.preamble.lifetime.valid_after;
            (relays, valid_after, body.preamble.consensus_method.0, body.preamble.params, body.footer.consensus.bandwidth_weights)
        }};
    }
    let (relays, valid_after, method, params, weights) = match flavour {
        Flavour::Microdesc => convert!(md, |_| None::<String>, |router: &md::RouterStatus| Some(*router.md_digest())),
        Flavour::Unflavoured => convert!(plain, |policy: &Option<_>| policy.as_ref().map(ToString::to_string), |_| None),
    };
    let params: Params = params.iter().map(|(name, &value)| (name.as_str(), value)).collect();
    let since_1970 = valid_after.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let mut consensus = Consensus {
        flavour,
        valid_after: Timestamp::from_unix_secs(since_1970.as_secs()),
        method,
        relays: checked(relays, document)?,
        weights: BandwidthWeights::UNIFORM,
        params,
    };
    consensus.weights = match (bandwidth_weights(&weights, &consensus.params, document)?, missing) {
        (Some(weights), _) => weights,
        (None, MissingWeights::Compute) => consensus.computed_weights(),
        (None, MissingWeights::Refuse) => return Err(DirectoryError::NoBandwidthWeights { document: document.to_owned() }),
    };
    Ok(consensus)
}

/// A document that was cut off fails here with a message that says so, and not at whatever line the cut hit.
fn check_whole(text: &str, document: &str) -> Result<(), DirectoryError> {
    for missing in ["directory-footer", "directory-signature"] {
        let there = text.match_indices(missing).any(|(at, _)| at > 0 && text.as_bytes()[at - 1] == b'\n');
        if !there {
            let lines = text.lines().count();
            return Err(DirectoryError::Truncated { document: document.to_owned(), lines, missing });
        }
    }
    if !text.ends_with('\n') {
        let lines = text.lines().count();
        return Err(DirectoryError::Truncated { document: document.to_owned(), lines, missing: "-----END SIGNATURE-----" });
    }
    Ok(())
}

/// Checks and establishes the invariant of [`Consensus`]; orders by fingerprint.
fn checked(mut relays: Vec<Relay>, document: &str) -> Result<Vec<Relay>, DirectoryError> {
    let document = || document.to_owned();
    if relays.is_empty() {
        return Err(DirectoryError::NoRelays { document: document() });
    }
    if relays.iter().all(|relay| relay.weight == 0) {
        return Err(DirectoryError::NoRelayWeights { document: document() });
    }
    relays.sort_by_key(|relay| relay.fingerprint);
    if let Some(pair) = relays.windows(2).find(|pair| pair[0].fingerprint == pair[1].fingerprint) {
        return Err(DirectoryError::DuplicateRelay { document: document(), fingerprint: pair[0].fingerprint.to_string() });
    }
    make_names_unique(&mut relays);
    Ok(relays)
}

/// Names: the nickname; where several relays share one (in any case of letters), with the beginning of the fingerprint.
pub(crate) fn make_names_unique(relays: &mut [Relay]) {
    let mut count: HashMap<String, u32> = HashMap::with_capacity(relays.len());
    for relay in relays.iter() {
        *count.entry(relay.nickname.to_ascii_lowercase()).or_default() += 1;
    }
    let mut taken = HashSet::with_capacity(relays.len());
    for relay in relays {
        relay.name.clone_from(&relay.nickname);
        if count[&relay.nickname.to_ascii_lowercase()] > 1 {
            let digits = relay.fingerprint.to_string();
            // Eight digits suffice in every real document; a forged one may need all forty.
            relay.name = format!("{}.{}", relay.nickname, &digits[..8]);
            if taken.contains(&relay.name) {
                relay.name = format!("{}.{digits}", relay.nickname);
            }
        }
        taken.insert(relay.name.clone());
    }
}

fn bandwidth_weights(line: &NetParams<i32>, params: &Params, document: &str) -> Result<Option<BandwidthWeights>, DirectoryError> {
    if line.iter().next().is_none() {
        return Ok(None);
    }
    let scale = params.value(&params::BANDWIDTH_WEIGHT_SCALE) as u32;
    let value = |name: &'static str| match line.get(name) {
        Some(&value) if u32::try_from(value).is_ok_and(|value| value <= scale) => Ok(value as u32),
        found => Err(DirectoryError::BadBandwidthWeight {
            document: document.to_owned(),
            name,
            found: found.map_or_else(|| "absent".to_owned(), ToString::to_string),
            scale,
        }),
    };
    Ok(Some(BandwidthWeights {
        wgg: value("Wgg")?,
        wgm: value("Wgm")?,
        wgd: value("Wgd")?,
        wmg: value("Wmg")?,
        wmm: value("Wmm")?,
        wme: value("Wme")?,
        wmd: value("Wmd")?,
        weg: value("Weg")?,
        wem: value("Wem")?,
        wee: value("Wee")?,
        wed: value("Wed")?,
        scale,
    }))
}

fn fingerprint(bytes: &[u8]) -> Fingerprint {
    Fingerprint(bytes.try_into().expect("an RSA identity has 20 bytes"))
}

fn flags(known: RelayFlags) -> Flags {
    let flag = |flag| match flag {
        RelayFlag::Authority => Some(Flag::Authority),
        RelayFlag::BadExit => Some(Flag::BadExit),
        RelayFlag::Exit => Some(Flag::Exit),
        RelayFlag::Fast => Some(Flag::Fast),
        RelayFlag::Guard => Some(Flag::Guard),
        RelayFlag::HSDir => Some(Flag::HsDir),
        RelayFlag::MiddleOnly => Some(Flag::MiddleOnly),
        RelayFlag::NoEdConsensus => Some(Flag::NoEdConsensus),
        RelayFlag::Running => Some(Flag::Running),
        RelayFlag::Stable => Some(Flag::Stable),
        RelayFlag::StaleDesc => Some(Flag::StaleDesc),
        RelayFlag::V2Dir => Some(Flag::V2Dir),
        RelayFlag::Valid => Some(Flag::Valid),
        _ => None,
    };
    known.iter().filter_map(flag).collect()
}

/// `text` is a `v` line: "Tor" and the version for C tor, anything for other software.
fn version(text: &str) -> Option<TorVersion> {
    text.strip_prefix("Tor ")?.parse().ok()
}

/// Equal summaries are stored once: a consensus has a few hundred different ones for its thousands of relays.
#[derive(Default)]
struct Summaries(HashMap<String, PortSummary>);

impl Summaries {
    fn of(&mut self, text: String) -> PortSummary {
        let read = |text: &String| text.parse().expect("tor-netdoc prints what it has read");
        self.0.entry(text).or_insert_with_key(read).clone()
    }
}

/// What a person wants to know of a consensus at a glance.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Summary {
    /// Beginning of validity, UTC.
    pub valid_after: Timestamp,
    /// Form of the document.
    pub flavour: Flavour,
    /// Number of relays.
    pub relays: usize,
    /// Per class: name, number, consensus weight, share of all consensus weight.
    pub classes: Vec<ClassSummary>,
    /// Consensus weight of all relays.
    pub total_weight: u64,
    /// The bandwidth weights.
    pub weights: BandwidthWeights,
    /// Whether exit-policy summaries are there.
    pub policies: bool,
}

/// One class of relays within a [`Summary`].
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct ClassSummary {
    /// The class.
    pub class: crate::relay::Class,
    /// Number of relays.
    pub relays: usize,
    /// Their consensus weight.
    pub weight: u64,
    /// Their share of all consensus weight (0 to 1).
    pub share: f64,
    /// The factors with which they count as guard, middle and exit (0 to 1).
    pub factors: [f64; 3],
}

impl Consensus {
    /// The network at a glance.
    pub fn summary(&self) -> Summary {
        let totals = self.totals();
        let classes = crate::relay::Class::ALL.map(|class| ClassSummary {
            class,
            relays: self.relays.iter().filter(|relay| relay.class() == class).count(),
            weight: totals.get(class),
            share: totals.share(class),
            factors: Position::ALL.map(|position| self.weights.factor(position, class)),
        });
        Summary {
            valid_after: self.valid_after,
            flavour: self.flavour,
            relays: self.relays.len(),
            classes: classes.to_vec(),
            total_weight: totals.total(),
            weights: self.weights,
            policies: self.has_policies(),
        }
    }
}
