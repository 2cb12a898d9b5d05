//! Checks of what links and TCP are like.

use super::profiles::profile;
use super::{Checked, Keys, MILLISECOND, within};
use crate::scenario::resolved::Transport;
use crate::scenario::treatment::{BaseFile, ChannelScheduler, DownlinkQueue, LinkProfile, Tcp};
use onionlab_quantities::{Bytes, SimDuration};

/// What the settings say of it, and the link profile where they say nothing.
pub(super) fn transport<F: Fn(&str) -> String>(
    keys: &Keys<F>,
    given: &BaseFile,
    channel_scheduler: ChannelScheduler,
) -> Checked<Transport> {
    let net = given.net.unwrap_or(LinkProfile::Linux);
    let all = given.over(&profile(net));
    let filled = "the profile fills every axis of the link";
    let buffer =
        |name: &str, size: Option<Bytes>| within(keys.of(name), size.expect(filled), Bytes::new(4096), Bytes::new(1 << 30));
    let tcp = all.tcp.expect(filled);
    let ticks = channel_scheduler.has_interval() || given.kernel_tick.is_some();
    let uplink_queue = all.uplink_queue.expect(filled);
    let uplink_packets = uplink_queue.has_packets().then_some(all.uplink_queue_packets.expect(filled));
    let downlink_queue = all.downlink_queue.expect(filled);
    let codel = |name: &str, given: Option<SimDuration>, most: u64| {
        let given = (downlink_queue == DownlinkQueue::Codel).then_some(given.expect(filled));
        keys.given(name, given, MILLISECOND, SimDuration::from_secs(most))
    };
    Ok(Transport {
        net,
        tcp,
        kernel_tick: ticks.then(|| tick(keys.of("kernel-tick"), all.kernel_tick.expect(filled))).transpose()?,
        nagle: all.nagle.expect(filled),
        hystart: (tcp == Tcp::Cubic).then_some(all.hystart.expect(filled)),
        slow_start_after_idle: all.slow_start_after_idle.expect(filled),
        initial_window: within(keys.of("initial-window"), all.initial_window.expect(filled), 1, 1000)?,
        mss: within(keys.of("mss"), all.mss.expect(filled), 88, 65_483)?,
        packet_header: within(keys.of("packet-header"), all.packet_header.expect(filled), Bytes::new(20), Bytes::new(200))?,
        delayed_ack: within(keys.of("delayed-ack"), all.delayed_ack.expect(filled), SimDuration::ZERO, MILLISECOND * 1000)?,
        min_rto: within(keys.of("min-rto"), all.min_rto.expect(filled), MILLISECOND, MILLISECOND * 10_000)?,
        // The losses of other TCPs are judged by round trips of their own.
        round_trips: all.round_trips.filter(|_| net == LinkProfile::Shadow),
        send_buffer: buffer("send-buffer", all.send_buffer)?,
        receive_buffer: buffer("receive-buffer", all.receive_buffer)?,
        link_shaping: all.link_shaping.expect(filled),
        uplink_queue,
        uplink_queue_packets: keys.given("uplink-queue-packets", uplink_packets, 1, 1_000_000)?,
        downlink_queue,
        downlink_queue_size: buffer("downlink-queue-size", all.downlink_queue_size)?,
        downlink_queue_packets: keys.given("downlink-queue-packets", all.downlink_queue_packets, 1, 1_000_000)?,
        codel_target: codel("codel-target", all.codel_target, 10)?,
        codel_interval: codel("codel-interval", all.codel_interval, 100)?,
    })
}

/// Kernels tick 100 to 1000 times a second; zero stands for timers that are exact.
fn tick(key: String, tick: SimDuration) -> Checked<SimDuration> {
    if tick == SimDuration::ZERO {
        return Ok(tick);
    }
    within(key, tick, MILLISECOND, MILLISECOND * 10)
}
