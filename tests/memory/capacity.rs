//! The capacity of one vector, compared with published figures (Schlegel, Neubert and Protzel 2022,
//! holographic reduced representations, means of ten runs) and with the closed form of Frady, Kleyko and
//! Sommer 2018.

use super::{dim, record, rows, store_of, unitary_rows};
use crate::long::or_in_full;
use ganglion::base::seed::{Stream, bits};
use ganglion::memory::nearest::Best;
use ganglion::memory::{Length, Store, Workspace};

/// Vectors in the memory that is searched.
const ITEMS: usize = 1000;

/// `count` different rows of the memory, a pure function of the seed.
fn draw(seed: u64, count: usize) -> Vec<usize> {
    let mut all: Vec<usize> = (0..ITEMS).collect();
    for place in 0..count {
        let other = place + (bits(seed, Stream::Stimulus, place as u64) % (ITEMS - place) as u64) as usize;
        all.swap(place, other);
    }
    all.truncate(count);
    all
}

fn gather(store: &Store, which: &[usize]) -> Vec<f32> {
    which.iter().flat_map(|row| store.row(*row).expect("a row").to_vec()).collect()
}

/// Mean share of k superposed vectors that are among the k rows nearest to their sum.
fn bundle(store: &Store, k: usize, runs: u64) -> f64 {
    let d = store.dim().get();
    let mut workspace = Workspace::new(dim(d));
    let (mut sum, mut best) = (vec![0.0; d], [Best::of(k)]);
    let mut found = 0;
    for run in 0..runs {
        let which = draw(run * 1000 + k as u64, k);
        workspace.superpose(&gather(store, &which), None, Length::AsIs, &mut sum).expect("shapes");
        store.nearest(&sum, &mut best).expect("shapes");
        found += best[0].list().iter().filter(|found| which.contains(&(found.row as usize))).count();
    }
    found as f64 / (runs as usize * k) as f64
}

/// Mean share of k role-filler pairs whose filler is recovered by its role.
fn pairs(store: &Store, roles: &[f32], k: usize, runs: u64) -> f64 {
    let d = store.dim().get();
    let mut workspace = Workspace::new(dim(d));
    let (mut filler, mut best) = (vec![0.0; d], [Best::of(1)]);
    let mut found = 0;
    for run in 0..runs {
        let which = draw(run * 1000 + k as u64, k);
        let offset = (run as usize * k) % (roles.len() / d - k + 1);
        let roles = &roles[offset * d..][..k * d];
        let fillers = gather(store, &which);
        let written = record(&mut workspace, roles, &fillers);
        for (role, wanted) in roles.chunks_exact(d).zip(&which) {
            workspace.unbind(&written, role, Length::Unit, &mut filler).expect("shapes");
            store.nearest(&filler, &mut best).expect("shapes");
            found += usize::from(best[0].first().is_some_and(|found| found.row as usize == *wanted));
        }
    }
    found as f64 / (runs as usize * k) as f64
}

#[test]
fn capacity_matches_the_published_figures() {
    // Dimension d, superposed vectors k, and the published mean shares of recovered vectors and of recovered
    // pairs. Each published value is a mean of ten runs, with an error of 0.02 in the middle of the curve.
    const PUBLISHED: [(usize, usize, f64, f64); 11] = [
        (256, 7, 1.000, 1.000),
        (256, 15, 0.887, 0.747),
        (256, 25, 0.728, 0.484),
        (256, 35, 0.677, 0.283),
        (484, 15, 0.987, 0.993),
        (484, 25, 0.940, 0.836),
        (484, 35, 0.866, 0.634),
        (484, 51, 0.775, 0.443),
        (1024, 25, 1.000, 1.000),
        (1024, 35, 0.983, 0.974),
        (1024, 51, 0.963, 0.892),
    ];
    let runs = 40;
    for &d in or_in_full(&[256][..], &[256, 484, 1024]) {
        let store = store_of(&rows(21, 0, ITEMS, d), d, ITEMS);
        let roles = rows(22, 0, ITEMS, d);
        for (_, k, vectors_published, pairs_published) in PUBLISHED.iter().filter(|row| row.0 == d) {
            let (vectors, pairs) = (bundle(&store, *k, runs), pairs(&store, &roles, *k, runs));
            assert!((vectors - vectors_published).abs() < 0.05, "d {d}, {k} vectors: {vectors}");
            assert!((pairs - pairs_published).abs() < 0.05, "d {d}, {k} pairs: {pairs}");
        }
    }
}

#[test]
fn unitary_role_capacity_matches_the_closed_form() {
    // p = integral of phi(h - s) Phi(h)^(M - 1) dh with s = sqrt(d / k), by Simpson's rule from h = -8 to
    // h = s + 8.
    let expected = |d: usize, k: usize| {
        let s = (d as f64 / k as f64).sqrt();
        let term = |h: f64| {
            let density = (-(h - s).powi(2) / 2.0).exp() / std::f64::consts::TAU.sqrt();
            let below = 0.5 * libm::erfc(-h / std::f64::consts::SQRT_2);
            density * below.powi(ITEMS as i32 - 1)
        };
        let (n, width) = (2000, 16.0 + s);
        let at = |i: usize| term(-8.0 + width * i as f64 / n as f64);
        let inner: f64 = (1..n).map(|i| if i % 2 == 1 { 4.0 * at(i) } else { 2.0 * at(i) }).sum();
        (at(0) + inner + at(n)) * width / (3 * n) as f64
    };
    let d = 512;
    // The formula itself, compared with known values.
    for (k, known) in [(10, 0.9998), (15, 0.9924), (25, 0.8870), (35, 0.7104)] {
        assert!((expected(d, k) - known).abs() < 2e-4, "{k}: {}", expected(d, k));
    }
    let (store, roles) = (store_of(&rows(31, 0, ITEMS, d), d, ITEMS), unitary_rows(32, ITEMS, d));
    for k in [10, 15, 25, 35] {
        let found = pairs(&store, &roles, k, 40);
        assert!((found - expected(d, k)).abs() < 0.03, "{k} pairs: {found}, expected {}", expected(d, k));
    }
}

#[test]
fn each_round_with_a_random_key_halves_the_squared_cosine() {
    // Unbinding by the involution of a random key: the cosine is 1/sqrt(2) after one round, 1/2 after two.
    let d = 4096;
    let mut workspace = Workspace::new(dim(d));
    let (keys, mut row, mut next) = (rows(41, 0, 3, d), rows(42, 0, 1, d), vec![0.0; d]);
    let first = row.clone();
    for (key, expected) in keys.chunks_exact(d).zip([0.708, 0.504, 0.366]) {
        workspace.bind(&row, key, Length::AsIs, &mut next).expect("shapes");
        workspace.unbind(&next, key, Length::AsIs, &mut row).expect("shapes");
        let cosine = workspace.cosine(&row, &first).expect("shapes");
        assert!((cosine - expected).abs() < 0.05, "{cosine}, expected {expected}");
    }
}
