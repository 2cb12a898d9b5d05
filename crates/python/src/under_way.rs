//! Which runs are under way: their memory is kept from one to the next, and given back after the last.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// So long no run has been under way when what is free is given back.
///
/// A run that begins sooner takes it over as it is, huge pages included. Given back between two runs, it would come back in small pages
/// wherever something of a huge one is still in use, and so more and more of it with each run (`docs/performance.md`).
const IDLE: Duration = Duration::from_secs(5);

static STATE: Mutex<State> = Mutex::new(State { runs: 0, last_ended: None, watched: false });

struct State {
    /// How many runs are under way.
    runs: usize,
    last_ended: Option<Instant>,
    /// Whether a thread waits for [`IDLE`] to pass.
    watched: bool,
}

fn state() -> MutexGuard<'static, State> {
    // Nothing panics that holds it.
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A run, as long as it is under way.
pub struct UnderWay;

impl UnderWay {
    pub fn new() -> Self {
        state().runs += 1;
        Self
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut state = state();
        state.runs -= 1;
        if state.runs > 0 {
            return;
        }
        state.last_ended = Some(Instant::now());
        if !state.watched {
            // Without a thread to be had it is kept until a later run is over.
            state.watched = thread::Builder::new().name("onionlab-memory".to_owned()).spawn(give_back_when_idle).is_ok();
        }
    }
}

fn give_back_when_idle() {
    loop {
        let mut state = state();
        let left = match state.last_ended {
            Some(ended) if state.runs == 0 => IDLE.saturating_sub(ended.elapsed()),
            // The end of those that are under way is watched anew.
            _ => {
                state.watched = false;
                return;
            }
        };
        if left.is_zero() {
            state.watched = false;
            drop(state);
            onionlab_allocator::give_back();
            return;
        }
        drop(state);
        thread::sleep(left);
    }
}
