//! Peaks of a field: connected regions where the activation is above 0.

use super::{Axis, MOST_AXES};

/// Maximum number of peaks that a search returns. More than a few indicate noise, or a field without
/// inhibition.
pub const MOST_PEAKS: usize = 32;

/// A connected region above 0. Sites are connected if they differ by one on one axis.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Peak {
    /// Centre, weighted by the activation, in sites from the first one of each axis; 0 for axes that the
    /// field does not have. On a circular axis it is at least 0 and below the number of sites.
    pub at: [f32; MOST_AXES],
    /// Number of sites.
    pub sites: usize,
    /// The largest activation.
    pub max: f32,
}

/// The memory of a search, so that it allocates nothing.
#[derive(Clone, Debug)]
pub(super) struct Search {
    seen: Vec<bool>,
    stack: Vec<usize>,
    found: Vec<Peak>,
}

impl Search {
    pub(super) fn new(axes: &[Axis]) -> Search {
        let sites = axes.iter().map(|axis| axis.sites).product();
        // Each site is put on the stack at most once.
        Search {
            seen: vec![false; sites],
            stack: Vec::with_capacity(sites),
            found: Vec::with_capacity(MOST_PEAKS),
        }
    }

    pub(super) fn peaks(&mut self, axes: &[Axis], activation: &[f32]) -> &[Peak] {
        self.seen.fill(false);
        self.found.clear();
        for site in 0..activation.len() {
            if activation[site] > 0.0 && !self.seen[site] {
                let peak = self.region(axes, activation, site);
                self.found.push(peak);
                if self.found.len() == MOST_PEAKS {
                    break;
                }
            }
        }
        &self.found
    }

    /// The region that `first` is in.
    fn region(&mut self, axes: &[Axis], activation: &[f32], first: usize) -> Peak {
        let start = coordinates(axes, first);
        let mut peak = Peak { max: activation[first], ..Peak::default() };
        let (mut sum, mut moments) = (0.0_f64, [0.0_f64; MOST_AXES]);
        self.seen[first] = true;
        self.stack.push(first);
        while let Some(site) = self.stack.pop() {
            let (at, u) = (coordinates(axes, site), f64::from(activation[site]));
            peak.sites += 1;
            peak.max = peak.max.max(activation[site]);
            sum += u;
            let mut stride = 1;
            for (number, axis) in axes.iter().enumerate() {
                moments[number] += u * away(*axis, start[number], at[number]);
                for next in neighbours(*axis, at[number]).into_iter().flatten() {
                    let neighbour = site - at[number] * stride + next * stride;
                    if activation[neighbour] > 0.0 && !self.seen[neighbour] {
                        self.seen[neighbour] = true;
                        self.stack.push(neighbour);
                    }
                }
                stride *= axis.sites;
            }
        }
        for (number, axis) in axes.iter().enumerate() {
            let at = (start[number] as f64 + moments[number] / sum) as f32;
            let sites = axis.sites as f32;
            peak.at[number] = match axis.circular {
                true if at < 0.0 => at + sites,
                true if at >= sites => at - sites,
                _ => at,
            };
        }
        peak
    }
}

/// The coordinate of a site on each axis.
fn coordinates(axes: &[Axis], site: usize) -> [usize; MOST_AXES] {
    let mut rest = site;
    let mut at = [0; MOST_AXES];
    for (at, axis) in at.iter_mut().zip(axes) {
        *at = rest % axis.sites;
        rest /= axis.sites;
    }
    at
}

/// The sites before and after `at` on this axis.
fn neighbours(axis: Axis, at: usize) -> [Option<usize>; 2] {
    let (first, last) = (0, axis.sites - 1);
    let before = if at > first { Some(at - 1) } else { axis.circular.then_some(last) };
    let after = if at < last { Some(at + 1) } else { axis.circular.then_some(first) };
    [before, after]
}

/// Signed distance from `from` to `to`, the short way round on a circular axis.
fn away(axis: Axis, from: usize, to: usize) -> f64 {
    let (sites, away) = (axis.sites as f64, to as f64 - from as f64);
    match axis.circular {
        true if away > sites / 2.0 => away - sites,
        true if away < -sites / 2.0 => away + sites,
        _ => away,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peaks(axes: &[Axis], above: &[(usize, f32)]) -> Vec<Peak> {
        let mut activation = vec![-1.0; axes.iter().map(|axis| axis.sites).product()];
        for (site, u) in above {
            activation[*site] = *u;
        }
        Search::new(axes).peaks(axes, &activation).to_vec()
    }

    #[test]
    fn a_peak_over_the_seam_of_a_ring_is_one() {
        let above = [(98, 1.0), (99, 1.0), (0, 1.0), (1, 1.0), (40, 2.0), (41, 2.0)];
        let ring = [Axis { sites: 100, circular: true }];
        let expected = [
            Peak { at: [99.5, 0.0, 0.0], sites: 4, max: 1.0 },
            Peak { at: [40.5, 0.0, 0.0], sites: 2, max: 2.0 },
        ];
        assert_eq!(peaks(&ring, &above), expected);
        let line = [Axis { sites: 100, circular: false }];
        assert_eq!(peaks(&line, &above).len(), 3);
    }

    #[test]
    fn diagonal_sites_in_three_dimensions_are_two_peaks() {
        let axes = [4, 4, 4].map(|sites| Axis { sites, circular: false });
        let site = |x: usize, y: usize, z: usize| (z * 4 + y) * 4 + x;
        let two = peaks(&axes, &[(site(1, 1, 1), 1.0), (site(2, 1, 2), 3.0)]);
        assert_eq!(two.iter().map(|peak| peak.at).collect::<Vec<_>>(), [[1.0; 3], [2.0, 1.0, 2.0]]);
        let one = peaks(&axes, &[(site(1, 1, 1), 1.0), (site(2, 1, 2), 3.0), (site(1, 1, 2), 1.0)]);
        assert_eq!(one, [Peak { at: [1.6, 1.0, 1.8], sites: 3, max: 3.0 }]);
    }

    #[test]
    fn more_peaks_than_the_most_are_cut_off() {
        let above: Vec<_> = (0..50).map(|peak| (2 * peak, 1.0)).collect();
        assert_eq!(peaks(&[Axis { sites: 100, circular: true }], &above).len(), MOST_PEAKS);
    }
}
