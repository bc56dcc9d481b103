//! A script of injected faults, by name and time. Each fault has one visible symptom: at a bus, at a line or
//! in the field's worker. The code that produces the symptom checks here whether the fault is active.
//!
//! All of these faults happen on real robots, and none disables both the control of the motors and every
//! means to stop them. The script leaves out faults that no software on the computer can handle (a controller
//! that keeps driving and cannot be reset, a computer that dies), and a runtime that dies, which the guard
//! process handles.

use crate::base::plan::Board;
use crate::base::time::{Instant, Span};
use crate::system::gpu::GpuFault;
use crate::system::sanitize::nearest;
use std::fmt;
use std::str::FromStr;

/// What can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// No device acknowledges.
    I2cNack,
    /// A transfer hangs until the adapter gives up.
    I2cStuck,
    /// The second bus hangs in the same way.
    SecondI2cStuck,
    /// Reads return inverted bits.
    I2cWrongBytes,
    /// The converter is frozen.
    AdcFrozen,
    /// The sonar repeats the same echo for ever.
    SonarFrozen,
    /// No echo pulse at all.
    SonarSilent,
    /// The lean is NaN.
    TiltNan,
    /// The car leans over.
    TiltOver,
    /// The controller resets itself under load.
    BrownOut,
    /// The battery is low.
    BatteryLow,
    /// The stop button is pressed.
    EStop,
    /// The field engine hangs.
    FieldHang,
    /// The field engine panics.
    FieldPanic,
    /// The field engine is slow.
    FieldSlow,
    /// A call to the GPU's driver fails.
    GpuError,
    /// A call to the GPU's driver does not return.
    GpuStuck,
    /// Work launched on the GPU does not end.
    GpuHang,
    /// The GPU is slow.
    GpuSlow,
    /// The GPU loses its context.
    GpuLost,
    /// The GPU has no memory left.
    GpuMemory,
    /// The echo line is high, whatever the sonar does.
    SonarStuck,
}

/// What can go wrong with the field's engine; the worker that runs the engine acts on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldFault {
    /// A cycle does not end before the fault does.
    Hang,
    /// A cycle panics.
    Panic,
    /// A cycle takes `SLOW_DOWN` times as long.
    Slow,
    /// The GPU fails in this way.
    Gpu(GpuFault),
}

/// How much slower a slow engine is: more than the factor between the budget's best and worst level, so that
/// no level is cheap enough to hide it.
pub const SLOW_DOWN: u64 = 10;
/// When a fault starts if the script does not say: the car is moving by then.
const USUAL_START: Span = Span::from_millis(10_000);

struct Entry {
    kind: FaultKind,
    name: &'static str,
    meaning: &'static str,
    /// How long it lasts if the script does not say; `None`: until the end.
    length: Option<Span>,
}

const fn entry(kind: FaultKind, name: &'static str, seconds: Option<u64>, meaning: &'static str) -> Entry {
    let length = match seconds {
        Some(seconds) => Some(Span::from_millis(1000 * seconds)),
        None => None,
    };
    Entry { kind, name, meaning, length }
}

/// Every fault: name, usual length in seconds, meaning. Each lasts long enough for the loop to notice (longer
/// than every timeout of the board); one of limited length leaves time to recover afterwards.
const TABLE: [Entry; 22] = [
    entry(FaultKind::I2cNack, "i2c-nack", Some(2), "no device on the I2C bus answers"),
    entry(
        FaultKind::I2cStuck,
        "i2c-stuck",
        Some(2),
        "a line of the I2C bus is held: every transfer times out",
    ),
    entry(
        FaultKind::SecondI2cStuck,
        "i2c-1-stuck",
        Some(2),
        "a line of the second I2C bus is held, where the board has one",
    ),
    entry(FaultKind::I2cWrongBytes, "i2c-wrong-bytes", Some(2), "every read over I2C returns inverted bits"),
    entry(FaultKind::AdcFrozen, "adc-frozen", None, "the converter returns the same counts for ever"),
    entry(FaultKind::SonarFrozen, "sonar-frozen", None, "the sonar returns the same echo for ever"),
    entry(FaultKind::SonarSilent, "sonar-silent", Some(5), "the sonar does not answer the trigger"),
    entry(FaultKind::TiltNan, "tilt-nan", Some(3), "the lean is not a number"),
    entry(FaultKind::TiltOver, "tilt-over", Some(2), "the car leans by 60 degrees"),
    entry(
        FaultKind::BrownOut,
        "brown-out",
        Some(2),
        "the microcontroller resets itself whenever a motor runs",
    ),
    entry(FaultKind::BatteryLow, "battery-low", None, "the battery is down to 6.9 V"),
    entry(FaultKind::EStop, "estop", Some(1), "a person presses the stop button"),
    entry(FaultKind::FieldHang, "field-hang", Some(5), "a cycle of the field engine does not end"),
    entry(FaultKind::FieldPanic, "field-panic", Some(1), "every cycle of the field engine panics"),
    entry(FaultKind::FieldSlow, "field-slow", Some(5), "the field engine is ten times slower"),
    entry(FaultKind::GpuError, "gpu-error", Some(1), "a call to the GPU's driver fails"),
    entry(FaultKind::GpuStuck, "gpu-stuck", Some(5), "a call to the GPU's driver does not return"),
    entry(FaultKind::GpuHang, "gpu-hang", Some(5), "work launched on the GPU does not end"),
    entry(FaultKind::GpuSlow, "gpu-slow", Some(5), "the GPU is ten times slower"),
    entry(FaultKind::GpuLost, "gpu-lost", Some(5), "the GPU's context is lost: every call fails"),
    entry(FaultKind::GpuMemory, "gpu-memory", Some(5), "the GPU has no memory left"),
    entry(FaultKind::SonarStuck, "sonar-stuck", Some(5), "the sonar's echo line is high all the time"),
];

