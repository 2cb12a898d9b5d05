//! From a policy of the user's own, as the experiment names it, to one that muxes can have.

use super::WorldError;
use crate::scenario::own_policy::{OwnPolicy, ParameterValue, PolicyCode};
use crate::scenario::resolved::FileRef;
use crate::scenario::{Scenario, ScenarioError};
use onionlab_circuitmux::CustomPolicy;
use onionlab_policy::host::Library;
use std::collections::BTreeMap;

/// Whoever has an interpreter makes policies of classes in its language, Python.
pub trait Interpreter {
    /// The policy that is the class `class` of `file`, whose text is `source`, made with these parameters.
    ///
    /// # Errors
    /// Why there is none, as one sentence that names the place in the file.
    fn policy(
        &self,
        file: &FileRef,
        source: &str,
        class: &str,
        parameters: &BTreeMap<String, ParameterValue>,
    ) -> Result<CustomPolicy, String>;
}

/// Makes every policy of the user's own that the experiment names once, at all points of its sweep, to know before the first run that there is none that a
/// later run would end at. This runs their code.
///
/// # Errors
/// The first that cannot be made, by the key that names it.
pub fn try_policies(scenario: &Scenario, interpreter: Option<&dyn Interpreter>) -> Result<(), ScenarioError> {
    let mut known = Vec::new();
    for point in 0..scenario.points() {
        let there = scenario.at(point)?;
        for (key, own) in there.own_policies()? {
            if !known.contains(&own) {
                made(&own, interpreter).map_err(|why| there.refuse_policy(&key, &own, &why))?;
                known.push(own);
            }
        }
    }
    Ok(())
}

/// The policy, which was made once to see that it can be.
pub(super) fn custom(own: &OwnPolicy, interpreter: Option<&dyn Interpreter>) -> Result<CustomPolicy, WorldError> {
    made(own, interpreter).map_err(|what| WorldError::Policy { file: own.code.file().path.clone(), what })
}

/// The same; the error is the rest of a sentence that begins with its file.
fn made(own: &OwnPolicy, interpreter: Option<&dyn Interpreter>) -> Result<CustomPolicy, String> {
    let file = own.code.file();
    let content = std::fs::read(&file.location).map_err(|error| format!("cannot be read ({error})"))?;
    if crate::scenario::digest(&content) != file.digest {
        return Err("has changed since the run was planned; the same command makes it anew".to_owned());
    }
    let policy = match &own.code {
        PolicyCode::Library(_) => {
            let parameters = own.parameters.iter().map(|(name, value)| (name.clone(), value.to_string())).collect();
            let library = Library::load(&content, file.digest.as_bytes()).map_err(|error| error.to_string())?;
            library.policy(&file.path, parameters)
        }
        PolicyCode::Python { class, .. } => {
            let Some(interpreter) = interpreter else {
                return Err("has a policy in Python, which only the Python package `onionlab` can run".to_owned());
            };
            let source = String::from_utf8(content).map_err(|_| "is not text in UTF-8".to_owned())?;
            interpreter.policy(file, &source, class, &own.parameters)?
        }
    };
    policy.check().map_err(|why| format!("cannot make the policy \"{}\": {why}", policy.name()))?;
    Ok(policy)
}
