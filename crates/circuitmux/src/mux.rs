//! One circuitmux: the cell counts of a channel's circuits at one of its ends, and the policy that picks among them.

use crate::custom::Custom;
use crate::{CircuitmuxPolicy, Ewma, NewlyActive, PolicyKind, RoundRobin, Slot, Swrr};
use onionlab_quantities::SimTime;
use smallvec::SmallVec;
use std::cmp::Ordering;

/// The circuits of one channel at one of its ends, and the policy that picks the next of them.
///
/// The mux counts cells, it does not hold them. Most channels of a large network are idle, and an owner of many may make a channel's mux with
/// its first circuit, which no policy here can tell from a beginning with the channel.
///
/// Source: tor's `core/or/circuitmux.c`. Deviation: the queue of DESTROY cells is the channel's business, not the mux's.
#[derive(Debug)]
pub struct Circuitmux {
    policy: Policy,
    /// Queued cells per slot; [`FREE`] for a slot without a circuit.
    cells: SmallVec<[u32; FEW]>,
    free: SmallVec<[Slot; FEW]>,
    active: u32,
    total: u64,
}

/// A word for each circuit lies in the mux itself while there are no more circuits than these: what lies apart is one more wait for memory. Four words of
/// 32 bits fill the place that the address and length of something apart would take.
pub(crate) const FEW: usize = 4;

/// In `Circuitmux::cells`: no circuit has this slot.
pub(crate) const FREE: u32 = u32::MAX;

enum Policy {
    RoundRobin(RoundRobin),
    Ewma(Ewma),
    Swrr(Swrr),
    Custom(Custom),
}

/// Calls the same method of whichever policy it is, without a virtual call for the policies of this crate.
macro_rules! each {
    ($policy:expr, $bound:ident => $call:expr) => {
        match $policy {
            Policy::RoundRobin($bound) => $call,
            Policy::Ewma($bound) => $call,
            Policy::Swrr($bound) => $call,
            Policy::Custom(custom) => {
                let $bound = &mut *custom.policy;
                $call
            }
        }
    };
}

impl std::fmt::Debug for Policy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::RoundRobin(policy) => policy.fmt(f),
            Self::Ewma(policy) => policy.fmt(f),
            Self::Swrr(policy) => policy.fmt(f),
            Self::Custom(_) => f.write_str("Custom(..)"),
        }
    }
}

impl Circuitmux {
    /// A mux without circuits. The settings must be ones that [`PolicyKind::check`] accepts.
    pub fn new(kind: &PolicyKind) -> Self {
        let policy = match kind {
            PolicyKind::RoundRobin => Policy::RoundRobin(RoundRobin::new()),
            PolicyKind::RoundRobinHead => Policy::RoundRobin(RoundRobin::joined(NewlyActive::AtHead)),
            PolicyKind::Ewma { half_life, tick, clock } => Policy::Ewma(Ewma::new(*half_life, *tick, *clock)),
            PolicyKind::Swrr { weight } => Policy::Swrr(Swrr::new(*weight)),
            PolicyKind::Custom(custom) => Policy::Custom(custom.make()),
        };
        Self { policy, cells: SmallVec::new_const(), free: SmallVec::new_const(), active: 0, total: 0 }
    }

