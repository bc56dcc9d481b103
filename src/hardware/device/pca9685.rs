//! PCA9685: sixteen pulse channels with one frequency (NXP PCA9685, data sheet rev. 4). One transfer of five
//! bytes writes a channel, and one of two bytes stops all channels.
//!
//! The chip keeps making its pulses when the host dies, and resumes them when it wakes from sleep, so
//! everything is switched off before the oscillator runs. A chip that lost its supply comes back asleep with
//! every channel off; MODE1 shows this, and is read from time to time. The output-enable input, if wired,
//! keeps the outputs off from the start of a set-up to its end, and from a stop to the end of the next
//! command.

use super::pulses::{Pulses, SILENT_FOR};
use super::registers::{RENEW_AT_ONCE, RENEW_FROM};
use super::{DeviceFault, Ports};
use crate::base::plan::Line;
use crate::base::time::{Instant, Span};

/// Number of channels.
pub const CHANNELS: usize = 16;
const MODE1: u8 = 0x00;
const MODE2: u8 = 0x01;
const PRE_SCALE: u8 = 0xFE;
/// First of the four registers of channel 0: on, off, each least significant byte first (7.3.3).
const FIRST: u8 = 0x06;
/// The "off" registers of all channels at once (7.3.4), and the bit of the high byte that means permanently
/// off.
const ALL_OFF_L: u8 = 0xFC;
const ALL_OFF_H: u8 = 0xFD;
const FULL: u8 = 0x10;
/// MODE1 (7.3.1): register numbers auto-increment, the oscillator is off, the chip responds to [`ALL_CALL`].
const AUTO_INCREMENT: u8 = 1 << 5;
const SLEEP: u8 = 1 << 4;
const ALL_CALL_ON: u8 = 1 << 0;
/// MODE2 (7.3.2): outputs are totem-pole (bit 2), change on STOP (bit 3), are low while disabled (bits 1-0).
const TOTEM_POLE: u8 = 1 << 2;
/// The address that all chips respond to after a reset (7.1.2): no chip may have it as its own.
const ALL_CALL: u8 = 0x70;
/// Removes the pulse from all channels, ready to send.
const STOP: [u8; 2] = [ALL_OFF_H, FULL];
/// MODE1 after the set-up: register numbers auto-increment, the oscillator runs, the chip responds only to
/// its own address.
const AWAKE: u8 = AUTO_INCREMENT;

/// Counts in one period.
const PERIOD: f64 = 4096.0;
/// Frequency of the internal oscillator (7.3.5).
const OSCILLATOR_HZ: f64 = 25e6;
/// Time from waking to a stable oscillator (7.3.1, SLEEP).
const STEADY: Span = Span::from_micros(500);
/// How often to check whether the chip is still awake.
const LOOK_EVERY: Span = Span::from_millis(200);

/// The prescaler value (divider minus one) whose frequency is nearest to `hz`.
pub fn prescale(hz: f32) -> u8 {
    let divider = libm::round(OSCILLATOR_HZ / (PERIOD * f64::from(hz))) - 1.0;
    divider.clamp(3.0, 255.0) as u8
}

/// Counts for a pulse of this many microseconds.
pub fn pulse_counts(pulse_us: f64, prescale: u8) -> u16 {
    let counts = pulse_us * OSCILLATOR_HZ / 1e6 / (f64::from(prescale) + 1.0);
    libm::round(counts).clamp(0.0, PERIOD - 1.0) as u16
}

/// The transfer that makes `channel` high for this many counts of 4096.
pub fn frame(channel: u8, counts: u16) -> [u8; 5] {
    let register = FIRST + 4 * channel;
    let [low, high] = counts.to_le_bytes();
    match counts {
        0 => [register, 0, 0, 0, FULL],
        4096.. => [register, 0, FULL, 0, 0],
        _ => [register, 0, 0, low, high],
    }
}

#[derive(Clone, Copy, Debug)]
struct Held {
    counts: u16,
    /// When it was written; `None`: the chip's value is unknown.
    since: Option<Instant>,
}

/// One chip.
#[derive(Clone, Debug)]
pub struct Pca9685 {
    address: u8,
    prescale: u8,
    output_enable: Option<Line>,
    outputs_on: bool,
    /// The chip is not set up or was found asleep, so channel writes would have no effect.
    asleep: bool,
    looked: Instant,
    /// When the chip last acknowledged a channel write.
    answered: Instant,
    channels: [Option<Held>; CHANNELS],
}

