//! Decision fields behave as in the literature and reproduce its numbers: Amari (1977); Schoner, Spencer and
//! the DFT Research Group (2016), *Dynamic Thinking*; parameters of COSIVINA 1.4. The expected numbers come
//! from our own f64 solver. In f32 a value may differ by 1e-2, and a peak in more than one dimension by one
//! site on each face.

use crate::long::or_in_full;
use ganglion::field::decision_field::{Axis, DecisionField, Interaction, Peak, Preset, Settings};

const RING: Axis = Axis { sites: 100, circular: true };
/// Width of the inputs on the ring, in sites.
const WIDTH: f32 = 5.0;

fn ring(preset: Preset) -> DecisionField {
    DecisionField::new(Settings::preset(preset, &[RING])).expect("a preset is valid")
}

/// A sum of bumps of `width`, each with its place and strength.
fn bumps(axes: &[Axis], width: f32, bumps: &[([f32; 3], f32)]) -> Vec<f32> {
    let sites: usize = axes.iter().map(|axis| axis.sites).product();
    (0..sites)
        .map(|site| {
            let mut sum = 0.0;
            for (at, strength) in bumps {
                let (mut rest, mut square) = (site, 0.0);
                for (axis, at) in axes.iter().zip(at) {
                    let mut away = ((rest % axis.sites) as f32 - at).abs();
                    if axis.circular {
                        away = away.min(axis.sites as f32 - away);
                    }
                    square += away * away;
                    rest /= axis.sites;
                }
                sum += strength * (-0.5 * square / width / width).exp();
            }
            sum
        })
        .collect()
}

fn on_ring(inputs: &[(f32, f32)]) -> Vec<f32> {
    let inputs: Vec<_> = inputs.iter().map(|(at, strength)| ([*at, 0.0, 0.0], *strength)).collect();
    bumps(&[RING], WIDTH, &inputs)
}

fn run(field: &mut DecisionField, input: &[f32], steps: usize) -> Vec<Peak> {
    for _ in 0..steps {
        field.step(input);
    }
    field.peaks().to_vec()
}

/// Checks that the peaks are at these places, with these numbers of sites and these maxima.
fn assert_peaks(found: &[Peak], expected: &[(f32, usize, f32)]) {
    let fits = found.len() == expected.len()
        && found.iter().zip(expected).all(|(peak, (at, sites, max))| {
            (peak.at[0] - at).abs() < 0.1 && peak.sites == *sites && (peak.max - max).abs() < 1e-2
        });
    assert!(fits, "{found:?} instead of {expected:?}");
}

#[test]
fn each_preset_reacts_to_one_input_with_known_numbers() {
    let one = on_ring(&[(50.0, 6.0)]);
    let none = on_ring(&[]);
    for (preset, on, off) in [
        (Preset::Stabilised, (50.0, 13, 7.863), &[][..]),
        (Preset::Selection, (50.0, 7, 3.843), &[][..]),
        (Preset::Memory, (50.0, 15, 11.966), &[(50.0, 9, 4.575)][..]),
    ] {
        let mut field = ring(preset);
        assert_peaks(&run(&mut field, &one, 500), &[on]);
        assert_peaks(&run(&mut field, &none, 500), off);
    }
}

#[test]
fn only_selection_chooses_between_two_inputs() {
    let two = on_ring(&[(25.0, 6.0), (75.0, 6.2)]);
    assert_peaks(&run(&mut ring(Preset::Selection), &two, 500), &[(75.0, 9, 4.076)]);
    for (preset, maxima) in [(Preset::Stabilised, [7.863, 8.069]), (Preset::Memory, [11.966, 12.165])] {
        let peaks = run(&mut ring(preset), &two, 500);
        assert_eq!(peaks.len(), 2);
        for (peak, (at, max)) in peaks.iter().zip([25.0, 75.0].into_iter().zip(maxima)) {
            assert!((peak.at[0] - at).abs() < 0.1 && (peak.max - max).abs() < 1e-2, "{preset:?}: {peak:?}");
        }
    }
}

/// The strength at which a rising input makes a peak, and the strength at which a falling one loses it. The
/// strength changes by 0.05 every 200 steps. A field is slow near a threshold: with 500 steps for each
/// strength, some thresholds differ by 0.05.
fn thresholds(preset: Preset) -> (f32, Option<f32>) {
    let mut field = ring(preset);
    let mut has_peak = |strength: u32| {
        let input = on_ring(&[(50.0, strength as f32 * 0.05)]);
        !run(&mut field, &input, 200).is_empty()
    };
    let detects = (60..140).find(|strength| has_peak(*strength)).expect("a strong input makes a peak");
    let releases = (0..detects).rev().find(|strength| !has_peak(*strength));
    (detects as f32 * 0.05, releases.map(|strength| strength as f32 * 0.05))
}

