//! The wiring besides the buses: the microcontroller, other PWM sources, reserved lines, the line that
//! enables the motor current, and the guard that holds one of these lines.

use super::claims::{Claims, PwmUse, Thing};
use crate::base::plan::{BusPlan, EnablePlan, GuardHold, GuardPlan, Line, McuPlan, PwmPlan};
use crate::base::time::Span;
use crate::deploy::board::reader::Section;
use crate::deploy::board::spelling::ADDRESSES;

/// Channels of the Robot HAT's ADC.
pub const ADC_CHANNELS: u8 = 5;
/// Timers of the Robot HAT v4.
const TIMERS_V4: u8 = 4;
/// Channels of a PCA9685.
const PCA9685_CHANNELS: i64 = 16;
/// Maximum number of channels of a PWM chip in sysfs. The chips of the supported computers have one to four.
const SYSFS_CHANNELS: i64 = 32;
/// Pulse rates that suit any hobby servo; higher rates overheat analogue servos.
const SERVO_HZ: std::ops::RangeInclusive<f32> = 40.0..=60.0;

/// What sensors and motors may be wired to.
pub struct Wiring<'b> {
    /// The bus; `None` if it is invalid.
    pub bus: Option<&'b BusPlan>,
    /// The microcontroller; `Some(None)` if it is invalid.
    pub mcu: Option<Option<&'b McuPlan>>,
    /// Another PWM source; `Some(None)` if it is invalid.
    pub pwm: Option<Option<&'b PwmPlan>>,
}

impl Wiring<'_> {
    /// PWM channels of the Robot HAT. A v4 has P0 to P13, a v5 has P0 to P19.
    fn hat_channels(&self) -> u8 {
        if self.mcu.flatten().is_some_and(|mcu| mcu.timers == TIMERS_V4) { 14 } else { 20 }
    }
    /// Reports an error if `section` needs wires and the board has none.
    pub fn demand_wires(&self, section: &Section<'_>, kind: &str) {
        if matches!(self.bus, Some(BusPlan::Log)) {
            section.misfit("kind", format!("\"{kind}\" needs wires; the bus kind \"log\" has none"));
        }
    }
    /// Reports an error if `section` needs the microcontroller and the board has none.
    pub fn demand_mcu(&self, section: &Section<'_>, kind: &str) {
        match self.bus {
            Some(BusPlan::Log) => self.demand_wires(section, kind),
            _ if self.mcu.is_none() => {
                section.misfit("kind", format!("\"{kind}\" needs the microcontroller: an [mcu] table"));
            }
            _ => {}
        }
    }
    /// Reports an error if `section` is a motor that needs PWM and the board has no PWM source.
    pub fn demand_pwm(&self, section: &Section<'_>, kind: &str) {
        match self.bus {
            Some(BusPlan::Log) => self.demand_wires(section, kind),
            _ if self.mcu.is_none() && self.pwm.is_none() => {
                let rule = format!(
                    "\"{kind}\" needs the microcontroller: an [mcu] table (or another source of PWM: [pca9685] or [pwm])"
                );
                section.misfit("kind", rule);
                section.give_up(); // how its channels are written depends on the source
            }
            _ => {}
        }
    }
    /// Reports an error if `section` is a sensor of the host computer and the bus kind is not "linux".
    pub fn demand_machine(&self, section: &Section<'_>, kind: &str) {
        if let Some(BusPlan::Sim | BusPlan::Log) = self.bus {
            let rule = format!("\"{kind}\" reads the computer itself: it needs the bus kind \"linux\"");
            section.misfit("kind", rule);
        }
    }
}

/// `[mcu]`.
pub fn mcu(section: &Section<'_>, claims: &mut Claims) -> Option<McuPlan> {
    let addresses = section.addresses("address", 1 + McuPlan::OTHERS).required();
    let clock = section.integer("clock_hz", 1_000_000..=1_000_000_000).required();
    let timers = section.integer("timers", 4..=7).required();
    let reset = line(section, "reset", claims);
    if let Some(timers) = timers.filter(|timers| *timers != 4 && *timers != 7) {
        section.misfit("timers", format!("found {timers}; allowed: 4 (Robot HAT v4) or 7 (v5)"));
    }
    let addresses = addresses?;
    let (first, rest) = addresses.split_first()?;
    let mut others = [None; McuPlan::OTHERS];
    others.iter_mut().zip(rest).for_each(|(slot, address)| *slot = Some(*address));
    let (address, clock_hz, timers) = (*first, clock? as u32, timers? as u8);
    let plan = McuPlan { address, others, clock_hz, timers, reset: reset? };
    plan.addresses().for_each(|address| claims.take(Thing::Address(0, address), section.path("address")));
    Some(plan)
}

