//! Retries of single transfers: a transfer that failed on the wire is retried a little later, as often as
//! makes sense for its fault. After that the recovery ladder takes over. This is also where a motor stop
//! overtakes any other work, and where a requested poll overtakes one that is only due: the overtaken work
//! begins no further transfer and ends its wait.

use super::counters::{BusCounters, count};
use super::cut::InFlight;
use super::data_ready::DataReady;
use super::halt::HaltWatch;
use crate::base::fault::BusFault;
use crate::base::time::{Clock, Instant, Span};
use crate::hardware::bus::{I2c, Op};
use std::sync::atomic::{AtomicBool, Ordering};

/// Pauses before the first and the second retry: for a device that is busy for a moment, and for a brush
/// spark. Two retries with their pauses take less time than a poll of the slowest chip.
const PAUSES: [Span; 2] = [Span::from_micros(100), Span::from_micros(300)];
/// A wait is divided into pieces of this length, the wire time of a three-byte frame at 400 kHz. Each is
/// followed by a check for work of higher priority.
const PIECE: Span = Span::from_micros(100);

/// Number of retries for `fault`. If `fragile`, the chip loses its place in its frames when a transfer breaks
/// off, and misreads later writes. Then only a transfer that no device acknowledged is retried.
///
/// A lost arbitration breaks a transfer off in this way. The loser releases the wire in the middle of a bit
/// (UM10204, 3.1.8), and the adapter does not report which bit. If the transfer broke off in the address
/// byte, no device accepted anything; if in one of the three bytes after the address, the chip keeps the
/// complete bytes. Three quarters of a frame's bits follow the address. A Robot HAT's bus has only one
/// master, so something else pulled the wire low.
fn retries(fault: BusFault, fragile: bool) -> usize {
    match fault {
        BusFault::Nack => 2,
        BusFault::ArbitrationLost if !fragile => 2,
        BusFault::Io if !fragile => 1,
        // The lines are stuck, or the adapter cannot do the transfer or is gone: the same transfer would fail
        // again.
        _ => 0,
    }
}

/// An adapter that retries its transfers.
pub(super) struct Retrying<'a> {
    pub i2c: &'a mut dyn I2c,
    /// Waits on this clock end early at a halt.
    pub clock: &'a OvertakenClock<'a>,
    pub counters: &'a BusCounters,
    /// Address of the chip that takes writes in frames, if there is one.
    pub fragile: Option<u8>,
    /// Transfers that succeeded.
    pub answered: u32,
    /// Where each transfer is recorded, if the motors are on this bus and have a line that can be cut.
    pub in_flight: Option<&'a InFlight>,
}

impl Retrying<'_> {
    fn once(&mut self, address: u8, ops: &mut [Op<'_>]) -> Result<(), BusFault> {
        let Some(in_flight) = self.in_flight else { return self.i2c.transfer(address, ops) };
        in_flight.begin(self.clock.now());
        let result = self.i2c.transfer(address, ops);
        in_flight.end();
        result
    }
}

impl I2c for Retrying<'_> {
    fn transfer(&mut self, address: u8, ops: &mut [Op<'_>]) -> Result<(), BusFault> {
        let fragile = self.fragile == Some(address);
        let mut tried = 0;
        while !self.clock.is_overtaken() {
            let fault = match self.once(address, ops) {
                Ok(()) => {
                    self.answered += 1;
                    return Ok(());
                }
                Err(fault) => fault,
            };
            let Some(&pause) = PAUSES.get(tried).filter(|_| tried < retries(fault, fragile)) else {
                return Err(fault);
            };
            tried += 1;
            count(&self.counters.retries);
            self.clock.sleep_until(self.clock.now() + pause);
        }
        Err(BusFault::Preempted)
    }

    fn reopen(&mut self) -> Result<(), BusFault> {
        self.i2c.reopen()
    }
}

/// A clock whose waits end early when other work goes first.
pub(super) struct OvertakenClock<'a> {
    pub clock: &'a dyn Clock,
    /// `None`: nothing overtakes this call, because it is the stop itself or the motors are stopped.
    pub watch: Option<&'a HaltWatch>,
    /// `None`: requested polls do not overtake this call.
    pub data_ready: Option<&'a DataReady>,
    /// Set when a reading of this same call requires the motors to stop.
    pub crossed: Option<&'a AtomicBool>,
}

impl OvertakenClock<'_> {
    /// Whether a halt is pending, a reading has just required one, or a requested poll may go first.
    pub fn is_overtaken(&self) -> bool {
        self.watch.is_some_and(HaltWatch::is_raised)
            || self.crossed.is_some_and(|crossed| crossed.load(Ordering::Relaxed))
            || self.data_ready.is_some_and(DataReady::is_raised)
    }
}

