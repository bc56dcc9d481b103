//! Reads a robot's log for a board: CSV with a header line and one row per control period. Columns are found
//! by the names of the board's sensors.
//!
//! A log with a wrong structure (columns, row lengths, labels) is an error. A cell with an invalid value is
//! kept as it is: the running loop treats it as a faulty reading, and learning rejects it. Nothing here
//! depends on the field.

use crate::base::fault::ReadingFault;
use crate::base::plan::{Board, ComputedSensor, SensorKind, SensorPlan};
use crate::system::bounded_read::BoundedFile;
use crate::system::rt::room::{self, NoRoom};
use crate::system::sanitize::{nearest, quoted};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Longest log, in bytes: a week of 24 columns at 10 Hz.
const MAX_BYTES: u64 = 1 << 30;
/// Longest row, in bytes: enough for thousands of columns. Limits the memory that one read takes, even after
/// an unclosed quotation mark.
const LONGEST_ROW: usize = 1 << 16;
/// Maximum number of rows: ten days at 20 Hz. A row takes memory even if it is nearly empty.
const MOST_ROWS: usize = 1 << 24;

/// The columns of a log that a board uses.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    digest: [u8; 32],
    /// Frame channel of each column.
    channels: Vec<u8>,
    /// Values by row, then in the order of `channels`; NaN if the cell is not a number.
    values: Vec<f32>,
    lines: Vec<u64>,
    /// Index of the board's decision, by row; empty without a label column.
    labels: Vec<usize>,
    defect: Option<LogFault>,
    defects: usize,
}

/// An error in a log, and its file.
#[derive(Debug)]
pub struct LogError {
    /// The file.
    pub path: PathBuf,
    /// The error.
    pub fault: LogFault,
}

/// An error in a log. Lines are counted from 1, including the header.
#[derive(Debug)]
pub enum LogFault {
    /// The system cannot read the file.
    Io(io::Error),
    /// The log needs more memory than is available.
    Room(NoRoom),
    /// A row is longer than the limit.
    LongRow {
        /// Line at which it begins.
        line: u64,
    },
    /// More rows than allowed.
    ManyRows,
    /// The file has no header line.
    Empty,
    /// There is a header line but no row.
    NoRows,
    /// A column that the board or the command requires is missing.
    NoColumn {
        /// Its name.
        wanted: String,
        /// The most similar column name.
        nearest: Option<String>,
    },
    /// Two columns have the name of a required column.
    TwoColumns {
        /// The name.
        heading: String,
    },
    /// A row has more or fewer cells than the header.
    Ragged {
        /// Line number.
        line: u64,
        /// Cells in the header.
        expected: usize,
        /// Cells in the row.
        found: usize,
    },
    /// A cell is not a finite number.
    NotANumber {
        /// Line number.
        line: u64,
        /// Its column.
        column: String,
        /// The value found.
        found: String,
    },
    /// A cell is outside the sensor's range on the board.
    OutOfRange {
        /// Line number.
        line: u64,
        /// Its column.
        column: String,
        /// The value found.
        found: String,
        /// The range on the board.
        valid: [f32; 2],
    },
    /// A label is not one of the board's decisions.
    UnknownLabel {
        /// Line number.
        line: u64,
        /// Name of the label column.
        column: String,
        /// The value found.
        found: String,
        /// The most similar decision.
        nearest: Option<String>,
    },
    /// The board needs a sensor that a log cannot provide.
    NotLogged {
        /// Name of the sensor.
        sensor: String,
    },
    /// The board has no decisions, so it cannot use labels.
    NoDecisions,
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.fault)
    }
}

