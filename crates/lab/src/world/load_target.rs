//! How many clients make the utilisation that was asked for: an estimate, because clients wait for what the network does.
//!
//! **Capacity.** The relays meant are those of the class that the position is called by (for the exit position the relays with
//! the Exit flag, where none has that flag alone). A payload byte crosses one guard, one middle and one exit, so of a payload
//! rate X the relays of class c send X * overhead * sum over positions of the chance that the position falls to c. The payload
//! rate that gives them the utilisation u is X = u * capacity(c) / (overhead * that sum).
//!
//! **Demand.** A client that transfers S bytes, in the direction in which it transfers more, and pauses P asks for S / (P + T) on average. Alone, T = 1 s (circuit and
//! stream round trips) + S / 500 kB/s (a stream window of 500 cells in half a second). Under load T stretches: by 1 / (1 - u)
//! as in a processor-sharing queue, and by 20 at most, beyond which demand follows capacity rather than the number of clients. Flows that come whatever the
//! network does (`perf`, `markov`, `tor-users`) ask for S each P.
//!
//! What comes of it is not exactly u, least of all where relays of another class are full before; the estimate for each class stands
//! in `divergence_json` of the table `run`, and the tables `relays` and `network` say what was reached.

use onionlab_directory::{Class, Consensus, Position};
use onionlab_load::{LoadModel, MeanFlow, Pace};
use onionlab_quantities::Bandwidth;
use onionlab_tor::{CELL_BYTES, RELAY_PAYLOAD_SIZE_MAX};

/// Bytes on a relay's wire for each byte of payload: cells (514 for 498), TLS records (22 for 4048), TCP/IP (52 for 1448).
const OVERHEAD: f64 = CELL_BYTES as f64 / RELAY_PAYLOAD_SIZE_MAX as f64 * (4070.0 / 4048.0) * (1500.0 / 1448.0);
/// Round trips of a transfer in an empty network, in seconds.
const LATENCY: f64 = 1.0;
/// Payload rate of a stream in an empty network, in bytes a second.
const RATE: f64 = 500_000.0;
/// No transfer is thought to be slowed down more than this.
const MOST_STRETCH: f64 = 20.0;

/// The payload rate of all clients together, in bytes a second, that loads the relays of `position` to `utilisation`.
pub(super) fn payload_rate(network: &Consensus, capacities: &[Bandwidth], position: Position, utilisation: f64) -> f64 {
    let each = utilisation_per_payload(network, capacities, meant(network, position));
    if each > 0.0 { utilisation / each } else { 0.0 }
}

/// What the estimate comes to, for the record: a utilisation above 1 of another class says that the target is out of reach.
pub(super) fn report(network: &Consensus, capacities: &[Bandwidth], payload_rate: f64) -> serde_json::Value {
    let expected = Class::ALL
        .map(|class| (class.as_str().to_owned(), (payload_rate * utilisation_per_payload(network, capacities, class)).into()));
    serde_json::json!({
        "payload_bytes_per_second": payload_rate,
        "expected_utilisation": serde_json::Map::from_iter(expected),
    })
}

/// Utilisation of the relays of `class` for each byte a second of payload.
fn utilisation_per_payload(network: &Consensus, capacities: &[Bandwidth], class: Class) -> f64 {
    let of_class = network.relays.iter().zip(capacities).filter(|(relay, _)| relay.class() == class);
    let capacity: f64 = of_class.map(|(_, capacity)| capacity.as_bits_per_sec() as f64 / 8.0).sum();
    let chances: f64 = Position::ALL.iter().map(|position| chance(network, *position, class)).sum();
    if capacity > 0.0 { OVERHEAD * chances / capacity } else { 0.0 }
}

fn meant(network: &Consensus, position: Position) -> Class {
    let class = match position {
        Position::Guard => Class::Guard,
        Position::Middle => Class::Middle,
        Position::Exit => Class::Exit,
    };
    let exists = network.relays.iter().any(|relay| relay.class() == class);
    if exists { class } else { Class::GuardExit }
}

/// The chance that `position` falls to a relay of `class`.
fn chance(network: &Consensus, position: Position, class: Class) -> f64 {
    let totals = network.totals();
    let weight = |class: Class| {
        let eligible = match position {
            Position::Guard => matches!(class, Class::Guard | Class::GuardExit),
            Position::Middle => true,
            Position::Exit => matches!(class, Class::Exit | Class::GuardExit),
        };
        if eligible { totals.get(class) as f64 * network.weights.factor(position, class) } else { 0.0 }
    };
    let all: f64 = Class::ALL.iter().map(|class| weight(*class)).sum();
    if all > 0.0 { weight(class) / all } else { 0.0 }
}

/// Payload that a client of this load, which stands for `users`, asks for on average, in bytes a second of the direction that has more, at this utilisation.
pub(super) fn demand(load: &LoadModel, users: u32, utilisation: f64) -> f64 {
    let MeanFlow { to_server, to_client, pause, lasts } = load.mean_flow();
    let size = to_client.max(to_server);
    let each = match load.pace() {
        Pace::Independent => size / pause,
        Pace::AfterPrevious => {
            let stretch = if utilisation < 1.0 { (1.0 / (1.0 - utilisation)).min(MOST_STRETCH) } else { MOST_STRETCH };
            size / (pause + (stretch * (LATENCY + size / RATE)).max(lasts))
        }
    };
    f64::from(users) * each
}

