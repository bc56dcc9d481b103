//! Records what happens on the wires, in the board's terms: currents in the motors, readings of the sensors,
//! whether the motors' controller answered. It is meant for a judge that must not rely on the runtime. Judges
//! nothing.
//!
//! Times are those of the accesses. Workers overlap, so an event of one worker may be recorded after a later
//! event of another. The tape hands out only events up to a moment that all workers have reached: up to there
//! the events are complete.

use ganglion::base::command::MAX_MOTORS;
use ganglion::base::plan::{Board, ChipSensor, ImuQuantity, Line, LineSensor, SensorKind, SensorPlan};
use ganglion::base::time::Instant;
use ganglion::hardware::bus::{Edge, Op};
use ganglion::sim::Witness;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An event and its time.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Its time.
    pub at: Instant,
    /// The event.
    pub what: What,
}

/// An event on the wires.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// The currents of the drive motors from now on, in the board's order: share of the time, -1..=1,
    /// positive forwards.
    Currents(heapless::Vec<f32, MAX_MOTORS>),
    /// A sensor's reading was complete on its wire. The value is as it arrived, including flipped bits; NaN
    /// if the bytes mean no value.
    Heard {
        /// Its index in the board's list.
        sensor: usize,
        /// In the board's unit.
        value: f32,
    },
    /// A transfer to the motors' PWM chip ended.
    Controller {
        /// Whether it was acknowledged.
        answered: bool,
    },
}

/// Where a sensor is on the wires.
#[derive(Clone, Copy, Debug, PartialEq)]
enum SensorLocation {
    Converter { channel: u8, per_count: f32 },
    Float { bus: usize, address: u8, register: u8 },
    Roll { bus: usize, address: u8 },
    Ranger { bus: usize, address: u8 },
    Echo(Line),
    Button { line: Line, active_low: bool },
}

/// The speed of sound on which the board's metres are based, and a sonar's largest and smallest valid range.
const SOUND_M_PER_S: f64 = 343.3;
const FARTHEST_M: f64 = 4.0;
const NEAREST_M: f64 = 0.02;
/// A 12-bit converter's full count.
const FULL_COUNT: u16 = 4095;
/// First register of an MPU-6050's burst read.
const BURST: u8 = 0x3B;
/// A VL53L0X's result: interrupt status, range status and, ten bytes on, the range. Writing to [`CLEAR`]
/// takes it.
const RESULT: u8 = 0x13;
const RESULT_BYTES: usize = 13;
const CLEAR: u8 = 0x0B;
/// Its code for "no target", millimetres, and what that means in metres, as anything farther away: nothing is
/// nearer than this.
const NO_TARGET_MM: u16 = 8190;
pub const NO_TARGET_M: f32 = 1.2;

/// A fifth of gravity in the chip's second range (4 g), counts: with less, or at an end of the range, the
/// direction of gravity is unknown.
const LEAST_PULL: f64 = 0.2 * 8192.0;

/// The tape: written by the plant, read by the judge.
#[derive(Clone, Debug)]
pub struct Tape(Arc<Mutex<Reel>>);

#[derive(Debug)]
struct Reel {
    places: Vec<(usize, SensorLocation)>,
    events: Vec<Event>,
    currents: heapless::Vec<f32, MAX_MOTORS>,
    /// The converter channel that was selected last, and the high byte of its reading once that was read.
    selected: Option<(u8, Option<u8>)>,
    /// For each ranger, by bus and address, the value of the result that was read but not yet taken.
    results: Vec<((usize, u8), f32)>,
    /// For each echo line, when it rose.
    rises: Vec<(Line, Instant)>,
}

