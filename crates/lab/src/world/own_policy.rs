//! From a policy of the user's own, as the experiment names it, to one that muxes can have.

use super::WorldError;
use crate::scenario::own_policy::{OwnPolicy, ParameterValue, PolicyCode};
use crate::scenario::resolved::FileRef;
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

/// The policy, which was made once to see that it can be.
pub(super) fn custom(own: &OwnPolicy, interpreter: Option<&dyn Interpreter>) -> Result<CustomPolicy, WorldError> {
    let file = own.code.file();
    let wrong = |what: String| WorldError::Policy { file: file.path.clone(), what };
    let content = std::fs::read(&file.location).map_err(|error| wrong(format!("cannot be read ({error})")))?;
    if crate::scenario::digest(&content) != file.digest {
        return Err(wrong("has changed since the run was planned; the same command makes it anew".to_owned()));
    }
    let policy = match &own.code {
        PolicyCode::Library(_) => {
            let parameters = own.parameters.iter().map(|(name, value)| (name.clone(), value.to_string())).collect();
            let library = Library::load(&content, file.digest.as_bytes()).map_err(|error| wrong(error.to_string()))?;
            library.policy(&file.path, parameters)
        }
        PolicyCode::Python { class, .. } => {
            let Some(interpreter) = interpreter else {
                return Err(wrong("has a policy in Python, which only the Python package `onionlab` can run".to_owned()));
            };
            let source = String::from_utf8(content).map_err(|_| wrong("is not text in UTF-8".to_owned()))?;
            interpreter.policy(file, &source, class, &own.parameters).map_err(wrong)?
        }
    };
    policy.check().map_err(|why| wrong(format!("cannot make the policy \"{}\": {why}", policy.name())))?;
    Ok(policy)
}
