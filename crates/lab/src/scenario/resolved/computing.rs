//! What relays' computing costs.

use crate::scenario::treatment::{CpuModel, Handshake};
use onionlab_quantities::SimDuration;
use serde::Serialize;

/// Times of cells and handshakes, and which handshakes there are; all `None` where computing takes no time.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Computing {
    /// What relays' computing costs.
    pub cpu: CpuModel,
    /// Of the main thread for each cell, where computing takes time.
    pub cpu_per_cell: Option<SimDuration>,
    /// Of a worker thread for each onion handshake.
    pub cpu_per_handshake: Option<SimDuration>,
    /// Of a worker thread for each handshake with TAP.
    pub cpu_per_tap: Option<SimDuration>,
    /// Whether a first hop is made with CREATE_FAST, where computing takes time; `None`: as the consensus says.
    pub create_fast: Option<bool>,
    /// The handshakes of the other hops, where computing takes time; `None`: as the consensus says.
    pub handshake: Option<Handshake>,
    /// Share of clients that use TAP there whatever the others do, where computing takes time.
    pub tap_clients: Option<f64>,
    /// How many of ntor go before one of TAP, where some clients use TAP; `None`: as the consensus says.
    pub ntors_per_tap: Option<u32>,
    /// Cores of each relay.
    pub cpu_cores: Option<u32>,
}

impl Computing {
    /// Whether it takes time.
    pub(crate) fn takes_time(&self) -> bool {
        self.cpu == CpuModel::MainThread
    }

    /// Whether some clients know no handshake but TAP.
    pub(crate) fn has_old_clients(&self) -> bool {
        self.tap_clients.is_some_and(|share| share > 0.0)
    }
}
