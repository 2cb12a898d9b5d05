//! What can go wrong with a consensus document or a network drawn from one.

use std::path::PathBuf;

/// Why a consensus could not be had, sampled or made.
///
/// Each message is one sentence that names the document, the place in it where there is one, and what is allowed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DirectoryError {
    /// The file cannot be read.
    #[error("cannot read {}: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        reason: String,
    },
    /// The compressed data is broken or incomplete.
    #[error("{document}: the {format} data is damaged or cut off ({reason})")]
    Compression {
        /// The document's name.
        document: String,
        /// "xz" or "gzip".
        format: &'static str,
        /// What the decompressor says.
        reason: String,
    },
    /// The document, once decompressed, is larger than any consensus.
    #[error("{document}: more than {limit_mib} MiB of text, which no consensus is (the largest known have 4 MiB)")]
    TooLarge {
        /// The document's name.
        document: String,
        /// The limit in MiB.
        limit_mib: u64,
    },
    /// Something else than a consensus.
    #[error(
        "{document}: not a consensus: it starts with {found:?}, where \"network-status-version 3\" or \
         \"network-status-version 3 microdesc\" is wanted"
    )]
    NotAConsensus {
        /// The document's name.
        document: String,
        /// The beginning of the document.
        found: String,
    },
    /// Bytes that are no text, and not compressed as far as is known here.
    #[error("{document}: not a consensus: it is no text, and is compressed neither by xz nor by gzip")]
    NotText {
        /// The document's name.
        document: String,
    },
    /// The document ends early.
    #[error("{document}: cut off after line {lines}: no \"{missing}\" line, with which a whole consensus ends")]
    Truncated {
        /// The document's name.
        document: String,
        /// How many lines it has.
        lines: usize,
        /// The keyword that is not there.
        missing: &'static str,
    },
    /// A text about families that speaks of other relays.
    #[error(
        "{document}: nothing in it speaks of a relay of this network; allowed are microdescriptors or server descriptors of its relays, or a list \
         with the fingerprints or names of one family on each line"
    )]
    NoFamilies {
        /// The document's name.
        document: String,
    },
    /// Families of more relays than any network has.
    #[error("{document}: its families make {pairs} pairs of relays; at most {most} are allowed")]
    LargeFamilies {
        /// The document's name.
        document: String,
        /// Pairs that it makes.
        pairs: usize,
        /// Pairs that are allowed.
        most: usize,
    },
    /// The document breaks the format.
    #[error("{document}, line {line} ({found:?}): {problem}; the format is that of Tor's directory specification, version 3")]
    Malformed {
        /// The document's name.
        document: String,
        /// Line, from 1 on.
        line: usize,
        /// The beginning of that line.
        found: String,
        /// What is wrong there.
        problem: String,
    },
    /// A consensus without relays.
    #[error("{document}: no relays in it (no \"r\" line); at least one guard, one middle and one exit are needed")]
    NoRelays {
        /// The document's name.
        document: String,
    },
    /// Relays, but none with a weight above zero.
    #[error("{document}: no relay has a consensus weight above zero (\"w Bandwidth=...\"), so that none can be chosen")]
    NoRelayWeights {
        /// The document's name.
        document: String,
    },
    /// The `bandwidth-weights` line is absent.
    #[error(
        "{document}: no \"bandwidth-weights\" line, with which a consensus ends since 2010 and without which no path can be chosen"
    )]
    NoBandwidthWeights {
        /// The document's name.
        document: String,
    },
    /// A value on the `bandwidth-weights` line is missing or impossible.
    #[error("{document}: bandwidth weight {name} is {found}; a whole number from 0 to {scale} is wanted")]
    BadBandwidthWeight {
        /// The document's name.
        document: String,
        /// Keyword: "Wgg".
        name: &'static str,
        /// The value, or "absent".
        found: String,
        /// The value that stands for 1 (`bwweightscale`).
        scale: u32,
    },
    /// Two entries for one identity.
    #[error("{document}: relay {fingerprint} is listed twice; each identity may occur once")]
    DuplicateRelay {
        /// The document's name.
        document: String,
        /// Identity in hexadecimal.
        fingerprint: String,
    },
    /// A sample of a size that cannot be drawn.
    #[error("cannot sample {wanted} relays: {reason}")]
    SampleSize {
        /// The number wanted.
        wanted: usize,
        /// What is allowed.
        reason: String,
    },
    /// A share outside (0, 1].
    #[error("a network scale of {scale} is impossible: write a share above 0 and at most 1, for example 0.1")]
    Scale {
        /// The share as it was given.
        scale: f64,
    },
    /// A year outside the model.
    #[error("no model of the network of {year}: years from {first} to {last} are known")]
    Year {
        /// The year as it was given.
        year: f64,
        /// The first known.
        first: u16,
        /// The last known.
        last: u16,
    },
    /// A text that is no exit-policy summary.
    #[error(
        "{text:?} is no exit-policy summary: write \"accept\" or \"reject\" and ports from 1 to 65535, for example \"accept 80,443,6660-6669\""
    )]
    PortSummary {
        /// The text, shortened.
        text: String,
    },
    /// A word that is no flag.
    #[error(
        "{text:?} is no flag of a relay: Authority, BadExit, Exit, Fast, Guard, HSDir, MiddleOnly, NoEdConsensus, Running, Stable, \
         StaleDesc, V2Dir and Valid are"
    )]
    Flag {
        /// The word, shortened.
        text: String,
    },
    /// A text that is no version of tor.
    #[error("{text:?} is no version of tor: write it as tor does, for example 0.4.8.12 or 0.4.9.1-alpha")]
    Version {
        /// The text, shortened.
        text: String,
    },
    /// A factor of the capacity model that is not a positive number.
    #[error("the capacity model's {name} is {value}; a number above zero is wanted")]
    Capacity {
        /// Which one.
        name: &'static str,
        /// The value.
        value: f64,
    },
}
