//! Bulk transfers by quinn-proto over a simulated path, to be compared with this crate's QUIC: see README.md.

use bytes::BytesMut;
use quinn_proto::congestion::NewRenoConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event, ServerConfig, StreamId,
    TransportConfig, VarInt,
};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

const HEADERS: u64 = 28;

/// A path in one direction: a queue before a wire of a certain rate, then a delay, then random loss.
struct Wire {
    rate: Option<u64>,
    queue: u64,
    delay: Duration,
    loss: f64,
    seed: u64,
    sent: u64,
    free_at: Duration,
    in_flight: Vec<(Duration, Vec<u8>)>,
}

fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Wire {
    fn new(rate: Option<u64>, queue: u64, seed: u64) -> Self {
        Self { rate, queue, delay: Duration::from_millis(50), loss: 0.0, seed, sent: 0, free_at: Duration::ZERO, in_flight: Vec::new() }
    }

    fn send(&mut self, now: Duration, data: &[u8]) {
        let bytes = data.len() as u64 + HEADERS;
        self.sent += 1;
        let random = (mix(self.seed ^ mix(self.sent)) >> 11) as f64 / (1_u64 << 53) as f64;
        if random < self.loss {
            return;
        }
        let mut leaves = now;
        if let Some(rate) = self.rate {
            let waiting = self.free_at.saturating_sub(now).as_nanos() as u64 * rate / 8_000_000_000;
            if waiting + bytes > self.queue {
                return;
            }
            leaves = self.free_at.max(now) + Duration::from_nanos(bytes * 8_000_000_000 / rate);
            self.free_at = leaves;
        }
        self.in_flight.push((leaves + self.delay, data.to_vec()));
    }
}

struct Side {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    read: u64,
}

struct Run {
    base: Instant,
    now: Duration,
    sides: [Side; 2],
    wires: [Wire; 2],
    stream: Option<StreamId>,
    connected: bool,
    left: u64,
}

fn addresses() -> [SocketAddr; 2] {
    ["10.0.0.1:1000".parse().unwrap(), "10.0.0.2:2000".parse().unwrap()]
}

