//! A lattice of square cells around the robot that records where obstacles were detected and which ground was
//! seen to be free. It scrolls with the robot: a cell keeps its place in memory, and only the cells that
//! enter the window are cleared.

use super::{Beam, Body};
use crate::decision::motion::OdometryPose;

/// Width of a cell, metres: about the track width of a small robot, and about the error of a sonar.
pub const CELL: f32 = 0.1;
/// Cells along each side of the window, a power of two. The window is 12.8 m wide: it extends 6.4 m to each
/// side of the robot, farther than its sensors reach.
pub const SIDE: usize = 128;
/// The bits of a cell's coordinate that give its place in memory.
const MASK: i64 = SIDE as i64 - 1;
/// Cells in the window.
pub const CELLS: usize = SIDE * SIDE;
/// Memory above this counts as an obstacle: one hit of a thin ray, or three in the middle of a wide beam.
const MET: f32 = 0.5;
/// An obstacle is assumed to extend this far beyond the part that was detected, in cells, except over ground
/// that was seen to be free: a sensor that looks ahead detects only the near side of an obstacle, and the
/// robot then passes the side that it has not seen.
const UNSEEN_SIDE: f32 = 1.5;
/// Ground within this distance of the robot's reference point counts as visited, in cells: about the width of
/// a small car.
const VISITED_WITHIN: f32 = 1.5;
/// What a hit of a thin ray adds, as a share of the difference between the memory and 1.
const RAY_HIT: f32 = 0.6;
/// What a hit adds in the middle of a cone; half of it at the edges, which are less likely to have caused the
/// echo.
const CONE_HIT: f32 = 0.25;
/// Share of a cell's memory that remains after a thin ray has passed through it.
const RAY_CLEAR: f32 = 0.7;
/// Share of a cell's memory that remains after each ray of a cone.
const CONE_CLEAR: f32 = 0.95;
/// Largest angle between neighbouring rays of a cone, radians: 3 degrees are two cells at 4 m.
const RAY_ANGLE: f32 = 0.0524;
/// Maximum number of rays of a cone: enough for 60 degrees.
const MOST_RAYS: usize = 21;
/// Distance between two samples on a ray, in cells.
const SAMPLE: f32 = 0.5;
/// A ray clears cells up to this far before its end, in cells: the end itself may be in the next cell.
const SPARED: f32 = 0.7;
/// Memory fades to 1/e over this distance travelled, metres. With odometry that errs by 5 %, the position of
/// an obstacle that has half faded is off by 1.4 m; by then, it has been detected again or is gone.
const FADES_OVER: f64 = 40.0;

/// Distance between two samples of a path that the robot might take, metres.
const WAY_SAMPLE: f32 = CELL / 2.0;

/// A cell of the unbounded lattice.
pub type Cell = [i64; 2];

/// The cell of a position.
pub fn cell_of(at: [f64; 2]) -> Cell {
    at.map(|metres| libm::floor(metres / f64::from(CELL)) as i64)
}

/// The part of the lattice that is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Its cell with the smallest coordinates.
    pub corner: Cell,
}

impl Window {
    /// The window around this position.
    pub fn around(at: [f64; 2]) -> Window {
        Window { corner: cell_of(at).map(|cell| cell.saturating_sub(SIDE as i64 / 2)) }
    }

    /// Where this cell is in memory; `None`: the cell is outside the window.
    pub fn index(&self, cell: Cell) -> Option<usize> {
        self.index_inside(cell, 0)
    }

    /// Like [`Window::index`], but also `None` on the border: the window's outermost cells are a wall for the
    /// wave.
    pub fn index_of_inner(&self, cell: Cell) -> Option<usize> {
        self.index_inside(cell, 1)
    }

    fn index_inside(&self, [x, y]: Cell, margin: i64) -> Option<usize> {
        let inside = |cell: i64, corner: i64| {
            let from_corner = cell.wrapping_sub(corner);
            (margin..SIDE as i64 - margin).contains(&from_corner)
        };
        (inside(x, self.corner[0]) && inside(y, self.corner[1])).then(|| index([x, y]))
    }

    /// The cell of the window that is at this place in memory.
    fn cell(&self, index: usize) -> Cell {
        let [left, bottom] = self.corner;
        let (x, y) = ((index % SIDE) as i64, (index / SIDE) as i64);
        [left + (x.wrapping_sub(left) & MASK), bottom + (y.wrapping_sub(bottom) & MASK)]
    }

