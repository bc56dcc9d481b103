//! What `run` prints at its end: a page of text, and with `--json` one object for scripts. Every figure was
//! counted or measured in the run, or is listed in `sources`; a figure that the run does not have is absent
//! (`null`), never zero.

mod bus;
mod contact;
mod link;
pub mod reflexes;
mod refused;
mod sensor;

use super::exit::Failure;
use super::go;
use super::origin::{self, COMPUTED, MODELLED, SIMULATED, Sources};
use super::run::ClockKind;
use super::simulate::Simulation;
use crate::base::plan::Board;
use crate::drive::backtrack::BackingCounters;
use crate::drive::io::BusCounters;
use crate::drive::record::RecordingStatus;
use crate::drive::trace::Latency;
use crate::field::remote::LinkTimes;
use crate::field::snapshot::SnapshotCounts;
use crate::field::{DeviceTimes, FieldCounters};
use crate::runtime::control::{GoalStatus, behaviour_names, why_disarmed};
use crate::runtime::runner::Ending;
use crate::runtime::session::{RunHandles, RunOutcome};
use crate::sim::Fault;
use crate::system::executor::Rest;
use crate::system::rt::Granted;
use bus::BusLine;
use contact::ContactReport;
use reflexes::reflexes_text;
use refused::RefusedReport;
use sensor::SensorReport;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Version of the JSON object; raised when a key changes its meaning or is removed.
const SCHEMA: u32 = 1;

/// The key that represents all transfer times, which are all measured or all modelled.
const WIRES: &str = "end_late_us";
/// The key that represents all times of the tick and the field, which are all measured or all modelled.
const TICK: &str = "exec_us";

/// The object.
#[derive(Debug, Serialize)]
pub struct RunReport {
    schema: u32,
    board: String,
    /// Whether robot, wires and room are simulated.
    simulated: bool,
    /// With `--simulate`: what the simulator lacks and changes.
    simulation: Simulation,
    engine: String,
    /// The clock of the run and of the latencies below: `real` or `virtual`.
    clock: &'static str,
    /// The origin of each figure that was not measured, by key: modelled, simulated or computed.
    sources: Sources,
    slots_run: u64,
    slots_skipped: u64,
    elapsed_s: f64,
    period_s: f64,
    grid_identity_holds: bool,
    /// All contacts: with walls, with discs, and falls.
    contacts: Option<u64>,
    /// The first of them, one by one, at most [`MOST_CONTACTS`](crate::sim::MOST_CONTACTS).
    first_contacts: Option<Vec<ContactReport>>,
    /// Falls, also counted in `contacts`.
    falls: Option<u64>,
    /// How many contacts happened while the robot drove backwards.
    rear_contacts: Option<u64>,
    /// How many contacts were with something that the robot's sensors had in view.
    seen_ahead: Option<u64>,
    distance_m: Option<f64>,
    /// Number of cells of 0.25 m by 0.25 m that the robot visited.
    cells_visited: Option<u64>,
    /// Share of the time in which the robot drove backwards.
    backward_share: Option<f64>,
    /// Share of the time in which the robot stood still.
    still_share: Option<f64>,
    /// How the robot backed off, on boards with [backing].
    backing: Option<BackingReport>,
    /// Requests of the field that were refused.
    refused: RefusedReport,
    /// Whether the motors are stopped at the end, according to the simulator (ground truth).
    motors_still: Option<bool>,
    /// Whether the motors' driver accepted the last stop command; absent without motors.
    stop_heard: Option<bool>,
    mode: &'static str,
    /// The outcome of the robot's goal; absent if it had none at the end.
    goal: Option<GoalStatus>,
    /// Why the robot was disarmed; absent if it has been armed again since.
    disarmed_by: Option<String>,
    reflexes: BTreeMap<&'static str, u64>,
    /// How often the reflexes began to forbid driving forwards; the others only slowed the robot.
    forward_stops: u64,
    level_s: BTreeMap<String, f64>,
    release_late_us: Option<Latency>,
    exec_us: Option<Latency>,
    end_late_us: Option<Latency>,
    /// Compute time of the answered cycles.
    field_us: Option<Latency>,
    /// Time from the slot of the request to the answer.
    answer_us: Option<Latency>,
    /// Where the time of a cycle went if a GPU computed it, by part; empty without a GPU.
    gpu_us: BTreeMap<&'static str, Latency>,
    /// Where the time of a cycle went if a remote brain computed it, by part; empty without one.
    link_us: BTreeMap<&'static str, Latency>,
    allocations_per_tick: Option<f64>,
    /// How smooth the commands were, by motor. Motors that did not move are absent.
    smoothness: BTreeMap<String, SmoothnessReport>,
    field: FieldCounters,
    field_state: String,
    /// How many cycles the brain had run before this run; absent if it started from rest.
    resumed_age: Option<u64>,
    snapshots: Option<SnapshotCounts>,
    /// What the recording contains; absent without --record.
    pub recording: Option<Recorded>,
    /// Injected faults that had no effect.
    idle_faults: Vec<&'static str>,
    /// The same, each with the reason.
    #[serde(skip)]
    why_idle: Vec<String>,
    bus: BusReport,
    /// The bus threads, the motors' bus first.
    buses: Vec<BusLine>,
    /// How often the motors were stopped without waiting for the tick, by cause.
    halts: BTreeMap<&'static str, u64>,
    /// What happened to the readings, by sensor. Sensors that are not read are absent.
    sensors: BTreeMap<String, SensorReport>,
    records_dropped: u64,
    granted: BTreeMap<&'static str, Granted>,
    hung: Vec<&'static str>,
    /// Threads that panicked: a bug.
    panicked: Vec<&'static str>,
    digest: String,
    /// Whether the motors may still be running.
    #[serde(skip)]
    may_run: bool,
}

