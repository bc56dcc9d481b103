//! How many numbers a vector has: checked once, carried as a type.

use super::fault::Fault;

/// Numbers in a vector, [`Dim::LEAST`]..=[`Dim::MOST`]. Powers of two from 128 on are transformed directly;
/// the others are padded to the next power of two that holds their linear convolution, up to four times as
/// long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dim(u16);

impl Dim {
    /// Below this, a memory holds almost nothing: with 64 numbers, even two pairs in one vector are confused.
    pub const LEAST: usize = 64;
    /// Above this, a row and its spectrum (32 kB each) no longer fit together into the first-level cache of
    /// any processor that this runs on, nor does a transform into the default shared memory of a GPU block.
    pub const MOST: usize = 8192;

    /// `d`, if it is in range.
    pub fn new(d: usize) -> Result<Dim, Fault> {
        match u16::try_from(d) {
            Ok(fits) if (Dim::LEAST..=Dim::MOST).contains(&d) => Ok(Dim(fits)),
            _ => Err(Fault::Dimension { found: d }),
        }
    }

    /// As a number.
    pub const fn get(self) -> usize {
        self.0 as usize
    }

    /// The number of rows in `numbers` numbers, if these make up whole rows.
    pub fn rows(self, numbers: usize) -> Option<usize> {
        numbers.is_multiple_of(self.get()).then(|| numbers / self.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_out_of_range_are_refused_with_the_range() {
        for d in [64, 65, 512, 8191, 8192] {
            assert_eq!(Dim::new(d).map(Dim::get), Ok(d));
        }
        for d in [0, 1, 63, 8193, usize::MAX] {
            let fault = Dim::new(d).expect_err("out of range");
            assert!(fault.to_string().contains("64 to 8192"), "{fault}");
        }
    }
}
