//! A store answers exactly, refuses rows when it is full, and is restored from its file completely or not at
//! all.

use super::{bits, dim, rows, store_of};
use crate::folder::Folder;
use ganglion::memory::nearest::Best;
use ganglion::memory::{Fault, Store};
use ganglion::system::codec::{CodecError, FileError};
use std::fs;

fn filled(d: usize, count: usize, capacity: usize) -> Store {
    store_of(&rows(1, 0, count, d), d, capacity)
}

#[test]
fn search_matches_an_exact_search() {
    for d in [64, 100, 512] {
        let store = filled(d, 300, 300);
        let queries = rows(2, 0, 3, d);
        let mut best = [Best::of(7), Best::of(7), Best::of(7)];
        store.nearest(&queries, &mut best).expect("shapes");
        for (query, best) in queries.chunks_exact(d).zip(&best) {
            let product = |a: &[f32], b: &[f32]| {
                a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>()
            };
            let cosine =
                |row: &[f32]| product(row, query) / (product(row, row) * product(query, query)).sqrt();
            let mut exact: Vec<(usize, f64)> = store.rows().chunks_exact(d).map(cosine).enumerate().collect();
            exact.sort_by(|a, b| b.1.total_cmp(&a.1));
            for (found, (row, cosine)) in best.list().iter().zip(&exact) {
                assert_eq!(found.row as usize, *row);
                assert!((f64::from(found.cosine) - cosine).abs() < 1e-6);
            }
            assert_eq!(best.list().len(), 7);
        }
    }
}

#[test]
fn rows_are_replaced_and_removed() {
    let d = 64;
    let mut store = filled(d, 4, 5);
    let other = rows(9, 0, 1, d);
    store.replace(1, &other).expect("a row");
    store.swap_remove(0).expect("a row");
    assert_eq!(store.len(), 3);
    let mut best = [Best::of(1)];
    for (query, row) in [(&other[..], 1), (&rows(1, 3, 1, d), 0), (&rows(1, 2, 1, d), 2)] {
        store.nearest(query, &mut best).expect("shapes");
        assert_eq!(best[0].first().map(|found| found.row), Some(row));
        assert!(best[0].first().is_some_and(|found| found.cosine > 0.999_99));
    }
    assert_eq!(store.swap_remove(3), Err(Fault::NoRow { row: 3, rows: 3 }));
    store.clear();
    store.nearest(&other, &mut best).expect("shapes");
    assert!(store.is_empty() && best[0].first().is_none());
}

#[test]
fn limits_are_reported_and_a_refused_vector_leaves_no_trace() {
    let d = 64;
    assert_eq!(Store::new(dim(d), 10, 2599).expect_err("short"), Fault::Limit { wanted: 2600, limit: 2599 });
    assert!(matches!(Store::new(dim(d), 0, 1 << 20), Err(Fault::Range { what: "capacity", .. })));
    assert!(matches!(Store::new(dim(8192), usize::MAX, usize::MAX), Err(Fault::Range { .. })));
    let mut store = filled(d, 2, 2);
    assert_eq!(store.usage().bytes, 2 * 65 * 4);
    assert_eq!(store.push(&rows(1, 0, 1, d)), Err(Fault::Full { capacity: 2 }));
    let before = bits(store.rows());
    let mut bad = rows(1, 7, 1, d);
    bad[5] = f32::INFINITY;
    assert_eq!(store.replace(0, &bad), Err(Fault::NotFinite { what: "vector", at: 5 }));
    assert_eq!(store.replace(0, &[0.0; 64]), Err(Fault::NoLength { what: "vector", row: 0 }));
    assert_eq!(store.replace(0, &[1e30; 64]), Err(Fault::NoLength { what: "vector", row: 0 }));
    assert!(matches!(store.replace(0, &[1.0; 65]), Err(Fault::Shape { found: 65, .. })));
    assert_eq!(bits(store.rows()), before);
}

