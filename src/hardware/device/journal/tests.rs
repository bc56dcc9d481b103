//! Set-ups in steps, on a bus that expects exactly the new calls.

use super::*;
use crate::base::time::SimClock;
use crate::decision::fixture::{at, ms};
use crate::hardware::bus::fake::{FakeGpio, FakeI2c};
use std::sync::Arc;

const CHIP: u8 = 0x29;

fn bus(register: u8) -> impl Fn(BusFault) -> DeviceFault {
    move |fault| DeviceFault::Bus { register, fault }
}

/// A journal, and the ports that it uses.
struct Rig {
    clock: Arc<SimClock>,
    gpio: FakeGpio,
    journal: Journal,
}

impl Rig {
    fn new() -> Rig {
        let clock = Arc::new(SimClock::new());
        Rig { gpio: FakeGpio::new(clock.clone()), clock, journal: Journal::new() }
    }
    /// One step of `work`, with a bus that expects exactly `script`.
    fn step(
        &mut self,
        mut script: FakeI2c,
        work: impl FnOnce(&mut Ports<'_>) -> Result<(), DeviceFault>,
    ) -> Result<SetUp, DeviceFault> {
        let clock = self.clock.clone();
        let mut ports = Ports { i2c: &mut script, gpio: &mut self.gpio, clock: clock.as_ref() };
        self.journal.step(&mut ports, work)
    }
    fn now(&self) -> Instant {
        self.clock.now()
    }
}

/// Shuts a chip down and starts it again, identifies it, and asks it whether it is ready.
fn whole(ports: &mut Ports<'_>) -> Result<(), DeviceFault> {
    let line = |fault| DeviceFault::Line { line: Line(7), fault };
    ports.gpio.set(Line(7), false).map_err(line)?;
    ports.clock.sleep_until(ports.clock.now() + ms(3));
    ports.gpio.set(Line(7), true).map_err(line)?;
    let mut identity = [0; 2];
    if ports.i2c.write_read(CHIP, &[0xC0], &mut identity).is_err() {
        ports.i2c.write(CHIP, &[0x8A]).map_err(bus(0x8A))?; // the alternative path
    }
    let mut ready = [0];
    while ready != [1] {
        ports.i2c.write_read(CHIP, &[0x13], &mut ready).map_err(bus(0x13))?;
    }
    ports.i2c.write(CHIP, &[1, identity[1]]).map_err(bus(1))?;
    ports.clock.sleep_until(ports.clock.now() + ms(5));
    Ok(())
}

#[test]
fn each_step_makes_one_new_transfer_and_the_last_none() {
    let mut rig = Rig::new();
    let mut step = |script: FakeI2c, from: u64, expected: SetUp| {
        rig.clock.set(at(from));
        assert_eq!(rig.step(script, whole), Ok(expected), "at {from} ms");
        assert_eq!(rig.now(), at(from), "a step takes no time by itself");
    };
    let (none, again) = (FakeI2c::new, |ms| SetUp::Again(at(ms)));
    let ready = |answer| FakeI2c::new().write_read(CHIP, &[0x13], &[answer]);
    step(none(), 0, again(0)); // the line
    step(none(), 0, again(3)); // the wait
    step(none(), 2, again(3)); // called too early
    step(none(), 3, again(3)); // the line
    step(none().write_read(CHIP, &[0xC0], &[9, 0x42]), 3, again(3));
    step(ready(0), 3, again(3));
    step(none(), 4, again(5)); // a repeated transfer is delayed
    step(ready(0), 5, again(5));
    step(ready(1), 7, again(7));
    step(none().write(CHIP, &[1, 0x42]), 7, again(7)); // an earlier answer is replayed
    step(none(), 7, again(12)); // a wait at the end
    step(none(), 12, SetUp::Done);
    let lines: Vec<bool> = rig.gpio.sets.iter().map(|set| set.high).collect();
    assert_eq!(lines, [false, true], "each level was set only once");
    assert_eq!((rig.journal.made, rig.journal.transfers.answers.len()), (0, 0), "ready for the next set-up");
}

#[test]
fn unanswering_chip_does_not_end_a_set_up_that_goes_on() {
    let mut rig = Rig::new();
    let work = |ports: &mut Ports<'_>| {
        let mut answer = [0];
        match ports.i2c.read(CHIP, &mut answer) {
            Err(_) => ports.i2c.write(CHIP, &[5]).map_err(bus(5)),
            Ok(()) => Ok(()),
        }
    };
    let nack = || FakeI2c::new().fault(CHIP, BusFault::Nack);
    assert_eq!(rig.step(nack(), work), Ok(SetUp::Again(at(0))));
    assert_eq!(rig.step(FakeI2c::new().write(CHIP, &[5]), work), Ok(SetUp::Done));
    assert_eq!(rig.step(nack(), work), Ok(SetUp::Again(at(0))));
    assert_eq!(
        rig.step(nack(), work),
        Err(bus(5)(BusFault::Nack)),
        "a fault that the driver does not handle ends the set-up"
    );
    // Any other bus fault ends the set-up, even if the driver would handle it.
    let held = rig.step(FakeI2c::new().fault(CHIP, BusFault::TimedOut), work);
    assert_eq!(held, Err(bus(0)(BusFault::TimedOut)));
    assert_eq!(rig.journal.made, 0);
}

