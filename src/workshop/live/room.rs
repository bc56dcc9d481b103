//! The simulated room for 3-D panels: walls, discs, missing floor, the line on the floor, and the car's true
//! pose. The robot's own scene has the goal.

use crate::base::time::Instant;
use crate::drive::record::{Entity, GREY, Lines, RED, colour, lines, place};
use crate::runtime::control::RoomStatus;
use serde_json::{Value, json};

/// Height of the discs as drawn, metres: that of a small car's sonar.
const HEIGHT_M: f64 = 0.2;
/// Thickness of the sheet that marks missing floor, metres: it only needs to be visible.
const SHEET_M: f64 = 0.005;
/// Colour of the line on the floor: the reddish purple of the palette that the scene uses.
const PURPLE: [f64; 3] = [0.8, 0.47, 0.65];

/// The room as an entity of the robot's scene, whose origin is the robot's start.
pub(super) fn draw(room: &RoomStatus, now: Instant) -> Value {
    let from_start = |at: [f64; 2]| seen_from(room.start, at);
    let turn = -room.start[2];
    let [width, depth] = room.size;
    let around = [[0.0, 0.0], [width, 0.0], [width, depth], [0.0, depth]].map(from_start);
    let ends = room.walls.iter().flat_map(|[x0, y0, x1, y1]| [[*x0, *y0], [*x1, *y1]]);
    let walls: Vec<[f64; 2]> = ends.map(from_start).collect();
    let tape: Vec<[f64; 2]> = room.line.iter().copied().map(from_start).collect();
    let discs = room.discs.iter().chain(&room.movers).map(|[x, y, radius]| {
        json!({
            "pose": place(from_start([*x, *y]), HEIGHT_M / 2.0, 0.0),
            "size": {"x": 2.0 * radius, "y": 2.0 * radius, "z": HEIGHT_M},
            "bottom_scale": 1.0, "top_scale": 1.0, "color": colour(GREY, 0.8),
        })
    });
    let cliffs = room.cliffs.iter().map(|[x0, y0, x1, y1]| {
        json!({
            "pose": place(from_start([(x0 + x1) / 2.0, (y0 + y1) / 2.0]), 0.0, turn),
            "size": {"x": (x1 - x0).abs(), "y": (y1 - y0).abs(), "z": SHEET_M},
            "color": colour(RED, 0.5),
        })
    });
    let mut outlines = vec![];
    for (joined, points, colour) in [
        (Lines::Loop, &around[..], GREY),
        (Lines::Loop, &car(room).map(from_start), GREY),
        (Lines::List, &walls, GREY),
        (Lines::Strip, &tape, PURPLE),
    ] {
        if !points.is_empty() {
            let mut drawn = lines(joined, points, colour);
            outlines.extend(drawn.as_array_mut().map(std::mem::take).unwrap_or_default());
        }
    }
    Entity::new("room", now)
        .expires()
        .with("lines", json!(outlines))
        .with("cylinders", discs.collect())
        .with("cubes", cliffs.collect())
        .0
}

/// A point of the room relative to a pose: metres ahead of it and to its left.
fn seen_from([x, y, heading]: [f64; 3], at: [f64; 2]) -> [f64; 2] {
    let (sin, cos) = heading.sin_cos();
    let (east, north) = (at[0] - x, at[1] - y);
    [east * cos + north * sin, north * cos - east * sin]
}

/// The corners of the car.
fn car(room: &RoomStatus) -> [[f64; 2]; 4] {
    let [x, y, heading] = room.pose;
    let (sin, cos) = heading.sin_cos();
    let ([length, width], front) = (room.car, room.front);
    let (back, half) = (front - length, width / 2.0);
    [[front, half], [front, -half], [back, -half], [back, half]]
        .map(|[ahead, left]| [x + ahead * cos - left * sin, y + ahead * sin + left * cos])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_room_is_drawn_around_the_start() {
        // The car started at (1, 2), facing along y, and has driven half a metre.
        let quarter = std::f64::consts::FRAC_PI_2;
        let room = RoomStatus {
            size: [4.0, 3.0],
            discs: vec![[1.0, 2.5, 0.1]],
            walls: vec![[2.0, 2.0, 2.0, 3.0]],
            line: vec![[1.0, 2.25], [0.0, 2.0]],
            movers: vec![[1.0, 2.75, 0.1]],
            cliffs: vec![[2.0, 2.0, 3.0, 2.5]],
            pose: [1.0, 2.5, quarter],
            start: [1.0, 2.0, quarter],
            car: [0.25, 0.12],
            front: 0.17,
            ..RoomStatus::default()
        };
        let entity = draw(&room, Instant::ZERO);
        let disc = &entity["cylinders"][0]["pose"]["position"];
        assert_eq!(disc, &json!({"x": 0.5, "y": 0.0, "z": 0.1}), "half a metre ahead");
        let mover = &entity["cylinders"][1]["pose"]["position"];
        assert_eq!(mover, &json!({"x": 0.75, "y": 0.0, "z": 0.1}), "behind the disc");
        let cliff = &entity["cubes"][0]["pose"]["position"];
        assert_eq!(cliff, &json!({"x": 0.25, "y": -1.5, "z": 0.0}), "to the right");
        let points = |line: usize| entity["lines"][line]["points"].clone();
        assert_eq!(
            points(0)[0],
            json!({"x": -2.0, "y": 1.0, "z": 0.0}),
            "the corner, behind and to the left"
        );
        assert_eq!(points(1)[0], json!({"x": 0.67, "y": 0.06, "z": 0.0}), "the front of the car, left");
        let at = |x: f64, y: f64| json!({"x": x, "y": y, "z": 0.0});
        assert_eq!(points(2), json!([at(0.0, -1.0), at(1.0, -1.0)]), "the wall, to the right");
        assert_eq!(points(3), json!([at(0.25, 0.0), at(0.0, 1.0)]), "the line on the floor");
        let bare = RoomStatus { walls: vec![], line: vec![], ..room };
        let outlines = draw(&bare, Instant::ZERO)["lines"].clone();
        assert_eq!(outlines.as_array().map(Vec::len), Some(2), "only the room and the car");
    }
}
