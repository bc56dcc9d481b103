//! Library and bank, through the engine.

use super::*;
use ganglion::field::shape::{PATTERN_FIRST, SLOW_FIRST};

/// The values of sixteen sensors, by number.
fn scene(number: u64) -> Vec<f64> {
    (0..16).map(|i| 0.7 * draw(41, number, i)).collect()
}

/// A scene with white noise of a tenth of its power: 10 dB.
fn noisy_scene(number: u64, cycle: u64) -> Vec<f64> {
    let clean = scene(number);
    let size = (clean.iter().map(|s| s * s).sum::<f64>() / 160.0).sqrt();
    clean.iter().enumerate().map(|(i, s)| (s + size * noise(42, cycle, i)).clamp(-1.0, 1.0)).collect()
}

fn context_of<E: Judged>(engine: &E) -> [f32; CONTEXT] {
    let features = engine.features();
    std::array::from_fn(|c| features[c] as f32)
}

/// Checks one match: `count` slots, whose weights are positive, sum to 1 and never increase. Returns the
/// first slot.
fn first_of<E: Judged>(engine: &E, count: usize) -> usize {
    let blend = engine.blend();
    let sum: f64 = blend.iter().map(|(_, w)| w).sum();
    assert!(blend.len() == count && (sum - 1.0).abs() < 16.0 * E::ROUNDING, "{blend:?}");
    assert!(blend.is_sorted_by(|a, b| a.1 >= b.1) && blend.iter().all(|(_, w)| *w > 0.0), "{blend:?}");
    blend[0].0
}

/// A hundred random contexts, each queried with white noise of a tenth of its power: the right pattern comes
/// first in at least 99 of 100 queries. With time constants of 1e7 s, the field holds the context that it is
/// given.
pub fn a_stored_pattern_is_found_at_10_db<E: Judged>() {
    let mut plan = plan(1);
    plan.shape.patterns = 100;
    (plan.params.t_fast, plan.params.t_slow) = (1e7, 1e7);
    let mut engine = E::new(&plan);
    let rest: Vec<f64> = (0..64).map(|c| engine.channel(c)[0]).collect();
    let about_rest = |slot: u64, c: usize| 0.1 * noise(44, slot, c);
    for slot in 0..100 {
        let context = std::array::from_fn(|c| (rest[c] + about_rest(slot, c)) as f32);
        engine.store_pattern(slot as usize, &vec![0.0; 16 * 512], &context);
    }
    let mut found = 0;
    let queries = E::share(500, 100);
    for query in 0..queries {
        let slot = query % 100;
        for c in 0..64 {
            let heard = about_rest(slot, c) + 0.1 * 0.1_f64.sqrt() * noise(45, query, c);
            engine.set_channel(c, &[rest[c] + heard; 512]);
        }
        run(&mut engine, &input(query, &[]));
        found += usize::from(first_of(&engine, 3) == slot as usize);
    }
    assert!(found as u64 * 100 >= 99 * queries, "{found} of {queries}");
}

/// The same task through sensors and field, where the noise acts twice (in the sensor values and in the
/// prediction errors) and scenes resemble each other: 24 scenes of sixteen sensors at 10 dB are told apart in
/// at least four of five cycles.
pub fn a_scene_recalls_its_own_pattern<E: Judged>() {
    let mut engine = E::new(&plan(16));
    let mut cycle = 0;
    let mut contexts = Vec::new();
    let scenes = 24;
    for number in 0..scenes {
        engine.reset();
        feed(&mut engine, cycle..cycle + 20, |_| scene(number));
        cycle += 20;
        contexts.push(context_of(&engine));
    }
    for (slot, context) in contexts.iter().enumerate() {
        engine.store_pattern(slot, &vec![0.02 * slot as f32; 16 * 512], context);
    }
    let (mut matches, mut found) = (0, 0);
    for query in 0..E::queries_of_a_scene() * scenes {
        let number = (query * 7) % scenes;
        for step in 0..16 {
            run(&mut engine, &input(cycle, &noisy_scene(number, cycle)));
            cycle += 1;
            // The previous scene has half a second to fade from the fast channels.
            let first = first_of(&engine, 3);
            if step >= 10 {
                matches += 1;
                found += u32::from(first == number as usize);
            }
        }
    }
    println!("scenes: {found} of {matches}");
    assert!(f64::from(found) >= 0.8 * f64::from(matches), "{found} of {matches}");
}

