//! The buses, the microcontroller, and who takes which line, channel and timer.

use crate::board::finding::Problem;
use crate::board::plan::{BusPlan, I2cTiming};
use crate::board::reader::Section;
use crate::board::report::{Report, Shared};
use crate::bus::Line;
use crate::device::McuPlan;
use crate::device::robot_hat::timer_of;
use std::fmt;

/// Highest GPIO line number: the largest chip that boards in view have counts 164 lines.
const LINES: std::ops::RangeInclusive<i64> = 0..=255;
/// 7-bit I2C addresses that are not reserved by the specification (UM10204, table 3).
const ADDRESSES: std::ops::RangeInclusive<i64> = 0x08..=0x77;
/// Channels of the Robot HAT's converter.
pub const ADC_CHANNELS: u8 = 5;

/// What sensors and motors may be wired to.
pub struct Wiring<'b> {
    /// The bus, where it is sound.
    pub bus: Option<&'b BusPlan>,
    /// The microcontroller, `Some(None)` where it is faulty.
    pub mcu: Option<Option<&'b McuPlan>>,
}

impl Wiring<'_> {
    /// PWM channels that there are. A v4 has P0 to P13, a v5 has P0 to P19.
    pub fn pwm_channels(&self) -> u8 {
        if self.mcu.flatten().is_some_and(|mcu| mcu.timers == TIMERS_V4) { 14 } else { 20 }
    }
    /// Notes where `section` needs the microcontroller, or wires at all, and there are none.
    pub fn demand(&self, section: &Section<'_>, kind: &str, mcu: bool) {
        if matches!(self.bus, Some(BusPlan::Log)) {
            section.misfit("kind", format!("\"{kind}\" needs wires; the bus kind \"log\" has none"));
        } else if mcu && self.mcu.is_none() {
            section.misfit("kind", format!("\"{kind}\" needs the microcontroller: an [mcu] table"));
        }
    }
}

/// Timers of the Robot HAT v4.
const TIMERS_V4: u8 = 4;

/// `[bus]`.
pub fn bus(section: &Section<'_>) -> Option<BusPlan> {
    #[derive(Clone, Copy)]
    enum Kind {
        Sim,
        Linux,
        Log,
    }
    let kinds = [("sim", Kind::Sim), ("linux", Kind::Linux), ("log", Kind::Log)];
    let Some((_, kind)) = section.choice("kind", "bus kind", &kinds).required() else {
        section.give_up();
        return None;
    };
    Some(match kind {
        Kind::Log => BusPlan::Log,
        Kind::Sim => BusPlan::Sim(timing(section)),
        Kind::Linux => {
            let i2c_path = section.text("i2c").required();
            let gpio_labels = section.texts("gpio_labels").required();
            let timing = timing(section);
            if i2c_path.as_ref().is_some_and(|path| !path.starts_with('/')) {
                section.misfit("i2c", "wanted: an absolute path, as in \"/dev/i2c-1\"".to_string());
            }
            if gpio_labels.as_ref().is_some_and(Vec::is_empty) {
                section.misfit("gpio_labels", "found none of them; wanted: at least one label".to_string());
            }
            BusPlan::Linux { i2c_path: i2c_path?, gpio_labels: gpio_labels?, timing }
        }
    })
}

fn timing(section: &Section<'_>) -> I2cTiming {
    // 100 kHz is what a Raspberry Pi sets and the vendor's installer leaves; 1 MHz is fast mode plus.
    let speed = section.integer("speed_hz", 10_000..=1_000_000).or(100_000);
    // The kernel's own second is far too long: a hung transfer must not outlive the lost-bus limit.
    let timeout = section.millis("timeout_ms", 1.0..=1000.0).or(crate::time::Span::from_millis(20));
    I2cTiming { speed_hz: speed as u32, timeout }
}

/// `[mcu]`.
pub fn mcu(section: &Section<'_>, claims: &mut Claims) -> Option<McuPlan> {
    let address = address(section, "address");
    let clock = section.integer("clock_hz", 1_000_000..=1_000_000_000).required();
    let timers = section.integer("timers", 4..=7).required();
    let reset = line(section, "reset", claims);
    if let Some(timers) = timers.filter(|timers| *timers != 4 && *timers != 7) {
        section.misfit("timers", format!("found {timers}; allowed: 4 (Robot HAT v4) or 7 (v5)"));
    }
    let plan = McuPlan { address: address?, clock_hz: clock? as u32, timers: timers? as u8, reset: reset? };
    claims.take(Thing::Address(plan.address), section.path("address"));
    Some(plan)
}

