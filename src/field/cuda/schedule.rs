//! What is due in which cycle: everything that follows from the cycle's number, its rung and earlier
//! requests, so that the device needs no branch on the host. Pure; knows no device.

use super::tables::Cycle;
use crate::base::command::MAX_MOTORS;
use crate::base::plan::{FieldPlan, QUALITY_LEVELS, QualityLevel};
use crate::base::seed::{Stream, normal};
use crate::field::FieldInput;
use crate::field::shape::{
    CONTENT_GROUPS, GROUP, GROUPS, METRICS_EVERY, SLOW_FIRST, TURN, is_due, sub_steps,
};

/// The state of the orders between two cycles.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScheduleState {
    /// Cycles since the start.
    pub age: u64,
    /// The grid in use.
    pub on_half: bool,
    /// Which of the two buffers holds each group, on the whole grid and the half one.
    pub front: [[u32; GROUPS]; 2],
    /// Whether the sums of each group are those of its cells.
    pub fresh: [bool; GROUPS],
    /// Cycles since each group was stepped.
    pub since_step: [u64; GROUPS],
    /// Cycles since the library was matched.
    pub since_blend: u64,
    /// Cycles since a step of learning.
    pub since_learn: u64,
}

/// Makes a cycle's orders.
#[derive(Debug)]
pub struct Schedule {
    plan: FieldPlan,
    standing: ScheduleState,
    orders: Cycle,
}

impl Schedule {
    /// At the start.
    pub fn new(plan: &FieldPlan) -> Schedule {
        Schedule { plan: plan.clone(), standing: ScheduleState::default(), orders: Cycle::default() }
    }

    /// Where it stands.
    pub fn standing(&self) -> &ScheduleState {
        &self.standing
    }

    /// Goes on from somewhere else.
    pub fn set_state(&mut self, standing: ScheduleState) {
        self.standing = standing;
    }

    /// Most sub-steps that any cycle can need: a group that was held at the slowest rung, caught up with.
    pub fn most_sub_steps(plan: &FieldPlan) -> u32 {
        let levels = (0..QUALITY_LEVELS).filter_map(|number| QualityLevel::new(number as u8));
        let held = levels.map(|quality| quality.work().slow_every).max().unwrap_or(1);
        let dt = plan.dt.as_secs_f64() * held as f64;
        [plan.params.t_fast, plan.params.t_slow]
            .map(|t| sub_steps(dt, t).0 as u32)
            .into_iter()
            .fold(1, u32::max)
    }

    /// The orders of a cycle.
    pub fn order(&mut self, input: &FieldInput) -> &Cycle {
        let (cycle, work) = (input.cycle, input.quality.work());
        let changes = self.standing.on_half != work.half_resolution;
        if changes {
            self.orders.left = self.standing.front[usize::from(self.standing.on_half)];
            self.standing.on_half = work.half_resolution;
            self.standing.fresh = [false; GROUPS];
        }
        for group in 0..GROUPS {
            self.order_group(group, cycle, work.slow_every);
        }
        let orders = &mut self.orders;
        orders.number = cycle;
        orders.first = self.standing.age == 0;
        orders.on_half = self.standing.on_half;
        orders.moved = changes && self.standing.age > 0;
        orders.front = self.standing.front[usize::from(self.standing.on_half)];
        self.standing.since_blend += 1;
        orders.blend_due = is_due(cycle, work.blend_every, self.standing.since_blend);
        orders.blend_top = work.blend_top as u32;
        orders.metrics_due = cycle.is_multiple_of(METRICS_EVERY);
        orders.part = (cycle % work.bank_parts) as u32;
        orders.parts = work.bank_parts as u32;
        self.order_learning(cycle, work.learn_every);
        self.order_noise(cycle);
        &self.orders
    }

    fn order_group(&mut self, group: usize, cycle: u64, slow_every: u64) {
        let (standing, orders, params) = (&mut self.standing, &mut self.orders, &self.plan.params);
        standing.since_step[group] += 1;
        let since = standing.since_step[group];
        let every = if group < CONTENT_GROUPS { 1 } else { slow_every };
        let t = if group * GROUP < SLOW_FIRST { params.t_fast } else { params.t_slow };
        let due = is_due(cycle.wrapping_add(TURN[group]), every, since);
        let (count, share) =
            if due { sub_steps(since as f64 * self.plan.dt.as_secs_f64(), t) } else { (0, 0.0) };
        orders.count[group] = count as u32;
        (orders.take[group], orders.hold[group]) = (share as f32, (1.0 - share) as f32);
        orders.stale[group] = u32::from(count == 0 && !standing.fresh[group]);
        standing.fresh[group] = true;
        if due {
            standing.since_step[group] = 0;
        }
    }

