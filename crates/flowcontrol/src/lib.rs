//! Flow and congestion control between the ends of a circuit: how many cells may be under way, and who says so.
//!
//! - [`windows`]: the fixed SENDME windows of circuits and streams.
//! - [`vegas`]: `TOR_VEGAS`, the congestion control that replaces the circuit window where both ends support it.
//! - [`xon_xoff`]: what replaces the stream window then.
//!
//! Each end of a circuit has a [`CongestionControl`] for the DATA cells it sends and a [`DeliverWindow`] for those it
//! receives; each end of a stream has a [`PackageWindow`] and a [`DeliverWindow`], or the two halves of [`xon_xoff`].
//!
//! There is no clock here: time is an argument.

mod control;
pub mod vegas;
pub mod windows;
pub mod xon_xoff;

pub use control::{CongestionAlgorithm, CongestionControl, FlowError, NoWindow, Signals};
pub use vegas::{PathType, Vegas, VegasParameters};
pub use windows::{DeliverWindow, PackageWindow};

#[doc = include_str!("../README.md")]
#[cfg(doctest)]
struct Readme;
