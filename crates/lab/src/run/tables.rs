//! The tables that grow while a run goes on: one row for each thing that the world announces, in the order of the columns in `records`.

use super::{predictor, probes, switching};
use crate::records::{CHANNELS, CIRCUITS, LATENCY, NETWORK, PROBES, RELAYS, RecordError, TRANSFERS, TableWriter, VEGAS};
use crate::scenario::ResolvedScenario;
use crate::scenario::resolved::Treatment;
use crate::scenario::treatment::FlowControl;
use crate::world::Names;
use onionlab_quantities::{SimDuration, SimTime};
use onionlab_tor::{
    ChannelClose, ChannelRecord, CircuitRecord, CloseReason, LatencySample, NetworkSample, PerClass, RelayClass, RelaySample,
    TransferRecord, VegasSample, VegasState, World,
};
use std::path::Path;

/// Which tables there are beside those that every run has.
#[derive(Clone, Copy)]
pub(super) struct Optional {
    pub vegas: bool,
    pub latency: bool,
    pub probes: bool,
    pub switches: bool,
    pub controllers: bool,
    pub plans: bool,
}

impl Optional {
    pub fn of(scenario: &ResolvedScenario, treatment: &Treatment) -> Self {
        let traced = scenario.clients.iter().any(|group| group.trace);
        let planned = treatment.predictor.is_some();
        Self {
            vegas: traced && treatment.flow_control == Some(FlowControl::Vegas),
            latency: scenario.clients.iter().any(|group| group.record_latency),
            probes: scenario.clients.iter().any(|group| group.probe.is_some()),
            switches: treatment.switching.is_some(),
            controllers: planned,
            plans: traced && planned,
        }
    }
}

/// The tables that grow while the run goes on.
pub(super) struct Tables<'a> {
    names: &'a Names,
    /// Classes without a relay have no utilisation.
    classes: PerClass<bool>,
    transfers: TableWriter,
    circuits: TableWriter,
    channels: TableWriter,
    relays: TableWriter,
    network: TableWriter,
    /// Where clients are traced.
    vegas: Option<TableWriter>,
    /// Where the latency of circuits is recorded.
    latency: Option<TableWriter>,
    /// Where circuits are switched.
    switching: Option<switching::Tables>,
    /// Where relays plan.
    planned: Option<predictor::Tables>,
    /// Where cells are followed.
    probes: Option<TableWriter>,
}

impl<'a> Tables<'a> {
    pub fn create(directory: &Path, names: &'a Names, optional: Optional) -> Result<Self, RecordError> {
        let has = |class| names.relays.iter().flatten().any(|(of, _)| *of == class);
        let table = |table| TableWriter::create(table, directory);
        Ok(Self {
            names,
            classes: PerClass::from_fn(has),
            transfers: table(&TRANSFERS)?,
            circuits: table(&CIRCUITS)?,
            channels: table(&CHANNELS)?,
            relays: table(&RELAYS)?,
            network: table(&NETWORK)?,
            vegas: optional.vegas.then(|| table(&VEGAS)).transpose()?,
            latency: optional.latency.then(|| table(&LATENCY)).transpose()?,
            probes: optional.probes.then(|| table(&PROBES)).transpose()?,
            switching: optional.switches.then(|| switching::Tables::create(directory)).transpose()?,
            planned: optional.controllers.then(|| predictor::Tables::create(directory, optional.plans)).transpose()?,
        })
    }

    /// Moves what the world has announced into the tables.
    pub fn take(&mut self, world: &mut World) -> Result<(), RecordError> {
        let records = world.take_records();
        self.take_transfers(records.transfers)?;
        self.take_circuits(records.circuits)?;
        self.take_channels(records.channels)?;
        self.take_relays(records.relays)?;
        self.take_network(records.network)?;
        self.take_vegas(records.vegas)?;
        self.take_latency(records.latency)?;
        if let Some(table) = &mut self.probes {
            probes::take(table, self.names, records.probes)?;
        }
        if let Some(tables) = &mut self.switching {
            tables.take(self.names, records.switches, records.switch_samples)?;
        }
        if let Some(tables) = &mut self.planned {
            tables.take(self.names, records.controllers, records.plans)?;
        }
        Ok(())
    }

    fn take_transfers(&mut self, transfers: Vec<TransferRecord>) -> Result<(), RecordError> {
        for transfer in transfers {
            let (client, group) = &self.names.clients[transfer.client.index()];
            self.transfers.row(|row| {
                row.text("client", self.names.host(*client))
                    .text("group", group)
                    .number("ordinal", transfer.ordinal)
                    .number("user", u64::from(transfer.user))
                    .number("flow", transfer.flow)
                    .text("exchange", transfer.kind.name())
                    .number_if("circuit", transfer.circuit.map(|circuit| u64::from(circuit.0)))
                    .number("retries", u64::from(transfer.retries))
                    .number("size_bytes", transfer.size)
                    .number("received_bytes", transfer.received)
                    .number("sent_bytes", transfer.sent)
                    .nanos("start_ns", transfer.start.as_nanos())
                    .nanos_if("connected_ns", nanos(transfer.connected))
                    .nanos_if("answered_ns", nanos(transfer.answered))
                    .nanos_if("first_byte_ns", nanos(transfer.first_byte))
                    .nanos_if("last_byte_ns", nanos(transfer.last_byte))
                    .nanos("end_ns", transfer.end.as_nanos())
                    .text("outcome", transfer.outcome.name());
            })?;
        }
        Ok(())
    }

