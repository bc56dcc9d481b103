//! The integration tests, one binary. A module is named after the room of `src/` whose behaviour it shows,
//! and they stand in the order of the map in `src/lib.rs`. docs/tests.md says how to run what.

/// What a piece of work allocates is seen: the counting allocator, and the two questions that others ask of
/// it.
mod allocation;
/// How long the tests run: short in daily use, in full where the environment asks for it.
mod long;

/// Tests that lack data or a tool are counted and named, not passed.
mod skips;

/// Several buses, and a stop that goes before everything, on the simulated robot.
mod bus;

/// The CPU engine is the reference within rounding, on any number of threads, and allocates nothing.
mod field_cpu;
/// The CUDA kernels, run without a GPU, are the reference within rounding, in any order of threads.
mod cuda;
/// What every field engine must do: bounds, half-lives, decodability, prediction, retrieval, rungs.
mod field_laws;
/// A brain in a file: whole or refused with the reason, written beside the robot, taken up again.
mod snapshot;
/// Read-outs are learned from logs, judged on time not learned from, kept whole and refused elsewhere.
mod learn;
/// Holographic memory: its algebra and capacity, the same bits everywhere, files whole or refused.
mod memory;

/// A panic or a hang of any thread ends a run with motors that stand, or says that they may not.
mod executor;
/// The tick on real threads: the grid adds up, nothing is allocated, a strict board refuses.
mod tick;
/// A robot that arms by itself does so only after a clean end.
mod restart;
/// The status of a running robot has what was measured, agrees with its report, and leaves out the rest.
mod status;
/// The screen: its keys reach the robot, and the terminal is given back however it ends.
mod screen;
/// A guard holds its line until a runtime has earned it, and takes it back whatever that one dies of.
mod guard;
/// The link to a brain: nothing that was not the brain's is passed on, whatever the network does.
mod wire;
/// A field whose brain is elsewhere: what is lost on the way stops the motors in time, and nothing else does.
mod tether;
/// A starting table drives, and a field corrects it: taught in closed loop, tried before it is trusted.
mod teach;
/// What a part of the brain is worth: the same figures every time, no effect where there is none.
mod ablate;
/// The whole robot on the simulator: it drives, it is safe, it is the same every time.
mod drive;
/// A recording has what a run was decided from: it is decided again to the bit, and a disk that fails
/// costs no slot.
mod recording;
/// What `bench` prints holds together, is whole or absent, and ends with the verdict's exit code.
mod bench;
/// The bench of `ganglion hil` over the simulated robot: wires in place, wires missing.
mod hil;

/// The shipped boards are what their hardware is; bad ones are refused with the place.
mod boards;
/// Drivers and simulated robot together: motion, framing, echoes, every fault, the same every time.
mod sim;
/// Files without an end, fields without room, bytes that a terminal obeys: refused, and shown as what they
/// are.
mod bounded_read;
/// The built program: exit codes, help with examples, one message a failure, no panic on a closed pipe.
mod cli;
/// Robots in the field: flashed, or refused, and never left in between; ssh may drop at any time.
mod field;

/// A package is staged, tried, committed or left; whatever is cut off, the right version runs at the end.
mod update;
/// The Debian package: what goes in, and that installing or upgrading it leaves a running robot alone.
mod packaging;

/// Whatever comes in, the command keeps its promises.
mod safety;
/// Random boards under random faults, before a judge who knows only what is promised: motors that move all
/// the same fail.
mod campaign;
/// Bytes from outside, every way in: taken or refused, and nothing else; what once broke it does not again.
mod hostile;

/// Style as a test: sizes, names, reasons, which module may name which, the stated compiler.
mod tidy;
