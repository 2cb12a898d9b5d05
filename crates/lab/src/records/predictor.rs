//! The tables that a run leaves beside the others where relays plan.

use super::table::{Column, Kind, Table};
use super::tables::{CLIENT, GROUP, TIME};

/// One row per relay and sample interval: its controller.
pub const CONTROLLERS: Table = Table {
    name: "controllers",
    description: "One row per sample interval and relay that has planned so far: its controller. Rates and queues are those of its last step, all its circuits together; counts are of the interval. Only with flow-control \"predictor\".",
    columns: &[
        TIME,
        Column::new("relay", Kind::Text, "", "Name of the relay."),
        Column::new("circuits", Kind::U32, "1", "Circuits that it plans for at the end of the interval."),
        Column::new("rate_in", Kind::F64, "cell/s", "Rate at which it planned to take in."),
        Column::new("rate_out", Kind::F64, "cell/s", "Rate at which it let circuits send towards their clients."),
        Column::new("queue_cells", Kind::F64, "cell", "Queues as measured: circuit queues and outbufs."),
        Column::new("solved", Kind::U64, "1", "Plans in which the fast solver found the optimum."),
        Column::new("trusted", Kind::U64, "1", "Plans in which it did not, and the trusted solver did."),
        Column::new("old_plans", Kind::U64, "1", "Plans in which neither did, so that the plan before went on."),
        Column::new(
            "commitments_scaled",
            Kind::U64,
            "1",
            "Plans in which the sources had committed more than the relay can take in, so that the commitments were scaled down.",
        ),
        Column::new("refused_messages", Kind::U64, "1", "Messages of neighbours that made no sense."),
        Column::new("iterations", Kind::U64, "1", "Iterations of the fast solver."),
        Column::new("messages_sent", Kind::U64, "1", "Messages to neighbours on circuits."),
        Column::new("messages_lost", Kind::U64, "1", "Those of them that were lost, or in band had no open connection yet."),
    ],
};

/// One row per step, relay and circuit of a traced client: what was planned.
pub const PLANS: Table = Table {
    name: "plans",
    description: "One row per step of a controller and circuit of a traced client: what the relay measured, planned until its next step, and had done since its last. Only with flow-control \"predictor\", where clients are traced.",
    columns: &[
        Column::new("time_ns", Kind::I64, "ns", "The relay planned, since the start of the simulation."),
        Column::new("relay", Kind::Text, "", "Name of the relay."),
        Column::new("circuit", Kind::U32, "1", "The circuit's number, in order of launch."),
        CLIENT,
        GROUP,
        Column::new("position", Kind::Text, "", "The relay's in the circuit: \"guard\", \"middle\" or \"exit\"."),
        Column::new("queue_cells", Kind::F64, "cell", "The circuit's queue as measured: circuit queue and outbuf."),
        Column::new("rate_in", Kind::F64, "cell/s", "Rate at which the relay plans to take in."),
        Column::new("rate_out", Kind::F64, "cell/s", "Rate at which it lets the circuit send towards the client."),
        Column::new(
            "virtual_rate_out",
            Kind::F64,
            "cell/s",
            "Rate at which it could send if its successor let it; none in the conference's form.",
        )
        .nullable(),
        Column::new("written_bytes", Kind::U64, "B", "Bytes of cells written to the circuit's connection since the step before."),
        Column::new(
            "read_bytes",
            Kind::U64,
            "B",
            "Bytes that the exit read from the circuit's servers since then; none elsewhere.",
        )
        .nullable(),
    ],
};
