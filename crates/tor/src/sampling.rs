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
    hosts: Vec<(HostCounters, u64, u64, u64)>,
    /// Of each host: sockets opened, closed and refused, queues moved, and what waited in the sockets.
    sockets: Vec<([u64; 4], Held)>,
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
            hosts: vec![(HostCounters::default(), 0, 0, 0); hosts],
            sockets: vec![([0; 4], Held::default()); hosts],
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
        for (index, node) in self.nodes.iter().enumerate() {
            let Role::Relay { class, limit } = node.role else { continue };
            let host = HostId(index as u32);
            let now = self.net.counters(host);
            let busy = node.main_thread.as_ref().map_or(0, |thread| thread.busy(time));
            let counters = (now, node.counters.cells_sent, node.counters.queue_wait, busy);
            let (before, cells_before, wait_before, busy_before) = std::mem::replace(&mut self.sampler.hosts[index], counters);
            let bytes_sent = now.bytes_sent - before.bytes_sent;
            let mut could_send = self.net.uplink_capacity(host, interval).get();
            if let Some(limit) = limit {
                could_send = could_send.min(limit.relays().bytes_in(interval).get());
            }
            sent[class] += bytes_sent;
            capacity[class] += could_send;
            let (mut queued_cells, mut outbuf_bytes, mut connection_bytes) = (0, 0, 0);
            let mut socket_bytes = to_servers.get(&host).copied().unwrap_or(0);
            for id in &node.ends {
                let end = &self.ends[id.index()];
                queued_cells += end.circuits.as_ref().map_or(0, |circuits| circuits.mux.cells());
                outbuf_bytes += u64::from(end.outbuf.len());
                socket_bytes += self.net.buffered_bytes(end.socket);
                connection_bytes += self.bytes_of_connection(*id);
            }
            let of = &mut self.descriptors[index];
            let counted = ([of.opened, of.closed, of.refused, of.moved], of.held);
            let most_sockets = std::mem::replace(&mut of.most, of.open);
            let (sockets_before, held) = std::mem::replace(&mut self.sampler.sockets[index], counted);
            let [sockets_opened, sockets_closed, sockets_refused, circuits_moved] =
                std::array::from_fn(|count| counted.0[count] - sockets_before[count]);
            self.records.relays.push(RelaySample {
                time,
                relay: host,
                bytes_sent,
                bytes_received: now.bytes_received - before.bytes_received,
                cells_sent: node.counters.cells_sent - cells_before,
                queued_cells,
                outbuf_bytes,
                queue_wait: node.counters.queue_wait - wait_before,
                cpu_busy: busy - busy_before,
                packets_sent: now.packets_sent - before.packets_sent,
                uplink_drops: now.uplink_drops - before.uplink_drops,
                downlink_drops: now.downlink_drops - before.downlink_drops,
                sockets: of.open,
                most_sockets,
                sockets_opened,
                sockets_closed,
                sockets_refused,
                socket_bytes,
                connection_bytes,
                circuits_moved,
                held: Held { bytes: counted.1.bytes - held.bytes, byte_seconds: counted.1.byte_seconds - held.byte_seconds },
                utilisation: share(bytes_sent, could_send),
            });
        }
        self.sample_latency(time);
        self.sample_controllers(time);
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
