//! All tables and what their columns mean, for whoever reads them.

use super::predictor::{CONTROLLERS, PLANS};
use super::probes::PROBES;
use super::switching::{SWITCHES, SWITCHING_SAMPLES};
use super::table::{Kind, Table};
use super::tables::{LATENCY, TABLES, VEGAS};
use serde_json::{Value, json};

/// Every table that a run may leave: those that each leaves, then those whose description says when they are there.
pub const ALL: [&Table; 13] = [
    TABLES[0],
    TABLES[1],
    TABLES[2],
    TABLES[3],
    TABLES[4],
    TABLES[5],
    &VEGAS,
    &LATENCY,
    &PROBES,
    &SWITCHES,
    &SWITCHING_SAMPLES,
    &CONTROLLERS,
    &PLANS,
];

/// All tables as JSON: a list of `name`, `description`, `always` and `columns`, each of these with `name`, `type` (as Polars names
/// it), `nullable`, `unit`, `description` and `provenance`.
pub fn described() -> String {
    let tables = ALL.iter().map(|table| {
        json!({
            "name": table.name,
            "description": table.description,
            "always": TABLES.iter().any(|always| always.name == table.name),
            "columns": table.columns.iter().map(|column| json!({
                "name": column.name,
                "type": match column.kind {
                    Kind::Text => "String",
                    Kind::U32 => "UInt32",
                    Kind::U64 => "UInt64",
                    Kind::I64 => "Int64",
                    Kind::F64 => "Float64",
                },
                "nullable": column.nullable,
                "unit": column.unit,
                "description": column.description,
                "provenance": column.provenance,
            })).collect::<Vec<_>>(),
        })
    });
    Value::Array(tables.collect()).to_string()
}
