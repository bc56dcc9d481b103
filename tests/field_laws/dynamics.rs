//! The field alone: bounds, refusals, the formula of one cycle, contraction, half-lives, rate.

use super::*;
use ganglion::field::projections::Projections;
use ganglion::field::shape::{CHANNELS, PATTERN_FIRST, SLOW_FIRST};

const FAST: std::ops::Range<usize> = 0..SLOW_FIRST;
const ALL: std::ops::Range<usize> = 0..CHANNELS;

/// The weight w of F in a channel's update while the library is empty: below 1 in pattern channels only.
fn share(c: usize) -> f64 {
    if (PATTERN_FIRST..SLOW_FIRST).contains(&c) { 0.9 } else { 1.0 }
}

/// Time constant of a channel, seconds.
fn time_constant(c: usize) -> f64 {
    if c < SLOW_FIRST { 0.05 } else { 1.0 }
}

/// Solves u = w 0.95 tanh(0.9 u + drive) by bisection: u - F(u) is increasing.
fn resting_value(c: usize, drive: f64) -> f64 {
    let (mut low, mut high) = (-1.0, 1.0);
    for _ in 0..60 {
        let u = 0.5 * (low + high);
        if u < share(c) * 0.95 * (0.9 * u + drive).tanh() { low = u } else { high = u }
    }
    0.5 * (low + high)
}

fn sup_distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

/// With any in-range input, learning, patterns at the bound and all levels: |u| <= 0.95, and all numbers are
/// finite.
pub fn stays_bounded<E: Judged>() {
    let sensors = 6;
    let mut plan = plan(sensors);
    plan.learn = true;
    plan.params.explore = 0.5;
    let mut engine = E::new(&plan);
    let readout = random_readout(&mut engine, 3, 1.0);
    engine.set_readout(&readout);
    for slot in 0..4 {
        let volume: Vec<f32> =
            (0..16 * 512).map(|i| if (i * 7 + slot) % 3 == 0 { 0.95 } else { -0.95 }).collect();
        let context = std::array::from_fn(|c| draw(5, slot as u64, c) as f32);
        engine.store_pattern(slot, &volume, &context);
    }
    let spell = (E::bounded() / 3).min(200);
    for cycle in 0..E::bounded() {
        // The inputs are random for a third of the time, square waves between the extremes for a third, and
        // constant for a third.
        let values: Vec<f64> = (0..sensors)
            .map(|i| match cycle / spell % 3 {
                0 => draw(1, cycle, i),
                1 => draw(2, cycle / (1 + i as u64), i).signum(),
                _ => draw(3, cycle / spell, i),
            })
            .collect();
        let mut input = input(cycle, &values);
        input.reward = draw(4, cycle, 0) as f32;
        input.quality = QualityLevel::new((cycle / 37 % 6) as u8).expect("six levels");
        let response = run(&mut engine, &input);
        let told = [response.confidence, response.skill, response.novelty];
        assert!(response.motors.iter().all(|m| m.abs() <= 1.0), "cycle {cycle}: {response:?}");
        assert!(told.iter().all(|t| (-1.0..=1.0).contains(t)), "cycle {cycle}: {response:?}");
        assert!(engine.prediction().iter().all(|p| p.abs() <= 1.0), "cycle {cycle}");
        if cycle % 16 == 0 {
            let worst = ALL.flat_map(|c| engine.channel(c)).fold(0.0, |worst: f64, u| worst.max(u.abs()));
            let finite = ALL.flat_map(|c| engine.channel(c)).all(f64::is_finite);
            assert!(finite && worst <= 0.95 * (1.0 + E::ROUNDING), "cycle {cycle}: {worst}");
        }
    }
    assert!(engine.experiences() > 0, "the run stored no experience");
}

