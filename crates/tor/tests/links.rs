//! Connections between relays, shared or not: who waits for whose losses, what is closed when, and what happens when sockets run out.

mod common;

use common::{Plan, mbit};
use onionlab_circuitmux::PolicyKind;
use onionlab_net::quic::QuicCongestion;
use onionlab_quantities::{SimDuration, SimTime};
use onionlab_tor::{
    CONNECTION_BYTES, ChannelClose, ChannelKind, CircuitOutcome, CloseReason, Held, IdleChannels, IdleTimeout, LightAndHeavy,
    Links, Outcome, Records, RelayClass, RelaySample, Role,
};
use std::collections::BTreeSet;

const TWO: Links =
    Links::LightAndHeavy(LightAndHeavy { heavy_above: 1.25, light_below: 0.75, half_life: SimDuration::from_secs(30) });
const QUIC: Links = Links::Quic { congestion: QuicCongestion::Cubic };
const VALUES: [Links; 5] =
    [Links::Shared, Links::PerCircuit { with_clients: false }, Links::PerCircuit { with_clients: true }, TWO, QUIC];

/// Clients that each have a guard of their own, all with one middle and one exit, between which `loss` of the packets are lost.
fn clients(loads: &[&str], loss: f32, links: Links) -> Plan {
    let mut plan = Plan::new();
    plan.settings.links = links;
    plan.settings.client.predict = false;
    let fast = mbit(300.0);
    let middle = plan.relay("middle", RelayClass::Middle, fast);
    let exit = plan.relay("exit", RelayClass::Exit, fast);
    let server = plan.host("server", Role::Server, mbit(1000.0));
    plan.default_path.latency = common::ms(5.0);
    plan.link(middle, exit, 20.0, loss);
    for (index, load) in loads.iter().enumerate() {
        let guard = plan.relay(&format!("guard{index}"), RelayClass::Guard, fast);
        let client = plan.host(&format!("client{index}"), Role::Client, fast);
        plan.client(client, [guard, middle, exit], server, load, 12);
    }
    plan
}

fn held(records: &Records) -> Held {
    let all = records.channels.iter().flat_map(|channel| channel.held);
    all.fold(Held::default(), |sum, held| Held {
        bytes: sum.bytes + held.bytes,
        byte_seconds: sum.byte_seconds + held.byte_seconds,
    })
}

const BULK: &str = "kind = \"sequence\"\ntransfers = [{ size = \"3 MB\", count = 3, pause = \"0 s\" }]";

/// Two downloads over a link that loses one packet in two hundred. On a shared connection the bytes of either wait for those of the other that were lost; with a connection each never,
/// though just as much is lost.
#[test]
fn losses_hold_up_other_circuits_only_on_shared_connections() {
    for links in VALUES {
        let mut together = Held::default();
        for seed in [1, 2] {
            let plan = Plan { seed, ..clients(&[BULK, BULK], 0.005, links) };
            let (world, records) = plan.run(200);
            assert!(records.transfers.iter().all(|transfer| transfer.outcome == Outcome::Ok), "{links:?}");
            let losses = |host| world.network().counters(onionlab_engine::HostId(host)).path_losses;
            let lost: u64 = (0..plan.hosts.len() as u32).map(losses).sum();
            assert!(lost > 20, "{links:?}: {lost} packets lost");
            let held = held(&records);
            // The samples of relays say the same as the records of channels, as far as relays received it.
            let sampled: u64 = records.relays.iter().map(|sample| sample.held.bytes).sum();
            assert_eq!(sampled, held.bytes, "{links:?}");
            together.bytes += held.bytes;
            together.byte_seconds += held.byte_seconds;
            // Two circuits that send alike are neither heavy nor light: they stay on one connection.
            let heavy = records.channels.iter().filter(|channel| channel.kind == ChannelKind::Heavy);
            assert!(heavy.flat_map(|channel| channel.cells).all(|cells| cells == 0), "{links:?}");
        }
        if matches!(links, Links::Shared | Links::LightAndHeavy(_)) {
            // How much it is hangs on how the circuits' cells alternate where a packet is lost: a few kB to hundreds in a run. A retransmission takes at least a round trip, 40 ms, and what
            // waits longest waits that long.
            let mean = together.byte_seconds / together.bytes as f64;
            assert!(together.bytes >= 20 * 1448 && (0.005..1.0).contains(&mean), "{links:?}: {together:?}");
        } else {
            assert_eq!(together, Held::default(), "{links:?}");
        }
    }
}

