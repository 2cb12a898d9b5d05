//! Active circuit switching in small networks: what a switch moves, how long it takes, what it loses, and that nothing is left behind.

mod common;

use common::{Plan, mbit};
use onionlab_engine::HostId;
use onionlab_net::tcp::BufferLimits;
use onionlab_quantities::SimDuration;
use onionlab_tor::{
    CircuitOutcome, CloseReason, Outcome, Records, RelayClass, Role, Settings, SwitchChoice, SwitchEntry, SwitchExit,
    SwitchOutcome, SwitchRecord, SwitchSample, SwitchVerdict, SwitchingSettings, World,
};

/// Four clients over one path of slow relays, and a second one beside it, with the same entry or another.
fn four(entry: SwitchEntry, exit: SwitchExit, load: &str, switching: Option<SwitchingSettings>) -> Plan {
    let mut plan = Plan::new();
    plan.settings = Settings { switching, ..Settings::default() };
    plan.settings.client.build_timeout.learn = false;
    plan.settings.scheduling.channel_scheduler = onionlab_tor::ChannelScheduler::Refill;
    // Sockets as small as in the papers' testbed: what does not fit waits in outbufs.
    plan.tcp.send_buffer = BufferLimits::new(16_384, 16_384);
    let server = plan.host("server", Role::Server, mbit(1000.0));
    let relays: Vec<HostId> = (0..6)
        .map(|index| {
            let class = [RelayClass::Guard, RelayClass::Middle, RelayClass::Exit][index % 3];
            // What the entries send is the bottleneck, in either direction.
            plan.relay(&format!("relay{index}"), class, mbit(if index % 3 == 0 { 1.5 } else { 2.0 }))
        })
        .collect();
    for entry in [relays[0], relays[3]] {
        plan.downlinks.insert(entry.0, mbit(10.0));
    }
    let entry = if entry == SwitchEntry::Same { relays[0] } else { relays[3] };
    plan.other_paths = vec![[entry, relays[4], if exit == SwitchExit::New { relays[5] } else { relays[2] }]];
    for (client, delay) in [120.0, 60.0, 20.0, 10.0].into_iter().enumerate() {
        let host = plan.host(&format!("client{client}"), Role::Client, mbit(100.0));
        plan.link(host, relays[0], delay, 0.0);
        plan.client(host, [relays[0], relays[1], relays[2]], server, load, 20);
    }
    plan
}

fn paper(entry: SwitchEntry, exit: SwitchExit) -> SwitchingSettings {
    SwitchingSettings { entry, exit, interval: SimDuration::from_secs(2), ..SwitchingSettings::default() }
}

const UPLOAD: &str = "kind = \"sequence\"\nrequest = \"2 MB\"\ntransfers = [{ size = \"1 kB\" }]";
const DOWNLOAD: &str = "kind = \"sequence\"\ntransfers = [{ size = \"2 MB\" }]";

fn run(plan: &Plan) -> (World, Records) {
    let (mut world, records) = plan.run(400);
    // Circuits may just be being built.
    for second in 401..420 {
        if world.cells_in_flight() > 0 {
            world.run_until(onionlab_quantities::SimTime::ZERO + SimDuration::from_secs(second));
        }
    }
    assert_eq!((world.cells_in_flight(), world.streams()), (0, 0));
    (world, records)
}

fn moved(records: &Records) -> usize {
    records.switches.iter().filter(|switch| switch.outcome == SwitchOutcome::Moved).count()
}

