//! The algebra of binding, as properties of vectors of any allowed length; results are compared with the
//! defining sums, computed in f64.

use super::{dim, largest_gap, rows};
use ganglion::memory::{Fault, Length, Workspace, vector};
use proptest::prelude::*;

/// Largest rounding error of one number in a product of two vectors of length about 1: a few rounding errors
/// of 6e-8 per stage, in 2 log2(d) stages, on numbers of about 1/sqrt(d).
const ROUNDING: f32 = 1e-6;

fn bind(d: usize, a: &[f32], b: &[f32]) -> Vec<f32> {
    let mut out = vec![f32::NAN; d];
    Workspace::new(dim(d)).bind(a, b, Length::AsIs, &mut out).expect("shapes");
    out
}

fn unbind(d: usize, a: &[f32], b: &[f32]) -> Vec<f32> {
    let mut out = vec![f32::NAN; d];
    Workspace::new(dim(d)).unbind(a, b, Length::AsIs, &mut out).expect("shapes");
    out
}

fn definition(a: &[f32], b: &[f32]) -> Vec<f32> {
    let d = a.len();
    let term = |k: usize, j: usize| f64::from(a[j]) * f64::from(b[(k + d - j) % d]);
    (0..d).map(|k| (0..d).map(|j| term(k, j)).sum::<f64>() as f32).collect()
}

fn plus(a: &[f32], b: &[f32]) -> Vec<f32> {
    a.iter().zip(b).map(|(x, y)| x + y).collect()
}

