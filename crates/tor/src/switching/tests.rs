//! A switch, cell by cell, beside the steps of Kale et al. 2015.

use super::{SpareRequest, SwitchAsk, SwitchEntry, SwitchExit, SwitchOccupancy, SwitchOutcome, SwitchRecord, SwitchingSettings};
use crate::cell::CellKind;
use crate::ids::{StreamId, TransferId};
use crate::records::Outcome;
use crate::{ClientConfig, ClientId, PathRequest, PathSource, Purpose, RelayClass, Role, Settings, World, WorldConfig};
use onionlab_engine::HostId;
use onionlab_net::tcp::{BufferLimits, TcpConfig};
use onionlab_net::{HostConfig, Path, QueueConfig, QueueDiscipline, Shaping, Topology, UplinkQueue};
use onionlab_quantities::{Bandwidth, Bytes, RandomStream, Seed, SimDuration, SimTime};

struct Even;
impl Topology for Even {
    fn path(&self, _: HostId, _: HostId) -> Path {
        Path { latency: SimDuration::from_millis(10), jitter: SimDuration::ZERO, loss: 0.0, beside: false }
    }
}

const CLIENT: HostId = HostId(0);
const SERVER: HostId = HostId(7);
const FIRST: [HostId; 3] = [HostId(1), HostId(2), HostId(3)];
const SECOND: [HostId; 3] = [HostId(4), HostId(5), HostId(6)];

/// All circuits over the first path, all spares over the second.
struct Two;
impl PathSource for Two {
    fn path(&self, request: &PathRequest<'_>) -> Option<[HostId; 3]> {
        (request.purpose != Purpose::Internal).then_some(FIRST)
    }
    fn exits_to(&self, _: HostId, _: u16) -> bool {
        true
    }
    fn server(&self, _: ClientId, _: u64) -> HostId {
        SERVER
    }
    fn spare(&self, request: &SpareRequest) -> Option<[HostId; 3]> {
        let entry = if request.entry == SwitchEntry::Same { FIRST[0] } else { SECOND[0] };
        let exit = if request.exit == SwitchExit::New { SECOND[2] } else { FIRST[2] };
        Some([entry, SECOND[1], exit])
    }
}

/// A client that sends 3 MB from ten seconds on, through an entry of 2 Mbit/s whose sockets hold 16 KiB. One move is allowed.
fn world(entry: SwitchEntry, exit: SwitchExit) -> World {
    let relay = |class| Role::Relay { class, limit: None };
    let classes = [RelayClass::Guard, RelayClass::Middle, RelayClass::Exit];
    let roles = std::iter::once(Role::Client).chain((0..6).map(|index| relay(classes[index % 3]))).chain([Role::Server]);
    let queue = QueueConfig { discipline: QueueDiscipline::DropTail, limit: Bytes::new(200_000), limit_packets: None };
    let hosts = roles.enumerate().map(|(index, role)| {
        let rate = Bandwidth::from_bits_per_sec(if index == 1 { 2_000_000 } else { 20_000_000 });
        let down = Bandwidth::from_bits_per_sec(20_000_000);
        let uplink_queue = UplinkQueue::Sockets;
        (HostConfig { name: format!("host{index}"), up: rate, down, shaping: Shaping::Serialise, uplink_queue, queue }, role)
    });
    let interval = SimDuration::from_secs(4);
    let switching = SwitchingSettings { entry, exit, interval, most_moves: Some(1), ..SwitchingSettings::default() };
    let channel_scheduler = crate::ChannelScheduler::Refill;
    let scheduling = crate::Scheduling { channel_scheduler, ..crate::Scheduling::default() };
    World::new(WorldConfig {
        seed: Seed(1),
        hosts: hosts.collect(),
        topology: Box::new(Even),
        tcp: TcpConfig { send_buffer: BufferLimits::new(16_384, 16_384), ..TcpConfig::linux() },
        settings: Settings { switching: Some(switching), scheduling, ..Settings::default() },
        clients: vec![ClientConfig {
            host: CLIENT,
            load: Some(toml::from_str("kind = \"sequence\"\nrequest = \"3 MB\"\ntransfers = [{ size = \"1 kB\" }]").unwrap()),
            stream: RandomStream::new(Seed(1), "client", "load"),
            boot: SimTime::ZERO,
            start: SimTime::ZERO + SimDuration::from_secs(10),
            stop: SimTime::MAX,
            timeout: SimDuration::from_secs(1000),
            stall: SimDuration::from_secs(1000),
            server_stall: None,
            options: crate::ClientOptions::default(),
            circuit_per_transfer: false,
            users: 1,
            spread: SimDuration::ZERO,
            record: true,
            trace: false,
            latency: false,
            probe: Some(SimDuration::from_millis(500)),
        }],
        paths: Box::new(Two),
    })
}

