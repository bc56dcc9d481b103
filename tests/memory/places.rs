//! Pointers to places: binding adds positions, cosines fall as the closed form predicts, and places are found
//! again.

use super::{dim, rows};
use ganglion::memory::spatial::{Area, Decoder, Plane, Waves};
use ganglion::memory::{Fault, Length, Workspace};

const AREA: Area = Area { from: [-3.0, -2.0], to: [3.0, 2.0] };

fn pointer(plane: &Plane, at: [f64; 2]) -> Vec<f32> {
    let mut row = vec![0.0; plane.dim().get()];
    plane.pointer(at, &mut row).expect("a place");
    row
}

fn apart(a: [f64; 2], b: [f64; 2]) -> f64 {
    (a[0] - b[0]).hypot(a[1] - b[1])
}

#[test]
fn binding_pointers_adds_their_positions() {
    for waves in [Waves::Random, Waves::Hexagonal] {
        for d in [512, 501] {
            let plane = Plane::new(dim(d), waves, 0.5, 3).expect("a plane");
            let mut workspace = Workspace::new(dim(d));
            let mut sum = vec![0.0; d];
            let (a, b) = (pointer(&plane, [1.0, -0.5]), pointer(&plane, [-0.25, 2.0]));
            workspace.bind(&a, &b, Length::AsIs, &mut sum).expect("shapes");
            assert!(workspace.cosine(&sum, &pointer(&plane, [0.75, 1.5])).expect("shapes") > 0.99999);
            workspace.unbind(&a, &b, Length::AsIs, &mut sum).expect("shapes");
            assert!(workspace.cosine(&sum, &pointer(&plane, [1.25, -2.5])).expect("shapes") > 0.99999);
        }
    }
}

#[test]
fn random_waves_have_a_sinc_and_hexagonal_ones_are_isotropic() {
    let sinc = |x: f64| {
        if x.abs() < 1e-9 { 1.0 } else { (std::f64::consts::PI * x).sin() / (std::f64::consts::PI * x) }
    };
    let d = 4096;
    let workspace = Workspace::new(dim(d));
    let plane = Plane::new(dim(d), Waves::Random, 1.0, 1).expect("a plane");
    let origin = pointer(&plane, [0.0; 2]);
    // 1.6/sqrt(d) is the mean of the largest deviation over such a range; three times that serves as a bound.
    for step in 0..=40 {
        let x = f64::from(step) / 10.0;
        for at in [[x, 0.0], [0.0, x], [x, x]] {
            let cosine = f64::from(workspace.cosine(&origin, &pointer(&plane, at)).expect("shapes"));
            assert!((cosine - sinc(at[0]) * sinc(at[1])).abs() < 3.0 * 1.6 / 64.0, "{at:?}: {cosine}");
        }
    }
    let plane = Plane::new(dim(512), Waves::Hexagonal, 1.0, 1).expect("a plane");
    let workspace = Workspace::new(dim(512));
    let origin = pointer(&plane, [0.0; 2]);
    let round = |radius: f64| -> Vec<f32> {
        let at = |turn: usize| [radius * (turn as f64 / 3.0).cos(), radius * (turn as f64 / 3.0).sin()];
        (0..19).map(|turn| workspace.cosine(&origin, &pointer(&plane, at(turn))).expect("shapes")).collect()
    };
    // 2 J1(pi r) / (pi r) at r = 0.5 is 0.72, at 1 it is 0.18.
    assert!(round(0.5).iter().all(|cosine| (cosine - 0.72).abs() < 0.02), "{:?}", round(0.5));
    assert!(round(1.0).iter().all(|cosine| (cosine - 0.18).abs() < 0.03), "{:?}", round(1.0));
}

#[test]
fn places_are_found_again_within_a_hundredth_of_the_scale() {
    for waves in [Waves::Random, Waves::Hexagonal] {
        let plane = Plane::new(dim(512), waves, 0.5, 7).expect("a plane");
        let decoder = Decoder::new(plane.clone(), AREA, 16 << 20).expect("a decoder");
        for number in 0..20 {
            let share = |n: usize| {
                ganglion::base::seed::uniform(1, ganglion::base::seed::Stream::World, (2 * number + n) as u64)
            };
            let at = [-3.0 + 6.0 * share(0), -2.0 + 4.0 * share(1)];
            let found = decoder.decode(&pointer(&plane, at)).expect("a place");
            assert!(apart(found.at, at) < 0.005 && found.likeness > 0.999, "{waves:?} {at:?}: {found:?}");
        }
    }
}

#[test]
fn a_place_is_found_under_noise_and_absence_is_reported() {
    let plane = Plane::new(dim(1024), Waves::Hexagonal, 0.5, 7).expect("a plane");
    let decoder = Decoder::new(plane.clone(), AREA, 16 << 20).expect("a decoder");
    let noisy: Vec<f32> =
        pointer(&plane, [1.1, -0.7]).iter().zip(rows(3, 0, 1, 1024)).map(|(x, noise)| x + noise).collect();
    let found = decoder.decode(&noisy).expect("a place");
    assert!(apart(found.at, [1.1, -0.7]) < 0.1, "{found:?}");
    assert!((found.likeness - 0.707).abs() < 0.08, "{found:?}");
    assert!(matches!(decoder.decode(&[0.0; 1024]), Err(Fault::NoLength { .. })));
    assert!(matches!(
        Plane::new(dim(64), Waves::Random, 0.0, 1),
        Err(Fault::NotFinite { what: "scale", .. })
    ));
    let small = Decoder::new(plane, AREA, 1000).expect_err("a thousand bytes");
    assert!(matches!(small, Fault::Limit { limit: 1000, .. }), "{small}");
}
