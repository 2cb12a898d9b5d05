//! A circuitmux policy of the user's own: named in the experiment file by the library or the Python class that has it, known by what is in that file.

use super::Scenario;
use super::error::{Fault, ScenarioError, clipped};
use super::resolve::{Checked, count, located_at_point, name, read_named_file};
use super::resolved::FileRef;
use super::treatment::Circuitmux;
use schemars::JsonSchema;
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Largest library or Python file.
const MAX_BYTES: u64 = 256 << 20;
/// Most parameters of a policy.
const MAX_PARAMETERS: usize = 1000;

/// Which circuit of a channel sends its next cell: a policy of onionlab by name, or one of the user's own.
#[derive(Debug, Clone, PartialEq, JsonSchema)]
#[schemars(untagged)]
pub enum CircuitmuxFile {
    /// One of onionlab's.
    BuiltIn(Circuitmux),
    /// One of the user's own.
    Own(OwnPolicyFile),
}

/// A policy of the user's own, from a library or from a Python file: see docs/own-scheduler.md. Its code is run.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(rename = "OwnPolicy")]
pub struct OwnPolicyFile {
    /// The library that exports it, relative to the experiment file.
    pub library: Option<String>,
    /// The class in Python: "file.py:Class" with the file relative to the experiment file, or "module:Class" with the module beside it.
    pub python: Option<String>,
    /// What the policy is told when it is made. Default: nothing.
    pub parameters: Option<BTreeMap<String, ParameterValue>>,
}

/// A parameter of a policy.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ParameterValue {
    /// True or false.
    Bool(bool),
    /// A whole number.
    Whole(i64),
    /// A number.
    Number(f64),
    /// A text, such as a duration with its unit.
    Text(String),
}

impl fmt::Display for ParameterValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => value.fmt(f),
            Self::Whole(value) => value.fmt(f),
            Self::Number(value) => value.fmt(f),
            Self::Text(value) => value.fmt(f),
        }
    }
}

impl<'de> Deserialize<'de> for CircuitmuxFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = CircuitmuxFile;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a policy, or a table with `library` or `python`")
            }
            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<CircuitmuxFile, E> {
                Circuitmux::deserialize(StrDeserializer::new(name)).map(CircuitmuxFile::BuiltIn)
            }
            fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<CircuitmuxFile, A::Error> {
                OwnPolicyFile::deserialize(MapAccessDeserializer::new(table)).map(CircuitmuxFile::Own)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl<'de> Deserialize<'de> for ParameterValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Scalar;
        impl Visitor<'_> for Scalar {
            type Value = ParameterValue;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true or false, a number, or a text")
            }
            fn visit_bool<E>(self, value: bool) -> Result<ParameterValue, E> {
                Ok(ParameterValue::Bool(value))
            }
            fn visit_i64<E>(self, value: i64) -> Result<ParameterValue, E> {
                Ok(ParameterValue::Whole(value))
            }
            fn visit_f64<E>(self, value: f64) -> Result<ParameterValue, E> {
                Ok(ParameterValue::Number(value))
            }
            fn visit_str<E>(self, value: &str) -> Result<ParameterValue, E> {
                Ok(ParameterValue::Text(value.to_owned()))
            }
        }
        deserializer.deserialize_any(Scalar)
    }
}

/// A circuitmux policy with its code found.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Policy {
    /// One of onionlab's.
    BuiltIn(Circuitmux),
    /// One of the user's own.
    Own(Box<OwnPolicy>),
}

/// A policy of the user's own.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct OwnPolicy {
    /// Where its code is.
    #[serde(flatten)]
    pub code: PolicyCode,
    /// What it is told.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, ParameterValue>,
}

/// The code of a policy, by what is in its file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyCode {
    /// A library.
    Library(FileRef),
    /// A class in a Python file.
    Python {
        /// The file.
        #[serde(flatten)]
        file: FileRef,
        /// The class.
        class: String,
    },
}

impl PolicyCode {
    /// Its file.
    pub fn file(&self) -> &FileRef {
        match self {
            Self::Library(file) | Self::Python { file, .. } => file,
        }
    }
}

