//! A long run needs no more memory, files or threads at its end than at its start. No due slot is missing, no
//! record is lost, and a service manager never waits too long for a keep-alive. Everything but the
//! keep-alives is judged from the run's own recording and report.
//!
//! `cargo test` drives for three virtual minutes and six real seconds; `scripts/full-check soak` for eight
//! virtual hours and one real hour.

use crate::cli::{Running, err, out, output};
use crate::folder::Folder;
use crate::long;
use ganglion::drive::record::{Event, PROCESS_TOPIC, ProcessMessage, Reader, Slot, numbered};
use ganglion::system::rt::ProcessUsage;
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufReader, ErrorKind};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

/// Control period of the board `sim`.
const PERIOD_NS: u64 = 10_000_000;
/// Seconds until memory has settled: queues have been filled, code has been loaded. A run shorter than twice
/// this says nothing about memory.
const SETTLED_S: usize = 60;
/// Memory settles only with this file of a recording. The field is first copied for the second file, into a
/// buffer that was not in use before; and glibc maps the first large block for itself, but keeps the second
/// one in its heap when it is freed (`M_MMAP_THRESHOLD` in mallopt(3)). At 16^3 both are 1.5 MB.
const SETTLED_FILE: usize = 3;
/// Allowed growth of resident memory after that, because an allocator reuses pages in no fixed order. Over
/// eight hours a leak of one byte per slot would be 2.8 MiB.
const GROWTH_KIB: u64 = 1_024;
/// The desk robot, without the rules about its battery: the pack would be empty after an hour, and a robot
/// that stands still exercises little.
const BOARD: &str = "\
inherits = \"sim\"
[[reflex]]
name = \"battery-low\"
remove = true
[[reflex]]
name = \"battery-empty\"
remove = true
";
/// Minimum distance driven per second on average, in metres: half of the average of the first minutes.
const PACE_M: f64 = 0.05;
/// The shipped unit's `WatchdogSec`, in microseconds.
const WATCHDOG_US: u64 = 2_000_000;

/// A run's resource usage, from its recording.
#[derive(Default)]
struct Soak {
    slots: u64,
    /// Slots that were due but did not run.
    skipped: u64,
    usage: Vec<ProcessUsage>,
    /// Number of the messages above before memory had settled.
    unsettled: usize,
    unrecorded: u64,
    /// What is wrong.
    faults: Vec<String>,
}

impl Soak {
    /// Reads the recording of one run in `folder`.
    fn of(folder: &Path) -> Soak {
        let mut soak = Soak::default();
        let (mut first, mut last): (Option<Slot>, Option<Slot>) = (None, None);
        for (nth, (_, file)) in numbered(folder).expect("the folder can be read").into_iter().enumerate() {
            if nth + 1 == SETTLED_FILE {
                soak.unsettled = soak.usage.len();
            }
            let mut reader = Reader::new(BufReader::new(File::open(file).unwrap()));
            while let Some(event) = reader.next_event().expect("the recording is intact") {
                match event {
                    Event::Step(step) => {
                        soak.slot(first.as_ref(), last.as_ref(), &step.slot);
                        first.get_or_insert_with(|| step.slot.clone());
                        last = Some(step.slot);
                    }
                    Event::Message { topic, json, .. } if topic == PROCESS_TOPIC => {
                        let message: ProcessMessage = serde_json::from_slice(&json).unwrap();
                        soak.usage.push(message.usage);
                        soak.unrecorded = message.slots_unrecorded;
                    }
                    _ => {}
                }
            }
        }
        soak.judge();
        soak
    }

    /// Checks that every slot since `last` ran or was counted as skipped, and that `slot` is on the grid that
    /// `first` began.
    fn slot(&mut self, first: Option<&Slot>, last: Option<&Slot>, slot: &Slot) {
        self.slots += 1;
        let (Some(first), Some(last)) = (first, last) else { return };
        self.skipped += slot.lost;
        let (since_first, index) = (slot.slot.since(first.slot).as_nanos(), slot.index - first.index);
        if since_first != index * PERIOD_NS {
            self.faults.push(format!("slot {} is {since_first} ns after the first", slot.index));
        }
        if slot.index != last.index + 1 + slot.lost {
            self.faults.push(format!("slot {} follows {}, {} lost", slot.index, last.index, slot.lost));
        }
    }