#[test]
fn detection_and_release_differ() {
    for (preset, detects, releases) in [
        (Preset::Stabilised, 4.25, Some(1.90)),
        (Preset::Selection, 4.45, Some(3.90)),
        (Preset::Memory, 4.15, None),
    ] {
        let found = thresholds(preset);
        let near = |found: f32, expected: f32| (found - expected).abs() < 0.01;
        let fits = near(found.0, detects)
            && match (found.1, releases) {
                (Some(found), Some(expected)) => near(found, expected),
                (found, expected) => found.is_none() && expected.is_none(),
            };
        assert!(fits, "{preset:?}: {found:?} instead of {detects}, {releases:?}");
    }
}

#[test]
fn a_decision_stays_when_a_stronger_input_comes() {
    let mut field = ring(Preset::Selection);
    assert_peaks(&run(&mut field, &on_ring(&[(25.0, 6.0)]), 200), &[(25.0, 7, 3.843)]);
    let both = on_ring(&[(25.0, 6.0), (75.0, 7.0)]);
    assert_peaks(&run(&mut field, &both, 500), &[(25.0, 7, 3.843)]);
    let unbiased = run(&mut ring(Preset::Selection), &both, 500);
    assert_eq!(unbiased.iter().map(|peak| peak.at[0].round()).collect::<Vec<_>>(), [75.0]);
}

#[test]
fn equal_inputs_with_noise_make_one_decision() {
    let seeds = 200;
    let input = on_ring(&[(25.0, 6.0), (75.0, 6.0)]);
    let mut left = 0;
    for seed in 0..seeds {
        let settings = Settings { noise: 1.0, seed, ..Settings::preset(Preset::Selection, &[RING]) };
        let mut field = DecisionField::new(settings).expect("a preset is valid");
        let peaks = run(&mut field, &input, 500);
        // Noise may cut the flank of a peak, but there must be no peak at the other place.
        let places: Vec<f32> = peaks.iter().map(|peak| peak.at[0]).collect();
        let of_left = places.iter().filter(|at| (**at - 25.0).abs() < 10.0).count();
        let of_right = places.iter().filter(|at| (**at - 75.0).abs() < 10.0).count();
        assert_eq!((of_left + of_right, of_left.min(of_right)), (1, 0), "seed {seed}: {peaks:?}");
        left += of_left as u64;
    }
    // 3.9 standard deviations of a fair coin's count; for 200 seeds that is 73 to 127.
    let spread = 3.9 * (seeds as f64 / 4.0).sqrt();
    assert!((left as f64 - seeds as f64 / 2.0).abs() <= spread, "{left} of {seeds} to the left");
}

#[test]
fn one_input_has_two_states_by_its_past() {
    let interaction = Interaction {
        excitation: 15.0,
        excitation_width: 5.0,
        inhibition: 15.0,
        inhibition_width: 12.5,
        global: 0.0,
    };
    let settings = Settings { interaction, ..Settings::preset(Preset::Stabilised, &[RING]) };
    let mut field = DecisionField::new(settings).expect("valid");
    assert_peaks(&run(&mut field, &on_ring(&[(25.0, 6.0)]), 500), &[(25.0, 13, 7.117)]);
    assert_peaks(&run(&mut field, &on_ring(&[(25.0, 3.0)]), 500), &[(25.0, 9, 3.239)]);
    assert_peaks(&run(&mut field, &on_ring(&[(25.0, 3.0), (75.0, 3.0)]), 500), &[(25.0, 9, 3.239)]);
    let fresh = field.activation()[75];
    assert!((fresh + 2.002).abs() < 0.02, "{fresh}");
}

/// Amari's exact widths: w = 2 exp(-x^2 / 2) - exp(-x^2 / 8), output 0 or 1, and W(a) = -h for the width a,
/// where W is the integral of w from 0 to a. On a grid of sites, a bump that grows or shrinks stops a little
/// short of that width, because only whole sites can join or leave it; so the mean of the two is compared.
#[test]
fn bumps_have_the_widths_that_amari_proved() {
    const STEP: f32 = 0.05; // distance between two sites
    let sum = 2.0 * (2.0 * std::f32::consts::PI).sqrt(); // integral of either Gaussian
    let axes = [Axis { sites: 500, circular: true }];
    let interaction = Interaction {
        excitation: sum,
        excitation_width: 1.0 / STEP,
        inhibition: sum,
        inhibition_width: 2.0 / STEP,
        global: 0.0,
    };
    for (resting, width) in [(-0.1, 4.109), (-0.2, 3.498), (-0.3, 3.096), (-0.4, 2.776)] {
        let widths = [0.5, 1.5].map(|start| {
            let base = Settings::preset(Preset::Memory, &axes);
            let settings = Settings { interaction, resting, steepness: 1e6, ..base };
            let mut field = DecisionField::new(settings).expect("valid");
            run(&mut field, &bumps(&axes, start / STEP, &[([250.0, 0.0, 0.0], 4.0)]), 40);
            let peaks = run(&mut field, &[0.0; 500], 700);
            assert_eq!(peaks.len(), 1, "h {resting}: {peaks:?}");
            peaks[0].sites as f32 * STEP
        });
        let [narrow, wide] = widths;
        assert!(narrow <= wide, "h {resting}: {widths:?}");
        let found = (narrow + wide) / 2.0;
        assert!((found / width - 1.0).abs() < 0.03, "h {resting}: {widths:?} instead of {width}");
    }
}

