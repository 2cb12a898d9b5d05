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
            row.nanos("time_ns", probe.sent.as_nanos())
                .text("client", &names.hosts[client.index()])
                .text("group", group)
                .number("circuit", u64::from(probe.circuit.0))
                .nanos_if("exit_ns", nanos(probe.at_exit))
                .number_if("came_by_circuit", probe.came_by.map(|circuit| u64::from(circuit.0)))
                .nanos_if("server_ns", nanos(probe.at_server))
                .text("outcome", probe.outcome.name());
        })?;
    }
    Ok(())
}