    fn judge(&mut self) {
        let count = self.usage.len();
        let has_settled = count >= 2 * SETTLED_S;
        let first = if has_settled { self.unsettled + SETTLED_S } else { count / 3 };
        let part = count.saturating_sub(first) / 4;
        if part == 0 {
            return self.faults.push(format!("{count} messages of {PROCESS_TOPIC}"));
        }
        let (early, late) = (&self.usage[first..first + part], &self.usage[count - part..]);
        let median = |part: &[ProcessUsage], value: fn(&ProcessUsage) -> Option<u64>| {
            let mut values: Vec<Option<u64>> = part.iter().map(value).collect();
            values.sort_unstable();
            values[values.len() / 2]
        };
        let resident = [early, late].map(|part| median(part, |usage| usage.resident_kib));
        let files = [early, late].map(|part| median(part, |usage| usage.open_files));
        let threads = [early, late].map(|part| median(part, |usage| usage.threads));
        println!("{} slots; KiB {resident:?}, files {files:?}, threads {threads:?}", self.slots);
        match resident {
            [Some(_), Some(_)] if !has_settled => {}
            [Some(early), Some(late)] if late <= early + GROWTH_KIB => {}
            grown => self.faults.push(format!("memory, KiB: {grown:?}")),
        }
        for (what, counts) in [("open files", files), ("threads", threads)] {
            if counts[0].is_none() || counts[0] != counts[1] {
                self.faults.push(format!("{what}: {counts:?}"));
            }
        }
        if self.unrecorded > 0 {
            self.faults.push(format!("{} slots are not in the recording", self.unrecorded));
        }
    }
}

/// The numbers of slots run and skipped, from the report of a run of `seconds`; fails if the run ended badly
/// or the robot drove too little.
fn ran_and_skipped(ended: &Output, seconds: u64) -> (u64, u64) {
    assert_eq!(ended.status.code(), Some(0), "{}", err(ended));
    let report: Value =
        serde_json::from_str(out(ended).lines().last().expect("a report")).expect("an object");
    let driven = report["distance_m"].as_f64();
    assert!(driven > Some(seconds as f64 * PACE_M), "{driven:?} m driven");
    let [ran, skipped] = ["slots_run", "slots_skipped"].map(|key| report[key].as_u64().expect("a count"));
    (ran, skipped)
}

#[test]
fn hours_in_virtual_time_need_no_more_than_minutes() {
    let seconds = long::or_in_full(180, 8 * 3600);
    let folder = Folder::inside(env!("CARGO_TARGET_TMPDIR"), "soak-virtual");
    let (record, snapshot) = (folder.path("recordings/"), folder.path("brain"));
    fs::create_dir_all(&record).unwrap();
    let (length, board) = (format!("{seconds}s"), folder.write("desk.toml", BOARD));
    let run = ["run", "--board", &board, "--clock", "sim", "--for", &length, "--record", &record];
    let ended = output(&[&run[..], &["--record-limit", "16384", "--snapshot", &snapshot, "--json"]].concat());
    let soak = Soak::of(Path::new(&record));
    assert_eq!(soak.faults, Vec::<String>::new());
    assert_eq!(ran_and_skipped(&ended, seconds), (soak.slots, 0), "every slot ran, and is recorded");
    assert!(soak.slots >= seconds * 100, "{} slots", soak.slots);
}