impl fmt::Display for LogFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogFault::Io(error) => write!(f, "{error}"),
            LogFault::Room(refusal) => write!(f, "the log does not fit: {refusal}"),
            LogFault::LongRow { line } => {
                write!(f, "line {line}: a row of more than {LONGEST_ROW} bytes")
            }
            LogFault::ManyRows => write!(f, "more than {MOST_ROWS} rows"),
            LogFault::Empty => write!(f, "line 1: empty; expected a header line"),
            LogFault::NoRows => write!(f, "line 2: no rows after the header line"),
            LogFault::NoColumn { wanted, nearest } => {
                write!(f, "line 1: no column `{}`", quoted(wanted))?;
                meant(f, nearest)
            }
            LogFault::TwoColumns { heading } => write!(f, "line 1: two columns `{}`", quoted(heading)),
            LogFault::Ragged { line, expected, found } => {
                write!(f, "line {line}: {found} cells; the header line has {expected}")
            }
            LogFault::NotANumber { line, column, found } => {
                let (column, found) = (quoted(column), quoted(found));
                write!(f, "line {line}, column `{column}`: found `{found}`, which is not a finite number")
            }
            LogFault::OutOfRange { line, column, found, valid: [low, high] } => {
                let (column, found) = (quoted(column), quoted(found));
                write!(f, "line {line}, column `{column}`: found {found}; the board allows {low} to {high}")
            }
            LogFault::UnknownLabel { line, column, found, nearest } => {
                let (column, found) = (quoted(column), quoted(found));
                write!(f, "line {line}, column `{column}`: `{found}` is not one of the board's decisions")?;
                meant(f, nearest)
            }
            LogFault::NotLogged { sensor } => {
                write!(f, "board sensor `{sensor}` is neither a log column nor derived from any")
            }
            LogFault::NoDecisions => write!(f, "the board has no decisions, so it cannot use labels"),
        }
    }
}

fn meant(f: &mut fmt::Formatter<'_>, nearest: &Option<String>) -> fmt::Result {
    match nearest {
        Some(name) => write!(f, "; did you mean `{}`?", quoted(name)),
        None => Ok(()),
    }
}

impl std::error::Error for LogError {}

impl Log {
    /// Reads the columns for `board`'s sensors and, with `label`, the decisions in the column of that name.
    pub fn read(path: &Path, board: &Board, label: Option<&str>) -> Result<Log, LogError> {
        let named = |fault| LogError { path: path.to_path_buf(), fault };
        let bytes = read_whole(path).map_err(named)?;
        Log::parse(path, &bytes, board, label).map_err(named)
    }

    /// Like [`Log::read`], from bytes; `path` is only used in messages.
    pub fn parse(path: &Path, bytes: &[u8], board: &Board, label: Option<&str>) -> Result<Log, LogFault> {
        if label.is_some() && board.decisions.is_empty() {
            return Err(LogFault::NoDecisions);
        }
        let text = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
        if let Some(at) = long_row(text) {
            return Err(LogFault::LongRow { line: Lines { text, at: 0, line: 1 }.of_record(at as u64) });
        }
        let mut reader = csv::ReaderBuilder::new()
            .flexible(true)
            .trim(csv::Trim::All)
            .has_headers(false)
            .from_reader(text);
        let mut record = csv::ByteRecord::new();
        if !advance(&mut reader, &mut record)? {
            return Err(LogFault::Empty);
        }
        let headings: Vec<String> = record.iter().map(text_of).collect();
        let columns = sensor_columns(board, &headings)?;
        let label = label.map(|heading| find(&headings, heading)).transpose()?;

        let mut log = Log {
            path: path.to_path_buf(),
            digest: *blake3::hash(bytes).as_bytes(),
            channels: columns.iter().map(|column| column.channel as u8).collect(),
            values: Vec::new(),
            lines: Vec::new(),
            labels: Vec::new(),
            defect: None,
            defects: 0,
        };
        let mut lines = Lines { text, at: 0, line: 1 };
        while advance(&mut reader, &mut record)? {
            let line = lines.of_record(record.position().map_or(0, csv::Position::byte));
            if record.len() != headings.len() {
                return Err(LogFault::Ragged { line, expected: headings.len(), found: record.len() });
            }
            if log.lines.len() >= MOST_ROWS {
                return Err(LogFault::ManyRows);
            }
            log.lines.push(line);
            for column in &columns {
                log.take_cell(column, &record[column.at], line);
            }
            if let Some(at) = label {
                log.labels.push(decision(board, &headings[at], &record[at], line)?);
            }
        }
        if log.lines.is_empty() { Err(LogFault::NoRows) } else { Ok(log) }
    }

