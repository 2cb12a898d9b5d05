//! Reading a file of round trips between countries, plain or compressed with gzip.
//!
//! Format: comma-separated, with the header `cty1,cty2,rtt_cnt,rtt_avg,rtt_std,rtt_min,rtt_max`; countries by code, times in
//! ms, one row a pair in either order. This is the format of the Internet data set of Cardano's Leios project (from RIPE
//! Atlas). The file is not trusted: its size is bounded after decompression, and each value is checked.

use super::clean::{Measurement, clean};
use super::country::{self, Country};
use super::error::{At, LatencyError};
use super::{LatencyTable, Place};
use onionlab_quantities::SimDuration;
use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

const HEADER: &str = "cty1,cty2,rtt_cnt,rtt_avg,rtt_std,rtt_min,rtt_max";

/// The real file has 0.5 MB; all pairs of 250 countries would have 3 MB.
const LIMIT: u64 = 16 << 20;

/// An hour; the longest ping in the real file took 1156 s.
pub(super) const MAX_MS: f64 = 3_600_000.0;

impl LatencyTable {
    /// Reads and cleans a `.csv` or `.csv.gz` of round trips between countries (told apart by content, not by name).
    ///
    /// Rows whose code names no known country are left out and counted in [`super::Cleaning::skipped`].
    ///
    /// # Errors
    /// Names file, line, column and what is allowed.
    pub fn read_country_rtt(path: impl AsRef<Path>) -> Result<Self, LatencyError> {
        let path = path.as_ref();
        let fault = |source| LatencyError::Read { file: path.to_owned(), source };
        Self::parse_country_rtt(path, &bounded(std::fs::File::open(path).map_err(fault)?, path, LIMIT)?)
    }

    /// Parses the contents, compressed or not; `file` only names it in errors.
    ///
    /// # Errors
    /// Names file, line, column and what is allowed.
    pub fn parse_country_rtt(file: &Path, bytes: &[u8]) -> Result<Self, LatencyError> {
        if bytes.starts_with(&[0x1f, 0x8b]) {
            return Self::parse_plain(file, &bounded(flate2::read::MultiGzDecoder::new(bytes), file, LIMIT)?);
        }
        Self::parse_plain(file, bytes)
    }

    fn parse_plain(file: &Path, bytes: &[u8]) -> Result<Self, LatencyError> {
        let mut lines = bytes.split(|&b| b == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let at = At { file, line: 1 };
        let header = lines.next().unwrap_or_default();
        if header != HEADER.as_bytes() {
            return Err(at.refuse("all", &String::from_utf8_lossy(header), HEADER));
        }
        let mut measurements = Vec::new();
        let mut pairs = BTreeSet::new();
        let mut skipped = 0;
        for (number, line) in lines.enumerate().filter(|(_, line)| !line.is_empty()) {
            let at = At { file, line: number + 2 };
            let Ok(line) = std::str::from_utf8(line) else {
                return Err(at.refuse("all", &String::from_utf8_lossy(line), "text in UTF-8"));
            };
            let Some(measurement) = row(at, line)? else {
                skipped += 1;
                continue;
            };
            if !pairs.insert(measurement.pair) {
                return Err(at.refuse("cty2", line, "each pair of countries once, in either order"));
            }
            measurements.push(measurement);
        }
        clean(&measurements, skipped).ok_or_else(|| LatencyError::TooLittle {
            file: file.to_owned(),
            found: format!("{} usable pairs", measurements.len()),
            allowed: "at least 32 pairs of different countries with 1000 pings or more each, at different distances",
        })
    }

    /// Assembles a table from places in order and a function that gives round trip and deviation of a pair.
    pub(super) fn assemble(
        places: Vec<Country>,
        mut pair: impl FnMut(Country, Country) -> Option<[SimDuration; 2]>,
    ) -> Option<Self> {
        let (mut rtt, mut deviation) = (Vec::new(), Vec::new());
        for a in 0..places.len() {
            for b in 0..=a {
                debug_assert_eq!(super::index(Place(a as u16), Place(b as u16)), rtt.len());
                let values = pair(places[a], places[b])?;
                rtt.push(values[0]);
                deviation.push(values[1]);
            }
        }
        Some(Self { places, rtt, deviation, cleaning: None })
    }
}

/// Reads at most `limit` bytes; more is an error.
pub(super) fn bounded(reader: impl Read, file: &Path, limit: u64) -> Result<Vec<u8>, LatencyError> {
    let mut bytes = Vec::new();
    let fault = |source| LatencyError::Read { file: file.to_owned(), source };
    reader.take(limit + 1).read_to_end(&mut bytes).map_err(fault)?;
    if bytes.len() as u64 > limit {
        return Err(LatencyError::TooLarge { file: file.to_owned(), limit });
    }
    Ok(bytes)
}

/// One row; `None` if a code names no known country.
fn row(at: At<'_>, line: &str) -> Result<Option<Measurement>, LatencyError> {
    let fields: Vec<&str> = line.split(',').collect();
    let [cty1, cty2, count, mean, deviation, min, max] = fields[..] else {
        return Err(at.refuse("all", line, "seven values separated by commas"));
    };
    let pings = count
        .parse::<u64>()
        .ok()
        .filter(|n| (1..1_u64 << 53).contains(n))
        .ok_or_else(|| at.refuse("rtt_cnt", count, "a whole number of pings, at least 1 and below 2^53"))?;
    let time = |column, text: &str| {
        let value = text.parse::<f64>().ok().filter(|ms| (0.0..=MAX_MS).contains(ms));
        value.ok_or_else(|| at.refuse(column, text, "a time in ms from 0 to 3600000"))
    };
    let mean_ms = time("rtt_avg", mean)?;
    let deviation_ms = match deviation {
        "" if pings == 1 => 0.0,
        "" => return Err(at.refuse("rtt_std", deviation, "a time in ms (it may be empty only for a single ping)")),
        text => time("rtt_std", text)?,
    };
    let (min_ms, max_ms) = (time("rtt_min", min)?, time("rtt_max", max)?);
    // Means were computed in doubles and extremes printed as singles: leave room for their rounding.
    if min_ms > mean_ms * 1.0001 {
        return Err(at.refuse("rtt_min", min, "a time not above rtt_avg"));
    }
    if max_ms < mean_ms * 0.9999 {
        return Err(at.refuse("rtt_max", max, "a time not below rtt_avg"));
    }
    let known = |code| Country::parse(code).filter(|&c| country::centre(c).is_some());
    let (Some(a), Some(b)) = (known(cty1), known(cty2)) else {
        for (column, code) in [("cty1", cty1), ("cty2", cty2)] {
            if code.is_empty() || !code.bytes().all(|b| b.is_ascii_alphanumeric()) {
                return Err(at.refuse(column, code, "a country code of two letters"));
            }
        }
        return Ok(None);
    };
    let pair = if a <= b { (a, b) } else { (b, a) };
    Ok(Some(Measurement { pair, pings, mean_ms, deviation_ms, max_ms }))
}

#[cfg(test)]
mod tests {
    use super::super::builtin;
    use super::*;
    use proptest::prelude::*;
    use std::fmt::Write as _;
    use std::io::Write as _;
    use std::path::PathBuf;

