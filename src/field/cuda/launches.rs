//! Which kernels a cycle launches, and how: name, geometry and arguments, as in `kernels/README.md`. Needs
//! only the shape of a plan and the size of a device; launches nothing itself.

use super::tables::Cycle;
use crate::base::plan::FieldPlan;
use crate::field::shape::{CHANNELS, GROUP, GROUPS, regressors};
use crate::system::gpu::{GpuError, Image, Kernel};

/// Threads per block, for kernels that need no special number.
const BLOCK: u32 = 256;
/// Warps of such a block; each processes a row.
const WARPS: usize = 8;
/// Warps of a block of `sense`, which has a thread for each sensor.
const SENSE_WARPS: usize = 2;
/// Maximum number of blocks of a scan: each leaves a list that must be merged.
const MOST_SCAN_BLOCKS: usize = 64;
/// Each multiprocessor should get at least this many blocks, so that one computes while another waits for
/// memory.
const BLOCKS_EACH: usize = 2;

/// How the work is divided for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Planes of a slab of `evolve` on the full grid: a divisor of a quarter of the grid.
    pub planes: usize,
    /// Blocks of a scan of the bank.
    pub scan_blocks: usize,
}

impl Cut {
    /// Chooses the thickest slabs that still give every multiprocessor enough blocks: each slab reads two
    /// planes more than it writes, so thin slabs cost more.
    pub fn of(grid: usize, robots: usize, multiprocessors: u32) -> Cut {
        let wanted = BLOCKS_EACH * multiprocessors.max(1) as usize;
        let mut planes = grid / 4;
        while planes > 1 && grid / planes * GROUPS * robots < wanted {
            planes /= 2;
        }
        Cut { planes, scan_blocks: (wanted / robots).clamp(1, MOST_SCAN_BLOCKS) }
    }
}

/// Which launches a cycle needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Launches {
    /// The grid in use.
    pub on_half: bool,
    /// The previous cycle was on the other grid.
    pub moves: bool,
    /// The largest number of sub-steps of a group.
    pub steps: u32,
}

impl Launches {
    /// Every combination, in an order in which each cycle can follow the one before: the half grid is entered
    /// before it is used or left.
    pub fn all(most_steps: u32) -> impl Iterator<Item = Launches> {
        let grids = [(false, false), (true, true), (true, false), (false, true)];
        grids.into_iter().flat_map(move |(on_half, moves)| {
            (1..=most_steps).map(move |steps| Launches { on_half, moves, steps })
        })
    }

    /// Orders that need exactly these launches, for the rehearsal: all groups are stepped, and the sub-steps
    /// leave the cells as they are.
    pub fn rehearsal(self) -> Cycle {
        let Launches { on_half, moves: moved, steps } = self;
        let (count, hold) = ([steps; GROUPS], [1.0; GROUPS]);
        Cycle { on_half, moved, count, hold, parts: 1, ..Cycle::default() }
    }
}

/// A launch without its table; graphs are made of these.
#[derive(Clone, Copy)]
pub struct Step {
    /// The kernel.
    pub kernel: Kernel,
    /// Blocks along x and y; z is the number of robots.
    pub grid: [u32; 2],
    /// Threads of a block.
    pub block: u32,
    /// `Launch::number`, `Launch::planes_or_tasks`.
    pub words: [u32; 2],
}

/// Tasks of the kernel `answer`, as in `kernels/answer.cu`: they run in parallel, or one at a time to be
/// timed.
#[derive(Clone, Copy)]
pub enum AnswerTask {
    /// The exact comparison of the bank's rows.
    Bank = 1,
    /// The match with the library.
    Library = 2,
    /// The prediction and the motors.
    Act = 4,
}

/// The kernels, ready to be launched.
pub struct Kernels {
    sense: Kernel,
    evolve: [Kernel; 2],
    features: Kernel,
    bank_scan: Kernel,
    answer: Kernel,
    deliver: Kernel,
    metrics: Kernel,
    enter_half: Kernel,
    leave_half: Kernel,
    experience: Kernel,
    plan: FieldPlan,
    cut: Cut,
}

impl Kernels {
    /// Looks the kernels up in an image.
    pub fn new(image: &Image, plan: &FieldPlan, cut: Cut) -> Result<Kernels, GpuError> {
        let grid = plan.shape.grid;
        let evolve = |grid: usize| image.kernel(&format!("evolve_{grid}"));
        Ok(Kernels {
            sense: image.kernel("sense")?,
            evolve: [evolve(grid)?, evolve(grid / 2)?],
            features: image.kernel("features")?,
            bank_scan: image.kernel("bank_scan")?,
            answer: image.kernel("answer")?,
            deliver: image.kernel("deliver")?,
            metrics: image.kernel("metrics")?,
            enter_half: image.kernel("enter_half")?,
            leave_half: image.kernel("leave_half")?,
            experience: image.kernel("experience")?,
            plan: plan.clone(),
            cut,
        })
    }

