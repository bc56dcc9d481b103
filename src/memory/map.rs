//! The robot's map of where it met things. Outside the tick, it receives a record of every slot (the command
//! and the sensor values), estimates where the robot is, remembers where it met the things that its board
//! names, and computes how similar the present place is to those places. That similarity is one more sensor,
//! and so an input of the field.
//!
//! A thing is met when its sensor falls below a threshold. It is met again only after the sensor has clearly
//! risen above the threshold (`CLEAR`), and only at a place at least `APART_M` from the last meeting.
//! `worker` runs the map on its own thread; no other thread waits for it.

mod worker;

pub use worker::{Feed, MapWorker, Recollection, feed};

use super::dim::Dim;
use super::episodic::Episodes;
use super::fault::Fault;
use super::nearest::Best;
use super::spatial::{Area, DecodedPlace, Decoder, Plane, Waves};
use crate::base::command::MAX_MOTORS;
use crate::base::frame::Sample;
use crate::base::time::Instant;
use crate::decision::motion::{MotionModel, Odometer, OdometryPose};
use crate::field::snapshot::{Places, PlacesThing};
use crate::field::state::StateError;
use serde::{Deserialize, Serialize};

/// Numbers in a vector: enough for eight meetings per page.
const NUMBERS: usize = 512;
/// Places this far apart have dissimilar vectors. It is about twice the length of a small car, and the
/// distance at which the field begins to sense a thing ahead.
const SCALE_M: f64 = 0.5;
/// Half the side of the recorded square around the start: enough for a room. Meetings outside are counted,
/// not kept.
const REACH_M: f64 = 5.0;
/// Pages of eight meetings each; older meetings are forgotten.
const PAGES: usize = 16;
/// A thing that is met again within this distance counts as the same meeting.
const APART_M: f64 = 0.5;
/// A sensor has cleared its threshold once its value is at least this multiple of the threshold: noise must
/// not count as new meetings.
const CLEAR: f32 = 1.2;
/// Seed of the vectors of things and waves: fixed, so that a board has the same map in every run.
const SEED: u64 = 0x6d61_7073;
/// Memory limit, bytes: for the decoder's grid, which takes 3.4 MB, and again for things and pages.
const LIMIT: usize = 64 << 20;
/// Maximum number of things of a board.
pub const MOST_THINGS: usize = 16;

/// Something whose places the robot remembers, as the board file states.
#[derive(Clone, Debug, PartialEq)]
pub struct Thing {
    /// Its name in the board file.
    pub name: String,
    /// Channel on which the map reports how similar the present place is to where the thing was.
    pub channel: u8,
    /// Channel of the sensor that detects it.
    pub by: usize,
    /// The thing is met when the sensor's value falls below this.
    pub below: f32,
    /// How far ahead of the rear axle the thing is at that moment, metres.
    pub ahead_m: f64,
    /// Whether the sensor's value is in metres and is added to `ahead_m`.
    pub in_metres: bool,
}

/// One slot as the map sees it.
#[derive(Clone, Copy, Debug)]
pub struct Scene {
    /// The slot.
    pub slot: Instant,
    /// The command.
    pub motors: [f32; MAX_MOTORS],
    /// The measured rate of turn ([`MotionModel::measured_turn`]).
    pub turn: Option<f64>,
    /// The value of each thing's sensor, if it can be trusted.
    pub values: [Option<f32>; MOST_THINGS],
}

impl Scene {
    /// The scene of a slot of a robot that moves like `motion`; `by`: the channel of each thing's sensor.
    pub fn of(
        slot: Instant,
        motors: &[f32; MAX_MOTORS],
        samples: &[Sample],
        motion: &MotionModel,
        by: &[usize],
    ) -> Scene {
        let mut values = [None; MOST_THINGS];
        for (value, channel) in values.iter_mut().zip(by) {
            *value = samples.get(*channel).and_then(Sample::good);
        }
        Scene { slot, motors: *motors, turn: motion.measured_turn(samples), values }
    }
}

