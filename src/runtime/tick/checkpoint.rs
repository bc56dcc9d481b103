//! The complete state that a tick keeps from slot to slot, for a replay that starts in the middle of a run.
//! Structs are destructured here without `..`, so that no new field can be forgotten.

use super::Tick;
use super::policy::Policy;
use super::senses::Senses;
use crate::base::time::SleepWatch;
use crate::system::checkpoint::{Archive, Named, ROOM, Remembers, Unfit, remember};

/// No run reaches this many slots: at 10 kHz, that would take nine hundred years.
const MOST_SLOTS: u64 = 1 << 48;

impl Remembers for Tick {
    fn walk(&mut self, archive: &mut Archive<'_>) -> Result<(), Unfit> {
        let Tick {
            clock: _,
            requests: _,
            grid,
            senses,
            policy,
            arbiter,
            motor_link,
            field,
            navigation,
            budget,
            lost,
            trace: _,
            records_dropped: _,
            loop_status: _,
            checkpoints: _,
        } = self;
        archive.part("grid");
        let mut progress = grid.progress();
        archive.value("progress", &mut progress)?;
        let (_, run, skipped) = progress;
        archive.demand("progress", run < MOST_SLOTS && skipped < MOST_SLOTS)?;
        *grid = grid.resumed(progress);
        remember!(archive: lost);
        senses.walk(archive)?;
        policy.walk(archive)?;
        arbiter.walk(archive)?;
        motor_link.walk(archive)?;
        field.walk(archive)?;
        navigation.iter_mut().try_for_each(|own| own.walk(archive))?;
        budget.walk(archive)
    }
}

impl Remembers for Senses {
    fn walk(&mut self, archive: &mut Archive<'_>) -> Result<(), Unfit> {
        // The sleep detector, the fast stops and the guard are not saved: they use only what arrives in a
        // slot, and the slot's record holds that.
        let Senses { clock: _, sleep: _, fast_stops: _, readings: _, tap: _, admission, frame, guard: _ } =
            self;
        archive.part("frame");
        let used = frame.len;
        for sample in &mut frame.samples[..used] {
            remember!(archive: sample);
        }
        admission.walk(archive)
    }
}

impl Remembers for Policy {
    fn walk(&mut self, archive: &mut Archive<'_>) -> Result<(), Unfit> {
        let Policy { reflexes, modes, backtrack } = self;
        reflexes.walk(archive)?;
        modes.walk(archive)?;
        backtrack.walk(archive)
    }
}

impl Tick {
    /// Takes a checkpoint, if one is due before the next slot.
    pub(super) fn checkpoint(&mut self) {
        let index = self.grid.index();
        if self.checkpoints.is_due(index) {
            let mut checkpoints = std::mem::take(&mut self.checkpoints);
            checkpoints.take(index, self.grid.period(), self);
            self.checkpoints = checkpoints;
        }
    }

    /// Continues from a checkpoint of a tick of the same board.
    pub fn resume(&mut self, checkpoint: &[u8]) -> Result<(), Unfit> {
        let mut archive = Archive::reader(checkpoint);
        self.walk(&mut archive)?;
        archive.part("checkpoint");
        archive.demand("end", archive.at() == checkpoint.len())?;
        self.senses.sleep = SleepWatch::new(self.clock.as_ref());
        Ok(())
    }

    /// A checkpoint of the current state, and the offset of each value in it.
    pub fn remembered(&mut self) -> Result<(Vec<u8>, Vec<Named>), Unfit> {
        let (mut room, mut names) = (vec![0; ROOM], Vec::new());
        let mut archive = Archive::naming(&mut room, &mut names);
        self.walk(&mut archive)?;
        let used = archive.at();
        room.truncate(used);
        Ok((room, names))
    }
}
