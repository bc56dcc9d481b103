//! The prediction of the next sensor values: its last error, its confidence and skill, and the recursive
//! least squares that improve it. Steps 1 and 6 of `docs/field.md`, in f64 and the same in every engine.

mod state;

use crate::field::shape::{
    CONFIDENCE_CYCLES, CONFIDENCE_SLOPE, ERROR_RING, RIDGE, SKILL_FLOOR, SKILL_HORIZON_S,
};

/// A ring of the newest mean absolute errors.
pub struct ErrorRing {
    errors: [f64; ERROR_RING],
    /// Position of the next error in the ring.
    head: usize,
    /// How many errors there are.
    filled: usize,
}

impl ErrorRing {
    /// No errors yet.
    pub const EMPTY: ErrorRing = ErrorRing { errors: [0.0; ERROR_RING], head: 0, filled: 0 };

    /// Adds the newest error; drops the oldest if the ring is full.
    pub fn push(&mut self, error: f64) {
        self.errors[self.head] = error;
        self.head = (self.head + 1) % ERROR_RING;
        self.filled = (self.filled + 1).min(ERROR_RING);
    }

    /// Mean of the newest `CONFIDENCE_CYCLES` errors, or of all if there are fewer; 0 without errors.
    fn recent_mean(&self) -> f64 {
        let count = self.filled.min(CONFIDENCE_CYCLES);
        let newest = (1..=count).map(|back| self.errors[(self.head + ERROR_RING - back) % ERROR_RING]);
        newest.sum::<f64>() / count.max(1) as f64
    }

    /// The confidence, 0..=1; 1 without errors.
    pub fn confidence(&self) -> f64 {
        (1.0 - CONFIDENCE_SLOPE * self.recent_mean()).clamp(0.0, 1.0)
    }
}

/// Running averages for the skill: the squared errors of the prediction, of persistence (the forecast "same
/// as before") and of climatology (the running mean as a forecast).
pub struct Skill {
    count: u64,
    /// Weight of the newest value once the averages cover the horizon: dt / horizon, at most 1.
    weight: f64,
    mean: Vec<f64>,
    predicted: Vec<f64>,
    persistent: Vec<f64>,
    climatic: Vec<f64>,
}

impl Skill {
    /// No averages yet, for `sensors` sensors sampled every `dt` seconds.
    pub fn new(sensors: usize, dt: f64) -> Skill {
        let zeros = vec![0.0; sensors];
        let weight = (dt / SKILL_HORIZON_S).min(1.0);
        let (mean, predicted, persistent) = (zeros.clone(), zeros.clone(), zeros.clone());
        Skill { count: 0, weight, mean, predicted, persistent, climatic: zeros }
    }

    /// Forgets all averages.
    pub fn clear(&mut self) {
        self.count = 0;
    }

    /// Adds one cycle: the sensors now and before, and the prediction's errors.
    pub fn observe(&mut self, now: &[f64], before: &[f64], errors: &[f64]) {
        self.count += 1;
        let weight = self.weight.max(1.0 / self.count as f64);
        let average = |average: &mut f64, value: f64| *average += weight * (value - *average);
        for i in 0..now.len() {
            // In the first cycle, the previous value is the only available mean.
            let mean = if self.count == 1 { before[i] } else { self.mean[i] };
            average(&mut self.predicted[i], errors[i] * errors[i]);
            average(&mut self.persistent[i], (now[i] - before[i]) * (now[i] - before[i]));
            average(&mut self.climatic[i], (now[i] - mean) * (now[i] - mean));
            average(&mut self.mean[i], now[i]);
        }
    }

    /// 1 - squared error / squared error of the better simple forecast (chosen for each sensor), -1..=1; 0
    /// before the first cycle.
    pub fn value(&self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        let floor = SKILL_FLOOR * self.mean.len() as f64;
        let simple: f64 = self.persistent.iter().zip(&self.climatic).map(|(p, c)| p.min(*c)).sum();
        (1.0 - (self.predicted.iter().sum::<f64>() + floor) / (simple + floor)).max(-1.0)
    }
}

