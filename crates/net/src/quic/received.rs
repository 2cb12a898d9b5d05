//! Packets received in one packet number space, and when they are acknowledged (RFC 9000, section 13.2).

use super::config::QuicConfig;
use super::packet::{Level, NOTHING, Packet};
use super::ranges::RangeSet;
use onionlab_quantities::SimTime;

/// Ranges that an acknowledgement has at most (section 13.2.3 leaves the number open). What lies below counts as received.
const MOST_RANGES: usize = 32;
/// Nanoseconds of the unit in which delays are told (`ack_delay_exponent` 3).
const DELAY_UNIT: u64 = 8000;

#[derive(Debug, Clone)]
pub(super) struct Received {
    packets: RangeSet,
    /// All packets below it count as received and are no longer told.
    floor: u64,
    /// Largest that asked for an acknowledgement, and when it came.
    largest_eliciting: u32,
    largest_at: SimTime,
    /// When the acknowledgement is due; `SimTime::MAX` if none is owed, or it is due now.
    pub(super) ack_at: SimTime,
    /// Packets since the last acknowledgement that asked for one.
    owed: u32,
    /// One is due now.
    pub(super) ack_now: bool,
}

impl Received {
    pub(super) fn new() -> Self {
        Self {
            packets: RangeSet::default(),
            floor: 0,
            largest_eliciting: NOTHING,
            largest_at: SimTime::ZERO,
            ack_at: SimTime::MAX,
            owed: 0,
            ack_now: false,
        }
    }

    /// An acknowledgement goes along with whatever is sent next.
    pub(super) fn owes(&self) -> bool {
        self.owed > 0
    }

    /// Takes a packet; false if it came before.
    pub(super) fn on_packet(&mut self, cfg: &QuicConfig, now: SimTime, level: Level, number: u32, eliciting: bool) -> bool {
        let n = u64::from(number);
        if n < self.floor || !self.packets.insert(n, n + 1) {
            return false;
        }
        if self.packets.as_slice().len() > MOST_RANGES
            && let Some((_, end)) = self.packets.first()
        {
            self.forget_below(end);
        }
        if self.packets.last().is_some_and(|(_, end)| end == n + 1) {
            self.largest_at = now;
        }
        if !eliciting {
            return true;
        }
        self.owed += 1;
        let previous = if self.largest_eliciting == NOTHING { None } else { Some(self.largest_eliciting) };
        // Out of order, or packets are missing before it (section 13.2.1).
        let in_order = match previous {
            None => self.packets.missing(self.floor, n).next().is_none(),
            Some(largest) => number > largest && self.packets.missing(u64::from(largest), n).next().is_none(),
        };
        if previous.is_none_or(|largest| number > largest) {
            self.largest_eliciting = number;
        }
        if level != Level::Data || self.owed >= cfg.ack_every || !in_order {
            self.ack_now = true;
            self.ack_at = SimTime::MAX;
        } else if !self.ack_now && self.ack_at == SimTime::MAX {
            self.ack_at = now.saturating_add(cfg.max_ack_delay);
        }
        true
    }

    pub(super) fn on_timer(&mut self, now: SimTime) {
        if now >= self.ack_at {
            self.ack_at = SimTime::MAX;
            self.ack_now = true;
        }
    }

    /// Units of the delay that an acknowledgement sent now would tell.
    pub(super) fn delay(&self, now: SimTime) -> u16 {
        u16::try_from(now.saturating_since(self.largest_at).as_nanos() / DELAY_UNIT).unwrap_or(u16::MAX)
    }

    /// The ranges to be told, from high to low.
    pub(super) fn ranges(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.packets.as_slice().iter().rev().map(|range| (range.0 as u32, range.1 as u32))
    }

    /// Writes the acknowledgement into a packet; nothing is owed any more.
    pub(super) fn write(&mut self, now: SimTime, packet: &mut Packet) {
        let mut ranges = self.packets.as_slice().iter().rev().map(|range| (range.0 as u32, range.1 as u32));
        if let Some((start, end)) = ranges.next() {
            packet.acked = end - 1;
            packet.acked_run = end - start;
            packet.ack_delay = self.delay(now);
            if ranges.len() > 0 {
                packet.more().ranges = ranges.collect();
            }
        }
        self.owed = 0;
        self.ack_now = false;
        self.ack_at = SimTime::MAX;
    }

    /// The other end has seen the acknowledgement of packets up to `largest`: it need not be told again, but of the range that is still growing.
    pub(super) fn on_acknowledged(&mut self, largest: u32) {
        let told = u64::from(largest) + 1;
        if let Some((start, end)) = self.packets.last()
            && start < told
            && told <= end
        {
            // The newest range is one piece from here on.
            self.forget_below(start);
        } else {
            self.forget_below(told);
        }
    }

    fn forget_below(&mut self, floor: u64) {
        if floor > self.floor {
            self.packets.remove(0, floor);
            self.floor = floor;
        }
    }

    /// Nothing will be acknowledged any more.
    pub(super) fn discard(&mut self) {
        self.packets.clear();
        self.owed = 0;
        self.ack_now = false;
        self.ack_at = SimTime::MAX;
    }
}

/// The interval that a packet's `ack_delay` tells.
pub(super) fn told_delay(units: u16) -> onionlab_quantities::SimDuration {
    onionlab_quantities::SimDuration::from_nanos(u64::from(units) * DELAY_UNIT)
}

#[cfg(test)]
impl Received {
    /// Packets below it are not taken any more.
    pub(super) fn floor(&self) -> u64 {
        self.floor
    }
}
