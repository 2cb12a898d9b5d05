//! A relay as a consensus lists it: identity, address, flags, consensus weight, class.

use crate::policy::PortSummary;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// One relay of a network.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Relay {
    /// Unique within its document: the nickname, with `.` and the first eight digits of the fingerprint where several
    /// relays share the nickname.
    pub name: String,
    /// What the operator called it; not unique.
    pub nickname: String,
    /// RSA identity.
    pub fingerprint: Fingerprint,
    /// IPv4 address of the OR port.
    pub address: Ipv4Addr,
    /// OR port.
    pub or_port: u16,
    /// IPv6 address at which the relay can be reached too, if it has one.
    pub ipv6: Option<Ipv6Addr>,
    /// What the authorities say of it.
    pub flags: Flags,
    /// Consensus weight (`Bandwidth` of the `w` line), roughly in kB/s but in truth only a relative number.
    pub weight: u64,
    /// Whether the weight rests on measurements of bandwidth authorities (no `Unmeasured=1`).
    pub measured: bool,
    /// The tor that it runs; absent if it does not say or says something else.
    pub version: Option<TorVersion>,
    /// Which ports it lets traffic out to; only an unflavoured consensus says.
    pub exit_policy: Option<PortSummary>,
    /// Digest of its microdescriptor; only a microdescriptor consensus says.
    #[serde(skip)]
    pub microdesc: Option<[u8; 32]>,
}

impl Relay {
    /// A relay described by hand: named, of a class and with a weight; flags that go with the class, Fast and Stable among them.
    ///
    /// The fingerprint is a hash of the name. Used for networks whose hosts a scenario lists one by one.
    pub fn by_hand(name: &str, class: Class, weight: u64, address: Ipv4Addr) -> Self {
        use onionlab_quantities::{RandomStream, Seed};
        let stream = RandomStream::new(Seed(0), name, "fingerprint");
        let mut fingerprint = [0_u8; 20];
        for (chunk, ordinal) in fingerprint.chunks_mut(8).zip(0..) {
            let bytes = stream.at(ordinal).bits().to_be_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
        let mut flags = Flags::from_iter([Flag::Fast, Flag::Running, Flag::Stable, Flag::V2Dir, Flag::Valid]);
        if matches!(class, Class::Guard | Class::GuardExit) {
            flags.insert(Flag::Guard);
        }
        if matches!(class, Class::Exit | Class::GuardExit) {
            flags.insert(Flag::Exit);
        }
        Self {
            name: name.to_owned(),
            nickname: name.to_owned(),
            fingerprint: Fingerprint(fingerprint),
            address,
            or_port: 9001,
            ipv6: None,
            flags,
            weight,
            measured: true,
            version: None,
            exit_policy: None,
            microdesc: None,
        }
    }

    /// The class that decides, with the position, by which bandwidth weight the relay is chosen.
    pub fn class(&self) -> Class {
        self.flags.class()
    }
}

/// A relay's RSA identity: the SHA-1 hash of its key. Prints as 40 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub [u8; 20]);

impl Fingerprint {
    /// The identity that these 40 hexadecimal digits write; `None` if they are not that.
    pub fn from_hex(digits: &str) -> Option<Self> {
        let mut identity = [0; 20];
        if digits.len() != 40 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        for (at, byte) in identity.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).ok()?;
        }
        Some(Self(identity))
    }

    /// What stands for the digest of a descriptor where there is none: of the right length and different for each relay.
    pub(crate) fn digest_of_nothing(self) -> [u8; 32] {
        let mut digest = [0_u8; 32];
        digest[..20].copy_from_slice(&self.0);
        digest
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02X}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl serde::Serialize for Fingerprint {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A version of C tor, ordered as tor orders its versions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TorVersion(pub(crate) tor_netdoc::types::version::TorVersion);

impl fmt::Display for TorVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl FromStr for TorVersion {
    type Err = crate::DirectoryError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = |_| crate::DirectoryError::Version { text: text.chars().take(40).collect() };
        text.parse().map(Self).map_err(error)
    }
}

impl serde::Serialize for TorVersion {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The four kinds of relay between which path selection distinguishes.
///
/// Source: C tor `node_select.c:compute_weighted_bandwidths`, letters g, m, e, d. A relay with BadExit counts as if it had no Exit flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Guard flag, no usable Exit flag (g).
    Guard,
    /// Neither (m).
    Middle,
    /// Exit flag, no Guard flag (e).
    Exit,
    /// Both flags (d).
    GuardExit,
}

impl Class {
    /// All classes, in the order of their letters g, m, e, d.
    pub const ALL: [Self; 4] = [Self::Guard, Self::Middle, Self::Exit, Self::GuardExit];

    /// "guard", "middle", "exit" or "guard-exit".
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Guard => "guard",
            Self::Middle => "middle",
            Self::Exit => "exit",
            Self::GuardExit => "guard-exit",
        }
    }

    /// Position in [`Self::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A flag that the authorities give a relay (Tor directory specification; those that a client may meet).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Flag {
    /// A directory authority.
    Authority,
    /// Caught tampering: not to be used as an exit.
    BadExit,
    /// Lets traffic out to [`Self::EXIT_PORTS`] of at least one /8 each.
    Exit,
    /// Fast enough for ordinary circuits.
    Fast,
    /// May be an entry guard.
    Guard,
    /// Stores onion-service descriptors.
    HsDir,
    /// Neither guard nor exit, by decision of the authorities.
    MiddleOnly,
    /// The authorities do not agree on its ed25519 key.
    NoEdConsensus,
    /// Reachable. Every relay of a consensus is.
    Running,
    /// Up for long; used for streams that live long.
    Stable,
    /// Its descriptor is old.
    StaleDesc,
    /// Answers directory requests.
    V2Dir,
    /// Not refused by the authorities. Every relay of a consensus is.
    Valid,
}

