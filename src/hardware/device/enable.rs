//! The line that enables the motors' current, whatever chip makes their pulses. It is on only while the
//! chip's pulses are known: after a successful set-up, and not after a failed stop.

use super::actuators::Actuators;
use super::{DeviceFault, Ports};
use crate::base::command::Command;
use crate::base::plan::Line;

/// Motors behind an enable line.
pub struct Enabled {
    motors: Box<dyn Actuators>,
    line: Line,
    on_high: bool,
    on: bool,
}

impl Enabled {
    /// `motors` behind `line`, which enables the current when it is high (`on_high`) or low.
    pub fn new(motors: Box<dyn Actuators>, line: Line, on_high: bool) -> Enabled {
        Enabled { motors, line, on_high, on: false }
    }

    fn switch(&mut self, on: bool, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        let line = self.line;
        self.on = false; // until the line is set
        ports.gpio.set(line, on == self.on_high).map_err(|fault| DeviceFault::Line { line, fault })?;
        self.on = on;
        Ok(())
    }
}

impl Actuators for Enabled {
    fn initialise(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        self.switch(false, ports)?;
        self.motors.initialise(ports)?;
        self.switch(true, ports)
    }

    /// If the current is off, as after a failed stop, stops the motors first and only then enables the
    /// current again.
    fn write(&mut self, command: &Command, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        if !self.on {
            self.stop(ports)?;
        }
        self.motors.write(command, ports)
    }

    /// If the stop fails, switches the current off, which needs no bus; if it succeeds, the current is on
    /// again.
    fn stop(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        match self.motors.stop(ports) {
            Ok(()) if self.on => Ok(()),
            Ok(()) => self.switch(true, ports),
            Err(fault) => {
                self.switch(false, ports)?;
                Err(fault)
            }
        }
    }

    /// Does not switch the current on again, because the controller's frames are still misaligned.
    fn stop_at_any_place(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        self.motors.stop_at_any_place(ports)
    }

    /// Uses the enable line and, if there is one, the chip's own line; one that works is enough.
    fn hold(&mut self, ports: &mut Ports<'_>) -> bool {
        let off = self.switch(false, ports).is_ok();
        self.motors.hold(ports) || off
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::fault::BusFault;
    use crate::base::time::SimClock;
    use crate::hardware::bus::fake::{FakeGpio, FakeI2c};
    use std::collections::VecDeque;
    use std::sync::Arc;

    /// Returns the scripted results, call by call.
    struct Scripted(VecDeque<Result<(), DeviceFault>>);

    impl Scripted {
        fn next(&mut self) -> Result<(), DeviceFault> {
            self.0.pop_front().unwrap()
        }
    }

    impl Actuators for Scripted {
        fn initialise(&mut self, _ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
            self.next()
        }
        fn write(&mut self, _command: &Command, _ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
            self.next()
        }
        fn stop(&mut self, _ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
            self.next()
        }
    }

    const NACK: DeviceFault = DeviceFault::Bus { register: 0, fault: BusFault::Nack };

    /// Makes `calls` (i: initialise, w: write, s: stop, h: hold) with these results from the motors; returns
    /// whether each call succeeded, and the levels that the line was set to.
    fn run(calls: &str, outcomes: &[Result<(), DeviceFault>], on_high: bool) -> (Vec<bool>, Vec<bool>) {
        let clock = Arc::new(SimClock::new());
        let (mut gpio, mut i2c) = (FakeGpio::new(clock.clone()), FakeI2c::new());
        let scripted = Scripted(outcomes.iter().copied().collect());
        let mut motors = Enabled::new(Box::new(scripted), Line(6), on_high);
        let mut ports = Ports { i2c: &mut i2c, gpio: &mut gpio, clock: clock.as_ref() };
        let well = calls.chars().map(|call| match call {
            'i' => motors.initialise(&mut ports).is_ok(),
            'w' => motors.write(&Command::still(1), &mut ports).is_ok(),
            'h' => motors.hold(&mut ports),
            _ => motors.stop(&mut ports).is_ok(),
        });
        let well = well.collect();
        (well, gpio.sets.iter().map(|set| set.high).collect())
    }

    #[test]
    fn motors_get_current_only_after_a_successful_set_up() {
        assert_eq!(run("i", &[Ok(())], true), (vec![true], vec![false, true]));
        assert_eq!(run("i", &[Err(NACK)], true), (vec![false], vec![false]));
        assert_eq!(run("ii", &[Ok(()), Err(NACK)], false), (vec![true, false], vec![true, false, true]));
    }

    #[test]
    fn motors_are_held_by_the_line_until_they_are_set_up() {
        assert_eq!(
            run("ihi", &[Ok(()), Ok(())], true),
            (vec![true; 3], vec![false, true, false, false, true])
        );
    }

    #[test]
    fn failed_stop_cuts_current_and_next_good_write_restores_it() {
        let (well, levels) = run("isws", &[Ok(()), Err(NACK), Ok(()), Ok(()), Ok(())], true);
        assert_eq!((well, levels), (vec![true, false, true, true], vec![false, true, false, true]));
        // The bus is still dead: the command is not written, and no current flows.
        let (well, levels) = run("isw", &[Ok(()), Err(NACK), Err(NACK)], true);
        assert_eq!((well, levels), (vec![true, false, false], vec![false, true, false, false]));
    }
}