#[test]
fn a_store_survives_saving_and_loading() {
    let folder = Folder::new("memory-round");
    let path = folder.join("words");
    for (d, count) in [(64, 0), (100, 3), (512, 20)] {
        let store = filled(d, count, 20);
        store.save(&path).expect("written");
        let again = Store::load(&path, 1 << 20).expect("whole");
        assert_eq!(bits(again.rows()), bits(store.rows()));
        assert_eq!(again.usage(), store.usage());
    }
    let fault = Store::load(&path, 1000).expect_err("a thousand bytes").to_string();
    assert!(fault.contains("allowed: 1000"), "{fault}");
}

#[test]
fn bad_store_files_are_refused_and_the_old_store_stays() {
    let folder = Folder::new("memory-tamper");
    let path = folder.join("words");
    let store = filled(64, 2, 3);
    store.save(&path).expect("written");
    let whole = fs::read(&path).expect("there");
    let refused = |bytes: &[u8]| {
        let other = folder.join("other");
        fs::write(&other, bytes).expect("written");
        match Store::load(&other, 1 << 20) {
            Err(FileError::Codec { error, .. }) => error,
            other => panic!("{other:?}"),
        }
    };
    for at in 0..whole.len() {
        let mut broken = whole.clone();
        broken[at] ^= 1 << (at % 8);
        let error = refused(&broken);
        assert!(at < 24 || matches!(error, CodecError::Damaged { .. }), "byte {at}: {error}");
    }
    for length in (0..whole.len()).step_by(13) {
        assert!(matches!(refused(&whole[..length]), CodecError::Truncated { .. }), "{length} bytes");
    }
    let mut newer = whole.clone();
    newer[12] = 2;
    assert!(matches!(refused(&newer), CodecError::OtherVersion { found: 2, .. }));
    // An undamaged container whose payload is not a store: a row with a NaN, with a valid digest.
    let mut wrong = whole[..whole.len() - 32].to_vec();
    let last = wrong.len() - 4;
    wrong[last..].copy_from_slice(&f32::NAN.to_le_bytes());
    let digest = blake3::hash(&wrong);
    wrong.extend_from_slice(digest.as_bytes());
    assert!(matches!(refused(&wrong), CodecError::Content { .. }));
    // A failed save changes no existing file.
    assert!(store.save(&folder.join("none/words")).is_err());
    assert_eq!(fs::read(&path).expect("there"), whole);
}

#[test]
fn search_matches_a_full_sort_of_cosines() {
    for (d, count) in [(64, 700), (100, 500), (512, 400)] {
        // Clusters, equal rows, rows of any length, one of almost zero length.
        let centres = rows(21, 0, 20, d);
        let mut many = rows(22, 0, count, d);
        for (row, numbers) in many.chunks_exact_mut(d).enumerate() {
            let centre = &centres[row % 20 * d..][..d];
            let (near, size) = ([0.0, 0.9, 0.9999, 1.0][row % 4], [1.0, 1e-3, 1e6][row % 3]);
            numbers.iter_mut().zip(centre).for_each(|(x, c)| *x = size * (near * c + (1.0 - near) * *x));
        }
        many[7 * d..8 * d].iter_mut().for_each(|x| *x *= 1e-14);
        let store = store_of(&many, d, count);
        let queries = [&rows(23, 0, 3, d), &centres[..5 * d], &many[7 * d..8 * d]].concat();
        for (asked, wanted) in [(1, 1), (3, 5), (9, 20), (9, 64)] {
            let mut best = vec![Best::of(wanted); asked];
            store.nearest(&queries[..asked * d], &mut best).expect("shapes");
            for (query, best) in queries.chunks_exact(d).zip(&best) {
                let mut cosines = vec![0.0; count];
                store.cosines(query, &mut cosines).expect("shapes");
                let mut order: Vec<usize> = (0..count).collect();
                order.sort_by(|a, b| cosines[*b].total_cmp(&cosines[*a]).then(a.cmp(b)));
                let expected: Vec<(u32, u32)> =
                    order[..wanted].iter().map(|row| (*row as u32, cosines[*row].to_bits())).collect();
                let found: Vec<(u32, u32)> =
                    best.list().iter().map(|m| (m.row, m.cosine.to_bits())).collect();
                assert_eq!(found, expected, "d {d}, {asked} queries, {wanted} wanted");
            }
        }
    }
}
