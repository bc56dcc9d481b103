//! The events that a seed produces on a board: the lines of its script, drawn one kind after another, each
//! kind with its own rate and lengths. Runs nothing and judges nothing.

use super::draw::Draw;
use super::script::{Line, Script};
use ganglion::base::plan::{Board, ChipSensor, LineSensor, SensorKind, SensorPlan};
use ganglion::base::time::Span;

/// The script of `seed` on `board` for `length`. `panics`: whether the field's engine may panic; it must not
/// if another thread would then reopen it at a time that cannot be reproduced.
pub fn script_of_seed(seed: u64, board: &Board, length: Span, panics: bool) -> Script {
    let mut writer = Writer { draw: Draw::new(seed, 1000), lines: Vec::new(), length: length.as_secs_f64() };
    writer.absent(board);
    writer.faults(board, panics);
    writer.presses(board);
    writer.people();
    writer.lateness();
    writer.ends();
    writer.guard(board);
    writer.sleeps();
    writer.link(board, Draw::new(seed, 1002));
    if panics {
        writer.panic(Draw::new(seed, 1001));
    }
    Script::parse(&writer.lines.join("\n")).expect("the parser reads what the generator writes")
}

/// The field's engine panics.
const PANIC: &str = "field-panic";

/// The names of all simulator faults that a script may contain. A campaign reports those that never occurred.
pub const FAULTS: [&str; 15] = [
    "i2c-nack",
    "i2c-stuck",
    "i2c-1-stuck",
    "i2c-wrong-bytes",
    "brown-out",
    "field-hang",
    "field-panic",
    "field-slow",
    "sonar-silent",
    "sonar-frozen",
    "adc-frozen",
    "tilt-over",
    "tilt-nan",
    "battery-low",
    "estop",
];

/// Every fault that is possible on this board: its name with the target, and the longest duration that
/// `faults` draws for it, seconds.
fn strikable(board: &Board) -> Vec<(String, f64)> {
    let mut all: Vec<(String, f64)> = [
        ("i2c-nack", 20.0),
        ("i2c-stuck", 20.0),
        ("i2c-wrong-bytes", 10.0),
        ("brown-out", 2.0),
        ("field-hang", 5.0),
        (PANIC, 0.1),
        ("field-slow", 10.0),
    ]
    .map(|(name, longest)| (name.to_string(), longest))
    .into();
    if board.i2c.len() > 1 {
        all.push(("i2c-1-stuck".into(), 20.0));
    }
    // The script numbers the rangers after all sonars.
    let is_sonar = |sensor: &&SensorPlan| matches!(sensor.kind, SensorKind::Lines(LineSensor::HcSr04 { .. }));
    let (mut sonars, mut rangers) = (0, board.sensors.iter().filter(is_sonar).count());
    for sensor in &board.sensors {
        match sensor.kind {
            SensorKind::Chip(ChipSensor::Vl53l0x { address, .. }) => {
                all.push((format!("i2c-nack:{address}"), 60.0));
                all.push((format!("i2c-wrong-bytes:{address}"), 10.0));
                all.push((format!("sonar-silent:{rangers}"), 60.0));
                all.push((format!("sonar-frozen:{rangers}"), 60.0));
                rangers += 1;
            }
            SensorKind::Lines(LineSensor::HcSr04 { .. }) => {
                all.push((format!("sonar-silent:{sonars}"), 60.0));
                all.push((format!("sonar-frozen:{sonars}"), 60.0));
                sonars += 1;
            }
            SensorKind::Chip(ChipSensor::HatAdc { channel, .. }) => {
                all.push((format!("adc-frozen:{channel}"), 30.0))
            }
            SensorKind::Chip(ChipSensor::FloatRegister { address, .. })
            | SensorKind::Chip(ChipSensor::Mpu6050 { address, .. }) => {
                all.push((format!("i2c-nack:{address}"), 60.0));
                all.push((format!("i2c-wrong-bytes:{address}"), 10.0));
                all.push(("tilt-over".into(), 8.0));
                all.push(("tilt-nan".into(), 20.0));
            }
            _ => {}
        }
        if sensor.name == "battery" {
            all.push(("battery-low".into(), 30.0));
        }
    }
    if let Some(mcu) = &board.mcu {
        all.push((format!("i2c-nack:{}", mcu.address), 5.0));
    }
    all
}

