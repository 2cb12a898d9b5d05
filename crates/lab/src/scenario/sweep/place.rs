//! Where a swept key leads in the experiment file, and putting a value there.
//!
//! A dotted key goes through tables by their keys and through lists by the names of their entries: `clients.web.count`, `treatments.EWMA, 66 s.ewma-half-life`,
//! `network.hosts.middle1.up`; an entry without a name is meant by its number, from 0 (`network.links.0.latency`).

use super::super::error::{Fault, clipped};
use super::super::resolve::Checked;
use super::read::SweptKey;
use std::borrow::Cow;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// What has no effect on a run, or is no single setting, and why it cannot be swept.
fn refused(at: &str) -> Option<&'static str> {
    let last = at.rsplit('.').next().unwrap_or(at);
    match at {
        "title" => Some("changes nothing in a run"),
        "measure-from" => Some("changes nothing in a run, only what statistics count"),
        "networks" | "seeds" => Some("says how often each point is run, and is the same for all"),
        "clients" | "treatments" => Some("is a whole list: sweep a key of an entry, such as \"clients.web.count\""),
        "sweep" => Some("is the sweep itself"),
        _ if at.starts_with("seeds[") => Some("says how often each point is run, and is the same for all"),
        _ if at.ends_with(']') && (at.starts_with("clients[") || at.starts_with("treatments[")) && !at.contains('.') => {
            Some("is a whole entry: sweep a key of it")
        }
        _ if at.starts_with("clients[") && last == "group" && at.matches('.').count() == 1 => Some("is a name"),
        _ if at.starts_with("treatments[") && last == "name" => Some("is a name"),
        _ => None,
    }
}

/// The index of the treatment to which a key as errors name it belongs.
pub(super) fn treatment(at: &str) -> Option<usize> {
    at.strip_prefix("treatments[")?.split_once(']')?.0.parse().ok()
}

/// Puts `value` where `key` leads; the key as errors name it, `clients[1].count`.
pub(super) fn put<'i>(document: &mut DeTable<'i>, key: &'i SweptKey<'_>, value: Spanned<DeValue<'i>>) -> Checked<String> {
    let mut at = String::new();
    into_table(document, &key.name, key, value, &mut at)?;
    match refused(&at) {
        Some(reason) => Err(Fault::conflict(key.place(), format!("cannot be swept: it {reason}"))),
        None => Ok(at),
    }
}

fn into_table<'i>(
    table: &mut DeTable<'i>,
    rest: &'i str,
    key: &'i SweptKey<'_>,
    value: Spanned<DeValue<'i>>,
    at: &mut String,
) -> Checked<()> {
    let (name, deeper) = rest.split_once('.').map_or((rest, None), |(name, deeper)| (name, Some(deeper)));
    if !at.is_empty() {
        at.push('.');
    }
    at.push_str(name);
    let named = || Spanned::new(key.span.clone(), Cow::Borrowed(name));
    let Some(deeper) = deeper else {
        // Out and in again, so that the key too has the place of the sweep.
        table.remove(name);
        table.insert(named(), value);
        return Ok(());
    };
    if !table.contains_key(name) {
        table.insert(named(), Spanned::new(key.span.clone(), DeValue::Table(DeTable::new())));
    }
    let inner = table.get_mut(name).expect("it was put there").get_mut();
    through(inner, deeper, key, value, at)
}

fn through<'i>(
    inner: &mut DeValue<'i>,
    rest: &'i str,
    key: &'i SweptKey<'_>,
    value: Spanned<DeValue<'i>>,
    at: &mut String,
) -> Checked<()> {
    match inner {
        DeValue::Table(table) => into_table(table, rest, key, value, at),
        DeValue::Array(list) => into_list(list, rest, key, value, at),
        _ => {
            Err(Fault::conflict(key.place(), format!("leads through `{}`, which is neither a table nor a list", clipped(at, 80))))
        }
    }
}

fn into_list<'i>(
    list: &mut DeArray<'i>,
    rest: &'i str,
    key: &'i SweptKey<'_>,
    value: Spanned<DeValue<'i>>,
    at: &mut String,
) -> Checked<()> {
    let names: Vec<Option<String>> = list.iter().map(|entry| name_of(entry.get_ref())).collect();
    // A name may have dots in it: the longest that fits is meant.
    let fits = |name: &str| rest.strip_prefix(name).is_some_and(|after| after.is_empty() || after.starts_with('.'));
    let by_name = names
        .iter()
        .enumerate()
        .filter_map(|(index, name)| name.as_deref().filter(|name| fits(name)).map(|name| (name.len(), index)))
        .max_by_key(|(length, _)| *length);
    let by_number = || {
        let number = rest.split('.').next().unwrap_or(rest);
        let index = number.parse::<usize>().ok().filter(|index| *index < list.len() && names[*index].is_none())?;
        Some((number.len(), index))
    };
    let Some((length, index)) = by_name.or_else(by_number) else {
        let known: Vec<&str> = names.iter().flatten().map(String::as_str).collect();
        let there = match (known.is_empty(), list.len()) {
            (false, _) => clipped(&known.join(", "), 200),
            (true, 0) => "nothing".to_owned(),
            (true, length) => format!("entries without names, which are meant by their numbers from 0 to {}", length - 1),
        };
        let reason = format!("leads to no entry of `{}`, where there is: {there}", clipped(at, 80));
        return Err(Fault::conflict(key.place(), reason));
    };
    *at = format!("{at}[{index}]");
    let entry = list.get_mut(index).expect("the index is of an entry");
    if let Some(deeper) = rest[length..].strip_prefix('.') {
        return through(entry.get_mut(), deeper, key, value, at);
    }
    *entry = value;
    Ok(())
}

/// The name of an entry of a list: of a group of clients, a treatment, a host.
fn name_of(entry: &DeValue<'_>) -> Option<String> {
    let table = entry.as_table()?;
    ["group", "name"].into_iter().find_map(|key| table.get(key)?.get_ref().as_str()).map(str::to_owned)
}