/// With a single pattern, Q is that pattern: one cycle later, the pattern channels differ by k 0.1 Q from
/// those of an engine without it, and no other channel differs. An empty library blends nothing.
pub fn the_blend_shows_in_the_returned_field<E: Judged>() {
    let mut plan = plan(3);
    plan.dt = Span::from_millis(20);
    let (mut with, mut without) = (E::new(&plan), E::new(&plan));
    let volume: Vec<f32> = (0..16 * 512).map(|i| 0.9 * draw(43, i, 0) as f32).collect();
    with.store_pattern(7, &volume, &[0.3; CONTEXT]);
    for cycle in 0..2 {
        for engine in [&mut with, &mut without] {
            run(engine, &input(cycle, &[0.5, 0.1, -0.4]));
        }
        for c in 0..64 {
            let is_pattern = (PATTERN_FIRST..SLOW_FIRST).contains(&c);
            for (cell, (a, b)) in with.channel(c).iter().zip(without.channel(c)).enumerate() {
                // The match of a cycle acts in the next one.
                let acts = cycle == 1 && is_pattern;
                let q = if acts { f64::from(volume[(c - PATTERN_FIRST) * 512 + cell]) } else { 0.0 };
                assert!((a - b - 0.4 * 0.1 * q).abs() < 64.0 * E::ROUNDING, "cycle {cycle}, channel {c}");
            }
        }
        assert_eq!(with.blend().len(), 1);
        assert_eq!((with.blend()[0].0, without.blend().len()), (7, 0));
    }
}

/// Stored: new and rewarded, or new and badly predicted. Not stored: known or unimportant experiences, and
/// anything while learning is off. What was stored is found again, also at level 1, where a sweep of the bank
/// takes two cycles.
pub fn the_bank_keeps_what_is_new_and_matters<E: Judged>() {
    for quality in [0, 1] {
        let mut plan = plan(16);
        plan.learn = true;
        plan.params.error_threshold = 2.0; // by reward only, at first
        let mut engine = E::new(&plan);
        let mut cycle = 0;
        let mut hold = |engine: &mut E, number: u64, reward: f32| {
            let mut last = None;
            for _ in 0..30 {
                let mut input = input(cycle, &scene(number));
                input.reward = reward;
                input.quality = QualityLevel::new(quality).expect("six levels");
                last = Some(run(engine, &input));
                cycle += 1;
            }
            last.expect("thirty cycles").novelty
        };
        assert!((hold(&mut engine, 0, 0.1) - 1.0).abs() < 1e-6, "an empty bank knows nothing");
        assert_eq!(engine.experiences(), 0, "a reward of 0.1 is too small");
        let novelty = hold(&mut engine, 0, -0.8);
        assert!(novelty < 0.1, "stored and recognised: {novelty}");
        let one = engine.experiences();
        assert_eq!(one, 1);
        hold(&mut engine, 0, 1.0);
        assert_eq!(engine.experiences(), one, "a known experience is not stored again");
        let novelty = hold(&mut engine, 1, 0.0);
        assert!(novelty > 0.1, "another scene is new: {novelty}");
        assert_eq!(engine.experiences(), one, "new, but without reward or surprise");
        hold(&mut engine, 1, 0.5);
        let two = engine.experiences();
        assert!(two > one);
        hold(&mut engine, 0, 0.0);
        let nearest = engine.nearest();
        assert!(nearest[0].0 == 0 && nearest[0].1 > 0.9, "level {quality}: {nearest:?}");
        assert!(nearest.is_sorted_by(|a, b| a.1 >= b.1) && nearest.len() == two.min(5));
    }
    for (learn, threshold) in [(false, 0.0), (true, 0.0)] {
        let mut plan = plan(16);
        plan.learn = learn;
        plan.params.error_threshold = threshold;
        let mut engine = E::new(&plan);
        run(&mut engine, &input(0, &scene(0)));
        assert_eq!(
            engine.experiences(),
            usize::from(learn),
            "an error above the threshold is enough, if learning is on"
        );
    }
}
