//! Distributions of sizes and pauses, as an experiment file writes them.

use crate::LoadError;
use onionlab_quantities::{Bytes, Draw, SimDuration};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{DeserializeOwned, Error as _, MapAccess, Visitor, value::MapAccessDeserializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

/// No draw of a shape without an upper end exceeds it (146 years in nanoseconds; 4 EiB), so that sums of two never overflow.
const LARGEST: f64 = 4_611_686_018_427_387_904.0;

/// What a distribution can be of: an amount of data or a duration.
pub trait Quantity: Copy + Ord + fmt::Display + FromStr<Err: fmt::Display> + Serialize + DeserializeOwned + 'static {
    /// "amount of data" or "duration".
    const NAME: &'static str;
    /// A regular expression for the texts that are read.
    const PATTERN: &'static str;
    /// A text that is read.
    const EXAMPLE: &'static str;
    /// The least value that makes sense, and how to say so.
    const LEAST: (u64, &'static str);
    /// The quantity of this many base units.
    fn from_units(units: u64) -> Self;
    /// Base units: bytes or nanoseconds.
    fn units(self) -> u64;
}

impl Quantity for Bytes {
    const NAME: &'static str = "amount of data";
    const PATTERN: &'static str = r"^\s*[0-9][0-9._]*\s*(B|kB|KB|MB|GB|KiB|MiB|GiB)\s*$";
    const EXAMPLE: &'static str = "320 KiB";
    const LEAST: (u64, &'static str) = (1, "it must be at least 1 B");
    fn from_units(units: u64) -> Self {
        Self::new(units)
    }
    fn units(self) -> u64 {
        self.get()
    }
}

impl Quantity for SimDuration {
    const NAME: &'static str = "duration";
    const PATTERN: &'static str = r"^\s*(0|([0-9][0-9._]*\s*(ns|us|ms|s|min|h|d)\s*)+)\s*$";
    const EXAMPLE: &'static str = "5 s";
    const LEAST: (u64, &'static str) = (0, "it must not be negative");
    fn from_units(units: u64) -> Self {
        Self::from_nanos(units)
    }
    fn units(self) -> u64 {
        self.as_nanos()
    }
}

/// A distribution of amounts of data.
pub type SizeDistribution = Distribution<Bytes>;
/// A distribution of durations.
pub type DurationDistribution = Distribution<SimDuration>;

/// One value, or a random one: `"5 s"` or `{ uniform = ["1 s", "20 s"] }`.
#[derive(Debug, Clone, PartialEq)]
pub enum Distribution<Q> {
    /// Always this value.
    Constant(Q),
    /// A value drawn anew each time.
    Random(Shape<Q>),
}

/// The shape of a random value. One draw gives one value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Shape<Q> {
    /// Every value from the first to the second, both included, equally likely.
    Uniform([Q; 2]),
    /// Exponential with this mean.
    Exponential(Q),
    /// The logarithm is normal.
    LogNormal {
        /// Half of the values are below it.
        median: Q,
        /// Standard deviation of the natural logarithm.
        sigma: f64,
    },
    /// P(X > x) = (minimum / x)^shape.
    Pareto {
        /// The least value.
        minimum: Q,
        /// The exponent of the tail; the mean is finite above 1, and then minimum * shape / (shape - 1).
        shape: f64,
    },
    /// One of these values, each with a probability in proportion to the number beside it.
    Choice(Vec<(Q, f64)>),
}

impl<Q: Quantity> Distribution<Q> {
    /// The value that belongs to `draw`, rounded to a base unit and never below the least that makes sense.
    pub fn draw(&self, draw: Draw) -> Q {
        match self {
            Self::Constant(value) => *value,
            Self::Random(shape) => Q::from_units(shape.draw(draw).max(Q::LEAST.0)),
        }
    }

    /// The mean, in base units (bytes or nanoseconds), before rounding; infinite for a Pareto shape up to 1.
    pub fn mean_units(&self) -> f64 {
        let units = |q: &Q| q.units() as f64;
        match self {
            Self::Constant(value) | Self::Random(Shape::Exponential(value)) => units(value),
            Self::Random(Shape::Uniform([low, high])) => f64::midpoint(units(low), units(high)),
            Self::Random(Shape::LogNormal { median, sigma }) => units(median) * libm::exp(sigma * sigma / 2.0),
            Self::Random(Shape::Pareto { minimum, shape }) if *shape > 1.0 => units(minimum) * shape / (shape - 1.0),
            Self::Random(Shape::Pareto { .. }) => f64::INFINITY,
            Self::Random(Shape::Choice(choices)) => {
                let total: f64 = choices.iter().map(|choice| choice.1).sum();
                choices.iter().map(|(value, weight)| units(value) * weight).sum::<f64>() / total
            }
        }
    }

    /// Checks the values; `key` is where the distribution stands.
    ///
    /// # Errors
    /// The first value that makes no sense.
    pub fn validate(&self, key: &str) -> Result<(), LoadError> {
        let shape = match self {
            Self::Constant(value) => return least(key, value),
            Self::Random(shape) => shape,
        };
        let positive = |key: String, value: f64| {
            if value.is_finite() && value > 0.0 {
                Ok(())
            } else {
                Err(LoadError { key, value: value.to_string(), allowed: "it must be a finite number above zero" })
            }
        };
        match shape {
            Shape::Uniform([low, high]) => {
                least(&format!("{key}.uniform"), low)?;
                if low > high {
                    let value = format!("[\"{low}\", \"{high}\"]");
                    return Err(LoadError {
                        key: format!("{key}.uniform"),
                        value,
                        allowed: "the first value must not be greater than the second",
                    });
                }
                Ok(())
            }
            Shape::Exponential(mean) => least(&format!("{key}.exponential"), mean),
            Shape::LogNormal { median, sigma } => {
                least(&format!("{key}.log-normal.median"), median)?;
                positive(format!("{key}.log-normal.sigma"), *sigma)
            }
            Shape::Pareto { minimum, shape } => {
                least(&format!("{key}.pareto.minimum"), minimum)?;
                positive(format!("{key}.pareto.shape"), *shape)
            }
            Shape::Choice(choices) => {
                if choices.is_empty() {
                    let key = format!("{key}.choice");
                    return Err(LoadError { key, value: "[]".to_owned(), allowed: "at least one value is needed" });
                }
                for (index, (value, weight)) in choices.iter().enumerate() {
                    least(&format!("{key}.choice[{index}]"), value)?;
                    positive(format!("{key}.choice[{index}]"), *weight)?;
                }
                Ok(())
            }
        }
    }
}

fn least<Q: Quantity>(key: &str, value: &Q) -> Result<(), LoadError> {
    let (least, allowed) = Q::LEAST;
    if value.units() < least {
        return Err(LoadError { key: key.to_owned(), value: format!("\"{value}\""), allowed });
    }
    Ok(())
}

impl<Q: Quantity> Shape<Q> {
    fn draw(&self, draw: Draw) -> u64 {
        let round = |value: f64| libm::round(value).min(LARGEST) as u64;
        match self {
            Self::Uniform([low, high]) => low.units() + draw.below(high.units() - low.units() + 1),
            Self::Exponential(mean) => round(draw.exponential(mean.units() as f64)),
            Self::LogNormal { median, sigma } => round(median.units() as f64 * draw.log_normal(0.0, *sigma)),
            Self::Pareto { minimum, shape } => round(minimum.units() as f64 * libm::pow(1.0 - draw.uniform(), -1.0 / shape)),
            Self::Choice(choices) => {
                let total: f64 = choices.iter().map(|choice| choice.1).sum();
                let mut left = draw.uniform() * total;
                for (value, weight) in choices {
                    left -= weight;
                    if left < 0.0 {
                        return value.units();
                    }
                }
                choices.last().map_or(0, |choice| choice.0.units())
            }
        }
    }
}

impl<Q: Quantity> Serialize for Distribution<Q> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Constant(value) => value.serialize(serializer),
            Self::Random(shape) => shape.serialize(serializer),
        }
    }
}

