//! Records of role-filler pairs: bound and superposed in batches, read back by role.

use super::{dim, record, rows, store_of, unitary_rows};
use ganglion::memory::nearest::Best;
use ganglion::memory::{Length, Workspace};

#[test]
fn each_role_gives_its_filler_with_a_margin() {
    let d = 1024;
    let (roles, fillers) = (unitary_rows(1, 7, d), rows(2, 0, 7, d));
    let store = store_of(&rows(2, 0, 1000, d), d, 1000);
    let mut workspace = Workspace::new(dim(d));
    let (mut filler, mut best) = (vec![0.0; d], [Best::of(2)]);
    let written = record(&mut workspace, &roles, &fillers);
    for (number, role) in roles.chunks_exact(d).enumerate() {
        workspace.unbind(&written, role, Length::Unit, &mut filler).expect("shapes");
        store.nearest(&filler, &mut best).expect("shapes");
        let best = &best[0];
        assert_eq!(best.first().map(|found| found.row as usize), Some(number));
        // The filler is one of seven terms of equal length, so its cosine is about 1/sqrt(7); the best of
        // 1000 unrelated rows reaches about 3.2/sqrt(d).
        assert!(best.margin().is_some_and(|margin| margin > 0.15), "{best:?}");
        let cosine = best.list()[0].cosine;
        // The tolerance is about three standard deviations, of 1/sqrt(d) each.
        assert!((cosine - 0.378).abs() < 0.1, "{cosine}");
    }
}
