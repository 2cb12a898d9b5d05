//! How much memory the process takes, as the kernel tells it.

use std::fs;

/// Greatest resident memory of this process so far, in bytes; zero where there is no `/proc`.
pub fn peak() -> u64 {
    status("VmHWM:")
}

/// Resident memory of this process now, in bytes; zero where there is no `/proc`.
pub fn resident() -> u64 {
    status("VmRSS:")
}

fn status(key: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
    line.trim().strip_suffix("kB").and_then(|kib| kib.trim().parse::<u64>().ok()).map_or(0, |kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_no_less_than_what_is_resident() {
        if std::path::Path::new("/proc/self/status").exists() {
            assert!(resident() > 100_000);
            assert!(peak() >= resident() || resident() - peak() < 1 << 20);
        }
    }
}
