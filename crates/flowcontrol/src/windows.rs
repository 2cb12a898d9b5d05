//! Fixed windows: the sender counts down, each SENDME gives an increment back.
//!
//! Circuit: 1000 cells, 100 a SENDME, sent as soon as the cells are processed. Stream: 500 and 50, withheld while the
//! receiver's edge cannot deliver. Only DATA cells count.
//!
//! Source: tor `core/or/sendme.c`, `core/or/or.h`; tor-spec "Flow control". Consensus: `circwindow` (package side only).

use crate::{CongestionAlgorithm, FlowError, Signals};
use onionlab_quantities::SimTime;

/// tor's circuit window in cells; the consensus may lower the package side of it (`circwindow`, 100 to 1000).
pub const CIRCUIT_WINDOW: u16 = 1000;
/// Cells that a circuit SENDME acknowledges.
pub const CIRCUIT_INCREMENT: u16 = 100;
/// tor's stream window in cells.
pub const STREAM_WINDOW: u16 = 500;
/// Cells that a stream SENDME acknowledges.
pub const STREAM_INCREMENT: u16 = 50;
/// A stream SENDME is withheld while the edge's outbuf holds more bytes than this (ten cells of 509 bytes).
pub const STREAM_SENDME_MAX_OUTBUF: u32 = 10 * 509;

/// How many DATA cells the sender may still send.
///
/// Invariant: at most the starting window, never negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackageWindow {
    left: u16,
    start: u16,
    increment: u16,
}

impl PackageWindow {
    /// A window of `start` cells of which each SENDME gives `increment` back.
    pub const fn new(start: u16, increment: u16) -> Self {
        Self { left: start, start, increment }
    }

    /// tor's stream window, 500 and 50.
    pub const fn stream() -> Self {
        Self::new(STREAM_WINDOW, STREAM_INCREMENT)
    }
}

impl CongestionAlgorithm for PackageWindow {
    fn available(&self) -> u32 {
        u32::from(self.left)
    }
    fn cwnd(&self) -> u32 {
        u32::from(self.start)
    }
    fn inflight(&self) -> u32 {
        u32::from(self.start - self.left)
    }
    fn increment(&self) -> u32 {
        u32::from(self.increment)
    }

    fn data_sent(&mut self, now: SimTime) {
        debug_assert!(self.left > 0, "a cell is sent only when the window has room");
        self.data_forwarded(now);
    }

    fn data_forwarded(&mut self, _now: SimTime) {
        self.left = self.left.saturating_sub(1);
    }

    fn sendme_received(&mut self, _now: SimTime, _signals: Signals) -> Result<(), FlowError> {
        if self.start - self.left < self.increment {
            return Err(FlowError::UnexpectedSendme);
        }
        self.left += self.increment;
        Ok(())
    }
}

/// How many DATA cells the receiver still expects, and when it owes a SENDME.
///
/// Under congestion control it is the circuit window with the negotiated increment (31).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliverWindow {
    left: u16,
    start: u16,
    increment: u16,
}

impl DeliverWindow {
    /// A window of `start` cells; a SENDME is owed for every `increment` received.
    pub const fn new(start: u16, increment: u16) -> Self {
        Self { left: start, start, increment }
    }

    /// No window: nothing is ever owed for any number of cells.
    pub const fn endless() -> Self {
        Self::new(0, 1)
    }

    /// tor's circuit window, 1000, with the given increment.
    pub const fn circuit(increment: u16) -> Self {
        Self::new(CIRCUIT_WINDOW, increment)
    }

    /// tor's stream window, 500 and 50.
    pub const fn stream() -> Self {
        Self::new(STREAM_WINDOW, STREAM_INCREMENT)
    }

    /// A DATA cell arrived at a circuit's end: the number of SENDMEs to send at once, 0 or 1.
    ///
    /// # Errors
    /// The cell is beyond the window.
    pub const fn data_received(&mut self) -> Result<u32, FlowError> {
        match self.count_received() {
            Ok(()) => Ok(self.take_sendmes()),
            Err(error) => Err(error),
        }
    }

