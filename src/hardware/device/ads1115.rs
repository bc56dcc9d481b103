//! ADS1115 converter (Texas Instruments SBAS444D): the voltages of its four single-ended inputs. The ads1x1x
//! crate sets it up, with one write of the configuration register per setting; this file does the reading.
//!
//! With one input in use, the chip converts continuously and a poll takes the newest result without waiting.
//! With several inputs, each poll starts a conversion for every input, because a result from the previous
//! poll would be out of date. This takes 1.3 ms per input, during which the bus does nothing else.

use super::adapter::Adapter;
use super::{DeviceFault, Polled, Ports, Say};
use crate::base::time::{Clock, Span};
use crate::hardware::bus::I2c;
use ads1x1x::{Ads1x1x, DataRate16Bit, FullScaleRange, TargetAddr};

const CONVERSION: u8 = 0x00;
const CONFIG: u8 = 0x01;
/// Written: start one conversion. Read: no conversion is in progress.
const START: u16 = 1 << 15;
/// Input 0, single-ended; the numbers of the other inputs follow.
const INPUT_0: u16 = 0b100;
const INPUT_SHIFT: u32 = 12;
const RANGE_SHIFT: u32 = 9;
const SINGLE_SHOT: u16 = 1 << 8;
/// 860 conversions a second.
const RATE: u16 = 0b111 << 5;
/// Comparator off.
const NO_ALERT: u16 = 0b11;
/// Time of one conversion at 860 per second if the chip is 10 % slow (the data sheet's tolerance), plus the
/// wake-up from sleep (25 us).
const CONVERTED: Span = Span::from_micros(1_320);
/// Counts from 0 V to the end of the range.
const FULL: f32 = 32_768.0;
/// Lowest plausible reading. A single-ended input cannot go negative, apart from a few counts of noise and
/// offset.
const LEAST_COUNTS: i16 = -64;

/// One input in use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Input {
    /// Number of the input, 0..=3.
    pub channel: u8,
    /// The requested range, V.
    pub full_scale_v: f32,
    /// Value of one volt in the sensor's unit.
    pub per_volt: f32,
}

/// The chip's ranges, V; the index is the number of the range.
const RANGES: [f32; 6] = [6.144, 4.096, 2.048, 1.024, 0.512, 0.256];

impl Input {
    /// The number of the smallest range that covers the requested one.
    fn range(&self) -> usize {
        let holds = |volts: &f32| *volts >= self.full_scale_v * 0.999;
        RANGES.iter().rposition(holds).unwrap_or(0)
    }
    /// Value of the configuration register for the conversion of this input.
    fn settings(&self, alone: bool) -> u16 {
        let input = (INPUT_0 | u16::from(self.channel & 3)) << INPUT_SHIFT;
        let mode = if alone { 0 } else { SINGLE_SHOT };
        input | (self.range() as u16) << RANGE_SHIFT | mode | RATE | NO_ALERT
    }
    fn value(&self, counts: i16) -> Result<f32, DeviceFault> {
        let register = CONVERSION;
        match counts {
            i16::MAX => Err(DeviceFault::Overflow { register }),
            counts if counts < LEAST_COUNTS => Err(DeviceFault::Impossible { register }),
            counts => Ok(f32::from(counts) / FULL * RANGES[self.range()] * self.per_volt),
        }
    }
}

/// One chip.
#[derive(Clone, Debug)]
pub struct Ads1115 {
    address: u8,
    inputs: Box<[Input]>,
}

impl Ads1115 {
    /// The chip at `address` (0x48 to 0x4B), converting `inputs`.
    pub fn new(address: u8, inputs: Box<[Input]>) -> Ads1115 {
        Ads1115 { address, inputs }
    }

    fn alone(&self) -> bool {
        self.inputs.len() == 1
    }

    fn register(&self, register: u8, i2c: &mut dyn I2c) -> Result<u16, DeviceFault> {
        let mut answer = [0; 2];
        i2c.write_read(self.address, &[register], &mut answer)
            .map_err(|fault| DeviceFault::Bus { register, fault })?;
        Ok(u16::from_be_bytes(answer))
    }

