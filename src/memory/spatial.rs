//! Places as vectors: spatial semantic pointers (Komer 2019; Dumont and Eliasmith 2020). A pointer to (x, y)
//! has magnitude 1 and phase w_k . (x, y) at frequency k; binding two pointers adds their places, and the
//! cosine of two pointers falls with the distance between their places. A [`Decoder`] recovers the place from
//! a pointer. Pointers are made and decoded in f64, never in a real-time thread.

use super::dim::Dim;
use super::fault::Fault;
use super::nearest::Best;
use super::spectrum::Spectrum;
use super::store::Store;
use super::vector::finite;
use crate::base::seed::{Stream, uniform};
use std::f64::consts::{FRAC_PI_3, PI, TAU};

/// How the wave vectors of the frequencies are distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waves {
    /// Independently and uniformly in a square: the cosine of two pointers falls as sinc(x) sinc(y).
    Random,
    /// In threes at 120 degrees, uniformly over a disc: like grid cells, and the same in every direction.
    Hexagonal,
}

/// A plane on which places have pointers.
#[derive(Clone, Debug)]
pub struct Plane {
    dim: Dim,
    scale_m: f64,
    /// Radians per metre along x and y, for each frequency.
    waves: Vec<[f64; 2]>,
}

impl Plane {
    /// A plane on which the pointers to places `scale_m` metres apart have a cosine of about 0.
    pub fn new(dim: Dim, waves: Waves, scale_m: f64, seed: u64) -> Result<Plane, Fault> {
        if !(scale_m.is_finite() && scale_m > 0.0) {
            return Err(Fault::NotFinite { what: "scale", at: 0 });
        }
        let frequencies = dim.get() / 2 + 1;
        // Frequencies with a conjugate counterpart. Frequency 0 and, if d is even, d/2 have none and stay 1.
        let free = (dim.get() - 1) / 2;
        let mut all = vec![[0.0; 2]; frequencies];
        let draw = |index: usize| uniform(seed, Stream::MemoryWaves, index as u64);
        let trios = match waves {
            Waves::Random => 0,
            Waves::Hexagonal => free / 3,
        };
        let turn = draw(2 * free) * FRAC_PI_3;
        for trio in 0..trios {
            // Uniform over the area of the disc. Each trio is rotated relative to the previous one by the
            // golden ratio times 60 degrees; 60 degrees is the angle after which a trio repeats itself, apart
            // from the sign.
            let radius = PI * libm::sqrt((trio as f64 + 0.5) / trios as f64);
            let golden = (trio as f64 * 0.618_033_988_749_895) % 1.0;
            for leg in 0..3 {
                let angle = turn + golden * FRAC_PI_3 + leg as f64 * TAU / 3.0;
                all[1 + 3 * trio + leg] = [radius * libm::cos(angle), radius * libm::sin(angle)];
            }
        }
        // The remaining frequencies get independent waves; their order does not matter to a cosine.
        for k in 3 * trios..free {
            all[1 + k] = [PI * (2.0 * draw(2 * k) - 1.0), PI * (2.0 * draw(2 * k + 1) - 1.0)];
        }
        all.iter_mut().flatten().for_each(|wave| *wave /= scale_m);
        Ok(Plane { dim, scale_m, waves: all })
    }

    /// Numbers in a pointer.
    pub fn dim(&self) -> Dim {
        self.dim
    }

    /// Distance of two places, in metres, at which the cosine of their pointers has fallen to about 0.
    pub fn scale_m(&self) -> f64 {
        self.scale_m
    }

    /// The pointer to a place in metres: unitary, of length 1.
    pub fn pointer(&self, place: [f64; 2], out: &mut [f32]) -> Result<(), Fault> {
        let d = self.dim.get();
        if out.len() != d {
            return Err(Fault::Shape { what: "out", d, wanted: 1, found: out.len() });
        }
        if let Some(at) = place.iter().position(|x| !x.is_finite()) {
            return Err(Fault::NotFinite { what: "place", at });
        }
        let mut spectrum = Spectrum::flat(d);
        for (k, wave) in self.waves.iter().enumerate() {
            let phase = wave[0] * place[0] + wave[1] * place[1];
            (spectrum.re[k], spectrum.im[k]) = (libm::cos(phase), libm::sin(phase));
        }
        spectrum.to_row(out);
        Ok(())
    }

    /// The scalar product of the pointer to `place` with the vector that has this spectrum.
    fn product(&self, spectrum: &Spectrum, place: [f64; 2]) -> f64 {
        let terms = self.waves.iter().enumerate().map(|(k, wave)| {
            let phase = wave[0] * place[0] + wave[1] * place[1];
            let share = if spectrum.is_real(k) { 1.0 } else { 2.0 };
            share * (spectrum.re[k] * libm::cos(phase) + spectrum.im[k] * libm::sin(phase))
        });
        terms.sum::<f64>() / self.dim.get() as f64
    }
}

