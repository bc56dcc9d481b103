//! A wave that spreads from the goal over the cells of the place grid and goes around closed cells; its slope
//! shows the way (Glasius, Komoda and Gielen 1995). It is a diffusion with decay: without flux through the
//! edges of closed cells, and with the goal's cell held at a constant value.

use super::place_grid::{CELL, CELLS, Cell, PlaceGrid, SIDE, Window, cell_of, index};
use crate::system::cpu::simd::{Kernel, Level, Simd};

/// A step sets a cell to this share of the mean of its four neighbours. On a straight path, the wave then
/// falls to 0.6345 of its value with each cell.
const GAIN: f32 = 0.95;
/// How much the wave's logarithm falls with each cell: -ln x, where x = 0.6345 is the smaller root of
/// x^2 - (4 / GAIN - 2) x + 1 = 0.
const DECAY: f32 = 0.4549;
/// Value at the goal: 2^100. Only ratios are read; a large value leaves more of f32's range below it.
const AT_GOAL: f32 = 1.267_650_6e30;
/// Smaller values become 0, because the processor is slow with subnormal numbers. So the wave ends after 329
/// cells: 33 m.
const FLOOR: f32 = 1e-35;
/// Steps in each cycle.
const STEPS: usize = 8;
/// Steps in each of the first cycles after a new goal, so that the wave reaches the robot within them.
const FIRST_STEPS: usize = 64;
/// Number of such first cycles: in 20 the wave settles along paths of about 12 m around obstacles.
const FIRST_CYCLES: u32 = 20;

/// The wave.
#[derive(Clone, Debug)]
pub struct GoalWave {
    window: Window,
    wave: Vec<f32>,
    next: Vec<f32>,
    /// GAIN / 4 where a cell is open, else 0.
    open: Vec<f32>,
    /// How many of a cell's four neighbours are closed.
    walls: Vec<f32>,
    /// Cells held at a constant value: index and value.
    held: Vec<(usize, f32)>,
    goal: Option<[f64; 2]>,
    first_cycles: u32,
    goal_is_closed: bool,
    /// Instruction set of the inner loops. All levels round alike: no multiplication is fused with an
    /// addition.
    level: Level,
}

impl GoalWave {
    /// No wave yet.
    pub fn new() -> GoalWave {
        GoalWave {
            window: Window::around([0.0; 2]),
            wave: vec![0.0; CELLS],
            next: vec![0.0; CELLS],
            open: vec![0.0; CELLS],
            walls: vec![0.0; CELLS],
            held: Vec::with_capacity(4 * SIDE),
            goal: None,
            first_cycles: 0,
            goal_is_closed: false,
            level: Level::best(),
        }
    }

    /// Spreads for one cycle.
    pub fn spread(&mut self, grid: &PlaceGrid, goal: [f64; 2]) {
        if self.goal != Some(goal) {
            self.goal = Some(goal);
            self.first_cycles = FIRST_CYCLES;
        }
        let window = grid.window();
        window.entered(&self.window, |cell| self.wave[cell] = 0.0);
        self.window = window;
        self.level.run(Walls { closed: grid.closed(), open: &mut self.open, walls: &mut self.walls });
        self.hold(grid, goal);
        let steps = if self.first_cycles > 0 { FIRST_STEPS } else { STEPS };
        self.first_cycles = self.first_cycles.saturating_sub(1);
        for _ in 0..steps {
            let GoalWave { wave, next, open, walls, .. } = self;
            self.level.run(Step { wave, next, open, walls });
            std::mem::swap(&mut self.wave, &mut self.next);
            for (cell, value) in &self.held {
                self.wave[*cell] = *value;
            }
        }
    }

    /// The wave's value here; 0: it has not reached this cell, or the cell is closed or outside the window.
    pub fn at(&self, place: [f64; 2]) -> f32 {
        self.window.index(cell_of(place)).map_or(0.0, |cell| self.wave[cell])
    }

    /// Whether the goal is inside the window and too close to an obstacle.
    pub fn goal_is_closed(&self) -> bool {
        self.goal_is_closed
    }

