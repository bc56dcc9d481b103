//! Reads from and writes to a brain between two cycles. None of this is fast: data is copied in pieces
//! through a pinned buffer, and the thread waits for each copy.

use super::brain::Brain;
use super::desk::Touched;
use super::launcher::Launcher;
use super::layout::{BufferRange, Layout};
use super::schedule::ScheduleState;
use super::start::Pattern;
use super::tables::{
    Cycle, DeviceAnswer, Eye, METRIC, METRIC_RING, METRICS_BEFORE, NO_ROW, SWEEP, bytes_of_f32,
};
use crate::base::plan::Storage;
use crate::field::Metrics;
use crate::field::shape::{DESCRIPTOR, FEATURES, GROUP, METRICS_EVERY};
use crate::system::cpu::Half;
use crate::system::gpu::GpuError;

/// Bytes of the metrics ring, and of the number of lines written so far, which follows the ring.
pub(super) const RING: usize = METRIC_RING * METRIC + size_of::<u64>();

impl Brain {
    /// Copies bytes to the device, and waits until they are there.
    pub(super) fn put(&self, place: BufferRange, at: usize, bytes: &[u8]) -> Result<(), GpuError> {
        debug_assert!(at + bytes.len() <= place.bytes);
        self.put_at(self.address(place) + at as u64, bytes)
    }

    /// Copies bytes to an address on the device, and waits until they are there.
    pub(super) fn put_at(&self, mut to: u64, bytes: &[u8]) -> Result<(), GpuError> {
        let Launcher { main, staging, .. } = &*self.launcher;
        let piece = staging.borrow().len();
        for bytes in bytes.chunks(piece) {
            staging.borrow_mut().part_mut(0..bytes.len())?.copy_from_slice(bytes);
            main.copy_in(to, &staging.borrow(), 0..bytes.len())?;
            self.launcher.settle()?;
            to += bytes.len() as u64;
        }
        Ok(())
    }

    /// Copies from the device piece by piece, waiting for each; `take` gets every piece and its offset.
    fn each_piece(
        &self,
        place: BufferRange,
        at: usize,
        bytes: usize,
        take: impl FnMut(usize, &[u8]),
    ) -> Result<(), GpuError> {
        debug_assert!(at + bytes <= place.bytes);
        self.each_piece_at(self.address(place) + at as u64, bytes, take)
    }

    /// Copies from an address on the device piece by piece, as [`Brain::each_piece`] does.
    pub(super) fn each_piece_at(
        &self,
        from: u64,
        bytes: usize,
        mut take: impl FnMut(usize, &[u8]),
    ) -> Result<(), GpuError> {
        let Launcher { main, staging, .. } = &*self.launcher;
        let piece = staging.borrow().len();
        for begin in (0..bytes).step_by(piece) {
            let length = piece.min(bytes - begin);
            main.copy_out(from + begin as u64, &staging.borrow(), 0..length)?;
            self.launcher.settle()?;
            take(begin, &staging.borrow().part(0..length)?);
        }
        Ok(())
    }

    /// Copies bytes from the device.
    pub(super) fn get(&self, place: BufferRange, at: usize, to: &mut [u8]) -> Result<(), GpuError> {
        self.each_piece(place, at, to.len(), |begin, piece| {
            to[begin..][..piece.len()].copy_from_slice(piece);
        })
    }

    /// Copies f32 numbers from the start of a buffer.
    pub(super) fn get_f32s(&self, place: BufferRange, to: &mut [f32]) -> Result<(), GpuError> {
        const WIDTH: usize = size_of::<f32>();
        self.each_piece(place, 0, to.len() * WIDTH, |begin, piece| {
            Eye::new(piece).read_f32s(&mut to[begin / WIDTH..][..piece.len() / WIDTH]);
        })
    }

    /// Copies cells that are stored in half precision.
    fn get_halves(&self, place: BufferRange, to: &mut [f32]) -> Result<(), GpuError> {
        const WIDTH: usize = size_of::<u16>();
        self.each_piece(place, 0, to.len() * WIDTH, |begin, piece| {
            let to = &mut to[begin / WIDTH..][..piece.len() / WIDTH];
            for (to, bits) in to.iter_mut().zip(piece.chunks_exact(WIDTH)) {
                *to = Half(u16::from_le_bytes([bits[0], bits[1]])).to_f32();
            }
        })
    }

    fn fill(&self, place: BufferRange) -> Result<(), GpuError> {
        if place.bytes == 0 { Ok(()) } else { self.launcher.main.fill(self.address(place), 0, place.bytes) }
    }

