//! Behaviours: a behaviour's decision fields read the sensors, and their peaks set speed and curvature.
//! `docs/behaviours.md` describes them. A cycle computes only the fields of the current behaviour, and
//! allocates nothing.

use super::decision_field::{Axis, DecisionField, Settings, steps_in};
use crate::base::plan::{
    BehaviourPlan, Board, BumpPlace, DecisionFieldPlan, DecisionInput, PeakCurve, piecewise_linear,
};

/// The decision fields of a board, and its behaviours.
#[derive(Clone, Debug)]
pub struct Behaviours {
    fields: Vec<SensedField>,
    plans: Vec<BehaviourPlan>,
}

/// What a behaviour requests in a cycle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BehaviourRequest {
    /// Speed of the reference point, as a share of full speed, -1..=1.
    pub speed: f32,
    /// Curvature of the path, 1/m, positive to the left.
    pub curvature: f32,
    /// Whether each of its fields has a peak.
    pub has_peak: bool,
}

impl Behaviours {
    /// The behaviours of `board`, with all fields at rest; `seed` is that of their noise.
    pub fn of(board: &Board, seed: u64) -> Behaviours {
        let seeds = (0..).map(|field: u64| seed.wrapping_add(field));
        let fields = board.decision_fields.iter().zip(seeds);
        let fields = fields.map(|(plan, seed)| SensedField::new(plan, seed)).collect();
        Behaviours { fields, plans: board.behaviours.clone() }
    }

    /// Number of behaviours.
    pub fn count(&self) -> usize {
        self.plans.len()
    }

    /// Forgets what the fields have decided or remember.
    pub fn rest(&mut self) {
        self.fields.iter_mut().for_each(|field| field.field.rest());
    }

    /// One cycle of a behaviour; `sensors` are the field's inputs on their scales, all finite; the last cycle
    /// was `seconds` ago. Panics if the board has no behaviour with this index.
    pub fn advance(&mut self, behaviour: usize, sensors: &[f32], seconds: f64) -> BehaviourRequest {
        let BehaviourPlan { speed, curvature, .. } = &self.plans[behaviour];
        let at_speed = self.fields[speed.field].advance(sensors, seconds);
        let at_curvature = match curvature.field {
            same if same == speed.field => at_speed,
            other => self.fields[other].advance(sensors, seconds),
        };
        let value = |curve: &PeakCurve, at: Option<f32>| {
            at.map_or(curve.rest, |at| piecewise_linear(&curve.points, at))
        };
        BehaviourRequest {
            speed: value(speed, at_speed),
            curvature: value(curvature, at_curvature),
            has_peak: at_speed.is_some() && at_curvature.is_some(),
        }
    }
}

/// A decision field with its inputs.
#[derive(Clone, Debug)]
struct SensedField {
    plan: DecisionFieldPlan,
    field: DecisionField,
    input: Vec<f32>,
    /// Seconds since an input was last strong enough to form a peak; counted only if the plan has a
    /// `forgets_after`.
    unexcited: f64,
}

/// An input above this forms a peak in each of the presets' fields.
const FORMS_PEAK: f32 = 4.45;

impl SensedField {
    fn new(plan: &DecisionFieldPlan, seed: u64) -> SensedField {
        let axis = Axis { sites: plan.sites, circular: plan.circular };
        let settings = Settings { noise: plan.noise, seed, ..Settings::preset(plan.preset, &[axis]) };
        let field = DecisionField::new(settings).expect("the board's check allows only valid settings");
        SensedField { plan: plan.clone(), field, input: vec![0.0; plan.sites], unexcited: 0.0 }
    }

    /// Takes in the sensors, whose values are finite. Returns the position of the highest peak, in the unit
    /// of the axis.
    fn advance(&mut self, sensors: &[f32], seconds: f64) -> Option<f32> {
        self.input.fill(0.0);
        let (spacing, first) = (self.plan.spacing(), self.plan.span[0]);
        for input in &self.plan.inputs {
            let value = sensors[input.sensor];
            let at = match input.at {
                BumpPlace::Fixed(at) => at,
                BumpPlace::Measured(scale) => scale.value(value),
            };
            let centre = (at - first) / spacing;
            add_bump(
                &mut self.input,
                input,
                centre,
                piecewise_linear(&input.height, value),
                self.plan.circular,
            );
        }
        for _ in 0..steps_in(seconds) {
            self.field.step(&self.input);
        }
        self.forget(seconds);
        self.field.highest_peak().map(|peak| first + spacing * peak.at[0])
    }