    /// Decides which cells are held. If the goal is inside the window, only its cell is. Otherwise the open
    /// cells along the window's border are, each at the value that a straight path from the goal would give
    /// it, scaled so that the cell nearest to the goal has the goal's value. Holding only that nearest cell
    /// is not enough: it could lie in a dead end.
    fn hold(&mut self, grid: &PlaceGrid, goal: [f64; 2]) {
        self.held.clear();
        self.goal_is_closed = false;
        if let Some(cell) = self.window.index_of_inner(cell_of(goal)) {
            self.goal_is_closed = grid.closed()[cell];
            self.held.push((cell, AT_GOAL));
            return;
        }
        let goal = goal.map(|metres| metres / f64::from(CELL));
        let distance = |[x, y]: Cell| {
            let (x, y) = (x as f64 + 0.5 - goal[0], y as f64 + 0.5 - goal[1]);
            libm::sqrt(x * x + y * y) as f32
        };
        let mut nearest = f32::INFINITY;
        for side in 0..4 {
            for step in 1..SIDE as i64 - 1 {
                let cell = self.border(side, step);
                if !grid.closed()[index(cell)] {
                    let away = distance(cell);
                    nearest = nearest.min(away);
                    self.held.push((index(cell), away));
                }
            }
        }
        for (_, value) in &mut self.held {
            let value_there = AT_GOAL * libm::expf(-DECAY * (*value - nearest));
            *value = if value_there < FLOOR { 0.0 } else { value_there };
        }
    }

    /// A cell of the ring just inside the window's outermost cells, which are closed.
    fn border(&self, side: usize, step: i64) -> Cell {
        let [left, bottom] = self.window.corner;
        let far = SIDE as i64 - 2;
        match side {
            0 => [left + step, bottom + 1],
            1 => [left + step, bottom + far],
            2 => [left + 1, bottom + step],
            _ => [left + far, bottom + step],
        }
    }
}

/// Row `y` of the wrapped lattice.
#[inline(always)]
fn row<T>(cells: &[T], y: usize) -> &[T; SIDE] {
    &cells.as_chunks::<SIDE>().0[y % SIDE]
}

/// Computes `open` and `walls` from the closed cells.
struct Walls<'a> {
    closed: &'a [bool],
    open: &'a mut [f32],
    walls: &'a mut [f32],
}

impl Kernel for Walls<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let rows = self.open.as_chunks_mut::<SIDE>().0.iter_mut().zip(self.walls.as_chunks_mut::<SIDE>().0);
        for (y, (open, walls)) in rows.enumerate() {
            let (here, below, above) =
                (row(self.closed, y), row(self.closed, y + SIDE - 1), row(self.closed, y + 1));
            for (open, closed) in open.iter_mut().zip(here) {
                *open = if *closed { 0.0 } else { GAIN / 4.0 };
            }
            let mut count = |x: usize, before: usize, after: usize| {
                let closed = [below[x], above[x], here[before], here[after]];
                walls[x] = f32::from(closed.map(u8::from).iter().sum::<u8>());
            };
            for x in 1..SIDE - 1 {
                count(x, x - 1, x + 1);
            }
            count(0, SIDE - 1, 1);
            count(SIDE - 1, SIDE - 2, 0);
        }
    }
}

/// One step: each open cell gets GAIN / 4 times the sum over its neighbours, where a closed neighbour counts
/// as the cell itself. The window's border is closed, so that nothing crosses the seam of the wrapped
/// lattice.
struct Step<'a> {
    wave: &'a [f32],
    next: &'a mut [f32],
    open: &'a [f32],
    walls: &'a [f32],
}

impl Kernel for Step<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        for (y, next) in self.next.as_chunks_mut::<SIDE>().0.iter_mut().enumerate() {
            let (here, below, above) =
                (row(self.wave, y), row(self.wave, y + SIDE - 1), row(self.wave, y + 1));
            let (open, walls) = (row(self.open, y), row(self.walls, y));
            let mut spread = |x: usize, before: usize, after: usize| {
                let sum = below[x] + above[x] + here[before] + here[after] + walls[x] * here[x];
                let value = open[x] * sum;
                next[x] = if value < FLOOR { 0.0 } else { value };
            };
            for x in 1..SIDE - 1 {
                spread(x, x - 1, x + 1);
            }
            spread(0, SIDE - 1, 1);
            spread(SIDE - 1, SIDE - 2, 0);
        }
    }
}