    /// Writes everything that must be on the device before the first cycle.
    pub(super) fn write_start(&mut self) -> Result<(), GpuError> {
        let (start, to) = (&self.start, &self.layout);
        let taps = [to.first_tap, to.tap_sensor, to.tap_weight].into_iter().zip(start.taps());
        let profiles = to.profiles.into_iter().zip(start.profiles());
        let table = to.brain(self.pool.address(), self.desk.addresses()).to_vec();
        let once = [(to.table, table), (to.rule, start.rule()), (to.bias, start.bias())];
        // A saved state is copied to the host as a whole, including the gaps between its pieces, so the gaps
        // must be initialised too.
        let empty = [to.contexts, to.stored, to.readout, to.saved];
        empty.into_iter().try_for_each(|place| self.fill(place))?;
        for (place, bytes) in once.into_iter().chain(profiles).chain(taps) {
            self.put(place, 0, &bytes)?;
        }
        self.empty_library()?;
        self.reset()
    }

    /// Returns the field to its initial state; read-out and library stay.
    pub fn reset(&mut self) -> Result<(), GpuError> {
        let (start, to) = (&self.start, &self.layout);
        let empty = [to.features, to.senses, to.weights, to.sweep, to.scores, to.metrics];
        empty.into_iter().try_for_each(|place| self.fill(place))?;
        self.put(to.about, 0, &start.about())?;
        self.put(to.covariance, 0, &start.covariance())?;
        self.put(to.answer, 0, &start.answer())?;
        for (group, place) in to.cells[0][0].into_iter().enumerate() {
            self.put(place, 0, &start.cells(group))?;
        }
        self.bank_copy.clear();
        self.drain.forget();
        self.schedule.set_state(ScheduleState::default());
        self.write_cycle_table()
    }

    /// Tells the device which buffers hold the field, for kernels that run before the next cycle.
    pub(super) fn write_cycle_table(&self) -> Result<(), GpuError> {
        let state = self.schedule.state();
        let on_half = state.on_half;
        let orders = Cycle { on_half, front: state.front[usize::from(on_half)], ..Cycle::default() };
        let table = orders.table(0, 0.0, 0); // no kernel reads a sensor between two cycles
        self.put(self.layout.cycle, 0, &table)
    }

    /// Writes the read-out; `weights` must have its size.
    pub fn set_readout(&self, weights: &[f32]) -> Result<(), GpuError> {
        self.put(self.layout.readout, 0, &bytes_of_f32(weights.iter().copied()))
    }

    /// Stores a pattern in a slot, which must exist.
    pub fn store_pattern(&mut self, slot: usize, pattern: &Pattern) -> Result<(), GpuError> {
        let (contexts, stored) = (self.layout.contexts, self.layout.stored);
        let [whole, half, context] = pattern.bytes();
        self.put_volumes(slot, [&whole, &half])?;
        self.put(contexts, slot * context.len(), &context)?;
        self.put(stored, slot * size_of::<u32>(), &1_u32.to_le_bytes())
    }

    /// Empties a slot, which must exist.
    pub fn clear_pattern(&self, slot: usize) -> Result<(), GpuError> {
        self.put(self.layout.stored, slot * size_of::<u32>(), &0_u32.to_le_bytes())
    }

    /// Stores an experience as if it came from the last cycle.
    pub fn store_experience(&mut self, descriptor: &[f32; DESCRIPTOR], value: f32) -> Result<(), GpuError> {
        let learned = bytes_of_f32(descriptor.iter().copied().chain([value]));
        self.put(self.layout.given, 0, &learned)?;
        self.launcher.launch_alone(self, self.launcher.kernels.experience())?;
        self.follow_experience()
    }

    /// Brings the host's copy of the bank up to date after an experience from outside.
    fn follow_experience(&mut self) -> Result<(), GpuError> {
        let Layout { sweep, exact, value: values, last_use: uses, .. } = &self.layout;
        let mut touched = [0; size_of::<u32>()];
        self.get(*sweep, SWEEP - touched.len(), &mut touched)?;
        let row = u32::from_le_bytes(touched);
        if row == NO_ROW {
            return Ok(()); // a bank without rows
        }
        let mut bytes = [0; DESCRIPTOR * size_of::<f32>()];
        let at = row as usize;
        self.get(*exact, at * bytes.len(), &mut bytes)?;
        let [mut value, mut last_use] = [[0; size_of::<u64>()]; 2];
        self.get(*values, at * value.len(), &mut value)?;
        self.get(*uses, at * last_use.len(), &mut last_use)?;
        let mut exact = [0.0; DESCRIPTOR];
        Eye::new(&bytes).read_f32s(&mut exact);
        let (value, last_use) = (f64::from_le_bytes(value), u64::from_le_bytes(last_use));
        self.bank_copy.touch(&Touched { row, value, last_use }, &exact);
        Ok(())
    }