fn any_dim() -> impl Strategy<Value = usize> {
    prop_oneof![
        3 => proptest::sample::select(vec![64, 128, 256, 512, 1024]),
        2 => 64_usize..700,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn binding_is_circular_convolution_and_unbinding_correlation(d in any_dim(), seed in any::<u64>()) {
        let (a, b) = (rows(seed, 0, 1, d), rows(seed, 1, 1, d));
        prop_assert!(largest_gap(&bind(d, &a, &b), &definition(&a, &b)) < ROUNDING);
        let mut involuted = vec![0.0; d];
        Workspace::new(dim(d)).involution(&b, &mut involuted).expect("shapes");
        prop_assert!(largest_gap(&unbind(d, &a, &b), &definition(&a, &involuted)) < ROUNDING);
    }

    #[test]
    fn binding_commutes_associates_and_distributes(d in any_dim(), seed in any::<u64>()) {
        let [a, b, c] = [0, 1, 2].map(|number| rows(seed, number, 1, d));
        prop_assert!(largest_gap(&bind(d, &a, &b), &bind(d, &b, &a)) < ROUNDING);
        let (left, right) = (bind(d, &bind(d, &a, &b), &c), bind(d, &a, &bind(d, &b, &c)));
        prop_assert!(largest_gap(&left, &right) < 4.0 * ROUNDING);
        let (whole, parts) = (bind(d, &a, &plus(&b, &c)), plus(&bind(d, &a, &b), &bind(d, &a, &c)));
        prop_assert!(largest_gap(&whole, &parts) < 2.0 * ROUNDING);
    }

    #[test]
    fn identity_is_neutral_and_involution_reverses_indices(d in any_dim(), seed in any::<u64>()) {
        let a = rows(seed, 0, 1, d);
        prop_assert!(largest_gap(&bind(d, &a, &vector::identity(dim(d))), &a) < ROUNDING);
        let workspace = Workspace::new(dim(d));
        let (mut once, mut twice) = (vec![0.0; d], vec![0.0; d]);
        workspace.involution(&a, &mut once).expect("shapes");
        workspace.involution(&once, &mut twice).expect("shapes");
        prop_assert_eq!(&twice, &a);
        prop_assert!((0..d).all(|i| once[i].to_bits() == a[(d - i) % d].to_bits()));
    }

    #[test]
    fn unitary_keys_keep_lengths_and_unbind_exactly(d in any_dim(), seed in any::<u64>()) {
        let a = rows(seed, 0, 1, d);
        let projected = vector::unitary(&rows(seed, 1, 1, d)).expect("finite");
        for key in [projected, vector::random_unitary(seed, 2, dim(d))] {
            let workspace = Workspace::new(dim(d));
            prop_assert!((workspace.dot(&key, &key).expect("shapes") - 1.0).abs() < 1e-5);
            let bound = bind(d, &a, &key);
            let (before, after) = (workspace.dot(&a, &a), workspace.dot(&bound, &bound));
            prop_assert!((before.expect("shapes") - after.expect("shapes")).abs() < 1e-5);
            prop_assert!(largest_gap(&unbind(d, &bound, &key), &a) < 4.0 * ROUNDING);
        }
    }

    #[test]
    fn an_exact_inverse_works_or_is_refused(d in any_dim(), seed in any::<u64>()) {
        let a = rows(seed, 0, 1, d);
        match vector::inverse(&a) {
            // Rounding errors are magnified by the reciprocal of the smallest spectral share.
            Ok(inverse) => prop_assert!(largest_gap(&bind(d, &a, &inverse), &vector::identity(dim(d))) < 1e-4),
            Err(fault) => prop_assert!(matches!(fault, Fault::Vanishing { .. }), "{}", fault),
        }
    }

    #[test]
    fn the_exponents_of_powers_add_up(d in any_dim(), seed in any::<u64>(), p in -3.0..3.0_f64, q in -3.0..3.0_f64) {
        let base = vector::random_unitary(seed, 0, dim(d));
        let power = |exponent| vector::power(&base, exponent).expect("unitary, positive where real");
        prop_assert!(largest_gap(&bind(d, &power(p), &power(q)), &power(p + q)) < 1e-5);
        prop_assert!(largest_gap(&power(2.0), &bind(d, &base, &base)) < 1e-5);
        prop_assert!(largest_gap(&power(0.0), &vector::identity(dim(d))) < 1e-6);
    }

    #[test]
    fn permutations_are_cyclic_and_preserve_similarity(d in any_dim(), seed in any::<u64>(), by in -9000_isize..9000) {
        let (a, b) = (rows(seed, 0, 1, d), rows(seed, 1, 1, d));
        let workspace = Workspace::new(dim(d));
        let turned = |row: &[f32], by: isize| {
            let mut out = vec![0.0; d];
            workspace.permute(row, by, &mut out).expect("shapes");
            out
        };
        prop_assert_eq!(&turned(&turned(&a, by), -by), &a);
        prop_assert_eq!(&turned(&a, d as isize), &a);
        let (apart, together) = (workspace.dot(&a, &b), workspace.dot(&turned(&a, by), &turned(&b, by)));
        prop_assert!((apart.expect("shapes") - together.expect("shapes")).abs() < 1e-5);
        // A shift of one factor shifts the product.
        prop_assert!(largest_gap(&bind(d, &turned(&a, by), &b), &turned(&bind(d, &a, &b), by)) < ROUNDING);
    }
}

#[test]
fn the_error_stays_within_the_stated_bound_whatever_the_sizes() {
    let d = 512;
    let largest = |row: &[f32]| {
        let part = |k: usize, f: fn(f64) -> f64| {
            let angle = |j: usize| std::f64::consts::TAU * ((j * k) % d) as f64 / d as f64;
            row.iter().enumerate().map(|(j, x)| f64::from(*x) * f(angle(j))).sum::<f64>()
        };
        (0..=d / 2).map(|k| part(k, f64::cos).hypot(part(k, f64::sin))).fold(0.0, f64::max)
    };
    let length = |row: &[f32]| row.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
    for (seed, scale) in [(1, 1.0), (2, 1e-9), (3, 1e9)] {
        let a: Vec<f32> = rows(seed, 0, 1, d).iter().map(|x| x * scale).collect();
        let mut b = rows(seed, 1, 1, d);
        b[7] += 20.0; // a sharp peak: all frequencies have the same magnitude
        let gap: Vec<f32> = bind(d, &a, &b).iter().zip(definition(&a, &b)).map(|(x, y)| x - y).collect();
        let (u, stages) = (2.0_f64.powi(-24), 3.0 * 4.0 + 4.0);
        let bound = 4.0 * stages * u * (largest(&a) * length(&b) + largest(&b) * length(&a));
        // The result by the definition is itself rounded to f32 here, which adds one u.
        assert!(
            length(&gap) < bound + u * length(&a) * largest(&b),
            "scale {scale}: {} exceeds {bound}",
            length(&gap)
        );
        assert!(length(&gap) > 0.0, "an error of exactly 0 tests no bound");
    }
}

#[test]
fn zero_frequency_is_named_and_unitary_projection_survives_it() {
    let mut flat = vec![0.25; 128]; // only frequency 0
    let fault = vector::inverse(&flat).expect_err("nothing but a mean");
    assert!(matches!(fault, Fault::Vanishing { frequency: 1, share } if share < 1e-6), "{fault:?}");
    assert!(fault.to_string().contains("frequency 1"), "{fault}");
    let unitary = vector::unitary(&flat).expect("finite");
    assert!(largest_gap(&unitary, &vector::identity(dim(128))) < 1e-6);
    assert!(vector::inverse(&[0.0; 64]).is_err());
    flat[77] = f32::NAN;
    assert_eq!(vector::unitary(&flat), Err(Fault::NotFinite { what: "vector", at: 77 }));
    // Frequency 0 of this vector is negative: its square root is not real.
    assert_eq!(vector::power(&[-1.0; 64], 0.5), Err(Fault::NoRealPower { frequency: 0 }));
}

#[test]
fn wrong_shapes_name_both_shapes_and_write_nothing() {
    let d = 128;
    let mut workspace = Workspace::new(dim(d));
    let (a, mut out) = (vec![1.0; 3 * d], vec![7.0; 3 * d]);
    let faults = [
        (
            workspace.bind(&a, &a[..2 * d], Length::AsIs, &mut out),
            "`second factor` is 2 x 128 numbers; expected: 3 x 128",
        ),
        (
            workspace.bind(&a[..300], &a, Length::AsIs, &mut out),
            "`first factor` is 300 numbers, not whole rows of 128; expected: 3 x 128",
        ),
        (
            workspace.unbind(&a, &a, Length::Unit, &mut out[..d]),
            "`out` is 1 x 128 numbers; expected: 3 x 128",
        ),
        (
            workspace.superpose(&a, Some(&[1.0; 2]), Length::AsIs, &mut out[..d]),
            "`weights` has 2 entries; expected: 3",
        ),
        (
            workspace.superpose(&a, None, Length::AsIs, &mut out),
            "`out` is 3 x 128 numbers; expected: 1 x 128",
        ),
        (workspace.permute(&a, 1, &mut out[..d]), "`out` is 1 x 128 numbers; expected: 3 x 128"),
    ];
    for (result, words) in faults {
        assert_eq!(result.expect_err("a wrong shape").to_string(), words);
    }
    assert!(out.iter().all(|x| x.to_bits() == 7.0_f32.to_bits()));
}

#[test]
fn zero_length_vectors_become_zeros_not_nan() {
    let d = 100;
    let mut workspace = Workspace::new(dim(d));
    let (zero, a, mut out) = (vec![0.0; d], rows(1, 0, 1, d), vec![1.0; d]);
    workspace.bind(&zero, &a, Length::Unit, &mut out).expect("shapes");
    assert!(out.iter().all(|x| x.abs() < f32::MIN_POSITIVE), "{out:?}");
    assert_eq!(workspace.cosine(&zero, &a).map(f32::to_bits), Ok(0));
}

#[test]
fn a_thousand_path_integration_steps_end_at_the_right_place() {
    // Binding with a unitary step a thousand times equals binding with its thousandth power.
    let d = 512;
    let mut workspace = Workspace::new(dim(d));
    let step = vector::random_unitary(5, 0, dim(d));
    let small = vector::power(&step, 0.01).expect("unitary");
    let (mut here, mut next) = (vector::identity(dim(d)), vec![0.0; d]);
    for _ in 0..1000 {
        workspace.bind(&here, &small, Length::AsIs, &mut next).expect("shapes");
        std::mem::swap(&mut here, &mut next);
    }
    let expected = vector::power(&step, 10.0).expect("unitary");
    assert!((1.0 - workspace.cosine(&here, &expected).expect("shapes")).abs() < 1e-5);
    // The step is rounded once and then used a thousand times: this, not the rounding of sums, causes the
    // drift.
    let length = workspace.dot(&here, &here).expect("shapes").sqrt();
    assert!((length - 1.0).abs() < 1e-4, "{length}");
}
