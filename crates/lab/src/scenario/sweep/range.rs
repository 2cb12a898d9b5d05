//! The values of a range: `{ from = "1 s", to = "100 s", steps = 5, scale = "logarithmic" }`.

use super::super::diagnose::nearest;
use super::super::error::{Fault, clipped};
use super::super::resolve::Checked;
use super::MAX_POINTS;
use super::read::json;
use onionlab_quantities::{Bandwidth, Bytes, SimDuration};
use serde_json::Value;
use std::fmt::Display;
use std::str::FromStr;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

const KEYS: [&str; 4] = ["from", "to", "steps", "scale"];

/// Whether a table is a range, and not one that leads to deeper keys: such a one has no single values.
pub(super) fn is_range(table: &DeTable<'_>) -> bool {
    let single = |key: &str| table.get(key).is_some_and(|value| !value.get_ref().is_array() && !value.get_ref().is_table());
    KEYS.into_iter().any(single)
}

/// The values of the range at `place`, in order, as TOML.
pub(super) fn values(place: &str, range: &DeTable<'_>) -> Checked<Vec<String>> {
    for (key, _) in range {
        let key = key.get_ref();
        if !KEYS.contains(&key.as_ref()) {
            let near = nearest(key, &KEYS).map(str::to_owned);
            return Err(Fault::UnknownKey { key: clipped(key, 80), near, allowed: KEYS.join(", ") });
        }
    }
    let get = |key: &str| {
        let missing = || Fault::MissingKey { key: key.to_owned(), table: place.to_owned() };
        range.get(key).map(|value| json(value.get_ref())).ok_or_else(missing)
    };
    let (from, to, steps) = (get("from")?, get("to")?, get("steps")?);
    let key = |key: &str| format!("{place}.{key}");
    let steps = match steps.as_u64().and_then(|steps| usize::try_from(steps).ok()) {
        Some(steps) if (2..=MAX_POINTS).contains(&steps) => steps,
        _ => return Err(Fault::out_of_range(key("steps"), steps, format!("a whole number from 2 to {MAX_POINTS}"))),
    };
    let logarithmic = match range.get("scale").map(Spanned::get_ref) {
        None => false,
        Some(DeValue::String(scale)) if scale == "linear" => false,
        Some(DeValue::String(scale)) if scale == "logarithmic" => true,
        Some(other) => return Err(Fault::out_of_range(key("scale"), json(other), "\"linear\" or \"logarithmic\"")),
    };
    let between = Between { steps, logarithmic };
    let values = match (&from, &to) {
        (Value::Number(low), Value::Number(high)) => match (low.as_i64(), high.as_i64()) {
            (Some(low), Some(high)) => {
                // The ends as they stand: beyond 2^53 a float has not every whole number.
                let exact = |(step, value): (usize, f64)| match step {
                    0 => low.to_string(),
                    _ if step + 1 == steps => high.to_string(),
                    _ => format!("{value:.0}"),
                };
                between.whole(low as f64, high as f64).map(|values| values.enumerate().map(exact).collect())
            }
            _ => between.numbers(low.as_f64(), high.as_f64()),
        },
        (Value::String(low), Value::String(high)) => between
            .quantities(low, high, SimDuration::as_nanos, SimDuration::from_nanos)
            .or_else(|| between.quantities(low, high, Bytes::get, Bytes::new))
            .or_else(|| between.quantities(low, high, Bandwidth::as_bits_per_sec, Bandwidth::from_bits_per_sec))
            .unwrap_or_else(|| Err("two quantities of one kind, such as \"10 ms\" and \"1 s\"".to_owned())),
        _ => Err("two numbers or two quantities".to_owned()),
    };
    let told = format!("from {from} to {to}");
    let values: Vec<String> = values.map_err(|allowed| Fault::out_of_range(place, &told, allowed))?;
    if let Some(twice) = values.iter().enumerate().find_map(|(number, value)| values[..number].contains(value).then_some(value)) {
        let allowed = format!(
            "a range whose {steps} values differ; {twice} comes twice (numbers with a point, such as 1.0, do not stay whole)"
        );
        return Err(Fault::out_of_range(place, told, allowed));
    }
    Ok(values)
}

/// How the values of a range follow each other.
#[derive(Clone, Copy)]
struct Between {
    steps: usize,
    logarithmic: bool,
}

impl Between {
    /// Values from `low` to `high`, each end exact.
    fn values(self, low: f64, high: f64) -> Result<impl Iterator<Item = f64>, String> {
        if !(low.is_finite() && high.is_finite()) {
            return Err("two finite numbers".to_owned());
        }
        if self.logarithmic && !(low > 0.0 && high > 0.0) {
            return Err("two numbers above 0 on a logarithmic scale".to_owned());
        }
        let last = self.steps - 1;
        Ok((0..=last).map(move |step| {
            let share = step as f64 / last as f64;
            match step {
                0 => low,
                _ if step == last => high,
                _ if self.logarithmic => digits(low * libm::pow(high / low, share), 4),
                _ => low + (high - low) * share,
            }
        }))
    }

