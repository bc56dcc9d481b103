//! A field engine that computes nothing and requests steady, random or slowly varying motor commands,
//! sometimes NaN or infinity. It takes the place of a GPU, costs almost no time, and leaves it to everything
//! downstream to keep the robot safe. With some of the seeds the CPU engine runs instead.

use super::draw::Draw;
use ganglion::base::command::MAX_MOTORS;
use ganglion::field::failover::Open;
use ganglion::field::state::{Learned, Live, StateError};
use ganglion::field::{Failure, FieldEngine, FieldInput, FieldOutput};

/// Mean duration of a mood, cycles.
const MOOD: f64 = 60.0;

#[derive(Clone, Copy, Debug)]
enum Mood {
    /// Constant.
    Steady(f64),
    /// A new random number each cycle.
    Restless,
    /// A slow wave with a period of this many cycles.
    Waves(f64),
    /// NaN or an infinity for the first motor, 1 for the others.
    Senseless(f32),
}

/// An engine with moods.
pub struct Temper {
    draw: Draw,
    mood: Mood,
    left: f64,
    /// Its preferred direction: -1..=1.
    bent: f64,
}

impl Temper {
    /// The engine of `seed`, which prefers to go forwards (`bent` above 0) or backwards.
    pub fn new(seed: u64, bent: f64) -> Temper {
        Temper { draw: Draw::new(seed, 3000), mood: Mood::Steady(bent), left: MOOD, bent }
    }

    /// Opens this engine in place of a GPU.
    pub fn open(seed: u64, bent: f64) -> Open {
        Box::new(move |_, _| Ok(Box::new(Temper::new(seed, bent))))
    }

    fn change(&mut self) {
        self.left = self.draw.wait(MOOD);
        self.mood = match self.draw.below(20) {
            0..=8 => Mood::Steady(self.bent),
            9..=10 => Mood::Steady(self.bent.signum()),
            11..=12 => Mood::Steady(self.draw.between(-1.0, 1.0)),
            13 => Mood::Steady(0.0),
            14..=16 => Mood::Restless,
            17..=18 => Mood::Waves(self.draw.decades(10.0, 300.0)),
            _ => Mood::Senseless(self.draw.pick(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY])),
        };
    }

    fn request(&mut self, motor: usize, cycle: u64) -> f32 {
        match self.mood {
            Mood::Steady(request) => request as f32,
            Mood::Restless => self.draw.between(-1.0, 1.0) as f32,
            Mood::Waves(length) => libm::sin(cycle as f64 / length * std::f64::consts::TAU) as f32,
            Mood::Senseless(request) if motor == 0 => request,
            Mood::Senseless(_) => 1.0,
        }
    }
}

impl FieldEngine for Temper {
    fn name(&self) -> String {
        "a temper".into()
    }
    fn cycle(&mut self, input: &FieldInput) -> Result<FieldOutput, Failure> {
        self.left -= 1.0;
        if self.left <= 0.0 {
            self.change();
        }
        let mut motors = [0.0; MAX_MOTORS];
        for (motor, request) in motors.iter_mut().enumerate() {
            *request = self.request(motor, input.cycle);
        }
        let (confidence, skill, novelty) = (1.0, 1.0, 0.0);
        Ok(FieldOutput { cycle: input.cycle, scores: motors, motors, confidence, skill, novelty })
    }
    fn save(&mut self, _live: &mut Live) -> bool {
        false // it has no state to save
    }
    fn restore(&mut self, _live: &Live) -> Result<(), StateError> {
        Ok(())
    }
    fn load(&mut self, _learned: &Learned) -> Result<(), StateError> {
        Ok(())
    }
    fn reset(&mut self) {}
}
