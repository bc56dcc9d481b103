//! Moves a worker off the caller's core. There it would take the caller's time instead of adding its own.

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// The cores that the calling thread may use.
pub struct Affinity {
    allowed: CpuSet,
}

impl Affinity {
    /// The current affinity of the calling thread.
    pub fn of_this_thread() -> Affinity {
        Affinity { allowed: sched_getaffinity(None).unwrap_or_default() }
    }

    /// Leaves core `cpu` if the thread is on it and may use another: from then on it may use all allowed
    /// cores but `cpu`. Returns whether it has moved; makes a system call only then.
    pub fn leave(&self, cpu: usize) -> bool {
        if sched_getcpu() != cpu || self.allowed.count() < 2 || !self.allowed.is_set(cpu) {
            return false;
        }
        let mut others = self.allowed;
        others.unset(cpu);
        sched_setaffinity(None, &others).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_can_leave_a_core_and_return() {
        let affinity = Affinity::of_this_thread();
        let here = sched_getcpu();
        if affinity.allowed.count() < 2 {
            assert!(!affinity.leave(here), "there is no other");
            return;
        }
        // The system may move this thread between two statements, so it tries again.
        let left = (0..100).find_map(|_| Some(sched_getcpu()).filter(|cpu| affinity.leave(*cpu)));
        let left = left.expect("moved within a hundred tries");
        assert_ne!(sched_getcpu(), left);
        assert!(!affinity.leave(left), "it is no longer there");
        let next = sched_getcpu();
        if affinity.allowed.count() == 2 {
            assert!(affinity.leave(next), "it may use the first one again");
            assert_eq!(sched_getcpu(), left);
        }
    }
}