/// A thing, and how often and where it was met.
#[derive(Debug)]
struct Known {
    thing: Thing,
    met: u64,
    /// The sensor fell below the threshold and has not cleared it since.
    here: bool,
    last: Option<[f64; 2]>,
}

/// The map.
#[derive(Debug)]
pub struct Map {
    odometer: Odometer,
    episodes: Episodes,
    known: Vec<Known>,
    beyond: u64,
}

/// A summary of a map, for users and programs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MapStatus {
    /// The source of its positions: `computed`, from the robot's commands.
    #[serde(default)]
    pub source: String,
    /// Where the robot thinks it is, metres from where it started.
    pub at: [f64; 2],
    /// Degrees from x towards y (to the left).
    pub heading_deg: f64,
    /// Meetings that are kept.
    pub meetings: usize,
    /// Meetings that were forgotten to make room for newer ones.
    pub forgotten: u64,
    /// Meetings too far away to be kept.
    pub beyond: u64,
    /// Slots that the map missed, because its queue was full.
    pub dropped: u64,
    /// Each thing of the board.
    pub things: Vec<ThingStatus>,
    /// The place to which `near` refers.
    pub asked: [f64; 2],
    /// Things that were met near that place, the most certain first.
    pub near: Vec<NearbyThing>,
}

/// A thing on the map.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ThingStatus {
    /// Its name in the board file.
    pub name: String,
    /// How often the thing was met.
    pub met: u64,
    /// Where the thing was, if the map is certain enough.
    pub was_at: Option<[f64; 2]>,
    /// Cosine similarity of that place; 0 without a place.
    pub likeness: f64,
}

/// A thing near a place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NearbyThing {
    /// Its name in the board file.
    pub name: String,
    /// Cosine similarity: falls with the distance.
    pub likeness: f64,
}

impl Map {
    /// An empty map; allocates all its memory.
    pub fn new(motion: MotionModel, things: Vec<Thing>) -> Result<Map, Fault> {
        if !(1..=MOST_THINGS).contains(&things.len()) {
            return Err(Fault::Range { what: "things", found: things.len(), least: 1, most: MOST_THINGS });
        }
        let plane = Plane::new(Dim::new(NUMBERS)?, Waves::Hexagonal, SCALE_M, SEED)?;
        let decoder = Decoder::new(plane, Area { from: [-REACH_M; 2], to: [REACH_M; 2] }, LIMIT)?;
        let episodes = Episodes::new(decoder, things.len(), PAGES, SEED, LIMIT)?;
        let known = |thing| Known { thing, met: 0, here: false, last: None };
        let known = things.into_iter().map(known).collect();
        Ok(Map { odometer: Odometer::new(motion), episodes, known, beyond: 0 })
    }

    /// The things, in order.
    pub fn things(&self) -> impl Iterator<Item = &Thing> {
        self.known.iter().map(|known| &known.thing)
    }

    /// How commands move the robot.
    pub fn motion(&self) -> &MotionModel {
        self.odometer.motion()
    }

    /// Where the robot thinks it is.
    pub fn pose(&self) -> OdometryPose {
        self.odometer.pose()
    }

    /// How often a thing was met, and where last.
    pub fn met(&self, thing: usize) -> Option<(u64, Option<[f64; 2]>)> {
        self.known.get(thing).map(|known| (known.met, known.last))
    }

