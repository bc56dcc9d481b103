//! Pages of made-up runs: their size, and what they show of the last status.

use super::*;
use crate::base::plan::Board;
use crate::base::time::Instant;
use crate::cli::drive_log::source::Run;
use crate::deploy::board::built_in;
use crate::drive::record::{End, ProcessMessage, Slot, full, image};
use crate::field::slices::SlicesMessage;
use crate::hardware::gpu_meter::GpuFigures;
use crate::runtime::control::{Sources, Status};
use crate::system::rt::ProcessUsage;
use data_encoding::BASE64;
use std::collections::BTreeMap;

/// The simulated car, with a period of 10 ms.
fn board() -> Board {
    built_in("sim").expect("it is shipped").expect("it is accepted").board
}

/// A slot with a value of every sensor and motor, and with more events than a robot has.
fn slot(board: &Board, index: u64) -> Slot {
    let full = full(index);
    let frame = vec![full.frame[0]; board.sensors.len()];
    Slot { frame, motors: vec![0.5; board.motors.len()], ..full }
}

/// What the files of a run say, apart from its slots.
fn run_of_one_file() -> Run {
    let (words, ended) = (BTreeMap::new(), BTreeMap::new());
    Run { words, board: String::new(), ended, end: End::Whole, files: 1 }
}

/// The page of a run.
fn page(drive: Drive) -> String {
    page::html(&drive.end(&run_of_one_file()))
}

/// The page of a run of `seconds` with everything that a recording can hold.
fn page_of_seconds(seconds: u64) -> String {
    let board = board();
    let mut drive = Drive::new(&board);
    let slices = SlicesMessage {
        cycle: 1,
        channels: [1, 2, 3, 4],
        planes: [0; 4],
        range: [-1.0, 1.0],
        width: 64,
        height: 64,
        data: BASE64.encode(&[128; 64 * 64]),
    };
    let slices = serde_json::to_vec(&image(Instant::ZERO, slices)).unwrap();
    let status = serde_json::to_vec(&with_heat()).unwrap();
    let usage =
        ProcessUsage { resident_kib: Some(1), locked_kib: Some(1), threads: Some(1), open_files: Some(1) };
    for index in 0..100 * seconds {
        let slot = slot(&board, index);
        drive.take(&slot);
        if index % 50 == 0 {
            drive.take_slices(slot.slot.as_nanos(), &slices);
        }
        if index % 100 == 0 {
            drive.take_status(&status);
            drive.take_process(&ProcessMessage { usage, slots_unrecorded: 0 });
        }
    }
    page(drive)
}

/// Ten minutes at 100 Hz may take this much of a page: less than mail programs refuse, and read at once from
/// any disk.
const MOST_BYTES: usize = 10_000_000;
const TEN_MINUTES: u64 = 600;

#[test]
fn a_page_of_ten_minutes_takes_less_than_ten_megabytes() {
    let ten = page_of_seconds(TEN_MINUTES).len();
    assert!(ten < MOST_BYTES, "{ten} bytes, {} per second of the run", ten as u64 / TEN_MINUTES);
    assert!(ten > MOST_BYTES / 10, "a page with little in it proves nothing: {ten} bytes");
    // Twice the slots need as many points, and lists are full: only figures in the text become longer.
    let twenty = page_of_seconds(2 * TEN_MINUTES).len();
    assert!(twenty < ten + ten / 20, "{ten} bytes for ten minutes, {twenty} for twenty");
}

/// A status with temperatures and the figures of a GPU.
fn with_heat() -> Status {
    let mut status = Sources::idle().status();
    status.measured.temperatures = [("cpu".to_string(), Some(48.5)), ("off".to_string(), None)].into();
    status.measured.gpu_figures = Some(GpuFigures {
        temperature_celsius: Some(61.25),
        clock_mhz: Some(1300.0),
        power_watts: Some(7.5),
        load: Some(0.25),
        ..GpuFigures::default()
    });
    status
}

/// The page of a second with these statuses, one after the other.
fn page_of_statuses(statuses: &[Status]) -> String {
    let board = board();
    let mut drive = Drive::new(&board);
    drive.take(&slot(&board, 0));
    for (number, status) in (1..).zip(statuses) {
        drive.take_status(&serde_json::to_vec(status).unwrap());
        drive.take(&slot(&board, number));
    }
    page(drive)
}

#[test]
fn temperatures_and_gpu_figures_of_the_last_status_are_shown() {
    let mut earlier = with_heat();
    earlier.measured.temperatures.insert("cpu".to_string(), Some(99.0));
    let shown = page_of_statuses(&[earlier, with_heat()]);
    let figures = "<dt>GPU figures</dt><dd>25 % busy, 1300 MHz, 61.2 degC, 7.5 W</dd>";
    assert!(shown.contains(figures), "no memory clock, as the GPU reports none");
    assert!(shown.contains("<dt>temperatures</dt><dd>cpu 48.5 degC, off without a value</dd>"));
    assert!(shown.contains("{\"name\":\"GPU, by its own report\""), "a curve over time");
}

#[test]
fn what_no_status_measured_is_absent_from_the_page() {
    let shown = page_of_statuses(&[Sources::idle().status()]);
    assert!(shown.contains("<dt>records dropped</dt>"), "the status is shown");
    for absent in ["GPU figures", "<dt>temperatures</dt>", "degC", "GPU, by its own report"] {
        assert!(!shown.contains(absent), "{absent}");
    }
}

#[test]
fn a_temperature_that_is_no_longer_reported_has_a_gap() {
    let board = board();
    let mut drive = Drive::new(&board);
    let mut gone = with_heat();
    gone.measured.gpu_figures = None;
    for (number, status) in (1..).zip([with_heat(), gone]) {
        drive.take_status(&serde_json::to_vec(&status).unwrap());
        drive.take(&slot(&board, number));
    }
    let shown = drive.end(&run_of_one_file());
    let plot = shown.plots.iter().find(|plot| plot.title == "temperatures").expect("a plot");
    let (_, curve) = plot.series.iter().find(|(name, _)| name.starts_with("GPU")).expect("its curve");
    let values = shown.curves.values(*curve);
    assert!(values[0] == 61.25 && values[1].is_nan(), "{values:?}");
}
