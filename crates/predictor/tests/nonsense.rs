//! A relay whose neighbours send nonsense or nothing, and one whose solver gives up: it keeps its limits and recovers.

mod support;

use onionlab_predictor::{
    CircuitSlot, Controller, Fallback, Form, Outcome, Parameters, Sink, SinkMessage, Source, SourceMessage,
};
use support::Random;

const RATE: f64 = 1000.0;

/// Nothing is planned beyond the capacity, the queue, or what numbers are.
fn keeps_its_limits(controller: &Controller, slots: &[CircuitSlot]) {
    let solution = controller.solution();
    let steps = controller.parameters().horizon;
    let capacity = 0.85 * RATE;
    for k in 0..steps {
        for rates in [&solution.rate_in, &solution.rate_out, &solution.virtual_rate_out] {
            let rates = || rates.iter().skip(k).step_by(steps);
            assert!(rates().all(|rate| rate.is_finite() && *rate >= 0.0), "{rates:?}", rates = rates().collect::<Vec<_>>());
            assert!(rates().sum::<f64>() <= capacity * (1.0 + 1e-9));
        }
    }
    assert!(solution.queue.iter().all(|queue| *queue >= -1e-6), "{:?}", solution.queue);
    for &slot in slots {
        let plan = controller.plan(slot).expect("a plan");
        assert_eq!([plan.to_source.rate.len(), plan.to_sink.rate.len(), plan.to_sink.queue.len()], [steps; 3]);
    }
}

/// Sense, nonsense or nothing.
fn garbage(random: &mut Random, steps: usize) -> Vec<f64> {
    let length = if random.chance(0.8) { steps } else { random.below(30) };
    let kind = random.below(6);
    let value = |random: &mut Random| match kind {
        0 => f64::NAN,
        1 => [f64::INFINITY, f64::NEG_INFINITY][random.below(2)],
        2 => -1e3 * random.share(),
        3 => 1e300,
        4 => f64::from_bits(random.bits()),
        _ => RATE * random.share(),
    };
    (0..length).map(|_| value(random)).collect()
}

fn storm(form: Form, seed: u64) {
    let random = &mut Random::new(seed);
    let parameters = Parameters::of(form);
    let steps = parameters.horizon;
    let mut controller = Controller::new(parameters, RATE, 0.85).unwrap();
    let mut slots = Vec::new();
    for step in 0..60 {
        // Circuits come and go.
        if slots.len() < 6 && random.chance(0.3) {
            let source = if random.chance(0.7) { Source::Relay } else { Source::Server };
            let sink = if random.chance(0.7) { Sink::Relay } else { Sink::Client };
            slots.push(controller.attach(source, sink));
        }
        if !slots.is_empty() && random.chance(0.1) {
            let slot = slots.swap_remove(random.below(slots.len()));
            controller.detach(slot);
            assert!(controller.plan(slot).is_none());
        }
        for &slot in &slots {
            if random.chance(0.7) {
                let (rate, queue, mut virtual_rate) = (garbage(random, steps), garbage(random, steps), garbage(random, steps));
                if form == Form::Conference && random.chance(0.7) {
                    virtual_rate.clear();
                }
                controller.heard_source(slot, &SourceMessage { rate: &rate, queue: &queue, virtual_rate: &virtual_rate });
            }
            if random.chance(0.7) {
                controller.heard_sink(slot, &SinkMessage { rate: &garbage(random, steps) });
            }
            if random.chance(0.1) {
                let shift = [f64::NAN, f64::INFINITY, -3.0, 0.4, 1e12][random.below(5)];
                controller.heard_sink_shifted(slot, &SinkMessage { rate: &vec![RATE * random.share(); steps] }, shift);
                controller.source_looked(slot, shift);
            }
            controller.measured_queue(slot, [f64::NAN, -5.0, 0.0, 300.0, 1e300, f64::INFINITY][random.below(6)] * random.share());
            controller.server_has(slot, [f64::NAN, f64::INFINITY, 0.0, 0.5, 1e4][random.below(5)]);
        }
        let outcome = controller.step();
        assert_eq!(outcome, Outcome::Solved, "seed {seed}, step {step}");
        keeps_its_limits(&controller, &slots);
    }
    assert!(controller.counts().refused_messages > 0);
    assert_eq!(controller.counts().steps, 60);
}

#[test]
fn whatever_neighbours_send_the_limits_are_kept() {
    for seed in 0..5 {
        storm(Form::Conference, seed);
        storm(Form::Journal, seed);
    }
}