struct Writer {
    draw: Draw,
    lines: Vec<String>,
    length: f64,
}

impl Writer {
    fn event(&mut self, name: &str, start: f64, length: f64) {
        if start < self.length {
            self.lines.push(format!("{name}@{start:.4}+{length:.4}"));
        }
    }

    fn ask(&mut self, name: &str, at: f64) {
        if at < self.length {
            self.lines.push(format!("{name}@{at:.4}"));
        }
    }

    /// A sensor that is missing when the robot starts.
    fn absent(&mut self, board: &Board) {
        if !self.draw.chance(0.25) {
            return;
        }
        let sensors = strikable(board);
        let absent =
            |(name, _): &&(String, f64)| name.starts_with("sonar-silent:") || name.starts_with("i2c-nack:");
        let choices: Vec<&(String, f64)> = sensors.iter().filter(absent).collect();
        if !choices.is_empty() {
            let name = choices[self.draw.below(choices.len())].0.clone();
            let length = self.draw.decades(1.0, self.length);
            self.event(&name, 0.0, length);
        }
    }

    fn faults(&mut self, board: &Board, panics: bool) {
        let mut kinds = strikable(board);
        kinds.retain(|(name, _)| panics || name != PANIC);
        let mean = self.draw.decades(3.0, 60.0);
        let mut at = self.draw.wait(mean);
        while at < self.length {
            let (name, longest) = kinds[self.draw.below(kinds.len())].clone();
            let length = self.draw.decades(100e-6, longest);
            self.event(&name, at, length);
            at += self.draw.wait(mean);
        }
    }

    /// A panic of the field's engine. Few boards allow a panic, so each of their scripts has one in addition
    /// to those that `faults` draws. It has its own random numbers, so the rest of the script does not
    /// change.
    fn panic(&mut self, mut draw: Draw) {
        let at = draw.between(0.0, self.length);
        self.event(PANIC, at, 0.1);
    }

    /// Presses of the stop buttons, most of them followed by what an operator would do next.
    fn presses(&mut self, board: &Board) {
        let line = |sensor: &SensorPlan| match sensor.kind {
            SensorKind::Lines(LineSensor::Button { line, .. }) => Some(line.0),
            _ => None,
        };
        let buttons: Vec<u32> = board.sensors.iter().filter_map(line).collect();
        if buttons.is_empty() {
            return;
        }
        let mean = self.draw.decades(5.0, 60.0);
        let mut at = self.draw.wait(mean);
        while at < self.length {
            let length = self.draw.decades(200e-6, 4.0);
            let button = buttons[self.draw.below(buttons.len())];
            self.event(&format!("estop:{button}"), at, length);
            if self.draw.chance(0.7) {
                let disarm = at + length + self.draw.between(-0.2, 4.0);
                self.ask("disarm", disarm.max(at));
                let arm = disarm.max(at) + self.draw.decades(0.001, 5.0);
                self.ask("arm", arm);
            }
            at += length + self.draw.wait(mean);
        }
    }

    fn people(&mut self) {
        let mean = self.draw.decades(2.0, 30.0);
        let mut at = self.draw.decades(0.1, 5.0);
        while at < self.length {
            match self.draw.below(8) {
                0 => self.ask("disarm", at),
                1..=4 => self.ask("arm", at),
                _ => {
                    self.ask("disarm", at);
                    let arm = at + self.draw.decades(0.001, 3.0);
                    self.ask("arm", arm);
                }
            }
            at += self.draw.wait(mean);
        }
    }