impl Pca9685 {
    /// The chip at `address`, with pulses of `hz` (24 to 1526).
    pub fn new(address: u8, hz: f32, output_enable: Option<Line>) -> Pca9685 {
        Pca9685 {
            address,
            prescale: prescale(hz),
            output_enable,
            outputs_on: false,
            asleep: true,
            looked: Instant::ZERO,
            answered: Instant::ZERO,
            channels: [None; CHANNELS],
        }
    }

    fn switch(&mut self, on: bool, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        self.outputs_on = false; // until the line is set
        if let Some(line) = self.output_enable {
            // Active low.
            ports.gpio.set(line, !on).map_err(|fault| DeviceFault::Line { line, fault })?;
        }
        self.outputs_on = on;
        Ok(())
    }

    fn write(&self, bytes: &[u8], ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        let register = bytes[0];
        ports.i2c.write(self.address, bytes).map_err(|fault| DeviceFault::Bus { register, fault })
    }

    fn read(&self, register: u8, ports: &mut Ports<'_>) -> Result<u8, DeviceFault> {
        let mut answer = [0];
        ports
            .i2c
            .write_read(self.address, &[register], &mut answer)
            .map_err(|fault| DeviceFault::Bus { register, fault })?;
        Ok(answer[0])
    }

    fn configure(&self, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        if self.address == ALL_CALL {
            return Err(DeviceFault::Impossible { register: MODE1 });
        }
        let settings = [
            [MODE1, SLEEP | ALL_CALL_ON], // the prescaler can only be written during sleep (7.3.5)
            [PRE_SCALE, self.prescale],
            [MODE2, TOTEM_POLE], // three times, as in every earlier release
            [MODE2, TOTEM_POLE],
            [MODE2, TOTEM_POLE],
            [MODE1, SLEEP],
            [MODE1, 0], // awake
        ];
        settings.iter().try_for_each(|setting| self.write(setting, ports))?;
        ports.clock.sleep_until(ports.clock.now() + STEADY);
        self.write(&[MODE1, AWAKE], ports)?;
        self.write(&[ALL_OFF_L, 0, FULL], ports)
    }

    fn hold(&mut self, channel: u8, counts: u16, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        if self.asleep {
            return Err(DeviceFault::Asleep { register: MODE1 });
        }
        let Some(slot) = self.channels.get(usize::from(channel)) else {
            return Err(DeviceFault::Impossible { register: FIRST });
        };
        match slot {
            Some(Held { counts: held, since: Some(_) }) if *held == counts => Ok(()),
            _ => self.put(channel, counts, ports),
        }
    }

    fn put(&mut self, channel: u8, counts: u16, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        let place = usize::from(channel);
        self.channels[place] = Some(Held { counts, since: None });
        self.write(&frame(channel, counts), ports)?;
        self.answered = ports.clock.now();
        self.channels[place] = Some(Held { counts, since: Some(self.answered) });
        Ok(())
    }

    /// Checks, at most once every [`LOOK_EVERY`], whether the chip is still awake with its settings.
    fn look(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        let now = ports.clock.now();
        if now.since(self.looked) < LOOK_EVERY {
            return Ok(());
        }
        self.asleep = self.read(MODE1, ports)? != AWAKE;
        self.looked = now;
        if self.asleep { Err(DeviceFault::Asleep { register: MODE1 }) } else { Ok(()) }
    }

    fn oldest(&self) -> Option<(u8, Held)> {
        let held = (0..).zip(&self.channels).filter_map(|(channel, held)| Some((channel, (*held)?)));
        held.min_by_key(|(_, held)| held.since)
    }
}

impl Pulses for Pca9685 {
    /// Switches everything off, puts the chip to sleep, sets its frequency and outputs, and wakes it. Takes
    /// 0.5 ms besides the transfers.
    fn set_up(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        self.asleep = true;
        self.channels = [None; CHANNELS];
        self.switch(false, ports)?;
        self.write(&STOP, ports)?;
        self.configure(ports)?;
        let found = self.read(MODE1, ports)?;
        if found != AWAKE {
            return Err(DeviceFault::WrongDevice { register: MODE1, found });
        }
        let found = self.read(PRE_SCALE, ports)?;
        if found != self.prescale {
            return Err(DeviceFault::WrongDevice { register: PRE_SCALE, found });
        }
        (self.asleep, self.looked) = (false, ports.clock.now());
        self.switch(true, ports)
    }

