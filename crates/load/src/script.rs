//! Exchanges in which both ends write at times of their own: what the ends say to each other, and when.
//!
//! A [`Script`] is a small deterministic generator of **observations**: so many bytes to the server or to the client, a time after the
//! observation before, of whichever direction. As in tgen, both ends of a stream run the same script and each does the writes of its own
//! direction, at its own time ([`ScriptEnd`]): neither waits for what the other writes, but knows at the end how much that is.

use crate::chain::{Chain, Symbol, Walk};
use crate::replay::RecordedWrite;
use crate::tor_users::Rounds;
use onionlab_quantities::{Bytes, RandomStream, SimDuration};
use std::sync::Arc;

/// Delays up to this are left out between writes of one end (tgen 1.x: `TGEN_MMODEL_MICROS_AT_ONCE`).
pub const AT_ONCE: SimDuration = SimDuration::from_millis(10);
/// What an observation of a packet writes (tgen 1.x: `TGEN_MMODEL_PACKET_DATA_SIZE`).
pub const PACKET: Bytes = Bytes::new(1434);
/// A burst that has reached so many bytes gets no more (tgen 1.x: `DEFAULT_STREAM_WRITE_BUFLEN`).
pub const BURST: Bytes = Bytes::new(32_768);

/// A deterministic generator of observations.
///
/// As an iterator it gives [`Write`]s, each with the time since the one before. [`Self::wait`] is then the time until it is over.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    greeting: [u32; 2],
    /// What follows the last observation.
    wait: SimDuration,
    source: Source,
}

#[derive(Debug, Clone, PartialEq)]
enum Source {
    /// The server writes a first piece, then one at each interval, until nothing is left.
    Paced { first: Bytes, piece: Bytes, interval: SimDuration, left: Bytes },
    /// Packets by a hidden Markov chain.
    Markov(Walk),
    /// The compact model of Tor's users.
    Rounds(Rounds),
    /// What was recorded, and how much of it has been given.
    Recorded(Arc<[RecordedWrite]>, usize),
}

/// An observation: one end writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write {
    /// Since the observation before it, of either direction; nothing for the first.
    pub after: SimDuration,
    /// The client writes, and otherwise the server.
    pub to_server: bool,
    /// How much.
    pub bytes: Bytes,
}

/// The same, with the time that follows it.
pub(crate) struct Observation {
    pub to_server: bool,
    pub bytes: Bytes,
    pub then: SimDuration,
}

impl Script {
    /// What tgen's ends say before their packets where both know the model by its path: the client 20 characters that prove that it is tgen, then protocol, host,
    /// stream, sizes, and name, seed and path of the model, with the names that tornettools gives; the server the same characters, protocol, host and result.
    pub(crate) const TGEN_GREETING: [u32; 2] = [261, 73];

    /// The client sends `request`; then the server writes `size` bytes, a `piece`, above nothing, each `interval`, the first at once.
    pub fn paced(request: Bytes, size: Bytes, piece: Bytes, interval: SimDuration) -> Self {
        let greeting = [request.get().min(u64::from(u32::MAX)) as u32, 0];
        Self { greeting, wait: SimDuration::ZERO, source: Source::Paced { first: piece, piece, interval, left: size } }
    }

    /// The same with another first piece, above nothing.
    pub(crate) fn beginning_with(mut self, bytes: Bytes) -> Self {
        if let Source::Paced { first, .. } = &mut self.source {
            *first = bytes;
        }
        self
    }

    /// Packets of [`PACKET`] bytes by `chain`, with the greetings of tgen's ends.
    pub fn markov(chain: &Arc<Chain>, stream: RandomStream) -> Self {
        Self::tgen(Source::Markov(Walk::new(Arc::clone(chain), stream)))
    }

    /// A stream of the compact model of Tor's users, with the same greetings.
    pub fn tor_users(stream: RandomStream) -> Self {
        Self::tgen(Source::Rounds(Rounds::new(stream)))
    }

    /// What was recorded, with the same greetings.
    pub(crate) fn replay(writes: &Arc<[RecordedWrite]>) -> Self {
        Self::tgen(Source::Recorded(Arc::clone(writes), 0))
    }

    const fn tgen(source: Source) -> Self {
        Self { greeting: Self::TGEN_GREETING, wait: SimDuration::ZERO, source }
    }

    /// What the client and the server send before their generators start: the client at once, the server when it has all of the client's. The
    /// client's generator starts when it has sent it, the server's when it has sent its own.
    pub fn greeting(&self) -> [Bytes; 2] {
        self.greeting.map(|bytes| Bytes::new(u64::from(bytes)))
    }

    /// What follows the observation that was given last: the time to the next, or to the end.
    pub const fn wait(&self) -> SimDuration {
        self.wait
    }

    /// What the client and the server write in all, greetings included; `None` if the script goes on for more than a million observations.
    pub fn totals(&self) -> Option<[Bytes; 2]> {
        let mut script = self.clone();
        let mut totals = self.greeting();
        for _ in 0..1_000_000 {
            let Some(write) = script.next() else { return Some(totals) };
            totals[usize::from(!write.to_server)] += write.bytes;
        }
        None
    }

