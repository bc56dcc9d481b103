//! The data that host and device exchange in a robot's cycle, in host memory that the kernels access in
//! place: its orders and sensors, which the first kernel reads, and its report, which `deliver` completes.

use super::tables::{CYCLE, Cycle, NO_ROW, REPORT, Report, TIMED_ANSWER};
use crate::base::frame::MAX_SENSORS;
use crate::field::FieldInput;
use crate::field::sensor_ring::SensorRing;
use crate::field::shape::DESCRIPTOR;
use crate::system::gpu::{Gpu, GpuError, Mapped};
use crate::system::rt::words::Words;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of a word.
const WORD: usize = size_of::<u32>();
/// Words of each part of a robot's area. All parts start at a multiple of 16 bytes.
const ORDERS: usize = (CYCLE / WORD).next_multiple_of(4);
const SENSORS: usize = MAX_SENSORS;
const REPORTS: usize = REPORT / WORD;
/// Offset in a report, in words, of the bank row that the cycle changed (value, last use, numbers), which
/// follows the answer and two times.
const ROW: usize = TIMED_ANSWER / WORD;
/// Offset of the ticket.
const TICKET: usize = ROW + 4 + DESCRIPTOR;
/// Offset of the row's number in the bank.
const TOUCHED: usize = TICKET + 1;
const _: () = assert!(CYCLE.is_multiple_of(WORD) && REPORT.is_multiple_of(16) && SENSORS.is_multiple_of(4));
const _: () = assert!(TICKET + 4 == REPORTS);

/// The row of the bank that a cycle changed, without its numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Touched {
    pub row: u32,
    pub value: f64,
    /// Number of the cycle that stored or recognised it.
    pub last_use: u64,
}

/// A robot's area.
pub struct Desk {
    mapped: Mapped,
    /// The robot's sensor ring, which may already hold the sensors of an input.
    ring: Option<Mapped>,
    /// The ticket of the last cycle that was requested; 0: none yet.
    ticket: u32,
}

impl Desk {
    /// A desk for a robot whose sensors may come through `ring`.
    pub fn new(gpu: &Gpu, ring: Option<&SensorRing>) -> Result<Desk, GpuError> {
        let mapped = Mapped::new(gpu, Arc::new(Words::new(ORDERS + SENSORS + REPORTS)))?;
        let ring = ring.map(|ring| Mapped::new(gpu, ring.words().clone())).transpose()?;
        Ok(Desk { mapped, ring, ticket: 0 })
    }

    /// The addresses at which the kernels find the orders and the report.
    pub fn addresses(&self) -> [u64; 2] {
        [0, ORDERS + SENSORS].map(|word| self.mapped.address(word))
    }

    /// Bytes that are locked in memory.
    pub fn bytes(&self) -> usize {
        self.mapped.words().bytes() + self.ring.as_ref().map_or(0, |ring| ring.words().bytes())
    }

    /// Writes the orders of the next cycle, and its input. The device must have finished the last cycle.
    pub fn lay(&mut self, orders: &Cycle, input: &FieldInput) {
        self.ticket = self.ticket.wrapping_add(1).max(1);
        let table = orders.table(self.sensors(input), input.reward, self.ticket);
        store(&self.mapped.words()[..CYCLE / WORD], &table);
    }

    /// The address of an input's sensors for the kernels: where the tick wrote them, or else in the robot's
    /// area, to which they are copied. Teaching and tests change the sensors of an input before it arrives
    /// here; then they differ from those in the ring.
    fn sensors(&self, input: &FieldInput) -> u64 {
        if let (Some(ring), Some(place)) = (&self.ring, input.place) {
            let first = SensorRing::word(place);
            if is_same(&ring.words()[first..], &input.sensors) {
                return ring.address(first);
            }
        }
        let words = &self.mapped.words()[ORDERS..][..SENSORS];
        for (word, sensor) in words.iter().zip(&input.sensors) {
            word.store(sensor.to_bits(), Ordering::Relaxed);
        }
        self.mapped.address(ORDERS)
    }

    /// Whether the report of the last cycle has arrived.
    pub fn is_reported(&self) -> bool {
        self.mapped.is_written(ORDERS + SENSORS + TICKET, self.ticket)
    }

    /// The report.
    pub fn report(&self) -> Report {
        let mut table = [0; TIMED_ANSWER];
        load(&self.words_of_report()[..ROW], &mut table);
        Report::read(&table)
    }

    /// The row of the bank that the last cycle stored or recognised; copies its numbers to `exact`.
    pub fn touched(&self, exact: &mut [f32; DESCRIPTOR]) -> Option<Touched> {
        let words = self.words_of_report();
        let word = |at: usize| words[at].load(Ordering::Relaxed);
        let wide = |at: usize| u64::from(word(at)) | u64::from(word(at + 1)) << u32::BITS;
        let row = word(TOUCHED);
        if row == NO_ROW {
            return None;
        }
        exact.iter_mut().enumerate().for_each(|(i, number)| *number = f32::from_bits(word(ROW + 4 + i)));
        Some(Touched { row, value: f64::from_bits(wide(ROW)), last_use: wide(ROW + 2) })
    }

    fn words_of_report(&self) -> &[AtomicU32] {
        &self.mapped.words()[ORDERS + SENSORS..][..REPORTS]
    }
}

/// Whether `words` begin with exactly these numbers, bit for bit.
fn is_same(words: &[AtomicU32], numbers: &[f32]) -> bool {
    words.iter().zip(numbers).all(|(word, number)| word.load(Ordering::Relaxed) == number.to_bits())
}

/// Stores bytes as words, little-endian like the device.
fn store(words: &[AtomicU32], bytes: &[u8]) {
    for (word, bytes) in words.iter().zip(bytes.as_chunks::<WORD>().0) {
        word.store(u32::from_le_bytes(*bytes), Ordering::Relaxed);
    }
}

/// Loads words as bytes.
fn load(words: &[AtomicU32], bytes: &mut [u8]) {
    for (word, bytes) in words.iter().zip(bytes.as_chunks_mut::<WORD>().0) {
        *bytes = word.load(Ordering::Relaxed).to_le_bytes();
    }
}
