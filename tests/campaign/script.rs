//! What happens to a robot: faults of its world, operators' requests, late threads. A script is text with one
//! event per line; it is drawn from a seed (`chance.rs`), printed in a report, and parsed again.

use ganglion::base::time::{Instant, Span};
use ganglion::sim::{Fault, FaultKind};
use std::fmt;

/// Operators' requests and signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Follow the field.
    Arm,
    /// Stop until armed again.
    Disarm,
    /// End the process.
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
    /// Every thread of the runtime, including its heartbeat: the process is paused.
    All,
}

/// A suspend of the machine. The clock of the loop stops during it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sleep {
    /// It begins in the middle of a slot, right after the loop has checked whether the machine slept.
    pub in_tick: bool,
    /// How long it lasts.
    pub lasted: Span,
}

/// Faults of the guard's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It is killed, and restarted at the end of the fault.
    Dies,
    /// It is paused, as after SIGSTOP.
    Hangs,
}

/// Faults of the link to a brain on another computer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkTrouble {
    /// The cable is pulled.
    Cut,
    /// This share of the datagrams is lost, in each direction.
    Loss {
        /// Percent.
        percent: u8,
    },
    /// Answers are delayed by this much.
    Slow {
        /// Milliseconds.
        ms: u8,
    },
    /// Each answer is replaced by something else.
    Noise,
    /// The tether's process on the robot is dead.
    Dies,
}

/// What a line does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action {
    /// A caller sends a request.
    Ask(Ask),
    /// A thread is late.
    Late(Thread),
    /// The machine sleeps.
    Sleep(Sleep),
    /// The guard's process has this fault.
    Guard(Trouble),
    /// A caller asks the guard for a safe-stop.
    SafeStop,
    /// The link to the brain has this fault.
    Link(LinkTrouble),
    /// A fault of the world.
    World(Fault),
}

/// One line of a script.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Its text.
    pub text: String,
    /// What it does.
    pub action: Action,
    /// Its start, counted from the start of the run.
    pub start: Span,
    /// Its end; equal to `start` if it takes no time.
    pub end: Span,
}

/// Every action that is not a simulator fault, by name. A script's line states the length of a sleep, and may
/// state the percentage or delay of a link fault.
const OWN: [(&str, Action); 18] = [
    ("arm", Action::Ask(Ask::Arm)),
    ("disarm", Action::Ask(Ask::Disarm)),
    ("stop", Action::Ask(Ask::Stop)),
    ("late-tick", Action::Late(Thread::Tick)),
    ("late-bus", Action::Late(Thread::Bus)),
    ("late-lines", Action::Late(Thread::Lines)),
    ("late-edges", Action::Late(Thread::Edges)),
    ("late-all", Action::Late(Thread::All)),
    ("sleep", Action::Sleep(Sleep { in_tick: false, lasted: Span::ZERO })),
    ("sleep-in-tick", Action::Sleep(Sleep { in_tick: true, lasted: Span::ZERO })),
    ("guard-dies", Action::Guard(Trouble::Dies)),
    ("guard-hangs", Action::Guard(Trouble::Hangs)),
    ("safe-stop", Action::SafeStop),
    ("link-cut", Action::Link(LinkTrouble::Cut)),
    ("link-loss", Action::Link(LinkTrouble::Loss { percent: 50 })),
    ("link-slow", Action::Link(LinkTrouble::Slow { ms: 100 })),
    ("link-noise", Action::Link(LinkTrouble::Noise)),
    ("tether-dies", Action::Link(LinkTrouble::Dies)),
];

/// The names of a script's actions other than the simulator's faults.
pub fn own_names() -> impl Iterator<Item = &'static str> {
    OWN.iter().map(|(name, _)| *name)
}