/// `[reserved]`: lines that the board needs for itself, by name; no role may take them.
pub fn reserved(section: Section<'_>, claims: &mut Claims) {
    for (name, number) in section.free_integers(LINES) {
        claims.take(Thing::Line(number as u32), section.path(&name));
    }
}

/// A GPIO line, claimed.
pub fn line(section: &Section<'_>, key: &'static str, claims: &mut Claims) -> Option<Line> {
    let number = section.integer(key, LINES).required()? as u32;
    claims.take(Thing::Line(number), section.path(key));
    Some(Line(number))
}

/// A 7-bit I2C address, not claimed.
pub fn address(section: &Section<'_>, key: &'static str) -> Option<u8> {
    section.integer(key, ADDRESSES).required().map(|address| address as u8)
}

/// A PWM channel, claimed with the frequency that its timer has to run at.
pub fn pwm(
    section: &Section<'_>,
    key: &'static str,
    use_of: PwmUse,
    wiring: &Wiring<'_>,
    claims: &mut Claims,
) -> Option<u8> {
    let channel = section.channel(key, 'P', wiring.pwm_channels())?;
    claims.take(Thing::Pwm(channel), section.path(key));
    claims.pwm.push((channel, use_of, section.path(key)));
    Some(channel)
}

/// What a PWM channel drives, and thereby how fast its timer has to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PwmUse {
    /// 50 Hz.
    Servo,
    /// Around 1.8 kHz.
    DcMotor,
}

/// A thing that only one role can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thing {
    /// A GPIO line.
    Line(u32),
    /// A PWM channel.
    Pwm(u8),
    /// A converter channel.
    Adc(u8),
    /// A whole I2C device.
    Address(u8),
    /// Four bytes of an I2C device, from a register on.
    Registers(u8, u8),
}

impl Thing {
    fn collides(self, other: Thing) -> bool {
        match (self, other) {
            (Thing::Registers(a, r), Thing::Registers(b, s)) => a == b && r.abs_diff(s) < 4,
            (Thing::Registers(a, _), Thing::Address(b)) | (Thing::Address(a), Thing::Registers(b, _)) => {
                a == b
            }
            _ => self == other,
        }
    }
}

impl fmt::Display for Thing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Thing::Line(number) => write!(f, "GPIO line {number}"),
            Thing::Pwm(channel) => write!(f, "PWM channel P{channel}"),
            Thing::Adc(channel) => write!(f, "ADC channel A{channel}"),
            Thing::Address(address) => write!(f, "I2C address {address:#04x}"),
            Thing::Registers(address, register) => {
                write!(f, "I2C device {address:#04x}, registers {register:#04x} to {:#04x},", register + 3)
            }
        }
    }
}

/// Who takes what, by the path of the key that says so.
#[derive(Default)]
pub struct Claims {
    taken: Vec<(Thing, String)>,
    pwm: Vec<(u8, PwmUse, String)>,
}

impl Claims {
    /// The role at `key` takes `thing`.
    pub fn take(&mut self, thing: Thing, key: String) {
        self.taken.push((thing, key));
    }

    /// Notes everything that is taken twice, and timers that would need two frequencies.
    pub fn settle(&self, report: &Shared) {
        let report = &mut *report.borrow_mut();
        for (at, (thing, key)) in self.taken.iter().enumerate() {
            if let Some((_, holder)) = self.taken[..at].iter().find(|(other, _)| thing.collides(*other)) {
                clash(report, key, thing.to_string(), holder);
            }
        }
        for timer in 0..7 {
            let mut group = self.pwm.iter().filter(|(channel, _, _)| timer_of(*channel) == timer);
            let Some((_, first, holder)) = group.next() else { continue };
            // One message a timer: where one channel is out of place, which one is for people to say.
            if let Some((_, _, key)) = group.find(|(_, use_of, _)| use_of != first) {
                let thing = format!("PWM timer {timer} (one frequency: servos want 50 Hz, motors more)");
                clash(report, key, thing, holder);
            }
        }
    }
}

fn clash(report: &mut Report, key: &str, thing: String, holder: &str) {
    let (spot, written) = (report.spot_of(key), report.spot_of(holder));
    let problem = Problem::Clash { thing, holder: holder.to_string(), written };
    report.findings.push(crate::board::finding::Finding { key: key.to_string(), problem, spot });
}
