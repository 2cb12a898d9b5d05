//! Prints a synthetic consensus: `cargo run --example synth -- 10 microdesc`.

use onionlab_directory::synth::{Model, Options, synth};
use onionlab_directory::{Flavour, Size};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let relays = arguments.next().as_deref().unwrap_or("100").parse()?;
    let flavour = match arguments.next().as_deref() {
        None | Some("microdesc") => Flavour::Microdesc,
        Some("unflavoured") => Flavour::Unflavoured,
        Some(other) => return Err(format!("{other:?} is no flavour: microdesc or unflavoured").into()),
    };
    let options = Options { size: Size::Relays(relays), flavour, ..Options::default() };
    print!("{}", synth(&Model::built_in(), &options)?.to_document());
    Ok(())
}
