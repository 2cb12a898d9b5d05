//! Onion services: times and rates against closed formulas, and what becomes of circuits.
//!
//! Over a channel that is open, a circuit is told to its n-th relay and back in 2n crossings of a link: three relays take 2 + 4 + 6 = 12, four 20; a circuit
//! of three that is there already gets its fourth in 8.

mod common;

use common::{OnionRoute, Plan, mbit, ms};
use onionlab_engine::HostId;
use onionlab_flowcontrol::{PathType, VegasParameters};
use onionlab_net::Path;
use onionlab_quantities::{Cells, SimDuration, SimTime};
use onionlab_tor::{
    ChannelScheduler, CircuitPurpose, CircuitRecord, ClientOptions, CloseReason, CongestionSettings, FlowControl, Outcome,
    Records, RelayClass, Role, Settings, TransferRecord,
};
use std::sync::Arc;

/// Milliseconds from any host to any other.
const HOP: f64 = 20.0;

/// A client and a service with relays of their own and three introduction points; links so fast that only distances count, TCP without Nagle's waits (`formulas.rs`).
fn meeting(load: &str, ahead: bool) -> Plan {
    let mut plan = Plan::new();
    plan.default_path.latency = ms(HOP);
    (plan.tcp.slow_start_after_idle, plan.tcp.nagle) = (false, false);
    plan.settings.scheduling.channel_scheduler = ChannelScheduler::Vanilla;
    plan.settings.optimistic_data = true;
    plan.settings.client.predict = ahead;
    plan.circuit_per_transfer = true;
    let fast = mbit(10_000.0);
    let relays: Vec<HostId> = (0..10).map(|index| plan.relay(&format!("relay{index}"), RelayClass::Middle, fast)).collect();
    let (client, service) = (plan.host("client", Role::Client, fast), plan.host("service", Role::Client, fast));
    plan.client(client, [relays[0], relays[1], relays[2]], service, load, 60);
    plan.services = vec![service];
    let of_client = OnionRoute { internal: [relays[0], relays[1], relays[2]], third: relays[3], introductions: vec![] };
    let introductions = vec![relays[7], relays[8], relays[9]];
    let of_service = OnionRoute { internal: [relays[4], relays[5], relays[6]], third: relays[6], introductions };
    plan.onion = [(0, of_client), (1, of_service)].into();
    plan
}

fn circuits(records: &Records, purpose: CircuitPurpose) -> Vec<&CircuitRecord> {
    records.circuits.iter().filter(|circuit| circuit.purpose == purpose).collect()
}

fn since(time: Option<SimTime>, transfer: &TransferRecord) -> f64 {
    (time.expect("it happened") - transfer.start).as_secs_f64() * 1e3
}

/// Both circuits of the client are built, INTRODUCE1 and INTRODUCE2 cross four relays each, the service's circuit is built, RENDEZVOUS1 crosses four relays
/// and RENDEZVOUS2 three; seven links lie between client and service. The last downloads find every channel open.
#[test]
fn the_first_byte_comes_when_all_have_met() {
    let load = "kind = \"sequence\"\ntransfers = [{ size = \"100 B\", count = 15, pause = \"10 s\" }]";
    for ahead in [false, true] {
        // Ahead of time: the fourth relays of two circuits; else four relays each.
        let building = if ahead { 8.0 + 8.0 } else { 20.0 + 20.0 };
        let joined = (building + 4.0 + 4.0 + 4.0 + 3.0) * HOP;
        let first_byte = joined + 2.0 * 7.0 * HOP;
        let (_, records) = meeting(load, ahead).run(260);
        assert_eq!(records.transfers.len(), 15);
        for transfer in &records.transfers[12..] {
            assert_eq!(transfer.outcome, Outcome::Ok);
            let circuit = records.circuits.iter().find(|circuit| Some(circuit.circuit) == transfer.circuit).unwrap();
            assert_eq!(circuit.purpose, CircuitPurpose::Rendezvous);
            for (time, formula) in [(circuit.joined, joined), (transfer.connected, first_byte), (transfer.first_byte, first_byte)]
            {
                let took = since(time, transfer);
                assert!((took / formula - 1.0).abs() < 0.002, "ahead: {ahead}: {took} ms, formula {formula} ms");
            }
        }
        // A circuit to an introduction point serves once; the service keeps its own.
        let used = circuits(&records, CircuitPurpose::Introduce);
        assert!(used.len() == 15 && used.iter().all(|circuit| circuit.reason == Some(CloseReason::Finished)));
        assert_eq!(circuits(&records, CircuitPurpose::ServiceIntroduction).len(), 3);
        let answers = circuits(&records, CircuitPurpose::ServiceRendezvous);
        assert!(answers.len() == 15 && answers.iter().all(|circuit| circuit.third.is_some() && circuit.path[2] == HostId(2)));
    }
}

