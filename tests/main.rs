//! The integration tests, one binary. Each line below says what its module shows.
mod boards; // the shipped boards are what their hardware is; bad ones are refused with the place
mod cli; // the built program: exit codes, help with examples, one message a failure, no panic on a closed pipe
mod tidy; // style as a test: sizes, names, reasons, who may know whom, the stated compiler

/// What `bench` prints holds together, is whole or absent, and ends with the verdict's exit code.
mod bench;
/// Allocations are seen: the counting allocator and its questions.
mod counting;
/// The CPU engine is the reference within rounding, on any number of threads, and allocates nothing.
mod engines;
/// The CUDA kernels, run without a GPU, are the reference within rounding, in any order of threads.
mod cuda;
/// What every field engine must do: bounds, half-lives, decodability, prediction, retrieval, rungs.
mod laws;
/// Read-outs are learned from logs, judged on time not learned from, kept whole and refused elsewhere.
mod learn;
/// Holographic memory: its algebra and capacity, the same bits everywhere, files whole or refused.
mod memory;
/// Drivers and simulated robot together: motion, framing, echoes, every fault, the same every time.
mod plant;

/// A brain in a file: whole or refused with the reason, written beside the robot, taken up again.
mod snapshot;

mod intake; // files without an end, fields without room, bytes that a terminal obeys: refused, and shown as what they are

mod spine; // real threads: the grid adds up, the tick allocates nothing, a strict board refuses
mod ending; // a panic or a hang of any thread ends a run with motors that stand, or says that they may not
mod restart; // a robot that arms by itself does so only after a clean end
mod drive; // the whole robot on the simulator: it drives, it is safe, it is the same every time

mod buses; // several buses, and a stop that goes before everything, on the simulated robot

/// Random boards under random faults, before a judge who knows only what is promised: motors that move all the same fail.
mod campaign;

mod hostile; // bytes from outside, every way in: taken or refused, and nothing else; what once broke it does not again
mod safety; // whatever comes in, the command keeps its promises
mod twowires; // the bench of the hil verb over the simulated robot: wires in place, wires missing

/// A guard holds its line until a runtime has earned it, and takes it back whatever that one dies of.
mod guard;
