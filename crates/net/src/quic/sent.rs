//! Packets sent and not yet resolved, in one packet number space, and which of them are lost (RFC 9002, sections 6.1 and 7.6, appendix A).
//!
//! A ring by packet number; what the packets carried lies in a second ring, in the same order. Without loss each is pushed once and popped once.

use super::packet::{Frame, NOTHING};
use onionlab_quantities::{SimDuration, SimTime};
use std::collections::VecDeque;

/// `kPacketThreshold`: a packet is lost if one so much later is acknowledged.
const PACKET_THRESHOLD: u32 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// Not acknowledged. It counts as in flight; `eliciting`: it asks for an acknowledgement, which padding alone does not.
    Flying { eliciting: bool },
    /// Acknowledgements alone, which count for nothing.
    Light,
    /// Acknowledged or lost.
    Resolved,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Sent {
    pub(super) at: SimTime,
    /// Running number of its first frame in the ring of frames.
    first_frame: u32,
    /// Largest packet number that it acknowledged, or [`NOTHING`].
    pub(super) acked: u32,
    pub(super) size: u16,
    frames: u16,
    pub(super) mark: Mark,
}

/// What [`SentPackets::detect`] found lost.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Losses {
    /// Bytes that are no longer in flight.
    pub(super) bytes: u64,
    pub(super) packets: u32,
    /// When the latest of them was sent.
    pub(super) last_sent: SimTime,
    /// The longest span of time between two lost packets that asked for acknowledgements, nothing sent between them being acknowledged.
    pub(super) span: SimDuration,
}

#[derive(Debug, Clone)]
pub(super) struct SentPackets {
    ring: VecDeque<Sent>,
    frames: VecDeque<Frame>,
    /// Running number of the first in `frames`.
    first_frame: u32,
    /// Next packet number.
    pub(super) next: u32,
    /// `largest_acked_packet`, or [`NOTHING`].
    pub(super) largest_acked: u32,
    /// `loss_time`: when the next packet will be lost by its age; `SimTime::MAX` if none will.
    pub(super) loss_time: SimTime,
    /// `time_of_last_ack_eliciting_packet`
    pub(super) last_eliciting: SimTime,
    /// Packets in flight that ask for an acknowledgement.
    pub(super) eliciting: u32,
}

impl SentPackets {
    pub(super) const fn new() -> Self {
        Self {
            ring: VecDeque::new(),
            frames: VecDeque::new(),
            first_frame: 0,
            next: 0,
            largest_acked: NOTHING,
            loss_time: SimTime::MAX,
            last_eliciting: SimTime::ZERO,
            eliciting: 0,
        }
    }

    /// Number of the oldest packet in the ring.
    fn base(&self) -> u32 {
        self.next - self.ring.len() as u32
    }

    /// Whether a packet older than the largest acknowledged one is missing, so that it is worth looking for losses.
    pub(super) fn may_have_lost(&self) -> bool {
        self.largest_acked != NOTHING && self.base() <= self.largest_acked || self.loss_time < SimTime::MAX
    }

    /// The next packet leaves, with these frames.
    pub(super) fn push(&mut self, now: SimTime, size: u16, mark: Mark, acked: u32, frames: impl Iterator<Item = Frame>) {
        let first_frame = self.first_frame.wrapping_add(self.frames.len() as u32);
        let before = self.frames.len();
        self.frames.extend(frames);
        let frames = (self.frames.len() - before) as u16;
        self.ring.push_back(Sent { at: now, first_frame, acked, size, frames, mark });
        self.next =
            self.next.checked_add(1).filter(|&next| next < NOTHING).expect("a connection sends fewer than 2^32 - 1 packets");
        if let Mark::Flying { eliciting: true } = mark {
            self.last_eliciting = now;
            self.eliciting += 1;
        }
        self.settle();
    }

