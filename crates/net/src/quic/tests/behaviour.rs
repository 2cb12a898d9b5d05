//! Single mechanisms, seen in the packets that two ends exchange.

use super::harness::Pair;
use super::{at, millis, textbook};
use crate::quic::{ConnectionState, Frame, Level, Packet, QuicConfig};
use crate::tcp::{BufferLimits, Effects};
use onionlab_quantities::{Bandwidth, SimDuration, SimTime};

/// Datagrams that an end has sent: instant in ms, bytes of UDP payload, levels of the packets.
fn sent(pair: &Pair, side: usize) -> Vec<(u64, u32, Vec<Level>)> {
    let sent = pair.trace.iter().flatten().filter(|(_, from, _)| *from == side);
    sent.map(|(now, _, packet)| (now.as_micros() / 1000, packet.datagram_bytes(), packet.packets().map(Packet::level).collect()))
        .collect()
}

/// Stream frames of one end: instant in ms, stream, offset, length.
fn stream_frames(pair: &Pair, side: usize) -> Vec<(u64, u32, u64, u16)> {
    let frames =
        pair.data_sent(side).into_iter().flat_map(|(micros, frames)| frames.into_iter().map(move |frame| (micros, frame)));
    frames
        .filter_map(|(micros, frame)| match frame {
            Frame::Stream { stream, offset, len, .. } => Some((micros / 1000, stream, offset, len)),
            _ => None,
        })
        .collect()
}

/// RFC 9000, sections 7 and 14.1: the first datagram each way is padded to 1200 bytes; data leaves after one round trip together with the
/// client's Finished, and the handshake leaves no timer but those of an open connection.
#[test]
fn data_leaves_after_one_round_trip() {
    let mut pair = Pair::new(QuicConfig::standard(), millis(50), 1);
    pair.trace = Some(Vec::new());
    pair.open(0);
    pair.ends[0].streams[0].to_write = 1000;
    pair.run_until(at(1000));
    let (client, server) = (sent(&pair, 0), sent(&pair, 1));
    assert_eq!(client[0], (0, 1200, vec![Level::Initial]));
    assert_eq!(server[0], (50, 1200, vec![Level::Initial, Level::Handshake]));
    assert_eq!((server[1].0, &server[1].2), (50, &vec![Level::Handshake]));
    // An acknowledgement of the Initial, another with the Finished, and the data.
    assert_eq!((client[1].0, client[1].1, client[1].2.contains(&Level::Initial)), (100, 1200, true), "{client:?}");
    let first_data = pair.data_sent(0)[0].0;
    assert_eq!(first_data / 1000, 100);
    let [client, server] = [0, 1].map(|side: usize| pair.ends[side].streams[0].connected_at.unwrap().as_micros() / 1000);
    assert_eq!((client, server), (100, 150));
    assert_eq!(pair.ends[1].streams[0].last_read_at, at(150));
    assert!(pair.ends.iter().all(|end| end.quic.confirmed && end.quic.early.is_none() && end.quic.loss_at == SimTime::MAX));
}

#[test]
fn a_later_stream_costs_no_round_trip() {
    let mut pair = Pair::connected(QuicConfig::standard(), millis(50), 1);
    for side in [0, 1] {
        let begins = pair.now;
        let stream = pair.open(side);
        pair.ends[side].streams[stream].to_write = 500;
        let end = begins + millis(60);
        pair.run_until(end);
        assert_eq!(pair.ends[side].streams[stream].connected_at, Some(begins));
        assert_eq!(pair.ends[1 - side].streams[stream].connected_at, Some(begins + millis(50)));
        assert_eq!(pair.ends[1 - side].streams[stream].last_read_at, begins + millis(50));
    }
}

/// RFC 9000, section 8.1: at most three times what came, until the client has answered, which costs a round trip.
#[test]
fn a_server_with_a_long_certificate_waits_for_the_client() {
    for (flight, established) in [(2000, 100), (6000, 200)] {
        let mut pair = Pair::new(QuicConfig { server_flight: flight, ..QuicConfig::standard() }, millis(50), 1);
        pair.trace = Some(Vec::new());
        pair.open(0);
        pair.run_until(at(99));
        let bytes: u32 = sent(&pair, 1).iter().map(|sent| sent.1).sum();
        assert!(bytes <= 3600, "{bytes}");
        pair.run_until(at(1000));
        assert_eq!(pair.ends[0].streams[0].connected_at, Some(at(established)), "a flight of {flight} bytes");
    }
}

