//! The synchronization primitives of the hand-over structures: the standard library's or, for
//! `scripts/check-loom`, those of loom, which runs every interleaving of their threads. Nothing else is built
//! with loom.

#[cfg(not(loom))]
pub use plain::*;
#[cfg(not(loom))]
mod plain {
    pub use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering, fence};
    pub use std::sync::{Arc, OnceLock};
    pub use std::thread::{self, Thread};

    /// An `UnsafeCell` with loom's interface; its users agree on who owns the value.
    #[derive(Debug)]
    pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        /// A cell that holds `value`.
        pub fn new(value: T) -> UnsafeCell<T> {
            UnsafeCell(std::cell::UnsafeCell::new(value))
        }
        /// Calls `look`, which may read the value.
        #[inline]
        pub fn with<R>(&self, look: impl FnOnce(*const T) -> R) -> R {
            look(self.0.get())
        }
        /// Calls `change`, which may write the value.
        #[inline]
        pub fn with_mut<R>(&self, change: impl FnOnce(*mut T) -> R) -> R {
            change(self.0.get())
        }
    }
}

#[cfg(loom)]
pub use watched::*;
#[cfg(loom)]
mod watched {
    pub use loom::cell::UnsafeCell;
    pub use loom::sync::Arc;
    pub use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering, fence};
    pub use thread::Thread;

    /// Park and unpark as in the standard library: an unpark before the park is kept. Loom's own unpark would
    /// also wake a thread that joins another one.
    pub mod thread {
        use loom::sync::{Arc, Condvar, Mutex};
        pub use loom::thread::spawn;

        /// A thread that can be unparked.
        #[derive(Clone, Debug, Default)]
        pub struct Thread(Arc<Nudge>);

        #[derive(Debug, Default)]
        struct Nudge {
            given: Mutex<bool>,
            came: Condvar,
        }

        loom::thread_local! {
            static HERE: Thread = Thread::default();
        }

        impl Thread {
            /// Ends the thread's sleep, or its next one.
            pub fn unpark(&self) {
                *self.0.given.lock().unwrap() = true;
                self.0.came.notify_one();
            }
        }

        /// The calling thread.
        pub fn current() -> Thread {
            HERE.with(Thread::clone)
        }

        /// Sleeps until it is unparked.
        pub fn park() {
            let Thread(nudge) = current();
            let mut given = nudge.given.lock().unwrap();
            while !*given {
                given = nudge.came.wait(given).unwrap();
            }
            *given = false;
        }
    }

    /// Loom has no `OnceLock`. This one is written once, by a thread that then sets a flag; it is no stronger
    /// than the standard one.
    #[derive(Debug)]
    pub struct OnceLock<T> {
        set: AtomicBool,
        value: UnsafeCell<Option<T>>,
    }

    // SAFETY: the value is written once, by the one thread that the models allow to do so, before the flag is
    // raised, and read only after that; loom reports any access that is not ordered by the flag.
    unsafe impl<T: Send + Sync> Sync for OnceLock<T> {}

    impl<T> Default for OnceLock<T> {
        fn default() -> OnceLock<T> {
            OnceLock { set: AtomicBool::new(false), value: UnsafeCell::new(None) }
        }
    }

    impl<T> OnceLock<T> {
        /// Writes the value; it never changes again.
        pub fn set(&self, value: T) -> Result<(), T> {
            // SAFETY: see `Sync`.
            self.value.with_mut(|place| unsafe { *place = Some(value) });
            self.set.store(true, Ordering::Release);
            Ok(())
        }
        /// The value, once it has been written.
        pub fn get(&self) -> Option<&T> {
            if !self.set.load(Ordering::Acquire) {
                return None;
            }
            // SAFETY: see `Sync`; no thread writes it from now on.
            self.value.with(|place| unsafe { (*place).as_ref() })
        }
    }
}