#[cfg(test)]
mod tests {
    use super::*;
    use onionlab_load::Distribution;
    use onionlab_quantities::{Bytes, SimDuration};

    fn bulk(size: u64) -> LoadModel {
        LoadModel::Bulk { size: Distribution::Constant(Bytes::new(size)), pause: None, request: None, header: None, port: None }
    }

    /// By hand: guards, middles and exits of 1 MB/s each, all weights alike and no relay with two flags, so each position falls
    /// to its class alone or, for the middle, to all three.
    #[test]
    fn payload_rate_by_hand() {
        use onionlab_directory::{BandwidthWeights, Params, Relay};
        let relays: Vec<Relay> = [Class::Guard, Class::Middle, Class::Exit]
            .iter()
            .enumerate()
            .map(|(index, class)| Relay::by_hand(class.as_str(), *class, 100, std::net::Ipv4Addr::from(index as u32)))
            .collect();
        let network = Consensus { relays, weights: BandwidthWeights::UNIFORM, params: Params::default(), ..synth_network() };
        let capacities = [Bandwidth::from_bytes_per_sec(1_000_000); 3];
        // A third of the middle position falls to the middle, and nothing else; the exit has all exits and a third of the middles.
        let rate = payload_rate(&network, &capacities, Position::Middle, 0.5);
        assert!((rate - 0.5 * 1e6 * 3.0 / OVERHEAD).abs() < 1.0, "{rate}");
        let rate = payload_rate(&network, &capacities, Position::Exit, 0.8);
        assert!((rate - 0.8 * 1e6 / (4.0 / 3.0) / OVERHEAD).abs() < 1.0, "{rate}");
        let report = report(&network, &capacities, rate);
        assert!((report["expected_utilisation"]["guard"].as_f64().unwrap() - 0.8).abs() < 1e-9, "{report}");
    }

    /// Where no relay is for a position alone, those that are for guard and exit both are meant; where there are none of these either, nothing.
    #[test]
    fn a_position_without_relays_of_its_own_is_that_of_both() {
        use onionlab_directory::{BandwidthWeights, Params, Relay};
        let network = |classes: &[Class]| {
            let relay = |(class, index): (&Class, u32)| Relay::by_hand(class.as_str(), *class, 100, index.into());
            let relays = classes.iter().zip(0..).map(relay).collect();
            Consensus { relays, weights: BandwidthWeights::UNIFORM, params: Params::default(), ..synth_network() }
        };
        let capacities = [Bandwidth::from_bytes_per_sec(1_000_000); 3];
        let rate = |classes: &[Class]| payload_rate(&network(classes), &capacities, Position::Middle, 0.5);
        // Both of the other positions half, and a third of the middles.
        let expected = 0.5 * 1e6 / (1.0 / 2.0 + 1.0 / 2.0 + 1.0 / 3.0) / OVERHEAD;
        assert!((rate(&[Class::Guard, Class::Exit, Class::GuardExit]) - expected).abs() < 1.0);
        assert!(rate(&[Class::Guard, Class::Exit, Class::Exit]) <= 0.0);
    }

    fn synth_network() -> Consensus {
        onionlab_directory::synth::embedded()
    }

    /// By hand: 5 MB take 1 s + 10 s alone, so 454.5 kB/s; at half load twice as long.
    #[test]
    fn demand_by_hand() {
        assert!((demand(&bulk(5_000_000), 1, 0.0) - 454_545.0).abs() < 1.0);
        assert!((demand(&bulk(5_000_000), 1, 0.5) - 227_272.0).abs() < 1.0);
        let web = LoadModel::Web {
            size: Distribution::Constant(Bytes::new(500_000)),
            pause: Distribution::Constant(SimDuration::from_secs(8)),
            request: None,
            header: None,
            port: None,
        };
        assert!((demand(&web, 1, 0.0) - 50_000.0).abs() < 1.0);
        assert!(demand(&web, 1, 4.0) > 0.0);
        assert!((demand(&web, 7, 0.0) - 350_000.0).abs() < 1.0, "seven users");
        // Who sends 5 MB and is answered with a kilobyte loads relays as much as who gets them.
        let upload: LoadModel = toml::from_str("kind = \"bulk\"\nrequest = \"5 MB\"\nsize = \"1 kB\"").unwrap();
        assert!((demand(&upload, 1, 0.5) - 227_272.0).abs() < 1.0);
        // Independent flows come whatever the network does: 8 kB each ten seconds.
        let perf: LoadModel =
            toml::from_str("kind = \"perf\"\npause = \"10 s\"\nsizes = [{ size = \"8 kB\", weight = 1.0, timeout = \"1 s\" }]")
                .unwrap();
        assert!((demand(&perf, 2, 0.9) - 1600.0).abs() < 1e-9);
        // What is played takes its time: 50 kB/s, and a pause of the same length.
        let audio = |ahead: u32| -> LoadModel {
            toml::from_str(&format!("kind = \"audio\"\nlength = \"100 s\"\nahead = \"{ahead} s\"\npause = \"100 s\"")).unwrap()
        };
        assert!((demand(&audio(0), 1, 0.0) - 25_000.0).abs() < 1e-9);
        // What comes at once at the start does not take its time: 70 s are sent in 70 s.
        assert!((demand(&audio(30), 1, 0.0) - 5e6 / 170.0).abs() < 1e-9);
    }
}
