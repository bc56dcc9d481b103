//! VL53L0X time-of-flight ranger: metres. The vl53l0x crate sets it up (calibration, tuning, continuous
//! ranging); this file reads the ranges, because the crate does not read the status that comes with each.
//!
//! With each range, the chip reports a status (ST UM2039 and its API, `VL53L0X_get_pal_range_status`). A
//! range is valid only with status "complete". "Nothing in range" is returned as [`FARTHEST`] only if the
//! phase check fails *and* the range is the chip's own code for "no target". A weak signal, a wrapped target
//! or a hardware fault never looks like free space.
//!
//! After power-on, all chips on one bus answer at 0x29; the set-up gives each chip its own address. If its
//! shut-down line is wired, the chip is shut down first. Meanwhile, the lines of the other chips must keep
//! these shut down until their own set-up (the initial level of the lines is low).

use super::adapter::Adapter;
use super::polled::Report;
use super::{DeviceFault, Polled, Ports, Say};
use crate::base::fault::BusFault;
use crate::base::plan::{Line, VL53L0X_FARTHEST_M};
use crate::base::time::{Instant, Span};
use crate::base::units::Metres;
use crate::hardware::bus::I2c;
use std::cell::Cell;
use vl53l0x::{Error, VL53L0x as Driver};

/// The chip's address after power-on.
pub const FIRST_ADDRESS: u8 = 0x29;
/// Returned when nothing is in range, and for anything farther: a bright target may be detected beyond this
/// distance, a dark one may not, so a program must not rely on more.
pub const FARTHEST: Metres = Metres(VL53L0X_FARTHEST_M);

const IDENTITY: u8 = 0xC0;
const ADDRESS: u8 = 0x8A;
const INTERRUPT_CLEAR: u8 = 0x0B;
/// Interrupt status, followed by the range status and, ten bytes on, the range in millimetres.
const RESULT: u8 = 0x13;
const RESULT_BYTES: usize = 13;
/// A range of at least this many millimetres is the chip's code for "no target".
const NO_TARGET_MM: u16 = 8190;

/// Duration of the shut-down; the data sheet states no minimum.
const SHUT_DOWN: Span = Span::from_millis(1);
/// Wait for the boot, which takes at most 1.2 ms.
const BOOT: Span = Span::from_millis(2);
/// The set-up takes about 100 transfers and two calibrations of some milliseconds: 60 ms at 100 kHz. The
/// driver's own time limits are tens of seconds. This limit is for a set-up in one go; a set-up in steps has
/// the journal's limit.
const TIMEOUT: Span = Span::from_millis(250);
/// One range takes 33 ms. A chip that returns none for this long is not ranging: it lost its settings.
const RANGES_WITHIN: Span = Span::from_millis(250);

/// One chip.
#[derive(Clone, Copy, Debug)]
pub struct Vl53l0x {
    address: u8,
    shutdown: Option<Line>,
    /// When it last returned a range, or was set up.
    ranged: Instant,
}

impl Vl53l0x {
    /// The chip that must answer at `address`; `shutdown`: its XSHUT input, if wired.
    pub fn new(address: u8, shutdown: Option<Line>) -> Vl53l0x {
        Vl53l0x { address, shutdown, ranged: Instant::ZERO }
    }

    fn power_cycle(&self, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        let Some(line) = self.shutdown else { return Ok(()) };
        let fault = |fault| DeviceFault::Line { line, fault };
        ports.gpio.set(line, false).map_err(fault)?;
        ports.clock.sleep_until(ports.clock.now() + SHUT_DOWN);
        ports.gpio.set(line, true).map_err(fault)?;
        ports.clock.sleep_until(ports.clock.now() + BOOT);
        Ok(())
    }

    /// Makes the chip answer at its address. Without a shut-down line, it may already do so.
    fn take_address(&self, i2c: &mut dyn I2c) -> Result<(), DeviceFault> {
        if self.address == FIRST_ADDRESS {
            return Ok(());
        }
        let mut identity = [0];
        if self.shutdown.is_none() {
            match i2c.write_read(self.address, &[IDENTITY], &mut identity) {
                Ok(()) => return Ok(()),
                Err(BusFault::Nack) => {} // not yet
                Err(fault) => return Err(DeviceFault::Bus { register: IDENTITY, fault }),
            }
        }
        let fault = |fault| DeviceFault::Bus { register: ADDRESS, fault };
        i2c.write(FIRST_ADDRESS, &[ADDRESS, self.address]).map_err(fault)
    }

