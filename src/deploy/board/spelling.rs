//! The TOML spelling of values: from a node to a number or a text, and back to the canonical spelling in
//! which effective values are reported and hashed.

use super::finding::Problem;
use super::raw::{Node, Value};
use crate::base::time::Span;
use crate::system::sanitize::nearest;
use std::ops::RangeInclusive;

/// Why a node is not the requested value.
pub enum Refusal {
    /// The value has another type.
    Type,
    /// The value is out of range; holds the value found.
    Range(String),
    /// A more specific problem.
    Other(Problem),
}

/// Longest string: enough for a path or a label.
pub const LONGEST_TEXT: usize = 100;

/// A string of 1 to [`LONGEST_TEXT`] printable characters.
pub fn text(node: &Node) -> Result<&str, Refusal> {
    match &node.value {
        Value::Text(text) => match text.chars().count() {
            1..=LONGEST_TEXT if !text.chars().any(char::is_control) => Ok(text),
            1..=LONGEST_TEXT => Err(Refusal::Range("control characters".to_string())),
            count => Err(Refusal::Range(format!("{count} characters"))),
        },
        _ => Err(Refusal::Type),
    }
}

/// The items of a list.
pub fn items(node: &Node) -> Result<&[Node], Refusal> {
    match &node.value {
        Value::List(items) => Ok(items),
        _ => Err(Refusal::Type),
    }
}

/// A number within `range`, written as an integer or with a fraction.
pub fn real(node: &Node, range: &RangeInclusive<f64>) -> Result<f64, Refusal> {
    let value = match node.value {
        Value::Integer(value) => value as f64,
        Value::Real(value) => value,
        _ => return Err(Refusal::Type),
    };
    // NaN is in no range. Adding zero turns -0 into 0, so that each value has one spelling.
    if range.contains(&value) { Ok(value + 0.0) } else { Err(Refusal::Range(show_real(&value))) }
}

/// A list of at most `most` whole numbers within `range`, without duplicates.
pub fn distinct_integers(node: &Node, range: &RangeInclusive<i64>, most: usize) -> Result<Vec<i64>, Refusal> {
    let items = items(node)?;
    if items.len() > most {
        return Err(Refusal::Range(format!("{} items", items.len())));
    }
    let mut found = Vec::with_capacity(items.len());
    for item in items {
        match item.value {
            Value::Integer(value) if found.contains(&value) => {
                return Err(Refusal::Range(format!("{value} twice")));
            }
            Value::Integer(value) if range.contains(&value) => found.push(value),
            Value::Integer(value) => return Err(Refusal::Range(value.to_string())),
            ref other => return Err(Refusal::Range(format!("{} among them", other.kind()))),
        }
    }
    Ok(found)
}

/// An I2C address, or a non-empty list of them.
pub fn addresses(node: &Node, most: usize) -> Result<Vec<u8>, Refusal> {
    let found = match node.value {
        Value::Integer(one) if ADDRESSES.contains(&one) => vec![one],
        Value::Integer(one) => return Err(Refusal::Range(one.to_string())),
        _ => distinct_integers(node, &ADDRESSES, most)?,
    };
    if found.is_empty() {
        Err(Refusal::Range("an empty list".to_string()))
    } else {
        Ok(found.into_iter().map(|one| one as u8).collect())
    }
}

/// A list of exactly `N` numbers within `range`.
pub fn reals<const N: usize>(node: &Node, range: &RangeInclusive<f64>) -> Result<[f64; N], Refusal> {
    let items = items(node)?;
    let mut row = [0.0; N];
    if items.len() != N {
        return Err(Refusal::Range(format!("{} items", items.len())));
    }
    for (slot, item) in row.iter_mut().zip(items) {
        *slot = real(item, range)?;
    }
    Ok(row)
}

/// Highest GPIO line number: the largest chip on a supported or planned board has 164 lines.
pub const HIGHEST_LINE: u32 = 255;
/// 7-bit I2C addresses that are not reserved by the specification (UM10204, table 3).
pub const ADDRESSES: RangeInclusive<i64> = 0x08..=0x77;

/// A GPIO line as written in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineWord {
    /// The chip's line number.
    Number(u32),
    /// The kernel's name of the line.
    Name(String),
}

impl LineWord {
    /// As written.
    pub fn show(&self) -> String {
        match self {
            LineWord::Number(number) => number.to_string(),
            LineWord::Name(name) => show_text(name),
        }
    }
}

