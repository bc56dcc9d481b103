//! A robot's log as the board sees it: CSV with a header line, one row per control period, columns found
//! by the names that the board gives its sensors.
//!
//! The reader refuses a log with wrong structure (columns, row lengths, labels). It keeps a cell
//! without an admissible value as such: the running loop treats it as a faulty reading, learning
//! refuses it. Nothing here knows the field.

use crate::base::fault::ReadingFault;
use crate::base::plan::{Board, ComputedSensor, SensorKind, SensorPlan};
use crate::system::intake::Intake;
use crate::system::outside::{nearest, quoted};
use crate::system::rt::room::{self, NoRoom};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Longest log, in bytes: a week of 24 columns at 10 Hz.
const MAX_BYTES: u64 = 1 << 30;
/// Longest row, in bytes: thousands of columns. It bounds what one read takes, whatever a quotation mark
/// begins.
const LONGEST_ROW: usize = 1 << 16;
/// Most rows: ten days at 20 Hz. A row takes memory whatever is in it.
const MOST_ROWS: usize = 1 << 24;

/// A log's columns in the board's terms.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    digest: [u8; 32],
    /// Channel of the frame, by column that the board wants.
    channels: Vec<u8>,
    /// By row, then as `channels`; NaN where the cell is no number.
    values: Vec<f32>,
    lines: Vec<u64>,
    /// Index of the board's decision, by row; empty without a label column.
    labels: Vec<usize>,
    defect: Option<LogFault>,
    defects: usize,
}

/// What is wrong with a log, and where.
#[derive(Debug)]
pub struct LogError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
    pub fault: LogFault,
}

/// What is wrong with a log. Lines count from 1, the heading included.
#[derive(Debug)]
pub enum LogFault {
    /// The system refused.
    Io(io::Error),
    /// It takes more memory than there is.
    Room(NoRoom),
    /// A row is longer than any of a robot.
    LongRow {
        /// Where it begins.
        line: u64,
    },
    /// More rows than allowed.
    ManyRows,
    /// Not even a heading.
    Empty,
    /// A heading and nothing else.
    NoRows,
    /// A column that the board or the command requests is not there.
    NoColumn {
        /// Its heading.
        wanted: String,
        /// The heading most like it.
        nearest: Option<String>,
    },
    /// Two columns of one requested name.
    TwoColumns {
        /// The heading.
        heading: String,
    },
    /// A row with more or fewer cells than the heading.
    Ragged {
        /// Where.
        line: u64,
        /// Cells of the heading.
        expected: usize,
        /// Cells of the row.
        found: usize,
    },
    /// A cell that is no finite number.
    NotANumber {
        /// Where.
        line: u64,
        /// Its heading.
        column: String,
        /// The value found.
        found: String,
    },
    /// A cell beyond what the board says the sensor can mean.
    OutOfRange {
        /// Where.
        line: u64,
        /// Its heading.
        column: String,
        /// The value found.
        found: String,
        /// What the board allows.
        valid: [f32; 2],
    },
    /// A label that is none of the board's decisions.
    UnknownLabel {
        /// Where.
        line: u64,
        /// Heading of the label column.
        column: String,
        /// The value found.
        found: String,
        /// The decision most like it.
        nearest: Option<String>,
    },
    /// The board wants a sensor that no log can give.
    NotLogged {
        /// Name of the sensor.
        sensor: String,
    },
    /// The board knows no decisions, so that a label means nothing to it.
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
    /// Reads the columns that `board` has sensors for, and with `label` the decisions in the column
    /// of that heading.
    pub fn read(path: &Path, board: &Board, label: Option<&str>) -> Result<Log, LogError> {
        let named = |fault| LogError { path: path.to_path_buf(), fault };
        let bytes = read_whole(path).map_err(named)?;
        Log::parse(path, &bytes, board, label).map_err(named)
    }

    /// The same from bytes; `path` only names them.
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

    /// Its file.
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
    /// Line of the file that holds a row, from 1.
    pub fn line(&self, row: usize) -> u64 {
        self.lines[row]
    }
    /// What the sensors said in `row`, as a bus would hand it over, each with its channel of the frame: a
    /// cell that is no finite number is a fault; whether a number may be believed is for the loop to say.
    pub fn readings(&self, row: usize) -> impl Iterator<Item = (u8, Result<f32, ReadingFault>)> {
        let cells = &self.values[row * self.channels.len()..][..self.channels.len()];
        let read = |value: f32| if value.is_finite() { Ok(value) } else { Err(ReadingFault::NotFinite) };
        self.channels.iter().zip(cells).map(move |(channel, value)| (*channel, read(*value)))
    }
    /// Index of the decision in `row` among the board's; `None` without a label column.
    pub fn label(&self, row: usize) -> Option<usize> {
        self.labels.get(row).copied()
    }
    /// The decisions of all rows; empty without a label column.
    pub fn labels(&self) -> &[usize] {
        &self.labels
    }
    /// Cells that are no admissible value of their sensor.
    pub fn defects(&self) -> usize {
        self.defects
    }
    /// The log if every cell is an admissible value, else its first bad one: learning wants to know
    /// what it learned from.
    pub fn sound(self) -> Result<Log, LogError> {
        match self.defect {
            Some(fault) => Err(LogError { path: self.path, fault }),
            None => Ok(self),
        }
    }
}

