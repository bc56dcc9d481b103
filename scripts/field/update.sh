# shellcheck shell=bash
# Rows: updates that succeed, are rolled back, or are refused, on a robot that keeps its power. Sourced by
# scripts/field-test.

TRIAL="ganglion update trial --for 5s"
pid_of_runtime() { g "systemctl show -P MainPID ganglion"; }

# unchanged PID [MODE]: checks that the robot is as it was: the old version, the same process, nothing unfinished.
unchanged() {
    same "the process of the runtime" "$(pid_of_runtime)" "$1"
    whole "$BASE" "${2:-disarmed-again}"
    [ "${2:-}" = armed ] || last none
}

update_good() {
    local start staged
    load robot
    start=$SECONDS
    exits 0 "$(stage good)"
    staged=$SECONDS
    exits 0 "$TRIAL"
    told "stage $((staged - start)) s, trial and commit $((SECONDS - staged)) s (5 s of them the trial's own)"
    whole "$GOOD" disarmed
    last committed "$BASE" "$GOOD"
    exits 0 "test -e /var/lib/ganglion/hold"
}

update_same_again() {
    local pid
    load updated
    pid=$(pid_of_runtime)
    exits 0 "$(stage good)"
    grep -q 'already active' <<< "$SAID" || wrong "it does not say that $GOOD is already active: $(tail -n 1 <<< "$SAID")"
    same "the process of the runtime" "$(pid_of_runtime)" "$pid"
    whole "$GOOD" disarmed
    last committed "$BASE" "$GOOD"
}

# left FOLDER VERSION: checks that a trial of that version ends with a rollback.
left() {
    local start
    load robot
    exits 0 "$(stage "$1")"
    start=$SECONDS
    exits 75 "ganglion update trial --for 15s"
    told "rolled back after $((SECONDS - start)) s: $(value last.why "$(g "ganglion update status --json | tail -n 1")")"
    whole "$BASE" disarmed
    last rolled-back "$BASE" "$2"
}
update_never_ready() { left never-ready "$NEVER_READY"; }
update_dies() { left dies "$DIES"; }
update_postinst_fails() { left postinst "$POSTINST_FAILS"; }

# turned_away FOLDER CODE: checks that staging the folder's package is refused with that code and changes
# nothing.
turned_away() {
    local pid
    load robot
    pid=$(pid_of_runtime)
    refused "$2" "$(stage "$1")"
    told "$(tail -n 1 <<< "$SAID")"
    unchanged "$pid"
    exits 69 "$TRIAL"
    unchanged "$pid"
}
update_tampered() { turned_away tampered 65; }
update_truncated() { turned_away truncated 65; }
update_unsigned() { turned_away unsigned 65; }
update_foreign_key() { turned_away foreign 65; }
update_revoked_key() { turned_away revoked 65; }
update_wrong_board() { turned_away wrong-board 65; }
update_wrong_architecture() { turned_away wrong-architecture 65; }
update_check_fails() { turned_away check-fails 65; }
update_downgrade_refused() { turned_away old 65; }

update_downgrade_allowed() {
    load robot
    exits 0 "$(stage old --allow-downgrade)"
    exits 0 "$TRIAL"
    whole "$OLD" disarmed
    last committed "$BASE" "$OLD"
}

# fill KB: prints a command that fills the disk, including root's reserve, except for that many kilobytes.
fill() {
    echo "free=\$((\$(stat -f -c '%f * %S' /) / 1024)); fallocate -l \$((free - $1))K /var/tmp/filler ||"
    echo "dd if=/dev/zero of=/var/tmp/filler bs=1M status=none; sync"
}

update_disk_full() {
    local pid
    load robot
    pid=$(pid_of_runtime)
    g "$(fill 2000)" || :
    refused 69 "$(stage good)"
    told "$(tail -n 1 <<< "$SAID")"
    unchanged "$pid"
    # There is free space again: leftovers of the failed attempt must not prevent the next one.
    g "rm /var/tmp/filler && sync"
    exits 0 "$(stage good)"
}

# The disk fills while the new version is tried: the rollback must have its reserved space.
update_disk_fills_up() {
    local since
    load robot
    exits 0 "$(stage dies)"
    since=$(console_size)
    g "ganglion update trial --for 15s > /var/tmp/trial.log 2>&1 & " &
    await "$since" 'MARK trial .*trying' || wrong "the trial did not begin"
    g "$(fill 0)" || :
    wait
    settle
    g "rm -f /var/tmp/filler"
    whole "$BASE" disarmed
    last rolled-back "$BASE" "$DIES"
}

update_read_only() {
    local pid
    load robot
    pid=$(pid_of_runtime)
    exits 0 "$(stage good)"
    exits 0 "mount --bind /usr /usr && mount -o remount,ro,bind /usr"
    refused 69 "$TRIAL"
    told "$(tail -n 1 <<< "$SAID")"
    exits 0 "mount -o remount,rw,bind /usr"
    unchanged "$pid"
}

update_armed() {
    local pid
    load robot
    exits 0 "ganglion arm --wait 20s"
    pid=$(pid_of_runtime)
    refused 75 "$(stage good)"
    told "$(tail -n 1 <<< "$SAID")"
    unchanged "$pid" armed
}

# Armed between staging and trial: the trial is refused too.
update_armed_after_staging() {
    local pid
    load robot
    exits 0 "$(stage good)"
    exits 0 "ganglion arm --wait 20s"
    pid=$(pid_of_runtime)
    refused 75 "$TRIAL"
    told "$(tail -n 1 <<< "$SAID")"
    unchanged "$pid" armed
}

