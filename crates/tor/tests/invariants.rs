//! What must hold in every world, tried on random small ones.
//!
//! In builds with debug assertions every end-to-end cell carries its position, and the receiving end panics if one is lost, doubled or
//! overtaken; windows that are exceeded panic at the sender and close the circuit at the receiver, which these tests would see.

mod common;

use common::{OnionRoute, Plan, mbit, ms};
use onionlab_circuitmux::{EwmaClock, PolicyKind, SwrrWeight};
use onionlab_net::quic::QuicCongestion;
use onionlab_net::tcp::{RoundTrips, TcpConfig};
use onionlab_net::{Path, QueueConfig, QueueDiscipline, Shaping, UplinkQueue};
use onionlab_predictor::{Form, Parameters};
use onionlab_quantities::{Bandwidth, Bytes, Cells, SimDuration, SimTime};
use onionlab_tor::{
    ChannelScheduler, CircuitOutcome, CloseReason, ConfluxSettings, CongestionSettings, Cpu, DestroyCells, Feedback, FlowControl,
    Handshake, Handshakes, LightAndHeavy, Links, Outcome, Phase, PredictorSettings, ProbeOutcome, RateLimit, Records, RelayClass,
    Role, SwitchAsk, SwitchChoice, SwitchEntry, SwitchExit, SwitchOccupancy, SwitchOutcome, SwitchingSettings, Tls, TokenRefill,
    World,
};
use proptest::prelude::*;

fn policies() -> impl Strategy<Value = PolicyKind> {
    prop_oneof![
        Just(PolicyKind::RoundRobin),
        Just(PolicyKind::RoundRobinHead),
        (1_u64..60, any::<bool>()).prop_map(|(secs, wall)| PolicyKind::Ewma {
            half_life: SimDuration::from_secs(secs),
            tick: SimDuration::from_secs(10),
            clock: if wall { EwmaClock::Wall } else { EwmaClock::Coarse },
        }),
        Just(PolicyKind::Swrr { weight: SwrrWeight::Linear }),
        Just(PolicyKind::Swrr { weight: SwrrWeight::Proportional }),
        Just(PolicyKind::Swrr { weight: SwrrWeight::Logarithmic { c: 1.0 } }),
    ]
}

fn schedulers() -> impl Strategy<Value = ChannelScheduler> {
    prop_oneof![
        Just(ChannelScheduler::Vanilla),
        Just(ChannelScheduler::Refill),
        (1_u64..10).prop_map(|interval| ChannelScheduler::KistLite {
            interval: SimDuration::from_millis(interval),
            client_interval: SimDuration::from_millis(10),
        }),
        (2_u64..10, any::<bool>()).prop_map(|(interval, knows_unsent)| ChannelScheduler::Kist {
            interval: SimDuration::from_millis(interval),
            client_interval: SimDuration::from_millis(2),
            socket_buffer_factor: 1.0,
            knows_unsent,
        }),
    ]
}

fn uplinks() -> impl Strategy<Value = UplinkQueue> {
    prop_oneof![
        2 => Just(UplinkQueue::Sockets),
        1 => Just(UplinkQueue::WriteOrder),
        1 => Just(UplinkQueue::WriteHeap),
        1 => (20_u32..1100).prop_map(|packets| UplinkQueue::DropTail { packets }),
        1 => (20_u32..1100).prop_map(|packets| UplinkQueue::SmallQueues { packets }),
    ]
}

fn links() -> impl Strategy<Value = Links> {
    let thresholds = (1.0_f64..2.0, 0.0_f64..1.0, 1_u64..30_000).prop_map(|(heavy_above, share, millis)| LightAndHeavy {
        heavy_above,
        light_below: share * heavy_above,
        half_life: SimDuration::from_millis(millis),
    });
    prop_oneof![
        Just(Links::Shared),
        any::<bool>().prop_map(|with_clients| Links::PerCircuit { with_clients }),
        thresholds.prop_map(Links::LightAndHeavy),
        prop_oneof![Just(QuicCongestion::NewReno), Just(QuicCongestion::Cubic)].prop_map(|congestion| Links::Quic { congestion }),
    ]
}