impl<'de, Q: Quantity> Deserialize<'de> for Distribution<Q> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either<Q>(PhantomData<Q>);
        impl<'de, Q: Quantity> Visitor<'de> for Either<Q> {
            type Value = Distribution<Q>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let (name, example) = (Q::NAME, Q::EXAMPLE);
                write!(f, "one {name} in quotes, for example \"{example}\", or one of {{ uniform = [..] }}, ")?;
                f.write_str("{ exponential = .. }, { log-normal = { median, sigma } }, { pareto = { minimum, shape } }, ")?;
                f.write_str("{ choice = [[.., weight], ..] }")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Distribution<Q>, E> {
                text.parse().map(Distribution::Constant).map_err(E::custom)
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Distribution<Q>, A::Error> {
                Shape::deserialize(MapAccessDeserializer::new(map)).map(Distribution::Random).map_err(A::Error::custom)
            }
        }
        deserializer.deserialize_any(Either(PhantomData))
    }
}

/// The schema of a quantity written as a text.
pub(crate) fn text_schema<Q: Quantity>() -> Schema {
    json_schema!({ "type": "string", "pattern": Q::PATTERN, "examples": [Q::EXAMPLE] })
}

/// The schema of a rate written as a text.
pub(crate) fn rate_schema(_: &mut SchemaGenerator) -> Schema {
    let pattern = r"^\s*[0-9][0-9._]*\s*(bit/s|kbit/s|Mbit/s|Gbit/s|B/s|kB/s|MB/s|KiB/s|MiB/s)\s*$";
    json_schema!({ "type": "string", "pattern": pattern, "examples": ["50 kB/s"] })
}

