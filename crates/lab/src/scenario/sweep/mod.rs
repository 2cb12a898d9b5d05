//! The `[sweep]` table: keys of the experiment file, each with the values that it takes; the experiment is run at every combination of them, a *point*.
//!
//! A point is the experiment that stands in the file once the point's values have taken the places of their keys, and is read and checked as if a file of its own
//! said so. The values keep their places in the text, so that what is wrong with one of them is told with the line where it is written.

mod place;
mod range;
mod read;

use super::error::{Fault, clipped};
use super::resolve::Checked;
use super::resolve::treatments::slug;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;
use toml::Spanned;
use toml::de::DeTable;

/// Most points of a sweep.
pub const MAX_POINTS: usize = 1000;

/// The `[sweep]` table as a part of the format. What it says is read from the document itself, where its values have places.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(from = "IgnoredAny")]
pub struct SweepFile;

impl From<IgnoredAny> for SweepFile {
    fn from(_: IgnoredAny) -> Self {
        Self
    }
}

impl JsonSchema for SweepFile {
    fn schema_name() -> Cow<'static, str> {
        "Sweep".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let deeper = generator.subschema_for::<Self>();
        json_schema!({
            "type": "object",
            "minProperties": 1,
            "description": "Keys of the experiment file with the values that they take, in quotes and dotted (\"base.kist-interval\") or as tables; a group of clients, a treatment and a host by hand are meant by their names (\"clients.web.count\").",
            "additionalProperties": {
                "anyOf": [
                    {
                        "description": "The values, in the order of the report.",
                        "type": "array",
                        "minItems": 1,
                        "maxItems": MAX_POINTS
                    },
                    {
                        "description": "Values at equal distances. Quantities have units; whole numbers stay whole.",
                        "type": "object",
                        "additionalProperties": false,
                        "required": ["from", "to", "steps"],
                        "properties": {
                            "from": { "description": "The first value.", "type": ["number", "string"] },
                            "to": { "description": "The last value.", "type": ["number", "string"] },
                            "steps": { "description": "How many values, the first and the last among them.", "type": "integer", "minimum": 2, "maximum": MAX_POINTS },
                            "scale": {
                                "description": "Equal differences, or equal ratios (rounded to four digits). Default: \"linear\".",
                                "enum": ["linear", "logarithmic"]
                            }
                        }
                    },
                    deeper
                ]
            }
        })
    }
}

/// One point of a sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Its number, from 0; the last key of the file changes first.
    pub index: usize,
    /// The swept keys, as the file calls them, with their values.
    pub values: Vec<(String, Value)>,
    /// Where each key leads, as errors name keys: `clients[1].count`.
    pub(super) leads_to: Vec<String>,
    /// The treatment that a key belongs to, by its index, where it belongs to one.
    treatments: Vec<Option<usize>>,
}

impl Point {
    /// What the directories of the runs of a treatment at this point are called after it: the values of the keys that concern the treatment, and a hash of them.
    ///
    /// It does not depend on the other points, so that a sweep finds its finished runs again when it is extended.
    pub(super) fn directory_part(&self, treatment: usize) -> Option<String> {
        let own = self.values.iter().zip(&self.treatments).filter(|(_, of)| of.is_none_or(|of| of == treatment));
        let own: Vec<&(String, Value)> = own.map(|(value, _)| value).collect();
        if own.is_empty() {
            return None;
        }
        let words: Vec<String> = own
            .iter()
            .map(|(key, value)| {
                let name = key.rsplit('.').next().unwrap_or(key);
                format!("{name}-{}", slug(&plain(value)))
            })
            .collect();
        let hash = xxhash_rust::xxh3::xxh3_64(serde_json::to_string(&own).expect("JSON is JSON").as_bytes()) as u32;
        let words: String = words.join("-").chars().take(80).collect();
        Some(format!("{}-{hash:08x}", words.trim_end_matches('-')))
    }
}

/// "2 (network.relays = 50, base.tcp = "reno")", counted from 1.
impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values: Vec<String> = self.values.iter().map(|(key, value)| format!("{key} = {value}")).collect();
        write!(f, "{} ({})", self.index + 1, clipped(&values.join(", "), 200))
    }
}

/// A value as a text without quotes.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// How many points the sweep of a document has; none without a sweep.
pub(super) fn count(document: &DeTable<'_>) -> Checked<Option<usize>> {
    let Some(swept) = read::swept(document)? else { return Ok(None) };
    let points =
        swept.iter().try_fold(1_usize, |points, key| points.checked_mul(key.values.len()).filter(|points| *points <= MAX_POINTS));
    if let Some(points) = points {
        return Ok(Some(points));
    }
    let grid: Vec<String> = swept.iter().map(|key| key.values.len().to_string()).collect();
    Err(Fault::out_of_range("sweep", format!("a grid of {} points", grid.join(" x ")), format!("one of at most {MAX_POINTS}")))
}

/// Puts the values of one point of its sweep into a document, and leaves the result to `with`.
///
/// # Panics
/// The document's sweep has no such point.
pub(super) fn at<R>(
    document: &Spanned<DeTable<'_>>,
    index: usize,
    with: impl FnOnce(Spanned<DeTable<'_>>) -> R,
) -> Checked<(Point, R)> {
    let swept = read::swept(document.get_ref())?.expect("the document has a sweep");
    let mut document = document.clone();
    let mut point = Point { index, values: Vec::new(), leads_to: Vec::new(), treatments: Vec::new() };
    let mut stride: usize = swept.iter().map(|key| key.values.len()).product();
    assert!(index < stride, "the sweep has {stride} points");
    for key in &swept {
        stride /= key.values.len();
        let value = key.values[index / stride % key.values.len()].spanned();
        point.values.push((key.name.clone(), read::json(value.get_ref())));
        let at = place::put(document.get_mut(), key, value)?;
        point.treatments.push(place::treatment(&at));
        point.leads_to.push(at);
    }
    let result = with(document);
    Ok((point, result))
}
