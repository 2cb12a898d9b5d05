//! Reading the `[sweep]` table: which keys, which values.

use super::super::error::{Fault, clipped};
use super::super::resolve::Checked;
use super::range;
use serde_json::{Map, Number, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A key of the experiment file and the values that it takes.
#[derive(Debug)]
pub(super) struct SweptKey<'i> {
    /// The key as the file calls it, dotted.
    pub name: String,
    /// Where the name stands in the text.
    pub span: std::ops::Range<usize>,
    /// At least one.
    pub values: Vec<SweptValue<'i>>,
}

/// One value of a swept key.
#[derive(Debug)]
pub(super) enum SweptValue<'i> {
    /// In a list, with its place in the text.
    Written(Spanned<DeValue<'i>>),
    /// Of a range: the value as TOML, and where the range stands.
    Made(String, std::ops::Range<usize>),
}

impl SweptValue<'_> {
    /// The value with its place in the text.
    pub fn spanned(&self) -> Spanned<DeValue<'_>> {
        match self {
            Self::Written(value) => value.clone(),
            Self::Made(text, span) => {
                let value = DeValue::parse(text).expect("a range makes TOML values");
                Spanned::new(span.clone(), value.into_inner())
            }
        }
    }
}

impl SweptKey<'_> {
    /// The key under which errors are told.
    pub fn place(&self) -> String {
        format!("sweep.{}", self.name)
    }
}

/// Most keys of a sweep: every two of them are compared, and each is put into every point.
const MAX_KEYS: usize = 100;
/// Longest name of a key: each of its dots is a table within a table.
const MAX_NAME: usize = 400;

/// The swept keys in the order of the file; none without a `[sweep]`.
pub(super) fn swept<'i>(document: &DeTable<'i>) -> Checked<Option<Vec<SweptKey<'i>>>> {
    let Some(sweep) = document.get("sweep") else { return Ok(None) };
    let DeValue::Table(table) = sweep.get_ref() else {
        return Err(wrong("sweep", "not a table; write [sweep], and below it each key with its values"));
    };
    let mut keys = Vec::new();
    gather("", table, &mut keys)?;
    keys.sort_by_key(|key| key.span.start);
    for (number, key) in keys.iter().enumerate() {
        for other in &keys[..number] {
            let below =
                |inner: &str, outer: &str| inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
            if below(&key.name, &other.name) || below(&other.name, &key.name) {
                return Err(Fault::conflict(key.place(), format!("sweeps what `{}` sweeps already", other.place())));
            }
        }
    }
    Ok(Some(keys))
}

fn wrong(key: &str, message: &str) -> Fault {
    Fault::WrongValue { key: key.to_owned(), message: message.to_owned() }
}

fn gather<'i>(outer: &str, table: &DeTable<'i>, keys: &mut Vec<SweptKey<'i>>) -> Checked<()> {
    if table.is_empty() {
        let place = if outer.is_empty() { "sweep".to_owned() } else { format!("sweep.{outer}") };
        return Err(wrong(
            &place,
            "nothing to sweep; write a key of the experiment file and its values, such as \"network.relays\" = [50, 100]",
        ));
    }
    for (key, value) in table {
        let name = if outer.is_empty() { key.get_ref().to_string() } else { format!("{outer}.{}", key.get_ref()) };
        if name.len() > MAX_NAME {
            let place = format!("sweep.{}", clipped(&name, 60));
            return Err(wrong(
                &place,
                &format!("a key of {} bytes; none that can be swept has more than {MAX_NAME}", name.len()),
            ));
        }
        if keys.len() == MAX_KEYS {
            return Err(wrong("sweep", &format!("more than {MAX_KEYS} keys, which is as many as a sweep may have")));
        }
        let place = format!("sweep.{name}");
        let span = key.span();
        match value.get_ref() {
            DeValue::Array(values) if values.is_empty() => return Err(wrong(&place, "an empty list; it needs a value")),
            DeValue::Array(values) => {
                keys.push(SweptKey { name, span, values: values.iter().cloned().map(SweptValue::Written).collect() });
            }
            DeValue::Table(range) if range::is_range(range) => {
                let values = range::values(&place, range)?;
                let values = values.into_iter().map(|text| SweptValue::Made(text, value.span())).collect();
                keys.push(SweptKey { name, span, values });
            }
            DeValue::Table(deeper) => gather(&name, deeper, keys)?,
            other => {
                let message = format!(
                    "{} is one value: write a list such as [{0}] or a range such as {{ from = 1, to = 10, steps = 4 }}",
                    clipped(&json(other).to_string(), 60)
                );
                return Err(wrong(&place, &message));
            }
        }
    }
    Ok(())
}

/// A value as JSON, as reports show it.
pub(super) fn json(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Boolean(on) => Value::Bool(*on),
        DeValue::Datetime(time) => Value::String(time.to_string()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or_else(|_| Value::String(number.to_string()), |number| Value::Number(number.into())),
        DeValue::Float(number) => number
            .as_str()
            .parse()
            .ok()
            .and_then(Number::from_f64)
            .map_or_else(|| Value::String(number.to_string()), Value::Number),
        DeValue::Array(values) => values.iter().map(|value| json(value.get_ref())).collect(),
        DeValue::Table(table) => Value::Object(
            table.iter().map(|(key, value)| (key.get_ref().to_string(), json(value.get_ref()))).collect::<Map<_, _>>(),
        ),
    }
}
