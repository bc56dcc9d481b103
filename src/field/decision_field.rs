//! Dynamic neural fields (Amari 1977) on metric axes: neighbouring sites of such a field stand for
//! neighbouring values, so a peak is a decision for one value. `docs/goals.md` has the maths.
//!
//! One step, for every site x:
//!
//! ```text
//! u += (-u + h + s(x) + (w * f(u))(x) + g sum f(u) + noise) / tau,   f(u) = 1 / (1 + exp(-beta u))
//! ```
//!
//! A step allocates nothing, and gives the same bits on every machine.

mod kernel;
mod peaks;

pub use peaks::{MOST_PEAKS, Peak};

pub use crate::base::plan::Preset;

use crate::base::seed::{Stream, normal};
use kernel::Kernel;
use peaks::Search;

/// Maximum number of dimensions of a field.
pub const MOST_AXES: usize = 3;
/// Maximum number of sites of a field: 64 on each of three axes. A step with that many sites takes longer
/// than a control period.
pub const MOST_SITES: usize = 64 * 64 * 64;
/// Resting level of all presets (COSIVINA, `examples/presetOneLayerField_*.json`, version 1.4).
const RESTING: f32 = -5.0;
/// Time constant of all presets in steps, from the same files.
const TIME_CONSTANT: f32 = 20.0;
/// Steepness of the sigmoid of all presets, from the same files.
const STEEPNESS: f32 = 4.0;

/// Euler steps per second in a running robot: the time constant of 20 steps is then 0.1 s.
const STEPS_PER_SECOND: f64 = 200.0;
/// Maximum number of steps in a cycle, so that a cycle after a long gap is not late; the field then lags
/// behind.
const MOST_STEPS: usize = 16;

/// Number of steps that a running robot computes for a cycle of this length.
pub fn steps_in(seconds: f64) -> usize {
    ((seconds * STEPS_PER_SECOND + 0.5) as usize).clamp(1, MOST_STEPS)
}

/// One axis of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Number of sites.
    pub sites: usize,
    /// Whether the last site is a neighbour of the first one, as for an angle. Otherwise there is nothing
    /// beyond the ends.
    pub circular: bool,
}

/// How the sites act on each other: normalised Gaussians of distance, and one constant for all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interaction {
    /// Sum of the excitatory kernel.
    pub excitation: f32,
    /// Standard deviation of the excitatory kernel, in sites.
    pub excitation_width: f32,
    /// Sum of the inhibitory kernel, as a positive number.
    pub inhibition: f32,
    /// Standard deviation of the inhibitory kernel, in sites.
    pub inhibition_width: f32,
    /// What each active site adds to all sites; negative inhibits.
    pub global: f32,
}

impl Preset {
    /// The interaction of this preset in a field of 1 to 3 dimensions.
    ///
    /// In one dimension it is COSIVINA's (version 1.4, `examples/presetOneLayerField_stabilized.json`, and
    /// likewise `selection` and `memory`). COSIVINA has no preset for more dimensions; the strengths for
    /// those were chosen so that a peak of the input's size behaves in the same way as in one dimension,
    /// which the tests check.
    pub fn interaction(self, dimensions: usize) -> Interaction {
        let (excitation, inhibition, global) = match (self, dimensions) {
            (Preset::Stabilised, ..=1) => (17.5, 15.0, 0.0),
            (Preset::Selection, ..=1) => (17.5, 0.0, -0.9),
            (Preset::Memory, ..=1) => (30.0, 27.5, 0.0),
            (Preset::Stabilised, 2) => (24.0, 20.0, 0.0),
            (Preset::Selection, 2) => (24.0, 0.0, -0.2),
            (Preset::Memory, 2) => (36.0, 32.0, 0.0),
            (Preset::Stabilised, _) => (30.0, 26.0, 0.0),
            (Preset::Selection, _) => (30.0, 0.0, -0.05),
            (Preset::Memory, _) => (40.0, 36.0, 0.0),
        };
        let (excitation_width, inhibition_width) = if dimensions <= 1 { (5.0, 10.0) } else { (2.5, 4.0) };
        Interaction { excitation, excitation_width, inhibition, inhibition_width, global }
    }
}

