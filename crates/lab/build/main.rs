//! Gives the library the identity of the code that it is built from, as the constant `BUILD`.

mod identity;

use std::env;
use std::path::PathBuf;

fn main() {
    let own = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo tells where the crate is"));
    let crates = own.parent().expect("the crate lies beside the others");
    for looked_at in identity::sources(crates) {
        println!("cargo::rerun-if-changed={}", looked_at.display());
    }
    println!("cargo::rustc-env=ONIONLAB_BUILD={}", identity::of(crates));
}