    fn take_cell(&mut self, column: &Column<'_>, cell: &[u8], line: u64) {
        let value = std::str::from_utf8(cell).ok().and_then(|text| text.parse().ok()).unwrap_or(f32::NAN);
        self.values.push(value);
        let [low, high] = column.sensor.valid;
        if (low..=high).contains(&value) {
            return;
        }
        self.defects += 1;
        self.defect.get_or_insert_with(|| {
            let (column, found, valid) = (column.heading.to_string(), text_of(cell), column.sensor.valid);
            match value.is_finite() {
                true => LogFault::OutOfRange { line, column, found, valid },
                false => LogFault::NotANumber { line, column, found },
            }
        });
    }

    /// The log's file.
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// BLAKE3 of the file's bytes.
    pub fn digest(&self) -> &[u8; 32] {
        &self.digest
    }
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.lines.len()
    }
    /// Line number of a row in the file, counted from 1.
    pub fn line(&self, row: usize) -> u64 {
        self.lines[row]
    }
    /// The sensor readings in `row`, as a bus would deliver them, each with its frame channel. A cell that is
    /// not a finite number is a fault; the loop decides whether a number is plausible.
    pub fn readings(&self, row: usize) -> impl Iterator<Item = (u8, Result<f32, ReadingFault>)> {
        let cells = &self.values[row * self.channels.len()..][..self.channels.len()];
        let read = |value: f32| if value.is_finite() { Ok(value) } else { Err(ReadingFault::NotFinite) };
        self.channels.iter().zip(cells).map(move |(channel, value)| (*channel, read(*value)))
    }
    /// Index of the board's decision in `row`; `None` without a label column.
    pub fn label(&self, row: usize) -> Option<usize> {
        self.labels.get(row).copied()
    }
    /// The decisions of all rows; empty without a label column.
    pub fn labels(&self) -> &[usize] {
        &self.labels
    }
    /// Number of cells with a value that is invalid for their sensor.
    pub fn defects(&self) -> usize {
        self.defects
    }
    /// Returns the log if every cell is valid, otherwise the first invalid cell: a read-out must not be
    /// fitted to invalid readings.
    pub fn sound(self) -> Result<Log, LogError> {
        match self.defect {
            Some(fault) => Err(LogError { path: self.path, fault }),
            None => Ok(self),
        }
    }
}

fn read_whole(path: &Path) -> Result<Vec<u8>, LogFault> {
    let file = BoundedFile::open(path, MAX_BYTES).map_err(LogFault::Io)?;
    let (length, rows) = (file.length(), MOST_ROWS as u64);
    // Memory for the text, 4 bytes for each cell (a cell takes at least 2 bytes of text), and 16 bytes per
    // row.
    room::demand(3 * length + 16 * rows.min(length / 2)).map_err(LogFault::Room)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(LogFault::Io)?;
    Ok(bytes)
}

/// Offset of the first row of more than [`LONGEST_ROW`] bytes. A quotation mark at the start of a cell opens
/// a quoted cell: line ends up to the closing mark belong to it, as in the CSV reader.
fn long_row(text: &[u8]) -> Option<usize> {
    #[derive(PartialEq)]
    enum At {
        Beginning,
        Plain,
        Quoted,
        QuoteWithin,
    }
    let (mut at, mut begun) = (At::Beginning, 0);
    for (place, byte) in text.iter().enumerate() {
        at = match (at, byte) {
            (At::Quoted, b'"') => At::QuoteWithin,
            (At::Quoted, _) => At::Quoted,
            (At::Beginning | At::QuoteWithin, b'"') => At::Quoted,
            (_, b'\n' | b'\r') => {
                begun = place + 1;
                At::Beginning
            }
            (_, b',') => At::Beginning,
            _ => At::Plain,
        };
        if place - begun.min(place) >= LONGEST_ROW {
            return Some(begun);
        }
    }
    None
}