/// Everything that determines a field.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// One to three axes; the first varies fastest in the arrays of sites.
    pub axes: Vec<Axis>,
    /// How the sites act on each other.
    pub interaction: Interaction,
    /// h: the value of u at rest, without input.
    pub resting: f32,
    /// tau, in steps.
    pub time_constant: f32,
    /// beta: four times the slope of the sigmoid at u = 0.
    pub steepness: f32,
    /// Standard deviation of the noise that each site gets in each step, before the division by tau.
    pub noise: f32,
    /// Seed of the noise.
    pub seed: u64,
}

impl Settings {
    /// A field of this preset, without noise.
    pub fn preset(preset: Preset, axes: &[Axis]) -> Settings {
        Settings {
            axes: axes.to_vec(),
            interaction: preset.interaction(axes.len()),
            resting: RESTING,
            time_constant: TIME_CONSTANT,
            steepness: STEEPNESS,
            noise: 0.0,
            seed: 0,
        }
    }
}

/// Why the settings of a field are invalid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DecisionFieldError {
    /// This many axes, instead of 1 to [`MOST_AXES`].
    Axes(usize),
    /// An axis without sites, or with more than [`MOST_SITES`].
    Sites {
        /// Which axis.
        axis: usize,
        /// Number of its sites.
        sites: usize,
    },
    /// More than [`MOST_SITES`] sites in all.
    TooLarge(usize),
    /// A value that is not finite or is outside its range.
    Value {
        /// Which setting.
        name: &'static str,
        /// The value.
        value: f32,
        /// The smallest and the largest permitted value.
        range: [f32; 2],
    },
}

/// A dynamic neural field.
#[derive(Clone, Debug)]
pub struct DecisionField {
    settings: Settings,
    excitation: Kernel,
    inhibition: Kernel,
    activation: Vec<f32>,
    output: Vec<f32>,
    lateral: Vec<f32>,
    search: Search,
    steps: u64,
}

impl DecisionField {
    /// A field at rest.
    pub fn new(settings: Settings) -> Result<DecisionField, DecisionFieldError> {
        let sites = check(&settings)?;
        let Interaction { excitation, excitation_width, inhibition, inhibition_width, .. } =
            settings.interaction;
        Ok(DecisionField {
            excitation: Kernel::new(&settings.axes, excitation, excitation_width),
            inhibition: Kernel::new(&settings.axes, -inhibition, inhibition_width),
            activation: vec![settings.resting; sites],
            output: vec![0.0; sites],
            lateral: vec![0.0; sites],
            search: Search::new(&settings.axes),
            steps: 0,
            settings,
        })
    }

    /// One step with an input for each site; the input must be finite.
    pub fn step(&mut self, input: &[f32]) {
        assert_eq!(input.len(), self.activation.len(), "one input for each site");
        let Settings { interaction, resting, time_constant, steepness, noise, seed, .. } = self.settings;
        let mut total = 0.0_f64;
        for (output, u) in self.output.iter_mut().zip(&self.activation) {
            *output = 1.0 / (1.0 + libm::expf(-steepness * u));
            total += f64::from(*output);
        }
        self.lateral.fill(resting + interaction.global * total as f32);
        self.excitation.add(&self.output, &mut self.lateral);
        self.inhibition.add(&self.output, &mut self.lateral);
        if noise > 0.0 {
            let first = self.steps.wrapping_mul(self.lateral.len() as u64);
            for (draw, lateral) in (first..).zip(&mut self.lateral) {
                *lateral += noise * normal(seed, Stream::DecisionNoise, draw) as f32;
            }
        }
        let rate = 1.0 / time_constant;
        for ((u, input), lateral) in self.activation.iter_mut().zip(input).zip(&self.lateral) {
            *u += rate * (input + lateral - *u);
        }
        self.steps += 1;
    }

