//! Figures of a drive, by which runs are compared: how much of the room the car covered, and how much of its
//! time it drove backwards or stood still. Not part of the simulation itself.

use super::world::Pose;

/// Side of a cell of the room, metres: about the length of the car.
const CELL_M: f64 = 0.25;
/// A slower car counts as standing still: a twenty-fifth of a PiCar-X's full speed, which is slower than its
/// motors can run steadily.
const STANDING_M_PER_S: f64 = 0.02;

/// Counts of one drive.
#[derive(Clone, Debug)]
pub(super) struct Course {
    /// For each cell of the room, row by row: whether the rear axle was over it.
    visited: Vec<bool>,
    columns: usize,
    rows: usize,
    cells: u64,
    steps: u64,
    backward: u64,
    standing: u64,
}

/// The figures of a drive so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Coverage {
    /// Cells of 0.25 m by 0.25 m that the rear axle was over.
    pub cells: u64,
    /// Share of the time in which the car drove backwards, 0..=1.
    pub backward_share: f64,
    /// Share of the time in which it stood still, 0..=1.
    pub standing_share: f64,
}

impl Course {
    /// A course in a room of `room` metres. Allocates all its memory here.
    pub fn new(room: [f64; 2]) -> Course {
        let [columns, rows] = room.map(|side| (side / CELL_M).ceil().max(1.0) as usize);
        let visited = vec![false; columns * rows];
        Course { visited, columns, rows, cells: 0, steps: 0, backward: 0, standing: 0 }
    }

    /// Records one step of the simulation that ends with the car at `pose` and at `speed` (negative:
    /// backwards).
    pub fn step(&mut self, pose: Pose, speed: f64) {
        self.steps += 1;
        self.standing += u64::from(speed.abs() < STANDING_M_PER_S);
        self.backward += u64::from(speed <= -STANDING_M_PER_S);
        // Points outside have no cell; a negative coordinate becomes 0, the room's edge.
        let (column, row) = ((pose.x / CELL_M) as usize, (pose.y / CELL_M) as usize);
        if column >= self.columns || row >= self.rows {
            return;
        }
        let cell = &mut self.visited[row * self.columns + column];
        self.cells += u64::from(!*cell);
        *cell = true;
    }

    /// The figures of the drive.
    pub fn coverage(&self) -> Coverage {
        let share = |count: u64| if self.steps == 0 { 0.0 } else { count as f64 / self.steps as f64 };
        Coverage {
            cells: self.cells,
            backward_share: share(self.backward),
            standing_share: share(self.standing),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(x: f64, y: f64) -> Pose {
        Pose { x, y, heading: 0.0 }
    }

    #[test]
    fn cells_count_once_and_only_inside_the_room() {
        let mut course = Course::new([1.0, 0.6]); // four columns, three rows
        assert_eq!(course.coverage(), Coverage::default());
        for (x, y) in [(0.1, 0.1), (0.2, 0.2), (0.3, 0.1), (0.1, 0.1), (0.99, 0.59), (1.0, 0.1), (0.1, 0.8)] {
            course.step(at(x, y), 0.3);
        }
        assert_eq!(course.coverage().cells, 3);
    }

    #[test]
    fn time_is_shared_among_forwards_backwards_and_standing() {
        let mut course = Course::new([1.0, 1.0]);
        for speed in [0.5, 0.02, 0.019, 0.0, -0.019, -0.02, -0.5, 0.1] {
            course.step(at(0.5, 0.5), speed);
        }
        let Coverage { backward_share, standing_share, cells } = course.coverage();
        assert_eq!((backward_share, standing_share, cells), (0.25, 0.375, 1));
    }
}
