//! The lowest rung: a transfer that failed on the wire is tried again, a little later, as often as its
//! fault makes sense. What fails after that is the ladder's.

use super::counters::{BusCounters, count};
use crate::bus::{BusFault, I2c, Op};
use crate::time::{Clock, Span};

/// Before the first and the second retry: a device that is busy for a moment, a spark of the brushes.
/// Two retries with their pauses take less than a poll of the slowest chip.
const PAUSES: [Span; 2] = [Span::from_micros(100), Span::from_micros(300)];

/// Retries that `fault` is worth. Behind `fragile` is a chip that loses the place in its frames when a transfer breaks
/// off: what is written to it after that goes astray, so only a transfer that nobody took is tried again.
fn retries(fault: BusFault, fragile: bool) -> usize {
    match fault {
        BusFault::Nack => 2,
        BusFault::ArbitrationLost if !fragile => 2,
        BusFault::Io if !fragile => 1,
        // The lines are held, the adapter cannot do it, or it is gone: the same again is no news.
        _ => 0,
    }
}

/// An adapter whose transfers are tried again.
pub(super) struct Retrying<'a> {
    pub i2c: &'a mut dyn I2c,
    pub clock: &'a dyn Clock,
    pub counters: &'a BusCounters,
    /// Address of the chip that takes writes in frames, if there is one.
    pub fragile: Option<u8>,
}

impl I2c for Retrying<'_> {
    fn transfer(&mut self, address: u8, ops: &mut [Op<'_>]) -> Result<(), BusFault> {
        let fragile = self.fragile == Some(address);
        let mut tried = 0;
        loop {
            let fault = match self.i2c.transfer(address, ops) {
                Ok(()) => return Ok(()),
                Err(fault) => fault,
            };
            let Some(&pause) = PAUSES.get(tried).filter(|_| tried < retries(fault, fragile)) else {
                return Err(fault);
            };
            tried += 1;
            count(&self.counters.retries);
            self.clock.sleep_until(self.clock.now() + pause);
        }
    }

    fn reopen(&mut self) -> Result<(), BusFault> {
        self.i2c.reopen()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::fake::FakeI2c;
    use crate::time::{Instant, SimClock};
    use std::sync::atomic::Ordering;

    const HAT: u8 = 0x14;
    const IMU: u8 = 0x68;

    /// The outcome of one write after `faults` in a row, the retries made and the time that they took in microseconds.
    fn write(address: u8, faults: &[BusFault], works: bool) -> (Result<(), BusFault>, u64, u64) {
        let mut i2c = faults.iter().fold(FakeI2c::new(), |i2c, fault| i2c.fault(address, *fault));
        if works {
            i2c = i2c.write(address, &[1, 2, 3]);
        }
        let (clock, counters) = (SimClock::new(), BusCounters::default());
        let mut bus = Retrying { i2c: &mut i2c, clock: &clock, counters: &counters, fragile: Some(HAT) };
        let written = bus.write(address, &[1, 2, 3]);
        let took = clock.now().since(Instant::ZERO).as_nanos() / 1000;
        (written, counters.retries.load(Ordering::Relaxed), took)
    }

    #[test]
    fn a_device_that_does_not_answer_is_asked_three_times() {
        use BusFault::Nack;
        assert_eq!(write(HAT, &[Nack, Nack], true), (Ok(()), 2, 400));
        assert_eq!(write(IMU, &[Nack, Nack, Nack], false), (Err(Nack), 2, 400));
    }

    #[test]
    fn each_fault_has_its_own_number_of_retries() {
        use BusFault::{Absent, ArbitrationLost, Io, TimedOut, Unsupported};
        assert_eq!(write(IMU, &[ArbitrationLost, ArbitrationLost], true), (Ok(()), 2, 400));
        assert_eq!(write(IMU, &[Io], true), (Ok(()), 1, 100));
        assert_eq!(write(IMU, &[Io, Io], false), (Err(Io), 1, 100));
        for fault in [TimedOut, Unsupported, Absent] {
            assert_eq!(write(IMU, &[fault], false), (Err(fault), 0, 0));
        }
    }

    #[test]
    fn a_frame_that_broke_off_is_not_written_again() {
        for fault in [BusFault::Io, BusFault::ArbitrationLost] {
            assert_eq!(write(HAT, &[fault], false), (Err(fault), 0, 0));
        }
    }
}
