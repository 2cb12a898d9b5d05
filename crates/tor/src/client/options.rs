//! Options of a client's torrc: what a tor process decides for itself about its circuits and streams.

use crate::ids::ClientId;
use crate::world::World;
use onionlab_quantities::SimDuration;

/// What the torrc of a client says (`app/config/config.c`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientOptions {
    /// A circuit takes no new streams so long after its first (`MaxCircuitDirtiness`); none: as all clients of the run have it.
    pub circuit_lifetime: Option<SimDuration>,
    /// A stream whose BEGIN has no answer for so long tries another circuit (`CircuitStreamTimeout`); none: 10 s twice, then 15 s each time.
    pub stream_timeout: Option<SimDuration>,
    /// A stream that has had no circuit for so long has failed, and one that is older tries no other (`SocksTimeout`).
    pub socks_timeout: SimDuration,
    /// With so many circuits being built none is launched for a stream (`MaxClientCircuitsPending`).
    pub max_pending: u32,
    /// Between two looks for old circuits, at which failures are forgotten too (`NewCircuitPeriod`).
    pub new_circuit_period: SimDuration,
}

impl Default for ClientOptions {
    /// tor's defaults, which have been the same from 0.2.4 to 0.4.9.
    fn default() -> Self {
        Self {
            circuit_lifetime: None,
            stream_timeout: None,
            socks_timeout: SimDuration::from_secs(120),
            max_pending: 32,
            new_circuit_period: SimDuration::from_secs(30),
        }
    }
}

impl ClientOptions {
    /// How long an exit's answer to BEGIN is waited for, after so many tries (`compute_retry_timeout`).
    pub(crate) fn answer_within(&self, retries: u8) -> SimDuration {
        self.stream_timeout.unwrap_or(SimDuration::from_secs(if retries < 2 { 10 } else { 15 }))
    }
}

impl World {
    /// For how long after its first stream a circuit of this client takes new ones.
    pub(crate) fn circuit_lifetime(&self, client: ClientId) -> SimDuration {
        self.clients[client.index()].config.options.circuit_lifetime.unwrap_or(self.settings.circuit_dirtiness)
    }
}
