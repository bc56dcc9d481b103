//! The thread for values that need no bus: kernel files with temperatures, voltages, loads. Reading one may
//! take a while, so this thread has no real-time priority.

use super::Outlet;
use super::counters::{BusCounters, count};
use super::fast_stop::FastStops;
use super::halt::Halt;
use super::polls::{PollPlan, Polls};
use crate::base::plan::Cause;
use crate::base::time::{Clock, Instant};
use crate::hardware::bus::Absent;
use crate::hardware::device::Ports;
use crate::system::executor::Worker;
use std::sync::Arc;

/// Polls devices that need neither bus nor line.
pub struct SlowWorker {
    polls: Polls,
    outlet: Outlet,
    halt: Arc<Halt>,
    crossed: Option<Cause>,
    counters: Arc<BusCounters>,
}

impl SlowWorker {
    /// A worker that polls `polls`; `counters` has a device for each of them.
    pub fn new(
        polls: Vec<PollPlan>,
        fast_stops: FastStops,
        outlet: Outlet,
        halt: Arc<Halt>,
        counters: Arc<BusCounters>,
    ) -> SlowWorker {
        assert_eq!(polls.len(), counters.devices.len(), "a counter for each device");
        SlowWorker { polls: Polls::new(polls, fast_stops), outlet, halt, crossed: None, counters }
    }
}

impl Worker for SlowWorker {
    fn name(&self) -> &'static str {
        "slow"
    }

    fn step(&mut self, clock: &dyn Clock) -> Instant {
        if let Some(place) = self.polls.due(clock.now()) {
            let (mut i2c, mut gpio) = (Absent, Absent);
            let mut ports = Ports { i2c: &mut i2c, gpio: &mut gpio, clock };
            let devices = &self.counters.devices;
            let result = self.polls.call(place, false, &mut ports, &mut self.outlet, devices, None);
            if result.transfer.is_err() {
                count(&self.counters.failures);
            }
            self.crossed = self.crossed.max(result.crossed);
        }
        self.polls.next()
    }

    fn publish(&mut self, clock: &dyn Clock) {
        if let Some((cause, at)) = self.outlet.publish_with(&mut self.crossed, clock) {
            self.halt.raise(cause, at);
        }
    }
}
