//! Head-of-line blocking: how long bytes of a circuit wait in a receiver's socket for lost bytes of other circuits.
//!
//! TCP hands over bytes in order, and TLS only whole records. What arrives behind a lost segment therefore waits until that segment has been sent again, whether or not
//! the two have a circuit in common. Counted is the part of this wait that a connection for each circuit would not have had, with every segment arriving when it did:
//! a byte of a circuit's cell is ready when it and all that the circuit itself has in the stream before it since the hole are there (the first, where several follow each other), and waits from
//! then until the hole is filled. So a channel with one circuit never counts anything, and on a shared one the bytes of the circuit whose cells were lost do not count, those of the others do.
//!
//! Of the record that the hole cuts, the cells before the hole are there and cannot be read: they count from when the hole showed, if nothing of the record that was missing is
//! their own circuit's. The header and the tag of a record count with the cells next to them. Not counted: what waits behind the next hole, until that is filled; the end of a record
//! that has not been sent; the handshakes that open a channel; connections from exits to servers, which carry one stream each.

use crate::cell::CELL_BYTES;
use crate::channel::Opening;
use crate::ids::{CircuitId, EndId};
use crate::world::{SocketUse, World};
use onionlab_net::tcp::{Arrived, Filled};
use onionlab_quantities::SimTime;

/// Bytes before a record's plaintext: type, version and length.
const RECORD_HEADER: u64 = 5;

/// What has waited for others, at one place.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Held {
    /// Bytes that did.
    pub bytes: u64,
    /// How long, summed over these bytes, in seconds.
    pub byte_seconds: f64,
}

impl Held {
    /// What was added since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self { bytes: self.bytes - before.bytes, byte_seconds: self.byte_seconds - before.byte_seconds }
    }

    fn add(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.byte_seconds += other.byte_seconds;
    }
}

/// By circuit, while there are holes in a stream: when the last of its bytes behind the first of them arrived, of those that can be read by now.
pub(crate) type OwnArrivals = Vec<(CircuitId, SimTime)>;

/// A part of the stream that belongs to one circuit and arrived at one time.
#[derive(Debug, Clone, Copy)]
struct Part {
    circuit: CircuitId,
    bytes: u64,
    at: SimTime,
    /// It lies before the hole, in the record that the hole cuts.
    before: bool,
    /// It lies in that record, before or in the hole or behind it.
    cut: bool,
}

impl World {
    /// Holes were filled: what waited behind them for others is added up.
    #[cold]
    pub(crate) fn count_held(&mut self) {
        while let Some((socket, filled)) = self.net.next_filled() {
            let Some(&SocketUse::Channel(end)) = self.sockets.get(socket.index()) else { continue };
            if self.ends[end.index()].opening != Opening::Open {
                continue;
            }
            let mut there = self.own_arrivals.remove(&end).unwrap_or_default();
            let held = held(&self.parts(end, &filled), &filled, &mut there);
            if filled.more {
                self.own_arrivals.insert(end, there);
            }
            if held.byte_seconds > 0.0 {
                self.channel_logs[end.channel()].held[end.side()].add(held);
                self.descriptors[self.ends[end.index()].host.index()].held.add(held);
            }
        }
    }

    /// To which circuits the bytes belong: by the records and cells that are on their way to this end.
    fn parts(&self, end: EndId, filled: &Filled) -> Vec<Part> {
        let (here, peer) = (&self.ends[end.index()], &self.ends[end.peer().index()]);
        let (Some(first), Some(last)) = (filled.bytes.first(), filled.bytes.last()) else { return Vec::new() };
        let begun = peer.outbuf.begun();
        let records = self.sent.records_of(peer.sent).map(u32::from).chain((begun > 0).then_some(begun));
        let mut parts = Vec::new();
        // Where the record begins in the stream, and its plaintext in the cells.
        let mut at = self.net.bytes_read(here.socket) - u64::from(here.record_read);
        let mut plaintext = u64::from(here.plaintext_read);
        let mut pieces = &filled.bytes[..];
        for record in records {
            let wire = u64::from(self.settings.tls.record(record));
            if at >= last.to {
                break;
            }
            let cut = at < first.from && first.from < at + wire;
            let before = cut.then_some(Arrived { from: at, to: first.from, at: filled.since });
            pieces = &pieces[pieces.partition_point(|piece| piece.to <= at)..];
            let within = pieces.iter().take_while(|piece| piece.from < at + wire);
            for piece in before.iter().chain(within) {
                let (mut from, to) = (piece.from.max(at), piece.to.min(at + wire));
                while from < to {
                    let inside = (from - at).saturating_sub(RECORD_HEADER).min(u64::from(record) - 1);
                    let cell = (plaintext + inside) / u64::from(CELL_BYTES);
                    // The cell's end in the stream, or the record's.
                    let ends = (cell + 1) * u64::from(CELL_BYTES) - plaintext;
                    let until = if ends >= u64::from(record) { to } else { to.min(at + RECORD_HEADER + ends) };
                    let Some(on_its_way) = self.sent.cell(peer.sent, cell as usize) else { return parts };
                    let circuit = on_its_way.circuit;
                    parts.push(Part { circuit, bytes: until - from, at: piece.at, before: piece.to <= first.from, cut });
                    from = until;
                }
            }
            at += wire;
            plaintext += u64::from(record);
        }
        parts
    }
}

