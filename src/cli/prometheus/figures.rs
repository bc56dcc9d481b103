//! Selects and names the metrics of a status that go onto the page. Uses base units, as Prometheus
//! recommends: seconds, bytes, hertz, watts, ratios; temperatures in degrees Celsius.

use super::page::Page;
use crate::base::plan::Cause;
use crate::decision::mode::Mode;
use crate::drive::io::RecoveryStep;
use crate::drive::record::RecordingStatus;
use crate::hardware::gpu_meter::GpuFigures;
use crate::runtime::control::{
    BusStatus, CYCLE_BOUNDS_US, GuardSummary, LATENESS_BOUNDS_US, LinkStatus, Measured, Status,
};

/// Codes of all modes.
const MODES: std::ops::RangeInclusive<u8> = 0..=6;
/// The guard's states, named as in [`GuardSummary`].
const GUARD_PHASES: [&str; 5] = ["absent", "waiting", "greeted", "trusted", "tripped"];
/// Hertz per megahertz.
const HERTZ: f64 = 1e6;

/// Writes all metrics of `status`.
pub(super) fn write(status: &Status, page: &mut Page) {
    identity(status, page);
    mode(status, page);
    slots(status, page);
    drops(status, page);
    field(&status.measured, page);
    gpu(&status.measured, page);
    parts(&status.measured, page);
    buses(&status.buses, page);
    status.guard.iter().for_each(|summary| guard(summary, page));
    status.measured.link.iter().for_each(|status| link(status, page));
    status.recording.iter().for_each(|status| recording(status, page));
}

fn bit(holds: bool) -> u8 {
    holds.into()
}

fn identity(status: &Status, page: &mut Page) {
    let Status { version, board, board_digest, .. } = status;
    page.gauge("build_info", "Always 1. Version of the running program.").with(&[("version", version)], 1);
    page.gauge("board_info", "Always 1. The board, the digest of its effective values, simulated or not.")
        .with(&[("board", board), ("digest", board_digest), ("simulated", &status.simulated.to_string())], 1);
}

fn mode(status: &Status, page: &mut Page) {
    let mut modes = page.gauge("mode", "1 for the robot's mode, 0 for the others.");
    // The status's own mode comes last, in case this version does not know it. A second sample is dropped.
    for mode in MODES.map(|code| -> &str { Mode::name_of(code) }).chain([status.mode.as_str()]) {
        modes.with(&[("mode", mode)], bit(mode == status.mode));
    }
    let mut causes = page.gauge("cause_active", "1 for each active cause of restraint, 0 for the others.");
    for cause in causes_and(status.causes.iter().map(String::as_str)) {
        causes.with(&[("cause", cause)], bit(status.causes.iter().any(|active| active == cause)));
    }
    let mut latched = page.gauge("cause_latched", "1 for the latched cause, which lasts until disarming.");
    for cause in causes_and(status.latched.as_deref()) {
        latched.with(&[("cause", cause)], bit(status.latched.as_deref() == Some(cause)));
    }
    let mut trips = page.counter("cause_trips_total", "How often each cause of restraint became active.");
    for cause in causes_and(status.measured.trips.keys().map(String::as_str)) {
        trips.with(&[("cause", cause)], status.measured.trips.get(cause).copied().unwrap_or(0));
    }
    page.counter("armings_total", "How often the robot was armed.").value(status.armings);
    page.counter("armings_refused_total", "Requests to arm that were refused.").value(status.arm_refused);
    page.gauge("arming_prevented", "How many reasons prevent arming now.").value(status.refusal.len());
}

/// Every known cause, so that a graph has each one before it first becomes active; then `more`, which may
/// contain causes that only a newer runtime knows.
fn causes_and<'s>(more: impl IntoIterator<Item = &'s str>) -> impl Iterator<Item = &'s str> {
    let known = Cause::ALL.into_iter().map(|cause| -> &'s str { cause.name() });
    known.chain(more)
}

fn slots(status: &Status, page: &mut Page) {
    page.counter("slots_total", "Control periods that ran.").value(status.slots_run);
    page.counter("slots_missed_total", "Control periods that came due but did not run.")
        .value(status.slots_skipped);
    page.counter("commands_confirmed_total", "Motor commands confirmed on the wire.")
        .value(status.commands_confirmed);
    let Some(late) = &status.measured.lateness else { return };
    page.gauge("slot_period_seconds", "The control period.").value(late.limit_us / 1e6);
    let about =
        ("slot_lateness_seconds", "From the scheduled start of a control period to the start of its work.");
    page.histogram(about, &LATENESS_BOUNDS_US, &late.counts, late.sum_us);
}

