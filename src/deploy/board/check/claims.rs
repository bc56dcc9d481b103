//! Which role uses which line, channel, timer and I2C address. Only one role may use each of them, except
//! that several roles may share a chip that provides several values.

use crate::base::plan::Line;
use crate::deploy::board::finding::Problem;
use crate::deploy::board::reader::Section;
use crate::deploy::board::report::{Report, Shared};
use crate::deploy::board::spelling::LineWord;
use crate::hardware::device::robot_hat::timer_of;

/// Maximum number of line names on one board: no supported chip has this many lines.
const MOST_LINE_NAMES: usize = 256;
/// The address at which every VL53L0X answers after power-on.
pub const VL53L0X: u8 = 0x29;

/// What a PWM channel drives, which determines how fast its timer has to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PwmUse {
    /// 50 Hz.
    Servo,
    /// Around 1.8 kHz.
    DcMotor,
}

/// A resource that only one role may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thing {
    /// A GPIO line.
    Line(Line),
    /// A PWM channel of the Robot HAT.
    HatPwm(u8),
    /// A channel of another PWM source, by number.
    Pwm(u8),
    /// A channel of the Robot HAT's ADC.
    Adc(u8),
    /// A whole I2C device, by bus and address.
    Address(usize, u8),
    /// Four bytes of an I2C device: bus, address and first register.
    Registers(usize, u8, u8),
}

impl Thing {
    fn collides(self, other: Thing) -> bool {
        match (self, other) {
            (Thing::Registers(bus, a, r), Thing::Registers(other, b, s)) => {
                (bus, a) == (other, b) && r.abs_diff(s) < 4
            }
            (Thing::Registers(bus, a, _), Thing::Address(other, b))
            | (Thing::Address(bus, a), Thing::Registers(other, b, _)) => (bus, a) == (other, b),
            _ => self == other,
        }
    }
}

/// One value of a chip that can provide several, one to each role.
#[derive(Clone, Debug, PartialEq)]
pub struct Shares {
    /// Kind of the chip, as the file spells it.
    pub kind: &'static str,
    /// Index of the bus.
    pub bus: usize,
    /// 7 bits.
    pub address: u8,
    /// A key that describes the chip's wiring or parts, and its value; all roles must state the same value.
    pub alike: Option<(&'static str, String)>,
    /// Name of the value; no two roles may use the same value of a chip.
    pub value: String,
}

/// A VL53L0X. After power-on it answers at the same address as every other VL53L0X.
struct Ranger {
    bus: usize,
    address: u8,
    shuts_down: bool,
    path: String,
}

/// Which role uses what. Each role is identified by the path of its key.
#[derive(Default)]
pub struct Claims {
    /// Line names, in the order of their first mention; [`Line::named`] takes an index into this list.
    pub line_names: Vec<String>,
    /// Names of the I2C buses.
    pub buses: Vec<String>,
    taken: Vec<(Thing, String)>,
    hat_pwm: Vec<(u8, PwmUse, String)>,
    shares: Vec<(Shares, String)>,
    rangers: Vec<Ranger>,
}

impl Claims {
    /// Records that the role at `key` uses `thing`.
    pub fn take(&mut self, thing: Thing, key: String) {
        self.taken.push((thing, key));
    }

    /// Records that the role at `key` uses a channel of the Robot HAT, whose timer must run at the frequency
    /// for `use_of`.
    pub fn take_hat_pwm(&mut self, channel: u8, use_of: PwmUse, key: String) {
        self.take(Thing::HatPwm(channel), key.clone());
        self.hat_pwm.push((channel, use_of, key));
    }

    /// The line that `word` names; a new name is added to `line_names`. Reports an error at `key` and returns
    /// `None` if there are too many names.
    pub fn line(&mut self, word: LineWord, section: &Section<'_>, key: &str) -> Option<Line> {
        let name = match word {
            LineWord::Number(number) => return Some(Line(number)),
            LineWord::Name(name) => name,
        };
        let at = self.line_names.iter().position(|known| *known == name).unwrap_or(self.line_names.len());
        if at == MOST_LINE_NAMES {
            section.misfit(key, format!("found more than {MOST_LINE_NAMES} line names"));
            return None;
        }
        if at == self.line_names.len() {
            self.line_names.push(name);
        }
        Some(Line::named(at as u16))
    }

    /// Key of the first role that uses a GPIO line. A reserved line does not count as used.
    pub fn first_line(&self) -> Option<&str> {
        let used = |(thing, key): &&(Thing, String)| {
            matches!(thing, Thing::Line(_)) && !key.starts_with("reserved.")
        };
        self.taken.iter().find(used).map(|(_, key)| key.as_str())
    }

    /// Records that the sensor at `section` uses one value of a chip. Returns whether it is the first to use
    /// this chip: the caller then claims what is wired to the chip.
    pub fn share(&mut self, shares: Shares, section: &Section<'_>) -> bool {
        let first = !self.shares.iter().any(|(other, _)| {
            (other.bus, other.address, other.kind) == (shares.bus, shares.address, shares.kind)
        });
        if first {
            self.take(Thing::Address(shares.bus, shares.address), section.path("address"));
        }
        self.shares.push((shares, section.path("")));
        first
    }

