//! The files of `src/` that pass data between threads, built with loom, and a model of each: two or three
//! threads that act like the program's. Loom runs every order of their accesses that the memory model allows,
//! and fails if a value is torn, a write is lost, or a thread sleeps for ever. `scripts/check-loom` runs it.

#[path = "../../src/system/executor/waker.rs"]
mod waker;
#[path = "../../src/base/plan/cause.rs"]
mod cause;
#[path = "../../src/drive/io/halt.rs"]
mod halt;
mod models;
#[path = "../../src/system/rt/triple_buffer.rs"]
mod triple_buffer;
#[path = "../../src/system/rt/sync.rs"]
mod sync;
#[path = "../../src/base/time.rs"]
mod time;

// The paths by which the files refer to each other.
mod base {
    pub(crate) use crate::time;
    pub(crate) mod plan {
        pub(crate) use crate::cause::Cause;
    }
}
mod system {
    pub(crate) mod executor {
        pub(crate) use crate::waker::Waker;
    }
    pub(crate) mod rt {
        pub(crate) use crate::sync;
    }
}

fn main() {
    // Loom panics if a model fails; the script checks the exit code.
    for (name, model) in models::ALL {
        let began = std::time::Instant::now();
        loom::model(model);
        println!("{name}: {:.1} s", began.elapsed().as_secs_f64());
    }
}