    /// u of each site; the first axis varies fastest.
    pub fn activation(&self) -> &[f32] {
        &self.activation
    }

    /// The connected regions where u is above 0, in the order of their first sites; no more than
    /// [`MOST_PEAKS`].
    pub fn peaks(&mut self) -> &[Peak] {
        self.search.peaks(&self.settings.axes, &self.activation)
    }

    /// The highest of [`DecisionField::peaks`].
    pub fn highest_peak(&mut self) -> Option<&Peak> {
        self.peaks().iter().max_by(|a, b| a.max.total_cmp(&b.max))
    }

    /// Back to rest. The noise sequence continues where it was.
    pub fn rest(&mut self) {
        self.activation.fill(self.settings.resting);
    }
}

/// The number of sites, if the settings are valid.
fn check(settings: &Settings) -> Result<usize, DecisionFieldError> {
    let Settings { axes, interaction, resting, time_constant, steepness, noise, seed: _ } = settings;
    if axes.is_empty() || axes.len() > MOST_AXES {
        return Err(DecisionFieldError::Axes(axes.len()));
    }
    if let Some(axis) = axes.iter().position(|axis| axis.sites == 0 || axis.sites > MOST_SITES) {
        return Err(DecisionFieldError::Sites { axis, sites: axes[axis].sites });
    }
    let sites = axes.iter().fold(1_usize, |product, axis| product.saturating_mul(axis.sites));
    if sites > MOST_SITES {
        return Err(DecisionFieldError::TooLarge(sites));
    }
    // The ranges leave room around the values of every published field and keep all sums far from the limits
    // of f32.
    for (name, value, range) in [
        ("excitation", interaction.excitation, [0.0, 1e4]),
        ("excitation_width", interaction.excitation_width, [0.1, 1e4]),
        ("inhibition", interaction.inhibition, [0.0, 1e4]),
        ("inhibition_width", interaction.inhibition_width, [0.1, 1e4]),
        ("global", interaction.global, [-1e4, 1e4]),
        ("resting", *resting, [-1e3, 1e3]),
        ("time_constant", *time_constant, [1.0, 1e6]),
        ("steepness", *steepness, [1e-3, 1e6]),
        ("noise", *noise, [0.0, 1e3]),
    ] {
        if !(range[0] <= value && value <= range[1]) {
            return Err(DecisionFieldError::Value { name, value, range });
        }
    }
    Ok(sites)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_settings_are_refused_with_place() {
        let ring = Axis { sites: 100, circular: true };
        let good = Settings::preset(Preset::Selection, &[ring]);
        let refused = |settings: Settings| DecisionField::new(settings).err();
        assert_eq!(refused(good.clone()), None);
        assert_eq!(refused(Settings { axes: vec![], ..good.clone() }), Some(DecisionFieldError::Axes(0)));
        let four = vec![ring; 4];
        assert_eq!(refused(Settings { axes: four, ..good.clone() }), Some(DecisionFieldError::Axes(4)));
        let empty = vec![ring, Axis { sites: 0, circular: false }];
        let expected = DecisionFieldError::Sites { axis: 1, sites: 0 };
        assert_eq!(refused(Settings { axes: empty, ..good.clone() }), Some(expected));
        let large = vec![ring; 3];
        let expected = DecisionFieldError::TooLarge(1_000_000);
        assert_eq!(refused(Settings { axes: large, ..good.clone() }), Some(expected));
        let nan = refused(Settings { noise: f32::NAN, ..good.clone() });
        assert!(matches!(nan, Some(DecisionFieldError::Value { name: "noise", .. })), "{nan:?}");
        let expected = DecisionFieldError::Value { name: "time_constant", value: 0.5, range: [1.0, 1e6] };
        assert_eq!(refused(Settings { time_constant: 0.5, ..good }), Some(expected));
    }
}