impl Tape {
    /// A tape for the robot of `board`.
    pub fn new(board: &Board) -> Tape {
        let place = |(at, sensor): (usize, &SensorPlan)| {
            let bus = sensor.bus;
            let place = match sensor.kind {
                SensorKind::Chip(ChipSensor::HatAdc { channel, per_count }) => {
                    SensorLocation::Converter { channel, per_count }
                }
                SensorKind::Chip(ChipSensor::FloatRegister { address, register }) => {
                    SensorLocation::Float { bus, address, register }
                }
                SensorKind::Chip(ChipSensor::Mpu6050 { address, quantity: ImuQuantity::Roll, .. }) => {
                    SensorLocation::Roll { bus, address }
                }
                SensorKind::Chip(ChipSensor::Vl53l0x { address, .. }) => {
                    SensorLocation::Ranger { bus, address }
                }
                SensorKind::Lines(LineSensor::HcSr04 { echo, .. }) => SensorLocation::Echo(echo),
                SensorKind::Lines(LineSensor::Button { line, active_low }) => {
                    SensorLocation::Button { line, active_low }
                }
                // Other sensors do not show on the wires of the campaign's robots.
                _ => return None,
            };
            Some((at, place))
        };
        let places = board.sensors.iter().enumerate().filter_map(place).collect();
        let currents = heapless::Vec::new();
        let (events, results, rises) = (Vec::new(), Vec::new(), Vec::new());
        let reel = Reel { places, events, currents, selected: None, results, rises };
        Tape(Arc::new(Mutex::new(reel)))
    }

    /// Takes the events up to `until`. Events of a worker that is ahead of the others stay.
    pub fn take(&self, until: Instant, into: &mut Vec<Event>) {
        into.extend(self.reel().events.extract_if(.., |event| event.at <= until));
    }

    fn reel(&self) -> MutexGuard<'_, Reel> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Witness for Tape {
    fn currents(&mut self, now: heapless::Vec<f32, MAX_MOTORS>, at: Instant) {
        self.reel().currents(now, at);
    }
    fn controller(&mut self, answered: bool, at: Instant) {
        self.reel().controller(answered, at);
    }
    fn transfer(&mut self, bus: usize, address: u8, controller: bool, ops: &[Op<'_>], at: Instant) {
        self.reel().transfer(bus, address, controller, ops, at);
    }
    fn edge(&mut self, edge: &Edge, at: Instant) {
        self.reel().edge(edge, at);
    }
    fn level(&mut self, line: Line, high: bool, at: Instant) {
        self.reel().level(line, high, at);
    }
}

impl Reel {
    /// Sets the currents to `now` from `at` on; drops later ones that a bus ahead in time has recorded.
    fn currents(&mut self, now: heapless::Vec<f32, MAX_MOTORS>, at: Instant) {
        if self.currents != now {
            self.currents = now.clone();
            self.events.retain(|event| event.at <= at || !matches!(event.what, What::Currents(_)));
            self.note(What::Currents(now), at);
        }
    }

    fn controller(&mut self, answered: bool, at: Instant) {
        if !answered {
            self.selected = None;
        }
        self.note(What::Controller { answered }, at);
    }

