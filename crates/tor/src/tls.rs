//! The TLS that channels speak: what a record adds to its plaintext.

/// A version of TLS with the cipher suite that tor's builds of its time agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tls {
    /// TLS 1.3 with AES-GCM: OpenSSL 1.1.1 and later.
    V1_3,
    /// TLS 1.2 with AES-GCM: before, and tor 0.2.5 and later.
    V1_2,
    /// TLS 1.1 or 1.2 with AES-CBC and HMAC-SHA1, which is the likely suite of tor 0.2.4 (`tortls.c`).
    Cbc,
    /// None, as in simulators that send cells as they are (nstor).
    Absent,
}

impl Tls {
    /// Bytes on the wire of a record with so many bytes of plaintext.
    ///
    /// Source: RFC 8446, section 5.2 (header 5, content type 1, tag 16); RFC 5288 (header 5, explicit nonce 8, tag 16); RFC 5246, section
    /// 6.2.3.2 (header 5, initialisation vector 16, then plaintext, MAC 20 and at least one byte of padding in blocks of 16).
    pub const fn record(self, plaintext: u32) -> u32 {
        match self {
            Self::V1_3 => plaintext + 22,
            Self::V1_2 => plaintext + 29,
            Self::Cbc => 5 + 16 + (plaintext + 20 + 1).next_multiple_of(16),
            Self::Absent => plaintext,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lone_cell_and_a_full_chunk() {
        let sizes =
            [Tls::V1_3, Tls::V1_2, Tls::Cbc, Tls::Absent].map(|tls| (tls.record(514), tls.record(4048), tls.record(4064)));
        assert_eq!(sizes, [(536, 4070, 4086), (543, 4077, 4093), (565, 4101, 4117), (514, 4048, 4064)]);
    }
}
