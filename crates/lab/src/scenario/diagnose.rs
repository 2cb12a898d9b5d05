//! From what the TOML parser and serde say to one sentence with file, line, key, value and what is allowed.

use super::error::{Fault, Place, ScenarioError, clipped};
use super::file::ScenarioFile;
use super::sweep::Point;
use serde::Deserialize;
use std::ops::Range;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Turns an error of `toml::from_str` over `text` into ours.
pub(super) fn explain(file: &Path, text: &str, error: &toml::de::Error) -> ScenarioError {
    let span = error.span();
    let mut line = span.as_ref().map(|span| line_of(text, span.start));
    let Ok(document) = DeTable::parse(text) else {
        let fault = Fault::Syntax { message: clipped(&syntax(text, error), 160) };
        return ScenarioError { place: Place { file: file.into(), line }, fault };
    };
    let key = span.as_ref().and_then(|span| key_at(document.get_ref(), span.start)).unwrap_or_default();
    let named = span.as_ref().filter(|_| error.message().ends_with("wanted string or table"));
    let mut fault = match named.and_then(|span| names_at(text, span)) {
        Some(message) => Fault::WrongValue { key, message },
        None => read_message(error.message(), key),
    };
    if let Fault::WrongValue { key, .. } = &mut fault
        && let Some(culprit) = culprit(text, &document, key)
    {
        *key = format!("{key}.{culprit}");
        line = line_and_value(&document, key).map(|(start, _)| line_of(text, start));
    }
    if let Fault::MissingKey { table, .. } = &mut fault {
        // The place of a key that the top level lacks is where the document begins, which is some other key.
        if line_and_value(&document, table).is_none_or(|(_, value)| !value.is_table()) {
            table.clear();
            line = None;
        }
    }
    ScenarioError { place: Place { file: file.into(), line }, fault }
}

/// What is wrong where the text is no TOML: the parser's words, or clearer ones for the slips that people make.
fn syntax(text: &str, error: &toml::de::Error) -> String {
    let rest = error.span().and_then(|span| text.get(span.start..)).unwrap_or_default();
    let word = rest.split(|c: char| !c.is_alphanumeric() && !matches!(c, '-' | '_')).next().unwrap_or_default();
    let truths = ["yes", "no", "on", "off", "True", "False", "TRUE", "FALSE"];
    match error.message() {
        "duplicate key" if !word.is_empty() => format!("the key `{word}` is there twice"),
        _ if truths.contains(&word) => format!("`{word}` is neither true nor false, nor a text in quotation marks"),
        message => message.to_owned(),
    }
}

/// Most keys of a table, and most bytes of a file, in which a culprit is looked for.
const FEW: (usize, usize) = (32, 1 << 20);

/// The key of the table at `key` that an error is about. Where one of its keys (`kind`) says what the table is, serde places the errors of all others at the table: the culprit is the one
/// without which it says something else.
fn culprit(text: &str, document: &Spanned<DeTable<'_>>, key: &str) -> Option<String> {
    let (_, DeValue::Table(inner)) = line_and_value(document, key)? else { return None };
    if !inner.contains_key("kind") || inner.len() > FEW.0 || text.len() > FEW.1 {
        return None;
    }
    let whole: toml::Table = text.parse().ok()?;
    let said = ScenarioFile::deserialize(whole.clone()).err()?.message().to_owned();
    inner.keys().map(|name| name.get_ref().to_string()).filter(|name| name != "kind").find(|name| {
        let mut without = whole.clone();
        let removed = table_at(&mut without, key).is_some_and(|table| table.remove(name).is_some());
        removed && ScenarioFile::deserialize(without).err().is_none_or(|error| error.message() != said)
    })
}

/// The table that `key` leads to.
fn table_at<'t>(mut table: &'t mut toml::Table, key: &str) -> Option<&'t mut toml::Table> {
    for segment in key.split('.') {
        let (name, index) = match segment.split_once('[') {
            Some((name, index)) => (name, index.trim_end_matches(']').parse::<usize>().ok()),
            None => (segment, None),
        };
        let value = table.get_mut(name)?;
        let value = if let Some(index) = index { value.as_array_mut()?.get_mut(index)? } else { value };
        table = value.as_table_mut()?;
    }
    Some(table)
}