/// With the new path asked only when the old one is drained, SWITCHED_CONN leaves when SWITCH has left 32 KiB of outbuf at 2 Mbit/s, 131 ms, give or take the sockets and headers. What the
/// switch takes from there on is the same.
#[test]
fn the_new_path_can_be_asked_when_the_old_one_is_drained() {
    let switch = |ask| {
        let mut world = world(SwitchEntry::Same, SwitchExit::New);
        world.switching.as_mut().unwrap().settings.ask = ask;
        world.run_until(SimTime::ZERO + SimDuration::from_secs(100));
        world.finish();
        let record = world.records.switches[0];
        assert_eq!((world.records.switches.len(), record.cells_lost), (1, 0));
        let after = |time: Option<SimTime>| (time.unwrap() - record.time).as_secs_f64() * 1e3;
        [record.drained, record.middle_acknowledged, record.acknowledged].map(after)
    };
    let ([drained, middle, _], [late, late_middle, late_exit]) = (switch(SwitchAsk::AtOnce), switch(SwitchAsk::Drained));
    assert!((50.0..260.0).contains(&drained) && middle < drained, "{drained} {middle}");
    assert!(late < late_middle && late_middle < late_exit, "{late} {late_middle} {late_exit}");
    assert!((50.0..=drained).contains(&late), "nothing of the new path competes with it: {late} {drained}");
}

/// A program that writes when its stream is connected does so again when it starts over: before that tor finds nothing to read from it.
#[test]
fn a_program_that_starts_over_waits_for_its_connection() {
    let mut world = world(SwitchEntry::Same, SwitchExit::New);
    world.settings.optimistic_data = false;
    let at = |millis| SimTime::ZERO + SimDuration::from_millis(millis);
    let stream = |world: &World| {
        let of_transfer = |stream: &crate::stream::Stream| stream.transfer == TransferId(0) && !stream.client_ended;
        StreamId(world.streams.iter().position(of_transfer).unwrap() as u32)
    };
    world.run_until(at(11_000));
    let first = stream(&world);
    assert!(world.streams[first.index()].switching.sent > 0, "it is sending");
    world.start_over(TransferId(0));
    let second = stream(&world);
    world.read_program(second);
    assert_eq!(world.streams[second.index()].switching.sent, 0, "nothing goes ahead of CONNECTED");
    world.run_until(at(100_000));
    let transfer = &world.records.transfers[0];
    assert_eq!((transfer.outcome, transfer.sent, transfer.retries), (Outcome::Ok, 3_000_000, 1));
}

/// Algorithm 1's line 9 with B_(t-1) = 0: the first sample is overfull whatever beta is.
#[test]
fn the_first_sample_of_an_outbuf_is_overfull_relative_to_nothing() {
    let mut world = world(SwitchEntry::Same, SwitchExit::New);
    let settings = &mut world.switching.as_mut().unwrap().settings;
    (settings.occupancy, settings.beta, settings.unwritable) = (SwitchOccupancy::Relative, 20.0, false);
    world.run_until(SimTime::ZERO + SimDuration::from_secs(100));
    world.finish();
    let switches = &world.records.switches;
    assert_eq!(switches.len(), 1);
    assert_eq!((switches[0].time, switches[0].occupancy), (SimTime::ZERO + SimDuration::from_secs(12), f64::INFINITY));
}