    /// The same, rounded to whole numbers.
    fn whole(self, low: f64, high: f64) -> Result<impl Iterator<Item = f64>, String> {
        Ok(self.values(low, high)?.map(libm::round))
    }

    /// The same as fractions, without the last digits that only the arithmetic made.
    fn numbers(self, low: Option<f64>, high: Option<f64>) -> Result<Vec<String>, String> {
        let (Some(low), Some(high)) = (low, high) else { return Err("two finite numbers".to_owned()) };
        Ok(self.values(low, high)?.map(|value| format!("{:?}", digits(value, 12))).collect())
    }

    /// The same for texts with units; `None` if they are not of this kind.
    fn quantities<Q: FromStr + Display>(
        self,
        low: &str,
        high: &str,
        get: fn(Q) -> u64,
        new: fn(u64) -> Q,
    ) -> Option<Result<Vec<String>, String>> {
        let (low, high) = (get(low.parse().ok()?), get(high.parse().ok()?));
        let values = self.whole(low as f64, high as f64);
        Some(values.map(|values| values.map(|value| format!("\"{}\"", new(value as u64))).collect()))
    }
}

/// A number rounded to so many significant digits.
fn digits(value: f64, count: i32) -> f64 {
    if value == 0.0 {
        return value;
    }
    let places = count - 1 - libm::floor(libm::log10(libm::fabs(value))) as i32;
    // Through text, which rounds to the nearest decimal number, as dividing by a power of ten would not.
    format!("{value:.*e}", (count - 1).unsigned_abs() as usize)
        .parse()
        .unwrap_or_else(|_| libm::round(value * libm::pow(10.0, f64::from(places))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Vec<String>, String> {
        let document = DeTable::parse(text).unwrap();
        values("sweep.k", document.get_ref()).map_err(|fault| fault.to_string())
    }

    #[test]
    fn numbers_stay_whole_where_both_ends_are() {
        assert_eq!(of("from = 10\nto = 100\nsteps = 4").unwrap(), ["10", "40", "70", "100"]);
        assert_eq!(of("from = 1\nto = 1000\nsteps = 4\nscale = \"logarithmic\"").unwrap(), ["1", "10", "100", "1000"]);
        assert_eq!(of("from = 0.1\nto = 0.5\nsteps = 5").unwrap(), ["0.1", "0.2", "0.3", "0.4", "0.5"]);
        assert_eq!(of("from = 3\nto = 1\nsteps = 3").unwrap(), ["3", "2", "1"]);
        assert!(of("from = 0\nto = 1\nsteps = 3").unwrap_err().contains("1 comes twice"));
        // Of such no float has more than one in a thousand.
        let wide = of(&format!("from = {}\nto = {}\nsteps = 3", i64::MIN + 1, i64::MAX)).unwrap();
        assert_eq!(wide, [(i64::MIN + 1).to_string(), "0".to_owned(), i64::MAX.to_string()]);
    }

    #[test]
    fn quantities_keep_their_units() {
        assert_eq!(of("from = \"1 s\"\nto = \"3 s\"\nsteps = 3").unwrap(), ["\"1 s\"", "\"2 s\"", "\"3 s\""]);
        let bandwidths = of("from = \"1 Mbit/s\"\nto = \"100 Mbit/s\"\nsteps = 5\nscale = \"logarithmic\"").unwrap();
        assert_eq!(bandwidths, ["\"1 Mbit/s\"", "\"3162 kbit/s\"", "\"10 Mbit/s\"", "\"31.62 Mbit/s\"", "\"100 Mbit/s\""]);
        assert_eq!(of("from = \"64 KiB\"\nto = \"128 KiB\"\nsteps = 3").unwrap(), ["\"64 KiB\"", "\"96 KiB\"", "\"128 KiB\""]);
    }

    #[test]
    fn a_range_that_is_none_is_refused() {
        for (text, part) in [
            ("from = 1\nto = 2", "`steps` is missing"),
            ("from = 1\nto = 2\nsteps = 1", "from 2 to 1000"),
            ("from = 1\nto = 2\nsteps = 2.5", "from 2 to 1000"),
            ("from = 0\nto = 2\nsteps = 2\nscale = \"logarithmic\"", "above 0"),
            ("from = 1\nto = 2\nsteps = 2\nscale = \"log\"", "logarithmic"),
            ("from = \"1 s\"\nto = \"2 MB\"\nsteps = 2", "of one kind"),
            ("from = \"a\"\nto = \"b\"\nsteps = 2", "of one kind"),
            ("from = 1\nto = \"2 s\"\nsteps = 2", "two numbers or two quantities"),
            ("from = nan\nto = 1.0\nsteps = 2", "two numbers or two quantities"),
            ("from = 1\nto = 2\nstep = 2", "did you mean `steps`"),
        ] {
            let error = of(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
