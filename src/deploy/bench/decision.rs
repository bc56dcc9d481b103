//! The load with which a step of a decision field is measured: fields of the preset `selection` that choose
//! the stronger one of two inputs.

use crate::base::time::{Clock, MonotonicClock, Span};
use crate::drive::trace::latency_histogram;
use crate::field::decision_field::{Axis, DecisionField, Preset, Settings};
use crate::field::navigate::heading;
use hdrhistogram::Histogram;

/// The measured fields: the navigator's, with its noise; the same without noise; one on two circular axes;
/// one on three bounded axes. `scripts/peers/decision_field.py` has the last three too.
pub const DECISION_FIELDS: [&str; 4] = ["heading ring", "100 sites", "64^2 sites", "32^3 sites"];

/// Places of the two inputs on each axis, as a share of its sites, and their heights: both are above the
/// detection threshold, so each alone would make a peak.
const INPUTS: [(f32, f32); 2] = [(0.25, 6.0), (0.75, 6.2)];

/// Steps of each field before the measurement: five time constants, in which it decides.
const FIRST_STEPS: u64 = 100;

/// The fields, in the order of [`DECISION_FIELDS`].
pub struct DecisionLoad {
    fields: [Load; DECISION_FIELDS.len()],
}

struct Load {
    field: DecisionField,
    input: Vec<f32>,
    /// Steps since the field was at rest.
    steps: u64,
}

/// The measured steps of one field.
pub struct DecisionFigures {
    /// Single steps, in nanoseconds.
    pub steps: Histogram<u64>,
    /// Sites of the field.
    pub sites: usize,
    /// Steps since the field was at rest, including those that are not in the histogram.
    pub all_steps: u64,
    /// The highest activation after these steps. It shows that this field computes the same as another one.
    pub highest: f32,
}

impl DecisionLoad {
    /// Fields that have decided.
    pub fn new() -> DecisionLoad {
        let axes = |sites, circular, number| vec![Axis { sites, circular }; number];
        let preset = |axes: Vec<Axis>| Settings::preset(Preset::Selection, &axes);
        let fields = [
            heading::settings(1),
            preset(axes(heading::SITES, true, 1)),
            preset(axes(64, true, 2)),
            preset(axes(32, false, 3)),
        ];
        let fields = fields.map(|settings| {
            let input = input(&settings);
            let mut field = DecisionField::new(settings).expect("presets are valid");
            for _ in 0..FIRST_STEPS {
                field.step(&input);
            }
            Load { field, input, steps: FIRST_STEPS }
        });
        DecisionLoad { fields }
    }

    /// Computes a step of a field and returns its execution time.
    pub fn step(&mut self, which: usize) -> Span {
        let Load { field, input, steps } = &mut self.fields[which];
        *steps += 1;
        let began = MonotonicClock.now();
        field.step(std::hint::black_box(input));
        MonotonicClock.now().since(began)
    }

    /// Notes what a field has become.
    pub fn describe(&self, which: usize, figures: &mut DecisionFigures) {
        let Load { field, steps, .. } = &self.fields[which];
        figures.sites = field.activation().len();
        figures.all_steps = *steps;
        figures.highest = field.activation().iter().copied().fold(f32::NEG_INFINITY, f32::max);
    }
}

impl Default for DecisionFigures {
    /// No steps yet.
    fn default() -> DecisionFigures {
        DecisionFigures { steps: latency_histogram(), sites: 0, all_steps: 0, highest: f32::NEG_INFINITY }
    }
}

/// The sum of the two inputs: Gaussians as wide as the excitatory kernel.
fn input(settings: &Settings) -> Vec<f32> {
    let Settings { axes, interaction, .. } = settings;
    let sites: usize = axes.iter().map(|axis| axis.sites).product();
    let height = |site: usize, (share, height): (f32, f32)| {
        let (mut rest, mut square) = (site, 0.0);
        for axis in axes {
            let all = axis.sites as f32;
            let away = ((rest % axis.sites) as f32 - share * all).abs();
            let away = if axis.circular { away.min(all - away) } else { away };
            square += away * away / interaction.excitation_width.powi(2);
            rest /= axis.sites;
        }
        height * libm::expf(-0.5 * square)
    };
    (0..sites).map(|site| INPUTS.iter().map(|one| height(site, *one)).sum()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_measured_field_chooses_the_stronger_input() {
        let mut load = DecisionLoad::new();
        let sides: [&[f32]; 4] = [&[100.0], &[100.0], &[64.0, 64.0], &[32.0, 32.0, 32.0]];
        for ((name, load), sides) in DECISION_FIELDS.iter().zip(&mut load.fields).zip(sides) {
            let peaks = load.field.peaks().to_vec();
            assert_eq!(peaks.len(), 1, "{name}: {peaks:?}");
            for (side, at) in sides.iter().zip(peaks[0].at) {
                assert!((at - 0.75 * side).abs() < 1.0, "{name}: {peaks:?}");
            }
        }
    }
}
