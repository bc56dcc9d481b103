//! A VL53L0X as seen from the wire: paged registers, an address that is lost when power is removed, and a new
//! range every 33 ms. It does not model the world: its owner supplies the distance to the nearest thing
//! ahead.
//!
//! Registers as the manufacturer's own software uses them (ST UM2039 and its API); field of view, reach and
//! identity from the data sheet (DocID029104). Simplified: a measurement always takes the same time, whatever
//! the timing budget says; the range is that at the time of the read, up to 33 ms newer than a real chip's;
//! the colour and the angle of a target have no effect; and ambient light does not disturb the measurement.

use super::eye::Eye;
use super::noise::Noise;
use super::sonar::Condition;
use crate::base::time::{Instant, Span};

/// Half its field of view of 25 degrees, rounded to a whole degree.
pub const HALF_VIEW_DEG: f64 = 12.0;
/// How far it sees a white target indoors in its default mode, metres.
const REACH_M: f64 = 1.2;
/// Standard deviation of a range as a share of the range, and its minimum in metres. Assumed: the data sheet
/// states larger errors for bad light, and smaller ones for a white target in the dark.
const NOISE_SHARE: f64 = 0.01;
const NOISE_M: f64 = 0.002;
/// The default timing budget.
const MEASURES: Span = Span::from_millis(33);
/// A calibration takes a few milliseconds.
const CALIBRATES: Span = Span::from_millis(5);

const FIRST_ADDRESS: u8 = 0x29;
const START: u8 = 0x00;
const CLEAR: u8 = 0x0B;
const RESULT: u8 = 0x13;
const ADDRESS: u8 = 0x8A;
const PAGE: u8 = 0xFF;
/// Its page of factory trim values. On it, register 0x83 says when they are ready, and 0x92 gives the number
/// and the type of its reference diodes (SPADs).
const TRIM_PAGE: u8 = 7;
const TRIMMED: u8 = 0x83;
const DIODES: u8 = 0x92;
const FIVE_APERTURE_DIODES: u8 = 0x85;
/// Page 0 after power-on, where it is not zero: identity, laser periods, timeouts.
const POWER_ON: [(usize, u8); 10] = [
    (0xC0, 0xEE),
    (0xC1, 0xAA),
    (0xC2, 0x10),
    (0x46, 0x25),
    (0x50, 0x06),
    (0x51, 0x00),
    (0x52, 0x96),
    (0x70, 0x04),
    (0x71, 0x01),
    (0x72, 0xFE),
];
/// Range status of a complete measurement, and of one without a target; the range value that means "no
/// target".
const COMPLETE: u8 = 11;
const NO_PHASE: u8 = 9;
const NO_TARGET_MM: u16 = 8190;

/// What it is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Idle,
    Once(Instant),
    Continuous(Instant),
}

/// One chip.
#[derive(Clone, Debug)]
pub struct Ranger {
    address: u8,
    /// Its shut-down input is high.
    up: bool,
    page: u8,
    registers: [u8; 256],
    /// Stands for every page except the first: can be written and read back, but has no effect here.
    hidden: [u8; 256],
    pointer: u8,
    mode: Mode,
    /// Measurements since the start that had finished at the last clear.
    taken: u64,
    last: (u8, u16),
    eye: Eye,
    noise: Noise,
}

impl Ranger {
    /// A chip that was just powered, mounted like `eye`.
    pub fn new(eye: Eye, noise: Noise) -> Ranger {
        let mut chip = Ranger {
            address: FIRST_ADDRESS,
            up: true,
            page: 0,
            registers: [0; 256],
            hidden: [0; 256],
            pointer: 0,
            mode: Mode::Idle,
            taken: 0,
            last: (NO_PHASE, NO_TARGET_MM),
            eye,
            noise,
        };
        chip.lose_power();
        chip
    }
    /// Its present address.
    pub fn address(&self) -> u8 {
        self.address
    }
    /// Whether it answers at all.
    pub fn is_up(&self) -> bool {
        self.up
    }
    /// Drives its shut-down input.
    pub fn set_up(&mut self, high: bool) {
        if !high {
            self.lose_power();
        }
        self.up = high;
    }
    /// Forgets everything that was written to it, including its address.
    pub fn lose_power(&mut self) {
        (self.address, self.page, self.pointer) = (FIRST_ADDRESS, 0, 0);
        (self.mode, self.taken) = (Mode::Idle, 0);
        (self.registers, self.hidden) = ([0; 256], [0; 256]);
        POWER_ON.into_iter().for_each(|(register, value)| self.registers[register] = value);
    }

    /// A write: the first byte selects the register; the others go there and to the following ones.
    pub fn write(&mut self, bytes: &[u8], now: Instant) {
        let Some((first, values)) = bytes.split_first() else { return };
        self.pointer = *first;
        for value in values {
            self.set(self.pointer, *value, now);
            self.pointer = self.pointer.wrapping_add(1);
        }
    }

    fn set(&mut self, register: u8, value: u8, now: Instant) {
        match (self.page, register) {
            (_, PAGE) => self.page = value,
            (0, START) => {
                self.taken = 0;
                self.mode = match value & 0x03 {
                    0 => Mode::Idle,
                    2 => Mode::Continuous(now),
                    _ => Mode::Once(now),
                };
            }
            (0, CLEAR) => self.taken = self.measured(now),
            (0, ADDRESS) => self.address = value & 0x7F,
            (0, 0xC0..=0xC2 | RESULT..=0x1F) => {} // read-only
            (0, _) => self.registers[usize::from(register)] = value,
            _ => self.hidden[usize::from(register)] = value,
        }
    }