/// RFC 9002, section 6.2.2: a round trip of 333 ms is assumed, so the first probe time-out is 333 + 4 * 166.5 ms, and it doubles.
#[test]
fn a_lost_first_flight_goes_again_after_999_ms_and_twice_that() {
    let mut pair = Pair::new(QuicConfig::standard(), millis(10), 1);
    pair.trace = Some(Vec::new());
    pair.open(0);
    pair.wires[0].loss = 1.0;
    pair.run_until(at(2996));
    pair.wires[0].loss = 0.0;
    pair.run_until(at(3000));
    let mut times: Vec<_> = sent(&pair, 0).iter().map(|sent| sent.0).collect();
    times.dedup();
    assert_eq!(times, [0, 999, 2997]);
    pair.run_until(at(3050));
    assert_eq!(pair.ends[0].streams[0].connected_at, Some(at(3017)));
}

/// Every second packet at once, a single one after 25 ms (RFC 9000, section 13.2), both with data if there is some.
#[test]
fn acknowledgements_are_withheld_for_25_ms_or_a_second_packet() {
    let mut pair = Pair::connected(QuicConfig::standard(), millis(10), 1);
    let acks = |pair: &Pair| sent(pair, 1).len();
    pair.trace = Some(Vec::new());
    let begins = pair.now;
    pair.ends[0].streams[0].to_write = 500;
    pair.run_until(begins + millis(34));
    assert_eq!(acks(&pair), 0);
    pair.run_until(begins + millis(36));
    assert_eq!(acks(&pair), 1, "after 10 ms of path and 25 ms of delay");
    let begins = pair.now;
    pair.ends[0].streams[0].to_write = 2 * 1420;
    pair.run_until(begins + millis(11));
    assert_eq!(acks(&pair), 2, "a second packet is acknowledged at once");
    // The withheld time is not counted as round trip.
    assert!(pair.ends[0].quic.rtt.smoothed <= millis(25), "{:?}", pair.ends[0].quic.rtt);
}

#[test]
fn streams_take_turns_and_share_packets() {
    let mut pair = Pair::connected(QuicConfig::standard(), millis(10), 1);
    for _ in 0..2 {
        pair.open(0);
    }
    pair.trace = Some(Vec::new());
    for stream in 0..3 {
        pair.ends[0].streams[stream].to_write = 514;
    }
    let end = pair.now + millis(1);
    pair.run_until(end);
    let packets = pair.data_sent(0);
    let shape: Vec<Vec<(u32, u16)>> = packets
        .iter()
        .map(|(_, frames)| {
            frames
                .iter()
                .filter_map(|frame| if let Frame::Stream { stream, len, .. } = frame { Some((*stream, *len)) } else { None })
                .collect()
        })
        .collect();
    // A packet has 1426 bytes for frames, of which the first two take 518 each (type, ID, length; no offset), then 518 each.
    assert_eq!(shape, [vec![(0, 514), (4, 514), (8, 386)], vec![(8, 128)]]);
    pair.trace = Some(Vec::new());
    for stream in 0..3 {
        pair.ends[0].streams[stream].to_write = 4000;
    }
    let end = pair.now + millis(1);
    pair.run_until(end);
    let order: Vec<_> = stream_frames(&pair, 0).iter().map(|frame| frame.1).collect();
    assert_eq!(order[..6], [0, 4, 8, 0, 4, 8], "a packet each in turn");
}

/// What is lost of one stream holds up that stream alone.
#[test]
fn a_loss_of_one_stream_does_not_delay_another() {
    let mut pair = Pair::connected(textbook(), millis(50), 1);
    pair.open(0);
    let begins = pair.now;
    // The first datagram is of stream 0 alone, the second of stream 1 alone.
    pair.wires[0].lose = vec![0];
    for stream in 0..2 {
        pair.ends[0].streams[stream].to_write = 1420;
        let end = pair.now + millis(1);
        pair.run_until(end);
    }
    pair.ends[0].streams[0].to_write = 1420;
    pair.run_until(begins + millis(60));
    assert_eq!((pair.delivered(0), pair.delivered(1)), (0, 1420));
    assert_eq!(pair.ends[1].streams[1].last_read_at, begins + millis(51));
    // Of stream 0 the second datagram lies behind the hole.
    assert_eq!(pair.ends[1].quic.bytes_beyond(0), 1420);
    pair.run_until(begins + millis(400));
    assert_eq!(pair.delivered(0), 2840);
    assert!(pair.ends[1].streams[0].last_read_at > begins + millis(150));
    assert_eq!(pair.ends[1].quic.bytes_beyond(0), 0);
}

