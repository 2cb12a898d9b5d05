//! The tables of relays that plan in a run.

use super::Names;
use crate::records::{CONTROLLERS, PLANS, RecordError, TableWriter};
use onionlab_tor::{ControllerSample, PlanSample};
use std::path::Path;

/// Those of a run with `PredicTor`; that of plans where clients are traced.
pub(super) struct Tables {
    controllers: TableWriter,
    plans: Option<TableWriter>,
}

impl Tables {
    pub fn create(directory: &Path, traced: bool) -> Result<Self, RecordError> {
        let create = |table| TableWriter::create(table, directory);
        Ok(Self { controllers: create(&CONTROLLERS)?, plans: traced.then(|| create(&PLANS)).transpose()? })
    }

    /// Adds rows.
    pub fn take(&mut self, names: &Names, controllers: Vec<ControllerSample>, plans: Vec<PlanSample>) -> Result<(), RecordError> {
        self.take_controllers(names, controllers)?;
        self.take_plans(names, plans)
    }

    pub fn into_writers(self) -> impl Iterator<Item = TableWriter> {
        std::iter::once(self.controllers).chain(self.plans)
    }

    fn take_controllers(&mut self, names: &Names, samples: Vec<ControllerSample>) -> Result<(), RecordError> {
        for sample in samples {
            self.controllers.row(|row| {
                row.nanos(sample.time.as_nanos())
                    .text(&names.hosts[sample.relay.index()])
                    .number(u64::from(sample.circuits))
                    .fraction(sample.rate_in)
                    .fraction(sample.rate_out)
                    .fraction(sample.queue)
                    .number(sample.solved)
                    .number(sample.trusted)
                    .number(sample.old_plans)
                    .number(sample.commitments_scaled)
                    .number(sample.refused_messages)
                    .number(sample.iterations)
                    .number(sample.messages_sent)
                    .number(sample.messages_lost);
            })?;
        }
        Ok(())
    }

    fn take_plans(&mut self, names: &Names, samples: Vec<PlanSample>) -> Result<(), RecordError> {
        let Some(table) = &mut self.plans else { return Ok(()) };
        for sample in samples {
            let (client, group) = &names.clients[sample.client.index()];
            table.row(|row| {
                row.nanos(sample.time.as_nanos())
                    .text(&names.hosts[sample.relay.index()])
                    .number(u64::from(sample.circuit.0))
                    .text(&names.hosts[client.index()])
                    .text(group)
                    .text(["guard", "middle", "exit"][usize::from(sample.hop) - 1])
                    .fraction(sample.queue)
                    .fraction(sample.rate_in)
                    .fraction(sample.rate_out)
                    .fraction_if(sample.virtual_rate_out)
                    .number(sample.bytes_written)
                    .number_if(sample.bytes_read);
            })?;
        }
        Ok(())
    }
}
