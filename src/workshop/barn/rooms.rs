//! Rooms of the board's own simulator instead of the benchmark's worlds: one per seed, each with a goal that
//! the body can reach. For a robot that cannot cross the course, such as a car with a single sonar.

use super::course::{Course, Rules};
use crate::base::plan::{SimPlan, WorldPlan};
use crate::base::seed::{Stream, uniform};
use crate::base::time::Span;
use crate::sim::World;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The robot stops where its dead reckoning puts it within 0.3 m of the goal. In a room, dead reckoning errs
/// by some centimetres, so 0.4 m counts as reached. The time limit is a minute.
const RULES: Rules = Rules { near_m: 0.4, limit: Span::from_millis(60_000) };
/// A goal is at least this far from the start along the shortest path, metres: half the shorter side of the
/// room of board `sim`.
const FARTHER_THAN_M: f64 = 1.5;
/// Maximum number of draws for a goal; a room in which none of them is suitable is left out.
const DRAWS: u64 = 1_000;
/// Grid spacing of the path search, metres.
const STEP_M: f64 = 0.05;

/// The rooms with the seeds 0..`count`. A body's middle has to stay `clear_m` metres from everything.
pub fn rooms(plan: &SimPlan, clear_m: f64, count: u32) -> Vec<Course> {
    (0..count).filter_map(|seed| room(plan, clear_m, seed)).collect()
}

fn room(plan: &SimPlan, clear_m: f64, seed: u32) -> Option<Course> {
    let world = World::new(&SimPlan { world: None, ..plan.clone() }, seed.into());
    let start = world.start();
    let ways = ways(&world, clear_m, [start.x, start.y]);
    let drawn = |draw: u64| {
        let along = |axis: u64| uniform(seed.into(), Stream::Stimulus, 2 * draw + axis);
        let [width, depth] = world.room();
        [along(0) * width, along(1) * depth]
    };
    let far = |goal: [f64; 2]| {
        let path_m = ways.to(goal)?;
        (path_m >= FARTHER_THAN_M).then_some((goal, path_m))
    };
    let (goal, path_m) = (0..DRAWS).map(drawn).find_map(far)?;
    let plan = WorldPlan {
        size: world.room(),
        start: [start.x, start.y],
        heading_deg: start.heading.to_degrees(),
        goal: Some(goal),
        discs: world.discs().iter().map(|disc| [disc.at[0], disc.at[1], disc.radius]).collect(),
        ledges: world.cliffs().to_vec(),
        ..WorldPlan::default()
    };
    Some(Course { number: seed, plan, path_m, rules: RULES })
}

/// The shortest paths from one place to all others.
struct Ways {
    columns: usize,
    /// Metres; infinite: no path.
    lengths: Vec<f64>,
}

impl Ways {
    /// Length of the path to this place, metres; `None`: there is no path.
    fn to(&self, place: [f64; 2]) -> Option<f64> {
        let [column, row] = nearest(place);
        self.lengths.get(row * self.columns + column).copied().filter(|length| length.is_finite())
    }
}

fn nearest(place: [f64; 2]) -> [usize; 2] {
    place.map(|metres| (metres / STEP_M).round() as usize)
}

/// Dijkstra's algorithm on a grid in which each place has eight neighbours. The queue holds lengths as
/// integers, in tenths of a millimetre, because floats do not implement `Ord`.
fn ways(world: &World, clear_m: f64, from: [f64; 2]) -> Ways {
    let [columns, rows] = world.room().map(|metres| (metres / STEP_M) as usize + 1);
    let mut lengths = vec![f64::INFINITY; columns * rows];
    let is_free =
        |column: usize, row: usize| world.clearance([column as f64 * STEP_M, row as f64 * STEP_M]) >= clear_m;
    let [column, row] = nearest(from);
    lengths[row * columns + column] = 0.0;
    let mut open = BinaryHeap::from([Reverse((0_u64, column, row))]);
    while let Some(Reverse((_, column, row))) = open.pop() {
        let here = lengths[row * columns + column];
        for (x, y) in [(-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0), (1, 1)] {
            let (Some(column), Some(row)) = (column.checked_add_signed(x), row.checked_add_signed(y)) else {
                continue;
            };
            let length = here + STEP_M * f64::from((x * x + y * y) as i32).sqrt();
            if column < columns
                && row < rows
                && length < lengths[row * columns + column]
                && is_free(column, row)
            {
                lengths[row * columns + column] = length;
                open.push(Reverse(((length * 1e4) as u64, column, row)));
            }
        }
    }
    Ways { columns, lengths }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deploy::board::built_in;
    use crate::field::navigate::Body;

    fn sim() -> (SimPlan, f64) {
        let board = built_in("sim").unwrap().unwrap().board;
        let clear = Body::of(&board).unwrap().keeps_clear();
        (board.sim.unwrap(), clear.into())
    }

    #[test]
    fn each_room_has_a_goal_that_can_be_reached() {
        let (plan, clear_m) = sim();
        let rooms = rooms(&plan, clear_m, 20);
        assert_eq!(rooms.len(), 20);
        for room in &rooms {
            let world = World::new(&SimPlan { world: Some(room.plan.clone()), ..plan.clone() }, 0);
            let goal = room.plan.goal.unwrap();
            assert!(world.clearance(goal) >= clear_m - STEP_M, "{goal:?}");
            let straight = libm::hypot(goal[0] - room.plan.start[0], goal[1] - room.plan.start[1]);
            assert!((FARTHER_THAN_M..6.0).contains(&room.path_m) && room.path_m > straight - 0.1, "{room:?}");
            assert!(!world.discs().is_empty() && !world.cliffs().is_empty());
        }
    }

    #[test]
    fn a_way_goes_around_what_is_between() {
        let mut plan = WorldPlan { size: [4.0, 3.0], ..WorldPlan::default() };
        plan.discs = vec![[2.0, 1.5, 0.5]];
        let world = |plan: &WorldPlan| World::new(&SimPlan { world: Some(plan.clone()), ..sim().0 }, 0);
        let length = ways(&world(&plan), 0.2, [1.0, 1.5]).to([3.0, 1.5]).unwrap();
        assert!((2.2..2.7).contains(&length), "{length}");
        plan.discs.push([2.0, 0.5, 0.6]);
        plan.discs.push([2.0, 2.5, 0.6]);
        assert_eq!(ways(&world(&plan), 0.2, [1.0, 1.5]).to([3.0, 1.5]), None);
    }
}