fn read_whole(path: &Path) -> Result<Vec<u8>, LogFault> {
    let file = Intake::open(path, MAX_BYTES).map_err(LogFault::Io)?;
    let (length, rows) = (file.length(), MOST_ROWS as u64);
    // Its text, a value for each cell of two bytes or more, and what is kept of each row besides.
    room::demand(3 * length + 16 * rows.min(length / 2)).map_err(LogFault::Room)?;
    let mut bytes = Vec::new();
    file.rest(&mut bytes).map_err(LogFault::Io)?;
    Ok(bytes)
}

/// Where the first row of more than [`LONGEST_ROW`] bytes begins. A quotation mark at the beginning of a cell
/// takes in the ends of lines up to the next one, as the reader of the rows has it.
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

/// Line numbers of byte offsets, ascending. The reader's own count begins a record at the end of the
/// line before, which differs between LF and CRLF.
struct Lines<'t> {
    text: &'t [u8],
    at: usize,
    line: u64,
}

impl Lines<'_> {
    /// The line of the first byte from `offset` on that does not end a line.
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

/// A column that the board has a sensor for.
struct Column<'n> {
    channel: usize,
    sensor: &'n SensorPlan,
    heading: &'n str,
    at: usize,
}

/// The columns in the order of the board's sensors. The loop computes the least of others.
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

    fn words(text: &str) -> String {
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
    fn a_bad_cell_is_a_faulty_reading_and_nothing_to_learn_from() {
        for (cell, says) in
            [("nan", "not a finite number"), ("", "found ``"), ("7", "the board allows 0 to 2")]
        {
            let log = parse(&format!("a,b,what\n1,1,go\n1,{cell},go\n")).unwrap();
            assert_eq!(log.readings(0).nth(1), Some((1, Ok(1.0))));
            // A number out of range is handed on: the loop validates it like any other reading.
            let expected = if cell == "7" { Ok(7.0) } else { Err(ReadingFault::NotFinite) };
            assert_eq!(log.readings(1).nth(1), Some((1, expected)));
            assert_eq!(log.defects(), 1);
            let error = log.sound().expect_err("a bad cell").to_string();
            assert!(error.starts_with("t.csv: line 3, column `b`: "), "{error}");
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn faults_of_structure_name_the_place_and_the_nearest_name() {
        assert_eq!(words(""), "line 1: empty; expected a header line");
        assert_eq!(words("a,b,what\n"), "line 2: no rows after the header line");
        assert_eq!(words("a,b,What\n1,1,go\n"), "line 1: no column `what`; did you mean `What`?");
        assert_eq!(words("x,b,what\n1,1,go\n"), "line 1: no column `a`");
        assert_eq!(words("a,b,a,what\n1,1,1,go\n"), "line 1: two columns `a`");
        assert_eq!(words("a,b,what\n1,1,go\n1,1\n"), "line 3: 2 cells; the header line has 3");
        let unknown =
            "line 2, column `what`: `stray` is not one of the board's decisions; did you mean `stay`?";
        assert_eq!(words("a,b,what\n1,1,stray\n"), unknown);
    }

    #[test]
    fn rows_are_bounded_and_messages_quote_no_more_than_a_glance() {
        let long = "x".repeat(LONGEST_ROW);
        assert_eq!(
            words(&format!("a,b,what\n1,1,go\n1,1,{long}\n")),
            "line 3: a row of more than 65536 bytes"
        );
        // A quotation mark that is not closed takes in line after line.
        let open = "y\n".repeat(LONGEST_ROW);
        assert_eq!(words(&format!("a,b,what\n1,1,\"{open}")), "line 2: a row of more than 65536 bytes");
        let within = "1,1,g\"o\n".repeat(LONGEST_ROW);
        assert!(
            words(&format!("a,b,what\n{within}")).contains("not one of the board's decisions"),
            "it is a letter there"
        );
        let label = words(&format!("a,b,what\n1,1,\x1b]0;owned\x07{}\n", "z".repeat(60_000)));
        assert!(label.len() < 200 && label.contains("\\x1b]0;owned\\x07zz"), "{label}");
        let heading = words(&format!("{},b,what\n", "q".repeat(60_000)));
        assert_eq!(heading, "line 1: no column `a`");
    }

    #[test]
    fn a_board_that_no_log_can_feed_is_refused() {
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