    fn testdata(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name)
    }

    /// The measured file, or `None` where there is no real data.
    fn measured() -> Option<LatencyTable> {
        Some(LatencyTable::read_country_rtt(onionlab_real_data::path("network/country-rtt-2025.csv.gz")?).unwrap())
    }

    #[test]
    fn the_builtin_table_is_what_the_cleaning_here_makes_of_the_measured_file() {
        let Some(full) = measured() else { return };
        let builtin = LatencyTable::builtin();
        for a in builtin.places() {
            for b in builtin.places() {
                let (x, y) = (full.place_of(builtin.country(a)).unwrap(), full.place_of(builtin.country(b)).unwrap());
                for (ours, theirs) in [(builtin.rtt(a, b), full.rtt(x, y)), (builtin.jitter(a, b) * 2, full.jitter(x, y) * 2)] {
                    assert!(ours.as_micros().abs_diff(theirs.as_micros()) <= 1, "{ours} {theirs}");
                }
            }
        }
        assert_eq!(builtin.len(), builtin::PLACES.len());
    }

    /// The numbers that `docs/latency.md` reports.
    #[test]
    fn the_cleaning_of_the_measured_file_is_as_documented() {
        let Some(full) = measured() else { return };
        let cleaning = full.cleaning().unwrap();
        println!("{cleaning:?}");
        assert_eq!((full.len(), cleaning.measured, cleaning.filled, cleaning.skipped), (157, 6533, 5870, 294));
        assert_eq!((cleaning.floored, cleaning.capped_within, cleaning.capped_deviations), (248, 18, 5465));
        assert!((cleaning.scale - 0.2964).abs() < 1e-4 && (cleaning.exponent - 0.7167).abs() < 1e-4);
        for a in full.places() {
            for b in full.places() {
                let floor = country::floor_ms(full.country(a), full.country(b)).unwrap();
                assert!(full.rtt(a, b).as_secs_f64() * 1e3 >= floor - 0.001);
                assert_eq!(full.rtt(a, b), full.rtt(b, a));
            }
        }
    }

    /// A file that follows a power law exactly, with one pair missing and one absurdly fast.
    fn synthetic() -> String {
        let codes = ["AU", "BR", "CA", "DE", "ES", "FI", "FR", "GB", "IN", "JP", "NL", "US"].map(|c| Country::parse(c).unwrap());
        let mut text = format!("{HEADER}\n");
        for (i, &a) in codes.iter().enumerate() {
            for &b in &codes[..=i] {
                let ms = match (a.code(), b.code()) {
                    ("US", "NL") => continue,
                    ("US", "JP") => 1.0,
                    _ => 0.5 * country::distance_km(a, b).unwrap().powf(0.7),
                };
                writeln!(text, "{a},{b},5000,{ms},0.1,{ms},{ms}").unwrap();
            }
        }
        text
    }