impl Flag {
    /// The ports that the Exit flag promises, those of the web.
    pub const EXIT_PORTS: [u16; 2] = [80, 443];

    /// Whether the Exit flag promises this port.
    pub fn exit_promises(port: u16) -> bool {
        Self::EXIT_PORTS.contains(&port)
    }

    /// All flags in the order of an `s` line.
    pub const ALL: [Self; 13] = [
        Self::Authority,
        Self::BadExit,
        Self::Exit,
        Self::Fast,
        Self::Guard,
        Self::HsDir,
        Self::MiddleOnly,
        Self::NoEdConsensus,
        Self::Running,
        Self::Stable,
        Self::StaleDesc,
        Self::V2Dir,
        Self::Valid,
    ];

    /// As it is written on an `s` line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Authority => "Authority",
            Self::BadExit => "BadExit",
            Self::Exit => "Exit",
            Self::Fast => "Fast",
            Self::Guard => "Guard",
            Self::HsDir => "HSDir",
            Self::MiddleOnly => "MiddleOnly",
            Self::NoEdConsensus => "NoEdConsensus",
            Self::Running => "Running",
            Self::Stable => "Stable",
            Self::StaleDesc => "StaleDesc",
            Self::V2Dir => "V2Dir",
            Self::Valid => "Valid",
        }
    }
}

/// A relay's flags. Prints as an `s` line does; unknown flags of a document are not kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(u16);

impl Flags {
    /// Whether `flag` is set.
    pub const fn contains(self, flag: Flag) -> bool {
        self.0 & (1 << flag as u16) != 0
    }

    /// Sets `flag`.
    pub const fn insert(&mut self, flag: Flag) {
        self.0 |= 1 << flag as u16;
    }

    /// The flags that are set, in the order of an `s` line.
    pub fn iter(self) -> impl Iterator<Item = Flag> {
        Flag::ALL.into_iter().filter(move |&flag| self.contains(flag))
    }

    /// The class that these flags make.
    pub const fn class(self) -> Class {
        match (self.contains(Flag::Guard), self.contains(Flag::Exit) && !self.contains(Flag::BadExit)) {
            (true, true) => Class::GuardExit,
            (true, false) => Class::Guard,
            (false, true) => Class::Exit,
            (false, false) => Class::Middle,
        }
    }
}

impl FromIterator<Flag> for Flags {
    fn from_iter<I: IntoIterator<Item = Flag>>(flags: I) -> Self {
        let mut set = Self::default();
        flags.into_iter().for_each(|flag| set.insert(flag));
        set
    }
}

impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, flag) in self.iter().enumerate() {
            if i > 0 {
                f.write_str(" ")?;
            }
            f.write_str(flag.as_str())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Flags({self})")
    }
}

impl FromStr for Flags {
    type Err = crate::DirectoryError;
    /// Reads flags as an `s` line lists them, separated by spaces; none is a list too.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let flag = |name: &str| {
            let found = Flag::ALL.into_iter().find(|flag| flag.as_str() == name);
            found.ok_or_else(|| crate::DirectoryError::Flag { text: name.chars().take(40).collect() })
        };
        text.split_ascii_whitespace().map(flag).collect()
    }
}

impl serde::Serialize for Flags {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Flags {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_exit_is_no_exit() {
        use Flag::{BadExit, Exit, Guard, Running};
        for (flags, class) in [
            (&[Running][..], Class::Middle),
            (&[Guard], Class::Guard),
            (&[Exit], Class::Exit),
            (&[Exit, Guard], Class::GuardExit),
            (&[Exit, BadExit], Class::Middle),
            (&[Exit, Guard, BadExit], Class::Guard),
        ] {
            assert_eq!(flags.iter().copied().collect::<Flags>().class(), class, "{flags:?}");
        }
    }

    #[test]
    fn flags_print_in_the_order_of_a_document() {
        let flags = Flags::from_iter([Flag::Valid, Flag::Exit, Flag::BadExit]);
        assert_eq!(flags.to_string(), "BadExit Exit Valid");
        assert_eq!("Valid BadExit Exit".parse::<Flags>().unwrap(), flags);
        assert!("Exit Speedy".parse::<Flags>().unwrap_err().to_string().contains("Speedy"));
    }

    #[test]
    fn a_relay_by_hand_has_the_class_it_was_given() {
        for class in Class::ALL {
            let relay = Relay::by_hand("x", class, 7, Ipv4Addr::LOCALHOST);
            assert_eq!(relay.class(), class);
            assert!(relay.flags.contains(Flag::Fast));
        }
    }

    #[test]
    fn versions_compare_as_numbers() {
        let [old, new] = ["0.4.9.1-alpha", "0.4.10.0"].map(|text| text.parse::<TorVersion>().unwrap());
        assert!(old < new);
        assert_eq!(old.to_string(), "0.4.9.1-alpha");
        assert!("tor".parse::<TorVersion>().is_err());
    }
}