impl Run {
    fn new(rate: Option<u64>, queue: u64, seed: u64) -> Self {
        let key = rcgen::generate_simple_self_signed(vec!["peer".into()]).unwrap();
        let certificate = key.cert.der().clone();
        let private = rustls::pki_types::PrivateKeyDer::try_from(key.key_pair.serialize_der()).unwrap();
        let transport = || {
            let mut config = TransportConfig::default();
            let mut reno = NewRenoConfig::default();
            reno.initial_window(14_520);
            config
                .congestion_controller_factory(Arc::new(reno))
                .mtu_discovery_config(None)
                .initial_mtu(1452)
                .send_window(64 << 20)
                .stream_receive_window(VarInt::from_u32(256 << 20))
                .receive_window(VarInt::from_u32(1 << 30))
                .max_idle_timeout(None);
            Arc::new(config)
        };
        let mut server = ServerConfig::with_single_cert(vec![certificate.clone()], private).unwrap();
        server.transport_config(transport());
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate).unwrap();
        let mut client = ClientConfig::with_root_certificates(Arc::new(roots)).unwrap();
        client.transport_config(transport());
        let endpoint = |server: Option<Arc<ServerConfig>>, seed: u8| {
            Endpoint::new(Arc::new(EndpointConfig::default()), server, true, Some([seed; 32]))
        };
        let base = Instant::now();
        let mut first = endpoint(None, 1);
        let connection = first.connect(base, client, addresses()[1], "peer").unwrap();
        Self {
            base,
            now: Duration::ZERO,
            sides: [
                Side { endpoint: first, connection: Some(connection), read: 0 },
                Side { endpoint: endpoint(Some(Arc::new(server)), 2), connection: None, read: 0 },
            ],
            wires: [Wire::new(rate, queue, seed), Wire::new(rate, queue, seed + 1)],
            stream: None,
            connected: false,
            left: 0,
        }
    }

    fn instant(&self) -> Instant {
        self.base + self.now
    }

    fn application(&mut self, side: usize) {
        let Some((_, connection)) = &mut self.sides[side].connection else { return };
        while let Some(event) = connection.poll() {
            if let Event::Connected = event {
                self.connected |= side == 0;
            }
            if let Event::ConnectionLost { reason } = event {
                panic!("lost: {reason}");
            }
        }
        if side == 0 && self.left > 0 {
            let id = *self.stream.get_or_insert_with(|| connection.streams().open(Dir::Uni).unwrap());
            let zeros = [0; 65_536];
            while self.left > 0 {
                match connection.send_stream(id).write(&zeros[..self.left.min(65_536) as usize]) {
                    Ok(taken) => self.left -= taken as u64,
                    Err(_) => break,
                }
            }
        }
        if side == 1 {
            self.stream = self.stream.or_else(|| connection.streams().accept(Dir::Uni));
            if let Some(id) = self.stream {
                let _ = connection.streams().accept(Dir::Uni);
                let mut stream = connection.recv_stream(id);
                if let Ok(mut chunks) = stream.read(true) {
                    while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
                        self.sides[1].read += chunk.bytes.len() as u64;
                    }
                    let _ = chunks.finalize();
                }
            }
        }
    }

    fn pump(&mut self) {
        let now = self.instant();
        for side in 0..2 {
            self.application(side);
            let Side { endpoint, connection, .. } = &mut self.sides[side];
            let Some((handle, connection)) = connection else { continue };
            while let Some(event) = connection.poll_endpoint_events() {
                if let Some(event) = endpoint.handle_event(*handle, event) {
                    connection.handle_event(event);
                }
            }
            let mut buffer = Vec::new();
            while let Some(transmit) = connection.poll_transmit(now, 1, &mut buffer) {
                self.wires[side].send(self.now, &buffer[..transmit.size]);
                buffer.clear();
            }
        }
    }

    fn arrive(&mut self, to: usize, data: &[u8]) {
        let now = self.instant();
        let from = addresses()[1 - to];
        let side = &mut self.sides[to];
        let mut answer = Vec::new();
        match side.endpoint.handle(now, from, None, None, BytesMut::from(data), &mut answer) {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut side.connection {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                side.connection = Some(side.endpoint.accept(incoming, now, &mut answer, None).unwrap_or_else(|_| panic!("refused")));
            }
            _ => {}
        }
    }

    fn run_until(&mut self, end: Duration, mut done: impl FnMut(&Self) -> bool) {
        loop {
            self.pump();
            if done(self) {
                return;
            }
            let mut next = end;
            for side in 0..2 {
                if let Some((_, connection)) = &mut self.sides[side].connection
                    && let Some(at) = connection.poll_timeout()
                {
                    next = next.min(at.saturating_duration_since(self.base));
                }
                for (at, _) in &self.wires[side].in_flight {
                    next = next.min(*at);
                }
            }
            self.now = self.now.max(next);
            if next >= end {
                return;
            }
            let now = self.instant();
            for side in 0..2 {
                let (due, later) = std::mem::take(&mut self.wires[side].in_flight).into_iter().partition(|(at, _)| *at <= self.now);
                self.wires[side].in_flight = later;
                let mut due: Vec<(Duration, Vec<u8>)> = due;
                due.sort_by_key(|packet| packet.0);
                for (_, data) in due {
                    self.arrive(1 - side, &data);
                    self.application(1 - side);
                }
                if let Some((_, connection)) = &mut self.sides[side].connection
                    && connection.poll_timeout().is_some_and(|at| at <= now)
                {
                    connection.handle_timeout(now);
                }
            }
        }
    }
}

/// Connected and quiet at one second.
fn ready(rate: Option<u64>, queue: u64, seed: u64) -> Run {
    let mut run = Run::new(rate, queue, seed);
    run.run_until(Duration::from_secs(1), |_| false);
    assert!(run.connected);
    run
}

fn main() {
    println!("# kind\trate_bits\tqueue_bytes\tloss\tseed_or_bytes\tresult");
    // When so many bytes were delivered, in microseconds from the first write.
    for (rate, queue) in [(None, 0), (Some(10_000_000), 1_000_000), (Some(10_000_000), 62_500), (Some(50_000_000), 625_000)] {
        for bytes in [20_000_u64, 200_000, 2_000_000, 20_000_000] {
            let mut run = ready(rate, queue, 1);
            run.left = bytes;
            run.run_until(Duration::from_secs(300), |run| run.sides[1].read >= bytes);
            println!("time\t{}\t{queue}\t0\t{bytes}\t{}", rate.unwrap_or(0), (run.now - Duration::from_secs(1)).as_micros());
        }
    }
    // Bytes delivered between 20 s and 120 s after the first write.
    for loss in [0.001, 0.005, 0.01, 0.03] {
        for seed in 0..8 {
            let mut run = ready(None, 0, 1000 * seed);
            run.wires[0].loss = loss;
            run.left = u64::MAX / 4;
            run.run_until(Duration::from_secs(21), |_| false);
            let before = run.sides[1].read;
            run.run_until(Duration::from_secs(121), |_| false);
            println!("bytes\t0\t0\t{loss}\t{seed}\t{}", run.sides[1].read - before);
        }
    }
}