/// `[pca9685]`, on the first bus.
pub fn pca9685(section: &Section<'_>, claims: &mut Claims) -> Option<PwmPlan> {
    // The chip has six address pins. The frequency limits follow from the prescaler's range and the internal
    // clock (data sheet).
    let address = section.integer("address", 0x40..=0x77).required();
    let hz = section.real("hz", 24.0..=1526.0).required();
    let output_enable = optional_line(section, "output_enable", claims);
    if let Some(address) = address {
        claims.take(Thing::Address(0, address as u8), section.path("address"));
    }
    Some(PwmPlan::Pca9685 { address: address? as u8, hz: hz? as f32, output_enable: output_enable? })
}

/// `[pwm]`: the computer's own PWM outputs.
pub fn sysfs_pwm(section: &Section<'_>) -> Option<PwmPlan> {
    let device = section.text("device").required();
    // Below 20 Hz a motor judders; no supported bridge follows more than 100 kHz.
    let hz = section.real("hz", 20.0..=100_000.0).required();
    Some(PwmPlan::Sysfs { device: device?, hz: hz? as f32 })
}

/// `[reserved]`: lines that the board uses itself. Each key says for what. No role may use these lines.
pub fn reserved(section: Section<'_>, claims: &mut Claims) {
    for name in section.free_names() {
        line(&section, &name, claims);
    }
}

/// `[enable]`.
pub fn enable(section: &Section<'_>, claims: &mut Claims) -> Option<EnablePlan> {
    let line = line(section, "line", claims);
    let on_high = section.flag("on_high").required();
    Some(EnablePlan { line: line?, on_high: on_high? })
}

/// `[guard]`; the line that it holds must exist.
pub fn guard(section: &Section<'_>, mcu: bool, enable: bool, tick: Option<Span>) -> Option<GuardPlan> {
    let holds = [("reset", GuardHold::Reset), ("enable", GuardHold::Enable)];
    let holds =
        section.choice("holds", "line for a guard to hold", &holds).required().map(|(_, holds)| holds);
    // Below 10 ms a busy core looks like a dead program; in a second the robot travels half a metre.
    let timeout = section.millis("patience_ms", 10.0..=1000.0).required();
    let required = section.flag("required").or(true);
    match holds {
        Some(GuardHold::Reset) if !mcu => section.misfit(
            "holds",
            "\"reset\" is the microcontroller's reset line: the board has no [mcu] table".to_string(),
        ),
        Some(GuardHold::Enable) if !enable => section.misfit(
            "holds",
            "\"enable\" is the motors' enable line: the board has no [enable] table".to_string(),
        ),
        _ => {}
    }
    // The heartbeat is sent four times per timeout, and only if the loop has advanced since the last one.
    if let (Some(timeout), Some(tick)) = (timeout, tick)
        && timeout < tick.times(4)
    {
        let (found, least) = (super::millis(timeout), super::millis(tick.times(4)));
        let rule = format!("found {found} ms; must not be below four control periods ({least} ms)");
        section.misfit("patience_ms", rule);
    }
    Some(GuardPlan { holds: holds?, timeout: timeout?, required })
}

/// Reads and claims a GPIO line.
pub fn line(section: &Section<'_>, key: &str, claims: &mut Claims) -> Option<Line> {
    let word = section.line(key).required()?;
    let line = claims.line(word, section, key)?;
    claims.take(Thing::Line(line), section.path(key));
    Some(line)
}

/// Reads and claims an optional GPIO line. `Some(None)`: the key is missing; `None`: the value is invalid.
pub fn optional_line(section: &Section<'_>, key: &str, claims: &mut Claims) -> Option<Option<Line>> {
    let Some(word) = section.line(key).if_written()? else { return Some(None) };
    let line = claims.line(word, section, key)?;
    claims.take(Thing::Line(line), section.path(key));
    Some(Some(line))
}

/// Reads a 7-bit I2C address without claiming it.
pub fn address(section: &Section<'_>, key: &'static str) -> Option<u8> {
    section.integer(key, ADDRESSES).required().map(|address| address as u8)
}

/// Reads and claims a PWM channel with the frequency that it needs. A Robot HAT channel has the name printed
/// on the board; channels of other sources are numbers.
pub fn pwm(
    section: &Section<'_>,
    key: &'static str,
    use_of: PwmUse,
    wiring: &Wiring<'_>,
    claims: &mut Claims,
) -> Option<u8> {
    let Some(other) = wiring.pwm else {
        let channel = section.channel(key, 'P', wiring.hat_channels())?;
        claims.take_hat_pwm(channel, use_of, section.path(key));
        return Some(channel);
    };
    let channels = match other {
        Some(PwmPlan::Pca9685 { hz, .. }) => {
            if use_of == PwmUse::Servo && !SERVO_HZ.contains(hz) {
                let rule = format!(
                    "a servo needs 40 to 60 Hz; all channels of the PCA9685 run at {hz} Hz (pca9685.hz)"
                );
                section.misfit(key, rule);
            }
            PCA9685_CHANNELS
        }
        Some(PwmPlan::Sysfs { .. }) | None => SYSFS_CHANNELS,
    };
    let channel = section.integer(key, 0..=channels - 1).required()? as u8;
    claims.take(Thing::Pwm(channel), section.path(key));
    Some(channel)
}
