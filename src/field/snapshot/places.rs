//! The robot's map in a snapshot, as plain numbers. `memory::map` fills them in and resumes from them; this
//! file checks their ranges, and lists the things of a board for which they were recorded.

use crate::base::plan::{Board, ComputedSensor, SensorKind};
use crate::field::state::StateError;
use serde::{Deserialize, Serialize};

/// Largest valid distance from the start, metres, and largest valid heading, radians: more than any robot
/// drives or turns, and small enough for f64 to resolve a millimetre.
const FARTHEST: f64 = 1e6;
/// Allowance for rounding in the sums on a page.
const ROUNDING: f32 = 1e-3;

/// A map.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Places {
    /// Where the robot was, metres from where it first started, and its heading in radians.
    pub at: [f64; 2],
    /// See `at`.
    pub heading: f64,
    /// The pages of its memory.
    pub pages: Vec<PlacesPage>,
    /// The page that is written to.
    pub open: u32,
    /// Meetings that were dropped to make room for newer ones.
    pub forgotten: u64,
    /// Meetings too far away to be kept.
    pub beyond: u64,
    /// The things of the board, in its order.
    pub things: Vec<PlacesThing>,
}

/// A page: meetings superposed in one vector.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlacesPage {
    /// The number of meetings.
    pub meetings: u32,
    /// The sum of their vectors.
    pub trace: Vec<f32>,
}

/// A thing on the map.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlacesThing {
    /// Its name on the board.
    pub name: String,
    /// How often it was met.
    pub met: u64,
    /// Whether its sensor has not cleared the threshold since the last meeting.
    pub here: bool,
    /// Where it was met last, metres.
    pub last: Option<[f64; 2]>,
}

impl Places {
    /// Whether a map could have these numbers. The map itself checks the number and the length of its pages.
    pub(super) fn check(&self) -> Result<(), StateError> {
        let place = |field, at: &[f64]| match at.iter().position(|x| x.is_nan() || x.abs() > FARTHEST) {
            Some(nth) => {
                let wanted = "a finite number up to 1000000";
                Err(StateError::Value { field, at: nth, found: at[nth], wanted })
            }
            None => Ok(()),
        };
        place("map position", &self.at)?;
        place("map heading", &[self.heading])?;
        self.things.iter().flat_map(|thing| &thing.last).try_for_each(|last| place("map meeting", last))?;
        if self.open as usize >= self.pages.len() {
            let (found, most) = (self.open as usize + 1, self.pages.len());
            return Err(StateError::TooMany { field: "map pages", found, most });
        }
        for page in &self.pages {
            // Each meeting adds a vector of length 1.
            let most = page.meetings as f32 + ROUNDING;
            if let Some(at) = page.trace.iter().position(|x| x.is_nan() || x.abs() > most) {
                let (field, found) = ("map trace", page.trace[at].into());
                let wanted = "at most the number of meetings on its page";
                return Err(StateError::Value { field, at, found, wanted });
            }
        }
        Ok(())
    }

    /// The things for which it was made, as text.
    pub(super) fn made_for(&self) -> String {
        listed(self.things.iter().map(|thing| thing.name.as_str()))
    }
}

/// The things that `board` wants the robot to remember, as text; `None`: it has no map.
pub(super) fn remembered(board: &Board) -> Option<String> {
    let recalls = board
        .sensors
        .iter()
        .filter(|sensor| matches!(sensor.kind, SensorKind::Computed(ComputedSensor::Recall { .. })));
    Some(listed(recalls.map(|sensor| sensor.name.as_str()))).filter(|names| !names.is_empty())
}

fn listed<'n>(names: impl Iterator<Item = &'n str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_no_map_can_have_are_refused() {
        let page = PlacesPage { meetings: 2, trace: vec![0.5, -2.0] };
        let thing = PlacesThing { name: "wall".into(), met: 2, here: false, last: Some([1.0, -1.0]) };
        let good = Places { pages: vec![page], things: vec![thing], ..Places::default() };
        assert_eq!(good.check(), Ok(()));
        type Spoil = fn(&mut Places);
        let spoils: [Spoil; 7] = [
            |places| places.at[1] = f64::NAN,
            |places| places.heading = f64::INFINITY,
            |places| places.things[0].last = Some([0.0, 1e7]),
            |places| places.open = 1,
            |places| places.pages.clear(),
            |places| places.pages[0].trace[1] = -2.1,
            |places| places.pages[0].trace[0] = f32::NAN,
        ];
        for (nth, spoil) in spoils.into_iter().enumerate() {
            let mut bad = good.clone();
            spoil(&mut bad);
            assert!(bad.check().is_err(), "{nth}: {bad:?}");
        }
    }
}
