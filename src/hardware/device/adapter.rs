//! The only bridge between this crate's bus and drivers written for embedded-hal 1.0. It only adds a timeout
//! and a check of the answers; it drives no chip itself.
//!
//! A driver turns a fault into its own error and often loses the fault on the way. The bridge keeps the first
//! fault; [`Adapter::fault`] returns it after the driver has returned.

use super::{DeviceFault, Ports};
use crate::base::fault::BusFault;
use crate::base::time::{Clock, Instant, Span};
use crate::hardware::bus::{I2c, Op};
use embedded_hal::delay::DelayNs;
use embedded_hal::i2c::{self, NoAcknowledgeSource, Operation, SevenBitAddress};

/// Maximum number of operations in one transaction: enough for four registers, each selected and read back.
/// More are refused, because they would need the heap.
pub const MOST_OPERATIONS: usize = 8;

/// Whether a driver may see this answer from this register: drivers divide and shift by the values that they
/// read.
pub type Check<'c> = &'c dyn Fn(u8, &[u8]) -> bool;

/// A bus in the form that drivers expect, for the duration of one call.
pub struct Adapter<'a> {
    i2c: &'a mut dyn I2c,
    clock: &'a dyn Clock,
    until: Instant,
    check: Check<'a>,
    kept: Option<DeviceFault>,
}

impl<'a> Adapter<'a> {
    /// The bus of `ports`.
    pub fn new(ports: &'a mut Ports<'_>) -> Adapter<'a> {
        Adapter {
            i2c: &mut *ports.i2c,
            clock: ports.clock,
            until: Instant::NEVER,
            check: &|_, _| true,
            kept: None,
        }
    }
    /// Transfers that begin later than `timeout` from now fail as timed out. This ends a driver that polls
    /// its chip in a loop.
    pub fn within(mut self, timeout: Span) -> Adapter<'a> {
        self.until = self.clock.now() + timeout;
        self
    }
    /// Makes a read fail as impossible if `check` refuses its answer. Only reads after a write of one byte,
    /// which selects a register, are checked: after a longer write, a chip answers for a different register
    /// or for none.
    pub fn checked(mut self, check: Check<'a>) -> Adapter<'a> {
        self.check = check;
        self
    }
    /// The first transfer fault, or `otherwise` if the driver reported an error without one.
    pub fn fault(&self, otherwise: DeviceFault) -> DeviceFault {
        self.kept.unwrap_or(otherwise)
    }

    fn run(&mut self, address: u8, operations: &mut [Operation<'_>]) -> Result<(), DeviceFault> {
        let register = operations.iter().find_map(first_byte).unwrap_or(0);
        let fault = |fault| DeviceFault::Bus { register, fault };
        if self.clock.now() > self.until {
            return Err(fault(BusFault::TimedOut));
        }
        let mut ops: heapless::Vec<Op<'_>, MOST_OPERATIONS> = heapless::Vec::new();
        for operation in operations.iter_mut() {
            let op = match operation {
                Operation::Write(bytes) => Op::Write(bytes),
                Operation::Read(bytes) => Op::Read(bytes),
            };
            ops.push(op).map_err(|_| fault(BusFault::Unsupported))?;
        }
        self.i2c.transfer(address, &mut ops).map_err(fault)?;
        let mut named = None;
        for op in &ops {
            match (op, named) {
                (Op::Write([register]), _) => named = Some(*register),
                (Op::Write(_), _) => named = None,
                (Op::Read(bytes), Some(register)) if !(self.check)(register, bytes) => {
                    return Err(DeviceFault::Impossible { register });
                }
                (Op::Read(_), _) => {}
            }
        }
        Ok(())
    }
}

fn first_byte(operation: &Operation<'_>) -> Option<u8> {
    match operation {
        Operation::Write(bytes) => bytes.first().copied(),
        Operation::Read(_) => None,
    }
}

/// Why a transfer failed, in the form that drivers see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferError(pub DeviceFault);

impl i2c::Error for TransferError {
    fn kind(&self) -> i2c::ErrorKind {
        match self.0 {
            DeviceFault::Bus { fault, .. } => match fault {
                BusFault::Nack => i2c::ErrorKind::NoAcknowledge(NoAcknowledgeSource::Unknown),
                BusFault::ArbitrationLost => i2c::ErrorKind::ArbitrationLoss,
                BusFault::TimedOut | BusFault::Io => i2c::ErrorKind::Bus,
                BusFault::Unsupported | BusFault::Absent | BusFault::Preempted => i2c::ErrorKind::Other,
            },
            _ => i2c::ErrorKind::Other,
        }
    }
}

impl i2c::ErrorType for Adapter<'_> {
    type Error = TransferError;
}

