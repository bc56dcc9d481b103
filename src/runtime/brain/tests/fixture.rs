//! Boards, requests and a driver in virtual time for the tests of the brain.

use super::super::boards::ServedBoard;
use super::super::engine::RobotEngine;
use super::super::robots::{Arrival, Joined, RobotId, Robots, Task};
use crate::base::plan::{EngineKind, QualityLevel, Shape};
use crate::base::seed::{Stream, uniform};
use crate::base::time::{Clock, Instant, SimClock, Span};
use crate::deploy::board::built_in;
use crate::field::FieldInput;
use crate::field::readout::{Origin, Readout};
use crate::field::remote::message::{CycleAnswer, CycleRequest};
use std::sync::Arc;

/// The period of every robot in these tests.
pub const PERIOD: Span = Span::from_millis(20);

/// The simulated robot's board on the smallest grid, with a bank that fills and a read-out that shows every
/// feature.
pub fn board() -> Arc<ServedBoard> {
    let loaded = built_in("sim").unwrap().unwrap();
    let mut board = loaded.board;
    board.field.shape = Shape { grid: 8, patterns: 2, bank: 16, ..board.field.shape };
    let weight = |i: usize| (uniform(3, Stream::Patterns, i as u64) - 0.5) as f32 / 8.0;
    let weights = (0..board.field.shape.weights()).map(weight).collect();
    let readout = Readout::new(&board, weights, Origin::Given).expect("of this board");
    let served = ServedBoard::new(board, *loaded.digest.as_bytes(), EngineKind::Cpu, 1);
    served.starts_with(readout);
    served.takes(Span::from_micros(100));
    served
}

/// The request of robot number `robot` in cycle `cycle`; it differs for each robot.
pub fn request(board: &ServedBoard, robot: u64, cycle: u64, now: Instant) -> CycleRequest {
    let mut input = FieldInput { cycle, ..FieldInput::AT_REST };
    let count = board.board.field.shape.sensors;
    for (sensor, value) in input.sensors.iter_mut().enumerate().take(count) {
        let index = (robot * 1_000 + cycle) * 64 + sensor as u64;
        *value = (2.0 * uniform(robot, Stream::Patterns, index) - 1.0) as f32;
    }
    input.reward = if cycle.is_multiple_of(5) { 0.5 } else { 0.0 };
    input.quality = QualityLevel::new((cycle / 7 % 6) as u8).unwrap();
    CycleRequest::of(&input, count, now, PERIOD)
}

/// Lets the robot `name` join, and opens its engine at once.
pub fn join(robots: &mut Robots, name: &str, board: &Arc<ServedBoard>, clock: &Arc<SimClock>) -> RobotId {
    match robots.join(name, board, PERIOD, clock.now()) {
        Ok(Joined::Opens(id, opener)) => {
            robots.install(id, opener.open(clock.clone()), clock.now()).unwrap();
            id
        }
        Ok(Joined::Ready(id) | Joined::Waits(id)) => id,
        Err(refusal) => panic!("{name}: {refusal}"),
    }
}

/// Serves until nothing is left to do; returns the answers in order.
pub fn serve(robots: &mut Robots, clock: &SimClock) -> Vec<(RobotId, CycleAnswer)> {
    let mut answers = Vec::new();
    loop {
        match robots.next_task(clock.now()) {
            Task::Wait(_) => return answers,
            Task::Send(id, answer) => answers.push((id, answer)),
            Task::Compute(mut cycle) => {
                let computed = cycle.engine.answer(&cycle.pending, clock);
                let id = cycle.robot;
                cycle.engine.do_chores(clock.now());
                robots.done(cycle, &computed, clock.now());
                answers.push((id, computed.answer));
            }
        }
    }
}

/// Sends `bytes` as a request of robot `id`; returns the immediate answer, if any.
pub fn send(robots: &mut Robots, id: RobotId, bytes: &[u8], clock: &SimClock) -> Option<CycleAnswer> {
    match robots.receive(id, bytes, clock.now()) {
        Arrival::Answer(answer) => Some(answer),
        Arrival::Waits | Arrival::Dropped => None,
    }
}

/// The answers, as bytes, of an engine that serves only robot number `robot`, in these `cycles`.
pub fn alone(
    engine: &mut RobotEngine,
    board: &ServedBoard,
    robot: u64,
    cycles: std::ops::Range<u64>,
) -> Vec<Vec<u8>> {
    let clock = SimClock::new();
    let one = |cycle| {
        let request = request(board, robot, cycle, at(cycle));
        let pending = super::super::schedule::Pending { request, arrived: Instant::ZERO };
        engine.answer(&pending, &clock).answer.encode().to_vec()
    };
    cycles.map(one).collect()
}

/// The time of cycle `cycle`'s request.
pub fn at(cycle: u64) -> Instant {
    Instant::ZERO + PERIOD.times(cycle + 10)
}
