//! What the car has run into, or where it has fallen: counts, and the first contacts of a run one by one.

use super::world::Pose;
use crate::base::time::Span;

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

/// What the car ran into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContactKind {
    /// A wall or a box.
    Wall,
    /// A disc.
    Disc,
    /// Nothing: a wheel left the floor.
    Fall,
}

impl ContactKind {
    /// Its name, for reports.
    pub fn name(self) -> &'static str {
        match self {
            ContactKind::Wall => "wall",
            ContactKind::Disc => "disc",
            ContactKind::Fall => "fall",
        }
    }
}

/// One contact.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contact {
    /// Time since the start of the simulation.
    pub after: Span,
    /// What it ran into.
    pub kind: ContactKind,
    /// Where the car was.
    pub pose: Pose,
    /// Whether it drove backwards.
    pub backwards: bool,
}

/// The first contacts of a run.
#[derive(Clone, Debug, Default)]
pub struct ContactLog {
    counted: Contacts,
    first: heapless::Vec<Contact, MOST_CONTACTS>,
}

impl ContactLog {
    /// Adds the contact by which `counted` has grown in the step that ended `after` the start, with the car
    /// at `pose`. A step makes at most one.
    pub fn note(&mut self, counted: Contacts, pose: Pose, after: Span) {
        let before = std::mem::replace(&mut self.counted, counted);
        let kind = match () {
            () if counted.falls > before.falls => ContactKind::Fall,
            () if counted.discs > before.discs => ContactKind::Disc,
            () if counted.walls > before.walls => ContactKind::Wall,
            () => return,
        };
        let backwards = counted.backwards > before.backwards;
        let _ = self.first.push(Contact { after, kind, pose, backwards }); // full: only counted
    }

    /// The first contacts, at most [`MOST_CONTACTS`].
    pub fn first(&self) -> &[Contact] {
        &self.first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_contact_is_noted_once_with_its_kind_and_place() {
        let mut log = ContactLog::default();
        let pose = |x| Pose { x, y: 0.5, heading: 0.0 };
        let mut counted = Contacts::default();
        log.note(counted, pose(0.0), Span::from_millis(1));
        counted.discs = 1;
        log.note(counted, pose(1.0), Span::from_millis(2));
        log.note(counted, pose(2.0), Span::from_millis(3));
        (counted.walls, counted.backwards) = (1, 1);
        log.note(counted, pose(3.0), Span::from_millis(4));
        counted.falls = 1;
        log.note(counted, pose(4.0), Span::from_millis(5));
        let found: Vec<_> =
            log.first().iter().map(|found| (found.kind, found.pose.x, found.backwards)).collect();
        use ContactKind::{Disc, Fall, Wall};
        assert_eq!(found, [(Disc, 1.0, false), (Wall, 3.0, true), (Fall, 4.0, false)]);
        assert_eq!(log.first()[1].after, Span::from_millis(4));
        for more in 2..2 * MOST_CONTACTS as u64 {
            counted.walls = more;
            log.note(counted, pose(5.0), Span::from_millis(5 + more));
        }
        assert_eq!(log.first().len(), MOST_CONTACTS);
    }
}
