//! Moves a worker off the caller's core, where it would take CPU time from the caller instead of adding some.

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
    /// cores but `cpu`. Returns whether it has moved. A thread that is not on `cpu` only asks for its current
    /// core, which takes no system call on x86-64 (rustix uses the vDSO) and one on aarch64.
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
            assert!(!affinity.leave(here), "there is no other core");
            return;
        }
        // The system may move this thread between two statements, so the test tries up to a hundred times.
        let left = (0..100).find_map(|_| Some(sched_getcpu()).filter(|cpu| affinity.leave(*cpu)));
        let left = left.expect("moved within a hundred tries");
        assert_ne!(sched_getcpu(), left);
        assert!(!affinity.leave(left), "the thread is no longer on that core");
        let next = sched_getcpu();
        if affinity.allowed.count() == 2 {
            assert!(affinity.leave(next), "the thread may use the first core again");
            assert_eq!(sched_getcpu(), left);
        }
    }
}