impl Default for GoalWave {
    fn default() -> GoalWave {
        GoalWave::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::motion::OdometryPose;
    use crate::field::navigate::Beam;
    use crate::field::navigate::tests::CAR;

    fn grid_at(pose: OdometryPose) -> PlaceGrid {
        let mut grid = PlaceGrid::new(&CAR);
        grid.follow(pose);
        grid.close(None);
        grid
    }

    fn settled(grid: &PlaceGrid, goal: [f64; 2], cycles: usize) -> GoalWave {
        let mut wave = GoalWave::new();
        for _ in 0..cycles {
            wave.spread(grid, goal);
        }
        wave
    }

    #[test]
    fn the_wave_falls_as_the_maths_says() {
        let x = libm::exp(-f64::from(DECAY));
        assert!((x * x - (4.0 / f64::from(GAIN) - 2.0) * x + 1.0).abs() < 1e-4);
        // A row of obstacles on either side makes a corridor: in one dimension the decay per cell is exact.
        let mut grid = grid_at(OdometryPose::default());
        for step in -40..40 {
            let pose = OdometryPose { at: [f64::from(step) * 0.1 + 0.05, 0.05], heading: 0.0 };
            for bearing in [-1.570_796_4, 1.570_796_4] {
                let beam =
                    Beam { bearing, offset: [0.0; 2], half_cone: 0.0, range: Some(0.35), max_range: 4.0 };
                grid.see(pose, &beam);
            }
        }
        grid.close(None);
        let wave = settled(&grid, [3.05, 0.05], 100);
        let ratio = wave.at([-0.95, 0.05]) / wave.at([-0.85, 0.05]);
        assert!((ratio - 0.6345).abs() < 2e-3, "{ratio}");
        assert!(wave.at([0.05, 0.85]) < wave.at([0.05, 0.05]), "it goes around the corridor's walls");
        assert_eq!(wave.at([0.05, 0.35]), 0.0, "closed");
    }

    #[test]
    fn the_wave_has_the_same_bits_on_every_level() {
        let mut grid = grid_at(OdometryPose { at: [0.03, 0.07], heading: 0.3 });
        for bearing in [-1.0_f32, -0.2, 0.4, 1.3] {
            let range = Some(1.0 + bearing.abs());
            let beam = Beam { bearing, offset: [0.0; 2], half_cone: 0.2, range, max_range: 4.0 };
            (0..5).for_each(|_| _ = grid.see(OdometryPose::default(), &beam));
        }
        grid.close(None);
        let bits = |level: Level| {
            let mut wave = GoalWave { level, ..GoalWave::new() };
            (0..30).for_each(|_| wave.spread(&grid, [4.0, 1.0]));
            wave.wave.iter().map(|value| value.to_bits()).collect::<Vec<u32>>()
        };
        let levels = Level::all();
        let expected = bits(levels[0]);
        assert!(expected.iter().filter(|bits| **bits != 0).count() > CELLS / 2);
        for level in levels {
            assert!(bits(level) == expected, "{level:?}");
        }
    }

    #[test]
    fn a_wave_over_the_whole_window_stays_in_f32() {
        let grid = grid_at(OdometryPose::default());
        let wave = settled(&grid, [6.15, 6.15], 20);
        assert!(wave.wave.iter().all(|value| *value == 0.0 || (FLOOR..=AT_GOAL).contains(value)));
        assert!(wave.at([-6.15, -6.15]) > 0.0, "the far corner is reached in the first cycles");
        assert!(wave.at([-6.15, 6.15]) > wave.at([-6.15, -6.15]));
    }

    #[test]
    fn a_goal_outside_pulls_to_its_side_of_the_border() {
        let grid = grid_at(OdometryPose { at: [100.0, -50.0], heading: 0.0 });
        let wave = settled(&grid, [130.0, -49.0], 60);
        let at = |x: f64, y: f64| wave.at([100.0 + x, -50.0 + y]);
        assert!(at(0.5, 0.0) > at(0.05, 0.0) && at(0.05, 0.0) > at(-0.5, 0.0));
        assert!(at(6.15, 0.0) > at(6.15, 4.0) && at(6.15, 0.0) > at(0.0, 6.15));
        assert!(!wave.goal_is_closed());
    }

    #[test]
    fn a_jump_of_the_window_leaves_no_old_wave() {
        let mut grid = grid_at(OdometryPose::default());
        let mut wave = settled(&grid, [3.0, 0.0], 20);
        grid.follow(OdometryPose { at: [40.0, 0.0], heading: 0.0 });
        grid.close(None);
        wave.spread(&grid, [45.0, 0.0]);
        assert_eq!(wave.at([36.0, 0.0]), 0.0, "90 cells from the goal, after 64 steps");
        assert!(wave.at([42.0, 0.0]) > 0.0);
    }
}