/// A window of so many cells lasts for a round trip of fourteen links, whoever limits it: the stream's, the circuit's, or TOR_VEGAS with the parameters of onion services.
#[test]
fn windows_reach_from_end_to_end() {
    let size = 8e6_f64;
    let load = format!("kind = \"sequence\"\ntransfers = [{{ size = \"{size} B\" }}]");
    let vegas = |cells: i32| {
        let onion =
            VegasParameters { cwnd_init: cells, cwnd_min: cells, cwnd_max: cells, ..VegasParameters::new(PathType::Onion) };
        FlowControl::Vegas(CongestionSettings { onion_circuits: Arc::new(onion), ..CongestionSettings::default() })
    };
    for (control, circuit, stream, window) in [
        (FlowControl::Windows, 1000, 150, 150.0),
        (FlowControl::Windows, 200, 500, 200.0),
        (vegas(500), 1000, 500, 500.0),
        (vegas(1000), 1000, 500, 1000.0),
    ] {
        let mut plan = meeting(&load, true);
        plan.settings.flow_control = control;
        (plan.settings.circuit_window, plan.settings.stream_window) = (Cells::new(circuit), Cells::new(stream));
        (plan.settings.circuit_window_increment, plan.settings.stream_window_increment) = (Cells::new(50), Cells::new(50));
        let (_, records) = plan.run(200);
        let transfer = &records.transfers[0];
        let took = since(transfer.last_byte, transfer) - since(transfer.first_byte, transfer);
        let windows = (size / 498.0 / window).ceil();
        let formula = (windows - 1.0) * 14.0 * HOP;
        println!("{window} cells: {took} ms, formula {formula} ms");
        assert!((formula..formula * 1.04).contains(&took), "{window} cells: {took} ms, formula {formula} ms");
    }
}

/// Exits' cells hold 488 bytes in the newer format; client and service speak the old one to each other, in cells of 498, so that a window reaches further.
#[test]
fn client_and_service_speak_the_old_format() {
    let size = 8e6_f64;
    let load = format!("kind = \"sequence\"\ntransfers = [{{ size = \"{size} B\" }}]");
    for (payload, of_circuits) in [(488, 498), (498, 498), (400, 400)] {
        let mut plan = meeting(&load, true);
        plan.settings.cell_payload = payload;
        let (_, records) = plan.run(200);
        let circuit = circuits(&records, CircuitPurpose::Rendezvous).into_iter().max_by_key(|circuit| circuit.cells_in).unwrap();
        let cells = (size / f64::from(of_circuits)).ceil() as u64;
        // And RENDEZVOUS2, CONNECTED, and what comes of cells that are not full.
        assert!((cells..cells + 160).contains(&circuit.cells_in), "{payload}: {} cells, {cells} with data", circuit.cells_in);
    }
}

/// As long as Stable circuits are expected two of the three that are kept ready are Stable, since all are. Half an hour to an hour after the start they are no longer, and
/// once those that are there have been used or have grown old, tor launches others until there are fourteen that nobody uses; 0.2.4 does not.
#[test]
fn too_many_circuits_are_kept_ready_once_none_has_to_be_stable() {
    let load = "kind = \"sequence\"\ntransfers = [{ size = \"20 kB\", count = 45, pause = \"300 s\" }]";
    let ready = |stable: usize, seconds: u64| {
        let mut plan = meeting(load, true);
        plan.settings.client.stable_internal = stable;
        let (_, records) = plan.run(seconds);
        let open = |circuit: &&CircuitRecord| circuit.client.index() == 0 && circuit.built.is_some() && circuit.closed.is_none();
        circuits(&records, CircuitPurpose::Internal).into_iter().filter(open).count()
    };
    assert_eq!([2, 0].map(|stable| ready(stable, 1500)), [3, 3]);
    assert_eq!([2, 0].map(|stable| ready(stable, 13_100)), [14, 3]);
}

/// What the torrc of a client or service says that differs in `MaxCircuitDirtiness`.
fn lifetime(seconds: u64) -> ClientOptions {
    ClientOptions { circuit_lifetime: Some(SimDuration::from_secs(seconds)), ..ClientOptions::default() }
}

