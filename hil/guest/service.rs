//! The service as installed in the guest: units, user, groups, sockets, watchdog. Acts through systemctl, as
//! an operator does, and judges by what happens on the wires.

use super::bench::Bench;
use super::course::RowContext;
use super::limits::Limit;
use super::process::{self, run};
use super::rows::Service;
use super::scene;
use super::variant::{self, Variant};
use super::verdict::RowResult;
use super::wire::{FOR_EVER, Fault};
use ganglion::base::time::{Instant, Span};
use ganglion::deploy::board::Loaded;
use ganglion::field::snapshot::previous_of;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const RUNTIME: &str = "ganglion.service";
const GUARD: &str = "ganglion-guard.service";
const REBINDER: &str = "ganglion-rebind.service";
/// Path where the units expect the board.
const BOARD: &str = "/etc/ganglion/board.toml";
/// The unit's own snapshot: every row starts without it.
const KEPT: &str = "/var/lib/ganglion/brain-3.bin";
/// The bus that the service's user may open.
const I2C: &str = "/dev/i2c-1";
/// Time limit for a restart (RestartSec, then the runtime's set-up and self-test), and for motion after it.
const AGAIN: Span = Span::from_millis(20_000);
/// Time limit for the watchdog to kill a stopped process: more than twice its interval (WatchdogSec).
const WATCHDOG: Span = Span::from_millis(5_000);
/// How long a hung transfer takes: twice the limit for the watchdog.
const HANGS_MS: i32 = 10_000;
/// EX_UNAVAILABLE, EX_NOPERM and EX_CONFIG.
const UNAVAILABLE: u64 = 69;
const NO_PERMISSION: u64 = 77;
const BAD_BOARD: u64 = 78;
/// The unit's StartLimitBurst.
const STARTS: u64 = 5;
/// Time limit from `systemctl stop` to stopped motors: the tool and systemd themselves, then at most ten
/// slots.
const STOP: Limit = Limit::Ms(500);
/// A robot that had armed by itself would move within this time.
const BY_ITSELF: Span = Span::from_millis(2_000);
/// Time limit for five self-tests of a controller that does not answer, each with its waits, and the half
/// second before each restart.
const GIVEN_UP: Span = Span::from_millis(60_000);
/// A crash loop would restart the service several times within this time.
const NO_LOOP: Span = Span::from_millis(4_000);

/// Runs one row.
pub fn carry_out(place: &mut RowContext<'_>, loaded: &Loaded, service: Service) -> io::Result<RowResult> {
    let mut outcome = RowResult::default();
    place.bench.renew(7)?;
    scene::boot()?;
    for unit in [RUNTIME, GUARD, REBINDER] {
        run("systemctl", &["reset-failed", unit])?;
    }
    let variant = match service {
        Service::BadBoard => Variant::Wrong,
        Service::HungBus => Variant::Rebind,
        _ => Variant::Plain,
    };
    variant::write(Path::new(BOARD), loaded, variant)?;
    for kept in [PathBuf::from(KEPT), previous_of(Path::new(KEPT))] {
        let _ = fs::remove_file(kept); // an earlier row may have left one
    }
    let done = match service {
        Service::Start | Service::Stop | Service::Kill => acted_on(place.bench, service, &mut outcome),
        Service::BadBoard => refused(place.bench, BAD_BOARD, &mut outcome),
        Service::Refused => locked_out(place.bench, &mut outcome),
        Service::Silent => silent(place.bench, &mut outcome),
        Service::Hostile => attacked(place.bench, &mut outcome),
        Service::HungBus => freed(place.bench, &mut outcome),
        Service::HungTransfer => hung(place.bench, &mut outcome),
    };
    run("systemctl", &["stop", RUNTIME, GUARD, REBINDER])?;
    outcome
        .demand(!place.bench.seen(|record| record.is_moving()), || "a motor runs without a service".into());
    let (_, journal) = run(
        "journalctl",
        &["-b", "--no-pager", "-o", "cat", "-n", "12", "-u", RUNTIME, "-u", GUARD, "-u", REBINDER],
    )?;
    outcome.said = scene::tail(&journal);
    done?;
    scene::check_rules(place.bench, &mut outcome)?;
    Ok(outcome)
}

/// A property of the runtime's unit.
fn property(name: &str) -> io::Result<String> {
    property_of(RUNTIME, name)
}