impl Scenario {
    /// The policies of the user's own that the file names at this point of its sweep, each with the key that names it. What is in their files is not looked at.
    ///
    /// # Errors
    /// As for [`Scenario::resolve`], of the keys that concern policies.
    pub fn own_policies(&self) -> Result<Vec<(String, OwnPolicy)>, ScenarioError> {
        let base =
            self.file.base.as_ref().and_then(|base| base.circuitmux.as_ref()).map(|file| ("base.circuitmux".to_owned(), file));
        let treatments = self.file.treatments.iter().flatten().enumerate().filter_map(|(number, treatment)| {
            treatment.circuitmux.as_ref().map(|file| (format!("treatments[{number}].circuitmux"), file))
        });
        let mut own = Vec::new();
        for (key, file) in base.into_iter().chain(treatments) {
            if let Policy::Own(policy) = policy(self, &key, file).map_err(|fault| located_at_point(self, fault))? {
                own.push((key, *policy));
            }
        }
        Ok(own)
    }

    /// The refusal of a policy, `why` being the rest of the sentence that begins with its file.
    pub(crate) fn refuse_policy(&self, key: &str, policy: &OwnPolicy, why: &str) -> ScenarioError {
        let of = match policy.code {
            PolicyCode::Library(_) => "library",
            PolicyCode::Python { .. } => "python",
        };
        let reason = format!("names {}, which {why}", policy.code.file().path);
        located_at_point(self, Fault::conflict(format!("{key}.{of}"), reason))
    }
}

/// Finds the code of a policy; `key` is the policy's in the experiment file.
pub(super) fn policy(scenario: &Scenario, key: &str, file: &CircuitmuxFile) -> Checked<Policy> {
    let own = match file {
        CircuitmuxFile::BuiltIn(policy) => return Ok(Policy::BuiltIn(*policy)),
        CircuitmuxFile::Own(own) => own,
    };
    let read = |of: &str, path: &str| read_named_file(scenario, &format!("{key}.{of}"), path, MAX_BYTES).map(|(file, _)| file);
    let code = match (&own.library, &own.python) {
        (Some(library), None) => PolicyCode::Library(read("library", library)?),
        (None, Some(python)) => {
            let (path, class) = python_file(&format!("{key}.python"), python)?;
            PolicyCode::Python { file: read("python", &path)?, class }
        }
        (Some(_), Some(_)) => {
            return Err(Fault::conflict(format!("{key}.python"), "cannot stand beside `library`: a policy has one code"));
        }
        (None, None) => return Err(Fault::conflict(key, "needs the policy's `library`, or its class in `python`")),
    };
    let parameters = own.parameters.clone().unwrap_or_default();
    if !parameters.is_empty() {
        count(format!("{key}.parameters"), parameters.len(), MAX_PARAMETERS)?;
    }
    for (parameter, value) in &parameters {
        let key = format!("{key}.parameters.{parameter}");
        name(&key, parameter)?;
        if matches!(value, ParameterValue::Number(value) if !value.is_finite()) {
            return Err(Fault::out_of_range(key, value, "a finite number"));
        }
    }
    Ok(Policy::Own(Box::new(OwnPolicy { code, parameters })))
}

/// File and class of "file.py:Class" or "package.module:Class".
fn python_file(key: &str, text: &str) -> Checked<(String, String)> {
    let allowed = "\"file.py:Class\" or \"module:Class\"";
    let wrong = || Fault::out_of_range(key, format!("\"{}\"", clipped(text, 60)), allowed);
    let (module, class) = text.rsplit_once(':').ok_or_else(wrong)?;
    let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    if module.is_empty() || !is_name(class) {
        return Err(wrong());
    }
    let path = if module.strip_suffix(".py").is_some_and(|stem| !stem.is_empty()) {
        module.to_owned()
    } else if module.split('.').all(is_name) {
        format!("{}.py", module.replace('.', "/"))
    } else {
        return Err(wrong());
    };
    Ok((path, class.to_owned()))
}
