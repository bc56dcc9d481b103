//! What happens to a robot: faults of its world, what people ask of it, threads that are late. A script is text, a line an
//! event; it is drawn from a seed, written in a report, and read back.

use super::draw::Draw;
use ganglion::board::plan::Board;
use ganglion::device::SensorKind;
use ganglion::sim::{Fault, FaultKind};
use ganglion::time::{Instant, Span};
use std::fmt;

/// What people and signals ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Obey the field.
    Arm,
    /// Stand until armed again.
    Disarm,
    /// The process is to end.
    Stop,
}

/// A thread that is not scheduled for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thread {
    /// The control loop.
    Tick,
    /// The motors' bus.
    Bus,
    /// Buttons.
    Lines,
    /// Sonars.
    Edges,
    /// Every thread: the machine stands.
    All,
}

/// A sleep of the machine: suspend, hibernate. The clock of the loop stands still in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sleep {
    /// It begins in the middle of a slot, right after the loop has looked whether the machine slept.
    pub in_tick: bool,
    /// How long it lasts.
    pub lasted: Span,
}

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Deed {
    /// Somebody asks.
    Ask(Ask),
    /// A thread is late.
    Late(Thread),
    /// The machine sleeps.
    Sleep(Sleep),
    /// The world does something.
    World(Fault),
}

/// One line of a script.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// As written.
    pub text: String,
    /// What.
    pub deed: Deed,
    /// From when, after the start.
    pub start: Span,
    /// Until when; the start, where it takes no time.
    pub end: Span,
}

/// All that is not the simulator's business, by name. The length of a sleep is the line's.
const OWN: [(&str, Deed); 10] = [
    ("arm", Deed::Ask(Ask::Arm)),
    ("disarm", Deed::Ask(Ask::Disarm)),
    ("stop", Deed::Ask(Ask::Stop)),
    ("late-tick", Deed::Late(Thread::Tick)),
    ("late-bus", Deed::Late(Thread::Bus)),
    ("late-lines", Deed::Late(Thread::Lines)),
    ("late-edges", Deed::Late(Thread::Edges)),
    ("late-all", Deed::Late(Thread::All)),
    ("sleep", Deed::Sleep(Sleep { in_tick: false, lasted: Span::ZERO })),
    ("sleep-in-tick", Deed::Sleep(Sleep { in_tick: true, lasted: Span::ZERO })),
];

/// The names of what a script does beside the faults of the simulator.
pub fn own_names() -> impl Iterator<Item = &'static str> {
    OWN.iter().map(|(name, _)| *name)
}

impl Line {
    /// Reads `NAME[:TARGET]@START[+LENGTH]`, times in seconds; without a length a fault has its usual one.
    pub fn parse(text: &str) -> Result<Line, String> {
        let name = text.split(['@', ':']).next().unwrap_or_default();
        let own = OWN.iter().find(|(known, _)| *known == name).map(|(_, deed)| *deed);
        // Times are read in one place: any fault will do for them.
        let timed = own.map_or(text.to_string(), |_| text.replacen(name, "estop", 1));
        let fault = Fault::parse(&timed).map_err(|error| format!("{text}: {error}"))?;
        let length = fault.length.unwrap_or(Span::from_millis(86_400_000));
        // Neither a request nor a sleep takes time on the clock of the loop.
        let (deed, length) = match own {
            Some(Deed::Ask(ask)) => (Deed::Ask(ask), Span::ZERO),
            Some(Deed::Sleep(sleep)) => (Deed::Sleep(Sleep { lasted: length, ..sleep }), Span::ZERO),
            Some(deed) => (deed, length),
            None => (Deed::World(fault), length),
        };
        Ok(Line { text: text.to_string(), deed, start: fault.start, end: fault.start + length })
    }

    /// The name of what it does.
    pub fn name(&self) -> &str {
        self.text.split(['@', ':']).next().unwrap_or_default()
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A script, in the order of its starts.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// Its lines.
    pub lines: Vec<Line>,
}

impl Script {
    /// Reads lines, with blanks or line breaks between.
    pub fn parse(text: &str) -> Result<Script, String> {
        let mut lines: Vec<Line> = text.split_whitespace().map(Line::parse).collect::<Result<_, _>>()?;
        lines.sort_by_key(|line| line.start);
        Ok(Script { lines })
    }

    /// Faults for the simulator.
    pub fn faults(&self) -> Vec<Fault> {
        self.lines
            .iter()
            .filter_map(|line| if let Deed::World(fault) = line.deed { Some(fault) } else { None })
            .collect()
    }

