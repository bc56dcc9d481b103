//! The recovery ladder of a bus that does not answer: which step is next, and when. Pure: `i2c.rs` performs
//! the steps that this file names and reports the results.
//!
//! ```text
//!  up --failure--> reset -> reset -> clear, reset -> rebind, reset -> rail off, rail on, reset -> reset x 5 -> dead
//!   ^                |                     (steps that the board does not permit are left out)                |
//!   |             worked                                                                                      |
//!   +-- 16 good -- trial --failure--> the next step                                       one reset every 5 s +
//! ```
//!
//! A reset stops the motors and then sets everything up from scratch. It counts as successful after a number
//! of good calls to devices. A failure before that moves on to the next step, so a bus that only seems to
//! come back is not reset forever. Pauses between steps grow, and start again from zero only if the bus had
//! not failed for 5 s, so steps stay rare whatever the bus does. Motors that may be running do not wait for
//! a recovery step: `motors.rs` stops them.

use crate::base::time::{Instant, Span};
use crate::hardware::bus::Measure;

/// A step of recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RecoveryStep {
    /// Pull the device reset line, if there is one, and set everything up again with the motors stopped.
    Reset,
    /// Clear the bus with nine clock pulses.
    Clear,
    /// Unbind and rebind the driver, then reopen the adapter.
    Rebind,
    /// Switch the devices' supply off.
    RailOff,
    /// Switch the supply on again.
    RailOn,
    /// Given up, except for an occasional retry.
    Dead,
}

impl RecoveryStep {
    /// Every step, in order.
    pub const ALL: [RecoveryStep; 6] = [
        RecoveryStep::Reset,
        RecoveryStep::Clear,
        RecoveryStep::Rebind,
        RecoveryStep::RailOff,
        RecoveryStep::RailOn,
        RecoveryStep::Dead,
    ];

    /// Name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            RecoveryStep::Reset => "reset",
            RecoveryStep::Clear => "clear",
            RecoveryStep::Rebind => "rebind",
            RecoveryStep::RailOff => "rail-off",
            RecoveryStep::RailOn => "rail-on",
            RecoveryStep::Dead => "dead",
        }
    }

    /// Its recovery measure, if it has one.
    pub const fn measure(self) -> Option<Measure> {
        match self {
            RecoveryStep::Clear => Some(Measure::Clear),
            RecoveryStep::Rebind => Some(Measure::Rebind),
            RecoveryStep::RailOff => Some(Measure::RailOff),
            RecoveryStep::RailOn => Some(Measure::RailOn),
            RecoveryStep::Reset | RecoveryStep::Dead => None,
        }
    }
}

/// Number of resets before the first stronger step.
const RESETS_FIRST: usize = 2;
/// Number of further resets at the end of the ladder, before the bus is given up.
const RESETS_LAST: usize = 5;
/// Shortest and longest pause between steps. The pause doubles each time: a controller that browns out needs
/// its supply back first, and retrying a dead one must not take up the processor.
const FIRST_PAUSE: Span = Span::from_millis(50);
const LONGEST_PAUSE: Span = Span::from_millis(2_000);
/// Successful calls (polls, set-up steps, commands, stops) that end a trial: a few hundred milliseconds on a
/// working robot.
const PROOF: u32 = 16;
/// If a bus that was up fails at least this long after its previous failure, pauses start again from zero.
const CALM: Span = Span::from_millis(5_000);
/// Retry interval of a dead bus: a loose cable may be plugged in again.
pub const DEAD_RETRY: Span = Span::from_millis(5_000);
/// Wait after the supply returns, before the first transfer: the slowest chip in use boots within 50 ms.
const RAIL_SETTLE: Span = Span::from_millis(100);
/// Number of steps of the longest ladder. The seven in the middle: clear, rebind and the power cycle (off,
/// on), each with a reset after it.
const STEPS: usize = RESETS_FIRST + 7 + RESETS_LAST;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Up,
    /// Set up by `step`; not proven yet.
    Trial {
        step: usize,
        good: u32,
    },
    /// `step` is due at `at`.
    Climbing {
        step: usize,
        at: Instant,
    },
    /// Retried at `at`.
    Dead {
        at: Instant,
    },
}