/// Relays that plan in steps of 40 ms to half a second, in step with each other or not, and lose up to a third of what they tell each other.
fn predictor() -> impl Strategy<Value = PredictorSettings> {
    let feedback = prop_oneof![Just(Feedback::InBand), (0.0_f64..0.3).prop_map(|loss| Feedback::OutOfBand { loss })];
    (any::<[bool; 2]>(), 40_u64..500, 2_usize..15, 0.0_f64..150.0, feedback).prop_map(
        |([journal, together], step, horizon, queue_limit, feedback)| PredictorSettings {
            parameters: Parameters {
                horizon,
                queue_limit,
                ..PredictorSettings::problem(if journal { Form::Journal } else { Form::Conference })
            },
            step: SimDuration::from_millis(step),
            feedback,
            phase: if together { Phase::Together } else { Phase::Random },
            ..PredictorSettings::default()
        },
    )
}

/// Switches at random moments: samples from one in 300 ms to one in eight seconds, of outbufs that are full at anything from a cell on, with answers that may come too late.
fn switching() -> impl Strategy<Value = SwitchingSettings> {
    let numbers = (0.01_f64..0.99, 0.0_f64..0.5, 0.0_f64..0.6, 300_u64..8000);
    let kinds = (any::<[bool; 7]>(), prop::option::of(1_u32..4), prop::option::of(200_u64..400));
    let timeout = prop_oneof![3 => Just(120_000_u64), 1 => 50_u64..2000];
    (numbers, kinds, timeout).prop_map(|((gamma, alpha, above, interval), (kinds, most_moves, drop_idle), timeout)| {
        SwitchingSettings {
            gamma,
            alpha,
            beta: alpha + above,
            occupancy: if kinds[0] { SwitchOccupancy::Absolute } else { SwitchOccupancy::Relative },
            unwritable: kinds[1],
            choice: if kinds[2] { SwitchChoice::Bulkiest } else { SwitchChoice::AboveMean },
            entry: if kinds[3] { SwitchEntry::Same } else { SwitchEntry::Other },
            ask: if kinds[3] && kinds[6] { SwitchAsk::Drained } else { SwitchAsk::AtOnce },
            exit: if kinds[3] && kinds[5] { SwitchExit::Kept } else { SwitchExit::New },
            interval: SimDuration::from_millis(interval),
            hysteresis: kinds[4],
            most_moves,
            drop_idle: drop_idle.map(SimDuration::from_secs),
            timeout: SimDuration::from_millis(timeout),
        }
    })
}

