//! Channels over QUIC, as QuicTor has them (Basyoni and others 2021): two hosts have one connection, and each circuit between them a stream.
//!
//! The connection's first stream is the shared channel of its hosts: it does the link handshake after QUIC's own, carries no circuits, and is closed when there has been
//! no circuit for as long as tor leaves an idle channel open, and the connection with it. A circuit that is extended opens a stream for itself, which costs no round trip, and sends CREATE2 on it;
//! the stream is closed as the channel of one circuit is (module `dedicated`).
//!
//! QUIC protects its packets itself: there are no TLS records, so cells are read as they come, and written as many at once as there are.
//! All circuits of the connection share its congestion window, acknowledgements and loss detection, and none waits for what another lost.
//! Between a client and its guard it is the same.

use crate::channel::{self, ChannelKind, Opening};
use crate::ids::EndId;
use crate::settings::{Links, Settings};
use crate::world::World;
use onionlab_net::quic::QuicConfig;

impl Settings {
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
        self.channel_logs[id.channel()].counted_by = self.channel_logs[shared.channel()].number;
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

    /// A stream is closed: its connection may have none left. Where that is lost there may be another between these hosts, which it is none of.
    pub(crate) fn stream_closed(&mut self, id: EndId) {
        let (a, b) = (self.ends[id.index()].host, self.ends[id.peer().index()].host);
        let Some(&shared) = self.channels.get(&channel::pair(a, b)) else { return };
        let counted_by = self.channel_logs[id.channel()].counted_by;
        let log = &mut self.channel_logs[shared.channel()];
        if log.number != counted_by {
            return;
        }
        log.streams -= 1;
        if log.streams == 0 {
            for end in [shared, shared.peer()] {
                self.has_no_circuits(end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::bench_relay::Bench;
    use crate::ids::CircuitId;
    use crate::settings::{Links, Settings};
    use crate::test_world::at;
    use onionlab_engine::HostId;
    use onionlab_net::Path;
    use onionlab_net::quic::QuicCongestion;
    use onionlab_net::tcp::TcpConfig;
    use onionlab_quantities::{Seed, SimDuration};

    /// Between a cell's queue and the neighbour: the path, and KIST's interval of 10 ms.
    const ON_TIME: u64 = 25 + 10;

    /// One circuit sends a cell, another then one every 10 ms, six in all, each of which leaves in a packet. Milliseconds from each cell's queue to the neighbour: the first circuit's, and the six of
    /// the other. Nothing is lost, or exactly that one packet: the seeds in which that happens are looked for. None in the others.
    fn delays(links: Links, lost: bool, seed: u64) -> Option<(u64, [u64; 6])> {
        let path = Path {
            latency: SimDuration::from_millis(25),
            jitter: SimDuration::ZERO,
            loss: if lost { 0.03 } else { 0.0 },
            beside: false,
        };
        let settings = Settings { links, ..Settings::default() };
        let mut bench = Bench::over(path, Seed(seed), settings, 1, TcpConfig { nagle: false, ..TcpConfig::linux() });
        let losses = |bench: &Bench| [0, 1].map(|host| bench.world.network().counters(HostId(host)).path_losses);
        let [first, second]: [CircuitId; 2] =
            std::array::from_fn(|_| if links.are_quic() { bench.circuit_in_stream(0) } else { bench.circuit(0) });
        bench.advance_to(at(1100));
        let packets = |bench: &Bench| bench.world.network().counters(HostId(0)).packets_sent;
        let before = packets(&bench);
        if losses(&bench) != [0, 0] {
            return None;
        }
        bench.queue(first, 1);
        bench.world.settle();
        let mut sent = [0; 6];
        let (mut arrived, mut others) = (None, [None; 6]);
        for millis in 1100..2000 {
            bench.advance_to(at(millis));
            if millis == 1112 {
                assert_eq!(packets(&bench) - before, 1, "{links:?}: one packet carries the cell");
                if losses(&bench) != [u64::from(lost), 0] {
                    return None;
                }
            }
            if let Some(place) = (0..6).find(|place| 1115 + 10 * place == millis) {
                bench.queue(second, 1);
                bench.world.settle();
                sent[place as usize] = millis;
            }
            let left = |circuit: CircuitId| bench.world.circuits[circuit.index()].live_cells - 1;
            if left(first) == 0 {
                arrived = arrived.or(Some(millis - 1100));
            }
            let queued = sent.iter().filter(|&&sent| sent > 0).count();
            for place in 0..queued - (left(second) as usize).min(queued) {
                others[place] = others[place].or(Some(millis - sent[place]));
            }
        }
        (losses(&bench) == [u64::from(lost), 0]).then(|| (arrived.unwrap(), others.map(Option::unwrap)))
    }

    /// Twelve cells that KIST writes in one go fill packets, also where the uplink takes each at once: a cell in a packet of its own would cost its headers, and an acknowledgement.
    #[test]
    fn what_is_written_in_one_go_fills_packets() {
        let links = Links::Quic { congestion: QuicCongestion::Cubic };
        let path = Path { latency: SimDuration::from_millis(25), jitter: SimDuration::ZERO, loss: 0.0, beside: false };
        let mut bench = Bench::over(path, Seed(1), Settings { links, ..Settings::default() }, 1, TcpConfig::linux());
        let circuit = bench.circuit_in_stream(0);
        bench.advance_to(at(1100));
        let packets = |bench: &Bench| bench.world.network().counters(HostId(0)).packets_sent;
        let before = packets(&bench);
        bench.queue(circuit, 12);
        bench.world.settle();
        bench.advance_to(at(1115));
        // 6168 bytes: four packets of 1420, and the rest.
        assert_eq!(packets(&bench) - before, 5);
        bench.advance_to(at(1200));
        assert_eq!(bench.world.circuits[circuit.index()].live_cells, 1, "all have arrived");
    }

    /// With two circuits, a loss on one delays the other on tor's connection and does not in a stream of its own. Exactly one packet is lost, with a cell of the first circuit. Over TCP what the
    /// second circuit has sent meanwhile comes when that has been sent again; over QUIC each of its cells comes as if nothing had been lost.
    #[test]
    fn a_loss_on_one_circuit_delays_the_other_on_a_shared_connection_alone() {
        let quic = Links::Quic { congestion: QuicCongestion::Cubic };
        for links in [Links::Shared, quic] {
            let (first, second) = delays(links, false, 1).unwrap();
            assert!(second.into_iter().chain([first]).all(|delay| delay <= ON_TIME), "{links:?}: {first}, {second:?}");
            let found: Vec<_> = (1..400).filter_map(|seed| delays(links, true, seed)).collect();
            assert!(found.len() >= 3, "{links:?}: {} seeds", found.len());
            for (first, second) in found {
                println!("{links:?}: {first} ms, then {second:?}");
                // The loss is seen a round trip after the cells at the earliest, and mended in half another.
                assert!(first >= 25 + 50, "{links:?}: {first}");
                if links == quic {
                    assert!(second.iter().all(|&delay| delay <= ON_TIME), "{second:?}");
                } else {
                    for (place, delay) in second.into_iter().enumerate() {
                        let with_the_first = first - (15 + 10 * place as u64);
                        assert!(delay >= with_the_first && delay <= with_the_first.max(ON_TIME) + 1, "{first}, {second:?}");
                    }
                }
            }
        }
    }
}
