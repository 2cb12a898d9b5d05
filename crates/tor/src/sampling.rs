//! Time series: what relays and the network did since the sample before.

use crate::channel::{ChannelKind, Opening};
use crate::circuit::Place;
use crate::head_of_line::Held;
use crate::ids::{CircuitId, EndId};
use crate::node::{PerClass, RelayClass, Role};
use crate::records::{NetworkSample, RelaySample, VegasSample, VegasState};
use crate::sockets::CONNECTION_BYTES;
use crate::stream::ExitState;
use crate::world::World;
use onionlab_engine::HostId;
use onionlab_flowcontrol::{CongestionAlgorithm, Vegas};
use onionlab_net::HostCounters;
use onionlab_quantities::SimTime;
use std::collections::HashMap;

/// Counters at the last sample, and what the clients reported since the start.
#[derive(Debug)]
pub(crate) struct Sampler {
    last: SimTime,
    hosts: Vec<HostTotals>,
    pub goodput_bytes: u64,
    pub bytes_to_servers: u64,
    /// What streams had sent when they tried another exit, where they send it again.
    pub bytes_tried_again: u64,
    /// Payload that exits have packaged for clients.
    pub bytes_from_exits: u64,
    /// Of that what came to no program: lost by switches, and otherwise.
    pub lost_to_clients: [u64; 2],
    goodput_before: u64,
    pub transfers_ok: u64,
    pub transfers_failed: u64,
}

impl Sampler {
    pub fn new(hosts: usize) -> Self {
        Self {
            last: SimTime::ZERO,
            hosts: vec![HostTotals::default(); hosts],
            goodput_bytes: 0,
            bytes_to_servers: 0,
            bytes_tried_again: 0,
            bytes_from_exits: 0,
            lost_to_clients: [0; 2],
            goodput_before: 0,
            transfers_ok: 0,
            transfers_failed: 0,
        }
    }
}

/// What a host has done since the start.
#[derive(Debug, Clone, Copy, Default)]
struct HostTotals {
    link: HostCounters,
    /// Cells moved from a circuit queue to an outbuf, and nanoseconds that they waited.
    cells_sent: u64,
    queue_wait: u64,
    /// Nanoseconds for which the main thread has computed.
    cpu_busy: u64,
    sockets_opened: u64,
    sockets_closed: u64,
    sockets_refused: u64,
    circuits_moved: u64,
    /// What waited in its sockets.
    held: Held,
}

impl HostTotals {
    /// What it did since `before`.
    fn since(&self, before: &Self) -> Self {
        let (link, earlier) = (self.link, before.link);
        Self {
            link: HostCounters {
                bytes_sent: link.bytes_sent - earlier.bytes_sent,
                bytes_received: link.bytes_received - earlier.bytes_received,
                packets_sent: link.packets_sent - earlier.packets_sent,
                uplink_drops: link.uplink_drops - earlier.uplink_drops,
                downlink_drops: link.downlink_drops - earlier.downlink_drops,
                path_losses: link.path_losses - earlier.path_losses,
            },
            cells_sent: self.cells_sent - before.cells_sent,
            queue_wait: self.queue_wait - before.queue_wait,
            cpu_busy: self.cpu_busy - before.cpu_busy,
            sockets_opened: self.sockets_opened - before.sockets_opened,
            sockets_closed: self.sockets_closed - before.sockets_closed,
            sockets_refused: self.sockets_refused - before.sockets_refused,
            circuits_moved: self.circuits_moved - before.circuits_moved,
            held: self.held.since(before.held),
        }
    }
}

impl World {
    /// A SENDME has arrived at the exit: a row, if the circuit's client is traced.
    pub(crate) fn trace_vegas(&mut self, id: CircuitId) {
        let circuit = &self.circuits[id.index()];
        if circuit.client.is_some()
            && self.clients[circuit.client.index()].config.trace
            && let Some(vegas) = circuit.edges[Place::Exit as usize].package.as_vegas()
        {
            self.records.vegas.push(VegasSample {
                time: self.queue.now(),
                circuit: self.serials[id.index()],
                client: circuit.client,
                state: vegas_state(vegas),
                inflight: vegas.inflight() + vegas.increment(),
            });
        }
    }

    /// Adds a row for each relay, each circuit whose latency is measured, and one for the network: the interval from the sample before to `time`.
    pub fn sample(&mut self, time: SimTime) {
        let interval = time.saturating_since(self.sampler.last);
        self.sampler.last = time;
        let mut sent = PerClass::<u64>::default();
        let mut capacity = PerClass::<u64>::default();
        let to_servers = self.bytes_towards_servers();
        for index in 0..self.nodes.len() {
            let Role::Relay { class, limit } = self.nodes[index].role else { continue };
            let host = HostId(index as u32);
            let mut could_send = self.net.uplink_capacity(host, interval).get();
            if let Some(limit) = limit {
                could_send = could_send.min(limit.relays().bytes_in(interval).get());
            }
            sent[class] += self.sample_relay(time, host, could_send, to_servers.get(&host).copied().unwrap_or(0));
            capacity[class] += could_send;
        }
        self.sample_latency(time);
        self.sample_controllers(time);
        self.sample_network(time, &sent, &capacity);
    }

