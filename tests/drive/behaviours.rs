//! A behaviour is data: the boards in `docs/behaviours.md` follow a line and keep to a wall, and the shipped
//! table does neither.

use super::sim_board;
use super::stage::Stage;
use crate::long::or_in_full;
use ganglion::base::plan::{Board, WorldPlan};
use ganglion::base::time::{Clock, Span};
use ganglion::deploy::board;
use ganglion::sim::Pose;

/// From the rear axle to the spots that the ground sensors see, metres.
const SPOTS_M: f64 = 0.158;
const PAGE: &str = include_str!("../../docs/behaviours.md");

/// The board and the room in the section `title` of the page.
fn example(title: &str) -> (Board, WorldPlan) {
    let section = PAGE.split("\n## ").find(|section| section.starts_with(title)).expect("the section");
    let mut blocks = section.split("```toml\n").skip(1).map(|rest| rest.split("```").next().expect("text"));
    let (text, room) = (blocks.next().expect("a board"), blocks.next().expect("a room"));
    let board = board::from_text("own", text).unwrap_or_else(|error| panic!("{title}: {error}")).board;
    let room = board::world_from_text("room", room.into()).unwrap_or_else(|error| panic!("{title}: {error}"));
    (board, room)
}

/// Where the car is after each slot of a minute, and how often it has touched something.
fn drive(board: &Board, room: &WorldPlan, seed: u64) -> (Vec<Pose>, u64) {
    let mut board = board.clone();
    // In a short test run the field has the smallest grid: it moves no motor here.
    board.field.shape.grid = or_in_full(8, board.field.shape.grid);
    board.sim.as_mut().expect("a simulated board").world = Some(room.clone());
    let mut stage = Stage::new(&board, seed, &[]);
    let poses = (0..6_000)
        .map(|_| {
            stage.slot(Span::ZERO);
            stage.plant.report(stage.clock.now()).pose
        })
        .collect();
    (poses, stage.plant.report(stage.clock.now()).contacts.all())
}

/// Length of the path, metres.
fn length(poses: &[Pose]) -> f64 {
    length_of(&poses.iter().map(|pose| [pose.x, pose.y]).collect::<Vec<_>>())
}

fn length_of(corners: &[[f64; 2]]) -> f64 {
    corners.windows(2).map(|two| (two[1][0] - two[0][0]).hypot(two[1][1] - two[0][1])).sum()
}

/// From the rear axle to the nearest wall, metres.
fn to_wall(pose: &Pose, room: &WorldPlan) -> f64 {
    pose.x.min(pose.y).min(room.size[0] - pose.x).min(room.size[1] - pose.y)
}

/// Distance of `at` from the line through `corners`, metres.
fn off_line(corners: &[[f64; 2]], at: [f64; 2]) -> f64 {
    let distances = corners.windows(2).map(|pair| {
        let [along, to] = [pair[1], at].map(|end| [end[0] - pair[0][0], end[1] - pair[0][1]]);
        let length = along[0].hypot(along[1]);
        let share = ((to[0] * along[0] + to[1] * along[1]) / length.powi(2)).clamp(0.0, 1.0);
        (to[0] - share * along[0]).hypot(to[1] - share * along[1])
    });
    distances.fold(f64::INFINITY, f64::min)
}

#[test]
fn the_line_table_stays_on_the_line_the_shipped_one_does_not() {
    let (board, room) = example("Follow a line");
    for seed in 1..=or_in_full(2, 20) {
        // The heading at the start is off by up to 10 degrees: an outer sensor still sees the line.
        let room = WorldPlan { heading_deg: (5 * (seed % 5)) as f64 - 10.0, ..room.clone() };
        let off = |board| {
            let (poses, contacts) = drive(board, &room, seed);
            let off = poses.iter().map(|pose| off_line(&room.line, pose.point(SPOTS_M, 0.0)));
            (off.fold(0.0, f64::max), length(&poses), contacts)
        };
        let (off_m, metres, contacts) = off(&board);
        assert!(off_m < 0.04, "seed {seed}: {off_m} m off the line");
        assert!(
            metres > length_of(&room.line) && contacts == 0,
            "seed {seed}: {metres} m, {contacts} contacts"
        );
        let (wanders_m, ..) = off(&sim_board());
        println!("line, seed {seed}: {off_m:.4} m off; the shipped table {wanders_m:.2} m");
        assert!(
            wanders_m > 0.3,
            "seed {seed}: the shipped table also stays within {wanders_m} m of the line"
        );
    }
}

#[test]
fn the_wall_table_keeps_to_the_wall_the_shipped_one_does_not() {
    let (board, room) = example("Keep to a wall");
    for seed in 1..=or_in_full(2, 20) {
        // The room of the page is the first one.
        let more = [seed - 1, seed % 3].map(|steps| 0.3 * steps as f64);
        let size = [room.size[0] + more[0] % 2.0, room.size[1] + more[1]];
        let room = WorldPlan { size, ..room.clone() };
        let near = |board| {
            let (poses, contacts) = drive(board, &room, seed);
            let near = poses.iter().filter(|pose| (0.2..0.6).contains(&to_wall(pose, &room))).count();
            (near as f64 / poses.len() as f64, length(&poses), contacts)
        };
        let (share, metres, contacts) = near(&board);
        assert_eq!((share, contacts), (1.0, 0), "seed {seed}: it is 0.2 to 0.6 m from a wall all the time");
        assert!(metres > 12.0, "seed {seed}: {metres} m");
        let (wanders, ..) = near(&sim_board());
        println!("wall, seed {seed}: {share:.3} of the time; the shipped table {wanders:.3}");
        assert!(wanders < 0.9, "seed {seed}: the shipped table also keeps to the walls");
    }
}
