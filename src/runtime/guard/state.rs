//! The guard's decisions: which runtime it trusts with the line, and when it switches the line off. Pure: it
//! works on client numbers instead of sockets, and the caller passes the time.

use super::frame::{Ask, GuardRefusal, GuardStatus, Phase, Reason, Request};
use super::{BoardDigest, Hold};
use crate::base::time::{Instant, Span};

/// A permission to switch the line, and the heartbeats that keep it valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permit {
    /// Stamp of the newest heartbeat of any kind.
    alive: Instant,
    /// Stamp of the newest heartbeat that counts: the runtime advanced, or the line was off or had just been
    /// switched on.
    counted: Instant,
    /// When the line went on; `None`: it is off.
    on_since: Option<Instant>,
}

/// The guard's state. The line is on in only one of these states.
///
/// ```text
///             1 hello            2 permit
///   Waiting ----------> Greeted -----------> Trusted
///      ^                |  ^                    |
///      +--- 3 leave ----+  | 1 hello            | 4 trip: closed, silent, stalled
///                          |                    v 3 leave: ended
///                          +---------------- Tripped <---- from any state: 5 stop: asked
/// ```
///
/// Only a new hello leaves Tripped, and the line goes on again only after a new permission. After a requested
/// stop, the hello must acknowledge this very stop, which shows that its runtime has heard of the stop and
/// has disarmed since. The end of a connection, a leave or any other hello does not cancel a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No runtime is guarded; the line is off.
    Waiting,
    /// A runtime has said hello; the line is off.
    Greeted,
    /// The runtime may switch the line.
    Trusted(Permit),
    /// The guard switched the line off.
    Tripped(Reason),
}

/// The guard.
#[derive(Clone, Debug)]
pub struct Guard {
    state: State,
    board: BoardDigest,
    timeout: Span,
    settle: Span,
    /// Client number of the guarded runtime.
    holder: Option<usize>,
    trips: u32,
    beats: u64,
    /// Number of the newest requested stop: 1 to 255, then 1 again; 0: none yet.
    stop: u8,
}

impl Guard {
    /// A guard of `board`, with the line off.
    pub fn new(hold: &Hold, timeout: Span, board: BoardDigest) -> Guard {
        let settle = hold.settle(timeout);
        Guard { state: State::Waiting, board, timeout, settle, holder: None, trips: 0, beats: 0, stop: 0 }
    }

    /// Its state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Whether the line should be on.
    pub fn line_on(&self) -> bool {
        matches!(self.state, State::Trusted(Permit { on_since: Some(_), .. }))
    }

    /// Whether `client` is the guarded runtime.
    pub fn is_holder(&self, client: usize) -> bool {
        self.holder == Some(client)
    }

    /// Its status.
    pub fn status(&self, line_sound: bool) -> GuardStatus {
        let phase = match self.state {
            State::Waiting => Phase::Waiting,
            State::Greeted => Phase::Greeted,
            State::Trusted(_) => Phase::Trusted,
            State::Tripped(reason) => Phase::Tripped(reason),
        };
        let (trips, beats) = (self.trips, self.beats);
        let stop = if self.is_stopped() { self.stop } else { 0 };
        GuardStatus { phase, line_on: self.line_on(), line_sound, trips, beats, stop }
    }

    /// Whether a stop was requested for which no runtime has disarmed yet.
    fn is_stopped(&self) -> bool {
        self.state == State::Tripped(Reason::Asked)
    }

    /// When to call [`check_timeout`](Guard::check_timeout) next if no message arrives.
    pub fn deadline(&self) -> Instant {
        match self.state {
            // One nanosecond after the timeout, because a heartbeat exactly at the timeout is in time.
            State::Trusted(permit) => permit.counted + self.timeout + Span::from_nanos(1),
            _ => Instant::NEVER,
        }
    }

    /// Switches the line off if the timeout has passed.
    pub fn check_timeout(&mut self, now: Instant) {
        let State::Trusted(permit) = self.state else { return };
        if now.since(permit.counted) > self.timeout {
            let stalled = now.since(permit.alive) <= self.timeout;
            self.trip(if stalled { Reason::Stalled } else { Reason::Silent });
        }
    }

    /// The connection of `client` closed.
    pub fn disconnected(&mut self, client: usize) {
        if !self.is_holder(client) {
            return;
        }
        self.holder = None;
        match self.state {
            State::Trusted(_) => self.trip(Reason::Closed),
            State::Greeted => self.leave(),
            State::Waiting | State::Tripped(_) => {}
        }
    }

