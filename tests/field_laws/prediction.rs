//! Prediction against forecasts that need no learning: better on regular signals, no better on noise.

use super::*;
use std::f64::consts::TAU;

const SENSORS: usize = 3;
/// 40 s at 20 Hz.
const CYCLES: u64 = 800;

/// Skill at the end of a run on a signal that depends on (cycle, sensor), and the lowest skill after the
/// first ten seconds.
fn skill_on<E: Judged>(seed: u64, mut signal: impl FnMut(u64, usize) -> f64) -> (f64, f64) {
    let mut plan = plan(SENSORS);
    plan.learn = true;
    plan.seed = seed;
    let mut engine = E::new(&plan);
    let (mut last, mut least) = (0.0, 1.0_f64);
    for cycle in 0..CYCLES {
        let values: [f64; SENSORS] = std::array::from_fn(|i| signal(cycle, i).clamp(-1.0, 1.0));
        last = f64::from(run(&mut engine, &input(cycle, &values)).skill);
        if cycle >= 200 {
            least = least.min(last);
        }
    }
    (last, least)
}

/// A second-order autoregression: a resonance that white noise drives.
struct Resonance {
    seed: u64,
    past: [[f64; 2]; SENSORS],
}

impl Resonance {
    const RADIUS: f64 = 0.98;
    fn next(&mut self, cycle: u64, i: usize) -> f64 {
        let angle = TAU * (0.4 + 0.2 * i as f64) * 0.05;
        let [one, two] = self.past[i];
        let now = 2.0 * Self::RADIUS * angle.cos() * one - Self::RADIUS * Self::RADIUS * two
            + 0.02 * noise(self.seed, cycle, i);
        self.past[i] = [now, one];
        now
    }
}

/// With sine, chirp and AR(2) and each seed, the skill is at least 0.8 at the end, and at least 0.2 after the
/// first ten seconds.
pub fn regular_sensors_are_predicted<E: Judged>() {
    for &seed in E::seeds() {
        let phase = |i: usize| TAU * draw(seed, 0, i);
        let rate = |i: usize| 0.6 + 0.3 * draw(seed, 1, i); // 0.3..0.9 Hz
        let second = |cycle: u64| cycle as f64 * 0.05;
        let sine = skill_on::<E>(seed, |cycle, i| 0.8 * (TAU * rate(i) * second(cycle) + phase(i)).sin());
        // 0.2 to 1 Hz in 40 s.
        let sweep = |t: f64| TAU * (0.2 + 0.01 * t) * t;
        let mut resonance = Resonance { seed, past: [[0.0; 2]; SENSORS] };
        let chirp = skill_on::<E>(seed, |cycle, i| 0.8 * (sweep(second(cycle)) + phase(i)).sin());
        let resonant = skill_on::<E>(seed, |cycle, i| resonance.next(cycle, i));
        let skills = [("sine", sine), ("chirp", chirp), ("AR(2)", resonant)];
        println!("skill, seed {seed}: {skills:?}");
        for (name, (last, least)) in skills {
            assert!(last >= 0.8, "{name}, seed {seed}: {last}");
            assert!(least >= 0.2, "{name}, seed {seed}: {least} after ten seconds");
        }
    }
}

/// White noise and white changes are not predictable: the skill is about 0 at the end, and the engine does
/// not act on rules that it seems to find in noise.
pub fn noise_is_not_predicted<E: Judged>() {
    for &seed in E::seeds() {
        let white = skill_on::<E>(seed, |cycle, i| 0.3 * noise(seed, cycle, i));
        assert!(white.0.abs() < 0.1 && white.1 > -0.35, "white noise, seed {seed}: {white:?}");
        let mut walk = [0.0_f64; SENSORS];
        let steps = skill_on::<E>(seed, |cycle, i| {
            let next = walk[i] + 0.03 * noise(seed, cycle, i);
            walk[i] = if next.abs() > 1.0 { next.signum() * 2.0 - next } else { next };
            walk[i]
        });
        println!("skill, seed {seed}: white {white:?}, walk {steps:?}");
        assert!(steps.0.abs() < 0.05 && steps.1 > -0.05, "random walk, seed {seed}: {steps:?}");
    }
}

/// Sensors never move, for ever: forgetting without new information must not make the learning diverge. When
/// the sensors finally move a little, the prediction does not jump.
pub fn constant_sensors_for_ever_break_nothing<E: Judged>() {
    let mut plan = plan(SENSORS);
    plan.learn = true;
    // A memory of about a second: what takes days with the usual hundred seconds happens here in minutes.
    plan.params.forget_per_s = 0.5;
    let mut engine = E::new(&plan);
    let (standing, trembling) = (E::for_ever() / 2, 200);
    for cycle in 0..standing {
        let response = run(&mut engine, &input(cycle, &[0.3, -0.9, 1.0]));
        assert!(cycle < 1 || response.skill.abs() < 0.01, "cycle {cycle}: {response:?}");
    }
    let p = engine.prediction();
    assert!(p.iter().zip([0.3_f32, -0.9, 1.0]).all(|(p, s)| (p - f64::from(s)).abs() < 1e-4), "{p:?}");
    let mut wildest = 0.0_f64;
    for cycle in standing..standing + trembling {
        let values: Vec<f64> = (0..SENSORS).map(|i| 0.3 + 1e-3 * noise(6, cycle, i)).collect();
        run(&mut engine, &input(cycle, &values));
        let change = engine.prediction().iter().zip(&values).map(|(p, s)| (p - s).abs()).fold(0.0, f64::max);
        // The first 20 cycles do not count: there, the sensors really jump from their old values.
        wildest = wildest.max(if cycle > standing + 20 { change } else { 0.0 });
    }
    assert!(wildest < 3e-4, "a jitter of 0.001 changes the prediction by {wildest}");
}