impl Clock for OvertakenClock<'_> {
    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn sleep_until(&self, at: Instant) {
        if self.watch.is_none() && self.data_ready.is_none() {
            return self.clock.sleep_until(at);
        }
        let mut now = self.clock.now();
        while now < at && !self.is_overtaken() {
            self.clock.sleep_until(at.min(now + PIECE));
            now = self.clock.now();
        }
    }

    fn is_real(&self) -> bool {
        self.clock.is_real()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::plan::Cause;
    use crate::base::time::SimClock;
    use crate::drive::io::halt::Halt;
    use crate::hardware::bus::fake::FakeI2c;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    const HAT: u8 = 0x14;
    const IMU: u8 = 0x68;

    /// The result of one write that meets `faults` in a row, the number of retries, and the total
    /// time, microseconds.
    fn write(address: u8, faults: &[BusFault], works: bool) -> (Result<(), BusFault>, u64, u64) {
        let mut i2c = faults.iter().fold(FakeI2c::new(), |i2c, fault| i2c.fault(address, *fault));
        if works {
            i2c = i2c.write(address, &[1, 2, 3]);
        }
        let (clock, counters) = (SimClock::new(), BusCounters::default());
        let clock = OvertakenClock { clock: &clock, watch: None, data_ready: None, crossed: None };
        let mut bus = Retrying {
            i2c: &mut i2c,
            clock: &clock,
            counters: &counters,
            fragile: Some(HAT),
            answered: 0,
            in_flight: None,
        };
        let written = bus.write(address, &[1, 2, 3]);
        assert_eq!(bus.answered, u32::from(works));
        let took = clock.now().since(Instant::ZERO).as_nanos() / 1000;
        (written, counters.retries.load(Ordering::Relaxed), took)
    }

    #[test]
    fn unanswering_device_gets_three_tries() {
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
    fn a_broken_frame_is_not_written_again() {
        for fault in [BusFault::Io, BusFault::ArbitrationLost] {
            assert_eq!(write(HAT, &[fault], false), (Err(fault), 0, 0));
        }
    }

    /// A virtual clock that raises a halt at a set time, even during a sleep.
    struct HaltAt {
        clock: SimClock,
        halt: Arc<Halt>,
        at: Instant,
        sleeps: AtomicU64,
    }

    impl Clock for HaltAt {
        fn now(&self) -> Instant {
            self.clock.now()
        }
        fn sleep_until(&self, at: Instant) {
            self.clock.sleep_until(at);
            self.sleeps.fetch_add(1, Ordering::Relaxed);
            if at >= self.at {
                self.halt.raise(Cause::EStop, self.at);
            }
        }
        fn is_real(&self) -> bool {
            false
        }
    }

    #[test]
    fn halt_ends_the_retry_pause_and_no_transfer_follows() {
        let halt = Arc::new(Halt::new(Arc::default()));
        let watch = HaltWatch::new(halt.clone());
        let after = |us| Instant::ZERO + Span::from_micros(us);
        let clock = HaltAt { clock: SimClock::new(), halt, at: after(250), sleeps: AtomicU64::new(0) };
        let counters = BusCounters::default();
        // The third try, 400 us after the first, is not in the script.
        let mut i2c = FakeI2c::new().fault(IMU, BusFault::Nack).fault(IMU, BusFault::Nack);
        let halted = OvertakenClock { clock: &clock, watch: Some(&watch), data_ready: None, crossed: None };
        let mut bus = Retrying {
            i2c: &mut i2c,
            clock: &halted,
            counters: &counters,
            fragile: Some(HAT),
            answered: 0,
            in_flight: None,
        };
        assert_eq!(bus.write(IMU, &[1]), Err(BusFault::Preempted));
        assert_eq!(bus.read(HAT, &mut [0]), Err(BusFault::Preempted));
        assert_eq!(clock.now(), after(300), "within one piece of the wait");
        // The stop itself is not overtaken, and its waits are not cut short.
        let mut i2c = FakeI2c::new().fault(HAT, BusFault::Nack).write(HAT, &[1]);
        let through = OvertakenClock { clock: &clock, watch: None, data_ready: None, crossed: None };
        let mut bus = Retrying {
            i2c: &mut i2c,
            clock: &through,
            counters: &counters,
            fragile: Some(HAT),
            answered: 0,
            in_flight: None,
        };
        assert_eq!((bus.write(HAT, &[1]), clock.now()), (Ok(()), after(400)));
    }

    #[test]
    fn a_wait_without_a_halt_has_its_full_length() {
        let halt = Arc::new(Halt::new(Arc::default()));
        let watch = HaltWatch::new(halt.clone());
        let clock = HaltAt { clock: SimClock::new(), halt, at: Instant::NEVER, sleeps: AtomicU64::new(0) };
        let end = Instant::ZERO + Span::from_micros(1_050);
        OvertakenClock { clock: &clock, watch: Some(&watch), data_ready: None, crossed: None }
            .sleep_until(end);
        assert_eq!((clock.now(), clock.sleeps.load(Ordering::Relaxed)), (end, 11));
    }
}
