//! Saves a robot's state in two steps, so that no cycle waits for a slow bus. Between two cycles, the device
//! copies everything that changes in each cycle to a buffer in its own memory, at that memory's speed; from
//! there, a low-priority stream copies it to the host during the next cycles. The bank is not copied: the
//! host has a copy (`bank_copy`).

use super::between::{RING, newest_metrics};
use super::brain::Brain;
use super::layout::BufferRange;
use super::schedule::ScheduleState;
use super::tables::{DeviceAnswer, Eye, METRICS_BEFORE, NO_ROW, SENSES, SWEEP};
use crate::base::command::MAX_MOTORS;
use crate::base::frame::MAX_SENSORS;
use crate::base::plan::Storage;
use crate::field::shape::{BANK_TOP, ERROR_RING, GROUPS, regressors};
use crate::field::state::{Experiences, Held, Live, Senses};
use crate::system::cpu::Half;
use crate::system::gpu::{Event, Gpu, GpuError, Pinned, Priority, Stream};

/// Number of regressors for which the senses table has room.
pub const HELD: usize = 200;
const _: () = assert!(HELD >= regressors(MAX_SENSORS));

/// Number of tables that are saved besides the cells.
const TABLES: usize = 7;
/// Number of pieces: the tables, and the groups of the full and of the half grid.
const PIECES: usize = TABLES + 2 * GROUPS;
/// Pieces start at multiples of this, so that the device copies whole words.
const ALIGNED: usize = 16;

/// Copies a saved state to the host.
pub struct Drain {
    stream: Stream,
    /// The state has been copied to its buffer on the device.
    copied: Event,
    /// All of it has arrived on the host.
    drained: Event,
    pinned: Pinned,
    pending: Option<Pending>,
}

/// A state between the two steps.
struct Pending {
    state: ScheduleState,
    /// Identifies the [`Live`] into which the bank of the same cycle has already been copied.
    held: Held,
}

impl Drain {
    /// A drain for states of `bytes` bytes.
    pub fn new(gpu: &Gpu, bytes: usize) -> Result<Drain, GpuError> {
        Ok(Drain {
            stream: Stream::new(gpu, Priority::Low)?,
            copied: Event::new(gpu)?,
            drained: Event::new(gpu)?,
            pinned: Pinned::take(gpu, bytes)?,
            pending: None,
        })
    }

    /// Bytes that are locked in memory.
    pub fn bytes(&self) -> usize {
        self.pinned.len()
    }

    /// Discards a pending state.
    pub fn forget(&mut self) {
        self.pending = None;
    }
}

/// Total size of pieces of these sizes, each rounded up to a multiple of `ALIGNED`.
pub fn room_for(bytes: impl IntoIterator<Item = usize>) -> usize {
    bytes.into_iter().map(|bytes| bytes.next_multiple_of(ALIGNED)).sum()
}

/// A range on the device, and its offset in a saved state.
#[derive(Clone, Copy, Default)]
struct Piece {
    from: BufferRange,
    to: usize,
}

impl Brain {
    /// Copies the state into `live`, whose memory is reused. Waits until the copy is complete.
    pub fn save(&mut self, live: &mut Live) -> Result<(), GpuError> {
        self.begin_save(live)?;
        self.launcher.waiting.until(&self.drain.drained)?;
        self.finish_save(live)
    }

    /// Saves without waiting for the copy. False: the copy has started, or is not complete yet. The caller
    /// then passes the same `live` again after a later cycle, until it gets the state of the cycle in which
    /// the copy started.
    pub fn save_soon(&mut self, live: &mut Live) -> Result<bool, GpuError> {
        match &self.drain.pending {
            Some(state) if state.held.is_same(live.bank.held) => {
                let is_drained = self.drain.drained.is_done()?;
                if is_drained {
                    self.finish_save(live)?;
                }
                Ok(is_drained)
            }
            _ => self.begin_save(live).map(|()| false),
        }
    }

    fn begin_save(&mut self, live: &mut Live) -> Result<(), GpuError> {
        // The previous state may still be on its way to the host, from the buffer that this one overwrites.
        self.drain.pending = None;
        self.launcher.waiting.until(&self.drain.drained)?;
        let held = live.bank.held;
        live.clear_extras();
        live.bank.held = held;
        self.bank_copy.save(&mut live.bank);
        let state = self.schedule.state().clone();
        let (pieces, bytes) = self.saved_pieces(&state);
        let place = self.address(self.layout.saved);
        for piece in pieces.iter().filter(|piece| piece.from.bytes > 0) {
            self.launcher.main.copy_within(
                self.address(piece.from),
                place + piece.to as u64,
                piece.from.bytes,
            )?;
        }
        let drain = &self.drain;
        self.launcher.main.record(&drain.copied)?;
        drain.stream.wait(&drain.copied)?;
        drain.stream.copy_out(place, &drain.pinned, 0..bytes)?;
        drain.stream.record(&drain.drained)?;
        self.drain.pending = Some(Pending { state, held: live.bank.held });
        Ok(())
    }

