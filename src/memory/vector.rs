//! Creates vectors: random from a seed, unitary, inverse, or raised to a power. This is done once per vector,
//! in f64, and rounded to f32 at the end; the functions allocate the spectrum.

use super::dim::Dim;
use super::fault::Fault;
use super::spectrum::Spectrum;
use crate::base::seed::{Stream, normal, uniform};
use std::f64::consts::TAU;

/// Smallest magnitude of a frequency of an invertible vector, as a fraction of the mean magnitude. Inversion
/// amplifies the rounding error of the vector (6e-8 per number) by at most one over this fraction: with 1e-3,
/// the inverse is still accurate to 1e-4.
pub const LEAST_SHARE: f64 = 1e-3;

/// Below this fraction of the mean magnitude, a frequency's phase is only rounding error, and unitary
/// projection sets the phase to 0.
const NO_PHASE: f64 = 1e-7;

/// Vector `number` of the family `seed`: independent normal numbers of variance 1/d, so that the squared
/// length is 1 on average.
pub fn random(seed: u64, number: u64, d: Dim) -> Vec<f32> {
    let d = d.get() as u64;
    let scale = 1.0 / libm::sqrt(d as f64);
    (0..d)
        .map(|i| (scale * normal(seed, Stream::MemoryVectors, number.wrapping_mul(d).wrapping_add(i))) as f32)
        .collect()
}

/// Vector `number` of the unitary family `seed`: every frequency has magnitude 1 and a uniformly random
/// phase, except the frequencies that are real (0, and d/2 if d is even), whose phase is 0. The vector's
/// length is 1, its inverse is its involution, and all its powers exist.
pub fn random_unitary(seed: u64, number: u64, d: Dim) -> Vec<f32> {
    let mut spectrum = Spectrum::flat(d.get());
    let frequencies = spectrum.re.len();
    for k in 0..frequencies {
        let index = number.wrapping_mul(frequencies as u64).wrapping_add(k as u64);
        let phase = TAU * (uniform(seed, Stream::MemoryPhases, index) - 0.5);
        if !spectrum.is_real(k) {
            (spectrum.re[k], spectrum.im[k]) = (libm::cos(phase), libm::sin(phase));
        }
    }
    row_of(&spectrum)
}

/// The identity of binding: any vector bound to it gives that same vector.
pub fn identity(d: Dim) -> Vec<f32> {
    let mut row = vec![0.0; d.get()];
    row[0] = 1.0;
    row
}

/// The vector with the same phases and magnitude 1 at every frequency; a frequency whose magnitude is too
/// small for a meaningful phase gets phase 0.
pub fn unitary(vector: &[f32]) -> Result<Vec<f32>, Fault> {
    let mut spectrum = checked(vector)?;
    let floor = NO_PHASE * spectrum.mean_magnitude();
    for k in 0..spectrum.re.len() {
        let magnitude = spectrum.magnitude(k);
        let (re, im) = (spectrum.re[k], spectrum.im[k]);
        (spectrum.re[k], spectrum.im[k]) =
            if magnitude > floor { (re / magnitude, im / magnitude) } else { (1.0, 0.0) };
    }
    Ok(row_of(&spectrum))
}

/// The vector that, bound to this one, yields the identity. Refused unless the magnitude of each frequency
/// exceeds [`LEAST_SHARE`] times the mean.
pub fn inverse(vector: &[f32]) -> Result<Vec<f32>, Fault> {
    let mut spectrum = checked(vector)?;
    let mean = spectrum.mean_magnitude();
    for k in 0..spectrum.re.len() {
        let magnitude = spectrum.magnitude(k);
        // With a mean of 0 every frequency is refused.
        if magnitude.partial_cmp(&(LEAST_SHARE * mean)) != Some(std::cmp::Ordering::Greater) {
            let share = if mean > 0.0 { magnitude / mean } else { 0.0 };
            return Err(Fault::Vanishing { frequency: k, share });
        }
        let square = magnitude * magnitude;
        (spectrum.re[k], spectrum.im[k]) = (spectrum.re[k] / square, -spectrum.im[k] / square);
    }
    Ok(row_of(&spectrum))
}

/// The vector bound `exponent` times to itself, for any real exponent: each frequency's magnitude is raised
/// to that power, and its phase (between -pi and pi) is multiplied by it. A negative exponent has the same
/// condition as [`inverse`]. For a non-integer exponent, the real frequencies (0, and d/2 if d is even) must
/// not be negative, because their powers would not be real.
pub fn power(vector: &[f32], exponent: f64) -> Result<Vec<f32>, Fault> {
    if !exponent.is_finite() {
        return Err(Fault::NotFinite { what: "exponent", at: 0 });
    }
    let mut spectrum = checked(vector)?;
    let floor = if exponent < 0.0 { LEAST_SHARE } else { 0.0 } * spectrum.mean_magnitude();
    let whole = libm::trunc(exponent).to_bits() == exponent.to_bits();
    for k in 0..spectrum.re.len() {
        let magnitude = spectrum.magnitude(k);
        if exponent < 0.0 && magnitude <= floor {
            return Err(Fault::Vanishing { frequency: k, share: magnitude / spectrum.mean_magnitude() });
        }
        let real = spectrum.is_real(k);
        if real && !whole && spectrum.re[k] < 0.0 {
            return Err(Fault::NoRealPower { frequency: k });
        }
        let phase = exponent * libm::atan2(spectrum.im[k], spectrum.re[k]);
        let size = libm::pow(magnitude, exponent);
        (spectrum.re[k], spectrum.im[k]) =
            (size * libm::cos(phase), if real { 0.0 } else { size * libm::sin(phase) });
    }
    Ok(row_of(&spectrum))
}

/// The spectrum of a vector; an error if its length or a number is invalid.
fn checked(vector: &[f32]) -> Result<Spectrum, Fault> {
    Dim::new(vector.len())?;
    finite("vector", vector)?;
    Ok(Spectrum::of(vector))
}

/// An error that names the first number that is not finite, if there is one.
pub(super) fn finite(what: &'static str, numbers: &[f32]) -> Result<(), Fault> {
    match numbers.iter().position(|number| !number.is_finite()) {
        None => Ok(()),
        Some(at) => Err(Fault::NotFinite { what, at }),
    }
}

fn row_of(spectrum: &Spectrum) -> Vec<f32> {
    let mut row = vec![0.0; spectrum.d()];
    spectrum.to_row(&mut row);
    row
}
