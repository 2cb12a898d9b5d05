//! Which ports a client will want soon (`feature/stats/predict_ports.c`): those that it has used lately, and one to begin with.

use crate::settings::ClientSettings;
use onionlab_quantities::{RandomStream, SimDuration, SimTime};

#[derive(Debug, Clone)]
pub(crate) struct PredictedPorts {
    random: RandomStream,
    draws: u64,
    /// Ports, and when each was used last.
    ports: Vec<(u16, SimTime)>,
    /// An internal circuit was wanted last.
    internal: SimTime,
    /// Stable internal circuits were expected last: when tor started. No stream asks for such later (`connection_ap_handshake_rewrite_and_attach` notes internal ones without).
    stable_internal: SimTime,
    /// Anything was wanted last.
    last: SimTime,
    /// For so long after its use something is predicted.
    lifetime: SimDuration,
}

impl PredictedPorts {
    pub fn new(random: RandomStream) -> Self {
        let (ports, zero) = (Vec::new(), SimTime::ZERO);
        Self { random, draws: 0, ports, internal: zero, stable_internal: zero, last: zero, lifetime: SimDuration::ZERO }
    }

    /// tor has started: it expects the first port, and to need internal circuits.
    pub fn begin(&mut self, now: SimTime, settings: &ClientSettings) {
        (self.internal, self.stable_internal) = (now, now);
        self.used(settings.first_port, now, settings);
    }

    /// `rep_hist_note_used_port`
    pub fn used(&mut self, port: u16, now: SimTime, settings: &ClientSettings) {
        if self.ports.is_empty() && (self.draws == 0 || !self.internal_predicted(now)) {
            self.lifetime = settings.prediction + self.draw(settings.prediction_spread);
        }
        self.last = now;
        match self.ports.iter_mut().find(|(known, _)| *known == port) {
            Some((_, used)) => *used = now,
            None => self.ports.push((port, now)),
        }
    }

    /// `rep_hist_note_used_internal`
    pub fn used_internal(&mut self, now: SimTime, settings: &ClientSettings) {
        if self.ports.is_empty() && !self.internal_predicted(now) {
            self.lifetime = settings.prediction + self.draw(settings.prediction_spread);
        }
        (self.internal, self.last) = (now, now);
    }

    /// Ports that will be wanted (`rep_hist_get_predicted_ports`).
    pub fn predicted(&mut self, now: SimTime) -> impl Iterator<Item = u16> {
        let lifetime = self.lifetime;
        self.ports.retain(|&(_, used)| used + lifetime >= now);
        self.ports.iter().map(|&(port, _)| port)
    }

    /// Whether circuits of any kind will be (`predicted_ports_prediction_time_remaining`).
    pub fn any_predicted(&self, now: SimTime) -> bool {
        self.last + self.lifetime > now
    }

    /// Whether internal circuits will be.
    pub fn internal_predicted(&self, now: SimTime) -> bool {
        self.internal + self.lifetime >= now
    }

    /// Whether they are to be Stable (`rep_hist_get_predicted_internal`).
    pub fn stable_internal_predicted(&self, now: SimTime) -> bool {
        self.stable_internal + self.lifetime >= now
    }

    /// After how long without use a circuit launched now is closed: when nothing is predicted any more, and up to a twentieth later (`origin_circuit_new`).
    pub fn idle_timeout(&mut self, now: SimTime) -> SimDuration {
        let left = (self.last + self.lifetime).saturating_since(now);
        let second = SimDuration::from_secs(1);
        left + second + self.draw(SimDuration::from_nanos(left.as_nanos() / 20))
    }

    fn draw(&mut self, below: SimDuration) -> SimDuration {
        self.draws += 1;
        SimDuration::from_nanos(self.random.at(self.draws).below(below.as_nanos() + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onionlab_quantities::Seed;

    fn at(minutes: u64) -> SimTime {
        SimTime::ZERO + SimDuration::from_secs(60 * minutes)
    }

    fn started() -> PredictedPorts {
        let mut ports = PredictedPorts::new(RandomStream::new(Seed(1), "client", "ports"));
        ports.begin(SimTime::ZERO, &ClientSettings::default());
        ports
    }

    #[test]
    fn a_port_is_predicted_for_half_an_hour_to_an_hour_after_its_use() {
        let settings = ClientSettings::default();
        let mut ports = started();
        assert!((1800..=3600).contains(&(ports.lifetime.as_nanos() / 1_000_000_000)));
        assert_eq!(ports.predicted(at(29)).collect::<Vec<_>>(), [443]);
        assert!(ports.internal_predicted(at(29)));
        ports.used(22, at(29), &settings);
        assert_eq!(ports.predicted(at(30)).collect::<Vec<_>>(), [443, 22]);
        ports.used(22, at(60), &settings);
        assert_eq!(ports.predicted(at(61)).collect::<Vec<_>>(), [22]);
        assert!(!ports.internal_predicted(at(61)));
        assert!(ports.any_predicted(at(89)));
        assert_eq!(ports.predicted(at(121)).count(), 0);
        assert!(!ports.any_predicted(at(121)));
    }

    #[test]
    fn unused_circuits_live_a_little_longer_than_the_prediction() {
        let mut ports = started();
        let (lifetime, now) = (ports.lifetime, at(10));
        let left = lifetime - SimDuration::from_secs(600);
        let idle = ports.idle_timeout(now);
        assert!(idle > left && idle.as_secs_f64() <= left.as_secs_f64() * 1.05 + 1.0, "{idle} after {left}");
    }
}
