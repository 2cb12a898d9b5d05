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
                row.text(self.names.host(*client))
                    .text(group)
                    .number(transfer.ordinal)
                    .number(u64::from(transfer.user))
                    .number(transfer.flow)
                    .text(transfer.kind.name())
                    .number_if(transfer.circuit.map(|circuit| u64::from(circuit.0)))
                    .number(u64::from(transfer.retries))
                    .number(transfer.size)
                    .number(transfer.received)
                    .number(transfer.sent)
                    .nanos(transfer.start.as_nanos())
                    .nanos_if(nanos(transfer.connected))
                    .nanos_if(nanos(transfer.answered))
                    .nanos_if(nanos(transfer.first_byte))
                    .nanos_if(nanos(transfer.last_byte))
                    .nanos(transfer.end.as_nanos())
                    .text(transfer.outcome.name());
            })?;
        }
        Ok(())
    }

    fn take_circuits(&mut self, circuits: Vec<CircuitRecord>) -> Result<(), RecordError> {
        for circuit in circuits {
            let (client, group) = &self.names.clients[circuit.client.index()];
            self.circuits.row(|row| {
                row.number(u64::from(circuit.circuit.0))
                    .text(self.names.host(*client))
                    .text(group)
                    .text(self.names.host(circuit.path[0]))
                    .text(self.names.host(circuit.path[1]))
                    .text(self.names.host(circuit.path[2]))
                    .nanos(circuit.launched.as_nanos())
                    .nanos_if(nanos(circuit.built))
                    .nanos_if(nanos(circuit.closed))
                    .text(circuit.outcome.name())
                    .text(circuit.reason.map_or("none", CloseReason::name))
                    .text(circuit.purpose.name())
                    .text(if circuit.timed_out { "yes" } else { "no" })
                    .number(circuit.cells_in)
                    .number(circuit.cells_out)
                    .number_if(circuit.vegas.map(|vegas| u64::from(vegas.cwnd)))
                    .nanos_if(measured(circuit.vegas, |vegas| vegas.min_rtt))
                    .nanos_if(measured(circuit.vegas, |vegas| vegas.ewma_rtt))
                    .text(circuit.third.map_or("", |host| self.names.host(host)))
                    .nanos_if(nanos(circuit.joined));
            })?;
        }
        Ok(())
    }

    fn take_channels(&mut self, channels: Vec<ChannelRecord>) -> Result<(), RecordError> {
        for channel in channels {
            self.channels.row(|row| {
                row.number(u64::from(channel.channel))
                    .text(channel.kind.name())
                    .text(self.names.host(channel.opener))
                    .text(self.names.host(channel.peer))
                    .nanos(channel.opened.as_nanos())
                    .nanos_if(nanos(channel.open))
                    .nanos_if(nanos(channel.closed))
                    .text(channel.reason.map_or("none", ChannelClose::name))
                    .number(channel.cells[0])
                    .number(channel.cells[1])
                    .number(channel.bytes[0])
                    .number(channel.bytes[1])
                    .number(u64::from(channel.circuits))
                    .number(u64::from(channel.most_circuits))
                    .number(channel.held[1].bytes)
                    .fraction(channel.held[1].byte_seconds)
                    .number(channel.held[0].bytes)
                    .fraction(channel.held[0].byte_seconds);
            })?;
        }
        Ok(())
    }

    fn take_relays(&mut self, relays: Vec<RelaySample>) -> Result<(), RecordError> {
        for sample in relays {
            let (class, capacity) = self.names.relays[sample.relay.index()].expect("only relays are sampled");
            self.relays.row(|row| {
                row.nanos(sample.time.as_nanos())
                    .text(self.names.host(sample.relay))
                    .text(class.name())
                    .number(capacity.as_bits_per_sec())
                    .number(sample.bytes_sent)
                    .number(sample.bytes_received)
                    .number(sample.cells_sent)
                    .number(sample.queued_cells)
                    .number(sample.outbuf_bytes)
                    .number(sample.queue_wait)
                    .number(sample.cpu_busy)
                    .number(sample.packets_sent)
                    .number(sample.uplink_drops)
                    .number(sample.downlink_drops)
                    .number(u64::from(sample.sockets))
                    .number(u64::from(sample.most_sockets))
                    .number(sample.sockets_opened)
                    .number(sample.sockets_closed)
                    .number(sample.sockets_refused)
                    .number(sample.socket_bytes)
                    .number(sample.connection_bytes)
                    .number(sample.circuits_moved)
                    .number(sample.held.bytes)
                    .fraction(sample.held.byte_seconds)
                    .fraction(sample.utilisation)
                    .text(if self.names.treated[sample.relay.index()] { "yes" } else { "no" });
            })?;
        }
        Ok(())
    }

    fn take_network(&mut self, network: Vec<NetworkSample>) -> Result<(), RecordError> {
        for sample in network {
            let utilisation = |class: RelayClass| self.classes[class].then_some(sample.utilisation[class]);
            self.network.row(|row| {
                row.nanos(sample.time.as_nanos())
                    .number(sample.goodput_bytes)
                    .number(sample.relay_bytes_sent)
                    .number(sample.transfers_ok)
                    .number(sample.transfers_failed)
                    .number(u64::from(sample.links.circuits));
                let links = &sample.links;
                for of in [links.undirected, links.directed, links.guard_middle, links.middle_exit] {
                    row.number(u64::from(of.links)).number(u64::from(of.shared));
                }
                row.number(u64::from(links.with_one))
                    .number(u64::from(links.with_two))
                    .number(u64::from(sample.busy.circuits))
                    .number(u64::from(sample.busy.directed.links))
                    .number(u64::from(sample.busy.directed.shared))
                    .fraction_if(utilisation(RelayClass::Guard))
                    .fraction_if(utilisation(RelayClass::Middle))
                    .fraction_if(utilisation(RelayClass::Exit))
                    .fraction_if(utilisation(RelayClass::GuardExit));
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
                row.nanos(sample.time.as_nanos())
                    .number(u64::from(sample.circuit.0))
                    .text(self.names.host(*client))
                    .text(group)
                    .nanos(state.min_rtt.as_nanos())
                    .nanos(state.ewma_rtt.as_nanos())
                    .nanos(state.max_rtt.as_nanos())
                    .number(u64::from(state.cwnd))
                    .number(u64::from(sample.inflight))
                    .number(state.bdp)
                    .number(state.queue_use)
                    .number(u64::from(state.slow_start))
                    .number(u64::from(state.blocked));
            })?;
        }
        Ok(())
    }

    fn take_latency(&mut self, samples: Vec<LatencySample>) -> Result<(), RecordError> {
        let Some(table) = &mut self.latency else { return Ok(()) };
        for sample in samples {
            let (client, group) = &self.names.clients[sample.client.index()];
            table.row(|row| {
                row.nanos(sample.time.as_nanos())
                    .number(u64::from(sample.circuit.0))
                    .text(self.names.host(*client))
                    .text(group)
                    .number(sample.written)
                    .number(sample.read)
                    .fraction(sample.latency)
                    .fraction(sample.outbuf_wait)
                    .number(sample.in_flight);
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
