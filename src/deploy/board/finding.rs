//! Errors and warnings about a board file as small values: the place, the key, what was found and what is
//! allowed. Only this file writes the messages.

use super::source::Spot;
use crate::system::sanitize::{one_line, quoted};
use std::fmt;

/// One error or warning about a board file.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Path of the key, as in `sensor.range.trig`; empty for the file as a whole.
    pub key: String,
    /// The problem.
    pub problem: Problem,
    /// Where the key is written; `None` if it is not in a file (a default, a missing file).
    pub spot: Option<Spot>,
}

/// Problems of a board file.
#[derive(Clone, Debug, PartialEq)]
pub enum Problem {
    /// Not TOML.
    Syntax {
        /// The parser's message.
        message: String,
    },
    /// A key that no check reads.
    UnknownKey {
        /// The most similar known key.
        nearest: Option<String>,
        /// All keys known in this table.
        known: Vec<String>,
    },
    /// A name that refers to nothing.
    UnknownName {
        /// What it should refer to: `sensor`, `motor`, `cause`, `board`.
        what: &'static str,
        /// The name as written.
        found: String,
        /// The most similar known name.
        nearest: Option<String>,
        /// All valid names.
        known: Vec<String>,
    },
    /// A required key is missing.
    Missing {
        /// The expected type and range.
        wanted: String,
    },
    /// The value has the wrong type.
    WrongType {
        /// The expected type and range.
        wanted: String,
        /// What was found there.
        found: &'static str,
    },
    /// The value is out of range.
    OutOfRange {
        /// As written.
        found: String,
        /// What is allowed.
        allowed: String,
    },
    /// Two roles use the same thing.
    Clash {
        /// The thing: `GPIO line 23`, `PWM channel P13`.
        thing: String,
        /// Key path of the role that uses it.
        holder: String,
        /// Where that role is written.
        written: Option<Spot>,
    },
    /// Values that contradict each other.
    Misfit {
        /// The rule that they break, with the figures.
        rule: String,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Syntax { message } => write!(f, "not TOML: {message}"),
            Problem::UnknownKey { nearest, known } => {
                write!(f, "unknown key")?;
                suggest(f, nearest, "keys", known)
            }
            Problem::UnknownName { what, found, nearest, known } => {
                write!(f, "no {what} is named `{}`", quoted(found))?;
                suggest(f, nearest, "names", known)
            }
            Problem::Missing { wanted } => write!(f, "missing; expected: {wanted}"),
            Problem::WrongType { wanted, found } => write!(f, "found {found}; expected: {wanted}"),
            Problem::OutOfRange { found, allowed } => write!(f, "found {found}; allowed: {allowed}"),
            Problem::Clash { thing, holder, written } => {
                write!(f, "{thing} is already taken by {holder}")?;
                written.as_ref().map_or(Ok(()), |spot| write!(f, " ({spot})"))
            }
            Problem::Misfit { rule } => f.write_str(rule),
        }
    }
}

fn suggest(
    f: &mut fmt::Formatter<'_>,
    nearest: &Option<String>,
    what: &str,
    known: &[String],
) -> fmt::Result {
    match nearest {
        Some(near) => write!(f, "; did you mean `{near}`?"),
        None if known.is_empty() => Ok(()),
        None => write!(f, "; known {what}: {}", known.join(", ")),
    }
}

impl fmt::Display for Finding {
    /// One line; `{:#}` adds two more: the source line, and carets under the place.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(spot) = &self.spot {
            write!(f, "{}:{}:{}: ", spot.file, spot.line, spot.column)?;
        }
        // Keys and names are text from the file, so sanitize them.
        if !self.key.is_empty() {
            write!(f, "{}: ", one_line(&self.key))?;
        }
        f.write_str(&one_line(&self.problem.to_string()))?;
        if let (true, Some(spot)) = (f.alternate(), &self.spot) {
            let number = spot.line.to_string();
            let (gap, lead) = (" ".repeat(number.len()), " ".repeat(spot.column - 1 - spot.before));
            write!(f, "\n  {number} | {}\n  {gap} | {lead}{}", spot.text, "^".repeat(spot.width))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caret_points_at_the_value() {
        let finding = Finding {
            key: "mcu.timers".to_string(),
            problem: Problem::OutOfRange { found: "5".to_string(), allowed: "4 or 7".to_string() },
            spot: Some(Spot {
                file: "b.toml".into(),
                line: 12,
                column: 10,
                width: 1,
                text: "timers = 5".to_string(),
                before: 0,
            }),
        };
        assert_eq!(finding.to_string(), "b.toml:12:10: mcu.timers: found 5; allowed: 4 or 7");
        assert_eq!(
            format!("{finding:#}").lines().skip(1).collect::<Vec<_>>(),
            ["  12 | timers = 5", "     |          ^"]
        );
    }
}
