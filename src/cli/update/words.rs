//! Sentences about an update: refusals, phases, reasons, lines of the history.

use crate::cli::exit::Failure;
use crate::deploy::update::history::{Entry, Event};
use crate::deploy::update::{Ended, Phase, UpdateError, Why};

/// The failure for an error, with what to do about it.
pub(in crate::cli) fn failure(error: &UpdateError) -> Failure {
    match error {
        UpdateError::NotRoot => Failure::permission("only root may update this robot").fix("use sudo"),
        UpdateError::NotSetUp(path) => {
            Failure::config("this robot is not set up for updates: a file is missing")
                .at(path.display())
                .fix("run 'sudo ganglion setup'")
        }
        UpdateError::Busy => {
            Failure::not_now("another update is in progress").fix("see 'ganglion update status'")
        }
        UpdateError::Unfinished(marker) => {
            let what = format!(
                "the update from {} to {} is unfinished: {}",
                marker.from,
                marker.to,
                phase(marker.phase)
            );
            Failure::not_now(what).fix("wait for it, or end it with 'sudo ganglion update rollback'")
        }
        UpdateError::Damaged(path, why) => {
            Failure::data(format!("not a valid package: {why}")).at(path.display()).fix("copy it again")
        }
        UpdateError::Signature(path, why) => {
            Failure::data(format!("no valid signature by a key that this robot trusts: {why}"))
                .at(path.display())
                .fix("sign it with a key in /etc/ganglion/allowed_signers that is not revoked")
        }
        UpdateError::OtherPackage(name) => Failure::data(format!("the package is '{name}', not 'ganglion'")),
        UpdateError::OtherArchitecture { found, wanted } => {
            Failure::data(format!("the package is for {found}; this robot is {wanted}"))
        }
        UpdateError::OtherBoard { robot, package } => {
            let (robot, package) = (robot.join(", "), package.join(", "));
            Failure::data(format!("the robot's board is based on {robot}; the package supports {package}"))
        }
        UpdateError::BoardRefused(words) => {
            Failure::data(format!("the new program rejects this robot's board file: {words}"))
        }
        UpdateError::Downgrade { from, to } => {
            Failure::data(format!("{to} is older than the installed {from}"))
                .fix("use --allow-downgrade to accept it")
        }
        UpdateError::SameVersion(version) => {
            Failure::data(format!("{version} is installed, and this is another package of that version"))
                .fix("give each build its own version")
        }
        UpdateError::Space { place, needed, free } => {
            let mb = |bytes: u64| bytes.div_ceil(1_000_000);
            Failure::unavailable(format!("{} MB are needed, {} MB are free", mb(*needed), mb(*free)))
                .at(place.display())
                .fix("free some disk space")
        }
        UpdateError::ReadOnly(place) => Failure::unavailable("mounted read-only")
            .at(place.display())
            .fix("mount it writable, or update the image that it is part of"),
        UpdateError::Armed => Failure::not_now("the robot is armed").fix("run 'ganglion disarm' first"),
        UpdateError::Moving(words) => {
            Failure::unavailable(format!("the motors did not confirm their stop: {words}"))
        }
        UpdateError::NothingStaged => {
            Failure::unavailable("nothing is staged").fix("run 'sudo ganglion update stage PACKAGE' first")
        }
        UpdateError::NoWayBack(version) => Failure::config(format!(
            "the package of the installed {version} is not kept, so there would be no way back"
        ))
        .fix("keep that package: 'sudo ganglion update keep PACKAGE'"),
        UpdateError::NothingBefore => Failure::unavailable("there is no version to return to").fix(
            "'ganglion update status' shows what is kept; stage an older package with --allow-downgrade",
        ),
        UpdateError::File(path, error) => Failure::file(path, error),
        UpdateError::Command(error) => Failure::unavailable(error),
    }
}

