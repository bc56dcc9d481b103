//! The brain of one robot on a device: its memory, its library, what is due in its next cycle, and the data
//! that it exchanges with the host. `between` reads and writes it between cycles, `state` and `save` copy
//! whole states.

use super::bank_copy::BankCopy;
use super::brains::RobotKey;
use super::desk::Desk;
use super::launcher::Launcher;
use super::launches::Launches;
use super::layout::{BufferRange, Layout};
use super::library::Library;
use super::save::Drain;
use super::schedule::Schedule;
use super::start::Start;
use super::tables::DeviceAnswer;
use crate::base::plan::FieldPlan;
use crate::base::time::Span;
use crate::field::FieldInput;
use crate::field::sensor_ring::SensorRing;
use crate::field::shape::DESCRIPTOR;
use crate::system::gpu::{GpuError, Pool};
use std::rc::Rc;

/// The brain of a robot. Fields are dropped in order: its memory before the device.
pub struct Brain {
    pub(super) drain: Drain,
    pub(super) pool: Pool,
    pub(super) library: Library,
    pub(super) desk: Desk,
    pub(super) bank_copy: BankCopy,
    pub(super) layout: Layout,
    pub(super) start: Rc<Start>,
    pub(super) schedule: Schedule,
    pub(super) plan: FieldPlan,
    pub(super) key: RobotKey,
    pub(super) launcher: Rc<Launcher>,
}

impl Brain {
    /// A brain in its initial state. Allocates all its memory of host and device here, except that of the
    /// library.
    pub fn open(
        plan: &FieldPlan,
        key: RobotKey,
        start: Rc<Start>,
        launcher: Rc<Launcher>,
        sensors: Option<&SensorRing>,
    ) -> Result<Brain, GpuError> {
        let gpu = &launcher.gpu;
        let layout = Layout::new(plan, start.connections(), launcher.kernels.scan_blocks());
        let (pool, desk) = (Pool::take(gpu, layout.bytes)?, Desk::new(gpu, sensors)?);
        let mut brain = Brain {
            drain: Drain::new(gpu, layout.saved.bytes)?,
            pool,
            library: Library::new(plan),
            desk,
            bank_copy: BankCopy::new(plan.shape.bank),
            layout,
            start,
            schedule: Schedule::new(plan),
            plan: plan.clone(),
            key,
            launcher,
        };
        brain.write_start()?;
        Ok(brain)
    }

    /// Bytes on the device, and pinned bytes of the host.
    pub fn memory(&self) -> (usize, usize) {
        (self.pool.bytes() + self.library.bytes(), self.drain.bytes() + self.desk.bytes())
    }

    /// The address of a buffer.
    pub(super) fn address(&self, place: BufferRange) -> u64 {
        self.pool.address() + place.at as u64
    }

    /// Writes the orders of the next cycle for the device; returns which launches it needs.
    pub fn lay(&mut self, input: &FieldInput) -> Launches {
        let was_on_half = self.schedule.state().on_half;
        let orders = self.schedule.schedule(input);
        self.desk.lay(orders, input);
        Launches {
            on_half: orders.on_half,
            moves: was_on_half != orders.on_half,
            steps: orders.count.into_iter().max().unwrap_or(1).max(1),
        }
    }

    /// After a cycle: the answer, and how long the cycle took on the device's clock.
    pub fn take(&mut self) -> (DeviceAnswer, Span) {
        let report = self.desk.report();
        let mut exact = [0.0; DESCRIPTOR];
        if let Some(touched) = self.desk.touched(&mut exact) {
            self.bank_copy.touch(&touched, &exact);
        }
        self.schedule.settle();
        (report.answer, self.launcher.gpu.as_reported(report.lasted))
    }

    /// Runs every kernel of a cycle and every graph for a single robot at least once, so that nothing is
    /// loaded or initialised during a later cycle, and then resets the field. `timeout` limits the first run.
    pub fn rehearse(&mut self, timeout: Span) -> Result<(), GpuError> {
        let launcher = self.launcher.clone();
        let launches = self.lay(&FieldInput::AT_REST);
        launcher.replay(launches, std::iter::once(&*self))?;
        launcher.waiting.until_reported(|| self.desk.is_reported(), &launcher.main, Span::ZERO, timeout)?;
        self.take();
        for launches in launcher.all_launches() {
            self.desk.lay(&launches.rehearsal(), &FieldInput::AT_REST);
            launcher.replay(launches, std::iter::once(&*self))?;
            launcher.settle()?;
        }
        launcher.launch_alone(self, launcher.kernels.metrics(true))?;
        self.reset()
    }
}
