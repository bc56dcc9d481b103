//! The connection to the guard during a run. It begins with a hello to the guard that the board names, and
//! ends after the motors have stopped.

use super::{Session, SessionError};
use crate::base::plan::{BusPlan, GuardPlan};
use crate::base::time::{Clock, Span};
use crate::hardware::bus::Hardware;
use crate::runtime::guard::frame::GuardRefusal;
use crate::runtime::guard::socket::GUARD_SOCKET;
use crate::runtime::guard::{GuardHealth, GuardedHardware, Heartbeat, HeartbeatPlan, Hold, Link};
use crate::runtime::robot::Options;
use crate::system::rt::Granted;
use std::path::PathBuf;
use std::sync::Arc;

/// How long to wait until the guard trusts this runtime. A running guard needs milliseconds; one that is just
/// starting needs longer.
const GUARD_START: Span = Span::from_millis(2_000);
/// Polling interval while waiting for the guard.
const LOOK_EVERY: Span = Span::from_millis(5);
/// What to do if no guard is running.
pub const START_GUARD: &str =
    "start it first: 'ganglion guard --board BOARD', or systemctl start ganglion-guard";

/// Why a guard does not trust this runtime, as text; `None`: it did not answer.
pub fn why_untrusted(refused: Option<GuardRefusal>) -> &'static str {
    refused.map_or("it does not answer", |refused| refused.reason())
}

/// The connection to the guard during a run.
pub(super) struct Guarded {
    plan: GuardPlan,
    hold: Hold,
    pub(super) link: Arc<Link>,
    heartbeat: Heartbeat,
}

impl Guarded {
    /// Connects to the guard that the board names. `None`: it names none, or an optional one that is not
    /// running.
    pub(super) fn begin(
        session: &Session<'_>,
        options: &Options,
        clock: &Arc<dyn Clock>,
    ) -> Result<Option<Guarded>, SessionError> {
        let board = session.board;
        let Some(plan) = board.guard else { return Ok(None) };
        let Some(hold) = Hold::of(board, &plan) else { return Ok(None) };
        let socket = session.guard.clone().unwrap_or_else(|| PathBuf::from(GUARD_SOCKET));
        let alone = matches!(board.bus, BusPlan::Sim);
        let link = Link::new(alone).map_err(SessionError::Heartbeat)?;
        let heartbeat_plan = HeartbeatPlan {
            socket: socket.clone(),
            board: *session.digest.as_bytes(),
            hold,
            timeout: plan.timeout,
            alone,
        };
        let (loop_status, requests) = (options.loop_status.clone(), options.requests.clone());
        let end = session.interrupted.clone();
        let heartbeat = Heartbeat::start(
            heartbeat_plan,
            link.clone(),
            loop_status,
            requests,
            clock.clone(),
            board.rt,
            end,
        )
        .map_err(SessionError::Heartbeat)?;
        heartbeat.granted.enough(&board.rt).map_err(SessionError::Refused)?;
        let guarded = Guarded { plan, hold, link, heartbeat };
        if guarded.is_trusted(clock.as_ref()) {
            return Ok(Some(guarded));
        }
        let refused = guarded.link.look().refused;
        let why = why_untrusted(refused);
        match (plan.required, &board.bus) {
            (true, BusPlan::Linux { .. }) => Err(SessionError::NoGuard(socket, refused)),
            (true, _) => {
                log::warn!("no guard at {}: {why}; staying stopped until there is one", socket.display());
                Ok(Some(guarded))
            }
            (false, _) => {
                log::warn!("no guard at {}: {why}; continuing without one ({START_GUARD})", socket.display());
                drop(guarded);
                Ok(None)
            }
        }
    }

    /// Waits until the guard trusts this runtime, at most [`GUARD_START`]; returns whether it does.
    fn is_trusted(&self, clock: &dyn Clock) -> bool {
        let until = clock.now() + GUARD_START;
        while !self.link.is_trusted() && clock.now() < until {
            clock.sleep_until(clock.now() + LOOK_EVERY);
        }
        self.link.is_trusted()
    }

    /// The state of the guard for the tick to check, if the board requires the guard.
    pub(super) fn health(&self) -> Option<GuardHealth> {
        self.plan.required.then(|| GuardHealth::new(self.link.clone(), self.plan.timeout))
    }

    /// Wraps `hardware`, so that the guard instead of this process switches the guarded line.
    pub(super) fn around(&self, hardware: Arc<dyn Hardware>, clock: &Arc<dyn Clock>) -> Arc<dyn Hardware> {
        Arc::new(GuardedHardware::new(hardware, self.link.clone(), self.hold, clock.clone()))
    }

    /// Ends the connection after the motors have stopped: the guard switches its line off. Returns the
    /// real-time settings that the heartbeat thread was granted, and whether the thread has panicked.
    pub(super) fn end(self) -> (Granted, bool) {
        let granted = self.heartbeat.granted.clone();
        (granted, self.heartbeat.end())
    }
}
