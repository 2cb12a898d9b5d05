#![doc = include_str!("../README.md")]
//!
//! Tor networks as their directory describes them.
//!
//! [`Consensus`] reads the documents of the directory authorities; [`sample()`](sample::sample) scales a network down;
//! [`CapacityModel`] gives each relay the link rate that no consensus states; [`synth`] makes a network where there is
//! no document. Path selection over all that lives in `onionlab-paths`; nothing here knows the simulator.

pub mod capacity;
mod consensus;
mod document;
mod error;
mod families;
pub mod params;
mod policy;
mod read;
mod relay;
pub mod sample;
pub mod synth;
mod time;
mod weights;

pub use capacity::CapacityModel;
pub use consensus::{ClassSummary, Consensus, Flavour, MissingWeights, Summary};
pub use error::DirectoryError;
pub use families::Families;
pub use params::Params;
pub use policy::PortSummary;
pub use relay::{Class, Fingerprint, Flag, Flags, Relay, TorVersion};
pub use sample::{Divergence, Sample, Size, sample};
pub use time::Timestamp;
pub use weights::{BandwidthWeights, ClassTotals, DEFAULT_SCALE, Position};
