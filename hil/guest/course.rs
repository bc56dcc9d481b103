//! The procedures of rows that disturb a driving robot: begin, watch, undo, judge.

use super::bench::Bench;
use super::far::Echo;
use super::limits::{Limit, bus_time};
use super::process::{Process, run};
use super::rows::End;
use super::scene::{self, Scene};
use super::trouble::Trouble;
use super::verdict::{Latency, RowResult};
use ganglion::base::time::{Instant, Span};
use rustix::process::Signal;
use serde_json::Value;
use std::io;
use std::path::Path;

/// After a trouble ends, the robot must drive again within this time. The slowest case is a bus that the
/// runtime has given up on and probes only every five seconds.
const BACK: Span = Span::from_millis(8_000);
/// How long a row watches a robot that must stay stopped.
const STAYS: Span = Span::from_millis(2_000);
/// A car that has moved this far counts as moving.
const MOVED_M: f64 = 0.02;
/// Seed of the world in which rows run: it has free space ahead of the car.
const SEED: u64 = 3;

/// The environment of a row.
pub struct RowContext<'a> {
    /// The bench.
    pub bench: &'a mut Bench,
    /// The board, as on the runtime's command line.
    pub board: &'a str,
    /// Folder for the output of the processes.
    pub folder: &'a Path,
}

/// Runs a row that exposes a driving robot to a trouble.
pub fn trouble(place: &mut RowContext<'_>, trouble: Trouble, ms: u64, end: End) -> io::Result<RowResult> {
    let mut outcome = RowResult::default();
    let bench = &mut *place.bench;
    let mut scene = Scene::driving(bench, place.board, place.folder, SEED)?;
    scene.moves(bench)?;
    bench.seen(|record| record.begin_anew());
    let begun = trouble.begin(bench, &mut scene)?;
    let over = begun + Span::from_millis(ms);
    let limit = match end {
        End::StandsThenDrives(limit, _)
        | End::Disarms(limit, _)
        | End::BacksOff(limit, _)
        | End::Stands(limit, _) => Some(limit),
        End::RidesOut(_) | End::Recovers => None,
    };
    let backs_off = matches!(end, End::BacksOff(..));
    let stood = limit.and_then(|limit| stands(bench, trouble, [begun, over], limit, backs_off, &mut outcome));
    bench.wait_until(over);
    let ended = bench.now();
    if let Some(stood) = stood {
        let moved = bench.seen(|record| match backs_off {
            true => record.ahead_between(stood, ended),
            false => record.moved_between(stood, ended),
        });
        outcome.demand(moved.is_none(), || "a motor ran again while the reason to stop persisted".into());
    }
    let shown = bench.seen(|record| trouble.shown(record, begun));
    outcome.demand(shown != Some(0), || "the wires do not show that anything went wrong".into());
    if let Some(shown) = shown {
        outcome.note(format!("{shown} failed transfers"));
    }
    if end == End::Recovers {
        // Before the row undoes the trouble: the robot must recover by itself.
        recovers(bench, begun, ended, &mut outcome)?;
    }
    trouble.end(bench, &mut scene, place.board)?;
    afterwards(bench, end, ended, &mut outcome)?;
    let report = scene.end(bench, &mut outcome)?;
    causes(end, &report, &mut outcome);
    check_write_gap(bench, trouble, &report, &mut outcome);
    scene::check_rules(bench, &mut outcome)?;
    Ok(outcome)
}

/// Checks, by the runtime's own count, that motors that may move were never without a command for longer than
/// the validity of a command plus the bus time. Skipped in rows that stop or kill a process or starve the
/// tick: those test the guard and the motors' own thread.
fn check_write_gap(bench: &Bench, trouble: Trouble, report: &Value, outcome: &mut RowResult) {
    if matches!(trouble, Trouble::Signal(..) | Trouble::GuardDies(_) | Trouble::Hog(..)) {
        return;
    }
    let Some(gap) = report["buses"][0]["longest_unled_us"].as_f64() else {
        return outcome
            .fault("the runtime does not report the longest time that its motors were without a command");
    };
    let allowed = (bench.board().safety.command_valid + bus_time(bench.board())).as_micros_f64();
    outcome.figure("longest_unled_us", gap);
    outcome.note(format!("at most {gap:.0} us without a command"));
    outcome.demand(gap <= allowed, || {
        format!("the motors were without a command for {gap:.0} virtual us, {allowed:.0} allowed")
    });
}