    /// Handles a request of `client`; `own`: the client belongs to the allowed user, or to root.
    pub fn recv(
        &mut self,
        client: usize,
        own: bool,
        request: &Request,
        now: Instant,
    ) -> Result<(), GuardRefusal> {
        match request.ask {
            Ask::Status => Ok(()),
            Ask::Trip { lasting } => {
                if lasting || self.holder.is_some() {
                    self.ask_stop();
                }
                Ok(())
            }
            Ask::Hello { .. } if !own => Err(GuardRefusal::OtherUser),
            Ask::Hello { board, .. } if board != self.board => Err(GuardRefusal::OtherBoard),
            Ask::Hello { acknowledged, .. } => self.hello(client, acknowledged),
            _ if !self.is_holder(client) => Err(GuardRefusal::NotTrusted),
            Ask::Permit => self.permit(now),
            Ask::Heartbeat { advanced } => self.beat(advanced, request.stamp.min(now), now),
            Ask::Set { on } => self.set(on, now),
            Ask::Bye => {
                self.leave();
                Ok(())
            }
        }
    }

    /// 1: a runtime says hello. In [`State::Trusted`] this switches the line off first: a restarted runtime
    /// does not know that the line was on. A runtime that has not acknowledged a pending stop stays in
    /// Tripped.
    fn hello(&mut self, client: usize, acknowledged: u8) -> Result<(), GuardRefusal> {
        if self.holder.is_some_and(|holder| holder != client) {
            return Err(GuardRefusal::Busy);
        }
        self.holder = Some(client);
        if self.is_stopped() && acknowledged != self.stop {
            return Err(GuardRefusal::Stopped);
        }
        self.state = State::Greeted;
        Ok(())
    }

    /// 2: the runtime may switch the line, which stays off until it does.
    fn permit(&mut self, now: Instant) -> Result<(), GuardRefusal> {
        match self.state {
            State::Trusted(_) => Ok(()),
            State::Greeted => {
                self.state = State::Trusted(Permit { alive: now, counted: now, on_since: None });
                Ok(())
            }
            State::Waiting | State::Tripped(_) => Err(GuardRefusal::NotTrusted),
        }
    }

    fn beat(&mut self, advanced: bool, stamp: Instant, now: Instant) -> Result<(), GuardRefusal> {
        let settle = self.settle;
        let State::Trusted(permit) = &mut self.state else { return Err(GuardRefusal::NotTrusted) };
        permit.alive = permit.alive.max(stamp);
        // Nothing can move while the line is off or a controller has just come out of reset, so a heartbeat
        // needs no confirmed command then.
        let harmless = permit.on_since.is_none_or(|since| now.since(since) <= settle);
        if advanced || harmless {
            permit.counted = permit.counted.max(stamp);
            self.beats += 1;
        }
        Ok(())
    }

    fn set(&mut self, on: bool, now: Instant) -> Result<(), GuardRefusal> {
        let State::Trusted(permit) = &mut self.state else { return Err(GuardRefusal::NotTrusted) };
        permit.on_since = match (on, permit.on_since) {
            (false, _) => None,
            (true, None) => Some(now),
            (true, since) => since,
        };
        Ok(())
    }

    /// 3: the runtime ended cleanly, so none is guarded any more.
    fn leave(&mut self) {
        self.holder = None;
        self.state = match self.state {
            State::Trusted(_) => State::Tripped(Reason::Ended),
            State::Tripped(reason) => State::Tripped(reason),
            State::Waiting | State::Greeted => State::Waiting,
        };
    }

    /// 5: stops at once, from any state. Each stop needs its own acknowledgement.
    fn ask_stop(&mut self) {
        self.stop = self.stop.checked_add(1).unwrap_or(1);
        self.trip(Reason::Asked);
    }