    /// What is asked, and when.
    pub fn asks(&self) -> impl Iterator<Item = (Instant, Ask)> {
        let ask = |line: &Line| match line.deed {
            Deed::Ask(ask) => Some((Instant::ZERO + line.start, ask)),
            _ => None,
        };
        self.lines.iter().filter_map(ask)
    }

    /// The sleeps of the machine, and when each begins.
    pub fn sleeps(&self) -> impl Iterator<Item = (Instant, Sleep)> {
        let sleep = |line: &Line| match line.deed {
            Deed::Sleep(sleep) => Some((Instant::ZERO + line.start, sleep)),
            _ => None,
        };
        self.lines.iter().filter_map(sleep)
    }

    /// When this thread is late: from, until.
    pub fn late(&self, thread: Thread) -> Vec<(Instant, Instant)> {
        let late = |line: &&Line| matches!(line.deed, Deed::Late(who) if who == thread || who == Thread::All);
        self.lines
            .iter()
            .filter(late)
            .map(|line| (Instant::ZERO + line.start, Instant::ZERO + line.end))
            .collect()
    }

    /// When the world does something of these kinds to `target`: from, until.
    pub fn spells(&self, kinds: &[FaultKind], target: Option<u8>) -> Vec<(Instant, Instant)> {
        let does = |line: &&Line| match line.deed {
            Deed::World(fault) => {
                kinds.contains(&fault.kind)
                    && (target.is_none() || fault.target.is_none() || fault.target == target)
            }
            _ => false,
        };
        self.lines
            .iter()
            .filter(does)
            .map(|line| (Instant::ZERO + line.start, Instant::ZERO + line.end))
            .collect()
    }

    /// The script of `seed` on `board` for `length`. `panics`: the field's engine may; not where another thread would
    /// then open it again at a time that nobody can repeat.
    pub fn of_seed(seed: u64, board: &Board, length: Span, panics: bool) -> Script {
        let mut writer =
            Writer { draw: Draw::new(seed, 1000), lines: Vec::new(), length: length.as_secs_f64() };
        writer.absent(board);
        writer.faults(board, panics);
        writer.presses(board);
        writer.people();
        writer.lateness();
        writer.ends();
        writer.sleeps();
        Script::parse(&writer.lines.join("\n")).expect("the generator writes what the reader reads")
    }
}

/// Everything that a fault can strike: its name with the target, and the longest that it usually lasts, seconds.
fn strikable(board: &Board) -> Vec<(String, f64)> {
    let mut all: Vec<(String, f64)> = [
        ("i2c-nack", 20.0),
        ("i2c-stuck", 20.0),
        ("i2c-wrong-bytes", 10.0),
        ("brown-out", 2.0),
        ("field-hang", 5.0),
        ("field-panic", 0.1),
        ("field-slow", 10.0),
    ]
    .map(|(name, longest)| (name.to_string(), longest))
    .into();
    if board.i2c.len() > 1 {
        all.push(("i2c-1-stuck".into(), 20.0));
    }
    let mut sonars = 0;
    for sensor in &board.sensors {
        match sensor.kind {
            SensorKind::HcSr04 { .. } => {
                all.push((format!("sonar-silent:{sonars}"), 60.0));
                all.push((format!("sonar-frozen:{sonars}"), 60.0));
                sonars += 1;
            }
            SensorKind::HatAdc { channel, .. } => all.push((format!("adc-frozen:{channel}"), 30.0)),
            SensorKind::FloatRegister { address, .. } | SensorKind::Mpu6050 { address, .. } => {
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

    /// A sensor that is not there when the robot starts.
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
        kinds.retain(|(name, _)| panics || name != "field-panic");
        let mean = self.draw.decades(3.0, 60.0);
        let mut at = self.draw.wait(mean);
        while at < self.length {
            let (name, longest) = kinds[self.draw.below(kinds.len())].clone();
            let length = self.draw.decades(100e-6, longest);
            self.event(&name, at, length);
            at += self.draw.wait(mean);
        }
    }

    /// Presses of the stop buttons, most of them followed by what people do then.
    fn presses(&mut self, board: &Board) {
        let line = |sensor: &ganglion::board::plan::SensorPlan| match sensor.kind {
            SensorKind::Button { line, .. } => Some(line.0),
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

    /// Sleeps of the machine, in two seeds of three. Half of them in the middle of something else: a press, a dead bus, a
    /// late thread. Threads come back one after another, and people arm.
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

    /// The process is told to end, before the run is over.
    fn ends(&mut self) {
        if self.draw.chance(0.3) {
            let at = self.draw.between(0.0, self.length);
            self.ask("stop", at);
        }
    }
}