/// Uploads move each way, downloads some, and each exchange ends with every byte. With uploads nothing is lost and nothing starts over.
#[test]
fn circuits_move_and_every_byte_arrives() {
    let ways =
        [(SwitchEntry::Same, SwitchExit::New), (SwitchEntry::Same, SwitchExit::Kept), (SwitchEntry::Other, SwitchExit::New)];
    let mut moves = [0; 2];
    for (entry, exit) in ways {
        for load in [UPLOAD, DOWNLOAD] {
            let (world, records) = run(&four(entry, exit, load, Some(paper(entry, exit))));
            // What is downloaded is not always held up where circuits share an outbuf.
            moves[usize::from(load == DOWNLOAD)] += moved(&records);
            assert!(load == DOWNLOAD || moved(&records) > 0, "{entry:?} {load}: {:?}", records.switches);
            assert_eq!(records.transfers.len(), 4);
            for transfer in &records.transfers {
                assert_eq!((transfer.outcome, transfer.received), (Outcome::Ok, transfer.size), "{entry:?} {load}");
            }
            for switch in &records.switches {
                if load == UPLOAD || exit == SwitchExit::Kept {
                    assert_eq!((switch.cells_lost, switch.started_over), (0, 0), "{switch:?}");
                }
            }
            if load == UPLOAD {
                // Beside the payload come resumptions, unless the exit is kept; one that is still on its way when its circuit moves again has become needless.
                let resumptions = world.bytes_to_servers() - 4 * 2_000_000;
                assert_eq!(resumptions % 498, 0);
                let most = if exit == SwitchExit::New { moved(&records) as u64 } else { 0 };
                assert!((most.min(1)..=most).contains(&(resumptions / 498)));
            }
            for switch in &records.switches {
                assert!(
                    switch.outcome == SwitchOutcome::Moved,
                    "{entry:?} {load} {switch:?} {:?}",
                    records.circuits.iter().filter(|c| c.circuit == switch.to).collect::<Vec<_>>()
                );
            }
            // Circuits that were left are closed; those that are open have no switch.
            for circuit in &records.circuits {
                let left = records.switches.iter().any(|switch| switch.circuit == circuit.circuit);
                assert_eq!(
                    circuit.outcome == CircuitOutcome::Closed && circuit.reason == Some(CloseReason::Switched),
                    left,
                    "{circuit:?}"
                );
                assert!(circuit.reason != Some(CloseReason::Protocol), "{circuit:?}");
            }
        }
    }
    assert!(moves.iter().all(|&moves| moves > 0), "{moves:?}");
}

/// Circuits that move while they receive lose what is on its way on the old path. What exits have packaged is what programs got and what the switches say is lost, byte by byte. With the exit kept that
/// is nothing.
#[test]
fn what_downloads_lose_is_what_did_not_come() {
    for exit in [SwitchExit::New, SwitchExit::Kept] {
        let settings = paper(SwitchEntry::Same, exit);
        let (world, records) = run(&four(SwitchEntry::Same, exit, DOWNLOAD, Some(settings)));
        let got: u64 = records.transfers.iter().map(|transfer| transfer.received).sum();
        let sum = |of: fn(&SwitchRecord) -> u64| records.switches.iter().map(of).sum::<u64>();
        let (cells, lost) = (sum(|switch| switch.cells_lost), sum(|switch| switch.bytes_lost));
        println!("{exit:?}: {cells} cells, {lost} bytes lost");
        assert!(sum(|switch| switch.streams) > 0 && got == 4 * 2_000_000);
        assert_eq!(cells > 0, exit == SwitchExit::New);
        assert!((400 * cells..=498 * cells).contains(&lost), "{lost} bytes in {cells} cells");
        assert_eq!((world.bytes_from_exits(), world.bytes_lost_to_clients()), (got + lost, [lost, 0]));
    }
}

