//! The scoreboard: what is in flight, segment by segment, and what is known of it.
//!
//! Exists only while something is in flight. Segments lie in a ring in order of sequence; without loss each is pushed once and popped
//! once. Loss detection keeps three marks (how far originals are judged, where to look for the next segment to resend, which SACK blocks
//! are known already), so that each segment is looked at a bounded number of times for each of its transmissions.

use super::config::TcpConfig;
use super::hystart::Round;
use super::segment::Segment;
use super::stale::Stale;
use onionlab_quantities::{SimDuration, SimTime};
use std::collections::VecDeque;

/// A segment in flight.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent {
    /// When it was last sent.
    pub(super) at: SimTime,
    /// Low bits of its first sequence number.
    pub(super) start: u32,
    /// Sequence numbers that it takes: its payload, plus one for a FIN.
    pub(super) len: u16,
    pub(super) fin: bool,
    pub(super) mark: Mark,
}

/// What is known of a segment: the combinations of Linux's `TCPCB_LOST`, `TCPCB_RETRANS` and `TCPCB_SACKED_ACKED` that occur.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    Original,
    /// Sent again without having been found lost, as a probe, or before a time-out that was spurious.
    Repeated,
    /// Sent again because it was lost.
    Resent,
    /// To be sent again.
    Lost,
    /// To be sent again, not for the first time.
    LostAgain,
    Sacked,
}

impl Mark {
    /// It went more than once, which bars it from round-trip samples.
    fn went_again(self) -> bool {
        matches!(self, Self::Repeated | Self::Resent | Self::LostAgain)
    }

    /// It waits to be sent again.
    pub(super) fn waits(self) -> bool {
        matches!(self, Self::Lost | Self::LostAgain)
    }

    /// It was found lost, and has not been acknowledged since, whether it went again or not.
    pub(super) fn is_missing(self) -> bool {
        matches!(self, Self::Lost | Self::LostAgain | Self::Resent)
    }
}

/// Linux's `icsk_ca_state`, as far as it lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Undisturbed, or with SACKed segments that prove no loss yet.
    Open,
    /// Fast recovery, until `high_seq` is acknowledged.
    Recovery,
    /// After a time-out, until `high_seq` is acknowledged.
    Loss,
}

/// The delivery that RACK (RFC 8985) measures others against: the latest sent of those delivered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rack {
    pub(super) sent: SimTime,
    pub(super) end: u64,
    pub(super) rtt: SimDuration,
    pub(super) advanced: bool,
}

/// What an acknowledgement delivered.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Delivered {
    /// Segments acknowledged for the first time, in sequence or by SACK.
    pub(super) segments: u32,
    /// Segments that left the ring.
    pub(super) popped: u32,
    /// Round trip of the first segment acknowledged in sequence that was sent once.
    pub(super) first_rtt: Option<SimDuration>,
    /// Round trip of the last one.
    pub(super) last_rtt: Option<SimDuration>,
    /// Round trip of the first one acknowledged by SACK.
    pub(super) sack_rtt: Option<SimDuration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Range {
    start: u64,
    end: u64,
}

/// Everything that matters only while segments are in flight. What each acknowledgement touches comes first.
#[derive(Debug, Clone)]
#[repr(C)]
pub(super) struct Flight {
    pub(super) ring: VecDeque<Sent>,
    /// First sequence number in the ring.
    pub(super) una: u64,
    /// End of the last segment shorter than the maximum (Nagle, Minshall).
    pub(super) small_end: u64,
    pub(super) usage_end: u64,
    /// Segments SACKed (without SACK: duplicate acknowledgements).
    pub(super) sacked: u32,
    /// Segments marked lost and not sent again since.
    pub(super) to_resend: u32,
    /// Segments marked lost, whether they went again or not (Linux: `lost_out`).
    pub(super) missing: u32,
    pub(super) most_out: u32,
    /// Bytes that go again for nothing, or went, and stay in the send buffer.
    pub(super) stale_bytes: u32,
    pub(super) phase: Phase,
    /// Linux's `is_cwnd_limited`, besides `max_packets_out` and `cwnd_usage_seq`, which are `most_out` and `usage_end`.
    pub(super) window_limited: bool,
    /// Sends the first retransmission of a recovery whatever the window says.
    pub(super) force_resend: bool,
    /// A tail loss probe is due.
    pub(super) probe_due: bool,
    pub(super) rack: Rack,
    pub(super) round: Round,
    /// Time-outs in a row (plain Reno).
    pub(super) timeouts: u8,
    /// Duplicate acknowledgements in a row (plain Reno).
    pub(super) duplicates: u32,
    /// What time-outs have left behind.
    pub(super) stale: Stale,
    /// `snd_nxt` when `phase` was entered.
    pub(super) high_seq: u64,
    /// Originals below it are judged.
    pub(super) judged: u64,
    /// No segment below it waits to be resent.
    pub(super) resend_from: u64,
    /// SACK blocks of the last acknowledgement that had some.
    known: [Range; 3],
    /// Retransmissions in order: first sequence number and instant.
    pub(super) resent: VecDeque<(u64, SimTime)>,
    /// Whether RACK will look at them.
    follows_resent: bool,
    /// Window when the reduction began.
    pub(super) prior_cwnd: u32,
    /// Threshold before `phase`, to be restored if the time-out was spurious.
    pub(super) prior_ssthresh: u32,
    /// First retransmission since `phase` was entered.
    pub(super) first_resend: Option<SimTime>,
    /// Delivered and sent during recovery (PRR).
    pub(super) prr_delivered: u32,
    pub(super) prr_sent: u32,
}