prop_compose! {
    fn worlds()(
        seed in any::<u64>(),
        policy in policies(),
        scheduler in schedulers(),
        rates in prop::collection::vec(1.0_f64..50.0, 6),
        limited in prop::option::of(0_usize..6),
        loss in prop_oneof![Just(0.0_f32), 0.0_f32..0.02],
        jitter in 0.0_f64..5.0,
        latency in 1.0_f64..60.0,
        queue in prop_oneof![Just(20_000_u64), 20_000_u64..2_000_000],
        codel in any::<bool>(),
        (profile, uplink_queue) in (0_usize..4, uplinks()),
        (tls, chunk) in prop_oneof![Just((Tls::V1_3, 4048_u32)), Just((Tls::V1_2, 4052)), Just((Tls::Cbc, 4064)), Just((Tls::Absent, 4048))],
        (timer, overtake, optimistic) in any::<(bool, bool, bool)>(),
        payload in prop_oneof![Just(498_u16), Just(488)],
        windows in prop_oneof![Just((1000_u64, 500_u64)), Just((100, 50)), Just((300, 500))],
        clients in prop::collection::vec((0_usize..2, 0_usize..2, 0_usize..2, 1_u64..400_000, 1_u32..4), 1..6),
        request in prop_oneof![Just(200_u64), 1_u64..600_000],
        (per_transfer, predict, learn) in any::<(bool, bool, bool)>(),
        (users, legs, switching) in (1_u32..4, prop::option::of(2_u8..5), prop::option::of(switching())),
        onion in prop::option::of((0_usize..2, 0_usize..2, 0_usize..2)),
        vegas in any::<bool>(),
        cpu in prop::option::of((0_u64..300, 0_u64..5000, 1_u32..4)),
        (links, probe, predictor) in (links(), 1_u64..2000, prop::option::weighted(0.25, predictor())),
    ) -> Plan {
        let (vegas, switching) = (vegas && predictor.is_none(), switching.filter(|_| predictor.is_none()));
        let mut plan = Plan::new();
        plan.seed = seed;
        // Shadow's timer stays doubled after each time-out; without a limit a lossy world would not finish in time.
        let plain = TcpConfig { max_rto: SimDuration::from_secs(8), ..TcpConfig::shadow() };
        let released = TcpConfig { round_trips: RoundTrips::Released, min_rto: ms(200.0), ..plain.clone() };
        let nstor = TcpConfig { max_rto: SimDuration::from_secs(8), ..TcpConfig::nstor() };
        let (tcp, shaping) = [
            (TcpConfig::linux(), Shaping::Serialise),
            (plain, Shaping::TokenBatches { interval: ms(1.0) }),
            (nstor, Shaping::Serialise),
            (released, Shaping::Bursts { span: ms(5.0) }),
        ][profile]
            .clone();
        (plan.tcp, plan.shaping) = (tcp, shaping);
        plan.uplink_queue = uplink_queue;
        let discipline = if codel { QueueDiscipline::CoDel { target: ms(10.0), interval: ms(100.0) } } else { QueueDiscipline::DropTail };
        plan.queue = QueueConfig { discipline, limit: Bytes::new(queue), limit_packets: None };
        plan.default_path = Path { latency: ms(latency), jitter: ms(jitter), loss, beside: false };
        plan.settings.scheduling.circuitmux = policy;
        plan.settings.scheduling.channel_scheduler = scheduler;
        plan.settings.cell_payload = payload;
        (plan.settings.tls, plan.settings.outbuf_chunk) = (tls, chunk);
        plan.settings.token_refill = if timer { TokenRefill::Timer } else { TokenRefill::Lazy };
        plan.settings.destroy_cells = if overtake { DestroyCells::Overtake } else { DestroyCells::Alternate };
        plan.settings.optimistic_data = optimistic;
        plan.settings.random_cells = !timer;
        (plan.settings.circuit_window, plan.settings.stream_window) = (Cells::new(windows.0), Cells::new(windows.1));
        plan.settings.flow_control = if vegas { FlowControl::Vegas(CongestionSettings::default()) } else { FlowControl::Windows };
        plan.settings.handshakes = Handshakes {
            fast_first_hop: timer,
            kind: if overtake { Handshake::Tap } else { Handshake::Ntor },
            tap_clients: if optimistic { 0.5 } else { 0.0 },
            ntors_per_tap: 2,
            ..Handshakes::default()
        };
        plan.settings.links = if switching.is_some() { Links::Shared } else { links };
        if let Some(predictor) = predictor {
            plan.settings.flow_control = FlowControl::Predictor(predictor);
            plan.settings.links = Links::PerCircuit { with_clients: true };
        }
        plan.settings.kernel_tick = timer.then(|| SimDuration::from_millis(4));
        plan.settings.cpu = cpu.map(|(per_cell, per_handshake, threads)| Cpu {
            per_cell: SimDuration::from_micros(per_cell),
            per_handshake: SimDuration::from_micros(per_handshake),
            per_tap: SimDuration::from_micros(2 * per_handshake),
            handshake_threads: threads,
            cores: threads,
            handshakes_in_hand: 4 * threads,
        });
        plan.circuit_per_transfer = per_transfer;
        plan.users = users;
        plan.probe = Some(SimDuration::from_millis(probe));
        plan.settings.switching = switching;
        // Two guards there are: a third leg is never found.
        let conflux = legs.map(|legs| ConfluxSettings { legs, ..ConfluxSettings::default() });
        plan.settings.conflux = conflux.filter(|_| vegas && switching.is_none());
        (plan.settings.client.predict, plan.settings.client.build_timeout.learn) = (predict, learn);
        (plan.timeout, plan.stall) = (SimDuration::from_secs(3000), SimDuration::from_secs(3000));
        let relays: Vec<_> = rates.iter().enumerate().map(|(index, &rate)| {
            let class = [RelayClass::Guard, RelayClass::Middle, RelayClass::Exit][index / 2];
            let limit = (limited == Some(index)).then(|| RateLimit { rate: mbit(rate / 2.0), burst: Bytes::new(100_000), relayed: None });
            plan.host(&format!("relay{index}"), Role::Relay { class, limit }, mbit(rate))
        }).collect();
        if legs.is_some() || switching.is_some() {
            let combination = |index: usize| [relays[index & 1], relays[2 + (index >> 1 & 1)], relays[4 + (index >> 2)]];
            plan.other_paths = (0..8).map(combination).collect();
        }
        let server = plan.host("server", Role::Server, mbit(100.0));
        // Every other client loads from an onion service; its circuits end at the relay that would be its exit.
        let onion = onion.filter(|_| predictor.is_none() && switching.is_none());
        if let Some((guard, middle, last)) = onion {
            let service = plan.host("service", Role::Client, mbit(20.0));
            plan.services.push(service);
            let internal = [relays[guard], relays[2 + middle], relays[4 + last]];
            let introductions = vec![relays[1 - guard], relays[4], relays[5]];
            plan.onion.insert(clients.len() as u32, OnionRoute { internal, third: relays[3 - middle], introductions });
        }
        for (index, (guard, middle, exit, size, count)) in clients.into_iter().enumerate() {
            let host = plan.host(&format!("client{index}"), Role::Client, mbit(20.0));
            let server = match plan.services.first() {
                Some(&service) if index % 2 == 0 => {
                    let internal = [relays[guard], relays[2 + middle], relays[4 + exit]];
                    plan.onion.insert(index as u32, OnionRoute { internal, third: relays[3 - middle], introductions: vec![] });
                    service
                }
                _ => server,
            };
            let load = format!("kind = \"sequence\"\nrequest = \"{request} B\"\ntransfers = [{{ size = \"{size} B\", count = {count}, pause = \"100 ms\" }}]");
            plan.client(host, [relays[guard], relays[2 + middle], relays[4 + exit]], server, &load, 12);
        }
        plan
    }
}