/// Figures that were not measured, with their origin. In virtual time the simulator decides how long
/// everything takes.
fn sources(clock: ClockKind, is_simulated: bool) -> Sources {
    let mut sources = origin::all(["backing.metres"], COMPUTED);
    if is_simulated {
        let world = ["contacts", "falls", "rear_contacts", "seen_ahead", "distance_m", "cells_visited"];
        sources.extend(origin::all(world, SIMULATED));
        sources.extend(origin::all(["backward_share", "still_share", "motors_still"], SIMULATED));
        sources.extend(origin::all(["first_contacts"], SIMULATED));
    }
    let wires = ["end_late_us", "buses.longest_us", "buses.longest_unled_us"];
    match (clock, is_simulated) {
        (ClockKind::Sim, _) => {
            sources.extend(origin::all(wires, MODELLED));
            let times = ["release_late_us", "exec_us", "field_us", "answer_us"];
            sources.extend(origin::all(times, MODELLED));
        }
        (ClockKind::Real, true) => sources.extend(origin::all(wires, SIMULATED)),
        (ClockKind::Real, false) => {}
    }
    sources
}

/// The injected faults that had no effect, each with the reason.
fn idle_faults(outcome: &RunOutcome, faults: &[Fault]) -> Vec<(&'static str, &'static str)> {
    let mut idle = outcome.handles.idle_faults.clone();
    let late = faults.iter().filter(|fault| fault.start >= outcome.ending.elapsed);
    let late = late.map(|fault| (fault.kind.name(), "the run ended before its start"));
    idle.extend(late.filter(|(name, _)| !outcome.handles.idle_faults.iter().any(|(known, _)| known == name)));
    idle
}

/// How the robot backed off, according to its own commands.
#[derive(Debug, Serialize)]
struct BackingReport {
    times: u64,
    metres: f64,
    /// Number of turns away from the edge or obstacle after backing off.
    turns: u64,
    /// How often the robot was stuck.
    stuck: u64,
    /// How long the field wanted to reverse with no recorded path left.
    without_way_s: f64,
}

impl BackingReport {
    fn of(counters: &BackingCounters, period_s: f64) -> BackingReport {
        let BackingCounters { times, metres, turns, stuck, without_way } = *counters;
        let without_way_s = without_way as f64 * period_s;
        BackingReport { times, metres, turns, stuck, without_way_s }
    }
}

/// What a recording contains.
#[derive(Debug, Serialize)]
pub struct Recorded {
    /// Slots written.
    slots: u64,
    /// Slots that could not be written.
    lost: u64,
}

impl Recorded {
    /// The figures of a recording that has ended.
    pub fn of(status: &RecordingStatus) -> Recorded {
        Recorded { slots: status.slots, lost: status.lost() }
    }
}

