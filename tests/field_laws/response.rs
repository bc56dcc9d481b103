//! The outputs: features match their definitions, and they distinguish inputs.

use super::*;
use ganglion::field::shape::{BLOCK_COUNT, CHANNELS, DESCRIPTOR, FEATURES, GROUP};
use nalgebra::DMatrix;

/// Context, descriptor and gradients equal those recomputed from the field that the engine shows.
pub fn features_match_their_definitions<E: Judged>() {
    let mut engine = E::new(&plan(4));
    feed(&mut engine, 0..5, |cycle| vec![0.9, -0.7, 0.4, draw(1, cycle, 0)]);
    let features = engine.features();
    let field: Vec<Vec<f64>> = (0..CHANNELS).map(|c| engine.channel(c)).collect();
    let close = |a: f64, b: f64| (a - b).abs() < 256.0 * E::ROUNDING;
    assert_eq!(features.len(), FEATURES);
    for c in 0..CHANNELS {
        assert!(close(features[c], field[c].iter().sum::<f64>() / 512.0), "context {c}");
    }
    let mean = |group: usize, x: usize, y: usize, z: usize| {
        let cell = (z.min(7) * 8 + y.min(7)) * 8 + x.min(7);
        field[group * GROUP..][..GROUP].iter().map(|channel| channel[cell]).sum::<f64>() / GROUP as f64
    };
    let cells_of = |block: usize| {
        let corner = [2 * (block % 4), 2 * (block / 4 % 4), 2 * (block / 16)];
        (0..8).map(move |i| [corner[0] + i % 2, corner[1] + i / 2 % 2, corner[2] + i / 4])
    };
    for group in 0..8 {
        for block in 0..BLOCK_COUNT {
            let said = features[CONTEXT + group * BLOCK_COUNT + block];
            let sum: f64 = cells_of(block).map(|[x, y, z]| mean(group, x, y, z)).sum();
            assert!(close(said, sum / 8.0), "descriptor, group {group}, block {block}");
        }
    }
    // A Sobel derivative is a smoothed central difference: weights (1, 2, 1) / 4 along each of the other two
    // axes.
    let slope = |group: usize, axis: usize, at: [usize; 3]| {
        let (mut sum, near) = (0.0, |i: usize, step: usize| (i + step).saturating_sub(1).min(7));
        for a in 0..3 {
            for b in 0..3 {
                let mut low = at;
                low[(axis + 1) % 3] = near(at[(axis + 1) % 3], a);
                low[(axis + 2) % 3] = near(at[(axis + 2) % 3], b);
                let mut high = low;
                low[axis] = near(at[axis], 0);
                high[axis] = near(at[axis], 2);
                let weight = [0.25, 0.5, 0.25][a] * [0.25, 0.5, 0.25][b];
                let value = |at: [usize; 3]| mean(group, at[0], at[1], at[2]);
                sum += weight * (value(high) - value(low)) / 2.0;
            }
        }
        sum
    };
    let mut largest = 0.0_f64;
    for group in 0..4 {
        for axis in 0..3 {
            for block in 0..BLOCK_COUNT {
                let slopes: Vec<f64> = cells_of(block).map(|at| slope(group, axis, at)).collect();
                let place = CONTEXT + DESCRIPTOR + (group * 3 + axis) * 2 * BLOCK_COUNT + block;
                let signed = slopes.iter().sum::<f64>() / 8.0;
                let size = slopes.iter().map(|s| s.abs()).sum::<f64>() / 8.0;
                assert!(
                    close(features[place], signed),
                    "gradient, group {group}, axis {axis}, block {block}"
                );
                assert!(close(features[place + BLOCK_COUNT], size), "size, group {group}, axis {axis}");
                largest = largest.max(size);
            }
        }
    }
    assert!(largest > 0.05, "the field is too flat to test gradients");
}

/// Share of the later half of the rows that a ridge classifier, fitted to the earlier half, gets right.
fn decoded(rows: &[Vec<f64>], classes: &[usize], count: usize) -> f64 {
    let half = rows.len() / 2;
    let width = rows[0].len();
    let mean: Vec<f64> =
        (0..width).map(|i| rows[..half].iter().map(|r| r[i]).sum::<f64>() / half as f64).collect();
    let centred = |rows: &[Vec<f64>]| DMatrix::from_fn(rows.len(), width, |r, i| rows[r][i] - mean[i]);
    let (train, test) = (centred(&rows[..half]), centred(&rows[half..]));
    let mut kernel = &train * train.transpose();
    let ridge = 1e-3 * kernel.trace() / half as f64;
    (0..half).for_each(|i| kernel[(i, i)] += ridge);
    let target = DMatrix::from_fn(half, count, |r, class| if classes[r] == class { 1.0 } else { 0.0 });
    let dual = kernel.cholesky().expect("a kernel with a ridge is positive definite").solve(&target);
    let said = test * (train.transpose() * dual);
    let right = |r: &usize| said.row(*r).transpose().argmax().0 == classes[half + r];
    (0..rows.len() - half).filter(right).count() as f64 / (rows.len() - half) as f64
}

