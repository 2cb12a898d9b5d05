//! The questions and notifications of a circuit's congestion control.

use crate::{PackageWindow, Vegas, VegasParameters};
use onionlab_quantities::SimTime;
use std::sync::Arc;

/// What the sending end of a circuit knows about its own way out when a SENDME arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Signals {
    /// The circuit is blocked on its channel: its queue has reached the high mark and not yet come back to the low one.
    pub blocked: bool,
    /// Cells in this end's own queue of the circuit; matters only before the first round-trip time is known.
    pub queued: u32,
}

/// The other end broke the protocol; tor closes the circuit (or stream).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FlowError {
    /// A SENDME that acknowledges cells that were not sent.
    #[error("a SENDME acknowledges cells that were never sent")]
    UnexpectedSendme,
    /// A DATA cell beyond the window.
    #[error("a DATA cell came when the window was used up")]
    WindowExceeded,
}

/// The control of the DATA cells that one end of a circuit sends.
///
/// Questions first, then notifications. Only DATA cells count; SENDME, BEGIN, END, XON and the rest are free.
pub trait CongestionAlgorithm {
    /// May another DATA cell be sent?
    fn can_send(&self) -> bool {
        self.available() > 0
    }
    /// How many DATA cells may be sent now.
    fn available(&self) -> u32;
    /// How many DATA cells may be unacknowledged.
    fn cwnd(&self) -> u32;
    /// How many DATA cells are unacknowledged.
    fn inflight(&self) -> u32;
    /// How many DATA cells one SENDME acknowledges.
    fn increment(&self) -> u32;

    /// A DATA cell was appended to the circuit's queue at `now`, after [`Self::can_send`] said yes.
    fn data_sent(&mut self, now: SimTime);
    /// A DATA cell that was sent on another circuit goes on as one of this, whether or not the window has room: the window is used up then, where congestion control can tell by more than that.
    fn data_forwarded(&mut self, now: SimTime);
    /// A circuit SENDME arrived.
    ///
    /// # Errors
    /// It acknowledges cells that were not sent; nothing is changed then.
    fn sendme_received(&mut self, now: SimTime, signals: Signals) -> Result<(), FlowError>;
}

/// No window at all: whatever is there may be sent. For circuits whose relays plan what passes (`PredicTor`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoWindow;

impl CongestionAlgorithm for NoWindow {
    fn available(&self) -> u32 {
        u32::MAX
    }
    fn cwnd(&self) -> u32 {
        u32::MAX
    }
    fn inflight(&self) -> u32 {
        0
    }
    fn increment(&self) -> u32 {
        0
    }
    fn data_sent(&mut self, _now: SimTime) {}
    fn data_forwarded(&mut self, _now: SimTime) {}
    fn sendme_received(&mut self, _now: SimTime, _signals: Signals) -> Result<(), FlowError> {
        Err(FlowError::UnexpectedSendme)
    }
}

/// One of the algorithms, chosen when the circuit is built.
#[derive(Debug, Clone)]
pub enum CongestionControl {
    /// A fixed circuit window and SENDME windows for streams.
    Fixed(PackageWindow),
    /// `TOR_VEGAS`, and XON/XOFF for streams.
    Vegas(Box<Vegas>),
    /// Nothing limits what is sent.
    Unlimited(NoWindow),
}

impl CongestionControl {
    /// A fixed window of `start` cells, acknowledged `increment` at a time; tor: 1000 and 100.
    pub const fn fixed(start: u16, increment: u16) -> Self {
        Self::Fixed(PackageWindow::new(start, increment))
    }

    /// `TOR_VEGAS` with these parameters, which all circuits share.
    pub fn vegas(parameters: &Arc<VegasParameters>) -> Self {
        Self::Vegas(Box::new(Vegas::new(Arc::clone(parameters))))
    }

    /// The state of `TOR_VEGAS`, where that is the algorithm.
    pub fn as_vegas(&self) -> Option<&Vegas> {
        match self {
            Self::Vegas(vegas) => Some(vegas),
            Self::Fixed(_) | Self::Unlimited(_) => None,
        }
    }
}

macro_rules! each {
    ($control:expr, $bound:ident => $call:expr) => {
        match $control {
            CongestionControl::Fixed($bound) => $call,
            CongestionControl::Vegas($bound) => $call,
            CongestionControl::Unlimited($bound) => $call,
        }
    };
}

impl CongestionAlgorithm for CongestionControl {
    fn available(&self) -> u32 {
        each!(self, control => control.available())
    }
    fn cwnd(&self) -> u32 {
        each!(self, control => control.cwnd())
    }
    fn inflight(&self) -> u32 {
        each!(self, control => control.inflight())
    }
    fn increment(&self) -> u32 {
        each!(self, control => control.increment())
    }
    fn data_sent(&mut self, now: SimTime) {
        each!(self, control => control.data_sent(now));
    }
    fn data_forwarded(&mut self, now: SimTime) {
        each!(self, control => control.data_forwarded(now));
    }
    fn sendme_received(&mut self, now: SimTime, signals: Signals) -> Result<(), FlowError> {
        each!(self, control => control.sendme_received(now, signals))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten million cells, and each SENDME is one too many.
    #[test]
    fn without_a_window_nothing_is_acknowledged() {
        let mut control = CongestionControl::Unlimited(NoWindow);
        (0..10_000_000).for_each(|_| control.data_sent(SimTime::ZERO));
        assert!(control.can_send() && control.inflight() == 0);
        assert_eq!(control.sendme_received(SimTime::ZERO, Signals::default()), Err(FlowError::UnexpectedSendme));
    }

    #[test]
    fn an_end_of_a_circuit_is_small() {
        assert!(size_of::<CongestionControl>() + size_of::<crate::DeliverWindow>() <= 24);
        assert!(size_of::<Vegas>() <= 112);
    }
}