#[test]
fn a_reader_who_waits_stops_its_stream_and_not_the_others() {
    let cfg = QuicConfig {
        stream_window: BufferLimits::fixed(20_000),
        connection_window: BufferLimits::fixed(50_000),
        ..QuicConfig::standard()
    };
    let mut pair = Pair::connected(cfg, millis(10), 1);
    pair.open(0);
    pair.ends[1].streams[0].holds_back = true;
    for stream in 0..2 {
        pair.ends[0].streams[stream].to_write = 200_000;
    }
    pair.run_until(at(5000));
    assert_eq!(pair.ends[1].quic.readable(pair.ends[1].streams[0].id), 20_000);
    assert_eq!(pair.delivered(1), 200_000);
    pair.ends[1].streams[0].holds_back = false;
    pair.run_until(at(10_000));
    assert_eq!(pair.delivered(0), 200_000);
}

#[test]
fn readers_who_wait_stop_the_connection_at_its_window() {
    let cfg = QuicConfig { connection_window: BufferLimits::fixed(50_000), ..QuicConfig::standard() };
    let mut pair = Pair::connected(cfg, millis(10), 1);
    pair.open(0);
    for stream in 0..2 {
        pair.ends[0].streams[stream].to_write = 200_000;
        pair.ends[1].streams[stream].holds_back = true;
    }
    pair.run_until(at(5000));
    let readable = |pair: &Pair| [0, 1].map(|stream: usize| pair.ends[1].quic.readable(pair.ends[1].streams[stream].id));
    assert_eq!(readable(&pair).iter().sum::<u64>(), 50_000);
    for stream in &mut pair.ends[1].streams {
        stream.holds_back = false;
    }
    pair.run_until(at(10_000));
    assert_eq!((pair.delivered(0), pair.delivered(1)), (200_000, 200_000));
}

/// A writer at a full window has nothing to send, so that nothing but the offer itself, made again, lets it go on (RFC 9000, section 4.1).
#[test]
fn a_lost_offer_is_made_again() {
    let small = BufferLimits::fixed(20_000);
    let large = BufferLimits::fixed(1 << 20);
    for (stream_window, connection_window) in [(small, large), (large, small)] {
        let cfg = QuicConfig { stream_window, connection_window, ..QuicConfig::standard() };
        let mut pair = Pair::connected(cfg, millis(10), 1);
        pair.ends[0].streams[0].to_write = 50_000;
        pair.ends[1].streams[0].holds_back = true;
        pair.run_until(at(2000));
        assert_eq!(pair.ends[1].quic.readable(pair.ends[1].streams[0].id), 20_000);
        pair.ends[1].streams[0].holds_back = false;
        let lost = pair.wires[1].dropped;
        pair.wires[1].loss = 1.0;
        pair.run_until(at(2005));
        assert!(pair.wires[1].dropped > lost, "the offer was lost");
        assert_eq!(pair.delivered(0), 20_000);
        pair.wires[1].loss = 0.0;
        pair.run_until(at(4000));
        assert_eq!(pair.delivered(0), 50_000);
    }
}

/// As with TCP, a third of the buffer has to be free before a writer who met a full one is told.
#[test]
fn a_writer_is_told_when_a_third_of_the_buffer_is_free() {
    let mut pair = Pair::connected(QuicConfig { send_buffer: BufferLimits::fixed(30_000), ..textbook() }, millis(50), 1);
    pair.wires[0].rate = Bandwidth::from_bits_per_sec(10_000_000);
    let id = pair.ends[0].streams[0].id;
    let left = |pair: &Pair| pair.ends[0].quic.streams.get(id).unwrap().buffered();
    assert_eq!(pair.ends[0].quic.write(id, 100_000), 30_000);
    pair.ends[0].streams[0].written = 30_000;
    pair.ends[0].streams[0].effects = Effects::NONE;
    let mut before = 30_000;
    while !pair.ends[0].streams[0].effects.has(Effects::WRITABLE) {
        let buffered = left(&pair);
        assert!(buffered > 20_000, "not told with {buffered} bytes left");
        before = buffered;
        assert!(pair.step(at(5000)));
    }
    let after = left(&pair);
    assert!(before > 20_000 && after <= 20_000, "{before} {after}");
}

