//! How each kernel is launched: names, geometry and order, as `kernels/README.md` states them. Knows the
//! shape of a plan and the size of a device; launches nothing itself.

use crate::base::plan::FieldPlan;
use crate::field::shape::{CHANNELS, GROUP, GROUPS, regressors};
use crate::system::gpu::{GpuError, Image, Kernel};

/// Threads of the kernels that have no other number.
const BLOCK: u32 = 256;
/// Warps of such a block: a row each.
const WARPS: usize = 8;
/// Most blocks of a scan: each leaves a list to be merged.
const MOST_SCAN_BLOCKS: usize = 64;
/// Blocks a multiprocessor can be given at the least, so that one waits for memory while another computes.
const BLOCKS_EACH: usize = 2;

/// How the work is cut for one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Planes of a slab of `evolve`, on the whole grid: a divisor of a quarter of it.
    pub planes: usize,
    /// Blocks of a scan of the bank.
    pub scan_blocks: usize,
}

impl Cut {
    /// The thickest slabs (each reads two planes more than it writes) that still give every multiprocessor
    /// work.
    pub fn of(grid: usize, robots: usize, multiprocessors: u32) -> Cut {
        let wanted = BLOCKS_EACH * multiprocessors.max(1) as usize;
        let mut planes = grid / 4;
        while planes > 1 && grid / planes * GROUPS * robots < wanted {
            planes /= 2;
        }
        Cut { planes, scan_blocks: (wanted / robots).clamp(1, MOST_SCAN_BLOCKS) }
    }
}

/// A launch without its table: what a graph is made of.
#[derive(Clone, Copy)]
pub struct Step {
    /// The kernel.
    pub kernel: Kernel,
    /// Blocks along x and y; z is robots.
    pub grid: [u32; 2],
    /// Threads of a block.
    pub block: u32,
    /// `Launch::number`, `Launch::planes`.
    pub words: [u32; 2],
}

/// The kernels, ready to be launched.
pub struct Kernels {
    sense: Kernel,
    learn_gain: Kernel,
    learn_apply: Kernel,
    evolve: [Kernel; 2],
    features: Kernel,
    library: Kernel,
    bank_scan: Kernel,
    bank_score: Kernel,
    remember: Kernel,
    predict: Kernel,
    motor: Kernel,
    metrics: Kernel,
    deliver: Kernel,
    enter_half: Kernel,
    leave_half: Kernel,
    experience: Kernel,
    plan: FieldPlan,
    cut: Cut,
}

impl Kernels {
    /// Finds them in an image.
    pub fn new(image: &Image, plan: &FieldPlan, cut: Cut) -> Result<Kernels, GpuError> {
        let grid = plan.shape.grid;
        let evolve = |grid: usize| image.kernel(&format!("evolve_{grid}"));
        Ok(Kernels {
            sense: image.kernel("sense")?,
            learn_gain: image.kernel("learn_gain")?,
            learn_apply: image.kernel("learn_apply")?,
            evolve: [evolve(grid)?, evolve(grid / 2)?],
            features: image.kernel("features")?,
            library: image.kernel("library")?,
            bank_scan: image.kernel("bank_scan_bytes")?,
            bank_score: image.kernel("bank_score")?,
            remember: image.kernel("remember")?,
            predict: image.kernel("predict")?,
            motor: image.kernel("motor")?,
            metrics: image.kernel("metrics")?,
            deliver: image.kernel("deliver")?,
            enter_half: image.kernel("enter_half")?,
            leave_half: image.kernel("leave_half")?,
            experience: image.kernel("experience")?,
            plan: plan.clone(),
            cut,
        })
    }

    /// Names of all that a cycle may launch.
    pub fn names(plan: &FieldPlan) -> Vec<String> {
        let grid = plan.shape.grid;
        let evolve = [grid, grid / 2].map(|grid| format!("evolve_{grid}"));
        let rest = [
            "sense",
            "learn_gain",
            "learn_apply",
            "features",
            "library",
            "bank_scan_bytes",
            "bank_score",
            "remember",
            "predict",
            "motor",
            "metrics",
            "deliver",
            "enter_half",
            "leave_half",
            "experience",
        ];
        evolve.into_iter().chain(rest.map(str::to_string)).collect()
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

    /// The move to the other grid, `to_half` or back.
    pub fn movement(&self, to_half: bool) -> Step {
        let blocks = (self.plan.shape.cells() / 8).div_ceil(BLOCK as usize);
        let kernel = if to_half { self.enter_half } else { self.leave_half };
        Kernels::step(kernel, [CHANNELS, blocks], BLOCK, [0, 0])
    }

    /// Step 1.
    pub fn sense(&self) -> Step {
        Kernels::step(self.sense, [1, 1], 64, [0, 0])
    }

    /// The learning that looks back.
    pub fn learning(&self) -> [Step; 2] {
        let (columns, sensors) = (regressors(self.plan.shape.sensors), self.plan.shape.sensors);
        let warps = |rows: usize| [rows.div_ceil(WARPS), 1];
        [
            Kernels::step(self.learn_gain, warps(columns), BLOCK, [0, 0]),
            Kernels::step(self.learn_apply, warps(columns + sensors), BLOCK, [0, 0]),
        ]
    }

    /// One sub-step of the field.
    pub fn evolve(&self, on_half: bool, sub_step: u32) -> Step {
        let (n, planes) = (self.n(on_half), self.planes(on_half));
        // A thread has four cells of a plane; small planes share a block.
        let team = (n * n / 4).min(BLOCK as usize);
        let block = (team * (BLOCK as usize / team).min(GROUP)) as u32;
        let kernel = self.evolve[usize::from(on_half)];
        Kernels::step(kernel, [n / planes, GROUPS], block, [sub_step as usize, planes])
    }

    /// Sums to features.
    pub fn features(&self, on_half: bool) -> Step {
        let side = self.n(on_half) / 4;
        let block = (side * side * side).clamp(32, 128) as u32;
        Kernels::step(self.features, [64, GROUPS], block, [0, self.planes(on_half)])
    }

    /// The match with the library.
    pub fn library(&self) -> Step {
        Kernels::step(self.library, [1, 1], BLOCK, [0, 0])
    }

    /// The match with the bank, and the new experience.
    pub fn bank(&self) -> [Step; 3] {
        let blocks = self.cut.scan_blocks;
        [
            Kernels::step(self.bank_scan, [blocks, 1], BLOCK, [0, 0]),
            Kernels::step(self.bank_score, [blocks, 1], BLOCK, [0, 0]),
            Kernels::step(self.remember, [1, 1], BLOCK, [blocks, 1]),
        ]
    }

    /// The next prediction, and the motors.
    pub fn answer(&self) -> [Step; 2] {
        let shape = self.plan.shape;
        [
            Kernels::step(self.predict, [shape.sensors.div_ceil(WARPS), 1], BLOCK, [0, 0]),
            Kernels::step(self.motor, [shape.motors, 1], BLOCK, [0, 0]),
        ]
    }

    /// The metrics; `now`: though they are not due.
    pub fn metrics(&self, now: bool) -> Step {
        Kernels::step(self.metrics, [CHANNELS, 1], BLOCK, [usize::from(now), 0])
    }

    /// The answer to the host.
    pub fn deliver(&self) -> Step {
        Kernels::step(self.deliver, [1, 1], 96, [0, 0])
    }

    /// An experience from outside.
    pub fn experience(&self) -> Step {
        Kernels::step(self.experience, [1, 1], BLOCK, [0, 1])
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
