//! A circuit over the simulated TCP against the same circuit over the TCP of a Linux kernel (`testdata/linux`).

mod common;

use common::{Plan, mbit};
use onionlab_flowcontrol::{PathType, VegasParameters};
use onionlab_quantities::{SimDuration, SimTime};
use onionlab_tor::{ChannelScheduler, CongestionSettings, FlowControl, RelayClass, Role};
use std::sync::Arc;

/// DATA cells a second of a bulk transfer whose window is fixed.
fn rate(nagle: bool, kist: bool, window: i32, downlink_mbit: f64) -> f64 {
    let mut plan = Plan::new();
    let mut parameters = VegasParameters::new(PathType::Exit);
    (parameters.cwnd_init, parameters.cwnd_min, parameters.cwnd_max) = (window, window, window);
    plan.settings.flow_control =
        FlowControl::Vegas(CongestionSettings { exit_circuits: Arc::new(parameters), ..CongestionSettings::default() });
    plan.tcp.nagle = nagle;
    if !kist {
        plan.settings.scheduling.channel_scheduler = ChannelScheduler::Vanilla;
    }
    plan.trace = true;
    let client = plan.host("client", Role::Client, mbit(100.0));
    let guard = plan.relay("guard", RelayClass::Guard, mbit(20.0));
    let middle = plan.relay("middle", RelayClass::Middle, mbit(100.0));
    let exit = plan.relay("exit", RelayClass::Exit, mbit(100.0));
    let server = plan.host("server", Role::Server, mbit(100.0));
    plan.downlinks.insert(guard.0, mbit(downlink_mbit));
    plan.client(client, [guard, middle, exit], server, "kind = \"bulk\"\nsize = \"500 MB\"", 10);
    let (_, records) = plan.run(30);
    let from = SimTime::ZERO + SimDuration::from_secs(15);
    let times: Vec<SimTime> = records.vegas.iter().map(|sample| sample.time).filter(|&time| time >= from).collect();
    31.0 * (times.len() - 1) as f64 / (times[times.len() - 1] - times[0]).as_secs_f64()
}

/// Nagle holds a SENDME, a short segment, until the one before is acknowledged, so SENDMEs arrive several at a time and the exit answers in
/// bursts, which wait at the guard while its uplink idles before and after. A downlink no faster than the uplink keeps bursts together even
/// without Nagle: SENDMEs and acknowledgements wait in it behind data. The kernel and the simulated TCP lose the same share of the link.
#[test]
fn a_circuit_runs_as_fast_as_over_linux() {
    let table = include_str!("../testdata/linux/rates.tsv");
    let mut ratios = Vec::new();
    // Without Nagle a small window behind the slow downlink has two lasting states, in bursts or spread; how it began decides.
    let undecided = |nagle: f64, window: i32, downlink: f64| nagle == 0.0 && window == 650 && downlink < 100.0;
    for row in table.lines().skip(1) {
        let fields: Vec<f64> = row.split('\t').map(|field| field.parse().unwrap()).collect();
        let [nagle, kist, window, downlink, theirs] = fields[..] else { panic!("five columns: {row}") };
        let window = window as i32;
        if undecided(nagle, window, downlink) {
            continue;
        }
        let ours = rate(nagle > 0.0, kist > 0.0, window, downlink);
        println!("{row}: here {ours:.0}, {:.3}", ours / theirs);
        ratios.push(ours / theirs);
    }
    assert_eq!(ratios.len(), 14);
    assert!(ratios.iter().all(|ratio| (0.93..=1.07).contains(ratio)), "{ratios:?}");
    let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
    assert!((0.97..=1.03).contains(&mean), "{mean}");
}