/// What of these parts, in the order of the stream, waited for others.
fn held(parts: &[Part], filled: &Filled, there: &mut OwnArrivals) -> Held {
    let mut held = Held::default();
    // What lies before a hole that follows another was behind that one, and is counted already.
    let follows = !there.is_empty();
    for part in parts {
        let ready = if part.before {
            let missing = |other: &Part| other.cut && !other.before && other.circuit == part.circuit && other.at > filled.since;
            if parts.iter().any(missing) {
                continue;
            }
            part.at
        } else if let Some((_, latest)) = there.iter_mut().find(|(circuit, _)| *circuit == part.circuit) {
            *latest = (*latest).max(part.at);
            *latest
        } else {
            there.push((part.circuit, part.at));
            part.at
        };
        let wait = filled.at.saturating_since(ready);
        if wait.as_nanos() > 0 {
            let bytes = if part.before && follows { 0 } else { part.bytes };
            held.add(Held { bytes, byte_seconds: part.bytes as f64 * wait.as_secs_f64() });
        }
    }
    held
}

#[cfg(test)]
mod tests {
    use super::*;
    fn part(circuit: u32, bytes: u64, second: u64) -> Part {
        Part { circuit: CircuitId(circuit), bytes, at: at(second), before: false, cut: false }
    }

    fn at(second: u64) -> SimTime {
        SimTime::from_nanos(second * 1_000_000_000)
    }

    fn filled() -> Filled {
        Filled { since: at(2), at: at(10), bytes: Vec::new(), more: false }
    }

    /// A segment of circuit 1 comes at 10 s, eight seconds after it is missed. Behind it 514 bytes of circuit 1 wait for their own, 514 of circuit 2 have waited since 2 s and 100 since 4 s
    /// for circuit 1; of circuit 3 the second half came with the first, before it.
    #[test]
    fn who_waits_for_others_counts_and_who_waits_for_itself_does_not() {
        let parts = [part(1, 1000, 10), part(1, 514, 2), part(2, 514, 2), part(2, 100, 4), part(3, 50, 6), part(3, 50, 5)];
        let got = held(&parts, &filled(), &mut OwnArrivals::new());
        assert_eq!(got.bytes, 514 + 100 + 100);
        assert!((got.byte_seconds - (514.0 * 8.0 + 100.0 * 6.0 + 100.0 * 4.0)).abs() < 1e-9, "{got:?}");
    }

    /// With one circuit nobody waits for others, wherever the hole was.
    #[test]
    fn a_single_circuit_waits_for_nobody_else() {
        let mut parts = vec![part(7, 100, 2), part(7, 900, 10), part(7, 5000, 3), part(7, 10, 9)];
        for part in &mut parts[..2] {
            part.cut = true;
        }
        parts[0].before = true;
        assert_eq!(held(&parts, &filled(), &mut OwnArrivals::new()), Held::default());
    }

    /// The record has a cell of circuit 2 before the hole, which only circuit 1's cells are in.
    #[test]
    fn cells_before_the_hole_wait_for_their_record() {
        let mut parts = [part(2, 300, 2), part(1, 200, 10)];
        parts[0].before = true;
        for part in &mut parts {
            part.cut = true;
        }
        assert_eq!(held(&parts, &filled(), &mut OwnArrivals::new()), Held { bytes: 300, byte_seconds: 2400.0 });
    }

    /// A segment of circuit 1 is missed, then one of circuit 2; 600 bytes of circuit 1 lie behind both and come at once. The first hole is filled at 10 s, the second at 12 s. With a
    /// connection of its own circuit 1 would have read them at 10 s: they waited two seconds for circuit 2, not ten. 100 bytes of circuit 3, in a record that the second hole cuts,
    /// were counted until 10 s, and wait on.
    #[test]
    fn behind_a_second_hole_a_circuit_has_waited_for_its_own_until_the_first_was_filled() {
        let mut there = OwnArrivals::new();
        let mut other = part(3, 100, 2);
        assert_eq!(
            held(&[part(1, 1000, 10), other], &Filled { more: true, ..filled() }, &mut there),
            Held { bytes: 100, byte_seconds: 800.0 }
        );
        (other.before, other.at, other.cut) = (true, at(10), true);
        let second = Filled { since: at(10), at: at(12), ..filled() };
        let got = held(&[other, part(2, 1000, 12), part(1, 600, 2)], &second, &mut there);
        assert_eq!(got, Held { bytes: 600, byte_seconds: 200.0 + 1200.0 });
    }
}
