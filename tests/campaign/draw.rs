//! Random numbers of a campaign: one stream per purpose, the same on every machine, whatever else is drawn.
//! Knows no board.

/// The increment of SplitMix64 (Steele, Lea, Flood 2014); `mix` is its finaliser.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A stream of numbers.
#[derive(Clone, Debug)]
pub struct Draw {
    state: u64,
}

impl Draw {
    /// The stream of `seed` for `purpose`.
    pub fn new(seed: u64, purpose: u64) -> Draw {
        Draw { state: mix(seed ^ mix(purpose.wrapping_mul(GOLDEN))) }
    }
    /// 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        mix(self.state)
    }
    /// In [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
    /// True with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }
    /// In [low, high).
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }
    /// In [low, high), log-uniform: every decade is equally likely.
    pub fn decades(&mut self, low: f64, high: f64) -> f64 {
        (low.ln() + (high / low).ln() * self.unit()).exp()
    }
    /// Time until the next event of a Poisson process with this mean interval.
    pub fn wait(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }
    /// A whole number below `count`.
    pub fn below(&mut self, count: usize) -> usize {
        (self.unit() * count as f64) as usize
    }
    /// One of `choices`.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
    /// Removes one of `pool` and returns it.
    pub fn take<T>(&mut self, pool: &mut Vec<T>) -> T {
        let place = self.below(pool.len());
        pool.swap_remove(place)
    }
}
