//! What a client's program does, as flows of streams: the interface between loads and whoever simulates clients.
//!
//! A **flow** is what shares the isolation of one circuit (a SOCKS user name): a download, a page, a person's session. Its streams
//! come one after the other from [`Flow::next`], so a flow of ten thousand streams takes no more room than a flow of one. A
//! **stream** exchanges what its [`Exchange`] says. Nothing here depends on what happens in the network.

use crate::Script;
use crate::markov::{CompactStreams, MarkovStreams};
use crate::page::PageStreams;
use crate::replay::ReplayedStreams;
use onionlab_quantities::{Bytes, RandomStream, SimDuration};

/// The port that streams go to where the load does not say: HTTPS.
pub const DEFAULT_PORT: u16 = 443;

/// How the flows of a client follow each other.
///
/// A client that stands for several users runs [`Pace::sequences`] sequences of flows beside each other, with the random streams
/// that [`user_stream`] gives, and divides the pauses as [`Pace::pause`] does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// A flow starts [`Flow::pause`] after the one before it has ended, however it has ended.
    AfterPrevious,
    /// A flow starts [`Flow::pause`] after the start of the one before it, whatever else goes on.
    Independent,
}

impl Pace {
    /// How many sequences of flows a client runs that stands for so many users: one for each where a flow waits for the one before
    /// it; one for all where flows are independent.
    pub const fn sequences(self, users: u32) -> u32 {
        match self {
            Self::AfterPrevious => users,
            Self::Independent => 1,
        }
    }

    /// The pause of a flow of a client that stands for so many users, at least one. Independent flows of `users` users start `users` times as often: exactly
    /// so where pauses are exponential, since the sum of Poisson processes is one.
    pub const fn pause(self, pause: SimDuration, users: u32) -> SimDuration {
        match self {
            Self::AfterPrevious => pause,
            Self::Independent => SimDuration::from_nanos(pause.as_nanos() / users as u64),
        }
    }
}

/// The random values of the load of a client's user with this number, from 0, where `stream` are those of the client's load.
pub const fn user_stream(stream: RandomStream, user: u32) -> RandomStream {
    // The first user's are the client's own, so that a client of one user is the same as one that says nothing of users. The
    // loads themselves use members from 0 on.
    if user == 0 { stream } else { stream.member(u64::MAX - user as u64) }
}

/// Streams that share the isolation of a circuit.
#[derive(Debug, Clone)]
pub struct Flow {
    /// [`Pace::AfterPrevious`]: from this flow's end to the next one's start. [`Pace::Independent`]: from start to start.
    pub pause: SimDuration,
    /// At most so many of its streams are open at a time; at least 1. One that is due waits for another to end.
    pub parallel: u32,
    pub(crate) streams: Streams,
}

/// Where a flow's streams come from.
#[derive(Debug, Clone)]
pub(crate) enum Streams {
    /// One stream, or none left.
    Single(Option<StreamPlan>),
    /// A document and its objects.
    Page(PageStreams),
    /// A user's circuit by the hidden Markov models.
    Markov(MarkovStreams),
    /// A user's circuit by the compact model.
    Compact(CompactStreams),
    /// What was recorded.
    Replayed(ReplayedStreams),
}

/// One stream of a flow.
#[derive(Debug, Clone)]
pub struct StreamPlan {
    /// From when the stream before it was due, or from the start of the flow.
    pub delay: SimDuration,
    /// It is not due before all earlier streams of the flow have ended; the delay then counts from there.
    pub after_all: bool,
    /// What its ends send each other.
    pub exchange: Exchange,
    /// It has failed if it takes longer; `None`: the time that the group of clients has.
    pub timeout: Option<SimDuration>,
    /// The server's port.
    pub port: u16,
}

/// What the ends of a stream send each other.
#[derive(Debug, Clone)]
pub enum Exchange {
    /// The client sends a request, which may be the longer part; the server answers when it has enough of it. Over when the client has the whole answer.
    Download {
        /// What the client sends.
        request: Bytes,
        /// So much of it the client's tor reads first, the rest right after.
        first: Bytes,
        /// So much of it the server waits for.
        awaited: Bytes,
        /// What the server sends.
        size: Bytes,
        /// What it writes before that, in a write of its own.
        header: Bytes,
    },
    /// Both ends write at times of their own. Over when both have all that the other writes.
    Script(Script),
}

impl Exchange {
    /// What the server writes before what was asked for, in bytes.
    pub fn header(&self) -> u64 {
        match self {
            Self::Download { header, .. } => header.get(),
            Self::Script(script) => script.greeting()[1].get(),
        }
    }
}

impl StreamPlan {
    /// A stream on which both ends write at times of their own.
    pub(crate) const fn scripted(delay: SimDuration, script: Script, port: u16) -> Self {
        Self { delay, after_all: false, exchange: Exchange::Script(script), timeout: None, port }
    }
}

/// What a flow of a load is in the mean: for estimates of the load that clients offer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeanFlow {
    /// Bytes that the client sends.
    pub to_server: f64,
    /// Bytes that the servers send.
    pub to_client: f64,
    /// Its pause in seconds.
    pub pause: f64,
    /// How long it lasts in seconds even if the network takes no time.
    pub lasts: f64,
}

impl Flow {
    /// A flow of one stream that starts at once.
    pub(crate) const fn single(pause: SimDuration, exchange: Exchange, timeout: Option<SimDuration>, port: u16) -> Self {
        let plan = StreamPlan { delay: SimDuration::ZERO, after_all: false, exchange, timeout, port };
        Self { pause, parallel: 1, streams: Streams::Single(Some(plan)) }
    }
}

impl Iterator for Flow {
    type Item = StreamPlan;

    /// The next stream, in the order in which they are due; none after the last one.
    fn next(&mut self) -> Option<StreamPlan> {
        match &mut self.streams {
            Streams::Single(plan) => plan.take(),
            Streams::Page(page) => page.next(),
            Streams::Markov(circuit) => circuit.next(),
            Streams::Compact(circuit) => circuit.next(),
            Streams::Replayed(streams) => streams.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onionlab_quantities::Seed;

    #[test]
    fn many_users_are_many_sequences_or_shorter_pauses() {
        let pause = SimDuration::from_secs(60);
        assert_eq!((Pace::AfterPrevious.sequences(100), Pace::Independent.sequences(100)), (100, 1));
        assert_eq!(Pace::AfterPrevious.pause(pause, 100), pause);
        assert_eq!(Pace::Independent.pause(pause, 100), SimDuration::from_millis(600));
        let stream = RandomStream::new(Seed(1), "client1", "load");
        assert_eq!(user_stream(stream, 0), stream);
        assert_ne!(user_stream(stream, 1), user_stream(stream, 2));
    }
}