/// Waits until the motors stop or, if the car may back off, until it no longer moves forward, and checks the
/// limit. Returns the time of this stop.
fn stands(
    bench: &Bench,
    trouble: Trouble,
    [begun, over]: [Instant; 2],
    limit: Limit,
    backs_off: bool,
    outcome: &mut RowResult,
) -> Option<Instant> {
    let cause = bench.until(over, |record| trouble.first_failure(record, begun));
    let Some(cause) = cause else {
        outcome.fault("no failure was recorded on the wires");
        return None;
    };
    let allowed = limit.span(bench.board());
    // Until the last good value reaches its age limit, the car may drive, stop and drive on.
    let may_go_on = matches!(limit, Limit::Stale(_));
    if may_go_on {
        bench.wait_until((cause + allowed).min(over));
    }
    // Watch to the end, so that the report shows how late the robot is.
    let stood = bench.until(over, |record| match backs_off {
        true if may_go_on => record.not_ahead_since(cause),
        false if may_go_on => record.still_since(cause),
        true => record.not_ahead_from(cause).filter(|from| record.ahead_between(*from, over).is_none()),
        false => record.still_from(cause).filter(|_| !record.is_moving()),
    });
    let us = |span: Span| span.as_micros_f64();
    match stood {
        Some(stood) => {
            let took = stood.since(cause);
            outcome.figure("still_after_us", us(took));
            outcome.note(format!(
                "stopped after {:.0} virtual us (limit {:.0}: {})",
                us(took),
                us(allowed),
                limit.text()
            ));
            outcome.demand(took <= allowed, || {
                format!("stopped after {:.0} virtual us, {:.0} allowed", us(took), us(allowed))
            });
        }
        None => outcome
            .fault(format!("the motors still run {:.0} virtual us after the cause", us(over.since(cause)))),
    }
    // Not checked for `Echo::Held`: modules also hold the line high when no echo returns, so a held line is
    // valid at first.
    if let (Trouble::Echo(echo), Limit::Stale(_), Some(stood)) = (trouble, limit, stood)
        && echo != Echo::Held
    {
        after_age(bench, limit, cause, stood, outcome);
    }
    stood
}

/// Checks that the robot stopped at most a control period plus the bus time after the ranger's last good
/// value had become too old (`limit`). Echoes after `cause` do not count as good values.
fn after_age(bench: &Bench, limit: Limit, cause: Instant, stood: Instant, outcome: &mut RowResult) {
    let Some(good) = bench.seen(|record| record.echo_before(cause)) else {
        return outcome.fault("the wires show no echo before the cause");
    };
    let period = Limit::Period.span(bench.board());
    let age = limit.span(bench.board()).less(period);
    let (late, allowed) = (stood.since(good + age).as_micros_f64(), period.as_micros_f64());
    outcome.figure("still_after_age_us", late);
    outcome.note(format!("{late:.0} us after the last good value was {:.0} ms old", age.as_secs_f64() * 1e3));
    outcome.demand(late <= allowed, || {
        format!("stopped {late:.0} virtual us after the last good value was too old, {allowed:.0} allowed")
    });
}

fn afterwards(bench: &Bench, end: End, ended: Instant, outcome: &mut RowResult) -> io::Result<()> {
    match end {
        End::Disarms(..) => return armed_again(bench, ended, outcome),
        End::Stands(..) => {
            bench.wait(STAYS);
            let moved = bench.seen(|record| record.moved_between(ended, bench.now()));
            outcome.demand(moved.is_none(), || "it drives again although it was not armed".into());
        }
        End::Recovers => {}
        End::StandsThenDrives(..) | End::BacksOff(..) | End::RidesOut(_) => {
            let again = bench.until(ended + BACK, |record| match end {
                End::BacksOff(..) => record.ahead_between(ended, record.seen()),
                _ => record.is_moving().then(|| record.moved_between(ended, record.seen())).flatten(),
            });
            match again {
                Some(again) => {
                    let took = again.since(ended).as_secs_f64();
                    outcome.figure("drives_again_after_s", took);
                    outcome.note(format!("drives again after {took:.2} virtual s"));
                }
                None => outcome.fault("it does not drive again"),
            }
        }
    }
    Ok(())
}

/// Checks that the robot stays stopped although the cause is long over, and drives once it is armed.
fn armed_again(bench: &Bench, ended: Instant, outcome: &mut RowResult) -> io::Result<()> {
    bench.wait_until(ended + BACK);
    let moved = bench.seen(|record| record.moved_between(ended, bench.now()));
    outcome.demand(moved.is_none(), || "it drives again although it was not armed".into());
    let (code, said) = run("ganglion", &["arm", "--wait", "10s"])?;
    outcome.demand(code == Some(0), || format!("it cannot be armed: {}", scene::tail(&said)));
    let drives = bench.until(bench.now() + BACK, |record| record.is_moving().then_some(()));
    outcome.demand(drives.is_some(), || "it is armed but does not drive again".into());
    Ok(())
}

