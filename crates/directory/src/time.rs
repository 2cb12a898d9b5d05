//! The date of a document.

use std::fmt;

/// An instant in UTC, in whole seconds since 1970. Prints as a consensus writes it: `2021-07-20 19:00:00`.
///
/// It names documents; it has nothing to do with simulated time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The instant so many seconds after 1970-01-01 00:00:00 UTC.
    pub const fn from_unix_secs(secs: u64) -> Self {
        Self(secs)
    }

    /// Seconds since 1970-01-01 00:00:00 UTC.
    pub const fn as_unix_secs(self) -> u64 {
        self.0
    }

    /// The instant `secs` seconds later.
    pub(crate) const fn plus_secs(self, secs: u64) -> Self {
        Self(self.0 + secs)
    }

    /// Midnight at the beginning of a day of the Gregorian calendar (year from 1970 on, month and day from 1 on).
    pub const fn from_date(year: u64, month: u64, day: u64) -> Self {
        // Days of civil date, year beginning in March so that the leap day comes last (Hinnant, "chrono-compatible
        // low-level date algorithms").
        let y = if month <= 2 { year - 1 } else { year };
        let (era, of_era) = (y / 400, y % 400);
        let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
        let day_of_era = of_era * 365 + of_era / 4 - of_era / 100 + day_of_year;
        Self((era * 146_097 + day_of_era - 719_468) * 86_400)
    }

    /// Year, month and day.
    const fn date(self) -> (u64, u64, u64) {
        let days = self.0 / 86_400 + 719_468;
        let (era, of_era) = (days / 146_097, days % 146_097);
        let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let day_of_year = of_era - (365 * year + year / 4 - year / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        (year + era * 400 + if month <= 2 { 1 } else { 0 }, month, day)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.date();
        let second = self.0 % 86_400;
        write!(f, "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
    }
}

impl serde::Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_instants() {
        for (secs, text) in [
            (0, "1970-01-01 00:00:00"),
            (951_782_400, "2000-02-29 00:00:00"),
            (1_626_807_600, "2021-07-20 19:00:00"),
            (1_735_689_599, "2024-12-31 23:59:59"),
        ] {
            assert_eq!(Timestamp::from_unix_secs(secs).to_string(), text);
        }
        assert_eq!(Timestamp::from_date(2021, 7, 20).as_unix_secs(), 1_626_739_200);
    }

    proptest::proptest! {
        #[test]
        fn a_date_comes_back(days in 0..40_000_u64) {
            let (year, month, day) = Timestamp::from_unix_secs(days * 86_400).date();
            proptest::prop_assert_eq!(Timestamp::from_date(year, month, day).as_unix_secs(), days * 86_400);
        }
    }
}
