//! How much processor time a run takes, as the kernel tells it: unlike wall time it does not grow when other programs want the processor too.

use std::fs;

/// Processor time that this thread has had since the meter was made.
///
/// It adds up what came between two looks, so that a process that was frozen and taken up again later (CRIU), whose clock of the kernel's begins
/// anew there, still counts all of its work, but for what came between the last look and the freezing.
pub struct Meter {
    seen: f64,
    total: f64,
}

impl Meter {
    /// A meter that begins now; none where the kernel does not say.
    pub fn start() -> Option<Self> {
        of_thread().map(|seen| Self { seen, total: 0.0 })
    }

    /// Seconds until now.
    pub fn look(&mut self) -> f64 {
        if let Some(now) = of_thread() {
            self.take(now);
        }
        self.total
    }

    fn take(&mut self, now: f64) {
        self.total += if now < self.seen { now } else { now - self.seen };
        self.seen = now;
    }
}

/// What the kernel counts for this thread, in seconds, exact to one of its ticks.
fn of_thread() -> Option<f64> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanos: u64 = text.split_whitespace().next()?.parse().ok()?;
    Some(nanos as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_with_work_and_not_with_sleep() {
        let Some(start) = of_thread() else { return println!("skipped: no /proc/thread-self/schedstat here") };
        std::thread::sleep(std::time::Duration::from_millis(300));
        let slept = of_thread().unwrap();
        let began = std::time::Instant::now();
        let mut work = 0_u64;
        while of_thread().unwrap() < slept + 0.02 {
            work = std::hint::black_box(work.wrapping_mul(31) + 1);
            assert!(began.elapsed().as_secs() < 60, "no work is counted");
        }
        assert!(slept - start < 0.2, "sleep is no work: {}", slept - start);
    }

    #[test]
    fn a_clock_that_begins_anew_loses_nothing() {
        let mut meter = Meter { seen: 2.0, total: 0.0 };
        for now in [5.0, 5.5, 0.25, 1.0] {
            meter.take(now);
        }
        assert!((meter.total - 4.5).abs() < 1e-9);
        assert!(Meter::start().is_none_or(|mut meter| (0.0..1.0).contains(&meter.look())));
    }
}
