//! Pulses of the computer's own PWM, one output per channel. `bus/` opens and sets the outputs; this file
//! converts duty cycles and servo pulse widths to high times in nanoseconds.

use super::pulses::Pulses;
use super::{DeviceFault, Ports};
use crate::base::command::MAX_MOTORS;
use crate::base::fault::BusFault;
use crate::base::time::Span;
use crate::hardware::bus::linux::PwmChannel;

/// Maximum number of channels: two for each motor of a command.
const CHANNELS: usize = 2 * MAX_MOTORS;

/// One output with a fixed period.
pub trait PulseOutput: Send {
    /// Sets the output high for this many nanoseconds of each period. Does not allocate.
    fn set(&mut self, high_ns: u64) -> Result<(), BusFault>;
}

impl PulseOutput for PwmChannel {
    fn set(&mut self, high_ns: u64) -> Result<(), BusFault> {
        PwmChannel::set(self, high_ns)
    }
}

/// A channel in use.
pub struct Channel {
    number: u8,
    drives: bool,
    period: Span,
    output: Box<dyn PulseOutput>,
    /// Its current setting; `None`: unknown.
    held_ns: Option<u64>,
}

impl Channel {
    /// Channel `number`, of a drive motor if `drives`, otherwise of a servo.
    pub fn new(number: u8, drives: bool, period: Span, output: Box<dyn PulseOutput>) -> Channel {
        Channel { number, drives, period, output, held_ns: None }
    }

    fn write(&mut self, high_ns: u64) -> Result<(), DeviceFault> {
        self.held_ns = None;
        let channel = self.number;
        self.output.set(high_ns).map_err(|fault| DeviceFault::Pulse { channel, fault })?;
        self.held_ns = Some(high_ns);
        Ok(())
    }

    fn hold(&mut self, high_ns: u64) -> Result<(), DeviceFault> {
        if self.held_ns == Some(high_ns) { Ok(()) } else { self.write(high_ns) }
    }
}

/// The channels of a board.
#[derive(Default)]
pub struct PwmLines {
    channels: heapless::Vec<Channel, CHANNELS>,
}

impl PwmLines {
    /// A chip without channels.
    pub fn new() -> PwmLines {
        PwmLines::default()
    }
    /// Adds a channel. There is always room: the board check limits their number.
    pub fn add(&mut self, channel: Channel) {
        let _ = self.channels.push(channel);
    }

    fn channel(&mut self, number: u8) -> Result<&mut Channel, DeviceFault> {
        let absent = DeviceFault::Pulse { channel: number, fault: BusFault::Absent };
        self.channels.iter_mut().find(|channel| channel.number == number).ok_or(absent)
    }
}

impl Pulses for PwmLines {
    fn set_up(&mut self, _ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        stop_all(self.channels.iter_mut())
    }

    fn drive(&mut self, channel: u8, share: f32, _ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        let channel = self.channel(channel)?;
        let period = channel.period.as_nanos();
        let high = (period as f64 * f64::from(share.clamp(0.0, 1.0))) as u64;
        channel.hold(high.min(period))
    }

    fn aim(&mut self, channel: u8, pulse_us: f64, _ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        self.channel(channel)?.hold(libm::round(pulse_us * 1e3) as u64)
    }

    /// Nothing to renew: there is no chip in between that could forget its settings.
    fn renew(&mut self, _ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        Ok(())
    }

    fn stop(&mut self, _ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        stop_all(self.channels.iter_mut().filter(|channel| channel.drives))
    }

    /// There is no line, but no bus is needed either: a normal stop is just as good.
    fn hold(&mut self, _ports: &mut Ports<'_>) -> bool {
        false
    }
}