    /// Calls `enter` with the place in memory of each cell that is in this window and was not in `last`.
    pub fn entered(&self, last: &Window, mut enter: impl FnMut(usize)) {
        for axis in 0..2 {
            let moved = self.corner[axis].saturating_sub(last.corner[axis]);
            let lines = moved.unsigned_abs().min(SIDE as u64) as i64;
            let first = if moved > 0 { self.corner[axis] + SIDE as i64 - lines } else { self.corner[axis] };
            for line in first..first + lines {
                for other in 0..SIDE as i64 {
                    enter(index(if axis == 0 { [line, other] } else { [other, line] }));
                }
            }
        }
    }
}

/// Where a cell is in memory: the lattice is wrapped around, so that no cell moves when the window does.
pub fn index([x, y]: Cell) -> usize {
    (y & MASK) as usize * SIDE + (x & MASK) as usize
}

/// The cells within this distance, in cells, of a cell at the origin.
fn cells_within(distance: f32) -> Vec<Cell> {
    let most = libm::floorf(distance) as i64;
    let line = -most..=most;
    let square = line.clone().flat_map(|y| line.clone().map(move |x| [x, y]));
    square.filter(|[x, y]| ((x * x + y * y) as f32) <= distance * distance + 1e-4).collect()
}

/// The memory of places.
#[derive(Clone, Debug)]
pub struct PlaceGrid {
    window: Window,
    /// For each cell, 0: no obstacle was detected there, 1: there is certainly one.
    met: Vec<f32>,
    /// For each cell, 1: just seen to be free, or driven over; fades.
    seen: Vec<f32>,
    /// For each cell, 1: the robot has just driven over it or past it; fades.
    visited: Vec<f32>,
    /// Cells in which the middle of the body must not be.
    closed: Vec<bool>,
    /// The cells around an obstacle that are closed because of it, relative to its cell.
    reach: Vec<Cell>,
    /// The cells around a hit that may belong to the same obstacle, relative to its cell.
    unseen_side: Vec<Cell>,
    /// The cells that count as visited when the robot is in a cell, relative to this cell.
    visit: Vec<Cell>,
    /// Whether each cell counts as part of an obstacle; computed with `closed`.
    solid: Vec<bool>,
    half_width: f32,
    last: Option<OdometryPose>,
    /// Distance travelled since memory last faded, metres.
    way: f64,
}

impl PlaceGrid {
    /// Nothing remembered.
    pub fn new(body: &Body) -> PlaceGrid {
        let mut grid = PlaceGrid {
            window: Window::around([0.0; 2]),
            met: vec![0.0; CELLS],
            seen: vec![0.0; CELLS],
            visited: vec![0.0; CELLS],
            closed: vec![false; CELLS],
            reach: cells_within(body.keeps_clear() / CELL),
            unseen_side: cells_within(UNSEEN_SIDE),
            visit: cells_within(VISITED_WITHIN),
            solid: vec![false; CELLS],
            half_width: body.half_width,
            last: None,
            way: 0.0,
        };
        grid.close(None);
        grid
    }

    /// The part of the lattice that is in memory.
    pub fn window(&self) -> Window {
        self.window
    }

    /// For each cell in memory, whether the middle of the body must not be there.
    pub fn closed(&self) -> &[bool] {
        &self.closed
    }

    /// Forgets all obstacles, but not which ground was seen to be free.
    pub fn forget(&mut self) {
        self.met.fill(0.0);
    }

    /// Forgets the obstacles at more than `metres` from `at`, but not which ground was seen to be free.
    pub fn forget_beyond(&mut self, at: [f64; 2], metres: f32) {
        for (cell, met) in self.met.iter_mut().enumerate() {
            let centre = self.window.cell(cell).map(|line| (line as f64 + 0.5) * f64::from(CELL));
            if libm::hypot(centre[0] - at[0], centre[1] - at[1]) > f64::from(metres) {
                *met = 0.0;
            }
        }
    }

    /// Moves the robot here: the window follows, memory fades with the distance, and the ground under the
    /// robot counts as seen to be free.
    pub fn follow(&mut self, pose: OdometryPose) {
        if let Some(last) = self.last {
            let [ahead, left] = last.sees(pose.at);
            // Turning counts as the distance that the wheels roll: it makes dead reckoning drift as well.
            let turn = f64::from(self.half_width) * (pose.heading - last.heading).abs();
            self.way += libm::sqrt(ahead * ahead + left * left) + turn;
        }
        self.last = Some(pose);
        let window = Window::around(pose.at);
        let PlaceGrid { met, seen, visited, .. } = self;
        window.entered(&self.window, |cell| {
            met[cell] = 0.0;
            seen[cell] = 0.0;
            visited[cell] = 0.0;
        });
        self.window = window;
        if self.way >= f64::from(CELL) {
            let left = libm::exp(-self.way / FADES_OVER) as f32;
            for value in self.met.iter_mut().chain(&mut self.seen).chain(&mut self.visited) {
                *value *= left;
            }
            self.way = 0.0;
            let [x, y] = cell_of(pose.at);
            for away in &self.visit {
                if let Some(cell) = self.window.index([x + away[0], y + away[1]]) {
                    self.visited[cell] = 1.0;
                }
            }
        }
        let side = f64::from(self.half_width);
        for (ahead, left) in [(0.0, 0.0), (0.0, side), (0.0, -side)] {
            if let Some(cell) = self.window.index(cell_of(pose.place(ahead, left))) {
                self.seen[cell] = 1.0;
            }
        }
    }

