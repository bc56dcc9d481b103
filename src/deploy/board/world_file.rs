//! World files: a hand-made world for the simulator, in TOML, checked like a board file.

use super::finding::{Finding, Problem};
use super::load::{list, read_text, told};
use super::raw;
use super::reader::Section;
use super::report::Report;
use crate::base::plan::{MoverPlan, SimPlan, WorldPlan};
use crate::sim::World;
use std::cell::RefCell;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// Coordinates in a world file, metres.
const METRES: RangeInclusive<f64> = 0.0..=100.0;
/// Maximum number of discs in a world; the same limit applies to boxes, walls, ledges and movers. Each adds
/// time to every ray or every step of the simulator.
const MOST: usize = 2_000;
/// Minimum distance, at the start, between the middle of the rear axle and any disc: half the width of a
/// small robot. Boxes and ledges are checked at that point only.
const START_FREE_M: f64 = 0.05;

/// Why a world could not be loaded.
#[derive(Debug)]
pub enum WorldError {
    /// The file cannot be read.
    Unreadable {
        /// Its path.
        path: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
    /// The file is not a valid world. There is at least one finding.
    Refused(Vec<Finding>),
}

impl fmt::Display for WorldError {
    /// One paragraph per error; with `{:#}` each shows its source line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WorldError::Unreadable { path, error } => write!(f, "{}: {error}", path.display()),
            WorldError::Refused(findings) => list(findings, f),
        }
    }
}

impl std::error::Error for WorldError {}

/// The world in the file at `path`.
pub fn world(path: &Path) -> Result<WorldPlan, WorldError> {
    let text = read_text(path).map_err(|error| WorldError::Unreadable { path: path.to_path_buf(), error })?;
    world_from_text(&path.display().to_string(), text)
}

/// The world in `text`; messages call it `file`.
pub fn world_from_text(file: &str, text: String) -> Result<WorldPlan, WorldError> {
    let mut report = Report::default();
    let source = report.sources.add(file, text);
    let table = match raw::parse(&report.sources, source) {
        Ok(table) => table,
        Err(errors) => {
            for (message, place) in errors {
                report.refuse("", Some(place), Problem::Syntax { message });
            }
            return Err(WorldError::Refused(told(report, file)));
        }
    };
    let shared = RefCell::new(report);
    let read = read(&Section::root(&shared, &table));
    let report = shared.into_inner();
    match read {
        Some(plan) if report.findings.is_empty() => Ok(plan),
        _ => Err(WorldError::Refused(told(report, file))),
    }
}

fn read(root: &Section<'_>) -> Option<WorldPlan> {
    let size = root.reals::<2>("size", 0.5..=100.0).required();
    let start = root.reals::<2>("start", METRES).required();
    let heading_deg = root.real("heading_deg", -360.0..=360.0).or(0.0);
    let goal = root.reals::<2>("goal", METRES).optional();
    let rows = |key: &str| root.rows::<4>(key, METRES).or(Vec::new());
    let plan = WorldPlan {
        size: size.unwrap_or([100.0; 2]),
        start: start.unwrap_or_default(),
        heading_deg,
        goal,
        discs: root.rows::<3>("discs", METRES).or(Vec::new()),
        boxes: rows("boxes"),
        walls: rows("walls"),
        ledges: rows("ledges"),
        line: root.rows::<2>("line", METRES).or(Vec::new()),
        movers: root.numbered("mover").iter().filter_map(mover).collect(),
    };
    size?;
    within(root, &plan);
    start?;
    if root.report().borrow().findings.is_empty() {
        free(root, &plan);
    }
    Some(plan)
}

fn mover(section: &Section<'_>) -> Option<MoverPlan> {
    let radius = section.real("radius", 0.01..=5.0).required();
    let speed = section.real("speed", 0.0..=5.0).required();
    let way = section.rows::<2>("way", METRES).required();
    if way.as_ref().is_some_and(Vec::is_empty) {
        section.misfit("way", "must have at least one point".to_string());
    }
    Some(MoverPlan { radius: radius?, speed: speed?, way: way? })
}

/// Checks that everything is in the room, and that there is not too much of it.
fn within(root: &Section<'_>, plan: &WorldPlan) {
    let [width, depth] = plan.size;
    let outside = |x: f64, y: f64| x > width || y > depth;
    let misfit = |key: &str, what: String| {
        root.misfit(key, format!("{what} is outside the room ({width} by {depth})"));
    };
    let single = [("start", Some(plan.start)), ("goal", plan.goal)];
    for (key, point) in single {
        if let Some([x, y]) = point.filter(|[x, y]| outside(*x, *y)) {
            misfit(key, format!("[{x}, {y}]"));
        }
    }
    for [x, y, radius] in &plan.discs {
        if outside(*x, *y) {
            misfit("discs", format!("[{x}, {y}, {radius}]"));
        }
        if !(0.005..=10.0).contains(radius) {
            root.misfit(
                "discs",
                format!("[{x}, {y}, {radius}]: found radius {radius}; allowed: 0.005 to 10"),
            );
        }
    }
    for (key, list) in [("boxes", &plan.boxes), ("walls", &plan.walls), ("ledges", &plan.ledges)] {
        for [x0, y0, x1, y1] in list {
            let row = format!("[{x0}, {y0}, {x1}, {y1}]");
            if outside(*x0, *y0) || outside(*x1, *y1) {
                misfit(key, row);
            } else if key != "walls" && (x0 >= x1 || y0 >= y1) {
                root.misfit(key, format!("{row}: must have x0 < x1 and y0 < y1"));
            } else if key == "walls" && x0 == x1 && y0 == y1 {
                root.misfit(key, format!("{row}: both ends are the same point"));
            }
        }
        too_many(root, key, list.len());
    }
    too_many(root, "discs", plan.discs.len());
    too_many(root, "mover", plan.movers.len());
    if let Some([x, y]) = plan.line.iter().find(|[x, y]| outside(*x, *y)) {
        misfit("line", format!("[{x}, {y}]"));
    }
    let points = plan.movers.iter().flat_map(|mover| &mover.way);
    if let Some([x, y]) = points.into_iter().find(|[x, y]| outside(*x, *y)) {
        misfit("mover", format!("its point [{x}, {y}]"));
    }
}

