//! The dispatcher runs each batch of the memory's operations on the processor or on the GPU, depending on its
//! size and on the measured crossings or the user's preference ([`Choice::takes_gpu`]). Both give the same
//! bits, so the caller cannot tell them apart, except by [`Dispatcher::answered`].
//!
//! A batch that does not fit into the GPU's memory runs on the processor. If the GPU fails in the middle, the
//! processor repeats the batch, the loss is recorded ([`Answered::lost`], [`Dispatcher::loss`]), and the GPU
//! is closed: it is not tried again for the life of this dispatcher. A GPU and its dispatcher belong to the
//! thread that opened the GPU. Operations wait for the GPU, so a real-time thread must not own a dispatcher.

use super::choice::{Choice, Preference, Residence, Work};
use super::dim::Dim;
use super::fault::Fault;
use super::gpu::{GpuWorkspace, GpuWorkspaceFault, Room};
use super::nearest::Best;
use super::ops::{Length, Verb, Workspace};
use super::store::Store;
use crate::base::time::Span;
use serde::Serialize;
use std::path::Path;

/// How many batches ran on which device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Answered {
    /// Batches on the processor, including those that it repeated after the GPU had failed.
    pub processor: u64,
    /// Batches on the GPU.
    pub gpu: u64,
    /// Batches that the GPU began and did not finish.
    pub lost: u64,
}

/// Runs batches of rows of one length.
pub struct Dispatcher {
    workspace: Workspace,
    gpu: Option<GpuWorkspace>,
    choice: Choice,
    /// [`Store::content`] of the store of which the GPU holds a copy.
    held: Option<u64>,
    answered: Answered,
    loss: Option<GpuWorkspaceFault>,
}

impl Dispatcher {
    /// A dispatcher with a GPU that is already open.
    pub fn new(gpu: GpuWorkspace, choice: Choice) -> Dispatcher {
        let workspace = Workspace::new(gpu.dim());
        let answered = Answered::default();
        Dispatcher { workspace, gpu: Some(gpu), choice, held: None, answered, loss: None }
    }

    /// A dispatcher without a GPU, for the reason stated in `choice`.
    pub fn on_processor(dim: Dim, choice: Choice) -> Dispatcher {
        let (workspace, answered) = (Workspace::new(dim), Answered::default());
        Dispatcher { workspace, gpu: None, choice, held: None, answered, loss: None }
    }

    /// Opens the GPU of this machine, if there is one, and decides as [`Choice::of`] does. If the processor
    /// is preferred, no driver is called.
    pub fn open(
        dim: Dim,
        room: Room,
        preference: Preference,
        file: Option<&Path>,
        within: Span,
    ) -> Dispatcher {
        if preference == Preference::Processor {
            return Dispatcher::on_processor(dim, Choice::processor());
        }
        match GpuWorkspace::open(dim, room) {
            Ok(mut gpu) => {
                let choice = Choice::of(&mut gpu, preference, file, within);
                Dispatcher::new(gpu, choice)
            }
            Err(unfit) => Dispatcher::on_processor(dim, Choice::without(unfit)),
        }
    }

    /// The choice, and the reason for it.
    pub fn choice(&self) -> &Choice {
        &self.choice
    }

    /// How many batches have run on each device.
    pub fn answered(&self) -> Answered {
        self.answered
    }

    /// Why there is no GPU any more; `None`: it has not failed.
    pub fn loss(&self) -> Option<GpuWorkspaceFault> {
        self.loss
    }

    /// The GPU, for the caller's own measurements. Afterwards, the dispatcher copies the store to the GPU
    /// again before the next search.
    pub fn gpu_mut(&mut self) -> Option<&mut GpuWorkspace> {
        self.held = None;
        self.gpu.as_mut()
    }

    /// The smallest batch that runs on the GPU; `None` if every batch runs on the processor.
    pub fn smallest_on_gpu(&self, work: Work) -> Option<usize> {
        let room = self.gpu.as_ref()?.room();
        let most = if work == Work::CleanUp { room.store } else { room.rows };
        let from = self.choice.gpu_from(work, residence_of(work))?;
        usize::try_from(from).ok().map(|from| from.max(1)).filter(|from| *from <= most)
    }

    /// Runs [`Workspace::bind`] on the device chosen for a batch of this size.
    pub fn bind(&mut self, a: &[f32], b: &[f32], length: Length, out: &mut [f32]) -> Result<(), Fault> {
        self.convolve(Verb::Bind, a, b, length, out)
    }