    fn observe(&mut self) -> Option<Observation> {
        match &mut self.source {
            Source::Paced { first, piece, interval, left } => {
                if *left == Bytes::ZERO {
                    return None;
                }
                let bytes = std::mem::replace(first, *piece).min(*left);
                *left = Bytes::new(left.get() - bytes.get());
                let then = if *left == Bytes::ZERO { SimDuration::ZERO } else { *interval };
                Some(Observation { to_server: false, bytes, then })
            }
            Source::Markov(walk) => {
                let (symbol, then) = walk.next()?;
                Some(Observation { to_server: symbol == Symbol::ToServer, bytes: PACKET, then })
            }
            Source::Rounds(rounds) => rounds.next(),
            Source::Recorded(writes, given) => {
                let write = *writes.get(*given)?;
                *given += 1;
                Some(Observation { to_server: write.is_to_server(), bytes: write.bytes(), then: write.then() })
            }
        }
    }
}

impl Iterator for Script {
    type Item = Write;

    /// The next observation; none after the last one.
    fn next(&mut self) -> Option<Write> {
        let Observation { to_server, bytes, then } = self.observe()?;
        Some(Write { after: std::mem::replace(&mut self.wait, then), to_server, bytes })
    }
}

/// One end of a scripted exchange, after the greetings: what it writes and when, and how much the other does.
#[derive(Debug, Clone)]
pub struct ScriptEnd {
    script: Script,
    client: bool,
    expected: Bytes,
    ended: bool,
}

/// What an end does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Burst {
    /// It writes so much now, or nothing.
    pub bytes: Bytes,
    /// It asks again so long after it has asked for this burst, or when its socket has taken the burst if that is later.
    pub pause: SimDuration,
}

impl ScriptEnd {
    /// The client's end (`client`) or the server's of `script`, at its start.
    pub fn new(script: &Script, client: bool) -> Self {
        Self { script: script.clone(), client, expected: script.greeting()[usize::from(client)], ended: false }
    }

    /// What it does next; none when it has written everything.
    ///
    /// As tgen 1.x does it (`_tgenstream_writePayload`): it goes through the observations of both directions and adds up the delays since the last of its own. As soon as
    /// they exceed [`AT_ONCE`] it writes what has come together and waits for that long. Shorter delays are left out. A burst of [`BURST`] bytes gets
    /// no more, and a delay behind it of up to [`AT_ONCE`] is forgotten. What follows the last observation is waited for like any other delay.
    pub fn next_burst(&mut self) -> Option<Burst> {
        let mut bytes = Bytes::ZERO;
        let mut delay = SimDuration::ZERO;
        while bytes < BURST {
            let Some(observation) = self.script.observe() else {
                self.ended = true;
                break;
            };
            if observation.to_server == self.client {
                bytes += observation.bytes;
                delay = observation.then;
            } else {
                self.expected += observation.bytes;
                delay += observation.then;
            }
            if delay > AT_ONCE {
                return Some(Burst { bytes, pause: delay });
            }
        }
        if bytes == Bytes::ZERO { None } else { Some(Burst { bytes, pause: SimDuration::ZERO }) }
    }

    /// Whether [`Self::next_burst`] has come to the end of the script. It may have given a last burst with it.
    pub const fn ended(&self) -> bool {
        self.ended
    }

    /// How much the other end writes in all, its greeting included, as far as this end has come in the script: all of it once it has [`Self::ended`].
    pub const fn expected(&self) -> Bytes {
        self.expected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paced(size: u64, piece: u64, millis: u64) -> Script {
        Script::paced(Bytes::new(200), Bytes::new(size), Bytes::new(piece), SimDuration::from_millis(millis))
    }

    #[test]
    fn a_script_is_small() {
        assert!(size_of::<Script>() <= 64, "{}", size_of::<Script>());
    }

    #[test]
    fn a_paced_script_is_a_piece_an_interval() {
        let script = paced(2_500, 1_000, 20);
        let writes: Vec<_> = script.clone().map(|write| (write.after.as_nanos() / 1_000_000, write.bytes.get())).collect();
        assert_eq!(writes, [(0, 1_000), (20, 1_000), (20, 500)]);
        assert_eq!(script.totals(), Some([Bytes::new(200), Bytes::new(2_500)]));
    }

    #[test]
    fn the_server_writes_in_bursts_and_the_client_learns_how_much() {
        let script = paced(2_500, 1_000, 20);
        let mut server = ScriptEnd::new(&script, false);
        let bursts: Vec<_> = std::iter::from_fn(|| server.next_burst()).map(|b| (b.bytes.get(), b.pause.as_nanos())).collect();
        assert_eq!(bursts, [(1_000, 20_000_000), (1_000, 20_000_000), (500, 0)]);
        assert_eq!((server.expected(), server.ended()), (Bytes::new(200), true));
        let mut client = ScriptEnd::new(&script, true);
        assert!(!client.ended());
        while client.next_burst().is_some_and(|burst| burst.bytes == Bytes::ZERO) {}
        assert_eq!((client.expected(), client.ended()), (Bytes::new(2_500), true));
    }

    /// Delays of up to ten milliseconds are left out, and a burst ends at 32,768 bytes.
    #[test]
    fn short_delays_are_left_out() {
        let mut server = ScriptEnd::new(&paced(80_000, 10_000, 10), false);
        let bursts: Vec<_> = std::iter::from_fn(|| server.next_burst()).map(|b| (b.bytes.get(), b.pause.as_nanos())).collect();
        assert_eq!(bursts, [(40_000, 0), (40_000, 0)]);
    }
}