impl FaultKind {
    fn entry(self) -> &'static Entry {
        // The table lists the kinds in the order of the enum; a test checks that.
        &TABLE[self as usize]
    }
    /// Its name in a script.
    pub fn name(self) -> &'static str {
        self.entry().name
    }
    /// One-line description of the fault.
    pub fn meaning(self) -> &'static str {
        self.entry().meaning
    }
    /// Its effect on the field's engine, if any.
    pub fn field(self) -> Option<FieldFault> {
        match self {
            FaultKind::FieldHang => Some(FieldFault::Hang),
            FaultKind::FieldPanic => Some(FieldFault::Panic),
            FaultKind::FieldSlow => Some(FieldFault::Slow),
            kind => kind.gpu().map(FieldFault::Gpu),
        }
    }
    /// Its effect on the GPU that the field's engine computes on, if any; no effect where there is no GPU.
    pub fn gpu(self) -> Option<GpuFault> {
        match self {
            FaultKind::GpuError => Some(GpuFault::Error),
            FaultKind::GpuStuck => Some(GpuFault::Stuck),
            FaultKind::GpuHang => Some(GpuFault::Hang),
            FaultKind::GpuSlow => Some(GpuFault::Slow),
            FaultKind::GpuLost => Some(GpuFault::Lost),
            FaultKind::GpuMemory => Some(GpuFault::Memory),
            _ => None,
        }
    }
}

/// One line of the script. Times count from the start of the simulated world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What happens.
    pub kind: FaultKind,
    /// Start.
    pub start: Span,
    /// Duration; `None`: until the end.
    pub length: Option<Span>,
    /// Limits the fault to one target: an address on any I2C bus, a channel of the converter, the index of a
    /// sonar in the board's order, the GPIO number of a button. `None`: all of them.
    pub target: Option<u8>,
}

impl Fault {
    /// `kind` at the usual start, for its usual length.
    pub fn usual(kind: FaultKind) -> Fault {
        Fault { kind, start: USUAL_START, length: kind.entry().length, target: None }
    }
    /// Every fault: name and one line of meaning.
    pub fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
        TABLE.iter().map(|entry| (entry.name, entry.meaning))
    }
    /// Reads `NAME[:TARGET][@START[+LENGTH]]`, times in seconds.
    pub fn parse(text: &str) -> Result<Fault, FaultError> {
        let (name, times) = text.split_once('@').map_or((text, None), |(name, times)| (name, Some(times)));
        let (name, target) = name.split_once(':').map_or((name, None), |(name, target)| (name, Some(target)));
        let kind = TABLE.iter().find(|entry| entry.name == name).map(|entry| entry.kind);
        let mut fault = Fault::usual(kind.ok_or_else(|| FaultError::unknown(name))?);
        fault.target = target.map(number).transpose()?;
        if let Some(times) = times {
            let (start, length) =
                times.split_once('+').map_or((times, None), |(start, length)| (start, Some(length)));
            fault.start = seconds(start)?;
            if let Some(length) = length {
                fault.length = Some(seconds(length)?);
            }
        }
        Ok(fault)
    }
    /// Why it can do nothing to the simulated robot of `board`; `None` if it can do something.
    pub fn idle(&self, board: &Board, has_gpu: bool) -> Option<&'static str> {
        if self.kind.gpu().is_some() && !has_gpu {
            return Some("no GPU computes here");
        }
        let lacks_bus = self.kind == FaultKind::SecondI2cStuck && board.i2c.len() < 2;
        lacks_bus.then_some("the board has no second I2C bus")
    }
    /// Whether it applies to `target`.
    fn strikes(&self, target: u8) -> bool {
        self.target.is_none_or(|its| its == target)
    }
    /// When it ends.
    fn end(&self) -> Option<Span> {
        self.length.map(|length| self.start + length)
    }
    /// Whether it is active at `at`.
    pub fn is_on(&self, at: Span) -> bool {
        at >= self.start && self.end().is_none_or(|end| at < end)
    }
}