    /// Runs [`Workspace::unbind`] on the device chosen for a batch of this size.
    pub fn unbind(
        &mut self,
        bound: &[f32],
        key: &[f32],
        length: Length,
        out: &mut [f32],
    ) -> Result<(), Fault> {
        self.convolve(Verb::Unbind, bound, key, length, out)
    }

    /// Binds or unbinds.
    pub fn convolve(
        &mut self,
        verb: Verb,
        a: &[f32],
        b: &[f32],
        length: Length,
        out: &mut [f32],
    ) -> Result<(), Fault> {
        let rows = a.len() / self.workspace.dim().get();
        if let Some(gpu) = self.gpu_for(Work::Bind, rows) {
            let done = gpu.convolve(verb, a, b, length, out);
            if let Some(answer) = self.settled(done) {
                return answer;
            }
        }
        self.answered.processor += 1;
        match verb {
            Verb::Bind => self.workspace.bind(a, b, length, out),
            Verb::Unbind => self.workspace.unbind(a, b, length, out),
        }
    }

    /// Runs [`Workspace::superpose`] on the device chosen for a batch of this size.
    pub fn superpose(
        &mut self,
        rows: &[f32],
        weights: Option<&[f32]>,
        length: Length,
        out: &mut [f32],
    ) -> Result<(), Fault> {
        let count = rows.len() / self.workspace.dim().get();
        if let Some(gpu) = self.gpu_for(Work::Superpose, count) {
            let done = gpu.superpose(rows, weights, length, out);
            if let Some(answer) = self.settled(done) {
                return answer;
            }
        }
        self.answered.processor += 1;
        self.workspace.superpose(rows, weights, length, out)
    }

    /// Runs [`Store::nearest`] on the device chosen for a store of this size. The GPU keeps a copy of the
    /// last store that it searched; the copy is repeated if the next search is in another store, or in the
    /// same one after a change. The crossing was measured without the time for that copy.
    pub fn nearest(&mut self, store: &Store, queries: &[f32], best: &mut [Best]) -> Result<(), Fault> {
        if store.dim() != self.workspace.dim() {
            let (found, wanted) = (store.dim().get(), self.workspace.dim().get());
            return Err(Fault::OtherDimension { what: "the store", found, wanted });
        }
        let (content, held) = (Some(store.content()), self.held);
        if let Some(gpu) = self.gpu_for(Work::CleanUp, store.len())
            && best.len() <= gpu.room().queries
        {
            let copied = if held == content { Ok(()) } else { gpu.hold(store) };
            let done = copied.and_then(|()| gpu.nearest(queries, best));
            // After a failed copy the GPU holds nothing.
            self.held = if copied.is_ok() { content } else { None };
            if let Some(answer) = self.settled(done) {
                return answer;
            }
        }
        self.answered.processor += 1;
        store.nearest(queries, best)
    }

    /// The GPU, if a batch of this size belongs there and fits.
    fn gpu_for(&mut self, work: Work, rows: usize) -> Option<&mut GpuWorkspace> {
        let belongs = self.choice.takes_gpu(work, residence_of(work), rows);
        let fits = |gpu: &&mut GpuWorkspace| {
            rows <= if work == Work::CleanUp { gpu.room().store } else { gpu.room().rows }
        };
        self.gpu.as_mut().filter(|_| belongs).filter(fits)
    }

    /// The result from the GPU; `None`: the GPU has failed, and the processor has to repeat the batch.
    fn settled(&mut self, done: Result<(), GpuWorkspaceFault>) -> Option<Result<(), Fault>> {
        match done {
            Ok(()) => {
                self.answered.gpu += 1;
                Some(Ok(()))
            }
            Err(GpuWorkspaceFault::Preference(fault)) => Some(Err(fault)),
            Err(loss) => {
                self.answered.lost += 1;
                self.loss = Some(loss);
                (self.gpu, self.held) = (None, None);
                None
            }
        }
    }
}

/// Where the rows of a batch are at its start: a store is on the GPU, everything else is in the caller's
/// memory.
fn residence_of(work: Work) -> Residence {
    match work {
        Work::Bind | Work::Superpose => Residence::Host,
        Work::CleanUp => Residence::Gpu,
    }
}