/// A rectangle in metres.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Area {
    /// Least x and y.
    pub from: [f64; 2],
    /// Largest x and y.
    pub to: [f64; 2],
}

/// A place that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DecodedPlace {
    /// Metres.
    pub at: [f64; 2],
    /// Cosine of its pointer with the decoded vector, -1..=1.
    pub likeness: f64,
}

/// Finds the place in an area whose pointer is nearest to a vector.
#[derive(Debug)]
pub struct Decoder {
    plane: Plane,
    area: Area,
    step_m: [f64; 2],
    grid: Store,
    columns: usize,
}

/// Coarse grid points per scale: half a scale apart, the cosine of neighbours is still above 0.4, so that
/// some point is always on the slope of the peak.
const POINTS_PER_SCALE: f64 = 2.0;
/// The search ends when its step is at most this fraction of the scale; the noise in a memory moves the
/// peak by more.
const FINEST: f64 = 1e-3;
/// Number of best grid points that are examined more closely: if the peak is between four of them, a chance
/// bump may be higher than each.
const CANDIDATES: usize = 4;

impl Decoder {
    /// A decoder for an area; refused if the pointers of its grid would take more than `limit` bytes.
    pub fn new(plane: Plane, area: Area, limit: usize) -> Result<Decoder, Fault> {
        let sides = [area.to[0] - area.from[0], area.to[1] - area.from[1]];
        if let Some(at) = sides.iter().position(|side| !(side.is_finite() && *side > 0.0)) {
            return Err(Fault::NotFinite { what: "area", at });
        }
        let points = sides.map(|side| (side / plane.scale_m * POINTS_PER_SCALE).ceil() + 1.0);
        let counts = points.map(|count| count as usize); // saturates; the limit then refuses
        let mut grid = Store::new(plane.dim, counts[0].saturating_mul(counts[1]), limit)?;
        let step_m = [sides[0] / (points[0] - 1.0), sides[1] / (points[1] - 1.0)];
        let mut pointer = vec![0.0; plane.dim.get()];
        for y in 0..counts[1] {
            for x in 0..counts[0] {
                let place = [area.from[0] + x as f64 * step_m[0], area.from[1] + y as f64 * step_m[1]];
                plane.pointer(place, &mut pointer)?;
                grid.push(&pointer)?;
            }
        }
        Ok(Decoder { plane, area, step_m, grid, columns: counts[0] })
    }

    /// The plane.
    pub fn plane(&self) -> &Plane {
        &self.plane
    }

    /// Memory of the grid in bytes.
    pub fn bytes(&self) -> usize {
        self.grid.usage().bytes
    }

    /// The place in the area whose pointer is nearest to a vector.
    pub fn decode(&self, vector: &[f32]) -> Result<DecodedPlace, Fault> {
        finite("vector", vector)?;
        let mut best = Best::of(CANDIDATES);
        self.grid.nearest(vector, std::slice::from_mut(&mut best))?;
        let spectrum = Spectrum::of(vector);
        let square: f64 = vector.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
        if square <= 0.0 {
            return Err(Fault::NoLength { what: "vector", row: 0 });
        }
        let mut found = DecodedPlace { at: self.area.from, likeness: f64::NEG_INFINITY };
        for candidate in best.list() {
            let climbed = self.climb(&spectrum, self.point(candidate.row as usize));
            if climbed.likeness > found.likeness {
                found = climbed;
            }
        }
        found.likeness /= libm::sqrt(square);
        Ok(found)
    }

    fn point(&self, row: usize) -> [f64; 2] {
        let at = [row % self.columns, row / self.columns];
        std::array::from_fn(|axis| self.area.from[axis] + at[axis] as f64 * self.step_m[axis])
    }

    /// Hill climbing from a point of the grid; halves the step when no neighbour is higher.
    fn climb(&self, spectrum: &Spectrum, from: [f64; 2]) -> DecodedPlace {
        let mut here = DecodedPlace { at: from, likeness: self.plane.product(spectrum, from) };
        let mut step = self.plane.scale_m / (2.0 * POINTS_PER_SCALE);
        while step > FINEST * self.plane.scale_m {
            let mut next = here;
            for (dx, dy) in [(step, 0.0), (-step, 0.0), (0.0, step), (0.0, -step)] {
                let at = [
                    (here.at[0] + dx).clamp(self.area.from[0], self.area.to[0]),
                    (here.at[1] + dy).clamp(self.area.from[1], self.area.to[1]),
                ];
                let likeness = self.plane.product(spectrum, at);
                if likeness > next.likeness {
                    next = DecodedPlace { at, likeness };
                }
            }
            if next.likeness > here.likeness { here = next } else { step /= 2.0 }
        }
        here
    }
}