/// Smoothness of one motor's commands (see `smooth.rs`).
#[derive(Debug, Serialize)]
struct SmoothnessReport {
    /// Mean log dimensionless jerk over windows of five seconds; closer to zero is smoother.
    log_dimensionless_jerk: f64,
    /// Commands that repeated the previous one bit for bit, as a share of all commands during motion.
    held: f64,
}

/// Counters of all buses together.
#[derive(Debug, Serialize)]
struct BusReport {
    failures: u64,
    set_ups: u64,
    commands_expired: u64,
    commands_replaced: u64,
    commands_withheld: u64,
    readings_dropped: u64,
    edges_lost: u64,
    edge_overruns: u64,
    edge_storms: u64,
}

impl RunReport {
    /// Collects the figures of a run that has ended.
    pub fn new(
        board: &Board,
        outcome: &RunOutcome,
        clock: ClockKind,
        simulation: Simulation,
        faults: &[Fault],
    ) -> RunReport {
        let RunOutcome { ending, handles: outside, world, motors_still, snapshots } = outcome;
        let summary = ending.recorder.summary();
        let period_s = board.period.as_secs_f64();
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let idle = idle_faults(outcome, faults);
        let levels = summary.slots_at_level.iter().enumerate();
        RunReport {
            schema: SCHEMA,
            board: board.name.clone(),
            simulated: world.is_some(),
            simulation,
            engine: outside.engine_name.clone(),
            clock: if clock == ClockKind::Real { "real" } else { "virtual" },
            sources: sources(clock, world.is_some()),
            slots_run: ending.tick.grid().slots_run(),
            slots_skipped: ending.tick.grid().slots_skipped(),
            elapsed_s: ending.elapsed.as_secs_f64(),
            period_s,
            grid_identity_holds: ending.identity_holds,
            contacts: world.as_ref().map(|world| world.contacts.all()),
            first_contacts: outcome
                .plant()
                .map(|it| it.first_contacts().iter().map(ContactReport::of).collect()),
            falls: world.as_ref().map(|world| world.contacts.falls),
            rear_contacts: world.as_ref().map(|world| world.contacts.backwards),
            seen_ahead: world.as_ref().map(|world| world.contacts.head_on + world.contacts.falls_after_stop),
            distance_m: world.as_ref().map(|world| world.distance_m),
            cells_visited: world.as_ref().map(|world| world.coverage.cells),
            backward_share: world.as_ref().map(|world| world.coverage.backward_share),
            still_share: world.as_ref().map(|world| world.coverage.standing_share),
            backing: ending.tick.backing().map(|counters| BackingReport::of(&counters, period_s)),
            refused: RefusedReport::of(&ending.tick.command_counters(), period_s),
            motors_still: *motors_still,
            stop_heard: match ending.rest {
                Rest::NoMotors => None,
                Rest::Heard => Some(true),
                Rest::Unheard => Some(false),
            },
            mode: ending.tick.mode().name(),
            goal: summary
                .goal
                .filter(|report| report.goal.is_some() || report.requester.behaviour().is_some())
                .map(|report| GoalStatus::of(&report, &behaviour_names(board), ending.tick.engine_state())),
            disarmed_by: ending.tick.disarmed().map(why_disarmed),
            reflexes: summary.trips_by_name(),
            forward_stops: summary.forward_stops,
            level_s: levels.map(|(quality, &slots)| (quality.to_string(), slots as f64 * period_s)).collect(),
            release_late_us: Latency::of(&ending.recorder.release_late),
            exec_us: Latency::of(&ending.recorder.exec),
            end_late_us: Latency::of(&ending.recorder.end_late),
            field_us: Latency::of(&ending.recorder.field),
            answer_us: Latency::of(&ending.recorder.answer),
            gpu_us: link::parts(DeviceTimes::PARTS, &ending.recorder.device),
            link_us: link::parts(LinkTimes::PARTS, &ending.recorder.link),
            allocations_per_tick: summary.allocations_per_slot(),
            smoothness: smoothness(board, ending),
            field: ending.tick.field_counters(),
            field_state: ending.tick.engine_state().to_string(),
            resumed_age: outside.resumed_age,
            snapshots: snapshots.clone(),
            recording: None,
            idle_faults: idle.iter().map(|(name, _)| *name).collect(),
            why_idle: idle.iter().map(|(name, why)| format!("{name}: no effect, because {why}")).collect(),
            bus: bus_report(outside, ending),
            buses: outside.buses.iter().map(|bus| BusLine::of(bus)).collect(),
            halts: outside.halt.counts().map(|(cause, times)| (cause.name(), times)).collect(),
            sensors: SensorReport::by_name(board, ending.tick.admission()),
            records_dropped: count(&outside.records_dropped),
            granted: ending.granted.iter().cloned().collect(),
            hung: ending.hung.clone(),
            panicked: ending.panicked.clone(),
            digest: ending.recorder.digest(),
            may_run: outcome.may_run(),
        }
    }