/// Removes the pulse from each channel, even if a previous one failed; returns the first fault.
fn stop_all<'c>(channels: impl Iterator<Item = &'c mut Channel>) -> Result<(), DeviceFault> {
    let mut outcome = Ok(());
    for channel in channels {
        let written = channel.write(0);
        outcome = outcome.and(written);
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::command::Command;
    use crate::base::plan::{MotorKind, MotorPlan};
    use crate::base::time::SimClock;
    use crate::hardware::bus::fake::{FakeGpio, FakeI2c};
    use crate::hardware::device::actuators::{Actuators, Motors};
    use std::sync::{Arc, Mutex};

    type Written = Arc<Mutex<Vec<(u8, u64)>>>;

    struct Output {
        number: u8,
        written: Written,
        fault: Option<BusFault>,
    }

    impl PulseOutput for Output {
        fn set(&mut self, high_ns: u64) -> Result<(), BusFault> {
            if let Some(fault) = self.fault {
                return Err(fault);
            }
            self.written.lock().unwrap().push((self.number, high_ns));
            Ok(())
        }
    }

    fn motor(kind: MotorKind) -> MotorPlan {
        MotorPlan { name: "m".into(), kind, limit: 1.0, slew_per_s: 4.0 }
    }

    fn rig(fault: Option<BusFault>) -> (Motors<PwmLines>, Written) {
        let written = Written::default();
        let mut lines = PwmLines::new();
        for (number, drives, period, fault) in [
            (0, true, Span::from_micros(100), fault),
            (1, true, Span::from_micros(100), None),
            (2, false, Span::from_millis(20), None),
        ] {
            let output = Output { number, written: written.clone(), fault };
            lines.add(Channel::new(number, drives, period, Box::new(output)));
        }
        let motors = [
            motor(MotorKind::DcPair { forward: 0, backward: 1, min_duty: 0.5 }),
            motor(MotorKind::Servo {
                pwm: 2,
                min_deg: -30.0,
                max_deg: 30.0,
                offset_deg: 0.0,
                mirrored: false,
            }),
        ];
        (Motors::on(&motors, lines), written)
    }

    fn with(motors: &mut Motors<PwmLines>, work: impl FnOnce(&mut Motors<PwmLines>, &mut Ports<'_>)) {
        let clock = Arc::new(SimClock::new());
        let (mut i2c, mut gpio) = (FakeI2c::new(), FakeGpio::new(clock.clone()));
        work(motors, &mut Ports { i2c: &mut i2c, gpio: &mut gpio, clock: clock.as_ref() });
    }

    fn taken(written: &Written) -> Vec<(u8, u64)> {
        std::mem::take(&mut *written.lock().unwrap())
    }

    #[test]
    fn pulse_lengths_are_written_only_when_they_change() {
        let (mut motors, written) = rig(None);
        with(&mut motors, |motors, ports| {
            motors.initialise(ports).unwrap();
            assert_eq!(taken(&written), [(0, 0), (1, 0), (2, 0), (2, 1_500_000)]);
            let mut command = Command::still(2);
            command.motors[..2].copy_from_slice(&[1.0, -1.0]);
            motors.write(&command, ports).unwrap();
            motors.write(&command, ports).unwrap();
            assert_eq!(taken(&written), [(0, 100_000), (2, 1_166_667)]);
            command.motors[0] = -0.5;
            motors.write(&command, ports).unwrap();
            assert_eq!(taken(&written), [(0, 0), (1, 75_000)]);
            motors.stop(ports).unwrap();
            assert_eq!(taken(&written), [(0, 0), (1, 0)], "every drive channel and no servo");
        });
    }

    #[test]
    fn there_is_room_for_two_channels_of_every_motor_of_a_command() {
        let written = Written::default();
        let mut lines = PwmLines::new();
        for number in 0..32 {
            let output = Output { number, written: written.clone(), fault: None };
            lines.add(Channel::new(number, true, Span::from_micros(100), Box::new(output)));
        }
        with(&mut Motors::on(&[], lines), |motors, ports| motors.stop(ports).unwrap());
        assert_eq!(taken(&written).len(), 32, "the board check accepts channels 0 to 31");
    }

    #[test]
    fn one_output_that_fails_does_not_keep_the_others_from_stopping() {
        let (mut motors, written) = rig(Some(BusFault::Io));
        with(&mut motors, |motors, ports| {
            let io = DeviceFault::Pulse { channel: 0, fault: BusFault::Io };
            assert_eq!(motors.stop(ports), Err(io));
            assert_eq!(taken(&written), [(1, 0)]);
        });
    }
}
