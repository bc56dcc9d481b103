//! The integration tests, one binary. A module is named after the module of `src/` whose behaviour it tests,
//! in the order of the map in `src/lib.rs`. docs/tests.md says how to run them.

/// The counting allocator, which shows what a piece of work allocates.
mod allocation;
/// A folder for the files of one test, removed at its end.
mod folder;
/// How long the tests run: short in daily use, in full if GANGLION_LONG is 1.
mod long;

/// Tests that lack data or a tool are counted and named; they do not pass.
mod skips;

/// Several buses on the simulated robot, and stops that overtake every other transfer.
mod bus;

/// The CPU engine agrees with the reference within rounding, on any number of threads, and allocates nothing.
mod field_cpu;
/// The CUDA kernels, run without a GPU, agree with the reference within rounding, in any order of threads.
mod cuda;
/// What every field engine must do: bounds, half-lives, decodability, prediction, retrieval, quality levels.
mod field_laws;
/// Slices through the field: the same from every engine, in recordings, and on request from a running robot.
mod slices;
/// Decision fields behave as in the literature and reproduce its numbers.
mod decision_field;
/// A brain in a file: complete, or refused with the reason; saved by a running robot and restored.
mod snapshot;
/// Read-outs are learned from logs, judged on held-out time, saved completely, and refused by other boards.
mod learn;
/// Holographic memory: its algebra and capacity, the same bits everywhere, files complete or refused.
mod memory;

/// A panic or a hang of any thread ends a run with stopped motors, or the run says that they may still move.
mod executor;
/// The tick on real threads: slot counts add up, nothing is allocated, a strict board refuses.
mod tick;
/// A robot that arms by itself does so only after a clean end.
mod restart;
/// The status of a running robot has every measured figure, agrees with its report, and omits what was not
/// measured.
mod status;
/// The screen: its keys reach the robot, and the terminal is restored however the program ends.
mod screen;
/// A viewer sees a running robot live, and is told when the robot ends.
mod live;
/// A guard holds its line until a runtime is trusted, and cuts it however that runtime dies.
mod guard;
/// Goals of a running robot: it drives to them only while it is armed, and reports the outcome.
mod goals;
/// The navigator escapes dead ends, keeps one of two gaps, and gives up on what it cannot reach.
mod navigate;
/// The link to a brain computer: only the brain's own answers are passed on, whatever the network does.
mod wire;
/// A field on a brain computer: losses stop the motors in time, and nothing else does.
mod tether;
/// A starting table drives, and a field corrects it: taught in closed loop, tested before it is trusted.
mod teach;
/// What each part of the brain contributes: the same figures every time, and no effect reported where there
/// is none.
mod ablate;
/// The whole robot on the simulator: it drives, it is safe, it is deterministic.
mod drive;
/// A recording holds everything that a run's decisions were based on: it replays bit for bit, and a failing
/// disk costs no slot.
mod recording;
/// The picture of a simulated run: it agrees with the report, and the documents show the current one.
mod picture;
/// The page of a recorded run: a browser draws all of it, and nothing in a recording becomes code.
mod drive_page;
/// A long run needs no more memory, files or threads at its end than at its start, and every slot counts.
mod soak;
/// The output of `bench` is consistent, complete or absent, and ends with the verdict's exit code.
mod bench;
/// The bench of `ganglion hil`, run against the simulated robot: with its wires connected, and with wires
/// missing.
mod hil;

/// The shipped boards match their hardware; bad ones are refused with the location.
mod boards;
/// Drivers and simulated robot together: motion, framing, echoes, every fault; all of it deterministic.
mod sim;
/// Endless files, fields too large for memory, terminal control characters: refused, and shown escaped.
mod bounded_read;
/// The built program: exit codes, help with examples, one message per failure, no panic on a closed pipe.
mod cli;
/// Robots in the field: updated or refused, and never left half done; ssh may drop at any time.
mod field;

/// A package is staged, tried, and committed or rolled back; after any power cut, the right version runs in
/// the end.
mod update;
/// The Debian package: its contents; installing or upgrading it leaves a running robot alone.
mod packaging;

/// Whatever the inputs are, the command keeps its promises.
mod safety;
/// Random boards under random faults. A judge that knows only the promises fails a run in which the robot
/// moves although a promise forbids it.
mod campaign;
/// Bytes from outside, at every entry point: accepted or refused without a crash; fixed crashes stay fixed.
mod hostile;

/// Tests of style: sizes, names, reasons, which module may use which, the stated compiler.
mod tidy;