/// Without loss nobody waits, and a single circuit does not wait for others whatever is lost.
#[test]
fn nobody_waits_for_others_without_losses_or_without_others() {
    for (loads, loss) in [(&[BULK, BULK][..], 0.0), (&[BULK][..], 0.01)] {
        let (_, records) = clients(loads, loss, Links::Shared).run(200);
        assert_eq!(held(&records), Held::default());
    }
}

/// When all circuits and all idle channels are closed, every socket is, whoever had opened it. Circuits that had channels of their own took them along, after each other and in order.
#[test]
fn every_socket_is_closed_at_the_end() {
    for links in VALUES {
        let mut plan = clients(&[BULK, BULK, BULK], 0.002, links);
        plan.settings.circuit_dirtiness = SimDuration::from_secs(20);
        let idle = IdleTimeout { least: 60, spread: 30 };
        plan.settings.idle_channels = Some(IdleChannels { clients: idle, relays: idle });
        let (world, records) = plan.run(300);
        assert!(records.circuits.iter().all(|circuit| circuit.outcome == CircuitOutcome::Closed), "{links:?}");
        let (opened, closed) = world.sockets_opened_and_closed();
        // Nine connections to servers have one socket in tor, a channel two, if it does not share one with all others.
        let channels = if links == QUIC { 0 } else { records.channels.len() as u64 };
        assert_eq!(opened, 9 + 2 * channels, "{links:?}");
        assert_eq!(opened, closed, "{links:?}");
        for channel in &records.channels {
            let reason = if channel.kind.is_of_one_circuit() { ChannelClose::Circuit } else { ChannelClose::Idle };
            assert_eq!(channel.reason, Some(reason), "{links:?}: {channel:?}");
        }
        let own = records.channels.iter().filter(|channel| channel.kind.is_of_one_circuit()).count();
        let hops = match links {
            Links::Shared | Links::LightAndHeavy(_) => 0,
            Links::PerCircuit { with_clients } => 2 + usize::from(with_clients),
            Links::Quic { .. } => 3,
        };
        assert_eq!(own, hops * records.circuits.len(), "{links:?}");
        let last = records.relays.iter().rev().take(5);
        let nothing = |sample: &RelaySample| sample.sockets == 0 && sample.socket_bytes == 0 && sample.connection_bytes == 0;
        assert!(last.clone().all(nothing), "{links:?}");
        let relayed: (u64, u64) = records
            .relays
            .iter()
            .fold((0, 0), |(opened, closed), sample| (opened + sample.sockets_opened, closed + sample.sockets_closed));
        assert_eq!(relayed.0, relayed.1, "{links:?}");
        assert!(records.relays.iter().all(|sample| sample.most_sockets >= sample.sockets), "{links:?}");
    }
}

/// An idle connection costs its relay something: ten circuits through one exit are one connection there, or ten, or one with streams.
#[test]
fn connections_cost_memory_by_their_number() {
    for (links, at_exit) in [(Links::Shared, 1), (Links::PerCircuit { with_clients: false }, 10), (QUIC, 1)] {
        let plan = clients(&["kind = \"sequence\"\ntransfers = [{ size = \"10 kB\" }]"; 10], 0.0, links);
        let (_, records) = plan.run(40);
        let of_exit = records.relays.iter().rfind(|sample| sample.relay.0 == 1).unwrap();
        assert_eq!((of_exit.connection_bytes, of_exit.socket_bytes), (at_exit * CONNECTION_BYTES, 0), "{links:?}");
        assert_eq!(records.relays[0].connection_bytes, 0, "{links:?}: before anything is open");
    }
}

