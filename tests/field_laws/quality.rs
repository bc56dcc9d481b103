//! What quality levels must not change.

use super::*;
use ganglion::base::plan::QUALITY_LEVELS;
use ganglion::field::shape::CHANNELS;

fn quality(number: usize) -> QualityLevel {
    QualityLevel::new(number as u8).expect("six levels")
}

/// Down and up through the levels, step by step and from end to end, with moving sensors and a library that
/// has something to blend. In the cycle that changes the grid, the scores stay the same. In the cycle of any
/// change, the motors move by at most 1.5 times the largest step that the sensors alone cause (a held group
/// catches up on two cycles), and in later cycles by at most three times that step.
pub fn no_change_of_level_makes_the_motors_jump<E: Judged>() {
    let sensors = 6;
    let mut plan = plan(sensors);
    plan.learn = true;
    let values = |cycle: u64| -> Vec<f64> {
        (0..sensors).map(|i| 0.7 * (0.03 * (1.0 + 0.3 * i as f64) * cycle as f64 + i as f64).sin()).collect()
    };
    let ladder: Vec<usize> = [0, 1, 2, 3, 4, 5, 4, 3, 2, 1, 0, 5, 0, 4, 1, 5, 2].to_vec();
    let held = 23; // odd, so levels change at odd and even cycles
    let history = |scheduled: bool, size: f64| -> Vec<FieldOutput> {
        let mut engine = E::new(&plan);
        let readout = random_readout(&mut engine, 51, size);
        engine.set_readout(&readout);
        for slot in 0..6 {
            let volume: Vec<f32> = (0..16 * 512).map(|i| 0.9 * draw(52, i, slot) as f32).collect();
            engine.store_pattern(slot, &volume, &std::array::from_fn(|c| draw(53, c as u64, slot) as f32));
        }
        let one = |cycle: u64| {
            let mut input = input(cycle, &values(cycle));
            let place = (cycle / held) as usize;
            input.quality = quality(if scheduled { ladder[place] } else { 0 });
            run(&mut engine, &input)
        };
        (0..held * ladder.len() as u64).map(one).collect()
    };
    let step = |history: &[FieldOutput], cycle: usize| -> f64 {
        let pair = history[cycle].motors.iter().zip(&history[cycle - 1].motors);
        pair.map(|(a, b)| f64::from((a - b).abs())).fold(0.0, f64::max)
    };
    // A read-out that uses the motors' range: its largest score is 1.
    let largest =
        |history: &[FieldOutput]| history.iter().flat_map(|r| r.scores).fold(0.0_f32, |m, s| m.max(s.abs()));
    let size = 0.1 / f64::from(largest(&history(false, 0.1)));
    let (plain, changing) = (history(false, size), history(true, size));
    let usual = (held as usize..plain.len()).map(|cycle| step(&plain, cycle)).fold(0.0, f64::max);
    assert!((largest(&plain) - 1.0).abs() < 0.01 && usual > 0.02, "the motors must move: {usual} per cycle");
    let (mut at_change, mut worst) = (0.0_f64, 0.0_f64);
    for cycle in held as usize..changing.len() {
        let [before, now] = [cycle - 1, cycle].map(|cycle| ladder[cycle / held as usize]);
        let step = step(&changing, cycle);
        worst = worst.max(step);
        if before != now {
            at_change = at_change.max(step);
        }
        if (before == QUALITY_LEVELS - 1) != (now == QUALITY_LEVELS - 1) {
            for (a, b) in changing[cycle].scores.iter().zip(&changing[cycle - 1].scores) {
                assert!((a - b).abs() <= 1e-6 * b.abs().max(1.0), "{before} to {now}: {a} after {b}");
            }
        }
    }
    println!("levels: usual {usual}, at a change {at_change}, worst {worst}");
    assert!(at_change <= 1.5 * usual, "a change of level moves the motors by {at_change}, usual is {usual}");
    assert!(worst <= 3.0 * usual, "a step of {worst}, usual is {usual}");
}

/// Level 4 steps pattern and slow channels half as often, each time for twice the time: half-lives are the
/// same at every level.
pub fn half_lives_do_not_depend_on_the_level<E: Judged>() {
    for (ms, c, cycles) in [(50, 60, 100), (10, 60, 200), (50, 35, 4), (10, 35, 20), (50, 5, 8), (10, 5, 20)]
    {
        let mut plan = plan(1);
        plan.params.gain = 0.0;
        plan.dt = Span::from_millis(ms);
        let left = |number: usize| {
            let mut engine = E::new(&plan);
            engine.set_channel(c, &[0.02; 512]);
            for cycle in 1..=cycles {
                let mut input = input(cycle, &[0.0]);
                input.quality = quality(number);
                run(&mut engine, &input);
            }
            engine.channel(c)[0] / 0.02
        };
        let best = left(0);
        for number in 1..QUALITY_LEVELS {
            let ratio = left(number).ln() / best.ln();
            assert!(
                (ratio - 1.0).abs() < 0.1,
                "{ms} ms, channel {c}, level {number}: {ratio} of the half-life"
            );
        }
    }
}

/// With constant sensors, the means of the channels continue from their values on the half grid, and after
/// the return to the whole grid the field is close to one that never left it.
pub fn half_resolution_keeps_means_on_the_way_in_and_out<E: Judged>() {
    let plan = plan(4);
    let (mut stays, mut leaves) = (E::new(&plan), E::new(&plan));
    let sensors = [0.6, -0.4, 0.8, 0.1];
    let at = |engine: &mut E, cycle: u64, number: usize| {
        let mut input = input(cycle, &sensors);
        input.quality = quality(number);
        run(engine, &input);
        engine.features()[..CONTEXT].to_vec()
    };
    let apart = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    for cycle in 0..80 {
        at(&mut stays, cycle, 0);
        at(&mut leaves, cycle, 0);
    }
    for cycle in 80..100 {
        let whole = at(&mut stays, cycle, 0);
        let half = at(&mut leaves, cycle, QUALITY_LEVELS - 1);
        assert_eq!((stays.channel(0).len(), leaves.channel(0).len()), (512, 64));
        assert!(apart(&whole, &half) < 0.05, "cycle {cycle}: {}", apart(&whole, &half));
    }
    for cycle in 100..120 {
        let (whole, back) = (at(&mut stays, cycle, 0), at(&mut leaves, cycle, 0));
        assert!(apart(&whole, &back) < 0.05, "cycle {cycle}: {}", apart(&whole, &back));
    }
    let field = |engine: &E| (0..CHANNELS).flat_map(|c| engine.channel(c)).collect::<Vec<_>>();
    let (a, b) = (field(&stays), field(&leaves));
    let square = a.iter().zip(&b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>() / a.len() as f64;
    println!("whole: {}", square.sqrt());
    assert!(square.sqrt() < 0.01, "the field differs after the return: {}", square.sqrt());
}
