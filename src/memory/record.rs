//! Records: role-filler pairs in one vector, read back by role, cleaned up against a store.

use super::fault::Fault;
use super::nearest::Best;
use super::ops::{Length, Workspace};
use super::store::Store;

/// Lays pairs over each other: `out` is the sum of each row of `roles` bound to its row of `fillers`, the
/// pairs added in order. `bound` is room for a row.
pub fn write(
    workspace: &mut Workspace,
    roles: &[f32],
    fillers: &[f32],
    length: Length,
    bound: &mut [f32],
    out: &mut [f32],
) -> Result<(), Fault> {
    let (d, pairs) = (workspace.dim().get(), workspace.whole_rows("roles", roles)?);
    workspace.fits("fillers", fillers.len(), pairs)?;
    workspace.fits("bound", bound.len(), 1)?;
    workspace.fits("out", out.len(), 1)?;
    out.fill(0.0);
    for (role, filler) in roles.chunks_exact(d).zip(fillers.chunks_exact(d)) {
        workspace.bind(role, filler, Length::AsIs, bound)?;
        workspace.add(bound, 1.0, out)?;
    }
    if length == Length::Unit {
        workspace.normalise(out)?;
    }
    Ok(())
}

/// What `record` holds under `role`: the best matches of the unbound filler in `store`. `filler` is room for
/// a row and afterwards holds what was compared, of length 1.
pub fn read(
    workspace: &mut Workspace,
    record: &[f32],
    role: &[f32],
    store: &Store,
    filler: &mut [f32],
    best: &mut Best,
) -> Result<(), Fault> {
    let (found, wanted) = (store.dim().get(), workspace.dim().get());
    if found != wanted {
        return Err(Fault::OtherDimension { what: "the store", found, wanted });
    }
    workspace.fits("record", record.len(), 1)?;
    workspace.fits("role", role.len(), 1)?;
    workspace.unbind(record, role, Length::Unit, filler)?;
    store.nearest(filler, std::slice::from_mut(best))
}