    /// Processes a slot.
    pub fn take(&mut self, scene: &Scene) -> Result<(), Fault> {
        self.odometer.advance(scene.slot, &scene.motors, scene.turn);
        let here = self.odometer.pose();
        for (number, (known, value)) in self.known.iter_mut().zip(scene.values).enumerate() {
            let Some(value) = value else { continue };
            let Thing { below, ahead_m, in_metres, .. } = known.thing;
            known.here &= value < below * CLEAR;
            if known.here || value >= below {
                continue;
            }
            known.here = true;
            let ahead = ahead_m + if in_metres { f64::from(value) } else { 0.0 };
            let place = here.place(ahead, 0.0);
            let same = |last: [f64; 2]| libm::hypot(place[0] - last[0], place[1] - last[1]) < APART_M;
            if known.last.is_some_and(same) {
                continue;
            }
            if place.iter().any(|x| x.abs() > REACH_M) {
                self.beyond += 1;
                continue;
            }
            self.episodes.observe(number, place)?;
            (known.met, known.last) = (known.met + 1, Some(place));
        }
        Ok(())
    }

    /// Copies everything that the map has recorded into `places`, whose allocations are reused.
    pub fn save(&self, places: &mut Places) {
        let OdometryPose { at, heading } = self.odometer.pose();
        (places.at, places.heading) = (at, heading);
        self.episodes.save(&mut places.pages);
        (places.open, places.forgotten) = (self.episodes.open_page() as u32, self.episodes.forgotten());
        places.beyond = self.beyond;
        places.things.resize_with(self.known.len(), PlacesThing::default);
        for (copy, known) in places.things.iter_mut().zip(&self.known) {
            copy.name.clone_from(&known.thing.name);
            (copy.met, copy.here, copy.last) = (known.met, known.here, known.last);
        }
    }

    /// Resumes from a copy of a map of the same things; assumes that the robot is where it was when the copy
    /// was made. A copy that does not fit changes nothing.
    pub fn restore(&mut self, places: &Places) -> Result<(), StateError> {
        let (found, wanted) = (places.things.len(), self.known.len());
        if found != wanted {
            return Err(StateError::Count { field: "things of the map", found, wanted });
        }
        self.episodes.restore(&places.pages, places.open as usize, places.forgotten)?;
        for (known, copy) in self.known.iter_mut().zip(&places.things) {
            (known.met, known.here, known.last) = (copy.met, copy.here, copy.last);
        }
        self.beyond = places.beyond;
        self.odometer.put(OdometryPose { at: places.at, heading: places.heading });
        Ok(())
    }

    /// How similar the robot's place is to the places where a thing was met, 0..=1.
    pub fn likeness_here(&mut self, thing: usize) -> Result<f32, Fault> {
        let at = self.odometer.pose().at;
        self.episodes.likeness(thing, at)
    }

    /// Where a thing was met, if the map is certain enough.
    pub fn where_was(&mut self, thing: usize) -> Result<Option<DecodedPlace>, Fault> {
        self.episodes.where_was(thing)
    }

    /// The things that were met near a place, the most certain first.
    pub fn what_is_near(&mut self, place: [f64; 2], best: &mut Best) -> Result<(), Fault> {
        self.episodes.what_is_near(place, best)
    }

