//! The simulated room from above, in braille dots: walls, obstacles, missing floor, the line on the floor,
//! the car, the sonar's cone, the path driven, and the goal.

use super::colours;
use super::model::History;
use crate::runtime::control::{RoomStatus, Status};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Stylize};
use ratatui::symbols::Marker;
use ratatui::widgets::Widget;
use ratatui::widgets::canvas::{Canvas, Circle, Context, Line, Points, Rectangle};

/// Dots of a character cell, across and down.
const DOTS: [f64; 2] = [2.0, 4.0];
/// Distance between the lines that fill an area without floor, metres.
const HATCH_M: f64 = 0.12;
/// Distance between the dots of the line on the floor, in dots: walls have no gaps.
const LINE_GAP: f64 = 3.0;
/// Maximum number of dots of one straight part of that line: more than a terminal has across.
const MOST_LINE_DOTS: f64 = 500.0;
/// The goal's mark.
const GOAL: &str = "X";

/// Colours of the things in the room.
struct Paint {
    wall: Color,
    cliff: Color,
    line: Color,
    trail: Color,
    cone: Color,
    car: Color,
    goal: Color,
}

impl Paint {
    fn new(colour: bool) -> Paint {
        if !colour {
            let plain = Color::Reset;
            return Paint {
                wall: plain,
                cliff: plain,
                line: plain,
                trail: plain,
                cone: plain,
                car: plain,
                goal: plain,
            };
        }
        Paint {
            wall: Color::Reset,
            cliff: colours::RED,
            line: colours::VIOLET,
            trail: colours::BLUE,
            cone: colours::AMBER,
            car: colours::GREEN,
            goal: colours::MAGENTA,
        }
    }
}

/// Draws the room of `status`, if it has one, at the same scale in both directions.
pub(super) fn draw(status: &Status, history: &History, colour: bool, area: Rect, buffer: &mut Buffer) {
    let Some(room) = status.room.as_ref().filter(|_| area.width > 2 && area.height > 1) else { return };
    let dots = [f64::from(area.width) * DOTS[0], f64::from(area.height) * DOTS[1]];
    let metres_per_dot = (room.size[0] / (dots[0] - 1.0)).max(room.size[1] / (dots[1] - 1.0));
    if !(metres_per_dot.is_finite() && metres_per_dot > 0.0) {
        return;
    }
    let [across, up] = dots.map(|dots| (dots - 1.0) * metres_per_dot);
    let paint = Paint::new(colour);
    let trail: Vec<(f64, f64)> = history.trail.iter().map(|[x, y]| (*x, *y)).collect();
    let ahead = range(status, room);
    let draw = |context: &mut Context<'_>| {
        floor(context, room, metres_per_dot, &paint);
        things(context, room, &paint);
        context.draw(&Points { coords: &trail, color: paint.trail });
        context.layer();
        car(context, room, ahead, &paint);
        if let Some([x, y]) = room.goal {
            context.print(x, y, GOAL.fg(paint.goal));
        }
    };
    Canvas::default()
        .marker(Marker::Braille)
        .x_bounds([0.0, across])
        .y_bounds([0.0, up])
        .paint(draw)
        .render(area, buffer);
}

/// The line on the floor, and where there is no floor.
fn floor(context: &mut Context<'_>, room: &RoomStatus, metres_per_dot: f64, paint: &Paint) {
    let mut dots = Vec::new();
    for part in room.line.windows(2) {
        let ([x0, y0], [x1, y1]) = (part[0], part[1]);
        let length = (x1 - x0).hypot(y1 - y0);
        let gaps = (length / (LINE_GAP * metres_per_dot)).clamp(1.0, MOST_LINE_DOTS) as usize;
        let share = |gap: usize| gap as f64 / gaps as f64;
        dots.extend((0..=gaps).map(|gap| (x0 + (x1 - x0) * share(gap), y0 + (y1 - y0) * share(gap))));
    }
    context.draw(&Points { coords: &dots, color: paint.line });
    for [x0, y0, x1, y1] in &room.cliffs {
        let strokes = ((x1 - x0) / HATCH_M).clamp(1.0, 100.0) as usize;
        for stroke in 0..=strokes {
            let x = x0 + (x1 - x0) * stroke as f64 / strokes as f64;
            context.draw(&Line { x1: x, y1: *y0, x2: x, y2: *y1, color: paint.cliff });
        }
    }
}

/// Walls and discs.
fn things(context: &mut Context<'_>, room: &RoomStatus, paint: &Paint) {
    let [width, height] = room.size;
    context.draw(&Rectangle { x: 0.0, y: 0.0, width, height, color: paint.wall });
    for [x1, y1, x2, y2] in room.walls.iter().copied() {
        context.draw(&Line { x1, y1, x2, y2, color: paint.wall });
    }
    for [x, y, radius] in room.discs.iter().chain(&room.movers) {
        context.draw(&Circle { x: *x, y: *y, radius: *radius, color: paint.wall });
    }
}

/// Distance that the sonar measures, in metres, if its value is valid.
fn range(status: &Status, room: &RoomStatus) -> Option<f64> {
    let name = room.ranger.as_ref()?;
    let sensor = status.measured.sensors.iter().find(|sensor| sensor.name == *name)?;
    let per_unit = match sensor.unit.as_str() {
        "m" => 1.0,
        "cm" => 0.01,
        "mm" => 0.001,
        _ => return None,
    };
    sensor.value.filter(|_| sensor.health == "good").map(|value| f64::from(value) * per_unit)
}

fn car(context: &mut Context<'_>, room: &RoomStatus, ahead: Option<f64>, paint: &Paint) {
    let [x, y, heading] = room.pose;
    let point = |ahead: f64, left: f64| {
        let (sin, cos) = heading.sin_cos();
        (x + ahead * cos - left * sin, y + ahead * sin + left * cos)
    };
    let ([length, width], front) = (room.car, room.front);
    let mut line = |(x1, y1): (f64, f64), (x2, y2): (f64, f64), color| {
        context.draw(&Line { x1, y1, x2, y2, color });
    };
    if let Some(reach) = ahead {
        let (sin, cos) = room.half_cone_deg.to_radians().sin_cos();
        let (left, right) =
            (point(front + reach * cos, reach * sin), point(front + reach * cos, -reach * sin));
        line(point(front, 0.0), left, paint.cone);
        line(point(front, 0.0), right, paint.cone);
        line(left, right, paint.cone);
    }
    let (back, half) = (front - length, width / 2.0);
    let corners = [point(front, half), point(front, -half), point(back, -half), point(back, half)];
    for corner in 0..corners.len() {
        line(corners[corner], corners[(corner + 1) % corners.len()], paint.car);
    }
    line(point(back, 0.0), point(front, 0.0), paint.car);
}
