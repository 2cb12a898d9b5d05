//! Policies from outside this crate: how they are made, and what happens when one goes wrong.

use crate::{CircuitmuxPolicy, Slot};
use onionlab_quantities::SimTime;
use std::any::Any;
use std::cmp::Ordering;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// [`CircuitmuxPolicy`] for policies whose type is not known here; implemented for every policy that can be sent to
/// another thread. Implement [`CircuitmuxPolicy`], not this.
pub trait DynPolicy: CircuitmuxPolicy + Any + Send {
    /// [`CircuitmuxPolicy::compare`], and `Equal` if the other mux has a policy of another type.
    fn compare_dyn(&self, other: &dyn DynPolicy) -> Ordering;
}

impl<P: CircuitmuxPolicy + Any + Send> DynPolicy for P {
    fn compare_dyn(&self, other: &dyn DynPolicy) -> Ordering {
        let other: &dyn Any = other;
        other.downcast_ref::<P>().map_or(Ordering::Equal, |other| self.compare(other))
    }
}

/// The first thing that went wrong in any policy of one kind, shared by all muxes that have it.
///
/// The calls of a policy have no way to fail. One that cannot go on says so here and picks nothing from then on; whoever runs the muxes looks here
/// from time to time, and ends the run with this sentence.
#[derive(Debug, Clone, Default)]
pub struct Trouble(Arc<OnceLock<String>>);

impl Trouble {
    /// Notes what went wrong, unless something did before: the rest of a sentence that begins with the policy's name.
    pub fn report(&self, what: impl FnOnce() -> String) {
        self.0.get_or_init(what);
    }

    /// What went wrong first.
    pub fn first(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }
}

type Make = dyn Fn(&Trouble) -> Result<Box<dyn DynPolicy>, String> + Send + Sync;

/// A policy from outside this crate: its name and how to make one for a mux.
#[derive(Clone)]
pub struct CustomPolicy {
    name: Arc<str>,
    make: Arc<Make>,
    trouble: Trouble,
}

impl CustomPolicy {
    /// The policy called `name`, of which `make` makes one for each mux.
    pub fn new<P: DynPolicy>(name: &str, make: impl Fn() -> P + Send + Sync + 'static) -> Self {
        Self::fallible(name, move |_| Ok(make()))
    }

    /// The same for a policy that can go wrong: `make` hands it the place to say so, or says why there can be none.
    pub fn fallible<P: DynPolicy>(name: &str, make: impl Fn(&Trouble) -> Result<P, String> + Send + Sync + 'static) -> Self {
        let make = move |trouble: &Trouble| make(trouble).map(|policy| Box::new(policy) as Box<dyn DynPolicy>);
        Self { name: name.into(), make: Arc::new(make), trouble: Trouble::default() }
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes one to see whether that works.
    ///
    /// # Errors
    /// Why it does not, as the policy has it.
    pub fn check(&self) -> Result<(), String> {
        (self.make)(&self.trouble).map(drop)
    }

    /// What went wrong in any mux: one sentence that names the policy.
    pub fn trouble(&self) -> Option<String> {
        self.trouble.first().map(|what| format!("the circuitmux policy \"{}\" {what}", self.name))
    }

    /// A policy for one mux.
    pub(crate) fn make(&self) -> Custom {
        let policy = (self.make)(&self.trouble).unwrap_or_else(|why| {
            self.trouble.report(|| format!("cannot be made: {why}"));
            Box::new(Nothing)
        });
        Custom { policy, trouble: self.trouble.clone() }
    }
}

impl fmt::Debug for CustomPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CustomPolicy").field(&self.name).finish()
    }
}

/// Stands for a policy that could not be made.
struct Nothing;

impl CircuitmuxPolicy for Nothing {
    fn pick(&mut self, _: SimTime) -> Option<Slot> {
        None
    }
    fn compare(&self, _: &Self) -> Ordering {
        Ordering::Equal
    }
}

/// The policy of one mux, whose choices are looked at before they count.
pub(crate) struct Custom {
    pub policy: Box<dyn DynPolicy>,
    trouble: Trouble,
}

impl Custom {
    /// What the policy picks, if that circuit has one of `cells`, the counts by slot; some of them are above zero.
    #[inline(never)]
    pub fn pick(&mut self, now: SimTime, cells: &[u32]) -> Option<Slot> {
        let picked = self.policy.pick(now);
        let queued = picked.and_then(|slot| cells.get(slot.index())).filter(|&&cells| cells != crate::mux::FREE);
        let wrong = match (picked, queued) {
            (Some(_), Some(1..)) => return picked,
            (Some(Slot(slot)), Some(0)) => format!("picked circuit {slot}, which has no cell queued"),
            (Some(Slot(slot)), None) => format!("picked circuit {slot}, which this mux does not have"),
            (None, _) => "picked no circuit although some have cells queued".to_owned(),
        };
        self.trouble.report(|| format!("{wrong}, at {:.6} s of simulated time", now.as_secs_f64()));
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Circuitmux, PolicyKind, RoundRobin};

    /// Always the same answer.
    struct Stubborn(Option<Slot>);

    impl CircuitmuxPolicy for Stubborn {
        fn pick(&mut self, _: SimTime) -> Option<Slot> {
            self.0
        }
        fn compare(&self, _: &Self) -> Ordering {
            Ordering::Equal
        }
    }

    #[test]
    fn a_choice_that_cannot_be_served_is_named_and_serves_nobody() {
        for (answer, sentence) in [
            (Some(Slot(1)), "picked circuit 1, which has no cell queued"),
            (Some(Slot(2)), "picked circuit 2, which this mux does not have"),
            (Some(Slot(9)), "picked circuit 9, which this mux does not have"),
            (None, "picked no circuit although some have cells queued"),
        ] {
            let custom = CustomPolicy::new("stubborn", move || Stubborn(answer));
            let mut mux = Circuitmux::new(&PolicyKind::Custom(custom.clone()));
            let now = SimTime::from_nanos(1_500_000_000);
            assert_eq!(mux.pick(now), None);
            assert_eq!(custom.trouble(), None, "there is no cell to send");
            mux.attach(now, 3);
            mux.attach(now, 0);
            let gone = mux.attach(now, 1);
            mux.detach(gone, now);
            assert_eq!(mux.pick(now), None);
            let trouble = custom.trouble().unwrap();
            assert_eq!(trouble, format!("the circuitmux policy \"stubborn\" {sentence}, at 1.500000 s of simulated time"));
        }
    }

    #[test]
    fn a_policy_that_cannot_be_made_says_why() {
        let custom = CustomPolicy::fallible("fussy", |_| Err::<RoundRobin, _>("`weight` is missing".to_owned()));
        assert_eq!(custom.check(), Err("`weight` is missing".to_owned()));
        assert_eq!(custom.trouble(), None);
        let mut mux = Circuitmux::new(&PolicyKind::Custom(custom.clone()));
        mux.attach(SimTime::ZERO, 1);
        assert_eq!(mux.pick(SimTime::ZERO), None);
        assert_eq!(custom.trouble().unwrap(), "the circuitmux policy \"fussy\" cannot be made: `weight` is missing");
    }
}
