//! Steps 1 and 6: the error of the last prediction, what is learned from it, and the next prediction. The
//! data is small and kept in f64, as `docs/field.md` requires of every engine. The averages and the least
//! squares are the same code as in the reference engine.

use crate::base::plan::Params;
use crate::field::predict::{ErrorRing, Learner, Skill, Trust};
use crate::field::shape::{CHANGE_SCALE, CONTEXT, CONTEXT_SCALE, regressors};
use crate::field::state::{Live, refill};

/// The sensors, their prediction, and what the engine learns from the difference.
pub struct Predictor {
    sensors: Vec<f64>,
    last_sensors: Vec<f64>,
    change: Vec<f64>,
    errors: Vec<f64>,
    prediction: Vec<f64>,
    learned: Vec<f64>,
    regressors: Vec<f64>,
    ring: Box<ErrorRing>,
    skill: Skill,
    trust: Trust,
    learner: Learner,
    dt: f64,
    forget_per_s: f64,
    since_learn: u64,
    /// Cycles since the start.
    age: u64,
}

impl Predictor {
    /// A predictor that has learned nothing yet, for `sensors` sensors sampled every `dt` seconds.
    pub fn new(sensors: usize, dt: f64, params: &Params) -> Predictor {
        let zeros = vec![0.0; sensors];
        Predictor {
            sensors: zeros.clone(),
            last_sensors: zeros.clone(),
            change: zeros.clone(),
            errors: zeros.clone(),
            prediction: zeros.clone(),
            learned: zeros,
            regressors: vec![0.0; regressors(sensors)],
            ring: Box::new(ErrorRing::EMPTY),
            skill: Skill::new(sensors, dt),
            trust: Trust::new(sensors, dt),
            learner: Learner::new(sensors, regressors(sensors)),
            dt,
            forget_per_s: params.forget_per_s,
            since_learn: 0,
            age: 0,
        }
    }

    /// Forgets everything learned.
    pub fn forget_all(&mut self) {
        self.sensors.fill(0.0);
        self.prediction.fill(0.0);
        *self.ring = ErrorRing::EMPTY;
        self.skill.clear();
        self.trust.clear();
        self.learner.forget_all();
        (self.since_learn, self.age) = (0, 0);
    }

    /// Takes the sensors of a cycle and compares them with the prediction.
    pub fn sense(&mut self, sensors: &[f32]) {
        self.last_sensors.copy_from_slice(&self.sensors);
        for (i, sensor) in sensors.iter().enumerate() {
            self.sensors[i] = f64::from(*sensor);
            self.errors[i] = self.sensors[i] - self.prediction[i];
            self.change[i] = self.sensors[i] - self.last_sensors[i];
        }
        self.ring.push(self.mean_error());
        if self.age > 0 {
            self.skill.observe(&self.sensors, &self.last_sensors, &self.errors);
            self.trust.observe(&self.change, &self.learned);
        }
    }

    /// Learns from the sensors that followed the regressors of the last cycle, if `due` returns true for the
    /// number of cycles since it last learned.
    pub fn learn(&mut self, due: impl FnOnce(u64) -> bool) {
        if self.age == 0 {
            return; // there is no earlier cycle
        }
        self.since_learn += 1;
        if due(self.since_learn) {
            let keep = libm::pow(self.forget_per_s, self.dt * self.since_learn as f64);
            self.learner.observe(&self.regressors, &self.change, keep);
            self.since_learn = 0;
        }
    }

    /// Predicts the next sensors from the context relative to rest and the sensors of this cycle.
    pub fn predict(&mut self, context: &[f64; CONTEXT]) {
        let sensors = self.sensors.len();
        let (from_context, rest) = self.regressors.split_at_mut(CONTEXT);
        from_context.iter_mut().zip(context).for_each(|(x, mean)| *x = CONTEXT_SCALE * mean);
        let (from_sensors, rest) = rest.split_at_mut(sensors);
        from_sensors.copy_from_slice(&self.sensors);
        let (from_change, constant) = rest.split_at_mut(sensors);
        from_change.iter_mut().zip(&self.change).for_each(|(x, change)| *x = CHANGE_SCALE * change);
        constant.fill(1.0);
        for i in 0..sensors {
            self.learned[i] = self.learner.output(i, &self.regressors);
            self.prediction[i] = (self.sensors[i] + self.trust.of(i) * self.learned[i]).clamp(-1.0, 1.0);
        }
        self.age += 1;
    }

    /// s + eta e of this cycle.
    pub fn felt(&self, eta: f64) -> impl Iterator<Item = f64> {
        self.sensors.iter().zip(&self.errors).map(move |(s, e)| s + eta * e)
    }
    /// Mean |e| of this cycle.
    pub fn mean_error(&self) -> f64 {
        self.errors.iter().map(|e| e.abs()).sum::<f64>() / self.errors.len() as f64
    }
    /// The prediction of the next sensors.
    pub fn prediction(&self) -> &[f64] {
        &self.prediction
    }
    /// 0..=1, from the newest errors.
    pub fn confidence(&self) -> f64 {
        self.ring.confidence()
    }
    /// -1..=1: how much better the prediction is than simple forecasts.
    pub fn skill(&self) -> f64 {
        self.skill.value()
    }
    /// Whether no cycle has been completed yet.
    pub fn is_new(&self) -> bool {
        self.age == 0
    }
    /// Saves everything learned.
    pub fn save(&self, live: &mut Live) {
        (live.age, live.since_learn) = (self.age, self.since_learn);
        let to = &mut live.senses;
        refill(&mut to.sensors, &self.sensors);
        refill(&mut to.change, &self.change);
        refill(&mut to.prediction, &self.prediction);
        refill(&mut to.learned, &self.learned);
        refill(&mut to.regressors, &self.regressors);
        self.ring.save(to);
        self.skill.save(to);
        self.trust.save(to);
        self.learner.save(to);
    }
    /// Restores everything learned from a state that has been checked.
    pub fn restore(&mut self, live: &Live) {
        (self.age, self.since_learn) = (live.age, live.since_learn);
        let from = &live.senses;
        self.sensors.copy_from_slice(&from.sensors);
        self.change.copy_from_slice(&from.change);
        self.prediction.copy_from_slice(&from.prediction);
        self.learned.copy_from_slice(&from.learned);
        self.regressors.copy_from_slice(&from.regressors);
        self.ring.restore(from);
        self.skill.restore(from);
        self.trust.restore(from);
        self.learner.restore(from);
    }
    /// Memory of the error ring, the covariance and the weights, bytes; the rest is negligible.
    pub fn bytes(&self) -> usize {
        let columns = self.regressors.len();
        size_of::<ErrorRing>() + (columns + self.sensors.len()) * columns * size_of::<f64>()
    }
}
