//! The program at either end of a stream whose exchange follows a script: it writes at times of its own.

use onionlab_load::{Script, ScriptEnd};
use onionlab_quantities::SimTime;

/// One end of a scripted exchange, from its greeting on.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    end: ScriptEnd,
    /// It writes again at this time, if its socket has taken what it wrote before.
    ready: SimTime,
    finished: bool,
}

impl Writer {
    /// The client's end (`client`) or the server's.
    pub fn new(script: &Script, client: bool) -> Self {
        Self { end: ScriptEnd::new(script, client), ready: SimTime::ZERO, finished: false }
    }

    /// Its socket has taken everything that it wrote: what it writes now; none if it is not time yet, or there is nothing more.
    pub fn write(&mut self, now: SimTime) -> Option<u64> {
        if self.finished || now < self.ready {
            return None;
        }
        let Some(burst) = self.end.next_burst() else {
            self.finished = true;
            return None;
        };
        self.ready = now + burst.pause;
        Some(burst.bytes.get())
    }

    /// When it writes again, if that is later than now.
    pub fn next(&self, now: SimTime) -> Option<SimTime> {
        (!self.finished && self.ready > now).then_some(self.ready)
    }

    /// It has written everything.
    pub const fn is_finished(&self) -> bool {
        self.finished
    }

    /// How much the other end writes, as far as this one knows: all of it once it has finished.
    pub const fn expects(&self) -> u64 {
        self.end.expected().get()
    }
}