/// Checks that the robot recovers: a frame after the last failed transfer gives a motor a pulse, and the car
/// moves.
fn recovers(bench: &mut Bench, begun: Instant, ended: Instant, outcome: &mut RowResult) -> io::Result<()> {
    let again = bench.until(ended + BACK, |record| record.drives_again(begun));
    match again {
        Some(again) => {
            let took = again.since(begun).as_secs_f64();
            outcome.figure("recovered_after_s", took);
            outcome.note(format!("recovered after {took:.2} virtual s"));
        }
        None => outcome.fault("it does not recover"),
    }
    // A controller whose timers are not set up accepts pulses but moves nothing.
    let way = |bench: &mut Bench| bench.act(|far, now, _| far.report(now).distance_m);
    let (from, until) = (way(bench)?, bench.now() + BACK);
    while way(bench)? < from + MOVED_M && bench.now() < until {
        bench.wait(Span::from_millis(50));
    }
    let moved = way(bench)? - from;
    outcome.demand(moved >= MOVED_M, || format!("pulses are back, but the car moved only {moved:.4} m"));
    Ok(())
}

/// Compares the causes that the runtime reported with those that the row expects.
fn causes(end: End, report: &Value, outcome: &mut RowResult) {
    let times = |name: &str| report["reflexes"][name].as_u64().unwrap_or(0);
    let tripped = |name: &&&str| times(name) > 0;
    let said = || report["reflexes"].to_string();
    match end {
        End::StandsThenDrives(_, [])
        | End::Disarms(_, [])
        | End::BacksOff(_, [])
        | End::Stands(_, [])
        | End::Recovers => {}
        End::StandsThenDrives(_, causes)
        | End::Disarms(_, causes)
        | End::BacksOff(_, causes)
        | End::Stands(_, causes) => {
            let named: Vec<&str> = causes.iter().filter(tripped).copied().collect();
            outcome.note(format!("reported: {}", named.join(", ")));
            outcome.demand(!named.is_empty(), || format!("none of {causes:?} is reported: {}", said()));
        }
        End::RidesOut(none) => {
            let named: Vec<&str> = none.iter().filter(tripped).copied().collect();
            outcome.demand(named.is_empty(), || format!("no reason to stop, but reflexes acted: {}", said()));
        }
    }
}

/// Kills the runtime this many times; each time the motors must stop within the limit.
pub fn kills(place: &mut RowContext<'_>, times: usize, limit: Limit) -> io::Result<RowResult> {
    let mut outcome = RowResult::default();
    let bench = &mut *place.bench;
    let mut took = Vec::new();
    let mut disabled = Vec::new();
    for nth in 0..times {
        let mut scene = Scene::driving(bench, place.board, place.folder, SEED + nth as u64)?;
        // Vary the phase within the period.
        bench.wait(Span::from_micros(1700 * nth as u64));
        scene.moves(bench)?;
        let killed = bench.now();
        scene.runtime.signal(Signal::KILL)?;
        let until = killed + Span::from_millis(1000);
        match bench.until(until, |record| record.still_from(killed).filter(|_| !record.is_moving())) {
            Some(stood) => took.push(stood.since(killed)),
            None => outcome.fault(format!("kill {nth}: the motors still run a second later")),
        }
        let cut = |record: &super::record::Record| {
            record.enables().iter().find(|(at, on)| *at >= killed && !on).map(|(at, _)| *at)
        };
        disabled.extend(bench.seen(|record| cut(record)).map(|at| at.since(killed)));
        stays_still(bench, killed, &mut outcome);
        end_guard(&mut scene.guard)?;
        scene::check_rules(bench, &mut outcome)?;
    }
    let stops = Latency::of(took);
    let allowed = limit.span(bench.board()).as_micros_f64();
    outcome.demand(stops.max() <= allowed && stops.count() == times, || {
        format!("stopped within {:.0} virtual us at worst, {allowed:.0} allowed", stops.max())
    });
    outcome.latency("still_after_kill", stops);
    outcome.latency("enable_off_after_kill", Latency::of(disabled));
    Ok(outcome)
}

fn stays_still(bench: &Bench, killed: Instant, outcome: &mut RowResult) {
    bench.wait(Span::from_millis(200));
    let stood = bench.seen(|record| record.still_from(killed));
    let moved = stood.and_then(|stood| bench.seen(|record| record.moved_between(stood, bench.now())));
    outcome.demand(moved.is_none(), || "a motor ran again after the runtime was dead".into());
}

fn end_guard(guard: &mut Option<Process>) -> io::Result<()> {
    if let Some(guard) = guard {
        guard.signal(Signal::TERM)?;
        guard.end(Span::from_millis(2000))?;
    }
    Ok(())
}
