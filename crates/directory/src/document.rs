//! Writing a network as a consensus document that tor's parsers read.
//!
//! The digests in it name no descriptors, and the one signature is no signature: the document says so in its `contact` line
//! and in the text that the signature decodes to. Everything else is what an authority would write.

use crate::consensus::{Consensus, Flavour};
use crate::relay::{Flag, Relay};
use std::fmt::Write;

/// Capabilities of a tor of these years; no document of ours makes a difference between relays here.
const PROTOCOLS: &str = "Cons=1-2 Desc=1-2 DirCache=2 FlowCtrl=1-2 HSDir=2 HSIntro=4-5 HSRend=1-2 Link=1-5 LinkAuth=1,3 Microdesc=1-2 Padding=2 Relay=1-4";
/// The authority that never was.
const AUTHORITY: &str = "0000000000000000000000000000000000000000";
const NOTE: &str = "written by onionlab; not signed by anyone";

impl Consensus {
    /// The network as a document of its flavour. Reading it back gives the same network.
    ///
    /// Exit-policy summaries are written in the unflavoured form only, as the format demands; a relay without one gets
    /// `reject 1-65535` there.
    pub fn to_document(&self) -> String {
        let mut text = String::with_capacity(400 * self.relays.len() + 4096);
        self.write(&mut text).expect("writing to a string cannot fail");
        text
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let flavour = match self.flavour {
            Flavour::Microdesc => " microdesc",
            Flavour::Unflavoured => "",
        };
        let hours = |hours: u64| self.valid_after.plus_secs(hours * 3600);
        writeln!(out, "network-status-version 3{flavour}\nvote-status consensus\nconsensus-method {}", self.method)?;
        writeln!(out, "valid-after {}\nfresh-until {}\nvalid-until {}", hours(0), hours(1), hours(3))?;
        writeln!(out, "voting-delay 300 300\nclient-versions\nserver-versions")?;
        let known: Vec<_> = Flag::ALL.iter().map(|flag| flag.as_str()).collect();
        writeln!(out, "known-flags {}", known.join(" "))?;
        for (strength, who) in
            [("recommended", "client"), ("recommended", "relay"), ("required", "client"), ("required", "relay")]
        {
            writeln!(out, "{strength}-{who}-protocols Cons=2 Desc=2 Link=4 Microdesc=2 Relay=2")?;
        }
        let params: Vec<_> = self.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
        writeln!(out, "params {}", params.join(" "))?;
        writeln!(
            out,
            "dir-source onionlab {AUTHORITY} onionlab.invalid 127.0.0.1 80 443\ncontact {NOTE}\nvote-digest {AUTHORITY}"
        )?;
        for relay in &self.relays {
            self.write_relay(out, relay)?;
        }
        writeln!(out, "directory-footer\n{}", self.weights.to_line())?;
        let algorithm = match self.flavour {
            Flavour::Microdesc => "sha256 ",
            Flavour::Unflavoured => "",
        };
        writeln!(out, "directory-signature {algorithm}{AUTHORITY} {AUTHORITY}\n-----BEGIN SIGNATURE-----")?;
        writeln!(out, "{}\n-----END SIGNATURE-----", base64(NOTE.as_bytes(), true))
    }

    fn write_relay(&self, out: &mut String, relay: &Relay) -> std::fmt::Result {
        let identity = base64(&relay.fingerprint.0, false);
        let digest = relay.microdesc.unwrap_or_else(|| relay.fingerprint.digest_of_nothing());
        let in_r_line = match self.flavour {
            Flavour::Microdesc => String::new(),
            Flavour::Unflavoured => format!(" {}", base64(&digest[..20], false)),
        };
        let Relay { nickname, address, or_port, flags, weight, .. } = relay;
        writeln!(out, "r {nickname} {identity}{in_r_line} {} {address} {or_port} 0", self.valid_after)?;
        if self.flavour == Flavour::Microdesc {
            writeln!(out, "m {}", base64(&digest, false))?;
        }
        if let Some(ipv6) = relay.ipv6 {
            writeln!(out, "a [{ipv6}]:{or_port}")?;
        }
        writeln!(out, "s {flags}")?;
        if let Some(version) = &relay.version {
            writeln!(out, "v Tor {version}")?;
        }
        let unmeasured = if relay.measured { "" } else { " Unmeasured=1" };
        writeln!(out, "pr {PROTOCOLS}\nw Bandwidth={weight}{unmeasured}")?;
        if self.flavour == Flavour::Unflavoured {
            match &relay.exit_policy {
                Some(policy) => writeln!(out, "p {policy}")?,
                None => writeln!(out, "p reject 1-65535")?,
            }
        }
        Ok(())
    }
}

/// Base64 (RFC 4648, section 4), with or without the padding that documents leave away on their lines.
fn base64(bytes: &[u8], padded: bool) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().enumerate().fold(0_u32, |bits, (i, &byte)| bits | u32::from(byte) << (16 - 8 * i));
        for digit in 0..4 {
            if digit <= chunk.len() {
                text.push(char::from(DIGITS[(bits >> (18 - 6 * digit)) as usize & 63]));
            } else if padded {
                text.push('=');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test vectors of RFC 4648, section 10.
    #[test]
    fn base64_of_the_rfc() {
        for (bytes, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(bytes.as_bytes(), true), text);
            assert_eq!(base64(bytes.as_bytes(), false), text.trim_end_matches('='));
        }
    }
}