    /// Records that the sensor at `section` is a VL53L0X that is to answer at `address`.
    pub fn take_ranger(&mut self, bus: usize, address: u8, shuts_down: bool, section: &Section<'_>) {
        self.take(Thing::Address(bus, address), section.path("address"));
        self.rangers.push(Ranger { bus, address, shuts_down, path: section.path("") });
    }

    /// Reports every resource that is used twice, every timer that would need two frequencies, and every chip
    /// that is described in two ways.
    pub fn settle(&self, report: &Shared) {
        let report = &mut *report.borrow_mut();
        for (at, (thing, key)) in self.taken.iter().enumerate() {
            if let Some((_, holder)) = self.taken[..at].iter().find(|(other, _)| thing.collides(*other)) {
                clash(report, key, self.describe(*thing), holder);
            }
        }
        self.settle_timers(report);
        self.settle_shares(report);
        self.settle_rangers(report);
    }

    fn settle_timers(&self, report: &mut Report) {
        for timer in 0..7 {
            let mut group = self.hat_pwm.iter().filter(|(channel, _, _)| timer_of(*channel) == timer);
            let Some((_, first, holder)) = group.next() else { continue };
            // One message per timer: only the user knows which channel is misplaced.
            if let Some((_, _, key)) = group.find(|(_, use_of, _)| use_of != first) {
                let thing = format!("PWM timer {timer} (one frequency: servos need 50 Hz, motors more)");
                clash(report, key, thing, holder);
            }
        }
    }

    fn settle_shares(&self, report: &mut Report) {
        for (at, (shares, path)) in self.shares.iter().enumerate() {
            let of_chip = |other: &&(Shares, String)| {
                (other.0.bus, other.0.address, other.0.kind) == (shares.bus, shares.address, shares.kind)
            };
            let Some((first, holder)) = self.shares[..at].iter().find(of_chip) else { continue };
            let chip = format!("the {} at {:#04x}", shares.kind, shares.address);
            if shares.alike != first.alike {
                let (key, value) =
                    shares.alike.clone().or(first.alike.clone()).unwrap_or(("address", String::new()));
                let rule = format!(
                    "{chip} is one chip, but {} states a different {key} (here: {value})",
                    bare(holder)
                );
                report.misfit(&format!("{path}{key}"), rule);
            }
            let twin =
                self.shares[..at].iter().filter(of_chip).find(|(other, _)| other.value == shares.value);
            if let Some((_, holder)) = twin {
                let (key, thing) = (format!("{path}address"), format!("the {} of {chip}", shares.value));
                clash(report, &key, thing, &format!("{holder}address"));
            }
        }
    }

    /// All VL53L0X on a bus wake up at the same address, so the others must be held in shutdown while one is
    /// assigned its own address.
    fn settle_rangers(&self, report: &mut Report) {
        for ranger in &self.rangers {
            let alone = self.rangers.iter().filter(|other| other.bus == ranger.bus).count() == 1;
            let key = format!("{}address", ranger.path);
            if !alone && !ranger.shuts_down {
                let rule = format!(
                    "several VL53L0X on a bus all wake up at {VL53L0X:#04x}: each needs its `shutdown` line wired"
                );
                report.misfit(&key, rule);
            }
            let mine = |key: &str| self.rangers.iter().any(|other| key == format!("{}address", other.path));
            let holder = self
                .taken
                .iter()
                .find(|(thing, key)| thing.collides(Thing::Address(ranger.bus, VL53L0X)) && !mine(key));
            if let Some((_, holder)) = holder.filter(|_| ranger.address != VL53L0X) {
                let thing = format!(
                    "{}, where a VL53L0X wakes up,",
                    self.describe(Thing::Address(ranger.bus, VL53L0X))
                );
                clash(report, &key, thing, holder);
            }
        }
    }

    fn describe(&self, thing: Thing) -> String {
        let on = |bus: usize| match self.buses.get(bus) {
            Some(name) if bus > 0 => format!(" on bus {name}"),
            _ => String::new(),
        };
        match thing {
            Thing::Line(line) => match line.name().and_then(|at| self.line_names.get(at)) {
                Some(name) => format!("GPIO line {name}"),
                None => format!("GPIO line {}", line.0),
            },
            Thing::HatPwm(channel) => format!("PWM channel P{channel}"),
            Thing::Pwm(channel) => format!("PWM channel {channel}"),
            Thing::Adc(channel) => format!("ADC channel A{channel}"),
            Thing::Address(bus, address) => format!("I2C address {address:#04x}{}", on(bus)),
            Thing::Registers(bus, address, register) => {
                format!(
                    "I2C device {address:#04x}{}, registers {register:#04x} to {:#04x},",
                    on(bus),
                    register + 3
                )
            }
        }
    }
}

/// The path of an entry, without the dot that precedes its keys.
fn bare(path: &str) -> &str {
    path.trim_end_matches('.')
}

fn clash(report: &mut Report, key: &str, thing: String, holder: &str) {
    let written = report.spot_of(holder);
    report.refuse_value(key, Problem::Clash { thing, holder: holder.to_string(), written });
}