    /// Adds a circuit with `cells` cells queued and gives it a slot.
    pub fn attach(&mut self, now: SimTime, cells: u32) -> Slot {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.cells.push(FREE);
            Slot(self.cells.len() as u32 - 1)
        });
        self.cells[slot.index()] = cells;
        self.total += u64::from(cells);
        each!(&mut self.policy, policy => policy.attach(slot, now, cells));
        if cells > 0 {
            self.active += 1;
            each!(&mut self.policy, policy => policy.notify_active(slot, now));
            each!(&mut self.policy, policy => policy.notify_set_cells(slot, cells, now));
        }
        slot
    }

    /// Removes a circuit, whatever it has queued.
    pub fn detach(&mut self, slot: Slot, now: SimTime) {
        let cells = self.count(slot);
        if cells > 0 {
            self.active -= 1;
            self.total -= u64::from(cells);
            each!(&mut self.policy, policy => policy.notify_inactive(slot, now));
        }
        each!(&mut self.policy, policy => policy.detach(slot));
        self.cells[slot.index()] = FREE;
        self.free.push(slot);
    }

    /// The circuit's queue has `n` cells now: cells have arrived, or the queue was cleared.
    #[inline]
    pub fn set_cells(&mut self, slot: Slot, n: u32, now: SimTime) {
        let old = self.count(slot);
        each!(&mut self.policy, policy => counted(policy, slot, old, n, now));
        self.store(slot, old, n);
        self.active = self.active + u32::from(old == 0 && n > 0) - u32::from(old > 0 && n == 0);
    }

    /// The circuit to send the next cell; none if no circuit has one, or if a policy from outside picks what cannot be served ([`crate::Trouble`]).
    #[inline]
    pub fn pick(&mut self, now: SimTime) -> Option<Slot> {
        if self.active == 0 {
            return None;
        }
        match &mut self.policy {
            Policy::RoundRobin(policy) => policy.pick(now),
            Policy::Ewma(policy) => policy.pick(now),
            Policy::Swrr(policy) => policy.pick(now),
            Policy::Custom(custom) => custom.pick(now, &self.cells),
        }
    }

    /// Which circuit [`Self::pick`] would say now, where that can be told without changing anything; for fetching what it needs.
    #[inline]
    pub fn foreseen(&self) -> Option<Slot> {
        match &self.policy {
            Policy::RoundRobin(policy) => policy.foreseen(),
            Policy::Ewma(policy) => policy.foreseen(),
            Policy::Swrr(policy) => policy.foreseen(),
            Policy::Custom(_) => None,
        }
    }

    /// One cell of the picked circuit went to the outbuf and `remaining` are left in its queue.
    #[inline]
    pub fn sent(&mut self, slot: Slot, remaining: u32, now: SimTime) {
        let old = self.count(slot);
        debug_assert_eq!(old, remaining + 1, "a departure takes one cell");
        self.store(slot, old, remaining);
        self.active -= u32::from(remaining == 0);
        each!(&mut self.policy, policy => departed(policy, slot, remaining, now));
    }

    /// How many attached circuits have a cell queued.
    pub fn active_circuits(&self) -> u32 {
        self.active
    }

    /// How many circuits are attached.
    pub fn circuits(&self) -> u32 {
        (self.cells.len() - self.free.len()) as u32
    }

    /// Cells queued in all circuits together.
    pub fn cells(&self) -> u64 {
        self.total
    }

    /// Which mux should send first, `Less` being the first: one with an active circuit before one without, then by the
    /// policy's own rule. Muxes of different policies tie.
    pub fn compare(&self, other: &Self) -> Ordering {
        if self.active == 0 || other.active == 0 {
            return (other.active > 0).cmp(&(self.active > 0));
        }
        match (&self.policy, &other.policy) {
            (Policy::RoundRobin(one), Policy::RoundRobin(two)) => one.compare(two),
            (Policy::Ewma(one), Policy::Ewma(two)) => one.compare(two),
            (Policy::Swrr(one), Policy::Swrr(two)) => one.compare(two),
            (Policy::Custom(one), Policy::Custom(two)) => one.policy.compare_dyn(&*two.policy),
            _ => Ordering::Equal,
        }
    }

    /// Where the policy compares by one number, that number: of two muxes of the policy the one with the smaller sends first, as [`Self::compare`] says. None of a mux without
    /// an active circuit, and of policies that compare otherwise.
    ///
    /// An owner of many muxes may keep their ranks together, and need not touch the muxes to compare them.
    #[inline]
    pub fn rank(&self) -> Option<u64> {
        match &self.policy {
            Policy::Ewma(policy) if self.active > 0 => Some(policy.rank()),
            _ => None,
        }
    }

    fn count(&self, slot: Slot) -> u32 {
        let cells = self.cells[slot.index()];
        debug_assert_ne!(cells, FREE, "{slot:?} has no circuit");
        cells
    }

    fn store(&mut self, slot: Slot, old: u32, new: u32) {
        self.cells[slot.index()] = new;
        self.total = self.total - u64::from(old) + u64::from(new);
    }
}

