//! Every operation at every level that this machine has, against scalar arithmetic and, for halves, against
//! the format's definition. Equal means the same bits throughout.

use super::*;
use crate::base::seed::{Stream, uniform};
use std::panic::catch_unwind;

/// The most lanes that any level has.
const MOST: usize = 16;

/// A test whose body is compiled for, and run at, every level.
macro_rules! at_every_level {
    ($(#[$doc:meta])* fn $name:ident<$kind:ident>($simd:ident) $body:block) => {
        $(#[$doc])*
        #[test]
        fn $name() {
            struct Body;
            impl Kernel for Body {
                type Output = ();
                #[inline(always)]
                fn run<$kind: Simd>(self, $simd: $kind) $body
            }
            Level::all().into_iter().for_each(|level| level.run(Body));
        }
    };
}

/// Numbers of any size from 2^-20 to 2^20 and either sign; a pure function of `seed` and the index.
fn numbers(seed: u64) -> [f32; MOST] {
    std::array::from_fn(|i| {
        let draw = |n: usize| uniform(seed, Stream::Stimulus, (2 * i + n) as u64);
        let size = (40.0 * draw(0) - 20.0).exp2();
        if draw(1) < 0.5 { -size as f32 } else { size as f32 }
    })
}

fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|x| x.to_bits()).collect()
}

#[inline(always)]
fn lanes<S: Simd>(simd: S, v: S::V) -> [f32; MOST] {
    let mut all = [f32::NAN; MOST];
    simd.store(v, &mut all[..S::LANES]);
    all
}

/// Whether a level rounds a b + c once.
fn fuses<S: Simd>(simd: S) -> bool {
    // (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24, whose last term is lost if the product is rounded separately.
    let (a, c) = (1.0 + 2.0_f32.powi(-12), -1.0 - 2.0_f32.powi(-11));
    let sum = lanes(simd, simd.fma(simd.splat(a), simd.splat(a), simd.splat(c)))[0];
    assert!(sum.to_bits() == 0 || sum.to_bits() == 2.0_f32.powi(-24).to_bits(), "{sum}");
    sum > 0.0
}

at_every_level! {
    fn arithmetic_is_that_of_scalars_in_every_lane<S>(simd) {
        for seed in 0..if cfg!(miri) { 8 } else { 200 } {
            let [a, b, c] = [3 * seed, 3 * seed + 1, 3 * seed + 2].map(numbers);
            let n = S::LANES;
            let [va, vb, vc] = [&a, &b, &c].map(|from| simd.load(&from[..n]));
            let equal = |v: S::V, scalar: fn(f32, f32, f32) -> f32| {
                let expected: Vec<f32> = (0..n).map(|i| scalar(a[i], b[i], c[i])).collect();
                assert_eq!(bits(&lanes(simd, v)[..n]), bits(&expected), "{n} lanes, seed {seed}");
            };
            assert_eq!(bits(&lanes(simd, simd.splat(a[3]))[..n]), vec![a[3].to_bits(); n]);
            equal(simd.add(va, vb), |a, b, _| a + b);
            equal(simd.sub(va, vb), |a, b, _| a - b);
            equal(simd.mul(va, vb), |a, b, _| a * b);
            equal(simd.div(va, vb), |a, b, _| a / b);
            equal(simd.min(va, vb), |a, b, _| if a < b { a } else { b });
            equal(simd.max(va, vb), |a, b, _| if a > b { a } else { b });
            equal(simd.abs(va), |a, _, _| a.abs());
            let fused: fn(f32, f32, f32) -> f32 =
                if fuses(simd) { |a, b, c| a.mul_add(b, c) } else { |a, b, c| a * b + c };
            equal(simd.fma(va, vb, vc), fused);
        }
    }
}

#[test]
fn all_levels_but_the_portable_one_use_fused_multiply_add() {
    struct Fuses;
    impl Kernel for Fuses {
        type Output = bool;
        #[inline(always)]
        fn run<S: Simd>(self, simd: S) -> bool {
            fuses(simd)
        }
    }
    Level::all().into_iter().for_each(|level| assert_eq!(level.run(Fuses), level.name() != "portable"));
}

