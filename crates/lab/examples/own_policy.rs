//! A library with a policy, for the tests: round robin as onionlab has it, until it goes wrong in a way that its parameters choose.

use onionlab_circuitmux::RoundRobin;
use onionlab_policy::{CircuitmuxPolicy, OwnPolicy, Parameters, SimTime, Slot};
use std::cmp::Ordering;

/// Round robin that may go wrong.
pub struct Fallible {
    ring: RoundRobin,
    /// How it goes wrong: "panic", "compare", "sent", "active", "nothing", "absent"; "never".
    how: String,
    /// The cell from which on it does.
    from: u64,
    sent: u64,
}

impl Fallible {
    fn wrong(&self, how: &str) -> bool {
        self.how == how && self.sent >= self.from
    }
}

impl OwnPolicy for Fallible {
    fn new(parameters: &mut Parameters<'_>) -> Result<Self, String> {
        let (how, from) = (parameters.get_or("how", "never".to_owned())?, parameters.get_or("from", 0)?);
        assert!(how != "born", "no policy\nwas made");
        Ok(Self { ring: RoundRobin::new(), how, from, sent: 0 })
    }
}

impl CircuitmuxPolicy for Fallible {
    fn attach(&mut self, slot: Slot, now: SimTime, cells: u32) {
        self.ring.attach(slot, now, cells);
    }
    fn detach(&mut self, slot: Slot) {
        self.ring.detach(slot);
    }
    fn notify_active(&mut self, slot: Slot, now: SimTime) {
        assert!(!self.wrong("active"), "it is {:.6} s", now.as_nanos() as f64 / 1e9);
        self.ring.notify_active(slot, now);
    }
    fn notify_inactive(&mut self, slot: Slot, now: SimTime) {
        self.ring.notify_inactive(slot, now);
    }
    fn notify_set_cells(&mut self, slot: Slot, cells: u32, now: SimTime) {
        self.ring.notify_set_cells(slot, cells, now);
    }
    fn notify_sent(&mut self, slot: Slot, cells: u32, now: SimTime) {
        assert!(!self.wrong("sent"), "{} cells are enough", self.sent);
        self.sent += u64::from(cells);
        self.ring.notify_sent(slot, cells, now);
    }
    fn pick(&mut self, now: SimTime) -> Option<Slot> {
        assert!(!self.wrong("panic"), "{} cells are enough", self.sent);
        if self.wrong("absent") {
            return Some(Slot(1_000_000));
        }
        self.ring.pick(now).filter(|_| !self.wrong("nothing"))
    }
    fn compare(&self, other: &Self) -> Ordering {
        assert!(!self.wrong("compare"), "{} cells are enough", self.sent);
        self.ring.compare(&other.ring)
    }
}

onionlab_policy::export!(Fallible);
