//! Finds the first value of a slot that differs between the recording and the replay. Numbers are compared
//! bit for bit, so zeros of different sign differ.

use crate::base::frame::Sample;
use crate::base::plan::Board;
use crate::drive::record::Slot;
use crate::drive::trace::Record;
use crate::field::FieldOutput;
use crate::system::checkpoint::Named;
use std::fmt::{self, Debug};

/// A value that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Number of the slot.
    pub index: u64,
    /// The name of the value.
    pub what: String,
    /// The value in the recording.
    pub recorded: String,
    /// The value in the replay.
    pub decided: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { index, what, recorded, decided } = self;
        write!(f, "slot {index}: {what} is {recorded} in the recording and {decided} in the replay")
    }
}

impl Difference {
    /// Describes the difference between two recorded runs.
    pub fn of_runs(&self) -> String {
        format!("{} is {} in the first run and {} in the second", self.what, self.recorded, self.decided)
    }
}

/// Names of the board's sensors and motors.
#[derive(Debug, Default)]
pub struct Names {
    sensors: Vec<String>,
    motors: Vec<String>,
}

impl Names {
    /// The names on `board`.
    pub fn of(board: &Board) -> Names {
        Names {
            sensors: board.sensors.iter().map(|sensor| sensor.name.clone()).collect(),
            motors: board.motors.iter().map(|motor| motor.name.clone()).collect(),
        }
    }

    fn motor_named(&self, place: usize) -> String {
        self.motors
            .get(place)
            .map_or("a motor that the board lacks".to_string(), |name| format!("motor '{name}'"))
    }

    fn motor(&self, place: usize) -> String {
        match self.motors.get(place) {
            Some(name) => format!("the command for motor '{name}'"),
            None => "the number of motors".to_string(),
        }
    }
}

/// Collects the first difference of a slot.
pub(super) struct Search {
    index: u64,
    found: Option<Difference>,
}

impl Search {
    /// A search in slot number `index`, with no difference found yet.
    pub(super) fn in_slot(index: u64) -> Search {
        Search { index, found: None }
    }

    /// The first difference.
    pub(super) fn found(self) -> Option<Difference> {
        self.found
    }

    /// Compares two answers of the field, including the motor requests if `motors` is set. If `bound` is 0,
    /// any differing bit counts, otherwise only a difference above `bound`. Returns the largest difference.
    pub(super) fn answers(
        &mut self,
        (recorded, decided): (&FieldOutput, &FieldOutput),
        bound: f32,
        motors: bool,
        names: &Names,
    ) -> f32 {
        self.value("the field's cycle", &recorded.cycle, &decided.cycle);
        let mut largest: f32 = 0.0;
        let mut near = |what: &dyn Fn() -> String, recorded: f32, decided: f32| {
            let apart = (recorded - decided).abs();
            largest = largest.max(apart);
            if bound == 0.0 || apart.is_nan() || apart > bound {
                self.by(&what(), &recorded, &decided, |value| value.to_bits());
            }
        };
        for (row, (recorded, decided)) in recorded.scores.iter().zip(&decided.scores).enumerate() {
            near(&|| format!("the field's score {row}"), *recorded, *decided);
        }
        near(&|| "the field's confidence".into(), recorded.confidence, decided.confidence);
        near(&|| "the field's skill".into(), recorded.skill, decided.skill);
        near(&|| "the field's novelty".into(), recorded.novelty, decided.novelty);
        let moved = recorded.motors.iter().zip(&decided.motors).enumerate().filter(|_| motors);
        for (motor, (recorded, decided)) in moved {
            near(&|| format!("the field's request for {}", names.motor_named(motor)), *recorded, *decided);
        }
        largest
    }

    /// Compares one value by its `bits`; a difference shows the value itself.
    fn by<T: Debug, B: PartialEq>(&mut self, what: &str, recorded: &T, decided: &T, bits: impl Fn(&T) -> B) {
        if self.found.is_none() && bits(recorded) != bits(decided) {
            self.found = Some(Difference {
                index: self.index,
                what: what.to_string(),
                recorded: format!("{recorded:?}"),
                decided: format!("{decided:?}"),
            });
        }
    }

    pub(super) fn value<T: Debug + PartialEq + Clone>(&mut self, what: &str, recorded: &T, decided: &T) {
        self.by(what, recorded, decided, T::clone);
    }

    fn floats(&mut self, what: impl Fn(usize) -> String, recorded: &[f32], decided: &[f32]) {
        self.value(&what(usize::MAX), &recorded.len(), &decided.len());
        for (place, (recorded, decided)) in recorded.iter().zip(decided).enumerate() {
            self.by(&what(place), recorded, decided, |value| value.to_bits());
        }
    }