/// How far the learned change of each sensor can be trusted: the factor that would have predicted best so
/// far.
pub struct Trust {
    count: u64,
    weight: f64,
    /// Average of change x learned, by sensor.
    agreement: Vec<f64>,
    /// Average of learned^2, by sensor.
    power: Vec<f64>,
}

impl Trust {
    /// No trust yet, for `sensors` sensors sampled every `dt` seconds.
    pub fn new(sensors: usize, dt: f64) -> Trust {
        let weight = (dt / SKILL_HORIZON_S).min(1.0);
        Trust { count: 0, weight, agreement: vec![0.0; sensors], power: vec![0.0; sensors] }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.count = 0;
        self.agreement.fill(0.0);
        self.power.fill(0.0);
    }

    /// Adds one cycle: the real and the learned change of the sensors.
    pub fn observe(&mut self, change: &[f64], learned: &[f64]) {
        self.count += 1;
        let weight = self.weight.max(1.0 / self.count as f64);
        for i in 0..change.len() {
            self.agreement[i] += weight * (change[i] * learned[i] - self.agreement[i]);
            self.power[i] += weight * (learned[i] * learned[i] - self.power[i]);
        }
    }

    /// The trust in sensor `i`, 0..=1; 0 before anything was learned.
    pub fn of(&self, i: usize) -> f64 {
        (self.agreement[i] / (self.power[i] + SKILL_FLOOR)).clamp(0.0, 1.0)
    }
}

/// Recursive least squares with forgetting, and a ridge that is renewed so that forgetting does not remove
/// it.
pub struct Learner {
    /// W: [sensor][regressor].
    pub weights: Vec<f64>,
    covariance: Vec<f64>,
    regressors: usize,
    /// The regressor whose weight is pulled to 0 next.
    turn: usize,
    gain: Vec<f64>,
}

impl Learner {
    /// Nothing learned.
    pub fn new(outputs: usize, regressors: usize) -> Learner {
        let mut learner = Learner {
            weights: vec![0.0; outputs * regressors],
            covariance: vec![0.0; regressors * regressors],
            regressors,
            turn: 0,
            gain: vec![0.0; regressors],
        };
        learner.forget_all();
        learner
    }

    /// Forgets everything learned.
    pub fn forget_all(&mut self) {
        self.weights.fill(0.0);
        self.turn = 0;
        self.forget_covariance();
    }

    fn forget_covariance(&mut self) {
        self.covariance.fill(0.0);
        self.covariance.iter_mut().step_by(self.regressors + 1).for_each(|diagonal| *diagonal = 1.0 / RIDGE);
    }

    /// W x for output `i`.
    pub fn output(&self, i: usize, x: &[f64]) -> f64 {
        dot(&self.weights[i * self.regressors..][..self.regressors], x)
    }

    /// Learns from one observation: `wanted` followed `x`. `keep` (0..1) is the forgetting factor: older
    /// observations count `keep` times as much as before.
    pub fn observe(&mut self, x: &[f64], wanted: &[f64], keep: f64) {
        let n = self.regressors;
        let older = 1.0 / keep;
        self.covariance.iter_mut().for_each(|p| *p *= older);
        for (gain, row) in self.gain.iter_mut().zip(self.covariance.chunks_exact(n)) {
            *gain = dot(row, x);
        }
        let scale = 1.0 + dot(&self.gain, x);
        if !(scale.is_finite() && scale >= 1.0) {
            return self.forget_covariance();
        }
        for (i, wanted) in wanted.iter().enumerate() {
            let error = wanted - self.output(i, x);
            self.correct(i, error / scale);
        }
        self.shrink(scale);
        self.observe_ridge(keep);
    }