    fn take_circuits(&mut self, circuits: Vec<CircuitRecord>) -> Result<(), RecordError> {
        for circuit in circuits {
            let (client, group) = &self.names.clients[circuit.client.index()];
            self.circuits.row(|row| {
                row.number("circuit", u64::from(circuit.circuit.0))
                    .text("client", self.names.host(*client))
                    .text("group", group)
                    .text("guard", self.names.host(circuit.path[0]))
                    .text("middle", self.names.host(circuit.path[1]))
                    .text("exit", self.names.host(circuit.path[2]))
                    .nanos("launched_ns", circuit.launched.as_nanos())
                    .nanos_if("built_ns", nanos(circuit.built))
                    .nanos_if("closed_ns", nanos(circuit.closed))
                    .text("outcome", circuit.outcome.name())
                    .text("reason", circuit.reason.map_or("none", CloseReason::name))
                    .text("purpose", circuit.purpose.name())
                    .text("timed_out", if circuit.timed_out { "yes" } else { "no" })
                    .number("cells_in", circuit.cells_in)
                    .number("cells_out", circuit.cells_out)
                    .number_if("cwnd", circuit.vegas.map(|vegas| u64::from(vegas.cwnd)))
                    .nanos_if("min_rtt_ns", measured(circuit.vegas, |vegas| vegas.min_rtt))
                    .nanos_if("ewma_rtt_ns", measured(circuit.vegas, |vegas| vegas.ewma_rtt))
                    .text("third", circuit.third.map_or("", |host| self.names.host(host)))
                    .nanos_if("joined_ns", nanos(circuit.joined));
            })?;
        }
        Ok(())
    }

    fn take_channels(&mut self, channels: Vec<ChannelRecord>) -> Result<(), RecordError> {
        for channel in channels {
            self.channels.row(|row| {
                row.number("channel", u64::from(channel.channel))
                    .text("kind", channel.kind.name())
                    .text("opener", self.names.host(channel.opener))
                    .text("peer", self.names.host(channel.peer))
                    .nanos("opened_ns", channel.opened.as_nanos())
                    .nanos_if("open_ns", nanos(channel.open))
                    .nanos_if("closed_ns", nanos(channel.closed))
                    .text("close_reason", channel.reason.map_or("none", ChannelClose::name))
                    .number("cells_to_peer", channel.cells[0])
                    .number("cells_to_opener", channel.cells[1])
                    .number("bytes_to_peer", channel.bytes[0])
                    .number("bytes_to_opener", channel.bytes[1])
                    .number("circuits", u64::from(channel.circuits))
                    .number("most_circuits", u64::from(channel.most_circuits))
                    .number("held_bytes_to_peer", channel.held[1].bytes)
                    .fraction("held_to_peer", channel.held[1].byte_seconds)
                    .number("held_bytes_to_opener", channel.held[0].bytes)
                    .fraction("held_to_opener", channel.held[0].byte_seconds);
            })?;
        }
        Ok(())
    }

    fn take_relays(&mut self, relays: Vec<RelaySample>) -> Result<(), RecordError> {
        for sample in relays {
            let (class, capacity) = self.names.relays[sample.relay.index()].expect("only relays are sampled");
            self.relays.row(|row| {
                row.nanos("time_ns", sample.time.as_nanos())
                    .text("relay", self.names.host(sample.relay))
                    .text("class", class.name())
                    .number("capacity_bits", capacity.as_bits_per_sec())
                    .number("bytes_sent", sample.bytes_sent)
                    .number("bytes_received", sample.bytes_received)
                    .number("cells_sent", sample.cells_sent)
                    .number("queued_cells", sample.queued_cells)
                    .number("outbuf_bytes", sample.outbuf_bytes)
                    .number("queue_wait_ns", sample.queue_wait)
                    .number("cpu_busy_ns", sample.cpu_busy)
                    .number("packets_sent", sample.packets_sent)
                    .number("uplink_drops", sample.uplink_drops)
                    .number("downlink_drops", sample.downlink_drops)
                    .number("sockets", u64::from(sample.sockets))
                    .number("most_sockets", u64::from(sample.most_sockets))
                    .number("sockets_opened", sample.sockets_opened)
                    .number("sockets_closed", sample.sockets_closed)
                    .number("sockets_refused", sample.sockets_refused)
                    .number("socket_bytes", sample.socket_bytes)
                    .number("connection_bytes", sample.connection_bytes)
                    .number("circuits_moved", sample.circuits_moved)
                    .number("held_bytes", sample.held.bytes)
                    .fraction("held", sample.held.byte_seconds)
                    .fraction("utilisation", sample.utilisation)
                    .text("treated", if self.names.treated[sample.relay.index()] { "yes" } else { "no" });
            })?;
        }
        Ok(())
    }

