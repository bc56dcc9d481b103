//! A field's constants: receptive fields, and the channel weights and biases that the seed determines. In
//! f64; engines convert them once, at the start. Nothing here depends on an engine.

use super::shape::{CHANNELS, CONTENT, PATTERN_FIRST, SLOW, SLOW_FIRST};
use crate::base::plan::{FieldPlan, Params};
use crate::base::seed::{Stream, normal, uniform};

/// Number of content channels that one sensor drives.
pub const FAN_OUT: usize = 8;

/// Values of a profile below this are set to 0: added to a bias they vanish in f32, and the product of three
/// could be a subnormal number, with which some processors compute a hundred times as slowly.
const LEAST_PHI: f64 = 1e-9;

/// A profile's value for engines in f32.
pub fn cut(phi: &f64) -> f32 {
    if *phi < LEAST_PHI { 0.0 } else { *phi as f32 }
}

/// Receptive fields and weights of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Projections {
    /// phi, separable: `[sensor][axis x, y, z][cell]`, the value of the Gaussian at the cell's centre.
    pub profile: Vec<[Vec<f64>; 3]>,
    /// B: `[channel][sensor]`; zero where the sensor does not reach the channel.
    pub weight: Vec<Vec<f64>>,
    /// h: `[channel]`.
    pub bias: Vec<f64>,
    /// Value of every cell of a channel at rest (all sensors and errors 0, empty library): `[channel]`.
    pub rest: Vec<f64>,
}

impl Projections {
    /// The projections of `plan` on a grid of `grid` cells per axis.
    pub fn new(plan: &FieldPlan, grid: usize) -> Projections {
        let sensors = plan.shape.sensors;
        let mut weight = vec![vec![0.0; sensors]; CHANNELS];
        for sensor in 0..sensors {
            for (rank, channel) in content_channels(plan.seed, sensor).into_iter().enumerate() {
                weight[channel][sensor] =
                    normal(plan.seed, Stream::ReceptiveWeights, (sensor * FAN_OUT + rank) as u64);
            }
            weight[SLOW_FIRST + sensor % SLOW][sensor] = 1.0;
        }
        let bias: Vec<f64> = (0..CHANNELS).map(|c| normal(plan.seed, Stream::Bias, c as u64)).collect();
        Projections {
            profile: (0..sensors).map(|sensor| profile(sensor, grid)).collect(),
            weight,
            rest: (0..CHANNELS).map(|c| resting_value(&plan.params, c, bias[c])).collect(),
            bias,
        }
    }

    /// The same projections on half the grid: each profile's cells are averaged in pairs, so that a bump on
    /// the half grid is exactly the block mean of the bump on the full grid.
    pub fn halved(&self) -> Projections {
        let halve = |cells: &Vec<f64>| cells.chunks_exact(2).map(|two| 0.5 * (two[0] + two[1])).collect();
        let profile = self.profile.iter().map(|axes| std::array::from_fn(|axis| halve(&axes[axis])));
        Projections { profile: profile.collect(), ..self.clone() }
    }
}

/// Solves u = F(u) for a field without sensor input, in which u is the same in every cell. With the default
/// parameters the map contracts by 0.855 per step: 500 steps converge to the last bit.
fn resting_value(params: &Params, channel: usize, bias: f64) -> f64 {
    let is_pattern = (PATTERN_FIRST..SLOW_FIRST).contains(&channel);
    let share = if is_pattern { 1.0 - params.pattern_share } else { 1.0 };
    let step = |u: f64| share * (1.0 - params.beta) * libm::tanh(params.gamma * u + params.gain * bias);
    (0..500).fold(0.0, |u, _| step(u))
}

/// `FAN_OUT` different content channels, by a partial Fisher-Yates shuffle.
fn content_channels(seed: u64, sensor: usize) -> [usize; FAN_OUT] {
    let mut deck: [usize; CONTENT] = std::array::from_fn(|c| c);
    for rank in 0..FAN_OUT {
        let draw = uniform(seed, Stream::ReceptiveChannels, (sensor * FAN_OUT + rank) as u64);
        deck.swap(rank, rank + (draw * (CONTENT - rank) as f64) as usize);
    }
    std::array::from_fn(|rank| deck[rank])
}

/// Separable Gaussian around the sensor's centre, with a standard deviation of grid/8. The centres follow the
/// additive R3 sequence (Roberts 2018): from one sensor to the next, the coordinates advance by 1/r, 1/r^2
/// and 1/r^3 of the grid, modulo the grid, where r is the positive root of x^4 = x + 1. They fill the cube
/// evenly for any number of sensors.
fn profile(sensor: usize, grid: usize) -> [Vec<f64>; 3] {
    const ROOT: f64 = 1.220_744_084_605_759_5;
    let sigma = grid as f64 / 8.0;
    let mut step = 1.0;
    std::array::from_fn(|_axis| {
        step /= ROOT;
        let centre = grid as f64 * (0.5 + step * (sensor + 1) as f64).fract();
        (0..grid)
            .map(|cell| {
                let distance = (cell as f64 + 0.5 - centre) / sigma;
                libm::exp(-0.5 * distance * distance)
            })
            .collect()
    })
}