    fn convert(&self, input: &Input, i2c: &mut dyn I2c, clock: &dyn Clock) -> Result<f32, DeviceFault> {
        let register = CONFIG;
        let settings = input.settings(self.alone());
        if !self.alone() {
            let [high, low] = (settings | START).to_be_bytes();
            i2c.write(self.address, &[register, high, low])
                .map_err(|fault| DeviceFault::Bus { register, fault })?;
            clock.sleep_until(clock.now() + CONVERTED);
        }
        // A chip that reset itself does not convert and repeats its last result; its settings reveal that.
        match self.register(register, i2c)? {
            0x0000 | 0xFFFF => Err(DeviceFault::DeadBytes { register }),
            now if now & !START != settings => Err(DeviceFault::Asleep { register }),
            now if !self.alone() && now & START == 0 => Err(DeviceFault::NotReady { register }),
            _ => input.value(self.register(CONVERSION, i2c)? as i16),
        }
    }
}

fn target(address: u8) -> TargetAddr {
    match address & 3 {
        0 => TargetAddr::Gnd,
        1 => TargetAddr::Vdd,
        2 => TargetAddr::Sda,
        _ => TargetAddr::Scl,
    }
}

fn range(number: usize) -> FullScaleRange {
    match number {
        0 => FullScaleRange::Within6_144V,
        1 => FullScaleRange::Within4_096V,
        2 => FullScaleRange::Within2_048V,
        3 => FullScaleRange::Within1_024V,
        4 => FullScaleRange::Within0_512V,
        _ => FullScaleRange::Within0_256V,
    }
}

impl Polled for Ads1115 {
    fn set_up(&mut self, ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
        let Some(first) = self.inputs.first() else { return Ok(()) };
        let clock = ports.clock;
        let mut adapter = Adapter::new(ports);
        let mut driver = Ads1x1x::new_ads1115(&mut adapter, target(self.address));
        let mut set = driver.set_data_rate(DataRate16Bit::Sps860).is_ok()
            && driver.set_full_scale_range(range(first.range())).is_ok();
        if set && self.alone() {
            set = match driver.into_continuous() {
                Err(_) => false,
                Ok(mut driver) => match first.channel {
                    0 => driver.select_channel(ads1x1x::channel::SingleA0).is_ok(),
                    1 => driver.select_channel(ads1x1x::channel::SingleA1).is_ok(),
                    2 => driver.select_channel(ads1x1x::channel::SingleA2).is_ok(),
                    _ => driver.select_channel(ads1x1x::channel::SingleA3).is_ok(),
                },
            };
            // The conversion in progress still measures the previous input; the next one measures this input.
            clock.sleep_until(clock.now() + CONVERTED.times(2));
        }
        if set { Ok(()) } else { Err(adapter.fault(DeviceFault::Impossible { register: CONFIG })) }
    }