    /// A DATA cell arrived at a stream's end: it is counted, the SENDMEs are taken when the edge can deliver.
    ///
    /// # Errors
    /// The cell is beyond the window.
    pub const fn count_received(&mut self) -> Result<(), FlowError> {
        if self.left == 0 {
            // Only an endless one starts with nothing.
            return if self.start == 0 { Ok(()) } else { Err(FlowError::WindowExceeded) };
        }
        self.left -= 1;
        Ok(())
    }

    /// How many SENDMEs are owed; they count as sent now.
    pub const fn take_sendmes(&mut self) -> u32 {
        let owed = (self.start - self.left) / self.increment;
        self.left += owed * self.increment;
        owed as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: SimTime = SimTime::ZERO;

    #[test]
    fn a_circuit_sends_a_thousand_cells_and_then_a_hundred_for_each_sendme() {
        let mut sender = PackageWindow::new(CIRCUIT_WINDOW, CIRCUIT_INCREMENT);
        let mut receiver = DeliverWindow::circuit(CIRCUIT_INCREMENT);
        let mut sendmes = 0;
        for cell in 1..=1000 {
            assert!(sender.can_send());
            sender.data_sent(NOW);
            let owed = receiver.data_received().unwrap();
            assert_eq!(owed, u32::from(cell % 100 == 0), "cell {cell}");
            sendmes += owed;
        }
        assert!(!sender.can_send());
        assert_eq!(sendmes, 10);
        sender.sendme_received(NOW, Signals::default()).unwrap();
        assert_eq!(sender.available(), 100);
    }

    #[test]
    fn a_stream_sendme_that_was_withheld_is_made_up_for() {
        let mut receiver = DeliverWindow::stream();
        for _ in 0..120 {
            receiver.count_received().unwrap();
        }
        assert_eq!((receiver.take_sendmes(), receiver.take_sendmes()), (2, 0));
    }

    #[test]
    fn an_endless_window_owes_nothing() {
        let mut receiver = DeliverWindow::endless();
        for _ in 0..100_000 {
            assert_eq!(receiver.data_received(), Ok(0));
        }
    }

    #[test]
    fn whoever_breaks_the_window_is_found_out() {
        assert_eq!(PackageWindow::stream().sendme_received(NOW, Signals::default()), Err(FlowError::UnexpectedSendme));
        let mut receiver = DeliverWindow::stream();
        for _ in 0..500 {
            receiver.count_received().unwrap();
        }
        assert_eq!(receiver.count_received(), Err(FlowError::WindowExceeded));
    }

    proptest! {
        /// Whatever the order of sending, delivering and acknowledging: no more than the window is ever unacknowledged,
        /// the receiver never sees a cell too many, and the sender stops for ever only if the window is below an increment.
        #[test]
        fn a_window_is_never_exceeded(start in 1_u16..1000, increment in 1_u16..200, steps in prop::collection::vec(0_u8..3, 0..3000)) {
            let mut sender = PackageWindow::new(start, increment);
            let mut receiver = DeliverWindow::new(start, increment);
            let (mut cells, mut sendmes) = (0_u32, 0_u32);
            for step in steps {
                match step {
                    0 if sender.can_send() => {
                        sender.data_sent(NOW);
                        cells += 1;
                    }
                    1 if cells > 0 => {
                        cells -= 1;
                        sendmes += receiver.data_received().unwrap();
                    }
                    2 if sendmes > 0 => {
                        sendmes -= 1;
                        sender.sendme_received(NOW, Signals::default()).unwrap();
                    }
                    _ => {}
                }
                prop_assert!(sender.inflight() <= u32::from(start));
                prop_assert!(cells + sendmes * u32::from(increment) <= sender.inflight());
            }
            if !sender.can_send() && cells == 0 && sendmes == 0 {
                prop_assert!(start < increment);
            }
        }
    }
}