    /// 4: switches the line off at once, from any state. Counts only if the line was on.
    fn trip(&mut self, reason: Reason) {
        self.trips = self.trips.saturating_add(u32::from(self.line_on()));
        self.state = State::Tripped(reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::plan::{GuardHold, Line};
    use crate::decision::fixture::{at, ms};

    const BOARD: BoardDigest = [1; 32];
    const HELLO: Ask = Ask::Hello { board: BOARD, acknowledged: 0 };
    const STOP: Ask = Ask::Trip { lasting: true };
    const TIMEOUT: Span = Span::from_millis(100);

    struct Rig {
        guard: Guard,
        now: Instant,
    }

    impl Rig {
        fn new(kind: GuardHold) -> Rig {
            let hold = Hold { line: Line(5), on_high: true, kind };
            Rig { guard: Guard::new(&hold, TIMEOUT, BOARD), now: at(1_000) }
        }

        /// Client 0 is trusted, with the line on and settled.
        fn driving(kind: GuardHold) -> Rig {
            let mut rig = Rig::new(kind);
            for ask in [HELLO, Ask::Permit, Ask::Set { on: true }] {
                assert_eq!(rig.ask(ask), Ok(()));
            }
            for _ in 0..100 {
                rig.pass(25);
                assert_eq!(rig.ask(Ask::Heartbeat { advanced: true }), Ok(()));
            }
            assert!(rig.guard.line_on());
            rig
        }

        fn ask(&mut self, ask: Ask) -> Result<(), GuardRefusal> {
            self.ask_from(0, true, ask)
        }
        fn ask_from(&mut self, client: usize, own: bool, ask: Ask) -> Result<(), GuardRefusal> {
            self.guard.recv(client, own, &Request { sequence: 0, stamp: self.now, ask }, self.now)
        }
        fn pass(&mut self, millis: u64) {
            self.now += ms(millis);
            self.guard.check_timeout(self.now);
        }
        fn tripped(&self) -> Option<Reason> {
            match self.guard.state() {
                State::Tripped(reason) => Some(reason),
                _ => None,
            }
        }
    }

    #[test]
    fn the_line_is_off_until_hello_permission_and_a_request() {
        let mut rig = Rig::new(GuardHold::Enable);
        assert_eq!(rig.ask(Ask::Set { on: true }), Err(GuardRefusal::NotTrusted));
        assert_eq!(rig.ask(Ask::Permit), Err(GuardRefusal::NotTrusted));
        assert_eq!(rig.ask(Ask::Heartbeat { advanced: true }), Err(GuardRefusal::NotTrusted));
        assert_eq!(rig.ask(HELLO), Ok(()));
        assert_eq!(rig.ask(Ask::Set { on: true }), Err(GuardRefusal::NotTrusted));
        assert_eq!(rig.ask(Ask::Permit), Ok(()));
        assert!(!rig.guard.line_on());
        assert_eq!(rig.ask(Ask::Set { on: true }), Ok(()));
        assert!(rig.guard.line_on());
    }

    #[test]
    fn only_one_runtime_of_this_board_and_user_is_accepted() {
        let mut rig = Rig::new(GuardHold::Enable);
        assert_eq!(rig.ask(Ask::Hello { board: [2; 32], acknowledged: 0 }), Err(GuardRefusal::OtherBoard));
        assert_eq!(rig.ask_from(0, false, HELLO), Err(GuardRefusal::OtherUser));
        assert_eq!(rig.ask_from(0, true, HELLO), Ok(()));
        assert_eq!(rig.ask_from(1, true, HELLO), Err(GuardRefusal::Busy));
        assert_eq!(rig.ask_from(1, true, Ask::Permit), Err(GuardRefusal::NotTrusted));
        assert_eq!(rig.ask(Ask::Permit), Ok(()));
        assert_eq!(rig.ask(Ask::Set { on: true }), Ok(()));
        rig.guard.disconnected(1);
        assert!(rig.guard.line_on(), "another client's end changes nothing");
        rig.guard.disconnected(0);
        assert_eq!(rig.tripped(), Some(Reason::Closed));
        assert_eq!(rig.ask_from(1, true, HELLO), Ok(()), "the next runtime may connect");
    }

    #[test]
    fn every_kind_of_death_trips_the_guard_until_a_new_hello() {
        type Death = (&'static str, fn(&mut Rig), Reason);
        let deaths: [Death; 5] = [
            ("closed", |rig| rig.guard.disconnected(0), Reason::Closed),
            ("silent", |rig| rig.pass(101), Reason::Silent),
            ("asked", |rig| assert_eq!(rig.ask_from(3, false, STOP), Ok(())), Reason::Asked),
            ("ended", |rig| assert_eq!(rig.ask(Ask::Bye), Ok(())), Reason::Ended),
            (
                "stalled",
                |rig| {
                    for _ in 0..5 {
                        rig.pass(25);
                        let _ = rig.ask(Ask::Heartbeat { advanced: false });
                    }
                },
                Reason::Stalled,
            ),
        ];
        for kind in [GuardHold::Reset, GuardHold::Enable] {
            for (name, die, reason) in deaths {
                let mut rig = Rig::driving(kind);
                die(&mut rig);
                assert!(!rig.guard.line_on(), "{name}");
                assert_eq!(rig.tripped(), Some(reason), "{name}");
                for ask in [Ask::Set { on: true }, Ask::Heartbeat { advanced: true }, Ask::Permit] {
                    assert_eq!(rig.ask(ask), Err(GuardRefusal::NotTrusted), "{name}: {ask:?}");
                    assert!(!rig.guard.line_on(), "{name}: {ask:?}");
                }
                let hello = Ask::Hello { board: BOARD, acknowledged: rig.guard.status(true).stop };
                for ask in [hello, Ask::Permit] {
                    assert_eq!(rig.ask(ask), Ok(()), "{name}: {ask:?}");
                    assert!(!rig.guard.line_on(), "{name}: {ask:?}");
                }
                assert_eq!(rig.ask(Ask::Set { on: true }), Ok(()));
                assert!(rig.guard.line_on());
            }
        }
    }

    #[test]
    fn timeout_is_exact_and_matches_the_deadline() {
        let mut rig = Rig::driving(GuardHold::Enable);
        assert_eq!(rig.guard.deadline(), rig.now + TIMEOUT + Span::from_nanos(1));
        rig.pass(100);
        assert!(rig.guard.line_on());
        rig.now += Span::from_nanos(1);
        rig.guard.check_timeout(rig.now);
        assert_eq!(rig.tripped(), Some(Reason::Silent));
        assert_eq!(rig.guard.deadline(), Instant::NEVER);
    }

    #[test]
    fn queued_heartbeat_counts_from_its_stamp() {
        let mut rig = Rig::driving(GuardHold::Enable);
        let old = Request { sequence: 0, stamp: rig.now, ask: Ask::Heartbeat { advanced: true } };
        rig.now += ms(5_000);
        assert_eq!(rig.guard.recv(0, true, &old, rig.now), Ok(()));
        rig.guard.check_timeout(rig.now);
        assert_eq!(rig.tripped(), Some(Reason::Silent));
        // A stamp from the future counts as now.
        let mut rig = Rig::driving(GuardHold::Enable);
        let ahead = Request { stamp: rig.now + ms(60_000), ..old };
        assert_eq!(rig.guard.recv(0, true, &ahead, rig.now), Ok(()));
        rig.pass(101);
        assert_eq!(rig.tripped(), Some(Reason::Silent));
    }

    #[test]
    fn controller_in_or_just_out_of_reset_needs_no_confirmation() {
        let mut rig = Rig::driving(GuardHold::Reset);
        assert_eq!(rig.ask(Ask::Set { on: false }), Ok(()));
        for _ in 0..100 {
            rig.pass(50);
            assert_eq!(rig.ask(Ask::Heartbeat { advanced: false }), Ok(()), "held in reset");
        }
        assert_eq!(rig.ask(Ask::Set { on: true }), Ok(()));
        for _ in 0..40 {
            rig.pass(50);
            assert_eq!(rig.ask(Ask::Heartbeat { advanced: false }), Ok(()), "settling");
        }
        assert!(rig.guard.line_on());
        for _ in 0..3 {
            rig.pass(50);
            let _ = rig.ask(Ask::Heartbeat { advanced: false });
        }
        assert_eq!(rig.tripped(), Some(Reason::Stalled), "it may settle for two seconds");
    }

    #[test]
    fn repeated_set_does_not_restart_the_settle_time() {
        let mut rig = Rig::driving(GuardHold::Reset);
        for _ in 0..5 {
            rig.pass(25);
            let _ = rig.ask(Ask::Set { on: true });
            let _ = rig.ask(Ask::Heartbeat { advanced: false });
        }
        assert_eq!(rig.tripped(), Some(Reason::Stalled));
    }

    /// A guard in every state, and whether a runtime is connected as client 0.
    fn every_state() -> Vec<(&'static str, Rig, bool)> {
        let mut greeted = Rig::new(GuardHold::Enable);
        assert_eq!(greeted.ask(HELLO), Ok(()));
        let tripped = |die: fn(&mut Rig)| {
            let mut rig = Rig::driving(GuardHold::Enable);
            die(&mut rig);
            rig
        };
        vec![
            ("waiting", Rig::new(GuardHold::Enable), false),
            ("greeted", greeted, true),
            ("trusted", Rig::driving(GuardHold::Enable), true),
            ("silent", tripped(|rig| rig.pass(101)), true),
            ("closed", tripped(|rig| rig.guard.disconnected(0)), false),
            ("ended", tripped(|rig| assert_eq!(rig.ask(Ask::Bye), Ok(()))), false),
            ("asked", tripped(|rig| assert_eq!(rig.ask_from(3, false, STOP), Ok(()))), true),
        ]
    }

    #[test]
    fn stop_lasts_until_a_runtime_acknowledges_it() {
        for (name, mut rig, _) in every_state() {
            assert_eq!(rig.ask_from(3, false, STOP), Ok(()), "{name}");
            let stop = rig.guard.status(true).stop;
            assert!(stop > 0 && !rig.guard.line_on(), "{name}");
            let events: [fn(&mut Rig); 6] = [
                |_| (),
                |rig| rig.guard.disconnected(0),
                |rig| rig.pass(60_000),
                |rig| _ = rig.ask(Ask::Bye),
                |rig| _ = rig.ask_from(3, false, Ask::Trip { lasting: false }),
                |rig| _ = rig.ask(HELLO),
            ];
            for event in events {
                event(&mut rig);
                let pending = rig.guard.status(true).stop;
                for acknowledged in (0..=u8::MAX).filter(|acknowledged| *acknowledged != pending) {
                    let hello = Ask::Hello { board: BOARD, acknowledged };
                    assert_eq!(rig.ask(hello), Err(GuardRefusal::Stopped), "{name}: {acknowledged}");
                    for ask in [Ask::Permit, Ask::Set { on: true }, Ask::Heartbeat { advanced: true }] {
                        assert_eq!(rig.ask(ask), Err(GuardRefusal::NotTrusted), "{name}");
                    }
                    assert_eq!((rig.tripped(), rig.guard.line_on()), (Some(Reason::Asked), false), "{name}");
                }
            }
            let acknowledged = rig.guard.status(true).stop;
            for ask in [Ask::Hello { board: BOARD, acknowledged }, Ask::Permit, Ask::Set { on: true }] {
                assert_eq!(rig.ask(ask), Ok(()), "{name}: {ask:?}");
            }
            assert!(rig.guard.line_on() && rig.guard.status(true).stop == 0, "{name}");
        }
    }

    #[test]
    fn each_stop_needs_its_own_acknowledgement() {
        let mut rig = Rig::driving(GuardHold::Enable);
        for _ in 0..600 {
            assert_eq!(rig.ask_from(3, false, STOP), Ok(()));
            let first = rig.guard.status(true).stop;
            assert_eq!(rig.ask_from(3, false, STOP), Ok(()));
            let late = Ask::Hello { board: BOARD, acknowledged: first };
            assert_eq!(rig.ask(late), Err(GuardRefusal::Stopped), "this acknowledges only the first stop");
            let acknowledged = rig.guard.status(true).stop;
            assert!(acknowledged != 0 && acknowledged != first);
            assert_eq!(rig.ask(Ask::Hello { board: BOARD, acknowledged }), Ok(()));
        }
    }

    #[test]
    fn non_lasting_trip_only_stops_a_connected_runtime() {
        for (name, mut rig, connected) in every_state() {
            let before = rig.guard.state();
            assert_eq!(rig.ask_from(3, false, Ask::Trip { lasting: false }), Ok(()));
            assert!(!rig.guard.line_on(), "{name}");
            match connected {
                true => assert_eq!(rig.tripped(), Some(Reason::Asked), "{name}: its runtime is stopped"),
                false => assert_eq!(rig.guard.state(), before, "{name}"),
            }
        }
    }

    #[test]
    fn a_trip_counts_only_if_the_line_was_on() {
        for (name, mut rig, _) in every_state() {
            let (before, on) = (rig.guard.status(true).trips, rig.guard.line_on());
            assert_eq!(rig.ask_from(3, false, STOP), Ok(()));
            assert_eq!(rig.guard.status(true).trips, before + u32::from(on), "{name}");
        }
        let mut rig = Rig::driving(GuardHold::Reset);
        assert_eq!(rig.ask(Ask::Set { on: false }), Ok(()));
        rig.pass(101);
        assert_eq!((rig.tripped(), rig.guard.status(true).trips), (Some(Reason::Silent), 0));
    }

    #[test]
    fn trips_are_counted_and_clean_ends_are_not() {
        let mut rig = Rig::driving(GuardHold::Reset);
        assert_eq!(rig.ask(Ask::Bye), Ok(()));
        assert_eq!(rig.guard.status(true).trips, 0);
        let mut rig = Rig::driving(GuardHold::Reset);
        rig.pass(101);
        rig.guard.disconnected(0);
        let status = rig.guard.status(true);
        assert_eq!((status.trips, status.phase), (1, Phase::Tripped(Reason::Silent)));
        assert_eq!(status.beats, 100);
    }
}