    fn range(&mut self, ports: &mut Ports<'_>) -> Result<f32, DeviceFault> {
        let register = RESULT;
        let mut answer = [0; RESULT_BYTES];
        let fault = |fault| DeviceFault::Bus { register, fault };
        ports.i2c.write_read(self.address, &[register], &mut answer).map_err(fault)?;
        let now = ports.clock.now();
        if answer == [0xFF; RESULT_BYTES] {
            return Err(DeviceFault::DeadBytes { register });
        }
        if answer[0] & 0x07 == 0 {
            let silent = now.since(self.ranged) > RANGES_WITHIN;
            let fault =
                if silent { DeviceFault::Asleep { register } } else { DeviceFault::NotReady { register } };
            return Err(fault);
        }
        self.ranged = now;
        let cleared = ports.i2c.write(self.address, &[INTERRUPT_CLEAR, 1]);
        cleared.map_err(|fault| DeviceFault::Bus { register: INTERRUPT_CLEAR, fault })?;
        let millimetres = u16::from_be_bytes([answer[RESULT_BYTES - 2], answer[RESULT_BYTES - 1]]);
        metres(answer[1], millimetres)
    }
}

/// The distance, from the range and its status.
fn metres(status: u8, millimetres: u16) -> Result<f32, DeviceFault> {
    const COMPLETE: u8 = 11;
    /// Phase out of bounds, according to one of the chip's two phase checks.
    const NO_PHASE: [u8; 2] = [6, 9];
    let register = RESULT + 1;
    match (status & 0x78) >> 3 {
        COMPLETE if millimetres < NO_TARGET_MM => Ok((f32::from(millimetres) / 1000.0).min(FARTHEST.0)),
        code if NO_PHASE.contains(&code) && millimetres >= NO_TARGET_MM => Ok(FARTHEST.0),
        _ => Err(DeviceFault::Impossible { register }),
    }
}

/// Whether the chip can return this answer. The driver uses answers as shift counts and divisors, so an
/// impossible one must not reach it.
fn plausible(register: u8, answer: &[u8]) -> bool {
    match (register, answer) {
        // Laser pulse periods: an even number of clocks from 8 to 18, encoded as half of it minus one.
        (0x50 | 0x70, [halved]) => (3..=8).contains(halved),
        // Timeouts: exponent and mantissa, a byte each; with a larger exponent, the value exceeds 16 bits.
        (0x51 | 0x71, [exponent, _]) => *exponent <= 8,
        (0x46, [macro_periods]) => *macro_periods < 0xFF,
        _ => true,
    }
}

/// Whether the final-range timeout is at least the pre-range timeout, which it includes. The driver reads the
/// pre-range timeout first, and subtracts it from the final-range timeout.
fn holds_both(pre_range: &Cell<u16>, register: u8, answer: &[u8]) -> bool {
    let macro_periods = |exponent: u8, mantissa: u8| (u16::from(mantissa) << exponent.min(8)) + 1;
    match (register, answer) {
        (0x51, [exponent, mantissa]) => pre_range.set(macro_periods(*exponent, *mantissa)),
        (0x71, [exponent, mantissa]) => return macro_periods(*exponent, *mantissa) >= pre_range.get(),
        _ => {}
    }
    true
}

impl Polled for Vl53l0x {
    /// Shuts the chip down and starts it again (if its shut-down line is wired), gives it its address,
    /// calibrates it and starts ranging. Takes about 60 ms at 100 kHz.
    fn set_up(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        self.power_cycle(ports)?;
        self.take_address(ports.i2c)?;
        let pre_range = Cell::new(0);
        let check = |register: u8, answer: &[u8]| {
            plausible(register, answer) && holds_both(&pre_range, register, answer)
        };
        let mut adapter = Adapter::new(ports).within(TIMEOUT).checked(&check);
        let wrong = match Driver::with_address(&mut adapter, self.address) {
            // Zero: continuous ranging without pauses.
            Ok(mut driver) => match driver.start_continuous(0) {
                Ok(()) => None,
                Err(refused) => Some(refused.0),
            },
            Err(Error::InvalidDevice(0x00 | 0xFF)) => Some(DeviceFault::DeadBytes { register: IDENTITY }),
            Err(Error::InvalidDevice(found)) => Some(DeviceFault::WrongDevice { register: IDENTITY, found }),
            Err(_) => Some(DeviceFault::NotReady { register: RESULT }),
        };
        match wrong {
            None => {
                self.ranged = ports.clock.now();
                Ok(())
            }
            Some(wrong) => Err(adapter.fault(wrong)),
        }
    }

