//! From a file to the text of a document: plain, .xz or .gz, recognised by the first bytes, never more than a bound.

use crate::error::DirectoryError;
use std::io::Read;
use std::path::Path;

/// More text than any consensus has: a decompression bomb is refused here.
pub(crate) const LIMIT_MIB: u64 = 64;
/// Memory that the xz decoder may take; an honest `xz -9` needs 65 MiB.
const XZ_MEMORY: u64 = 128 << 20;

/// Reads a whole file, bounded.
pub(crate) fn file(path: &Path) -> Result<Vec<u8>, DirectoryError> {
    let unreadable = |error: std::io::Error| DirectoryError::Unreadable { path: path.to_owned(), reason: error.to_string() };
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    let read = file.take((LIMIT_MIB << 20) + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if read as u64 > LIMIT_MIB << 20 {
        return Err(DirectoryError::TooLarge { document: path.display().to_string(), limit_mib: LIMIT_MIB });
    }
    Ok(bytes)
}

/// What is in `bytes`, decompressed if it is compressed.
fn decompressed(bytes: &[u8], document: &str) -> Result<Vec<u8>, DirectoryError> {
    match bytes {
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => {
            let stream = liblzma::stream::Stream::new_stream_decoder(XZ_MEMORY, liblzma::stream::CONCATENATED)
                .map_err(|error| compression(document, "xz", &error))?;
            bounded(liblzma::bufread::XzDecoder::new_stream(bytes, stream), document, "xz")
        }
        [0x1f, 0x8b, ..] => bounded(flate2::bufread::MultiGzDecoder::new(bytes), document, "gzip"),
        _ if bytes.len() as u64 > LIMIT_MIB << 20 => {
            Err(DirectoryError::TooLarge { document: document.to_owned(), limit_mib: LIMIT_MIB })
        }
        _ => Ok(bytes.to_vec()),
    }
}

/// The text in `bytes`, decompressed if it is compressed; what is not UTF-8 is replaced.
pub(crate) fn any_text(bytes: &[u8], document: &str) -> Result<String, DirectoryError> {
    Ok(String::from_utf8_lossy(&decompressed(bytes, document)?).into_owned())
}

/// The text of a consensus in `bytes`, decompressed if it is compressed.
pub(crate) fn text(bytes: &[u8], document: &str) -> Result<String, DirectoryError> {
    let raw = without_annotation(decompressed(bytes, document)?);
    String::from_utf8(raw).map_err(|error| {
        let valid = String::from_utf8_lossy(&error.as_bytes()[..error.utf8_error().valid_up_to()]);
        if valid.starts_with("network-status-version") {
            let line = valid.matches('\n').count() + 1;
            let found = valid.lines().last().unwrap_or_default().chars().take(60).collect();
            let (document, problem) = (document.to_owned(), "not UTF-8 text".to_owned());
            DirectoryError::Malformed { document, line, found, problem }
        } else {
            not_a_consensus(&String::from_utf8_lossy(error.as_bytes()), document)
        }
    })
}

/// CollecTor puts a line `@type network-status-consensus-3 1.0` before each document.
///
/// Line numbers in error messages count from the line behind it.
fn without_annotation(mut raw: Vec<u8>) -> Vec<u8> {
    if raw.starts_with(b"@type ")
        && let Some(end) = raw.iter().position(|&byte| byte == b'\n')
    {
        raw.drain(..=end);
    }
    raw
}

/// The error for a document that begins with something else.
pub(crate) fn not_a_consensus(text: &str, document: &str) -> DirectoryError {
    let first = text.lines().next().unwrap_or_default();
    if first.contains(|letter: char| letter == '\u{fffd}' || letter.is_control() && letter != '\t' && letter != '\r') {
        return DirectoryError::NotText { document: document.to_owned() };
    }
    DirectoryError::NotAConsensus { document: document.to_owned(), found: first.chars().take(40).collect() }
}

fn compression(document: &str, format: &'static str, reason: &impl ToString) -> DirectoryError {
    DirectoryError::Compression { document: document.to_owned(), format, reason: reason.to_string() }
}

fn bounded(decoder: impl Read, document: &str, format: &'static str) -> Result<Vec<u8>, DirectoryError> {
    let mut raw = Vec::new();
    decoder.take((LIMIT_MIB << 20) + 1).read_to_end(&mut raw).map_err(|error| compression(document, format, &error))?;
    if raw.len() as u64 > LIMIT_MIB << 20 {
        return Err(DirectoryError::TooLarge { document: document.to_owned(), limit_mib: LIMIT_MIB });
    }
    Ok(raw)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn xz(data: &[u8]) -> Vec<u8> {
        let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    fn gz(data: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn each_form_gives_the_same_text() {
        let data = "network-status-version 3\n".repeat(50);
        for bytes in [data.clone().into_bytes(), xz(data.as_bytes()), gz(data.as_bytes())] {
            assert_eq!(text(&bytes, "test").unwrap(), data);
        }
    }

    #[test]
    fn the_line_that_collector_adds_is_skipped() {
        let annotated = b"@type network-status-consensus-3 1.0\nnetwork-status-version 3\n";
        assert_eq!(text(annotated, "test").unwrap(), "network-status-version 3\n");
    }

    #[test]
    fn a_bomb_is_refused() {
        let zeros = vec![b'0'; (LIMIT_MIB as usize + 1) << 20];
        for bomb in [xz(&zeros), gz(&zeros)] {
            assert!(bomb.len() < 1 << 20);
            assert!(matches!(text(&bomb, "bomb"), Err(DirectoryError::TooLarge { .. })));
        }
    }

    #[test]
    fn half_a_file_is_damaged() {
        let data: Vec<u8> = (0..20_000_u32).flat_map(|i| (i.wrapping_mul(2_654_435_761)).to_string().into_bytes()).collect();
        for whole in [xz(&data), gz(&data)] {
            assert!(matches!(text(&whole[..whole.len() / 2], "half"), Err(DirectoryError::Compression { .. })));
        }
    }
}