fn drops(status: &Status, page: &mut Page) {
    page.counter("edge_storms_total", "How often the input lines had too many edges to read each.")
        .value(status.edge_storms);
    let mut drops = page.counter("dropped_total", "Data that was dropped or lost, by kind.");
    drops.with(&[("kind", "slot_record")], status.records_dropped);
    drops.with(&[("kind", "reading")], status.readings_dropped);
    drops.with(&[("kind", "edge")], status.edges_dropped);
    if let Some(recording) = &status.recording {
        drops.with(&[("kind", "recording_overrun")], recording.overrun);
        drops.with(&[("kind", "recording_unwritten")], recording.unwritten);
        drops.with(&[("kind", "recording_checkpoint")], recording.checkpoints_left_out);
    }
}

fn field(measured: &Measured, page: &mut Page) {
    page.counter("engine_failovers_total", "How often the field's engine panicked or lost its GPU or brain.")
        .value(measured.failovers);
    if let Some(quality) = &measured.quality {
        page.gauge("quality_level", "Quality level of the field's next cycle; 0 is the best.")
            .value(quality.level);
        page.gauge("quality_level_lowest", "The lowest quality that the board allows.").value(quality.lowest);
    }
    if let Some(times) = &measured.cycle_times {
        let about = ("field_cycle_seconds", "Compute time of the answered cycles of the field.");
        page.histogram(about, &CYCLE_BOUNDS_US, &times.counts, times.sum_us);
    }
    if let Some(answer) = &measured.answer {
        page.gauge("field_answer_age_seconds", "Age of the field's newest answer.")
            .value(answer.age_ms / 1e3);
        page.gauge("field_confidence_ratio", "How well the field predicts its sensors, 0 to 1.")
            .value(answer.confidence);
        page.gauge(
            "field_novelty_ratio",
            "How unlike all stored experiences the present situation is; 0: a similar one is stored.",
        )
        .value(answer.novelty);
    }
}

fn gpu(measured: &Measured, page: &mut Page) {
    if let Some(gpu) = &measured.gpu {
        page.gauge("gpu_computes", "Whether a GPU computes the field now.").value(bit(gpu.computes));
    }
    let Some(GpuFigures { temperature_celsius, clock_mhz, memory_clock_mhz, power_watts, power_rail, load }) =
        &measured.gpu_figures
    else {
        return;
    };
    let mut gauge = |name: &str, help: &str, value: Option<f64>| {
        value.into_iter().for_each(|value| page.gauge(name, help).value(value));
    };
    gauge("gpu_temperature_celsius", "Temperature of the GPU.", temperature_celsius.map(exact));
    gauge("gpu_clock_hertz", "Clock of the GPU's multiprocessors.", clock_mhz.map(|mhz| exact(mhz) * HERTZ));
    let memory = memory_clock_mhz.map(|mhz| exact(mhz) * HERTZ);
    gauge("gpu_memory_clock_hertz", "Clock of the GPU's memory.", memory);
    gauge("gpu_load_ratio", "Share of the time in which the GPU was busy, 0 to 1.", load.map(exact));
    if let Some(watts) = power_watts {
        let rail = power_rail.as_deref().unwrap_or_default();
        page.gauge("gpu_power_watts", "Power of the card, or of the supply rail that also feeds the GPU.")
            .with(&[("rail", rail)], watts);
    }
}

/// The shortest decimal number for `value`: 0.1, not 0.10000000149.
fn exact(value: f32) -> f64 {
    value.to_string().parse().unwrap_or(f64::from(value))
}

fn parts(measured: &Measured, page: &mut Page) {
    let mut temperatures = page.gauge("temperature_celsius", "Temperature, by sensor with a good value.");
    for (sensor, celsius) in &measured.temperatures {
        celsius.iter().for_each(|celsius| temperatures.with(&[("sensor", sensor)], celsius));
    }
    let mut ages = page.gauge("sensor_age_seconds", "Age of each sensor's newest admitted value.");
    for sensor in &measured.sensors {
        sensor.age_ms.iter().for_each(|ms| ages.with(&[("sensor", &sensor.name)], ms / 1e3));
    }
    let mut good = page.gauge("sensor_good", "Whether each sensor's value is credible.");
    measured.sensors.iter().for_each(|s| good.with(&[("sensor", &s.name)], bit(s.health == "good")));
    let mut refused =
        page.counter("sensor_readings_refused_total", "Readings of each sensor that were refused.");
    measured.sensors.iter().for_each(|s| refused.with(&[("sensor", &s.name)], s.refused));
    let mut values = page.gauge("sensor_value", "Newest admitted value of each sensor, in its board's unit.");
    for sensor in &measured.sensors {
        let labels = [("sensor", sensor.name.as_str()), ("unit", sensor.unit.as_str())];
        sensor.value.iter().for_each(|value| values.with(&labels, value));
    }
    let mut motors = page.gauge("motor_command_ratio", "Command of each motor after all limits, -1 to 1.");
    measured.motors.iter().for_each(|motor| motors.with(&[("motor", &motor.name)], motor.command));
}

