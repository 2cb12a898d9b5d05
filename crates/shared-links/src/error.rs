//! Questions that have no answer.

/// Why a number of shared links could not be had. Each message is one sentence with what is allowed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SharedLinksError {
    /// No circuits at all.
    #[error("0 circuits share nothing: write a number of circuits from 1 to {max}")]
    NoCircuits {
        /// The greatest number allowed.
        max: u64,
    },
    /// More circuits than can be counted.
    #[error("{circuits} circuits are too many: from 1 to {max} are allowed")]
    TooManyCircuits {
        /// The number given.
        circuits: u64,
        /// The greatest number allowed.
        max: u64,
    },
    /// A client has no circuits, or more than there are.
    #[error("{per_client} circuits per client are impossible with {circuits} circuits: from 1 to {circuits} are allowed")]
    PerClient {
        /// Circuits per client as given.
        per_client: u64,
        /// All circuits.
        circuits: u64,
    },
    /// More repetitions than anyone waits for.
    #[error("{repeat} repetitions are too many: at most {most} are allowed")]
    Repeat {
        /// The number given.
        repeat: u64,
        /// The greatest number allowed.
        most: u64,
    },
    /// The caller does not want the answer any more.
    #[error("the answer was stopped")]
    Stopped,
    /// A client without guards, or with too many.
    #[error("{guards} guards per client are impossible: from 1 to {max} are allowed")]
    Guards {
        /// The number given.
        guards: u64,
        /// The greatest number allowed.
        max: u64,
    },
    /// A port or range that does not exist.
    #[error("{text:?} is no port: write ports from 1 to 65535 and ranges of them, for example 80,443,6881-6889")]
    Ports {
        /// The text as given, shortened.
        text: String,
    },
    /// Ports asked of a consensus without policies.
    #[error(
        "exits for ports {ports} cannot be told from the consensus of {consensus}: it is a microdescriptor consensus, and only \
         an unflavoured one (\"network-status-version 3\") has exit-policy summaries"
    )]
    NoPolicies {
        /// The ports.
        ports: String,
        /// Its date.
        consensus: String,
    },
    /// No relay for a position.
    #[error("no relay of the consensus of {consensus} can stand in the {position} position ({needed})")]
    NoCandidate {
        /// Its date.
        consensus: String,
        /// "guard", "middle" or "exit".
        position: &'static str,
        /// What a relay needs for it.
        needed: String,
    },
    /// Shares of kinds of circuits that are not shares.
    #[error(
        "the share of one kind of circuits is {share}: shares are numbers from 0 up, at least one of them above 0 and their sum a number too"
    )]
    Share {
        /// The share as given.
        share: f64,
    },
    /// Something that only the draw can do.
    #[error("the expectation has no closed form with {what}: use the draw")]
    OnlyDraw {
        /// What stands in the way.
        what: &'static str,
    },
    /// Exclusions that leave no circuit.
    #[error("no circuit was found in {tries} attempts that obeys the exclusions: the network is too small for them")]
    NoCircuit {
        /// How often it was tried.
        tries: u32,
    },
    /// Families that do not fit the relays.
    #[error("{given} family numbers for {relays} relays: one for each relay is needed, in their order")]
    Families {
        /// Numbers given.
        given: usize,
        /// Relays of the network.
        relays: usize,
    },
    /// A list without anything in it.
    #[error("an empty list of {what}: write at least one")]
    EmptySeries {
        /// Of what.
        what: &'static str,
    },
    /// Sampling failed.
    #[error(transparent)]
    Directory(#[from] onionlab_directory::DirectoryError),
}