impl FromStr for Fault {
    type Err = FaultError;
    fn from_str(text: &str) -> Result<Fault, FaultError> {
        Fault::parse(text)
    }
}

/// A day: longer than any simulation, and short enough that sums of times do not overflow.
const LONGEST_S: f64 = 86_400.0;

/// An address or an index, decimal or hexadecimal.
fn number(text: &str) -> Result<u8, FaultError> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u8::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.map_err(|_| FaultError::Target { text: text.into() })
}

fn seconds(text: &str) -> Result<Span, FaultError> {
    let number = text.strip_suffix('s').unwrap_or(text).parse::<f64>().ok();
    let number =
        number.filter(|number| !number.is_nan()).ok_or_else(|| FaultError::Time { text: text.into() })?;
    match (0.0..=LONGEST_S).contains(&number) {
        true => Ok(Span::from_secs_f64(number)),
        false => Err(FaultError::TimeRange { text: text.into() }),
    }
}

/// Why a line of the script cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultError {
    /// There is no such fault.
    Unknown {
        /// As written.
        name: String,
        /// The fault with a similar name, if there is one.
        nearest: Option<String>,
    },
    /// The text after the colon is not a number from 0 to 255.
    Target {
        /// As written.
        text: String,
    },
    /// A time is not a number of seconds.
    Time {
        /// As written.
        text: String,
    },
    /// A time is negative or longer than a day.
    TimeRange {
        /// As written.
        text: String,
    },
}

impl FaultError {
    fn unknown(name: &str) -> FaultError {
        FaultError::Unknown {
            name: name.into(),
            nearest: nearest(name, TABLE.iter().map(|entry| entry.name)),
        }
    }
}

impl fmt::Display for FaultError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultError::Unknown { name, nearest } => {
                write!(f, "unknown fault '{name}'")?;
                match nearest {
                    Some(nearest) => write!(f, "; did you mean '{nearest}'?"),
                    None => write!(f, "; 'ganglion run --help' lists all faults"),
                }
            }
            FaultError::Target { text } => {
                write!(f, "'{text}' is not an address, channel or place: write NAME:NUMBER, 0 to 255")
            }
            FaultError::Time { text } => {
                write!(f, "'{text}' is not a time: write NAME@START or NAME@START+LENGTH in seconds")
            }
            FaultError::TimeRange { text } => write!(f, "'{text}' is outside 0 to {LONGEST_S} seconds"),
        }
    }
}

impl std::error::Error for FaultError {}

/// A script on a clock.
#[derive(Clone, Debug)]
pub struct Script {
    zero: Instant,
    faults: Vec<Fault>,
}

impl Script {
    /// A script of `faults`, with `zero` as the start of the world.
    pub fn new(faults: &[Fault], zero: Instant) -> Script {
        Script { zero, faults: faults.to_vec() }
    }
    /// Whether `kind` is active at `now` for any target.
    pub fn is_on(&self, kind: FaultKind, now: Instant) -> bool {
        let at = now.since(self.zero);
        self.faults.iter().any(|fault| fault.kind == kind && fault.is_on(at))
    }
    /// Whether `kind` is active at `now` for `target`.
    pub fn is_on_at(&self, kind: FaultKind, target: u8, now: Instant) -> bool {
        let at = now.since(self.zero);
        self.faults.iter().any(|fault| fault.kind == kind && fault.strikes(target) && fault.is_on(at))
    }
    /// The first moment after `after`, up to and including `until`, at which `kind` begins or ends for
    /// `target`.
    pub fn next_change(
        &self,
        kind: FaultKind,
        target: u8,
        after: Instant,
        until: Instant,
    ) -> Option<Instant> {
        let of_kind = self.faults.iter().filter(|fault| fault.kind == kind && fault.strikes(target));
        let ends = of_kind.flat_map(|fault| std::iter::once(fault.start).chain(fault.end()));
        let moments = ends.map(|span| self.zero + span).filter(|at| *at > after && *at <= until);
        let before = |at: &Instant| *at - Span::from_nanos(1);
        let changes =
            |at: &Instant| self.is_on_at(kind, target, *at) != self.is_on_at(kind, target, before(at));
        moments.filter(changes).min()
    }
}

