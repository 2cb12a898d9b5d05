//! What a run records of relays that plan.

use crate::ids::ClientId;
use crate::records::CircuitSerial;
use onionlab_engine::HostId;
use onionlab_quantities::SimTime;

/// What a relay planned for a circuit in one step (`PredicTor`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlanSample {
    /// When it planned.
    pub time: SimTime,
    /// Which relay.
    pub relay: HostId,
    /// For which circuit.
    pub circuit: CircuitSerial,
    /// Of this client.
    pub client: ClientId,
    /// The relay's hop in the circuit: 1 is the guard, 3 the exit.
    pub hop: u8,
    /// The circuit's queue as measured, in cells: what waits in the circuit queue and in the outbuf.
    pub queue: f64,
    /// Rate at which it plans to take in until the next step, cells a second.
    pub rate_in: f64,
    /// Rate at which it lets the circuit send.
    pub rate_out: f64,
    /// Rate at which it could send if its successor let it; none in the conference's form.
    pub virtual_rate_out: Option<f64>,
    /// Bytes of cells that were written to the circuit's connection since the step before.
    pub bytes_written: u64,
    /// Bytes that the exit read from the circuit's servers since then; none at other relays.
    pub bytes_read: Option<u64>,
}

/// The controller of one relay in one sample interval (`PredicTor`). Relays without a planned circuit so far have none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ControllerSample {
    /// End of the interval.
    pub time: SimTime,
    /// Which relay.
    pub relay: HostId,
    /// Circuits that it plans for at the end of the interval.
    pub circuits: u32,
    /// Rates at which it plans to take in, all circuits together, at its last step; cells a second.
    pub rate_in: f64,
    /// Rates at which it lets them send.
    pub rate_out: f64,
    /// Their queues as measured at its last step, cells.
    pub queue: f64,
    /// Plans that are the fast solver's.
    pub solved: u64,
    /// Plans that are the trusted solver's, because the fast one did not converge.
    pub trusted: u64,
    /// Plans that are those of the step before, because no solver converged.
    pub old_plans: u64,
    /// Steps in which the sources had committed more than the relay can take in.
    pub commitments_scaled: u64,
    /// Messages that made no sense.
    pub refused_messages: u64,
    /// Iterations of the fast solver.
    pub iterations: u64,
    /// Messages that it sent to neighbours.
    pub messages_sent: u64,
    /// Those of them that were lost, or in band had no open connection.
    pub messages_lost: u64,
}
