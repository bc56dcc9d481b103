//! All motors of a board: set-up, execution of a command, stop. This is the same for every chip that makes
//! pulses. Makes no decisions: the limits are applied to a command before it gets here.

use super::dc_motor::DcMotor;
use super::enable::Enabled;
use super::hat_pulses::HatPulses;
use super::pca9685::Pca9685;
use super::pulses::Pulses;
use super::pwm_lines::{Channel, PwmLines};
use super::servo::{self, Servo};
use super::{DeviceFault, Ports};
use crate::base::command::{Command, MAX_MOTORS};
use crate::base::plan::{Board, McuPlan, MotorPlan, PwmPlan};
use crate::base::time::Span;
use crate::base::units::Duty;
use crate::hardware::bus::OpenError;
use crate::hardware::bus::linux::PwmChip;
use std::path::Path;

/// Delay between two servos that start to move: each briefly draws its stall current, and together they pull
/// the 5 V rail down (the vendor's robot.py waits equally long).
const SERVO_PAUSE: Span = Span::from_millis(150);

/// A motor and its index in a command.
#[derive(Clone, Copy, Debug)]
struct Placed<M> {
    place: usize,
    motor: M,
}

/// The motors of a board, on one bus.
pub trait Actuators: Send {
    /// Sets everything up, whatever state the hardware is in: stops the motors before anything else. Bounded;
    /// may take a few hundred milliseconds.
    fn initialise(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault>;
    /// Executes `command`, drive motors first.
    fn write(&mut self, command: &Command, ports: &mut Ports<'_>) -> Result<(), DeviceFault>;
    /// Removes the pulse from every drive motor, whatever its known state: the fastest way to stop.
    fn stop(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault>;
    /// Like [`Actuators::stop`], but after an aborted frame, which shifts all later frames. Works without a
    /// reset line. It does not resynchronise the controller: later frames are still misaligned.
    fn stop_at_any_place(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        self.stop(ports)
    }
    /// Stops the motors by a line alone, whatever the bus does: the controller's reset line, the PWM chip's
    /// output-enable line or the board's enable line. Returns whether a line stopped them; they then stay off
    /// until the next [`Actuators::initialise`]. Motors without such a line, or with one that cannot be set,
    /// keep running.
    fn hold(&mut self, ports: &mut Ports<'_>) -> bool {
        let _ = ports;
        false
    }
}

/// A bus without motors.
pub struct NoActuators;

impl Actuators for NoActuators {
    fn initialise(&mut self, _ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        Ok(())
    }
    fn write(&mut self, _command: &Command, _ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        Ok(())
    }
    fn stop(&mut self, _ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        Ok(())
    }
}

/// Motors and the chip that makes their pulses.
#[derive(Clone, Debug)]
pub struct Motors<P> {
    pulses: P,
    drives: heapless::Vec<Placed<DcMotor>, MAX_MOTORS>,
    servos: heapless::Vec<Placed<Aimed>, MAX_MOTORS>,
}

/// A servo, and its position: the last command written to it, and 0 (straight) before the first one.
#[derive(Clone, Copy, Debug)]
struct Aimed {
    servo: Servo,
    at: f32,
}

/// The motors behind a Robot HAT.
pub type HatActuators = Motors<HatPulses>;

impl Motors<HatPulses> {
    /// The motors of a checked board. Recorded motors have no hardware and are left out.
    pub fn new(motors: &[MotorPlan], mcu: &McuPlan) -> HatActuators {
        Motors::on(motors, HatPulses::new(motors.iter().map(|plan| &plan.kind), mcu))
    }
}

impl<P: Pulses> Motors<P> {
    /// The motors of a checked board, on `pulses`.
    pub fn on(motors: &[MotorPlan], pulses: P) -> Motors<P> {
        let mut all = Motors { pulses, drives: heapless::Vec::new(), servos: heapless::Vec::new() };
        for (place, plan) in motors.iter().enumerate() {
            // Each list has room for as many motors as a command.
            if let Some(motor) = DcMotor::of(&plan.kind) {
                let _ = all.drives.push(Placed { place, motor });
            } else if let Some(motor) = Servo::of(&plan.kind) {
                let _ = all.servos.push(Placed { place, motor: Aimed { servo: motor, at: 0.0 } });
            }
        }
        all
    }
}

impl<P: Pulses> Actuators for Motors<P> {
    /// Sets everything up: stops the drive motors, sets frequencies, then moves servos to their last
    /// position, one after another. The tick's commands continue from there: a servo moved to straight here
    /// would snap back with the next command, past its slew limit. Takes as long as the set-up of the chip
    /// (220 ms on a Robot HAT) plus 150 ms for each servo after the first.
    fn initialise(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        self.drives.iter_mut().for_each(|drive| drive.motor.forget());
        self.pulses.set_up(ports)?;
        for (nth, servo) in self.servos.iter().enumerate() {
            if nth > 0 {
                ports.clock.sleep_until(ports.clock.now() + SERVO_PAUSE);
            }
            let Aimed { servo, at } = servo.motor;
            self.pulses.aim(servo.channel, servo.pulse_us(at), ports)?;
        }
        Ok(())
    }

    /// Executes `command`: first all drive motors, even if one of them fails; then, if none failed, the
    /// servos; then registers that have not been written for a long time. Drive motors that the command does
    /// not cover are stopped, and such servos go to straight. Returns the first fault; the next command
    /// repeats the writes that failed.
    fn write(&mut self, command: &Command, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        let wanted = |place: usize| command.used().get(place).copied().unwrap_or(0.0);
        let mut outcome = Ok(());
        for Placed { place, motor } in &mut self.drives {
            let driven = motor.drive(Duty::clamped(wanted(*place)), &mut self.pulses, ports);
            outcome = outcome.and(driven);
        }
        outcome?;
        for Placed { place, motor: Aimed { servo, at } } in &mut self.servos {
            let to = wanted(*place);
            self.pulses.aim(servo.channel, servo.pulse_us(to), ports)?;
            *at = to;
        }
        self.pulses.renew(ports)
    }

    fn stop(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        self.pulses.stop(ports)
    }

    fn stop_at_any_place(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        self.pulses.stop_at_any_place(ports)
    }

    fn hold(&mut self, ports: &mut Ports<'_>) -> bool {
        self.pulses.hold(ports)
    }
}

/// The motors of `board`, behind its enable line if it has one. `/sys` is looked up in `root`.
pub fn of(board: &Board, root: &Path) -> Result<Box<dyn Actuators>, OpenError> {
    let motors = &board.motors;
    let actuators: Box<dyn Actuators> = match (&board.pwm, &board.mcu) {
        (Some(PwmPlan::Pca9685 { address, hz, output_enable }), _) => {
            Box::new(Motors::on(motors, Pca9685::new(*address, *hz, *output_enable)))
        }
        (Some(PwmPlan::Sysfs { device, hz }), _) => {
            let chip = PwmChip::open(root, device)?;
            Box::new(Motors::on(motors, pwm_lines(motors, &chip, f64::from(*hz))?))
        }
        (None, Some(mcu)) => Box::new(HatActuators::new(motors, mcu)),
        (None, None) => Box::new(NoActuators),
    };
    Ok(match board.enable {
        Some(plan) => Box::new(Enabled::new(actuators, plan.line, plan.on_high)),
        None => actuators,
    })
}

/// Opens the channels that these motors need.
fn pwm_lines(motors: &[MotorPlan], chip: &PwmChip, hz: f64) -> Result<PwmLines, OpenError> {
    let mut lines = PwmLines::new();
    let mut add = |number: u8, drives: bool| {
        let period = Span::from_secs_f64(1.0 / if drives { hz } else { servo::FRAME_HZ });
        let output = chip.channel(number.into(), period.as_nanos())?;
        lines.add(Channel::new(number, drives, period, Box::new(output)));
        Ok(())
    };
    for plan in motors {
        if let Some(motor) = DcMotor::of(&plan.kind) {
            motor.channels().iter().try_for_each(|channel| add(*channel, true))?;
        } else if let Some(motor) = Servo::of(&plan.kind) {
            add(motor.channel, false)?;
        }
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::fault::BusFault;
    use crate::base::plan::{Line, MotorKind};
    use crate::base::time::{Clock, Instant, SimClock};
    use crate::hardware::bus::fake::{FakeGpio, FakeI2c};
    use std::sync::Arc;

    const MCU: McuPlan =
        McuPlan { address: 0x14, others: [None; 3], clock_hz: 72_000_000, timers: 4, reset: Line(5) };

    fn motor(name: &str, kind: MotorKind) -> MotorPlan {
        MotorPlan { name: name.into(), kind, limit: 1.0, slew_per_s: 4.0 }
    }

    fn steering() -> MotorKind {
        MotorKind::Servo { pwm: 2, min_deg: -30.0, max_deg: 30.0, offset_deg: 0.0, mirrored: false }
    }

    fn v4() -> Vec<MotorPlan> {
        let dc = |pwm, dir, mirrored| MotorKind::DcDir { pwm, dir: Line(dir), mirrored, min_duty: 0.5 };
        vec![
            motor("steering", steering()),
            motor("left", dc(13, 23, false)),
            motor(
                "pan",
                MotorKind::Servo { pwm: 0, min_deg: -90.0, max_deg: 90.0, offset_deg: 0.0, mirrored: true },
            ),
            motor("right", dc(12, 24, true)),
            motor("log", MotorKind::Recorded { drive: true }),
        ]
    }

    struct Rig {
        clock: Arc<SimClock>,
        i2c: FakeI2c,
        gpio: FakeGpio,
        actuators: HatActuators,
    }

    impl Rig {
        fn new() -> Rig {
            let clock = Arc::new(SimClock::new());
            let gpio = FakeGpio::new(clock.clone());
            Rig { clock, i2c: FakeI2c::recording(), gpio, actuators: HatActuators::new(&v4(), &MCU) }
        }
        fn ready() -> Rig {
            let mut rig = Rig::new();
            rig.initialise();
            rig.i2c.take_written();
            rig
        }
        fn initialise(&mut self) {
            let clock = self.clock.clone();
            let mut ports = Ports { i2c: &mut self.i2c, gpio: &mut self.gpio, clock: clock.as_ref() };
            self.actuators.initialise(&mut ports).unwrap();
        }
        fn write(&mut self, motors: &[f32]) -> Result<(), DeviceFault> {
            let mut command = Command::still(motors.len());
            command.motors[..motors.len()].copy_from_slice(motors);
            let clock = self.clock.clone();
            let mut ports = Ports { i2c: &mut self.i2c, gpio: &mut self.gpio, clock: clock.as_ref() };
            self.actuators.write(&command, &mut ports)
        }
    }

    #[test]
    fn set_up_stops_motors_first_and_centres_servos_one_by_one() {
        let mut rig = Rig::new();
        rig.initialise();
        let expected: Vec<Vec<u8>> = vec![
            vec![0x2D, 0, 0],
            vec![0x2C, 0, 0],
            vec![0x40, 0x01, 0x5F],
            vec![0x44, 0x0F, 0xFF],
            vec![0x43, 0x00, 0x09],
            vec![0x47, 0x0F, 0xFF],
            vec![0x22, 0x01, 0x33], // 307: steering straight
            vec![0x20, 0x01, 0x33],
        ];
        assert_eq!(rig.i2c.take_written(), expected);
        assert_eq!(rig.clock.now(), Instant::ZERO + Span::from_millis(220 + 150));
    }

    #[test]
    fn a_command_writes_drives_first_and_only_what_changed() {
        let mut rig = Rig::ready();
        rig.write(&[1.0, 1.0, 0.0, 0.2, 0.7]).unwrap();
        let full = vec![0x2D, 0x0F, 0xFF];
        let written = rig.i2c.take_written();
        assert_eq!(written[0], full);
        assert_eq!(written[1][0], 0x2C);
        assert_eq!(written[2], [0x22, 0x01, 0x77]); // 375: 30 degrees to the right
        assert_eq!(written.len(), 3);
        rig.write(&[1.0, 1.0, 0.0, 0.2, 0.7]).unwrap();
        assert!(rig.i2c.take_written().is_empty());
        rig.write(&[1.0, 0.0, 0.0, 0.2, 0.7]).unwrap();
        assert_eq!(rig.i2c.take_written(), [[0x2D, 0, 0]]);
    }

    #[test]
    fn controller_reset_during_a_run_restores_servo_positions() {
        let mut rig = Rig::ready();
        rig.write(&[0.8, 0.0, -0.5, 0.0]).unwrap();
        let servo = |written: &[Vec<u8>], register: u8| {
            written.iter().rfind(|frame| frame[0] == register).map(|frame| frame[1..].to_vec())
        };
        let written = rig.i2c.take_written();
        let told = [0x22, 0x20].map(|register| servo(&written, register));
        assert!(told.iter().all(Option::is_some));
        rig.initialise();
        let written = rig.i2c.take_written();
        assert_eq!([0x22, 0x20].map(|register| servo(&written, register)), told, "as before the reset");
        // A failed write does not change the known position.
        rig.i2c = FakeI2c::new().fault(0x14, BusFault::Nack);
        assert!(rig.write(&[-0.8, 0.0, -0.5, 0.0]).is_err());
        rig.i2c = FakeI2c::recording();
        rig.initialise();
        let written = rig.i2c.take_written();
        assert_eq!([0x22, 0x20].map(|register| servo(&written, register)), told);
        rig.write(&[0.8, 0.0, -0.5, 0.0]).unwrap();
        assert!(rig.i2c.take_written().is_empty(), "the next command must not move a servo");
    }

    #[test]
    fn held_reset_line_stops_the_controller_until_its_set_up() {
        let mut rig = Rig::ready();
        let clock = rig.clock.clone();
        let mut silent = FakeI2c::new(); // any transfer fails the test
        let mut ports = Ports { i2c: &mut silent, gpio: &mut rig.gpio, clock: clock.as_ref() };
        assert!(rig.actuators.hold(&mut ports));
        let reset = |gpio: &FakeGpio| gpio.sets.iter().rfind(|set| set.line == Line(5)).map(|set| set.high);
        assert_eq!(reset(&rig.gpio), Some(false));
        rig.initialise();
        assert_eq!(reset(&rig.gpio), Some(true));
        rig.gpio = FakeGpio::new(clock.clone()).broken(Line(5), BusFault::TimedOut);
        let mut ports = Ports { i2c: &mut silent, gpio: &mut rig.gpio, clock: clock.as_ref() };
        assert!(!rig.actuators.hold(&mut ports), "a line that cannot be set stops nothing");
    }

    #[test]
    fn all_registers_are_rewritten_within_half_a_second() {
        let mut rig = Rig::ready();
        let start = rig.clock.now();
        let mut seen = Vec::new();
        for tick in 1..=50 {
            rig.clock.sleep_until(start + Span::from_millis(10).times(tick));
            rig.write(&[0.0; 5]).unwrap();
            seen.extend(rig.i2c.take_written().into_iter().map(|bytes| bytes[0]));
        }
        seen.sort_unstable();
        assert!(seen.len() <= 20, "at most one write in 25 ms: {seen:02x?}");
        seen.dedup();
        assert_eq!(seen, [0x20, 0x22, 0x2C, 0x2D, 0x40, 0x43, 0x44, 0x47]);
    }

    #[test]
    fn stopping_tries_every_motor_and_the_next_command_rewrites_it() {
        let mut rig = Rig::ready();
        rig.write(&[0.0, 1.0, 0.0, 1.0, 0.0]).unwrap();
        let mut broken = FakeI2c::new().fault(0x14, BusFault::Nack).write(0x14, &[0x2C, 0, 0]);
        let mut ports = Ports { i2c: &mut broken, gpio: &mut rig.gpio, clock: rig.clock.as_ref() };
        let fault = rig.actuators.stop(&mut ports).unwrap_err();
        assert_eq!(fault, DeviceFault::Bus { register: 0x2D, fault: BusFault::Nack });
        rig.i2c.take_written();
        rig.write(&[0.0, 1.0, 0.0, 1.0, 0.0]).unwrap();
        assert_eq!(rig.i2c.take_written(), [[0x2D, 0x0F, 0xFF], [0x2C, 0x0F, 0xFF]]);
    }

    #[test]
    fn after_a_torn_frame_nothing_is_written_until_a_set_up() {
        // Only one byte of the frame may have arrived: the controller would take the first two bytes of the
        // next frame as the value of this one, a pulse of any length.
        for torn in [BusFault::TimedOut, BusFault::Io, BusFault::ArbitrationLost] {
            let fault = Err(DeviceFault::Bus { register: 0x2D, fault: torn });
            for stops in [true, false] {
                let mut rig = Rig::ready();
                rig.write(&[0.0, 1.0, 0.0, 1.0, 0.0]).unwrap();
                rig.i2c = FakeI2c::new().fault(0x14, torn); // any further transfer fails the test
                let clock = rig.clock.clone();
                for _ in 0..2 {
                    let mut ports = Ports { i2c: &mut rig.i2c, gpio: &mut rig.gpio, clock: clock.as_ref() };
                    let done = if stops { rig.actuators.stop(&mut ports) } else { rig.write(&[0.0; 5]) };
                    assert_eq!(done, fault, "{torn:?}, stops: {stops}");
                }
                rig.i2c = FakeI2c::recording();
                rig.initialise();
                rig.i2c.take_written();
                rig.write(&[0.0, 1.0, 0.0, 1.0, 0.0]).unwrap();
                assert_eq!(rig.i2c.take_written(), [[0x2D, 0x0F, 0xFF], [0x2C, 0x0F, 0xFF]]);
            }
        }
    }

    #[test]
    fn failing_motor_does_not_keep_the_other_from_its_command() {
        let mut rig = Rig::ready();
        rig.write(&[0.0, 1.0, 0.0, 1.0, 0.0]).unwrap();
        rig.i2c = FakeI2c::new().fault(0x14, BusFault::Nack).write(0x14, &[0x2C, 0, 0]);
        assert!(rig.write(&[0.0; 5]).is_err());
    }

    #[test]
    fn a_short_command_and_nan_leave_motors_still() {
        let mut rig = Rig::ready();
        rig.write(&[0.0, 1.0, 0.0, 1.0, 0.0]).unwrap();
        rig.i2c.take_written();
        rig.write(&[f32::NAN, f32::NAN]).unwrap();
        assert_eq!(rig.i2c.take_written(), [[0x2D, 0, 0], [0x2C, 0, 0]]);
    }

    #[test]
    fn a_v5_stops_both_channels_of_every_pair() {
        let pair = |forward, backward| MotorKind::DcPair { forward, backward, min_duty: 0.5 };
        let motors = [motor("left", pair(13, 12)), motor("right", pair(14, 15)), motor("aux", pair(18, 19))];
        let plan = McuPlan { timers: 7, ..MCU };
        let mut actuators = HatActuators::new(&motors, &plan);
        let mut i2c = FakeI2c::recording();
        let clock = Arc::new(SimClock::new());
        let mut gpio = FakeGpio::new(clock.clone());
        actuators.stop(&mut Ports { i2c: &mut i2c, gpio: &mut gpio, clock: clock.as_ref() }).unwrap();
        let registers: Vec<u8> = i2c.take_written().iter().map(|bytes| bytes[0]).collect();
        assert_eq!(registers, [0x2D, 0x2C, 0x2E, 0x2F, 0x32, 0x33]);
        actuators.initialise(&mut Ports { i2c: &mut i2c, gpio: &mut gpio, clock: clock.as_ref() }).unwrap();
        let timers: Vec<u8> = i2c.take_written()[6..].iter().map(|bytes| bytes[0]).collect();
        assert_eq!(timers, [0x43, 0x47, 0x51, 0x55, 0x52, 0x56]);
    }
}
