//! How smoothly something moves: the logarithm of dimensionless jerk, in windows of fixed length, and how
//! often a command did not change while the motion continued. Fixed memory, one sample at a time.
//!
//! Log dimensionless jerk after Balasubramanian, Melendez-Calderon, Roby-Brami, Burdet: On the analysis of
//! movement smoothness, J. NeuroEngineering and Rehabilitation 12:112, 2015: `-ln(duration^3 / peak^2 *
//! integral of jerk^2)` of a speed profile; nearer to zero is smoother, and a minimum-jerk movement gives
//! -ln(204.8) = -5.32. It reveals stutter that a spectral measure misses: repeating the previous command in
//! one cycle out of a hundred lowers the figure by about 5. Dimensionless jerk grows with the cube of the
//! duration, so only movements of the same length can be compared: hence the windows.

use crate::base::time::Span;

/// Length of a window: a few manoeuvres of a small robot, and the length used for the published reference
/// figures.
pub const WINDOW: Span = Span::from_millis(5_000);

/// Below this peak (share of full scale) a window counts as stopped: its jerk is only rounding error.
const STANDING: f64 = 0.01;

/// One movement, sampled evenly.
#[derive(Clone, Copy, Debug, Default)]
pub struct Movement {
    samples: u64,
    before: [f64; 2],
    peak: f64,
    /// Sum of squared second differences of speed.
    differences: f64,
}

impl Movement {
    /// Adds the next sample of the speed; skips a value that is not a number.
    pub fn push(&mut self, speed: f64) {
        if !speed.is_finite() {
            return;
        }
        let [older, newer] = self.before;
        if self.samples >= 2 {
            let difference = speed - 2.0 * newer + older;
            self.differences += difference * difference;
        }
        self.before = [newer, speed];
        self.peak = self.peak.max(speed.abs());
        self.samples += 1;
    }

    /// Log dimensionless jerk. `None` where it is meaningless: too short, stopped, or at a perfectly even
    /// speed. The sampling interval cancels out, so `samples` stands for the duration and the second
    /// difference for the jerk.
    pub fn log_dimensionless_jerk(&self) -> Option<f64> {
        if self.samples < 3 || self.peak < STANDING || self.differences <= 0.0 {
            return None;
        }
        let duration = self.samples as f64;
        let jerk = duration * duration * duration * self.differences / (self.peak * self.peak);
        Some(-libm::log(jerk))
    }
}

/// Smoothness of a motor over a run.
#[derive(Clone, Copy, Debug)]
pub struct Smoothness {
    window: u64,
    movement: Movement,
    sum: f64,
    worst: f64,
    windows: u64,
    last: Option<f32>,
    held: u64,
    moving: u64,
}

impl Smoothness {
    /// For a motor that is commanded every `period`.
    pub fn new(period: Span) -> Smoothness {
        Smoothness {
            window: (WINDOW.as_nanos() / period.as_nanos().max(1)).max(3),
            movement: Movement::default(),
            sum: 0.0,
            worst: 0.0,
            windows: 0,
            last: None,
            held: 0,
            moving: 0,
        }
    }

    /// Adds the next command.
    pub fn push(&mut self, command: f32) {
        if f64::from(command.abs()) >= STANDING {
            self.moving += 1;
            self.held += u64::from(self.last.is_some_and(|last| last.to_bits() == command.to_bits()));
        }
        self.last = Some(command);
        self.movement.push(f64::from(command));
        if self.movement.samples >= self.window {
            if let Some(jerk) = self.movement.log_dimensionless_jerk() {
                self.worst = if self.windows == 0 { jerk } else { self.worst.min(jerk) };
                self.sum += jerk;
                self.windows += 1;
            }
            self.movement = Movement::default();
        }
    }

    /// Mean over the windows with motion; `None`: there is none.
    pub fn mean(&self) -> Option<f64> {
        (self.windows > 0).then(|| self.sum / self.windows as f64)
    }

    /// The least smooth window with motion; `None`: there is none.
    pub fn worst(&self) -> Option<f64> {
        (self.windows > 0).then_some(self.worst)
    }

    /// Windows with motion.
    pub fn windows(&self) -> u64 {
        self.windows
    }

    /// The number of commands during motion that repeated the previous one bit for bit, and the number of all
    /// commands during motion.
    pub fn held(&self) -> (u64, u64) {
        (self.held, self.moving)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measure(profile: impl Iterator<Item = f64>) -> f64 {
        let mut movement = Movement::default();
        profile.for_each(|speed| movement.push(speed));
        movement.log_dimensionless_jerk().unwrap()
    }

    /// Minimum jerk, 5 s at 50 Hz: speed 30 (t^2 - 2 t^3 + t^4), with t from 0 to 1.
    fn minimum_jerk(step: usize) -> f64 {
        let t = step as f64 / 250.0;
        30.0 * (t.powi(2) - 2.0 * t.powi(3) + t.powi(4))
    }

    #[test]
    fn agrees_with_the_published_figures() {
        // The example in the authors' own code: a Gaussian from -1 to 1, 200 samples, gives -5.81636.
        let gaussian = (0..200).map(|step| (-5.0 * (step as f64 / 100.0 - 1.0).powi(2)).exp());
        assert!((measure(gaussian) - -5.81636).abs() < 1e-4);
        let smooth = measure((0..250).map(minimum_jerk));
        assert!((smooth - -5.28).abs() < 0.01, "{smooth}");
        let fine = measure((0..250_000).map(|step| {
            let t = step as f64 / 250_000.0;
            30.0 * (t.powi(2) - 2.0 * t.powi(3) + t.powi(4))
        }));
        assert!((fine - -5.3220).abs() < 0.001, "the limit is -ln 204.8, found {fine}");
    }

    #[test]
    fn repeated_commands_lower_the_smoothness() {
        let held = measure((0..250).map(|step| minimum_jerk(if step % 20 == 7 { step - 1 } else { step })));
        assert!(held < -10.0, "{held}");
    }

    #[test]
    fn scale_and_rate_do_not_matter() {
        let once = measure((0..250).map(minimum_jerk));
        let tenth = measure((0..250).map(|step| 0.1 * minimum_jerk(step)));
        assert!((once - tenth).abs() < 1e-9);
        let twice = measure((0..500).map(|step| {
            let t = step as f64 / 500.0;
            t.powi(2) - 2.0 * t.powi(3) + t.powi(4)
        }));
        assert!((once - twice).abs() < 0.05);
    }

    #[test]
    fn windows_without_motion_are_left_out() {
        let mut smooth = Smoothness::new(Span::from_millis(20));
        (0..250).for_each(|_| smooth.push(0.0));
        (0..250).for_each(|_| smooth.push(0.5));
        assert_eq!((smooth.windows(), smooth.mean(), smooth.worst()), (0, None, None));
        assert_eq!(smooth.held(), (249, 250), "each but the first repeats the previous one");
        (0..250).for_each(|step| smooth.push(minimum_jerk(step) as f32 / 2.0));
        (0..250).for_each(|step| smooth.push(if step % 2 == 0 { 0.3 } else { -0.3 }));
        smooth.push(f32::NAN);
        assert_eq!(smooth.windows(), 2);
        let (mean, worst) = (smooth.mean().unwrap(), smooth.worst().unwrap());
        assert!(worst < mean && mean < -5.28 && mean > -30.0);
    }
}
