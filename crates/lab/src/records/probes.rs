//! The table that a run leaves where cells are followed to their servers.

use super::table::{Column, Kind, Table};
use super::tables::{CLIENT, GROUP};

/// One row per DATA cell that was followed.
pub const PROBES: Table = Table {
    name: "probes",
    description: "One row per DATA cell of a client that was followed to its server, in the order in which they ended, then those still under way. Times are since the start of the simulation; none = did not happen. Only where clients have `probe`.",
    columns: &[
        Column::new("time_ns", Kind::I64, "ns", "The client's tor packaged it."),
        CLIENT,
        GROUP,
        Column::new("circuit", Kind::U32, "1", "The circuit for which it was packaged, by its number in `circuits`."),
        Column::new("exit_ns", Kind::I64, "ns", "It arrived at the exit.").nullable(),
        Column::new(
            "came_by_circuit",
            Kind::U32,
            "1",
            "The circuit by which it arrived there: another one if it was forwarded in a switch.",
        )
        .nullable(),
        Column::new("server_ns", Kind::I64, "ns", "The server had read its last byte.").nullable(),
        Column::new("outcome", Kind::Text, "", "\"arrived\" at the server, \"lost\" or \"under-way\" when the run ended."),
    ],
};
