//! The car's pose for a reader that must not take the simulator's lock, such as a thread that draws the car:
//! the lock represents the wires, and the bus threads would wait for the reader.

use super::world::Pose;
use std::sync::atomic::{AtomicU64, Ordering};

/// The newest pose. Its three numbers may come from different accesses to the robot: good enough to draw.
#[derive(Debug, Default)]
pub struct PoseCell([AtomicU64; 3]);

impl PoseCell {
    pub(super) fn store(&self, Pose { x, y, heading }: Pose) {
        let numbers = self.0.iter().zip([x, y, heading]);
        numbers.for_each(|(cell, number)| cell.store(number.to_bits(), Ordering::Relaxed));
    }

    /// The newest pose.
    pub fn load(&self) -> Pose {
        let [x, y, heading] = [0, 1, 2].map(|place| f64::from_bits(self.0[place].load(Ordering::Relaxed)));
        Pose { x, y, heading }
    }
}
