//! The type and range of a key's value, declared once. Both the text in messages and the JSON Schema come
//! from this declaration.

use super::spelling::{ADDRESSES, HIGHEST_LINE, LONGEST_TEXT, show_limits};
use serde_json::{Value, json};
use std::fmt;
use std::ops::RangeInclusive;

/// The type and range of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// A whole number.
    Integer(RangeInclusive<i64>),
    /// Whole numbers without duplicates: range, and largest count.
    Integers(RangeInclusive<i64>, usize),
    /// A 7-bit I2C address, or a list of them of at most this length.
    Addresses(usize),
    /// A number.
    Real(RangeInclusive<f64>),
    /// A time in milliseconds.
    Millis(RangeInclusive<f64>),
    /// A fixed count of numbers.
    Reals(usize, RangeInclusive<f64>),
    /// A list of rows with a fixed count of numbers.
    Rows(usize, RangeInclusive<f64>),
    /// `true` or `false`.
    Flag,
    /// A string.
    Text,
    /// Strings.
    Texts,
    /// The name of the entry itself.
    Name,
    /// One of these words.
    Choice(Vec<&'static str>),
    /// The name of another entry of this kind.
    NameOf(&'static str),
    /// Names of other entries of this kind.
    NamesOf(&'static str),
    /// A GPIO line.
    Line,
    /// An I2C address, with or without its bus.
    Address,
    /// A channel of the Robot HAT: a letter, and a number below this.
    Channel(char, u8),
    /// A table.
    Table,
    /// A list of tables.
    List,
}

impl fmt::Display for Shape {
    /// The text after "expected: " in messages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shape::Integer(range) => write!(f, "an integer, {} to {}", range.start(), range.end()),
            Shape::Integers(range, most) => {
                let (start, end) = (range.start(), range.end());
                write!(f, "a list of at most {most} integers, each {start} to {end}, no duplicates")
            }
            Shape::Addresses(most) => {
                let (start, end) = (ADDRESSES.start(), ADDRESSES.end());
                write!(f, "an integer, {start} to {end}, or a list of 1 to {most} of them, no duplicates")
            }
            Shape::Real(range) => write!(f, "a number, {}", show_limits(range)),
            Shape::Millis(range) => write!(f, "milliseconds, {}", show_limits(range)),
            Shape::Reals(count, range) => {
                write!(f, "a list of {count} numbers, each {}", show_limits(range))
            }
            Shape::Rows(count, range) => {
                write!(f, "a list of lists of {count} numbers, each {}", show_limits(range))
            }
            Shape::Flag => f.write_str("true or false"),
            Shape::Text | Shape::Name => write!(f, "a string, 1 to {LONGEST_TEXT} characters"),
            Shape::Texts => write!(f, "a list of strings, each 1 to {LONGEST_TEXT} characters"),
            Shape::Choice(known) => write!(f, "one of {}", known.join(", ")),
            Shape::NameOf(what) => write!(f, "the name of a {what}"),
            Shape::NamesOf(what) => write!(f, "a list of names, each of a {what}, no duplicates"),
            Shape::Line => write!(f, "a GPIO line: its number, 0 to {HIGHEST_LINE}, or its name"),
            Shape::Address => f.write_str("an I2C address, 8 to 119, or \"BUS:0x40\""),
            Shape::Channel(letter, count) => {
                write!(f, "a string, {letter}0 to {letter}{}", count.saturating_sub(1))
            }
            Shape::Table => f.write_str("a table"),
            Shape::List => f.write_str("a list of tables"),
        }
    }
}

/// Pattern of a valid name. Names become parts of key paths.
pub const NAME_PATTERN: &str = "^[A-Za-z0-9_-]{1,32}$";

impl Shape {
    /// The JSON Schema. For a table or a list of tables, the caller adds the contents.
    pub fn schema(&self) -> Value {
        let text = || json!({ "type": "string", "minLength": 1, "maxLength": LONGEST_TEXT });
        let integer = |range: &RangeInclusive<i64>| json!({ "type": "integer", "minimum": range.start(), "maximum": range.end() });
        let number = |range: &RangeInclusive<f64>| json!({ "type": "number", "minimum": range.start(), "maximum": range.end() });
        let row = |count: &usize, range| json!({ "type": "array", "items": number(range), "minItems": count, "maxItems": count });
        match self {
            Shape::Integer(range) => integer(range),
            Shape::Integers(range, most) => {
                json!({ "type": "array", "items": integer(range), "maxItems": most, "uniqueItems": true })
            }
            Shape::Addresses(most) => json!({ "anyOf": [
                integer(&ADDRESSES),
                { "type": "array", "items": integer(&ADDRESSES), "minItems": 1, "maxItems": most, "uniqueItems": true },
            ] }),
            Shape::Real(range) | Shape::Millis(range) => number(range),
            Shape::Reals(count, range) => row(count, range),
            Shape::Rows(count, range) => json!({ "type": "array", "items": row(count, range) }),
            Shape::Flag => json!({ "type": "boolean" }),
            Shape::Text | Shape::NameOf(_) => text(),
            Shape::Texts => json!({ "type": "array", "items": text() }),
            Shape::Name => json!({ "type": "string", "pattern": NAME_PATTERN }),
            Shape::Choice(known) => json!({ "enum": known }),
            Shape::NamesOf(_) => {
                json!({ "type": "array", "items": text(), "minItems": 1, "uniqueItems": true })
            }
            Shape::Line => json!({ "anyOf": [integer(&(0..=i64::from(HIGHEST_LINE))), text()] }),
            Shape::Address => json!({ "anyOf": [
                integer(&ADDRESSES),
                { "type": "string", "pattern": "^[A-Za-z0-9_-]{1,32}:(0x[0-9A-Fa-f]+|[0-9]+)$" },
            ] }),
            Shape::Channel(letter, count) => {
                let channels = (0..*count).map(|channel| format!("{letter}{channel}"));
                json!({ "enum": channels.collect::<Vec<_>>() })
            }
            Shape::Table => json!({ "type": "object" }),
            Shape::List => json!({ "type": "array" }),
        }
    }
}

/// A key that a check requested.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// The table: empty for the whole board, `bus.rail`, or `sensor[]` for any entry of a list.
    pub table: String,
    /// The table's `kind`, if it states one: other kinds may have other keys.
    pub kind: Option<String>,
    /// The key, or [`ANY_KEY`].
    pub key: String,
    /// Its type and range.
    pub shape: Shape,
}

/// Stands for every key of a table whose keys the board chooses.
pub const ANY_KEY: &str = "*";
