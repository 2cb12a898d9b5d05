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
            row.nanos(switch.time.as_nanos())
                .text(&names.hosts[client.index()])
                .text(group)
                .number(u64::from(switch.circuit.0))
                .number(u64::from(switch.to.0))
                .text(&names.hosts[switch.entry.index()])
                .text(if switch.same_entry { "same" } else { "other" })
                .fraction(switch.average)
                .fraction(switch.occupancy)
                .nanos_if(nanos(switch.drained))
                .nanos_if(nanos(switch.middle_acknowledged))
                .nanos_if(nanos(switch.acknowledged))
                .nanos_if(nanos(switch.moved))
                .number(switch.streams)
                .number(switch.cells_forwarded)
                .number(switch.most_cells_held)
                .number(switch.cells_lost)
                .number(switch.bytes_lost)
                .number(switch.started_over)
                .number(switch.bytes_started_over)
                .text(switch.outcome.name());
        })
    }

    fn take_sample(&mut self, names: &Names, sample: &SwitchSample) -> Result<(), RecordError> {
        let (client, group) = &names.clients[sample.client.index()];
        self.samples.row(|row| {
            row.nanos(sample.time.as_nanos())
                .text(&names.hosts[sample.entry.index()])
                .number(u64::from(sample.channel))
                .text(if sample.outward { "out" } else { "in" })
                .text(&names.hosts[client.index()])
                .text(group)
                .number(u64::from(sample.circuit.0))
                .number(u64::from(sample.cells))
                .fraction(sample.average)
                .number(u64::from(sample.outbuf_bytes))
                .fraction(sample.occupancy)
                .text(if sample.writable { "yes" } else { "no" })
                .text(sample.verdict.name());
        })
    }
}
