//! Controllers in a row of relays: what passes is what was planned, whatever the neighbours say.

use super::{ControllerSample, PlanSample};
use super::{Feedback, Phase, PredictorSettings};
use crate::CELL_BYTES;
use crate::records::{ChannelRecord, Outcome};
use crate::settings::{FlowControl, Links, Settings};
use crate::test_world::{at, in_a_row};
use crate::{ChannelKind, World};
use onionlab_engine::HostId;
use onionlab_predictor::{Form, Parameters, Weights};
use onionlab_quantities::{Bandwidth, SimDuration, SimTime};
use std::collections::VecDeque;

/// The conference's problem with steps of 10 ms, which is how long the hops of the row take, for a quarter of their links: sockets of 64 KiB carry no more than half.
fn in_step() -> PredictorSettings {
    let step = SimDuration::from_millis(10);
    PredictorSettings { parameters: Parameters::CONFERENCE, step, capacity_share: 0.25, ..PredictorSettings::default() }
}

/// A download of 20 MB over relays of 50 Mbit/s, from ten seconds on.
fn world(settings: PredictorSettings) -> World {
    loading(settings, "kind = \"sequence\"\ntransfers = [{ size = \"20 MB\" }]")
}

fn loading(settings: PredictorSettings, load: &str) -> World {
    let settings = Settings {
        flow_control: FlowControl::Predictor(settings),
        links: Links::PerCircuit { with_clients: true },
        circuit_dirtiness: SimDuration::from_secs(1),
        ..Settings::default()
    };
    in_a_row(settings, Bandwidth::from_bits_per_sec(1_000_000_000), load)
}

/// What the client receives per second at most: cells of 498 bytes at a quarter of 50 Mbit/s.
const PLANNED: f64 = 0.25 * 50e6 / 8.0 * 498.0 / 514.0;
/// Cells a second that a relay plans with.
const CAPACITY: f64 = 0.25 * 50e6 / 8.0 / 514.0;

/// Bytes that reach the client from one instant, in milliseconds, to another.
fn delivered(world: &mut World, from: u64, to: u64) -> f64 {
    world.run_until(at(from));
    let before = world.sampler.goodput_bytes;
    world.run_until(at(to));
    (world.sampler.goodput_bytes - before) as f64
}

/// No step lets more pass than the one before planned, nor plans more than its part of the link.
fn check_limits(plans: &[PlanSample], step: SimDuration) {
    for relay in 1..=3 {
        let of_relay: Vec<_> = plans.iter().filter(|plan| plan.relay == HostId(relay)).collect();
        assert!(of_relay.len() > 100, "{} plans", of_relay.len());
        for pair in of_relay.windows(2) {
            assert_eq!(pair[1].time - pair[0].time, step);
            // What rounding took of a byte comes later.
            let planned = f64::from(CELL_BYTES) * pair[0].rate_out * step.as_secs_f64();
            assert!((pair[1].bytes_written as f64) < planned + 1.2, "{pair:?}");
        }
        let within = |rate: f64| (0.0..=CAPACITY * (1.0 + 1e-9)).contains(&rate);
        assert!(of_relay.iter().all(|plan| within(plan.rate_in) && within(plan.rate_out)));
    }
}

