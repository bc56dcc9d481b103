//! `arm`, `disarm`, `stop`, `status`: send a request to the running runtime over its control socket.

use super::exit::Failure;
use super::{arguments, measured, output};
use crate::base::plan::Cause;
use crate::base::time::Span;
use crate::decision::admit::REFUSED_IF_SOUND;
use crate::memory::map::MapStatus;
use crate::runtime::brain::status::BRAIN_SOCKET;
use crate::runtime::control::{self, Ask, BusStatus, CONTROL_SOCKET, Reply, Status};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Time between two attempts to arm: the reason that prevents arming depends on the outside world and does
/// not change every tick.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// The runtime to address.
#[derive(Debug, clap::Args)]
pub struct Whom {
    /// Control socket of the runtime
    #[arg(long, value_name = "PATH", default_value = CONTROL_SOCKET)]
    socket: PathBuf,
    /// Print the answer as one JSON object
    #[arg(long)]
    json: bool,
}

impl Whom {
    /// The runtime at `socket`, with its answer printed as text.
    pub fn at(socket: PathBuf) -> Whom {
        Whom { socket, json: false }
    }

    /// Its control socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Whether the answer is printed as JSON.
    pub fn wants_json(&self) -> bool {
        self.json
    }
}

/// Arguments of `arm`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion arm  the field drives the robot from now on; prints the reason if refused
  ganglion arm --wait 10s --json

Exit code 75 if the runtime still refuses at the end of the wait, or at once if somebody disarms the
robot meanwhile.")]
pub struct ArmArgs {
    #[command(flatten)]
    whom: Whom,
    /// How long to retry if the reason for the refusal may go away
    #[arg(long, value_name = "TIME", value_parser = arguments::span, default_value = "2s")]
    wait: Span,
}

/// Arguments of `disarm`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion disarm  stops the robot until it is armed again; acknowledges latched causes

Exit code 75 if a latched cause is still present.")]
pub struct DisarmArgs {
    #[command(flatten)]
    whom: Whom,
}

/// Arguments of `stop`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion stop                             stops the motors and ends the program, as Ctrl-C does")]
pub struct StopArgs {
    #[command(flatten)]
    whom: Whom,
}

/// Arguments of `status`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion status                  mode, causes, what prevents arming, quality, times, GPU, ...
  ganglion status --near 1.5,-0.4  also what the robot met near that place, in metres from the start
  ganglion status --json
  ganglion status --brain          the status of a brain instead, with a row for each robot
  ganglion status --prometheus --output /var/lib/prometheus/node-exporter/ganglion.prom

Times and percentiles cover the whole run so far, and are at most 0.2 s old. What the robot does
not have, or has not measured yet, is left out; in the JSON object its key is null or absent.

A board with sensors of kind \"recall\" has a map: where the robot met each thing, and what it met
near a place, if the memory is reliable there. Without --near, that place is the robot's position.")]
pub struct StatusArgs {
    #[command(flatten)]
    whom: Whom,
    /// Ask the brain at this socket instead of a robot
    #[arg(long, value_name = "SOCKET", num_args = 0..=1, default_missing_value = BRAIN_SOCKET,
        conflicts_with_all = ["near", "socket"])]
    brain: Option<PathBuf>,
    /// Also show what the robot met near this place: metres ahead and to the left of the start
    #[arg(long, value_name = "X,Y", value_parser = arguments::place, allow_hyphen_values = true)]
    near: Option<[f64; 2]>,
    /// Print the metrics in Prometheus text format; 'ganglion_up 0' if no runtime answers
    #[arg(long, conflicts_with_all = ["brain", "near", "json"])]
    prometheus: bool,
    /// Write the metrics to this file, atomically; it is then not a failure if no runtime answers
    #[arg(long, value_name = "FILE", requires = "prometheus")]
    output: Option<PathBuf>,
}

impl StatusArgs {
    /// The whole status of a robot.
    pub fn of(whom: Whom) -> StatusArgs {
        StatusArgs { whom, brain: None, near: None, prometheus: false, output: None }
    }
}

/// Runs `arm`.
pub fn arm(args: ArmArgs) -> Result<(), Failure> {
    let until = Instant::now() + Duration::from_nanos(args.wait.as_nanos());
    let mut disarms = None;
    let reply = loop {
        let socket = &args.whom.socket;
        let reply = control::arm(socket, disarms).map_err(|error| unreachable(socket, &error))?;
        disarms = disarms.or(reply.disarms);
        if reply.done || !reply.may_pass || Instant::now() >= until {
            break reply;
        }
        thread::sleep(ASK_AGAIN);
    };
    conclude(&args.whom, &reply, "the runtime refused to arm")
}

/// Runs `disarm`.
pub fn disarm(args: DisarmArgs) -> Result<(), Failure> {
    let reply = ask(&args.whom.socket, Ask::Disarm)?;
    conclude(&args.whom, &reply, "the runtime did not disarm")
}

/// Runs `stop`.
pub fn stop(args: StopArgs) -> Result<(), Failure> {
    let reply = ask(&args.whom.socket, Ask::Stop)?;
    conclude(&args.whom, &reply, "the runtime did not stop")
}

/// Runs `status`.
pub fn status(args: StatusArgs) -> Result<(), Failure> {
    if let Some(socket) = &args.brain {
        return super::brain::status(socket, args.whom.json);
    }
    if args.prometheus {
        return super::prometheus::export(&args.whom.socket, args.output.as_deref());
    }
    let reply = control::ask_near(&args.whom.socket, Ask::Status, args.near)
        .map_err(|error| unreachable(&args.whom.socket, &error))?;
    if args.whom.json {
        return output::json(&reply.status);
    }
    page(&reply.status);
    Ok(())
}

