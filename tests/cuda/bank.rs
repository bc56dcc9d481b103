//! The bank's bounds and its answer. Searches for rows whose cosine lies outside the bounds that the scan
//! returns, among rows that nearly tie and rows whose quantised form is as inaccurate as possible. The answer
//! must be bit-identical to that of comparing all rows in f64.

use super::rig::{Launching, Rig, Swept};
use super::{Pair, input, plan};
use ganglion::base::plan::{FieldPlan, Params, Shape};
use ganglion::base::seed::{Stream, normal};
use ganglion::field::Inspect;
use ganglion::field::shape::{BANK_TOP, DESCRIPTOR, NORM_FLOOR};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::cell::RefCell;

const ROWS: usize = 72;
const BLOCKS: u32 = 2;
/// Rows that a block compares at the same time: four per warp.
const AT_ONCE: usize = 32;

type Descriptor = [f32; DESCRIPTOR];

/// The choice of rows and query.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Rows so close to the query that their quantised forms rank in the wrong order.
    Ties,
    /// A query as nearly parallel to the rounding error of the first row as a query without rounding errors
    /// can be.
    AlongARowsError,
    /// Rows without rounding errors, as nearly parallel to the rounding error of the query as possible.
    AlongTheQuerysError,
}

/// A rig with an empty bank that stores only what it is given; `None` without a compiler.
fn rig() -> Option<Rig> {
    let shape = Shape { bank: ROWS, patterns: 0, ..plan(8).shape };
    let plan = FieldPlan { shape, learn: false, ..plan(8) };
    let mut rig = Rig::new(&plan, Launching { planes: 1, blocks: BLOCKS }, 1)?;
    rig.cycle(&[input(9, 0, 0)]); // all sweeps use the orders of this cycle
    Some(rig)
}

fn draw(seed: u64, row: usize) -> Descriptor {
    std::array::from_fn(|i| normal(seed, Stream::Patterns, (row * DESCRIPTOR + i) as u64) as f32)
}

/// A unit vector whose components all have the same magnitude, so that each becomes exactly 127 steps.
fn signs(of: impl Fn(usize) -> f64) -> Descriptor {
    std::array::from_fn(|i| (if of(i) < 0.0 { -1.0 } else { 1.0 }) / (DESCRIPTOR as f32).sqrt())
}

fn sweep(rig: &mut Rig, kind: Kind, seed: u64, apart: f32, wild: f32) -> Swept {
    rig.empty_bank();
    let mut centre = draw(seed, ROWS);
    centre[seed as usize % DESCRIPTOR] *= wild; // one large component makes the steps coarse
    match kind {
        Kind::Ties => {
            for row in 0..ROWS {
                let noise = draw(seed, row / 2); // pairs of equal rows tie exactly
                rig.store_experience(&std::array::from_fn(|i| centre[i] + apart * noise[i]), 0.5);
            }
            rig.sweep(&centre)
        }
        Kind::AlongARowsError => {
            (0..ROWS).for_each(|row| rig.store_experience(&draw(seed, row), 0.5));
            let before = rig.sweep(&centre);
            let left_out = |i: usize| f64::from(before.rows[0][i]) - before.coarse[0][i];
            rig.sweep(&signs(left_out))
        }
        Kind::AlongTheQuerysError => {
            let before = rig.sweep(&centre);
            let left_out = |i: usize| f64::from(before.query[i]) - before.query_coarse[i];
            rig.store_experience(&signs(left_out), 0.5);
            rig.store_experience(&signs(|i| -left_out(i)), 0.5);
            rig.sweep(&centre)
        }
    }
}

/// Adds in the order of a warp: each lane sums every 32nd product, then the lanes are added in pairs.
fn cosine(row: &[f32], query: &[f32]) -> f64 {
    let product = |i: usize| f64::from(row[i]) * f64::from(query[i]);
    let lane = |lane: usize| (lane..DESCRIPTOR).step_by(32).fold(0.0, |sum, i| sum + product(i));
    let mut lanes: Vec<f64> = (0..32).map(lane).collect();
    for step in [16, 8, 4, 2, 1] {
        lanes = (0..32).map(|lane| lanes[lane] + lanes[lane ^ step]).collect();
    }
    lanes[0]
}

fn distance(a: impl Iterator<Item = f64>, b: impl Iterator<Item = f64>) -> f64 {
    a.zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()
}