at_every_level! {
    fn neighbours_come_from_the_next_register_at_the_ends<S>(simd) {
        let (n, row) = (S::LANES, std::array::from_fn::<f32, { 3 * MOST }, _>(|i| i as f32));
        let [before, v, after] = [0, 1, 2].map(|part| simd.load(&row[part * n..][..n]));
        assert_eq!(lanes(simd, simd.west(before, v))[..n], row[n - 1..2 * n - 1]);
        assert_eq!(lanes(simd, simd.east(v, after))[..n], row[n + 1..2 * n + 1]);
        assert_eq!(lanes(simd, simd.first(v))[..n], vec![row[n]; n]);
        assert_eq!(lanes(simd, simd.last(v))[..n], vec![row[2 * n - 1]; n]);
    }
}

at_every_level! {
    fn the_fused_sums_round_once_everywhere<S>(simd) {
        for seed in 0..if cfg!(miri) { 8 } else { 2000 } {
            let [a, b, mut c] = [3 * seed, 3 * seed + 1, 3 * seed + 2].map(numbers);
            // A second rounding shows in sums that cancel nearly all of the product.
            (0..MOST).step_by(2).for_each(|i| c[i] = -(a[i] * b[i]));
            let n = S::LANES;
            let [va, vb, vc] = [&a, &b, &c].map(|from| simd.load(&from[..n]));
            let sum: Vec<f32> = (0..n).map(|i| a[i].mul_add(b[i], c[i])).collect();
            assert_eq!(bits(&lanes(simd, simd.fused(va, vb, vc))[..n]), bits(&sum), "seed {seed}");
            let rest: Vec<f32> = (0..n).map(|i| (-a[i]).mul_add(b[i], c[i])).collect();
            assert_eq!(bits(&lanes(simd, simd.fused_less(va, vb, vc))[..n]), bits(&rest), "seed {seed}");
        }
    }
}

at_every_level! {
    fn lanes_change_places_as_promised<S>(simd) {
        let (n, row) = (S::LANES, std::array::from_fn::<f32, { 2 * MOST }, _>(|i| i as f32));
        let (a, b) = (simd.load(&row[..n]), simd.load(&row[n..2 * n]));
        let both = |pair: (S::V, S::V)| [&lanes(simd, pair.0)[..n], &lanes(simd, pair.1)[..n]].concat();
        let zipped: Vec<f32> = (0..n).flat_map(|i| [i as f32, (n + i) as f32]).collect();
        assert_eq!(both(simd.zip(a, b)), zipped);
        let (low, high) = simd.zip(a, b);
        assert_eq!(both(simd.unzip(low, high)), row[..2 * n]);
        let fours: Vec<f32> =
            (0..n / 4).flat_map(|four| [4 * four, n + 4 * four]).flat_map(|at| row[at..at + 4].to_vec()).collect();
        assert_eq!(both(simd.zip_fours(a, b)), fours);
        let backwards: Vec<f32> = (0..n).rev().map(|i| i as f32).collect();
        assert_eq!(lanes(simd, simd.reverse(a))[..n], backwards);
    }
}

at_every_level! {
    fn slices_are_read_and_written_wherever_they_lie_and_no_further<S>(simd) {
        let n = S::LANES;
        let alternate = |i: i16| if i % 2 == 0 { i16::MIN + i } else { i16::MAX - i };
        let whole: Vec<i16> = (0..3 * MOST as i16).map(alternate).collect();
        let given: Vec<f32> = (0..3 * MOST).map(|i| 1.0 + i as f32).collect();
        for at in 0..2 * MOST {
            let part = at..at + n;
            assert_eq!(lanes(simd, simd.load(&given[part.clone()]))[..n], given[part.clone()]);
            let expected: Vec<f32> = whole[part.clone()].iter().map(|x| f32::from(*x)).collect();
            assert_eq!(lanes(simd, simd.load_i16(&whole[part.clone()]))[..n], expected);
            let mut to = [0.0; 3 * MOST];
            simd.store(simd.load(&given[part.clone()]), &mut to[part.clone()]);
            for i in 0..3 * MOST {
                let kept = if part.contains(&i) { given[i] } else { 0.0 };
                assert_eq!(to[i].to_bits(), kept.to_bits(), "{at}, {i}");
            }
        }
    }
}

