//! The identity of a build: a hash of the sources of every crate that a run's records can depend on, and of `Cargo.lock`. The same
//! sources give the same identity on any machine, at any path and without git; a changed line, a comment's included, another one.

use std::fs;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::Xxh3;

/// Crates that no run's records depend on.
const APART: [&str; 2] = ["python", "shared-links"];

/// What a crate is built from.
const PARTS: [&str; 5] = ["Cargo.toml", "build.rs", "build", "model", "src"];

/// Sixteen hexadecimal digits.
pub fn of(crates: &Path) -> String {
    let root = crates.parent().unwrap_or(crates);
    let mut hash = Xxh3::new();
    for file in sources(crates).iter().filter(|path| path.is_file()) {
        let place: Vec<_> = file.strip_prefix(root).unwrap_or(file).iter().map(|part| part.to_string_lossy()).collect();
        for part in [place.join("/").as_bytes(), &fs::read(file).unwrap_or_default()] {
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part);
        }
    }
    format!("{:016x}", hash.digest())
}

/// The files that count and the folders that they are in, in a fixed order.
pub fn sources(crates: &Path) -> Vec<PathBuf> {
    let mut found = vec![crates.with_file_name("Cargo.lock")];
    for of_crate in entries(crates).into_iter().filter(|path| !APART.iter().any(|apart| path.ends_with(apart))) {
        for part in PARTS.map(|part| of_crate.join(part)).into_iter().filter(|part| part.exists()) {
            collect(part, &mut found);
        }
    }
    found
}

fn collect(path: PathBuf, found: &mut Vec<PathBuf>) {
    let below = entries(&path);
    found.push(path);
    for entry in below {
        collect(entry, found);
    }
}

/// What a folder holds, by name; an editor's hidden files do not count.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let listed = fs::read_dir(folder).into_iter().flatten().flatten();
    let shown = listed.filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'));
    let mut paths: Vec<PathBuf> = shown.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}
