//! A receiver's flow-control window (RFC 9000, section 4): of one stream, or of all of a connection's together.
//!
//! The RFC leaves open when a window is moved and how it grows. Here, as in quic-go and Chromium: it moves when a quarter of it was read, and doubles if more
//! than half of it was read faster than it would be in four round trips.

use crate::tcp::BufferLimits;
use onionlab_quantities::{SimDuration, SimTime};

/// What the other end may send beyond what was read.
#[derive(Debug, Clone)]
pub(super) struct Window {
    /// Bytes read (or given up) so far.
    read: u64,
    /// What the other end has been offered, as a sum from the start.
    offered: u64,
    size: u32,
    /// Where and when the present measurement of the reader's rate began.
    epoch_read: u64,
    epoch: SimTime,
}

impl Window {
    pub(super) fn new(limits: BufferLimits, now: SimTime) -> Self {
        let size = limits.initial.get();
        Self { read: 0, offered: size, size: size as u32, epoch_read: 0, epoch: now }
    }

    /// Bytes were read; true if that should be told.
    pub(super) fn on_read(&mut self, bytes: u64) -> bool {
        self.read += bytes;
        self.is_due()
    }

    fn is_due(&self) -> bool {
        (self.offered - self.read) * 4 <= u64::from(self.size) * 3
    }

    /// The sum to be offered now. `smoothed`: the round trip, once measured.
    pub(super) fn offer(&mut self, limits: BufferLimits, now: SimTime, smoothed: Option<SimDuration>) -> u64 {
        if self.is_due() {
            let in_epoch = self.read - self.epoch_read;
            let size = u64::from(self.size);
            if let Some(smoothed) = smoothed
                && in_epoch > size / 2
            {
                let elapsed = u128::from(now.saturating_since(self.epoch).as_nanos());
                if elapsed * u128::from(size) < 4 * u128::from(in_epoch) * u128::from(smoothed.as_nanos()) {
                    self.size = (2 * size).min(limits.max.get()) as u32;
                }
                self.epoch = now;
                self.epoch_read = self.read;
            }
            self.offered = self.offered.max(self.read + u64::from(self.size));
        }
        self.offered
    }

    /// What was offered last.
    pub(super) fn offered(&self) -> u64 {
        self.offered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> SimTime {
        SimTime::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn a_fixed_window_moves_by_quarters() {
        let limits = BufferLimits::fixed(1000);
        let mut window = Window::new(limits, SimTime::ZERO);
        assert!(!window.on_read(249));
        assert!(window.on_read(1));
        assert_eq!(window.offer(limits, at(1), Some(SimDuration::from_millis(100))), 1250);
        assert!(!window.on_read(249));
    }

    /// More than half of it read in less than the same share of four round trips.
    #[test]
    fn a_window_doubles_for_a_fast_reader_up_to_its_limit() {
        let limits = BufferLimits::new(1000, 3000);
        let round = Some(SimDuration::from_millis(100));
        let mut window = Window::new(limits, SimTime::ZERO);
        window.on_read(600);
        // 600 bytes in 240 ms or more would be the rate of a window in four round trips.
        assert_eq!(window.offer(limits, at(239), round), 600 + 2000);
        window.on_read(1200);
        assert_eq!(window.offer(limits, at(240), round), 1800 + 3000);
        let mut window = Window::new(limits, SimTime::ZERO);
        window.on_read(600);
        assert_eq!(window.offer(limits, at(240), round), 600 + 1000);
    }

    /// A pause before more than half of the window was read counts, one before that measurement began does not.
    #[test]
    fn a_measurement_ends_where_half_the_window_was_read() {
        let limits = BufferLimits::new(1000, 3000);
        let round = Some(SimDuration::from_millis(100));
        let mut window = Window::new(limits, SimTime::ZERO);
        window.on_read(300);
        assert_eq!(window.offer(limits, at(500), round), 300 + 1000);
        window.on_read(300);
        assert_eq!(window.offer(limits, at(510), round), 600 + 1000);
        // 600 bytes in 190 ms from here; from the start 1200 in 700.
        window.on_read(600);
        assert_eq!(window.offer(limits, at(700), round), 1200 + 2000);
    }
}
