//! The far side of the wires: the simulated car behind the kernel's adapter and lines. Takes events and
//! returns commands. The physics, the controller's registers and the sonar are those of `ganglion::sim`,
//! advanced by the events' timestamps. Opens nothing and waits for nothing, so it also runs in a unit test.
//!
//! Additions to the simulator that only the bench needs: an enable line, without which no pulse reaches a
//! motor; a controller that does not acknowledge while it is in reset; an MPU-6050; and faulty echoes.

use super::imu::{self, Imu};
use super::wire::{Behaviour, Command, Event, Happening};
use ganglion::base::plan::{Board, ChipSensor, EnablePlan, Line, LineSensor, MotorKind, SensorKind};
use ganglion::base::time::{Instant, SimClock, Span};
use ganglion::hardware::bus::{Edge, Gpio, I2c};
use ganglion::sim::{Plant, Report};
use std::sync::Arc;

/// Interval at which the values of the ADC and the inertial sensor are refreshed: the shortest sensor period.
/// Each refresh costs the guest two context switches.
pub const REFRESH: Span = Span::from_millis(10);
/// Registers of the controller: the first ADC register, the pulse registers, the firmware version.
const CONVERTERS: u8 = 0x10;
const PULSES: std::ops::RangeInclusive<u8> = 0x20..=0x33;
const FIRMWARE: u8 = 0x05;
/// An echo that is due sooner than this is delayed as a whole: this process woke up late, which must not
/// change the length of the echo.
const LEAD: Span = Span::from_micros(20);
/// The last echo edge comes at most this long after the trigger.
const ECHO_WITHIN: Span = Span::from_millis(50);
/// Width of a pulse on the data-ready line, the same as the chip's: 50 us.
const READY_PULSE: Span = Span::from_micros(50);

/// Behaviour of an echo line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Echo {
    /// The correct echo.
    Sound,
    /// No edge at all.
    Lost,
    /// The pulse ends after 50 us: nearer than the module can measure.
    Short,
    /// The pulse begins 10 ms late.
    Late,
    /// A pulse as for a distance of 3 cm, and another one 3 ms after it: the time from the first rise to the
    /// last fall corresponds to half a metre.
    Double,
    /// The line rises and stays high: the module never ends its pulse.
    Held,
    /// Nothing is within range: a pulse of this many milliseconds, which no trigger cuts short. 38 for an
    /// HC-SR04 by its data sheet, about 200 for other modules sold under its name.
    Open(u16),
}

/// The car behind the wires.
pub struct FarSide {
    board: Board,
    clock: Arc<SimClock>,
    plant: Plant,
    i2c: Box<dyn I2c>,
    gpio: Box<dyn Gpio>,
    lines: Lines,
    mcu: u8,
    converters: Vec<u8>,
    /// Drive channels: pulse register and the value written last.
    drives: Vec<(u8, u16)>,
    enabled: bool,
    answers: bool,
    /// Whether the controller is disconnected from the bus; its pulses continue.
    unplugged: bool,
    imu: Option<(u8, Imu)>,
    /// Whether the inertial sensor is on the bus.
    imu_there: bool,
    lean: Option<f64>,
    echo: Echo,
    /// Until this time the module ignores triggers, because its pulse has not ended.
    open_until: Instant,
    /// Whether samples are signalled at the chip's own rate; off while a row makes the edges itself.
    announces: bool,
    next_ready: Option<Instant>,
}

/// The lines that this side uses.
#[derive(Clone, Copy, Debug)]
struct Lines {
    reset: Line,
    enable: Option<EnablePlan>,
    ready: Option<Line>,
    button: Option<(Line, bool)>,
    clear: Option<(Line, Line)>,
}

impl Lines {
    fn of(board: &Board) -> Lines {
        let kinds = || board.sensors.iter().map(|sensor| &sensor.kind);
        Lines {
            reset: board.mcu.as_ref().map_or(Line(5), |mcu| mcu.reset),
            enable: board.enable,
            ready: kinds().find_map(|kind| match kind {
                SensorKind::Chip(ChipSensor::Mpu6050 { ready, .. }) => *ready,
                _ => None,
            }),
            button: kinds().find_map(|kind| match *kind {
                SensorKind::Lines(LineSensor::Button { line, active_low }) => Some((line, active_low)),
                _ => None,
            }),
            clear: board.i2c.first().and_then(|bus| bus.recovery.clear).map(|clear| (clear.scl, clear.sda)),
        }
    }
}

/// A line's offset on the kernel's GPIO chip.
fn offset(line: Line) -> u16 {
    line.0 as u16
}

