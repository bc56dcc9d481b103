//! The runtime as a service: what it reports to systemd, and when. Ready once the robot could be armed, apart
//! from conditions around it; alive while the loop *and* the thread of the motors' bus advance. The slow
//! thread reports: a message is a system call that may wait.
//!
//! Does nothing if no service manager listens (`NOTIFY_SOCKET` is not set).

use crate::base::time::{Instant, Span};
use crate::decision::mode::ArmRefusal;
use crate::runtime::loop_status::LoopStatus;
use sd_notify::NotifyState;

/// Slots before the robot can be ready: the first ones absorb what start-up left behind.
const FIRST_SLOTS: u64 = 10;
/// Minimum interval between updates of the status line: people read it.
const STATUS_EVERY: Span = Span::from_millis(500);
/// Longest status line: systemd shows one line.
const LONGEST_STATUS: usize = 200;

/// What must not prevent arming for the robot to be ready. A reflex may: a robot that was started facing a
/// wall is in order. So may refused real-time execution, which is reported.
const NEEDED: ArmRefusal =
    ArmRefusal::SENSES.or(ArmRefusal::FIELD).or(ArmRefusal::WIRE).or(ArmRefusal::GUARD);

/// Whether everything that is needed has been seen to work.
pub fn is_ready(status: &LoopStatus) -> bool {
    status.slots >= FIRST_SLOTS && missing(status).is_none()
}

/// What has not been seen to work yet.
pub fn missing(status: &LoopStatus) -> ArmRefusal {
    status.refusal.and(NEEDED)
}

/// A message to the service manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice<'a> {
    /// The robot is ready.
    Ready,
    /// A status line for people.
    Status(&'a str),
    /// The runtime is alive.
    Watchdog,
    /// It is ending.
    Stopping,
    /// The start takes this much longer from now on.
    Extend(Span),
}

