//! A robot on the bench: guard and runtime as shipped, started afresh, driving before anything is done to
//! them, and shut down in order; and the rules that must hold whatever happens.

use super::bench::Bench;
use super::process::Process;
use super::verdict::RowResult;
use ganglion::base::time::{Instant, Span};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The snapshot of a row's runtime, in the folder of the row. Every row starts without one; a runtime that is
/// restarted within a row resumes from it.
const BRAIN: &str = "brain";
/// Folders of the runtime's and of the guard's sockets, the same as the services use.
const SOCKETS: &str = "/run/ganglion";
const GUARD_SOCKETS: &str = "/run/ganglion-guard";
/// The mark that a killed runtime leaves, so that the next one does not arm by itself. Each row begins as
/// after a boot, which removes it.
const UNFINISHED: &str = "/run/ganglion/unfinished-run";
/// Time limit from the start of the processes to the first motion: set-up of the controller, self-test,
/// settling. Generous, because this bench does not measure it.
const START: Span = Span::from_millis(15_000);
/// A runtime that got SIGINT, or a guard that got SIGTERM, ends within this time.
const END: Span = Span::from_millis(5_000);
/// The robot moves for this long before a row acts on it.
const UNDER_WAY: Span = Span::from_millis(300);
/// The field decides when the robot moves; a row waits at most this long for motion.
const MOTION: Span = Span::from_millis(10_000);

/// The process that a row acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The runtime.
    Runtime,
    /// The guard.
    Guard,
}

/// The processes of one row.
pub struct Scene {
    /// The guard, if the board has one.
    pub guard: Option<Process>,
    /// The runtime.
    pub runtime: Process,
    folder: PathBuf,
}

impl Scene {
    /// Starts guard and runtime with a new car in the world of `seed`.
    fn start(bench: &mut Bench, board: &str, folder: &Path, seed: u64) -> io::Result<Scene> {
        [SOCKETS, GUARD_SOCKETS].iter().try_for_each(fs::create_dir_all)?;
        fs::create_dir_all(folder)?;
        boot()?;
        bench.renew(seed)?;
        let guard = match bench.board().guard {
            Some(_) => Some(start_guard(bench, board, folder)?),
            None => None,
        };
        let _ = fs::remove_file(folder.join(BRAIN)); // of an earlier start in this row
        let runtime = start_runtime(board, folder, "runtime")?;
        Ok(Scene { guard, runtime, folder: folder.to_path_buf() })
    }

    /// Starts guard and runtime, and waits until the robot drives.
    pub fn driving(bench: &mut Bench, board: &str, folder: &Path, seed: u64) -> io::Result<Scene> {
        let scene = Scene::start(bench, board, folder, seed)?;
        let begun = bench.now();
        let moved = bench.until(begun + START, |record| record.is_moving().then_some(()));
        if moved.is_none() {
            return Err(io::Error::other(format!(
                "the robot does not drive; the output: {}",
                tail(&scene.runtime.said())
            )));
        }
        bench.wait(UNDER_WAY);
        Ok(scene)
    }

    /// Waits until a motor gets current: a row can only stop a robot that was moving.
    pub fn moves(&self, bench: &Bench) -> io::Result<Instant> {
        let moving = bench.until(bench.now() + MOTION, |record| record.is_moving().then_some(()));
        moving.map(|()| bench.now()).ok_or_else(|| {
            io::Error::other(format!("the robot does not move; the output: {}", tail(&self.runtime.said())))
        })
    }

    /// The process that the row acts on.
    pub fn who(&mut self, who: Who) -> io::Result<&mut Process> {
        match who {
            Who::Runtime => Ok(&mut self.runtime),
            Who::Guard => self.guard.as_mut().ok_or_else(|| io::Error::other("the board has no guard")),
        }
    }

    /// Restarts a process that was killed.
    pub fn start_again(&mut self, bench: &Bench, board: &str, who: Who) -> io::Result<()> {
        match who {
            Who::Guard => self.guard = Some(start_guard(bench, board, &self.folder)?),
            Who::Runtime => {
                self.runtime = start_runtime(board, &self.folder, "runtime-again")?;
            }
        }
        Ok(())
    }

