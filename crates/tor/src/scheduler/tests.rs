//! The channel schedulers, one relay and one run at a time.

use crate::bench_relay::Bench;
use crate::coarse_clock::CoarseClock;
use crate::settings::{ChannelScheduler, Scheduling, Settings, SomeRelays};
use onionlab_engine::HostId;
use onionlab_quantities::{Cells, SimDuration, SimTime};

fn kist() -> ChannelScheduler {
    let interval = SimDuration::from_millis(2);
    ChannelScheduler::Kist { interval, client_interval: interval, socket_buffer_factor: 1.0, knows_unsent: true }
}

fn kist_lite() -> ChannelScheduler {
    let interval = SimDuration::from_millis(2);
    ChannelScheduler::KistLite { interval, client_interval: interval }
}

fn bench(channel_scheduler: ChannelScheduler, others: u32) -> Bench {
    let no_limit = Cells::new(1_000_000);
    let scheduling = Scheduling { channel_scheduler, ..Scheduling::default() };
    Bench::new(Settings { scheduling, max_cell_queue_out: Some(no_limit), ..Settings::default() }, others)
}

fn at(millis: f64) -> SimTime {
    SimTime::from_nanos(2_000_000_000) + SimDuration::from_secs_f64_rounded(millis / 1e3)
}

/// Nothing is in flight and nothing waits: the limit is two congestion windows, of which each cell takes 543 bytes. For ten segments of 1,448
/// bytes, 28,960 bytes, that is 53 cells.
#[test]
fn a_run_of_kist_moves_two_congestion_windows() {
    let mut bench = bench(kist(), 1);
    let circuit = bench.circuit(0);
    bench.advance_to(at(0.0));
    let info = bench.world.net.info(bench.world.ends[bench.ends[0].index()].socket);
    assert_eq!((info.unacked_segments, info.notsent_bytes, info.mss), (0, 0, 1448));
    assert_eq!(2 * 10 * 1448 / 543, 53);
    let expected = 2 * u64::from(info.cwnd_segments) * 1448 / 543;
    bench.queue(circuit, 1000);
    bench.world.settle();
    assert_eq!(bench.world.cell_hops(), expected);
    // Two milliseconds later acknowledgements have come back, and only what is then in flight or unsent counts against the windows.
    bench.advance_to(at(2.0));
    assert!(bench.world.cell_hops() > expected);
}

/// The other end doesn't read, and its window closes. KIST that knows what the socket holds stops at two congestion windows. Told nothing, each run adds as much
/// again, and KIST holds back no more than a scheduler without limit.
#[test]
fn kist_that_does_not_know_what_is_unsent_fills_the_socket() {
    let interval = SimDuration::from_millis(2);
    let waiting = |knows_unsent| {
        let mut bench =
            bench(ChannelScheduler::Kist { interval, client_interval: interval, socket_buffer_factor: 1.0, knows_unsent }, 1);
        let circuit = bench.circuit(0);
        let end = bench.ends[0];
        bench.world.ends[end.peer().index()].read_blocked = true;
        bench.advance_to(at(0.0));
        bench.queue(circuit, 5000);
        bench.world.settle();
        // A reader who stands still acknowledges after some tens of milliseconds.
        bench.advance_to(at(600.0));
        let info = bench.world.net.info(bench.world.ends[end.index()].socket);
        assert_eq!((info.unacked_segments, info.peer_window), (0, 0));
        (info.notsent_bytes, info.send_buffer, u64::from(2 * info.cwnd_segments * info.mss))
    };
    let (waits, _, two_windows) = waiting(true);
    // The last cell may begin before the limit and end beyond.
    assert!(waits < two_windows + 536, "{waits} bytes, {two_windows} are two windows");
    let (waits, buffer, _) = waiting(false);
    assert_eq!(waits, buffer, "only the buffer ends it");
}

/// A quiet relay forwards at once. After a run, the milliseconds that have begun since count: within the first one the timer is set to the other, and in the
/// second the interval of two is over.
#[test]
fn kist_runs_at_once_after_a_pause_and_then_when_its_interval_is_over() {
    for (second, run) in [(0.0, 2.0), (0.7, 1.7), (1.0, 2.0), (1.001, 1.001), (1.999, 1.999), (5.5, 5.5)] {
        let mut bench = bench(kist(), 1);
        let circuit = bench.circuit(0);
        bench.advance_to(at(0.0));
        bench.queue(circuit, 1);
        bench.world.settle();
        assert_eq!(bench.world.cell_hops(), 1, "the first cell does not wait");
        bench.advance_to(at(second));
        bench.queue(circuit, 1);
        bench.world.settle();
        if second < run {
            bench.advance_to(at(run - 0.001));
            assert_eq!(bench.world.cell_hops(), 1, "a cell {second} ms after the run, before {run} ms");
            bench.advance_to(at(run));
        }
        assert_eq!(bench.world.cell_hops(), 2, "a cell {second} ms after the run, at {run} ms");
    }
}