/// Twelve circuits through a middle that may have seven sockets: three of them have one towards each neighbour, and the fourth circuit's connection to the exit is refused. It is closed, and its client
/// hears of it; those that have connections end well.
#[test]
fn at_the_limit_circuits_fail_where_they_cannot_be_extended() {
    let mut plan = clients(&[BULK; 12], 0.0, Links::PerCircuit { with_clients: false });
    plan.settings.socket_limit = Some(7);
    let (world, records) = plan.run(300);
    let refused: Vec<_> = records.circuits.iter().filter(|circuit| circuit.reason == Some(CloseReason::OutOfSockets)).collect();
    assert!(!refused.is_empty());
    assert!(refused.iter().all(|circuit| circuit.outcome == CircuitOutcome::Failed && circuit.built.is_none()));
    assert!(records.transfers.iter().any(|transfer| transfer.outcome == Outcome::Ok));
    assert!(records.relays.iter().all(|sample| sample.most_sockets <= 7));
    assert!(records.relays.iter().map(|sample| sample.sockets_refused).sum::<u64>() > 0);
    assert_eq!(world.cells_in_flight(), 0);
}

/// At an exit with room for two channels and one stream, other circuits' channels are not accepted: they wait until one is closed, or until their clients give up. Streams beyond the limit are ended.
#[test]
fn connections_that_are_not_accepted_wait_until_a_socket_is_closed() {
    let mut plan = clients(&[BULK; 6], 0.0, Links::PerCircuit { with_clients: false });
    plan.settings.circuit_dirtiness = SimDuration::from_secs(5);
    // The middle has twice as many as the exit.
    plan.settings.socket_limit = Some(4);
    let (_, records) = plan.run(900);
    let waited = records.channels.iter().filter(|channel| {
        let late = channel.open.is_some_and(|open| open - channel.opened > SimDuration::from_secs(1));
        channel.kind == ChannelKind::Circuit && late
    });
    assert!(waited.count() > 0, "accepted later");
    assert!(records.relays.iter().map(|sample| sample.sockets_refused).sum::<u64>() > 0);
    assert!(records.relays.iter().all(|sample| sample.sockets <= 4 && sample.most_sockets <= 4));
    assert!(records.transfers.iter().any(|transfer| transfer.outcome == Outcome::Ok));
}

/// A guard has room for one client and the middle. The other client's connection is up, but nobody accepts it: it is given up after five minutes, and the next waits as long.
#[test]
fn a_connection_that_is_not_accepted_is_given_up_after_five_minutes() {
    let mut plan = clients(&[BULK], 0.0, Links::Shared);
    let ([guard, middle, exit], server) = (plan.clients[0].1, plan.clients[0].2);
    let late = plan.host("late", Role::Client, mbit(300.0));
    plan.client(late, [guard, middle, exit], server, BULK, 20);
    plan.settings.socket_limit = Some(2);
    plan.settings.idle_channels = None;
    let (_, records) = plan.run(700);
    let refused: Vec<_> = records.channels.iter().filter(|channel| channel.opener == late).collect();
    assert!(refused.len() >= 2 && refused.iter().all(|channel| channel.open.is_none()), "{refused:?}");
    for channel in refused.iter().filter(|channel| channel.closed.is_some()) {
        assert_eq!(channel.reason, Some(ChannelClose::Lost));
        let waited = channel.closed.unwrap() - channel.opened;
        assert!((300.0..301.0).contains(&waited.as_secs_f64()), "{waited}");
    }
    assert!(refused.iter().any(|channel| channel.closed.is_some()));
    assert!(records.transfers.iter().any(|transfer| transfer.outcome == Outcome::Ok));
}

