//! The worlds of the BARN course (Perille, Truong, Xiao, Stone: "Benchmarking Metric Ground Navigation", SSRR
//! 2020): discs of one size, a start, and a goal beyond the discs.
//!
//! A folder has `discs.csv` (`world,x_m,y_m`) and `worlds.csv` (`world,discs,shortest_path_m`).

use crate::base::plan::WorldPlan;
use crate::base::time::Span;
use crate::system::bounded_read;
use std::fmt;
use std::path::{Path, PathBuf};

/// Radius of every disc, metres.
const DISC_RADIUS_M: f64 = 0.075;
/// Where a robot starts, in the course's coordinates, metres.
const START: [f64; 2] = [-2.25, 3.0];
/// Where it has to go, in the course's coordinates, metres.
const GOAL: [f64; 2] = [-2.25, 13.0];
/// The robot starts facing along y.
const HEADING_DEG: f64 = 90.0;
/// Size of the simulated room around the course, metres. The course lies between x = -4.5 and 0, y = 0 and
/// 10, and its own walls are made of discs; the room's walls are clear of it.
const ROOM: [f64; 2] = [12.0, 20.0];
/// The course's origin in the room, metres.
const ORIGIN: [f64; 2] = [8.25, 3.0];
/// Longest file: the published 300 worlds take 1.3 MB.
const LONGEST: u64 = 16 << 20;

/// One world.
#[derive(Clone, Debug, PartialEq)]
pub struct Course {
    /// Its number in the benchmark.
    pub number: u32,
    /// Its contents.
    pub plan: WorldPlan,
    /// Length of the shortest path, metres.
    pub path_m: f64,
    /// When a run in this world ends.
    pub rules: Rules,
}

/// When a run ends if nothing is touched before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// The goal counts as reached within this distance, metres.
    pub near_m: f64,
    /// The time limit of the run.
    pub limit: Span,
}

/// The benchmark's rules.
pub const BARN_RULES: Rules = Rules { near_m: 1.0, limit: Span::from_millis(100_000) };

/// Why the worlds cannot be loaded.
#[derive(Debug)]
pub enum CourseError {
    /// A file cannot be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
    /// A line of a file is invalid.
    Line {
        /// The file.
        file: String,
        /// The number of the line, from 1.
        line: u64,
        /// What is wrong, and what is expected.
        why: String,
    },
}

impl fmt::Display for CourseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CourseError::Unreadable { path, error } => write!(f, "{}: {error}", path.display()),
            CourseError::Line { file, line, why } => write!(f, "{file}:{line}: {why}"),
        }
    }
}

impl std::error::Error for CourseError {}

/// The worlds in `folder`, in the order of `worlds.csv`.
pub fn load(folder: &Path) -> Result<Vec<Course>, CourseError> {
    let read = |name: &str| {
        let path = folder.join(name);
        match bounded_read::text(&path, LONGEST) {
            Ok(text) => Ok((path.display().to_string(), text)),
            Err(error) => Err(CourseError::Unreadable { path, error }),
        }
    };
    let ((worlds_file, worlds), (discs_file, discs)) = (read("worlds.csv")?, read("discs.csv")?);
    parse([&worlds_file, &worlds], [&discs_file, &discs])
}

/// The ten worlds that are built into the program.
pub fn built_in() -> Result<Vec<Course>, CourseError> {
    let worlds = include_str!("../../../tests/data/barn/worlds.csv");
    let discs = include_str!("../../../tests/data/barn/discs.csv");
    parse(["built-in/worlds.csv", worlds], ["built-in/discs.csv", discs])
}

/// Reads both files, each given as its name and its text.
fn parse(worlds: [&str; 2], discs: [&str; 2]) -> Result<Vec<Course>, CourseError> {
    let mut courses: Vec<Course> = Vec::new();
    let rows = rows(worlds, ["world", "discs", "shortest_path_m"], [0.0..=1e6, 0.0..=1e5, 0.1..=1e3])?;
    let mut counts = Vec::new();
    for (line, [number, count, path_m]) in rows {
        if courses.iter().any(|course| f64::from(course.number) == number) {
            return Err(wrong(worlds[0], line, format!("world {number} is listed twice")));
        }
        courses.push(Course { number: number as u32, plan: empty(), path_m, rules: BARN_RULES });
        counts.push((line, count as usize));
    }
    for (line, [number, x, y]) in
        self::rows(discs, ["world", "x_m", "y_m"], [0.0..=1e6, -4.5..=0.0, 0.0..=16.0])?
    {
        let of_it = |course: &&mut Course| f64::from(course.number) == number;
        let Some(course) = courses.iter_mut().find(of_it) else {
            return Err(wrong(discs[0], line, format!("world {number} is not in {}", worlds[0])));
        };
        course.plan.discs.push([x + ORIGIN[0], y + ORIGIN[1], DISC_RADIUS_M]);
    }
    for (course, (line, count)) in courses.iter().zip(counts) {
        let found = course.plan.discs.len();
        if found != count {
            let why = format!("world {} should have {count} discs; {} has {found}", course.number, discs[0]);
            return Err(wrong(worlds[0], line, why));
        }
    }
    Ok(courses)
}

