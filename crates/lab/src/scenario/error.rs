//! What can be wrong with an experiment file: one sentence that names the file, the line or the key, the value, and what is allowed.

use std::fmt;
use std::path::PathBuf;

/// A defect of an experiment file, with its place.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {fault}")]
pub struct ScenarioError {
    /// Where the defect is.
    pub place: Place,
    /// What it is.
    #[source]
    pub fault: Fault,
}

/// A place in an experiment file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The experiment file, as it was named by the user.
    pub file: PathBuf,
    /// The line, counted from 1, where it is known.
    pub line: Option<usize>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        match self.line {
            Some(line) => write!(f, ", line {line}"),
            None => Ok(()),
        }
    }
}

/// The kinds of defects.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The file cannot be read.
    #[error("cannot read the experiment file ({0})")]
    Unreadable(#[source] std::io::Error),
    /// The file is larger than [`super::MAX_FILE_BYTES`].
    #[error("the experiment file is larger than {} MiB, which is the most allowed", super::MAX_FILE_BYTES >> 20)]
    TooLarge,
    /// The file is not UTF-8.
    #[error("the experiment file is not text in UTF-8")]
    NotText,
    /// The text is not TOML.
    #[error("not a TOML document ({message})")]
    Syntax {
        /// What the TOML parser missed.
        message: String,
    },
    /// A key that the format does not have.
    #[error("unknown key `{key}`{}; allowed here: {allowed}", did_you_mean(near.as_ref()))]
    UnknownKey {
        /// The key as it was written.
        key: String,
        /// The allowed key that looks most like it, if one does.
        near: Option<String>,
        /// All keys that are allowed at this place.
        allowed: String,
    },
    /// A key that must be there is not.
    #[error("the key `{key}` is missing{}", in_table(table))]
    MissingKey {
        /// The key.
        key: String,
        /// The table where it belongs; empty for the top level.
        table: String,
    },
    /// A value of the wrong type, unit, or spelling.
    #[error("`{key}`: {message}")]
    WrongValue {
        /// The key with the tables that lead to it.
        key: String,
        /// The value and what is allowed.
        message: String,
    },
    /// A value outside its range.
    #[error("`{key}` is {value}, but must be {allowed}")]
    OutOfRange {
        /// The key with the tables that lead to it.
        key: String,
        /// The value as given.
        value: String,
        /// What is allowed.
        allowed: String,
    },
    /// Two settings that make no sense together.
    #[error("`{key}` {reason}")]
    Conflict {
        /// The key that must go or change.
        key: String,
        /// Why, as the rest of the sentence.
        reason: String,
    },
    /// A file that the experiment file names cannot be used.
    #[error("`{key}` names the file \"{path}\", which cannot be used ({cause})")]
    File {
        /// The key that names the file.
        key: String,
        /// The path as written.
        path: String,
        /// Why not.
        cause: String,
    },
    /// A defect of the experiment as it is at one point of its sweep.
    #[error("at point {point} of the sweep: {fault}")]
    AtPoint {
        /// Number and values of the point.
        point: String,
        /// The defect there.
        fault: Box<Fault>,
    },
}

fn did_you_mean(near: Option<&String>) -> String {
    near.map_or_else(String::new, |near| format!(" (did you mean `{near}`?)"))
}

fn in_table(table: &str) -> String {
    if table.is_empty() { String::new() } else { format!(" in `{table}`") }
}

impl Fault {
    /// A stable machine name of the kind of defect.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unreadable(_) => "scenario-unreadable",
            Self::TooLarge => "scenario-too-large",
            Self::NotText => "scenario-not-text",
            Self::Syntax { .. } => "scenario-syntax",
            Self::UnknownKey { .. } => "scenario-unknown-key",
            Self::MissingKey { .. } => "scenario-missing-key",
            Self::WrongValue { .. } => "scenario-wrong-value",
            Self::OutOfRange { .. } => "scenario-out-of-range",
            Self::Conflict { .. } => "scenario-conflict",
            Self::File { .. } => "scenario-file",
            Self::AtPoint { fault, .. } => fault.code(),
        }
    }

    pub(super) fn out_of_range(key: impl Into<String>, value: impl fmt::Display, allowed: impl Into<String>) -> Self {
        Self::OutOfRange { key: key.into(), value: clipped(&value.to_string(), 80), allowed: allowed.into() }
    }

    pub(super) fn conflict(key: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Conflict { key: key.into(), reason: reason.into() }
    }
}

/// `text` on one line and with at most `most` characters, so that no error echoes a whole file.
pub(super) fn clipped(text: &str, most: usize) -> String {
    let mut line = String::new();
    for (count, c) in text.trim().chars().enumerate() {
        if count == most {
            line.push('…');
            break;
        }
        line.push(if c.is_control() { ' ' } else { c });
    }
    line
}
