//! How much memory the process takes, as the kernel tells it.

use std::fs;

/// Greatest resident memory of this process so far, in bytes; zero where there is no `/proc`.
pub fn peak() -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().strip_suffix("kB").and_then(|kib| kib.trim().parse::<u64>().ok()).map_or(0, |kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_grows_with_what_is_used() {
        if std::path::Path::new("/proc/self/status").exists() {
            let before = peak();
            let used = std::hint::black_box(vec![1_u8; 256 << 20]);
            assert!(before > 100_000 && peak() >= used.len() as u64);
        }
    }
}