    /// A relay's row; `could_send` is what it could have sent in the interval, `to_servers` what waits in its connections to servers. Returns what it sent.
    fn sample_relay(&mut self, time: SimTime, host: HostId, could_send: u64, to_servers: u64) -> u64 {
        let totals = self.totals(host, time);
        let before = std::mem::replace(&mut self.sampler.hosts[host.index()], totals);
        let done = totals.since(&before);
        let (mut queued_cells, mut outbuf_bytes, mut connection_bytes) = (0, 0, 0);
        let mut socket_bytes = to_servers;
        for id in &self.nodes[host.index()].ends {
            let end = &self.ends[id.index()];
            queued_cells += end.circuits.as_ref().map_or(0, |circuits| circuits.mux.cells());
            outbuf_bytes += u64::from(end.outbuf.len());
            socket_bytes += self.net.buffered_bytes(end.socket);
            connection_bytes += self.bytes_of_connection(*id);
        }
        let descriptors = &mut self.descriptors[host.index()];
        let (sockets, most_sockets) = (descriptors.open, std::mem::replace(&mut descriptors.most, descriptors.open));
        self.records.relays.push(RelaySample {
            time,
            relay: host,
            bytes_sent: done.link.bytes_sent,
            bytes_received: done.link.bytes_received,
            cells_sent: done.cells_sent,
            queued_cells,
            outbuf_bytes,
            queue_wait: done.queue_wait,
            cpu_busy: done.cpu_busy,
            packets_sent: done.link.packets_sent,
            uplink_drops: done.link.uplink_drops,
            downlink_drops: done.link.downlink_drops,
            sockets,
            most_sockets,
            sockets_opened: done.sockets_opened,
            sockets_closed: done.sockets_closed,
            sockets_refused: done.sockets_refused,
            socket_bytes,
            connection_bytes,
            circuits_moved: done.circuits_moved,
            held: done.held,
            utilisation: share(done.link.bytes_sent, could_send),
        });
        done.link.bytes_sent
    }

    /// The network's row; what its relays sent, and could have sent, by their classes.
    fn sample_network(&mut self, time: SimTime, sent: &PerClass<u64>, capacity: &PerClass<u64>) {
        let goodput_bytes = self.sampler.goodput_bytes - self.sampler.goodput_before;
        self.sampler.goodput_before = self.sampler.goodput_bytes;
        let busy = self.busy_links();
        self.records.network.push(NetworkSample {
            time,
            goodput_bytes,
            relay_bytes_sent: RelayClass::ALL.into_iter().map(|class| sent[class]).sum(),
            transfers_ok: self.sampler.transfers_ok,
            transfers_failed: self.sampler.transfers_failed,
            links: self.links_in_use(),
            busy,
            utilisation: PerClass::from_fn(|class| share(sent[class], capacity[class])),
        });
    }

    fn totals(&self, host: HostId, now: SimTime) -> HostTotals {
        let (node, descriptors) = (&self.nodes[host.index()], &self.descriptors[host.index()]);
        HostTotals {
            link: self.net.counters(host),
            cells_sent: node.counters.cells_sent,
            queue_wait: node.counters.queue_wait,
            cpu_busy: node.main_thread.as_ref().map_or(0, |thread| thread.busy(now)),
            sockets_opened: descriptors.opened,
            sockets_closed: descriptors.closed,
            sockets_refused: descriptors.refused,
            circuits_moved: descriptors.moved,
            held: descriptors.held,
        }
    }
}

impl World {
    /// What an end of a channel costs its host while it is idle: nothing if it has not been accepted, or is a stream of another's connection.
    fn bytes_of_connection(&self, id: EndId) -> u64 {
        let is_stream = self.channel_logs[id.channel()].kind == ChannelKind::Stream;
        let is_there = !matches!(self.ends[id.index()].opening, Opening::Arriving | Opening::Closed);
        if is_there && !is_stream { CONNECTION_BYTES } else { 0 }
    }

    /// Bytes in the kernel's buffers of the exits' connections to servers, by exit.
    fn bytes_towards_servers(&self) -> HashMap<HostId, u64> {
        let mut bytes = HashMap::new();
        for stream in &self.streams {
            let open = matches!(stream.exit, ExitState::Connecting | ExitState::Connected | ExitState::Flushing);
            if open && stream.unread.is_none() {
                let exit = self.circuits[stream.circuit.index()].last_relay();
                *bytes.entry(exit).or_insert(0) += self.net.buffered_bytes(stream.socket);
            }
        }
        bytes
    }
}

/// The congestion control of one end of a circuit, for the records.
pub(crate) fn vegas_state(vegas: &Vegas) -> VegasState {
    VegasState {
        min_rtt: vegas.min_rtt(),
        ewma_rtt: vegas.ewma_rtt(),
        max_rtt: vegas.max_rtt(),
        cwnd: vegas.cwnd(),
        bdp: vegas.bdp(),
        queue_use: vegas.queue_use(),
        slow_start: vegas.in_slow_start(),
        blocked: vegas.is_blocked(),
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
