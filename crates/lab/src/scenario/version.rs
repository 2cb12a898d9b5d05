//! The versions of tor that an experiment can name, and what the code of each says where nothing else does.
//!
//! A treatment's value comes from the treatment itself, then `[base]`, then the consensus's `params` where that version reads them
//! (`world/effective.rs`), then from here. `docs/models/versions.md` says where each value stands in tor's source.

use super::treatment::{ChannelScheduler, Circuitmux, EwmaClock, Tls};
use onionlab_quantities::{Bytes, SimDuration};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A version of tor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema)]
pub enum TorVersion {
    /// 0.3.5.18 of January 2022 (the series began in November 2018): KIST and EWMA, fixed windows.
    #[serde(rename = "0.3.5")]
    V0_3_5,
    /// 0.4.9.11 of June 2026.
    #[serde(rename = "0.4.9")]
    V0_4_9,
}

/// What a version's code says where neither the experiment nor the consensus does.
pub(crate) struct CodeDefaults {
    /// Which circuit of a channel sends next.
    pub circuitmux: Circuitmux,
    pub ewma_clock: EwmaClock,
    pub channel_scheduler: ChannelScheduler,
    pub kist_interval: SimDuration,
    /// The least interval that its option takes.
    pub kist_interval_least: SimDuration,
    pub cell_queue_low: u32,
    /// The limit of a circuit's queue in cells, and the least that the consensus can set.
    pub max_cell_queue: (u32, u32),
    pub outbuf_chunk: Bytes,
    pub tls: Tls,
}

impl TorVersion {
    /// The defaults of its code.
    pub(crate) const fn code(self) -> CodeDefaults {
        let ms = SimDuration::from_millis;
        match self {
            Self::V0_3_5 => CodeDefaults {
                circuitmux: Circuitmux::Ewma,
                ewma_clock: EwmaClock::Coarse,
                channel_scheduler: ChannelScheduler::Kist,
                kist_interval: ms(10),
                kist_interval_least: ms(1),
                cell_queue_low: 64,
                max_cell_queue: (50_000, 1000),
                outbuf_chunk: Bytes::new(4048),
                tls: Tls::V1_3,
            },
            Self::V0_4_9 => CodeDefaults {
                circuitmux: Circuitmux::Ewma,
                ewma_clock: EwmaClock::Coarse,
                channel_scheduler: ChannelScheduler::Kist,
                kist_interval: ms(2),
                kist_interval_least: ms(2),
                cell_queue_low: 10,
                max_cell_queue: (2500, 50),
                outbuf_chunk: Bytes::new(4048),
                tls: Tls::V1_3,
            },
        }
    }
}