#[test]
fn what_is_planned_passes_and_no_more() {
    for parameters in [Parameters::CONFERENCE, Parameters::JOURNAL] {
        let mut world = world(PredictorSettings { parameters, ..in_step() });
        let bytes = delivered(&mut world, 12_000, 15_000);
        assert!((0.95 * PLANNED..=1.01 * PLANNED).contains(&(bytes / 3.0)), "{bytes} bytes in 3 s");
        world.sample(at(15_000));
        let records = world.take_records();
        check_limits(&records.plans, in_step().step);
        let [exit, mut middle] = [3, 2].map(|relay| records.plans.iter().filter(move |plan| plan.relay == HostId(relay)));
        // What the exit was to send in a step is what the middle is to take in in the next, one hop later.
        if parameters == Parameters::CONFERENCE {
            for (sent, taken) in exit.zip(middle.clone().skip(1)) {
                assert!((sent.rate_out - taken.rate_in).abs() < 1e-3 * CAPACITY, "{sent:?} {taken:?}");
            }
        }
        // And nothing waits where it need not.
        let last = middle.next_back().unwrap();
        assert!(last.queue < 60.0, "{last:?}");
        for sample in &records.controllers {
            let ControllerSample {
                circuits: 1,
                solved: 100..,
                trusted: 0,
                old_plans: 0,
                refused_messages: 0,
                messages_lost: 0,
                ..
            } = sample
            else {
                panic!("{sample:?}")
            };
        }
        assert_eq!(records.controllers.len(), 3);
    }
}

/// Settings that differ from [`in_step`] in form, weights, and when relays plan.
fn forms_and_phases() -> impl Iterator<Item = PredictorSettings> {
    let journal = PredictorSettings::problem(Form::Journal);
    let free = Parameters { weights: Weights { deviation: 0.0, ..journal.weights }, ..journal };
    let forms = [Parameters::CONFERENCE, journal, free];
    let all = move |phase| forms.map(|parameters| PredictorSettings { parameters, phase, ..in_step() });
    [Phase::Together, Phase::Random].into_iter().flat_map(all)
}

/// Three users load this often, over circuits that come and go.
const DOWNLOADS: usize = 6;

/// Downloads that have ended twelve seconds after the first began, and the longest in seconds.
fn ended(settings: PredictorSettings) -> (usize, f64) {
    let load = "kind = \"sequence\"\ntransfers = [{ size = { uniform = [\"1 B\", \"100 kB\"] }, pause = \"200 ms\", count = 6 }]";
    let mut world = loading(settings, load);
    let config = &mut world.clients[0].config;
    (config.users, config.circuit_per_transfer) = (3, true);
    world.run_until(at(22_000));
    let ended = world.records.transfers.iter().filter(|transfer| transfer.outcome == Outcome::Ok);
    let ended: Vec<f64> = ended.map(|transfer| (transfer.end - transfer.start).as_secs_f64()).collect();
    (ended.len(), ended.iter().copied().fold(0.0, f64::max))
}

/// Neither what a plan leaves of a byte keeps the last bytes of a download for ever, nor that messages come later than at the next plan: because steps are shorter than hops, or relays out of step, or messages
/// cells, or lost.
#[test]
fn all_downloads_end() {
    let (in_band, lost) = (Feedback::InBand, Feedback::OutOfBand { loss: 1.0 / 3.0 });
    let prompt = Feedback::OutOfBand { loss: 0.0 };
    let late = [
        (in_band, 10, Phase::Together),
        (in_band, 20, Phase::Together),
        (in_band, 10, Phase::Random),
        (lost, 10, Phase::Together),
        (prompt, 4, Phase::Together),
        (prompt, 20, Phase::Together),
    ];
    let late = [Form::Conference, Form::Journal].into_iter().flat_map(|form| {
        late.map(|(feedback, ms, phase)| {
            let (parameters, step) = (PredictorSettings::problem(form), SimDuration::from_millis(ms));
            PredictorSettings { parameters, step, feedback, phase, ..in_step() }
        })
    });
    for settings in forms_and_phases().chain(late) {
        let (ended, longest) = ended(settings);
        println!("{settings:?}: {ended} ended, {longest} s at most");
        assert_eq!(ended, 3 * DOWNLOADS, "{settings:?}");
    }
}

