//! Saves the parts of the prediction to a state, and loads them. Their sizes must match: the caller
//! has checked that.

use super::{ErrorRing, Learner, Skill, Trust};
use crate::field::shape::ERROR_RING;
use crate::field::state::{Senses, refill};

impl ErrorRing {
    /// Oldest first.
    pub fn save(&self, to: &mut Senses) {
        to.errors.clear();
        let oldest = self.head + ERROR_RING - self.filled;
        to.errors.extend((oldest..oldest + self.filled).map(|at| self.errors[at % ERROR_RING]));
    }

    /// The errors of `from`, at most as many as there is room for.
    pub fn restore(&mut self, from: &Senses) {
        *self = ErrorRing::EMPTY;
        from.errors.iter().for_each(|error| self.push(*error));
    }
}

impl Skill {
    /// Averages, and how many cycles they cover.
    pub fn save(&self, to: &mut Senses) {
        to.observed = self.count;
        refill(&mut to.mean, &self.mean);
        refill(&mut to.predicted, &self.predicted);
        refill(&mut to.persistent, &self.persistent);
        refill(&mut to.climatic, &self.climatic);
    }

    /// The same back.
    pub fn restore(&mut self, from: &Senses) {
        self.count = from.observed;
        self.mean.copy_from_slice(&from.mean);
        self.predicted.copy_from_slice(&from.predicted);
        self.persistent.copy_from_slice(&from.persistent);
        self.climatic.copy_from_slice(&from.climatic);
    }
}

impl Trust {
    /// Averages; the cycles behind them are those of the skill.
    pub fn save(&self, to: &mut Senses) {
        refill(&mut to.agreement, &self.agreement);
        refill(&mut to.power, &self.power);
    }

    /// The same back.
    pub fn restore(&mut self, from: &Senses) {
        self.count = from.observed;
        self.agreement.copy_from_slice(&from.agreement);
        self.power.copy_from_slice(&from.power);
    }
}

impl Learner {
    /// W, P and whose turn it is.
    pub fn save(&self, to: &mut Senses) {
        to.turn = self.turn as u64;
        refill(&mut to.weights, &self.weights);
        refill(&mut to.covariance, &self.covariance);
    }

    /// The same back.
    pub fn restore(&mut self, from: &Senses) {
        self.turn = from.turn as usize;
        self.weights.copy_from_slice(&from.weights);
        self.covariance.copy_from_slice(&from.covariance);
    }
}