    fn lateness(&mut self) {
        let mean = self.draw.decades(3.0, 60.0);
        let mut at = self.draw.wait(mean);
        while at < self.length {
            let thread = self.draw.pick(&[
                "late-tick",
                "late-tick",
                "late-bus",
                "late-lines",
                "late-edges",
                "late-all",
            ]);
            let length = self.draw.decades(0.001, 0.5);
            self.event(thread, at, length);
            at += length + self.draw.wait(mean);
        }
    }

    /// Faults of the guard and requests for a safe-stop, if the board has a guard.
    fn guard(&mut self, board: &Board) {
        let Some(plan) = board.guard else { return };
        let timeout = plan.timeout.as_secs_f64();
        let mean = self.draw.decades(3.0, 60.0);
        let mut at = self.draw.wait(mean);
        while at < self.length {
            let length = self.draw.decades(0.001, 10.0);
            match self.draw.below(6) {
                0 | 1 => self.event("guard-hangs", at, length),
                2 => self.event("guard-dies", at, length),
                3 => {
                    let length = timeout * self.draw.between(1.1, 5.0);
                    self.event("late-all", at, length);
                }
                _ => {
                    self.ask("safe-stop", at);
                    if self.draw.chance(0.6) {
                        let arm = at + self.draw.decades(0.001, 10.0);
                        self.ask("arm", arm);
                    }
                }
            }
            at += self.draw.wait(mean);
        }
    }

    /// Suspends of the machine, in two out of three seeds. Half of them happen during something else: a
    /// press, a dead bus, a late thread. After some of them, a thread resumes late or an operator arms the
    /// robot.
    fn sleeps(&mut self) {
        if self.draw.chance(0.33) {
            return;
        }
        let spans: Vec<(f64, f64)> = self
            .lines
            .iter()
            .filter_map(|line| Line::parse(line).ok())
            .map(|line| (line.start.as_secs_f64(), line.end.as_secs_f64()))
            .collect();
        let mean = self.draw.decades(5.0, 100.0);
        let mut due = self.draw.wait(mean);
        while due < self.length {
            let at = match spans.is_empty() || self.draw.chance(0.5) {
                true => due,
                false => {
                    let (start, end) = spans[self.draw.below(spans.len())];
                    self.draw.between(start, end.max(start + 0.05))
                }
            };
            let lasted = self.draw.decades(0.1, 600.0);
            let name = if self.draw.chance(0.3) { "sleep-in-tick" } else { "sleep" };
            self.event(name, at, lasted);
            if self.draw.chance(0.3) {
                let thread = self.draw.pick(&["late-tick", "late-bus", "late-lines", "late-all"]);
                let length = self.draw.decades(0.001, 0.5);
                self.event(thread, at, length);
            }
            if self.draw.chance(0.6) {
                let arm = at + self.draw.decades(0.001, 5.0);
                self.ask("arm", arm);
            }
            due += self.draw.wait(mean);
        }
    }

    /// Faults of the link to a brain, if the board has one. They have their own random numbers.
    fn link(&mut self, board: &Board, mut draw: Draw) {
        if board.tether.is_none() {
            return;
        }
        let mean = draw.decades(1.0, 20.0);
        let mut at = draw.wait(mean);
        while at < self.length {
            let length = draw.decades(0.001, 8.0);
            match draw.below(6) {
                0 | 1 => self.event("link-cut", at, length),
                2 => self.event(&format!("link-loss:{}", 1 + draw.below(99)), at, length),
                3 => self.event(&format!("link-slow:{}", 1 + draw.below(255)), at, length),
                4 => self.event("link-noise", at, length),
                _ => self.event("tether-dies", at, length),
            }
            if draw.chance(0.3) {
                let disarm = at + length + draw.between(-0.1, 2.0);
                self.ask("disarm", disarm.max(at));
                self.ask("arm", disarm.max(at) + draw.decades(0.001, 2.0));
            }
            at += draw.wait(mean);
        }
    }

    /// In three of ten scripts, the process gets a signal to end before the run is over.
    fn ends(&mut self) {
        if self.draw.chance(0.3) {
            let at = self.draw.between(0.0, self.length);
            self.ask("stop", at);
        }
    }
}