/// Which of four noisy stimuli is present can be read from features and motors by a linear map fitted to
/// earlier rows; with shuffled labels the same procedure finds nothing.
pub fn stimuli_are_decodable_from_features_and_motors<E: Judged>() {
    let (sensors, count, held) = (6, 4, 4);
    let mut engine = E::new(&plan(sensors));
    let readout = random_readout(&mut engine, 21, 0.1);
    engine.set_readout(&readout);
    let (mut features, mut motors, mut classes) = (Vec::new(), Vec::new(), Vec::new());
    for presentation in 0..240 {
        let class = ((draw(31, presentation, 0) + 1.0) / 2.0 * count as f64) as usize;
        for step in 0..held {
            let cycle = presentation * held + step;
            let value =
                |i: usize| (0.6 * draw(32, class as u64, i) + 0.1 * noise(33, cycle, i)).clamp(-1.0, 1.0);
            let response = run(&mut engine, &input(cycle, &(0..sensors).map(value).collect::<Vec<_>>()));
            if step == held - 1 {
                features.push(engine.features());
                motors.push(response.motors[..MOTORS].iter().map(|m| f64::from(*m)).collect::<Vec<_>>());
                classes.push(class);
            }
        }
    }
    let mut shuffled = classes.clone();
    for i in (1..shuffled.len()).rev() {
        shuffled.swap(i, ((draw(34, i as u64, 0) + 1.0) / 2.0 * (i + 1) as f64) as usize);
    }
    let (by_features, by_motors) = (decoded(&features, &classes, count), decoded(&motors, &classes, count));
    println!("decoded: features {by_features}, motors {by_motors}");
    assert!(by_features >= 0.95, "features: {by_features}");
    assert!(by_motors >= 0.8, "motors: {by_motors}");
    // Four standard errors above the chance level, 0.25.
    let most = 0.25 + 4.0 * (0.25 * 0.75 / (classes.len() / 2) as f64).sqrt();
    for rows in [&features, &motors] {
        let by_chance = decoded(rows, &shuffled, count);
        println!("shuffled: {by_chance}");
        assert!(by_chance < most, "shuffled: {by_chance}");
    }
}

/// Exploration noise, learning, the bank and all levels are in use; the bits are compared with those of a
/// second engine, and with those of the same engine after `reset`.
pub fn same_seed_and_input_give_the_same_bits<E: Judged>() {
    let mut plan = plan(4);
    plan.learn = true;
    plan.params.explore = 0.2;
    let history = |engine: &mut E| -> Vec<u32> {
        (0..150)
            .flat_map(|cycle| {
                let mut input = input(cycle, &[draw(1, cycle, 0), draw(1, cycle, 1), draw(1, cycle / 9, 2)]);
                input.reward = draw(2, cycle / 5, 0) as f32;
                input.quality = QualityLevel::new((cycle / 11 % 6) as u8).expect("six levels");
                let r = run(engine, &input);
                let mut bits: Vec<u32> = r.motors.iter().chain(&r.scores).map(|x| x.to_bits()).collect();
                bits.extend([r.confidence, r.skill, r.novelty].map(f32::to_bits));
                bits.extend(engine.prediction().iter().map(|p| (*p as f32).to_bits()));
                bits
            })
            .collect()
    };
    let with_readout = |plan: &FieldPlan| {
        let mut engine = E::new(plan);
        let readout = random_readout(&mut engine, 4, 0.3);
        engine.set_readout(&readout);
        engine
    };
    let mut engine = with_readout(&plan);
    let first = history(&mut engine);
    assert!(first == history(&mut with_readout(&plan)), "a second engine");
    engine.reset();
    assert!(first == history(&mut engine), "the same engine after a reset");
    plan.seed += 1;
    assert!(first != history(&mut with_readout(&plan)), "another seed gives another field");
}

/// Metrics are taken in cycles whose number is a multiple of 100, and in no others; `measure_now` takes them
/// at once.
pub fn metrics_are_taken_every_hundredth_cycle<E: Judged>() {
    let mut engine = E::new(&plan(2));
    assert_eq!(engine.metrics(), None);
    let mut taken = None;
    for cycle in 1..=205 {
        run(&mut engine, &input(cycle, &[draw(1, cycle, 0), 0.5]));
        if cycle % 100 == 0 {
            taken = Some(engine.measure_now());
        }
        assert_eq!(engine.metrics(), taken, "cycle {cycle}");
    }
    let now = engine.measure_now();
    let field: Vec<f64> = (0..CHANNELS).flat_map(|c| engine.channel(c)).collect();
    let mean = field.iter().sum::<f64>() / field.len() as f64;
    let energy = field.iter().map(|u| u * u).sum::<f64>() / field.len() as f64;
    let max = field.iter().fold(0.0_f64, |max, u| max.max(u.abs()));
    let said = [now.mean, now.std, now.max, now.energy];
    for (said, is) in said.iter().zip([mean, (energy - mean * mean).sqrt(), max, energy]) {
        assert!((f64::from(*said) - is).abs() < 1e-5, "{now:?}");
    }
    assert_eq!((now.cycle, taken.map(|m| m.cycle)), (205, Some(200)));
}
