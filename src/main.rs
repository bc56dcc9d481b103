//! The program: runs one command and returns its exit code. Everything else is in the library.

use std::process::ExitCode;

/// Counts the allocations, so that "no allocation in a tick" is measured in every run.
#[global_allocator]
static HEAP: ganglion::system::rt::heap::CountingHeap = ganglion::system::rt::heap::CountingHeap;

fn main() -> ExitCode {
    ganglion::cli::main()
}
