//! The tables of active circuit switching in a run.

use super::Names;
use crate::records::{RecordError, SWITCHES, SWITCHING_SAMPLES, TableWriter};
use onionlab_quantities::SimTime;
use onionlab_tor::{SwitchRecord, SwitchSample};
use std::path::Path;

/// Those of a run whose circuits are switched.
pub(super) struct Tables {
    switches: TableWriter,
    samples: TableWriter,
}

impl Tables {
    pub fn create(directory: &Path) -> Result<Self, RecordError> {
        let create = |table| TableWriter::create(table, directory);
        Ok(Self { switches: create(&SWITCHES)?, samples: create(&SWITCHING_SAMPLES)? })
    }

    /// Adds rows.
    pub fn take(&mut self, names: &Names, switches: Vec<SwitchRecord>, samples: Vec<SwitchSample>) -> Result<(), RecordError> {
        for switch in switches {
            self.take_switch(names, &switch)?;
        }
        for sample in samples {
            self.take_sample(names, &sample)?;
        }
        Ok(())
    }

    pub fn into_writers(self) -> [TableWriter; 2] {
        [self.switches, self.samples]
    }

    fn take_switch(&mut self, names: &Names, switch: &SwitchRecord) -> Result<(), RecordError> {
        let nanos = |time: Option<SimTime>| time.map(SimTime::as_nanos);
        let (client, group) = &names.clients[switch.client.index()];
        self.switches.row(|row| {
            row.nanos("time_ns", switch.time.as_nanos())
                .text("client", &names.hosts[client.index()])
                .text("group", group)
                .number("circuit", u64::from(switch.circuit.0))
                .number("to_circuit", u64::from(switch.to.0))
                .text("entry", &names.hosts[switch.entry.index()])
                .text("to_entry", if switch.same_entry { "same" } else { "other" })
                .fraction("average_cells", switch.average)
                .fraction("occupancy", switch.occupancy)
                .nanos_if("drained_ns", nanos(switch.drained))
                .nanos_if("middle_acknowledged_ns", nanos(switch.middle_acknowledged))
                .nanos_if("acknowledged_ns", nanos(switch.acknowledged))
                .nanos_if("moved_ns", nanos(switch.moved))
                .number("streams", switch.streams)
                .number("cells_forwarded", switch.cells_forwarded)
                .number("most_cells_held", switch.most_cells_held)
                .number("cells_lost", switch.cells_lost)
                .number("bytes_lost", switch.bytes_lost)
                .number("started_over", switch.started_over)
                .number("bytes_started_over", switch.bytes_started_over)
                .text("outcome", switch.outcome.name());
        })
    }

    fn take_sample(&mut self, names: &Names, sample: &SwitchSample) -> Result<(), RecordError> {
        let (client, group) = &names.clients[sample.client.index()];
        self.samples.row(|row| {
            row.nanos("time_ns", sample.time.as_nanos())
                .text("entry", &names.hosts[sample.entry.index()])
                .number("channel", u64::from(sample.channel))
                .text("direction", if sample.outward { "out" } else { "in" })
                .text("client", &names.hosts[client.index()])
                .text("group", group)
                .number("circuit", u64::from(sample.circuit.0))
                .number("cells", u64::from(sample.cells))
                .fraction("average_cells", sample.average)
                .number("outbuf_bytes", u64::from(sample.outbuf_bytes))
                .fraction("occupancy", sample.occupancy)
                .text("writable", if sample.writable { "yes" } else { "no" })
                .text("verdict", sample.verdict.name());
        })
    }
}
