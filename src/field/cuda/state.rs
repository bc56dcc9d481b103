//! Copies a whole state, in the form that all engines share, to the device; copies the read-out and the
//! library in both directions. `save` copies the state from the device.

use super::bank::Coarse;
use super::brain::Brain;
use super::library::volume_bytes;
use super::save::HELD;
use super::schedule::ScheduleState;
use super::tables::{
    ANSWER, DeviceAnswer, Eye, METRIC, METRIC_RING, METRICS_BEFORE, NO_ROW, Pen, SENSES, SWEEP, bytes_of_f32,
    bytes_of_f64, bytes_of_i16, bytes_of_u32,
};
use crate::base::frame::MAX_SENSORS;
use crate::field::shape::{BANK_TOP, BLEND_TOP, CHANNELS, CONTEXT, ERROR_RING, GROUPS, PATTERN};
use crate::field::state::{Experiences, Learned, Live, Pattern, Senses};
use crate::system::gpu::GpuError;

impl Brain {
    /// Resumes from a state that fits the plan.
    pub fn restore(&mut self, live: &Live) -> Result<(), GpuError> {
        self.reset()?;
        self.schedule.set_state(ScheduleState {
            age: live.age,
            on_half: live.on_half,
            since_step: live.since_step,
            since_blend: live.since_blend,
            since_learn: live.since_learn,
            ..ScheduleState::default()
        });
        for (on_half, cells) in [(false, &live.whole), (true, &live.half)] {
            // `live.half` is empty if the half grid is not in use.
            for (group, cells) in cells.chunks_exact((cells.len() / GROUPS).max(1)).enumerate() {
                self.set_group(on_half, group, cells)?;
            }
        }
        self.restore_senses(&live.senses)?;
        self.restore_bank(&live.bank)?;
        self.restore_answer(live)?;
        let to = &self.layout;
        let (scores, metrics) = (to.scores, to.metrics);
        self.put(scores, 0, &bytes_of_f64(live.scores.into_iter().chain(live.bridge)))?;
        if let Some(newest) = live.metrics {
            let mut line = [0; METRIC];
            let [mean, std, max, energy] = [newest.mean, newest.std, newest.max, newest.energy];
            let mut pen = Pen::new(&mut line);
            pen.u64s(&[newest.cycle]).f32s(&[mean, std, max, energy]);
            pen.f32s(&[newest.novelty, newest.skill, newest.confidence]);
            self.put(metrics, METRICS_BEFORE, &line)?;
            self.put(metrics, METRICS_BEFORE + METRIC_RING * METRIC, &1_u64.to_le_bytes())?;
        }
        self.write_cycle_table()
    }

    fn restore_senses(&self, senses: &Senses) -> Result<(), GpuError> {
        let to = &self.layout;
        let (table, weights, covariance) = (to.senses, to.weights, to.covariance);
        let mut bytes = vec![0; SENSES];
        let mut pen = Pen::new(&mut bytes);
        let nine = [
            &senses.sensors,
            &senses.change,
            &senses.learned,
            &senses.mean,
            &senses.predicted,
            &senses.persistent,
            &senses.climatic,
            &senses.agreement,
            &senses.power,
        ];
        for vector in nine {
            put(&mut pen, vector, MAX_SENSORS);
        }
        put(&mut pen, &senses.regressors, HELD);
        put(&mut pen, &[], 2 * HELD);
        put(&mut pen, &senses.errors, ERROR_RING);
        let filled = senses.errors.len() as u32;
        pen.f64s(&[senses.errors.last().copied().unwrap_or(0.0)]).u64s(&[senses.observed]);
        pen.f32s(&[0.0; MAX_SENSORS]).u32s(&[filled % ERROR_RING as u32, filled, senses.turn as u32]);
        self.put(table, 0, &bytes)?;
        self.put(weights, 0, &bytes_of_f64(senses.weights.iter().copied()))?;
        self.put(covariance, 0, &bytes_of_f64(senses.covariance.iter().copied()))
    }

    fn restore_bank(&mut self, bank: &Experiences) -> Result<(), GpuError> {
        let to = &self.layout;
        let coarse = Coarse::new(&bank.rows);
        let f32s = |numbers: &[f32]| bytes_of_f32(numbers.iter().copied());
        let last_use = bank.last_use.iter().flat_map(|cycle| cycle.to_le_bytes()).collect();
        let written = [
            (to.exact, f32s(&bank.rows)),
            (to.coarse, coarse.bytes),
            (to.scale, f32s(&coarse.scale)),
            (to.error, f32s(&coarse.error)),
            (to.value, bytes_of_f64(bank.value.iter().copied())),
            (to.last_use, last_use),
        ];
        self.bank_copy.replace(bank);
        for (place, bytes) in written {
            self.put(place, 0, &bytes)?;
        }
        let mut table = [0; SWEEP];
        let mut pen = Pen::new(&mut table);
        for place in 0..BANK_TOP {
            let (row, cosine) = bank.running.get(place).copied().unwrap_or((NO_ROW, -2.0));
            pen.f64s(&[cosine]).u32s(&[row, 0]);
        }
        pen.u32s(&[bank.next_part.unwrap_or(0) as u32, 0]);
        let sweep = self.layout.sweep;
        self.put(sweep, 0, &table)
    }

