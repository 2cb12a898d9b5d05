//! What can be wrong with a latency or geoip file.

use std::path::PathBuf;

/// Why a latency or geoip file was refused.
#[derive(Debug, thiserror::Error)]
pub enum LatencyError {
    /// The file could not be read or decompressed.
    #[error("{}: cannot be read: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file is larger than any real one, compressed or not.
    #[error("{}: larger than {limit} bytes; allowed is a file of at most that size after decompression", file.display())]
    TooLarge {
        /// The file.
        file: PathBuf,
        /// The limit in bytes.
        limit: u64,
    },
    /// One value is wrong.
    #[error("{}: line {line}, column {column}: `{value}` is not allowed; allowed is {allowed}", file.display())]
    Value {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The column: its name, or "all" where the line as a whole is wrong.
        column: &'static str,
        /// What stands there, shortened.
        value: String,
        /// What may stand there.
        allowed: &'static str,
    },
    /// The file as a whole holds too little.
    #[error("{}: {found}; allowed is {allowed}", file.display())]
    TooLittle {
        /// The file.
        file: PathBuf,
        /// What it holds.
        found: String,
        /// What it must hold.
        allowed: &'static str,
    },
}

/// A position in a file, from which errors are made.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    pub file: &'a std::path::Path,
    pub line: usize,
}

impl At<'_> {
    pub(super) fn refuse(self, column: &'static str, value: &str, allowed: &'static str) -> LatencyError {
        let value = value.chars().take(40).flat_map(char::escape_debug).collect();
        LatencyError::Value { file: self.file.to_owned(), line: self.line, column, value, allowed }
    }
}