impl FarSide {
    /// The car of `board`, standing at its start in the world of `seed`, from `now` on.
    pub fn new(board: &Board, seed: u64, now: Instant) -> FarSide {
        let clock = Arc::new(SimClock::new());
        clock.set(now);
        // This side handles the enable line; the simulated car has only its registers.
        let car = Board { enable: None, ..board.clone() };
        let plant = Plant::new(&car, seed, &[], clock.clone());
        let kinds = || board.sensors.iter().map(|sensor| &sensor.kind);
        let mut converters: Vec<u8> = kinds()
            .filter_map(|kind| match kind {
                SensorKind::Chip(ChipSensor::HatAdc { channel, .. }) => Some(*channel),
                _ => None,
            })
            .collect();
        converters.sort_unstable();
        converters.dedup();
        let imu = kinds().find_map(|kind| match kind {
            SensorKind::Chip(ChipSensor::Mpu6050 { address, .. }) => Some((*address, Imu::new())),
            _ => None,
        });
        let drives = board.motors.iter().flat_map(|motor| match motor.kind {
            MotorKind::DcDir { pwm, .. } => vec![pwm],
            MotorKind::DcPair { forward, backward, .. } => vec![forward, backward],
            MotorKind::Servo { .. } | MotorKind::Recorded { .. } => Vec::new(),
        });
        FarSide {
            i2c: plant.i2c(),
            gpio: plant.gpio(),
            lines: Lines::of(board),
            mcu: board.mcu.as_ref().map_or(0x14, |mcu| mcu.address),
            converters,
            drives: drives.map(|channel| (PULSES.start() + channel, 0)).collect(),
            enabled: board.enable.is_none(),
            answers: true,
            unplugged: false,
            imu,
            imu_there: false,
            lean: None,
            echo: Echo::Sound,
            open_until: Instant::ZERO,
            announces: true,
            next_ready: None,
            board: board.clone(),
            plant,
            clock,
        }
    }

    /// Commands that the kernel must get before any process uses the bus.
    pub fn begin(&mut self, now: Instant, out: &mut Vec<Command>) {
        out.push(Command::ClearFaults);
        out.push(Command::Persist(true));
        out.push(Command::Pull(offset(self.lines.reset), true)); // MCURST has a pull-up on the board
        if let Some(enable) = self.lines.enable {
            out.push(Command::Pull(offset(enable.line), !enable.on_high));
        }
        if let Some((scl, sda)) = self.lines.clear {
            out.push(Command::BusPins(offset(scl), offset(sda)));
        }
        out.push(Command::Boot);
        out.push(Command::Add(self.mcu, Behaviour::Frames));
        self.power_imu(out);
        for sensor in &self.board.sensors {
            if let SensorKind::Lines(LineSensor::HcSr04 { echo, .. }) = sensor.kind {
                out.push(Command::Line(offset(echo), false));
            }
        }
        if let Some(ready) = self.lines.ready {
            out.push(Command::Line(offset(ready), false));
        }
        self.press(false, out);
        self.come_up(out);
        self.refresh(now, out);
    }

    /// Powers the inertial sensor (again): it is asleep and has forgotten everything.
    pub fn power_imu(&mut self, out: &mut Vec<Command>) {
        let Some((address, imu)) = &mut self.imu else { return };
        imu.forget();
        self.imu_there = true;
        out.push(Command::Add(*address, Behaviour::Registers));
        out.push(Command::set(*address, imu::WHO_AM_I.0, &[imu::WHO_AM_I.1]));
        out.push(Command::set(*address, imu::POWER, &[imu::ASLEEP]));
    }

    /// Handles one event: changes the state here, and appends the commands for the kernel to `out`.
    pub fn take(&mut self, event: &Event, now: Instant, out: &mut Vec<Command>) {
        match event.what {
            Happening::Write if event.place == u16::from(self.mcu) => self.take_frame(event),
            Happening::Write => self.take_imu(event, out),
            Happening::Out(high) => self.drive(Line(event.place.into()), high, event.end, now, out),
            Happening::Floats(high) => self.drive(Line(event.place.into()), high, event.end, now, out),
            _ => {}
        }
    }

    /// Handles a frame for the controller. A pulse for a motor only takes effect while the enable line is on.
    fn take_frame(&mut self, event: &Event) {
        let Some((register, value)) = event.frame() else { return };
        if (CONVERTERS..CONVERTERS + 8).contains(&register) {
            return; // the kernel has already answered it
        }
        let mut reaches = value;
        if let Some(drive) = self.drives.iter_mut().find(|drive| drive.0 == register) {
            drive.1 = value;
            reaches = if self.enabled { value } else { 0 };
        }
        self.write_pulse(register, reaches, event.end);
    }

    fn write_pulse(&mut self, register: u8, value: u16, at: Instant) {
        let [high, low] = value.to_be_bytes();
        self.clock.set(at);
        // In reset the controller does not acknowledge, so the write has no effect, as intended.
        let _ = self.i2c.write(self.mcu, &[register, high, low]);
    }