/// With a kernel that ticks each 4 ms, at 0, 4, 8 ms: what a run leaves waits for the next tick, not for 2 ms, and the timer is looked at each millisecond from when it
/// was set; a cell that comes when the second millisecond has begun still starts a run at once.
#[test]
fn with_a_kernels_ticks_the_timer_waits_for_the_next() {
    for (first, second, run) in [(0.0, 0.0, 4.0), (2.3, 2.3, 4.3), (0.0, 0.7, 4.7), (3.5, 3.5, 4.5), (0.0, 1.001, 1.001)] {
        let mut bench = bench(kist(), 1);
        let clock = CoarseClock { tick: SimDuration::from_millis(4), phase: SimDuration::ZERO };
        bench.world.nodes[Bench::RELAY.index()].clock = Some(clock);
        let circuit = bench.circuit(0);
        bench.advance_to(at(first));
        bench.queue(circuit, 1);
        bench.world.settle();
        assert_eq!(bench.world.cell_hops(), 1, "the first cell does not wait");
        bench.advance_to(at(second));
        bench.queue(circuit, 1);
        bench.world.settle();
        if second < run {
            bench.advance_to(at(run - 0.001));
            assert_eq!(bench.world.cell_hops(), 1, "a cell at {second} ms after a run at {first} ms, before {run} ms");
            bench.advance_to(at(run));
        }
        assert_eq!(bench.world.cell_hops(), 2, "a cell at {second} ms after a run at {first} ms, at {run} ms");
    }
}

/// The timer that the second cell sets goes off at 1.7 ms. A third, of another channel, moves it: to 1.9 ms if it comes at 0.9 ms. One that comes at 1.1 ms, when the
/// second millisecond has begun, starts a run at once, which takes both.
#[test]
fn each_channel_that_becomes_pending_sets_kists_timer_anew() {
    for (third, run) in [(0.9, 1.9), (1.1, 1.1)] {
        let mut bench = bench(kist(), 3);
        let circuits: Vec<_> = (0..3).map(|channel| bench.circuit(channel)).collect();
        for (time, &circuit) in [0.0, 0.7, third].into_iter().zip(&circuits) {
            bench.advance_to(at(time));
            bench.queue(circuit, 1);
            bench.world.settle();
        }
        if third < run {
            bench.advance_to(at(run - 0.001));
            assert_eq!(bench.world.cell_hops(), 1, "a third cell after {third} ms, before {run} ms");
            bench.advance_to(at(run));
        }
        assert_eq!(bench.world.cell_hops(), 3, "a third cell after {third} ms, at {run} ms");
    }
}

/// One run serves all channels, one cell at a time, and each has a limit of its own.
#[test]
fn a_run_of_kist_serves_every_channel_up_to_its_limit() {
    let mut bench = bench(kist(), 5);
    let circuits: Vec<_> = (0..5).map(|channel| bench.circuit(channel)).collect();
    bench.advance_to(at(0.0));
    for (index, &circuit) in circuits.iter().enumerate() {
        bench.queue(circuit, if index == 2 { 7 } else { 1000 });
    }
    let limit = |bench: &Bench, channel: usize| {
        let info = bench.world.net.info(bench.world.ends[bench.ends[channel].index()].socket);
        2 * u64::from(info.cwnd_segments) * 1448 / 543
    };
    let limits: Vec<u64> = (0..5).map(|channel| if channel == 2 { 7 } else { limit(&bench, channel) }).collect();
    bench.world.settle();
    let left: Vec<u64> = circuits.iter().map(|&circuit| u64::from(queue_len(&bench, circuit))).collect();
    let moved: Vec<u64> = left.iter().enumerate().map(|(index, left)| if index == 2 { 7 - left } else { 1000 - left }).collect();
    assert_eq!(moved, limits);
}

/// Cells of two channels come in turn. Whenever the run leaves a channel with more than eight cells in its outbuf (4,112 bytes), it writes that at once: nine cells
/// in records of 4,048 and 578 bytes, and at the end of the run the rest. In one write at the end 30 cells would be three full records and a fourth.
#[test]
fn a_run_of_kist_writes_a_long_outbuf_when_it_turns_to_another_channel() {
    for (cells, expected) in [(30, vec![4048, 578, 4048, 578, 4048, 578, 1542]), (8, vec![4048, 64])] {
        let mut bench = bench(kist(), 2);
        let circuits = [0, 1].map(|channel| bench.circuit(channel));
        bench.advance_to(at(0.0));
        for circuit in circuits {
            bench.queue(circuit, cells);
        }
        bench.world.settle();
        for end in &bench.ends {
            let records: Vec<u16> = bench.world.sent.records_of(bench.world.ends[end.index()].sent).collect();
            assert_eq!(records, expected, "{cells} cells each");
        }
    }
}

