//! Hosts in a star, bulk flows between them, and how many bytes each had delivered when.

#![allow(dead_code, reason = "each test uses its part")]

use onionlab_engine::{EventQueue, HostId};
use onionlab_net::tcp::{Effects, TcpConfig, TcpInfo};
use onionlab_net::{
    HostConfig, HostCounters, NetEvent, Network, Path, QueueConfig, QueueDiscipline, Shaping, SocketId, Topology, UplinkQueue,
};
use onionlab_quantities::{Bandwidth, Bytes, Seed, SimDuration, SimTime};

/// The same path between all hosts.
struct Everywhere(Path);

impl Topology for Everywhere {
    fn path(&self, _: HostId, _: HostId) -> Path {
        self.0
    }
}

/// A bulk flow: who sends to whom.
struct Flow {
    sender: SocketId,
    to_write: u64,
    delivered: u64,
}

pub struct Star {
    queue: EventQueue<NetEvent>,
    net: Network,
    flows: Vec<Flow>,
}

impl Star {
    /// Hosts of these rates in Mbit/s, both ways, 40 ms apart.
    pub fn new(tcp: TcpConfig, rates: &[u64], uplink_queue: UplinkQueue, downlink_packets: u32) -> Self {
        Self::shaped(Shaping::Serialise, tcp, rates, uplink_queue, downlink_packets)
    }

    /// The same with this latency, and downlinks that never drop.
    pub fn near(tcp: TcpConfig, rates: &[u64], uplink_queue: UplinkQueue, latency: SimDuration) -> Self {
        Self::apart(Shaping::Serialise, tcp, rates, uplink_queue, 1 << 20, latency)
    }

    /// The same with links that keep their rates so.
    pub fn shaped(shaping: Shaping, tcp: TcpConfig, rates: &[u64], uplink_queue: UplinkQueue, downlink_packets: u32) -> Self {
        Self::apart(shaping, tcp, rates, uplink_queue, downlink_packets, SimDuration::from_millis(40))
    }

    fn apart(
        shaping: Shaping,
        tcp: TcpConfig,
        rates: &[u64],
        uplink_queue: UplinkQueue,
        downlink_packets: u32,
        latency: SimDuration,
    ) -> Self {
        let hosts: Vec<HostConfig> = rates
            .iter()
            .enumerate()
            .map(|(index, &rate)| HostConfig {
                name: format!("host{index}"),
                up: Bandwidth::from_bits_per_sec(rate * 1_000_000),
                down: Bandwidth::from_bits_per_sec(rate * 1_000_000),
                shaping,
                uplink_queue,
                queue: QueueConfig {
                    discipline: QueueDiscipline::DropTail,
                    limit: Bytes::new(1 << 30),
                    limit_packets: Some(downlink_packets),
                },
            })
            .collect();
        let path = Path { latency, jitter: SimDuration::ZERO, loss: 0.0, beside: false };
        let net = Network::new(Seed(1), &hosts, Box::new(Everywhere(path)), tcp);
        Self { queue: EventQueue::new(rates.len()), net, flows: Vec::new() }
    }

    /// Starts a flow that writes `bytes`, as much as the socket takes at a time.
    pub fn start(&mut self, from: u32, to: u32, bytes: u64) {
        let sender = self.net.connect(&mut self.queue, HostId(from), HostId(to));
        self.flows.push(Flow { sender, to_write: bytes, delivered: 0 });
        self.work();
    }

    /// The sender of a flow writes so much more.
    pub fn write_more(&mut self, flow: usize, bytes: u64) {
        assert_eq!(self.net.write(&mut self.queue, self.flows[flow].sender, bytes), bytes);
        self.work();
    }

    /// The receiver of a flow writes too.
    pub fn answer(&mut self, flow: usize, bytes: u64) {
        let receiver = self.flows[flow].sender.peer();
        assert_eq!(self.net.write(&mut self.queue, receiver, bytes), bytes);
        self.work();
    }

    /// What the receiver's socket of a flow tells.
    pub fn info_of_receiver(&self, flow: usize) -> TcpInfo {
        self.net.info(self.flows[flow].sender.peer())
    }

    /// Bytes read by the receivers, flow by flow.
    pub fn delivered(&self) -> Vec<u64> {
        self.flows.iter().map(|flow| flow.delivered).collect()
    }

    /// What the sender's socket of a flow tells.
    pub fn info(&self, flow: usize) -> TcpInfo {
        self.net.info(self.flows[flow].sender)
    }

    /// What the sender's socket of a flow tells, if it may have changed since this was last asked.
    pub fn news(&mut self, flow: usize) -> Option<TcpInfo> {
        self.net.news(self.flows[flow].sender)
    }

    pub fn counters(&self, host: u32) -> HostCounters {
        self.net.counters(HostId(host))
    }

    pub fn run_until(&mut self, end: SimTime) {
        while self.step(end) {}
    }

    /// Handles the next event before `end`; false if there is none.
    pub fn step(&mut self, end: SimTime) -> bool {
        let Some(event) = self.queue.pop_until(end) else { return false };
        self.net.handle(&mut self.queue, event.host, event.event);
        self.work();
        true
    }

    fn work(&mut self) {
        while let Some(upcall) = self.net.next_upcall() {
            let flow = self.flows.iter_mut().find(|flow| [flow.sender, flow.sender.peer()].contains(&upcall.socket));
            let Some(flow) = flow else { continue };
            if upcall.effects.has(Effects::READABLE) {
                let bytes = self.net.readable(upcall.socket);
                self.net.read(&mut self.queue, upcall.socket, bytes);
                flow.delivered += bytes;
            }
            if upcall.effects.has(Effects::WRITABLE) && upcall.socket == flow.sender {
                flow.to_write -= self.net.write(&mut self.queue, upcall.socket, flow.to_write);
            }
        }
    }
}
