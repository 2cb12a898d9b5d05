//! The interface of a policy, and the choice of one.

use crate::{CustomPolicy, EwmaClock, Slot, SwrrWeight};
use onionlab_quantities::{SimDuration, SimTime};
use std::cmp::Ordering;

/// A rule that picks the circuit to send the next cell of one channel, at one of its ends.
///
/// The calls are those of tor's `circuitmux_policy_t` (`core/or/circuitmux.h`) and [`crate::Circuitmux`] makes them in
/// tor's order:
///
/// - circuit attached: `attach`, then, if cells are queued, `notify_active` and `notify_set_cells`;
/// - cells arrive: `notify_set_cells` (before the stored count changes), then `notify_active` if there were none;
/// - a cell leaves: `pick`, `notify_sent`, then `notify_inactive` if none is left, then `notify_set_cells`;
/// - queue cleared: `notify_set_cells` with 0, then `notify_inactive`;
/// - circuit detached: `notify_inactive` if cells are queued, then `detach`.
///
/// Nothing comes between `pick` and `notify_sent` of the picked circuit. As in tor only `pick` is mandatory, with
/// `compare`, without which a scheduler over several channels cannot be fair.
pub trait CircuitmuxPolicy {
    /// The circuit joins the mux with `cells` queued (tor: `alloc_circ_data`). The slot is new, or free since its `detach`.
    fn attach(&mut self, slot: Slot, now: SimTime, cells: u32) {
        let _ = (slot, now, cells);
    }
    /// The circuit, which is inactive, leaves the mux for good (tor: `free_circ_data`).
    fn detach(&mut self, slot: Slot) {
        let _ = slot;
    }
    /// The circuit has cells now and had none (tor: `notify_circ_active`).
    fn notify_active(&mut self, slot: Slot, now: SimTime) {
        let _ = (slot, now);
    }
    /// The circuit has no cells any more (tor: `notify_circ_inactive`).
    fn notify_inactive(&mut self, slot: Slot, now: SimTime) {
        let _ = (slot, now);
    }
    /// The circuit's queue is now `cells` long: after every arrival and every departure (tor: `notify_set_n_cells`).
    fn notify_set_cells(&mut self, slot: Slot, cells: u32, now: SimTime) {
        let _ = (slot, cells, now);
    }
    /// `cells` cells of the picked circuit went to the outbuf; the circuit is still active (tor: `notify_xmit_cells`).
    fn notify_sent(&mut self, slot: Slot, cells: u32, now: SimTime) {
        let _ = (slot, cells, now);
    }
    /// The active circuit to send next; none only if no circuit is active (tor: `pick_active_circuit`). Picking again
    /// without a call in between gives the same circuit.
    fn pick(&mut self, now: SimTime) -> Option<Slot>;
    /// Which of two muxes of different channels should send first: `Less` is served first, and a mux with an active
    /// circuit comes before one without (tor: `cmp_cmux`).
    fn compare(&self, other: &Self) -> Ordering
    where
        Self: Sized;
}

/// The choice of a policy, with its settings.
#[derive(Debug, Clone)]
pub enum PolicyKind {
    /// One cell of each active circuit in turn, a newly active one behind all others: tor up to 0.2.1.
    RoundRobin,
    /// The same with a newly active circuit before all others: the fallback of tor 0.2.4 to 0.3.3.
    RoundRobinHead,
    /// The circuit that has sent least lately: tor since 0.2.2 (option) and 0.3.4 (always).
    Ewma {
        /// The time in which the memory of a sent cell halves. Consensus: `CircuitPriorityHalflifeMsec`; 30 s.
        half_life: SimDuration,
        /// How often counts are rescaled. Consensus: `CircuitPriorityTickSecs`; 10 s.
        tick: SimDuration,
        /// Which clock tells a cell's instant.
        clock: EwmaClock,
    },
    /// Weighted round robin of Lu et al. 2019.
    Swrr {
        /// What a circuit's waiting time and queue length are worth.
        weight: SwrrWeight,
    },
    /// A policy from outside this crate.
    Custom(CustomPolicy),
}

/// A setting that no policy accepts.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PolicyError {
    /// The half-life is so short that counts would overflow within a tick.
    #[error("the EWMA half-life is {0}: it must be at least a thousandth of the tick")]
    HalfLife(SimDuration),
    /// The tick is outside tor's range.
    #[error("the EWMA tick is {0}: it must be from 1 s to 600 s")]
    Tick(SimDuration),
    /// The factor of the logarithmic weight is not positive.
    #[error("the factor of the logarithmic SWRR weight is {0}: it must be a finite number above zero")]
    Factor(f64),
}

impl PolicyKind {
    /// EWMA with tor's half-life of 30 s, tick of 10 s and coarse clock.
    pub const TOR_EWMA: Self =
        Self::Ewma { half_life: SimDuration::from_secs(30), tick: SimDuration::from_secs(10), clock: EwmaClock::Coarse };

    /// Checks the settings.
    ///
    /// # Errors
    /// The first setting that is out of range.
    pub fn check(&self) -> Result<(), PolicyError> {
        match *self {
            Self::Ewma { tick, .. } if !(SimDuration::from_secs(1)..=SimDuration::from_secs(600)).contains(&tick) => {
                Err(PolicyError::Tick(tick))
            }
            Self::Ewma { half_life, tick, .. } if half_life < tick / 1000 => Err(PolicyError::HalfLife(half_life)),
            Self::Swrr { weight: SwrrWeight::Logarithmic { c } } if !(c.is_finite() && c > 0.0) => Err(PolicyError::Factor(c)),
            _ => Ok(()),
        }
    }

    /// The policy's name as experiment files write it.
    pub fn name(&self) -> &str {
        match self {
            Self::RoundRobin => "round-robin",
            Self::RoundRobinHead => "round-robin-head",
            Self::Ewma { .. } => "ewma",
            Self::Swrr { weight: SwrrWeight::Linear } => "swrr-linear",
            Self::Swrr { weight: SwrrWeight::Proportional } => "swrr-proportional",
            Self::Swrr { weight: SwrrWeight::Logarithmic { .. } } => "swrr-logarithmic",
            Self::Custom(custom) => custom.name(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_out_of_range_are_refused_with_what_is_allowed() {
        PolicyKind::TOR_EWMA.check().unwrap();
        PolicyKind::RoundRobin.check().unwrap();
        let ewma =
            |half_life, tick| PolicyKind::Ewma { half_life, tick, clock: EwmaClock::Coarse }.check().unwrap_err().to_string();
        assert!(
            ewma(SimDuration::ZERO, SimDuration::from_secs(10)).contains("half-life is 0 ns: it must be at least a thousandth")
        );
        assert!(ewma(SimDuration::from_secs(1), SimDuration::from_secs(601)).contains("from 1 s to 600 s"));
        for c in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let error = PolicyKind::Swrr { weight: SwrrWeight::Logarithmic { c } }.check().unwrap_err();
            assert!(error.to_string().contains("above zero"));
        }
    }
}