    /// The human-readable page.
    pub fn print(&self) {
        let virtually = if self.clock == "virtual" { " of virtual time" } else { "" };
        let simulated = if self.simulated { " (simulated)" } else { "" };
        say!("{} on board '{}'{simulated}, field: {}", self.mode, self.board, self.engine);
        self.simulation.lines().iter().for_each(|line| say!("  simulated  {line}"));
        say!(
            "  slots      {} run, {} skipped in {:.2} s{virtually} ({:.1} ms period)",
            self.slots_run,
            self.slots_skipped,
            self.elapsed_s,
            self.period_s * 1e3
        );
        if let Some(age) = self.resumed_age {
            say!("  brain      resumed after {age} cycles");
        }
        self.say_world();
        if let Some(BackingReport { times, metres, turns, stuck, without_way_s }) = &self.backing {
            say!(
                "  backing    retreats {times}, turns away {turns}, stuck {stuck}; {metres:.2} m along the recorded path \
                 (computed), {without_way_s:.2} s with no path left"
            );
        }
        if let Some(why) = &self.disarmed_by {
            say!("  disarmed   {why}");
        }
        say!("  reflexes   {}", reflexes_text(&self.reflexes, self.forward_stops));
        let levels: Vec<String> =
            self.level_s.iter().filter(|(_, s)| **s > 0.0).map(|(r, s)| format!("{r}: {s:.2} s")).collect();
        say!("  quality    {}", levels.join(", "));
        for (name, latency) in [
            ("release", &self.release_late_us),
            ("exec", &self.exec_us),
            ("on wire", &self.end_late_us),
            ("field", &self.field_us),
            ("answer", &self.answer_us),
        ] {
            say_latency(name, latency.as_ref(), &self.unit(if name == "on wire" { WIRES } else { TICK }));
        }
        for part in DeviceTimes::PARTS.into_iter().chain(LinkTimes::PARTS) {
            if let Some(latency) = self.gpu_us.get(part).or_else(|| self.link_us.get(part)) {
                say_latency(&format!("  {}", part.replace('_', " ")), Some(latency), "us");
            }
        }
        let smooth =
            self.smoothness.iter().map(|(motor, s)| format!("{motor} {:.1}", s.log_dimensionless_jerk));
        let smooth: Vec<String> = smooth.collect();
        if !smooth.is_empty() {
            say!("  smoothness {} (log dimensionless jerk, mean of 5 s windows)", smooth.join(", "));
        }
        match self.allocations_per_tick {
            Some(per_tick) => say!("  heap       {per_tick} allocations per tick"),
            None => say!("  heap       not counted in this build"),
        }
        self.say_buses();
        self.say_troubles();
        say!("  digest     {}", self.digest);
    }

    /// The unit of the figure under `key`, with its origin.
    fn unit(&self, key: &str) -> String {
        let source = self.sources.get(key).map(|source| format!(" ({source})")).unwrap_or_default();
        let virtually = if self.clock == "virtual" { "virtual " } else { "" };
        format!("{virtually}us{source}")
    }

