//! Where tests find real documents and measurements, which are not part of the repository: consensuses, latencies, published results.

use std::path::{Path, PathBuf};

/// A file or folder of the real data, such as `consensus/md-2021-07-20.xz`; `None`, and a line that says so, where there is no real data at all.
///
/// # Panics
/// If there is real data, but not this: a test that skipped itself then would be evidence that nobody misses.
pub fn path(name: &str) -> Option<PathBuf> {
    found(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"), name)
}

fn found(folder: &Path, name: &str) -> Option<PathBuf> {
    if !folder.is_dir() {
        println!("skipped: {} is not there", folder.display());
        return None;
    }
    let path = folder.join(name);
    assert!(path.exists(), "{} has no {name}", folder.display());
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_any_data_a_test_is_skipped() {
        assert_eq!(found(Path::new("/nowhere"), "consensus"), None);
    }

    #[test]
    fn what_is_there_is_found() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert_eq!(found(here, "src/lib.rs"), Some(here.join("src/lib.rs")));
    }

    #[test]
    #[should_panic(expected = "has no src/other.rs")]
    fn a_file_that_is_missing_alone_is_a_failure() {
        found(Path::new(env!("CARGO_MANIFEST_DIR")), "src/other.rs");
    }
}
