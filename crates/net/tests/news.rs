//! What a socket tells is what it told, unless it says that it has news.

mod star;

use onionlab_net::UplinkQueue;
use onionlab_net::tcp::{TcpConfig, TcpInfo};
use onionlab_quantities::{SimDuration, SimTime};
use star::Star;

const FLOWS: usize = 3;

/// Flows that fill a short queue and lose from it, with pauses in which nothing happens; each is asked now and then. Returns how often there was none to tell, and how many segments
/// went again.
fn without_news(tcp: TcpConfig, uplink_queue: UplinkQueue) -> (u32, u64) {
    let mut star = Star::new(tcp, &[20, 5, 20], uplink_queue, 12);
    for (from, to) in [(0, 1), (2, 1), (0, 2)] {
        star.start(from, to, 400_000);
    }
    let mut told: [Option<TcpInfo>; FLOWS] = [None; FLOWS];
    let (mut none, mut asked) = (0, 0);
    let mut ask = |star: &mut Star, flow: usize| {
        asked += 1;
        match star.news(flow) {
            Some(info) => told[flow] = Some(info),
            None => none += 1,
        }
        assert_eq!(told[flow], Some(star.info(flow)), "flow {flow}, asked {asked} times");
    };
    for second in 1..=6 {
        let end = SimTime::ZERO + SimDuration::from_secs(second);
        let mut events = 0;
        while star.step(end) {
            events += 1;
            for flow in (0..FLOWS).filter(|flow| events % (7 + flow) == 0) {
                ask(&mut star, flow);
            }
        }
        // Of what is written at once only a part can leave at once.
        for _ in 0..if second > 3 { 3 } else { 0 } {
            let flow = second as usize % FLOWS;
            star.write_more(flow, 10_000);
            ask(&mut star, flow);
        }
    }
    let again = (0..FLOWS).map(|flow| star.info(flow).retransmitted_segments).sum();
    (none, again)
}

#[test]
fn a_socket_without_news_tells_what_it_told() {
    for tcp in [TcpConfig::linux(), TcpConfig::shadow()] {
        for uplink_queue in [
            UplinkQueue::Sockets,
            UplinkQueue::WriteOrder,
            UplinkQueue::WriteHeap,
            UplinkQueue::SmallQueues { packets: 30 },
            UplinkQueue::DropTail { packets: 8 },
        ] {
            let (none, again) = without_news(tcp.clone(), uplink_queue);
            println!("{uplink_queue:?}: {none} times no news, {again} segments again");
            assert!(none > 100 && again > 0, "{uplink_queue:?}: {none} times no news, {again} segments again");
        }
    }
}