/// The room without discs.
pub fn empty() -> WorldPlan {
    let moved = |[x, y]: [f64; 2]| [x + ORIGIN[0], y + ORIGIN[1]];
    WorldPlan {
        size: ROOM,
        start: moved(START),
        heading_deg: HEADING_DEG,
        goal: Some(moved(GOAL)),
        ..WorldPlan::default()
    }
}

fn wrong(file: &str, line: u64, why: String) -> CourseError {
    CourseError::Line { file: file.to_string(), line, why }
}

/// The rows of a file, each with its line number. The columns must be these, the values in these ranges.
fn rows(
    [file, text]: [&str; 2],
    columns: [&str; 3],
    ranges: [std::ops::RangeInclusive<f64>; 3],
) -> Result<Vec<(u64, [f64; 3])>, CourseError> {
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text.as_bytes());
    let of_csv = |error: csv::Error| {
        wrong(file, error.position().map_or(1, csv::Position::line), format!("not CSV: {error}"))
    };
    if reader.headers().map_err(of_csv)?.iter().ne(columns) {
        return Err(wrong(file, 1, format!("the columns must be {}", columns.join(","))));
    }
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(of_csv)?;
        let line = record.position().map_or(0, csv::Position::line);
        if record.len() != columns.len() {
            return Err(wrong(
                file,
                line,
                format!("found {} values; expected {}", record.len(), columns.len()),
            ));
        }
        let mut row = [0.0; 3];
        for (at, value) in row.iter_mut().enumerate() {
            let range = &ranges[at];
            let found = record[at].trim().parse().ok().filter(|found| range.contains(found));
            *value = found.ok_or_else(|| {
                let (name, low, high) = (columns[at], range.start(), range.end());
                wrong(file, line, format!("{name}: found '{}'; allowed: {low} to {high}", &record[at]))
            })?;
        }
        rows.push((line, row));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORLDS: &str = "world,discs,shortest_path_m\n3,2,11.5\n";
    const DISCS: &str = "world,x_m,y_m\n3,-1.0,5.0\n3,-2.0,6.0\n";

    #[test]
    fn a_course_has_its_discs_start_and_goal() {
        let courses = parse(["worlds.csv", WORLDS], ["discs.csv", DISCS]).unwrap();
        assert_eq!((courses.len(), courses[0].number, courses[0].path_m), (1, 3, 11.5));
        let plan = &courses[0].plan;
        assert_eq!(plan.discs, [[7.25, 8.0, 0.075], [6.25, 9.0, 0.075]]);
        assert_eq!((plan.start, plan.goal, plan.heading_deg), ([6.0, 6.0], Some([6.0, 16.0]), 90.0));
    }

    #[test]
    fn mistakes_are_reported_with_file_and_line() {
        for (worlds, discs, expected) in [
            ("world,discs\n", DISCS, "worlds.csv:1: the columns must be world,discs,shortest_path_m"),
            (
                "world,discs,shortest_path_m\n3,2,0\n",
                DISCS,
                "worlds.csv:2: shortest_path_m: found '0'; allowed: 0.1 to",
            ),
            ("world,discs,shortest_path_m\n3,2,9\n3,2,9\n", DISCS, "worlds.csv:3: world 3 is listed twice"),
            (
                "world,discs,shortest_path_m\n3,1,9\n",
                DISCS,
                "worlds.csv:2: world 3 should have 1 discs; discs.csv has 2",
            ),
            (WORLDS, "world,x_m,y_m\n3,-1,5\n4,-1,5\n", "discs.csv:3: world 4 is not in worlds.csv"),
            (WORLDS, "world,x_m,y_m\n3,7,5\n", "discs.csv:2: x_m: found '7'; allowed: -4.5 to 0"),
            (WORLDS, "world,x_m,y_m\n3,nan,5\n", "discs.csv:2: x_m: found 'nan'"),
            (WORLDS, "world,x_m,y_m\n3,-1\n", "discs.csv:2: found 2 values; expected 3"),
        ] {
            let found = parse(["worlds.csv", worlds], ["discs.csv", discs]).unwrap_err().to_string();
            assert!(found.starts_with(expected), "{found}");
        }
    }

    #[test]
    fn ten_worlds_are_built_in() {
        let courses = built_in().unwrap();
        assert_eq!(courses.len(), 10);
        assert!(courses.iter().all(|course| course.plan.discs.len() > 100 && course.path_m > 5.0));
    }
}