    /// Takes in one sensor's reading. Returns whether it was used: it must be fresh and above 0.
    pub fn see(&mut self, pose: OdometryPose, beam: &Beam) -> bool {
        let Some(range) = beam.range.filter(|range| *range > 0.0) else { return false };
        let rays = 1 + 2 * (libm::ceilf(beam.half_cone / RAY_ANGLE - 1e-3).max(0.0) as usize);
        let rays = rays.min(MOST_RAYS);
        let from = pose.place(f64::from(beam.offset[0]), f64::from(beam.offset[1]));
        let bearing = pose.heading + f64::from(beam.bearing);
        for ray in 0..rays {
            let off_axis = if rays == 1 { 0.0 } else { 2.0 * ray as f32 / (rays - 1) as f32 - 1.0 };
            let angle = bearing + f64::from(off_axis * beam.half_cone);
            let (hit, clear) = match rays {
                1 => (RAY_HIT, RAY_CLEAR),
                _ => (CONE_HIT / (1.0 + off_axis.abs()), CONE_CLEAR),
            };
            let hit = (range < beam.max_range).then_some(hit);
            self.trace(
                from,
                [libm::cos(angle) as f32, libm::sin(angle) as f32],
                range.min(beam.max_range),
                hit,
                clear,
            );
        }
        true
    }

    /// Clears the cells along one ray and, with a `hit`, remembers an obstacle at the ray's end.
    fn trace(&mut self, from: [f64; 2], direction: [f32; 2], range: f32, hit: Option<f32>, clear: f32) {
        // In cells from the window's corner, so that f32 is exact enough far away from the origin.
        let place =
            [0, 1].map(|axis| (from[axis] / f64::from(CELL) - self.window.corner[axis] as f64) as f32);
        let corner = self.window.corner.map(|cell| (cell & (SIDE as i64 - 1)) as usize);
        let at = |way: f32| [0, 1].map(|axis| place[axis] + way * direction[axis]);
        let is_inside = |way: f32| at(way).iter().all(|cell| *cell >= 0.0 && *cell < SIDE as f32);
        let cell_at = |way: f32| {
            let [x, y] = at(way);
            let line = |cell: f32, corner: usize| (cell as usize + corner) & (SIDE - 1);
            line(y, corner[1]) * SIDE + line(x, corner[0])
        };
        let range = range / CELL;
        let samples = libm::ceilf((range - SPARED).max(0.0) / SAMPLE) as usize;
        // The window is convex: a ray whose ends are inside stays inside.
        let is_contained = is_inside(0.0) && is_inside(samples as f32 * SAMPLE);
        let leaves = |sample: &usize| !is_inside(*sample as f32 * SAMPLE);
        let samples = if is_contained { samples } else { (0..samples).find(leaves).unwrap_or(samples) };
        let mut last = None;
        for sample in 0..samples {
            let cell = cell_at(sample as f32 * SAMPLE);
            if last.replace(cell) != Some(cell) {
                self.met[cell] *= clear;
                self.seen[cell] = 1.0;
            }
        }
        if let Some(hit) = hit.filter(|_| is_inside(range)) {
            let cell = cell_at(range);
            self.met[cell] += hit * (1.0 - self.met[cell]);
        }
    }