    fn say_world(&self) {
        if let Some(goal) = &self.goal {
            say!("  goal       {}", go::line(goal));
        }
        let counts = (self.contacts, self.falls, self.rear_contacts, self.seen_ahead, self.distance_m);
        if let (Some(contacts), Some(falls), Some(rear), Some(seen), Some(distance)) = counts {
            say!(
                "  world      {distance:.2} m driven; contacts {contacts}, of these falls {falls}, backwards {rear}, \
                 in view of its sensors {seen} (simulated)"
            );
            contact::say_first(self.first_contacts.as_deref().unwrap_or_default(), contacts);
        }
        if let (Some(cells), Some(backward), Some(still)) =
            (self.cells_visited, self.backward_share, self.still_share)
        {
            let [backward, still] = [backward, still].map(|share| 100.0 * share);
            say!(
                "             over {cells} cells of 0.25 m; {backward:.0} % of the time backwards, {still:.0} % standing (simulated)"
            );
        }
    }

    fn say_buses(&self) {
        let unit = self.unit(WIRES);
        self.buses.iter().filter(|bus| bus.polls > 0).for_each(|bus| bus.print(&unit));
        let halts: Vec<String> = self.halts.iter().map(|(cause, times)| format!("{cause} {times}")).collect();
        if !halts.is_empty() {
            say!("  stopped    at once, before the tick: {}", halts.join(", "));
        }
        let troubled = self.sensors.iter().filter_map(|(name, sensor)| sensor.line(name));
        troubled.for_each(|line| say!("  sensor     {line}"));
    }

    fn say_troubles(&self) {
        let bus = &self.bus;
        if bus.failures + bus.commands_expired + bus.readings_dropped + self.records_dropped > 0 {
            say!(
                "  bus        {} failed transfers, {} set-ups, {} commands expired, {} readings and {} records dropped",
                bus.failures,
                bus.set_ups,
                bus.commands_expired,
                bus.readings_dropped,
                self.records_dropped
            );
        }
        if self.field.skipped + self.field.unanswered > 0 || self.field_state != "running" {
            say!(
                "  engine     {}; {} of {} cycles skipped, {} unanswered",
                self.field_state,
                self.field.skipped,
                self.field.launched + self.field.skipped,
                self.field.unanswered
            );
        }
        self.refused.lines().for_each(|line| say!("{line}"));
        let FieldCounters { held, losses, takeovers, retries, .. } = self.field;
        if held > 0 {
            say!("  held       {held} lost or refused samples; the field got the last good value instead");
        }
        if losses + retries > 0 {
            say!("  gpu        lost {losses} times; the CPU took over {takeovers} times; {retries} retries");
        }
        self.field.link.iter().for_each(link::say_link);
        if let Some(snapshots) = &self.snapshots {
            self.say_snapshots(snapshots);
        }
        self.why_idle.iter().for_each(|words| say!("  faults     {words}"));
        if !self.hung.is_empty() {
            say!("  hung       {}: abandoned, because its bus or engine hangs", self.hung.join(", "));
        }
        if !self.panicked.is_empty() {
            say!("  panicked   {}: a bug in this program; it ended the run", self.panicked.join(", "));
        }
        if self.may_run {
            say!("  motors     stop not confirmed: cut their power");
        }
        for (thread, granted) in &self.granted {
            for refusal in &granted.refusals {
                say!("  refused    {thread}: {refusal}");
            }
        }
    }

    fn say_snapshots(&self, counts: &SnapshotCounts) {
        let SnapshotCounts { written, skipped, failed, unsound, trouble, finished } = counts;
        say!("  snapshots  {written} written, {skipped} skipped, {failed} failed");
        if *unsound > 0 {
            say!(
                "             {unsound} brains were invalid and not written; an older snapshot, if there is one, stays"
            );
        }
        if let Some(trouble) = trouble {
            say!("             {trouble}");
        }
        if !finished {
            say!("             the last one is not on the disk yet; the previous one remains");
        }
    }

    /// Whether the run itself was sound and the motors are confirmed stopped; nothing else is a failure.
    pub fn verdict(&self) -> Result<(), Failure> {
        let torn = || "the slots that ran and were skipped do not add up to the elapsed time".to_string();
        let bug = panicked(&self.panicked).or_else(|| (!self.grid_identity_holds).then(torn));
        verdict_on(bug, self.may_run)
    }
}

/// The message for threads that panicked.
pub(super) fn panicked(threads: &[&str]) -> Option<String> {
    (!threads.is_empty()).then(|| format!("a panic in a thread: {}", threads.join(", ")))
}

