//! The expected contents of the Robot HAT's registers. Skips writes that would not change anything, and
//! compensates for that: a controller that reset itself has lost every pulse and does not report it, so a
//! register that was not written for a while is written again. A dead bus does not report itself either, so
//! the bus is never left idle for long.

use super::DeviceFault;
use super::pulses::SILENT_FOR;
use super::robot_hat::{PULSE, RobotHat};
use crate::base::time::{Clock, Instant, Span};
use crate::hardware::bus::I2c;

/// Number of registers that are tracked: pulses (from 0x20) and both banks of timers (to 0x56).
const SLOTS: usize = 0x57 - PULSE as usize;
/// A register that was last written this long ago is written again with the next command, however many there
/// are, so that a robot whose controller lost its pulses stands still for at most half a second.
pub const OLDEST: Span = Span::from_millis(500);
/// From this age, registers are renewed a few at a time with each command, so that in steady state they never
/// all fall due at once: 11 registers (the fullest board) take six commands, and 200 ms leave room for
/// command rates as low as 30 a second.
pub const RENEW_FROM: Span = Span::from_millis(300);
/// Maximum number of registers that are renewed early with one command: two more writes prolong it by 0.76 ms
/// at 100 kHz.
pub const RENEW_AT_ONCE: usize = 2;

#[derive(Clone, Copy, Debug)]
struct Held {
    value: u16,
    /// When it was last written; `None`: the chip's value is unknown.
    since: Option<Instant>,
}

/// The registers of one chip.
#[derive(Clone, Debug)]
pub struct Registers {
    hat: RobotHat,
    held: [Option<Held>; SLOTS],
    /// When the chip last acknowledged a write.
    answered: Instant,
}

impl Registers {
    /// The registers of `hat`, with unknown contents.
    pub fn new(hat: RobotHat) -> Registers {
        Registers { hat, held: [None; SLOTS], answered: Instant::ZERO }
    }

    /// The chip whose registers these are.
    pub fn hat(&self) -> RobotHat {
        self.hat
    }

    /// The chip was reset: forgets all contents.
    pub fn forget(&mut self) {
        self.held = [None; SLOTS];
    }

    /// Marks the contents of `register` as unknown; it is meant to hold `value`.
    pub fn doubt(&mut self, register: u8, value: u16) {
        if let Some(held) = self.slot(register) {
            *held = Some(Held { value, since: None });
        }
    }

    /// Makes `register` hold `value`; writes only if needed.
    pub fn hold(
        &mut self,
        register: u8,
        value: u16,
        i2c: &mut dyn I2c,
        clock: &dyn Clock,
    ) -> Result<(), DeviceFault> {
        let holds = |held: &Held| held.since.is_some() && held.value == value;
        if self.slot(register).is_some_and(|held| held.as_ref().is_some_and(holds)) {
            return Ok(());
        }
        self.write(register, value, i2c, clock)
    }

    /// Rewrites registers that are too old, and a few that soon will be, oldest first; always rewrites the
    /// oldest if nothing was acknowledged for [`SILENT_FOR`].
    pub fn renew(&mut self, i2c: &mut dyn I2c, clock: &dyn Clock) -> Result<(), DeviceFault> {
        let mut early = 0;
        while let Some((register, held)) = self.oldest() {
            let now = clock.now();
            let age = held.since.map_or(OLDEST, |since| now.since(since));
            if age < OLDEST {
                let silent = now.since(self.answered) >= SILENT_FOR;
                if (age < RENEW_FROM && !silent) || early == RENEW_AT_ONCE {
                    break;
                }
                early += 1;
            }
            self.write(register, held.value, i2c, clock)?;
        }
        Ok(())
    }

    fn write(
        &mut self,
        register: u8,
        value: u16,
        i2c: &mut dyn I2c,
        clock: &dyn Clock,
    ) -> Result<(), DeviceFault> {
        self.doubt(register, value); // until the write succeeds
        self.hat.write(register, value, i2c)?;
        self.answered = clock.now();
        let since = Some(self.answered);
        if let Some(held) = self.slot(register) {
            *held = Some(Held { value, since });
        }
        Ok(())
    }

    fn oldest(&self) -> Option<(u8, Held)> {
        let registers = (PULSE..).zip(&self.held);
        registers.filter_map(|(register, held)| Some((register, (*held)?))).min_by_key(|(_, held)| held.since)
    }