#[test]
fn windows_grow_where_the_path_needs_it() {
    let mut pair = Pair::connected(QuicConfig { pacing: false, ..QuicConfig::standard() }, millis(100), 1);
    pair.ends[0].streams[0].to_write = 200_000_000;
    pair.run_until(at(8000));
    let info = pair.ends[0].quic.info(&pair.cfg, 0);
    assert!(info.peer_window > (6 << 20) * 3 / 4, "{info:?}");
    assert_eq!(info.send_buffer, 4 << 20);
}

#[test]
fn a_finished_stream_is_forgotten_and_the_connection_stays() {
    let mut pair = Pair::connected(QuicConfig::standard(), millis(10), 1);
    pair.ends[0].streams[0].to_write = 100_000;
    pair.ends[0].streams[0].finish_when_written = true;
    pair.run_until(at(2000));
    assert_eq!(pair.delivered(0), 100_000);
    assert!(pair.ends[1].streams[0].closed_at.is_some());
    // The half that is open still carries data.
    pair.ends[1].streams[0].to_write = 50_000;
    pair.ends[1].streams[0].finish_when_written = true;
    pair.run_until(at(4000));
    assert_eq!(pair.ends[0].streams[0].read, 50_000);
    for end in &mut pair.ends {
        end.quic.release(0);
        assert!(!end.quic.has_stream(0));
        assert_eq!(end.quic.state(), ConnectionState::Established);
    }
    let stream = pair.open(0);
    assert_eq!(pair.ends[0].streams[stream].id, 4, "numbers are not used again");
}

#[test]
fn a_reset_stream_ends_at_both_ends_and_harms_no_other() {
    let mut pair = Pair::connected(QuicConfig::standard(), millis(10), 1);
    pair.open(0);
    for stream in 0..2 {
        pair.ends[0].streams[stream].to_write = 300_000;
    }
    pair.run_until(at(190));
    let before = pair.delivered(0);
    assert!(before > 0 && before < 300_000);
    pair.ends[0].streams[0].to_write = 0;
    pair.ends[0].quic.reset(0);
    pair.run_until(at(3000));
    assert!(pair.ends[1].streams[0].reset && !pair.ends[0].streams[0].reset);
    assert_eq!(pair.delivered(1), 300_000);
    for end in &mut pair.ends {
        end.quic.release(0);
        assert!(!end.quic.has_stream(0));
    }
}

#[test]
fn a_connection_without_streams_ends_silently_after_30_s() {
    let mut pair = Pair::connected(QuicConfig::standard(), millis(10), 1);
    for end in &mut pair.ends {
        end.quic.reset(0);
    }
    let begins = pair.now;
    pair.run_until(begins + SimDuration::from_secs(1));
    for end in &mut pair.ends {
        end.quic.release(0);
    }
    pair.trace = Some(Vec::new());
    pair.run_until(begins + SimDuration::from_secs(29));
    assert!(pair.ends.iter().all(|end| end.quic.state() == ConnectionState::Established));
    pair.run_until(begins + SimDuration::from_secs(31));
    assert!(pair.ends.iter().all(|end| end.quic.state() == ConnectionState::Closed && end.quic.deadline() == SimTime::MAX));
    assert!(sent(&pair, 0).is_empty() && sent(&pair, 1).is_empty());
}

#[test]
fn an_open_stream_keeps_its_connection_unless_told_otherwise() {
    for keep_alive in [Some(SimDuration::from_secs(15)), None] {
        let mut pair = Pair::connected(QuicConfig { keep_alive, ..QuicConfig::standard() }, millis(10), 1);
        pair.run_until(at(200_000));
        let closed = pair.ends.iter().all(|end| end.quic.state() == ConnectionState::Closed);
        assert_eq!(closed, keep_alive.is_none());
        assert_eq!(pair.ends.iter().all(|end| end.streams[0].effects.has(Effects::RESET)), keep_alive.is_none());
    }
}

