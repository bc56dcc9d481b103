//! The runtime's heartbeat in virtual time: the same code as on its thread, stepped as a worker. A driver
//! that waits for the guard steps the heartbeat, because no other worker runs during that driver's own step.

use ganglion::base::time::{Clock, Instant};
use ganglion::runtime::guard::{HeartbeatLoop, HeartbeatPlan, Link, Transport};
use ganglion::runtime::loop_status::LoopStatusCell;
use ganglion::runtime::requests::Requests;
use ganglion::system::executor::Worker;
use std::sync::{Arc, Mutex, PoisonError};

/// A stepped heartbeat.
pub struct SteppedPulse {
    heart: Arc<Mutex<HeartbeatLoop>>,
}

impl SteppedPulse {
    /// A heartbeat over `way`. It is stepped at the clock's cursor.
    pub fn new(
        plan: HeartbeatPlan,
        way: Box<dyn Transport>,
        link: Arc<Link>,
        loop_status: Arc<LoopStatusCell>,
        requests: Arc<Requests>,
        clock: Arc<dyn Clock>,
    ) -> SteppedPulse {
        let heart =
            Arc::new(Mutex::new(HeartbeatLoop::new(plan, way, link.clone(), loop_status, requests, clock)));
        let weak = Arc::downgrade(&heart); // weak, because the heartbeat owns the link
        link.step_by(Box::new(move || {
            if let Some(heart) = weak.upgrade() {
                heart.lock().unwrap_or_else(PoisonError::into_inner).step();
            }
        }));
        SteppedPulse { heart }
    }

    fn with<T>(&self, act: impl FnOnce(&mut HeartbeatLoop) -> T) -> T {
        act(&mut self.heart.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Worker for SteppedPulse {
    fn name(&self) -> &'static str {
        "heartbeat"
    }
    fn step(&mut self, _clock: &dyn Clock) -> Instant {
        self.with(HeartbeatLoop::step)
    }
    fn publish(&mut self, _clock: &dyn Clock) {}
    fn finish(&mut self, _clock: &dyn Clock) -> bool {
        self.with(HeartbeatLoop::leave);
        true
    }
}