    /// Drops the peak of a field that has had no input for too long, if the board limits that time.
    fn forget(&mut self, seconds: f64) {
        let Some(longest) = self.plan.forgets_after else { return };
        let is_excited = self.input.iter().any(|input| *input > FORMS_PEAK);
        self.unexcited = if is_excited { 0.0 } else { self.unexcited + seconds };
        if self.unexcited > longest.as_secs_f64() {
            self.field.rest();
        }
    }
}

/// Adds a Gaussian bump of this height around `centre`, in sites from the first one.
fn add_bump(sites: &mut [f32], input: &DecisionInput, centre: f32, height: f32, circular: bool) {
    if height == 0.0 {
        return;
    }
    let all = sites.len() as f32;
    let centre = if circular { centre.rem_euclid(all) } else { centre };
    for (site, sum) in sites.iter_mut().enumerate() {
        let apart = (site as f32 - centre).abs();
        let apart = if circular { apart.min(all - apart) } else { apart } / input.width;
        *sum += height * libm::expf(-apart * apart / 2.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::plan::{Curve, Preset, Scale};
    use crate::base::time::Span;

    const SCALE: Scale = Scale { low: 0.0, high: 2.0, curve: Curve::Linear };

    /// A field over 0..=2 with one input, whose height is 8 for every value of its sensor.
    fn field(at: BumpPlace, circular: bool) -> SensedField {
        let inputs = vec![DecisionInput { sensor: 1, at, width: 5.0, height: vec![[-1.0, 8.0]] }];
        let plan = DecisionFieldPlan {
            name: "range".to_string(),
            preset: Preset::Selection,
            span: [0.0, 2.0],
            sites: 61,
            circular,
            noise: 0.0,
            forgets_after: None,
            inputs,
        };
        SensedField::new(&plan, 0)
    }

    fn settle(field: &mut SensedField, value: f32) -> Option<f32> {
        (0..50).map(|_| field.advance(&[0.0, value], 0.02)).last().flatten()
    }

    #[test]
    fn a_bump_is_where_the_board_or_the_sensor_puts_it() {
        let mut fixed = field(BumpPlace::Fixed(0.5), false);
        assert!((settle(&mut fixed, 0.9).expect("a peak") - 0.5).abs() < 0.01);
        let mut measured = field(BumpPlace::Measured(SCALE), false);
        let at = settle(&mut measured, SCALE.apply(1.3)).expect("a peak");
        assert!((at - 1.3).abs() < 0.01, "{at}");
        let at = settle(&mut measured, SCALE.apply(0.6)).expect("a peak");
        assert!((at - 0.6).abs() < 0.01, "it follows: {at}");
    }

    #[test]
    fn a_bump_at_the_seam_of_a_circular_axis_is_whole() {
        let mut ring = field(BumpPlace::Fixed(2.0), true);
        let at = settle(&mut ring, 0.0).expect("a peak");
        assert!(!(0.01..=1.99).contains(&at), "{at}");
        let reached = ring.input.iter().filter(|input| **input > 1.0).count();
        assert_eq!(reached, 21, "as many sites on either side");
    }

    #[test]
    fn a_memory_ends_if_its_board_says_so() {
        for (forgets_after, keeps) in [(None, true), (Some(Span::from_millis(2_000)), false)] {
            let mut field = field(BumpPlace::Fixed(0.5), false);
            field.plan.inputs[0].height = vec![[0.0, 16.0], [0.5, 0.0]];
            let plan = DecisionFieldPlan { preset: Preset::Memory, forgets_after, ..field.plan };
            let mut field = SensedField::new(&plan, 0);
            let mut cycles =
                |count, value| (0..count).map(|_| field.advance(&[0.0, value], 0.02)).last().flatten();
            assert!(cycles(50, 0.0).is_some(), "a peak");
            assert!(cycles(99, 1.0).is_some(), "it stays without input");
            assert_eq!(cycles(5, 1.0).is_some(), keeps, "{forgets_after:?}");
            assert!(cycles(50, 0.0).is_some(), "it forms again");
        }
    }

    #[test]
    fn without_a_peak_the_curves_rest() {
        let board = crate::deploy::board::built_in("barn").unwrap().unwrap().board;
        let mut behaviours = Behaviours::of(&board, 1);
        let far = vec![1.0; board.field.shape.sensors];
        let request = (0..50).map(|_| behaviours.advance(0, &far, 0.02)).last().expect("a request");
        let BehaviourPlan { speed, curvature, .. } = &board.behaviours[0];
        let expected = BehaviourRequest { speed: speed.rest, curvature: curvature.rest, has_peak: false };
        assert_eq!(request, expected);
    }
}
