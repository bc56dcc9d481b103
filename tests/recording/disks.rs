//! Disks that are full or hang, and a recorder thread that panics: the robot drives as it does without a
//! recording, and missing records are counted.

use super::*;

/// A disk with this much free space; writes beyond it fail.
fn small(room: usize, files: &Files) -> Opener {
    struct Small(Box<dyn Medium>, Arc<AtomicU64>);
    impl Write for Small {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let wanted = bytes.len() as u64;
            match self.1.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |room| room.checked_sub(wanted)) {
                Ok(_) => self.0.write(bytes),
                Err(_) => Err(io::ErrorKind::StorageFull.into()),
            }
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    impl Medium for Small {
        fn sync(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let (room, mut open) = (Arc::new(AtomicU64::new(room as u64)), files.opener());
    Box::new(move |path| Ok(Box::new(Small(open(path)?, room.clone()))))
}

/// A disk on which no write completes before `free` is set.
fn hanging(free: Arc<AtomicBool>, files: &Files) -> Opener {
    struct Hanging(Box<dyn Medium>, Arc<AtomicBool>);
    impl Write for Hanging {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            while !self.1.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            self.0.write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    impl Medium for Hanging {
        fn sync(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut open = files.opener();
    Box::new(move |path| Ok(Box::new(Hanging(open(path)?, free.clone()))))
}

#[test]
fn a_full_disk_loses_records_but_no_slots() {
    let (board, files) = (sim_board(), Files::default());
    let full = plan(&board, When::Always, small(400_000, &files));
    let (run, status) = record(&board, full, true, 1, &[], 60);
    assert!(run > 6_000, "{run} slots");
    assert_eq!(status.slots + status.lost(), run, "{status:?}");
    assert!(status.unwritten > 0 && status.failures > 0, "{status:?}");
    assert!(status.last_failure.is_some_and(|words| words.contains("space")));
    // What was written before is readable and can be replayed.
    let bytes = files.0.lock().unwrap()[0].clone();
    let slots = steps_in(&bytes);
    assert!(slots.len() as u64 >= status.slots && !slots.is_empty(), "{} slots", slots.len());
    assert_eq!(first_failure(&slots), None);
}

#[test]
fn a_hanging_disk_loses_records_but_no_slots() {
    let (board, files, free) = (sim_board(), Files::default(), Arc::new(AtomicBool::new(false)));
    let folder = Folder::new("recordings-hangs");
    let stalled = in_folder(&folder, &board, hanging(free.clone(), &files));
    // `false`: as in real time, the run does not wait for the disk.
    let (recording, sender) = Recording::start(stalled, false).expect("a thread");
    let run = run_recorded(&board, Options { recording: Some(sender), ..Options::default() }, 60);
    assert!(run > 6_000, "{run} slots");
    free.store(true, Ordering::Relaxed);
    let status = recording.end(LONG);
    assert!(status.overrun > 1_000, "{status:?}");
    assert_eq!(status.slots + status.lost(), run, "{status:?}");
    let missing = first_failure(&files.steps());
    assert!(
        missing.is_none() || matches!(missing, Some(Replayed::Missing(Missing::Slots { .. }))),
        "{missing:?}"
    );
}

/// A longer queue would let the memory of a simulated run depend on how busy the machine is.
#[test]
fn a_run_that_waits_for_its_disk_queues_few_slots() {
    let (board, files, free) = (sim_board(), Files::default(), Arc::new(AtomicBool::new(false)));
    let folder = Folder::new("recordings-waits");
    let stalled = in_folder(&folder, &board, hanging(free.clone(), &files));
    let (recording, sender) = Recording::start(stalled, true).expect("a thread");
    let slots = Arc::new(AtomicU64::new(0));
    let counter = slots.clone();
    let run = std::thread::spawn(move || {
        let options = Options { recording: Some(sender), ..Options::default() };
        run_watched(&board, options, 20, || _ = counter.fetch_add(1, Ordering::Relaxed))
    });
    while slots.load(Ordering::Relaxed) < 20 && !run.is_finished() {
        std::thread::sleep(Duration::from_millis(1));
    }
    // Long enough for hundreds of slots, if nothing holds the run.
    std::thread::sleep(Duration::from_millis(500));
    let held = slots.load(Ordering::Relaxed);
    free.store(true, Ordering::Relaxed);
    let ran = run.join().expect("it ends");
    let status = recording.end(LONG);
    // The queue, what the writing thread has taken from it, and the slot that waits.
    assert!(held <= 70, "{held} slots ran");
    assert_eq!((status.slots, status.lost()), (ran, 0), "{status:?}");
}

#[test]
fn a_dead_recorder_thread_loses_records_but_no_slots() {
    let (board, folder) = (sim_board(), Folder::new("recordings-dies"));
    let dead: Opener = Box::new(|_| panic!("a bug in the writer"));
    let (run, status) = record(&board, in_folder(&folder, &board, dead), false, 1, &[], 20);
    assert!(run > 2_000, "{run} slots");
    assert!(status.ended && !status.writing && status.slots == 0, "{status:?}");
    assert_eq!(status.lost(), run, "including the records in the queue: {status:?}");
}
