//! The thread of the edge-timed sensors: one ping after another, each measured by kernel (or simulated) edge
//! stamps. A lost echo costs this thread its timeout and delays no other thread.

use super::fast_stop::FastStops;
use super::halt::Halt;
use super::{Due, Outlet};
use crate::bus::Gpio;
use crate::device::DeviceFault;
use crate::device::hc_sr04::HcSr04;
use crate::executor::Worker;
use crate::frame::Reading;
use crate::plan::Cause;
use crate::time::{Clock, Instant, Span};
use std::sync::Arc;

struct Sonar {
    channel: u8,
    device: HcSr04,
    due: Due,
}

/// Owns the lines of all HC-SR04 of a board.
pub struct EdgesWorker {
    gpio: Box<dyn Gpio>,
    outlet: Outlet,
    sonars: Vec<Sonar>,
    fast_stops: FastStops,
    halt: Arc<Halt>,
    crossed: Option<Cause>,
}

impl EdgesWorker {
    /// A worker that pings each of `sonars` (channel, device, period) in turn; a range that crosses one of
    /// `fast_stops` raises a halt.
    pub fn new(
        gpio: Box<dyn Gpio>,
        outlet: Outlet,
        sonars: Vec<(u8, HcSr04, Span)>,
        fast_stops: FastStops,
        halt: Arc<Halt>,
    ) -> EdgesWorker {
        let sonars = sonars
            .into_iter()
            .map(|(channel, device, period)| Sonar {
                channel,
                device,
                due: Due::every(period, Instant::ZERO),
            })
            .collect();
        EdgesWorker { gpio, outlet, sonars, fast_stops, halt, crossed: None }
    }
}

impl Worker for EdgesWorker {
    fn name(&self) -> &'static str {
        "edges"
    }

    fn step(&mut self, clock: &dyn Clock) -> Instant {
        let now = clock.now();
        let most_overdue = self.sonars.iter_mut().min_by_key(|sonar| sonar.due.at);
        if let Some(sonar) = most_overdue
            && sonar.due.at <= now
        {
            // Stamped with the ping: the obstacle was at that distance slightly later than this.
            let value = sonar
                .device
                .measure(self.gpio.as_mut(), clock)
                .map(|range| range.0)
                .map_err(DeviceFault::into);
            if let Ok(range) = value {
                self.crossed = self.fast_stops.look(sonar.channel, range);
            }
            self.outlet.stage(Reading { channel: sonar.channel, value, stamp: now });
            sonar.due.advance(clock.now());
        }
        self.sonars.iter().map(|sonar| sonar.due.at).min().unwrap_or(Instant::NEVER)
    }

    fn publish(&mut self, clock: &dyn Clock) {
        if let Some((cause, at)) = self.outlet.publish_with(&mut self.crossed, clock) {
            self.halt.raise(cause, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::fake::FakeGpio;
    use crate::executor::Stepper;
    use crate::fixture::{ms, range};
    use crate::plan::{Line, Restraint, Rule, Trip};
    use crate::time::SimClock;

    #[test]
    fn a_near_echo_says_halt_when_its_reading_is_handed_over_and_once() {
        let clock = Arc::new(SimClock::new());
        let (trig, echo) = (Line(27), Line(22));
        let us = |us| Instant::ZERO + Span::from_micros(us);
        // 583 us there and back are 10 cm; pings at 0, 60 and 120 ms.
        let gpio = [0, 60_000, 120_000].into_iter().fold(FakeGpio::new(clock.clone()), |gpio, ping| {
            gpio.edge(echo, true, us(ping + 460)).edge(echo, false, us(ping + 1_043))
        });
        let near = Rule {
            cause: Cause::Obstacle,
            channel: 0,
            trip: Trip::Below(0.15),
            clear: 0.2,
            hold: Span::ZERO,
            retreat: Span::ZERO,
            restraint: Restraint::NoForward,
            latched: false,
        };
        let (readings, mut sensed) = rtrb::RingBuffer::new(8);
        let halt = Arc::new(Halt::default());
        let worker = EdgesWorker::new(
            Box::new(gpio),
            Outlet::new(readings, Arc::default()),
            vec![(0, HcSr04::new(trig, echo), ms(60))],
            FastStops::of(&[near], &[range()], [0]),
            halt.clone(),
        );
        let mut stepper = Stepper::new(clock);
        stepper.add(Box::new(worker), Arc::default(), Instant::ZERO);
        stepper.run_until(us(1_042));
        assert_eq!((halt.counts().count(), sensed.slots()), (0, 0), "the echo is not back yet");
        stepper.run_until(us(1_043));
        assert_eq!((halt.counts().collect::<Vec<_>>(), sensed.slots()), (vec![(Cause::Obstacle, 1)], 1));
        let stamp = sensed.pop().map(|reading| reading.stamp);
        assert_eq!(stamp, Ok(Instant::ZERO), "of the ping: what it met was there no later than its echo");
        stepper.run_until(us(130_000));
        assert_eq!(halt.counts().collect::<Vec<_>>(), [(Cause::Obstacle, 1)], "it is the same obstacle");
        assert!(std::iter::from_fn(|| sensed.pop().ok()).all(|reading| reading.value.is_ok()));
    }
}
