//! `live`: shows a running robot in viewers that speak Foxglove's WebSocket protocol. `workshop::live` is the
//! server; this file asks the robot for its status, and passes it on.

use super::super::control::unreachable;
use super::super::output;
use crate::base::time::{Clock, MonotonicClock};
use crate::cli::exit::Failure;
use crate::cli::interrupt::Interrupt;
use crate::runtime::control::{CONTROL_SOCKET, Status, status_with};
use crate::workshop::live::Server;
use serde::Serialize;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// How often the robot is polled: as often as it measures its figures.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// How long to wait for a robot's first figures; a robot that answers has them within a fraction of this
/// time.
const STARTS_WITHIN: Duration = Duration::from_secs(10);

/// Arguments of `live`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion live                                   the robot on this machine
  ganglion live --socket /tmp/robot.sock          a run with --control /tmp/robot.sock
  ssh -L /tmp/robot.sock:/run/ganglion/control.sock rover    a robot elsewhere: in one terminal,
  ganglion live --socket /tmp/robot.sock          in another one

Then, in Foxglove or Lichtblick: Open connection, Foxglove WebSocket, ws://localhost:8765.

Topics have the same names and keys as in a recording (docs/recording.md), and are sent ten times a
second. Viewers can only watch. A viewer that is too slow loses messages, but cannot slow the robot
down: the robot is polled as by 'ganglion top', and only while a viewer is connected. Ctrl-C stops
this command.

Exit codes: 0 done; 64 the command line is wrong; 69 no robot answers, or the port is in use.")]
pub struct Args {
    /// Control socket of the runtime
    #[arg(long, value_name = "PATH", default_value = CONTROL_SOCKET)]
    socket: PathBuf,
    /// Address and port on which to listen for viewers; port 0: any free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8765")]
    listen: SocketAddr,
    /// At the end, print what was sent as one JSON object
    #[arg(long)]
    json: bool,
}

/// What was sent, for `--json`.
#[derive(Serialize)]
struct Report {
    schema: u32,
    /// Viewers that were connected.
    viewers: u64,
    /// Viewers that were turned away.
    refused: u64,
    /// Messages that were sent.
    messages: u64,
    /// Statuses that were dropped because a viewer was too slow to receive them.
    dropped: u64,
}

/// Runs the verb.
pub fn run(args: Args) -> Result<(), Failure> {
    let interrupt = Interrupt::watch()?;
    let status = first(&args.socket).map_err(|error| unreachable(&args.socket, &error))?;
    let session = MonotonicClock.now().as_nanos().to_string();
    let mut server = Server::listen(args.listen, &status, &session).map_err(|error| {
        Failure::unavailable(format!("cannot listen on {}: {error}", args.listen))
            .fix("name another port with --listen 127.0.0.1:PORT")
    })?;
    let address = server.address().map_err(|error| Failure::unavailable(error).at("the port"))?;
    if !address.ip().is_loopback() {
        log::warn!("any machine that can reach {address} can watch the robot, but cannot drive it");
    }
    relay!(
        "{} is shown at ws://{address}; open it in Foxglove or Lichtblick. Ctrl-C ends this",
        status.board
    );
    while !interrupt.asked() {
        let began = Instant::now();
        let watched = server.accept().map_err(|error| Failure::unavailable(error).at("the port"))?;
        if watched {
            match look(&args.socket) {
                Ok(status) => server.show(&status, MonotonicClock.now()),
                Err(error) => server.show_silence(&error.to_string()),
            }
        }
        thread::sleep(ASK_EVERY.saturating_sub(began.elapsed()));
    }
    conclude(&server, args.json)
}

/// The status of a robot that may have just started.
fn first(socket: &Path) -> io::Result<Status> {
    let until = Instant::now() + STARTS_WITHIN;
    loop {
        match look(socket) {
            Err(error) if error.kind() == ErrorKind::NotConnected && Instant::now() < until => {
                thread::sleep(ASK_EVERY);
            }
            found => return found,
        }
    }
}

fn look(socket: &Path) -> io::Result<Status> {
    let status = status_with(socket, false, true)?;
    if status.measured.motors.is_empty() {
        return Err(io::Error::new(ErrorKind::NotConnected, "the robot has not measured anything yet"));
    }
    Ok(status)
}

fn conclude(server: &Server, json: bool) -> Result<(), Failure> {
    let counts = server.counts();
    let report = Report {
        schema: 1,
        viewers: counts.viewers.load(Ordering::Relaxed),
        refused: counts.refused.load(Ordering::Relaxed),
        messages: counts.messages.load(Ordering::Relaxed),
        dropped: counts.dropped.load(Ordering::Relaxed),
    };
    if json {
        return output::json(&report);
    }
    let Report { viewers, refused, messages, dropped, .. } = report;
    say!("{viewers} viewers, {refused} refused, {messages} messages, {dropped} dropped for slow viewers");
    Ok(())
}
