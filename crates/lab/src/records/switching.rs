//! The tables that a run with active circuit switching leaves beside the others.

use super::table::{Column, Kind, Table};
use super::tables::{CLIENT, GROUP};

/// One row per switch of a circuit.
pub const SWITCHES: Table = Table {
    name: "switches",
    description: "One row per switch of a circuit by its entry, in the order in which the last cell of each was gone. Times are since the start of the simulation; none = did not happen. Only with switching.",
    columns: &[
        Column::new("time_ns", Kind::I64, "ns", "The entry sent SWITCH, or with another entry SWITCHED_CONN."),
        CLIENT,
        GROUP,
        Column::new("circuit", Kind::U32, "1", "The circuit that the streams leave, by its number in `circuits`."),
        Column::new("to_circuit", Kind::U32, "1", "The circuit to which they go."),
        Column::new("entry", Kind::Text, "", "The relay that decided it: the first of the circuit that is left."),
        Column::new("to_entry", Kind::Text, "", "\"same\" or \"other\": where the other circuit begins."),
        Column::new(
            "average_cells",
            Kind::F64,
            "cell",
            "The circuit's moving average of cells put into the outbuf in a sample interval.",
        ),
        Column::new(
            "occupancy",
            Kind::F64,
            "1",
            "What was held against alpha and beta: a share of 32 KiB, or of the average before.",
        ),
        Column::new(
            "drained_ns",
            Kind::I64,
            "ns",
            "SWITCH had left the entry's outbuf for the old path, behind the circuit's last cell; with another entry none.",
        )
        .nullable(),
        Column::new("middle_acknowledged_ns", Kind::I64, "ns", "SWITCH_ACK of the new middle arrived at the entry.").nullable(),
        Column::new("acknowledged_ns", Kind::I64, "ns", "SWITCH_ACK of the new exit did, and the first cell could follow.")
            .nullable(),
        Column::new("moved_ns", Kind::I64, "ns", "The client went on over the new circuit.").nullable(),
        Column::new("streams", Kind::U64, "1", "Streams that went on there."),
        Column::new("cells_forwarded", Kind::U64, "cell", "DATA cells of the old circuit that the entry sent on the new one."),
        Column::new(
            "most_cells_held",
            Kind::U64,
            "cell",
            "Most cells of the old circuit that waited at the entry for SWITCH_ACK at one time.",
        ),
        Column::new(
            "cells_lost",
            Kind::U64,
            "cell",
            "DATA cells of the old circuit that reached nobody, or came to the client too late; what they carried was sent again.",
        ),
        Column::new("bytes_lost", Kind::U64, "B", "Their payload."),
        Column::new("started_over", Kind::U64, "1", "Streams that had to start over."),
        Column::new("bytes_started_over", Kind::U64, "B", "Payload that these had exchanged for nothing, in both directions."),
        Column::new(
            "outcome",
            Kind::Text,
            "",
            "\"moved\", \"timed-out\", \"spare-closed\", \"circuit-closed\" or \"unfinished\".",
        ),
    ],
};

/// One row per circuit and sample of an outbuf at its entry.
pub const SWITCHING_SAMPLES: Table = Table {
    name: "switching_samples",
    description: "One row per circuit in each sample of an outbuf by the circuit's entry, in the order of the samples. A circuit whose moving average is below 0.001 cells has none. Only with switching.",
    columns: &[
        Column::new("time_ns", Kind::I64, "ns", "The sample, since the start of the simulation."),
        Column::new("entry", Kind::Text, "", "The relay that sampled, the first of the circuit."),
        Column::new("channel", Kind::U32, "1", "The channel whose outbuf it is, by its number in `channels`."),
        Column::new("direction", Kind::Text, "", "\"out\" towards the circuit's middle, \"in\" towards its client."),
        CLIENT,
        GROUP,
        Column::new("circuit", Kind::U32, "1", "The circuit's number in `circuits`."),
        Column::new("cells", Kind::U32, "cell", "Its cells that went into the outbuf since the sample before: B_sample."),
        Column::new("average_cells", Kind::F64, "cell", "Their moving average, this sample included: B_t."),
        Column::new("outbuf_bytes", Kind::U64, "B", "Plaintext in the outbuf, of all its circuits."),
        Column::new(
            "occupancy",
            Kind::F64,
            "1",
            "What was held against alpha and beta: a share of 32 KiB, or of the average before.",
        ),
        Column::new("writable", Kind::Text, "", "\"yes\" if the socket took more, \"no\" if not."),
        Column::new(
            "verdict",
            Kind::Text,
            "",
            "What followed. \"moves\": its switch began. \"accepted\": the outbuf is between alpha and beta. \"underfull\": below alpha. \"dropped-idle\": the same, and the circuit was closed. The outbuf is congested, but: \"disarmed\": hysteresis; \"lighter\": others are bulkier; \"in-switch\": it is being switched; \"limit\": its streams have moved as often as they may; \"no-spare\": no spare is built for it, or it is one; \"not-ready\": a stream has no standby stream that is open.",
        ),
    ],
};
