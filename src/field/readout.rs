//! A learned read-out in a file: its weights, what their rows mean, the field that they were made for and
//! where they come from. `learn` fits it, the engine computes with it.

use super::shape::{READOUT_COLUMNS, READOUT_GRIDS, READOUT_MOST};
use crate::base::plan::{Board, Curve, Scale};
use crate::system::codec::{self, CodecError, FileError, Kind};
use crate::system::sanitize::{compared, quoted};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

const KIND: Kind = Kind { tag: *b"READ", name: "read-out", version: 2 };

/// Maximum payload, bytes. 16 rows of 2,113 weights for each of two grids, and their names, take 270 kB.
const LONGEST: usize = 1 << 20;

/// What the rows of a read-out mean.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RowNames {
    /// The row with the highest score is the decision.
    Labels(Vec<String>),
    /// Each row drives the motor of that name.
    Motors(Vec<String>),
}

impl RowNames {
    /// What a read-out of `board` must have: one row per label if the board has decisions, otherwise one per
    /// motor.
    pub fn of(board: &Board) -> RowNames {
        if board.decisions.is_empty() {
            RowNames::Motors(board.motors.iter().map(|motor| motor.name.clone()).collect())
        } else {
            RowNames::Labels(board.decisions.iter().map(|decision| decision.label.clone()).collect())
        }
    }
    /// The names, in order.
    pub fn names(&self) -> &[String] {
        match self {
            RowNames::Labels(names) | RowNames::Motors(names) => names,
        }
    }
}

impl fmt::Display for RowNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self {
            RowNames::Labels(_) => "decisions",
            RowNames::Motors(_) => "motors",
        };
        write!(f, "{what} {}", self.names().join(", "))
    }
}

/// Where the weights come from, and how good they were on data that they were not fitted to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Origin {
    /// Fitted to the decisions in a log.
    Log {
        /// Heading of the column with the decisions.
        heading: String,
        /// BLAKE3 of the log.
        digest: [u8; 32],
        /// Rows of the log that it learned from.
        rows: u64,
        /// Ridge penalty that the cross-validation chose.
        lambda: f64,
        /// For each block of time, the share of correct decisions by weights fitted to the other blocks.
        blocks: Vec<f64>,
    },
    /// Given by a caller, without a trial.
    Given,
    /// Taught in closed loop to correct the board's starting table.
    Taught {
        /// [`correction_digest`] of the board.
        table: [u8; 32],
        /// Results of the trials at the best and at the lowest quality level.
        trials: [Trial; 2],
        /// Result of the table alone in the same rooms.
        standard: Trial,
    },
}

/// The result of a robot in some simulated rooms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Rooms.
    pub rooms: u64,
    /// Contacts of any kind, including falls.
    pub contacts: u64,
    /// Falls.
    pub falls: u64,
    /// Mean number of 0.25 m cells that the robot visited.
    pub cells: f64,
    /// Mean share of the time driven backwards, 0..=1.
    pub backward_share: f64,
    /// Mean share of the time in which the robot stood still, 0..=1.
    pub still_share: f64,
}

/// Largest share of the time that a correction may drive backwards in a trial, unless the table alone drives
/// backwards for longer.
const BACKWARD_MOST: f64 = 0.10;
/// A correction that causes fewer falls or contacts must cover at least this share of what the table covers.
const COVERAGE_LEAST: f64 = 0.9;
/// A correction that causes as many falls and contacts must cover at least this many times as much: over
/// twenty rooms of ten minutes, a mere change of the path changes the mean by a few hundredths.
const COVERAGE_MORE: f64 = 1.1;

impl Trial {
    /// Both trials combined.
    pub fn and(&self, other: &Trial) -> Trial {
        let rooms = self.rooms + other.rooms;
        let mean = |of: fn(&Trial) -> f64| {
            (of(self) * self.rooms as f64 + of(other) * other.rooms as f64) / rooms.max(1) as f64
        };
        Trial {
            rooms,
            contacts: self.contacts + other.contacts,
            falls: self.falls + other.falls,
            cells: mean(|trial| trial.cells),
            backward_share: mean(|trial| trial.backward_share),
            still_share: mean(|trial| trial.still_share),
        }
    }

    /// Whether the corrected table may drive: whether it did better than the table alone (`standard`) in the
    /// same rooms. It must cause neither more falls nor more contacts, and cover 0.9 of what the table
    /// covers, or 1.1 times as much if it causes as many of both.
    pub fn passes(&self, standard: &Trial) -> bool {
        let harm = (self.falls, self.contacts);
        let least = if harm < (standard.falls, standard.contacts) { COVERAGE_LEAST } else { COVERAGE_MORE };
        self.falls <= standard.falls
            && self.contacts <= standard.contacts
            && self.cells >= least * standard.cells
            && self.backward_share <= BACKWARD_MOST.max(standard.backward_share)
    }
}

