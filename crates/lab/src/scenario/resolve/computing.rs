//! Checks of what computing costs.

use super::{Checked, Keys, MILLISECOND, within};
use crate::scenario::error::Fault;
use crate::scenario::resolved::Computing;
use crate::scenario::treatment::{BaseFile, CpuModel, Handshake};
use crate::scenario::version::TorVersion;
use onionlab_quantities::SimDuration;

/// Measured with tor 0.4.9.11 (docs/results/tor-cpu.md).
const CPU_PER_CELL: SimDuration = SimDuration::from_nanos(6000);
const CPU_PER_HANDSHAKE: SimDuration = SimDuration::from_nanos(160_000);
/// An estimate (docs/models/cpu.md).
const CPU_PER_TAP: SimDuration = SimDuration::from_nanos(300_000);

/// What `all` settings say of it.
pub(super) fn computing<F: Fn(&str) -> String>(keys: &Keys<F>, all: &BaseFile, tor: TorVersion) -> Checked<Computing> {
    let old_clients = all.tap_clients.is_some_and(|share| share > 0.0);
    for (name, tap) in [("handshake", all.handshake == Some(Handshake::Tap)), ("tap-clients", old_clients)] {
        if tap && tor == TorVersion::V0_4_9 {
            return Err(Fault::conflict(keys.of(name), "asks for TAP, which tor 0.4.9 does not answer; older ones do"));
        }
    }
    let tap_clients = within(keys.of("tap-clients"), all.tap_clients.unwrap_or(0.0), 0.0, 1.0)?;
    let cpu = all.cpu.unwrap_or(CpuModel::None);
    let takes_time = cpu == CpuModel::MainThread;
    let cost = |name: &str, given: Option<SimDuration>, usual: SimDuration, most: SimDuration| {
        keys.given(name, takes_time.then_some(given.unwrap_or(usual)), SimDuration::ZERO, most)
    };
    let ten_seconds = SimDuration::from_secs(10);
    Ok(Computing {
        cpu,
        cpu_per_cell: cost("cpu-per-cell", all.cpu_per_cell, CPU_PER_CELL, MILLISECOND * 10)?,
        cpu_per_handshake: cost("cpu-per-handshake", all.cpu_per_handshake, CPU_PER_HANDSHAKE, ten_seconds)?,
        cpu_per_tap: cost("cpu-per-tap", all.cpu_per_tap, CPU_PER_TAP, ten_seconds)?,
        create_fast: all.create_fast.filter(|_| takes_time),
        handshake: all.handshake.filter(|_| takes_time),
        tap_clients: takes_time.then_some(tap_clients),
        ntors_per_tap: keys.given("ntors-per-tap", all.ntors_per_tap.filter(|_| takes_time && old_clients), 1, 100_000)?,
        cpu_cores: keys.given("cpu-cores", takes_time.then_some(all.cpu_cores.unwrap_or(2)), 1, 128)?,
    })
}