fn check(what: &str, swept: &Swept) {
    let wide = |numbers: &[f32]| numbers.iter().copied().map(f64::from).collect::<Vec<_>>();
    let off = |exact: &[f32], coarse: &[f64]| distance(wide(exact).into_iter(), coarse.iter().copied());
    assert!(off(&swept.query, &swept.query_coarse) <= swept.query_error, "{what}: the query's error");
    let cosines: Vec<f64> = swept.rows.iter().map(|row| cosine(row, &swept.query)).collect();
    for (row, cosine) in cosines.iter().enumerate() {
        let (error, high) = (f64::from(swept.errors[row]), f64::from(swept.high[row]));
        let left_out = off(&swept.rows[row], &swept.coarse[row]);
        assert!(left_out <= error, "{what}: row {row} has an error of {left_out}, not {error}");
        assert!(*cosine <= high, "{what}: row {row}: {cosine} is above {high}");
    }
    for (block, lows) in swept.low.chunks(BANK_TOP).enumerate() {
        let mine = cosines.iter().enumerate().filter(|(row, _)| row / AT_ONCE % BLOCKS as usize == block);
        let mut mine: Vec<f64> = mine.map(|(_, cosine)| *cosine).collect();
        mine.sort_by(|a, b| b.total_cmp(a));
        for (low, cosine) in lows.iter().zip(&mine) {
            assert!(f64::from(*low) <= *cosine, "{what}, block {block}: {low} is above {cosine}");
        }
    }
    let mut all: Vec<(usize, u64)> = cosines.iter().map(|cosine| cosine.to_bits()).enumerate().collect();
    all.sort_by(|a, b| f64::from_bits(b.1).total_cmp(&f64::from_bits(a.1)).then(a.0.cmp(&b.0)));
    all.truncate(BANK_TOP);
    let answer = &swept.answer;
    let found = answer.row.iter().map(|row| *row as usize).zip(answer.cosine.iter().map(|c| c.to_bits()));
    assert_eq!(found.take(answer.nearest).collect::<Vec<_>>(), all, "{what}: the five nearest");
}

#[test]
fn coarse_bounds_hold_and_the_nearest_five_are_exact() {
    let Some(rig) = rig() else { return };
    let rig = RefCell::new(rig);
    let kinds = prop_oneof![
        2 => Just(Kind::Ties),
        1 => Just(Kind::AlongARowsError),
        1 => Just(Kind::AlongTheQuerysError)
    ];
    let cases = (kinds, any::<u64>(), -6.0..0.0_f32, 1.0..20.0_f32);
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(40) });
    let searched = runner.run(&cases, |(kind, seed, apart, wild)| {
        let swept = sweep(&mut rig.borrow_mut(), kind, seed, 10.0_f32.powf(apart), wild);
        prop_assert!(swept.rows.len() >= 2);
        check(&format!("{kind:?}"), &swept);
        Ok(())
    });
    searched.unwrap_or_else(|found| panic!("{found}"));
}

#[test]
fn the_query_is_the_unit_descriptor_of_the_f64_reference() {
    let Some(mut rig) = rig() else { return };
    let (mut numbers, mut neighbours) = (0, 0);
    for seed in 0..24 {
        // Descriptors shorter than the minimum length are divided by that minimum.
        let scale = [1e-6, 1e-3, 1.0, 30.0][seed as usize % 4];
        let descriptor = draw(seed, 0).map(|number| number * scale);
        let length = descriptor.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt();
        for (made, number) in rig.sweep(&descriptor).query.iter().zip(descriptor) {
            let exact = f64::from(number) / length.max(NORM_FLOOR);
            numbers += 1;
            // Short descriptors do not count: 1000 times a float is often halfway between two floats, and 1 /
            // 0.001 is not exactly 1000.
            let counts = length >= NORM_FLOOR;
            neighbours += usize::from(counts && made.to_bits() != (exact as f32).to_bits());
            let half_a_step = f64::from((exact as f32).abs().next_up() - (exact as f32).abs()) / 2.0;
            assert!((f64::from(*made) - exact).abs() <= half_a_step * 1.000_01, "{made} for {exact}");
        }
    }
    // About one number in a million is so close to the midpoint of two floats that it rounds the other way.
    assert!(numbers == 24 * DESCRIPTOR && neighbours <= 1, "{neighbours} of {numbers}");
}

#[test]
fn a_full_bank_evicts_the_same_rows_as_the_reference() {
    // More rows than a block has threads, so that two of the three blocks get rows.
    let rows = 300;
    let params = Params { novelty_threshold: 0.01, ..Params::default() };
    let plan = FieldPlan { shape: Shape { bank: rows, patterns: 0, ..plan(8).shape }, params, ..plan(8) };
    let Some(mut pair) = Pair::new(&plan, Launching { planes: 1, blocks: 3 }, 0) else { return };
    // Every value is shared by two rows, and the least valuable rows are not all in one block's share.
    let rank = |row: usize| row * 37 % rows / 2;
    for row in 0..rows {
        let value = 0.1 + rank(row) as f32 / 512.0;
        pair.rig.store_experience(&draw(3, row), value);
        assert!(pair.judge.store_experience(&draw(3, row), value));
    }
    let before = pair.rig.rows(rows);
    for cycle in 0..24 {
        let quality = usize::from(cycle % 8 > 5); // half sweeps, too
        let (answer, expected) = pair.cycle(cycle, quality);
        pair.compare(quality, &answer, &expected);
    }
    let after = pair.rig.rows(rows);
    let replaced: Vec<usize> = (0..rows).filter(|row| before[*row] != after[*row]).collect();
    let mut least: Vec<usize> = (0..rows).collect();
    least.sort_by_key(|row| (rank(*row), *row));
    least.truncate(replaced.len());
    least.sort_unstable();
    assert_eq!(replaced, least);
    assert!(replaced.first() < Some(&256) && replaced.last() >= Some(&256), "from two blocks: {replaced:?}");
}