#[test]
fn nobody_there_is_a_reset_after_the_idle_time_out() {
    let mut pair = Pair::new(QuicConfig::standard(), millis(10), 1);
    pair.wires[0].loss = 1.0;
    pair.open(0);
    pair.run_until(at(29_900));
    assert!(!pair.ends[0].streams[0].reset);
    pair.run_until(at(30_100));
    assert!(pair.ends[0].streams[0].reset);
    assert_eq!(pair.ends[0].quic.deadline(), SimTime::MAX);
}

#[test]
fn closing_tells_the_other_end() {
    let mut pair = Pair::connected(QuicConfig::standard(), millis(10), 1);
    pair.ends[0].streams[0].to_write = 1_000_000;
    let end = pair.now + millis(30);
    pair.run_until(end);
    pair.ends[0].streams[0].to_write = 0;
    pair.ends[0].quic.close();
    pair.run_until(at(1000));
    assert!(pair.ends.iter().all(|end| end.streams[0].reset && end.quic.state() == ConnectionState::Closed));
    assert_eq!(pair.next_event(), SimTime::MAX);
}

/// RFC 9002, section 7.7: bursts of ten datagrams and one at most, where without pacing a whole window leaves at once.
#[test]
fn the_pacer_spreads_a_window() {
    let longest_burst = |pacing: bool| {
        let mut pair = Pair::connected(QuicConfig { pacing, ..QuicConfig::standard() }, millis(50), 1);
        pair.ends[0].streams[0].to_write = 600_000;
        pair.run_until(at(560));
        // Nothing is sent for a round trip; then all that the window allows is ready.
        pair.ends[0].streams[0].to_write = 0;
        pair.run_until(at(1500));
        let cwnd = pair.ends[0].quic.connection_info().cwnd;
        assert!(cwnd > 60 * 1452, "{cwnd}");
        pair.trace = Some(Vec::new());
        pair.ends[0].streams[0].to_write = 60 * 1420;
        pair.run_until(at(1590));
        let times: Vec<_> = pair.data_sent(0).iter().map(|sent| sent.0).collect();
        assert!(times.len() >= 60, "within a round trip: {}", times.len());
        times.iter().map(|time| times.iter().filter(|other| *other == time).count()).max().unwrap()
    };
    assert!(longest_burst(true) <= 11);
    assert!(longest_burst(false) >= 60);
}

/// Otherwise a writer who was told that there is room, and then has something, would wait for a call that does not come.
#[test]
fn a_smaller_window_takes_no_room_away() {
    let mut pair = Pair::connected(QuicConfig { send_buffer: BufferLimits::new(16_000, 4 << 20), ..textbook() }, millis(50), 1);
    pair.ends[0].streams[0].to_write = 1_000_000;
    pair.run_until(at(1000));
    let before = pair.ends[0].quic.info(&pair.cfg, 0);
    pair.wires[0].loss = 1.0;
    pair.ends[0].streams[0].to_write = 100_000;
    pair.run_until(at(3000));
    pair.wires[0].loss = 0.0;
    pair.run_until(at(4000));
    let after = pair.ends[0].quic.info(&pair.cfg, 0);
    assert!(after.cwnd_segments < before.cwnd_segments, "{after:?}");
    assert!(before.send_buffer > 200_000 && after.send_buffer >= before.send_buffer, "{before:?} {after:?}");
}

#[test]
fn info_divides_the_window_between_busy_streams() {
    let mut pair = Pair::connected(textbook(), millis(50), 1);
    for _ in 0..2 {
        pair.open(0);
    }
    for stream in 0..2 {
        pair.ends[0].streams[stream].to_write = 40_000;
    }
    let end = pair.now + millis(10);
    pair.run_until(end);
    let info = |stream: usize| pair.ends[0].quic.info(&pair.cfg, pair.ends[0].streams[stream].id);
    assert_eq!((info(0).cwnd_segments, info(1).cwnd_segments), (5, 5));
    assert_eq!(info(0).unacked_bytes + info(0).notsent_bytes, 40_000);
    assert_eq!(info(0).unacked_segments + info(1).unacked_segments, 10);
    // One that is quiet would be the third.
    assert_eq!((info(2).cwnd_segments, info(2).notsent_bytes, info(2).unacked_segments), (4, 0, 0));
    assert_eq!(info(0).mss, 1452);
    assert_eq!(info(0).min_rtt, Some(millis(100)));
}
