//! What happened to a sensor's readings, in the report of a run.

use crate::base::plan::Board;
use crate::decision::admit::{Admission, REFUSALS, REFUSED_IF_SOUND, SensorCounters};
use serde::Serialize;
use std::collections::BTreeMap;

/// One sensor's readings.
#[derive(Debug, PartialEq, Serialize)]
pub struct SensorReport {
    admitted: u64,
    /// Why readings were refused, and how many.
    refused: BTreeMap<&'static str, u64>,
    /// How often the sensor became stale.
    stale: u64,
    /// Readings that came after a newer one.
    out_of_order: u64,
    /// Readings with a time in the future.
    from_future: u64,
}

impl SensorReport {
    fn of(counters: &SensorCounters) -> SensorReport {
        let SensorCounters { admitted, refused, stale, out_of_order, from_future } = *counters;
        let refused = REFUSALS.into_iter().zip(refused).filter(|(_, times)| *times > 0).collect();
        SensorReport { admitted, refused, stale, out_of_order, from_future }
    }

    /// The sensors of `board` that had readings or should have had some, by name.
    pub fn by_name(board: &Board, admission: &Admission) -> BTreeMap<String, SensorReport> {
        let reports = board.sensors.iter().zip(admission.counters());
        let read = reports.filter(|(_, counters)| **counters != SensorCounters::default());
        read.map(|(sensor, counters)| (sensor.name.clone(), SensorReport::of(counters))).collect()
    }

    /// A line about the sensor's trouble, if it had any.
    pub fn line(&self, name: &str) -> Option<String> {
        let SensorReport { admitted, refused, stale, out_of_order, from_future } = self;
        let is_sound = refused.values().sum::<u64>() <= REFUSED_IF_SOUND;
        let refused =
            refused.iter().filter(|_| !is_sound).map(|(why, times)| format!("refused {times} ({why})"));
        let others = [
            ("times stale", *stale),
            ("out of order", *out_of_order),
            ("with a time in the future", *from_future),
        ];
        let others = others.into_iter().filter(|(_, times)| *times > 0);
        let troubles: Vec<String> =
            refused.chain(others.map(|(what, times)| format!("{times} {what}"))).collect();
        let any = !troubles.is_empty();
        any.then(|| format!("{name}: {admitted} readings admitted, {}", troubles.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sensors_trouble_is_one_line() {
        let sound = SensorCounters { admitted: 90, ..SensorCounters::default() };
        let early = SensorCounters { refused: [0, 1, 0, 0, 0, 0], ..sound };
        assert_eq!([sound, early].map(|counters| SensorReport::of(&counters).line("range")), [None, None]);
        let refused = [0, 3, 1, 0, 0, 0];
        let troubled = SensorCounters { refused, stale: 2, out_of_order: 1, ..sound };
        assert_eq!(
            SensorReport::of(&troubled).line("range").as_deref(),
            Some(
                "range: 90 readings admitted, refused 1 (out-of-range), refused 3 (timeout), 2 times stale, 1 out of order"
            )
        );
    }
}
