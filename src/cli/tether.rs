//! `tether`: the process that carries a robot's requests to the brain that computes its field, and the
//! answers back. The runtime's module `tether` does the work; this file provides board, key, sockets,
//! priority and messages.

mod key;

pub(super) use key::random as random_key;

use super::exit::Failure;
use super::guard::{allowed, signals};
use super::log_rate_limit::LogRateLimit;
use super::{arguments, output};
use crate::base::plan::{RtPlan, TetherPlan};
use crate::base::time::{Clock, MonotonicClock, Span};
use crate::deploy::board::{Loaded, is_host_and_port};
use crate::field::remote::local::{LinkPhase, TETHER_SOCKET};
use crate::runtime::tether::carrier::Carrier;
use crate::runtime::tether::join::Join;
use crate::runtime::tether::key::{KeyError, KeyFile};
use crate::runtime::tether::network::Finder;
use crate::runtime::tether::process::{Event, Tether, ask_status, phase_name};
use crate::system::rt::{Granted, Role, become_real_time};
use crate::system::seqpacket::listen_at;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A tether answers at once; one that does not answer within this time counts as hung.
const STATUS_TIMEOUT: Span = Span::from_millis(500);

/// Arguments of `tether`.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  ganglion tether key rover-7 -o tether.key                make a key; then follow its instructions
  ganglion tether --board picarx-v4-tethered --for ganglion    as the service does
  ganglion tether --status --json                          link and counters of the running tether

It listens for the runtime of the same board, joins the brain at the board's [tether] address
over UDP, encrypts the runtime's requests and decrypts the brain's answers. It drives nothing and
opens no device. If the brain falls silent, the tether tries to join again, at once and then less
and less often. SIGTERM, SIGINT, SIGQUIT or SIGHUP: exit 0. See docs/tether.md."
)]
pub struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// Board file (its name has a '/' or ends in '.toml'), or the name of a built-in board
    #[arg(long, value_name = "FILE", default_value = "picarx-v4-tethered")]
    board: PathBuf,
    /// Where the brain listens, instead of the board's [tether] address
    #[arg(long, value_name = "HOST:PORT", value_parser = host_and_port)]
    address: Option<String>,
    /// The robot's key file, instead of the board's [tether] key
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Socket to listen on; with --status, the socket to query
    #[arg(long, value_name = "PATH", default_value = TETHER_SOCKET)]
    socket: PathBuf,
    /// The user whose runtime may connect, by name or number [default: the user that this runs as]
    #[arg(long = "for", value_name = "USER")]
    allowed: Option<String>,
    /// Core to run on, or 'any' [default: the board's rt.cpu, where a round trip is shortest]
    #[arg(long, value_name = "CORE")]
    core: Option<Core>,
    /// Print the status of the running tether and exit
    #[arg(long)]
    status: bool,
    /// With --status: print one JSON object
    #[arg(long, requires = "status")]
    json: bool,
}

fn host_and_port(text: &str) -> Result<String, String> {
    match is_host_and_port(text) {
        true => Ok(text.to_string()),
        false => Err("expected HOST:PORT, a port from 1 to 65535".to_string()),
    }
}

/// The subcommands.
#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Make the key that a robot and its brain share, or change it
    Key(key::Args),
}

/// Where to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Core {
    Any,
    This(usize),
}

impl std::str::FromStr for Core {
    type Err = String;
    fn from_str(text: &str) -> Result<Core, String> {
        match text {
            "any" => Ok(Core::Any),
            number => number.parse().map(Core::This).map_err(|_| "a core number, or 'any'".to_string()),
        }
    }
}

/// Runs the verb.
pub fn run(args: Args) -> Result<(), Failure> {
    match &args.verb {
        Some(Verb::Key(key)) => key::run(key),
        None if args.status => status(&args.socket, args.json),
        None => carry(&args),
    }
}

fn carry(args: &Args) -> Result<(), Failure> {
    let loaded = arguments::board(&args.board)?;
    let plan = loaded.board.tether.as_ref();
    let keys = KeyFile::read(key_path(args, plan)?).map_err(|error| key_failure(&error))?;
    let address = address(args, plan)?;
    let finder = Finder::new(address)
        .map_err(|error| Failure::unavailable(format!("cannot look up {address}: {error}")))?;
    let allowed = allowed(args.allowed.as_deref())?;
    let end = signals()?;
    let (_place, listener) = listen_at(&args.socket).map_err(|error| {
        Failure::file(&args.socket, &error)
            .fix("stop the tether that is already running, or choose a directory that you own")
    })?;
    let granted = real_time(&loaded, args.core);
    let digest = *loaded.digest.as_bytes();
    let carrier = Carrier::new(&keys, Join::of(keys.robot(), &loaded.board, digest));
    let clock = Arc::new(MonotonicClock);
    say!(
        "tether of robot '{}' on board '{}': brain at {address}, runtime at {}; {}",
        keys.robot(),
        loaded.board.name,
        args.socket.display(),
        describe_granted(&granted)
    );
    let mut tether = Tether::new(carrier, keys.robot(), finder, listener, end, allowed, digest, clock);
    let mut limits = [LogRateLimit::FULL; KINDS];
    tether.run(|event| {
        // Limits the rate, because anyone who may connect or forge datagrams can cause any number of events.
        if let Some(more) = limits[kind(&event)].ask(MonotonicClock.now()) {
            let dropped = if more == 0 { String::new() } else { format!(" ({more} others not logged)") };
            say!("{}{dropped}", describe(&event));
        }
    });
    print_status(&serde_json::to_value(tether.status()).unwrap_or_default());
    say!("asked to end");
    Ok(())
}

