//! The identity of a build: what changes it, and what does not.

#[path = "../build/identity.rs"]
mod identity;

use std::fs;
use std::path::{Path, PathBuf};

/// A workspace of two crates in a folder of its own.
fn workspace(name: &str) -> PathBuf {
    let crates = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name).join("crates");
    let _ = fs::remove_dir_all(crates.parent().unwrap());
    for (file, text) in [
        ("../Cargo.lock", "version = 4"),
        ("tor/Cargo.toml", "[package]"),
        ("tor/src/lib.rs", "mod cell;"),
        ("tor/src/deep/cell.rs", "// a cell"),
        ("python/src/lib.rs", "// the boundary"),
    ] {
        write(&crates.join(file), text);
    }
    crates
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn the_same_sources_have_one_identity_wherever_they_lie() {
    let (here, there) = (workspace("here"), workspace("there"));
    assert_eq!(identity::of(&here), identity::of(&there));
    for (file, text) in [("python/src/lib.rs", "// new"), ("tor/tests/cells.rs", "// new"), ("tor/src/.lib.rs.swp", "x")] {
        write(&there.join(file), text);
        assert_eq!(identity::of(&here), identity::of(&there), "{file}");
    }
}

#[test]
fn a_change_of_what_is_built_gives_another_identity() {
    let before = identity::of(&workspace("before"));
    for (file, text) in [
        ("../Cargo.lock", "version = 5"),
        ("tor/Cargo.toml", "[package] # new"),
        ("tor/src/deep/cell.rs", "// A cell"),
        ("tor/src/deep/new.rs", ""),
        ("net/src/lib.rs", "// another crate"),
    ] {
        let crates = workspace("after");
        write(&crates.join(file), text);
        assert_ne!(identity::of(&crates), before, "{file}");
    }
    let crates = workspace("after");
    fs::rename(crates.join("tor/src/deep/cell.rs"), crates.join("tor/src/cell.rs")).unwrap();
    assert_ne!(identity::of(&crates), before, "a file in another place");
}

#[test]
fn this_build_carries_the_identity_of_these_sources() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    assert_eq!(onionlab_lab::BUILD, identity::of(crates));
}