/// NaN, infinities and values out of range are refused by name, and the engine continues as if they had never
/// been sent.
pub fn refuses_invalid_sensor_values_without_side_effects<E: Judged>() {
    let mut plan = plan(4);
    plan.learn = true;
    let (mut asked, mut spared) = (E::new(&plan), E::new(&plan));
    let bad = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1.000_001, -1.5, f32::MAX];
    for cycle in 0..30 {
        let good = input(cycle, &[draw(1, cycle, 0), draw(1, cycle, 1), 0.3, -1.0]);
        let value = bad[cycle as usize % bad.len()];
        let before: Vec<Vec<f64>> = ALL.map(|c| asked.channel(c)).collect();
        let mut wrong = good;
        wrong.sensors[2] = value;
        let refused = asked.cycle(&wrong).expect_err("must be refused");
        assert_eq!((refused.sensor, refused.value.to_bits()), (Some(2), value.to_bits()));
        let mut wrong = good;
        wrong.reward = value;
        let refused = asked.cycle(&wrong).expect_err("must be refused");
        assert_eq!((refused.sensor, refused.value.to_bits()), (None, value.to_bits()));
        assert!(ALL.zip(&before).all(|(c, field)| asked.channel(c) == *field));
        let (a, b) = (run(&mut asked, &good), run(&mut spared, &good));
        assert_eq!(format!("{a:?}"), format!("{b:?}"));
        assert_eq!(asked.prediction(), spared.prediction());
    }
    // Entries beyond the board's sensors are ignored.
    let mut unused = input(30, &[0.0; 4]);
    unused.sensors[4] = f32::NAN;
    assert!(asked.cycle(&unused).is_ok());
}

/// From a uniform field, the result of one cycle is in every cell a closed formula of the drive and the
/// resting value.
pub fn one_cycle_from_rest_matches_the_formula<E: Judged>() {
    let plan = plan(3);
    let projections = Projections::new(&plan, 8);
    let mut engine = E::new(&plan);
    let sensors = [0.5_f64, -0.25, 1.0];
    run(&mut engine, &input(0, &sensors));
    for c in ALL {
        let rest = resting_value(c, 4.0 * projections.bias[c]);
        let k = 0.05 / time_constant(c);
        for (cell, u) in engine.channel(c).iter().enumerate() {
            let at = [cell % 8, cell / 8 % 8, cell / 64];
            // Nothing was predicted: e = s, and s + 0.5 e = 1.5 s.
            let felt: f64 = (0..3)
                .map(|i| {
                    let bump: f64 = (0..3).map(|axis| projections.profile[i][axis][at[axis]]).product();
                    projections.weight[c][i] * bump * 1.5 * sensors[i]
                })
                .sum();
            let force = share(c) * 0.95 * (0.9 * rest + 4.0 * (felt + projections.bias[c])).tanh();
            let expected = (1.0 - k) * rest + k * force;
            assert!(
                (u - expected).abs() < 64.0 * E::ROUNDING,
                "channel {c}, cell {cell}: {u} for {expected}"
            );
        }
    }
}

/// Small cosine waves that meet the zero-flux boundary condition of the cube are eigenmodes of the kernel:
/// each decays by its own factor.
pub fn a_cosine_mode_fades_by_its_own_factor<E: Judged>() {
    let mut plan = plan(1);
    plan.params.gain = 0.0;
    let mut engine = E::new(&plan);
    let size = 1e-3;
    let wave = |m: [usize; 3], cell: usize| {
        let at = [cell % 8, cell / 8 % 8, cell / 64];
        let factor =
            |axis: usize| (std::f64::consts::PI * m[axis] as f64 * (at[axis] as f64 + 0.5) / 8.0).cos();
        size * factor(0) * factor(1) * factor(2)
    };
    let modes = [[0, 0, 0], [1, 0, 0], [0, 2, 0], [0, 0, 3], [1, 1, 1], [7, 7, 7]];
    for (c, m) in modes.iter().enumerate() {
        engine.set_channel(c, &(0..512).map(|cell| wave(*m, cell)).collect::<Vec<_>>());
    }
    run(&mut engine, &input(0, &[0.0]));
    for (c, m) in modes.iter().enumerate() {
        let mu: f64 = m.iter().map(|m| 2.0 - 2.0 * (std::f64::consts::PI * *m as f64 / 8.0).cos()).sum();
        let factor = 0.855 * (1.0 - 0.1 * mu);
        for (cell, u) in engine.channel(c).iter().enumerate() {
            // The cubic term of the tanh is a third of a millionth of its value; the rounding error of a tanh
            // may be that of a number near 1, however small the tanh itself is.
            assert!((u - factor * wave(*m, cell)).abs() < 1e-6 * size + 2.0 * E::ROUNDING, "mode {m:?}");
        }
    }
}

