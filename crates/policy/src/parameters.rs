//! What the experiment file gives a policy.

use std::fmt::Display;
use std::str::FromStr;

/// The `parameters` of the experiment file, as texts. A parameter that the policy never asks for is refused: no setting without an effect.
#[derive(Debug)]
pub struct Parameters<'a> {
    given: Vec<(&'a str, &'a str)>,
    asked: Vec<&'static str>,
}

impl<'a> Parameters<'a> {
    /// These names and values.
    pub fn new(given: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        Self { given: given.into_iter().collect(), asked: Vec::new() }
    }

    /// The value of a parameter; none if the file does not have it. Numbers are read as Rust reads them, durations with their unit ([`crate::SimDuration`]).
    ///
    /// # Errors
    /// The value is no `T`.
    pub fn get<T: FromStr<Err: Display>>(&mut self, name: &'static str) -> Result<Option<T>, String> {
        self.asked.push(name);
        let Some((_, value)) = self.given.iter().find(|(given, _)| *given == name) else { return Ok(None) };
        value.parse().map(Some).map_err(|error| format!("the parameter `{name}` is \"{value}\": {error}"))
    }

    /// The same with a default.
    ///
    /// # Errors
    /// The value is no `T`.
    pub fn get_or<T: FromStr<Err: Display>>(&mut self, name: &'static str, default: T) -> Result<T, String> {
        Ok(self.get(name)?.unwrap_or(default))
    }

    /// Refuses what was given and not asked for.
    pub(crate) fn all_asked(&self) -> Result<(), String> {
        let Some((name, _)) = self.given.iter().find(|(name, _)| !self.asked.contains(name)) else { return Ok(()) };
        let known: Vec<String> = self.asked.iter().map(|name| format!("`{name}`")).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Err(format!("it has no parameter `{name}`; it has {known}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SimDuration;

    #[test]
    fn parameters_are_read_by_type_and_what_nobody_asked_for_is_named() {
        let mut parameters = Parameters::new([("weight", "2.5"), ("half-life", "20 ms"), ("fast", "true"), ("wieght", "3")]);
        assert_eq!(parameters.get_or("weight", 1.0), Ok(2.5));
        assert_eq!(parameters.get("half-life"), Ok(Some(SimDuration::from_millis(20))));
        assert_eq!(parameters.get::<bool>("fast"), Ok(Some(true)));
        assert_eq!(parameters.get_or("depth", 7_u32), Ok(7));
        let refused = parameters.all_asked().unwrap_err();
        assert_eq!(refused, "it has no parameter `wieght`; it has `weight`, `half-life`, `fast`, `depth`");
        assert!(parameters.get::<u32>("fast").unwrap_err().starts_with("the parameter `fast` is \"true\": invalid digit"));
        assert_eq!(Parameters::new([]).all_asked(), Ok(()));
        assert!(Parameters::new([("a", "1")]).all_asked().unwrap_err().ends_with("it has none"));
    }
}