at_every_level! {
    fn slices_of_halves_are_too<S>(simd) {
        let n = S::LANES;
        let given: Vec<f32> = (0..3 * MOST).map(|i| 1.0 + i as f32).collect();
        let halves: Vec<Half> = given.iter().map(|x| Half::from_f32(*x)).collect();
        for at in 0..2 * MOST {
            let part = at..at + n;
            assert_eq!(lanes(simd, simd.load_half(&halves[part.clone()]))[..n], given[part.clone()]);
            let mut to = [Half(0); 3 * MOST];
            simd.store_half(simd.load(&given[part.clone()]), &mut to[part.clone()]);
            for i in 0..3 * MOST {
                let kept = if part.contains(&i) { halves[i] } else { Half(0) };
                assert_eq!(to[i], kept, "{at}, {i}");
            }
        }
    }
}

#[test]
fn slices_of_different_lengths_are_refused() {
    struct Touch {
        what: usize,
        longer: bool,
    }
    impl Kernel for Touch {
        type Output = ();
        #[inline(always)]
        fn run<S: Simd>(self, simd: S) {
            let n = if self.longer { S::LANES + 1 } else { S::LANES - 1 };
            let (v, mut kept) = (simd.splat(1.0), [0.0; MOST + 1]);
            match self.what {
                0 => _ = lanes(simd, simd.load(&kept[..n])),
                1 => _ = lanes(simd, simd.load_half(&[Half(0); MOST + 1][..n])),
                2 => _ = lanes(simd, simd.load_i16(&[0; MOST + 1][..n])),
                3 => simd.store(v, &mut kept[..n]),
                _ => simd.store_half(v, &mut [Half(0); MOST + 1][..n]),
            }
        }
    }
    for level in Level::all() {
        for what in 0..5 {
            for longer in [false, true] {
                let touched = catch_unwind(|| level.run(Touch { what, longer }));
                assert!(touched.is_err(), "{}, {what}, longer: {longer}", level.name());
            }
        }
    }
}

at_every_level! {
    /// f + n is y and 2^n is exact, over the whole range and beyond its ends.
    fn a_split_loses_nothing_and_a_scale_is_exact<S>(simd) {
        let one = simd.splat(1.0);
        let count = if cfg!(miri) { 101 } else { 200_001 };
        for i in 0..count {
            let y = -60.0 + 120.0 * (i as f32 / (count - 1) as f32);
            let (f, n) = simd.split(simd.splat(y));
            let f_is = lanes(simd, f)[0];
            let power = f64::from(lanes(simd, simd.scale(one, n))[0]);
            assert!(f_is.abs() <= 0.5, "{y}: {f_is}");
            let whole = f64::from(y) - f64::from(f_is);
            assert!(whole == whole.round() && power == whole.exp2(), "{y}: {f_is} and {power}");
            // `scale` is exact for every p in its range, the ends included.
            for p in [0.5_f32, 0.8, 1.3, 2.0] {
                let scaled = lanes(simd, simd.scale(simd.splat(p), n))[S::LANES - 1];
                let exact = f64::from(p) * power;
                assert!(f64::from(scaled) == exact, "{p} 2^{whole}");
            }
        }
        for y in [60.0_f32, 60.4, 61.0, 127.0, 1e6, 3.4e38] {
            let (f, n) = simd.split(simd.splat(y));
            let (f, power) = (lanes(simd, f)[0], lanes(simd, simd.scale(one, n))[0]);
            assert!(f.abs() == 0.0 && power.to_bits() == 60.0_f32.exp2().to_bits(), "{y}: {f}, {power}");
        }
        for y in [-60.0_f32, -60.4, -61.0, -127.0, -1e6, -3.4e38] {
            let (f, n) = simd.split(simd.splat(y));
            let (f, power) = (lanes(simd, f)[0], lanes(simd, simd.scale(one, n))[0]);
            // Some levels stop at 2^-60, others go on towards 0: added to 1, neither makes a difference.
            assert!(f.abs() <= 0.5 && (0.0..=1e-18).contains(&power), "{y}: {f}, {power}");
        }
    }
}