    /// Measurements that have finished since the start.
    fn measured(&self, now: Instant) -> u64 {
        match self.mode {
            Mode::Idle => 0,
            Mode::Once(start) => u64::from(now.since(start) >= CALIBRATES),
            Mode::Continuous(start) => now.since(start).as_nanos() / MEASURES.as_nanos(),
        }
    }

    /// A read that continues where the last read or write ended. `distance`: to the nearest thing in its
    /// view.
    pub fn read(
        &mut self,
        back: &mut [u8],
        now: Instant,
        condition: Condition,
        distance: impl FnOnce(&Eye) -> f64,
    ) {
        if (self.page, self.pointer) == (0, RESULT) {
            let ready = self.measured(now) > self.taken;
            self.registers[usize::from(RESULT)] = if ready { 4 } else { 0 };
            if ready && matches!(self.mode, Mode::Continuous(_)) {
                self.look(condition, distance);
            }
        }
        for byte in back {
            *byte = self.register(self.pointer);
            self.pointer = self.pointer.wrapping_add(1);
        }
    }

    fn register(&self, register: u8) -> u8 {
        match (self.page, register) {
            (_, PAGE) => self.page,
            (0, ADDRESS) => self.address,
            (0, START) => u8::from(self.mode != Mode::Idle),
            (0, _) => self.registers[usize::from(register)],
            (TRIM_PAGE, TRIMMED) => 0x01,
            (TRIM_PAGE, DIODES) => FIVE_APERTURE_DIODES,
            _ => self.hidden[usize::from(register)],
        }
    }

    fn look(&mut self, condition: Condition, distance: impl FnOnce(&Eye) -> f64) {
        match condition {
            Condition::Silent => self.registers[usize::from(RESULT)] = 0, // its measurement never ends
            Condition::Frozen => {}
            Condition::Sound | Condition::Stuck => {
                let metres = distance(&self.eye);
                let noise = self.noise.draw(NOISE_M.max(NOISE_SHARE * metres.min(REACH_M)));
                self.last = match metres <= REACH_M {
                    true => (COMPLETE, libm::round(1000.0 * (metres + noise)).max(0.0) as u16),
                    false => (NO_PHASE, NO_TARGET_MM),
                };
            }
        }
        let (status, millimetres) = self.last;
        let result = usize::from(RESULT);
        self.registers[result + 1] = status << 3;
        self.registers[result + 11..result + 13].copy_from_slice(&millimetres.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::plan::SimPlan;
    use crate::sim::world::Outline;

    fn chip() -> Ranger {
        Ranger::new(Eye::ahead(&Outline::of(&SimPlan::default()), HALF_VIEW_DEG), Noise::new(1, 80))
    }

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Span::from_millis(ms)
    }

    fn result(chip: &mut Ranger, ms: u64, condition: Condition, metres: f64) -> (u8, u8, u16) {
        let mut bytes = [0; 13];
        chip.write(&[RESULT], at(ms));
        chip.read(&mut bytes, at(ms), condition, |_| metres);
        (bytes[0], bytes[1] >> 3, u16::from_be_bytes([bytes[11], bytes[12]]))
    }

    #[test]
    fn ranges_come_every_33_ms_and_are_read_once() {
        let mut chip = chip();
        assert_eq!(result(&mut chip, 0, Condition::Sound, 0.5).0, 0, "idle");
        chip.write(&[START, 0x02], at(100));
        assert_eq!(result(&mut chip, 132, Condition::Sound, 0.5).0, 0, "not yet");
        let (ready, status, mm) = result(&mut chip, 133, Condition::Sound, 0.5);
        assert!((ready, status) == (4, COMPLETE) && (485..=515).contains(&mm), "{ready} {status} {mm}");
        chip.write(&[CLEAR, 1], at(134));
        assert_eq!(result(&mut chip, 165, Condition::Sound, 0.5).0, 0, "taken");
        assert_eq!(result(&mut chip, 166, Condition::Sound, 3.0), (4, NO_PHASE, NO_TARGET_MM));
        chip.write(&[CLEAR, 1], at(167));
        assert_eq!(
            result(&mut chip, 200, Condition::Frozen, 0.3),
            (4, NO_PHASE, NO_TARGET_MM),
            "it must return the last measurement"
        );
        assert_eq!(result(&mut chip, 200, Condition::Silent, 0.3).0, 0);
    }

    #[test]
    fn the_address_is_lost_with_supply_or_shut_down() {
        let mut chip = chip();
        for lose in [Ranger::lose_power, |chip: &mut Ranger| chip.set_up(false)] {
            chip.set_up(true);
            chip.write(&[ADDRESS, 0x30], at(0));
            assert_eq!(chip.address(), 0x30);
            lose(&mut chip);
            assert_eq!(chip.address(), FIRST_ADDRESS);
        }
        assert!(!chip.is_up());
    }

    #[test]
    fn writes_to_other_pages_do_not_start_ranging() {
        let mut chip = chip();
        chip.write(&[PAGE, 1], at(0));
        chip.write(&[START, 0x02], at(0));
        chip.write(&[PAGE, 0], at(0));
        assert_eq!(result(&mut chip, 50, Condition::Sound, 0.5).0, 0);
    }
}