/// The result of a trial or a rollback, as the result of this command.
pub(super) fn outcome(end: &Ended) -> Result<(), Failure> {
    match end.phase {
        Phase::BothBad => {
            Err(Failure::bug(ended(end)).fix("look at 'journalctl -b -u ganglion'; the motors are stopped"))
        }
        Phase::RolledBack => Err(Failure::not_now(ended(end)).fix("look at 'journalctl -b -u ganglion'")),
        _ => Ok(()),
    }
}

/// How the update ended, as a sentence.
pub(super) fn ended(ended: &Ended) -> String {
    reported(ended.phase, &ended.from, &ended.to, &ended.why.as_ref().map(why).unwrap_or_default())
}

/// Like [`ended`], from its parts.
pub(super) fn reported(phase: Phase, from: &str, to: &str, why: &str) -> String {
    let because = if why.is_empty() { String::new() } else { format!(": {why}") };
    match phase {
        Phase::Committed => format!("{from} to {to}: committed"),
        Phase::Returned => format!("{from} to {to}: returned{because}"),
        Phase::RolledBack => format!("{from} to {to}: rolled back{because}"),
        Phase::BothBad => format!("{from} to {to}: neither version runs{because}"),
        unfinished => format!("{from} to {to}: {}", self::phase(unfinished)),
    }
}

/// A phase.
pub(super) fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Prepared => "the way back is prepared",
        Phase::Installing => "installing",
        Phase::Starting => "starting",
        Phase::Trying => "ready; on trial",
        Phase::Back => "going back",
        Phase::Committed => "committed",
        Phase::Returned => "returned",
        Phase::RolledBack => "rolled back",
        Phase::BothBad => "neither version runs",
    }
}

/// A reason, as a clause.
pub(super) fn why(why: &Why) -> String {
    match why {
        Why::Asked => "a person requested it".to_string(),
        Why::PowerLost(phase) => format!("power lost in phase '{}'", self::phase(*phase)),
        Why::UpdaterDied => "the program that ran the update died".to_string(),
        Why::CrashLoop(times) => format!("it died {times} times in a row soon after its start"),
        Why::NotInstalled(words) => format!("it could not be installed: {words}"),
        Why::NotWhole => "its files differ from the package".to_string(),
        Why::NotReady(result) => format!("it did not become ready ({result})"),
        Why::Died(result) => format!("it died during the trial ({result})"),
        Why::OtherProgram => "the running program is not the installed one".to_string(),
        Why::NoAnswer => "it does not answer".to_string(),
        Why::Armed => "it was armed during the trial".to_string(),
        Why::GuardLost => "its guard is not running".to_string(),
        Why::Cause(cause) => {
            format!(
                "it reports '{cause}', which prevents driving and which the previous version did not report"
            )
        }
        Why::Slow { key, target_ms, found_ms } => {
            format!("{key} is {target_ms} ms, measured {found_ms:.1} ms")
        }
        Why::Failed(words) => words.clone(),
    }
}

/// A line of the history.
pub(super) fn entry(entry: &Entry) -> String {
    format!("{} {:8.1} s  {}", entry.boot, entry.uptime_s, event(&entry.event))
}

/// What happened.
pub(super) fn event(event: &Event) -> String {
    match event {
        Event::Kept(version) => format!("kept {version}"),
        Event::Staged(version) => format!("staged {version}"),
        Event::Entered(phase) => self::phase(*phase).to_string(),
        Event::Found { phase, installed, attempt } => {
            format!(
                "found at boot in phase '{}', with {installed}; attempt {attempt} to go back",
                self::phase(*phase)
            )
        }
        Event::GoingBack { goal, why } => format!("going back to {goal}: {}", self::why(why)),
        Event::Whole(version) => format!("{version} is complete; nothing has to be installed"),
        Event::Refused(words) => format!("refused: {words}"),
        Event::Ended { phase, from, to } => reported(*phase, from, to, ""),
    }
}