/// Two circuits between relays: sensible neighbours, then nonsense from one, then sense again.
#[test]
fn a_relay_recovers_from_nonsense() {
    for form in [Form::Conference, Form::Journal] {
        let mut controller = Controller::new(Parameters::of(form), RATE, 0.85).unwrap();
        let slots = [controller.attach(Source::Relay, Sink::Relay), controller.attach(Source::Relay, Sink::Relay)];
        let virtual_rate = |value: f64| if form == Form::Journal { vec![value; 10] } else { Vec::new() };
        let sense = |controller: &mut Controller, slot: CircuitSlot| {
            let message = SourceMessage { rate: &[425.0; 10], queue: &[0.0; 10], virtual_rate: &virtual_rate(425.0) };
            controller.heard_source(slot, &message);
            controller.heard_sink(slot, &SinkMessage { rate: &[850.0; 10] });
        };
        let fair =
            |controller: &Controller| slots.iter().all(|&slot| (controller.plan(slot).unwrap().rate_out - 425.0).abs() < 1.0);
        for slot in slots {
            sense(&mut controller, slot);
        }
        assert_eq!(controller.step(), Outcome::Solved);
        assert!(fair(&controller));
        for round in 0..20 {
            sense(&mut controller, slots[0]);
            let bad = [f64::NAN, -1.0, f64::INFINITY][round % 3];
            controller
                .heard_source(slots[1], &SourceMessage { rate: &[bad; 10], queue: &[0.0; 10], virtual_rate: &virtual_rate(1.0) });
            controller.heard_sink(slots[1], &SinkMessage { rate: &[1.0; 7] });
            assert_eq!(controller.step(), Outcome::Solved);
            keeps_its_limits(&controller, &slots);
            // What made sense last goes on, for both.
            assert!(fair(&controller), "round {round}: {:?}", controller.solution().rate_out);
        }
        assert_eq!(controller.counts().refused_messages, 40);
        // A neighbour that takes nothing any more is believed, and so is its return.
        controller.heard_sink(slots[1], &SinkMessage { rate: &[0.0; 10] });
        controller.step();
        assert!(controller.plan(slots[1]).unwrap().rate_out < 1e-6);
        for slot in slots {
            sense(&mut controller, slot);
        }
        controller.step();
        assert!(fair(&controller));
    }
}

/// Commitments beyond the capacity make the published problem infeasible: they shrink, and that is counted.
#[test]
fn commitments_that_do_not_fit_are_scaled_and_counted() {
    let mut controller = Controller::new(Parameters::CONFERENCE, RATE, 0.85).unwrap();
    let slots = [controller.attach(Source::Relay, Sink::Client), controller.attach(Source::Relay, Sink::Client)];
    for slot in slots {
        controller.heard_source(slot, &SourceMessage { rate: &[850.0; 10], queue: &[50.0; 10], virtual_rate: &[] });
    }
    assert_eq!(controller.step(), Outcome::Solved);
    assert_eq!(controller.counts().commitments_scaled, 1);
    assert!(slots.iter().all(|&slot| (controller.plan(slot).unwrap().rate_in - 425.0).abs() < 1e-6));
    keeps_its_limits(&controller, &slots);
}

/// A fast solver that may not iterate: the trusted one steps in, or the plan of the step before.
#[test]
fn a_solver_that_gives_up_is_counted_and_replaced() {
    let run = |fallback: Fallback| {
        let mut controller = Controller::new(Parameters::JOURNAL, RATE, 0.85).unwrap().with_fallback(fallback);
        let mut slots = vec![controller.attach(Source::Server, Sink::Relay)];
        controller.server_has(slots[0], f64::INFINITY);
        controller.heard_sink(slots[0], &SinkMessage { rate: &[600.0; 10] });
        (0..5).for_each(|_| assert_eq!(controller.step(), Outcome::Solved));
        let before = controller.plan(slots[0]).unwrap().rate_out;
        assert!((before - 600.0).abs() < 1e-3);
        controller = controller.with_iterations_max(1);
        let outcome = controller.step();
        keeps_its_limits(&controller, &slots);
        // A newcomer, who has no plan yet, and a sink that takes less.
        slots.push(controller.attach(Source::Server, Sink::Client));
        controller.heard_sink(slots[0], &SinkMessage { rate: &[100.0; 10] });
        assert_eq!(controller.step(), outcome);
        keeps_its_limits(&controller, &slots);
        assert!(controller.plan(slots[0]).unwrap().rate_out <= 100.0 + 1e-6);
        (outcome, controller.counts())
    };
    let (outcome, counts) = run(Fallback::Trusted);
    assert_eq!((outcome, counts.trusted, counts.old_plans), (Outcome::Trusted, 2, 0));
    let (outcome, counts) = run(Fallback::OldPlan);
    assert_eq!((outcome, counts.trusted, counts.old_plans), (Outcome::OldPlan, 0, 2));
}