/// When the download is over and its circuit closed, nothing is planned any more and nothing is left of it.
#[test]
fn a_closed_circuit_leaves_nothing() {
    let (beside, step) = (Feedback::OutOfBand { loss: 0.0 }, SimDuration::from_millis(20));
    for settings in [
        PredictorSettings { feedback: beside, ..in_step() },
        PredictorSettings { feedback: Feedback::InBand, step, ..in_step() },
        PredictorSettings { parameters: PredictorSettings::problem(Form::Journal), ..in_step() },
    ] {
        let feedback = settings.feedback;
        let mut world = world(settings);
        world.run_until(at(120_000));
        assert_eq!(world.records.transfers.len(), 1);
        let circuit = world.records.transfers[0].circuit;
        assert!(world.records.circuits.iter().any(|closed| Some(closed.circuit) == circuit && closed.closed.is_some()));
        let of_it: Vec<&ChannelRecord> =
            world.records.channels.iter().filter(|channel| channel.kind == ChannelKind::Control).collect();
        assert_eq!(of_it.is_empty(), feedback != Feedback::InBand);
        let predictor = world.predictor.as_deref().unwrap();
        assert!(predictor.relays.iter().flatten().all(|relay| relay.circuits.is_empty() && relay.next.is_none()));
        assert_eq!(predictor.relays.iter().flatten().count(), 3);
        assert!(predictor.circuits.iter().all(Option::is_none) && predictor.allowances.iter().all(Option::is_none));
        assert!(predictor.letters.is_empty() && predictor.in_band.values().all(VecDeque::is_empty));
        assert!(of_it.iter().all(|channel| channel.closed.is_some()));
    }
}

/// In band a message is a cell in each direction, hop and step, once the connection is open; and it costs what a cell costs. With steps as long as hops it would miss the next plan by the time that
/// it takes to be sent.
#[test]
fn trajectories_in_band_are_cells() {
    let settings = PredictorSettings { feedback: Feedback::InBand, step: SimDuration::from_millis(20), ..in_step() };
    let mut world = world(settings);
    let bytes = delivered(&mut world, 12_000, 15_000);
    assert!(bytes / 3.0 > 0.5 * PLANNED, "{bytes} bytes in 3 s");
    world.sample(at(15_000));
    check_limits(&world.records.plans, settings.step);
    let steps = world.records.plans.iter().filter(|plan| plan.relay == HostId(2)).count() as u64;
    world.finish();
    let controls = world.records.channels.iter().filter(|channel| channel.kind == ChannelKind::Control && channel.cells[0] > 0);
    let controls: Vec<_> = controls.collect();
    assert_eq!(controls.len(), 2, "guard to middle, middle to exit");
    for channel in controls {
        for (cells, bytes) in channel.cells.into_iter().zip(channel.bytes) {
            assert!((steps - 3..=steps).contains(&cells), "{cells} cells in {steps} steps");
            assert!(bytes >= cells * 514, "{bytes} bytes in {cells} cells");
        }
    }
    // A horizon of a hundred steps takes more: 3 times 819 bytes in the journal's form are five cells, one trajectory is two.
    let parameters = Parameters { horizon: 100, ..Parameters::JOURNAL };
    let mut world = self::world(PredictorSettings { parameters, feedback: Feedback::InBand, ..PredictorSettings::default() });
    world.run_until(at(11_000));
    world.finish();
    let channels = &world.records.channels;
    let used = channels.iter().find(|channel| channel.kind == ChannelKind::Control && channel.cells[0] > 0).unwrap();
    let [to_exit, to_client] = [(used.cells[0], 2), (used.cells[1], 5)].map(|(cells, each)| {
        assert_eq!(cells % each, 0, "{used:?}");
        cells / each
    });
    assert!(to_exit > 5 && to_exit.abs_diff(to_client) <= 1, "{used:?}");
}

