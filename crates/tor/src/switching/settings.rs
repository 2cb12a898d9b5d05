//! What a treatment can set about active circuit switching.

use onionlab_engine::HostId;
use onionlab_quantities::SimDuration;

/// What an outbuf's occupancy is held against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwitchOccupancy {
    /// Bytes in it at the sample, as a share of 32 KiB (the papers' text).
    Absolute,
    /// The moving average of cells put into it, as a share of the average one sample before (Algorithm 1, Kale et al. 2015, lines 9, 18 and 21).
    Relative,
}

/// Which circuits of a congested channel move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwitchChoice {
    /// The one with the greatest moving average, if it may (Kale et al. 2017, section 3.3).
    Bulkiest,
    /// All whose average is above the mean of the channel's circuits that carry traffic (Algorithm 1, line 12, with M as that mean).
    AboveMean,
}

/// Where a circuit moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwitchEntry {
    /// At the same entry to another middle and exit (Kale et al. 2015, section 4.3.1).
    Same,
    /// To another entry (section 4.3.2).
    Other,
}

/// Which exit the streams of a circuit that moves at its entry go on over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwitchExit {
    /// Another one, which connects to the servers anew (Kale et al. 2015, section 4.3.1).
    New,
    /// The same one over another middle: connections to servers stay (the note at the section's end). Only at the same entry.
    Kept,
}

/// When an entry sends SWITCHED_CONN, where a circuit moves at the same entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwitchAsk {
    /// Together with SWITCH, each on its path.
    AtOnce,
    /// When SWITCH, and with it everything before it on the old path, has left the outbuf: step 4 of section 4.3.1 strictly after step 3.
    Drained,
}

/// Active circuit switching at entry relays.
///
/// Source: Kale, Ohzahata, Wu and Kato, "Reducing Congestion in the Tor Network with Circuit Switching" (JIP 23(5), 2015), and "Emulation Evaluations of Tor
/// Schedulers with Active Circuit Switching" (2017). What they leave open: `docs/models/switching.md`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SwitchingSettings {
    /// Weight of the average before in the moving average, in (0, 1): the papers' gamma.
    pub gamma: f64,
    /// Below this share an outbuf is underfull: the papers' alpha.
    pub alpha: f64,
    /// Above this share it is overfull: the papers' beta.
    pub beta: f64,
    /// What the shares are of.
    pub occupancy: SwitchOccupancy,
    /// A socket that takes nothing more counts as congestion whatever the outbuf holds.
    pub unwritable: bool,
    /// Which circuits move.
    pub choice: SwitchChoice,
    /// Where to.
    pub entry: SwitchEntry,
    /// And to which exit. With another entry always to another one.
    pub exit: SwitchExit,
    /// When the new path is asked. With another entry always at once.
    pub ask: SwitchAsk,
    /// Between two samples of an entry.
    pub interval: SimDuration,
    /// After a move a channel must have been underfull before the next one; not in the papers.
    pub hysteresis: bool,
    /// How often the streams of a circuit may move, none: any number of times; not in the papers.
    pub most_moves: Option<u32>,
    /// An entry with an underfull outbuf closes circuits on it on which nothing moved for so long (Algorithm 1, line 23); none: it does not.
    pub drop_idle: Option<SimDuration>,
    /// A switch without an answer has failed (`SocksTimeout`).
    pub timeout: SimDuration,
}

impl Default for SwitchingSettings {
    /// The papers' values: gamma 0.7, alpha 0.1, beta 0.5, a sample each 15 s, 120 s of waiting, no limits.
    fn default() -> Self {
        Self {
            gamma: 0.7,
            alpha: 0.1,
            beta: 0.5,
            occupancy: SwitchOccupancy::Absolute,
            unwritable: true,
            choice: SwitchChoice::Bulkiest,
            entry: SwitchEntry::Same,
            exit: SwitchExit::New,
            ask: SwitchAsk::AtOnce,
            interval: SimDuration::from_secs(15),
            hysteresis: false,
            most_moves: None,
            drop_idle: None,
            timeout: SimDuration::from_secs(120),
        }
    }
}

/// A client wants the relays of a spare circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpareRequest {
    /// Who.
    pub client: crate::ids::ClientId,
    /// Number of the circuit among those of this client, from 0.
    pub circuit: u64,
    /// Entry, middle and exit of the circuit for which it is.
    pub instead_of: [HostId; 3],
    /// With the same entry or another.
    pub entry: SwitchEntry,
    /// With the same exit or another.
    pub exit: SwitchExit,
}