    /// Forgets what is resolved at the front. Acknowledgements that nobody acknowledges go too.
    fn settle(&mut self) {
        while let Some(front) = self.ring.front()
            && !matches!(front.mark, Mark::Flying { .. })
        {
            let frames = usize::from(front.frames);
            self.ring.pop_front();
            self.frames.drain(..frames);
            self.first_frame = self.first_frame.wrapping_add(frames as u32);
        }
        if self.ring.is_empty() && self.ring.capacity() > 64 {
            // What an idle connection need not keep.
            self.ring = VecDeque::new();
            self.frames = VecDeque::new();
        }
    }

    fn copy_frames(frames: &VecDeque<Frame>, first_frame: u32, sent: &Sent, into: &mut Vec<Frame>) {
        let from = sent.first_frame.wrapping_sub(first_frame) as usize;
        into.extend(frames.range(from..from + usize::from(sent.frames)));
    }

    /// What the oldest packet that asked for an acknowledgement carried.
    pub(super) fn oldest(&self, into: &mut Vec<Frame>) {
        if let Some(oldest) = self.ring.iter().find(|sent| sent.mark == Mark::Flying { eliciting: true }) {
            Self::copy_frames(&self.frames, self.first_frame, oldest, into);
        }
    }

    /// Packets `start..end` were acknowledged: `each` is told of those for the first time, `into` takes what they carried.
    pub(super) fn acknowledge(&mut self, start: u32, end: u32, mut each: impl FnMut(u32, &Sent), into: &mut Vec<Frame>) {
        let base = self.base();
        let (start, end) = (start.max(base), end.min(self.next));
        for number in start..end {
            let sent = &mut self.ring[(number - base) as usize];
            if sent.mark == Mark::Resolved {
                continue;
            }
            each(number, sent);
            if let Mark::Flying { eliciting: true } = sent.mark {
                self.eliciting -= 1;
            }
            sent.mark = Mark::Resolved;
            let sent = *sent;
            Self::copy_frames(&self.frames, self.first_frame, &sent, into);
        }
        self.settle();
    }

    /// `DetectAndRemoveLostPackets`, after an acknowledgement or when `loss_time` has come. `into` takes what the lost packets carried;
    /// what was sent before `measured`, the first round trip's end, tells nothing of persistent congestion.
    pub(super) fn detect(&mut self, now: SimTime, delay: SimDuration, measured: SimTime, into: &mut Vec<Frame>) -> Losses {
        let mut losses = Losses::default();
        self.loss_time = SimTime::MAX;
        if self.largest_acked == NOTHING {
            return losses;
        }
        let base = self.base();
        let mut run_start: Option<SimTime> = None;
        for number in base..self.next.min(self.largest_acked.saturating_add(1)) {
            let sent = &mut self.ring[(number - base) as usize];
            let eliciting = match sent.mark {
                Mark::Flying { eliciting } => eliciting,
                Mark::Light => continue,
                Mark::Resolved => {
                    run_start = None;
                    continue;
                }
            };
            let due = sent.at.saturating_add(delay);
            if due > now && self.largest_acked - number < PACKET_THRESHOLD {
                self.loss_time = self.loss_time.min(due);
                run_start = None;
                continue;
            }
            sent.mark = Mark::Resolved;
            losses.bytes += u64::from(sent.size);
            losses.packets += 1;
            losses.last_sent = sent.at;
            if eliciting {
                self.eliciting -= 1;
                if sent.at >= measured {
                    let start = *run_start.get_or_insert(sent.at);
                    losses.span = losses.span.max(sent.at.saturating_since(start));
                }
            }
            let sent = *sent;
            Self::copy_frames(&self.frames, self.first_frame, &sent, into);
        }
        self.settle();
        losses
    }

    /// The space's keys are discarded, or the connection is gone: returns the bytes that are no longer in flight.
    pub(super) fn discard(&mut self) -> u64 {
        let flying = self.ring.iter().filter(|sent| matches!(sent.mark, Mark::Flying { .. }));
        let bytes = flying.map(|sent| u64::from(sent.size)).sum();
        self.ring = VecDeque::new();
        self.frames = VecDeque::new();
        self.loss_time = SimTime::MAX;
        self.eliciting = 0;
        bytes
    }
}
