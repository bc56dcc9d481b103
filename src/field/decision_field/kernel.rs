//! A Gaussian kernel on one to three axes: the sites' outputs are convolved along one axis after the other.
//! Beyond the end of an axis that is not circular the output is 0.

use super::Axis;

/// A Gaussian is truncated at this many standard deviations, as in COSIVINA.
const CUTOFF: f64 = 5.0;

/// A normalised Gaussian times a strength, with the memory that its application needs.
#[derive(Clone, Debug)]
pub(super) struct Kernel {
    strength: f32,
    passes: Vec<Pass>,
    between: [Vec<f32>; 2],
}

/// The convolution along one axis.
#[derive(Clone, Debug)]
struct Pass {
    /// Weight of the site itself, then of its neighbours at distance 1, 2 and so on, on either side.
    weights: Vec<f32>,
    circular: bool,
    /// Distance in the array between two neighbours on this axis.
    stride: usize,
    /// Length of a contiguous part of the array that has all sites of this axis.
    length: usize,
}

impl Kernel {
    /// `width` is the standard deviation in sites.
    pub(super) fn new(axes: &[Axis], strength: f32, width: f32) -> Kernel {
        let mut stride = 1;
        let mut passes = Vec::with_capacity(axes.len());
        for axis in axes {
            let length = stride * axis.sites;
            passes.push(Pass { weights: gaussian(*axis, width), circular: axis.circular, stride, length });
            stride = length;
        }
        let sites = if strength == 0.0 { 0 } else { stride };
        Kernel { strength, passes, between: [vec![0.0; sites], vec![0.0; sites]] }
    }

    /// Adds the convolution of `output` to `sum`.
    pub(super) fn add(&mut self, output: &[f32], sum: &mut [f32]) {
        if self.strength == 0.0 {
            return;
        }
        let [from, to] = &mut self.between;
        from.copy_from_slice(output);
        for pass in &self.passes {
            pass.apply(from, to);
            std::mem::swap(from, to);
        }
        add_times(sum, from, self.strength);
    }
}

impl Pass {
    fn apply(&self, from: &[f32], to: &mut [f32]) {
        for (from, to) in from.chunks_exact(self.length).zip(to.chunks_exact_mut(self.length)) {
            to.fill(0.0);
            add_times(to, from, self.weights[0]);
            for (distance, weight) in self.weights.iter().enumerate().skip(1) {
                let shift = distance * self.stride;
                let rest = self.length - shift;
                add_times(&mut to[shift..], &from[..rest], *weight);
                add_times(&mut to[..rest], &from[shift..], *weight);
                if self.circular {
                    add_times(&mut to[..shift], &from[rest..], *weight);
                    add_times(&mut to[rest..], &from[..shift], *weight);
                }
            }
        }
    }
}

/// One half of a normalised Gaussian, its middle first.
fn gaussian(axis: Axis, width: f32) -> Vec<f32> {
    let width = f64::from(width);
    let farthest = if axis.circular { (axis.sites - 1) / 2 } else { axis.sites - 1 };
    let reach = (libm::ceil(CUTOFF * width) as usize).min(farthest);
    let weight = |distance: usize| libm::exp(-0.5 * (distance as f64 / width) * (distance as f64 / width));
    let sum = weight(0) + 2.0 * (1..=reach).map(weight).sum::<f64>();
    (0..=reach).map(|distance| (weight(distance) / sum) as f32).collect()
}

fn add_times(to: &mut [f32], from: &[f32], weight: f32) {
    for (to, from) in to.iter_mut().zip(from) {
        *to += weight * from;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What one active site at `at` adds to each site.
    fn spread(axes: &[Axis], at: usize) -> Vec<f32> {
        let sites = axes.iter().map(|axis| axis.sites).product();
        let mut output = vec![0.0; sites];
        output[at] = 1.0;
        let mut sum = vec![0.0; sites];
        Kernel::new(axes, 2.0, 1.5).add(&output, &mut sum);
        sum
    }

    #[test]
    fn a_circular_axis_wraps_and_a_bounded_one_loses() {
        let ring = spread(&[Axis { sites: 30, circular: true }], 1);
        assert!((ring.iter().sum::<f32>() - 2.0).abs() < 1e-5);
        assert_eq!(ring[0], ring[2]);
        assert_eq!(ring[29], ring[3], "two sites away on either side");
        let line = spread(&[Axis { sites: 30, circular: false }], 1);
        assert_eq!(line[..9], ring[..9]);
        assert_eq!(line[29], 0.0);
        assert!(line.iter().sum::<f32>() < 1.9);
    }

    #[test]
    fn three_axes_are_the_product_of_three() {
        let axes = [7, 6, 5].map(|sites| Axis { sites, circular: false });
        let sum = spread(&axes, (2 * 6 + 3) * 7 + 4);
        let weight = |axis: usize, distance: usize| gaussian(axes[axis], 1.5)[distance];
        for (x, y, z) in [(4, 3, 2), (0, 3, 2), (4, 0, 2), (4, 3, 4), (6, 5, 0), (0, 0, 0)] {
            let expected = 2.0
                * weight(0, 4_usize.abs_diff(x))
                * weight(1, 3_usize.abs_diff(y))
                * weight(2, 2_usize.abs_diff(z));
            let found = sum[(z * 6 + y) * 7 + x];
            assert!((found - expected).abs() < 1e-6, "{x} {y} {z}: {found} instead of {expected}");
        }
    }
}