    /// A summary of the map, with the things near `place`, or near the robot if `None`.
    pub fn status(&mut self, place: Option<[f64; 2]>) -> Result<MapStatus, Fault> {
        let OdometryPose { at, heading } = self.odometer.pose();
        let mut things = Vec::new();
        for number in 0..self.known.len() {
            let found = self.episodes.where_was(number)?;
            let Known { thing, met, .. } = &self.known[number];
            things.push(ThingStatus {
                name: thing.name.clone(),
                met: *met,
                was_at: found.map(|place| place.at),
                likeness: found.map_or(0.0, |place| place.likeness),
            });
        }
        let asked = place.unwrap_or(at);
        let mut best = Best::of(MOST_THINGS);
        self.episodes.what_is_near(asked, &mut best)?;
        let near = best.list().iter().map(|found| NearbyThing {
            name: self.known[found.row as usize].thing.name.clone(),
            likeness: f64::from(found.cosine),
        });
        Ok(MapStatus {
            source: "computed".to_string(),
            at,
            heading_deg: heading.to_degrees(),
            meetings: self.episodes.meetings(),
            forgotten: self.episodes.forgotten(),
            beyond: self.beyond,
            dropped: 0,
            near: near.collect(),
            things,
            asked,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::time::Span;

    fn map() -> Map {
        let motion = MotionModel {
            full_speed: 1.0,
            wheelbase: 0.1,
            lag_s: 0.0,
            drives: vec![0],
            steering: None,
            wheels: None,
            turning: None,
        };
        let thing = |name: &str, by| Thing {
            name: name.into(),
            channel: 9,
            by,
            below: 0.5,
            ahead_m: 0.1,
            in_metres: by == 0,
        };
        Map::new(motion, vec![thing("wall", 0), thing("ramp", 1)]).expect("a map")
    }

    /// Drives one metre forward, in steps of a hundredth, from slot `from` on; `values` returns the sensor
    /// values at each step.
    fn a_metre(map: &mut Map, from: u64, values: impl Fn(u64) -> [Option<f32>; 2]) {
        for step in 0..100 {
            let mut scene = Scene {
                slot: Instant::ZERO + Span::from_millis(10 * (from + step)),
                motors: [1.0; MAX_MOTORS],
                turn: None,
                values: [None; MOST_THINGS],
            };
            scene.values[..2].copy_from_slice(&values(step));
            map.take(&scene).expect("within reach");
        }
    }

    #[test]
    fn the_map_turns_as_the_gyroscope_measures() {
        let mut map = map();
        let mut take = |from: u64, slots: u64, drive: f32, turn: f64| {
            for slot in from..from + slots {
                let slot = Instant::ZERO + Span::from_millis(10 * slot);
                let (motors, values) = ([drive; MAX_MOTORS], [None; MOST_THINGS]);
                map.take(&Scene { slot, motors, turn: Some(turn), values }).expect("no thing is met");
            }
            map.pose().heading
        };
        assert!(take(0, 100, 0.0, 0.1).abs() < 1e-9, "it stands: this is the zero error");
        assert!((take(100, 100, 1.0, 0.6) - 0.5).abs() < 1e-6);
    }

    #[test]
    fn thing_is_observed_once_despite_noise_and_found_again() {
        let mut map = map();
        // Noise around the threshold from 0.4 m on, with some samples that cannot be trusted.
        a_metre(&mut map, 0, |step| match step {
            0..40 => [Some(0.9), Some(1.0)],
            _ => [[Some(0.49), Some(0.55), None][step as usize % 3], Some(1.0)],
        });
        assert_eq!(map.met(0).map(|(times, _)| times), Some(1));
        assert_eq!(map.met(1), Some((0, None)));
        let wall = map.where_was(0).expect("known").expect("believed");
        let expected = [0.39 + 0.1 + 0.49, 0.0];
        let off = (wall.at[0] - expected[0]).hypot(wall.at[1] - expected[1]);
        assert!(off < 0.03 * SCALE_M + 0.03, "{:?}", wall);
        assert_eq!(map.where_was(1).expect("known"), None);
        // The robot's place (1 m) is near where the wall was.
        assert!(map.likeness_here(0).expect("known") > 0.5);
        assert!(map.likeness_here(1).expect("known") < 0.1);
        let status = map.status(Some([-2.0, 2.0])).expect("a status");
        assert_eq!((status.meetings, status.near.len()), (1, 0));
        assert_eq!(map.status(Some(expected)).expect("a status").near[0].name, "wall");
    }

    #[test]
    fn out_of_reach_is_counted_and_far_apart_is_observed_again() {
        let mut map = map();
        let ramp = |step: u64| [None, Some(if (10..20).contains(&step) { 0.0 } else { 1.0 })];
        for metre in 0..8 {
            a_metre(&mut map, 100 * metre, ramp);
        }
        let (times, last) = map.met(1).expect("known");
        assert_eq!((times, map.beyond), (5, 3), "one metre apart, with a reach of five metres");
        assert!(last.is_some_and(|[x, _]| x < REACH_M));
        assert!(Map::new(map.odometer.motion().clone(), Vec::new()).is_err());
    }
}
