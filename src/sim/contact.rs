//! What the car has run into, or where it has fallen: counts, and the first contacts of a run one by one.

use super::world::{Obstacle, Pose};
use crate::base::time::Span;
use std::fmt;

/// The most contacts that are kept one by one: a car that touches more of them has more trouble than a list
/// can show.
pub const MOST_CONTACTS: usize = 100;

/// Contacts of the car so far. Each entry into a contact counts once, not each step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contacts {
    /// With a wall.
    pub walls: u64,
    /// With a disc.
    pub discs: u64,
    /// A wheel left the floor.
    pub falls: u64,
    /// Contacts with walls and discs in the sonar's view, while driving forwards. The other contacts were
    /// with a side of the car or while driving backwards; the car has no sensor there.
    pub head_on: u64,
    /// Falls of a front wheel while driving forwards, after a ground sensor was over the edge and the car had
    /// stopped there but had not backed away: the software has forgotten the edge. The other falls happen
    /// where no sensor looked in time: while driving backwards, with a rear wheel, on the inside of a bend,
    /// or over a corner between two readings.
    pub falls_after_stop: u64,
    /// Contacts of all kinds while it drove backwards.
    pub backwards: u64,
}

impl Contacts {
    /// Contacts of all kinds, including falls.
    pub fn all(&self) -> u64 {
        self.walls + self.discs + self.falls
    }
}

/// One contact.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contact {
    /// Time since the start of the simulation.
    pub after: Span,
    /// What the car ran into; `None`: nothing, a wheel left the floor.
    pub with: Option<Obstacle>,
    /// Where the car was.
    pub pose: Pose,
    /// Whether it drove backwards.
    pub backwards: bool,
}

/// What and when, as in `wall after 3.20 s, backwards`.
impl fmt::Display for Contact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (with, way) =
            (self.with.map_or("fall", Obstacle::name), if self.backwards { ", backwards" } else { "" });
        write!(f, "{with} after {:.2} s{way}", self.after.as_secs_f64())
    }
}

/// The contacts of a run: their numbers, and the first ones.
#[derive(Clone, Debug, Default)]
pub(super) struct ContactLog {
    pub(super) counts: Contacts,
    first: heapless::Vec<Contact, MOST_CONTACTS>,
}

impl ContactLog {
    /// Counts a contact by its obstacle and direction, and keeps it if it is one of the first.
    pub(super) fn add(&mut self, contact: Contact) {
        match contact.with {
            Some(Obstacle::Wall) => self.counts.walls += 1,
            Some(Obstacle::Disc) => self.counts.discs += 1,
            None => self.counts.falls += 1,
        }
        self.counts.backwards += u64::from(contact.backwards);
        let _ = self.first.push(contact); // full: only counted
    }

    /// The first contacts, at most [`MOST_CONTACTS`].
    pub(super) fn first(&self) -> &[Contact] {
        &self.first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_contact_is_counted_and_the_first_ones_are_kept() {
        let mut log = ContactLog::default();
        let pose = Pose { x: 1.0, y: 0.5, heading: 0.0 };
        let contact = |with, ms| Contact { after: Span::from_millis(ms), with, pose, backwards: ms % 2 == 1 };
        let all = || [Some(Obstacle::Disc), Some(Obstacle::Wall), None].into_iter().cycle().zip(1..=200);
        all().for_each(|(with, ms)| log.add(contact(with, ms)));
        let kept: Vec<_> = all().take(MOST_CONTACTS).map(|(with, ms)| contact(with, ms)).collect();
        assert_eq!(log.first(), kept);
        let Contacts { walls, discs, falls, backwards, .. } = log.counts;
        assert_eq!((discs, walls, falls, backwards), (67, 67, 66, 100));
    }
}