/// A guard keeps to its limits, and what a switch costs has a cause with a name.
fn check_switches(plan: &Plan, records: &Records) -> Result<(), TestCaseError> {
    let Some(settings) = plan.settings.switching else {
        prop_assert_eq!(&records.switches, &vec![]);
        return Ok(());
    };
    let of = |serial| records.circuits.iter().find(|circuit| circuit.circuit == serial);
    for switch in &records.switches {
        let times = [Some(switch.time), switch.middle_acknowledged, switch.acknowledged, switch.moved];
        let known: Vec<_> = times.into_iter().flatten().collect();
        prop_assert!(known.is_sorted(), "{:?}", switch);
        if settings.ask == SwitchAsk::Drained {
            prop_assert!(switch.drained.is_some() || switch.middle_acknowledged.is_none(), "{:?}", switch);
            prop_assert!(switch.middle_acknowledged.is_none_or(|at| Some(at) >= switch.drained), "{:?}", switch);
        }
        match switch.outcome {
            SwitchOutcome::Moved => prop_assert!(switch.acknowledged.is_some() && switch.moved.is_some(), "{:?}", switch),
            SwitchOutcome::TimedOut => prop_assert!(switch.acknowledged.is_none(), "{:?}", switch),
            _ => prop_assert!(switch.moved.is_none(), "{:?}", switch),
        }
        prop_assert_eq!(switch.same_entry, settings.entry == SwitchEntry::Same);
        // Where the exit is kept nothing is lost that has moved, in either direction.
        if settings.exit == SwitchExit::Kept && switch.outcome == SwitchOutcome::Moved && switch.started_over == 0 {
            prop_assert_eq!(switch.cells_lost, 0, "{:?}", switch);
        }
        if let (Some(from), Some(to)) = (of(switch.circuit), of(switch.to)) {
            prop_assert_eq!(switch.same_entry, from.path[0] == to.path[0]);
            prop_assert!(from.path[1] != to.path[1]);
            prop_assert_eq!(from.path[2] == to.path[2], settings.exit == SwitchExit::Kept);
        }
    }
    // From one circuit to the next no chain of moves is longer than the limit, and no circuit is left twice.
    for first in &records.switches {
        let (mut moves, mut last) = (1, first);
        while let Some(next) = records.switches.iter().find(|next| next.circuit == last.to) {
            (moves, last) = (moves + 1, next);
        }
        prop_assert!(settings.most_moves.is_none_or(|most| moves <= most), "{moves} moves in a row");
        prop_assert_eq!(records.switches.iter().filter(|other| other.circuit == first.circuit).count(), 1);
    }
    Ok(())
}

