//! Reflexes stay above goals: a car whose goal is beyond an edge does not drive over the edge. The same car
//! without the reflex does.

use super::{Run, options, run_with, sim_board};
use crate::long::or_in_full;
use ganglion::base::command::Source;
use ganglion::base::plan::{Board, Cause, WorldPlan};
use ganglion::field::navigate::goals::{Route, Task};
use ganglion::runtime::robot::Options;

/// Half a minute on the way to a place 2.4 m ahead.
fn goes(board: &Board, seed: u64) -> Run {
    let route = Route::try_from(vec![[2.4, 0.0]]).expect("a route");
    run_with(board, Options { task: Task::Go(route), ..options(seed, &[]) }, 30)
}

#[test]
fn no_goal_moves_a_car_over_an_edge() {
    let (size, start) = ([4.0, 3.0], [0.6, 1.5]);
    let room = WorldPlan { size, start, ledges: vec![[1.8, 0.0, 2.2, 3.0]], ..WorldPlan::default() };
    let mut board = sim_board();
    board.field.shape.grid = 8; // the smallest: the field does not drive here
    board.sim.as_mut().expect("a simulated board").world = Some(room);
    let mut reckless = board.clone();
    reckless.reflexes.retain(|rule| rule.cause != Cause::Cliff);
    for seed in 1..=or_in_full(2, 20) {
        let run = goes(&board, seed);
        assert_eq!(run.report.contacts.falls, 0, "seed {seed}");
        assert!(run.tripped(Cause::Cliff) > 0, "seed {seed}: it never came to the edge");
        let navigated = run.records.iter().filter(|record| record.command.source == Source::Navigator);
        assert!(navigated.count() > 100, "seed {seed}: the navigator hardly drove");
        assert!(goes(&reckless, seed).report.contacts.falls > 0, "seed {seed}: this room tests nothing");
    }
}