    fn take_network(&mut self, network: Vec<NetworkSample>) -> Result<(), RecordError> {
        for sample in network {
            let utilisation = |class: RelayClass| self.classes[class].then_some(sample.utilisation[class]);
            self.network.row(|row| {
                row.nanos("time_ns", sample.time.as_nanos())
                    .number("goodput_bytes", sample.goodput_bytes)
                    .number("relay_bytes_sent", sample.relay_bytes_sent)
                    .number("transfers_ok", sample.transfers_ok)
                    .number("transfers_failed", sample.transfers_failed)
                    .number("active_circuits", u64::from(sample.links.circuits));
                let links = &sample.links;
                for (links, shared, of) in [
                    ("links", "shared_links", links.undirected),
                    ("links_directed", "shared_links_directed", links.directed),
                    ("links_guard_middle", "shared_links_guard_middle", links.guard_middle),
                    ("links_middle_exit", "shared_links_middle_exit", links.middle_exit),
                ] {
                    row.number(links, u64::from(of.links)).number(shared, u64::from(of.shared));
                }
                row.number("circuits_one_shared", u64::from(links.with_one))
                    .number("circuits_two_shared", u64::from(links.with_two))
                    .number("busy_circuits", u64::from(sample.busy.circuits))
                    .number("busy_links_directed", u64::from(sample.busy.directed.links))
                    .number("shared_busy_links_directed", u64::from(sample.busy.directed.shared))
                    .fraction_if("utilisation_guard", utilisation(RelayClass::Guard))
                    .fraction_if("utilisation_middle", utilisation(RelayClass::Middle))
                    .fraction_if("utilisation_exit", utilisation(RelayClass::Exit))
                    .fraction_if("utilisation_guard_exit", utilisation(RelayClass::GuardExit));
            })?;
        }
        Ok(())
    }

    fn take_vegas(&mut self, samples: Vec<VegasSample>) -> Result<(), RecordError> {
        let Some(table) = &mut self.vegas else { return Ok(()) };
        for sample in samples {
            let (client, group) = &self.names.clients[sample.client.index()];
            let state = sample.state;
            table.row(|row| {
                row.nanos("time_ns", sample.time.as_nanos())
                    .number("circuit", u64::from(sample.circuit.0))
                    .text("client", self.names.host(*client))
                    .text("group", group)
                    .nanos("min_rtt_ns", state.min_rtt.as_nanos())
                    .nanos("ewma_rtt_ns", state.ewma_rtt.as_nanos())
                    .nanos("max_rtt_ns", state.max_rtt.as_nanos())
                    .number("cwnd", u64::from(state.cwnd))
                    .number("inflight", u64::from(sample.inflight))
                    .number("bdp", state.bdp)
                    .number("queue_use", state.queue_use)
                    .number("slow_start", u64::from(state.slow_start))
                    .number("blocked", u64::from(state.blocked));
            })?;
        }
        Ok(())
    }

    fn take_latency(&mut self, samples: Vec<LatencySample>) -> Result<(), RecordError> {
        let Some(table) = &mut self.latency else { return Ok(()) };
        for sample in samples {
            let (client, group) = &self.names.clients[sample.client.index()];
            table.row(|row| {
                row.nanos("time_ns", sample.time.as_nanos())
                    .number("circuit", u64::from(sample.circuit.0))
                    .text("client", self.names.host(*client))
                    .text("group", group)
                    .number("written_bytes", sample.written)
                    .number("read_bytes", sample.read)
                    .fraction("latency", sample.latency)
                    .fraction("outbuf_wait", sample.outbuf_wait)
                    .number("in_flight_bytes", sample.in_flight);
            })?;
        }
        Ok(())
    }

    pub fn finish(self) -> Result<(), RecordError> {
        let always = [self.transfers, self.circuits, self.channels, self.relays, self.network];
        let switching = self.switching.into_iter().flat_map(switching::Tables::into_writers);
        let planned = self.planned.into_iter().flat_map(predictor::Tables::into_writers);
        let optional = self.vegas.into_iter().chain(self.latency).chain(self.probes);
        for table in always.into_iter().chain(optional).chain(switching).chain(planned) {
            table.finish()?;
        }
        Ok(())
    }
}

/// A time that congestion control has measured; none before the first SENDME.
fn measured(vegas: Option<VegasState>, time: impl Fn(VegasState) -> SimDuration) -> Option<u64> {
    vegas.map(time).filter(|time| *time > SimDuration::ZERO).map(SimDuration::as_nanos)
}

fn nanos(time: Option<SimTime>) -> Option<u64> {
    time.map(SimTime::as_nanos)
}