/// Two fields under the same drive: every cycle reduces their distance by at least the factor that the gain G
/// allows, also at rates that need sub-steps; in the end, less than 0.01 of it is left in the fast channels.
pub fn fields_converge_at_least_as_fast_as_the_gain_allows<E: Judged>() {
    let rates = [(111, 40), (50, 90), (10, 200)];
    for (ms, cycles) in rates.into_iter().take(E::share(3, 1) as usize) {
        let mut plan = plan(4);
        plan.dt = Span::from_millis(ms);
        let (mut a, mut b) = (E::new(&plan), E::new(&plan));
        assert!((a.gain() - 0.855).abs() < 1e-12);
        for c in ALL {
            let extreme: Vec<f64> = (0..512).map(|cell| 0.95 * draw(c as u64, cell, 0).signum()).collect();
            a.set_channel(c, &extreme);
            b.set_channel(c, &extreme.iter().map(|u| -u).collect::<Vec<_>>());
        }
        let bound = |c: usize| {
            let ratio = ms as f64 / 1000.0 / time_constant(c);
            let (steps, k) = (ratio.ceil().max(1.0), ratio / ratio.ceil().max(1.0));
            (1.0 - k + k * 0.855 * share(c)).powf(steps)
        };
        let mut apart: Vec<f64> = ALL.map(|c| sup_distance(&a.channel(c), &b.channel(c))).collect();
        assert!(apart.iter().all(|d| *d > 1.8));
        for cycle in 0..cycles {
            let input = input(cycle, &[draw(9, cycle, 0), draw(9, cycle, 1), draw(9, cycle / 20, 2), 0.9]);
            run(&mut a, &input);
            run(&mut b, &input);
            for c in ALL {
                let now = sup_distance(&a.channel(c), &b.channel(c));
                let allowed = bound(c) * apart[c] + 64.0 * E::ROUNDING;
                assert!(now <= allowed, "{ms} ms, cycle {cycle}, channel {c}: {now} > {allowed}");
                apart[c] = now;
            }
        }
        let left = apart[FAST].iter().fold(0.0_f64, |worst, d| worst.max(*d));
        assert!(left < 0.01, "{ms} ms: {left} is left of a difference of 1.9");
    }
}

/// Number of cycles in which a uniform disturbance of channel `c` falls to a half, extrapolated from `cycles`
/// cycles of silence.
fn half_life<E: Judged>(engine: &mut E, c: usize, rest: f64, size: f64, cycles: u64) -> f64 {
    engine.set_channel(c, &vec![rest + size; 512]);
    feed(engine, 0..cycles, |_| vec![0.0]);
    let left = (engine.channel(c)[100] - rest) / size;
    cycles as f64 * std::f64::consts::LN_2 / -left.ln()
}

/// The half-life is ln 2 / -ln G cycles in content channels at the reference period, and correspondingly in
/// the other groups and at another rate, within 10 %.
pub fn without_bias_half_lives_match_the_documented_ones<E: Judged>() {
    for (ms, content, pattern, slow) in [(50, 4.42, 2.65, 95.3), (10, 23.5, 14.7, 477.7)] {
        let mut plan = plan(1);
        plan.params.gain = 0.0;
        plan.dt = Span::from_millis(ms);
        for (c, stated, cycles) in [(5, content, 12), (40, pattern, 8), (60, slow, 200)] {
            let measured = half_life(&mut E::new(&plan), c, 0.0, 0.02, cycles);
            assert!(
                (measured / stated - 1.0).abs() < 0.1,
                "{ms} ms, channel {c}: {measured} for {stated} cycles"
            );
        }
    }
}

/// With its bias, a channel fades by the factor 1 - k + k w 0.855 sech^2(0.9 u + 4 h) per cycle: each of the
/// 64, apart from saturated ones.
pub fn with_bias_each_channel_fades_by_its_own_slope<E: Judged>() {
    let plan = plan(1);
    let projections = Projections::new(&plan, 8);
    let mut engine = E::new(&plan);
    let (mut slowest, mut compared) = (0.0_f64, 0);
    for c in ALL {
        let drive = 4.0 * projections.bias[c];
        let rest = resting_value(c, drive);
        let slope = 1.0 - (0.9 * rest + drive).tanh().powi(2);
        let k = 0.05 / time_constant(c);
        let factor = 1.0 - k + k * share(c) * 0.855 * slope;
        slowest = slowest.max(if c < SLOW_FIRST { factor } else { 0.0 });
        assert!(
            (engine.channel(c)[0] - rest).abs() < 64.0 * E::ROUNDING,
            "channel {c} does not start at rest"
        );
        // Saturated channels forget within a cycle: their half-life would be a ratio of rounding errors.
        if factor > 0.01 {
            let stated = std::f64::consts::LN_2 / -factor.ln();
            engine.reset();
            // The disturbance points inwards, because a saturated channel rests at the bound.
            let size = -1e-3 * rest.signum();
            let measured = half_life(&mut engine, c, rest, size, if c < SLOW_FIRST { 1 } else { 20 });
            assert!((measured / stated - 1.0).abs() < 0.1, "channel {c}: {measured} for {stated} cycles");
            compared += 1;
        }
    }
    assert!(compared >= 30 && slowest < 0.855, "{compared} channels, slowest {slowest}");
}

