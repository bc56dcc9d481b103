//! The operations give the same bits at every batch size and SIMD level, and they do not allocate.

use super::{bits, dim, rows, store_of};
use crate::allocation::allocations_in;
use ganglion::memory::nearest::Best;
use ganglion::memory::{Length, Store, Workspace};
use ganglion::system::cpu::Level;

/// The bits of an operation in batches of `size` rows.
fn in_batches_of(size: usize, count: usize, d: usize, level: Level) -> Vec<u32> {
    let (a, b) = (rows(1, 0, count, d), rows(2, 0, count, d));
    let mut workspace = Workspace::at_level(dim(d), level);
    let mut out = vec![0.0; count * d];
    let mut all = Vec::new();
    for (length, unbind) in
        [(Length::AsIs, false), (Length::Unit, false), (Length::AsIs, true), (Length::Unit, true)]
    {
        for first in (0..count).step_by(size) {
            let part = first * d..(first + size).min(count) * d;
            let (a, b, out) = (&a[part.clone()], &b[part.clone()], &mut out[part]);
            let done =
                if unbind { workspace.unbind(a, b, length, out) } else { workspace.bind(a, b, length, out) };
            done.expect("shapes");
        }
        all.extend(bits(&out));
    }
    all
}

#[test]
fn batches_and_levels_give_the_same_bits() {
    for d in [64, 100, 128, 256, 512] {
        let count = 100;
        let expected = in_batches_of(count, count, d, Level::best());
        for level in Level::all() {
            for size in [1, 7, 100] {
                assert!(
                    in_batches_of(size, count, d, level) == expected,
                    "d {d}, {}, batches of {size}",
                    level.name()
                );
            }
        }
    }
    for d in [1024, 2048, 8192] {
        let expected = in_batches_of(3, 3, d, Level::best());
        let same = |level: Level| in_batches_of(1, 3, d, level) == expected;
        assert!(Level::all().into_iter().all(same), "d {d}");
    }
    let d = 512;
    assert!(in_batches_of(1, 1000, d, Level::best()) == in_batches_of(1000, 1000, d, Level::best()));
}

#[test]
fn one_shared_key_equals_a_copy_per_row() {
    let (d, count) = (256, 9);
    let (a, key) = (rows(1, 0, count, d), rows(2, 0, 1, d));
    let keys: Vec<f32> = key.iter().copied().cycle().take(count * d).collect();
    let mut workspace = Workspace::new(dim(d));
    let (mut shared, mut each) = (vec![0.0; count * d], vec![0.0; count * d]);
    workspace.unbind(&a, &key, Length::Unit, &mut shared).expect("shapes");
    workspace.unbind(&a, &keys, Length::Unit, &mut each).expect("shapes");
    assert_eq!(bits(&shared), bits(&each));
}

#[test]
fn sums_and_comparisons_are_the_same_bits_at_every_level() {
    for d in [64, 65, 100, 130, 512, 1000] {
        let (many, weights) = (rows(3, 0, 203, d), rows(4, 0, 4, 64)[..203].to_vec());
        let query = rows(5, 0, 2, d);
        let of = |level: Level| {
            let mut workspace = Workspace::at_level(dim(d), level);
            let (mut sum, mut plain, mut unit) = (vec![0.0; d], vec![0.0; d], many.clone());
            workspace.superpose(&many, Some(&weights), Length::Unit, &mut sum).expect("shapes");
            workspace.superpose(&many, None, Length::AsIs, &mut plain).expect("shapes");
            workspace.normalise(&mut unit).expect("shapes");
            let store = store_of(&many, d, 203).at_level(level);
            let (mut cosines, mut best) = (vec![0.0; 203], [Best::of(5), Best::of(5)]);
            store.cosines(&query[..d], &mut cosines).expect("shapes");
            store.nearest(&query, &mut best).expect("shapes");
            let found = best.iter().flat_map(Best::list).flat_map(|m| [m.row, m.cosine.to_bits()]);
            [bits(&sum), bits(&plain), bits(&unit), bits(&cosines), found.collect()].concat()
        };
        let expected = of(Level::best());
        Level::all().into_iter().for_each(|level| assert!(of(level) == expected, "d {d}, {}", level.name()));
        // Weights of 1 change no bit, and each sum is within 1e-5 of the exact one.
        let mut workspace = Workspace::new(dim(d));
        let (mut ones, mut none) = (vec![0.0; d], vec![0.0; d]);
        workspace.superpose(&many, Some(&[1.0; 203]), Length::AsIs, &mut ones).expect("shapes");
        workspace.superpose(&many, None, Length::AsIs, &mut none).expect("shapes");
        assert_eq!(bits(&ones), bits(&none));
        let exact: Vec<f64> = (0..d).map(|i| (0..203).map(|r| f64::from(many[r * d + i])).sum()).collect();
        let gap = none.iter().zip(&exact).map(|(x, y)| (f64::from(*x) - y).abs()).fold(0.0, f64::max);
        assert!(gap < 1e-5, "{gap}");
    }
}

#[test]
fn cpu_operations_do_not_allocate() {
    for d in [512, 300] {
        let (a, b) = (rows(1, 0, 20, d), rows(2, 0, 20, d));
        let mut workspace = Workspace::new(dim(d));
        let mut store = Store::new(dim(d), 20, usize::MAX).expect("a store");
        let (mut out, mut one, mut best) = (vec![0.0; 20 * d], vec![0.0; d], Best::of(3));
        let taken = allocations_in(|| {
            assert!(a.chunks_exact(d).all(|row| store.push(row).is_ok()));
            let done = [
                workspace.bind(&a, &b, Length::Unit, &mut out),
                workspace.unbind(&a, &b[..d], Length::AsIs, &mut out),
                workspace.superpose(&a, None, Length::Unit, &mut one),
                workspace.permute(&a, 3, &mut out),
                workspace.normalise(&mut out),
                store.nearest(&a[..d], std::slice::from_mut(&mut best)),
            ];
            assert!(done.iter().all(Result::is_ok));
        });
        assert_eq!(taken, 0, "d {d}");
        assert_eq!(best.first().map(|found| found.row), Some(0));
    }
}