    fn poll(&mut self, ports: &mut Ports<'_>, say: &mut Say<'_>) -> Result<(), DeviceFault> {
        let mut failed = None;
        for (nth, input) in self.inputs.iter().enumerate() {
            // After a failed transfer or lost settings, this poll reports the fault for the other inputs too
            // and does not try them.
            let value = match failed {
                Some(fault) => Err(fault),
                None => self.convert(input, ports.i2c, ports.clock),
            };
            if let Err(fault) = value
                && fault.ends_poll()
            {
                failed = Some(fault);
            }
            say(nth, value);
        }
        failed.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::fault::BusFault;
    use crate::hardware::bus::fake::FakeI2c;
    use crate::hardware::device::bench::{Bench, polled, set_up};

    fn input(channel: u8, full_scale_v: f32) -> Input {
        Input { channel, full_scale_v, per_volt: 1.0 }
    }

    fn alone() -> Ads1115 {
        Ads1115::new(0x48, [Input { per_volt: 3.0, ..input(2, 4.096) }].into())
    }

    fn continuous(counts: i16) -> FakeI2c {
        // Input 2, 4.096 V, continuous, 860 a second, no comparator.
        FakeI2c::new().write_read(0x48, &[1], &[0x62, 0xE3]).write_read(0x48, &[0], &counts.to_be_bytes())
    }

    #[test]
    fn the_smallest_sufficient_input_range_is_used() {
        let ranges = [9.0, 6.144, 4.096, 3.3, 2.048, 1.5, 1.024, 0.512, 0.3, 0.256, 0.1];
        let taken = ranges.map(|volts| RANGES[input(0, volts).range()]);
        assert_eq!(taken, [6.144, 6.144, 4.096, 4.096, 2.048, 2.048, 1.024, 0.512, 0.512, 0.256, 0.256]);
    }

    #[test]
    fn counts_match_the_data_sheet() {
        // Table 3 of SBAS444D: 7FFFh is the end of the range, 1 count in the 4.096 V range is 125 uV.
        let said = |counts| polled(&mut alone(), &mut continuous(counts)).0[0].1;
        assert_eq!(said(8000), Ok(3.0));
        assert_eq!(said(1), Ok(3.0 * 125e-6));
        assert!((said(-3).unwrap() + 3.0 * 375e-6).abs() < 1e-6, "a small negative offset is valid");
        assert_eq!(said(i16::MAX), Err(DeviceFault::Overflow { register: CONVERSION }));
        assert_eq!(said(-9000), Err(DeviceFault::Impossible { register: CONVERSION }));
    }

    #[test]
    fn a_chip_that_lost_its_settings_reports_asleep() {
        let mut reset = FakeI2c::new().write_read(0x48, &[1], &[0x85, 0x83]);
        let asleep = DeviceFault::Asleep { register: CONFIG };
        assert_eq!(polled(&mut alone(), &mut reset), (vec![(0, Err(asleep))], Err(asleep)));
        let mut dead = FakeI2c::new().write_read(0x48, &[1], &[0xFF, 0xFF]);
        let bytes = DeviceFault::DeadBytes { register: CONFIG };
        assert_eq!(polled(&mut alone(), &mut dead), (vec![(0, Err(bytes))], Ok(())));
    }

    #[test]
    fn inputs_are_converted_in_turn_with_their_own_range() {
        let mut chip = Ads1115::new(0x48, [input(0, 2.048), input(3, 6.144)].into());
        let mut i2c = FakeI2c::new()
            .write(0x48, &[1, 0xC5, 0xE3])
            .write_read(0x48, &[1], &[0xC5, 0xE3])
            .write_read(0x48, &[0], &[0x40, 0x00])
            .write(0x48, &[1, 0xF1, 0xE3])
            .write_read(0x48, &[1], &[0x71, 0xE3]); // still converting
        let mut bench = Bench::new();
        let (said, outcome) = bench.poll(&mut chip, &mut i2c);
        assert_eq!(said, [(0, Ok(1.024)), (1, Err(DeviceFault::NotReady { register: CONFIG }))]);
        assert_eq!((outcome, bench.now().as_nanos()), (Ok(()), CONVERTED.times(2).as_nanos()));
    }

    #[test]
    fn one_failed_transfer_fails_all_inputs() {
        let mut chip = Ads1115::new(0x48, [input(0, 2.048), input(3, 6.144)].into());
        let nack = DeviceFault::Bus { register: CONFIG, fault: BusFault::Nack };
        let (said, outcome) = polled(&mut chip, &mut FakeI2c::new().fault(0x48, BusFault::Nack));
        assert_eq!((said, outcome), (vec![(0, Err(nack)), (1, Err(nack))], Err(nack)));
    }

    #[test]
    fn set_up_leaves_the_settings_that_polls_expect() {
        let mut i2c = FakeI2c::new()
            .write(0x48, &[1, 0x85, 0xE3])
            .write(0x48, &[1, 0x83, 0xE3])
            .write(0x48, &[1, 0x82, 0xE3])
            .write(0x48, &[1, 0xE2, 0xE3]);
        assert_eq!(set_up(&mut alone(), &mut i2c), Ok(CONVERTED.times(2)));
        let mut broken = FakeI2c::new().fault(0x48, BusFault::Nack);
        let nack = DeviceFault::Bus { register: CONFIG, fault: BusFault::Nack };
        assert_eq!(set_up(&mut alone(), &mut broken), Err(nack));
    }
}
