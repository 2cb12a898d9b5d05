//! How much processor time a thread takes, as the kernel tells it: unlike wall time it does not grow when other programs want the processor too.

use std::fs;

/// Processor time that this thread has had, in seconds, exact to a tick of the kernel; none where the kernel does not say.
pub fn of_thread() -> Option<f64> {
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
}