/// The state of a bus.
#[derive(Clone, Debug)]
pub struct Ladder {
    steps: heapless::Vec<RecoveryStep, STEPS>,
    rail_off: Span,
    state: State,
    pause: Span,
    failed_at: Instant,
    deaths: u64,
}

impl Ladder {
    /// A bus that still has to be set up. `permits` lists the allowed measures; `rail_off`: how long the
    /// supply is off.
    pub fn new(permits: impl Fn(Measure) -> bool, rail_off: Span) -> Ladder {
        use RecoveryStep::{Clear, Rebind, Reset};
        let mut steps = heapless::Vec::new();
        steps.extend([Reset; RESETS_FIRST]);
        for step in [Clear, Rebind] {
            if step.measure().is_some_and(&permits) {
                steps.extend([step, Reset]);
            }
        }
        if permits(Measure::RailOff) && permits(Measure::RailOn) {
            steps.extend([RecoveryStep::RailOff, RecoveryStep::RailOn, Reset]);
        }
        steps.extend([Reset; RESETS_LAST]); // fits: `STEPS` counts all of them
        Ladder {
            steps,
            rail_off,
            state: State::Climbing { step: 0, at: Instant::ZERO },
            pause: Span::ZERO,
            failed_at: Instant::ZERO,
            deaths: 0,
        }
    }

    /// Whether commands and polls may run.
    pub fn is_up(&self) -> bool {
        matches!(self.state, State::Up | State::Trial { .. })
    }
    /// Whether the bus is given up, except for occasional retries.
    #[cfg(test)]
    pub fn is_dead(&self) -> bool {
        matches!(self.state, State::Dead { .. })
    }
    /// How many times the bus was given up.
    pub fn deaths(&self) -> u64 {
        self.deaths
    }

    /// When the next step is due.
    pub fn due(&self) -> Instant {
        match self.state {
            State::Up | State::Trial { .. } => Instant::NEVER,
            State::Climbing { at, .. } | State::Dead { at } => at,
        }
    }

    /// The step to take now, if one is due; report the result with [`Ladder::taken`].
    pub fn next(&self, now: Instant) -> Option<RecoveryStep> {
        match self.state {
            State::Climbing { step, at } if now >= at => self.steps.get(step).copied(),
            State::Dead { at } if now >= at => Some(RecoveryStep::Reset),
            _ => None,
        }
    }

    /// Reports that the step named by [`Ladder::next`] was taken; `worked`: whether it succeeded.
    pub fn taken(&mut self, worked: bool, now: Instant) {
        match self.state {
            State::Dead { .. } if worked => {
                self.state = State::Trial { step: self.steps.len(), good: 0 };
            }
            State::Dead { .. } => self.state = State::Dead { at: now + DEAD_RETRY },
            State::Climbing { step, .. } => match self.steps.get(step) {
                Some(RecoveryStep::Reset) if worked => self.state = State::Trial { step, good: 0 },
                Some(RecoveryStep::RailOff) if worked => self.climb(step, now + self.rail_off),
                Some(RecoveryStep::RailOn) if worked => self.climb(step, now + RAIL_SETTLE),
                Some(RecoveryStep::Clear | RecoveryStep::Rebind) if worked => self.climb(step, now),
                _ => {
                    let pause = self.next_pause();
                    self.climb(step, now + pause);
                }
            },
            State::Up | State::Trial { .. } => {}
        }
    }

    /// A call to a device succeeded.
    pub fn worked(&mut self) {
        if let State::Trial { good, .. } = &mut self.state {
            *good += 1;
            if *good >= PROOF {
                self.state = State::Up;
            }
        }
    }

    /// The bus failed while it was up.
    pub fn failed(&mut self, now: Instant) {
        let step = match self.state {
            State::Up => None,
            State::Trial { step, .. } => Some(step),
            State::Climbing { .. } | State::Dead { .. } => return,
        };
        if step.is_none() && now.since(self.failed_at) >= CALM {
            self.pause = Span::ZERO;
        }
        self.failed_at = now;
        let at = now + self.next_pause();
        match step {
            Some(step) => self.climb(step, at),
            None => self.state = State::Climbing { step: 0, at },
        }
    }