/// What is allowed where a value has no name but must have one: the parser tells the names only if a text stands there.
fn names_at(text: &str, span: &Range<usize>) -> Option<String> {
    let with_text = format!("{}\"?\"{}", text.get(..span.start)?, text.get(span.end..)?);
    let error = toml::from_str::<ScenarioFile>(&with_text).err()?;
    let names = error.message().strip_prefix("unknown variant `?`")?;
    let names: Vec<String> = names.split('`').skip(1).step_by(2).map(|name| format!("\"{name}\"")).collect();
    Some(format!("{} is not known; allowed are {}", clipped(text.get(span.clone())?, 80), names.join(", ")))
}

/// Whether an error of a document with the values of a point in it lies in one of these, and not elsewhere in the file.
pub(super) fn is_within_sweep(text: &str, error: &toml::de::Error) -> bool {
    let Ok(document) = DeTable::parse(text) else { return false };
    let key = error.span().and_then(|span| key_at(document.get_ref(), span.start)).unwrap_or_default();
    key == "sweep" || key.starts_with("sweep.")
}

/// The line of the swept key that nothing knows, where the error is placed at the table that the key leads into: of a table with a `kind` serde says no more. Without its sweep the file does
/// not have that error.
pub(super) fn swept_key(text: &str, point: &Point, fault: &Fault, error: &toml::de::Error) -> Option<usize> {
    let Fault::UnknownKey { key, .. } = fault else { return None };
    let name = point.values.iter().map(|(name, _)| name).find(|name| name.rsplit('.').next() == Some(key))?;
    let mut alone: toml::Table = text.parse().ok()?;
    alone.remove("sweep");
    let said = ScenarioFile::deserialize(alone).err();
    said.is_none_or(|said| said.message() != error.message()).then(|| line_of_sweep(text, name)).flatten()
}

/// The line of the value or table that `key` (as `clients[1].load.size`) leads to, or of its nearest parent that is there.
pub(super) fn line_of_key(text: &str, key: &str) -> Option<usize> {
    let document = DeTable::parse(text).ok()?;
    line_and_value(&document, key).map(|(start, _)| line_of(text, start))
}

/// The line of a swept key, written in one piece (`"clients.web.count"`) or as tables; `name` is without `sweep`.
pub(super) fn line_of_sweep(text: &str, name: &str) -> Option<usize> {
    fn start(table: &DeTable<'_>, name: &str) -> Option<usize> {
        table.iter().find_map(|(key, value)| {
            let rest = name.strip_prefix(key.get_ref().as_ref())?;
            match rest.strip_prefix('.') {
                None => rest.is_empty().then(|| key.span().start),
                Some(deeper) => value.get_ref().as_table().and_then(|table| start(table, deeper)).or(Some(key.span().start)),
            }
        })
    }
    let document = DeTable::parse(text).ok()?;
    let sweep = document.get_ref().get("sweep")?.get_ref().as_table()?;
    start(sweep, name).map(|offset| line_of(text, offset))
}

/// Where the value or table that `key` leads to begins, or its nearest parent that is there, and that value.
fn line_and_value<'d, 'i>(document: &'d Spanned<DeTable<'i>>, key: &str) -> Option<(usize, &'d DeValue<'i>)> {
    let mut table = document.get_ref();
    let mut reached = None;
    for segment in key.split('.') {
        let (name, index) = match segment.split_once('[') {
            Some((name, index)) => (name, index.trim_end_matches(']').parse::<usize>().ok()),
            None => (segment, None),
        };
        let Some((found, value)) = table.get_key_value(name) else { break };
        reached = Some((found.span().start, value.get_ref()));
        if let Some(index) = index {
            let Some(element) = value.get_ref().as_array().and_then(|array| array.get(index)) else { break };
            reached = Some((element.span().start, element.get_ref()));
        }
        match reached {
            Some((_, DeValue::Table(inner))) => table = inner,
            _ => break,
        }
    }
    reached
}

fn line_of(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).map(|byte| usize::from(byte == b'\n')).sum::<usize>()
}

/// The key whose name or value lies at byte `offset`, with the tables that lead to it.
fn key_at(table: &DeTable<'_>, offset: usize) -> Option<String> {
    table.iter().find_map(|(name, value)| within(name.get_ref(), name.span().contains(&offset), value, offset))
}

fn within(name: &str, on_name: bool, value: &Spanned<DeValue<'_>>, offset: usize) -> Option<String> {
    let deeper = match value.get_ref() {
        DeValue::Table(inner) => key_at(inner, offset).map(|key| format!("{name}.{key}")),
        DeValue::Array(elements) => {
            elements.iter().enumerate().find_map(|(index, element)| within(&format!("{name}[{index}]"), false, element, offset))
        }
        _ => None,
    };
    deeper.or_else(|| (on_name || value.span().contains(&offset)).then(|| name.to_owned()))
}

