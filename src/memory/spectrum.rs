//! The discrete Fourier transform, in f64, of real rows of any length. It serves operations that are done
//! once per vector: unitary projection, exact inverse, powers, spatial pointers. The code is sequential and
//! takes its sines from `libm`, so the results are bit-identical on every machine. Powers of two use radix 2;
//! other lengths are computed as a convolution with a chirp (Bluestein 1970).

use std::f64::consts::{PI, TAU};

/// Frequencies 0..=d/2 of a real row; the others are their conjugates.
#[derive(Clone, Debug)]
pub struct Spectrum {
    d: usize,
    /// Real parts.
    pub re: Vec<f64>,
    /// Imaginary parts.
    pub im: Vec<f64>,
}

impl Spectrum {
    /// 1 at every frequency: the spectrum of the identity vector of binding.
    pub fn flat(d: usize) -> Spectrum {
        Spectrum { d, re: vec![1.0; d / 2 + 1], im: vec![0.0; d / 2 + 1] }
    }

    /// The spectrum of a row.
    pub fn of(row: &[f32]) -> Spectrum {
        let d = row.len();
        let (mut re, mut im) = (row.iter().map(|x| f64::from(*x)).collect::<Vec<_>>(), vec![0.0; d]);
        transform(&mut re, &mut im);
        re.truncate(d / 2 + 1);
        im.truncate(d / 2 + 1);
        let mut spectrum = Spectrum { d, re, im };
        spectrum.own_counterparts(|_, im| *im = 0.0);
        spectrum
    }

    /// Numbers in the row.
    pub fn d(&self) -> usize {
        self.d
    }

    /// Calls `touch` with the real and imaginary part of each frequency that is its own conjugate (0, and d/2
    /// if d is even): these are real for every real row.
    fn own_counterparts(&mut self, mut touch: impl FnMut(&mut f64, &mut f64)) {
        touch(&mut self.re[0], &mut self.im[0]);
        if self.d.is_multiple_of(2) {
            let last = self.d / 2;
            touch(&mut self.re[last], &mut self.im[last]);
        }
    }

    /// Whether frequency k is its own conjugate, and therefore real.
    pub fn is_real(&self, k: usize) -> bool {
        k == 0 || 2 * k == self.d
    }

    /// |X_k|
    pub fn magnitude(&self, k: usize) -> f64 {
        libm::hypot(self.re[k], self.im[k])
    }

    /// The mean magnitude over all d frequencies of the row, including the conjugates, which are not stored.
    pub fn mean_magnitude(&self) -> f64 {
        let weight = |k: usize| if self.is_real(k) { 1.0 } else { 2.0 };
        (0..self.re.len()).map(|k| weight(k) * self.magnitude(k)).sum::<f64>() / self.d as f64
    }

    /// Computes the row, rounded to f32.
    pub fn to_row(&self, row: &mut [f32]) {
        let d = self.d;
        let part = |k: usize, own: &[f64], sign: f64| if k <= d / 2 { own[k] } else { sign * own[d - k] };
        // The inverse transform is the conjugate of the forward transform of the conjugate, divided by d. For
        // a real row, the remaining imaginary part is rounding error.
        let mut re: Vec<f64> = (0..d).map(|k| part(k, &self.re, 1.0)).collect();
        let mut im: Vec<f64> = (0..d).map(|k| -part(k, &self.im, -1.0)).collect();
        transform(&mut re, &mut im);
        row.iter_mut().zip(&re).for_each(|(to, from)| *to = (from / d as f64) as f32);
    }
}

/// Transforms a complex row of any length, in place.
fn transform(re: &mut [f64], im: &mut [f64]) {
    if re.len().is_power_of_two() { radix_two(re, im) } else { chirped(re, im) }
}

/// Decimation in time, in place.
fn radix_two(re: &mut [f64], im: &mut [f64]) {
    let n = re.len();
    let bits = n.trailing_zeros();
    for i in 0..n {
        let j = if bits == 0 { 0 } else { i.reverse_bits() >> (usize::BITS - bits) };
        if i < j {
            re.swap(i, j);
            im.swap(i, j);
        }
    }
    let mut half = 1;
    while half < n {
        for k in 0..half {
            let angle = -PI * k as f64 / half as f64;
            let (c, s) = (libm::cos(angle), libm::sin(angle));
            for low in (k..n).step_by(2 * half) {
                let high = low + half;
                let (x, y) = (re[high] * c - im[high] * s, re[high] * s + im[high] * c);
                (re[high], im[high]) = (re[low] - x, im[low] - y);
                (re[low], im[low]) = (re[low] + x, im[low] + y);
            }
        }
        half *= 2;
    }
}

/// X_k = w_k sum (x_j w_j) conj(w_{k-j}) with w_j = exp(-pi i j^2 / n): a convolution, computed with
/// transforms whose length is a power of two.
fn chirped(re: &mut [f64], im: &mut [f64]) {
    let n = re.len();
    let length = (2 * n - 1).next_power_of_two();
    let chirp: Vec<(f64, f64)> = (0..n)
        .map(|j| {
            let angle = TAU * ((j * j) % (2 * n)) as f64 / (2 * n) as f64;
            (libm::cos(angle), -libm::sin(angle))
        })
        .collect();
    let (mut a_re, mut a_im) = (vec![0.0; length], vec![0.0; length]);
    let (mut b_re, mut b_im) = (vec![0.0; length], vec![0.0; length]);
    for (j, (c, s)) in chirp.iter().enumerate() {
        (a_re[j], a_im[j]) = (re[j] * c - im[j] * s, re[j] * s + im[j] * c);
        (b_re[j], b_im[j]) = (*c, -s);
        (b_re[(length - j) % length], b_im[(length - j) % length]) = (*c, -s);
    }
    radix_two(&mut a_re, &mut a_im);
    radix_two(&mut b_re, &mut b_im);
    for k in 0..length {
        let (x, y) = (a_re[k] * b_re[k] - a_im[k] * b_im[k], a_re[k] * b_im[k] + a_im[k] * b_re[k]);
        (a_re[k], a_im[k]) = (x, -y); // conjugated for the inverse transform
    }
    radix_two(&mut a_re, &mut a_im);
    for (k, (c, s)) in chirp.iter().enumerate() {
        let (x, y) = (a_re[k] / length as f64, -a_im[k] / length as f64);
        (re[k], im[k]) = (x * c - y * s, x * s + y * c);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::seed::{Stream, normal};

    #[test]
    fn every_length_matches_the_dft_definition_and_inverts() {
        for d in [64, 65, 97, 100, 128, 243, 384] {
            let row: Vec<f32> = (0..d).map(|i| normal(3, Stream::Stimulus, i as u64) as f32).collect();
            let spectrum = Spectrum::of(&row);
            for k in 0..=d / 2 {
                let angle = |j: usize| -TAU * ((j * k) % d) as f64 / d as f64;
                let sum = |f: fn(f64) -> f64| (0..d).map(|j| f64::from(row[j]) * f(angle(j))).sum::<f64>();
                let (re, im) = (sum(f64::cos), sum(f64::sin));
                let off = (re - spectrum.re[k]).abs().max((im - spectrum.im[k]).abs());
                assert!(off < 1e-11, "d {d}, frequency {k}: {off}");
            }
            let mut again = vec![0.0; d];
            spectrum.to_row(&mut again);
            assert_eq!(again, row, "d {d}");
        }
    }
}
