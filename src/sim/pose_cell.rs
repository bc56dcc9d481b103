//! Where the car and the moving discs are, for a reader that must not take the simulator's lock, such as a
//! thread that draws them: the lock represents the wires, and the bus threads would wait for the reader.

use super::world::{Pose, World};
use std::sync::atomic::{AtomicU64, Ordering};

/// How many moving discs have a place in the cell; the others are not drawn. Every access to the robot stores
/// all of them.
pub const DRAWN_MOVERS: usize = 64;

/// The newest positions. Their numbers may come from different accesses to the robot: good enough to draw.
#[derive(Debug)]
pub struct PoseCell {
    car: [AtomicU64; 3],
    movers: Box<[[AtomicU64; 2]]>,
}

impl PoseCell {
    /// A cell for the car and the first [`DRAWN_MOVERS`] moving discs of `world`.
    pub(super) fn of(world: &World) -> PoseCell {
        let count = world.movers().count().min(DRAWN_MOVERS);
        PoseCell { car: Default::default(), movers: (0..count).map(|_| Default::default()).collect() }
    }

    pub(super) fn store(&self, Pose { x, y, heading }: Pose, world: &World) {
        put(&self.car, [x, y, heading]);
        self.movers.iter().zip(world.movers()).for_each(|(cell, (disc, _))| put(cell, disc.at));
    }

    /// The newest pose of the car.
    pub fn load(&self) -> Pose {
        let [x, y, heading] = get(&self.car);
        Pose { x, y, heading }
    }

    /// The newest centres of the moving discs, in the order of the world.
    pub fn movers(&self) -> impl Iterator<Item = [f64; 2]> {
        self.movers.iter().map(get)
    }
}

fn put<const N: usize>(cells: &[AtomicU64; N], numbers: [f64; N]) {
    cells.iter().zip(numbers).for_each(|(cell, number)| cell.store(number.to_bits(), Ordering::Relaxed));
}

fn get<const N: usize>(cells: &[AtomicU64; N]) -> [f64; N] {
    std::array::from_fn(|place| f64::from_bits(cells[place].load(Ordering::Relaxed)))
}
