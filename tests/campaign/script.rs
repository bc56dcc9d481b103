//! What happens to a robot: faults of its world, what people ask of it, threads that are late. A script is
//! text, a line an event; it is drawn from a seed (`chance.rs`), written in a report, and read back.

use ganglion::base::time::{Instant, Span};
use ganglion::sim::{Fault, FaultKind};
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
    /// Every thread of the runtime, its pulse with them: the process stands.
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

/// What becomes of the guard's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It is killed, and started again at the end.
    Dies,
    /// It stands still, as after SIGSTOP.
    Hangs,
}

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Deed {
    /// A caller sends a request.
    Ask(Ask),
    /// A thread is late.
    Late(Thread),
    /// The machine sleeps.
    Sleep(Sleep),
    /// The guard's process is in trouble.
    Guard(Trouble),
    /// A caller asks the guard for a safe-stop.
    SafeStop,
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
const OWN: [(&str, Deed); 13] = [
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
    ("guard-dies", Deed::Guard(Trouble::Dies)),
    ("guard-hangs", Deed::Guard(Trouble::Hangs)),
    ("safe-stop", Deed::SafeStop),
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
            Some(asked @ (Deed::Ask(_) | Deed::SafeStop)) => (asked, Span::ZERO),
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

    /// The requests, and when.
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

    /// When the guard's process is in this trouble: from, until.
    pub fn troubles(&self, kind: Trouble) -> Vec<(Instant, Instant)> {
        let lines = self.lines.iter().filter(|line| line.deed == Deed::Guard(kind));
        lines.map(|line| (Instant::ZERO + line.start, Instant::ZERO + line.end)).collect()
    }

    /// When a caller asks the guard for a safe-stop.
    pub fn safe_stops(&self) -> impl Iterator<Item = Instant> {
        let lines = self.lines.iter().filter(|line| line.deed == Deed::SafeStop);
        lines.map(|line| Instant::ZERO + line.start)
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
}