fn property_of(unit: &str, name: &str) -> io::Result<String> {
    Ok(run("systemctl", &["show", unit, "--value", "-p", name])?.1.trim().to_string())
}

fn number(name: &str) -> io::Result<u64> {
    number_of(RUNTIME, name)
}

fn number_of(unit: &str, name: &str) -> io::Result<u64> {
    let value = property_of(unit, name)?;
    value.parse().map_err(|_| io::Error::other(format!("{name} of {unit} is '{value}'")))
}

/// Starts the service and waits until the robot drives; returns its process.
fn driving(bench: &mut Bench, outcome: &mut RowResult) -> io::Result<u32> {
    let begun = bench.now();
    let (code, said) = run("systemctl", &["start", RUNTIME])?;
    if code != Some(0) {
        return Err(io::Error::other(format!("the service does not start: {}", scene::tail(&said))));
    }
    let ready = bench.now().since(begun).as_secs_f64();
    outcome.figure("ready_after_s", ready);
    outcome.note(format!("ready after {ready:.2} virtual s"));
    if bench.until(bench.now() + AGAIN, |record| record.is_moving().then_some(())).is_none() {
        return Err(io::Error::other("the robot does not drive"));
    }
    Ok(number("MainPID")? as u32)
}

fn acted_on(bench: &mut Bench, service: Service, outcome: &mut RowResult) -> io::Result<()> {
    let moved = |bench: &Bench, until| bench.until(until, |record| record.is_moving().then_some(()));
    let id = driving(bench, outcome)?;
    let user = process::status(id, "Uid");
    outcome.demand(user.is_some_and(|user| user != 0), || format!("it runs as user {user:?}"));
    bench.wait(Span::from_millis(300));
    moved(bench, bench.now() + AGAIN);
    if service == Service::Start {
        let asked = bench.now();
        run("systemctl", &["stop", RUNTIME])?;
        judge_stopped(bench, asked, STOP, outcome);
        return Ok(());
    }
    let (signal, limit) = match service {
        Service::Stop => (Signal::STOP, Limit::GuardTimeout),
        _ => (Signal::KILL, Limit::Ms(100)),
    };
    let killed = bench.now();
    let process = Pid::from_raw(id as i32).ok_or_else(|| io::Error::other("no main process"))?;
    kill_process(process, signal)?;
    judge_stopped(bench, killed, limit, outcome);
    started_again(bench, id, killed, outcome)
}

fn judge_stopped(bench: &Bench, from: Instant, limit: Limit, outcome: &mut RowResult) {
    let stood = bench.until(from + Span::from_millis(1000), |record| {
        record.still_from(from).filter(|_| !record.is_moving())
    });
    let allowed = limit.span(bench.board());
    match stood {
        Some(stood) => {
            let took = stood.since(from);
            outcome.figure("still_after_us", took.as_micros_f64());
            outcome.note(format!("stopped after {:.0} virtual us", took.as_micros_f64()));
            outcome.demand(took <= allowed, || format!("limit {:.0} virtual us", allowed.as_micros_f64()));
        }
        None => outcome.fault("the motors still run a second later"),
    }
}

/// Checks that another process is running, that the motors stay stopped until the robot is armed, and that it
/// then drives.
fn started_again(bench: &Bench, old: u32, from: Instant, outcome: &mut RowResult) -> io::Result<()> {
    let until = from + WATCHDOG + AGAIN;
    // Each query starts a systemctl process, so first wait until the old process is gone.
    let gone = format!("/proc/{old}");
    while Path::new(&gone).exists() && bench.now() < until {
        bench.wait(Span::from_millis(20));
    }
    outcome.note(format!("old process gone after {:.2} virtual s", bench.now().since(from).as_secs_f64()));
    while bench.now() < until {
        let id = number("MainPID").unwrap_or(0);
        if id != 0 && id != u64::from(old) && property("ActiveState")? == "active" {
            let again = bench.now();
            outcome.figure("ready_again_after_s", again.since(from).as_secs_f64());
            outcome.note(format!("ready again after {:.2} virtual s", again.since(from).as_secs_f64()));
            let restarts = number("NRestarts")?;
            outcome.demand(restarts == 1, || format!("{restarts} restarts"));
            bench.wait(BY_ITSELF);
            let stood = bench.seen(|record| record.still_from(from));
            let moved = stood.and_then(|stood| bench.seen(|record| record.moved_between(stood, bench.now())));
            outcome.demand(moved.is_none(), || "it armed by itself after the previous process died".into());
            let (code, said) = run("ganglion", &["arm", "--wait", "10s"])?;
            outcome.demand(code == Some(0), || format!("it cannot be armed: {}", scene::tail(&said)));
            let drives = bench.until(bench.now() + AGAIN, |record| record.is_moving().then_some(()));
            outcome.demand(drives.is_some(), || "it does not drive again".into());
            return Ok(());
        }
        bench.wait(Span::from_millis(250));
    }
    outcome.fault("it was not started again");
    Ok(())
}