#[test]
fn a_preempted_transfer_is_repeated_but_no_earlier_one() {
    let mut rig = Rig::new();
    let work =
        |ports: &mut Ports<'_>| (0..3).try_for_each(|nth| ports.i2c.write(CHIP, &[nth]).map_err(bus(nth)));
    assert_eq!(rig.step(FakeI2c::new().write(CHIP, &[0]), work), Ok(SetUp::Again(at(0))));
    let gave_way = rig.step(FakeI2c::new().fault(CHIP, BusFault::Preempted), work);
    assert!(gave_way.is_err_and(DeviceFault::gave_way));
    assert_eq!(rig.step(FakeI2c::new().write(CHIP, &[1]), work), Ok(SetUp::Again(at(0))));
    assert_eq!(rig.step(FakeI2c::new().write(CHIP, &[2]), work), Ok(SetUp::Done));
}

#[test]
fn a_set_up_that_ignores_errors_is_not_done() {
    let mut rig = Rig::new();
    let work = |ports: &mut Ports<'_>| {
        let _ = ports.i2c.write(CHIP, &[1]);
        let _ = ports.i2c.write(CHIP, &[2]);
        Ok(())
    };
    assert_eq!(rig.step(FakeI2c::new().write(CHIP, &[1]), work), Ok(SetUp::Again(at(0))));
    assert_eq!(rig.step(FakeI2c::new().write(CHIP, &[2]), work), Ok(SetUp::Done));
}

#[test]
fn a_set_up_that_differs_on_replay_writes_nothing() {
    let endless = Err(DeviceFault::Endless { register: 0 });
    let mut rig = Rig::new();
    let mut nth = 0;
    let mut stray = |ports: &mut Ports<'_>| {
        nth += 1;
        ports.i2c.write(CHIP, &[nth]).map_err(bus(nth))?;
        ports.i2c.write(CHIP, &[0xFF]).map_err(bus(0xFF))
    };
    assert_eq!(rig.step(FakeI2c::new().write(CHIP, &[1]), &mut stray), Ok(SetUp::Again(at(0))));
    assert_eq!(rig.step(FakeI2c::new(), &mut stray), endless);
    // One set-up makes fewer calls than before; the other asks for longer answers.
    for other in [
        |_: &mut Ports<'_>| Ok(()),
        |ports: &mut Ports<'_>| {
            ports.i2c.read(CHIP, &mut [0; 9]).map_err(bus(0))?;
            ports.i2c.write(CHIP, &[0xFF]).map_err(bus(0xFF))
        },
    ] {
        let mut rig = Rig::new();
        let read = |ports: &mut Ports<'_>| {
            ports.i2c.read(CHIP, &mut [0; 2]).map_err(bus(0))?;
            ports.i2c.write(CHIP, &[0xFF]).map_err(bus(0xFF))
        };
        assert_eq!(rig.step(FakeI2c::new().read(CHIP, &[1, 2]), read), Ok(SetUp::Again(at(0))));
        assert_eq!(rig.step(FakeI2c::new(), other), endless);
    }
}

#[test]
fn set_up_ends_if_the_chip_is_never_ready() {
    let mut rig = Rig::new();
    let endless = |ports: &mut Ports<'_>| -> Result<(), DeviceFault> {
        loop {
            ports.i2c.read(CHIP, &mut [0]).map_err(bus(0))?;
        }
    };
    let mut asked = 0;
    let fault = loop {
        let due = rig.journal.transfers.last.is_none_or(|(_, ended)| rig.now() >= ended + ASK_AGAIN);
        asked += u32::from(due);
        let script = if due { FakeI2c::new().read(CHIP, &[0]) } else { FakeI2c::new() };
        let script = if rig.now() > at(1_000) { FakeI2c::new() } else { script };
        match rig.step(script, endless) {
            Ok(SetUp::Again(next)) => rig.clock.set(next.max(rig.now() + Span::from_nanos(1))),
            Ok(SetUp::Done) => panic!("done"),
            Err(fault) => break fault,
        }
    };
    assert_eq!(fault, DeviceFault::Endless { register: 0 });
    assert!(rig.now() <= at(1_003) && (490..=510).contains(&asked), "{asked} at {:?}", rig.now());
    assert!(!fault.needs_reset() && !fault.gave_way(), "the bus has no fault");

    let mut rig = Rig::new();
    let mut nth = 0;
    let fault = loop {
        let gluttonous = |ports: &mut Ports<'_>| {
            (0..=255).try_for_each(|register| {
                ports.i2c.write_read(CHIP, &[register], &mut [0; 14]).map_err(bus(register))
            })
        };
        match rig.step(FakeI2c::new().write_read(CHIP, &[nth], &[0; 14]), gluttonous) {
            Ok(_) => nth += 1,
            Err(fault) => break fault,
        }
    };
    assert_eq!((fault, nth), (DeviceFault::Endless { register: 73 }, 73), "there is room for 1024 bytes");
}