/// A switch that the new exit does not answer, and no other after it; when the upload is over.
fn unanswered(entry: SwitchEntry, timeout: SimDuration) -> World {
    let mut world = world(entry, SwitchExit::New);
    let switching = world.switching.as_mut().unwrap();
    (switching.settings.timeout, switching.deaf) = (timeout, Some(SECOND[2]));
    world.run_until(SimTime::ZERO + SimDuration::from_secs(15));
    let settings = &mut world.switching.as_mut().unwrap().settings;
    (settings.beta, settings.unwritable) = (10.0, false);
    world.run_until(SimTime::ZERO + SimDuration::from_secs(400));
    world.finish();
    let (switch, transfer) = (world.records.switches[0], &world.records.transfers[0]);
    assert_eq!((world.records.switches.len(), switch.outcome, switch.started_over), (1, SwitchOutcome::TimedOut, 1));
    assert!(switch.middle_acknowledged.is_some() && switch.acknowledged.is_none());
    assert_eq!((transfer.outcome, transfer.sent, transfer.retries), (Outcome::Ok, 3_000_000, 1));
    // Until the client hears of it: the time that DESTROY takes from the entry.
    let closed = world.records.circuits.iter().find(|of| of.circuit == switch.circuit).unwrap().closed.unwrap();
    let heard = closed - (switch.time + timeout);
    assert!((10..300).contains(&(heard.as_nanos() / 1_000_000)), "{heard:?}");
    // All that the client had sent had come to the server, or was lost with the switch.
    let in_vain = world.bytes_to_servers() - 3_000_000;
    assert_eq!(switch.bytes_started_over, in_vain + switch.bytes_lost);
    world
}

/// At the same entry nothing goes out after SWITCH: what the client still may send, a stream's window, is held and lost. It starts over on another circuit.
#[test]
fn without_an_answer_in_120_seconds_what_is_held_is_lost_and_the_client_starts_over() {
    let timeout = SwitchingSettings::default().timeout;
    assert_eq!(timeout, SimDuration::from_secs(120));
    let world = unanswered(SwitchEntry::Same, timeout);
    let (switch, transfer) = (world.records.switches[0], &world.records.transfers[0]);
    assert!(switch.most_cells_held > 0 && switch.cells_lost == switch.most_cells_held, "{switch:?}");
    assert!(![switch.circuit, switch.to].map(Some).contains(&transfer.circuit));
}

/// To another entry cells go out on the old path until it is closed, and the client starts over on the circuit that it built beforehand (section 4.3.2).
#[test]
fn without_an_answer_for_another_entry_the_client_starts_over_on_its_spare() {
    let world = unanswered(SwitchEntry::Other, SimDuration::from_secs(2));
    let (switch, transfer) = (world.records.switches[0], &world.records.transfers[0]);
    assert_eq!((switch.most_cells_held, transfer.circuit), (0, Some(switch.to)), "{switch:?}");
    assert!(switch.cells_lost > 0, "{switch:?}");
}

/// Kind, sender and receiver of each cell of the switch in the order of arrival, and the milliseconds since the first was sent. An `End` of the connection between exit and server is not a cell.
fn trace(entry: SwitchEntry, exit: SwitchExit, ask: SwitchAsk) -> (Vec<(CellKind, u32, u32, f64)>, SwitchRecord) {
    let mut world = world(entry, exit);
    world.switching.as_mut().unwrap().settings.ask = ask;
    world.run_until(SimTime::ZERO + SimDuration::from_secs(100));
    world.finish();
    let switches = &world.switching.as_ref().unwrap().trace;
    let records = world.records.switches.clone();
    assert_eq!(records.len(), 1, "one move is allowed");
    assert_eq!(records[0].cells_lost, 0);
    // Every cell that was followed came to the server, over either circuit.
    let probes = &world.records.probes;
    assert!(
        probes.len() > 10 && probes.iter().all(|probe| probe.sent < probe.at_exit.unwrap() && probe.at_exit < probe.at_server)
    );
    let by = |circuit| probes.iter().filter(|probe| probe.came_by == Some(circuit)).count();
    assert!(by(records[0].circuit) > 0 && by(records[0].to) > 0, "{probes:?}");
    let began = records[0].time;
    let after = |time: SimTime| (time - began).as_secs_f64() * 1e3;
    let cells = switches.iter().filter(|cell| cell.0 >= began);
    (cells.map(|&(time, kind, from, to)| (kind, from.0, to.0, after(time))).collect(), records[0])
}

