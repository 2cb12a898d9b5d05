//! `TOR_VEGAS`: the window follows an estimate of the cells that queue on the way.
//!
//! The sender measures the round-trip time of each SENDME and takes the window times (least time / current time) for the
//! cells that the path itself holds; the rest of the window is waiting in queues. Few cells waiting: the window grows;
//! many: it shrinks. The arithmetic is tor's: whole cells and microseconds, divisions rounded down.
//!
//! Source: tor 0.4.9 `core/or/congestion_control_common.c`, `congestion_control_vegas.c`; proposal 324. Deviation: tor's guards
//! against a jumping system clock are left out but for a round-trip time of zero, which counts as none.

mod parameters;

pub use parameters::{PathType, VegasParameters};

use crate::{CongestionAlgorithm, FlowError, Signals};
use onionlab_quantities::{SimDuration, SimTime};
use std::collections::VecDeque;
use std::sync::Arc;

/// The congestion control of one end of a circuit.
///
/// Units: cells and microseconds. Invariant: `sent_at` holds one instant per whole increment in flight.
#[derive(Debug, Clone)]
pub struct Vegas {
    parameters: Arc<VegasParameters>,
    cwnd: u64,
    inflight: u64,
    in_slow_start: bool,
    /// Whether the window is used: it only grows if it is.
    full: bool,
    /// Whether the circuit was blocked on its channel at the last SENDME.
    blocked: bool,
    /// SENDMEs until the window may change.
    next_cc_event: u64,
    /// SENDMEs until a whole window is acknowledged.
    next_cwnd_event: u64,
    /// Smoothed round-trip time and the least of its values; 0 before the first.
    ewma_rtt: u64,
    min_rtt: u64,
    /// The greatest round-trip time, not smoothed.
    max_rtt: u64,
    bdp: u64,
    /// When the cells were queued whose SENDMEs are to come: the low 32 bits of the microseconds, so that round trips below
    /// 71 minutes come out right. Without memory of its own while no SENDME is to come.
    sent_at: VecDeque<u32>,
}

/// A parameter in the width of the arithmetic; none is negative.
const fn wide(parameter: i32) -> u64 {
    parameter as u64
}

impl Vegas {
    /// A circuit that has sent nothing yet.
    pub fn new(parameters: Arc<VegasParameters>) -> Self {
        let cwnd = wide(parameters.cwnd_init);
        Self {
            parameters,
            cwnd,
            inflight: 0,
            in_slow_start: true,
            full: false,
            blocked: false,
            next_cc_event: 1,
            next_cwnd_event: 0,
            ewma_rtt: 0,
            min_rtt: 0,
            max_rtt: 0,
            bdp: cwnd,
            sent_at: VecDeque::new(),
        }
    }

    /// Whether the window still grows by whole increments.
    pub const fn in_slow_start(&self) -> bool {
        self.in_slow_start
    }

    /// The estimate of the cells that the path holds without queueing.
    pub const fn bdp(&self) -> u64 {
        self.bdp
    }

    /// The estimate of the cells of this circuit that wait in queues on the path, as of the last SENDME.
    pub const fn queue_use(&self) -> u64 {
        self.cwnd.saturating_sub(self.bdp)
    }

    /// The smoothed round-trip time; zero before the first.
    pub const fn ewma_rtt(&self) -> SimDuration {
        SimDuration::from_micros(self.ewma_rtt)
    }

    /// The least smoothed round-trip time; zero before the first.
    pub const fn min_rtt(&self) -> SimDuration {
        SimDuration::from_micros(self.min_rtt)
    }

    /// The greatest round-trip time, not smoothed; zero before the first.
    pub const fn max_rtt(&self) -> SimDuration {
        SimDuration::from_micros(self.max_rtt)
    }

    /// Whether the circuit was blocked on its channel at the last SENDME.
    pub const fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// SENDMEs between two changes of the window.
    fn update_rate(&self) -> u64 {
        if self.in_slow_start {
            1
        } else {
            let cells = wide(self.parameters.cwnd_inc_rate) * wide(self.parameters.sendme_inc);
            (self.cwnd + cells / 2) / cells
        }
    }

    /// SENDMEs in a window, rounded.
    fn sendmes_per_cwnd(&self) -> u64 {
        let inc = wide(self.parameters.sendme_inc);
        (self.cwnd + inc / 2) / inc
    }

    /// Takes a round-trip time, in microseconds, into the smoothed and the least one.
    fn take_rtt(&mut self, rtt: u64) {
        let p = &self.parameters;
        self.ewma_rtt = if self.ewma_rtt == 0 {
            rtt
        } else {
            let n = if self.in_slow_start {
                wide(p.ewma_ss)
            } else {
                (self.update_rate() * wide(p.ewma_cwnd_pct) / 100).min(wide(p.ewma_max))
            }
            .max(2);
            (2 * rtt + (n - 1) * self.ewma_rtt) / (n + 1)
        };
        self.max_rtt = self.max_rtt.max(rtt);
        if self.min_rtt == 0 {
            self.min_rtt = self.ewma_rtt;
        } else if self.cwnd == wide(p.cwnd_min) && !self.in_slow_start {
            let (high, low) = (self.ewma_rtt.max(self.min_rtt), self.ewma_rtt.min(self.min_rtt));
            self.min_rtt = wide(p.rtt_reset_pct) * high / 100 + (100 - wide(p.rtt_reset_pct)) * low / 100;
        } else {
            self.min_rtt = self.min_rtt.min(self.ewma_rtt);
        }
    }