/// KIST-lite asks the outbuf instead of the kernel: 32 KiB, that is 64 cells, if it is empty.
#[test]
fn a_run_of_kist_lite_fills_an_outbuf() {
    let mut bench = bench(kist_lite(), 1);
    let circuit = bench.circuit(0);
    bench.advance_to(at(0.0));
    bench.queue(circuit, 1000);
    bench.world.run_scheduler(Bench::RELAY);
    assert_eq!(bench.world.cell_hops(), 64);
}

/// Vanilla moves 64 cells into an empty outbuf at once; as libevent writes it out, below 16 KiB it is filled again, until the socket takes no more.
#[test]
fn vanilla_fills_the_outbuf_whenever_it_falls_below_the_low_mark() {
    let mut bench = bench(ChannelScheduler::Vanilla, 1);
    let circuit = bench.circuit(0);
    bench.advance_to(at(0.0));
    bench.queue(circuit, 100_000);
    bench.world.run_scheduler(Bench::RELAY);
    assert_eq!(bench.world.cell_hops(), 64);
    bench.world.settle();
    let end = &bench.world.ends[bench.ends[0].index()];
    let outbuf = u64::from(end.outbuf.len());
    assert!((16_384 - 16_448..=32_768 + 513).contains(&(outbuf as i64)), "{outbuf} bytes left in the outbuf");
    assert!(!bench.world.net.is_writable(end.socket), "the socket is full");
    assert_eq!(bench.world.cell_hops() + u64::from(queue_len(&bench, circuit)), 100_000);
}

/// Without a scheduler one cell goes to an empty outbuf; each write that leaves less than 16 KiB fills it to 32 KiB, 64 cells. A write takes 16,448 bytes, so
/// that every other one leaves 16,448, which is not less: the next 64 cells are chosen when the outbuf is empty.
#[test]
fn without_a_scheduler_every_other_write_chooses_64_cells() {
    let mut bench = bench(ChannelScheduler::Refill, 1);
    let circuit = bench.circuit(0);
    bench.advance_to(at(0.0));
    bench.queue(circuit, 1000);
    assert_eq!(bench.world.cell_hops(), 1, "primed");
    let moved = [(); 6].map(|()| {
        bench.world.write_channel(bench.ends[0]);
        (bench.world.cell_hops(), bench.world.ends[bench.ends[0].index()].outbuf.len())
    });
    assert_eq!(moved, [(65, 32_896), (65, 16_448), (129, 32_896), (129, 16_448), (193, 32_896), (193, 16_448)]);
}

/// Nothing holds cells back but the socket: what does not fit its buffer waits in the outbuf and in the queue.
#[test]
fn without_a_scheduler_the_socket_takes_all_it_can() {
    let mut bench = bench(ChannelScheduler::Refill, 2);
    let circuits = [0, 1].map(|channel| bench.circuit(channel));
    bench.advance_to(at(0.0));
    for circuit in circuits {
        bench.queue(circuit, 5000);
    }
    bench.world.settle();
    for (&circuit, &end) in circuits.iter().zip(&bench.ends) {
        let end = &bench.world.ends[end.index()];
        assert!(end.outbuf.len() > 0 && !bench.world.net.is_writable(end.socket), "the socket is full");
        assert!(queue_len(&bench, circuit) > 0);
        let info = bench.world.net.info(end.socket);
        assert!(info.notsent_bytes > 2 * u64::from(info.cwnd_segments) * 1448, "more than KIST would have given it");
    }
}

fn queue_len(bench: &Bench, circuit: crate::ids::CircuitId) -> u32 {
    bench.world.circuits[circuit.index()].hops[1].sides[1].queue.len
}

/// KIST's second run waits for its interval, vanilla's does not: which of them a relay has may differ from the others'.
#[test]
fn some_relays_have_a_scheduler_of_their_own() {
    let hops = |apart: Option<(u32, ChannelScheduler)>| {
        let some_relays = apart.map(|(relay, channel_scheduler)| SomeRelays {
            relays: vec![HostId(relay)],
            scheduling: Scheduling { channel_scheduler, ..Scheduling::default() },
        });
        let scheduling = Scheduling { channel_scheduler: kist(), ..Scheduling::default() };
        let mut bench = Bench::new(Settings { scheduling, some_relays, ..Settings::default() }, 2);
        // A run of KIST now; the next one, with the second cell, is 2 ms away.
        let circuit = bench.circuit(0);
        let mut sent = Vec::new();
        for _ in 0..2 {
            bench.queue(circuit, 1);
            bench.world.settle();
            sent.push(bench.world.cell_hops());
        }
        sent
    };
    assert_eq!(hops(None), [1, 1]);
    assert_eq!(hops(Some((1, ChannelScheduler::Vanilla))), [1, 1], "it is another relay's");
    assert_eq!(hops(Some((0, ChannelScheduler::Vanilla))), [1, 2]);
    assert_eq!(hops(Some((0, ChannelScheduler::Refill)))[0], 1, "a cell that finds the outbuf empty goes there at once");
}
