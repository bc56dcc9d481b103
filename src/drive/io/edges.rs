//! The thread of the edge-timed sensors: one ping after another, each measured by edge timestamps from the
//! kernel (or the simulation). A lost echo costs this thread its timeout and delays no other thread. A module
//! that is still busy with its last ping gives no reading, so the previous reading ages; the thread checks
//! the module's line until it falls.

use super::fast_stop::FastStops;
use super::halt::Halt;
use super::{Due, Outlet};
use crate::base::frame::Reading;
use crate::base::plan::Cause;
use crate::base::time::{Clock, Instant, Span};
use crate::hardware::bus::Gpio;
use crate::hardware::device::DeviceFault;
use crate::hardware::device::hc_sr04::HcSr04;
use crate::system::executor::Worker;
use std::sync::Arc;

/// Interval between checks of a line that is still high: a twelfth of a ping period of 60 ms, so that the
/// wait for the end of a pulse adds little to the age of the last reading. A check is one system call.
const CHECK_AGAIN: Span = Span::from_millis(5);

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
            // Stamped with the time of the ping: the obstacle was at that distance slightly later.
            let value = sonar.device.measure(self.gpio.as_mut(), clock).map(|range| range.0);
            if let Err(DeviceFault::Busy { .. }) = value {
                sonar.due.at = clock.now() + CHECK_AGAIN;
            } else {
                if let Ok(range) = value {
                    self.crossed = self.fast_stops.look(sonar.channel, range);
                }
                let value = value.map_err(DeviceFault::into);
                self.outlet.stage(Reading { channel: sonar.channel, value, stamp: now });
                sonar.due.advance(clock.now());
            }
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
    use crate::base::plan::{Line, Restraint, Rule, Trip};
    use crate::base::time::SimClock;
    use crate::decision::fixture::{ms, range};
    use crate::hardware::bus::fake::FakeGpio;
    use crate::system::executor::Stepper;

    #[test]
    fn near_echo_halts_once_when_its_reading_is_handed_over() {
        let clock = Arc::new(SimClock::new());
        let (trig, echo) = (Line(27), Line(22));
        let us = |us| Instant::ZERO + Span::from_micros(us);
        // A round trip of 583 us is 10 cm; pings at 0, 60 and 120 ms.
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
        assert_eq!(
            stamp,
            Ok(Instant::ZERO),
            "stamped with the time of the ping, which is not later than the measurement"
        );
        stepper.run_until(us(130_000));
        assert_eq!(halt.counts().collect::<Vec<_>>(), [(Cause::Obstacle, 1)], "it is the same obstacle");
        assert!(std::iter::from_fn(|| sensed.pop().ok()).all(|reading| reading.value.is_ok()));
    }

    /// A module that holds its line high for 200 ms, and later forever.
    #[test]
    fn held_line_gives_no_reading_until_it_falls() {
        let clock = Arc::new(SimClock::new());
        let us = |us| Instant::ZERO + Span::from_micros(us);
        let gpio = FakeGpio::new(clock.clone());
        let gpio = gpio.edge(Line(22), true, us(450)).edge(Line(22), false, us(200_450));
        let gpio = gpio.edge(Line(22), true, us(206_000)); // and it never falls
        let (readings, mut sensed) = rtrb::RingBuffer::new(64);
        let worker = EdgesWorker::new(
            Box::new(gpio),
            Outlet::new(readings, Arc::default()),
            vec![(0, HcSr04::new(Line(27), Line(22)), ms(60))],
            FastStops::of(&[], &[range()], [0]),
            Arc::default(),
        );
        let mut stepper = Stepper::new(clock);
        stepper.add(Box::new(worker), Arc::default(), Instant::ZERO);
        stepper.run_until(us(600_000));
        let said: Vec<_> = std::iter::from_fn(|| sensed.pop().ok()).collect();
        let free: Vec<u64> = said
            .iter()
            .filter(|reading| reading.value == Ok(4.0))
            .map(|reading| reading.stamp.as_nanos() / 1_000_000)
            .collect();
        assert_eq!(free, [0, 205], "the second ping follows the falling edge");
        let lost: Vec<_> = said.iter().filter(|reading| reading.value.is_err()).collect();
        assert_eq!(said.len(), free.len() + lost.len());
        let first = lost[0].stamp.since(us(206_000));
        assert!(first >= ms(250) && first < ms(260), "{first:?}");
        assert_eq!(lost.len(), 3, "then once a period");
    }
}