    fn slot(&mut self, register: u8) -> Option<&mut Option<Held>> {
        self.held.get_mut(usize::from(register.checked_sub(PULSE)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::fault::BusFault;
    use crate::base::plan::{Line, McuPlan};
    use crate::base::time::SimClock;
    use crate::hardware::bus::fake::FakeI2c;

    fn registers() -> Registers {
        let plan =
            McuPlan { address: 0x14, others: [None; 3], clock_hz: 72_000_000, timers: 4, reset: Line(5) };
        Registers::new(RobotHat::new(&plan))
    }

    #[test]
    fn unchanged_registers_are_not_rewritten_until_old() {
        let clock = SimClock::new();
        let mut registers = registers();
        let mut i2c = FakeI2c::recording();
        for _ in 0..3 {
            registers.hold(0x2D, 2048, &mut i2c, &clock).unwrap();
            registers.renew(&mut i2c, &clock).unwrap();
        }
        assert_eq!(i2c.take_written(), [[0x2D, 0x08, 0x00]]);
        clock.sleep_until(Instant::ZERO + OLDEST);
        registers.hold(0x2D, 2048, &mut i2c, &clock).unwrap();
        registers.renew(&mut i2c, &clock).unwrap();
        assert_eq!(i2c.take_written(), [[0x2D, 0x08, 0x00]]);
    }

    #[test]
    fn a_failed_write_is_not_recorded_as_written() {
        let clock = SimClock::new();
        let mut registers = registers();
        let mut i2c =
            FakeI2c::new().write(0x14, &[0x2D, 0, 7]).fault(0x14, BusFault::Nack).write(0x14, &[0x2D, 0, 7]);
        registers.hold(0x2D, 7, &mut i2c, &clock).unwrap();
        assert!(registers.hold(0x2D, 9, &mut i2c, &clock).is_err());
        // 7 was confirmed last, but 9 may have arrived: 7 is written, not skipped.
        registers.hold(0x2D, 7, &mut i2c, &clock).unwrap();
    }

    #[test]
    fn silent_controller_is_rewritten_oldest_register_first() {
        let clock = SimClock::new();
        let mut registers = registers();
        let mut i2c = FakeI2c::recording();
        for (nth, register) in [0x2C, 0x2D, 0x20].into_iter().enumerate() {
            clock.sleep_until(Instant::ZERO + Span::from_millis(nth as u64));
            registers.hold(register, 1, &mut i2c, &clock).unwrap();
        }
        i2c.take_written();
        for (silent_ms, written) in
            [(24, vec![]), (1, vec![0x2C]), (24, vec![]), (1, vec![0x2D]), (25, vec![0x20])]
        {
            clock.sleep_until(clock.now() + Span::from_millis(silent_ms));
            registers.renew(&mut i2c, &clock).unwrap();
            let registers: Vec<u8> = i2c.take_written().iter().map(|bytes| bytes[0]).collect();
            assert_eq!(registers, written);
        }
    }

    #[test]
    fn rewrites_are_spread_out_and_reach_every_register() {
        let clock = SimClock::new();
        let mut registers = registers();
        let mut i2c = FakeI2c::recording();
        // Twice as many registers as the fullest board has, so half of them wait longer for their turn than
        // on any board, as if other registers were written in between.
        for register in 0x20..0x36 {
            registers.hold(register, 1, &mut i2c, &clock).unwrap();
        }
        i2c.take_written();
        let mut most = 0;
        for tick in 1..100 {
            clock.sleep_until(Instant::ZERO + Span::from_millis(10).times(tick));
            registers.renew(&mut i2c, &clock).unwrap();
            most = most.max(i2c.take_written().len());
            let oldest = registers.oldest().unwrap().1.since.unwrap();
            assert!(clock.now().since(oldest) < OLDEST);
        }
        assert_eq!(most, RENEW_AT_ONCE);
    }

    #[test]
    fn with_rare_commands_all_old_registers_are_rewritten_at_once() {
        let clock = SimClock::new();
        let mut registers = registers();
        let mut i2c = FakeI2c::recording();
        for register in 0x20..0x2B {
            registers.hold(register, 1, &mut i2c, &clock).unwrap();
        }
        i2c.take_written();
        clock.sleep_until(Instant::ZERO + Span::from_millis(600));
        registers.renew(&mut i2c, &clock).unwrap();
        assert_eq!(i2c.take_written().len(), 11);
    }
}
