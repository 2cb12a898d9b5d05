//! How a host chooses the cells that it sends.

use crate::scenario::own_policy::Policy;
use crate::scenario::treatment::{ChannelScheduler, Circuitmux, EwmaClock};
use onionlab_quantities::SimDuration;
use serde::Serialize;

/// Which circuit of a channel sends next, and when cells move to sockets.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Scheduling {
    /// Which circuit of a channel sends next; `None`: as the consensus says.
    pub circuitmux: Option<Policy>,
    /// EWMA's half-life, with EWMA; `None`: as the consensus says.
    pub ewma_half_life: Option<SimDuration>,
    /// How often EWMA rescales its counts, with EWMA; `None`: as the consensus says.
    pub ewma_tick: Option<SimDuration>,
    /// EWMA's clock, with EWMA; `None` as long as the policy is open.
    pub ewma_clock: Option<EwmaClock>,
    /// How cells move to sockets.
    pub channel_scheduler: ChannelScheduler,
    /// KIST's interval, with KIST and KIST-lite; `None`: as the consensus says.
    pub kist_interval: Option<SimDuration>,
    /// The same at clients.
    pub kist_client_interval: Option<SimDuration>,
    /// KIST's socket buffer factor, with KIST.
    pub kist_socket_buffer_factor: Option<f64>,
    /// Whether KIST is told what sockets have not sent, with KIST.
    pub kist_knows_unsent: Option<bool>,
}

impl Scheduling {
    /// Whether EWMA chooses among circuits, as far as is known.
    pub(crate) fn has_ewma(&self) -> bool {
        self.circuitmux == Some(Policy::BuiltIn(Circuitmux::Ewma))
    }
}
