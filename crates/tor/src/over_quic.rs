//! Channels over QUIC, as QuicTor has them (Basyoni and others 2021): two hosts have one connection, and each circuit between them a stream.
//!
//! The connection's first stream is the shared channel of its hosts: it does the link handshake after QUIC's own, carries no circuits, and is closed when there has been
//! no circuit for as long as tor leaves an idle channel open, and the connection with it. A circuit that is extended opens a stream for itself, which costs no round trip, and sends CREATE2 on it;
//! the stream is closed as the channel of one circuit is (module `dedicated`).
//!
//! QUIC protects its packets itself: there are no TLS records, so cells are read as they come, and what is written at once is a cell.
//! All circuits of the connection share its congestion window, acknowledgements and loss detection, and none waits for what another lost.
//! Between a client and its guard it is the same.

use crate::cell::CELL_BYTES;
use crate::channel::{self, ChannelKind, Opening};
use crate::ids::EndId;
use crate::settings::{Links, Settings};
use crate::world::World;
use onionlab_engine::HostId;
use onionlab_net::quic::QuicConfig;

impl Settings {
    /// What of an outbuf is written in one piece: a chunk as a TLS record, or a cell into a stream.
    pub(crate) fn piece(&self) -> u32 {
        if self.links.are_quic() { CELL_BYTES } else { self.outbuf_chunk }
    }

    /// How QUIC connections behave.
    pub(crate) fn quic(&self) -> QuicConfig {
        let standard = QuicConfig::standard();
        match self.links {
            Links::Quic { congestion } => QuicConfig { congestion_control: congestion, ..standard },
            Links::Shared | Links::PerCircuit { .. } | Links::LightAndHeavy(_) => standard,
        }
    }
}

impl World {
    /// A stream for one circuit, beside this open end of its hosts' shared channel: the end at the same host, open.
    pub(crate) fn open_stream(&mut self, shared: EndId) -> EndId {
        let [from, to] = [shared, shared.peer()].map(|end| self.ends[end.index()].host);
        let id = self.open_channel(from, to, ChannelKind::Stream).expect("a stream needs no socket");
        self.channel_logs[shared.channel()].streams += 1;
        self.channel_logs[id.channel()].open = Some(self.queue.now());
        self.ends[id.index()].opening = Opening::Open;
        self.wants_writes(id);
        id
    }

    /// The first bytes of a stream are there.
    pub(crate) fn stream_arrived(&mut self, id: EndId) {
        self.ends[id.index()].opening = Opening::Open;
        self.wants_writes(id);
    }

    /// A stream between two hosts is closed: their connection may have none left.
    pub(crate) fn stream_closed(&mut self, a: HostId, b: HostId) {
        let Some(&shared) = self.channels.get(&channel::pair(a, b)) else { return };
        let streams = &mut self.channel_logs[shared.channel()].streams;
        *streams = streams.saturating_sub(1);
        if *streams == 0 {
            for end in [shared, shared.peer()] {
                self.has_no_circuits(end);
            }
        }
    }
}