/// Sends messages.
pub type Send = Box<dyn FnMut(Notice<'_>)>;

/// The connection to the service manager.
pub struct Service {
    send: Send,
    /// Half of the watchdog timeout; `None`: there is none.
    every: Option<Span>,
    /// Slots and beats of the bus at the last keep-alive.
    shown: (u64, u64),
    due: Instant,
    ready: bool,
    stopping: bool,
    status: String,
    status_at: Instant,
}

impl Service {
    /// The connection named in the environment, or one that sends nothing.
    pub fn attach() -> Service {
        let watchdog = sd_notify::watchdog_enabled();
        let watchdog = watchdog.and_then(|time| u64::try_from(time.as_nanos()).ok()).map(Span::from_nanos);
        Service::new(watchdog, Box::new(notify))
    }

    /// A connection that sends its messages through `send`.
    pub fn new(watchdog: Option<Span>, send: Send) -> Service {
        let every = watchdog.map(|time| Span::from_nanos(time.as_nanos() / 2));
        Service {
            send,
            every,
            shown: (0, 0),
            due: Instant::ZERO,
            ready: false,
            stopping: false,
            status: String::new(),
            status_at: Instant::ZERO,
        }
    }

    /// The start takes up to `longer` from now.
    pub fn extend(&mut self, longer: Span) {
        (self.send)(Notice::Extend(longer));
    }

    /// Reports what the program is doing, before the loop runs.
    pub fn send(&mut self, words: &str) {
        self.status_now(words.to_string());
    }

    /// Whether this reported to the service manager that the robot is ready.
    pub fn is_ready(&self) -> bool {
        self.ready
    }

    /// Checks the loop's status and reports what is due. Called every few tens of milliseconds.
    pub fn maintain(&mut self, status: &LoopStatus, now: Instant, words: impl FnOnce() -> String) {
        if !self.ready && !self.stopping && is_ready(status) {
            self.ready = true;
            (self.send)(Notice::Ready);
        }
        if now.since(self.status_at) >= STATUS_EVERY {
            self.status_at = now;
            self.status_now(words());
        }
        self.show_life(status, now);
    }

    /// The end has begun.
    pub fn stop(&mut self) {
        if !std::mem::replace(&mut self.stopping, true) {
            (self.send)(Notice::Stopping);
        }
    }

    /// Sends a keep-alive, if one is due and the program was alive since the last.
    fn show_life(&mut self, status: &LoopStatus, now: Instant) {
        let Some(every) = self.every else { return };
        let (slots, bus) = self.shown;
        if now >= self.due && status.slots > slots && status.bus > bus {
            self.shown = (status.slots, status.bus);
            self.due = now + every;
            (self.send)(Notice::Watchdog);
        }
    }

    fn status_now(&mut self, mut words: String) {
        let mut end = words.len().min(LONGEST_STATUS);
        while !words.is_char_boundary(end) {
            end -= 1;
        }
        words.truncate(end);
        if words != self.status {
            (self.send)(Notice::Status(&words));
            self.status = words;
        }
    }
}

/// To systemd. A lost message is not sent again: the next one says more.
fn notify(notice: Notice<'_>) {
    let state = match notice {
        Notice::Ready => NotifyState::Ready,
        Notice::Status(words) => NotifyState::Status(words),
        Notice::Watchdog => NotifyState::Watchdog,
        Notice::Stopping => NotifyState::Stopping,
        Notice::Extend(longer) => {
            NotifyState::ExtendTimeoutUsec(u32::try_from(longer.as_nanos() / 1_000).unwrap_or(u32::MAX))
        }
    };
    if let Err(error) = sd_notify::notify(&[state]) {
        log::debug!("cannot reach the service manager: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::fixture::{at, ms};
    use std::cell::RefCell;
    use std::rc::Rc;

    const WELL: LoopStatus = LoopStatus {
        slots: 100,
        skipped: 0,
        confirmed: 99,
        mode: 2,
        latched: None,
        active: 0,
        refusal: ArmRefusal::NONE,
        refused: 0,
        armings: 0,
        disarmed: None,
        bus: 50,
    };

    fn service(watchdog: Option<Span>) -> (Service, Rc<RefCell<Vec<String>>>) {
        let said = Rc::new(RefCell::new(Vec::new()));
        let log = said.clone();
        let send = move |notice: Notice<'_>| log.borrow_mut().push(format!("{notice:?}"));
        (Service::new(watchdog, Box::new(send)), said)
    }

    #[test]
    fn ready_is_sent_once_and_only_when_all_needed_parts_work() {
        let (mut service, said) = service(None);
        for refusal in [ArmRefusal::SENSES, ArmRefusal::FIELD, ArmRefusal::WIRE, ArmRefusal::GUARD] {
            service.maintain(&LoopStatus { refusal, ..WELL }, at(1_000), String::new);
        }
        service.maintain(&LoopStatus { slots: 9, ..WELL }, at(1_000), String::new);
        assert!(said.borrow().is_empty() && !service.is_ready());
        let before_a_wall = LoopStatus { refusal: ArmRefusal::REFLEX, ..WELL };
        service.maintain(&before_a_wall, at(1_010), String::new);
        service.maintain(&WELL, at(1_020), String::new);
        assert_eq!(*said.borrow(), ["Ready"]);
    }

    #[test]
    fn watchdog_pings_come_twice_per_interval_if_loop_and_bus_run() {
        let (mut service, said) = service(Some(ms(2_000)));
        let mut status = WELL;
        let mut count = |from: u64, to: u64, slots: u64, bus: u64| {
            said.borrow_mut().clear();
            for now in (from..to).step_by(20) {
                status.slots += slots;
                status.bus += bus;
                service.maintain(&status, at(now), String::new);
            }
            said.borrow().iter().filter(|notice| *notice == "Watchdog").count()
        };
        assert_eq!(count(10_000, 20_000, 2, 1), 10);
        // One last keep-alive may be sent for what was alive just before it hung.
        assert!(count(20_000, 21_000, 0, 1) <= 1);
        assert_eq!(count(21_000, 30_000, 0, 1), 0, "the loop hangs");
        assert!(count(30_000, 31_000, 2, 0) <= 1);
        assert_eq!(count(31_000, 40_000, 2, 0), 0, "the bus hangs");
        assert_eq!(count(40_000, 44_000, 2, 1), 4);
    }

    #[test]
    fn without_a_watchdog_only_status_changes_are_sent() {
        let (mut service, said) = service(None);
        service.ready = true;
        for now in (0..3_000).step_by(20) {
            let words = if now < 1_500 { "one" } else { "two" };
            service.maintain(&WELL, at(now), || words.into());
        }
        service.stop();
        service.stop();
        assert_eq!(*said.borrow(), ["Status(\"one\")", "Status(\"two\")", "Stopping"]);
    }

    #[test]
    fn a_long_status_is_cut_between_characters() {
        let (mut service, said) = service(None);
        service.send(&"ä".repeat(150));
        assert_eq!(said.borrow().len(), 1);
        assert_eq!(service.status.len(), LONGEST_STATUS);
    }
}