    fn poll(&mut self, ports: &mut Ports<'_>, say: &mut Say<'_>) -> Result<(), DeviceFault> {
        self.range(ports).report(say)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::time::{Clock, SimClock};
    use crate::hardware::bus::fake::{FakeGpio, FakeI2c};
    use crate::hardware::device::bench::{Bench, Ranger as Chip};
    use std::sync::Arc;

    fn answer(ready: u8, status: u8, millimetres: u16) -> [u8; RESULT_BYTES] {
        let mut bytes = [0; RESULT_BYTES];
        (bytes[0], bytes[1]) = (ready, status << 3);
        bytes[11..].copy_from_slice(&millimetres.to_be_bytes());
        bytes
    }

    fn reading(ready: u8, status: u8, millimetres: u16) -> FakeI2c {
        FakeI2c::new()
            .write_read(0x30, &[RESULT], &answer(ready, status, millimetres))
            .write(0x30, &[INTERRUPT_CLEAR, 1])
    }

    #[test]
    fn a_range_needs_a_valid_status() {
        let said =
            |status, mm| Bench::new().poll(&mut Vl53l0x::new(0x30, None), &mut reading(4, status, mm)).0[0].1;
        let refused = Err(DeviceFault::Impossible { register: 0x14 });
        assert_eq!(said(11, 417), Ok(0.417));
        assert_eq!(said(11, 1450), Ok(1.2), "a bright target beyond the reach is no fault");
        assert_eq!(said(11, 8190), refused, "status \"complete\" contradicts the code for no target");
        assert_eq!([said(9, 8190), said(6, 8191)], [Ok(1.2), Ok(1.2)]);
        assert_eq!(said(9, 350), refused, "a wrapped target looks near");
        for status in (0..16).filter(|status| ![6, 9, 11].contains(status)) {
            assert_eq!([said(status, 500), said(status, 8190)], [refused, refused], "status {status}");
        }
    }

    #[test]
    fn chip_that_stops_ranging_is_first_not_ready_then_asleep() {
        let mut bench = Bench::new();
        let mut chip = Vl53l0x::new(0x30, None);
        let idle = || FakeI2c::new().write_read(0x30, &[RESULT], &answer(0, 11, 417));
        bench.wait(Span::from_millis(20));
        let not_ready = DeviceFault::NotReady { register: RESULT };
        assert_eq!(bench.poll(&mut chip, &mut idle()), (vec![(0, Err(not_ready))], Ok(())));
        assert_eq!(bench.poll(&mut chip, &mut reading(4, 11, 417)).1, Ok(()));
        bench.wait(Span::from_millis(251));
        let asleep = DeviceFault::Asleep { register: RESULT };
        assert_eq!(bench.poll(&mut chip, &mut idle()), (vec![(0, Err(asleep))], Err(asleep)));
        let mut ones = FakeI2c::new().write_read(0x30, &[RESULT], &[0xFF; RESULT_BYTES]);
        let dead = DeviceFault::DeadBytes { register: RESULT };
        assert_eq!(bench.poll(&mut chip, &mut ones), (vec![(0, Err(dead))], Ok(())));
    }

    fn set_up(chip: &mut Chip, device: &mut Vl53l0x) -> (Result<(), DeviceFault>, Vec<(u32, bool)>) {
        let clock = chip.clock.clone();
        let mut gpio = FakeGpio::new(clock.clone());
        let outcome = device.set_up(&mut Ports { i2c: chip, gpio: &mut gpio, clock: clock.as_ref() });
        (outcome, gpio.sets.iter().map(|set| (set.line.0, set.high)).collect())
    }

    #[test]
    fn set_up_moves_the_address_and_starts_ranging() {
        let mut chip = Chip::new(Arc::new(SimClock::new()));
        let mut device = Vl53l0x::new(0x30, Some(Line(7)));
        let (outcome, sets) = set_up(&mut chip, &mut device);
        assert_eq!((outcome, sets), (Ok(()), vec![(7, false), (7, true)]));
        assert_eq!((chip.address, chip.registers[0]), (0x30, 0x02), "back to back");
        assert!(chip.transfers < 300, "{} transfers", chip.transfers);
        // Again, without a line: the chip already answers at its address.
        let (again, _) = set_up(&mut chip, &mut Vl53l0x::new(0x30, None));
        assert_eq!((again, chip.address), (Ok(()), 0x30));
    }

    #[test]
    fn wrong_chip_endless_wait_or_zero_divisor_ends_the_set_up() {
        let clock = || Arc::new(SimClock::new());
        let mut other = Chip { registers: [0x5A; 256], ..Chip::new(clock()) };
        let found = DeviceFault::WrongDevice { register: IDENTITY, found: 0x5A };
        assert_eq!(set_up(&mut other, &mut Vl53l0x::new(0x29, None)).0, Err(found));

        let mut endless = Chip { busy: u32::MAX, ..Chip::new(clock()) };
        let timed_out = DeviceFault::Bus { register: 0x83, fault: BusFault::TimedOut };
        assert_eq!(set_up(&mut endless, &mut Vl53l0x::new(0x29, None)).0, Err(timed_out));
        assert!(endless.clock.now() < Instant::ZERO + Span::from_millis(300));

        for period in [0x7F, 0xFF] {
            assert!(!plausible(0x70, &[period]) && !plausible(0x50, &[period]));
        }
        // A final-range timeout shorter than the pre-range timeout: the driver's subtraction would underflow.
        let mut short = Chip::new(clock());
        short.settled = vec![(0x71, 0), (0x72, 0x10)];
        let impossible = DeviceFault::Impossible { register: 0x71 };
        assert_eq!(set_up(&mut short, &mut Vl53l0x::new(0x29, None)).0, Err(impossible));
        assert!(!plausible(0x71, &[0xFF, 0xFF]) && plausible(0x71, &[1, 0xFE]) && plausible(0x70, &[4]));
    }
}
