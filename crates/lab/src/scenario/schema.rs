//! The JSON Schemas of the experiment file and of the network document, printed from the types that read them.

use super::document::NetworkDocument;
use super::file::ScenarioFile;
use serde_json::Value;

/// The JSON Schema (draft 2020-12) of the experiment file.
pub fn schema() -> String {
    let mut schema = serde_json::to_value(schemars::schema_for!(ScenarioFile)).expect("a schema is JSON");
    without_null(&mut schema);
    serde_json::to_string_pretty(&schema).expect("a schema is JSON")
}

/// The JSON Schema (draft 2020-12) of the network document.
pub fn network_schema() -> String {
    serde_json::to_string_pretty(&schemars::schema_for!(NetworkDocument)).expect("a schema is JSON")
}

/// TOML has no null: a key that may be absent is one that is not required, and its schema is that of its value.
fn without_null(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(without_null),
        Value::Object(keys) => {
            if let Some(Value::Array(types)) = keys.get_mut("type") {
                types.retain(|name| name != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    keys.insert("type".to_owned(), only);
                }
            }
            if let Some(Value::Array(choices)) = keys.get_mut("anyOf") {
                choices.retain(|choice| choice.get("type").is_none_or(|name| name != "null"));
                if let [Value::Object(only)] = choices.as_slice() {
                    let only = only.clone();
                    keys.remove("anyOf");
                    for (key, value) in only {
                        keys.entry(key).or_insert(value);
                    }
                }
            }
            keys.values_mut().for_each(without_null);
        }
        _ => {}
    }
}