    fn samples(&mut self, names: &[String], recorded: &[Sample], decided: &[Sample]) {
        self.value("the number of sensors", &recorded.len(), &decided.len());
        for ((name, recorded), decided) in names.iter().zip(recorded).zip(decided) {
            let bits = |s: &Sample| (s.value.to_bits(), s.worst.to_bits(), s.stamp, s.health);
            if bits(recorded) != bits(decided) {
                self.by(&format!("sensor '{name}'"), recorded, decided, bits);
            }
        }
    }
}

/// The first value that differs between the checkpoint before slot number `index` and the tick's state.
pub(super) fn first_forgotten(
    index: u64,
    recorded: &[u8],
    decided: &[u8],
    names: &[Named],
) -> Option<Difference> {
    let differ = |(a, b): (&u8, &u8)| a != b;
    let shorter = recorded.len().min(decided.len());
    let place = recorded.iter().zip(decided).position(differ).unwrap_or(shorter);
    if recorded.len() == decided.len() && place == shorter {
        return None;
    }
    // Everything before is equal, so the value starts at the same offset in both.
    let at = names.iter().position(|named| place < named.end).unwrap_or(names.len().saturating_sub(1));
    let begin = at.checked_sub(1).map_or(0, |before| names[before].end);
    let end = names.get(at).map_or(place, |named| named.end);
    let bytes = |all: &[u8]| format!("{:02x?}", &all[begin.min(all.len())..end.min(all.len())]);
    Some(Difference {
        index,
        what: names.get(at).map_or("its state".into(), |named| format!("before it, {}", named.what)),
        recorded: bytes(recorded),
        decided: bytes(decided),
    })
}

/// The first difference between the same slot of two runs, in the order in which a tick decides. Times are
/// left out, because they differ between any two runs in real time.
pub fn first_difference_of_runs(a: &Slot, b: &Slot, names: &Names) -> Option<Difference> {
    let mut search = Search::in_slot(a.index);
    search.value("the slots lost before it", &a.lost, &b.lost);
    search.value("what was requested", &a.asked, &b.asked);
    let read = |slot: &Slot| -> Vec<_> {
        slot.readings.iter().map(|reading| (reading.channel, reading.value.map(f32::to_bits))).collect()
    };
    if read(a) != read(b) {
        search.by("the readings that it took", &read(a), &read(b), Vec::clone);
    }
    for (place, (left, right)) in a.frame.iter().zip(&b.frame).enumerate() {
        let name = names.sensors.get(place).map_or("?", String::as_str);
        search.by(&format!("sensor '{name}'"), left, right, |s| (s.value.to_bits(), s.health));
    }
    search.value("the active causes", &a.active, &b.active);
    search.value("the latched causes", &a.latched, &b.latched);
    search.value("the mode", &a.mode.name(), &b.mode.name());
    search.value("the quality level", &a.quality, &b.quality);
    search.value("what decided the command", &a.source, &b.source);
    search.floats(|place| names.motor(place), &a.motors, &b.motors);
    search.found
}

/// The first difference between `slot` and `record`, in the order in which a tick decides.
pub(super) fn first_difference(slot: &Slot, record: &Record, names: &Names) -> Option<Difference> {
    let mut search = Search::in_slot(slot.index);
    search.value("its number", &slot.index, &record.index);
    search.value("its time", &slot.slot, &record.slot);
    search.value("the slots lost before it", &slot.lost, &record.lost);
    search.value("what was requested", &slot.asked, &record.inputs.asked);
    search.samples(&names.sensors, &slot.frame, record.frame.used());
    search.value("the reflexes' other inputs", &slot.signals, &record.inputs.signals);
    search.value("the active causes", &slot.active, &record.active);
    search.value("the causes that tripped", &slot.tripped, &record.tripped);
    search.value("the latched causes", &slot.latched, &record.latched);
    let limits = |limits: &crate::base::plan::Limits| {
        (limits.forward.to_bits(), limits.backward.to_bits(), limits.steer)
    };
    search.by("the limits", &slot.limits, &record.limits, limits);
    search.value("the mode", &slot.mode, &record.mode);
    search.value("the quality level", &slot.quality, &record.quality);
    search.value("the number of the command", &slot.seq, &record.command.seq);
    search.value("the expiry time of the command", &slot.valid_until, &record.command.valid_until);
    search.value("what decided the command", &slot.source, &record.command.source);
    search.floats(|place| names.motor(place), &slot.motors, record.command.used());
    search.found
}