    fn drive(&mut self, channel: u8, share: f32, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        let counts = libm::round(f64::from(share.clamp(0.0, 1.0)) * PERIOD) as u16;
        self.hold(channel, counts, ports)
    }

    fn aim(&mut self, channel: u8, pulse_us: f64, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        self.hold(channel, pulse_counts(pulse_us, self.prescale), ports)
    }

    fn renew(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        self.look(ports)?;
        for _ in 0..RENEW_AT_ONCE {
            let now = ports.clock.now();
            let Some((channel, held)) = self.oldest() else { break };
            let young = held.since.is_some_and(|since| now.since(since) < RENEW_FROM);
            if young && now.since(self.answered) < SILENT_FOR {
                break;
            }
            self.put(channel, held.counts, ports)?;
        }
        if self.outputs_on { Ok(()) } else { self.switch(true, ports) }
    }

    /// Stops all channels, including servos, with one transfer. The next command sets the servos again.
    fn stop(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        let switched = self.output_enable.map_or(Ok(()), |_| self.switch(false, ports));
        let written = self.write(&STOP, ports);
        for held in self.channels.iter_mut().flatten() {
            *held = Held { counts: 0, since: None };
        }
        written.and(switched)
    }

    fn hold(&mut self, ports: &mut Ports<'_>) -> bool {
        self.output_enable.is_some() && self.switch(false, ports).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::command::Command;
    use crate::base::fault::BusFault;
    use crate::base::plan::{MotorKind, MotorPlan};
    use crate::hardware::bus::fake::FakeI2c;
    use crate::hardware::device::actuators::{Actuators, Motors};
    use crate::hardware::device::bench::Bench;

    const OE: Line = Line(17);

    fn rig() -> Motors<Pca9685> {
        let plan = |kind| MotorPlan { name: "m".into(), kind, limit: 1.0, slew_per_s: 4.0 };
        let motors = [
            plan(MotorKind::DcPair { forward: 4, backward: 5, min_duty: 0.5 }),
            plan(MotorKind::Servo {
                pwm: 0,
                min_deg: -30.0,
                max_deg: 30.0,
                offset_deg: 0.0,
                mirrored: false,
            }),
        ];
        Motors::on(&motors, Pca9685::new(0x41, 50.0, Some(OE)))
    }

    /// The writes of a set-up for 50 Hz, one transfer each.
    const SET_UP: [&[u8]; 10] = [
        &[0xFD, 0x10],
        &[0x00, 0x11], // asleep
        &[0xFE, 121],
        &[0x01, 0x04], // totem pole
        &[0x01, 0x04], // disabled outputs are low
        &[0x01, 0x04], // outputs change on STOP
        &[0x00, 0x10], // no all-call
        &[0x00, 0x00], // awake
        &[0x00, 0x20],
        &[0xFC, 0x00, 0x10],
    ];

    fn setting_up() -> FakeI2c {
        SET_UP.iter().fold(FakeI2c::new(), |i2c, bytes| i2c.write(0x41, bytes))
    }

    fn initialise(
        bench: &mut Bench,
        motors: &mut Motors<Pca9685>,
        i2c: &mut FakeI2c,
    ) -> Result<(), DeviceFault> {
        motors.initialise(&mut Ports { i2c, gpio: &mut bench.gpio, clock: bench.clock.as_ref() })
    }

    fn write(
        bench: &mut Bench,
        motors: &mut Motors<Pca9685>,
        requests: [f32; 2],
        i2c: &mut FakeI2c,
    ) -> Result<(), DeviceFault> {
        let mut command = Command::still(2);
        command.motors[..2].copy_from_slice(&requests);
        motors.write(&command, &mut Ports { i2c, gpio: &mut bench.gpio, clock: bench.clock.as_ref() })
    }

    fn ready() -> (Bench, Motors<Pca9685>) {
        let (mut bench, mut motors) = (Bench::new(), rig());
        let mut i2c = setting_up()
            .write_read(0x41, &[0x00], &[0x20])
            .write_read(0x41, &[0xFE], &[121])
            .write(0x41, &[0x06, 0, 0, 0x33, 0x01]); // 307 of 4096: 1.5 ms of 20 ms
        initialise(&mut bench, &mut motors, &mut i2c).unwrap();
        (bench, motors)
    }

    #[test]
    fn prescale_and_counts_match_the_data_sheet() {
        // The worked example of the data sheet: 200 Hz needs a prescaler of 30 (0x1E), which is also the
        // power-on value.
        assert_eq!([prescale(200.0), prescale(50.0), prescale(1526.0), prescale(24.0)], [30, 121, 3, 253]);
        assert_eq!(
            [pulse_counts(1500.0, 121), pulse_counts(500.0, 121), pulse_counts(1e9, 121)],
            [307, 102, 4095]
        );
        assert_eq!(frame(0, 0), [0x06, 0, 0, 0, 0x10]);
        assert_eq!(frame(15, 4096), [0x42, 0, 0x10, 0, 0]);
        assert_eq!(frame(1, 0x0ABC), [0x0A, 0, 0, 0xBC, 0x0A]);
    }

    #[test]
    fn outputs_come_on_only_when_all_off_at_the_right_frequency() {
        let (bench, _) = ready();
        let sets: Vec<_> = bench.gpio.sets.iter().map(|set| (set.line, set.high)).collect();
        assert_eq!(sets, [(OE, true), (OE, false)]);
        for (mode1, prescale, register, found) in [(0x11, 121, MODE1, 0x11), (0x20, 30, PRE_SCALE, 30)] {
            let mut i2c = setting_up().write_read(0x41, &[0x00], &[mode1]);
            if register == PRE_SCALE {
                i2c = i2c.write_read(0x41, &[0xFE], &[prescale]);
            }
            let mut bench = Bench::new();
            let outcome = initialise(&mut bench, &mut rig(), &mut i2c);
            assert_eq!(outcome, Err(DeviceFault::WrongDevice { register, found }));
            assert!(bench.gpio.sets.iter().all(|set| set.high), "outputs must stay off");
        }
    }

    #[test]
    fn a_fault_at_any_transfer_ends_the_set_up_with_outputs_off() {
        for (count, bytes) in SET_UP.iter().enumerate() {
            let so_far = SET_UP[..count].iter().fold(FakeI2c::new(), |i2c, bytes| i2c.write(0x41, bytes));
            let mut bench = Bench::new();
            let outcome = initialise(&mut bench, &mut rig(), &mut so_far.fault(0x41, BusFault::Nack));
            let nack = DeviceFault::Bus { register: bytes[0], fault: BusFault::Nack };
            assert_eq!(outcome, Err(nack), "after {count} transfers");
            assert!(bench.gpio.sets.iter().all(|set| set.high), "outputs must stay off");
        }
    }

    #[test]
    fn set_up_waits_for_the_oscillator_only() {
        let (bench, _) = ready();
        assert_eq!(bench.now(), Instant::ZERO + Span::from_micros(500));
    }

    #[test]
    fn the_ends_of_the_frequency_range_are_written_unchanged() {
        for (hz, divider) in [(24.0, 253), (1526.0, 3)] {
            let mut chip = Pca9685::new(0x41, hz, None);
            let mut i2c = SET_UP.iter().fold(FakeI2c::new(), |i2c, bytes| match bytes {
                [0xFE, _] => i2c.write(0x41, &[0xFE, divider]),
                bytes => i2c.write(0x41, bytes),
            });
            i2c = i2c.write_read(0x41, &[0x00], &[0x20]).write_read(0x41, &[0xFE], &[divider]);
            let mut bench = Bench::new();
            let mut ports = Ports { i2c: &mut i2c, gpio: &mut bench.gpio, clock: bench.clock.as_ref() };
            assert_eq!(chip.set_up(&mut ports), Ok(()), "{hz} Hz");
        }
    }

    #[test]
    fn the_all_call_address_is_not_a_chip() {
        let mut chip = Pca9685::new(0x70, 50.0, None);
        let mut i2c = FakeI2c::new().write(0x70, &[0xFD, 0x10]);
        let mut bench = Bench::new();
        let mut ports = Ports { i2c: &mut i2c, gpio: &mut bench.gpio, clock: bench.clock.as_ref() };
        assert_eq!(chip.set_up(&mut ports), Err(DeviceFault::Impossible { register: MODE1 }));
    }

    #[test]
    fn a_command_takes_a_transfer_per_channel_and_a_stop_only_one() {
        let (mut bench, mut motors) = ready();
        let mut i2c = FakeI2c::new()
            .write(0x41, &[0x1A, 0, 0, 0, 0x10]) // backward is off
            .write(0x41, &[0x16, 0, 0x10, 0, 0]) // forward: on all the time
            .write(0x41, &[0x06, 0, 0, 0x78, 0x01]); // 30 degrees: 1833 us are 376 counts
        write(&mut bench, &mut motors, [1.0, 1.0], &mut i2c).unwrap();
        write(&mut bench, &mut motors, [1.0, 1.0], &mut FakeI2c::new()).unwrap();
    }

    #[test]
    fn after_a_stop_outputs_come_back_with_the_next_whole_command() {
        let (mut bench, mut motors) = ready();
        let mut recorded = FakeI2c::recording();
        write(&mut bench, &mut motors, [1.0, 0.0], &mut recorded).unwrap();
        recorded.take_written();
        bench.gpio.sets.clear();
        let clock = bench.clock.clone();
        motors.stop(&mut Ports { i2c: &mut recorded, gpio: &mut bench.gpio, clock: clock.as_ref() }).unwrap();
        assert_eq!(recorded.take_written(), [[0xFD, 0x10]]);
        assert!(bench.gpio.sets.iter().map(|set| set.high).eq([true]));
        let mut broken = FakeI2c::new().write(0x41, &[0x16, 0, 0, 0, 0x10]).fault(0x41, BusFault::Nack);
        assert!(write(&mut bench, &mut motors, [0.0, 0.0], &mut broken).is_err());
        assert_eq!(bench.gpio.sets.len(), 1, "outputs stay off until all channels are written");
        write(&mut bench, &mut motors, [0.0, 0.0], &mut recorded).unwrap();
        let written: Vec<u8> = recorded.take_written().iter().map(|bytes| bytes[0]).collect();
        assert_eq!(written, [0x1A, 0x06], "the servo is set again");
        assert!(bench.gpio.sets.iter().map(|set| set.high).eq([true, false]));
    }

    #[test]
    fn after_a_power_loss_nothing_counts_until_set_up() {
        let (mut bench, mut motors) = ready();
        write(&mut bench, &mut motors, [0.0, 0.0], &mut FakeI2c::recording()).unwrap();
        bench.wait(LOOK_EVERY);
        let asleep = Err(DeviceFault::Asleep { register: MODE1 });
        let mut i2c = FakeI2c::new().write_read(0x41, &[0x00], &[0x11]);
        assert_eq!(write(&mut bench, &mut motors, [0.0, 0.0], &mut i2c), asleep);
        assert_eq!(write(&mut bench, &mut motors, [1.0, 0.0], &mut FakeI2c::new()), asleep);
    }

    #[test]
    fn a_returning_chip_gets_its_oldest_channel_first() {
        let (mut bench, mut motors) = ready();
        write(&mut bench, &mut motors, [0.0, 0.0], &mut FakeI2c::recording()).unwrap();
        for (silent_ms, written) in
            [(24, None), (1, Some(0x06)), (24, None), (1, Some(0x16)), (25, Some(0x1A))]
        {
            bench.wait(Span::from_millis(silent_ms));
            let mut i2c = FakeI2c::recording();
            write(&mut bench, &mut motors, [0.0, 0.0], &mut i2c).unwrap();
            assert_eq!(i2c.take_written().first().map(|bytes| bytes[0]), written);
        }
    }

    #[test]
    fn old_channels_are_rewritten_two_at_a_time() {
        let (mut bench, mut motors) = ready();
        write(&mut bench, &mut motors, [0.0, 0.0], &mut FakeI2c::recording()).unwrap();
        bench.wait(RENEW_FROM);
        let mut i2c = FakeI2c::new()
            .write_read(0x41, &[0x00], &[0x20])
            .write(0x41, &[0x06, 0, 0, 0x33, 0x01])
            .write(0x41, &[0x16, 0, 0, 0, 0x10]);
        write(&mut bench, &mut motors, [0.0, 0.0], &mut i2c).unwrap();
    }
}
