//! Reading a number with its unit, the one way for all quantities.

/// What is wrong with a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// It is no number with a unit.
    NotOne,
    /// Its unit is written otherwise, so.
    Unit(&'static str),
    /// It is below zero.
    Negative,
    /// It is beyond what can be counted.
    TooLarge,
}

/// A text that is no quantity of the wanted kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct QuantityError {
    /// What is wrong.
    pub flaw: Flaw,
    /// The text as it was given.
    pub text: String,
    /// The kind of quantity that was wanted, with its article: "a duration".
    pub wanted: &'static str,
    /// Examples and the list of units that are understood.
    pub example: &'static str,
}

impl std::fmt::Display for QuantityError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { flaw, text, wanted, example } = self;
        let near = match flaw {
            Flaw::Negative => return write!(f, "\"{text}\" is below zero, which {wanted} cannot be"),
            Flaw::TooLarge => return write!(f, "\"{text}\" is too large for {wanted}"),
            Flaw::Unit(unit) => format!(" (did you mean \"{unit}\"?)"),
            Flaw::NotOne => String::new(),
        };
        write!(f, "\"{text}\" is not {wanted}{near}: write a number and a unit, for example {example}")
    }
}

/// The description of one kind of quantity: its name, an example, and its units as multiples of the base unit.
pub(crate) struct Kind {
    pub wanted: &'static str,
    pub example: &'static str,
    /// Unit and factor; the first `printed` of them are used for printing.
    pub units: &'static [(&'static str, f64)],
    pub printed: usize,
    /// Whether several parts, from large to small, make one quantity, as in "2 h 30 min".
    pub composed: bool,
}

fn is_numeral(c: char) -> bool {
    c.is_ascii_digit() || c == '.' || c == '_'
}

impl Kind {
    /// Reads `text` as a number of base units, rounded to the nearest.
    ///
    /// # Errors
    /// The number is missing, negative, not finite or too large; the unit is missing or unknown; parts of a composed quantity
    /// do not go from large to small.
    pub fn read(&self, text: &str) -> Result<u64, QuantityError> {
        let flawed =
            |flaw| QuantityError { flaw, text: text.chars().take(80).collect(), wanted: self.wanted, example: self.example };
        if let Some(size) = text.trim().strip_prefix('-') {
            let negative = !size.trim_start().starts_with('-') && self.read(size).is_ok();
            return Err(flawed(if negative { Flaw::Negative } else { Flaw::NotOne }));
        }
        let (mut value, mut above, mut rest) = (0.0, f64::INFINITY, text.trim());
        loop {
            let (number, after) = rest.split_at(rest.find(|c: char| !is_numeral(c)).unwrap_or(rest.len()));
            let number: f64 = number.replace('_', "").parse().map_err(|_| flawed(Flaw::NotOne))?;
            let end = if self.composed { after.find(is_numeral).unwrap_or(after.len()) } else { after.len() };
            let (unit, after) = after.split_at(end);
            let factor = match unit.trim() {
                "" if number == 0.0 && above.is_infinite() => 1.0,
                unit => self.factor(unit).map_err(flawed)?,
            };
            if factor >= above {
                return Err(flawed(Flaw::NotOne));
            }
            value += number * factor;
            (above, rest) = (factor, after);
            if rest.is_empty() {
                break;
            }
        }
        let value = libm::round(value);
        // 2^63: beyond it a sum of two quantities could overflow.
        if value.is_finite() && (0.0..9.2e18).contains(&value) { Ok(value as u64) } else { Err(flawed(Flaw::TooLarge)) }
    }

    /// The factor of a unit.
    fn factor(&self, unit: &str) -> Result<f64, Flaw> {
        let find = |alike: &dyn Fn(&str) -> bool| self.units.iter().find(|(name, _)| alike(name));
        find(&|name| name == unit)
            .map(|(_, factor)| *factor)
            .ok_or_else(|| find(&|name| name.eq_ignore_ascii_case(unit)).map_or(Flaw::NotOne, |(name, _)| Flaw::Unit(name)))
    }

    /// Prints `value` base units in the unit that needs the fewest characters without loss (at most three decimals).
    pub fn print(&self, value: u64, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shortest = self.units[..self.printed]
            .iter()
            .filter(|(_, factor)| value >= *factor as u64 && (u128::from(value) * 1000).is_multiple_of(*factor as u128))
            .map(|(name, factor)| format!("{} {name}", value as f64 / factor))
            .rev()
            .min_by_key(String::len);
        f.write_str(&shortest.unwrap_or_else(|| format!("{value} {}", self.units[0].0)))
    }
}

/// Implements `FromStr`, `Display`, and serde as a string, for a newtype over `u64` base units.
macro_rules! textual {
    ($type:ident, $kind:expr) => {
        impl std::str::FromStr for $type {
            type Err = crate::parse::QuantityError;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                $kind.read(text).map(Self)
            }
        }
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                $kind.print(self.0, f)
            }
        }
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct TextVisitor;
                impl serde::de::Visitor<'_> for TextVisitor {
                    type Value = $type;
                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(f, "{} in quotes, for example {}", $kind.wanted, $kind.example)
                    }
                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$type, E> {
                        text.parse().map_err(E::custom)
                    }
                }
                deserializer.deserialize_str(TextVisitor)
            }
        }
    };
}
pub(crate) use textual;
