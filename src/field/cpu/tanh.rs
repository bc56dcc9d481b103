//! The hyperbolic tangent of the CPU engine: a clamped rational function, branch-free, so that a
//! loop over it becomes vector code. It does not depend on the system's mathematics library, so
//! the same input gives the same bits on every machine.

/// Beyond this the argument is held: 1 - tanh(9) = 3e-8 is less than half a unit in the last
/// place of 1, so in f32 the function has reached 1.
const REACH: f32 = 9.0;

/// Largest absolute difference from the true tanh, any argument, rounding included. The rational
/// function itself is within 2e-8; the rest is the rounding of its eleven operations.
#[cfg(test)]
pub const TANH_ERROR: f32 = 4e-7;

/// tanh(x) = x P(x^2) / Q(x^2) on [-9, 9], P and Q of degree 4: a minimax fit of the absolute
/// error by iterated weighted least squares. All coefficients are positive, so nothing cancels.
const P: [f32; 5] = [0.999_999_9, 0.133_731_98, 3.486_582e-3, 2.047_183_3e-5, 1.318_422_6e-8];
const Q: [f32; 5] = [1.0, 0.467_064_95, 2.584_198e-2, 3.271_385_6e-4, 7.702_664_6e-7];

/// tanh(x), |tanh(x)| <= 1 exactly.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    let x = x.clamp(-REACH, REACH);
    let t = x * x;
    let p = P[0] + t * (P[1] + t * (P[2] + t * (P[3] + t * P[4])));
    let q = Q[0] + t * (Q[1] + t * (Q[2] + t * (Q[3] + t * Q[4])));
    (x * p / q).clamp(-1.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_stays_within_the_stated_bound() {
        // Every 97th f32 from 0 to past the clamp: some 11 million arguments of every magnitude.
        let mut worst: f64 = 0.0;
        for bits in (0..12.0f32.to_bits()).step_by(97) {
            let x = f32::from_bits(bits);
            let y = tanh(x);
            assert!(y.abs() <= 1.0 && tanh(-x) == -y, "at {x}");
            worst = worst.max((y as f64 - libm::tanh(x as f64)).abs());
        }
        assert!(worst <= TANH_ERROR as f64, "worst {worst:e}");
        // A bound that is far too generous would say nothing.
        assert!(worst > 0.5 * TANH_ERROR as f64, "worst {worst:e}");
    }

    #[test]
    fn ends_are_exact() {
        for x in [9.0, 1e3, 1e30, f32::MAX, f32::INFINITY] {
            assert!((1.0 - tanh(x)).abs() <= TANH_ERROR && tanh(x) <= 1.0, "at {x}");
            assert!((1.0 + tanh(-x)).abs() <= TANH_ERROR && tanh(-x) >= -1.0, "at {x}");
        }
        assert_eq!(tanh(0.0).to_bits(), 0);
    }
}
