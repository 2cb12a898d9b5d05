//! A treatment for some of the relays: which ones, and the settings of a world that has it.

use super::own_policy::Interpreter;
use super::{Host, WorldError, tuning};
use crate::scenario::resolved::Treatment;
use crate::scenario::some_relays::{Class, SomeRelays};
use onionlab_engine::HostId;
use onionlab_quantities::{RandomStream, Seed};
use onionlab_tor::{Role, Settings};

/// The settings of every tor under a treatment in which nothing is left open.
pub(super) fn settings(
    treatment: &Treatment,
    hosts: &[Host],
    seed: Seed,
    interpreter: Option<&dyn Interpreter>,
) -> Result<Settings, WorldError> {
    let Some(some) = &treatment.relays else { return tuning::settings(treatment, interpreter) };
    let kernel_tick = tuning::kernel_tick(treatment);
    let settings = tuning::settings(&some.others, interpreter)?;
    let relays = chosen(some, hosts, seed).ok_or_else(|| WorldError::NoSuchRelay { treatment: treatment.name.clone() })?;
    let scheduling = tuning::scheduling(treatment, interpreter)?;
    Ok(Settings { some_relays: Some(onionlab_tor::SomeRelays { relays, scheduling }), kernel_tick, ..settings })
}

/// The relays that have the treatment, at least one; none if the network has no relay that could.
///
/// Each relay has a draw of its own by name, the same under all treatments, and those with the least draws are chosen: a greater share
/// takes in those of a lesser. The draw is of the run's seed, so that seeds within a network average over it.
fn chosen(some: &SomeRelays, hosts: &[Host], seed: Seed) -> Option<Vec<HostId>> {
    let fits = |host: &Host| match host.role {
        Role::Relay { class, .. } => {
            (some.classes.is_empty() || some.classes.iter().copied().map(Class::of_relay).any(|of| of == class))
                && (some.names.is_empty() || some.names.contains(&host.name))
        }
        Role::Client | Role::Server => false,
    };
    let draw = |name: &str| RandomStream::new(seed, name, "treated").at(0).bits();
    let mut relays: Vec<(u64, u32)> =
        hosts.iter().zip(0..).filter(|(host, _)| fits(host)).map(|(host, id)| (draw(&host.name), id)).collect();
    relays.sort_unstable();
    let count = libm::round(some.share * relays.len() as f64) as usize;
    relays.truncate(count.max(1));
    let mut chosen: Vec<HostId> = relays.into_iter().map(|(_, id)| HostId(id)).collect();
    chosen.sort_unstable();
    (!chosen.is_empty()).then_some(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onionlab_quantities::Bandwidth;
    use onionlab_tor::RelayClass;

    fn hosts(relays: u32) -> Vec<Host> {
        let host = |name: String, role| Host { name, up: Bandwidth::UNLIMITED, down: Bandwidth::UNLIMITED, role };
        let classes = [RelayClass::Guard, RelayClass::Middle, RelayClass::Exit, RelayClass::Middle];
        let relay = |index: u32| host(format!("relay{index}"), Role::Relay { class: classes[index as usize % 4], limit: None });
        (0..relays).map(relay).chain([host("client0".to_owned(), Role::Client)]).collect()
    }

    fn some(share: f64, classes: &[Class], names: &[&str]) -> SomeRelays {
        let text = "title = \"A test\"\nduration = \"1 s\"\n[network]\nkind = \"synthetic\"\n[[clients]]\ngroup = \"a\"\ncount = 1\nload = { kind = \"bulk\", size = \"1 MB\" }\n";
        let scenario = crate::Scenario::parse(std::path::Path::new("test.toml"), text.to_owned()).unwrap().resolve().unwrap();
        let names = names.iter().map(ToString::to_string).collect();
        SomeRelays { share, classes: classes.to_vec(), names, others: Box::new(scenario.treatments[0].clone()) }
    }

    #[test]
    fn a_greater_share_takes_in_those_of_a_lesser_and_each_run_has_others() {
        let hosts = hosts(40);
        let of = |share: f64, seed: u64| chosen(&some(share, &[], &[]), &hosts, Seed(seed)).unwrap();
        let (tenth, half) = (of(0.1, 1), of(0.5, 1));
        assert_eq!((tenth.len(), half.len(), of(1.0, 1).len(), of(0.001, 1).len()), (4, 20, 40, 1));
        assert!(tenth.iter().all(|relay| half.contains(relay)));
        assert_ne!(tenth, of(0.1, 2));
        // One relay more displaces one at most.
        let more = chosen(&some(0.5, &[], &[]), &self::hosts(41), Seed(1)).unwrap();
        assert!(half.iter().filter(|relay| !more.contains(relay)).count() <= 1);
    }

    #[test]
    fn only_relays_of_the_classes_and_names_are_chosen() {
        let hosts = hosts(8);
        let of = |classes: &[Class], names: &[&str]| {
            chosen(&some(1.0, classes, names), &hosts, Seed(1))
                .map(|relays| relays.iter().map(|relay| relay.0).collect::<Vec<_>>())
        };
        assert_eq!(of(&[Class::Middle], &[]), Some(vec![1, 3, 5, 7]));
        assert_eq!(of(&[Class::Guard, Class::Exit], &[]), Some(vec![0, 2, 4, 6]));
        assert_eq!(of(&[], &["relay5", "relay2"]), Some(vec![2, 5]));
        assert_eq!(of(&[Class::Exit], &["relay5", "relay2"]), Some(vec![2]));
        assert_eq!(of(&[Class::GuardExit], &[]), None);
        assert_eq!(of(&[], &["client0"]), None);
    }
}
