//! Holographic memory from outside: its algebra, its capacity compared with published figures, the same bits
//! whatever computes them, files that are complete or refused, and no allocation where the API promises none.

mod algebra;
mod bench;
mod capacity;
mod gpu;
mod choice;
mod dispatch;
mod episodes;
mod identity;
mod kept;
mod map;
mod places;
mod records;
mod store;

use ganglion::memory::{Dim, Length, Store, Workspace, vector};

fn dim(d: usize) -> Dim {
    Dim::new(d).expect("a dimension")
}

/// Vectors `first..first + count` of a family, one after the other.
fn rows(seed: u64, first: u64, count: usize, d: usize) -> Vec<f32> {
    (0..count as u64).flat_map(|number| vector::random(seed, first + number, dim(d))).collect()
}

fn unitary_rows(seed: u64, count: usize, d: usize) -> Vec<f32> {
    (0..count as u64).flat_map(|number| vector::random_unitary(seed, number, dim(d))).collect()
}

/// A store for `capacity` vectors that holds `vectors`.
fn store_of(vectors: &[f32], d: usize, capacity: usize) -> Store {
    let mut store = Store::new(dim(d), capacity, usize::MAX).expect("a store");
    for (row, vector) in vectors.chunks_exact(d).enumerate() {
        assert_eq!(store.push(vector), Ok(row));
    }
    store
}

/// A record of role-filler pairs.
fn record(workspace: &mut Workspace, roles: &[f32], fillers: &[f32]) -> Vec<f32> {
    let (mut pairs, mut record) = (vec![0.0; roles.len()], vec![0.0; workspace.dim().get()]);
    workspace.bind(roles, fillers, Length::AsIs, &mut pairs).expect("shapes");
    workspace.superpose(&pairs, None, Length::AsIs, &mut record).expect("shapes");
    record
}

fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|x| x.to_bits()).collect()
}

fn largest_gap(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max)
}
