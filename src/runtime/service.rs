//! The runtime as a service: what it reports to systemd, and when. It is ready once every part that arming
//! needs works, whatever is around the robot; it is alive while the loop *and* the thread of the motors' bus
//! advance. A non-real-time thread sends the reports, because a message is a system call that may block.
//!
//! Does nothing if no service manager listens (`NOTIFY_SOCKET` is not set).

use crate::base::time::{Instant, Span};
use crate::decision::mode::ArmRefusal;
use crate::runtime::loop_status::LoopStatus;
use sd_notify::NotifyState;

/// Slots before the robot can be ready: the first ones may be disturbed by the start-up.
const FIRST_SLOTS: u64 = 10;
/// Minimum interval between updates of the status line; people cannot read faster.
const STATUS_EVERY: Span = Span::from_millis(500);
/// Maximum length of the status line, bytes: systemd shows one line.
const LONGEST_STATUS: usize = 200;

/// Reasons against arming that also mean the robot is not ready. A reflex is not among them: a robot that
/// starts facing a wall is fine. Nor is a refused request for real-time execution, which is reported
/// elsewhere.
const NEEDED: ArmRefusal =
    ArmRefusal::SENSES.or(ArmRefusal::FIELD).or(ArmRefusal::WIRE).or(ArmRefusal::GUARD);

/// Whether every needed part is known to work.
pub fn is_ready(status: &LoopStatus) -> bool {
    status.slots >= FIRST_SLOTS && missing(status).is_none()
}

/// The needed parts that are not known to work yet.
pub fn missing(status: &LoopStatus) -> ArmRefusal {
    status.refusal.and(NEEDED)
}

/// A message to the service manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice<'a> {
    /// The robot is ready.
    Ready,
    /// A human-readable status line.
    Status(&'a str),
    /// The runtime is alive.
    Watchdog,
    /// The runtime is ending.
    Stopping,
    /// Startup may take this long from now.
    Extend(Span),
}

/// A function that sends messages.
pub type Send = Box<dyn FnMut(Notice<'_>)>;

/// The connection to the service manager.
pub struct Service {
    send: Send,
    /// Half of the watchdog timeout; `None`: there is no watchdog.
    every: Option<Span>,
    /// Counts of slots and of the bus thread's heartbeats at the last keep-alive.
    shown: (u64, u64),
    due: Instant,
    ready: bool,
    stopping: bool,
    status: String,
    status_at: Instant,
}

impl Service {
    /// The connection that the environment names, or one that sends nothing.
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

    /// Asks for up to `longer`, counted from now, to finish starting.
    pub fn extend(&mut self, longer: Span) {
        (self.send)(Notice::Extend(longer));
    }

    /// Reports what the program is doing, before the loop runs.
    pub fn send(&mut self, words: &str) {
        self.status_now(words.to_string());
    }

    /// Whether the service manager was told that the robot is ready.
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
        self.send_watchdog(status, now);
    }

    /// Reports once that the run is ending.
    pub fn stop(&mut self) {
        if !std::mem::replace(&mut self.stopping, true) {
            (self.send)(Notice::Stopping);
        }
    }

    /// Sends a keep-alive if one is due, and the loop and the bus thread have both advanced since the last
    /// one.
    fn send_watchdog(&mut self, status: &LoopStatus, now: Instant) {
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

/// Sends to systemd. A lost message is not repeated: the next one is newer.
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
        let sent = Rc::new(RefCell::new(Vec::new()));
        let log = sent.clone();
        let send = move |notice: Notice<'_>| log.borrow_mut().push(format!("{notice:?}"));
        (Service::new(watchdog, Box::new(send)), sent)
    }

    #[test]
    fn ready_is_sent_once_and_only_when_all_needed_parts_work() {
        let (mut service, sent) = service(None);
        for refusal in [ArmRefusal::SENSES, ArmRefusal::FIELD, ArmRefusal::WIRE, ArmRefusal::GUARD] {
            service.maintain(&LoopStatus { refusal, ..WELL }, at(1_000), String::new);
        }
        service.maintain(&LoopStatus { slots: 9, ..WELL }, at(1_000), String::new);
        assert!(sent.borrow().is_empty() && !service.is_ready());
        let before_a_wall = LoopStatus { refusal: ArmRefusal::REFLEX, ..WELL };
        service.maintain(&before_a_wall, at(1_010), String::new);
        service.maintain(&WELL, at(1_020), String::new);
        assert_eq!(*sent.borrow(), ["Ready"]);
    }

    #[test]
    fn watchdog_ping_needs_loop_and_bus_twice_per_interval() {
        let (mut service, sent) = service(Some(ms(2_000)));
        let mut status = WELL;
        let mut count = |from: u64, to: u64, slots: u64, bus: u64| {
            sent.borrow_mut().clear();
            for now in (from..to).step_by(20) {
                status.slots += slots;
                status.bus += bus;
                service.maintain(&status, at(now), String::new);
            }
            sent.borrow().iter().filter(|notice| *notice == "Watchdog").count()
        };
        assert_eq!(count(10_000, 20_000, 2, 1), 10);
        // One keep-alive may still be sent for progress from just before the hang.
        assert!(count(20_000, 21_000, 0, 1) <= 1);
        assert_eq!(count(21_000, 30_000, 0, 1), 0, "the loop hangs");
        assert!(count(30_000, 31_000, 2, 0) <= 1);
        assert_eq!(count(31_000, 40_000, 2, 0), 0, "the bus hangs");
        assert_eq!(count(40_000, 44_000, 2, 1), 4);
    }

    #[test]
    fn without_a_watchdog_only_status_changes_are_sent() {
        let (mut service, sent) = service(None);
        service.ready = true;
        for now in (0..3_000).step_by(20) {
            let words = if now < 1_500 { "one" } else { "two" };
            service.maintain(&WELL, at(now), || words.into());
        }
        service.stop();
        service.stop();
        assert_eq!(*sent.borrow(), ["Status(\"one\")", "Status(\"two\")", "Stopping"]);
    }

    #[test]
    fn a_long_status_is_cut_between_characters() {
        let (mut service, sent) = service(None);
        service.send(&"ä".repeat(150));
        assert_eq!(sent.borrow().len(), 1);
        assert_eq!(service.status.len(), LONGEST_STATUS);
    }
}
