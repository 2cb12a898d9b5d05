//! The table of cells that are followed.

use super::Names;
use crate::records::{RecordError, TableWriter};
use onionlab_quantities::SimTime;
use onionlab_tor::ProbeRecord;

pub(super) fn take(table: &mut TableWriter, names: &Names, probes: Vec<ProbeRecord>) -> Result<(), RecordError> {
    let nanos = |time: Option<SimTime>| time.map(SimTime::as_nanos);
    for probe in probes {
        let (client, group) = &names.clients[probe.client.index()];
        table.row(|row| {
            row.nanos(probe.sent.as_nanos())
                .text(&names.hosts[client.index()])
                .text(group)
                .number(u64::from(probe.circuit.0))
                .nanos_if(nanos(probe.at_exit))
                .number_if(probe.came_by.map(|circuit| u64::from(circuit.0)))
                .nanos_if(nanos(probe.at_server))
                .text(probe.outcome.name());
        })?;
    }
    Ok(())
}