/// The result of a run: a bug (70), motors that may be running (69), both (70), or success.
pub(super) fn verdict_on(bug: Option<String>, may_run: bool) -> Result<(), Failure> {
    const UNHEARD: &str = "the motors did not confirm the stop at the end";
    match (bug, may_run) {
        (None, false) => Ok(()),
        (Some(bug), false) => Err(Failure::bug(bug)),
        (Some(bug), true) => Err(Failure::bug(format!("{bug}; {UNHEARD}")).fix("cut their power")),
        (None, true) => Err(Failure::unavailable(UNHEARD).fix("cut their power; then check the bus")),
    }
}

fn bus_report(outside: &RunHandles, ending: &Ending) -> BusReport {
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let sum = |of: fn(&BusCounters) -> &AtomicU64| outside.buses.iter().map(|bus| count(of(bus))).sum();
    BusReport {
        failures: sum(|bus| &bus.failures),
        set_ups: sum(|bus| &bus.set_ups),
        commands_expired: sum(|bus| &bus.expired),
        commands_replaced: ending.tick.commands_replaced(),
        commands_withheld: sum(|bus| &bus.withheld),
        readings_dropped: count(&outside.senses.readings_dropped),
        edges_lost: count(&outside.senses.edges_lost),
        edge_overruns: count(&outside.senses.edge_overruns),
        edge_storms: count(&outside.senses.edge_storms),
    }
}

fn smoothness(board: &Board, ending: &Ending) -> BTreeMap<String, SmoothnessReport> {
    let motors = board.motors.iter().zip(&ending.recorder.smoothness);
    let moved = motors.filter_map(|(motor, smoothness)| {
        let (held, moving) = smoothness.held();
        let held = held as f64 / moving.max(1) as f64;
        let log_dimensionless_jerk = smoothness.mean()?;
        Some((motor.name.clone(), SmoothnessReport { log_dimensionless_jerk, held }))
    });
    moved.collect()
}

fn say_latency(name: &str, latency: Option<&Latency>, unit: &str) {
    match latency {
        None => say!("  {name:<10} no sample"),
        Some(l) => say!(
            "  {name:<10} p50 {:.1}, p99 {:.1}, p99.9 {:.1}, max {:.1} {unit} (n {})",
            l.p50,
            l.p99,
            l.p999,
            l.max,
            l.n
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::exit::Exit;
    use super::*;
    use crate::base::time::Span;
    use crate::deploy::board;
    use crate::runtime::robot::Options;
    use crate::runtime::session;
    use std::sync::atomic::AtomicBool;

    /// The verdict on a short run of a robot without a starting table, which does not move. `change` edits
    /// the run's ending.
    fn verdict(change: impl FnOnce(&mut Ending)) -> Result<(), Failure> {
        let mut board = board::built_in("sim").unwrap().unwrap().board;
        board.field.start.clear();
        let (length, interrupted) = (Span::from_millis(100), AtomicBool::new(false));
        let mut outcome = session::step(&board, Options::default(), length, &interrupted, |_, _| ()).unwrap();
        change(&mut outcome.ending);
        let verdict = RunReport::new(&board, &outcome, ClockKind::Sim, Simulation::default(), &[]).verdict();
        assert_eq!(verdict.is_ok(), outcome.is_sound(), "a failure keeps the next run from arming by itself");
        verdict
    }

    #[test]
    fn a_panic_is_70_and_motors_that_may_run_are_69() {
        assert_eq!(verdict(|_| ()), Ok(()));
        assert_eq!(verdict(|ending| ending.rest = Rest::NoMotors), Ok(()), "a replayed log has no motors");
        let panicked = verdict(|ending| ending.panicked.push("edges")).unwrap_err();
        assert_eq!(panicked.exit(), Exit::Bug);
        assert!(
            panicked.to_string().contains("edges") && !panicked.to_string().contains("power"),
            "{panicked}"
        );
        let unheard = verdict(|ending| ending.rest = Rest::Unheard).unwrap_err();
        assert_eq!(unheard.exit(), Exit::Unavailable);
        let both = verdict(|ending| {
            ending.panicked.push("i2c");
            ending.rest = Rest::Unheard;
        });
        let both = both.unwrap_err();
        assert_eq!(both.exit(), Exit::Bug);
        for failure in [unheard, both] {
            assert!(failure.to_string().contains("cut their power"), "{failure}");
        }
    }
}
