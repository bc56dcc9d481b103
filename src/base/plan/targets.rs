//! The targets that `ganglion bench all` checks on a machine.

use crate::base::time::Span;

/// The targets of a machine with this board; `None`: no target. Nothing at run time depends on these targets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Targets {
    /// Time of a tick from start to end, 99th percentile, microseconds, at most.
    pub tick_p99_us: Option<f64>,
    /// p99 of the lateness of the loop's wake-ups divided by p99 of a bare timer's, at most.
    pub wake_ratio: Option<f64>,
    /// A field cycle at full quality (level 0), median, at most.
    pub cycle_p50: Option<Span>,
    /// The same, 99th percentile.
    pub cycle_p99: Option<Span>,
    /// 99.9th percentile of the cycle divided by its median, at most.
    pub tail_ratio: Option<f64>,
    /// Time of a cycle at quality level 0 divided by that at level 5, at least.
    pub level5_ratio: Option<f64>,
    /// Time of a cycle in f32 storage divided by that in f16 storage, at least.
    pub f16_ratio: Option<f64>,
    /// Memory that the field takes at the start, in MB of 10^6 bytes, at most.
    pub memory_mb: Option<f64>,
    /// Latency from the edge on a sensor's line to the last edge on a motor's line, 99.9th percentile, at
    /// most; for `ganglion hil`.
    pub sensor_to_motor: Option<Span>,
    /// Targets for its GPU.
    pub gpu: GpuTargets,
}

/// The targets of such a machine's GPU with a full field: 64 x 32^3, a library of 100 patterns, a bank of
/// 10,000 x 512.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GpuTargets {
    /// A cycle of one robot in f32 storage, launch to result on the host, median, microseconds, at most.
    pub cycle_us: Option<f64>,
    /// The same in f16 storage.
    pub cycle_f16_us: Option<f64>,
    /// A cycle of 64 robots in f16 storage, median, microseconds, at most.
    pub batch_us: Option<f64>,
    /// Bandwidth of evolve and features for 32 robots divided by that of a copy on the device, at least.
    pub copy_share: Option<f64>,
    /// Evolving the field, median, microseconds, at most; measured with the stages running one after another.
    pub evolve_us: Option<f64>,
    /// The gradients, median, microseconds, at most.
    pub gradients_us: Option<f64>,
    /// Prediction, read-out and metrics, median, microseconds, at most.
    pub motor_us: Option<f64>,
    /// What a cycle takes besides its kernels (queue, copies, wake-up), median, microseconds, at most.
    pub overhead_us: Option<f64>,
    /// Matching the bank, median, microseconds, at most.
    pub match_us: Option<f64>,
    /// Memory on the device for one robot, in MB of 10^6 bytes, at most.
    pub memory_mb: Option<f64>,
    /// Processor time divided by elapsed time, at 100 cycles per second, at most.
    pub host_share: Option<f64>,
    /// Binding one vector of 512 numbers, including the copies from and to the host, median, microseconds, at
    /// most. This and the targets below are for the holographic memory.
    pub hrr_bind_us: Option<f64>,
    /// Binding one vector and unbinding one, at most.
    pub hrr_pair_us: Option<f64>,
    /// Binding 100 vectors, at most.
    pub hrr_batch_us: Option<f64>,
    /// Superposing 1000 vectors, at most.
    pub hrr_superpose_us: Option<f64>,
    /// Share of the time for binding 100 vectors that their transfer to the GPU and back takes, at most.
    pub hrr_transfer_share: Option<f64>,
    /// Share of the GPU's memory that the rows take, at most.
    pub hrr_memory_share: Option<f64>,
}
