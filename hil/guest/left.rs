//! A stopped guard leaves the controller in reset, through a line that no process holds any more but that the
//! kernel keeps driving. The row then inspects the robot, as a person does after a failed start.

use super::bench::Bench;
use super::course::RowContext;
use super::process::run;
use super::scene;
use super::trouble::MCU;
use super::verdict::RowResult;
use super::wire::Command;
use ganglion::base::time::Span;
use rustix::process::Signal;
use std::io;

/// A guard that got SIGTERM ends within this time.
const END: Span = Span::from_millis(5_000);

/// Runs the row.
pub fn in_reset(place: &mut RowContext<'_>) -> io::Result<RowResult> {
    let mut outcome = RowResult::default();
    let bench = &mut *place.bench;
    bench.renew(5)?;
    std::fs::create_dir_all("/run/ganglion-guard")?;
    let begun = bench.now();
    let mut guard = scene::start_guard(bench, place.board, place.folder)?;
    let held = said(&["probe", "--board", place.board], &mut outcome)?;
    outcome.demand(held.contains("may be held in reset") && held.contains("ganglion-guard"), || {
        format!("probe while a guard runs says: {}", scene::tail(&held))
    });
    let battery =
        ["calibrate", "adc", "battery", "--reference", "7.8", "--samples", "20", "--board", place.board];
    let (code, refused) = run("ganglion", &battery)?;
    outcome.demand(code != Some(0) && refused.contains("ganglion-guard"), || {
        format!("calibrate while a guard runs ended with {code:?}: {}", scene::tail(&refused))
    });
    in_reset_after("calibrate while a guard runs", bench, &mut outcome);
    stop(&mut guard, &mut outcome)?;
    in_reset_after("the guard was stopped", bench, &mut outcome);
    let address = format!("0x{MCU:02x}  Robot HAT\n");
    let answers = format!("{MCU:#04x} on motors: Robot HAT answers");
    let verbs: [(&[&str], &str); 4] = [
        (&["probe", "--board", place.board], &address),
        (&["doctor", "--board", place.board, "--test"], &answers),
        (&battery, "20 samples, 0 lost"),
        (
            &["calibrate", "servo", "steering", "--offset", "2", "--board", place.board],
            "steering: straight is",
        ),
    ];
    for (words, wanted) in verbs {
        let said = said(words, &mut outcome)?;
        outcome.demand(said.contains(wanted), || format!("{} says: {}", words[0], scene::tail(&said)));
        in_reset_after(words[0], bench, &mut outcome);
    }
    // Where the kernel releases the line, the pull-up ends the reset, and `probe` must not begin a new one.
    let mut guard = scene::start_guard(bench, place.board, place.folder)?;
    bench.send(&[Command::Persist(false)])?;
    stop(&mut guard, &mut outcome)?;
    bench.wait(Span::from_millis(300));
    let loose = said(&["probe", "--board", place.board], &mut outcome)?;
    outcome.demand(loose.contains(&address), || format!("probe without a guard: {}", scene::tail(&loose)));
    outcome.demand(!bench.seen(|record| record.is_in_reset()), || "probe left a floating line low".into());
    let moved = bench.seen(|record| record.moved_between(begun, bench.now()));
    outcome.demand(moved.is_none(), || "a motor ran".into());
    scene::frames(bench, &mut outcome);
    Ok(outcome)
}

fn said(words: &[&str], outcome: &mut RowResult) -> io::Result<String> {
    let (code, said) = run("ganglion", words)?;
    // `doctor` also judges the machine, which is not tested here.
    outcome.demand(code == Some(0) || words[0] == "doctor", || {
        format!("{} ended with {code:?}: {}", words[0], scene::tail(&said))
    });
    Ok(said)
}

fn stop(guard: &mut super::process::Process, outcome: &mut RowResult) -> io::Result<()> {
    guard.signal(Signal::TERM)?;
    let status = guard.end(END)?;
    outcome
        .demand(status.is_some_and(|status| status.success()), || format!("the guard ended with {status:?}"));
    Ok(())
}

fn in_reset_after(what: &str, bench: &Bench, outcome: &mut RowResult) {
    let held = bench.seen(|record| record.is_in_reset());
    outcome.demand(held, || format!("the controller is not in reset after: {what}"));
}