/// Four long downloads take all sockets of an exit. Streams of another client that come there are ended, and know it: they go to the other exit, and no later one tries the first again,
/// though two in three of the client's circuits would end there.
#[test]
fn an_exit_without_sockets_is_asked_no_more() {
    let long = "kind = \"sequence\"\ntransfers = [{ size = \"200 MB\" }]";
    let short = "kind = \"sequence\"\ntransfers = [{ size = \"10 kB\", count = 10, pause = \"1 s\" }]";
    let mut plan = clients(&[long, short], 0.0, Links::Shared);
    plan.users = 4;
    plan.clients[1].4 = SimTime::ZERO + SimDuration::from_secs(20);
    let other = plan.relay("other exit", RelayClass::Exit, mbit(300.0));
    let [guard, middle, exit] = plan.clients[1].1;
    plan.other_paths = vec![[guard, middle, exit], [guard, middle, other]];
    // The middle needs four, the exit one for the channel.
    plan.settings.socket_limit = Some(5);
    let (_, records) = plan.run(60);
    let of_client = |client: u32| records.transfers.iter().filter(move |transfer| transfer.client.0 == client);
    assert!(of_client(0).all(|transfer| transfer.end > SimTime::ZERO + SimDuration::from_secs(40)), "they hold their sockets");
    assert_eq!(of_client(1).count(), 40);
    assert!(of_client(1).all(|transfer| transfer.outcome == Outcome::Ok));
    let refused = records.relays.iter().filter(|sample| sample.sockets_refused > 0).collect::<Vec<_>>();
    assert_eq!(refused.iter().map(|sample| sample.sockets_refused).sum::<u64>(), 4);
    let first = of_client(1).map(|transfer| transfer.start).min().unwrap();
    assert!(refused.iter().all(|sample| sample.time - first < SimDuration::from_secs(2)));
    // A refusal is no try that failed, and costs the circuit nothing.
    assert!(of_client(1).all(|transfer| transfer.retries == 0));
    let mut there = records.circuits.iter().filter(|circuit| circuit.client.0 == 1 && circuit.path[2] == exit).peekable();
    assert!(there.peek().is_some() && there.all(|circuit| circuit.reason.is_none()));
}

const WEB: &str = "kind = \"sequence\"\ntransfers = [{ size = \"50 kB\", count = 40, pause = \"1 s\" }]";

/// A bulk download and a client that loads 50 kB each second meet between middle and exit. The bulk circuit is moved to the heavy channel, once in each direction, and most of what is sent on it
/// goes there, the download and a SENDME for each hundred cells of the circuit and each fifty of the stream. The other circuit stays.
#[test]
fn the_heavy_circuit_is_moved_and_the_light_one_stays() {
    let long = "kind = \"sequence\"\ntransfers = [{ size = \"40 MB\" }]";
    let mut plan = clients(&[WEB, long], 0.0, TWO);
    // Before the download has begun the other circuit would be the heavy one; as long as the download is alone, it stays where it is.
    plan.clients[0].4 = SimTime::ZERO + SimDuration::from_secs(15);
    let (world, records) = plan.run(300);
    assert!(records.transfers.iter().all(|transfer| transfer.outcome == Outcome::Ok));
    let of = |kind| records.channels.iter().filter(|channel| channel.kind == kind).collect::<Vec<_>>();
    let (light, heavy) = (of(ChannelKind::Light), of(ChannelKind::Heavy));
    // Towards either guard the middle sends one circuit, which is never above the average.
    assert_eq!((light.len(), heavy.len()), (3, 1));
    let moved: u64 = records.relays.iter().map(|sample| sample.circuits_moved).sum();
    let bulk = 40_000_000_u64.div_ceil(498);
    let towards_client = heavy[0].cells.into_iter().max().unwrap();
    let towards_exit = heavy[0].cells.into_iter().min().unwrap();
    assert!(towards_client > bulk * 7 / 10 && towards_client <= bulk + 200, "{towards_client} of {bulk} cells");
    let sendmes = bulk / 100 + bulk / 50;
    assert!(towards_exit > sendmes * 7 / 10 && towards_exit <= sendmes + 10, "{towards_exit} of {sendmes} cells");
    assert_eq!(moved, 2);
    assert_eq!(world.cells_in_flight(), 0);
}