fn advance(reader: &mut csv::Reader<&[u8]>, record: &mut csv::ByteRecord) -> Result<bool, LogFault> {
    reader.read_byte_record(record).map_err(|error| LogFault::Io(io::Error::other(error)))
}

/// Converts ascending byte offsets to line numbers. The CSV reader's own count starts a record at the end of
/// the line before, which differs between LF and CRLF.
struct Lines<'t> {
    text: &'t [u8],
    at: usize,
    line: u64,
}

impl Lines<'_> {
    /// The line of the first byte at or after `offset` that is not a line end.
    fn of_record(&mut self, offset: u64) -> u64 {
        while let Some(byte) = self.text.get(self.at) {
            let ends_a_line =
                *byte == b'\n' || (*byte == b'\r' && self.text.get(self.at + 1) != Some(&b'\n'));
            if self.at as u64 >= offset && !matches!(byte, b'\r' | b'\n') {
                break;
            }
            self.line += u64::from(ends_a_line);
            self.at += 1;
        }
        self.line
    }
}

fn text_of(cell: &[u8]) -> String {
    String::from_utf8_lossy(cell).into_owned()
}

/// A column for a sensor of the board.
struct Column<'n> {
    channel: usize,
    sensor: &'n SensorPlan,
    heading: &'n str,
    at: usize,
}

/// The columns in the order of the board's sensors. `least` sensors need no column: the loop computes them.
fn sensor_columns<'n>(board: &'n Board, headings: &'n [String]) -> Result<Vec<Column<'n>>, LogFault> {
    let mut columns = Vec::new();
    for (channel, sensor) in board.sensors.iter().enumerate() {
        if let SensorKind::LogColumn { column } = &sensor.kind {
            let at = find(headings, column)?;
            columns.push(Column { channel, sensor, heading: &headings[at], at });
        } else if !matches!(sensor.kind, SensorKind::Computed(ComputedSensor::Least { .. })) {
            return Err(LogFault::NotLogged { sensor: sensor.name.clone() });
        }
    }
    Ok(columns)
}

fn find(headings: &[String], wanted: &str) -> Result<usize, LogFault> {
    let mut found = headings.iter().enumerate().filter(|(_, heading)| *heading == wanted);
    match (found.next(), found.next()) {
        (Some((column, _)), None) => Ok(column),
        (Some(_), Some(_)) => Err(LogFault::TwoColumns { heading: wanted.to_string() }),
        (None, _) => {
            let nearest = nearest(wanted, headings.iter().map(String::as_str));
            Err(LogFault::NoColumn { wanted: wanted.to_string(), nearest })
        }
    }
}