/// Clients and services that learn nothing, build nothing ahead and wait a second for circuits; the client's seconds are whole ones.
fn impatient(load: &str, hop: f64) -> Plan {
    let mut plan = meeting(load, false);
    plan.default_path.latency = ms(hop);
    plan.timeout = SimDuration::from_secs(10);
    let parameters = &mut plan.settings.client.build_timeout;
    (parameters.learn, parameters.initial) = (false, SimDuration::from_secs(1));
    plan
}

/// So many seconds after the start.
fn at(seconds: f64) -> SimTime {
    SimTime::ZERO + SimDuration::from_secs_f64_rounded(seconds)
}

/// The circuits of this purpose that were launched as the stream began, and until it was over.
fn of_stream<'a>(records: &'a Records, purpose: CircuitPurpose, transfer: &TransferRecord) -> Vec<&'a CircuitRecord> {
    let meanwhile = |circuit: &&CircuitRecord| (transfer.start..transfer.end).contains(&circuit.launched);
    circuits(records, purpose).into_iter().filter(meanwhile).collect()
}

/// RENDEZVOUS2 never comes, since no service gets to the rendezvous point. Three times the time-out and a second after INTRODUCE_ACK the client gives up: tor counts these four seconds from the
/// whole second in which the cell came, but the circuit must be as old.
#[test]
fn a_service_that_does_not_come_is_waited_for_by_the_seconds_of_the_clock() {
    let load = "kind = \"sequence\"\ntransfers = [{ size = \"1 kB\", count = 14, pause = \"370 ms\" }]";
    let mut plan = impatient(load, HOP);
    plan.links.insert((2, 6), Path { latency: SimDuration::from_secs(30), ..plan.default_path });
    let (_, records) = plan.run(230);
    let mut later = [0, 0];
    // At first channels are opened.
    for transfer in &records.transfers[2..] {
        let [rendezvous, introduce] =
            [CircuitPurpose::Rendezvous, CircuitPurpose::Introduce].map(|purpose| of_stream(&records, purpose, transfer)[0]);
        assert!(rendezvous.launched == transfer.start && introduce.reason == Some(CloseReason::Finished));
        let (began, acknowledged) = (transfer.start.as_secs_f64(), introduce.closed.unwrap().as_secs_f64());
        assert!((acknowledged - began - 28.0 * HOP / 1e3).abs() < 0.001);
        let cutoff = acknowledged.floor().max(began.ceil());
        later[usize::from(cutoff > acknowledged)] += 1;
        assert_eq!(rendezvous.reason, Some(CloseReason::NoRendezvous));
        assert_eq!(rendezvous.closed, Some(at(cutoff + 4.0)), "{acknowledged}");
    }
    assert!(later.iter().all(|&times| times > 0), "both conditions decide: {later:?}");
}

/// RENDEZVOUS_ESTABLISHED comes 18 crossings after the circuit began, 1.26 s, and the time-out is one second. The client looks at the first whole second at which the circuit is as old, and sees one
/// that was open in an earlier second. Where there is none before the answer comes, client and service meet. Else it goes to another point, which here is as far each time, and keeps the circuit to the
/// introduction point.
#[test]
fn a_rendezvous_point_that_is_late_is_given_up_alone() {
    let hop = 70.0;
    let load = "kind = \"sequence\"\ntransfers = [{ size = \"1 kB\", count = 20, pause = \"270 ms\" }]";
    let (_, records) = impatient(load, hop).run(300);
    let mut met = [0, 0];
    for transfer in &records.transfers[2..] {
        let began = transfer.start.as_secs_f64();
        let [points, introductions] =
            [CircuitPurpose::Rendezvous, CircuitPurpose::Introduce].map(|purpose| of_stream(&records, purpose, transfer));
        assert!(points[0].launched == transfer.start && introductions.len() == 1);
        let looked = (began + 1.0).ceil();
        let in_time = began + 18.0 * hop / 1e3 <= looked;
        met[usize::from(in_time)] += 1;
        if in_time {
            assert_eq!((transfer.outcome, points.len()), (Outcome::Ok, 1));
            continue;
        }
        assert_eq!(transfer.outcome, Outcome::Timeout);
        assert!(points.len() >= 8, "{}", points.len());
        for (later, point) in points.iter().enumerate() {
            assert_eq!(point.reason, Some(CloseReason::NoRendezvous));
            assert_eq!(point.closed, Some(at(looked + later as f64).min(transfer.end)));
        }
        assert_eq!(introductions[0].closed, Some(transfer.end));
    }
    assert!(met.iter().all(|&times| times > 1), "{met:?}");
}

