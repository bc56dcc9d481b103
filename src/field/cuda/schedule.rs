//! Decides what is due in each cycle: everything that follows from the cycle's number, its quality level and
//! earlier cycles, so that the host has nothing to decide while the device computes. Pure; knows no device.

use super::tables::Cycle;
use crate::base::command::MAX_MOTORS;
use crate::base::plan::{FieldPlan, QUALITY_LEVELS, QualityLevel};
use crate::base::seed::{Stream, normal};
use crate::field::FieldInput;
use crate::field::shape::{
    CONTENT_GROUPS, GROUP, GROUPS, METRICS_EVERY, SLOW_FIRST, TURN, is_due, sub_steps,
};

/// The state of the schedule between two cycles.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScheduleState {
    /// Cycles since the start.
    pub age: u64,
    /// The grid in use.
    pub on_half: bool,
    /// Which of the two buffers holds each group, on the full grid and the half grid.
    pub front: [[u32; GROUPS]; 2],
    /// Whether the sums of each group are up to date with its cells.
    pub fresh: [bool; GROUPS],
    /// Cycles since each group was last stepped.
    pub since_step: [u64; GROUPS],
    /// Cycles since the library was last matched.
    pub since_blend: u64,
    /// Cycles since the last step of learning.
    pub since_learn: u64,
}

/// Makes the orders of each cycle.
#[derive(Debug)]
pub struct Schedule {
    plan: FieldPlan,
    state: ScheduleState,
    orders: Cycle,
}

impl Schedule {
    /// The schedule at the start.
    pub fn new(plan: &FieldPlan) -> Schedule {
        Schedule { plan: plan.clone(), state: ScheduleState::default(), orders: Cycle::default() }
    }

    /// Its state.
    pub fn state(&self) -> &ScheduleState {
        &self.state
    }

    /// Continues from another state.
    pub fn set_state(&mut self, state: ScheduleState) {
        self.state = state;
    }

    /// Maximum number of sub-steps that a cycle can need: as many as a group needs to catch up after the
    /// longest time between two of its steps, at the lowest quality level.
    pub fn most_sub_steps(plan: &FieldPlan) -> u32 {
        let levels = (0..QUALITY_LEVELS).filter_map(|number| QualityLevel::new(number as u8));
        let held = levels.map(|quality| quality.work().slow_every).max().unwrap_or(1);
        let dt = plan.dt.as_secs_f64() * held as f64;
        [plan.params.t_fast, plan.params.t_slow]
            .map(|t| sub_steps(dt, t).0 as u32)
            .into_iter()
            .fold(1, u32::max)
    }

    /// Makes the orders of a cycle.
    pub fn schedule(&mut self, input: &FieldInput) -> &Cycle {
        let (cycle, work) = (input.cycle, input.quality.work());
        let changes = self.state.on_half != work.half_resolution;
        if changes {
            self.orders.left = self.state.front[usize::from(self.state.on_half)];
            self.state.on_half = work.half_resolution;
            self.state.fresh = [false; GROUPS];
        }
        for group in 0..GROUPS {
            self.schedule_group(group, cycle, work.slow_every);
        }
        let orders = &mut self.orders;
        orders.number = cycle;
        orders.first = self.state.age == 0;
        orders.on_half = self.state.on_half;
        orders.moved = changes && self.state.age > 0;
        orders.front = self.state.front[usize::from(self.state.on_half)];
        self.state.since_blend += 1;
        orders.blend_due = is_due(cycle, work.blend_every, self.state.since_blend);
        orders.blend_top = work.blend_top as u32;
        orders.metrics_due = cycle.is_multiple_of(METRICS_EVERY);
        orders.part = (cycle % work.bank_parts) as u32;
        orders.parts = work.bank_parts as u32;
        self.schedule_learning(cycle, work.learn_every);
        self.draw_noise(cycle);
        &self.orders
    }

    fn schedule_group(&mut self, group: usize, cycle: u64, slow_every: u64) {
        let (state, orders, params) = (&mut self.state, &mut self.orders, &self.plan.params);
        state.since_step[group] += 1;
        let since = state.since_step[group];
        let every = if group < CONTENT_GROUPS { 1 } else { slow_every };
        let t = if group * GROUP < SLOW_FIRST { params.t_fast } else { params.t_slow };
        let due = is_due(cycle.wrapping_add(TURN[group]), every, since);
        let (count, share) =
            if due { sub_steps(since as f64 * self.plan.dt.as_secs_f64(), t) } else { (0, 0.0) };
        orders.count[group] = count as u32;
        (orders.take[group], orders.hold[group]) = (share as f32, (1.0 - share) as f32);
        orders.stale[group] = u32::from(count == 0 && !state.fresh[group]);
        state.fresh[group] = true;
        if due {
            state.since_step[group] = 0;
        }
    }

