//! The emulator as a child process: compiled with the system's C++ compiler if its sources have changed, and
//! driven over its standard input and output (`kernels/emulator/main.cpp` describes the protocol).
//!
//! A [`Device`] is two emulators that receive the same commands; one runs lanes, warps and blocks in reverse
//! order. Everything that is read must be bit-identical in both: a kernel whose result depends on the order
//! of its threads has a race.

use super::standin::digest;
use crate::skips::skip;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

/// Compilers to be tried after the one named by `CXX`.
const COMPILERS: [&str; 3] = ["c++", "g++", "clang++"];

/// The same arithmetic as on a GPU, with one exception: a product and a sum are not fused.
const FLAGS: [&str; 6] =
    ["-std=c++17", "-O2", "-Wall", "-Wextra", "-Wno-unknown-pragmas", "-ffp-contract=off"];

/// The compiled emulator; `None` without a C++ compiler: the test is then skipped.
///
/// # Panics
/// If there is a compiler, but it rejects the kernels or warns about them.
fn program() -> Option<&'static PathBuf> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let program = PROGRAM.get_or_init(compile).as_ref();
    if program.is_none() {
        skip("no C++ compiler (CXX, c++, g++, clang++) for the CUDA kernels");
    }
    program
}

fn compile() -> Option<PathBuf> {
    let named = std::env::var("CXX").ok();
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let program = folder.join(format!("emulator-{}", &digest(&FLAGS.concat())[..16]));
    if program.exists() {
        return Some(program);
    }
    // Compiled under a temporary name and then renamed: another test run may compile at the same time.
    let fresh = folder.join(format!("emulator-{}", std::process::id()));
    for compiler in named.iter().map(String::as_str).chain(COMPILERS) {
        let output = Command::new(compiler)
            .args(FLAGS)
            .arg("-o")
            .arg(&fresh)
            .arg("kernels/emulator/main.cpp")
            .output();
        let Ok(output) = output else { continue };
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{compiler} refuses the kernels:\n{said}");
        assert!(said.is_empty(), "{compiler} warns:\n{said}");
        std::fs::rename(&fresh, &program).expect("a folder that was just written to");
        return Some(program);
    }
    None
}

/// One emulator.
struct Process {
    child: Child,
    orders: BufWriter<ChildStdin>,
    answers: BufReader<ChildStdout>,
    reversed: bool,
}

impl Process {
    fn start(program: &PathBuf, reversed: bool) -> Process {
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the freshly compiled emulator starts");
        let orders = BufWriter::new(child.stdin.take().expect("piped"));
        let answers = BufReader::new(child.stdout.take().expect("piped"));
        Process { child, orders, answers, reversed }
    }

    fn send(&mut self, bytes: &[u8]) {
        self.orders.write_all(bytes).expect("the emulator runs, or printed its error above");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The emulator may have ended already; nothing is lost by killing it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A buffer in the device's memory.
#[derive(Clone, Copy, Debug)]
pub struct Buffer(u32);

/// Blocks along x and y; z counts the robots.
pub type Grid = [u32; 2];

/// Two emulators that receive the same commands; one runs its threads in reverse order.
pub struct Device {
    processes: [Process; 2],
    buffers: u32,
    launches: u64,
}

impl Device {
    /// An empty device; `None` without a compiler.
    pub fn open() -> Option<Device> {
        let program = program()?;
        let processes = [false, true].map(|reversed| Process::start(program, reversed));
        Some(Device { processes, buffers: 0, launches: 0 })
    }

    fn send(&mut self, bytes: &[u8]) {
        self.processes.iter_mut().for_each(|process| process.send(bytes));
    }

    /// Fresh memory, full of NaN.
    pub fn allocate(&mut self, bytes: usize) -> Buffer {
        self.send(&[b"A".as_slice(), &(bytes as u64).to_le_bytes()].concat());
        self.buffers += 1;
        Buffer(self.buffers - 1)
    }

    /// New memory that contains `data`.
    pub fn hold(&mut self, data: &[u8]) -> Buffer {
        let buffer = self.allocate(data.len());
        self.write(buffer, 0, data);
        buffer
    }

    /// Copies to the device.
    pub fn write(&mut self, buffer: Buffer, at: usize, data: &[u8]) {
        self.send(&header(b'W', buffer, at, data.len()));
        self.send(data);
    }

    /// Writes the address of `to`, plus an offset, into `buffer`.
    pub fn point(&mut self, buffer: Buffer, at: usize, to: Buffer, to_at: usize) {
        let head = [b"P".as_slice(), &buffer.0.to_le_bytes(), &(at as u64).to_le_bytes()].concat();
        self.send(&[head.as_slice(), &to.0.to_le_bytes(), &(to_at as u64).to_le_bytes()].concat());
    }

    /// Launches a kernel.
    pub fn launch(
        &mut self,
        name: &str,
        grid: Grid,
        robots: u32,
        threads: u32,
        brains: Buffer,
        how: [u32; 2],
    ) {
        for process in &mut self.processes {
            let order = u32::from(process.reversed);
            let numbers = [order, grid[0], grid[1], robots, threads, brains.0, how[0], how[1]];
            let numbers: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            let length = (name.len() as u32).to_le_bytes();
            process.send(&[b"L".as_slice(), &length, name.as_bytes(), &numbers].concat());
            // Both run at the same time.
            process.orders.flush().expect("the emulator runs, or printed its error above");
        }
        self.launches += 1;
    }

    /// Copies from the device.
    ///
    /// # Panics
    /// If the two orders of threads do not agree to the last bit.
    pub fn read(&mut self, buffer: Buffer, at: usize, length: usize) -> Vec<u8> {
        self.send(&header(b'R', buffer, at, length));
        let launches = self.launches;
        let [there, back] = self.processes.each_mut().map(|process| {
            process.orders.flush().expect("the emulator runs");
            let mut data = vec![0; length];
            process.answers.read_exact(&mut data).expect("the emulator runs, or printed its error above");
            data
        });
        if let Some(byte) = there.iter().zip(&back).position(|(a, b)| a != b) {
            panic!(
                "{buffer:?} differs between the two orders of threads at byte {byte}, after {launches} launches"
            );
        }
        there
    }

    /// Launches so far.
    pub fn launches(&self) -> u64 {
        self.launches
    }
}

fn header(order: u8, buffer: Buffer, at: usize, length: usize) -> Vec<u8> {
    let mut bytes = vec![order];
    bytes.extend(buffer.0.to_le_bytes());
    bytes.extend((at as u64).to_le_bytes());
    bytes.extend((length as u64).to_le_bytes());
    bytes
}