update_two_at_once() {
    local since trial
    load robot
    exits 0 "$(stage good)"
    since=$(console_size)
    g "ganglion update trial --for 15s" > "$WORK/logs/first-trial.log" 2>&1 &
    trial=$!
    await "$since" 'MARK trial .*(installing|starting|trying)' || wrong "the first trial did not begin"
    refused 75 "$(stage dies)"
    refused 75 "$TRIAL"
    refused 75 "ganglion update rollback"
    wait "$trial" || wrong "the first trial ended with $?"
    whole "$GOOD" disarmed
    last committed "$BASE" "$GOOD"
}

update_rollback() {
    local start
    load updated
    start=$SECONDS
    exits 0 "ganglion update rollback"
    told "$((SECONDS - start)) s from the decision to the end"
    whole "$BASE" disarmed
    last returned "$GOOD" "$BASE"
}

# Neither a second rollback nor a rollback after a failed trial returns to a version that was rolled back.
update_rollback_does_not_toggle() {
    local pid
    load updated
    exits 0 "ganglion update rollback"
    pid=$(pid_of_runtime)
    refused 69 "ganglion update rollback"
    same "the process of the runtime" "$(pid_of_runtime)" "$pid"
    whole "$BASE" disarmed
    exits 0 "$(stage dies)"
    exits 75 "ganglion update trial --for 15s"
    refused 69 "ganglion update rollback"
    whole "$BASE" disarmed
}

# kill_updater PHASE COMMAND: runs an updating command, kills its process in that phase of the trial, and checks that
# the robot is back at the first version.
kill_updater() {
    local since
    since=$(console_size)
    g "$2" > "$WORK/logs/killed-in-$1.log" 2>&1 &
    await "$since" "MARK trial .*$1" || wrong "'$2' never reached '$1'"
    exits 0 "systemctl kill -s KILL ganglion-update.service"
    wait $! || :
    settle
    whole "$BASE" disarmed
}

# In a first update.
update_killed_in() {
    load robot
    exits 0 "$(stage good)"
    kill_updater "$1" "ganglion update trial --for 30s"
    last rolled-back "$BASE" "$GOOD"
}
update_killed_in_trial() { update_killed_in trying; }
update_killed_in_installation() { update_killed_in installing; }

# In a second update the units that go back are there already, so systemd has not reloaded them.
update_killed_in_second_update() {
    load updated
    kill_updater installing "ganglion update rollback"
    last rolled-back "$GOOD" "$BASE"
}

# The laptop disconnects during the trial: the robot continues.
update_ssh_dropped() {
    local since
    load robot
    exits 0 "$(stage good)"
    since=$(console_size)
    ssh -F "$WORK/ssh_config" -o ControlPath=none robot "ganglion update trial --for 10s" < /dev/null > "$WORK/logs/dropped-trial.log" 2>&1 &
    await "$since" 'MARK trial .*installing' || wrong "the trial did not begin"
    kill -9 $!
    await "$since" 'MARK trial .*trying > MARK trial gone' || wrong "the trial did not end by itself"
    settle
    whole "$GOOD" disarmed
    last committed "$BASE" "$GOOD"
}

row update-good "0.1.0 to 0.2.0: staged, tried, committed, disarmed" update_good
row update-same-again "the running version again: already active, nothing is touched" update_same_again
row update-never-ready "a version that never becomes ready: rolled back" update_never_ready
row update-dies "a version that dies 5 s after it was ready: rolled back" update_dies
row update-postinst "a version whose postinst fails: rolled back" update_postinst_fails
row update-tampered "one byte of the package changed: refused" update_tampered
row update-truncated "half of the package: refused" update_truncated
row update-unsigned "no signature: refused" update_unsigned
row update-foreign-key "signed by a key that the robot does not know: refused" update_foreign_key
row update-revoked-key "signed by a key that was revoked: refused" update_revoked_key
row update-wrong-board "for other boards: refused" update_wrong_board
row update-wrong-architecture "for another processor, according to the control file: refused" update_wrong_architecture
row update-check-fails "a program that refuses this robot's board file: refused" update_check_fails
row update-downgrade-refused "an older version: refused" update_downgrade_refused
row update-downgrade-allowed "an older version with --allow-downgrade: committed" update_downgrade_allowed
row update-disk-full "no space: refused before anything is touched; with space again it works" update_disk_full
row update-disk-fills-up "the disk fills up during the trial: the rollback still has its reserved space" update_disk_fills_up
row update-read-only "a /usr that cannot be written: refused, nothing is touched" update_read_only
row update-armed "an armed robot: refused, it keeps driving" update_armed
row update-armed-later "armed between stage and trial: refused, it keeps driving" update_armed_after_staging
row update-two-at-once "a second stage, trial and rollback during a trial: refused, the first goes on" update_two_at_once
row update-rollback "rollback of a committed version: the previous one runs" update_rollback
row update-no-toggle "a second rollback: refused, never returns to the version that was rolled back" update_rollback_does_not_toggle
row update-killed-trial "the updater killed (SIGKILL) during the trial: rolled back" update_killed_in_trial
row update-killed-dpkg "the updater killed (SIGKILL) during the installation: rolled back" update_killed_in_installation
row update-killed-second "the updater killed (SIGKILL) during a second update, a rollback: the previous version runs" update_killed_in_second_update
row update-ssh-dropped "ssh lost during the trial: committed all the same" update_ssh_dropped