    /// Computes which cells are closed: those near a detected or assumed obstacle, and the window's border.
    /// The middle of the body can certainly be where it is now, at `here`: that cell is opened, and so are
    /// the cells around it, except where an obstacle was detected.
    pub fn close(&mut self, here: Option<[f64; 2]>) {
        self.closed.fill(false);
        let side = SIDE as i64;
        let [left, bottom] = self.window.corner;
        let (right, top) = (left + side - 1, bottom + side - 1);
        for step in 0..side {
            let (x, y) = (left + step, bottom + step);
            for edge in [[x, bottom], [x, top], [left, y], [right, y]] {
                self.closed[index(edge)] = true;
            }
        }
        self.find_solid();
        for (cell, _) in self.solid.iter().enumerate().filter(|(_, is_solid)| **is_solid) {
            let [x, y] = self.window.cell(cell);
            for away in &self.reach {
                if let Some(cell) = self.window.index([x + away[0], y + away[1]]) {
                    self.closed[cell] = true;
                }
            }
        }
        let Some(here) = here else { return };
        let [x, y] = cell_of(here);
        self.closed[index([x, y])] = false;
        for away in &self.reach {
            if let Some(cell) = self.window.index_of_inner([x + away[0], y + away[1]])
                && self.met[cell] <= MET
            {
                self.closed[cell] = false;
            }
        }
    }

    /// Computes which cells count as part of an obstacle: those where one was detected, and the unseen cells
    /// beside them.
    fn find_solid(&mut self) {
        self.solid.fill(false);
        for (cell, _) in self.met.iter().enumerate().filter(|(_, met)| **met > MET) {
            let [x, y] = self.window.cell(cell);
            self.solid[cell] = true;
            for away in &self.unseen_side {
                if let Some(beside) = self.window.index([x + away[0], y + away[1]])
                    && self.seen[beside] <= MET
                {
                    self.solid[beside] = true;
                }
            }
        }
    }

    /// Whether the middle of the body can be here, according to what is remembered.
    pub fn is_open(&self, at: [f64; 2]) -> bool {
        self.window.index(cell_of(at)).is_some_and(|cell| !self.closed[cell])
    }

    /// How recently the robot has driven over this ground or past it: 1 just now, 1/e after 40 m, 0
    /// never.
    pub fn visited(&self, at: [f64; 2]) -> f32 {
        self.window.index(cell_of(at)).map_or(0.0, |cell| self.visited[cell])
    }

    /// Whether this ground was seen to be free or driven over, and no obstacle is remembered near it.
    pub fn is_known_free(&self, at: [f64; 2]) -> bool {
        self.window.index(cell_of(at)).is_some_and(|cell| !self.closed[cell] && self.seen[cell] > MET)
    }