    fn restore_answer(&self, live: &Live) -> Result<(), GpuError> {
        let mut answer = DeviceAnswer { cycle: live.cycle, ..DeviceAnswer::START };
        answer.prediction.iter_mut().zip(&live.senses.prediction).for_each(|(to, p)| *to = *p);
        answer.experiences = live.bank.value.len() as u32;
        answer.blended = live.blend.len().min(BLEND_TOP) as u32;
        for (place, (slot, weight)) in live.blend.iter().take(BLEND_TOP).enumerate() {
            (answer.slot[place], answer.weight[place]) = (*slot, *weight);
        }
        answer.nearest = live.bank.nearest.len().min(BANK_TOP) as u32;
        for (place, (row, cosine)) in live.bank.nearest.iter().take(BANK_TOP).enumerate() {
            (answer.row[place], answer.cosine[place]) = (*row, *cosine);
        }
        answer.novelty =
            live.bank.nearest.first().map_or(1.0, |(_, cosine)| (1.0 - cosine).clamp(0.0, 1.0) as f32);
        let mut table = [0; ANSWER];
        answer.write(&mut table);
        self.put(self.layout.answer, 0, &table)
    }

    /// Reads the part that came from outside: read-out and library.
    pub fn learned(&mut self) -> Result<Learned, GpuError> {
        let (shape, to) = (self.plan.shape, &self.layout);
        let (readout, stored) = (to.readout, to.stored);
        let mut learned = Learned { readout: vec![0.0; shape.weights()], ..Learned::default() };
        self.get_f32s(readout, &mut learned.readout)?;
        let mut bytes = vec![0; shape.patterns * size_of::<u32>()];
        self.get(stored, 0, &mut bytes)?;
        let mut marks = vec![0; shape.patterns];
        Eye::new(&bytes).read_u32s(&mut marks);
        for (slot, mark) in marks.into_iter().enumerate() {
            learned.patterns.push(if mark == 0 { None } else { Some(self.given_pattern(slot)?) });
        }
        Ok(learned)
    }

    /// A pattern without its value, which the device does not need.
    fn given_pattern(&mut self, slot: usize) -> Result<Pattern, GpuError> {
        let to = &self.layout;
        let contexts = to.contexts;
        let mut bytes = vec![0; volume_bytes(self.plan.shape.cells())];
        let from = self.slot(slot)?[0];
        self.each_piece_at(from, bytes.len(), |begin, piece| {
            bytes[begin..][..piece.len()].copy_from_slice(piece);
        })?;
        let mut volume = vec![0; PATTERN * self.plan.shape.cells()];
        Eye::new(&bytes).read_i16s(&mut volume);
        let mut bytes = vec![0; CONTEXT * size_of::<f64>()];
        self.get(contexts, slot * bytes.len(), &mut bytes)?;
        let mut context = vec![0.0; CONTEXT];
        Eye::new(&bytes).read_f64s(&mut context);
        Ok(Pattern { volume, context, value: 0.0, fine: None })
    }

    /// Writes the part that came from outside: read-out and library.
    pub fn load(&mut self, learned: &Learned) -> Result<(), GpuError> {
        self.set_readout(&learned.readout)?;
        let to = &self.layout;
        let (contexts, stored) = (to.contexts, to.stored);
        let marks = learned.patterns.iter().map(|pattern| u32::from(pattern.is_some()));
        self.put(stored, 0, &bytes_of_u32(marks))?;
        for (slot, pattern) in learned.patterns.iter().enumerate() {
            let Some(pattern) = pattern else { continue };
            let half = self.start.halved(&pattern.volume);
            let volumes = [&pattern.volume, &half].map(|steps| bytes_of_i16(steps.iter().copied()));
            self.put_volumes(slot, [&volumes[0], &volumes[1]])?;
            let context = bytes_of_f64(pattern.context.iter().copied());
            self.put(contexts, slot * context.len(), &context)?;
        }
        Ok(())
    }
}

/// Writes doubles, and zeros up to a total of `held`.
fn put(pen: &mut Pen, numbers: &[f64], held: usize) {
    pen.f64s(numbers);
    (numbers.len()..held).for_each(|_| {
        pen.f64s(&[0.0]);
    });
}

const _: () = assert!(CHANNELS.is_multiple_of(GROUPS));
