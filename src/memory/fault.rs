//! What can be wrong with a request to the vector memory. Faults are small values; the message is only
//! produced when a fault is formatted.

use super::dim::Dim;
use std::fmt;

/// Why a request was not carried out. The output is unchanged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// A number of dimensions out of range.
    Dimension {
        /// The requested value.
        found: usize,
    },
    /// Slices whose lengths do not match.
    Shape {
        /// Which of the arguments.
        what: &'static str,
        /// Numbers in a row.
        d: usize,
        /// Expected rows.
        wanted: usize,
        /// Actual numbers.
        found: usize,
    },
    /// A list with one entry per row is too long or too short.
    Count {
        /// Which of the arguments.
        what: &'static str,
        /// Expected entries.
        wanted: usize,
        /// Actual entries.
        found: usize,
    },
    /// Vectors with a different number of dimensions from the memory's.
    OtherDimension {
        /// The object that has these vectors.
        what: &'static str,
        /// Its numbers per vector.
        found: usize,
        /// The memory's numbers per vector.
        wanted: usize,
    },
    /// A NaN or an infinity.
    NotFinite {
        /// Which of the arguments.
        what: &'static str,
        /// Index of the number in that argument.
        at: usize,
    },
    /// A vector whose length is zero, or so small or large that its square is not a normal f32.
    NoLength {
        /// Which of the arguments.
        what: &'static str,
        /// Index of the row in that argument.
        row: usize,
    },
    /// A vector without an exact inverse: one of its frequencies is practically absent.
    Vanishing {
        /// Which frequency, 0 to d/2.
        frequency: usize,
        /// Its magnitude over the mean magnitude.
        share: f64,
    },
    /// A non-integer power of a vector with a negative value at a frequency that has to stay real.
    NoRealPower {
        /// Which frequency: 0 or d/2.
        frequency: usize,
    },
    /// A full store.
    Full {
        /// Its capacity in rows.
        capacity: usize,
    },
    /// A store that would take more memory than was allowed.
    Limit {
        /// Bytes that it would take.
        wanted: usize,
        /// Bytes that were allowed.
        limit: usize,
    },
    /// A row that does not exist.
    NoRow {
        /// The requested row.
        row: usize,
        /// How many rows exist.
        rows: usize,
    },
    /// A count that has to be within bounds.
    Range {
        /// Which of the arguments.
        what: &'static str,
        /// The requested value.
        found: usize,
        /// The smallest allowed count.
        least: usize,
        /// The largest allowed count.
        most: usize,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Fault::Dimension { found } => {
                write!(f, "vectors of {found} numbers; allowed: {} to {}", Dim::LEAST, Dim::MOST)
            }
            Fault::Shape { what, d, wanted, found } if found.is_multiple_of(d) => {
                write!(f, "`{what}` is {} x {d} numbers; expected: {wanted} x {d}", found / d)
            }
            Fault::Shape { what, d, wanted, found } => {
                write!(f, "`{what}` is {found} numbers, not whole rows of {d}; expected: {wanted} x {d}")
            }
            Fault::Count { what, wanted, found } => {
                write!(f, "`{what}` has {found} entries; expected: {wanted}")
            }
            Fault::OtherDimension { what, found, wanted } => {
                write!(f, "{what} has vectors of {found} numbers, this memory of {wanted}")
            }
            Fault::NotFinite { what, at } => write!(f, "number {at} of `{what}` is not finite"),
            Fault::NoLength { what, row } => {
                write!(f, "row {row} of `{what}` has no usable length (zero, or out of range)")
            }
            Fault::Vanishing { frequency, share } => {
                write!(f, "no exact inverse: frequency {frequency} has {share:.1e} of the mean magnitude; ")?;
                f.write_str("make the vector unitary, or unbind by the involution")
            }
            Fault::NoRealPower { frequency } => {
                write!(f, "only integer powers are real: frequency {frequency} is negative")
            }
            Fault::Full { capacity } => {
                write!(
                    f,
                    "the store is full: it was made for {capacity} rows; make a larger one or remove some"
                )
            }
            Fault::Limit { wanted, limit } => {
                write!(f, "the store needs {wanted} bytes; allowed: {limit}")
            }
            Fault::NoRow { row, rows } => write!(f, "there is no row {row} among {rows}"),
            Fault::Range { what, found, least, most } => {
                write!(f, "`{what}` is {found}; allowed: {least} to {most}")
            }
        }
    }
}

impl std::error::Error for Fault {}