    /// How far the middle of the body could go from `from` in this direction (a unit vector), looking from
    /// `start` to `end` metres. With `known`, only over ground that is known to be free.
    pub fn free_way(&self, from: [f64; 2], direction: [f64; 2], [start, end]: [f32; 2], known: bool) -> f32 {
        let samples = libm::floorf((end - start) / WAY_SAMPLE + 0.5) as usize;
        for sample in 0..=samples {
            let way = start + sample as f32 * WAY_SAMPLE;
            let at = [0, 1].map(|axis| from[axis] + f64::from(way) * direction[axis]);
            let is_free = if known { self.is_known_free(at) } else { self.is_open(at) };
            if !is_free {
                return way;
            }
        }
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::navigate::tests::CAR;

    fn beam(range: f32) -> Beam {
        Beam { bearing: 0.0, offset: [0.0; 2], half_cone: 0.0, range: Some(range), max_range: 4.0 }
    }

    fn at(x: f64) -> OdometryPose {
        OdometryPose { at: [x, 0.05], heading: 0.0 }
    }

    #[test]
    fn a_hit_closes_cells_and_a_longer_reading_opens_them() {
        let mut grid = PlaceGrid::new(&CAR);
        grid.follow(at(0.05));
        assert!(grid.see(at(0.05), &beam(1.0)));
        grid.close(None);
        assert!(!grid.is_open([1.05, 0.05]) && !grid.is_open([0.95, 0.15]));
        // The unseen cells beside the ray's end may belong to the obstacle.
        assert!(!grid.is_open([0.85, 0.05]) && grid.is_open([0.75, 0.05]));
        assert!(
            grid.is_known_free([0.55, 0.05]) && !grid.is_known_free([0.55, 0.35]),
            "unseen beside the ray"
        );
        assert!(grid.is_open([0.55, 0.35]), "what was not seen is open");
        assert!(grid.see(at(0.05), &beam(4.0)));
        grid.close(None);
        assert!(grid.is_open([1.05, 0.05]), "nothing within range");
        assert!(!grid.see(at(0.05), &Beam { range: None, ..beam(1.0) }));
        assert!(!grid.see(at(0.05), &Beam { range: Some(f32::NAN), ..beam(1.0) }));
    }

    #[test]
    fn ground_beside_a_thing_is_open_once_it_was_seen_free() {
        let mut grid = PlaceGrid::new(&CAR);
        grid.follow(at(0.05));
        grid.see(at(0.05), &beam(1.0));
        grid.close(None);
        assert!(!grid.is_open([1.05, 0.25]), "near the unseen cell beside the obstacle");
        for side in [-0.1, 0.1] {
            let pose = OdometryPose { at: [0.05, 0.05 + side], heading: 0.0 };
            grid.see(pose, &beam(4.0));
        }
        grid.close(None);
        assert!(grid.is_open([1.05, 0.25]) && !grid.is_open([1.05, 0.15]), "near the obstacle only");
    }

    #[test]
    fn a_cone_needs_three_hits() {
        let mut grid = PlaceGrid::new(&CAR);
        grid.follow(at(0.05));
        let wide = Beam { half_cone: 0.1, ..beam(3.0) };
        let open = [0, 1, 2].map(|_| {
            grid.see(at(0.05), &wide);
            grid.close(None);
            grid.is_open([3.05, 0.05])
        });
        assert_eq!(open, [true, true, false]);
    }

    #[test]
    fn obstacles_nearby_are_kept_when_the_others_are_forgotten() {
        let mut grid = PlaceGrid::new(&CAR);
        grid.follow(at(-20.0));
        let places = [-20.45, -19.55, -20.65, -19.35].map(|x| [x, 0.05]);
        places.iter().for_each(|place| grid.met[index(cell_of(*place))] = 1.0);
        grid.forget_beyond([-20.0, 0.05], 0.5);
        assert_eq!(places.map(|place| grid.met[index(cell_of(place))]), [1.0, 1.0, 0.0, 0.0]);
    }

    #[test]
    fn places_stay_while_the_window_scrolls_and_then_go() {
        let mut grid = PlaceGrid::new(&CAR);
        grid.follow(at(0.05));
        grid.met[index(cell_of([1.05, 0.05]))] = 0.56;
        let mut lost = None;
        for step in 0..200 {
            let x = 0.05 + f64::from(step) * 0.1;
            grid.follow(at(x));
            grid.close(None);
            if grid.is_open([1.05, 0.05]) && grid.window().index(cell_of([1.05, 0.05])).is_some() {
                lost = lost.or(Some(x));
            }
        }
        let lost = lost.expect("it has faded within the window");
        assert!((lost - 0.05 - 40.0 * 1.12_f64.ln()).abs() < 0.3, "after {lost} m");
        assert!(!grid.is_open([1.05, 0.05]), "no cell outside the window is open");
        // The storage of that cell is reused for the cell 12.8 m farther on, which is empty.
        assert!(grid.is_open([13.85, 0.05]) && grid.window().index(cell_of([13.85, 0.05])).is_some());
    }

    #[test]
    fn ground_counts_as_visited_until_that_fades() {
        let mut grid = PlaceGrid::new(&CAR);
        (0..=20).for_each(|step| grid.follow(at(0.05 + f64::from(step) * 0.1)));
        let at_1_m = |grid: &PlaceGrid, left| grid.visited([1.05, 0.05 + left]);
        assert_eq!([0.0, 0.1, -0.1].map(|left| at_1_m(&grid, left) > 0.95), [true; 3]);
        assert_eq!([0.2, -0.2].map(|left| at_1_m(&grid, left)), [0.0; 2], "beside the car's way");
        assert_eq!(grid.visited([2.55, 0.05]), 0.0, "ahead of it");
        assert_eq!(grid.visited([50.0, 0.05]), 0.0, "outside the window");
        let way = (1..=400).map(|step| at(2.05 + if step % 2 == 0 { 0.0 } else { 0.1 }));
        way.for_each(|pose| grid.follow(pose));
        let faded = at_1_m(&grid, 0.0);
        assert!((faded - libm::expf(-41.0 / 40.0)).abs() < 0.01, "after 41 m: {faded}");
    }

    #[test]
    fn the_window_never_forgets_what_stays_inside() {
        let mut grid = PlaceGrid::new(&CAR);
        for corner in [[-3, 5], [100, -100], [1 << 40, -(1 << 40)]] {
            let last = Window { corner };
            for moved in [[0, 0], [1, 0], [0, -1], [-5, 7], [127, 0], [128, 3], [400, -400]] {
                let window = Window { corner: [corner[0] + moved[0], corner[1] + moved[1]] };
                grid.met.fill(1.0);
                window.entered(&last, |cell| grid.met[cell] = 0.0);
                for y in 0..SIDE as i64 {
                    for x in 0..SIDE as i64 {
                        let cell = [window.corner[0] + x, window.corner[1] + y];
                        let stays = last.index(cell).is_some();
                        assert_eq!(grid.met[index(cell)] == 1.0, stays, "{corner:?} {moved:?} {x} {y}");
                    }
                }
            }
        }
    }
}
