//! Which segments are lost: RACK (RFC 8985), three SACKed above (RFC 6675), NewReno (RFC 6582), a time-out (RFC 6298).

use super::flight::{Flight, Mark};
use onionlab_quantities::{SimDuration, SimTime};

/// What was found lost.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Losses {
    /// Segments newly marked.
    pub(super) lost: u32,
    /// Those of them that had been sent again already.
    pub(super) again: u32,
    /// After which interval more may be.
    pub(super) wait: Option<SimDuration>,
}

impl Flight {
    /// RFC 8985, section 6.2, step 5: marks lost what was sent a reordering window before something delivered.
    pub(super) fn rack_detect(&mut self, now: SimTime, window: SimDuration, on_timer: bool) -> Losses {
        if !self.rack.advanced && !on_timer {
            return Losses::default();
        }
        self.rack.advanced = false;
        let before = self.to_resend;
        let allowed = self.rack.rtt + window;
        let mut wait: Option<SimDuration> = None;
        // Retransmissions, oldest first.
        while let Some(&(seq, at)) = self.resent.front() {
            let index = self.index_at(seq);
            let current = seq >= self.una
                && self.ring.get(index).is_some_and(|sent| {
                    sent.start == seq as u32 && matches!(sent.mark, Mark::Repeated | Mark::Resent) && sent.at == at
                });
            if current {
                let end = seq + u64::from(self.ring[index].len);
                if (self.rack.sent, self.rack.end) <= (at, end) {
                    break;
                }
                let age = now.saturating_since(at);
                if age < allowed {
                    wait = Some(allowed - age);
                    break;
                }
                self.mark_lost(index);
            }
            self.resent.pop_front();
        }
        let again = self.to_resend - before;
        // Originals, in order of sequence and so of time.
        let mut settled = true;
        let mut index = self.index_at(self.judged);
        while index < self.ring.len() {
            let sent = self.ring[index];
            let end = self.seq_of(index) + u64::from(sent.len);
            if sent.mark == Mark::Original {
                if (self.rack.sent, self.rack.end) <= (sent.at, end) {
                    break;
                }
                let age = now.saturating_since(sent.at);
                if age < allowed {
                    wait = wait.max(Some(allowed - age));
                    settled = false;
                } else {
                    self.mark_lost(index);
                }
            }
            if settled {
                self.judged = end;
            }
            index += 1;
        }
        Losses { lost: self.to_resend - before, again, wait }
    }

    /// RFC 6675's IsLost(): marks the originals that have three SACKed segments above them; returns how many were newly marked.
    pub(super) fn three_above(&mut self) -> u32 {
        if self.sacked < 3 {
            return 0;
        }
        let before = self.to_resend;
        let mut above = 0;
        let mut limit = self.ring.len();
        while above < 3 && limit > 0 {
            limit -= 1;
            above += u32::from(self.ring[limit].mark == Mark::Sacked);
        }
        let from = self.index_at(self.judged);
        for index in from..limit {
            if self.ring[index].mark == Mark::Original {
                self.mark_lost(index);
            }
        }
        if limit > from {
            self.judged = self.seq_of(limit);
        }
        self.to_resend - before
    }

    /// NewReno: the oldest segment is lost.
    pub(super) fn mark_front_lost(&mut self) -> u32 {
        match self.ring.front() {
            Some(front) if !front.mark.waits() && front.mark != Mark::Sacked => {
                self.mark_lost(0);
                1
            }
            _ => 0,
        }
    }

    pub(super) fn mark_lost(&mut self, index: usize) {
        let seq = self.seq_of(index);
        let sent = &mut self.ring[index];
        self.missing += u32::from(!sent.mark.is_missing());
        sent.mark = if sent.mark == Mark::Original { Mark::Lost } else { Mark::LostAgain };
        self.to_resend += 1;
        self.resend_from = self.resend_from.min(seq);
    }

    /// A time-out: all that is not SACKed is lost, except (with RACK) what was sent less than a round trip ago.
    pub(super) fn mark_all_lost(&mut self, now: SimTime, rack: bool, sack: bool) {
        if !sack {
            self.sacked = 0;
        }
        for index in 0..self.ring.len() {
            let sent = self.ring[index];
            let recent = rack && index > 0 && now.saturating_since(sent.at) < self.rack.rtt;
            if !sent.mark.waits() && sent.mark != Mark::Sacked && !recent {
                self.mark_lost(index);
            }
        }
    }

    /// A spurious time-out: nothing is lost that was not sent again, and that was delivered too.
    pub(super) fn unmark_lost(&mut self) {
        for sent in &mut self.ring {
            sent.mark = match sent.mark {
                Mark::Lost => Mark::Original,
                Mark::LostAgain | Mark::Resent => Mark::Repeated,
                other => other,
            };
        }
        self.to_resend = 0;
        self.missing = 0;
        self.resend_from = u64::MAX;
        self.judged = self.una;
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::TcpConfig;
    use super::super::flight::Delivered;
    use super::super::segment::{SackBlock, Segment};
    use super::*;

    /// After a time-out one of three went again, and two new ones followed. The last of them arrives: the repeated one is lost again, the new one before it for the
    /// first time.
    #[test]
    fn retransmissions_that_are_lost_are_told_from_originals() {
        let at = |ms: u64| SimTime::from_nanos(ms * 1_000_000);
        let mut flight = Flight::new(&TcpConfig::linux(), 1);
        for index in 0..3 {
            flight.push(1 + 1000 * index, 1000, false, at(0));
        }
        flight.mark_all_lost(at(300), true, true);
        assert_eq!(flight.take_lost(at(300)), Some((1, 1000, false)));
        flight.push(3001, 1000, false, at(310));
        flight.push(4001, 1000, false, at(320));
        let segment = Segment {
            ack: 1,
            sack_count: 1,
            sack: Some(Box::new([SackBlock { start: 4000, end: 5000 }, SackBlock::default(), SackBlock::default()])),
            ..Segment::default()
        };
        flight.selective(at(420), &segment, SimDuration::from_millis(100), &mut Delivered::default());
        let found = flight.rack_detect(at(420), SimDuration::ZERO, false);
        assert_eq!((found.lost, found.again, found.wait), (2, 1, None));
    }
}
