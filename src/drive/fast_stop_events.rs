//! How the tick learns of stops that did not wait for it. A thread whose reading trips a rule raises [`Halt`]
//! with the cause. The tick reads the cause here, even if the reading itself was lost on its way. Only loads
//! atomics; decides nothing.

use crate::base::plan::Cause;
use crate::drive::io::Halt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What happened since the last slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FastStopEvents {
    /// Causes for which the motors were stopped without waiting for the tick, one bit each (see
    /// [`Cause::bit`]).
    pub halts: u16,
    /// Readings were lost because their ring was full; the one that stopped the motors may be among them.
    pub readings_lost: bool,
}

/// The tick's side: which halts it has already seen.
#[derive(Debug)]
pub struct FastStopReceiver {
    halt: Arc<Halt>,
    dropped: Arc<AtomicU64>,
    /// How often each cause has stopped the motors, by `Cause as usize`.
    seen: [u64; Cause::ALL.len()],
    lost: u64,
}

impl FastStopReceiver {
    /// A receiver that reads the counts of `halt` and the lost readings in `dropped`. Both count from zero,
    /// so what happened before this call is reported too.
    pub fn new(halt: Arc<Halt>, dropped: Arc<AtomicU64>) -> FastStopReceiver {
        FastStopReceiver { halt, dropped, seen: [0; Cause::ALL.len()], lost: 0 }
    }

    /// What happened since the last call. Call this before taking the readings: then the reading that caused
    /// a stop seen here is already in a ring.
    pub fn take(&mut self) -> FastStopEvents {
        let mut halts = 0;
        for (cause, count) in self.halt.counts() {
            let seen = &mut self.seen[cause as usize];
            if count != *seen {
                halts |= cause.bit();
            }
            *seen = count;
        }
        let lost = self.dropped.load(Ordering::Relaxed);
        let readings_lost = lost != self.lost;
        self.lost = lost;
        FastStopEvents { halts, readings_lost }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::fixture::at;

    #[test]
    fn stop_and_loss_are_reported_once() {
        let (halt, dropped) = (Arc::new(Halt::new(Arc::default())), Arc::new(AtomicU64::new(0)));
        let mut alarm = FastStopReceiver::new(halt.clone(), dropped.clone());
        assert_eq!(alarm.take(), FastStopEvents::default());
        halt.raise(Cause::EStop, at(1));
        halt.raise(Cause::EStop, at(2));
        halt.raise(Cause::Cliff, at(2));
        let halts = Cause::EStop.bit() | Cause::Cliff.bit();
        assert_eq!(alarm.take(), FastStopEvents { halts, readings_lost: false });
        assert_eq!(alarm.take(), FastStopEvents::default());
        dropped.fetch_add(3, Ordering::Relaxed);
        halt.raise(Cause::Cliff, at(3));
        assert_eq!(alarm.take(), FastStopEvents { halts: Cause::Cliff.bit(), readings_lost: true });
        assert_eq!(alarm.take(), FastStopEvents::default());
        let late = FastStopReceiver::new(halt, dropped).take();
        assert_eq!(
            late,
            FastStopEvents { halts, readings_lost: true },
            "halts before the first slot count too"
        );
    }
}
