//! `--svg` of `ganglion run`: follows a simulated run, and at its end draws the room from above, with the
//! path that the robot took and the places where reflexes tripped or the car touched something. It reads data
//! that the non-real-time thread has anyway; the tick does no extra work for it.

mod drawing;
mod marks;

use super::exit::Failure;
use super::output::{Replaced, may_replace};
use crate::base::driven_path::DrivenPath;
use crate::base::plan::{Board, BusPlan, Cause};
use crate::base::time::Instant;
use crate::drive::trace::Recorder;
use crate::field::navigate::goals::{Place, Route};
use crate::runtime::control::Room;
use crate::runtime::session::RunOutcome;
use crate::system::codec::replace;
use drawing::Scene;
use std::path::PathBuf;

/// Maximum number of trips that are drawn: more would cover the room. The legend has the true counts.
const MOST_TRIPS: usize = 1_000;

/// Minimum distance between two points of the path, metres: a fifth of a PiCar-X's length, so curves look
/// round.
const STEP_M: f64 = 0.05;
/// Maximum number of its points, which are about 70 kB of the picture. The newer half is the last 150 m.
const MOST_POINTS: usize = 6_000;

/// Facts about the run that a picture contains as text.
pub struct About {
    /// Seed of the world and its noise.
    pub seed: u64,
    /// Whether the run was in virtual time.
    pub is_virtual: bool,
    /// The places that the robot was sent to at the start.
    pub route: Option<Route>,
}

/// A reflex that tripped.
#[derive(Clone, Copy, Debug, PartialEq)]
struct TripMark {
    cause: Cause,
    at: [f64; 2],
    /// Time since the first slot.
    seconds: f64,
}

/// How often each cause became active, indexed by `Cause as usize`.
type Trips = [u64; Cause::ALL.len()];

/// The picture of a run in progress.
pub struct Picture {
    path: PathBuf,
    about: About,
    driven: DrivenPath,
    marks: Vec<TripMark>,
    trips: Trips,
    first: Option<Instant>,
}

impl Picture {
    /// Begins the picture of a run of `board`, which [`Picture::end`] writes to `path`. Refuses a real robot,
    /// because its true path is unknown, and a file that could not be written at the end.
    pub fn begin(path: PathBuf, board: &Board, about: About) -> Result<Picture, Failure> {
        if !matches!(board.bus, BusPlan::Sim) {
            let what =
                format!("--svg draws simulated runs; the true path of board '{}' is unknown", board.name);
            return Err(Failure::usage(what).fix(
                "add --simulate, or record the run with --record FILE.mcap and draw it with 'ganglion report'",
            ));
        }
        may_replace(&path, &PRODUCT)?;
        let (driven, marks) = (DrivenPath::new(STEP_M, MOST_POINTS), Vec::new());
        Ok(Picture { path, about, driven, marks, trips: Trips::default(), first: None })
    }

    /// Adds the present position, and a mark there for each trip that `recorder` has counted since the last
    /// call. Calls are at most about 20 ms apart in real time, and one slot apart in virtual time.
    pub fn follow(&mut self, recorder: &Recorder, room: Option<&Room>) {
        if let (Some(room), Some(last)) = (room, &recorder.summary().last) {
            let pose = room.pose();
            self.note(&recorder.summary().trips, [pose.x, pose.y], last.slot);
        }
    }

    fn note(&mut self, trips: &Trips, at: [f64; 2], slot: Instant) {
        let seconds = slot.since(*self.first.get_or_insert(slot)).as_secs_f64();
        self.driven.follow(at);
        for cause in Cause::ALL {
            let before = std::mem::replace(&mut self.trips[cause as usize], trips[cause as usize]);
            for _ in before..trips[cause as usize] {
                if self.marks.len() < MOST_TRIPS {
                    self.marks.push(TripMark { cause, at, seconds });
                }
            }
        }
    }

    /// Writes the picture of the run that has ended with `outcome`.
    pub fn end(mut self, board: &Board, outcome: &RunOutcome) -> Result<(), Failure> {
        let (Some(plant), Some(report)) = (outcome.plant(), &outcome.world) else {
            return Err(Failure::bug("a simulated run without a simulated world"));
        };
        let summary = outcome.ending.recorder.summary();
        if let Some(last) = &summary.last {
            self.note(&summary.trips, [report.pose.x, report.pose.y], last.slot);
        }
        let scene = Scene {
            board: &board.name,
            about: &self.about,
            world: &plant.world(),
            car: Room::of(plant, board).status(None),
            report,
            contacts: &plant.first_contacts(),
            seconds: outcome.ending.elapsed.as_secs_f64(),
            driven: &self.driven.whole(),
            marks: &self.marks,
            trips: &self.trips,
        };
        let text = drawing::svg(&scene);
        replace(&self.path, text.as_bytes()).map_err(|error| Failure::file(&self.path, &error))?;
        say!("  picture    {} ({:.0} kB)", self.path.display(), text.len() as f64 / 1e3);
        Ok(())
    }
}

/// The coordinates of the places of `route` in a room in which the robot started at `start`.
fn places(route: &Route, start: &crate::sim::Pose) -> Vec<Place> {
    route.places().iter().map(|[ahead, left]| start.point(*ahead, *left)).collect()
}

/// The kind of file that a picture is: an existing file of this kind may be overwritten.
const PRODUCT: Replaced =
    Replaced { begin: drawing::BEGIN, name: "a picture of a run", example: "--svg drive.svg" };

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::time::Span;

    fn picture() -> Picture {
        let board = crate::deploy::board::built_in("sim").unwrap().unwrap().board;
        let about = About { seed: 1, is_virtual: true, route: None };
        let path = std::env::temp_dir().join(format!("ganglion-picture-{}.svg", std::process::id()));
        Picture::begin(path, &board, about).unwrap()
    }

    #[test]
    fn every_trip_has_a_mark_where_it_was_counted() {
        let mut picture = picture();
        let (mut trips, start) = (Trips::default(), Instant::ZERO + Span::from_millis(10));
        picture.note(&trips, [0.0, 0.0], start);
        (trips[Cause::Obstacle as usize], trips[Cause::Cliff as usize]) = (2, 1);
        picture.note(&trips, [1.0, 0.5], start + Span::from_millis(1_500));
        picture.note(&trips, [2.0, 0.5], start + Span::from_millis(2_000));
        let mark = |cause| TripMark { cause, at: [1.0, 0.5], seconds: 1.5 };
        assert_eq!(picture.marks, [mark(Cause::Obstacle), mark(Cause::Obstacle), mark(Cause::Cliff)]);
        trips[Cause::Obstacle as usize] += 10_000;
        picture.note(&trips, [3.0, 0.5], start + Span::from_millis(3_000));
        assert_eq!((picture.marks.len(), picture.trips), (MOST_TRIPS, trips), "bounded, but all counted");
    }

    #[test]
    fn a_real_robot_has_no_picture() {
        let board = crate::deploy::board::built_in("picarx-v4").unwrap().unwrap().board;
        let about = About { seed: 1, is_virtual: false, route: None };
        let refused = Picture::begin("drive.svg".into(), &board, about).map(drop).unwrap_err();
        assert_eq!(refused.exit(), crate::cli::exit::Exit::Usage);
        assert!(refused.to_string().contains("--simulate"), "{refused}");
    }
}