fn key_path<'a>(args: &'a Args, plan: Option<&'a TetherPlan>) -> Result<&'a Path, Failure> {
    let path = args.key.as_deref().or(plan.map(|plan| plan.key.as_path()));
    path.ok_or_else(|| no_tether(args, "--key"))
}

fn address<'a>(args: &'a Args, plan: Option<&'a TetherPlan>) -> Result<&'a str, Failure> {
    let address = args.address.as_deref().or(plan.map(|plan| plan.address.as_str()));
    address.ok_or_else(|| no_tether(args, "--address"))
}

fn no_tether(args: &Args, option: &str) -> Failure {
    Failure::config(format!("board '{}' has no [tether]", args.board.display()))
        .fix(format!("add one (boards/README.md), use picarx-v4-tethered, or give {option}"))
}

fn key_failure(error: &KeyError) -> Failure {
    match error {
        KeyError::Io(path, error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            Failure::file(path, error)
                .fix("let the user who runs this read it, or run it as the file's owner")
        }
        KeyError::Io(path, error) => Failure::file(path, error)
            .fix(format!("make one: ganglion tether key ROBOT -o {}", path.display())),
        KeyError::Mode(path, _) => Failure::permission(error).fix(format!("chmod 0400 {}", path.display())),
        KeyError::Content(..) | KeyError::Shared(..) | KeyError::Many(_) => Failure::data(error),
    }
}

/// Asks for real-time rights. Refusals are reported; without the rights, round trips take longer.
fn real_time(loaded: &Loaded, core: Option<Core>) -> Granted {
    let cpu = match core {
        None => loaded.board.rt.cpu,
        Some(Core::Any) => None,
        Some(Core::This(core)) => Some(core),
    };
    let granted = become_real_time(&RtPlan { cpu, ..loaded.board.rt }, Role::Tether);
    for refusal in &granted.refusals {
        log::warn!("{refusal}; to do: {}", refusal.fix());
    }
    granted
}

fn describe_granted(granted: &Granted) -> String {
    let core = granted.cpu.map_or("any core".to_string(), |core| format!("core {core}"));
    match granted.priority {
        0 => format!("ordinary priority, {core}"),
        priority => format!("SCHED_FIFO {priority}, {core}"),
    }
}

/// Kinds of events, each with its own rate limit.
const KINDS: usize = 6;

fn kind(event: &Event) -> usize {
    match event {
        Event::Runtime => 0,
        Event::Gone => 1,
        Event::Refused(_) => 2,
        Event::Link(..) => 3,
        Event::NoRandom => 4,
        Event::NoSocket => 5,
    }
}

fn describe(event: &Event) -> String {
    match event {
        Event::Runtime => "a runtime is connected".to_string(),
        Event::Gone => "the runtime has disconnected".to_string(),
        Event::Refused(why) => format!("a caller was refused: {why}"),
        Event::Link(LinkPhase::Joined, engine) => format!("joined: {engine}"),
        Event::Link(phase, text) if text.as_str().is_empty() => phase_name(*phase).to_string(),
        Event::Link(phase, text) => format!("{}: {text}", phase_name(*phase)),
        Event::NoRandom => {
            "the system provides no random numbers; no session is safe without them".to_string()
        }
        Event::NoSocket => "the system does not provide a socket to the brain".to_string(),
    }
}

fn status(socket: &Path, json: bool) -> Result<(), Failure> {
    let bytes = ask_status(socket, STATUS_TIMEOUT).map_err(|error| {
        Failure::file(socket, &error).fix("start it: 'ganglion tether', or systemctl start ganglion-tether")
    })?;
    let status: serde_json::Value = serde_json::from_slice(&bytes)
        .map_err(|error| Failure::data(format!("its status is not JSON: {error}")).at(socket.display()))?;
    if json {
        return output::json(&status);
    }
    print_status(&status);
    Ok(())
}

/// Prints the status in a few lines, with the counts that are not zero.
fn print_status(status: &serde_json::Value) {
    let text = |name: &str| status[name].as_str().unwrap_or_default().to_string();
    let colon = if text("text").is_empty() { "" } else { ": " };
    relay!("{}: robot {}, brain {}{colon}{}", text("link"), text("robot"), text("brain"), text("text"));
    let trips = &status["round_trips"];
    relay!(
        "  round trips p50 {}, p99 {}, max {} us (n {})",
        trips["p50_us"],
        trips["p99_us"],
        trips["max_us"],
        trips["count"]
    );
    let listed = |object: &serde_json::Value| {
        let counts = object.as_object().into_iter().flatten();
        let some = counts.filter(|(_, count)| count.as_u64().is_some_and(|count| count > 0));
        some.map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
    };
    relay!("  counts      {}", listed(&status["counts"]));
    relay!("  dropped     {}", listed(&status["counts"]["drops"]));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_argument_is_a_number_or_any() {
        assert_eq!("3".parse(), Ok(Core::This(3)));
        assert_eq!("any".parse(), Ok(Core::Any));
        assert!("-1".parse::<Core>().is_err() && "all".parse::<Core>().is_err());
    }

    #[test]
    fn an_unreadable_key_is_not_a_missing_one() {
        let failure =
            |kind| key_failure(&KeyError::Io("a.key".into(), std::io::Error::from(kind))).to_string();
        let (denied, absent) =
            (failure(std::io::ErrorKind::PermissionDenied), failure(std::io::ErrorKind::NotFound));
        assert!(denied.contains("read it") && !denied.contains("make one"), "{denied}");
        assert!(absent.contains("make one"), "{absent}");
    }
}
