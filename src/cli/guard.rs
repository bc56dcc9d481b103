//! `guard`: the second process that holds the reset or enable line and stops the motors when the runtime
//! falls silent. The module `guard` decides; this file provides its line, socket, priority and messages.

use super::exit::Failure;
use super::interrupt::ENDING;
use super::log_rate_limit::LogRateLimit;
use super::{arguments, output};
use crate::base::plan::GuardPlan;
use crate::base::time::{Clock, MonotonicClock, Span};
use crate::deploy::board::Loaded;
use crate::hardware::bus::{LineUse, Usage};
use crate::runtime::access;
use crate::runtime::guard::frame::{Ask, GuardRefusal, GuardStatus, Phase, Reason};
use crate::runtime::guard::socket::{GUARD_SOCKET, ask_once};
use crate::runtime::guard::{AllowedUser, Event, Guard, HeldLine, Hold, Server};
use crate::system::rt::signals::refuse_to_be_stopped;
use crate::system::rt::{Role, become_real_time};
use crate::system::seqpacket::listen_at;
use log::Level;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use std::fmt::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A guard answers at once; one that takes longer has hung.
const STATUS_TIMEOUT: Span = Span::from_millis(500);

/// Arguments of `guard`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion guard --board picarx-v4          holds MCURST until SIGTERM; start it before the runtime
  ganglion guard --for ganglion             for a runtime of another user, as in the service
  ganglion guard --status --json            the status of the running guard

The guard holds the line of the board's [guard] off until a runtime of the same board, run by the
user that --for names, has said hello and received permission. It switches the line off at once if
that runtime dies, hangs, ends, or keeps running on a dead bus; the line then stays off until the
next hello and permission. SIGTERM, SIGINT, SIGQUIT or SIGHUP: line off, exit 0.

On a simulated board the line belongs to the guard's own simulated world: nothing moves, but the
protocol is real.")]
pub struct Args {
    /// Board file (its name has a '/' or ends in '.toml'), or the name of a built-in board
    #[arg(long, value_name = "FILE", default_value = "picarx-v4")]
    board: PathBuf,
    /// Socket to listen on, or with --status to query
    #[arg(long, value_name = "PATH", default_value = GUARD_SOCKET)]
    socket: PathBuf,
    /// The user whose runtime to guard, by name or number [default: the guard's own user]
    #[arg(long = "for", value_name = "USER")]
    allowed: Option<String>,
    /// Print the status of the running guard and exit
    #[arg(long)]
    status: bool,
    /// With --status: print one JSON object
    #[arg(long, requires = "status")]
    json: bool,
}

/// Runs the verb.
pub fn run(args: Args) -> Result<(), Failure> {
    if args.status {
        return status(&args.socket, args.json);
    }
    let loaded = arguments::board(&args.board)?;
    let (plan, hold) = held_by(&loaded)?;
    let allowed = allowed(args.allowed.as_deref())?;
    let end = signals()?;
    let line = take_line(&loaded, hold)?;
    let (place, listener) = listen_at(&args.socket).map_err(|error| {
        Failure::file(&args.socket, &error)
            .fix("stop the guard that is already running, or choose a directory that you own")
    })?;
    let granted = become_real_time(&loaded.board.rt, Role::Guard);
    if let Err(refusal) = granted.enough(&loaded.board.rt) {
        return Err(refusal.into());
    }
    for refusal in &granted.refusals {
        log::warn!("{refusal}; to do: {}", refusal.fix());
    }
    let mut words = Words::new();
    words.log_line(
        Level::Info,
        format_args!(
            "guard of board '{}': line off, listening on {}",
            loaded.board.name,
            args.socket.display()
        ),
    );
    let guard = Guard::new(&hold, plan.timeout, *loaded.digest.as_bytes());
    let mut server = Server::new(guard, line, listener, end, Arc::new(MonotonicClock)).guarding(allowed);
    server.serve(|event| words.report(event));
    words.settle();
    drop(place); // the line is off, so the next guard may start
    if !server.line_sound() {
        return Err(Failure::unavailable("the guard could not switch its line off")
            .fix("cut the motors' power, then check the line"));
    }
    words.log_line(Level::Info, format_args!("asked to end: line off"));
    Ok(())
}

