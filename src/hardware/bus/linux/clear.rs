//! Frees an I2C bus whose SDA a device holds low: up to nine manual clocks, then STOP (UM10204, 3.1.16). This
//! file contains only the sequence of levels; [`super::repair`] finds and opens the lines.

use crate::base::fault::BusFault;
use crate::base::plan::Line;
use crate::base::time::{Clock, Instant, Span};
use crate::hardware::bus::Gpio;

/// A device that was interrupted within a byte needs at most nine more clocks: eight bits and an acknowledge.
const CLOCKS: u32 = 9;
/// Half a clock period at 100 kHz, the slowest mode of the standard, which every device can follow.
const HALF: Span = Span::from_micros(5);
/// A device may hold SCL low while it is busy. In SMBus 3.1 (table 2), devices time out after 25 to 35 ms;
/// beyond that, SCL is stuck and manual clocks do not help.
const STRETCH: Span = Span::from_millis(35);

/// Frees the bus on SCL and SDA, both open drain: set low or released. Both must be released at the start,
/// and are released at the end.
///
/// Errors: [`BusFault::TimedOut`] if SCL or SDA is still held, or the fault that an access to the lines
/// returned.
pub(super) fn clear(gpio: &mut dyn Gpio, clock: &dyn Clock, scl: Line, sda: Line) -> Result<(), BusFault> {
    let mut pair = Pair { gpio, clock, scl, sda, timeout: STRETCH };
    let done = pair.clear();
    // Whatever happened, we must not hold the bus.
    let freed = pair.gpio.set(sda, true).and(pair.gpio.set(scl, true));
    done.and(freed)
}

struct Pair<'a> {
    gpio: &'a mut dyn Gpio,
    clock: &'a dyn Clock,
    scl: Line,
    sda: Line,
    /// What is left of [`STRETCH`], which limits all waits for SCL together.
    timeout: Span,
}

impl Pair<'_> {
    fn clear(&mut self) -> Result<(), BusFault> {
        self.gpio.set(self.sda, true)?;
        self.clock_high()?;
        for _ in 0..CLOCKS {
            if self.gpio.get(self.sda)? {
                break;
            }
            self.clock_low()?;
            self.clock_high()?;
        }
        self.stop()?;
        if self.gpio.get(self.sda)? { Ok(()) } else { Err(BusFault::TimedOut) }
    }

    /// SDA rises while SCL is high: to every device, that is the end of the transfer.
    fn stop(&mut self) -> Result<(), BusFault> {
        self.clock_low()?;
        self.gpio.set(self.sda, false)?;
        self.wait_half_clock();
        self.clock_high()?;
        self.gpio.set(self.sda, true)?;
        self.wait_half_clock();
        Ok(())
    }

    fn clock_low(&mut self) -> Result<(), BusFault> {
        self.gpio.set(self.scl, false)?;
        self.wait_half_clock();
        Ok(())
    }

    /// Releases SCL and waits until it is high.
    fn clock_high(&mut self) -> Result<(), BusFault> {
        self.gpio.set(self.scl, true)?;
        let since = self.clock.now();
        self.wait_half_clock();
        while !self.gpio.get(self.scl)? {
            if self.waited(since) >= self.timeout {
                return Err(BusFault::TimedOut);
            }
            self.wait_half_clock();
        }
        self.timeout = self.timeout.less(self.waited(since));
        Ok(())
    }

    fn waited(&self, since: Instant) -> Span {
        self.clock.now().since(since)
    }

    fn wait_half_clock(&self) {
        self.clock.sleep_until(self.clock.now() + HALF);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::time::SimClock;
    use crate::hardware::bus::Edge;
    use std::sync::Arc;

    const SCL: Line = Line(3);
    const SDA: Line = Line(2);

    /// Two wires with pull-ups, driven by us and by a device that holds SDA low until it has seen `left`
    /// clocks, and SCL low for `stretch` each time we release it.
    struct OpenDrain {
        clock: Arc<SimClock>,
        ours: [bool; 2],
        left: u32,
        stretch: Span,
        scl_until: Instant,
        clocks: u32,
        stops: u32,
        /// How often SDA changed while SCL was high, other than for STOP.
        starts: u32,
    }

    impl OpenDrain {
        fn new(left: u32, stretch: Span) -> OpenDrain {
            OpenDrain {
                clock: Arc::new(SimClock::default()),
                ours: [true; 2],
                left,
                stretch,
                scl_until: Instant::ZERO,
                clocks: 0,
                stops: 0,
                starts: 0,
            }
        }
        fn scl(&self) -> bool {
            self.ours[0] && self.clock.now() >= self.scl_until
        }
        fn sda(&self) -> bool {
            self.ours[1] && self.left == 0
        }
    }

    impl Gpio for OpenDrain {
        fn set(&mut self, line: Line, high: bool) -> Result<(), BusFault> {
            let before = (self.scl(), self.sda());
            if line == SCL {
                if high && !self.ours[0] {
                    self.clocks += 1;
                    self.left = self.left.saturating_sub(1);
                    self.scl_until = self.clock.now() + self.stretch;
                }
                self.ours[0] = high;
            } else {
                assert_eq!(line, SDA);
                self.ours[1] = high;
                match (before, self.sda()) {
                    ((true, false), true) => self.stops += 1,
                    ((true, true), false) => self.starts += 1,
                    _ => {}
                }
            }
            Ok(())
        }
        fn get(&mut self, line: Line) -> Result<bool, BusFault> {
            Ok(if line == SCL { self.scl() } else { self.sda() })
        }
        fn next_edge(&mut self, _wait: Span) -> Result<Option<Edge>, BusFault> {
            Ok(None)
        }
    }

    fn run(hardware: &mut OpenDrain) -> Result<(), BusFault> {
        let clock = hardware.clock.clone();
        clear(hardware, clock.as_ref(), SCL, SDA)
    }

    #[test]
    fn clock_pulses_stop_when_the_device_releases_the_line() {
        for held in 0..=9 {
            let mut hardware = OpenDrain::new(held, Span::ZERO);
            assert_eq!(run(&mut hardware), Ok(()), "held for {held} clocks");
            // One more clock for the STOP.
            assert_eq!(
                (hardware.clocks, hardware.stops, hardware.starts),
                (held + 1, 1, 0),
                "held for {held} clocks"
            );
            assert_eq!(hardware.ours, [true; 2]);
        }
    }

    #[test]
    fn a_stuck_device_is_given_up_after_nine_clocks() {
        let mut hardware = OpenDrain::new(u32::MAX, Span::ZERO);
        assert_eq!(run(&mut hardware), Err(BusFault::TimedOut));
        assert_eq!((hardware.clocks, hardware.stops), (10, 0));
        assert_eq!(hardware.ours, [true; 2], "we must not hold the bus at the end");
    }

    #[test]
    fn clock_stretching_is_waited_for_with_a_bound() {
        let mut patient = OpenDrain::new(5, Span::from_millis(3));
        assert_eq!(run(&mut patient), Ok(()));
        assert_eq!(patient.clocks, 6);
        // Five times 10 ms: each is allowed, but not the sum.
        let mut slow = OpenDrain::new(5, Span::from_millis(10));
        assert_eq!(run(&mut slow), Err(BusFault::TimedOut));
        assert!(slow.clock.now() < Instant::ZERO + Span::from_millis(40));
        let mut stuck = OpenDrain::new(3, Span::ZERO);
        stuck.scl_until = Instant::NEVER;
        assert_eq!(run(&mut stuck), Err(BusFault::TimedOut));
        assert_eq!((stuck.clocks, stuck.ours), (0, [true; 2]));
    }
}