/// Each relay moves the direction in which it sends, so one end of a channel may have a circuit and the other none: it is not idle, whatever the time-out.
#[test]
fn a_channel_that_one_end_uses_is_not_idle() {
    let change = "kind = \"sequence\"\ntransfers = [{ size = \"20 MB\" }, { size = \"30 kB\", count = 20, pause = \"500 ms\" }]";
    let quick = LightAndHeavy { heavy_above: 1.1, light_below: 1.0, half_life: SimDuration::from_secs(2) };
    let mut plan = clients(&[change, WEB], 0.0, Links::LightAndHeavy(quick));
    let idle = IdleTimeout { least: 1, spread: 0 };
    plan.settings.idle_channels = Some(IdleChannels { clients: idle, relays: idle });
    let (world, records) = plan.run(120);
    assert!(records.relays.iter().map(|sample| sample.circuits_moved).sum::<u64>() > 1);
    assert!(records.transfers.iter().all(|transfer| transfer.outcome == Outcome::Ok && transfer.retries == 0));
    assert!(
        records.circuits.iter().all(|circuit| circuit.outcome == CircuitOutcome::Closed || circuit.closed.is_none()),
        "{:?}",
        records.circuits
    );
    assert_eq!(world.cells_in_flight(), 0);
}

/// Clients that all do the same, and build circuits ahead that they never use. These are no measure of who is heavy: with them in the average all who send anything would be above it.
#[test]
fn circuits_built_ahead_make_no_circuit_heavy() {
    let mut plan = clients(&[WEB; 12], 0.0, TWO);
    plan.settings.client.predict = true;
    let (_, records) = plan.run(100);
    assert!(records.transfers.iter().all(|transfer| transfer.outcome == Outcome::Ok));
    let used: BTreeSet<_> = records.transfers.iter().filter_map(|transfer| transfer.circuit).collect();
    let built = records.circuits.iter().filter(|circuit| circuit.built.is_some()).count();
    assert!(built > 2 * used.len(), "{built} circuits, {} in use", used.len());
    let cells =
        |kind| records.channels.iter().filter(|channel| channel.kind == kind).flat_map(|channel| channel.cells).sum::<u64>();
    let (light, heavy) = (cells(ChannelKind::Light), cells(ChannelKind::Heavy));
    println!("{light} cells on light connections, {heavy} on heavy ones, {built} circuits, {} in use", used.len());
    assert!(heavy < light, "{heavy} of {} cells are heavy", heavy + light);
}

/// Circuits that alternate between much and little go to and fro, with losses on both channels, so that cells come over the new one before those over the old one. Nothing is lost or overtaken:
/// the ends of the circuits count, and panic.
#[test]
fn circuits_that_go_to_and_fro_keep_their_order() {
    let change = "kind = \"sequence\"\ntransfers = [{ size = \"2 MB\", count = 4, pause = \"3 s\" }, { size = \"30 kB\", count = 30, pause = \"300 ms\" }, { size = \"1 MB\", count = 4, pause = \"3 s\" }]";
    let quick = LightAndHeavy { heavy_above: 1.1, light_below: 1.0, half_life: SimDuration::from_millis(500) };
    let mut plan = clients(&[change, BULK, WEB, change], 0.01, Links::LightAndHeavy(quick));
    plan.settings.circuit_dirtiness = SimDuration::from_secs(15);
    let (world, records) = plan.run(400);
    assert!(records.transfers.iter().all(|transfer| transfer.outcome == Outcome::Ok && transfer.received == transfer.size));
    assert!(records.circuits.iter().all(|circuit| circuit.reason != Some(CloseReason::Protocol)));
    let moved: u64 = records.relays.iter().map(|sample| sample.circuits_moved).sum();
    assert!(moved > 20, "{moved}");
    assert_eq!(world.cells_in_flight(), 0);
}