/// The user named on the command line.
pub(super) fn allowed(name: Option<&str>) -> Result<AllowedUser, Failure> {
    let unknown = |error| Failure::config(error).fix("create the users of the service with systemd-sysusers");
    name.map_or(Ok(AllowedUser::own()), |name| AllowedUser::named(name).map_err(unknown))
}

/// The board's guard settings, and the line that the guard holds.
fn held_by(loaded: &Loaded) -> Result<(GuardPlan, Hold), Failure> {
    let board = &loaded.board;
    let none = || {
        Failure::config(format!("board '{}' names no line for the guard", board.name))
            .fix("give it a [guard] that holds its reset or enable line")
    };
    let plan = board.guard.ok_or_else(none)?;
    let hold = Hold::of(board, &plan).ok_or_else(none)?;
    Ok((plan, hold))
}

/// Claims the guard's line and drives it off.
fn take_line(loaded: &Loaded, hold: Hold) -> Result<HeldLine, Failure> {
    let board = &loaded.board;
    let hardware = access::open(board)?;
    let usage = Usage::Output { high: hold.level(false) };
    let gpio = hardware.gpio("guard", &[LineUse { line: hold.line, usage }])?;
    HeldLine::take(gpio, hold)
        .map_err(|fault| Failure::unavailable(format!("cannot drive the guard's line off: {fault:?}")))
}

/// A descriptor that becomes readable when a signal (also from a key press or a lost session) ends the guard.
/// From now on, a terminal cannot suspend the guard.
pub(super) fn signals() -> Result<OwnedFd, Failure> {
    let refused = |error: std::io::Error| Failure::unavailable(format!("cannot watch signals: {error}"));
    refuse_to_be_stopped().map_err(refused)?;
    let (end, ring) = UnixStream::pair().map_err(refused)?;
    for signal in ENDING {
        let ring = ring.try_clone().map_err(refused)?;
        signal_hook::low_level::pipe::register(signal, ring).map_err(refused)?;
    }
    Ok(end.into())
}

/// Writes messages to standard error without waiting or allocating: a stalled journal must not keep the guard
/// from switching its line. A message that cannot be written at once is dropped. Each kind of event has a
/// quota, because any process that may connect can provoke as many refusals as it likes.
struct Words {
    stderr: std::io::Stderr,
    prefixes: [&'static str; 2],
    quotas: [LogRateLimit; KINDS],
}

/// Number of kinds of events: one for each refusal, one for a line that does not follow its command, one for
/// a trip, and one for any other change.
const KINDS: usize = GuardRefusal::ALL.len() + 3;
const UNFOLLOWED: usize = GuardRefusal::ALL.len();
const TRIPPED: usize = UNFOLLOWED + 1;
const CHANGED: usize = TRIPPED + 1;

fn kind(event: &Event) -> usize {
    match event {
        Event::Refused(refused) => GuardRefusal::ALL.iter().position(|one| one == refused).unwrap_or(0),
        Event::Changed(_, is) if !is.line_sound => UNFOLLOWED,
        Event::Changed(was, is) if has_tripped(was, is) => TRIPPED,
        Event::Changed(..) => CHANGED,
    }
}

/// Whether the guard tripped, even if the line was off already; a clean end is no trip.
fn has_tripped(was: &GuardStatus, is: &GuardStatus) -> bool {
    is.phase != was.phase && matches!(is.phase, Phase::Tripped(reason) if reason != Reason::Ended)
}

impl Words {
    fn new() -> Words {
        Words {
            stderr: std::io::stderr(),
            prefixes: [output::journal_prefix(Level::Info), output::journal_prefix(Level::Warn)],
            quotas: [LogRateLimit::FULL; KINDS],
        }
    }