/// The part of a script that affects the field's engine.
#[derive(Clone, Debug)]
pub struct FieldFaults {
    zero: Instant,
    faults: Vec<(FieldFault, Fault)>,
}

impl FieldFaults {
    /// The `faults` that affect the field; `zero` is the start of the world.
    pub fn new(faults: &[Fault], zero: Instant) -> FieldFaults {
        let faults = faults.iter().filter_map(|fault| Some((fault.kind.field()?, *fault))).collect();
        FieldFaults { zero, faults }
    }

    /// Whether no fault ever affects the field.
    pub fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }

    /// Whether a cycle that begins at `start` panics.
    pub fn panics(&self, start: Instant) -> bool {
        let at = start.since(self.zero);
        self.faults.iter().any(|(kind, fault)| *kind == FieldFault::Panic && fault.is_on(at))
    }

    /// The fault of the GPU at `now`; if the script has several, the first one.
    pub fn gpu(&self, now: Instant) -> Option<GpuFault> {
        let at = now.since(self.zero);
        self.faults.iter().find_map(|(kind, fault)| match kind {
            FieldFault::Gpu(gpu) if fault.is_on(at) => Some(*gpu),
            _ => None,
        })
    }

    /// The end of a cycle that began at `start` and takes `own` without faults. It is later if the engine is
    /// slow; if the engine hangs, it is at least `own` after the fault's end, or [`Instant::NEVER`] if the
    /// fault does not end. A hang that begins while the cycle runs affects the cycle too.
    pub fn end_of_cycle(&self, start: Instant, own: Span) -> Instant {
        let at = start.since(self.zero);
        let slow = self.faults.iter().any(|(kind, fault)| *kind == FieldFault::Slow && fault.is_on(at));
        let mut end = start + if slow { own.times(SLOW_DOWN) } else { own };
        for (_, fault) in self.faults.iter().filter(|(kind, _)| *kind == FieldFault::Hang) {
            let begins_meanwhile = fault.start >= at && fault.start < end.since(self.zero);
            if fault.is_on(at) || begins_meanwhile {
                end = fault.end().map_or(Instant::NEVER, |until| end.max(self.zero + until + own));
            }
        }
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Span = Span::from_millis(1000);

    #[test]
    fn the_table_is_in_the_order_of_the_kinds_and_names_are_unique() {
        for (place, entry) in TABLE.iter().enumerate() {
            assert_eq!(entry.kind as usize, place, "{}", entry.name);
            assert_eq!(TABLE.iter().filter(|other| other.name == entry.name).count(), 1);
            assert_eq!(Fault::parse(entry.name), Ok(Fault::usual(entry.kind)));
            assert!(!entry.meaning.is_empty());
        }
        assert_eq!(Fault::all().count(), TABLE.len());
    }

    #[test]
    fn a_fault_line_has_kind_start_and_length() {
        let (kind, start, length) = (FaultKind::I2cNack, S.times(10), Some(S.times(2)));
        let usual = Fault { kind, start, length, target: None };
        assert_eq!(Fault::parse("i2c-nack"), Ok(usual));
        assert_eq!("i2c-nack@3".parse(), Ok(Fault { start: S.times(3), ..usual }));
        let short = Fault { start: Span::from_millis(2500), length: Some(Span::from_millis(250)), ..usual };
        assert_eq!("i2c-nack@2.5s+0.25".parse(), Ok(short));
        assert_eq!(Fault::parse("battery-low@1+4").map(|fault| fault.length), Ok(Some(S.times(4))));
        assert_eq!(Fault::parse("battery-low@1").map(|fault| fault.length), Ok(None));
        assert_eq!(Fault::parse("i2c-nack:0x60"), Ok(Fault { target: Some(0x60), ..usual }));
        assert_eq!(Fault::parse("i2c-nack:96@3").map(|fault| fault.target), Ok(Some(0x60)));
    }

    #[test]
    fn an_unknown_fault_is_named_with_the_nearest_one() {
        let unknown = Fault::parse("sonar-froze@5").unwrap_err();
        assert_eq!(unknown.to_string(), "unknown fault 'sonar-froze'; did you mean 'sonar-frozen'?");
        let unknown = Fault::parse("foo").unwrap_err().to_string();
        assert_eq!(unknown, "unknown fault 'foo'; 'ganglion run --help' lists all faults");
        for text in ["estop@", "estop@NaN", "estop@1+", "estop@1+x"] {
            assert!(matches!(Fault::parse(text), Err(FaultError::Time { .. })), "{text}");
        }
        for text in ["estop@-1", "estop@99999", "estop@1+1e9", "estop@inf"] {
            let error = Fault::parse(text).unwrap_err();
            assert!(error.to_string().ends_with("is outside 0 to 86400 seconds"), "{text}: {error}");
        }
        for text in ["i2c-nack:", "i2c-nack:256@1", "i2c-nack:0xx", "i2c-nack:-1@2"] {
            assert!(matches!(Fault::parse(text), Err(FaultError::Target { .. })), "{text}");
        }
    }

    #[test]
    fn a_fault_is_active_from_its_start_until_its_end() {
        let zero = Instant::from_nanos(77);
        let script = Script::new(&[Fault::parse("estop@2+1").unwrap()], zero);
        let on = |at: u64| script.is_on(FaultKind::EStop, zero + Span::from_millis(at));
        assert_eq!([on(1999), on(2000), on(2999), on(3000)], [false, true, true, false]);
        assert!(!script.is_on(FaultKind::I2cNack, zero + S.times(2)));
    }

    #[test]
    fn fault_changes_are_reported_once() {
        let zero = Instant::from_nanos(77);
        let lines = ["estop@2+1", "estop@2.5+1", "estop@9+1", "i2c-nack@4"];
        let script = Script::new(&lines.map(|line| Fault::parse(line).unwrap()), zero);
        let next = |after: u64| {
            let (after, until) = (zero + Span::from_millis(after), zero + S.times(9));
            script
                .next_change(FaultKind::EStop, 25, after, until)
                .map(|at| at.since(zero).as_nanos() / 1_000_000)
        };
        assert_eq!([next(0), next(1999), next(2000)], [Some(2000), Some(2000), Some(3500)]);
        assert_eq!([next(3500), next(9000)], [Some(9000), None]);
    }

    #[test]
    fn the_field_hangs_slows_down_and_panics_in_its_time() {
        let zero = Instant::from_nanos(5);
        let lines = ["field-hang@2+3", "field-slow@10+1", "field-panic@20+1", "field-hang@30", "estop@0"];
        let mut script: Vec<Fault> = lines.iter().map(|line| Fault::parse(line).unwrap()).collect();
        script[3].length = None;
        let faults = FieldFaults::new(&script, zero);
        let own = Span::from_millis(5);
        let end = |ms: u64| faults.end_of_cycle(zero + Span::from_millis(ms), own).since(zero);
        assert_eq!(end(1000), Span::from_millis(1005));
        assert_eq!(end(1998), Span::from_millis(5005), "the fault begins while the cycle runs");
        assert_eq!(end(4000), Span::from_millis(5005));
        assert_eq!(end(5000), Span::from_millis(5005));
        assert_eq!(end(10_000), Span::from_millis(10_050));
        assert_eq!(faults.end_of_cycle(zero + S.times(31), own), Instant::NEVER);
        assert_eq!([19, 20, 21].map(|s| faults.panics(zero + S.times(s))), [false, true, false]);
    }

    #[test]
    fn each_gpu_fault_is_active_in_its_time_and_spares_the_worker() {
        let names = ["gpu-error", "gpu-stuck", "gpu-hang", "gpu-slow", "gpu-lost", "gpu-memory"];
        let wanted = [
            GpuFault::Error,
            GpuFault::Stuck,
            GpuFault::Hang,
            GpuFault::Slow,
            GpuFault::Lost,
            GpuFault::Memory,
        ];
        let zero = Instant::from_nanos(9);
        for (name, gpu) in names.into_iter().zip(wanted) {
            let faults = FieldFaults::new(&[Fault::parse(&format!("{name}@2+1")).unwrap()], zero);
            let at = |ms: u64| zero + Span::from_millis(ms);
            assert_eq!(
                [1999, 2000, 2999, 3000].map(|ms| faults.gpu(at(ms))),
                [None, Some(gpu), Some(gpu), None]
            );
            assert!(!faults.panics(at(2500)));
            assert_eq!(faults.end_of_cycle(at(2500), S), at(3500));
        }
    }
}
