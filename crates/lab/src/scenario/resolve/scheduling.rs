//! Checks of how cells are chosen.

use super::{Checked, DAY, Keys, MILLISECOND};
use crate::scenario::Scenario;
use crate::scenario::own_policy::{self, Policy};
use crate::scenario::resolved::Scheduling;
use crate::scenario::treatment::{BaseFile, ChannelScheduler, Circuitmux};
use crate::scenario::version::TorVersion;
use onionlab_quantities::SimDuration;

/// What `all` settings say of it, and what the version's code does where they say nothing.
pub(super) fn scheduling<F: Fn(&str) -> String>(
    scenario: &Scenario,
    keys: &Keys<F>,
    all: &BaseFile,
    tor: TorVersion,
) -> Checked<Scheduling> {
    let code = tor.code();
    // A half-life above zero turns EWMA on in every version (`cmux_ewma_set_options`).
    let by_default = all.ewma_half_life.map(|_| Circuitmux::Ewma).or(code.circuitmux).map(Policy::BuiltIn);
    let given = all.circuitmux.as_ref().map(|file| own_policy::policy(scenario, &keys.of("circuitmux"), file)).transpose()?;
    let circuitmux = given.or(by_default);
    let ewma = circuitmux == Some(Policy::BuiltIn(Circuitmux::Ewma));
    let half_life = all.ewma_half_life.filter(|_| ewma);
    let channel_scheduler = all.channel_scheduler.unwrap_or(code.channel_scheduler);
    let kist = channel_scheduler == ChannelScheduler::Kist;
    let intervals = channel_scheduler.has_interval();
    let interval = |name: &str, interval: Option<SimDuration>| {
        keys.given(name, interval.filter(|_| intervals), code.kist_interval_least, MILLISECOND * 100)
    };
    let factor = all.kist_socket_buffer_factor.unwrap_or(1.0);
    Ok(Scheduling {
        circuitmux,
        ewma_half_life: keys.given("ewma-half-life", half_life, MILLISECOND * 10, DAY)?,
        ewma_tick: keys.given("ewma-tick", all.ewma_tick.filter(|_| ewma), MILLISECOND * 1000, longest_tick(half_life))?,
        ewma_clock: ewma.then(|| all.ewma_clock.unwrap_or(code.ewma_clock)),
        channel_scheduler,
        kist_interval: interval("kist-interval", all.kist_interval)?,
        kist_client_interval: interval("kist-client-interval", all.kist_client_interval)?,
        kist_socket_buffer_factor: keys.given("kist-socket-buffer-factor", kist.then_some(factor), 0.0, 10.0)?,
        kist_knows_unsent: kist.then_some(all.kist_knows_unsent.unwrap_or(true)),
    })
}

/// Ten minutes, or a thousand half-lives: counts must not overflow within a tick.
fn longest_tick(half_life: Option<SimDuration>) -> SimDuration {
    let most = SimDuration::from_secs(600);
    half_life.map_or(most, |half_life| most.min(half_life * 1000))
}
