//! What the seed fixes for ever: receptive fields, channel weights and biases. In f64; engines
//! convert once at start. Nothing here depends on an engine.

use super::shape::{CHANNELS, CONTENT, FieldPlan, SLOW, SLOW_FIRST};
use crate::seed::{Stream, normal, uniform};

/// Content channels that one sensor drives.
pub const FAN_OUT: usize = 8;

/// Receptive fields and weights of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Wiring {
    /// phi, separable: [sensor][axis x, y, z][cell], the value of the Gaussian at the cell's centre.
    pub profile: Vec<[Vec<f64>; 3]>,
    /// B: [channel][sensor]; zero where the sensor does not reach the channel.
    pub weight: Vec<Vec<f64>>,
    /// h: [channel].
    pub bias: Vec<f64>,
}

impl Wiring {
    /// The wiring of `plan` on a grid of `grid` cells per axis (the plan's own, or half of it).
    pub fn new(plan: &FieldPlan, grid: usize) -> Wiring {
        let sensors = plan.shape.sensors;
        let mut weight = vec![vec![0.0; sensors]; CHANNELS];
        for sensor in 0..sensors {
            for (rank, channel) in content_channels(plan.seed, sensor).into_iter().enumerate() {
                weight[channel][sensor] =
                    normal(plan.seed, Stream::ReceptiveWeights, (sensor * FAN_OUT + rank) as u64);
            }
            weight[SLOW_FIRST + sensor % SLOW][sensor] = 1.0;
        }
        Wiring {
            profile: (0..sensors).map(|sensor| profile(sensor, grid)).collect(),
            weight,
            bias: (0..CHANNELS).map(|c| normal(plan.seed, Stream::Bias, c as u64)).collect(),
        }
    }
}

/// FAN_OUT different content channels, by a partial Fisher-Yates shuffle.
fn content_channels(seed: u64, sensor: usize) -> [usize; FAN_OUT] {
    let mut deck: [usize; CONTENT] = std::array::from_fn(|c| c);
    for rank in 0..FAN_OUT {
        let draw = uniform(seed, Stream::ReceptiveChannels, (sensor * FAN_OUT + rank) as u64);
        deck.swap(rank, rank + (draw * (CONTENT - rank) as f64) as usize);
    }
    std::array::from_fn(|rank| deck[rank])
}

/// Separable Gaussian of width grid/8 around the sensor's centre. Centres follow the additive
/// R3 sequence (Roberts 2018): multiples of powers of the inverse of the root of x^4 = x + 1,
/// which fill the cube evenly for any number of sensors.
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