impl Line {
    /// Parses `NAME[:TARGET]@START[+LENGTH]`, times in seconds; without a length, a fault of the simulator
    /// has its usual one.
    pub fn parse(text: &str) -> Result<Line, String> {
        let name = text.split(['@', ':']).next().unwrap_or_default();
        let own = OWN.iter().find(|(known, _)| *known == name).map(|(_, action)| *action);
        // The simulator's parser reads all times; it needs the name of a fault, and any will do.
        let timed = own.map_or(text.to_string(), |_| text.replacen(name, "estop", 1));
        let fault = Fault::parse(&timed).map_err(|error| format!("{text}: {error}"))?;
        let length = fault.length.unwrap_or(Span::from_millis(86_400_000));
        // Neither a request nor a sleep takes time on the clock of the loop.
        let (action, length) = match own {
            Some(asked @ (Action::Ask(_) | Action::SafeStop)) => (asked, Span::ZERO),
            Some(Action::Link(LinkTrouble::Loss { percent })) => {
                let percent = fault.target.unwrap_or(percent);
                (Action::Link(LinkTrouble::Loss { percent }), length)
            }
            Some(Action::Link(LinkTrouble::Slow { ms })) => {
                (Action::Link(LinkTrouble::Slow { ms: fault.target.unwrap_or(ms) }), length)
            }
            Some(Action::Sleep(sleep)) => (Action::Sleep(Sleep { lasted: length, ..sleep }), Span::ZERO),
            Some(action) => (action, length),
            None => (Action::World(fault), length),
        };
        Ok(Line { text: text.to_string(), action, start: fault.start, end: fault.start + length })
    }

    /// The name of its action.
    pub fn name(&self) -> &str {
        self.text.split(['@', ':']).next().unwrap_or_default()
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A script, ordered by start.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// Its lines.
    pub lines: Vec<Line>,
}

impl Script {
    /// Parses lines separated by spaces or line breaks.
    pub fn parse(text: &str) -> Result<Script, String> {
        let mut lines: Vec<Line> = text.split_whitespace().map(Line::parse).collect::<Result<_, _>>()?;
        lines.sort_by_key(|line| line.start);
        Ok(Script { lines })
    }

    /// The faults for the simulator.
    pub fn faults(&self) -> Vec<Fault> {
        self.lines
            .iter()
            .filter_map(|line| if let Action::World(fault) = line.action { Some(fault) } else { None })
            .collect()
    }

    /// The requests and their times.
    pub fn asks(&self) -> impl Iterator<Item = (Instant, Ask)> {
        let ask = |line: &Line| match line.action {
            Action::Ask(ask) => Some((Instant::ZERO + line.start, ask)),
            _ => None,
        };
        self.lines.iter().filter_map(ask)
    }

    /// The suspends of the machine and their times.
    pub fn sleeps(&self) -> impl Iterator<Item = (Instant, Sleep)> {
        let sleep = |line: &Line| match line.action {
            Action::Sleep(sleep) => Some((Instant::ZERO + line.start, sleep)),
            _ => None,
        };
        self.lines.iter().filter_map(sleep)
    }

    /// When the guard's process has this fault: start, end.
    pub fn troubles(&self, kind: Trouble) -> Vec<(Instant, Instant)> {
        let lines = self.lines.iter().filter(|line| line.action == Action::Guard(kind));
        lines.map(|line| (Instant::ZERO + line.start, Instant::ZERO + line.end)).collect()
    }

    /// When a caller asks the guard for a safe-stop.
    pub fn safe_stops(&self) -> impl Iterator<Item = Instant> {
        let lines = self.lines.iter().filter(|line| line.action == Action::SafeStop);
        lines.map(|line| Instant::ZERO + line.start)
    }

    /// What happens to the link: fault, start, end.
    pub fn link_troubles(&self) -> Vec<(LinkTrouble, Instant, Instant)> {
        let trouble = |line: &Line| match line.action {
            Action::Link(trouble) => Some((trouble, Instant::ZERO + line.start, Instant::ZERO + line.end)),
            _ => None,
        };
        self.lines.iter().filter_map(trouble).collect()
    }

    /// When this thread is late: start, end.
    pub fn late(&self, thread: Thread) -> Vec<(Instant, Instant)> {
        let late =
            |line: &&Line| matches!(line.action, Action::Late(who) if who == thread || who == Thread::All);
        self.lines
            .iter()
            .filter(late)
            .map(|line| (Instant::ZERO + line.start, Instant::ZERO + line.end))
            .collect()
    }

    /// When the world has faults of these kinds at `target`: start, end.
    pub fn spells(&self, kinds: &[FaultKind], target: Option<u8>) -> Vec<(Instant, Instant)> {
        let does = |line: &&Line| match line.action {
            Action::World(fault) => {
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