    /// Nothing can be learned from the first cycle: nothing came before.
    fn order_learning(&mut self, cycle: u64, every: u64) {
        self.orders.learn_due = false;
        if !self.plan.learn || self.standing.age == 0 {
            return;
        }
        self.standing.since_learn += 1;
        let since = self.standing.since_learn;
        if is_due(cycle, every, since) {
            let seconds = self.plan.dt.as_secs_f64() * since as f64;
            self.orders.learn_due = true;
            self.orders.keep = libm::pow(self.plan.params.forget_per_s, seconds);
            self.standing.since_learn = 0;
        }
    }

    fn order_noise(&mut self, cycle: u64) {
        for (row, noise) in self.orders.noise.iter_mut().enumerate() {
            let index = cycle.wrapping_mul(MAX_MOTORS as u64).wrapping_add(row as u64);
            *noise = self.plan.params.explore * normal(self.plan.seed, Stream::Explore, index);
        }
    }

    /// The cycle that was ordered last has been computed.
    pub fn settle(&mut self) {
        let grid = usize::from(self.standing.on_half);
        for (front, count) in self.standing.front[grid].iter_mut().zip(self.orders.count) {
            *front = (*front + count) % 2;
        }
        if self.orders.blend_due {
            self.standing.since_blend = 0;
        }
        self.standing.age += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::frame::MAX_SENSORS;
    use crate::base::time::Span;
    use crate::field::cuda::fixture::plan;

    fn input(cycle: u64, quality: u8) -> FieldInput {
        let quality = QualityLevel::new(quality).expect("one of the rungs");
        FieldInput { cycle, sensors: [0.0; MAX_SENSORS], reward: 0.0, quality, place: None }
    }

    #[test]
    fn no_cycle_needs_more_sub_steps_than_a_graph_has() {
        for (ms, most) in [(4, 1), (10, 1), (50, 2), (125, 5), (1000, 40)] {
            let plan = FieldPlan { dt: Span::from_millis(ms), ..plan(8) };
            assert_eq!(Schedule::most_sub_steps(&plan), most, "{ms} ms");
            let mut schedule = Schedule::new(&plan);
            let mut seen = 0;
            for cycle in 0..400_u64 {
                let quality = (cycle * cycle / 7 % 6) as u8;
                let orders = schedule.order(&input(cycle, quality));
                seen = seen.max(orders.count.into_iter().max().unwrap_or(0));
                schedule.settle();
            }
            assert_eq!(seen, most, "{ms} ms");
        }
    }

    #[test]
    fn a_group_is_reduced_once_after_its_last_change() {
        let mut schedule = Schedule::new(&plan(8));
        let orders = schedule.order(&input(1, 4)).clone();
        assert_eq!(orders.count, [1, 1, 1, 1, 0, 1, 1, 0]);
        assert_eq!(orders.stale, [0, 0, 0, 0, 1, 0, 0, 1], "their sums are of nothing yet");
        schedule.settle();
        let orders = schedule.order(&input(2, 4)).clone();
        assert_eq!(orders.stale, [0; 8]);
        schedule.settle();
        assert!(!schedule.standing().on_half);
        let orders = schedule.order(&input(3, 5)).clone();
        assert!(orders.moved && orders.on_half);
        assert_eq!(orders.stale, [0, 0, 0, 0, 1, 0, 0, 1], "their sums are of the other grid");
        assert_eq!(orders.left, schedule.standing().front[0]);
    }

    #[test]
    fn the_front_buffer_follows_the_sub_steps_of_each_grid() {
        let mut schedule = Schedule::new(&plan(8));
        for (cycle, quality) in [(0, 0), (1, 0), (2, 0), (3, 5), (4, 5)] {
            schedule.order(&input(cycle, quality));
            schedule.settle();
        }
        let front = schedule.standing().front;
        assert_eq!(front[0], [1; 8], "three steps");
        assert_eq!(front[1][..4], [0; 4], "two steps");
        assert_eq!(schedule.standing().age, 5);
    }

    #[test]
    fn learning_looks_back_over_skipped_cycles() {
        let plan = FieldPlan { learn: true, ..plan(8) };
        let mut schedule = Schedule::new(&plan);
        let due: Vec<(bool, u64)> = (0..9)
            .map(|cycle| {
                let orders = schedule.order(&input(cycle, 3)).clone();
                schedule.settle();
                (orders.learn_due, (orders.keep.ln() / 0.99_f64.ln() / 0.05).round() as u64)
            })
            .collect();
        assert!(!due[0].0 && !due[3].0 && due[4].0 && due[8].0);
        assert_eq!((due[4].1, due[8].1), (4, 4));
    }
}