#[test]
fn an_hour_in_real_time_never_starves_the_watchdog() {
    let seconds = long::or_in_full(6, 3600);
    let folder = Folder::inside(env!("CARGO_TARGET_TMPDIR"), "soak-real");
    let (record, socket) = (folder.path("recordings/"), folder.path("notify"));
    fs::create_dir_all(&record).unwrap();
    let manager = UnixDatagram::bind(&socket).unwrap();
    // Without real-time priority a busy machine may keep the loop waiting for seconds.
    manager.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let (length, board, control) =
        (format!("{seconds}s"), folder.write("desk.toml", BOARD), folder.path("control"));
    let run = ["run", "--board", &board, "--arm", "--for", &length, "--control", &control, "--json"];
    let run = [&run[..], &["--record", &record, "--record-when", "always"]].concat();
    let runtime = Running::start(&run, |command| {
        command.env("NOTIFY_SOCKET", &socket).env("WATCHDOG_USEC", WATCHDOG_US.to_string());
        command.stderr(Stdio::null());
    });
    let (mut beats, mut longest, mut last) = (0, Duration::ZERO, None::<Instant>);
    loop {
        let mut text = [0; 4096];
        let length = match manager.recv(&mut text) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            heard => heard.expect("a keep-alive, or the end of the run"),
        };
        let said = String::from_utf8_lossy(&text[..length]);
        if said.starts_with("WATCHDOG=1") {
            let now = Instant::now();
            longest = longest.max(last.map_or(Duration::ZERO, |last| now - last));
            (beats, last) = (beats + 1, Some(now));
        }
        if said.starts_with("STOPPING=1") {
            break;
        }
    }
    let ended = runtime.finish();
    println!("{beats} keep-alives, at most {longest:?} apart");
    // In a short run alongside other tests, a machine may pause for longer than a service's unit allows.
    let most = long::or_in_full(Duration::from_secs(60), Duration::from_micros(WATCHDOG_US));
    assert!(beats >= seconds / 2 && longest <= most, "{beats} keep-alives, at most {longest:?} apart");
    let soak = Soak::of(Path::new(&record));
    assert_eq!(soak.faults, Vec::<String>::new());
    assert_eq!(
        ran_and_skipped(&ended, seconds),
        (soak.slots, soak.skipped),
        "every slot that ran is recorded"
    );
    assert!(soak.slots + soak.skipped >= seconds * 100, "slots run + skipped = elapsed / period");
}

/// The faults found in a run of 200 messages, where `each` gives a message's KiB, open files and threads.
fn faults_of(each: impl Fn(u64) -> (u64, u64, u64)) -> Vec<String> {
    faults_after(0, each)
}

/// The same, if memory had not settled before the message number `unsettled`.
fn faults_after(unsettled: usize, each: impl Fn(u64) -> (u64, u64, u64)) -> Vec<String> {
    let usage = (0..200).map(|message| {
        let (kib, files, threads) = each(message);
        ProcessUsage {
            resident_kib: Some(kib),
            locked_kib: Some(0),
            open_files: Some(files),
            threads: Some(threads),
        }
    });
    let mut soak = Soak { usage: usage.collect(), unsettled, ..Soak::default() };
    soak.judge();
    soak.faults
}

#[test]
fn a_leak_of_memory_files_or_threads_is_found() {
    assert_eq!(faults_of(|_| (60_000, 30, 9)), Vec::<String>::new());
    assert_eq!(faults_of(|message| (60_000 + message % 500, 30, 9)), Vec::<String>::new(), "noise");
    assert_eq!(faults_of(|message| (60_000 + message * 20, 30, 9)).len(), 1, "memory");
    let once = |message| (if message < 100 { 60_000 } else { 65_000 }, 30, 9);
    assert_eq!((faults_of(once).len(), faults_after(60, once).len()), (1, 0), "growth before it had settled");
    assert_eq!(faults_after(60, |message| (60_000 + message * 20, 30, 9)).len(), 1, "growth after it had");
    assert_eq!(faults_of(|message| (60_000, 30 + message / 90, 9)).len(), 1, "files");
    assert_eq!(faults_of(|message| (60_000, 30, 9 + message / 90)).len(), 1, "threads");
}