/// Weights for the features of one particular field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Readout {
    rows: RowNames,
    /// For each grid, the full one first, and each row: a weight for each feature, then the constant.
    weights: Vec<f32>,
    /// Everything that decides what a feature means: name and value, in a fixed order.
    made_for: Vec<(String, String)>,
    origin: Origin,
}

/// Why a read-out is not used.
#[derive(Debug)]
pub enum ReadoutError {
    /// The file cannot be read or written.
    File(FileError),
    /// The file is complete, but its content is not a valid read-out.
    Malformed,
    /// It did not pass its trial.
    Failed,
    /// It is made to drive alone, but the board has a starting table, which a read-out can only correct.
    Whole,
    /// It was made for another field or board.
    Mismatch {
        /// What differs.
        what: String,
        /// Its value in the read-out.
        readout: String,
        /// Its value on the board.
        board: String,
    },
}

impl fmt::Display for ReadoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadoutError::File(error) => error.fmt(f),
            ReadoutError::Malformed => write!(
                f,
                "the read-out's rows and weights do not fit each other, or a weight is out of range"
            ),
            ReadoutError::Failed => write!(f, "the read-out did not pass its trial in the simulator"),
            ReadoutError::Whole => write!(
                f,
                "the read-out drives by itself, as older versions taught it; this board has a starting table, \
                 and a read-out can only correct it: run without the file, or teach a correction"
            ),
            ReadoutError::Mismatch { what, readout, board } => {
                let (what, readout) = (quoted(what), compared(readout));
                write!(f, "the read-out was made for {what} = {readout}; the board has {board}")
            }
        }
    }
}

impl std::error::Error for ReadoutError {}

impl From<FileError> for ReadoutError {
    fn from(error: FileError) -> ReadoutError {
        ReadoutError::File(error)
    }
}

impl Readout {
    /// A read-out for `board`, with weights for both grids, or one set of weights that is used for both.
    /// Refuses a wrong number of weights, and weights that are not finite or beyond `READOUT_MOST`.
    pub fn new(board: &Board, weights: Vec<f32>, origin: Origin) -> Result<Readout, ReadoutError> {
        let rows = RowNames::of(board);
        let weights = on_both_grids(&rows, weights);
        Readout { rows, weights, made_for: meaning(board), origin }.sound()
    }

    /// A read-out with zero weights: no motion, or the starting table of `board` without a correction.
    pub fn silent(board: &Board) -> Readout {
        let rows = RowNames::of(board);
        let weights = vec![0.0; weights_of(&rows)];
        Readout { rows, weights, made_for: meaning(board), origin: Origin::Given }
    }

    fn sound(self) -> Result<Readout, ReadoutError> {
        if fit(&self.rows, &self.weights) { Ok(self) } else { Err(ReadoutError::Malformed) }
    }

    /// Writes the file atomically.
    pub fn save(&self, path: &Path) -> Result<(), ReadoutError> {
        Ok(codec::save(path, KIND, self)?)
    }

    /// Reads a file; [`Readout::check`] decides whether it fits a board.
    pub fn load(path: &Path) -> Result<Readout, ReadoutError> {
        codec::load_within::<Readout>(path, KIND, LONGEST)?.sound()
    }

    /// Decodes the bytes of a file.
    pub fn from_bytes(bytes: &[u8]) -> Option<Readout> {
        codec::decode::<Readout>(KIND, bytes).ok()?.sound().ok()
    }

    /// The bytes of the file.
    pub fn to_bytes(&self) -> Result<Vec<u8>, CodecError> {
        codec::encode(KIND, self)
    }

    /// Checks that the read-out has the same meaning on `board` as on the board for which it was made;
    /// otherwise returns the first difference. The engine's kind and threads do not matter, nor does anything
    /// downstream of the read-out.
    pub fn check(&self, board: &Board) -> Result<(), ReadoutError> {
        let rows = RowNames::of(board);
        if rows != self.rows {
            let (readout, board) = (self.rows.to_string(), rows.to_string());
            return Err(ReadoutError::Mismatch { what: "rows".to_string(), readout, board });
        }
        if correction_digest(board).is_some() && !self.made_for.iter().any(|(what, _)| what == CORRECTS) {
            return Err(ReadoutError::Whole);
        }
        match first_difference(&self.made_for, &meaning(board)) {
            None => Ok(()),
            Some([what, readout, board]) => Err(ReadoutError::Mismatch { what, readout, board }),
        }
    }