/// Streams of one client share a rendezvous circuit, which stays young to the client as long as it is used; some time after the last stream it is closed, and with it the service's.
#[test]
fn a_rendezvous_circuit_is_used_again() {
    let load = "kind = \"sequence\"\ntransfers = [{ size = \"20 kB\", count = 4, pause = \"100 s\" }]";
    let mut plan = meeting(load, true);
    plan.circuit_per_transfer = false;
    plan.client_options = [(0, lifetime(200)), (1, lifetime(3600))].into();
    let (world, records) = plan.run(60 + 3 * 101 + 300);
    assert!(records.transfers.iter().all(|transfer| transfer.outcome == Outcome::Ok) && records.transfers.len() == 4);
    let used = circuits(&records, CircuitPurpose::Rendezvous);
    assert_eq!(used.len(), 1);
    let last = records.transfers[3].end;
    let closed = used[0].closed.expect("it grows old");
    assert!((200.0..240.0).contains(&(closed - last).as_secs_f64()));
    let answers = circuits(&records, CircuitPurpose::ServiceRendezvous);
    assert_eq!(answers.len(), 1);
    let after = (answers[0].closed.expect("DESTROY comes") - closed).as_secs_f64() * 1e3;
    assert!((after - 7.0 * HOP).abs() < 0.1, "the service learned it {after} ms later");
    assert_eq!(world.streams(), 0);
}

/// To a service its circuit grows old from the moment at which it is open, however often clients use it: when old circuits are looked for ten minutes later, each 31 s, it closes it, and the
/// client learns that over seven links. The stream after that meets anew.
#[test]
fn a_service_closes_a_rendezvous_circuit_ten_minutes_after_it_has_opened() {
    let load = "kind = \"sequence\"\ntransfers = [{ size = \"20 kB\", count = 25, pause = \"60 s\" }]";
    let mut plan = meeting(load, true);
    plan.circuit_per_transfer = false;
    plan.settings.circuit_dirtiness = SimDuration::from_secs(600);
    let (world, records) = plan.run(60 + 25 * 61 + 700);
    assert!(records.transfers.iter().all(|transfer| transfer.outcome == Outcome::Ok) && records.transfers.len() == 25);
    let (used, answers) = (circuits(&records, CircuitPurpose::Rendezvous), circuits(&records, CircuitPurpose::ServiceRendezvous));
    assert_eq!((used.len(), answers.len()), (3, 3));
    for (rendezvous, answer) in used.iter().zip(&answers) {
        assert_eq!((rendezvous.reason, answer.reason), (Some(CloseReason::Finished), Some(CloseReason::Finished)));
        let closed = answer.closed.expect("it grows old");
        // RENDEZVOUS1 crossed four links, RENDEZVOUS2 three.
        let age = (closed - rendezvous.joined.unwrap()).as_secs_f64() + 7.0 * HOP / 1e3;
        assert!((600.0..631.0).contains(&age), "{age} s");
        assert_eq!(
            closed.as_nanos() % 31_000_000_000,
            1_000_000_000,
            "the service looks first after a second, and then each 31 s"
        );
        let after = (rendezvous.closed.expect("DESTROY comes") - closed).as_secs_f64() * 1e3;
        assert!((after - 7.0 * HOP).abs() < 0.1, "the client learned it {after} ms later");
    }
    assert_eq!((world.streams(), world.cells_in_flight()), (0, 0));
}

/// As long as a stream is open at the service, however old its circuit is, it stays; once the last is over it is closed.
#[test]
fn a_service_keeps_an_old_circuit_as_long_as_it_has_streams() {
    let load = "kind = \"audio\"\npause = \"1000 s\"\nlength = \"900 s\"";
    let mut plan = meeting(load, true);
    (plan.timeout, plan.stall) = (SimDuration::from_secs(2000), SimDuration::from_secs(2000));
    let (_, records) = plan.run(1100);
    let talk = &records.transfers[0];
    assert_eq!(talk.outcome, Outcome::Ok);
    assert!((talk.end - talk.start).as_secs_f64() > 800.0);
    let answers = circuits(&records, CircuitPurpose::ServiceRendezvous);
    let after = (answers[0].closed.expect("it is old and has no streams") - talk.end).as_secs_f64();
    assert!((0.0..31.2).contains(&after), "{after} s after the end of the stream");
}