/// The cells in their order.
fn cells(entry: SwitchEntry, exit: SwitchExit, ask: SwitchAsk) -> Vec<(CellKind, u32, u32)> {
    without_times(trace(entry, exit, ask).0)
}

fn without_times(trace: Vec<(CellKind, u32, u32, f64)>) -> Vec<(CellKind, u32, u32)> {
    for (kind, from, to, after) in &trace {
        println!("{after:8.1} ms  {from} -> {to}  {kind:?}");
    }
    assert!(trace.windows(2).all(|pair| pair[0].3 <= pair[1].3));
    trace.into_iter().map(|(kind, from, to, _)| (kind, from, to)).collect()
}

/// The cells between two hosts, in their order.
fn between(cells: &[(CellKind, u32, u32)], from: u32, to: u32) -> Vec<CellKind> {
    cells.iter().filter(|cell| (cell.1, cell.2) == (from, to)).map(|cell| cell.0).collect()
}

/// Checks that these cells arrive one after the other; of equal ones the last counts.
fn in_turn(cells: &[(CellKind, u32, u32)], steps: &[(CellKind, u32, u32)]) {
    let place = |step: &(CellKind, u32, u32)| cells.iter().rposition(|other| other == step).unwrap();
    for pair in steps.windows(2) {
        assert!(place(&pair[0]) < place(&pair[1]), "{:?} before {:?}: {cells:?}", pair[0], pair[1]);
    }
}

/// Section 4.3.1: SWITCH and then DESTROY from entry to middle and on to the exit; SWITCHED_CONN to the new middle, which answers and passes it to the new exit, which answers;
/// then cells that waited follow, and the client is told. Asked at once, the new path is in use before SWITCH has come anywhere.
#[test]
fn at_the_same_entry_the_cells_are_those_of_section_4_3_1() {
    use CellKind::{Data, Destroy, PathSwitch, SwitchAck, SwitchedConn};
    let cells = cells(SwitchEntry::Same, SwitchExit::New, SwitchAsk::AtOnce);
    assert_eq!(between(&cells, 1, 2), [PathSwitch, Destroy]);
    assert_eq!(between(&cells, 2, 3), [PathSwitch, Destroy]);
    assert_eq!(between(&cells, 1, 5), [SwitchedConn]);
    assert_eq!(between(&cells, 5, 6), [SwitchedConn, Data], "of the cells that were held the first is traced");
    assert_eq!(between(&cells, 6, 5), [SwitchAck]);
    assert_eq!(between(&cells, 5, 1), [SwitchAck, SwitchAck], "the middle's and the exit's");
    assert_eq!(between(&cells, 1, 0), [PathSwitch]);
    assert_eq!(between(&cells, 0, 1), [Destroy], "the client has left the old circuit");
    in_turn(&cells, &[(SwitchedConn, 1, 5), (SwitchedConn, 5, 6), (SwitchAck, 6, 5), (SwitchAck, 5, 1), (Data, 5, 6)]);
    in_turn(&cells, &[(SwitchAck, 5, 1), (PathSwitch, 1, 0), (Destroy, 0, 1)]);
    in_turn(&cells, &[(Data, 5, 6), (PathSwitch, 1, 2), (PathSwitch, 2, 3), (Destroy, 2, 3)]);
    assert_eq!(cells.len(), 12);
}

/// Section 4.3.1 with step 4 "after step 3": the same cells, but SWITCHED_CONN is sent when SWITCH, and what was before it, has left the entry's tor. It need not arrive later: before SWITCH stand
/// 16 KiB of socket, before SWITCHED_CONN nothing. The first cell that was held does: nothing of the circuit is before the old middle any more.
#[test]
fn drained_first_the_steps_of_section_4_3_1_are_in_turn() {
    use CellKind::{Data, Destroy, PathSwitch, SwitchAck, SwitchedConn};
    let (trace, record) = trace(SwitchEntry::Same, SwitchExit::New, SwitchAsk::Drained);
    let asked = trace.iter().find(|cell| cell.0 == SwitchedConn).unwrap().3;
    let drained = (record.drained.unwrap() - record.time).as_secs_f64() * 1e3;
    // At most a TLS record that was being sent, at 2 Mbit/s, and 10 ms on the way.
    assert!((10.0..30.0).contains(&(asked - drained)), "{asked} {drained}");
    let drained = without_times(trace);
    let at_once = cells(SwitchEntry::Same, SwitchExit::New, SwitchAsk::AtOnce);
    for (from, to) in [(1, 2), (2, 3), (1, 5), (5, 6), (6, 5), (5, 1), (1, 0), (0, 1)] {
        assert_eq!(between(&drained, from, to), between(&at_once, from, to), "from {from} to {to}");
    }
    in_turn(&drained, &[(SwitchedConn, 1, 5), (SwitchedConn, 5, 6), (SwitchAck, 6, 5), (SwitchAck, 5, 1), (Data, 5, 6)]);
    in_turn(&drained, &[(PathSwitch, 1, 2), (SwitchAck, 5, 1), (PathSwitch, 1, 0), (Destroy, 0, 1)]);
    in_turn(&drained, &[(PathSwitch, 1, 2), (PathSwitch, 2, 3), (Destroy, 2, 3)]);
}