    fn transfer(&mut self, bus: usize, address: u8, controller: bool, ops: &[Op<'_>], at: Instant) {
        match ops {
            [Op::Write([select, _, _])] if controller && (0x10..=0x17).contains(select) => {
                self.selected = Some((7 - (select & 7), None));
            }
            [Op::Read(back)] if controller && back.len() == 1 => self.converter_byte(back[0], at),
            [Op::Write([RESULT]), Op::Read(back)] if !controller && back.len() == RESULT_BYTES => {
                self.result(bus, address, back);
            }
            [Op::Write([CLEAR, _])] if !controller => self.take_result(bus, address, at),
            [Op::Write([register]), Op::Read(back)] if !controller => {
                self.register(bus, address, *register, back, at);
            }
            _ => {}
        }
    }

    fn converter_byte(&mut self, byte: u8, at: Instant) {
        match self.selected {
            Some((channel, None)) => self.selected = Some((channel, Some(byte))),
            Some((channel, Some(high))) => {
                self.selected = None;
                let counts = u16::from_be_bytes([high, byte]);
                self.heard(at, |place| match place {
                    SensorLocation::Converter { channel: its, per_count } if its == channel => {
                        Some(if counts <= FULL_COUNT { f32::from(counts) * per_count } else { f32::NAN })
                    }
                    _ => None,
                });
            }
            None => {}
        }
    }

    fn register(&mut self, bus: usize, address: u8, register: u8, back: &[u8], at: Instant) {
        self.heard(at, |place| match place {
            SensorLocation::Float { bus: its_bus, address: its, register: first }
                if (its_bus, its, first) == (bus, address, register) =>
            {
                let bytes: [u8; 4] = back.try_into().ok()?;
                let dead = bytes == [0; 4] || bytes == [0xFF; 4]; // a bus without a device gives these bytes
                Some(if dead { f32::NAN } else { f32::from_le_bytes(bytes) })
            }
            SensorLocation::Roll { bus: its_bus, address: its }
                if (its_bus, its, BURST) == (bus, address, register) =>
            {
                let word =
                    |at: usize| Some(f64::from(i16::from_be_bytes([*back.get(at)?, *back.get(at + 1)?])));
                let [x, y, z] = [word(0)?, word(2)?, word(4)?];
                let at_end = |counts: &f64| [i16::MIN, i16::MAX].map(f64::from).contains(counts);
                let dead = back.iter().all(|byte| *byte == 0xFF);
                let none =
                    dead || [x, y, z].iter().any(at_end) || libm::hypot(libm::hypot(x, y), z) < LEAST_PULL;
                Some(if none { f32::NAN } else { libm::atan2(y, z).to_degrees() as f32 })
            }
            _ => None,
        });
    }

    /// A ranger's result. It counts only once the program has taken it: without that, the chip returns the
    /// same result again.
    fn result(&mut self, bus: usize, address: u8, back: &[u8]) {
        let millimetres = u16::from_be_bytes([back[RESULT_BYTES - 2], back[RESULT_BYTES - 1]]);
        let value = match (back[1] >> 3) & 0x0F {
            11 if millimetres < NO_TARGET_MM => (f32::from(millimetres) / 1000.0).min(NO_TARGET_M),
            6 | 9 if millimetres >= NO_TARGET_MM => NO_TARGET_M,
            _ => f32::NAN,
        };
        self.results.retain(|(its, _)| *its != (bus, address));
        let (is_dead, is_new) = (back.iter().all(|byte| *byte == 0xFF), back[0] & 0x07 != 0);
        if is_new && !is_dead {
            self.results.push(((bus, address), value));
        }
    }

    fn take_result(&mut self, bus: usize, address: u8, at: Instant) {
        let taken = self.results.iter().position(|(its, _)| *its == (bus, address));
        let Some(value) = taken.map(|place| self.results.swap_remove(place).1) else { return };
        self.heard(at, |place| (place == SensorLocation::Ranger { bus, address }).then_some(value));
    }

    fn edge(&mut self, edge: &Edge, at: Instant) {
        self.level(edge.line, edge.high, at);
        self.echo(edge, at);
    }

    fn level(&mut self, line: Line, high: bool, at: Instant) {
        self.heard(at, |place| match place {
            SensorLocation::Button { line: its, active_low } if its == line => {
                Some(if high != active_low { 1.0 } else { 0.0 })
            }
            _ => None,
        });
    }

    fn echo(&mut self, &Edge { line, high, stamp }: &Edge, at: Instant) {
        let rise =
            self.rises.iter().position(|(its, _)| *its == line).map(|place| self.rises.swap_remove(place).1);
        if high {
            self.rises.push((line, stamp));
        } else if let Some(rise) = rise {
            let metres = stamp.since(rise).as_secs_f64() * SOUND_M_PER_S / 2.0;
            let value = if metres < NEAREST_M { f32::NAN } else { metres.min(FARTHEST_M) as f32 };
            self.heard(at, |place| (place == SensorLocation::Echo(line)).then_some(value));
        }
    }

    fn heard(&mut self, at: Instant, value: impl Fn(SensorLocation) -> Option<f32>) {
        for nth in 0..self.places.len() {
            let (sensor, place) = self.places[nth];
            if let Some(value) = value(place) {
                self.note(What::Heard { sensor, value }, at);
            }
        }
    }

    fn note(&mut self, what: What, at: Instant) {
        self.events.push(Event { at, what });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ganglion::base::time::Span;
    use ganglion::deploy::board;

    fn tape() -> Tape {
        Tape::new(&board::built_in("sim").unwrap().unwrap().board)
    }

    fn values(tape: &mut Tape) -> Vec<(usize, f32)> {
        let mut events = Vec::new();
        tape.take(Instant::NEVER, &mut events);
        let value = |event: Event| match event.what {
            What::Heard { sensor, value } => Some((sensor, value)),
            _ => None,
        };
        events.into_iter().filter_map(value).collect()
    }

    #[test]
    fn an_adc_reading_counts_once_both_bytes_were_read() {
        let mut tape = tape();
        let at = Instant::from_nanos(5);
        tape.transfer(0, 0x14, true, &[Op::Write(&[0x16, 0, 0])], at);
        tape.transfer(0, 0x14, true, &[Op::Read(&mut [0x05])], at);
        assert!(values(&mut tape).is_empty());
        tape.transfer(0, 0x14, true, &[Op::Read(&mut [0x10])], at);
        let [(sensor, counts)] = values(&mut tape)[..] else { panic!("one answer") };
        let board = board::built_in("sim").unwrap().unwrap().board;
        assert_eq!((board.sensors[sensor].name.as_str(), counts.round()), ("ground-middle", 1296.0));
        tape.transfer(0, 0x14, true, &[Op::Write(&[0x16, 0, 0])], at);
        tape.controller(false, at); // the transfer in between failed
        tape.transfer(0, 0x14, true, &[Op::Read(&mut [0x05])], at);
        tape.transfer(0, 0x14, true, &[Op::Read(&mut [0x05])], at);
        assert!(values(&mut tape).is_empty(), "two bytes without a selected channel");
    }

    #[test]
    fn a_range_counts_once_it_is_taken() {
        let mut tape = tape();
        let at = Instant::from_nanos(5);
        let read = |tape: &mut Tape, ready: u8, status: u8, millimetres: u16| {
            let mut back = [0; RESULT_BYTES];
            (back[0], back[1]) = (ready, status << 3);
            back[11..].copy_from_slice(&millimetres.to_be_bytes());
            tape.transfer(0, 0x31, false, &[Op::Write(&[RESULT]), Op::Read(&mut back)], at);
        };
        let take = |tape: &mut Tape| tape.transfer(0, 0x31, false, &[Op::Write(&[CLEAR, 1])], at);
        read(&mut tape, 4, 11, 250);
        assert!(values(&mut tape).is_empty(), "not taken yet");
        take(&mut tape);
        let [(sensor, metres)] = values(&mut tape)[..] else { panic!("one range") };
        let board = board::built_in("sim").unwrap().unwrap().board;
        assert_eq!((board.sensors[sensor].name.as_str(), metres), ("corner-right", 0.25));
        take(&mut tape);
        assert!(values(&mut tape).is_empty(), "taken once");
        for (ready, status, millimetres, heard) in [
            (0, 11, 250, None),
            (4, 9, 8190, Some(1.2)),
            (4, 11, 8190, Some(f32::NAN)),
            (4, 4, 250, Some(f32::NAN)),
        ] {
            read(&mut tape, ready, status, millimetres);
            take(&mut tape);
            let found = values(&mut tape).first().map(|(_, metres)| metres.to_bits());
            assert_eq!(found, heard.map(f32::to_bits), "{status} {millimetres}");
        }
    }

    #[test]
    fn a_line_that_goes_off_while_a_bus_is_ahead_stays_off() {
        let (mut tape, mut events) = (tape(), Vec::new());
        let (on, off): (heapless::Vec<f32, MAX_MOTORS>, _) =
            ([0.5].into_iter().collect(), [0.0].into_iter().collect());
        let [first, overtaken, line] = [10, 30, 20].map(Instant::from_nanos);
        tape.currents(on.clone(), first);
        tape.currents([0.7].into_iter().collect(), overtaken);
        tape.currents(off, line);
        tape.take(first, &mut events);
        assert_eq!(
            events,
            [Event { at: first, what: What::Currents(on) }],
            "no event after the requested time"
        );
        tape.take(Instant::NEVER, &mut events);
        assert_eq!(events.iter().map(|event| event.at).collect::<Vec<_>>(), [first, line]);
    }

    #[test]
    fn echoes_become_metres_and_unmatched_edges_are_ignored() {
        let mut tape = tape();
        let rise = Instant::from_nanos(1_000);
        let edge = |high, stamp| Edge { line: Line(22), high, stamp };
        tape.edge(&edge(false, rise), rise);
        assert!(values(&mut tape).is_empty());
        tape.edge(&edge(true, rise), rise);
        tape.edge(&edge(false, rise + Span::from_micros(5_826)), rise + Span::from_millis(9));
        assert!((values(&mut tape)[0].1 - 1.0).abs() < 1e-3);
        tape.level(Line(25), false, rise);
        assert_eq!(values(&mut tape)[0].1, 1.0, "a press pulls the line low");
    }
}