    /// Ends the runtime as Ctrl-C does, then the guard. Returns the runtime's report; adds faults to
    /// `outcome`.
    pub fn end(mut self, bench: &Bench, outcome: &mut RowResult) -> io::Result<Value> {
        self.runtime.signal(Signal::CONT)?;
        self.runtime.signal(Signal::INT)?;
        match self.runtime.end(END)? {
            Some(status) if status.success() => {}
            Some(status) => {
                outcome.fault(format!("the runtime ended with {status}: {}", tail(&self.runtime.said())))
            }
            None => outcome.fault("the runtime does not end after SIGINT"),
        }
        outcome.demand(!bench.seen(|record| record.is_moving()), || "a motor runs after the end".into());
        if let Some(guard) = &mut self.guard {
            guard.signal(Signal::CONT)?;
            guard.signal(Signal::TERM)?;
            match guard.end(END)? {
                Some(status) => {
                    outcome.demand(status.success(), || format!("the guard ended with {status}"));
                }
                None => outcome.fault("the guard does not end after SIGTERM"),
            }
        }
        let report = self.runtime.report();
        let grid = report.as_ref().and_then(|report| report["grid_identity_holds"].as_bool());
        outcome.demand(grid == Some(true), || "the report does not say that the slots add up".into());
        Ok(report.unwrap_or(Value::Null))
    }
}

/// Puts the runtime directory into the state that a boot leaves.
pub fn boot() -> io::Result<()> {
    match fs::remove_file(UNFINISHED) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn start_runtime(board: &str, folder: &Path, name: &str) -> io::Result<Process> {
    let brain = folder.join(BRAIN).display().to_string();
    let words = ["run", "--board", board, "--json", "--for", "900s", "--snapshot", &brain];
    Process::start(folder, name, &words)
}

/// Starts the guard; returns when it listens.
pub fn start_guard(bench: &Bench, board: &str, folder: &Path) -> io::Result<Process> {
    let socket = Path::new(GUARD_SOCKETS).join("guard.sock");
    let _ = fs::remove_file(&socket); // left by a guard that was killed
    let mut guard = Process::start(folder, "guard", &["guard", "--board", board])?;
    let until = bench.now() + START;
    while !socket.exists() {
        if guard.has_ended()? || bench.now() >= until {
            return Err(io::Error::other(format!(
                "the guard did not start; its output: {}",
                tail(&guard.said())
            )));
        }
        bench.wait(Span::from_millis(5));
    }
    Ok(guard)
}

/// Rules that every row must obey: the car hit nothing, framing was never lost, and no event was missed.
pub fn check_rules(bench: &mut Bench, outcome: &mut RowResult) -> io::Result<()> {
    let report = bench.act(|far, now, _| far.report(now))?;
    outcome
        .demand(report.contacts.all() == 0, || format!("the car ran into something: {:?}", report.contacts));
    frames(bench, outcome);
    Ok(())
}

/// The same rules for a car that drives for a long time. No sensor covers its sides or its back: its side may
/// touch a disc, and its back may touch a wall when it backs off. It must not hit anything that its sonar
/// sees, and must not fall over an edge at which it had stopped.
pub fn check_long_drive_rules(bench: &mut Bench, outcome: &mut RowResult) -> io::Result<()> {
    let report = bench.act(|far, now, _| far.report(now))?;
    let contacts = report.contacts;
    outcome.note(format!("{:.1} m driven, contacts {contacts:?}", report.distance_m));
    outcome.demand(contacts.head_on + contacts.falls_after_stop == 0, || format!("the car: {contacts:?}"));
    frames(bench, outcome);
    Ok(())
}

/// The rules that do not depend on the car.
pub fn frames(bench: &Bench, outcome: &mut RowResult) {
    let (strays, lost) = bench.seen(|record| (record.strays().to_vec(), record.lost()));
    outcome.demand(strays.is_empty(), || {
        format!("{} frames for registers that the board does not use, first {:?}", strays.len(), strays[0])
    });
    outcome.demand(lost == 0, || format!("events of the wires were lost {lost} times"));
}

/// The last lines of a process's output, as one line.
pub fn tail(said: &str) -> String {
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(4)..].join(" | ")
}