fn decision(board: &Board, column: &str, cell: &[u8], line: u64) -> Result<usize, LogFault> {
    let found = text_of(cell);
    let labels = || board.decisions.iter().map(|decision| decision.label.as_str());
    labels().position(|label| label == found).ok_or_else(|| {
        let nearest = nearest(&found, labels());
        LogFault::UnknownLabel { line, column: column.to_string(), found, nearest }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::sample::board;

    fn parse(text: &str) -> Result<Log, LogFault> {
        // Two columns `a` and `b` (0..2), `least` of both, decisions `go` and `stay`.
        Log::parse(Path::new("t.csv"), text.as_bytes(), &board(8), Some("what"))
    }

    fn error_text(text: &str) -> String {
        parse(text).expect_err("a fault").to_string()
    }

    #[test]
    fn columns_are_found_by_name_in_any_order_with_bom_and_crlf() {
        let log = parse("\u{FEFF}what,b,other,a\r\ngo, 0.5 ,x,1.5\r\n\r\nstay,1,y,2\r\n").unwrap();
        assert_eq!(log.rows(), 2);
        assert_eq!(log.readings(0).collect::<Vec<_>>(), [(0, Ok(1.5)), (1, Ok(0.5))]);
        assert_eq!(log.readings(1).collect::<Vec<_>>(), [(0, Ok(2.0)), (1, Ok(1.0))]);
        assert_eq!(log.labels(), [0, 1]);
        assert_eq!((log.line(0), log.line(1)), (2, 4));
        assert_eq!(log.defects(), 0);
        assert!(log.sound().is_ok());
    }

    #[test]
    fn a_bad_cell_is_a_faulty_reading_and_learning_rejects_it() {
        for (cell, says) in
            [("nan", "not a finite number"), ("", "found ``"), ("7", "the board allows 0 to 2")]
        {
            let log = parse(&format!("a,b,what\n1,1,go\n1,{cell},go\n")).unwrap();
            assert_eq!(log.readings(0).nth(1), Some((1, Ok(1.0))));
            // A number out of range is passed on: the loop validates it like any other reading.
            let expected = if cell == "7" { Ok(7.0) } else { Err(ReadingFault::NotFinite) };
            assert_eq!(log.readings(1).nth(1), Some((1, expected)));
            assert_eq!(log.defects(), 1);
            let error = log.sound().expect_err("a bad cell").to_string();
            assert!(error.starts_with("t.csv: line 3, column `b`: "), "{error}");
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn structural_faults_give_place_and_nearest_name() {
        assert_eq!(error_text(""), "line 1: empty; expected a header line");
        assert_eq!(error_text("a,b,what\n"), "line 2: no rows after the header line");
        assert_eq!(error_text("a,b,What\n1,1,go\n"), "line 1: no column `what`; did you mean `What`?");
        assert_eq!(error_text("x,b,what\n1,1,go\n"), "line 1: no column `a`");
        assert_eq!(error_text("a,b,a,what\n1,1,1,go\n"), "line 1: two columns `a`");
        assert_eq!(error_text("a,b,what\n1,1,go\n1,1\n"), "line 3: 2 cells; the header line has 3");
        let unknown =
            "line 2, column `what`: `stray` is not one of the board's decisions; did you mean `stay`?";
        assert_eq!(error_text("a,b,what\n1,1,stray\n"), unknown);
    }

    #[test]
    fn rows_are_limited_and_messages_quote_only_a_part() {
        let long = "x".repeat(LONGEST_ROW);
        assert_eq!(
            error_text(&format!("a,b,what\n1,1,go\n1,1,{long}\n")),
            "line 3: a row of more than 65536 bytes"
        );
        // An unclosed quotation mark swallows the following lines.
        let open = "y\n".repeat(LONGEST_ROW);
        assert_eq!(error_text(&format!("a,b,what\n1,1,\"{open}")), "line 2: a row of more than 65536 bytes");
        let within = "1,1,g\"o\n".repeat(LONGEST_ROW);
        assert!(
            error_text(&format!("a,b,what\n{within}")).contains("not one of the board's decisions"),
            "a quotation mark inside a cell is an ordinary character"
        );
        let label = error_text(&format!("a,b,what\n1,1,\x1b]0;owned\x07{}\n", "z".repeat(60_000)));
        assert!(label.len() < 200 && label.contains("\\x1b]0;owned\\x07zz"), "{label}");
        let heading = error_text(&format!("{},b,what\n", "q".repeat(60_000)));
        assert_eq!(heading, "line 1: no column `a`");
    }

    #[test]
    fn a_board_with_sensors_that_no_log_has_is_refused() {
        let mut board = board(8);
        board.sensors[1].kind = SensorKind::Computed(ComputedSensor::MotorEcho { motor: 0 });
        let read = |board: &Board, label| Log::parse(Path::new("t"), b"a,b\n1,1\n", board, label);
        assert!(matches!(read(&board, None), Err(LogFault::NotLogged { sensor }) if sensor == "b"));
        board.decisions.clear();
        assert!(matches!(read(&board, Some("what")), Err(LogFault::NoDecisions)));
    }

    #[test]
    fn without_a_label_column_there_are_no_labels() {
        let log = Log::parse(Path::new("t"), b"a,b\n1,1\n", &board(8), None).unwrap();
        assert_eq!(log.label(0), None);
        assert!(log.labels().is_empty());
    }
}