/// Reads serde's own sentences; anything else is ours and comes through unchanged.
fn read_message(message: &str, key: String) -> Fault {
    if let Some(rest) = message.strip_prefix("unknown field `") {
        let (name, allowed) = rest.split_once('`').unwrap_or((rest, ""));
        let allowed: Vec<&str> = allowed.split('`').skip(1).step_by(2).collect();
        return Fault::UnknownKey {
            key: clipped(name, 80),
            near: nearest(name, &allowed).map(str::to_owned),
            allowed: if allowed.is_empty() { "no key".to_owned() } else { allowed.join(", ") },
        };
    }
    if let Some(name) = message.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
        return Fault::MissingKey { key: name.to_owned(), table: key };
    }
    if let Some(rest) = message.strip_prefix("unknown variant `") {
        let (value, allowed) = rest.split_once('`').unwrap_or((rest, ""));
        let allowed: Vec<&str> = allowed.split('`').skip(1).step_by(2).collect();
        let near = nearest(value, &allowed).map_or_else(String::new, |near| format!(" (did you mean \"{near}\"?)"));
        let choice: Vec<String> = allowed.iter().map(|name| format!("\"{name}\"")).collect();
        let message = format!("\"{}\" is not known{near}; allowed are {}", clipped(value, 80), choice.join(", "));
        return Fault::WrongValue { key, message };
    }
    let mut message = clipped(message, 240).replace(" as i128", "").replace("invalid type: map", "invalid type: table");
    for (ours, theirs) in [
        ("a whole number from 0 to 4294967295", "u32"),
        ("a whole number from 0 to 65535", "u16"),
        ("a whole number from 0 to 9223372036854775807", "u64"),
        ("a number", "f64"),
        ("true or false", "a boolean"),
        ("a table", "a map"),
        ("a list", "a sequence"),
    ] {
        if let Some(start) = message.strip_suffix(&format!("expected {theirs}")) {
            // The key itself may allow less, which is said once its value is a whole number at all.
            let large = start.contains("integer `") && !start.contains("integer `-");
            let whole = ours.starts_with("a whole number") && !large;
            message = format!("{start}expected {}", if whole { "a whole number that is not negative" } else { ours });
        }
    }
    if message.starts_with("invalid length") && message.ends_with("expected 1 element in map") {
        "exactly one key is allowed in the inner table".clone_into(&mut message);
    }
    if let Some(at) = message.find("expected internally tagged enum ") {
        message = format!("{}expected a table with the key `kind`", &message[..at]);
    }
    if let Some(at) = message.find("expected struct ") {
        message = format!("{}expected a table", &message[..at]);
    }
    Fault::WrongValue { key, message }
}

/// The candidate that `word` is probably a slip of: at most a third of its letters changed, added, lost, or swapped.
pub(super) fn nearest<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    if word.len() > 64 {
        return None;
    }
    candidates
        .iter()
        .map(|candidate| (distance(word, candidate), *candidate))
        .filter(|(distance, candidate)| *distance <= (candidate.len() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Edit distance with swaps of neighbours (optimal string alignment), case and `_`/`-` ignored.
fn distance(a: &str, b: &str) -> usize {
    let plain = |text: &str| text.chars().map(|c| if c == '_' { '-' } else { c.to_ascii_lowercase() }).collect::<Vec<_>>();
    let (a, b) = (plain(a), plain(b));
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let change = usize::from(a[i - 1] != b[j - 1]);
            row[j] = (rows[i - 1][j] + 1).min(row[j - 1] + 1).min(rows[i - 1][j - 1] + change);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(rows[i - 2][j - 2] + 1);
            }
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_key_and_nonsense_finds_none() {
        let keys = ["networks", "seeds", "sample-interval", "duration"];
        assert_eq!(nearest("networsk", &keys), Some("networks"));
        assert_eq!(nearest("sample_interval", &keys), Some("sample-interval"));
        assert_eq!(nearest("Duration", &keys), Some("duration"));
        assert_eq!(nearest("colour", &keys), None);
    }

    #[test]
    fn lines_are_found_through_tables_and_arrays() {
        let text = "a = 1\n[[c]]\nx = 1\n[[c]]\nx = 2\nload = { size = 5 }\n";
        assert_eq!(line_of_key(text, "a"), Some(1));
        assert_eq!(line_of_key(text, "c[1].x"), Some(5));
        assert_eq!(line_of_key(text, "c[1].load.size"), Some(6));
        assert_eq!(line_of_key(text, "c[1].missing"), Some(4));
        assert_eq!(line_of_key(text, "nothing"), None);
    }
}