fn cube(sites: usize) -> [Axis; 3] {
    [Axis { sites, circular: false }; 3]
}

/// Checks that there is one peak, of about `sites` sites. It may differ by the sites of one face: about the
/// square of the diameter of a round peak.
fn assert_large(peaks: &[Peak], sites: usize, max: f32) {
    assert_eq!(peaks.len(), 1, "{peaks:?}");
    let face = (sites as f32).powf(2.0 / 3.0);
    let fits = (peaks[0].sites as f32 - sites as f32).abs() <= face && (peaks[0].max - max).abs() < 1e-2;
    assert!(fits, "{peaks:?} instead of {sites} sites, {max}");
}

#[test]
fn three_dimensions_have_the_same_regimes() {
    let axes = cube(32);
    let one = bumps(&axes, 2.5, &[([16.0; 3], 6.5)]);
    let none = vec![0.0; one.len()];
    let field = |preset| DecisionField::new(Settings::preset(preset, &axes)).expect("a preset is valid");
    let mut stabilised = field(Preset::Stabilised);
    assert_large(&run(&mut stabilised, &one, 300), 461, 14.773);
    assert_eq!(run(&mut stabilised, &none, 300), []);
    let mut selection = field(Preset::Selection);
    assert_large(&run(&mut selection, &one, 300), 57, 3.920);
    assert_eq!(run(&mut selection, &none, 300), []);
    let two = bumps(&axes, 2.5, &[([8.0, 16.0, 16.0], 6.0), ([24.0, 16.0, 16.0], 6.3)]);
    let chosen = run(&mut field(Preset::Selection), &two, 300);
    assert_eq!(chosen.len(), 1, "{chosen:?}");
    assert!((chosen[0].at[0] - 24.0).abs() < 0.5 && (chosen[0].max - 3.516).abs() < 1e-2, "{chosen:?}");
    let mut memory = field(Preset::Memory);
    assert_large(&run(&mut memory, &one, 200), 751, 19.491);
    let kept = run(&mut memory, &none, or_in_full(200, 500));
    assert_large(&kept, 739, 13.069);
    assert!(kept[0].at.iter().all(|at| (at - 16.0).abs() < 0.05), "{kept:?}");
}

#[test]
fn two_dimensions_have_the_same_regimes() {
    let axes = [Axis { sites: 50, circular: true }, Axis { sites: 40, circular: false }];
    let field = |preset| DecisionField::new(Settings::preset(preset, &axes)).expect("a preset is valid");
    let two = bumps(&axes, 2.5, &[([0.0, 20.0, 0.0], 6.0), ([25.0, 20.0, 0.0], 6.3)]);
    let none = vec![0.0; two.len()];
    for (preset, on, off) in [(Preset::Stabilised, 2, 0), (Preset::Selection, 1, 0), (Preset::Memory, 2, 2)] {
        let mut field = field(preset);
        let peaks = run(&mut field, &two, 500);
        assert_eq!(peaks.len(), on, "{preset:?}: {peaks:?}");
        let last =
            peaks.iter().any(|peak| (peak.at[0] - 25.0).abs() < 0.5 && (peak.at[1] - 20.0).abs() < 0.5);
        assert!(last, "{preset:?}: there is a peak at the stronger input: {peaks:?}");
        let (before, after) = (peaks, run(&mut field, &none, 1000));
        assert_eq!(after.len(), off, "{preset:?}: {after:?}");
        assert!(
            after.iter().all(|peak| peak.sites <= before[0].sites),
            "{preset:?}: no peak grows: {after:?}"
        );
    }
}

#[test]
fn the_same_seed_gives_the_same_bits() {
    let noisy = |seed| {
        let settings = Settings { noise: 1.0, seed, ..Settings::preset(Preset::Memory, &[RING]) };
        let mut field = DecisionField::new(settings).expect("a preset is valid");
        run(&mut field, &on_ring(&[(30.0, 6.0)]), 100);
        field.activation().iter().map(|u| u.to_bits()).collect::<Vec<_>>()
    };
    assert_eq!(noisy(1), noisy(1));
    assert_ne!(noisy(1), noisy(2));
}
