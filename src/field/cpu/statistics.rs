//! Mean, standard deviation, largest magnitude and mean square of many cells, for the metrics.

/// Partial sums, so that the loop vectorises.
const LANES: usize = 16;
/// Cells summed in f32 before the total is added in f64; few enough that the rounding error is negligible.
const RUN: usize = 512;

/// The sums so far.
#[derive(Default)]
pub struct Statistics {
    count: usize,
    sum: f64,
    square: f64,
    max: f32,
}

impl Statistics {
    /// Adds cells; their number is a multiple of 512.
    pub fn add(&mut self, cells: &[f32]) {
        for run in cells.as_chunks::<RUN>().0 {
            let (mut sum, mut square, mut max) = ([0.0; LANES], [0.0; LANES], [0.0_f32; LANES]);
            for cells in run.as_chunks::<LANES>().0 {
                for lane in 0..LANES {
                    let u = cells[lane];
                    sum[lane] += u;
                    square[lane] += u * u;
                    max[lane] = if u.abs() > max[lane] { u.abs() } else { max[lane] };
                }
            }
            self.count += RUN;
            self.sum += f64::from(sum.iter().sum::<f32>());
            self.square += f64::from(square.iter().sum::<f32>());
            self.max = max.into_iter().fold(self.max, f32::max);
        }
    }

    /// Mean, standard deviation, largest |u|, mean square.
    pub fn mean_std_max_energy(&self) -> [f32; 4] {
        let count = self.count.max(1) as f64;
        let (mean, energy) = (self.sum / count, self.square / count);
        let std = (energy - mean * mean).max(0.0).sqrt();
        [mean as f32, std as f32, self.max, energy as f32]
    }
}