    /// The pieces of the state, and their total size in bytes. The half grid is saved only while it is
    /// in use: its pieces are the last, and empty otherwise.
    fn saved_pieces(&self, state: &ScheduleState) -> ([Piece; PIECES], usize) {
        let own = &self.layout;
        let ring = BufferRange { at: own.metrics.at + METRICS_BEFORE, bytes: RING };
        let tables = [own.answer, own.senses, own.weights, own.covariance, own.sweep, own.scores, ring];
        let group = |grid: usize| {
            move |group: usize| {
                if grid == 1 && !state.on_half {
                    return BufferRange::default();
                }
                own.cells[grid][state.front[grid][group] as usize][group]
            }
        };
        let cells = (0..GROUPS).map(group(0)).chain((0..GROUPS).map(group(1)));
        let (mut pieces, mut next) = ([Piece::default(); PIECES], 0);
        for (piece, from) in pieces.iter_mut().zip(tables.into_iter().chain(cells)) {
            *piece = Piece { from, to: next };
            next += from.bytes.next_multiple_of(ALIGNED);
        }
        (pieces, next)
    }

    fn finish_save(&mut self, live: &mut Live) -> Result<(), GpuError> {
        let Some(Pending { state, .. }) = self.drain.pending.take() else { return Ok(()) };
        let (pieces, bytes) = self.saved_pieces(&state);
        let drained = self.drain.pinned.part(0..bytes)?;
        let piece = |at: usize| &drained[pieces[at].to..][..pieces[at].from.bytes];
        let answer = DeviceAnswer::read(piece(0));
        (live.cycle, live.age, live.on_half) = (answer.cycle, state.age, state.on_half);
        (live.since_step, live.since_blend) = (state.since_step, state.since_blend);
        live.since_learn = state.since_learn;
        read_senses(piece(1), self.plan.shape.sensors, &mut live.senses);
        live.senses.prediction.clear();
        live.senses.prediction.extend_from_slice(&answer.prediction[..self.plan.shape.sensors]);
        read_doubles(piece(2), &mut live.senses.weights);
        read_doubles(piece(3), &mut live.senses.covariance);
        read_sweep(piece(4), &answer, &mut live.bank);
        let mut scores = [0.0; 2 * MAX_MOTORS];
        Eye::new(piece(5)).read_f64s(&mut scores);
        live.scores.copy_from_slice(&scores[..MAX_MOTORS]);
        live.bridge.copy_from_slice(&scores[MAX_MOTORS..]);
        live.metrics = newest_metrics(piece(6));
        live.blend.clear();
        live.blend.extend(answer.slot.into_iter().zip(answer.weight).take(answer.blended as usize));
        let grids = [&mut live.whole, &mut live.half];
        for (grid, cells) in grids.into_iter().enumerate().take(1 + usize::from(state.on_half)) {
            let each = self.group_cells(grid == 1);
            cells.resize(GROUPS * each, 0.0);
            for (group, to) in cells.chunks_exact_mut(each).enumerate() {
                read_cells(piece(TABLES + grid * GROUPS + group), self.plan.storage_of(group), to);
            }
        }
        Ok(())
    }
}

fn read_cells(bytes: &[u8], storage: Storage, to: &mut [f32]) {
    match storage {
        Storage::F32 => _ = Eye::new(bytes).read_f32s(to),
        Storage::F16 => {
            for (to, bits) in to.iter_mut().zip(bytes.as_chunks::<2>().0) {
                *to = Half(u16::from_le_bytes(*bits)).to_f32();
            }
        }
    }
}

fn read_doubles(bytes: &[u8], to: &mut Vec<f64>) {
    to.resize(bytes.len() / size_of::<f64>(), 0.0);
    Eye::new(bytes).read_f64s(to);
}

fn read_senses(table: &[u8], sensors: usize, senses: &mut Senses) {
    debug_assert_eq!(table.len(), SENSES);
    let mut eye = Eye::new(table);
    let nine = [
        &mut senses.sensors,
        &mut senses.change,
        &mut senses.learned,
        &mut senses.mean,
        &mut senses.predicted,
        &mut senses.persistent,
        &mut senses.climatic,
        &mut senses.agreement,
        &mut senses.power,
    ];
    for vector in nine {
        take(&mut eye, vector, sensors, MAX_SENSORS);
    }
    take(&mut eye, &mut senses.regressors, regressors(sensors), HELD);
    eye.skip(2 * HELD * size_of::<f64>()); // gain and column: work space of a step of learning
    let mut ring = [0.0; ERROR_RING];
    eye.read_f64s(&mut ring).skip(size_of::<f64>());
    senses.observed = eye.u64();
    eye.skip(MAX_SENSORS * size_of::<f32>());
    let (head, filled) = (eye.u32() as usize, eye.u32() as usize);
    senses.turn = u64::from(eye.u32());
    senses.errors.clear();
    senses.errors.extend((1..=filled).rev().map(|back| ring[(head + ERROR_RING - back) % ERROR_RING]));
}

fn read_sweep(table: &[u8], answer: &DeviceAnswer, bank: &mut Experiences) {
    debug_assert_eq!(table.len(), SWEEP);
    let mut eye = Eye::new(table);
    bank.running.clear();
    for _ in 0..BANK_TOP {
        let mut cosine = [0.0];
        eye.read_f64s(&mut cosine);
        let row = eye.u32();
        eye.skip(size_of::<u32>());
        bank.running.extend((row != NO_ROW).then_some((row, cosine[0])));
    }
    let next = eye.u32();
    bank.next_part = (next != 0).then_some(u64::from(next));
    if next == 0 {
        bank.running.clear(); // left over from a finished sweep
    }
    bank.nearest.clear();
    bank.nearest.extend(answer.row.into_iter().zip(answer.cosine).take(answer.nearest as usize));
}

/// Reads the first `count` of `held` doubles and skips the rest.
fn take(eye: &mut Eye, to: &mut Vec<f64>, count: usize, held: usize) {
    to.resize(count, 0.0);
    eye.read_f64s(to).skip((held - count) * size_of::<f64>());
}
