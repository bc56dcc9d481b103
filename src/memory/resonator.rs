//! Which one of each of several stores was bound into a vector: a resonator network (Frady, Kent, Olshausen,
//! Sommer 2020). Each estimate is what is left when the other estimates are unbound, drawn towards its own
//! store; the rounds go on until no estimate's best match changes. The search may end without an answer.

use super::dim::Dim;
use super::fault::Fault;
use super::nearest::Best;
use super::ops::{Length, Workspace};
use super::store::Store;

/// Most factors.
pub const MOST_FACTORS: usize = 8;

/// Rounds without a change after which it has settled: a chance standstill of one round is common early on.
const STEADY: usize = 3;

/// Estimates and what is needed to better them.
#[derive(Clone, Debug)]
pub struct Resonator {
    dim: Dim,
    estimates: Vec<f32>,
    rest: Vec<f32>,
    other: Vec<f32>,
    pulls: Vec<f32>,
}

/// How a search ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Factors {
    /// The row of each store.
    pub rows: heapless::Vec<u32, MOST_FACTORS>,
    /// Cosine of those rows, bound together, with what was given: near 1 if they are the answer.
    pub cosine: f32,
    /// Rounds so far.
    pub rounds: usize,
    /// Whether it came to rest.
    pub settled: bool,
}

impl Resonator {
    /// Room for stores of at most `rows` rows.
    pub fn new(dim: Dim, rows: usize) -> Resonator {
        let d = dim.get();
        let row = || vec![0.0; d];
        Resonator {
            dim,
            estimates: vec![0.0; MOST_FACTORS * d],
            rest: row(),
            other: row(),
            pulls: vec![0.0; rows],
        }
    }

    /// Factors `product` into one row of each store, in at most `most_rounds` rounds. The stores' rows should
    /// be unitary: only then does unbinding leave the others as they were.
    pub fn factor(
        &mut self,
        workspace: &mut Workspace,
        product: &[f32],
        stores: &[&Store],
        most_rounds: usize,
    ) -> Result<Factors, Fault> {
        self.check(workspace, product, stores)?;
        let d = self.dim.get();
        for (estimate, store) in self.estimates.chunks_exact_mut(d).zip(stores) {
            workspace.superpose(store.rows(), None, Length::Unit, estimate)?;
        }
        let mut factors = Factors { rows: heapless::Vec::new(), cosine: 0.0, rounds: 0, settled: false };
        factors.rows.resize(stores.len(), u32::MAX).unwrap_or_default(); // at most MOST_FACTORS: checked
        let mut steady = 0;
        while factors.rounds < most_rounds && !factors.settled {
            let mut changed = false;
            for (number, store) in stores.iter().enumerate() {
                let row = self.better(workspace, product, number, stores.len(), store)?;
                changed |= factors.rows[number] != row;
                factors.rows[number] = row;
            }
            steady = if changed { 0 } else { steady + 1 };
            factors.rounds += 1;
            factors.settled = steady == STEADY;
        }
        factors.cosine = self.again(workspace, product, stores, &factors.rows)?;
        Ok(factors)
    }

    fn check(&self, workspace: &Workspace, product: &[f32], stores: &[&Store]) -> Result<(), Fault> {
        let wanted = self.dim.get();
        let all =
            stores.iter().map(|store| ("a store", store.dim())).chain([("the workspace", workspace.dim())]);
        for (what, dim) in all {
            if dim.get() != wanted {
                return Err(Fault::OtherDimension { what, found: dim.get(), wanted });
            }
        }
        workspace.fits("product", product.len(), 1)?;
        if !(2..=MOST_FACTORS).contains(&stores.len()) {
            return Err(Fault::Range { what: "stores", found: stores.len(), least: 2, most: MOST_FACTORS });
        }
        for store in stores {
            if !(1..=self.pulls.len()).contains(&store.len()) {
                return Err(Fault::Range {
                    what: "rows of a store",
                    found: store.len(),
                    least: 1,
                    most: self.pulls.len(),
                });
            }
        }
        Ok(())
    }

    /// Betters estimate `number`; returns the row that it is nearest to.
    fn better(
        &mut self,
        workspace: &mut Workspace,
        product: &[f32],
        number: usize,
        factors: usize,
        store: &Store,
    ) -> Result<u32, Fault> {
        let d = self.dim.get();
        self.rest.copy_from_slice(product);
        for other in (0..factors).filter(|other| *other != number) {
            workspace.unbind(&self.rest, &self.estimates[other * d..][..d], Length::Unit, &mut self.other)?;
            std::mem::swap(&mut self.rest, &mut self.other);
        }
        let mut best = Best::of(1);
        store.nearest(&self.rest, std::slice::from_mut(&mut best))?;
        let pulls = &mut self.pulls[..store.len()];
        store.cosines(&self.rest, pulls)?;
        let estimate = &mut self.estimates[number * d..][..d];
        workspace.superpose(store.rows(), Some(pulls), Length::Unit, estimate)?;
        Ok(best.first().map_or(0, |found| found.row))
    }

    /// The cosine of the rows' product with what was given.
    fn again(
        &mut self,
        workspace: &mut Workspace,
        product: &[f32],
        stores: &[&Store],
        rows: &[u32],
    ) -> Result<f32, Fault> {
        self.rest.fill(0.0);
        self.rest[0] = 1.0;
        for (store, row) in stores.iter().zip(rows) {
            let Some(row) = store.row(*row as usize) else { return Ok(0.0) };
            workspace.bind(&self.rest, row, Length::AsIs, &mut self.other)?;
            std::mem::swap(&mut self.rest, &mut self.other);
        }
        workspace.cosine(&self.rest, product)
    }
}