/// A GPIO line.
pub fn line(node: &Node) -> Result<LineWord, Refusal> {
    match node.value {
        Value::Integer(number) => match u32::try_from(number) {
            Ok(number) if number <= HIGHEST_LINE => Ok(LineWord::Number(number)),
            _ => Err(Refusal::Range(number.to_string())),
        },
        _ => text(node).map(|name| LineWord::Name(name.to_string())),
    }
}

/// An I2C address as written in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressWord {
    /// Name of the bus; `None` for the first one.
    pub bus: Option<String>,
    /// 7 bits.
    pub address: u8,
}

impl AddressWord {
    /// As written.
    pub fn show(&self) -> String {
        match &self.bus {
            None => self.address.to_string(),
            Some(bus) => show_text(&format!("{bus}:{:#04x}", self.address)),
        }
    }
}

/// An address on the first of `buses`, or on one of them by name: `"eyes:0x40"`.
pub fn address(node: &Node, buses: &[String]) -> Result<AddressWord, Refusal> {
    let checked = |number: i64| match ADDRESSES.contains(&number) {
        true => Ok(number as u8),
        false => Err(Refusal::Range(number.to_string())),
    };
    if let Value::Integer(number) = node.value {
        return Ok(AddressWord { bus: None, address: checked(number)? });
    }
    let found = text(node)?;
    let odd = || Refusal::Range(show_text(found));
    let (bus, number) = found.split_once(':').ok_or_else(odd)?;
    let number = match number.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16),
        None => number.parse(),
    };
    let address = checked(number.map_err(|_| odd())?)?;
    match buses.iter().any(|known| known == bus) {
        true => Ok(AddressWord { bus: Some(bus.to_string()), address }),
        false => Err(Refusal::Other(unknown_name("I2C bus", bus, buses.to_vec()))),
    }
}

/// The problem that no `what` is named `found`.
pub fn unknown_name(what: &'static str, found: &str, known: Vec<String>) -> Problem {
    let nearest = nearest(found, known.iter().map(String::as_str));
    Problem::UnknownName { what, found: found.to_string(), nearest, known }
}

/// Whether `name` is valid for an entry: it becomes part of key paths.
pub fn is_name(name: &str) -> bool {
    (1..=32).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

/// The problem that `name` is invalid for an entry.
pub fn odd_name(name: &str) -> Problem {
    let allowed = "letters, digits, - and _, 1 to 32 characters".to_string();
    Problem::OutOfRange { found: show_text(name), allowed }
}

/// Fractional milliseconds, to the nearest nanosecond.
pub fn span_of_millis(ms: f64) -> Span {
    Span::from_nanos((ms * 1e6).round() as u64)
}

/// A span as milliseconds; reads back as the same span.
pub fn show_millis(span: &Span) -> String {
    show_real(&(span.as_nanos() as f64 / 1e6))
}

/// A range for messages. Four decimal places are enough to show why a value is out of range.
pub fn show_limits(range: &RangeInclusive<f64>) -> String {
    let short = |limit: f64| (limit * 1e4).round() / 1e4;
    format!("{} to {}", short(*range.start()), short(*range.end()))
}

/// A number with a point or an exponent, in the fewest digits that parse to the same value.
pub fn show_real(value: &f64) -> String {
    format!("{value:?}")
}

/// A string in quotes.
pub fn show_text(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// A list of items, each formatted by `show`.
pub fn show_list<T>(items: &[T], show: impl Fn(&T) -> String) -> String {
    format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_reads_back_unchanged() {
        for nanos in [0, 1, 499, 111_111_000, 60_000_000_000, 600_000_000_001] {
            let span = Span::from_nanos(nanos);
            let text = show_millis(&span);
            assert_eq!(span_of_millis(text.parse().unwrap()), span, "{text}");
        }
    }

    #[test]
    fn limits_are_printed_short_and_exact() {
        assert_eq!(show_limits(&(0.0..=1.0 / 6.0)), "0 to 0.1667");
        assert_eq!(show_limits(&(-90.0..=90.0)), "-90 to 90");
        assert_eq!(show_limits(&(0.001..=1e6)), "0.001 to 1000000");
    }

    #[test]
    fn quoted_texts_stay_on_one_line() {
        assert_eq!(show_text("a \"b\" \\c"), r#"'a "b" \c'"#);
        assert!(!show_text("left").contains('\n'));
    }
}
