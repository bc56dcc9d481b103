//! Saves the parts of the prediction to a state, and restores them. The sizes match: the caller has checked
//! them.

use super::{ErrorRing, Learner, Skill, Trust};
use crate::field::shape::ERROR_RING;
use crate::field::state::{Senses, refill};

impl ErrorRing {
    /// Saves the errors, oldest first.
    pub fn save(&self, to: &mut Senses) {
        to.errors.clear();
        let oldest = self.head + ERROR_RING - self.filled;
        to.errors.extend((oldest..oldest + self.filled).map(|at| self.errors[at % ERROR_RING]));
    }

    /// Restores the errors of `from`; only the newest if there are more than fit.
    pub fn restore(&mut self, from: &Senses) {
        *self = ErrorRing::EMPTY;
        from.errors.iter().for_each(|error| self.push(*error));
    }
}

impl Skill {
    /// Saves the averages and how many cycles they cover.
    pub fn save(&self, to: &mut Senses) {
        to.observed = self.count;
        refill(&mut to.mean, &self.mean);
        refill(&mut to.predicted, &self.predicted);
        refill(&mut to.persistent, &self.persistent);
        refill(&mut to.climatic, &self.climatic);
    }

    /// Restores what [`save`](Self::save) saved.
    pub fn restore(&mut self, from: &Senses) {
        self.count = from.observed;
        self.mean.copy_from_slice(&from.mean);
        self.predicted.copy_from_slice(&from.predicted);
        self.persistent.copy_from_slice(&from.persistent);
        self.climatic.copy_from_slice(&from.climatic);
    }
}

impl Trust {
    /// Saves the averages; they cover as many cycles as the averages of the skill.
    pub fn save(&self, to: &mut Senses) {
        refill(&mut to.agreement, &self.agreement);
        refill(&mut to.power, &self.power);
    }

    /// Restores what [`save`](Self::save) saved.
    pub fn restore(&mut self, from: &Senses) {
        self.count = from.observed;
        self.agreement.copy_from_slice(&from.agreement);
        self.power.copy_from_slice(&from.power);
    }
}

impl Learner {
    /// Saves W, P and the regressor whose ridge is renewed next.
    pub fn save(&self, to: &mut Senses) {
        to.turn = self.turn as u64;
        refill(&mut to.weights, &self.weights);
        refill(&mut to.covariance, &self.covariance);
    }

    /// Restores what [`save`](Self::save) saved.
    pub fn restore(&mut self, from: &Senses) {
        self.turn = from.turn as usize;
        self.weights.copy_from_slice(&from.weights);
        self.covariance.copy_from_slice(&from.covariance);
    }
}