/// The part of a flight that is touched while nothing is lost.
pub(super) const HOT_BYTES: usize = std::mem::offset_of!(Flight, timeouts);

impl Flight {
    /// An empty flight whose first segment will have this sequence number.
    pub(super) fn new(cfg: &TcpConfig, una: u64) -> Self {
        Self {
            ring: VecDeque::with_capacity(8),
            una,
            sacked: 0,
            to_resend: 0,
            missing: 0,
            phase: Phase::Open,
            high_seq: 0,
            judged: 0,
            resend_from: u64::MAX,
            known: [Range::default(); 3],
            resent: VecDeque::new(),
            follows_resent: cfg.rack_tlp && cfg.sack && !cfg.plain_reno,
            rack: Rack { sent: SimTime::ZERO, end: 0, rtt: SimDuration::ZERO, advanced: false },
            force_resend: false,
            probe_due: false,
            prior_cwnd: 0,
            prior_ssthresh: 0,
            first_resend: None,
            prr_delivered: 0,
            prr_sent: 0,
            small_end: 0,
            window_limited: false,
            most_out: 0,
            stale_bytes: 0,
            usage_end: 0,
            round: Round::new(),
            duplicates: 0,
            timeouts: 0,
            stale: Stale::default(),
        }
    }

    /// Segments not yet acknowledged in sequence (Linux: `packets_out`).
    pub(super) fn out(&self) -> u32 {
        self.ring.len() as u32
    }
    /// Segments thought to be in the network (Linux: `tcp_packets_in_flight`; RFC 6675: pipe).
    pub(super) fn in_network(&self) -> u32 {
        self.out().saturating_sub(self.sacked + self.to_resend)
    }
    pub(super) fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }
    /// When the oldest segment was last sent.
    pub(super) fn front_sent(&self) -> Option<SimTime> {
        self.ring.front().map(|sent| sent.at)
    }

    pub(super) fn push(&mut self, seq: u64, len: u16, fin: bool, at: SimTime) {
        self.ring.push_back(Sent { at, start: seq as u32, len, fin, mark: Mark::Original });
    }

    /// Offset of a segment from `una`; the front's may begin before it after a partial acknowledgement, never here.
    fn offset(&self, sent: &Sent) -> u64 {
        u64::from(sent.start.wrapping_sub(self.una as u32))
    }
    pub(super) fn seq_of(&self, index: usize) -> u64 {
        self.una + self.offset(&self.ring[index])
    }
    /// Index of the first segment that begins at or after `seq`.
    pub(super) fn index_at(&self, seq: u64) -> usize {
        if seq <= self.una {
            return 0;
        }
        let wanted = seq - self.una;
        self.ring.partition_point(|sent| self.offset(sent) < wanted)
    }

    /// Takes a cumulative acknowledgement beyond `una` that echoes the timestamp `echo`; what it acknowledges of the segments to be sent again is `overtaken`, and
    /// noted if that is wanted.
    pub(super) fn acknowledge(
        &mut self,
        now: SimTime,
        ack: u64,
        echo: SimTime,
        min_rtt: SimDuration,
        overtaken: bool,
        delivered: &mut Delivered,
    ) {
        let mut any_resent = false;
        while let Some(front) = self.ring.front_mut() {
            let end = self.una + u64::from(front.len);
            if end > ack {
                if ack > self.una {
                    // Part of a segment: the receiver's window cut it. What remains is a segment of its own.
                    front.len = (end - ack) as u16;
                    front.start = ack as u32;
                }
                break;
            }
            let front = *front;
            self.ring.pop_front();
            self.una = end;
            delivered.popped += 1;
            self.count_delivery(front.mark);
            if front.mark == Mark::Sacked {
                self.sacked -= 1;
                continue;
            }
            delivered.segments += 1;
            if front.mark.waits() && overtaken && !front.fin {
                self.overtake(end - u64::from(front.len), front.len);
            }
            let rtt = now.saturating_since(front.at);
            let again = front.mark.went_again();
            if again {
                any_resent = true;
            } else {
                delivered.first_rtt.get_or_insert(rtt);
                delivered.last_rtt = Some(rtt);
            }
            // An echo from before it went again: what was acknowledged is an earlier transmission (`tcp_skb_spurious_retrans`).
            if !again || echo == SimTime::ZERO || echo >= front.at {
                self.rack_deliver(front.at, end, rtt, again, min_rtt);
            }
        }
        self.una = self.una.max(ack);
        if any_resent {
            // What lay behind a hole waited for the retransmission.
            delivered.first_rtt = None;
            delivered.last_rtt = None;
        }
    }

    /// Takes the SACK blocks of an acknowledgement.
    pub(super) fn selective(&mut self, now: SimTime, segment: &Segment, min_rtt: SimDuration, delivered: &mut Delivered) {
        let mut blocks = [Range::default(); 3];
        let sacks = segment.sack.as_deref().into_iter().flatten().take(usize::from(segment.sack_count));
        for (block, sack) in blocks.iter_mut().zip(sacks) {
            *block = Range { start: segment.ack + u64::from(sack.start), end: segment.ack + u64::from(sack.end) };
            match self.known.iter().find(|known| known.start < block.end && block.start < known.end).copied() {
                Some(known) => {
                    self.mark_sacked(now, block.start, known.start, min_rtt, delivered);
                    self.mark_sacked(now, known.end, block.end, min_rtt, delivered);
                }
                None => self.mark_sacked(now, block.start, block.end, min_rtt, delivered),
            }
        }
        self.known = blocks;
    }

    fn mark_sacked(&mut self, now: SimTime, start: u64, end: u64, min_rtt: SimDuration, delivered: &mut Delivered) {
        if start >= end {
            return;
        }
        let mut index = self.index_at(start);
        while index < self.ring.len() {
            let segment_end = self.seq_of(index) + u64::from(self.ring[index].len);
            if segment_end > end {
                break;
            }
            let sent = self.ring[index];
            index += 1;
            if sent.mark == Mark::Sacked {
                continue;
            }
            self.ring[index - 1].mark = Mark::Sacked;
            self.sacked += 1;
            self.count_delivery(sent.mark);
            delivered.segments += 1;
            let rtt = now.saturating_since(sent.at);
            let again = sent.mark.went_again();
            if !again {
                delivered.sack_rtt.get_or_insert(rtt);
            }
            self.rack_deliver(sent.at, segment_end, rtt, again, min_rtt);
        }
    }

    /// A segment with this mark is acknowledged: no longer lost, if it was.
    fn count_delivery(&mut self, mark: Mark) {
        self.to_resend -= u32::from(mark.waits());
        self.missing -= u32::from(mark.is_missing());
    }

    /// RFC 8985, section 6.2, step 2: a retransmission "delivered" sooner than any round trip was the original.
    fn rack_deliver(&mut self, sent: SimTime, end: u64, rtt: SimDuration, resent: bool, min_rtt: SimDuration) {
        if resent && rtt < min_rtt {
            return;
        }
        self.rack.rtt = rtt;
        self.rack.advanced = true;
        if (sent, end) > (self.rack.sent, self.rack.end) {
            self.rack.sent = sent;
            self.rack.end = end;
        }
    }

    /// Where the next segment to be sent again lies.
    pub(super) fn index_of_lost(&self) -> Option<usize> {
        if self.to_resend == 0 {
            return None;
        }
        let from = self.index_at(self.resend_from);
        self.ring.range(from..).position(|sent| sent.mark.waits()).map(|offset| from + offset)
    }

    /// The next segment to be sent again, marked as sent: first sequence number, length, FIN.
    pub(super) fn take_lost(&mut self, now: SimTime) -> Option<(u64, u16, bool)> {
        let index = self.index_of_lost()?;
        self.to_resend -= 1;
        let taken = self.send_again(index, now);
        self.resend_from = taken.0 + u64::from(taken.1);
        Some(taken)
    }

    /// The last segment, sent again as a probe.
    pub(super) fn take_last(&mut self, now: SimTime) -> Option<(u64, u16, bool)> {
        let last = self.ring.len().checked_sub(1)?;
        let mark = self.ring[last].mark;
        if mark == Mark::Sacked {
            return None;
        }
        self.to_resend -= u32::from(mark.waits());
        Some(self.send_again(last, now))
    }

    fn send_again(&mut self, index: usize, now: SimTime) -> (u64, u16, bool) {
        let seq = self.seq_of(index);
        let sent = &mut self.ring[index];
        sent.mark = if sent.mark.is_missing() { Mark::Resent } else { Mark::Repeated };
        sent.at = now;
        if self.follows_resent {
            self.resent.push_back((seq, now));
        }
        self.first_resend.get_or_insert(now);
        (seq, sent.len, sent.fin)
    }
}