    /// The current answer on the device.
    pub(super) fn answer(&self) -> Result<DeviceAnswer, GpuError> {
        let mut table = [0; super::tables::ANSWER];
        self.get(self.layout.answer, 0, &mut table)?;
        Ok(DeviceAnswer::read(&table))
    }

    /// Features of the last cycle.
    pub fn features(&self) -> Result<Vec<f32>, GpuError> {
        let mut features = vec![0.0; FEATURES];
        self.get_f32s(self.layout.features, &mut features)?;
        Ok(features)
    }

    /// Cells of a group (8 channels) on the full or the half grid.
    pub(super) fn group(&self, on_half: bool, group: usize, to: &mut [f32]) -> Result<(), GpuError> {
        let front = self.schedule.state().front[usize::from(on_half)][group] as usize;
        let place = self.layout.cells[usize::from(on_half)][front][group];
        match self.plan.storage_of(group) {
            Storage::F32 => self.get_f32s(place, to),
            Storage::F16 => self.get_halves(place, to),
        }
    }

    /// Number of cells of a group on the full or the half grid.
    pub(super) fn group_cells(&self, on_half: bool) -> usize {
        GROUP * self.plan.shape.cells() / if on_half { 8 } else { 1 }
    }

    /// Cells of a channel on the grid in use.
    pub fn channel(&self, channel: usize) -> Result<Vec<f32>, GpuError> {
        let on_half = self.schedule.state().on_half;
        let mut group = vec![0.0; self.group_cells(on_half)];
        self.group(on_half, channel / GROUP, &mut group)?;
        let cells = group.len() / GROUP;
        Ok(group[channel % GROUP * cells..][..cells].to_vec())
    }

    /// Replaces the cells of a channel on the grid in use; values are clamped to +-(1 - beta) and rounded to
    /// the storage format.
    pub fn set_channel(&self, channel: usize, cells: &[f32]) -> Result<(), GpuError> {
        let on_half = self.schedule.state().on_half;
        let group = channel / GROUP;
        let mut all = vec![0.0; self.group_cells(on_half)];
        self.group(on_half, group, &mut all)?;
        let len = all.len() / GROUP;
        let bound = super::tables::reach(&self.plan, Storage::F32);
        let channel = &mut all[channel % GROUP * len..][..len];
        channel.iter_mut().zip(cells).for_each(|(to, cell)| *to = cell.clamp(-bound, bound));
        self.set_group(on_half, group, &all)
    }

    /// Replaces the cells of a group.
    pub(super) fn set_group(&self, on_half: bool, group: usize, cells: &[f32]) -> Result<(), GpuError> {
        let front = self.schedule.state().front[usize::from(on_half)][group] as usize;
        let place = self.layout.cells[usize::from(on_half)][front][group];
        let bytes = self.start.kept(group, cells);
        self.put(place, 0, &bytes)
    }

    /// Measures the field in its current state.
    pub fn measure_now(&self) -> Result<Metrics, GpuError> {
        self.launcher.launch_alone(self, self.launcher.kernels.metrics(true))?;
        Ok(metric_lines(&self.metric_ring()?).next().unwrap_or_default())
    }

    /// The newest of the regular metrics.
    pub fn metrics(&self) -> Result<Option<Metrics>, GpuError> {
        Ok(newest_metrics(&self.metric_ring()?))
    }

    /// The metrics ring, and the number of lines written so far.
    fn metric_ring(&self) -> Result<[u8; RING], GpuError> {
        let mut bytes = [0; RING];
        self.get(self.layout.metrics, METRICS_BEFORE, &mut bytes)?;
        Ok(bytes)
    }
}

/// The newest of the regular metrics in a metrics ring.
pub(super) fn newest_metrics(ring: &[u8]) -> Option<Metrics> {
    metric_lines(ring).find(|line| line.cycle.is_multiple_of(METRICS_EVERY))
}

/// Lines of a metrics ring, newest first.
fn metric_lines(ring: &[u8]) -> impl Iterator<Item = Metrics> {
    let written = Eye::new(&ring[METRIC_RING * METRIC..]).u64() as usize;
    let newest_first = (written.saturating_sub(METRIC_RING)..written).rev();
    newest_first.map(|line| metrics(&ring[line % METRIC_RING * METRIC..]))
}

/// Reads one line of the ring.
fn metrics(line: &[u8]) -> Metrics {
    let mut eye = Eye::new(line);
    let cycle = eye.u64();
    let mut numbers = [0.0; 7];
    eye.read_f32s(&mut numbers);
    let [mean, std, max, energy, novelty, skill, confidence] = numbers;
    Metrics { cycle, mean, std, max, energy, novelty, skill, confidence }
}
