//! The versions of tor that an experiment can name, and what the code of each says where nothing else does.
//!
//! A treatment's value comes from the treatment itself, then `[base]`, then the consensus's `params` where that version reads them
//! (`world/effective.rs`), then from here. `docs/models/versions.md` says where each value stands in tor's source.

use super::treatment::{
    ChannelReads, ChannelScheduler, Circuitmux, DestroyCells, EwmaClock, FlowControl, Handshake, MemoryCounts, Tls, TokenRefill,
};
use onionlab_quantities::{Bytes, SimDuration};
use onionlab_tor::{RELAY_PAYLOAD_SIZE_MAX, RELAY_PAYLOAD_SIZE_V1};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A version of tor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema)]
pub enum TorVersion {
    /// 0.2.4.19 of December 2013: no channel scheduler, round robin unless the consensus asks for EWMA, fixed windows.
    #[serde(rename = "0.2.4")]
    V0_2_4,
    /// 0.3.5.18 of January 2022 (the series began in November 2018): KIST and EWMA, fixed windows.
    #[serde(rename = "0.3.5")]
    V0_3_5,
    /// 0.4.9.11 of June 2026: KIST and EWMA, congestion control.
    #[serde(rename = "0.4.9")]
    V0_4_9,
}

/// What a version's code says where neither the experiment nor the consensus does.
pub(crate) struct CodeDefaults {
    /// Which circuit of a channel sends next; none: round robin, or EWMA where the consensus has a half-life.
    pub circuitmux: Option<Circuitmux>,
    pub ewma_clock: EwmaClock,
    pub channel_scheduler: ChannelScheduler,
    pub kist_interval: SimDuration,
    /// The least interval that its option takes.
    pub kist_interval_least: SimDuration,
    pub cell_queue_low: u32,
    /// The limit of a circuit's queue in cells, and the least that the consensus can set; none: no queue is too long.
    pub max_cell_queue: Option<(u32, u32)>,
    pub memory_counts: MemoryCounts,
    pub destroy_cells: DestroyCells,
    pub outbuf_chunk: Bytes,
    pub tls: Tls,
    pub channel_reads: ChannelReads,
    pub token_refill: TokenRefill,
    pub flow_control: FlowControl,
    pub optimistic_data: bool,
    pub random_cells: bool,
}

impl TorVersion {
    /// Worker threads for onion handshakes on a machine of so many cores, how many handshakes they take in hand, `each` for each core since 0.3.5
    /// (`cpuworker.c:cpu_init`, `max_pending_tasks_per_cpu`), and by how many threads the expected delay of those that wait is divided (`onion_queue.c:have_room_for_onionskin`).
    pub(crate) const fn handshake_workers(self, cores: u32, each: u32) -> (u32, u32, u32) {
        let threads = if cores < 2 { 2 } else { cores };
        match self {
            Self::V0_2_4 => (cores, cores, cores),
            Self::V0_3_5 => (cores + 1, each.saturating_mul(cores), cores),
            Self::V0_4_9 => (threads, each.saturating_mul(cores), threads),
        }
    }

    /// Whether clients make a first hop with CREATE_FAST, and the handshakes of the other hops, where no consensus says otherwise
    /// (`should_use_create_fast_for_circuit`, `circuits_can_use_ntor`).
    pub(crate) const fn handshakes(self) -> (bool, Handshake) {
        match self {
            Self::V0_2_4 => (true, Handshake::Tap),
            Self::V0_3_5 | Self::V0_4_9 => (false, Handshake::Ntor),
        }
    }

    /// The defaults of its code.
    pub(crate) const fn code(self) -> CodeDefaults {
        let ms = SimDuration::from_millis;
        match self {
            Self::V0_2_4 => CodeDefaults {
                circuitmux: None,
                ewma_clock: EwmaClock::Wall,
                channel_scheduler: ChannelScheduler::Refill,
                // There is none; as in the version that brought it.
                kist_interval: ms(10),
                kist_interval_least: ms(1),
                cell_queue_low: 64,
                max_cell_queue: None,
                memory_counts: MemoryCounts::Cells,
                destroy_cells: DestroyCells::Overtake,
                outbuf_chunk: Bytes::new(4064),
                tls: Tls::Cbc,
                channel_reads: ChannelReads::Record,
                token_refill: TokenRefill::Timer,
                flow_control: FlowControl::Windows,
                optimistic_data: false,
                random_cells: false,
            },
            Self::V0_3_5 => CodeDefaults {
                circuitmux: Some(Circuitmux::Ewma),
                ewma_clock: EwmaClock::Coarse,
                channel_scheduler: ChannelScheduler::Kist,
                kist_interval: ms(10),
                kist_interval_least: ms(1),
                cell_queue_low: 64,
                max_cell_queue: Some((50_000, 1000)),
                memory_counts: MemoryCounts::CellsAndBuffers,
                destroy_cells: DestroyCells::Alternate,
                outbuf_chunk: Bytes::new(4048),
                tls: Tls::V1_3,
                channel_reads: ChannelReads::Record,
                token_refill: TokenRefill::Lazy,
                flow_control: FlowControl::Windows,
                optimistic_data: true,
                random_cells: false,
            },
            Self::V0_4_9 => CodeDefaults {
                circuitmux: Some(Circuitmux::Ewma),
                ewma_clock: EwmaClock::Coarse,
                channel_scheduler: ChannelScheduler::Kist,
                kist_interval: ms(2),
                kist_interval_least: ms(2),
                cell_queue_low: 10,
                max_cell_queue: Some((2500, 50)),
                memory_counts: MemoryCounts::CellsAndBuffers,
                destroy_cells: DestroyCells::Alternate,
                outbuf_chunk: Bytes::new(4048),
                tls: Tls::V1_3,
                channel_reads: ChannelReads::Share,
                token_refill: TokenRefill::Lazy,
                flow_control: FlowControl::Vegas,
                optimistic_data: true,
                random_cells: true,
            },
        }
    }

    /// Bytes of data in a DATA cell. With congestion control the last hop of 0.4.9 speaks the newer relay crypto, whose header takes ten bytes more
    /// (`client_circ_negotiation_message`, `relay_cell_max_payload_size`).
    pub(crate) fn cell_payload(self, flow_control: FlowControl) -> u32 {
        let newer = self == Self::V0_4_9 && flow_control == FlowControl::Vegas;
        u32::from(if newer { RELAY_PAYLOAD_SIZE_V1 } else { RELAY_PAYLOAD_SIZE_MAX })
    }
}
