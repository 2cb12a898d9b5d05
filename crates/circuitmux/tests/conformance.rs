//! What every policy must do, checked through the mux with the same tests for all of them.

use onionlab_circuitmux::{Circuitmux, CustomPolicy, EwmaClock, PolicyKind, RoundRobin, Slot, SwrrWeight};
use onionlab_quantities::{SimDuration, SimTime};
use proptest::prelude::*;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// All policies of the crate, and one plugged in from outside.
fn policies() -> Vec<PolicyKind> {
    vec![
        PolicyKind::RoundRobin,
        PolicyKind::RoundRobinHead,
        PolicyKind::TOR_EWMA,
        PolicyKind::Ewma { half_life: SimDuration::from_secs(1), tick: SimDuration::from_secs(3), clock: EwmaClock::Wall },
        PolicyKind::Swrr { weight: SwrrWeight::Linear },
        PolicyKind::Swrr { weight: SwrrWeight::Proportional },
        PolicyKind::Swrr { weight: SwrrWeight::Logarithmic { c: 1.0 } },
        PolicyKind::Custom(CustomPolicy::new("custom round robin", RoundRobin::new)),
    ]
}

/// A mux, and what should be in it.
struct Model {
    mux: Circuitmux,
    queued: BTreeMap<Slot, u32>,
    now: SimTime,
}

impl Model {
    fn new(kind: &PolicyKind) -> Self {
        kind.check().unwrap();
        Self { mux: Circuitmux::new(kind), queued: BTreeMap::new(), now: SimTime::ZERO }
    }

    fn attach(&mut self, cells: u32) -> Slot {
        let slot = self.mux.attach(self.now, cells);
        assert!(self.queued.insert(slot, cells).is_none(), "{slot:?} belongs to two circuits");
        slot
    }

    fn set(&mut self, slot: Slot, cells: u32) {
        self.mux.set_cells(slot, cells, self.now);
        self.queued.insert(slot, cells);
    }

    fn serve(&mut self) -> Option<Slot> {
        let picked = self.mux.pick(self.now);
        assert_eq!(picked, self.mux.pick(self.now), "a pick is stable until the cell is sent");
        let Some(slot) = picked else {
            assert!(self.queued.values().all(|&cells| cells == 0), "an active circuit is left out");
            return None;
        };
        let cells = self.queued.get_mut(&slot).expect("a picked circuit is attached");
        assert!(*cells > 0, "a picked circuit has a cell");
        *cells -= 1;
        self.mux.sent(slot, *cells, self.now);
        Some(slot)
    }

    fn check(&self) {
        assert_eq!(self.mux.circuits() as usize, self.queued.len());
        assert_eq!(self.mux.cells(), self.queued.values().map(|&cells| u64::from(cells)).sum::<u64>());
        assert_eq!(self.mux.active_circuits() as usize, self.queued.values().filter(|&&cells| cells > 0).count());
        assert_eq!(self.mux.compare(&self.mux), Ordering::Equal);
    }
}

#[derive(Debug, Clone)]
enum Step {
    Attach(u32),
    Detach(usize),
    Arrive(usize, u32),
    Clear(usize),
    Serve(u32),
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => (0_u32..5).prop_map(Step::Attach),
        1 => (0_usize..20).prop_map(Step::Detach),
        6 => ((0_usize..20), (1_u32..20)).prop_map(|(which, cells)| Step::Arrive(which, cells)),
        1 => (0_usize..20).prop_map(Step::Clear),
        6 => (1_u32..30).prop_map(Step::Serve),
        3 => prop_oneof![0_u64..100, 0_u64..20_000_000].prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 0..200)
}

