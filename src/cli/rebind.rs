//! `rebind`: the process that rebinds the drivers of a board's I2C adapters for a runtime that may not do so
//! itself. The module `rebind` serves the requests; this file provides its board, socket and messages.

use super::exit::Failure;
use super::guard::{allowed, signals};
use super::log_rate_limit::LogRateLimit;
use crate::base::plan::BusPlan;
use crate::base::time::{Clock, MonotonicClock};
use crate::hardware::bus::linux::{Grant, REBIND_SOCKET, Rebinder};
use crate::system::seqpacket::listen_at;
use std::path::{Path, PathBuf};

/// Arguments of `rebind`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ganglion rebind --board my-car.toml --for ganglion      as the service does, as root

An I2C controller can hang in such a way that only unbinding and rebinding its driver frees it. That
needs root, and the runtime does not run as root. This process does it for a runtime of the user
that --for names: only for buses of its own board that have 'rebind = true', and at most once every
two seconds per bus. SIGTERM, SIGINT, SIGQUIT or SIGHUP: exit 0.")]
pub struct Args {
    /// Board file (its name has a '/' or ends in '.toml'), or the name of a built-in board
    #[arg(long, value_name = "FILE")]
    board: PathBuf,
    /// Socket to listen on
    #[arg(long, value_name = "PATH", default_value = REBIND_SOCKET)]
    socket: PathBuf,
    /// The user whose requests to serve, by name or number [default: its own user]; root is always served
    #[arg(long = "for", value_name = "USER")]
    allowed: Option<String>,
}

/// Runs the verb.
pub fn run(args: Args) -> Result<(), Failure> {
    let loaded = super::arguments::board(&args.board)?;
    let board = &loaded.board;
    let mut rebinder = Rebinder::new(board, Path::new("/"));
    if rebinder.is_idle() || !matches!(board.bus, BusPlan::Linux { .. }) {
        say!("board '{}' has no bus with 'rebind = true': nothing to do", board.name);
        return Ok(());
    }
    let (may, may_not) = rebinder.devices();
    if !may_not.is_empty() {
        return Err(Failure::permission(format!(
            "this user may not bind the driver of {}",
            may_not.join(", ")
        ))
        .fix("run it as root: systemctl enable --now ganglion-rebind"));
    }
    log::info!("for board '{}': {}, listening on {}", board.name, may.join(", "), args.socket.display());
    let allowed = allowed(args.allowed.as_deref())?;
    let end = signals()?;
    let (_place, listener) = listen_at(&args.socket).map_err(|error| {
        Failure::file(&args.socket, &error)
            .fix("stop the process that is already running, or choose another path")
    })?;
    let mut rate_limit = LogRateLimit::FULL;
    let clock = MonotonicClock;
    crate::runtime::rebind::serve(&mut rebinder, &listener, &end, allowed, &clock, |grant| {
        // A permitted caller can send as many requests as it likes, so the log has a quota.
        if let Some(more) = rate_limit.ask(clock.now()) {
            let dropped = if more == 0 { String::new() } else { format!(" ({more} others not logged)") };
            let level = if grant == Grant::Yes { log::Level::Info } else { log::Level::Warn };
            log::log!(level, "request: {}{dropped}", grant.message());
        }
    });
    Ok(())
}
