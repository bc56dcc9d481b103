//! The inputs of a slot that its record does not already contain: requests, signals, and the readings that it
//! took, in order. They let a replay repeat the slot's decisions.

use crate::base::frame::Reading;
use crate::decision::mode::Asked;
use crate::decision::reflex::Signals;

/// Capacity of the ring of readings from the tick to the recording: a board with 64 channels at 1 kHz fills
/// it in a quarter of a second, a PiCar-X in half a minute; the non-real-time thread empties it every 20 ms.
pub const READING_TAP: usize = 16_384;

/// Inputs of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inputs {
    /// What users, signals and the guard requested.
    pub asked: Asked,
    /// The inputs of the reflexes besides the frame.
    pub signals: Signals,
    /// Readings that the slot took.
    pub readings: u32,
    /// How many of them were lost because the ring to the recording was full.
    pub untold: u32,
}

/// A reading, and the number of the slot that took it.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// Number of the slot.
    pub index: u64,
    /// The reading.
    pub reading: Reading,
}

/// The tick's end of the channel on which a recording gets its readings; by default, nothing is recorded.
#[derive(Default)]
pub struct ReadingTap {
    line: Option<rtrb::Producer<Taken>>,
    index: u64,
    readings: u32,
    untold: u32,
}

/// A channel for readings: the tick's end and the recording's.
pub fn reading_tap() -> (ReadingTap, rtrb::Consumer<Taken>) {
    let (line, taken) = rtrb::RingBuffer::new(READING_TAP);
    (ReadingTap { line: Some(line), ..ReadingTap::default() }, taken)
}

impl ReadingTap {
    /// The readings from now on belong to slot number `index`.
    pub fn begin(&mut self, index: u64) {
        (self.index, self.readings, self.untold) = (index, 0, 0);
    }

    /// Counts `reading` as taken by the slot, and sends it to the recording.
    pub fn note(&mut self, reading: &Reading) {
        self.readings += 1;
        if let Some(line) = &mut self.line {
            self.untold += u32::from(line.push(Taken { index: self.index, reading: *reading }).is_err());
        }
    }

    /// How many readings the slot took, and how many of them were lost because the ring was full.
    pub fn counts(&self) -> (u32, u32) {
        (self.readings, self.untold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::fixture::at;

    #[test]
    fn readings_that_do_not_fit_are_counted_per_slot() {
        let (mut tap, mut taken) = reading_tap();
        let reading = Reading { channel: 3, value: Ok(1.0), stamp: at(1) };
        tap.begin(7);
        (0..READING_TAP + 2).for_each(|_| tap.note(&reading));
        assert_eq!(tap.counts(), (READING_TAP as u32 + 2, 2));
        assert_eq!(taken.pop().map(|taken| (taken.index, taken.reading.channel)), Ok((7, 3)));
        tap.begin(8);
        tap.note(&reading);
        assert_eq!(tap.counts(), (1, 0));
        assert_eq!(std::iter::from_fn(|| taken.pop().ok()).last().map(|taken| taken.index), Some(8));
    }
}
