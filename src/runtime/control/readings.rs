//! What the sensors read and what the motors were told, at the newest slot: for users who watch a robot.

use crate::base::fault::ReadingFault;
use crate::base::frame::{Health, Sample};
use crate::base::plan::Board;
use crate::base::time::Instant;
use crate::drive::trace::Record;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Upper edges of the bins of [`Lateness`], microseconds; the last bin has none. They range from what a
/// real-time kernel achieves to a lateness that costs a slot.
pub const LATENESS_BOUNDS_US: [u64; 9] = [20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000];

/// Upper edges of the bins of [`CycleTimes`], microseconds; the last bin has none. They range from the
/// cycle time of a small field on a fast GPU to one that is too long for any board.
pub const CYCLE_BOUNDS_US: [u64; 12] =
    [100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000];

/// A sensor at the newest slot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SensorStatus {
    /// Its name on the board.
    pub name: String,
    /// Unit of the value.
    pub unit: String,
    /// The last admitted value; `None` before the first.
    pub value: Option<f32>,
    /// Age of that value, milliseconds.
    pub age_ms: Option<f64>,
    /// Whether it is credible: `good`, `stale`, `never read`, or why the newest reading was refused.
    pub health: String,
    /// How many of its readings were refused since the start.
    #[serde(default)]
    pub refused: u64,
}

/// A motor at the newest slot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MotorStatus {
    /// Its name on the board.
    pub name: String,
    /// Its command, -1..=1, after all limits.
    pub command: f32,
}

/// How late the slots began, as a histogram over the whole run. The difference between two such histograms
/// shows what happened between them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lateness {
    /// The control period, microseconds: a slot that starts later than this costs the next one.
    pub limit_us: f64,
    /// Number of slots in each bin; see [`LATENESS_BOUNDS_US`].
    pub counts: Vec<u64>,
    /// Sum of the lateness of all slots, microseconds.
    #[serde(default)]
    pub sum_us: f64,
}

/// How long the answered cycles of the field took to compute, as a histogram over the whole run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CycleTimes {
    /// Number of cycles in each bin; see [`CYCLE_BOUNDS_US`].
    pub counts: Vec<u64>,
    /// Sum of the compute times of all cycles, microseconds.
    pub sum_us: f64,
}

impl CycleTimes {
    /// Converts a histogram of nanoseconds; `None` if it is empty.
    pub(super) fn of(times: &Histogram<u64>) -> Option<CycleTimes> {
        let (counts, sum_us) = classes(times, &CYCLE_BOUNDS_US)?;
        Some(CycleTimes { counts, sum_us })
    }
}

/// The names on a board, which its records leave out.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Name and unit.
    sensors: Vec<(String, String)>,
    motors: Vec<String>,
    period_us: f64,
}

impl Names {
    pub(super) fn of(board: &Board) -> Names {
        let sensors = board.sensors.iter().map(|sensor| (sensor.name.clone(), sensor.unit.clone()));
        Names {
            sensors: sensors.collect(),
            motors: board.motors.iter().map(|motor| motor.name.clone()).collect(),
            period_us: board.period.as_micros_f64(),
        }
    }

    pub(super) fn sensors(&self, last: Option<&Record>) -> Vec<SensorStatus> {
        let Some(last) = last else { return Vec::new() };
        let samples = self.sensors.iter().zip(last.frame.used());
        samples.map(|((name, unit), sample)| sensor(name, unit, sample, last.slot)).collect()
    }

    pub(super) fn motors(&self, last: Option<&Record>) -> Vec<MotorStatus> {
        let Some(last) = last else { return Vec::new() };
        let commands = self.motors.iter().zip(last.command.used());
        commands.map(|(name, command)| MotorStatus { name: name.clone(), command: *command }).collect()
    }

    pub(super) fn lateness(&self, late: &Histogram<u64>) -> Option<Lateness> {
        let (counts, sum_us) = classes(late, &LATENESS_BOUNDS_US)?;
        Some(Lateness { limit_us: self.period_us, counts, sum_us })
    }
}