/// An entry that looks each 100 ms and finds its outbufs overfull whatever they hold: clients make it move circuits as fast as it can. Each move needs a spare that the client has
/// built meanwhile, so that there are fewer moves than samples; with a limit there are no more than that for each upload; and all uploads end well.
#[test]
fn a_guard_that_is_provoked_keeps_to_its_limits() {
    let provoked = |most_moves| {
        let mut plan = four(SwitchEntry::Same, SwitchExit::New, UPLOAD, None);
        let interval = SimDuration::from_millis(100);
        plan.settings.switching = Some(SwitchingSettings { beta: 0.0, interval, most_moves, ..SwitchingSettings::default() });
        let (_, records) = run(&plan);
        assert!(records.transfers.iter().all(|transfer| transfer.outcome == Outcome::Ok && transfer.received == transfer.size));
        let last = records.transfers.iter().map(|transfer| (transfer.end - transfer.start).as_secs_f64()).fold(0.0, f64::max);
        (records.switches.len(), last)
    };
    let (any, slowest) = provoked(None);
    let (limited, slowest_limited) = provoked(Some(2));
    println!("{any} moves and {slowest:.1} s, with a limit {limited} and {slowest_limited:.1} s");
    assert!(0 < limited && limited <= 2 * 4 && limited < any, "{limited} and {any} moves");
    assert!((any as f64) < slowest / 0.1, "{any} moves in {slowest} s");
    assert!(slowest_limited <= slowest * 1.05, "the limit costs the clients nothing");
}

/// An entry sees cells and no streams: with Algorithm 1's line 23 it closes a circuit whose stream is open and silent for longer than it keeps idle circuits, and the stream fails. Here a server
/// writes each 30 s, and idle circuits go after 10 s; with 40 s the same stream ends well.
#[test]
fn an_idle_circuit_is_dropped_whatever_its_streams_wait_for() {
    let silent = "kind = \"audio\"\nrate = \"8 kbit/s\"\ninterval = \"30 s\"\nahead = \"0 s\"\nlength = \"95 s\"";
    let outcome = |idle| {
        let mut plan = four(SwitchEntry::Same, SwitchExit::New, silent, Some(paper(SwitchEntry::Same, SwitchExit::New)));
        plan.clients.truncate(1);
        plan.settings.switching.as_mut().unwrap().drop_idle = Some(SimDuration::from_secs(idle));
        let (_, records) = plan.run(200);
        let reasons: Vec<_> = records.circuits.iter().filter_map(|circuit| circuit.reason).collect();
        (records.transfers[0].outcome, reasons.contains(&CloseReason::DroppedIdle))
    };
    assert_eq!(outcome(10), (Outcome::CircuitClosed, true));
    assert_eq!(outcome(40).0, Outcome::Ok);
}

/// Above the mean is above that of the circuits with traffic, whatever spares stand beside them: of circuits that share an outbuf some stay. A circuit that is not in use has the cells of its building,
/// four at most.
#[test]
fn of_circuits_that_share_an_outbuf_those_above_their_mean_move() {
    let settings = SwitchingSettings { choice: SwitchChoice::AboveMean, ..paper(SwitchEntry::Same, SwitchExit::New) };
    let (_, records) = run(&four(SwitchEntry::Same, SwitchExit::New, UPLOAD, Some(settings)));
    let (mut moves, mut stay, mut idle) = (0, 0, 0);
    let of_one = |a: &SwitchSample, b: &SwitchSample| (a.time, a.channel, a.outward) == (b.time, b.channel, b.outward);
    for sample in records.switch_samples.chunk_by(of_one) {
        let busy: Vec<_> = sample.iter().filter(|row| row.cells > 4).collect();
        let mean = busy.iter().map(|row| row.average).sum::<f64>() / busy.len() as f64;
        for row in sample {
            let above = row.cells > 4 && row.average > mean;
            assert!(row.verdict != SwitchVerdict::Moves || above, "{row:?} of {busy:?}");
            assert!(row.verdict != SwitchVerdict::Lighter || !above, "{row:?} of {busy:?}");
        }
        let moved = sample.iter().filter(|row| row.verdict == SwitchVerdict::Moves).count();
        if moved > 0 {
            moves += moved;
            stay += busy.len() - moved;
            idle += sample.len() - busy.len();
        }
    }
    println!("{moves} move, {stay} stay, {idle} are idle");
    assert!(moves > 4 && stay > 4 && idle > 4);
}
