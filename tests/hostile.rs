//! Malicious bytes from outside, for every entry point: valid inputs are accepted, broken ones are refused,
//! and inputs that once broke the program no longer do. The fuzzer (`scripts/fuzz`) looks for more.
//!
//! An input that broke something is kept in `tests/hostile/found/ENTRY-POINT/`, under a name that says what
//! it did.

pub(crate) mod ways;

use ganglion::base::seed::{Stream, bits};
use std::path::Path;
use ways::{Form, WAYS_IN, WayIn, payload_of, signed};

/// Mutated inputs per entry point; `scripts/full-check` runs twenty times as many, guided by coverage.
const MUTANTS: u64 = 1000;

#[test]
fn valid_inputs_are_accepted() {
    for way in &WAYS_IN {
        let seeds = (way.seeds)();
        assert!(!seeds.is_empty(), "{}", way.name);
        for (at, seed) in seeds.iter().enumerate() {
            assert!((way.take)(seed), "{} {at}", way.name);
        }
    }
}

#[test]
fn inputs_that_once_broke_the_program_no_longer_do() {
    for way in &WAYS_IN {
        let folder = Path::new("tests/hostile/found").join(way.name);
        for entry in std::fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.expect("a folder can be listed").path();
            eprintln!("{}", path.display());
            (way.take)(&std::fs::read(&path).expect("it can be read"));
        }
    }
    let strangers = std::fs::read_dir("tests/hostile/found").into_iter().flatten().flatten();
    for entry in strangers {
        let name = entry.file_name();
        assert!(WAYS_IN.iter().any(|way| *way.name == *name), "{name:?} is not an entry point");
    }
}

#[test]
fn mutated_inputs_are_accepted_or_refused_without_a_crash() {
    for way in &WAYS_IN {
        let seeds = (way.seeds)();
        let taken = (0..MUTANTS).filter(|number| (way.take)(&mutant(way, &seeds, *number))).count();
        // Most mutants are refused. If all of them or none were, the mutations would not reach the code under
        // test.
        assert!((1..MUTANTS as usize).contains(&taken), "{}: {taken} of {MUTANTS} accepted", way.name);
    }
}

/// A seed with one to eight mutations: a byte changed, removed or doubled, or the rest cut off. In a
/// container they change the payload, and the digest is recomputed.
fn mutant(way: &WayIn, seeds: &[Vec<u8>], number: u64) -> Vec<u8> {
    let draw =
        |of: u64, below: usize| (bits(1, Stream::Stimulus, number * 64 + of) % below.max(1) as u64) as usize;
    let seed = &seeds[draw(0, seeds.len())];
    let body = if way.form == Form::Signed { payload_of(seed).expect("a container") } else { 0..seed.len() };
    let mut changed = seed[body].to_vec();
    for change in 0..=draw(1, 8) as u64 {
        let (at, to) = (draw(4 * change + 2, changed.len()), draw(4 * change + 3, 256) as u8);
        match draw(4 * change + 4, 8) {
            _ if changed.is_empty() => {}
            0 => drop(changed.remove(at)),
            1 => changed.insert(at, changed[at]),
            2 => changed.truncate(at),
            3 => changed[at] ^= 1 << (to % 8),
            _ => changed[at] = to,
        }
    }
    if way.form == Form::Signed { signed(seed, &changed) } else { changed }
}
