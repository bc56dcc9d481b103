//! Records are read back by role, and bound factors are found again.

use super::{dim, rows, store_of, unitary_rows};
use ganglion::memory::nearest::Best;
use ganglion::memory::resonator::Resonator;
use ganglion::memory::{Fault, Length, Store, Workspace, record};

#[test]
fn each_role_gives_its_filler_with_a_margin() {
    let d = 1024;
    let (roles, fillers) = (unitary_rows(1, 7, d), rows(2, 0, 7, d));
    let store = store_of(&rows(2, 0, 1000, d), d, 1000);
    let mut workspace = Workspace::new(dim(d));
    let (mut bound, mut written, mut filler) = (vec![0.0; d], vec![0.0; d], vec![0.0; d]);
    let mut best = Best::of(2);
    record::write(&mut workspace, &roles, &fillers, Length::Unit, &mut bound, &mut written).expect("shapes");
    for (number, role) in roles.chunks_exact(d).enumerate() {
        record::read(&mut workspace, &written, role, &store, &mut filler, &mut best).expect("shapes");
        assert_eq!(best.first().map(|found| found.row as usize), Some(number));
        // One of seven of equal length: a cosine of about 1/sqrt(7); chance among 1000 is about 3.2/sqrt(d).
        assert!(best.margin().is_some_and(|margin| margin > 0.15), "{best:?}");
        let cosine = best.list()[0].cosine;
        // Three standard deviations of 1/sqrt(d).
        assert!((cosine - 0.378).abs() < 0.1, "{cosine}");
    }
    let stranger = store_of(&rows(2, 0, 3, 512), 512, 3);
    let fault = record::read(&mut workspace, &written, &roles[..d], &stranger, &mut filler, &mut best);
    assert_eq!(fault, Err(Fault::OtherDimension { what: "the store", found: 512, wanted: 1024 }));
}

#[test]
fn three_factors_are_found_among_twenty_each() {
    let d = 1024;
    let stores: Vec<Store> = (0..3).map(|seed| store_of(&unitary_rows(seed, 20, d), d, 20)).collect();
    let stores: Vec<&Store> = stores.iter().collect();
    let mut workspace = Workspace::new(dim(d));
    let mut resonator = Resonator::new(dim(d), 20);
    let (mut both, mut product) = (vec![0.0; d], vec![0.0; d]);
    for trial in 0..10 {
        let rows = [trial, (7 * trial + 3) % 20, (11 * trial + 5) % 20];
        let row = |number: usize| stores[number].row(rows[number]).expect("a row");
        workspace.bind(row(0), row(1), Length::AsIs, &mut both).expect("shapes");
        workspace.bind(&both, row(2), Length::AsIs, &mut product).expect("shapes");
        let factors = resonator.factor(&mut workspace, &product, &stores, 200).expect("shapes");
        assert!(factors.settled, "{rows:?}: {factors:?}");
        assert_eq!(factors.rows.iter().map(|row| *row as usize).collect::<Vec<_>>(), rows);
        assert!(factors.cosine > 0.999, "{factors:?}");
    }
    // Something that is no product of theirs: it says so by the cosine, whatever it came to rest at.
    let nothing = rows(9, 0, 1, d);
    let factors = resonator.factor(&mut workspace, &nothing, &stores, 50).expect("shapes");
    assert!(factors.cosine < 0.3 && factors.rounds <= 50, "{factors:?}");
    let one = resonator.factor(&mut workspace, &product, &stores[..1], 5);
    assert_eq!(one, Err(Fault::Range { what: "stores", found: 1, least: 2, most: 8 }));
}