    /// What the rows mean.
    pub fn rows(&self) -> &RowNames {
        &self.rows
    }
    /// The weights, grids x rows x [`READOUT_COLUMNS`], as engines take them.
    pub fn weights(&self) -> &[f32] {
        &self.weights
    }
    /// Identifies the weights.
    pub fn digest(&self) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new();
        self.weights.iter().for_each(|weight| _ = hasher.update(&weight.to_le_bytes()));
        hasher.finalize()
    }
    /// Where the weights come from.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }
    /// Heading of the log's column that it learned from.
    pub fn heading(&self) -> Option<&str> {
        match &self.origin {
            Origin::Log { heading, .. } => Some(heading),
            Origin::Given | Origin::Taught { .. } => None,
        }
    }

    /// Whether it failed its trial.
    pub fn has_failed(&self) -> bool {
        match &self.origin {
            Origin::Taught { trials, standard, .. } => !trials.iter().all(|trial| trial.passes(standard)),
            Origin::Log { .. } | Origin::Given => false,
        }
    }
}

/// The name under which [`meaning`] lists the starting table that a read-out corrects.
const CORRECTS: &str = "corrected starting table";

/// Digest of the starting table that a read-out of `board` corrects, and of the correction's bound. `None`:
/// the board has no starting table, so the read-out drives alone.
pub fn correction_digest(board: &Board) -> Option<[u8; 32]> {
    if board.field.start.is_empty() {
        return None;
    }
    // Files of older versions hold the digest of the curves only, for read-outs that drove alone.
    let mut hasher = blake3::Hasher::new_derive_key("ganglion correction of a starting table");
    hasher.update(&board.field.correction.to_bits().to_le_bytes());
    for curve in &board.field.start {
        hasher.update(&(curve.motor as u64).to_le_bytes());
        hasher.update(&(curve.sensor as u64).to_le_bytes());
        hasher.update(&(curve.points.len() as u64).to_le_bytes());
        for number in curve.points.as_flattened() {
            hasher.update(&number.to_bits().to_le_bytes());
        }
    }
    Some(*hasher.finalize().as_bytes())
}

/// Everything that decides the meaning of a read-out: the field's identity, and what is corrected.
fn meaning(board: &Board) -> Vec<(String, String)> {
    let mut list = identity(board);
    if let Some(digest) = correction_digest(board) {
        let digest = blake3::Hash::from_bytes(digest).to_hex();
        list.push((CORRECTS.to_string(), digest[..16].to_string()));
        list.push(("field correction".to_string(), format!("{:?}", board.field.correction)));
    }
    list
}

fn weights_of(rows: &RowNames) -> usize {
    READOUT_GRIDS * rows.names().len() * READOUT_COLUMNS
}

/// `weights`, duplicated if they are for one grid only.
fn on_both_grids(rows: &RowNames, weights: Vec<f32>) -> Vec<f32> {
    if READOUT_GRIDS * weights.len() == weights_of(rows) { weights.repeat(READOUT_GRIDS) } else { weights }
}

fn fit(rows: &RowNames, weights: &[f32]) -> bool {
    weights.len() == weights_of(rows) && weights.iter().all(|weight| weight.abs() <= READOUT_MOST)
}

/// The first difference between two lists of names and values: the name, and its value in each.
pub(super) fn first_difference(mine: &[(String, String)], its: &[(String, String)]) -> Option<[String; 3]> {
    let absent = || "nothing".to_string();
    let at = (0..mine.len().max(its.len())).find(|at| mine.get(*at) != its.get(*at))?;
    let (mine, its) = (mine.get(at), its.get(at));
    let what = mine.or(its).map_or_else(absent, |(what, _)| what.clone());
    let value = |side: Option<&(String, String)>| match side {
        Some((name, value)) if *name == what => value.clone(),
        Some((name, value)) => format!("{name} = {value}"),
        None => absent(),
    };
    Some([what.clone(), value(mine), value(its)])
}