    fn take_imu(&mut self, event: &Event, out: &mut Vec<Command>) {
        let Some((address, imu)) = &mut self.imu else { return };
        if event.place != u16::from(*address) || event.result != 0 {
            return;
        }
        let length = usize::from(event.length).min(event.data.len());
        if imu.take(&event.data[..length]) {
            self.power_imu(out);
        }
    }

    fn drive(&mut self, line: Line, high: bool, at: Instant, now: Instant, out: &mut Vec<Command>) {
        if line == self.lines.reset {
            return self.set_reset(high, at, out);
        }
        if let Some(enable) = self.lines.enable.filter(|enable| enable.line == line) {
            return self.enable(high == enable.on_high, at);
        }
        self.clock.set(at);
        if self.gpio.set(line, high).is_err() {
            return; // a line that the car does not have
        }
        // The edges of an echo that this trigger caused, at their absolute times.
        let mut echo = Vec::new();
        while let Ok(Some(edge)) = self.gpio.next_edge(ECHO_WITHIN) {
            echo.push(edge);
        }
        self.deliver(echo, now, out);
    }

    fn set_reset(&mut self, high: bool, at: Instant, out: &mut Vec<Command>) {
        self.clock.set(at);
        let _ = self.gpio.set(self.lines.reset, high);
        if !high {
            self.answers = false;
            self.drives.iter_mut().for_each(|drive| drive.1 = 0);
            out.push(Command::Reset(self.mcu));
            out.push(Command::Mute(self.mcu, true));
        }
    }

    fn enable(&mut self, on: bool, at: Instant) {
        if self.enabled == on {
            return;
        }
        self.enabled = on;
        for (register, value) in self.drives.clone() {
            self.write_pulse(register, if on { value } else { 0 }, at);
        }
    }

    fn deliver(&mut self, mut echo: Vec<Edge>, now: Instant, out: &mut Vec<Command>) {
        let Some(first) = echo.first().copied() else { return };
        let late = (now + LEAD).since(first.stamp);
        echo.iter_mut().for_each(|edge| edge.stamp += late);
        let rise = first.stamp + late;
        let mut at = |high, stamp| out.push(Command::LineAt(offset(first.line), high, stamp));
        match self.echo {
            Echo::Sound => echo.iter().for_each(|edge| at(edge.high, edge.stamp)),
            Echo::Lost => {}
            Echo::Held => at(true, rise),
            Echo::Open(_) if rise < self.open_until => {}
            Echo::Open(ms) => {
                self.open_until = rise + Span::from_millis(ms.into());
                at(true, rise);
                at(false, self.open_until);
            }
            Echo::Short => {
                at(true, rise);
                at(false, rise + Span::from_micros(50));
            }
            Echo::Late => echo.iter().for_each(|edge| at(edge.high, edge.stamp + Span::from_millis(10))),
            Echo::Double => {
                for shift in [0, 3000] {
                    at(true, rise + Span::from_micros(shift));
                    at(false, rise + Span::from_micros(shift + 200));
                }
            }
        }
    }

    /// Advances the car to `now`, and updates what its sensors see.
    pub fn refresh(&mut self, now: Instant, out: &mut Vec<Command>) {
        self.clock.set(now);
        if !self.answers && self.i2c.write_read(self.mcu, &[FIRMWARE], &mut [0; 3]).is_ok() {
            self.come_up(out);
        }
        if self.answers {
            self.convert(now, out);
        }
        self.refresh_imu(now, out);
        self.clock.set(now);
    }

    /// Makes the controller acknowledge again if it has booted.
    fn come_up(&mut self, out: &mut Vec<Command>) {
        let mut version = [0; 3];
        if self.i2c.write_read(self.mcu, &[FIRMWARE], &mut version).is_ok() {
            out.push(Command::set(self.mcu, FIRMWARE, &version));
            if !self.unplugged {
                out.push(Command::Mute(self.mcu, false));
            }
            self.answers = true;
        }
    }

    fn convert(&mut self, now: Instant, out: &mut Vec<Command>) {
        for channel in self.converters.clone() {
            let register = CONVERTERS + 7 - channel;
            let mut counts = [0; 2];
            self.clock.set(now);
            let asked = self.i2c.write(self.mcu, &[register, 0, 0]);
            if asked.and_then(|()| self.i2c.read(self.mcu, &mut counts)).is_ok() {
                out.push(Command::set(self.mcu, register, &counts));
            }
        }
    }