/// Section 4.3.2: the first entry asks the new middle, which asks the new exit; with the answers back, the client goes on over the other entry.
#[test]
fn to_another_entry_the_cells_are_those_of_section_4_3_2() {
    use CellKind::{Destroy, PathSwitch, SwitchAck, SwitchedConn};
    let cells = cells(SwitchEntry::Other, SwitchExit::New, SwitchAsk::AtOnce);
    assert_eq!(between(&cells, 1, 5), [SwitchedConn]);
    assert_eq!(between(&cells, 5, 6), [SwitchedConn]);
    assert_eq!(between(&cells, 6, 5), [SwitchAck]);
    assert_eq!(between(&cells, 5, 1), [SwitchAck, SwitchAck]);
    assert_eq!(between(&cells, 1, 0), [PathSwitch]);
    for (from, to) in [(0, 1), (1, 2), (2, 3)] {
        assert_eq!(between(&cells, from, to), [PathSwitch, Destroy], "from {from} to {to}");
    }
    // The client is told when the new exit has answered, and then the old path is emptied, hop by hop.
    in_turn(&cells, &[(SwitchedConn, 1, 5), (SwitchedConn, 5, 6), (SwitchAck, 6, 5), (SwitchAck, 5, 1), (PathSwitch, 1, 0)]);
    in_turn(&cells, &[(PathSwitch, 1, 0), (PathSwitch, 0, 1), (PathSwitch, 1, 2), (PathSwitch, 2, 3), (Destroy, 2, 3)]);
    assert_eq!(cells.len(), 12);
}

/// The note at the end of section 4.3.1, with the exit kept: SWITCH goes to the exit and comes back by the old path, behind it DESTROY; nothing of it on the way to a server.
#[test]
fn with_the_exit_kept_switch_comes_back_before_the_old_path_is_closed() {
    use CellKind::{Data, Destroy, PathSwitch, SwitchAck, SwitchedConn};
    let cells = cells(SwitchEntry::Same, SwitchExit::Kept, SwitchAsk::AtOnce);
    assert_eq!(between(&cells, 1, 2), [PathSwitch, Destroy]);
    assert_eq!(between(&cells, 2, 3), [PathSwitch, Destroy]);
    assert_eq!(between(&cells, 3, 2), [PathSwitch], "back behind everything that the exit sent by the old path");
    assert_eq!(between(&cells, 2, 1), [PathSwitch]);
    assert_eq!(between(&cells, 1, 5), [SwitchedConn]);
    assert_eq!(between(&cells, 5, 3), [SwitchedConn, Data], "the new middle leads to the same exit");
    assert_eq!(between(&cells, 3, 5), [SwitchAck]);
    assert_eq!(between(&cells, 5, 1), [SwitchAck, SwitchAck]);
    assert_eq!(between(&cells, 1, 0), [PathSwitch]);
    assert_eq!(between(&cells, 0, 1), [Destroy]);
    // The client hears of it when the old path is empty.
    in_turn(&cells, &[(PathSwitch, 1, 2), (PathSwitch, 2, 3), (PathSwitch, 3, 2), (PathSwitch, 2, 1), (PathSwitch, 1, 0)]);
    in_turn(&cells, &[(PathSwitch, 2, 1), (Destroy, 1, 2)]);
    assert_eq!(cells.len(), 14);
}
