//! Runs a log through the field: the features of every cycle, exactly as in the running loop.
//!
//! Uses the same admission and the same engine as the loop; starts from rest at row 0, at the best quality
//! level. Fits nothing.

use super::LearnError;
use super::log::Log;
use crate::base::command::Command;
use crate::base::frame::{Frame, MAX_SENSORS, Reading};
use crate::base::plan::{Board, QualityLevel};
use crate::base::time::Instant;
use crate::decision::admit::Admission;
use crate::field::shape::FEATURES;
use crate::field::{FieldInput, Inspect};

/// The features of a log's cycles.
pub struct Observed {
    /// Cycle by cycle, [`FEATURES`] each.
    pub features: Vec<f32>,
    /// The row of the log for each cycle.
    pub rows: Vec<usize>,
}

/// Runs `log` through `engine`, which was built for `board`. `watch` receives the number of each row.
pub fn observe(
    board: &Board,
    engine: &mut dyn Inspect,
    log: &Log,
    mut watch: impl FnMut(usize),
) -> Result<Observed, LearnError> {
    let mut loop_end = LoopEnd::new(board);
    let every = board.field.every_ticks.max(1) as usize;
    let rows: Vec<usize> = (0..log.rows()).step_by(every).collect();
    let mut features = vec![0.0; rows.len() * FEATURES];
    engine.reset();
    let mut cells = features.chunks_exact_mut(FEATURES);
    for row in 0..log.rows() {
        watch(row);
        let sensors = loop_end.take(log, row);
        if !row.is_multiple_of(every) {
            continue;
        }
        let cycle = (row / every) as u64;
        let input = FieldInput { cycle, sensors, reward: 0.0, quality: QualityLevel::BEST, place: None };
        engine.cycle(&input).map_err(|refused| LearnError::Refused { line: log.line(row), refused })?;
        cells.next().into_iter().for_each(|cells| engine.copy_features(cells));
    }
    engine.reset();
    Ok(Observed { features, rows })
}

/// The part of the loop between the bus and the field.
struct LoopEnd {
    admission: Admission,
    frame: Frame,
    still: Command,
    period: crate::base::time::Span,
}

impl LoopEnd {
    fn new(board: &Board) -> LoopEnd {
        LoopEnd {
            admission: Admission::new(&board.sensors),
            frame: Frame::empty(board.sensors.len()),
            still: Command::still(board.motors.len()),
            period: board.period,
        }
    }

    /// Admits one row at its slot; returns the field's inputs.
    fn take(&mut self, log: &Log, row: usize) -> [f32; MAX_SENSORS] {
        let stamp = Instant::ZERO + self.period.times(row as u64);
        let readings = log.readings(row).map(|(channel, value)| Reading { channel, value, stamp });
        self.admission.update(&mut self.frame, readings, false, &self.still, stamp, |_, _, _| ());
        let mut sensors = [0.0; MAX_SENSORS];
        self.admission.inputs(&self.frame, |sensor, value| sensors[sensor] = value);
        sensors
    }
}
