//! Sums of products in a fixed order: sixteen lanes, then a fixed tree. The lanes can be spread over vector
//! registers of any width without changing a bit of the result.

/// Lanes of a sum.
const LANES: usize = 16;

/// a . b; the length must be a multiple of 16 (a remainder is ignored, so that the loop needs no check).
#[inline(always)]
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    debug_assert!(a.len() == b.len() && a.len().is_multiple_of(LANES));
    let mut lanes = [0.0; LANES];
    for (a, b) in a.as_chunks::<LANES>().0.iter().zip(b.as_chunks::<LANES>().0) {
        for lane in 0..LANES {
            lanes[lane] += a[lane] * b[lane];
        }
    }
    let mut width = LANES;
    while width > 1 {
        width /= 2;
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
    }
    lanes[0]
}

/// a . b summed in f64, for read-outs, whose weights may be large and cancel. Length as for [`dot`].
pub fn dot_wide(a: &[f32], b: &[f32]) -> f64 {
    debug_assert!(a.len() == b.len() && a.len().is_multiple_of(LANES));
    let mut lanes = [0.0; LANES];
    for (a, b) in a.as_chunks::<LANES>().0.iter().zip(b.as_chunks::<LANES>().0) {
        for lane in 0..LANES {
            lanes[lane] += f64::from(a[lane]) * f64::from(b[lane]);
        }
    }
    lanes.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_exact_within_rounding() {
        let a: Vec<f32> = (0..512).map(|i| ((i * 37) % 101) as f32 / 101.0 - 0.5).collect();
        let b: Vec<f32> = (0..512).map(|i| ((i * 53) % 97) as f32 / 97.0 - 0.5).collect();
        let exact: f64 = a.iter().zip(&b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
        // 32 additions per lane and 4 in the tree; each rounds by at most EPSILON times a sum of up to 128.
        assert!((f64::from(dot(&a, &b)) - exact).abs() < 36.0 * 128.0 * f64::from(f32::EPSILON));
        assert!((dot_wide(&a, &b) - exact).abs() < 1e-12);
    }
}