fn too_many(root: &Section<'_>, key: &str, found: usize) {
    if found > MOST {
        root.misfit(key, format!("found {found}; allowed: at most {MOST}"));
    }
}

/// Checks that the start is free: no disc, box or ledge overlaps it.
fn free(root: &Section<'_>, plan: &WorldPlan) {
    let world = World::new(&SimPlan { world: Some(plan.clone()), ..SimPlan::default() }, 0);
    let [x, y] = plan.start;
    let inside = |[x0, y0, x1, y1]: &[f64; 4]| (*x0..=*x1).contains(&x) && (*y0..=*y1).contains(&y);
    let near = |[at_x, at_y, radius]: &[f64; 3]| libm::hypot(at_x - x, at_y - y) < radius + START_FREE_M;
    if plan.boxes.iter().any(inside) || plan.discs.iter().any(near) || world.is_cliff(plan.start) {
        root.misfit("start", format!("[{x}, {y}] is not free: a disc, a box or a ledge is there"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: &str = "size = [4.0, 3.0]\nstart = [1.0, 1.0]\nheading_deg = 90.0\ngoal = [3.0, 2.0]\n\
                         discs = [[2.0, 2.0, 0.2]]\nboxes = [[3.0, 0.5, 3.5, 1.0]]\n\
                         walls = [[0.5, 2.5, 1.5, 2.0]]\nledges = [[3.5, 2.5, 4.0, 3.0]]\n\
                         line = [[0.5, 0.5], [2.0, 0.5]]\n\
                         [[mover]]\nradius = 0.2\nspeed = 0.3\nway = [[0.5, 1.5], [0.5, 2.5]]\n";

    #[test]
    fn a_world_file_becomes_a_world() {
        let plan = world_from_text("w.toml", SOUND.to_string()).unwrap();
        assert_eq!((plan.size, plan.start, plan.goal), ([4.0, 3.0], [1.0, 1.0], Some([3.0, 2.0])));
        assert_eq!((plan.discs.len(), plan.boxes.len(), plan.movers.len()), (1, 1, 1));
        let world = World::new(&SimPlan { world: Some(plan), ..SimPlan::default() }, 7);
        assert!((world.ray([2.0, 0.7], 0.0) - 1.0).abs() < 1e-12, "a box is seen");
        assert!((world.ray([1.0, 1.0], std::f64::consts::FRAC_PI_2) - 1.25).abs() < 1e-12, "a wall is seen");
        assert!((world.ray([1.0, 1.5], std::f64::consts::PI) - 0.3).abs() < 1e-12, "a mover is seen");
        assert!(world.is_cliff([3.8, 2.8]) && !world.is_cliff([3.0, 2.0]));
    }

    #[test]
    fn the_documented_world_is_valid() {
        let page = include_str!("../../../docs/commands.md");
        let block = page.split("```toml\n").find(|block| block.starts_with("size")).unwrap();
        let plan = world_from_text("w.toml", block.split("```").next().unwrap().to_string());
        assert_eq!(plan.unwrap().movers.len(), 1);
    }

    /// The findings about `SOUND` with `from` replaced by `to`.
    fn finding(from: &str, to: &str) -> String {
        assert!(SOUND.contains(from));
        match world_from_text("w.toml", SOUND.replace(from, to)) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("{to} was accepted"),
        }
    }

    #[test]
    fn mistakes_in_a_world_are_reported_with_their_place() {
        for (from, to, expected) in [
            ("[4.0, 3.0]", "[400.0, 3.0]", "w.toml:1:8: size: found 400.0; allowed: "),
            ("start = [1.0, 1.0]\n", "", "start: missing; expected: "),
            ("[3.0, 2.0]", "[5.0, 2.0]", "w.toml:4:8: goal: [5, 2] is outside the room (4 by 3)"),
            (
                "[2.0, 2.0, 0.2]",
                "[2.0, 2.0, 0.0]",
                "w.toml:5:9: discs: [2, 2, 0]: found radius 0; allowed: 0.005 to 10",
            ),
            (
                "[3.0, 0.5, 3.5, 1.0]",
                "[3.5, 0.5, 3.0, 1.0]",
                "w.toml:6:9: boxes: [3.5, 0.5, 3, 1]: must have x0 < x1",
            ),
            (
                "[3.5, 2.5, 4.0, 3.0]",
                "[3.5, 2.5, 4.0, 3.5]",
                "w.toml:8:10: ledges: [3.5, 2.5, 4, 3.5] is outside",
            ),
            ("start = [1.0, 1.0]", "start = [2.1, 2.0]", "w.toml:2:9: start: [2.1, 2] is not free"),
            ("walls =", "wals =", "w.toml:7:1: wals: unknown key; did you mean `walls`?"),
            ("speed = 0.3", "speed = 30.0", "mover.0.speed: found 30.0; allowed: "),
            ("size =", "size", "w.toml:1:"),
        ] {
            let found = finding(from, to);
            assert!(found.contains(expected), "{to}: {found}");
        }
    }
}
