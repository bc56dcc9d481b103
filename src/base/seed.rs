//! Random numbers drawn from a seed, the same on every machine and in every version.
//!
//! Counter-based: a draw is a pure function of (seed, stream, index), so threads, order and quality level
//! cannot change it. The mixer is SplitMix64's finaliser (Steele, Lea, Flood 2014); library generators do not
//! promise that their distributions stay the same from release to release.

/// One independent family of draws. The number of a stream is part of the file format: never reuse one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Stream {
    /// Which content channels a sensor drives.
    ReceptiveChannels = 1,
    /// Signed weights of those channels.
    ReceptiveWeights = 2,
    /// One bias per channel.
    Bias = 3,
    /// Exploration noise of the motors, by cycle.
    Explore = 4,
    /// Initial field of a test.
    InitialField = 5,
    /// The simulated world's layout.
    World = 6,
    /// Noise of simulated sensors.
    SensorNoise = 7,
    /// Synthetic stimuli, and disturbances of real ones (teaching, tests).
    Stimulus = 8,
    /// Initial pattern library.
    Patterns = 9,
    /// Random faults.
    Fault = 10,
    /// At which point of a control period each stimulus of `ganglion hil` arrives.
    Phase = 11,
    /// Random vectors of the holographic memory.
    MemoryVectors = 12,
    /// Phases of the holographic memory's unitary vectors.
    MemoryPhases = 13,
    /// Wave vectors of the holographic memory's spatial pointers.
    MemoryWaves = 14,
    /// Which runs a bootstrap resampling draws.
    Resampling = 15,
    /// Noise of decision fields.
    DecisionNoise = 16,
    /// Requests of the random controller.
    RandomRequest = 17,
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// 64 well-mixed bits for (seed, stream, index).
pub fn bits(seed: u64, stream: Stream, index: u64) -> u64 {
    const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15; // 2^64 / golden ratio, odd
    let key = mix(seed.wrapping_add(GOLDEN.wrapping_mul(stream as u64)));
    mix(key ^ mix(index.wrapping_mul(GOLDEN).wrapping_add(1)))
}

/// Uniform in [0, 1), 53 bits.
pub fn uniform(seed: u64, stream: Stream, index: u64) -> f64 {
    (bits(seed, stream, index) >> 11) as f64 / (1u64 << 53) as f64
}

/// Standard normal by Box-Muller, one draw per index. It uses `libm` rather than the system's library, so
/// that two machines agree to the last bit.
pub fn normal(seed: u64, stream: Stream, index: u64) -> f64 {
    let u1 = 1.0 - uniform(seed, stream, index.wrapping_mul(2)); // (0, 1]: the logarithm is finite
    let u2 = uniform(seed, stream, index.wrapping_mul(2).wrapping_add(1));
    libm::sqrt(-2.0 * libm::log(u1)) * libm::cos(std::f64::consts::TAU * u2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_draws_never_change() {
        // Golden values: a change to the generator would silently change the meaning of every saved read-out.
        let golden = (bits(1, Stream::Bias, 0), bits(1, Stream::Bias, 1), bits(2, Stream::Bias, 0));
        assert_eq!(golden, GOLDEN);
    }
    const GOLDEN: (u64, u64, u64) =
        (2_211_662_769_585_535_077, 1_746_450_565_877_553_186, 2_344_483_485_675_687_029);

    #[test]
    fn normal_draws_have_the_right_mean_and_variance() {
        let n = 100_000;
        let (mut sum, mut square) = (0.0, 0.0);
        for i in 0..n {
            let x = normal(7, Stream::Stimulus, i);
            sum += x;
            square += x * x;
        }
        assert!((sum / n as f64).abs() < 0.015);
        assert!((square / n as f64 - 1.0).abs() < 0.02);
    }
}