    /// The cells that the path holds without queueing; a guess before the first round-trip time.
    fn estimate_bdp(&self, signals: Signals) -> u64 {
        (self.cwnd * self.min_rtt).checked_div(self.ewma_rtt).unwrap_or_else(|| {
            if signals.blocked {
                self.cwnd.saturating_sub(u64::from(signals.queued)).max(wide(self.parameters.cwnd_min))
            } else {
                self.cwnd
            }
        })
    }

    fn update_full(&mut self) {
        let p = &self.parameters;
        if self.inflight + wide(p.cwnd_full_gap) * wide(p.sendme_inc) >= self.cwnd {
            self.full = true;
        } else if 100 * self.inflight < wide(p.cwnd_full_minpct) * self.cwnd {
            self.full = false;
        }
    }

    /// The step of slow start: an increment up to the cap, beyond it ever less (RFC 3742).
    fn slow_start_step(&self) -> u64 {
        let p = &self.parameters;
        let (inc, cap) = (wide(p.sendme_inc), wide(p.ss_cap));
        if self.cwnd <= cap {
            (wide(p.cwnd_inc_pct_ss) * inc + 50) / 100
        } else {
            ((inc * cap + self.cwnd) / (2 * self.cwnd)).max(1)
        }
    }

    fn slow_start(&mut self) {
        let p = &self.parameters;
        let (gamma, ss_max, floor) = (wide(p.gamma), wide(p.ss_max), wide(p.cwnd_inc) * wide(p.cwnd_inc_rate));
        if self.queue_use() < gamma && !self.blocked {
            if self.full {
                let step = self.slow_start_step();
                self.cwnd += step;
                if step * self.sendmes_per_cwnd() <= floor {
                    self.in_slow_start = false;
                }
            }
        } else {
            self.cwnd = self.bdp + gamma;
            self.in_slow_start = false;
        }
        if self.cwnd >= ss_max {
            self.cwnd = ss_max;
            self.in_slow_start = false;
        }
    }

    fn steady_state(&mut self) {
        let p = &self.parameters;
        let (queue, step) = (self.queue_use(), wide(p.cwnd_inc));
        if queue > wide(p.delta) {
            self.cwnd = (self.bdp + wide(p.delta)).saturating_sub(step);
        } else if queue > wide(p.beta) || self.blocked {
            self.cwnd = self.cwnd.saturating_sub(step);
        } else if self.full && queue < wide(p.alpha) {
            self.cwnd += step;
        }
        self.cwnd = self.cwnd.max(wide(p.cwnd_min));
    }

    /// Everything a SENDME changes but the cells in flight.
    fn update_window(&mut self, rtt: u64, signals: Signals) {
        self.next_cc_event = self.next_cc_event.saturating_sub(1);
        self.next_cwnd_event = self.next_cwnd_event.saturating_sub(1);
        if rtt > 0 {
            self.take_rtt(rtt);
        }
        if signals.blocked != self.blocked {
            self.blocked = signals.blocked;
            if self.ewma_rtt > 0 {
                self.next_cc_event = 0;
            }
        }
        if rtt == 0 && !signals.blocked {
            return;
        }
        self.bdp = self.estimate_bdp(signals);
        self.update_full();
        if self.in_slow_start {
            self.slow_start();
        } else if self.next_cc_event == 0 {
            self.steady_state();
        }
        let (update_rate, per_cwnd) = (self.update_rate(), self.sendmes_per_cwnd());
        if self.next_cwnd_event == 0 {
            self.next_cwnd_event = per_cwnd;
        }
        if self.next_cc_event == 0 {
            self.next_cc_event = update_rate;
        }
        let forget = if self.parameters.cwnd_full_per_cwnd == 1 {
            self.next_cwnd_event == per_cwnd
        } else {
            self.next_cc_event == update_rate
        };
        if forget {
            self.full = false;
        }
    }
}

impl CongestionAlgorithm for Vegas {
    fn available(&self) -> u32 {
        u32::try_from(self.cwnd.saturating_sub(self.inflight)).unwrap_or(u32::MAX)
    }
    fn cwnd(&self) -> u32 {
        u32::try_from(self.cwnd).unwrap_or(u32::MAX)
    }
    fn inflight(&self) -> u32 {
        u32::try_from(self.inflight).unwrap_or(u32::MAX)
    }
    fn increment(&self) -> u32 {
        self.parameters.sendme_inc as u32
    }

    fn data_sent(&mut self, now: SimTime) {
        debug_assert!(self.can_send(), "a cell is sent only when the window has room");
        self.data_forwarded(now);
    }

    fn data_forwarded(&mut self, now: SimTime) {
        self.inflight += 1;
        if self.inflight.is_multiple_of(wide(self.parameters.sendme_inc)) {
            self.sent_at.push_back(now.as_micros() as u32);
        }
    }

    fn sendme_received(&mut self, now: SimTime, signals: Signals) -> Result<(), FlowError> {
        let sent_at = self.sent_at.pop_front().ok_or(FlowError::UnexpectedSendme)?;
        if self.sent_at.is_empty() {
            self.sent_at = VecDeque::new();
        }
        self.update_window(u64::from((now.as_micros() as u32).wrapping_sub(sent_at)), signals);
        self.inflight -= wide(self.parameters.sendme_inc);
        self.cwnd = self.cwnd.min(wide(self.parameters.cwnd_max));
        Ok(())
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod trace;

#[cfg(test)]
mod vectors;