    fn report(&mut self, event: Event) {
        match self.quotas[kind(&event)].ask(MonotonicClock.now()) {
            None => return,
            Some(0) => {}
            Some(more) => self.log_line(
                Level::Warn,
                format_args!("{more} earlier messages like the next one were dropped"),
            ),
        }
        match event {
            Event::Refused(refused) => {
                self.log_line(Level::Warn, format_args!("refused: {}", refused.reason()))
            }
            Event::Changed(_, is) if !is.line_sound => self
                .log_line(Level::Warn, format_args!("the line does not follow; the guard drives it again")),
            Event::Changed(was, is) => {
                let level = if has_tripped(&was, &is) { Level::Warn } else { Level::Info };
                let line = if is.line_on { "on" } else { "off" };
                match is.phase {
                    Phase::Tripped(reason) => {
                        self.log_line(level, format_args!("tripped ({}): line {line}", reason.name()))
                    }
                    phase => self.log_line(level, format_args!("{}: line {line}", phase.name())),
                }
            }
        }
    }

    /// Called at the end: reports how many messages were dropped since the last report.
    fn settle(&mut self) {
        let left_out: u64 = self.quotas.iter_mut().filter_map(LogRateLimit::take_dropped).sum();
        if left_out > 0 {
            self.log_line(Level::Warn, format_args!("{left_out} more messages were dropped"));
        }
    }

    fn log_line(&mut self, level: Level, words: std::fmt::Arguments<'_>) {
        let prefix = self.prefixes[usize::from(level < Level::Info)];
        // Less than PIPE_BUF: a writable pipe accepts it without blocking.
        let mut line = heapless::String::<256>::new();
        let _ = write!(line, "{prefix}ganglion guard: {words}"); // cuts off what does not fit
        let mut stderr = [PollFd::new(&self.stderr, PollFlags::OUT)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        if poll(&mut stderr, Some(&at_once)) == Ok(1) && stderr[0].revents().contains(PollFlags::OUT) {
            let _ = line.push('\n');
            let _ = rustix::io::write(&self.stderr, line.as_bytes()); // bypasses the standard library and its lock
        }
    }
}

/// What `--status` prints.
#[derive(Debug, Serialize)]
struct Status {
    phase: &'static str,
    reason: Option<&'static str>,
    line_on: bool,
    line_sound: bool,
    trips: u32,
    beats: u64,
    /// A stop has been requested, and no runtime has carried it out yet.
    stop_pending: bool,
}

impl Status {
    fn of(guard: &GuardStatus) -> Status {
        Status {
            phase: guard.phase.name(),
            reason: match guard.phase {
                Phase::Tripped(reason) => Some(reason.name()),
                _ => None,
            },
            line_on: guard.line_on,
            line_sound: guard.line_sound,
            trips: guard.trips,
            beats: guard.beats,
            stop_pending: guard.stop != 0,
        }
    }
}

fn status(socket: &Path, json: bool) -> Result<(), Failure> {
    let answer = ask_once(socket, Ask::Status, STATUS_TIMEOUT).map_err(|error| {
        Failure::file(socket, &error)
            .fix("start it: 'ganglion guard --board BOARD', or systemctl start ganglion-guard")
    })?;
    let status = Status::of(&answer.status);
    if json {
        return output::json(&status);
    }
    let reason = status.reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
    let line = if status.line_on { "on" } else { "off" };
    let sound = if status.line_sound { "" } else { ", but it does not follow the command" };
    let stop = if status.stop_pending { "; the next runtime must disarm first" } else { "" };
    let Status { phase, trips, beats, .. } = status;
    say!("{phase}{reason}: line {line}{sound}; {trips} trips, {beats} heartbeats{stop}");
    Ok(())
}