/// What that waiting costs: small downloads beside a large one over a link that loses one packet in a hundred. Alone they take as long whatever the links; beside the other circuit they take longer where its
/// lost packets hold theirs up: in the same connection. Of two the small circuit keeps one.
#[test]
fn losses_of_another_circuit_delay_small_downloads_only_on_a_shared_connection() {
    let long = "kind = \"sequence\"\ntransfers = [{ size = \"60 MB\" }]";
    let median = |loads: &[&str], links| {
        let (_, records) = clients(loads, 0.01, links).run(200);
        let small = records.transfers.iter().filter(|transfer| transfer.size == 50_000);
        let mut times: Vec<f64> = small.map(|transfer| (transfer.end - transfer.start).as_secs_f64()).collect();
        assert_eq!(times.len(), 40, "{links:?}");
        times.sort_unstable_by(f64::total_cmp);
        times[20]
    };
    let alone = VALUES.map(|links| median(&[WEB], links));
    let beside = VALUES.map(|links| median(&[WEB, long], links));
    println!("alone {alone:.3?} s, beside a bulk circuit {beside:.3?} s");
    for (index, links) in VALUES.into_iter().enumerate() {
        assert!((alone[index] / alone[0] - 1.0).abs() < 0.05, "{links:?}");
        let longer = beside[index] / alone[index];
        if links == Links::Shared {
            assert!(longer > 1.25, "{links:?}: {longer}");
        } else if links == QUIC {
            // Nobody waits for others' losses, but all share the one window that these shrink, by turns of packets instead of by EWMA.
            assert!(longer > 1.15, "{links:?}: {longer}");
        } else {
            assert!((0.95..1.15).contains(&longer), "{links:?}: {longer}");
        }
    }
}

/// Who waits for whose turn beside bulk downloads, where losses keep the window small: on a shared connection tor's EWMA puts the small circuit first, and round robin does not. Between the
/// streams of a QUIC connection neither has a say: their packets take turns, which is round robin. Medians of small downloads in seconds, each the mean of three seeds.
#[test]
fn no_circuitmux_decides_between_streams() {
    let bulk = "kind = \"sequence\"\ntransfers = [{ size = \"60 MB\" }]";
    let few = "kind = \"sequence\"\ntransfers = [{ size = \"50 kB\", count = 20, pause = \"1 s\" }]";
    let median = |links, circuitmux: &PolicyKind, seed| {
        let mut plan = clients(&[few, bulk, bulk, bulk], 0.01, links);
        plan.seed = seed;
        plan.settings.scheduling.circuitmux = circuitmux.clone();
        let (_, records) = plan.run(60);
        let small = records.transfers.iter().filter(|transfer| transfer.size == 50_000);
        let mut times: Vec<f64> = small.map(|transfer| (transfer.end - transfer.start).as_secs_f64()).collect();
        times.sort_unstable_by(f64::total_cmp);
        times[times.len() / 2]
    };
    let mean = |links, circuitmux| (1..=3).map(|seed| median(links, &circuitmux, seed)).sum::<f64>() / 3.0;
    let shared = [PolicyKind::TOR_EWMA, PolicyKind::RoundRobin].map(|policy| mean(Links::Shared, policy));
    let quic = [PolicyKind::TOR_EWMA, PolicyKind::RoundRobin].map(|policy| mean(QUIC, policy));
    println!("EWMA, round robin: shared {shared:.3?} s, quic {quic:.3?} s");
    assert!(shared[1] > 1.3 * shared[0], "{shared:?}");
    assert!((quic[1] / quic[0] - 1.0).abs() < 0.1, "{quic:?}");
    assert!(quic[0] > 1.3 * shared[0], "{quic:?}, {shared:?}");
}

/// Eight downloads through one middle and one exit, between which one packet in two hundred is lost. All go over one connection each way of sharing, so the congestion window is one;
/// over TCP the lost bytes of one circuit hold up the seven others. A stream's holes are its own circuit's, so nothing is held by construction here; that a loss on one stream
/// delays no other is what the tests of `quic` show (`a_loss_of_one_stream_does_not_delay_another`).
#[test]
fn circuits_in_streams_share_a_window_and_wait_for_nobody() {
    let held_by = |links: Links| {
        let (world, records) = clients(&[BULK; 8], 0.005, links).run(400);
        assert!(records.transfers.iter().all(|transfer| transfer.outcome == Outcome::Ok), "{links:?}");
        assert_eq!(world.cells_in_flight(), 0);
        let windows = records.channels.iter().filter(|channel| channel.kind == ChannelKind::Shared).count();
        (held(&records).bytes, windows)
    };
    let (shared, over_tcp) = held_by(Links::Shared);
    assert!(shared > 1_000_000, "{shared}");
    // Eight connections of clients to their guards, eight of guards to the middle, one between middle and exit, under both.
    assert_eq!((over_tcp, held_by(QUIC)), (17, (0, 17)));
}