/// How many values of a histogram of nanoseconds are in each bin, and their sum in microseconds; `None` if it
/// is empty.
fn classes(times: &Histogram<u64>, bounds_us: &[u64]) -> Option<(Vec<u64>, f64)> {
    if times.is_empty() {
        return None;
    }
    let mut counts = vec![0; bounds_us.len() + 1];
    for value in times.iter_recorded() {
        // A bin includes its upper edge, as in Prometheus. `times` resolves a value only to a small range, so
        // the smallest value of that range decides.
        let least_ns = times.lowest_equivalent(value.value_iterated_to());
        let class = bounds_us.iter().position(|bound| least_ns <= *bound * 1_000);
        counts[class.unwrap_or(bounds_us.len())] += value.count_at_value();
    }
    Some((counts, times.mean() * times.len() as f64 / 1e3))
}

fn sensor(name: &str, unit: &str, sample: &Sample, now: Instant) -> SensorStatus {
    let was_read = sample.health != Health::Never && sample.stamp != Instant::ZERO;
    SensorStatus {
        name: name.to_string(),
        unit: unit.to_string(),
        value: was_read.then_some(sample.value),
        age_ms: was_read.then(|| now.since(sample.stamp).as_secs_f64() * 1e3),
        health: health(sample.health).to_string(),
        refused: 0, // the loop's status has it
    }
}

fn health(health: Health) -> &'static str {
    match health {
        Health::Never => "never read",
        Health::Good => "good",
        Health::Stale => "stale",
        Health::Bad(ReadingFault::Bus(_)) => "bus fault",
        Health::Bad(ReadingFault::Timeout) => "no answer",
        Health::Bad(ReadingFault::OutOfRange) => "out of range",
        Health::Bad(ReadingFault::NotFinite) => "no number",
        Health::Bad(ReadingFault::Frozen) => "frozen",
        Health::Bad(ReadingFault::DeadBytes) => "dead bytes",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::fixture::at;
    use crate::drive::trace::latency_histogram;

    #[test]
    fn each_slot_counts_in_the_class_of_its_lateness() {
        let mut late = latency_histogram();
        let names = Names { period_us: 10_000.0, ..Names::default() };
        assert_eq!(names.lateness(&late), None);
        for us in [1, 19, 21, 700, 700, 9_000, 30_000] {
            late.record(us * 1_000).unwrap();
        }
        let lateness = names.lateness(&late).unwrap();
        assert_eq!(lateness.counts, [2, 1, 0, 0, 0, 2, 0, 0, 1, 1]);
        assert_eq!(lateness.limit_us, 10_000.0);
        // Each value is known to three digits.
        assert!((lateness.sum_us - 40_441.0).abs() < 41.0, "{}", lateness.sum_us);
    }

    #[test]
    fn each_cycle_counts_in_the_class_of_its_time() {
        let mut times = latency_histogram();
        assert_eq!(CycleTimes::of(&times), None);
        // A bin includes its upper edge: 100 us is in the first bin, 100.4 us in the second.
        for ns in [90_000, 100_000, 100_400, 300_000, 300_000, 700_000_000] {
            times.record(ns).unwrap();
        }
        let times = CycleTimes::of(&times).unwrap();
        assert_eq!(times.counts, [2, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert!((times.sum_us - 700_890.4).abs() < 701.0, "{}", times.sum_us);
    }

    #[test]
    fn a_sensor_that_was_never_read_has_no_value_and_no_age() {
        let never = sensor("range", "m", &Sample::NEVER, at(1_000));
        assert_eq!((never.value, never.age_ms, never.health.as_str()), (None, None, "never read"));
        let read = Sample { value: 0.5, worst: 0.4, stamp: at(970), health: Health::Stale };
        let read = sensor("range", "m", &read, at(1_000));
        assert_eq!((read.value, read.age_ms, read.health.as_str()), (Some(0.5), Some(30.0), "stale"));
    }
}