    /// Moves from `step` to the next one, due at `at`.
    fn climb(&mut self, step: usize, at: Instant) {
        if step + 1 < self.steps.len() {
            self.state = State::Climbing { step: step + 1, at };
        } else {
            self.state = State::Dead { at: at + DEAD_RETRY };
            self.deaths += 1;
        }
    }

    fn next_pause(&mut self) -> Span {
        let pause = self.pause;
        self.pause = pause.times(2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::fixture::{at, ms};
    use proptest::prelude::*;

    fn full() -> Ladder {
        Ladder::new(|_| true, ms(300))
    }
    fn bare() -> Ladder {
        Ladder::new(|_| false, Span::ZERO)
    }

    /// Takes steps as they fall due until the bus is dead; `works` says which succeed. Returns each step with
    /// its time.
    fn climb_to_death(
        ladder: &mut Ladder,
        mut now: Instant,
        works: impl Fn(RecoveryStep) -> bool,
    ) -> Vec<(RecoveryStep, u64)> {
        let mut taken = Vec::new();
        while !ladder.is_dead() {
            now = now.max(ladder.due());
            if let Some(step) = ladder.next(now) {
                taken.push((step, now.as_nanos() / 1_000_000));
                ladder.taken(works(step), now);
            }
        }
        taken
    }

    #[test]
    fn steps_come_in_order_with_growing_pauses_and_end() {
        use RecoveryStep::{Clear, RailOff, RailOn, Rebind, Reset};
        let mut ladder = full();
        let taken = climb_to_death(&mut ladder, Instant::ZERO, |step| step != Reset);
        let expected = [
            (Reset, 0),
            (Reset, 0),
            (Clear, 50),
            (Reset, 50),
            (Rebind, 150),
            (Reset, 150),
            (RailOff, 350),
            (RailOn, 650),
            (Reset, 750),
            (Reset, 1150),
            (Reset, 1950),
            (Reset, 3550),
            (Reset, 5550),
            (Reset, 7550),
        ];
        assert_eq!(taken, expected);
        assert_eq!(ladder.deaths(), 1);
    }

    #[test]
    fn a_failed_recovery_step_costs_the_next_pause() {
        use RecoveryStep::{Clear, RailOff, RailOn, Rebind, Reset};
        let taken = climb_to_death(&mut full(), Instant::ZERO, |_| false);
        let expected = [
            (Reset, 0),
            (Reset, 0),
            (Clear, 50),
            (Reset, 150),
            (Rebind, 350),
            (Reset, 750),
            (RailOff, 1550),
            (RailOn, 3150),
            (Reset, 5150),
        ];
        assert_eq!(taken[..expected.len()], expected);
        let names: Vec<&str> = expected.iter().map(|(step, _)| step.name()).collect();
        assert!(names.iter().all(|name| !name.is_empty()));
        assert_eq!(Reset.name(), "reset");
    }

    #[test]
    fn steps_that_the_board_does_not_permit_are_left_out() {
        let steps_taken: Vec<RecoveryStep> =
            climb_to_death(&mut bare(), Instant::ZERO, |_| false).into_iter().map(|(step, _)| step).collect();
        assert_eq!(steps_taken, [RecoveryStep::Reset; 7]);
        let mut only_clear = Ladder::new(|measure| measure == Measure::Clear, Span::ZERO);
        let steps_taken = climb_to_death(&mut only_clear, Instant::ZERO, |_| false);
        assert_eq!(steps_taken.iter().filter(|(step, _)| *step == RecoveryStep::Clear).count(), 1);
        assert_eq!(steps_taken.len(), 9);
        // A supply that cannot be switched on again is not switched off.
        let mut half = Ladder::new(|measure| measure == Measure::RailOff, Span::ZERO);
        assert!(
            climb_to_death(&mut half, Instant::ZERO, |_| false)
                .iter()
                .all(|(step, _)| *step == RecoveryStep::Reset)
        );
    }

    fn set_up(ladder: &mut Ladder, now: Instant) {
        assert_eq!(ladder.next(now), Some(RecoveryStep::Reset));
        ladder.taken(true, now);
        assert!(ladder.is_up());
    }
    fn prove(ladder: &mut Ladder) {
        (0..PROOF).for_each(|_| ladder.worked());
    }

    #[test]
    fn bus_that_only_seems_to_come_back_moves_up_the_ladder() {
        let mut ladder = full();
        let mut now = at(0);
        let mut steps_taken = Vec::new();
        while !ladder.is_dead() {
            now = now.max(ladder.due());
            let step = ladder.next(now).expect("it is due");
            steps_taken.push(step);
            ladder.taken(true, now);
            if ladder.is_up() {
                ladder.worked(); // one good call, then the bus hangs again
                ladder.failed(now);
            }
        }
        assert_eq!(steps_taken.len(), STEPS, "each step once: {steps_taken:?}");
        // A dead bus must also prove itself after a successful retry.
        set_up(&mut ladder, now + DEAD_RETRY + LONGEST_PAUSE);
        ladder.failed(now + DEAD_RETRY + LONGEST_PAUSE);
        assert!(ladder.is_dead());
    }

    #[test]
    fn first_failure_resets_at_once_and_a_relapse_waits() {
        let mut ladder = bare();
        set_up(&mut ladder, at(0));
        prove(&mut ladder);
        ladder.failed(at(10_000));
        set_up(&mut ladder, at(10_000)); // after a calm period there is no pause
        prove(&mut ladder);
        ladder.failed(at(10_100));
        assert_eq!((ladder.next(at(10_149)), ladder.due()), (None, at(10_150)));
        set_up(&mut ladder, at(10_150));
        prove(&mut ladder);
        ladder.failed(at(15_150));
        set_up(&mut ladder, at(15_150));
    }

    #[test]
    fn dead_bus_is_retried_rarely_and_returns_by_a_set_up() {
        let mut ladder = bare();
        climb_to_death(&mut ladder, at(0), |_| false);
        let look = ladder.due();
        assert_eq!(ladder.next(look - Span::from_nanos(1)), None);
        assert_eq!(ladder.next(look), Some(RecoveryStep::Reset));
        ladder.taken(false, look);
        assert_eq!(ladder.due(), look + DEAD_RETRY);
        set_up(&mut ladder, look + DEAD_RETRY);
        prove(&mut ladder);
        assert_eq!(ladder.due(), Instant::NEVER);
        assert_eq!(ladder.deaths(), 1);
    }

    /// Runs a bus with one call per millisecond, which fails if `fails` returns true. Returns the time of
    /// every recovery step.
    fn live(ladder: &mut Ladder, from: u64, fails: &mut dyn FnMut() -> bool, length: u64) -> Vec<u64> {
        let mut times = Vec::new();
        for step in from..from + length {
            let now = at(step);
            while ladder.next(now).is_some() {
                times.push(step);
                ladder.taken(!fails(), now);
            }
            if ladder.is_up() {
                if fails() { ladder.failed(now) } else { ladder.worked() }
            }
        }
        times
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
        #[test]
        fn steps_are_few_and_the_bus_ends_up_or_dead(
            seed in any::<u64>(),
            odds in prop::sample::select(vec![1_u64, 2, 5, 20, 100, 400]),
            permitted in 0_u8..16,
        ) {
            let permits = |measure: Measure| permitted & (1 << measure as u8) != 0;
            let mut ladder = Ladder::new(permits, ms(300));
            let mut state = seed | 1;
            let mut fails = || {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state.is_multiple_of(odds)
            };
            let times = live(&mut ladder, 0, &mut fails, 30_000);
            // A measure and its reset may follow each other without a pause. With pauses of 50, 100, 200 and
            // 400 ms between the others, at most twenty steps fit into a second.
            for (first, time) in times.iter().enumerate() {
                let within = times[first..].iter().take_while(|later| **later < time + 1_000).count();
                prop_assert!(within <= 20, "{within} steps within a second from {time} ms");
            }
            // When the faults end, the bus is up within a retry interval and two of the longest pauses.
            let most = (DEAD_RETRY + LONGEST_PAUSE + LONGEST_PAUSE).as_nanos() / 1_000_000;
            live(&mut ladder, 30_000, &mut || false, most);
            prop_assert!(matches!(ladder.state, State::Up), "{:?}", ladder.state);
            let quiet = live(&mut ladder, 30_000 + most, &mut || false, 1_000);
            prop_assert!(quiet.is_empty());
            // If everything fails for good, the bus is given up.
            live(&mut ladder, 50_000, &mut || true, 30_000);
            prop_assert!(ladder.is_dead(), "{:?}", ladder.state);
        }
    }
}