    /// Renews the ridge: an artificial observation that a weight is 0, for one weight at a time.
    fn observe_ridge(&mut self, keep: f64) {
        let (n, j) = (self.regressors, self.turn);
        self.turn = (j + 1) % n;
        let strength = RIDGE * n as f64 * (1.0 - keep);
        for (gain, row) in self.gain.iter_mut().zip(self.covariance.chunks_exact(n)) {
            *gain = row[j];
        }
        let scale = 1.0 / strength + self.gain[j];
        if !(self.gain[j].is_finite() && self.gain[j] > 0.0) {
            return self.forget_covariance();
        }
        for i in 0..self.weights.len() / n {
            self.correct(i, -self.weights[i * n + j] / scale);
        }
        self.shrink(scale);
    }

    /// W_i += amount * gain.
    fn correct(&mut self, i: usize, amount: f64) {
        let row = &mut self.weights[i * self.regressors..][..self.regressors];
        row.iter_mut().zip(&self.gain).for_each(|(w, g)| *w += amount * g);
    }

    /// P -= gain gain' / scale: P stays symmetric to the last bit.
    fn shrink(&mut self, scale: f64) {
        let share = 1.0 / scale;
        for (row, a) in self.covariance.chunks_exact_mut(self.regressors).zip(&self.gain) {
            row.iter_mut().zip(&self.gain).for_each(|(p, b)| *p -= a * b * share);
        }
    }
}

/// a . b
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::seed::{Stream, normal};

    #[test]
    fn confidence_is_right_when_the_buffer_wraps() {
        let mut ring = ErrorRing::EMPTY;
        let mut all = Vec::new();
        for i in 0..2 * ERROR_RING + 150 {
            let error = (i * 7919 % 1000) as f64 / 2000.0;
            ring.push(error);
            all.push(error);
            let newest = &all[all.len().saturating_sub(100)..];
            let mean = newest.iter().sum::<f64>() / newest.len() as f64;
            assert!((ring.confidence() - (1.0 - 1.5 * mean)).abs() < 1e-12, "after {i}");
        }
    }

    #[test]
    fn known_forecasts_have_the_expected_skill() {
        let draw = |i: u64| 0.3 * normal(1, Stream::Stimulus, i);
        let run = |forecast: &dyn Fn(f64, f64) -> f64| {
            let mut skill = Skill::new(1, 0.05);
            (1..4000).for_each(|i| {
                let (now, before) = (draw(i), draw(i - 1));
                skill.observe(&[now], &[before], &[now - forecast(before, now)]);
            });
            skill.value()
        };
        assert!(run(&|_, now| now) > 0.999, "a perfect forecast");
        assert!(run(&|_, _| 0.0).abs() < 0.02, "no better than the mean: no skill");
        assert!(run(&|before, _| before) < -0.8, "for noise, repeating the last value has twice the error");
        assert!(run(&|_, _| 9.0) >= -1.0);
    }

    #[test]
    fn least_squares_learn_a_linear_rule_and_stay_bounded() {
        let mut learner = Learner::new(1, 4);
        let draw = |i: u64| normal(2, Stream::Stimulus, i);
        for i in 0..400 {
            let x = [draw(3 * i), draw(3 * i + 1), draw(3 * i + 2), 1.0];
            learner.observe(&x, &[0.5 * x[0] - 0.25 * x[2] + 0.1], 0.9995);
        }
        for (w, expected) in learner.weights.iter().zip([0.5, 0.0, -0.25, 0.1]) {
            assert!((w - expected).abs() < 0.01, "{:?}", learner.weights);
        }
        // With a constant input, the direction of (1, 1, 0, 1) becomes known ever more precisely, all other
        // directions only as precisely as the ridge allows.
        for _ in 0..200_000 {
            learner.observe(&[1.0, 1.0, 0.0, 1.0], &[0.2], 0.9995);
        }
        let trace: f64 = learner.covariance.iter().step_by(5).sum();
        assert!(trace.is_finite() && trace <= 4.0 * 1.1 / RIDGE, "trace {trace}");
        assert!((learner.output(0, &[1.0, 1.0, 0.0, 1.0]) - 0.2).abs() < 1e-3);
        assert!(learner.weights[2].abs() < 1e-3, "an unused weight decays to zero");
    }
}