/// Everything that decides what a feature means, as text; floats are written so that they can be read back
/// exactly.
pub(super) fn identity(board: &Board) -> Vec<(String, String)> {
    let plan = &board.field;
    let p = plan.params;
    let mut list = vec![
        ("field grid".to_string(), plan.shape.grid.to_string()),
        ("field seed".to_string(), plan.seed.to_string()),
        ("field period in ns".to_string(), plan.dt.as_nanos().to_string()),
        ("field learn".to_string(), plan.learn.to_string()),
    ];
    let numbers = [
        ("lambda", p.lambda),
        ("gamma", p.gamma),
        ("beta", p.beta),
        ("gain", p.gain),
        ("eta", p.eta),
        ("pattern_share", p.pattern_share),
        ("t_fast_s", p.t_fast),
        ("t_slow_s", p.t_slow),
        ("forget_per_s", p.forget_per_s),
    ];
    list.extend(numbers.map(|(name, value)| (format!("field {name}"), format!("{value:?}"))));
    let inputs = board.sensors.iter().filter_map(|sensor| Some((&sensor.name, sensor.input?)));
    list.extend(inputs.enumerate().map(|(at, (name, scale))| {
        (format!("field input {at}"), format!("sensor {name}, {}", written(scale)))
    }));
    list
}

fn written(scale: Scale) -> String {
    let curve = match scale.curve {
        Curve::Linear => "linear",
        Curve::Log => "log",
    };
    format!("{:?} to {:?} {curve}", scale.low, scale.high)
}

/// The row with the highest score; the first one if several are equal.
pub fn decide(scores: &[f32]) -> usize {
    let mut best = 0;
    for (row, score) in scores.iter().enumerate() {
        if *score > scores[best] {
            best = row;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::time::Span;
    use crate::field::sample::board;

    fn readout(board: &Board) -> Readout {
        let weights = (0..2 * READOUT_COLUMNS).map(|i| i as f32 / 7.0).collect();
        Readout::new(board, weights, Origin::Given).unwrap()
    }

    #[test]
    fn highest_score_decides_and_ties_go_to_the_first() {
        assert_eq!(decide(&[0.1, 0.7, 0.7, -1.0]), 1);
        assert_eq!(decide(&[0.0, 0.0]), 0);
        assert_eq!(decide(&[-3.0, -2.0]), 1);
    }

    #[test]
    fn a_saved_readout_survives_the_round_trip() {
        let folder = std::env::temp_dir().join(format!("ganglion-readout-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("r");
        let saved = readout(&board(8));
        saved.save(&path).unwrap();
        assert_eq!(Readout::load(&path).unwrap(), saved);
        assert_eq!(std::fs::read(&path).unwrap(), saved.to_bytes().unwrap());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn another_field_is_refused_with_both_values() {
        let here = board(8);
        let readout = readout(&here);
        assert!(readout.check(&here).is_ok());
        let refused = |change: &dyn Fn(&mut Board)| {
            let mut there = here.clone();
            change(&mut there);
            readout.check(&there).expect_err("another field").to_string()
        };
        let grid = refused(&|b| b.field.shape.grid = 16);
        assert_eq!(grid, "the read-out was made for field grid = 8; the board has 16");
        let eta = refused(&|b| b.field.params.eta = 0.25);
        assert_eq!(eta, "the read-out was made for field eta = 0.5; the board has 0.25");
        assert!(refused(&|b| b.field.seed = 2).contains("field seed = 1; the board has 2"));
        assert!(
            refused(&|b| b.field.dt = Span::from_millis(10)).contains("50000000; the board has 10000000")
        );
        let scale = refused(&|b| b.sensors[1].input.as_mut().unwrap().high = 2.5);
        assert!(scale.contains("sensor b, 0.0 to 2.0 linear; the board has sensor b, 0.0 to 2.5 linear"));
        assert!(refused(&|b| b.sensors[2].input = None).ends_with("the board has nothing"));
        assert!(
            refused(&|b| b.decisions.swap(0, 1)).contains("decisions go, stay; the board has decisions stay")
        );
        assert!(refused(&|b| b.decisions.clear()).contains("the board has motors left, right"));
    }

    #[test]
    fn settings_that_change_no_feature_do_not_matter() {
        let here = board(8);
        let mut there = here.clone();
        there.name = "other".to_string();
        there.field.threads = 4;
        there.field.engine = crate::base::plan::EngineKind::Cpu;
        there.field.shape.bank = 99;
        there.decisions[0].motors[0] = 0.25;
        assert!(readout(&here).check(&there).is_ok());
    }

    #[test]
    fn weights_out_of_range_are_refused() {
        let board = board(8);
        let make = |weights| Readout::new(&board, weights, Origin::Given);
        assert!(matches!(make(vec![0.0; READOUT_COLUMNS]), Err(ReadoutError::Malformed)));
        assert!(matches!(make(vec![f32::NAN; 2 * READOUT_COLUMNS]), Err(ReadoutError::Malformed)));
        assert!(matches!(make(vec![1.7e38; 2 * READOUT_COLUMNS]), Err(ReadoutError::Malformed)));
    }
}