/// What a policy is told when a queue of `old` cells has `n` now.
#[inline]
fn counted<P: CircuitmuxPolicy + ?Sized>(policy: &mut P, slot: Slot, old: u32, n: u32, now: SimTime) {
    policy.notify_set_cells(slot, n, now);
    if old == 0 && n > 0 {
        policy.notify_active(slot, now);
    } else if old > 0 && n == 0 {
        policy.notify_inactive(slot, now);
    }
}

/// What a policy is told when a cell has left and `remaining` are left.
#[inline]
fn departed<P: CircuitmuxPolicy + ?Sized>(policy: &mut P, slot: Slot, remaining: u32, now: SimTime) {
    policy.notify_sent(slot, 1, now);
    if remaining == 0 {
        policy.notify_inactive(slot, now);
    }
    policy.notify_set_cells(slot, remaining, now);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CustomPolicy;
    use std::sync::{Arc, Mutex};

    /// A policy that writes down its calls and serves the lowest slot.
    struct Recorder(Arc<Mutex<Vec<String>>>, Vec<Slot>);

    impl CircuitmuxPolicy for Recorder {
        fn attach(&mut self, slot: Slot, _: SimTime, cells: u32) {
            self.0.lock().unwrap().push(format!("attach {} {cells}", slot.0));
        }
        fn detach(&mut self, slot: Slot) {
            self.0.lock().unwrap().push(format!("detach {}", slot.0));
        }
        fn notify_active(&mut self, slot: Slot, _: SimTime) {
            self.0.lock().unwrap().push(format!("active {}", slot.0));
            self.1.push(slot);
        }
        fn notify_inactive(&mut self, slot: Slot, _: SimTime) {
            self.0.lock().unwrap().push(format!("inactive {}", slot.0));
            self.1.retain(|&s| s != slot);
        }
        fn notify_set_cells(&mut self, slot: Slot, cells: u32, _: SimTime) {
            self.0.lock().unwrap().push(format!("set {} {cells}", slot.0));
        }
        fn notify_sent(&mut self, slot: Slot, cells: u32, _: SimTime) {
            self.0.lock().unwrap().push(format!("sent {} {cells}", slot.0));
        }
        fn pick(&mut self, _: SimTime) -> Option<Slot> {
            self.1.iter().min().copied()
        }
        fn compare(&self, _: &Self) -> Ordering {
            Ordering::Equal
        }
    }

    #[test]
    fn a_policy_is_called_in_tors_order() {
        let calls = Arc::new(Mutex::new(Vec::new()));
        let recorder = calls.clone();
        let kind = PolicyKind::Custom(CustomPolicy::new("recorder", move || Recorder(recorder.clone(), Vec::new())));
        let mut mux = Circuitmux::new(&kind);
        let now = SimTime::ZERO;
        let expect = |expected: &[&str]| assert_eq!(std::mem::take(&mut *calls.lock().unwrap()), expected);

        assert_eq!(mux.pick(now), None);
        let first = mux.attach(now, 2);
        let second = mux.attach(now, 0);
        expect(&["attach 0 2", "active 0", "set 0 2", "attach 1 0"]);
        mux.set_cells(second, 1, now);
        mux.set_cells(second, 2, now);
        expect(&["set 1 1", "active 1", "set 1 2"]);
        assert_eq!((mux.active_circuits(), mux.circuits(), mux.cells()), (2, 2, 4));
        for left in [1, 0] {
            assert_eq!(mux.pick(now), Some(first));
            mux.sent(first, left, now);
        }
        expect(&["sent 0 1", "set 0 1", "sent 0 1", "inactive 0", "set 0 0"]);
        mux.set_cells(second, 0, now);
        mux.set_cells(second, 3, now);
        mux.detach(second, now);
        mux.detach(first, now);
        expect(&["set 1 0", "inactive 1", "set 1 3", "active 1", "inactive 1", "detach 1", "detach 0"]);
        assert_eq!((mux.active_circuits(), mux.circuits(), mux.cells()), (0, 0, 0));
        assert_eq!(mux.attach(now, 0), first);
    }
}
