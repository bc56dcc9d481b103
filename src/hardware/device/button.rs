//! A push button or switch on a line. Does not debounce: code that stops the robot because of a button may
//! act on the first contact.

use super::polled::Report;
use super::{DeviceFault, Polled, Ports, Say};
use crate::base::plan::Line;
use crate::hardware::bus::Gpio;

/// One button.
#[derive(Clone, Copy, Debug)]
pub struct Button {
    line: Line,
    active_low: bool,
}

impl Button {
    /// The button on `line`; when pressed, it pulls the line low if `active_low`, otherwise high.
    pub fn new(line: Line, active_low: bool) -> Button {
        Button { line, active_low }
    }

    /// 1 if pressed, 0 if not.
    pub fn read(&self, gpio: &mut dyn Gpio) -> Result<f32, DeviceFault> {
        let line = self.line;
        let high = gpio.get(line).map_err(|fault| DeviceFault::Line { line, fault })?;
        Ok(self.value(high))
    }

    /// The meaning of a level of the line: 1 pressed, 0 not pressed.
    pub fn value(&self, high: bool) -> f32 {
        if high != self.active_low { 1.0 } else { 0.0 }
    }
}

impl Polled for Button {
    fn poll(&mut self, ports: &mut Ports<'_>, say: &mut Say<'_>) -> Result<(), DeviceFault> {
        self.read(ports.gpio).report(say)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::fault::BusFault;
    use crate::base::time::SimClock;
    use crate::hardware::bus::fake::FakeGpio;
    use std::sync::Arc;

    #[test]
    fn pressed_follows_the_wiring() {
        for (high, active_low, pressed) in
            [(false, true, 1.0), (true, true, 0.0), (true, false, 1.0), (false, false, 0.0)]
        {
            let mut gpio = FakeGpio::new(Arc::new(SimClock::new())).level(Line(25), high);
            assert_eq!(Button::new(Line(25), active_low).read(&mut gpio), Ok(pressed));
        }
        let mut gpio = FakeGpio::new(Arc::new(SimClock::new())).broken(Line(25), BusFault::Absent);
        let absent = DeviceFault::Line { line: Line(25), fault: BusFault::Absent };
        assert_eq!(Button::new(Line(25), true).read(&mut gpio), Err(absent));
    }
}