/// A cell that was followed comes to the exit and then to the server, no sooner than light, or has gone with a circuit or a stream.
fn check_probes(plan: &Plan, records: &Records) -> Result<(), TestCaseError> {
    let one_way = plan.default_path.latency;
    let ended_early = !records.switches.is_empty() || records.transfers.iter().any(|transfer| transfer.retries > 0);
    prop_assert!(!records.probes.is_empty() || !plan.services.is_empty());
    for probe in &records.probes {
        prop_assert!(probe.outcome != ProbeOutcome::UnderWay, "{:?}", probe);
        prop_assert!(probe.at_exit.is_none_or(|at| at >= probe.sent + one_way * 3), "{:?}", probe);
        prop_assert!(probe.at_server.is_none_or(|at| Some(at) >= probe.at_exit.map(|at| at + one_way)), "{:?}", probe);
        prop_assert_eq!(probe.at_server.is_some(), probe.outcome == ProbeOutcome::Arrived);
        prop_assert!(probe.outcome == ProbeOutcome::Arrived || ended_early || plan.settings.switching.is_some(), "{:?}", probe);
    }
    Ok(())
}

/// What a link passes in a second: its rate, and what waited for it may pass ahead of its time, as much as a burst holds.
fn in_a_second(plan: &Plan, rate: Bandwidth) -> u64 {
    let ahead = if let Shaping::Bursts { span } = plan.shaping { span } else { SimDuration::ZERO };
    rate.bytes_in(SimDuration::from_secs(1) + ahead).get()
}

