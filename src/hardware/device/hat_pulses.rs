//! Pulses of the Robot HAT's microcontroller: the counts for a duty cycle or a pulse length, the timers in
//! use, and the frames that stop every drive motor.

use super::dc_motor::{self, DcMotor};
use super::pulses::Pulses;
use super::registers::Registers;
use super::robot_hat::{self, PERIOD, RobotHat, Timer, pulse_register, timer_of, timer_registers};
use super::servo::{self, Servo};
use super::{DeviceFault, Ports};
use crate::base::plan::{McuPlan, MotorKind};

/// The servo period that the vendor's library assumes: it computes counts as a fraction of exactly 20 ms,
/// although the nearest prescaler gives 20.02 ms. This error of 0.1 % (a tenth of a degree) is kept, so that
/// trims found with the vendor's tools remain valid.
const FRAME_US: f64 = 20_000.0;
/// Counts are truncated, not rounded, as in the library. A hundredth of a count (0.05 us) is added first, so
/// that an angle with a whole number of counts does not lose one to binary rounding.
const NEARLY: f64 = 0.01;

/// Counts for a duty cycle.
pub fn share_counts(share: f32) -> u16 {
    libm::roundf(share * f32::from(PERIOD)) as u16
}

/// Counts for a servo's pulse.
pub fn servo_counts(pulse_us: f64) -> u16 {
    libm::floor(pulse_us * f64::from(PERIOD) / FRAME_US + NEARLY) as u16
}

/// The channels of one Robot HAT.
#[derive(Clone, Debug)]
pub struct HatPulses {
    registers: Registers,
    timers: heapless::Vec<(u8, Timer), { robot_hat::TIMERS as usize }>,
    /// A frame broke off with this fault. The controller would take the next frame's bytes as the rest of it,
    /// and could turn them into a pulse: until the next set-up nothing is written, except by
    /// `stop_at_any_place`.
    torn: Option<DeviceFault>,
    /// Frames that remove the pulse from every drive channel, ready to send.
    stop: heapless::Vec<[u8; 3], { robot_hat::CHANNELS as usize }>,
}

impl HatPulses {
    /// Collects what these motors need from the controller.
    pub fn new<'a>(motors: impl Iterator<Item = &'a MotorKind>, mcu: &McuPlan) -> HatPulses {
        let registers = Registers::new(RobotHat::new(mcu));
        let (timers, stop) = (heapless::Vec::new(), heapless::Vec::new());
        let mut pulses = HatPulses { registers, timers, torn: None, stop };
        for kind in motors {
            if let Some(motor) = DcMotor::of(kind) {
                for channel in motor.channels() {
                    pulses.run_timer(channel, Timer::at(mcu.clock_hz, dc_motor::PWM_HZ));
                    // The list has room for all channels.
                    let _ = pulses.stop.push(robot_hat::frame(pulse_register(channel), 0));
                }
            } else if let Some(motor) = Servo::of(kind) {
                pulses.run_timer(motor.channel, Timer::at(mcu.clock_hz, servo::FRAME_HZ));
            }
        }
        pulses
    }

    /// The board check refuses two frequencies for channels of one timer.
    fn run_timer(&mut self, channel: u8, setting: Timer) {
        let timer = timer_of(channel);
        if self.timers.iter().all(|(known, _)| *known != timer) {
            let _ = self.timers.push((timer, setting)); // has room for all timers
        }
    }

    fn hold(&mut self, register: u8, value: u16, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        let HatPulses { registers, torn, .. } = self;
        in_frames(torn, || registers.hold(register, value, ports.i2c, ports.clock))
    }
}

/// Runs `write`. If an earlier frame broke off, returns its fault instead; if one breaks off now, stores the
/// fault in `torn`.
fn in_frames(
    torn: &mut Option<DeviceFault>,
    write: impl FnOnce() -> Result<(), DeviceFault>,
) -> Result<(), DeviceFault> {
    if let Some(fault) = *torn {
        return Err(fault);
    }
    let written = write();
    *torn = written.err().filter(|fault| fault.needs_reset());
    written
}

impl Pulses for HatPulses {
    /// Resets the controller, stops the drive motors, then starts the timers; takes 220 ms.
    fn set_up(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        self.registers.forget();
        self.registers.hat().reset(ports.gpio, ports.clock)?;
        self.torn = None;
        let HatPulses { registers, timers, torn, stop } = self;
        in_frames(torn, || {
            for frame in stop {
                registers.hold(frame[0], 0, ports.i2c, ports.clock)?;
            }
            for (timer, setting) in timers {
                for (register, value) in timer_registers(*timer).into_iter().zip(setting.register_values()) {
                    registers.hold(register, value, ports.i2c, ports.clock)?;
                }
            }
            Ok(())
        })
    }

    fn drive(&mut self, channel: u8, share: f32, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        self.hold(pulse_register(channel), share_counts(share), ports)
    }

    fn aim(&mut self, channel: u8, pulse_us: f64, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        self.hold(pulse_register(channel), servo_counts(pulse_us), ports)
    }

    fn renew(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        let HatPulses { registers, torn, .. } = self;
        in_frames(torn, || registers.renew(ports.i2c, ports.clock))
    }

    /// Sends frames that were encoded in advance. Servos keep their pulse.
    fn stop(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        let HatPulses { registers, torn, stop, .. } = self;
        let address = registers.hat().address();
        let mut outcome = Ok(());
        for frame in &*stop {
            let register = frame[0];
            registers.doubt(register, 0); // so that the next command writes it again
            outcome = outcome.and(in_frames(torn, || {
                ports.i2c.write(address, frame).map_err(|fault| DeviceFault::Bus { register, fault })
            }));
        }
        outcome
    }

    fn stop_at_any_place(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        self.registers.forget();
        self.registers.hat().write_at_any_place(&self.stop, ports.i2c)
    }

    fn hold(&mut self, ports: &mut Ports<'_>) -> bool {
        self.registers.hat().hold(ports.gpio).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::units::{Degrees, Duty};
    use crate::hardware::device::servo::pulse_us;

    #[test]
    fn servo_counts_match_the_vendors_library() {
        let table = [(-90.0, 102), (-30.0, 238), (0.0, 307), (30.0, 375), (65.0, 455), (90.0, 511)];
        for (angle, expected) in table {
            assert_eq!(servo_counts(pulse_us(Degrees(angle))), expected, "{angle} degrees");
        }
        assert_eq!(servo_counts(pulse_us(Degrees(-1000.0))), 102);
        assert_eq!(servo_counts(pulse_us(Degrees(1000.0))), 511);
    }

    #[test]
    fn the_duty_skips_the_dead_band() {
        let table = [(0.0, 0), (1e-5, 0), (0.01, 2068), (0.5, 3071), (1.0, 4095), (-1.0, 4095), (3.0, 4095)];
        for (duty, expected) in table {
            assert_eq!(share_counts(dc_motor::share(Duty(duty), 0.5)), expected, "duty {duty}");
        }
        assert_eq!(share_counts(dc_motor::share(Duty(f32::NAN), 0.5)), 0);
    }
}
