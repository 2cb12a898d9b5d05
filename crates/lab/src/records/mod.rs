//! Records: tidy tables with documented columns, in Parquet, written while the run goes on.
//!
//! A run's directory appears whole or not at all: the files grow in a hidden directory beside it, which is renamed at the end and
//! removed where there is no end ([`RunDirectory`]).

mod described;
mod directory;
mod predictor;
mod probes;
mod switching;
mod table;
mod tables;

pub use described::{ALL, described};
pub use directory::RunDirectory;
pub use predictor::{CONTROLLERS, PLANS};
pub use probes::PROBES;
pub use switching::{SWITCHES, SWITCHING_SAMPLES};
pub use table::{Column, Kind, ROW_GROUP, Row, Table, TableWriter};
pub use tables::{CHANNELS, CIRCUITS, LATENCY, NETWORK, RELAYS, RUN, TABLES, TRANSFERS, VEGAS};

use std::path::PathBuf;

/// Records that cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A file or directory cannot be written.
    #[error("cannot write {} ({cause})", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Why not.
        #[source]
        cause: std::io::Error,
    },
    /// A table cannot be written.
    #[error("cannot write a table ({0})")]
    Parquet(#[from] parquet::errors::ParquetError),
}