#[test]
fn controllers_out_of_step_plan_at_instants_of_their_own() {
    let settings = PredictorSettings { phase: Phase::Random, ..in_step() };
    let mut world = world(settings);
    let bytes = delivered(&mut world, 12_000, 15_000);
    assert!(bytes / 3.0 > 0.5 * PLANNED, "{bytes} bytes in 3 s");
    check_limits(&world.records.plans, settings.step);
    let phase = |time: SimTime| time.as_nanos() % settings.step.as_nanos();
    let mut phases: Vec<u64> =
        (1..=3).map(|relay| phase(world.records.plans.iter().find(|plan| plan.relay == HostId(relay)).unwrap().time)).collect();
    phases.sort_unstable();
    phases.dedup();
    assert_eq!(phases.len(), 3);
}

/// A third of the messages is lost, each by a draw of its own, and the download goes on.
#[test]
fn lost_messages_are_made_up_for() {
    let settings = PredictorSettings { feedback: Feedback::OutOfBand { loss: 1.0 / 3.0 }, ..in_step() };
    let mut world = world(settings);
    let bytes = delivered(&mut world, 12_000, 15_000);
    assert!(bytes / 3.0 > 0.5 * PLANNED, "{bytes} bytes in 3 s");
    world.sample(at(15_000));
    check_limits(&world.records.plans, settings.step);
    let [sent, lost] = [|sample: &ControllerSample| sample.messages_sent, |sample: &ControllerSample| sample.messages_lost]
        .map(|of| world.records.controllers.iter().map(of).sum::<u64>() as f64);
    assert!(sent > 1900.0 && (lost / sent - 1.0 / 3.0).abs() < 0.05, "{lost} of {sent}");
}

/// From the second second on all messages are nonsense, or none comes at all, for two seconds: the relays keep within their limits, and a second after the last of it all is as before.
#[test]
fn nonsense_breaks_no_limit_and_is_forgotten() {
    type Nonsense = fn(&mut Vec<f64>);
    let kinds: [(&str, Nonsense, bool); 8] = [
        ("no numbers", |values| values.fill(f64::NAN), true),
        ("one that is none", |values| values[3] = f64::NAN, true),
        ("negative", |values| values[0] = -5.0, true),
        ("infinite", |values| values[9] = f64::INFINITY, true),
        ("too short", |values| values.truncate(7), true),
        ("too long", |values| values.push(1.0), true),
        ("empty", Vec::clear, true),
        ("too much", |values| values.fill(1e300), false),
    ];
    for parameters in [Parameters::CONFERENCE, Parameters::JOURNAL] {
        let settings = PredictorSettings { parameters, ..in_step() };
        for (name, spoil, refused) in kinds {
            let mut world = world(settings);
            let before = delivered(&mut world, 11_500, 12_000);
            assert!(before > 0.4 * PLANNED, "{name}: {before} bytes in half a second");
            for ms in 12_000..14_000 {
                world.run_until(at(ms));
                // Each is there for 8 ms.
                for (_, letter) in &mut world.predictor.as_deref_mut().unwrap().letters {
                    spoil(&mut letter.values);
                }
            }
            recovers(world, name, refused, settings);
        }
        let mut world = world(settings);
        for ms in 12_000..14_000 {
            world.run_until(at(ms));
            world.predictor.as_deref_mut().unwrap().letters.clear();
        }
        recovers(world, "nothing", false, settings);
    }
}

fn recovers(mut world: World, name: &str, refused: bool, settings: PredictorSettings) {
    world.run_until(at(14_000));
    world.sample(at(14_000));
    let count: u64 = world.records.controllers.iter().map(|sample| sample.refused_messages).sum();
    assert_eq!(count > 700, refused, "{name}: {count} messages were refused");
    let after = delivered(&mut world, 15_000, 16_000);
    assert!((0.95 * PLANNED..=1.02 * PLANNED).contains(&after), "{name}: {after} bytes in a second");
    world.sample(at(16_000));
    let records = world.take_records();
    check_limits(&records.plans, settings.step);
    let late: Vec<&ControllerSample> = records.controllers.iter().filter(|sample| sample.time == at(16_000)).collect();
    assert!(late.iter().all(|sample| sample.refused_messages < 10 && sample.old_plans == 0), "{name}: {late:?}");
}