fn ask(socket: &Path, what: Ask) -> Result<Reply, Failure> {
    control::ask(socket, what).map_err(|error| unreachable(socket, &error))
}

/// The failure if no runtime answers at `socket`.
pub fn unreachable(socket: &Path, error: &std::io::Error) -> Failure {
    Failure::file(socket, error).fix(
        "start a runtime ('ganglion run'), or name its socket with --socket; members of the group 'ganglion' have access",
    )
}

fn conclude(whom: &Whom, reply: &Reply, refused: &str) -> Result<(), Failure> {
    if whom.json {
        output::json(reply)?;
    } else if reply.done {
        relay!("{}", reply.status.line());
    }
    if reply.done {
        return Ok(());
    }
    Err(Failure::not_now(format!("{refused}: {}", reply.why.join("; "))))
}

fn page(status: &Status) {
    relay!("{} on board '{}', field: {}", status.line(), status.board, status.engine);
    let refusal = if status.refusal.is_empty() { "nothing".into() } else { status.refusal.join("; ") };
    relay!(
        "  arming     {} times, {} refused; prevented now by: {refusal}",
        status.armings,
        status.arm_refused
    );
    restraints(status).iter().for_each(|words| relay!("  restraint  {words}"));
    relay!("  slots      {} run, {} skipped", status.slots_run, status.slots_skipped);
    relay!("  commands   {} confirmed on the wire", status.commands_confirmed);
    measured::lines(status).iter().for_each(|line| relay!("  {line}"));
    status.buses.iter().for_each(bus);
    let refused = status.measured.sensors.iter().filter(|sensor| sensor.refused > REFUSED_IF_SOUND);
    let refused: Vec<String> = refused.map(|sensor| format!("{} {}", sensor.name, sensor.refused)).collect();
    if !refused.is_empty() {
        relay!("  refused    readings of {}", refused.join(", "));
    }
    if status.edge_storms > 0 {
        relay!(
            "  edges      {} floods on the input lines: a short press of a button may have been lost",
            status.edge_storms
        );
    }
    if let Some(guard) = &status.guard {
        let reason = guard.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
        let line = if guard.line_on { "on" } else { "off" };
        let refused = guard.refused.as_ref().map(|why| format!("; it refuses: {why}")).unwrap_or_default();
        relay!("  guard      {}{reason}, line {line}, {} trips{refused}", guard.phase, guard.trips);
    }
    status.recording.iter().flat_map(super::recording::lines).for_each(|line| relay!("  {line}"));
    if let Some(map) = &status.map {
        map_page(map);
    }
}

/// Each active cause of restraint, and what clears it. A newer runtime may report an unknown cause.
fn restraints(status: &Status) -> Vec<String> {
    let words = |name: &String| match Cause::ALL.into_iter().find(|cause| cause.name() == name) {
        Some(cause) => format!("{name}, until {}", cause.cleared_by()),
        None => name.clone(),
    };
    status.causes.iter().map(words).collect()
}

fn map_page(map: &MapStatus) {
    let [x, y] = map.at;
    relay!(
        "  map        here ({x:.2}, {y:.2}) m, heading {:.0} deg (computed); {} meetings held, {} forgotten, {} out of reach, \
         {} slots missed",
        map.heading_deg,
        map.meetings,
        map.forgotten,
        map.beyond,
        map.dropped
    );
    for thing in &map.things {
        match thing.was_at {
            Some([x, y]) => {
                relay!(
                    "    {:<10} was at ({x:.2}, {y:.2}) m, likeness {:.2}, met {} times",
                    thing.name,
                    thing.likeness,
                    thing.met
                );
            }
            None => relay!("    {:<10} met {} times, no reliable place", thing.name, thing.met),
        }
    }
    let near: Vec<String> =
        map.near.iter().map(|near| format!("{} ({:.2})", near.name, near.likeness)).collect();
    let near = if near.is_empty() { "nothing".to_string() } else { near.join(", ") };
    relay!("    near ({:.2}, {:.2}) m: {near}", map.asked[0], map.asked[1]);
}

fn bus(bus: &BusStatus) {
    let taken: Vec<String> = bus.recovery.iter().map(|(step, times)| format!("{step} {times}")).collect();
    let recovery = if taken.is_empty() { String::new() } else { format!("; recovery: {}", taken.join(", ")) };
    let BusStatus { name, failures, retries, set_ups, expired, stops_again, cuts, lost, .. } = bus;
    relay!(
        "  bus {name:<6} {failures} failed, {retries} retries, {set_ups} set-ups, {expired} commands expired{recovery}"
    );
    if *stops_again > 0 {
        relay!("             motors not confirmed stopped: stop repeated {stops_again} times");
    }
    if *cuts > 0 {
        relay!("             motors stopped by their line {cuts} times while the bus hung");
    }
    if !bus.measures.is_empty() {
        relay!("             if it hangs: reset, {}", bus.measures.join(", "));
    }
    if !lost.is_empty() {
        relay!("             no value from: {}", lost.join(", "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::control::Sources;

    #[test]
    fn each_cause_is_shown_with_what_ends_it() {
        let causes = vec!["guard-lost".to_string(), "from-the-future".to_string()];
        let status = Status { causes, ..Sources::idle().status() };
        let shown = restraints(&status);
        let known = format!("guard-lost, until {}", Cause::GuardLost.cleared_by());
        assert_eq!(shown, [known, "from-the-future".to_string()]);
    }
}