/// However hard the field was driven, after silence it returns to its initial state.
pub fn the_field_returns_to_rest_after_an_input<E: Judged>() {
    let mut engine = E::new(&plan(4));
    let start: Vec<Vec<f64>> = ALL.map(|c| engine.channel(c)).collect();
    let away = |engine: &E, channels: std::ops::Range<usize>| {
        channels.map(|c| sup_distance(&engine.channel(c), &start[c])).fold(0.0, f64::max)
    };
    feed(&mut engine, 0..60, |_| vec![1.0, -1.0, 1.0, -1.0]);
    assert!(away(&engine, FAST) > 0.5, "the input had no effect");
    // In the first silent cycle the sensors' change is still a prediction error: this takes one cycle more
    // than the fading alone.
    feed(&mut engine, 60..161, |_| vec![0.0; 4]);
    let bound = 1.9 * 0.855_f64.powi(100);
    assert!(away(&engine, FAST) <= bound + 64.0 * E::ROUNDING, "{} > {bound}", away(&engine, FAST));
    // 5 s: one half-life of the slowest allowed slow channel.
    assert!(away(&engine, SLOW_FIRST..CHANNELS) < 0.95);
    feed(&mut engine, 161..1161, |_| vec![0.0; 4]);
    assert!(away(&engine, ALL) < 0.01, "{} is left after 55 s", away(&engine, ALL));
}

/// The same signal, sampled at 20 Hz and at 100 Hz. One step of 50 ms acts at once, where five of 10 ms act
/// gradually: the result is a delay of about 40 ms, which changes the context by less than a fifth of its
/// swing at 0.4 Hz. With the delay compensated, a twelfth is left.
pub fn behaviour_does_not_depend_on_the_loop_rate<E: Judged>() {
    let end = 200; // slow cycles: 10 s
    let contexts = |ms: u64| -> Vec<Vec<f64>> {
        let mut plan = plan(4);
        plan.dt = Span::from_millis(ms);
        let mut engine = E::new(&plan);
        let at = |cycle: u64| {
            let t = (cycle * ms) as f64 / 1000.0;
            let wave = |i: usize| 0.8 * (std::f64::consts::TAU * (0.1 + 0.1 * i as f64) * t + i as f64).sin();
            run(&mut engine, &input(cycle, &[wave(0), wave(1), wave(2), wave(3)]));
            engine.features()[..CONTEXT].to_vec()
        };
        (0..(end as u64 * 50 + 100) / ms).map(at).collect()
    };
    let (slow, fast) = (contexts(50), contexts(10));
    let slow = &slow[40..end]; // from 2 s on
    let mean = |c: usize| slow.iter().map(|x| x[c]).sum::<f64>() / slow.len() as f64;
    let swing: f64 = (0..CONTEXT).map(|c| slow.iter().map(|x| (x[c] - mean(c)).powi(2)).sum::<f64>()).sum();
    let apart = |later: usize| {
        let pairs = slow.iter().enumerate().map(|(n, a)| (a, &fast[200 + 5 * n + later]));
        let square: f64 = pairs.flat_map(|(a, b)| a.iter().zip(b)).map(|(a, b)| (a - b).powi(2)).sum();
        (square / swing).sqrt()
    };
    println!("rate: {:?}", (0..8).map(apart).collect::<Vec<_>>());
    assert!(apart(0) < 0.2, "20 Hz and 100 Hz differ by {} of the context's change", apart(0));
    assert!(apart(4) < 0.08, "and by {} beyond the delay", apart(4));
}