impl<Q: Quantity> JsonSchema for Distribution<Q> {
    fn schema_name() -> Cow<'static, str> {
        format!("Distribution of {}s", Q::NAME).replace("amount of datas", "amounts of data").replace(' ', "-").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let value = text_schema::<Q>();
        let number = json_schema!({ "type": "number", "exclusiveMinimum": 0 });
        let one = |key: &str, meaning: &str, of: &serde_json::Value| {
            serde_json::json!({
                "type": "object", "description": meaning, "properties": { key: of }, "required": [key], "additionalProperties": false
            })
        };
        let pair = |(first, least): (&str, &str), (second, shape): (&str, &str)| {
            let (mut value, mut number) = (value.clone(), number.clone());
            value.insert("description".into(), least.into());
            number.insert("description".into(), shape.into());
            serde_json::json!({
                "type": "object", "properties": { first: value, second: number }, "required": [first, second],
                "additionalProperties": false
            })
        };
        let choice = serde_json::json!({
            "type": "array", "minItems": 1,
            "items": { "type": "array", "prefixItems": [value, number], "minItems": 2, "maxItems": 2 }
        });
        let uniform = serde_json::json!({ "type": "array", "items": value, "minItems": 2, "maxItems": 2 });
        json_schema!({
            "description": format!("One {}, or a random one drawn anew each time.", Q::NAME),
            "oneOf": [
                value,
                one("uniform", "Any between the two alike.", &uniform),
                one("exponential", "Exponential with this mean.", &serde_json::json!(value)),
                one("log-normal", "The logarithm is normal.", &pair(
                    ("median", "Half of the values are below it."), ("sigma", "Standard deviation of the natural logarithm.")
                )),
                one("pareto", "At least the minimum, and larger than x with probability (minimum / x) ^ shape.", &pair(
                    ("minimum", "The least."), ("shape", "The larger, the rarer large values are.")
                )),
                one("choice", "One of these, each with its weight.", &choice),
            ]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onionlab_quantities::{RandomStream, Seed};

    #[derive(Debug, Deserialize, Serialize, PartialEq)]
    #[serde(bound = "")]
    struct Holder<Q: Quantity> {
        of: Distribution<Q>,
    }

    fn size(text: &str) -> SizeDistribution {
        let holder: Holder<Bytes> = toml::from_str(&format!("of = {text}")).unwrap();
        let again: Holder<Bytes> = toml::from_str(&toml::to_string(&holder).unwrap()).unwrap();
        assert_eq!(holder, again, "writing and reading is the identity");
        holder.of.validate("of").unwrap();
        holder.of
    }

    const ALL: [&str; 6] = [
        r#""320 KiB""#,
        r#"{ uniform = ["10 kB", "90 kB"] }"#,
        r#"{ exponential = "1 MB" }"#,
        r#"{ log-normal = { median = "100 kB", sigma = 0.5 } }"#,
        r#"{ pareto = { minimum = "10 kB", shape = 6.0 } }"#,
        r#"{ choice = [["50 kB", 0.8], ["1 MB", 0.13], ["5 MB", 0.07]] }"#,
    ];

    /// Means within five standard errors, which come from the sample itself.
    #[test]
    fn moments_are_those_of_the_distributions() {
        let stream = RandomStream::new(Seed(3), "client1", "size");
        let n = 50_000_u64;
        for text in ALL {
            let of = size(text);
            let draws: Vec<f64> = (0..n).map(|k| of.draw(stream.at(k)).get() as f64).collect();
            let mean = draws.iter().sum::<f64>() / n as f64;
            let deviation = (draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64).sqrt();
            let error = 5.0 * deviation / (n as f64).sqrt() + 1e-6;
            assert!((mean - of.mean_units()).abs() <= error, "{text}: {mean} against {}", of.mean_units());
        }
        let median = |text| {
            let mut draws: Vec<u64> = (0..n).map(|k| size(text).draw(stream.at(k)).get()).collect();
            draws.sort_unstable();
            draws[draws.len() / 2] as f64
        };
        assert!((median(ALL[3]) / 100_000.0 - 1.0).abs() < 0.02);
        assert!((median(ALL[4]) / (10_000.0 * 2.0_f64.powf(1.0 / 6.0)) - 1.0).abs() < 0.01);
        assert!((median(ALL[2]) / (1e6 * 2.0_f64.ln()) - 1.0).abs() < 0.03);
    }

    #[test]
    fn the_ends_belong_to_the_interval() {
        let of = size(r#"{ uniform = ["1 B", "3 B"] }"#);
        let stream = RandomStream::new(Seed(3), "client1", "size");
        let seen: std::collections::BTreeSet<u64> = (0..100).map(|k| of.draw(stream.at(k)).get()).collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[test]
    fn nonsense_is_refused_with_key_value_and_what_is_allowed() {
        for (text, words) in [
            (r#""0 B""#, "of = \"0 B\": it must be at least 1 B"),
            (r#"{ uniform = ["9 B", "1 B"] }"#, "of.uniform = [\"9 B\", \"1 B\"]: the first value must not be greater"),
            (r#"{ log-normal = { median = "1 B", sigma = -1.0 } }"#, "of.log-normal.sigma = -1: it must be a finite number"),
            (r#"{ pareto = { minimum = "1 B", shape = nan } }"#, "of.pareto.shape = NaN: it must be"),
            ("{ choice = [] }", "of.choice = []: at least one"),
            (r#"{ choice = [["1 B", 0.0]] }"#, "of.choice[0] = 0: it must be"),
        ] {
            let holder: Holder<Bytes> = toml::from_str(&format!("of = {text}")).unwrap();
            let error = holder.of.validate("of").unwrap_err().to_string();
            assert!(error.starts_with(words), "{error}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_what_is_allowed() {
        for (text, words) in [
            ("5", "one duration in quotes, for example \"5 s\", or one of { uniform"),
            (r#""5 parsecs""#, "is not a duration"),
            (r#"{ normal = "5 s" }"#, "unknown variant `normal`, expected one of `uniform`"),
            (r#"{ log-normal = { median = "5 s", sigma = 1.0, mean = "1 s" } }"#, "unknown field `mean`"),
            (r#"{ uniform = ["1 s"] }"#, "invalid length 1"),
            (r#"{ uniform = ["1 s", "2 B"] }"#, "\"2 B\" is not a duration"),
        ] {
            let error = toml::from_str::<Holder<SimDuration>>(&format!("of = {text}")).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