/// What holds where downloads may take for ever: nothing is lost, doubled or overtaken (which would panic), nobody gets too much, breaks a rule or sends more than the link carries.
fn check_unfinished(plan: &Plan, records: &Records) -> Result<(), TestCaseError> {
    prop_assert!(records.transfers.iter().all(|transfer| transfer.received <= transfer.size), "{:?}", records.transfers);
    prop_assert!(records.circuits.iter().all(|circuit| circuit.reason != Some(CloseReason::Protocol)), "{:?}", records.circuits);
    for sample in &records.relays {
        let second = in_a_second(plan, plan.hosts[sample.relay.index()].2);
        prop_assert!(sample.bytes_sent <= second + 4500 && sample.bytes_received <= second + 4500, "{:?}", sample);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn cells_and_bytes_are_conserved_and_limits_are_kept(plan in worlds()) {
        if matches!(plan.settings.flow_control, FlowControl::Predictor(_)) {
            // Where relays plan with latencies that their steps do not fit, a download may take for ever.
            return check_unfinished(&plan, &plan.run(60).1);
        }
        let mut world = plan.world();
        let mut clock = SimTime::ZERO;
        // Long enough for one-second time-outs in a row: Shadow's TCP on a lossy path.
        for second in 1..=3000 {
            let time = SimTime::ZERO + SimDuration::from_secs(second);
            world.run_until(time);
            prop_assert!(world.now() >= clock && world.now() <= time);
            clock = world.now();
            world.sample(time);
        }
        world.finish();
        let records = world.take_records();

        // Where answers do not come in time and nothing limits moves, circuits are moved in vain at every sample and their streams start over, which may have no end.
        let hasty = plan.settings.switching.is_some_and(|switching| switching.timeout <= SimDuration::from_secs(2));
        let in_vain = records.switches.iter().filter(|switch| switch.outcome != SwitchOutcome::Moved).count();
        if hasty && in_vain > 100 {
            check_switches(&plan, &records)?;
            return check_unfinished(&plan, &records);
        }
        // Every download came to its end, with every byte.
        let wanted: u64 = plan.clients.iter().filter_map(|client| client.3.transfers()).sum();
        prop_assert_eq!(records.transfers.len() as u64, wanted * u64::from(plan.users));
        for transfer in &records.transfers {
            prop_assert_eq!(transfer.outcome, Outcome::Ok);
            prop_assert_eq!(transfer.received, transfer.size);
            let times = [Some(transfer.start), transfer.connected, transfer.first_byte, transfer.last_byte];
            prop_assert!(times.windows(2).all(|pair| pair[0] <= pair[1]), "{:?}", transfer);
        }
        let goodput: u64 = records.network.iter().map(|sample| sample.goodput_bytes).sum();
        let size = records.transfers.iter().map(|transfer| transfer.size).sum::<u64>();
        let again: u64 = records.switches.iter().map(|switch| switch.bytes_started_over).sum();
        prop_assert!((size..=size + again).contains(&goodput), "{goodput} of {size} bytes, {again} of those that started over");
        // What exits packaged for clients is what programs got and what switches say is lost; more is lost only where streams left their circuits for another reason.
        let [by_switches, otherwise] = world.bytes_lost_to_clients();
        let all_moved = records.switches.iter().all(|switch| switch.outcome == SwitchOutcome::Moved && switch.started_over == 0);
        let kept = plan.settings.switching.is_some_and(|switching| switching.exit == SwitchExit::Kept);
        if all_moved || !kept {
            prop_assert_eq!(world.bytes_from_exits(), goodput + by_switches + otherwise);
        }
        let named = records.switches.iter().map(|switch| switch.bytes_lost).sum::<u64>();
        prop_assert!(by_switches <= named, "{by_switches} of {named} bytes");
        prop_assert!(otherwise == 0 || records.transfers.iter().any(|transfer| transfer.retries > 0), "{otherwise} bytes");
        // Beside what started over and the resumptions, servers get every byte once.
        let sent = records.transfers.iter().map(|transfer| transfer.sent).sum::<u64>();
        // A stream that got no answer in time and tried another exit has sent there again what it had sent before.
        let resumptions = if kept { 0 } else { 498 * records.switches.iter().map(|switch| switch.streams).sum::<u64>() };
        let more = again + world.bytes_tried_again() + resumptions;
        prop_assert!((sent..=sent + more).contains(&world.bytes_to_servers()), "{} of {sent} bytes to servers", world.bytes_to_servers());
        check_switches(&plan, &records)?;
        check_probes(&plan, &records)?;
        // No circuit was closed for exceeding a window, and nothing is left anywhere.
        // A client gives up a leg that is being built with the other legs of its set.
        let late = [CloseReason::BuildTimeout, CloseReason::MeasurementExpired, CloseReason::Finished, CloseReason::DroppedIdle, CloseReason::NoRendezvous];
        let late = late.map(Some);
        for circuit in &records.circuits {
            prop_assert!(circuit.outcome != CircuitOutcome::Failed || late.contains(&circuit.reason), "{:?}", circuit);
            prop_assert!(circuit.reason != Some(CloseReason::Protocol), "{:?}", circuit);
        }
        prop_assert_eq!(world.streams(), 0);
        prop_assert_eq!(world.probes_under_way(), 0);
        // A circuit may just be being built, to see how long it takes or for an onion service.
        let rests = |world: &mut World| {
            world.take_records();
            world.finish();
            world.cells_in_flight() == 0 && world.take_records().channels.iter().all(|channel| channel.open.is_some())
        };
        for second in 3001..3100 {
            if rests(&mut world) {
                break;
            }
            world.run_until(SimTime::ZERO + SimDuration::from_secs(second));
        }
        prop_assert_eq!(world.cells_in_flight(), 0);
        // Two sockets for each channel that is open, if they do not share one over QUIC, and none else.
        let (opened, closed) = world.sockets_opened_and_closed();
        world.take_records();
        world.finish();
        let channels = world.take_records().channels;
        prop_assert!(channels.iter().all(|channel| channel.open.is_some()), "{:?}", channels);
        let sockets = if plan.settings.links.are_quic() { 0 } else { 2 * channels.len() as u64 };
        prop_assert_eq!(opened - closed, sockets);
        // A connection that one circuit has to itself is there as long as the circuit.
        let own = records.channels.iter().chain(&channels).filter(|channel| channel.kind.is_of_one_circuit());
        prop_assert!(own.clone().all(|channel| channel.most_circuits <= 1), "{:?}", records.channels);
        // No link carried more than its rate allows, no rate limit was exceeded by more than its burst (and one read of overdraft).
        for sample in &records.relays {
            let (_, role, rate) = &plan.hosts[sample.relay.index()];
            let second = in_a_second(&plan, *rate);
            prop_assert!(sample.bytes_sent <= second + 4500 && sample.bytes_received <= second + 4500, "{:?}", sample);
            if let Role::Relay { limit: Some(limit), .. } = role {
                let allowed = limit.rate.bytes_in(SimDuration::from_secs(1)).get() + limit.burst.get() + 20_000;
                // On the wire come headers and retransmissions.
                prop_assert!(sample.bytes_sent as f64 <= allowed as f64 * 1.4, "{:?}", sample);
            }
        }
    }

    /// Sockets run out: circuits fail and downloads may take for ever, but what arrives is whole and in order, no relay has more sockets than it may, and each of them was opened and not yet closed.
    #[test]
    fn at_a_limit_of_sockets_what_arrives_is_whole(plan in worlds(), limit in 2_u32..14) {
        let mut plan = plan;
        plan.settings.socket_limit = Some(limit);
        let (_, records) = plan.run(120);
        check_unfinished(&plan, &records)?;
        let mut open = std::collections::HashMap::new();
        for sample in &records.relays {
            prop_assert!(sample.sockets <= limit && sample.most_sockets <= limit, "{:?}", sample);
            let sockets = open.entry(sample.relay).or_insert(0);
            *sockets = *sockets + sample.sockets_opened - sample.sockets_closed;
            prop_assert_eq!(*sockets, u64::from(sample.sockets), "{:?}", sample);
        }
    }

    #[test]
    fn the_same_world_leaves_the_same_records(plan in worlds()) {
        let (first, second) = (plan.run(40), plan.run(40));
        prop_assert_eq!(first.0.events(), second.0.events());
        prop_assert_eq!(first.1.transfers, second.1.transfers);
        prop_assert_eq!(first.1.circuits, second.1.circuits);
        prop_assert_eq!(first.1.relays, second.1.relays);
        prop_assert_eq!(first.1.controllers, second.1.controllers);
    }
}