/// The service closes its circuit while a BEGIN is under way to it: the stream fails, as those of any circuit that is closed.
#[test]
fn a_stream_that_comes_to_a_closed_circuit_of_a_service_fails() {
    // A stream takes two crossings of seven links until it is over for the client. The next one begins ten milliseconds after its END has come to the service, which has none until BEGIN comes.
    let load = "kind = \"sequence\"\ntransfers = [{ size = \"1 B\", count = 1000, pause = \"150 ms\" }]";
    let mut plan = meeting(load, true);
    plan.circuit_per_transfer = false;
    plan.client_options = [(1, lifetime(60))].into();
    let (world, records) = plan.run(600);
    let failed: Vec<_> = records.transfers.iter().filter(|transfer| transfer.outcome != Outcome::Ok).collect();
    println!("{} of {} failed", failed.len(), records.transfers.len());
    assert!(!failed.is_empty() && failed.iter().all(|transfer| transfer.outcome == Outcome::CircuitClosed), "{failed:?}");
    let closed: Vec<SimTime> =
        circuits(&records, CircuitPurpose::ServiceRendezvous).iter().filter_map(|circuit| circuit.closed).collect();
    for transfer in failed {
        let after = |closed: &&SimTime| (transfer.end - **closed).as_secs_f64() * 1e3;
        assert!(closed.iter().any(|closed| (after(&closed) - 7.0 * HOP).abs() < 0.1), "{transfer:?}");
    }
    assert_eq!(world.streams(), 0);
}

/// Streams to an onion service are a reason to keep circuits within the network ready, also those that go over a rendezvous circuit which is there: after two hours of them some are, and
/// two hours after the last none.
#[test]
fn streams_to_services_expect_circuits_within_the_network() {
    let load = "kind = \"sequence\"\ntransfers = [{ size = \"20 kB\", count = 25, pause = \"300 s\" }]";
    let mut plan = meeting(load, true);
    plan.circuit_per_transfer = false;
    plan.settings.circuit_dirtiness = SimDuration::from_secs(600);
    plan.client_options = [(1, lifetime(3 * 3600))].into();
    let (_, records) = plan.run(60 + 24 * 301 + 7200);
    assert_eq!(circuits(&records, CircuitPurpose::Rendezvous).len(), 1);
    let ready = |time: f64| {
        let there = |circuit: &&&CircuitRecord| {
            circuit.client.index() == 0
                && circuit.launched.as_secs_f64() < time
                && circuit.closed.is_none_or(|closed| closed.as_secs_f64() > time)
        };
        circuits(&records, CircuitPurpose::Internal).iter().filter(there).count()
    };
    let last = records.transfers[24].start.as_secs_f64();
    assert!(ready(last) > 0);
    assert_eq!(ready(last + 7100.0), 0);
}

/// A rendezvous point with too little memory kills the client's circuit in the middle of a download: the stream fails, the service's circuit goes too, and the next
/// download meets anew.
#[test]
fn what_one_circuit_loses_both_lose() {
    let load = "kind = \"sequence\"\ntransfers = [{ size = \"3 MB\", count = 2, pause = \"1 s\" }]";
    let mut plan = meeting(load, true);
    // The client's guard is a bottleneck, and what waits waits in its circuit queue.
    plan.settings.scheduling.channel_scheduler = Settings::default().scheduling.channel_scheduler;
    plan.settings.max_cell_queue_in = Some(Cells::new(100));
    plan.hosts[0].2 = mbit(1.0);
    let (world, records) = plan.run(400);
    assert!(records.transfers.iter().all(|transfer| transfer.outcome == Outcome::CircuitClosed), "{:?}", records.transfers);
    let lost: Vec<_> = [CircuitPurpose::Rendezvous, CircuitPurpose::ServiceRendezvous]
        .map(|purpose| {
            circuits(&records, purpose).iter().filter(|circuit| circuit.reason == Some(CloseReason::QueueLimit)).count()
        })
        .into();
    assert_eq!(lost, [2, 2]);
    assert_eq!(world.streams(), 0);
    assert_eq!(world.cells_in_flight(), 0);
}

/// Uploads and scripts reach the program behind the service, and its answers the client.
#[test]
fn services_take_what_clients_send() {
    for load in [
        "kind = \"sequence\"\nrequest = \"2 MB\"\ntransfers = [{ size = \"10 kB\", count = 2, pause = \"1 s\" }]",
        "kind = \"audio\"\npause = \"1 s\"\nlength = \"20 s\"",
    ] {
        let (world, records) = meeting(load, true).run(110);
        let ended: Vec<_> = records.transfers.iter().filter(|transfer| transfer.outcome != Outcome::Unfinished).collect();
        assert!(ended.len() >= 2 && ended.iter().all(|transfer| transfer.outcome == Outcome::Ok), "{:?}", records.transfers);
        assert!(ended.iter().all(|transfer| transfer.received == transfer.size));
        assert!(world.bytes_to_servers() >= ended.iter().map(|transfer| transfer.sent).sum::<u64>());
    }
}