impl i2c::I2c<SevenBitAddress> for Adapter<'_> {
    fn transaction(&mut self, address: u8, operations: &mut [Operation<'_>]) -> Result<(), TransferError> {
        let outcome = self.run(address, operations);
        if let Err(fault) = outcome {
            self.kept.get_or_insert(fault);
        }
        outcome.map_err(TransferError)
    }
}

/// The delays that a driver requests, on this crate's clock.
pub struct Delay<'a>(pub &'a dyn Clock);

impl DelayNs for Delay<'_> {
    fn delay_ns(&mut self, ns: u32) {
        self.0.sleep_until(self.0.now() + Span::from_nanos(ns.into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::time::SimClock;
    use crate::hardware::bus::fake::{FakeGpio, FakeI2c};
    use embedded_hal::i2c::{Error, I2c as _};
    use std::sync::Arc;

    fn with<R>(i2c: &mut FakeI2c, work: impl FnOnce(&mut Ports<'_>) -> R) -> R {
        let clock = Arc::new(SimClock::new());
        let mut gpio = FakeGpio::new(clock.clone());
        work(&mut Ports { i2c, gpio: &mut gpio, clock: clock.as_ref() })
    }

    #[test]
    fn a_transaction_is_one_transfer_with_repeated_starts() {
        let mut i2c = FakeI2c::new().write_read(0x40, &[7], &[1, 2]).write(0x40, &[9, 9]);
        with(&mut i2c, |ports| {
            let mut adapter = Adapter::new(ports);
            let mut back = [0; 2];
            adapter.write_read(0x40, &[7], &mut back).unwrap();
            adapter.write(0x40, &[9, 9]).unwrap();
            assert_eq!(back, [1, 2]);
        });
    }

    #[test]
    fn the_first_fault_is_kept_and_drivers_see_its_kind() {
        let mut i2c = FakeI2c::new().fault(0x40, BusFault::Nack).fault(0x40, BusFault::Io);
        with(&mut i2c, |ports| {
            let mut adapter = Adapter::new(ports);
            let nack = adapter.write(0x40, &[5, 0]).unwrap_err();
            assert_eq!(nack.kind(), i2c::ErrorKind::NoAcknowledge(NoAcknowledgeSource::Unknown));
            assert_eq!(adapter.write(0x40, &[6, 0]).unwrap_err().kind(), i2c::ErrorKind::Bus);
            let kept = adapter.fault(DeviceFault::DeadBytes { register: 0 });
            assert_eq!(kept, DeviceFault::Bus { register: 5, fault: BusFault::Nack });
        });
    }

    #[test]
    fn more_operations_than_fit_are_refused_before_the_wire() {
        with(&mut FakeI2c::new(), |ports| {
            let mut adapter = Adapter::new(ports);
            let mut many = [const { Operation::Write(&[3]) }; MOST_OPERATIONS + 1];
            let refused = adapter.transaction(0x40, &mut many).unwrap_err();
            let unsupported = DeviceFault::Bus { register: 3, fault: BusFault::Unsupported };
            assert_eq!(refused, TransferError(unsupported));
        });
    }

    #[test]
    fn timeouts_and_implausible_values_end_a_driver() {
        let mut i2c = FakeI2c::new().write_read(0x29, &[0x70], &[0xFF]).write_read(0x29, &[1], &[0xFF]);
        with(&mut i2c, |ports| {
            let clock = ports.clock;
            let mut adapter = Adapter::new(ports)
                .within(Span::from_millis(5))
                .checked(&|register, answer| register != 0x70 || answer != [0xFF]);
            let refused = adapter.write_read(0x29, &[0x70], &mut [0]).unwrap_err();
            assert_eq!(refused.0, DeviceFault::Impossible { register: 0x70 });
            Delay(clock).delay_ms(5);
            assert!(adapter.write_read(0x29, &[1], &mut [0]).is_ok());
            Delay(clock).delay_ns(1);
            let late = adapter.write_read(0x29, &[1], &mut [0]).unwrap_err();
            assert_eq!(late.0, DeviceFault::Bus { register: 1, fault: BusFault::TimedOut });
        });
    }
}