fn perform(model: &mut Model, step: &Step) {
    let nth = |model: &Model, which: usize| {
        let slots: Vec<Slot> = model.queued.keys().copied().collect();
        (!slots.is_empty()).then(|| slots[which % slots.len()])
    };
    match *step {
        Step::Attach(cells) => drop(model.attach(cells)),
        Step::Detach(which) => {
            if let Some(slot) = nth(model, which) {
                model.mux.detach(slot, model.now);
                model.queued.remove(&slot);
            }
        }
        Step::Arrive(which, cells) => {
            if let Some(slot) = nth(model, which) {
                model.set(slot, model.queued[&slot] + cells);
            }
        }
        Step::Clear(which) => {
            if let Some(slot) = nth(model, which) {
                model.set(slot, 0);
            }
        }
        Step::Serve(cells) => {
            for _ in 0..cells {
                model.serve();
            }
        }
        Step::Wait(micros) => model.now += SimDuration::from_micros(micros),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Only active circuits are picked, counts are conserved, and without new cells every cell leaves, one a pick.
    #[test]
    fn cells_are_conserved_and_all_leave(steps in steps()) {
        for kind in policies() {
            let mut model = Model::new(&kind);
            for step in &steps {
                perform(&mut model, step);
                model.check();
            }
            for _ in 0..model.mux.cells() {
                prop_assert!(model.serve().is_some(), "{}", kind.name());
            }
            prop_assert_eq!(model.serve(), None);
            model.check();
        }
    }

    /// However unequal the past and however full the queues, nobody waits for ever: each circuit's turn comes at most after all
    /// others have sent as much as it once did, and after a set of SWRR's passes.
    #[test]
    fn every_active_circuit_is_served(steps in steps()) {
        for kind in policies() {
            let mut model = Model::new(&kind);
            for step in &steps {
                perform(&mut model, step);
            }
            let slots: Vec<Slot> = model.queued.keys().copied().collect();
            let mut waiting: std::collections::BTreeSet<Slot> = slots.iter().copied().collect();
            for &slot in &slots {
                model.set(slot, 100);
            }
            let limit = slots.len() * (slots.len() + 30 * 200);
            for _ in 0..limit {
                if waiting.is_empty() {
                    break;
                }
                model.now += SimDuration::from_micros(50);
                let slot = model.serve().unwrap();
                waiting.remove(&slot);
                model.set(slot, 100);
            }
            prop_assert!(waiting.is_empty(), "{}: {waiting:?} of {} never served", kind.name(), slots.len());
        }
    }

    /// The same policy built in and plugged in makes the same decisions.
    #[test]
    fn a_plugged_in_policy_is_treated_alike(steps in steps()) {
        let mut built_in = Model::new(&PolicyKind::RoundRobin);
        let mut plugged_in = Model::new(&PolicyKind::Custom(CustomPolicy::new("custom", RoundRobin::new)));
        for step in &steps {
            perform(&mut built_in, step);
            perform(&mut plugged_in, step);
            prop_assert_eq!(built_in.mux.pick(built_in.now), plugged_in.mux.pick(plugged_in.now));
        }
    }
}

/// Cells sent by each of `circuits` circuits with 50 cells queued, one cell every 100 us, `cells` in all.
fn shares(kind: &PolicyKind, circuits: u32, cells: u32) -> Vec<u32> {
    let mut model = Model::new(kind);
    let mut sent = vec![0; circuits as usize];
    for _ in 0..circuits {
        model.attach(50);
    }
    for _ in 0..cells {
        model.now += SimDuration::from_micros(100);
        let slot = model.serve().unwrap();
        model.set(slot, 50);
        sent[slot.index()] += 1;
    }
    sent
}

#[test]
fn equal_circuits_get_equal_shares() {
    for kind in policies() {
        for circuits in [1, 2, 3, 7, 20] {
            let sent = shares(&kind, circuits, 200 * circuits * (circuits + 1));
            let (most, least) = (*sent.iter().max().unwrap(), *sent.iter().min().unwrap());
            let tolerance = match kind {
                PolicyKind::RoundRobin | PolicyKind::RoundRobinHead | PolicyKind::Custom(_) | PolicyKind::Ewma { .. } => 1,
                // A set of passes is unequal on purpose, and the next one makes up for it.
                PolicyKind::Swrr { .. } => circuits,
            };
            assert!(most - least <= tolerance, "{}: {sent:?}", kind.name());
        }
    }
}

/// In each set of passes over N circuits one is served N times, one N-1 times, ..., one once.
#[test]
fn a_set_of_swrr_passes_serves_the_first_n_times_and_the_last_once() {
    for weight in [SwrrWeight::Linear, SwrrWeight::Proportional, SwrrWeight::Logarithmic { c: 1.0 }] {
        let circuits = 9_u32;
        let mut model = Model::new(&PolicyKind::Swrr { weight });
        for _ in 0..circuits {
            model.attach(50);
        }
        for _ in 0..20 {
            let mut sent = vec![0; circuits as usize];
            for _ in 0..circuits * (circuits + 1) / 2 {
                model.now += SimDuration::from_micros(100);
                let slot = model.serve().unwrap();
                model.set(slot, 50);
                sent[slot.index()] += 1;
            }
            sent.sort_unstable();
            assert_eq!(sent, (1..=circuits).collect::<Vec<_>>(), "{weight:?}");
        }
    }
}

/// A scheduler run: all at one instant, always the first mux in order of `compare` (the first of equals), as a heap would.
#[test]
fn channels_share_a_scheduler_run() {
    for kind in policies() {
        let channels = 8;
        let mut models: Vec<Model> = (0..channels).map(|_| Model::new(&kind)).collect();
        let idle = Circuitmux::new(&kind);
        for model in &mut models {
            model.attach(50);
        }
        let mut sent = vec![0_u32; channels];
        for run in 0..20_u64 {
            for _ in 0..40 {
                let first = (0..channels).min_by(|&a, &b| models[a].mux.compare(&models[b].mux)).unwrap();
                let model = &mut models[first];
                assert_eq!((model.mux.compare(&idle), idle.compare(&model.mux)), (Ordering::Less, Ordering::Greater));
                model.now = SimTime::ZERO + SimDuration::from_millis(2 * run);
                let slot = model.serve().unwrap();
                model.set(slot, 50);
                sent[first] += 1;
            }
        }
        assert_eq!(sent, vec![100; channels], "{}", kind.name());
    }
}