    /// Decides whether learning is due. The first cycle cannot learn: there is no earlier cycle.
    fn schedule_learning(&mut self, cycle: u64, every: u64) {
        self.orders.learn_due = false;
        if !self.plan.learn || self.state.age == 0 {
            return;
        }
        self.state.since_learn += 1;
        let since = self.state.since_learn;
        if is_due(cycle, every, since) {
            let seconds = self.plan.dt.as_secs_f64() * since as f64;
            self.orders.learn_due = true;
            self.orders.keep = libm::pow(self.plan.params.forget_per_s, seconds);
            self.state.since_learn = 0;
        }
    }

    fn draw_noise(&mut self, cycle: u64) {
        for (row, noise) in self.orders.noise.iter_mut().enumerate() {
            let index = cycle.wrapping_mul(MAX_MOTORS as u64).wrapping_add(row as u64);
            *noise = self.plan.params.explore * normal(self.plan.seed, Stream::Explore, index);
        }
    }

    /// Records that the last scheduled cycle has been computed.
    pub fn settle(&mut self) {
        let grid = usize::from(self.state.on_half);
        for (front, count) in self.state.front[grid].iter_mut().zip(self.orders.count) {
            *front = (*front + count) % 2;
        }
        if self.orders.blend_due {
            self.state.since_blend = 0;
        }
        self.state.age += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::frame::MAX_SENSORS;
    use crate::base::time::Span;
    use crate::field::cuda::fixture::plan;

    fn input(cycle: u64, quality: u8) -> FieldInput {
        let quality = QualityLevel::new(quality).expect("a quality level");
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
                let orders = schedule.schedule(&input(cycle, quality));
                seen = seen.max(orders.count.into_iter().max().unwrap_or(0));
                schedule.settle();
            }
            assert_eq!(seen, most, "{ms} ms");
        }
    }

    #[test]
    fn unstepped_group_is_reduced_once_after_a_move() {
        let mut schedule = Schedule::new(&plan(8));
        let orders = schedule.schedule(&input(1, 4)).clone();
        assert_eq!(orders.count, [1, 1, 1, 1, 0, 1, 1, 0]);
        assert_eq!(orders.stale, [0, 0, 0, 0, 1, 0, 0, 1], "their sums have not been computed yet");
        schedule.settle();
        let orders = schedule.schedule(&input(2, 4)).clone();
        assert_eq!(orders.stale, [0; 8]);
        schedule.settle();
        assert!(!schedule.state().on_half);
        let orders = schedule.schedule(&input(3, 5)).clone();
        assert!(orders.moved && orders.on_half);
        assert_eq!(orders.stale, [0, 0, 0, 0, 1, 0, 0, 1], "their sums were computed on the other grid");
        assert_eq!(orders.left, schedule.state().front[0]);
    }

    #[test]
    fn the_front_buffer_follows_the_sub_steps_of_each_grid() {
        let mut schedule = Schedule::new(&plan(8));
        for (cycle, quality) in [(0, 0), (1, 0), (2, 0), (3, 5), (4, 5)] {
            schedule.schedule(&input(cycle, quality));
            schedule.settle();
        }
        let front = schedule.state().front;
        assert_eq!(front[0], [1; 8], "three steps");
        assert_eq!(front[1][..4], [0; 4], "two steps");
        assert_eq!(schedule.state().age, 5);
    }

    #[test]
    fn learning_covers_the_cycles_since_the_last_learning() {
        let plan = FieldPlan { learn: true, ..plan(8) };
        let mut schedule = Schedule::new(&plan);
        let due: Vec<(bool, u64)> = (0..9)
            .map(|cycle| {
                let orders = schedule.schedule(&input(cycle, 3)).clone();
                schedule.settle();
                (orders.learn_due, (orders.keep.ln() / 0.99_f64.ln() / 0.05).round() as u64)
            })
            .collect();
        assert!(!due[0].0 && !due[3].0 && due[4].0 && due[8].0);
        assert_eq!((due[4].1, due[8].1), (4, 4));
    }
}
