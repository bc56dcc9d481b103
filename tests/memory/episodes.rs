//! Episodic memory recalls where each thing was met and what is near a place; it recalls nothing for a thing
//! that was never met.

use super::dim;
use ganglion::base::seed::{Stream, uniform};
use ganglion::memory::Fault;
use ganglion::memory::episodic::Episodes;
use ganglion::memory::nearest::Best;
use ganglion::memory::spatial::{Area, Decoder, Plane, Waves};

const ROOM: Area = Area { from: [-2.5, -2.5], to: [2.5, 2.5] };
/// Metres: half a PiCar's turning circle.
const SCALE: f64 = 0.5;

fn episodes(d: usize, things: usize, pages: usize) -> Episodes {
    let plane = Plane::new(dim(d), Waves::Hexagonal, SCALE, 5).expect("a plane");
    let decoder = Decoder::new(plane, ROOM, 8 << 20).expect("a decoder");
    Episodes::new(decoder, things, pages, 6, 8 << 20).expect("episodes")
}

/// The place of a thing, in a jittered grid of 16 places that are at least a metre from each other.
fn place(thing: usize) -> [f64; 2] {
    let shake = |n: usize| 0.2 * (uniform(1, Stream::World, (2 * thing + n) as u64) - 0.5);
    [-2.0 + 1.3 * (thing % 4) as f64 + shake(0), -2.0 + 1.3 * (thing / 4 % 4) as f64 + shake(1)]
}

fn apart(a: [f64; 2], b: [f64; 2]) -> f64 {
    (a[0] - b[0]).hypot(a[1] - b[1])
}

#[test]
fn each_landmark_seen_once_is_recognised_and_no_other() {
    let mut memory = episodes(1024, 40, 2);
    assert_eq!(memory.where_was(3), Ok(None), "nothing has been met");
    for thing in 0..16 {
        memory.observe(thing, place(thing)).expect("a known thing");
    }
    assert_eq!((memory.meetings(), memory.forgotten(), memory.per_page()), (16, 0, 16));
    let mut best = Best::of(5);
    for thing in 0..16 {
        let found = memory.where_was(thing).expect("known").unwrap_or_else(|| panic!("{thing} is not found"));
        assert!(apart(found.at, place(thing)) < 0.15, "{thing}: {found:?}, met at {:?}", place(thing));
        memory.what_is_near(place(thing), &mut best).expect("a place");
        assert_eq!(best.first().map(|found| found.row as usize), Some(thing), "{best:?}");
        // An offset of a tenth of the scale hardly matters; 0.92 m away, almost two scales, is another place.
        let [x, y] = place(thing);
        let near = memory.likeness(thing, [x + 0.05, y]).expect("known");
        assert!(f64::from(near) > memory.believed(), "{thing}: {near}");
        let far = memory.likeness(thing, [x + 0.65, y + 0.65]).expect("known");
        assert!(f64::from(far) < memory.believed(), "{thing}: {far}");
    }
    for stranger in 16..40 {
        assert_eq!(memory.where_was(stranger), Ok(None), "{stranger} was never met");
    }
    memory.what_is_near([2.45, 2.45], &mut best).expect("a place");
    assert!(best.list().is_empty(), "nothing was met there: {best:?}");
}

#[test]
fn the_oldest_page_is_forgotten_first() {
    let mut memory = episodes(512, 30, 2);
    let met: Vec<usize> = (0..24).collect(); // three pages of 8, of which two fit
    for thing in &met {
        memory.observe(*thing, place(*thing % 16)).expect("a known thing");
    }
    assert_eq!((memory.meetings(), memory.forgotten()), (16, 8));
    for thing in 8..24 {
        let found = memory.where_was(thing).expect("known").unwrap_or_else(|| panic!("{thing} is not found"));
        assert!(apart(found.at, place(thing % 16)) < 0.2, "{thing}: {found:?}");
    }
    assert!((0..8).all(|thing| memory.where_was(thing) == Ok(None)), "they were on the first page");
}

#[test]
fn unknown_things_and_too_little_memory_are_refused() {
    let mut memory = episodes(512, 3, 1);
    assert_eq!(memory.observe(3, [0.0; 2]), Err(Fault::NoRow { row: 3, rows: 3 }));
    assert_eq!(memory.observe(0, [f64::NAN, 0.0]), Err(Fault::NotFinite { what: "place", at: 0 }));
    assert_eq!(memory.meetings(), 0);
    let plane = Plane::new(dim(512), Waves::Random, SCALE, 5).expect("a plane");
    let decoder = Decoder::new(plane, ROOM, 8 << 20).expect("a decoder");
    assert!(matches!(Episodes::new(decoder, 100, 1, 6, 1000), Err(Fault::Limit { limit: 1000, .. })));
}
