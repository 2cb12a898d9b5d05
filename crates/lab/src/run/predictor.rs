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
                row.nanos("time_ns", sample.time.as_nanos())
                    .text("relay", &names.hosts[sample.relay.index()])
                    .number("circuits", u64::from(sample.circuits))
                    .fraction("rate_in", sample.rate_in)
                    .fraction("rate_out", sample.rate_out)
                    .fraction("queue_cells", sample.queue)
                    .number("solved", sample.solved)
                    .number("trusted", sample.trusted)
                    .number("old_plans", sample.old_plans)
                    .number("commitments_scaled", sample.commitments_scaled)
                    .number("refused_messages", sample.refused_messages)
                    .number("iterations", sample.iterations)
                    .number("messages_sent", sample.messages_sent)
                    .number("messages_lost", sample.messages_lost);
            })?;
        }
        Ok(())
    }

    fn take_plans(&mut self, names: &Names, samples: Vec<PlanSample>) -> Result<(), RecordError> {
        let Some(table) = &mut self.plans else { return Ok(()) };
        for sample in samples {
            let (client, group) = &names.clients[sample.client.index()];
            table.row(|row| {
                row.nanos("time_ns", sample.time.as_nanos())
                    .text("relay", &names.hosts[sample.relay.index()])
                    .number("circuit", u64::from(sample.circuit.0))
                    .text("client", &names.hosts[client.index()])
                    .text("group", group)
                    .text("position", ["guard", "middle", "exit"][usize::from(sample.hop) - 1])
                    .fraction("queue_cells", sample.queue)
                    .fraction("rate_in", sample.rate_in)
                    .fraction("rate_out", sample.rate_out)
                    .fraction_if("virtual_rate_out", sample.virtual_rate_out)
                    .number("written_bytes", sample.bytes_written)
                    .number_if("read_bytes", sample.bytes_read);
            })?;
        }
        Ok(())
    }
}
