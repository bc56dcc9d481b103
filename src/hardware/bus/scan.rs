//! Finds the devices on an I2C bus by reading one byte from each address, never by writing: some chips treat
//! an empty write as a command, and some adapters do not support empty writes.

use super::I2c;
use crate::base::fault::BusFault;
use std::ops::RangeInclusive;

/// 7-bit addresses that the specification leaves to devices; it reserves all others (UM10204, table 3).
pub const ADDRESSES: RangeInclusive<u8> = 0x08..=0x77;

/// The result of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeResult {
    /// A device acknowledged.
    Answers,
    /// No device acknowledged.
    Silent,
    /// The bus could not be probed. If the fault is [`BusFault::Unsupported`], this concerns only this
    /// address.
    Refused(BusFault),
}

/// Probes `address`.
pub fn ask(i2c: &mut dyn I2c, address: u8) -> ProbeResult {
    match i2c.read(address, &mut [0]) {
        Ok(()) => ProbeResult::Answers,
        Err(BusFault::Nack) => ProbeResult::Silent,
        Err(fault) => ProbeResult::Refused(fault),
    }
}

/// Probes every address that `skip` does not exclude. Ends early if the bus is held, because each further
/// address would cost a full timeout, or if the bus does not exist.
pub fn scan(i2c: &mut dyn I2c, skip: impl Fn(u8) -> bool) -> Vec<(u8, ProbeResult)> {
    let mut answers = Vec::new();
    for address in ADDRESSES.filter(|address| !skip(*address)) {
        let answer = ask(i2c, address);
        answers.push((address, answer));
        if matches!(answer, ProbeResult::Refused(BusFault::TimedOut | BusFault::Absent)) {
            break;
        }
    }
    answers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::bus::Op;

    struct Bus {
        present: Vec<u8>,
        asked: Vec<u8>,
        hangs_at: Option<u8>,
    }

    impl I2c for Bus {
        fn transfer(&mut self, address: u8, ops: &mut [Op<'_>]) -> Result<(), BusFault> {
            assert!(matches!(ops, [Op::Read(bytes)] if bytes.len() == 1), "a probe reads one byte");
            self.asked.push(address);
            match self.hangs_at {
                Some(at) if at == address => Err(BusFault::TimedOut),
                _ if self.present.contains(&address) => Ok(()),
                _ => Err(BusFault::Nack),
            }
        }
    }

    #[test]
    fn a_scan_asks_each_address_once_and_writes_nothing() {
        let mut bus = Bus { present: vec![0x14, 0x40, 0x68], asked: Vec::new(), hangs_at: None };
        let answers = scan(&mut bus, |address| address == 0x40);
        assert_eq!(answers.len(), 0x70 - 1);
        let found: Vec<u8> =
            answers.iter().filter(|(_, answer)| *answer == ProbeResult::Answers).map(|(at, _)| *at).collect();
        assert_eq!(found, [0x14, 0x68]);
        assert!(!bus.asked.contains(&0x40) && bus.asked.len() == 0x6F);
        assert_eq!((bus.asked[0], bus.asked[0x6E]), (0x08, 0x77));
    }

    #[test]
    fn a_scan_stops_on_a_held_bus() {
        let mut bus = Bus { present: vec![0x68], asked: Vec::new(), hangs_at: Some(0x0A) };
        let answers = scan(&mut bus, |_| false);
        assert_eq!(answers.last(), Some(&(0x0A, ProbeResult::Refused(BusFault::TimedOut))));
        assert_eq!(bus.asked, [0x08, 0x09, 0x0A]);
    }
}