    /// Names of all kernels that the engine launches in and between cycles.
    pub fn names(plan: &FieldPlan) -> Vec<String> {
        let grid = plan.shape.grid;
        let evolve = [grid, grid / 2].map(|grid| format!("evolve_{grid}"));
        let rest = [
            "sense",
            "features",
            "bank_scan",
            "answer",
            "deliver",
            "metrics",
            "enter_half",
            "leave_half",
            "experience",
        ];
        evolve.into_iter().chain(rest.map(str::to_string)).collect()
    }

    /// Blocks of a scan of the bank.
    pub fn scan_blocks(&self) -> usize {
        self.cut.scan_blocks
    }

    fn n(&self, on_half: bool) -> usize {
        self.plan.shape.grid / if on_half { 2 } else { 1 }
    }

    /// Planes of a slab on the grid in use.
    fn planes(&self, on_half: bool) -> usize {
        self.cut.planes.min(self.n(on_half) / 4)
    }

    fn step(kernel: Kernel, grid: [usize; 2], block: u32, words: [usize; 2]) -> Step {
        Step { kernel, grid: grid.map(|size| size as u32), block, words: words.map(|word| word as u32) }
    }

    /// The move to the other grid: to the half grid if `to_half`, else to the full one.
    pub fn movement(&self, to_half: bool) -> Step {
        let blocks = (self.plan.shape.cells() / 8).div_ceil(BLOCK as usize);
        let kernel = if to_half { self.enter_half } else { self.leave_half };
        Kernels::step(kernel, [CHANNELS, blocks], BLOCK, [0, 0])
    }

    /// Step 1, and in parallel the first half of learning: a warp for each row of the covariance.
    pub fn sense(&self) -> Step {
        let rows = regressors(self.plan.shape.sensors);
        Kernels::step(self.sense, [1 + rows.div_ceil(SENSE_WARPS), 1], 64, [0, 0])
    }

    /// One sub-step of the field.
    pub fn evolve(&self, on_half: bool, sub_step: u32) -> Step {
        let (n, planes) = (self.n(on_half), self.planes(on_half));
        // A thread computes four cells of a plane; small planes share a block.
        let team = (n * n / 4).min(BLOCK as usize);
        let block = (team * (BLOCK as usize / team).min(GROUP)) as u32;
        let kernel = self.evolve[usize::from(on_half)];
        Kernels::step(kernel, [n / planes, GROUPS], block, [sub_step as usize, planes])
    }

    /// Turns sums into features; in parallel, the second half of learning.
    pub fn features(&self, on_half: bool) -> Step {
        let side = self.n(on_half) / 4;
        let block = (side * side * side).clamp(32, 128) as u32;
        Kernels::step(self.features, [64, GROUPS + 1], block, [0, self.planes(on_half)])
    }

    /// The scan of the bank.
    pub fn scan(&self) -> Step {
        Kernels::step(self.bank_scan, [self.cut.scan_blocks, 1], BLOCK, [0, 0])
    }

    /// Some of the tasks that follow the features and the scan.
    pub fn answer(&self, tasks: &[AnswerTask]) -> Step {
        let (shape, scan) = (self.plan.shape, self.cut.scan_blocks);
        let blocks = scan + 1 + shape.sensors.div_ceil(WARPS) + shape.motors;
        let tasks = tasks.iter().map(|task| *task as usize).sum();
        Kernels::step(self.answer, [blocks, 1], BLOCK, [scan, tasks])
    }

    /// Measures the metrics; if `now`, even when they are not due.
    pub fn metrics(&self, now: bool) -> Step {
        Kernels::step(self.metrics, [CHANNELS, 1], BLOCK, [usize::from(now), 0])
    }

    /// Lets the bank store or recognise, and delivers the answer to the host.
    pub fn deliver(&self) -> Step {
        Kernels::step(self.deliver, [1, 1], BLOCK, [self.cut.scan_blocks, 0])
    }

    /// Stores an experience from outside.
    pub fn experience(&self) -> Step {
        Kernels::step(self.experience, [1, 1], BLOCK, [0, 0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smaller_devices_get_thicker_slabs() {
        let orin_nano = Cut::of(32, 1, 8);
        assert_eq!(orin_nano, Cut { planes: 8, scan_blocks: 16 });
        assert_eq!(Cut::of(32, 1, 132), Cut { planes: 1, scan_blocks: 64 }, "one robot on a large card");
        assert_eq!(Cut::of(32, 64, 132), Cut { planes: 8, scan_blocks: 4 }, "many robots");
        assert_eq!(Cut::of(8, 1, 16).planes, 2);
        assert_eq!(Cut::of(64, 1, 0).planes, 16, "a device that hides its size");
    }
}