fn buses(buses: &[BusStatus], page: &mut Page) {
    type Count = fn(&BusStatus) -> u64;
    let counters: [(&str, &str, Count); 7] = [
        ("bus_failures_total", "Transfers that failed.", |bus| bus.failures),
        ("bus_retries_total", "Transfers that were retried.", |bus| bus.retries),
        ("bus_set_ups_total", "How often the bus's devices were set up.", |bus| bus.set_ups),
        ("bus_commands_expired_total", "Motor commands that expired unwritten.", |bus| bus.expired),
        ("bus_stops_repeated_total", "Stop commands repeated until confirmed.", |bus| bus.stops_again),
        ("bus_halts_total", "How often the motors were stopped without the control loop.", |bus| bus.halts),
        ("bus_cuts_total", "How often a line stopped the motors of a hung bus.", |bus| bus.cuts),
    ];
    for (name, help, count) in counters {
        let mut counter = page.counter(name, help);
        buses.iter().for_each(|bus| counter.with(&[("bus", &bus.name)], count(bus)));
    }
    let mut lost = page.gauge("bus_devices_lost", "Devices on each bus that return no values.");
    buses.iter().for_each(|bus| lost.with(&[("bus", &bus.name)], bus.lost.len()));
    let mut steps = page.counter("bus_recoveries_total", "Recovery steps taken on each bus.");
    for bus in buses {
        // Steps that were never taken are included as 0, so that the first use of a step shows as an
        // increase.
        let known = RecoveryStep::ALL.into_iter().map(|step| -> &str { step.name() });
        for step in known.chain(bus.recovery.keys().map(String::as_str)) {
            let taken = bus.recovery.get(step).copied().unwrap_or(0);
            steps.with(&[("bus", &bus.name), ("step", step)], taken);
        }
    }
}

fn guard(guard: &GuardSummary, page: &mut Page) {
    let mut phases = page.gauge("guard_phase", "1 for the guard's state, 0 for the others.");
    for phase in GUARD_PHASES.into_iter().chain([guard.phase.as_str()]) {
        phases.with(&[("phase", phase)], bit(phase == guard.phase));
    }
    page.gauge("guard_required", "Whether the robot refuses to drive without its guard.")
        .value(bit(guard.required));
    page.gauge("guard_line_on", "Whether the guard lets the motors run.").value(bit(guard.line_on));
    page.counter("guard_trips_total", "How often the guard switched its line off.").value(guard.trips);
    page.counter("guard_connections_total", "Connections made to the guard.").value(guard.connections);
}

fn link(LinkStatus { stood_in, counters, .. }: &LinkStatus, page: &mut Page) {
    page.gauge("link_local_field", "Whether a field on this machine computes in place of the brain.")
        .value(bit(*stood_in));
    page.counter("link_requests_total", "Requests sent to the brain.").value(counters.asked);
    let mut failed = page.counter("link_failures_total", "Failed cycles and messages, by reason.");
    let reasons = [
        ("missed", counters.missed),
        ("late", counters.late),
        ("refused", counters.refused),
        ("unserved", counters.unserved),
    ];
    reasons.into_iter().for_each(|(reason, count)| failed.with(&[("reason", reason)], count));
    page.counter("link_connections_total", "Connections to the tether's process.")
        .value(counters.connections);
    page.counter("link_takeovers_total", "How often the field on this machine took over.")
        .value(counters.takeovers);
    page.counter("link_returns_total", "How often the brain took over again.").value(counters.returns);
}

fn recording(recording: &RecordingStatus, page: &mut Page) {
    page.gauge("recording_writing", "Whether slots are written to a file now.").value(bit(recording.writing));
    page.gauge("recording_ended", "Whether nothing more is recorded in this run.")
        .value(bit(recording.ended));
    page.counter("recording_slots_total", "Slots written to recordings.").value(recording.slots);
    page.counter("recording_bytes_total", "Bytes written to recordings.").value(recording.bytes);
    page.counter("recording_files_total", "Recordings begun.").value(recording.files);
    page.counter("recording_files_removed_total", "Older recordings deleted to keep within the limit.")
        .value(recording.removed);
    page.counter("recording_failures_total", "How often writing to the recording failed.")
        .value(recording.failures);
    page.counter("recording_cpu_seconds_total", "Processor time of the thread that writes recordings.")
        .value(recording.processor_us as f64 / 1e6);
}