    fn refresh_imu(&mut self, now: Instant, out: &mut Vec<Command>) {
        let fallen = self.plant.report(now).contacts.falls > 0;
        let lean = self.lean.unwrap_or(if fallen { 35.0 } else { 0.0 });
        let Some((address, imu)) = &mut self.imu else { return };
        if !self.announces || !self.imu_there {
            return; // the row sets the samples, each right before its edge; or the sensor is gone
        }
        out.push(Command::set(*address, imu::SAMPLE, &imu.sample(lean)));
        let (Some(every), Some(line)) = (imu.ready_every(), self.lines.ready) else {
            self.next_ready = None;
            return;
        };
        // Schedules the edges until the refresh after the next, because the next may be a little late and an
        // edge due in between would be lost. Edges never come faster than the refresh, because that would
        // signal the same sample twice.
        let every = every.max(REFRESH);
        let mut next = self.next_ready.unwrap_or(now + every);
        while next < now + REFRESH.times(2) {
            if next >= now {
                pulse(line, next, out);
            }
            next += every;
        }
        self.next_ready = Some(next);
    }

    // ---- what rows do to the car ------------------------------------------------------------

    /// Presses or releases the stop button now.
    pub fn press(&mut self, pressed: bool, out: &mut Vec<Command>) {
        if let Some((line, active_low)) = self.lines.button {
            out.push(Command::Line(offset(line), pressed != active_low));
        }
    }
    /// Presses or releases the stop button at `at`.
    pub fn press_at(&mut self, pressed: bool, at: Instant, out: &mut Vec<Command>) {
        if let Some((line, active_low)) = self.lines.button {
            out.push(Command::LineAt(offset(line), pressed != active_low, at));
        }
    }
    /// Makes the car lean by this much from now on, whatever it stands on; `None`: as the world determines.
    pub fn lean(&mut self, degrees: Option<f64>) {
        self.lean = degrees;
    }
    /// The button's line and its level when pressed.
    pub fn button_line(&self) -> (u16, bool) {
        self.lines.button.map_or((0, true), |(line, active_low)| (offset(line), !active_low))
    }
    /// The data-ready line and its level when a sample is ready.
    pub fn ready_line(&self) -> (u16, bool) {
        (self.lines.ready.map_or(0, offset), true)
    }
    /// Sets a sample with this lean now, and schedules its pulse on the data-ready line for `at`.
    pub fn sample_at(&mut self, degrees: f64, at: Instant, out: &mut Vec<Command>) {
        self.lean = Some(degrees);
        let (Some((address, imu)), Some(line)) = (&mut self.imu, self.lines.ready) else { return };
        out.push(Command::set(*address, imu::SAMPLE, &imu.sample(degrees)));
        pulse(line, at, out);
    }
    /// Disconnects the controller from the bus, or reconnects it. Its pulses continue.
    pub fn unplug_mcu(&mut self, off: bool, out: &mut Vec<Command>) {
        self.unplugged = off;
        if off || self.answers {
            out.push(Command::Mute(self.mcu, off));
        }
    }
    /// Makes the controller reset itself, as if its supply had been down for a moment: it forgets everything.
    pub fn brown_out(&mut self, now: Instant, out: &mut Vec<Command>) {
        self.set_reset(false, now, out);
        self.set_reset(true, now, out);
    }
    /// Disconnects the inertial sensor from the bus, or reconnects it in its power-on state.
    pub fn unplug_imu(&mut self, off: bool, out: &mut Vec<Command>) {
        match (&self.imu, off) {
            (Some((address, _)), true) if self.imu_there => {
                out.push(Command::Remove(*address));
                self.imu_there = false;
            }
            _ => self.power_imu(out),
        }
    }
    /// Sets whether samples are signalled automatically; if not, only [`FarSide::sample_at`] sets them.
    pub fn announce(&mut self, by_itself: bool) {
        self.announces = by_itself;
        self.next_ready = None;
    }
    /// Sets the behaviour of the echo from now on. [`Echo::Sound`] also releases a line that was held.
    pub fn echo(&mut self, echo: Echo, out: &mut Vec<Command>) {
        self.echo = echo;
        for sensor in &self.board.sensors {
            if let SensorKind::Lines(LineSensor::HcSr04 { echo: line, .. }) = sensor.kind
                && echo == Echo::Sound
            {
                out.push(Command::Line(offset(line), false));
            }
        }
    }
    /// Makes the stop button's contact bounce: ten presses within a millisecond, then it stays pressed.
    pub fn chatter(&mut self, from: Instant, out: &mut Vec<Command>) {
        for nth in 0..10 {
            self.press_at(true, from + Span::from_micros(100 * nth), out);
            self.press_at(nth == 9, from + Span::from_micros(100 * nth + 50), out);
        }
    }
    /// State and counts of the car at `now`.
    pub fn report(&self, now: Instant) -> Report {
        self.plant.report(now)
    }
}

fn pulse(line: Line, at: Instant, out: &mut Vec<Command>) {
    out.push(Command::LineAt(offset(line), true, at));
    out.push(Command::LineAt(offset(line), false, at + READY_PULSE));
}

#[cfg(test)]
mod tests;