/// Checks that the service does not start, reports the reason by its exit code, and is not restarted.
fn refused(bench: &Bench, code: u64, outcome: &mut RowResult) -> io::Result<()> {
    run("systemctl", &["start", RUNTIME])?;
    bench.wait(NO_LOOP);
    let (status, restarts) = (number("ExecMainStatus")?, number("NRestarts")?);
    let state = property("ActiveState")?;
    outcome.note(format!("exit {status}, {restarts} restarts, {state}"));
    outcome.demand(status == code, || format!("it ended with {status}, {code} expected"));
    outcome.demand(restarts == 0, || format!("it was started again {restarts} times"));
    outcome.demand(state == "failed", || format!("the unit is {state}"));
    let moved = bench.seen(|record| record.moved_between(Instant::ZERO, bench.now()));
    outcome.demand(moved.is_none(), || "a motor ran".into());
    Ok(())
}

fn locked_out(bench: &Bench, outcome: &mut RowResult) -> io::Result<()> {
    let before = fs::metadata(I2C)?.permissions();
    fs::set_permissions(I2C, fs::Permissions::from_mode(0o600))?;
    let done = refused(bench, NO_PERMISSION, outcome);
    fs::set_permissions(I2C, before)?;
    done
}

/// A controller that never answers: each start reports the likely reasons, and systemd gives up in the end.
fn silent(bench: &mut Bench, outcome: &mut RowResult) -> io::Result<()> {
    let begun = bench.now();
    bench.act(|far, _, out| far.unplug_mcu(true, out))?;
    run("systemctl", &["start", RUNTIME])?;
    let until = begun + GIVEN_UP;
    while property("ActiveState")? != "failed" && bench.now() < until {
        bench.wait(Span::from_millis(250));
    }
    let (state, status) = (property("ActiveState")?, number("ExecMainStatus")?);
    let restarts = number("NRestarts")?;
    outcome.note(format!("exit {status}, {restarts} restarts, {state}"));
    outcome.demand(state == "failed", || format!("the unit is {state}"));
    outcome.demand(status == UNAVAILABLE, || format!("it ended with {status}"));
    outcome.demand((1..=STARTS).contains(&restarts), || format!("it was started again {restarts} times"));
    let (_, journal) = run("journalctl", &["-b", "--no-pager", "-o", "cat", "-u", RUNTIME])?;
    for reason in ["Robot HAT", "switch", "battery"] {
        outcome.demand(journal.contains(reason), || format!("the log does not name: {reason}"));
    }
    let moved = bench.seen(|record| record.moved_between(begun, bench.now()));
    outcome.demand(moved.is_none(), || "a motor ran".into());
    bench.act(|far, _, out| far.unplug_mcu(false, out))
}

/// An action that only root may perform.
const UNBIND: &str = "echo hilplant.0 > /sys/bus/platform/drivers/hilplant/unbind";

/// Actions of a broken runtime, or of an attacker who has become its user, to get rid of the guard. GUARD
/// stands for the guard's process ID.
const ATTACKS: &[&str] = &[
    "kill -KILL GUARD",
    "kill -STOP GUARD",
    "rm -f /run/ganglion-guard/guard.sock",
    "rm -f /run/ganglion-guard/guard.sock.lock",
    "mv /run/ganglion-guard/guard.sock /run/ganglion/",
    "mv /run/ganglion-guard /run/ganglion/away",
    "ln -s /run/ganglion/control.sock /run/ganglion-guard/other.sock",
    "/usr/bin/ganglion guard --board /etc/ganglion/board.toml",
    "echo 1000 > /proc/GUARD/oom_score_adj",
    "head -c 1 /proc/GUARD/mem",
];
/// Actions that the guard's own user can perform: they show that the attacks were not refused for an
/// unrelated reason.
const RIGHTS: &[&str] = &["kill -0 GUARD", "touch /run/ganglion-guard/own && rm /run/ganglion-guard/own"];