    #[test]
    fn a_gap_follows_the_regression_and_an_impossible_pair_the_light() {
        let table = LatencyTable::parse_country_rtt(Path::new("synthetic.csv"), synthetic().as_bytes()).unwrap();
        let of = |code| Country::parse(code).unwrap();
        let ms = |a, b| table.rtt(table.place_of(of(a)).unwrap(), table.place_of(of(b)).unwrap()).as_secs_f64() * 1e3;
        let expected = 0.5 * country::distance_km(of("NL"), of("US")).unwrap().powf(0.7);
        assert!((ms("NL", "US") / expected - 1.0).abs() < 0.05, "{} {expected}", ms("NL", "US"));
        assert!((ms("US", "JP") - country::floor_ms(of("US"), of("JP")).unwrap()).abs() < 0.001);
        assert_eq!(table.cleaning().unwrap().filled, 1);
        assert_eq!(table.cleaning().unwrap().floored, 1);
    }

    #[test]
    fn compressed_and_plain_files_are_the_same() {
        let directory = std::env::temp_dir().join(format!("onionlab-latency-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let (plain, packed) = (directory.join("a.csv"), directory.join("a.csv.gz"));
        std::fs::write(&plain, synthetic()).unwrap();
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(synthetic().as_bytes()).unwrap();
        std::fs::write(&packed, encoder.finish().unwrap()).unwrap();
        let (plain, packed) = (LatencyTable::read_country_rtt(plain), LatencyTable::read_country_rtt(packed));
        assert_eq!(plain.unwrap(), packed.unwrap());
        let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        bomb.write_all(&vec![b'x'; LIMIT as usize + 1]).unwrap();
        std::fs::write(directory.join("bomb.gz"), bomb.finish().unwrap()).unwrap();
        let error = LatencyTable::read_country_rtt(directory.join("bomb.gz")).unwrap_err().to_string();
        assert!(error.contains("larger than 16777216 bytes"), "{error}");
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn each_bad_file_is_refused_with_its_place() {
        for (name, expected) in [
            ("header.csv", "line 1, column all: `from,to,rtt` is not allowed; allowed is cty1,cty2"),
            ("columns.csv", "line 3, column all: `AE,AT,10,37.05` is not allowed; allowed is seven values"),
            ("count.csv", "line 2, column rtt_cnt: `0` is not allowed"),
            ("mean.csv", "line 3, column rtt_avg: `fast` is not allowed; allowed is a time in ms"),
            ("mean-nan.csv", "line 2, column rtt_avg: `NaN` is not allowed"),
            ("deviation.csv", "line 2, column rtt_std: `-3` is not allowed"),
            ("deviation-missing.csv", "line 2, column rtt_std: `` is not allowed"),
            ("min.csv", "line 2, column rtt_min: `50` is not allowed; allowed is a time not above rtt_avg"),
            ("max.csv", "line 2, column rtt_max: `12` is not allowed; allowed is a time not below rtt_avg"),
            ("country.csv", "line 2, column cty2: `A T` is not allowed"),
            ("twice.csv", "line 3, column cty2: `AT,DE,10,20,1,19,22` is not allowed; allowed is each pair"),
            ("too-few.csv", "2 usable pairs; allowed is at least 32 pairs"),
            ("not-utf8.csv", "line 2, column all"),
            ("truncated.csv.gz", "cannot be read"),
        ] {
            let error = LatencyTable::read_country_rtt(testdata("bad/latency").join(name)).unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains(name), "{name}: {error}");
        }
        let error = LatencyTable::read_country_rtt(testdata("absent.csv")).unwrap_err().to_string();
        assert!(error.contains("absent.csv: cannot be read"), "{error}");
    }

    proptest! {
        #[test]
        fn no_mutation_makes_the_reader_panic(
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
            digits in proptest::collection::vec((any::<prop::sample::Index>(), 0_u8..12), 0..8),
        ) {
            let mut bytes = synthetic().into_bytes();
            for (index, byte) in changes {
                let at = index.index(bytes.len());
                bytes[at] = byte;
            }
            let _ = LatencyTable::parse_country_rtt(Path::new("mutated.csv"), &bytes);
            // Changes that keep the syntax reach the arithmetic.
            let mut bytes = synthetic().into_bytes();
            for (index, digit) in digits {
                let at = HEADER.len() + 1 + index.index(bytes.len() - HEADER.len() - 1);
                if bytes[at].is_ascii_digit() {
                    bytes[at] = b"0123456789.e"[usize::from(digit)];
                }
            }
            if let Ok(table) = LatencyTable::parse_country_rtt(Path::new("mutated.csv"), &bytes) {
                let longest = table.rtt.iter().max().unwrap().as_secs_f64();
                prop_assert!(longest <= MAX_MS / 1e3);
            }
        }
    }
}
