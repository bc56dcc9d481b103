//! The newest sensor vectors, on the field's scale, in memory that a GPU can read in place. The tick
//! writes a whole vector into a free place and names that place in its request; the engine reads it there.
//! For a GPU the memory is registered, so that the first kernel of a cycle reads what the tick wrote.

use crate::base::frame::MAX_SENSORS;
use crate::system::rt::words::Words;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Number of places. The engine reads one while the tick writes another; a GPU that was given up may still
/// read an older one, so the tick must not write there next.
const PLACES: u8 = 4;

/// The ring. Clones share the same memory.
#[derive(Clone)]
pub struct SensorRing(Arc<Words>);

/// The writing end, of which a ring has only one.
pub struct SensorWriter {
    ring: SensorRing,
    next: u8,
}

impl SensorRing {
    /// A ring with all sensors 0. Allocates a page.
    #[allow(clippy::new_without_default)] // it locks memory, so it must be explicit
    pub fn new() -> SensorRing {
        SensorRing(Arc::new(Words::new(usize::from(PLACES) * MAX_SENSORS)))
    }

    /// Its memory, for a GPU.
    pub fn words(&self) -> &Arc<Words> {
        &self.0
    }

    /// The first word of a place, for a GPU.
    pub fn word(place: u8) -> usize {
        usize::from(place % PLACES) * MAX_SENSORS
    }

    fn place(&self, place: u8) -> &[AtomicU32] {
        &self.0[SensorRing::word(place)..][..MAX_SENSORS]
    }

    /// The vector in a place. It is complete if the request that names the place was received through a
    /// channel that synchronises memory.
    pub fn read(&self, place: u8) -> [f32; MAX_SENSORS] {
        let words = self.place(place);
        std::array::from_fn(|sensor| f32::from_bits(words[sensor].load(Ordering::Relaxed)))
    }
}

impl SensorWriter {
    /// The writer of `ring`; a ring may have only one.
    pub fn new(ring: SensorRing) -> SensorWriter {
        SensorWriter { ring, next: 0 }
    }

    /// Writes a vector into the next place; `fill` sets it sensor by sensor, and sensors that it leaves out
    /// are 0. Returns the place and the result of `fill`.
    pub fn write<T>(&mut self, fill: impl FnOnce(&mut dyn FnMut(usize, f32)) -> T) -> (u8, T) {
        let place = self.next;
        self.next = (place + 1) % PLACES;
        let words = self.ring.place(place);
        words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        let filled = fill(&mut |sensor, value: f32| words[sensor].store(value.to_bits(), Ordering::Relaxed));
        (place, filled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vector_is_read_where_written_and_others_stay() {
        let ring = SensorRing::new();
        let mut writer = SensorWriter::new(ring.clone());
        let (first, given) = writer.write(|put| {
            (0..MAX_SENSORS).for_each(|sensor| put(sensor, sensor as f32));
            "its result"
        });
        assert_eq!(given, "its result");
        let (second, ()) = writer.write(|put| put(3, -0.5));
        assert_ne!(first, second);
        assert_eq!(ring.read(first)[MAX_SENSORS - 1], (MAX_SENSORS - 1) as f32);
        assert!(ring.read(second).iter().enumerate().all(|(i, v)| *v == if i == 3 { -0.5 } else { 0.0 }));
        let later: Vec<u8> = (0..2).map(|_| writer.write(|_| ()).0).collect();
        assert!(!later.contains(&first), "{later:?}: a device that was given up may still read {first}");
        let (again, ()) = writer.write(|put| put(0, 1.0));
        assert_eq!(again, first);
        assert_eq!(
            (ring.read(again)[0], ring.read(again)[1]),
            (1.0, 0.0),
            "nothing remains of the old vector"
        );
    }
}