fn attacked(bench: &mut Bench, outcome: &mut RowResult) -> io::Result<()> {
    let runtime = driving(bench, outcome)?;
    let guard = number_of(GUARD, "MainPID")?;
    let users = [runtime, guard as u32].map(|process| process::status(process, "Uid"));
    outcome
        .demand(users[0] != users[1] && users.iter().all(|user| user.is_some_and(|user| user != 0)), || {
            format!("runtime and guard run as users {users:?}")
        });
    let act = |user: &str, words: &str| {
        let words = words.replace("GUARD", &guard.to_string());
        let act_as = ["--reuid", user, "--regid", "ganglion", "--init-groups", "sh", "-c", &words];
        run("setpriv", &act_as).map(|(code, _)| code)
    };
    for attack in ATTACKS {
        let code = act("ganglion", attack)?;
        outcome.demand(code != Some(0), || format!("the runtime's user can: {attack}"));
    }
    for right in RIGHTS {
        let code = act("ganglion-guard", right)?;
        outcome.demand(code == Some(0), || format!("the guard's user cannot: {right}"));
    }
    outcome.note(format!("{} attacks tried", ATTACKS.len()));
    let same = number_of(GUARD, "MainPID")? == guard && number("MainPID")? == u64::from(runtime);
    outcome.demand(same, || "a process was replaced".into());
    let (code, said) = run("ganglion", &["guard", "--status"])?;
    outcome.demand(code == Some(0) && said.contains("trusted"), || format!("the guard says: {said}"));
    let drives = bench.until(bench.now() + AGAIN, |record| record.is_moving().then_some(()));
    outcome.demand(drives.is_some(), || "it does not drive on".into());
    Ok(())
}

/// The bus hangs until its driver is rebound. The service's user may not do that; root does it on request.
fn freed(bench: &mut Bench, outcome: &mut RowResult) -> io::Result<()> {
    driving(bench, outcome)?;
    let before = bus_status()?;
    outcome
        .demand(before["measures"].to_string().contains("rebind"), || format!("rebind is missing: {before}"));
    let write = ["--reuid", "ganglion", "--regid", "ganglion", "--init-groups", "sh", "-c", UNBIND];
    let (code, _) = run("setpriv", &write)?;
    outcome.demand(code != Some(0), || "the runtime's user can unbind the driver itself".into());
    let hangs = bench.now();
    bench.fault(None, Fault::Rebind, 0, FOR_EVER)?;
    judge_stopped(bench, hangs, Limit::Ms(100), outcome);
    let again = bench.until(hangs + AGAIN, |record| record.drives_again(hangs));
    match again {
        Some(again) => {
            let took = again.since(hangs).as_secs_f64();
            outcome.figure("freed_after_s", took);
            outcome.note(format!("drives again after {took:.2} virtual s"));
        }
        None => outcome.fault("it does not drive again"),
    }
    let after = bus_status()?;
    outcome.note(format!("recovery {}", after["recovery"]));
    outcome.demand(after["recovery"]["rebind"] == 1, || format!("not rebound exactly once: {after}"));
    Ok(())
}

/// One transfer hangs in the kernel for longer than the watchdog waits. The watchdog's signal ends the
/// runtime only when the transfer ends; until then the line that stops the motors has to stay off.
fn hung(bench: &mut Bench, outcome: &mut RowResult) -> io::Result<()> {
    let id = driving(bench, outcome)?;
    let hangs = bench.now();
    bench.fault(None, Fault::Stuck, HANGS_MS, 1)?;
    judge_stopped(bench, hangs, Limit::Ms(100), outcome);
    bench.wait(WATCHDOG);
    let state = property("SubState")?;
    outcome.demand(state == "stop-watchdog", || format!("while the transfer hangs, the unit is {state}"));
    started_again(bench, id, hangs, outcome)
}

/// The state of the motors' bus, as the runtime reports it.
fn bus_status() -> io::Result<serde_json::Value> {
    let (_, said) = run("ganglion", &["status", "--json"])?;
    let status = said.lines().rev().find_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    status
        .map(|status| status["buses"][0].clone())
        .ok_or_else(|| io::Error::other(format!("no status: {said}")))
}
