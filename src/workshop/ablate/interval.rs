//! How certain a mean over rooms and field seeds is: 95 % intervals by the bootstrap, percentile method
//! (Efron 1979). Rooms and field seeds are resampled separately, because runs in the same room are not
//! independent of each other, and neither are runs with the same field seed (Owen, "The pigeonhole
//! bootstrap", Annals of Applied Statistics 1, 2007).

use crate::base::seed::{Stream, uniform};
use serde::Serialize;

/// Number of resamplings: the ends of a 95 % interval are then the 51st lowest mean and the 50th highest.
const TIMES: usize = 2_000;
/// Share of the resamplings beyond each end.
const TAIL: f64 = 0.025;
/// One seed for all intervals, so that the same runs give the same intervals.
const SEED: u64 = 1;

/// A mean with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Mean of all runs.
    pub mean: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// The interval of `runs`, by field seed and room, with the same number of rooms for each field. Runs
    /// without a value (NaN) are skipped; `None`: no run has one.
    pub fn of(runs: &[Vec<f64>]) -> Option<Interval> {
        let (fields, rooms) = (runs.len(), runs.first()?.len());
        let mean = mean(runs)?;
        let mut means: Vec<f64> = (0..TIMES)
            .filter_map(|time| mean_of(runs, &drawn(time, 0, fields), &drawn(time, fields, rooms)))
            .collect();
        means.sort_by(f64::total_cmp);
        let at = |share: f64| means.get((share * means.len() as f64) as usize).copied().unwrap_or(mean);
        Some(Interval { mean, low: at(TAIL), high: at(1.0 - TAIL) })
    }

    /// Whether the interval excludes 0: a difference is then more than chance.
    pub fn is_apart(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }
}

/// Mean of `runs`. Runs without a value (NaN) are skipped; `None`: no run has one.
pub fn mean(runs: &[Vec<f64>]) -> Option<f64> {
    let every = |count: usize| (0..count).collect::<Vec<_>>();
    mean_of(runs, &every(runs.len()), &every(runs.first()?.len()))
}

/// `count` indices below `count`, drawn with replacement. `time` is the number of the resampling, `after` the
/// number of draws already used in it.
fn drawn(time: usize, after: usize, count: usize) -> Vec<usize> {
    /// More draws than one resampling needs for 64 field seeds and 10,000 rooms.
    const APART: usize = 1 << 20;
    let draw = |nth: usize| uniform(SEED, Stream::Resampling, (time * APART + after + nth) as u64);
    (0..count).map(|nth| ((draw(nth) * count as f64) as usize).min(count - 1)).collect()
}

fn mean_of(runs: &[Vec<f64>], fields: &[usize], rooms: &[usize]) -> Option<f64> {
    let all = fields.iter().flat_map(|field| rooms.iter().map(|room| runs[*field][*room]));
    let (count, sum) = all
        .filter(|value| !value.is_nan())
        .fold((0_u32, 0.0), |(count, sum), value| (count + 1, sum + value));
    (count > 0).then(|| sum / f64::from(count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::seed::normal;

    fn simulated(seed: u64, fields: usize, rooms: usize) -> Vec<Vec<f64>> {
        let effect = |which: u64, nth: usize| normal(seed, Stream::Stimulus, which * 1_000 + nth as u64);
        let of = |field| {
            (0..rooms)
                .map(|room| effect(1, field) + effect(2, room) + effect(3 + field as u64, room))
                .collect()
        };
        (0..fields).map(of).collect()
    }

    #[test]
    fn the_interval_covers_the_true_mean_about_as_often_as_stated() {
        // Each field, each room and each pair of them has a random effect; the true mean is 0.
        let covers = |seed| {
            let interval = Interval::of(&simulated(seed, 8, 20)).unwrap();
            interval.low <= 0.0 && interval.high >= 0.0
        };
        let covered = (0..60).filter(|seed| covers(*seed)).count();
        assert!(covered >= 50, "{covered} of 60");
        // Resampling rooms alone would make the mean look far more certain than it is.
        let flat: Vec<Vec<f64>> = vec![simulated(3, 8, 20).concat()];
        let (pooled, crossed) = (Interval::of(&flat).unwrap(), Interval::of(&simulated(3, 8, 20)).unwrap());
        assert!(crossed.high - crossed.low > 1.5 * (pooled.high - pooled.low), "{crossed:?}, {pooled:?}");
    }

    #[test]
    fn equal_runs_have_zero_spread_and_missing_ones_are_skipped() {
        let certain = Interval { mean: 2.0, low: 2.0, high: 2.0 };
        assert_eq!(Interval::of(&[vec![2.0, f64::NAN, 2.0]]), Some(certain));
        assert!(certain.is_apart());
        assert_eq!(Interval::of(&[vec![f64::NAN]]), None);
        assert_eq!(Interval::of(&[]), None);
    }
}
