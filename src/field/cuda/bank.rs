//! Coarse copies of bank rows that come from the host: bytes, step size and error, in the same form as
//! `kernels/bank.cu` makes them. However coarse they are, the five best matches are exact as long as the
//! error is not understated.

use crate::field::shape::DESCRIPTOR;

/// Quantisation steps from 0 to the largest magnitude in a row.
const STEPS: f32 = 127.0;
/// Factor by which an error is rounded up: more than the rounding errors of its square root and its
/// conversion to f32.
const UP: f32 = 1.000_001;

/// Coarse rows, as the scan reads them.
#[derive(Default)]
pub struct Coarse {
    /// A signed byte for each number.
    pub bytes: Vec<u8>,
    /// The size of a step, for each row.
    pub scale: Vec<f32>,
    /// Length of (exact - coarse), rounded up, for each row.
    pub error: Vec<f32>,
}

impl Coarse {
    /// Makes coarse rows from consecutive exact rows.
    pub fn new(rows: &[f32]) -> Coarse {
        let mut coarse = Coarse::default();
        rows.chunks_exact(DESCRIPTOR).for_each(|row| coarse.push(row));
        coarse
    }

    fn push(&mut self, row: &[f32]) {
        let scale = row.iter().fold(0.0_f32, |most, value| most.max(value.abs())) / STEPS;
        let mut off = 0.0;
        for value in row {
            let steps = if scale > 0.0 { (value / scale).round() as i8 } else { 0 };
            let miss = f64::from(*value) - f64::from(scale) * f64::from(steps);
            off += miss * miss;
            self.bytes.push(steps.to_le_bytes()[0]);
        }
        self.scale.push(scale);
        self.error.push(off.sqrt() as f32 * UP);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::seed::{Stream, normal};

    #[test]
    fn error_of_a_coarse_row_is_never_understated() {
        let mut rows: Vec<f32> =
            (0..3 * DESCRIPTOR).map(|i| normal(1, Stream::InitialField, i as u64) as f32).collect();
        rows[2 * DESCRIPTOR..].fill(0.0);
        let coarse = Coarse::new(&rows);
        for (row, exact) in rows.chunks_exact(DESCRIPTOR).enumerate() {
            let bytes = &coarse.bytes[row * DESCRIPTOR..][..DESCRIPTOR];
            let miss = exact.iter().zip(bytes).map(|(exact, byte)| {
                let value = f64::from(coarse.scale[row]) * f64::from(i8::from_le_bytes([*byte]));
                (f64::from(*exact) - value).powi(2)
            });
            let miss = miss.sum::<f64>().sqrt();
            assert!(miss <= f64::from(coarse.error[row]) && f64::from(coarse.error[row]) <= 1.00001 * miss);
        }
        assert_eq!(coarse.error[2].to_bits(), 0);
    }
}