at_every_level! {
    /// Each lane has its own exponent: lanes must not affect each other.
    fn lanes_are_split_and_scaled_each_by_itself<S>(simd) {
        let y: [f32; MOST] = std::array::from_fn(|i| 7.3 * i as f32 - 54.3);
        let (f, n) = simd.split(simd.load(&y[..S::LANES]));
        let power = lanes(simd, simd.scale(simd.splat(1.0), n));
        for (i, f) in lanes(simd, f)[..S::LANES].iter().enumerate() {
            assert!(f64::from(power[i]).log2() == f64::from(y[i]) - f64::from(*f), "lane {i}");
        }
    }
}

/// The value of a half by IEEE 754: sign, five bits of exponent with a bias of 15, ten of the fraction.
fn defined(half: u16) -> f64 {
    let (exponent, fraction) = (i32::from(half >> 10 & 31), f64::from(half & 1023) / 1024.0);
    let size = if exponent == 0 {
        fraction * (-14.0_f64).exp2()
    } else {
        (1.0 + fraction) * f64::from(exponent - 15).exp2()
    };
    if half & 0x8000 == 0 { size } else { -size }
}

/// All finite halves, up to 65,504 in magnitude; under Miri only every 2503rd.
fn finite_halves() -> impl Iterator<Item = u16> {
    (0..=u16::MAX).filter(|half| half & 0x7c00 != 0x7c00).step_by(if cfg!(miri) { 2503 } else { 1 })
}

at_every_level! {
    fn every_half_is_read_as_what_it_is_defined_to_be<S>(simd) {
        for half in finite_halves() {
            let expected = defined(half) as f32;
            assert_eq!(Half(half).to_f32().to_bits(), expected.to_bits(), "{half:#x}");
            let read = lanes(simd, simd.load_half(&[Half(half); MOST][..S::LANES]));
            assert_eq!(bits(&read[..S::LANES]), vec![expected.to_bits(); S::LANES], "{half:#x}");
        }
    }
}

at_every_level! {
    /// Each half itself, the point half-way to the next one (a tie, which rounds to the even one), and the
    /// numbers next to that point: normal and subnormal, either sign.
    fn a_number_becomes_the_nearest_half_and_a_tie_the_even_one<S>(simd) {
        let mut stored = [Half(0x7fff); MOST];
        let mut becomes = |value: f32, half: u16| {
            assert_eq!(Half::from_f32(value), Half(half), "{value:e}");
            simd.store_half(simd.splat(value), &mut stored[..S::LANES]);
            assert!(stored[..S::LANES].iter().all(|kept| *kept == Half(half)), "{value:e}: {stored:?}");
        };
        for half in finite_halves() {
            let value = defined(half);
            becomes(value as f32, half);
            if half & 0x7fff == 0x7bff {
                continue; // the next one is infinity
            }
            let tie = (0.5 * (value + defined(half + 1))) as f32;
            let (inwards, outwards) = (tie.abs().next_down().copysign(tie), tie.abs().next_up().copysign(tie));
            becomes(tie, half + half % 2);
            becomes(inwards, half);
            becomes(outwards, half + 1);
        }
        // Far below the smallest half, 2^-24; at half of it, a tie; and slightly above half of it.
        for (value, half) in [(1e-40, 0), (-1e-40, 0x8000), (2.0_f32.powi(-25), 0), (2.1_f32 * 2.0_f32.powi(-26), 1)] {
            becomes(value, half);
        }
    }
}

#[test]
fn levels_have_names_and_an_order() {
    struct Lanes;
    impl Kernel for Lanes {
        type Output = usize;
        #[inline(always)]
        fn run<S: Simd>(self, _: S) -> usize {
            S::LANES
        }
    }
    let all = Level::all();
    assert_eq!(all[0].name(), "portable");
    assert_eq!(Level::best().name(), all[all.len() - 1].name());
    assert!(Level::named("").is_none() && Level::named("AVX2").is_none());
    for level in &all {
        assert_eq!(Level::named(level.name()).map(Level::name), Some(level.name()));
        let own = level.run(Lanes);
        assert!(own <= MOST);
        for room in [4, 5, 8, 12, 16, 32, 64] {
            let within = level.within(room);
            let fits: Vec<_> = all.iter().filter(|other| other.run(Lanes) <= room.min(own)).collect();
            assert_eq!(within.run(Lanes), fits.iter().map(|other| other.run(Lanes)).max().unwrap_or(0));
            assert!(own > room || within.name() == level.name(), "{} in {room}", level.name());
        }
    }
}
