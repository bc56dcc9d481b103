# shellcheck shell=bash
# Rows: the power fails during an update or a rollback. Sourced by scripts/field-test.
#
# Each row begins with the same robot (0.1.0, set up, running, disarmed; for a rollback 0.2.0, committed),
# cuts the power a number of seconds after a console line appears, switches it on again and checks which
# version runs. With PATTERN2, the power is cut again during the boot that follows.

# power_cut NAME OPERATION PATTERN SECONDS VERSION MODE LAST [PATTERN2 SECONDS2]
#   OPERATION  copy      the laptop copies the package (no update has begun)
#              stage     only staged, not tried
#              good      staged, tried, committed if nothing interrupts it
#              bad       a version that dies 5 s after it was ready, so that the robot rolls back
#              rollback  requested by a person
#   PATTERN    expected on the console; several separated by " > " must appear one after the other; now: do not wait
#   VERSION    must run after the cut: old, new, or word (the cut comes while the result of the update is being written, so
#              the version must match the result that `update status` then reports)
#   LAST       how `update status` says the last update ended; any: not checked
power_cut() {
    CUT_WHERE[$1]=$3 CUT_AGAIN[$1]=${8-} CUT_AGAIN_AFTER[$1]=${9-}
    CUT_FIELDS[$1]="$2|$4|$5|$6|$7"
    row "cut-$1" "power cut in '$2', $4 s after '$3'${8:+, again at the boot $9 s after '$8'}" "run_cut $1"
}
declare -A CUT_WHERE CUT_AGAIN CUT_AGAIN_AFTER CUT_FIELDS

# Runs in the background, because the laptop's side of the connection dies with the robot.
begin() {
    local log=$WORK/logs/operation.log
    case $1 in
        copy) guest copy "$PARCEL/good/"* /var/tmp < /dev/null > "$log" 2>&1 & ;;
        stage) g "echo MARK begin > /dev/ttyS0; $(stage good)" > "$log" 2>&1 & ;;
        good) g "echo MARK begin > /dev/ttyS0; $(stage good) && ganglion update trial --for 8s" > "$log" 2>&1 & ;;
        bad) g "echo MARK begin > /dev/ttyS0; $(stage dies) && ganglion update trial --for 20s" > "$log" 2>&1 & ;;
        rollback) g "echo MARK begin > /dev/ttyS0; ganglion update rollback" > "$log" 2>&1 & ;;
    esac
    OPERATION=$!
}

# power_off: cuts the power; the last MARK and update lines of the console go to the row's log.
power_off() {
    guest cut
    echo "--- power cut; the console before it:"
    grep -aE 'MARK|update:' "$WORK/console" | tail -n 12 || true
}

run_cut() {
    local operation delay version mode last since from=$BASE to=$GOOD expected
    IFS='|' read -r operation delay version mode last <<< "${CUT_FIELDS[$1]}"
    case $operation in
        rollback) load updated; from=$GOOD to=$BASE ;;
        bad) load robot; to=$DIES ;;
        *) load robot ;;
    esac
    since=$(console_size)
    begin "$operation"
    if [ "${CUT_WHERE[$1]}" != now ]; then await "$since" "${CUT_WHERE[$1]}" || wrong "'${CUT_WHERE[$1]}' never appeared"; fi
    sleep "$delay"
    power_off
    wait "$OPERATION" 2> /dev/null || true
    if [ -n "${CUT_AGAIN[$1]}" ]; then
        # Runs in the background: the power is cut before the guest answers.
        "$ROOT/scripts/field-guest" up > "$WORK/logs/repair.log" 2>&1 8>&- &
        OPERATION=$!
        sleep 1
        await 0 "${CUT_AGAIN[$1]}" || wrong "'${CUT_AGAIN[$1]}' never appeared in the boot that repairs"
        sleep "${CUT_AGAIN_AFTER[$1]}"
        kill "$OPERATION" 2> /dev/null || true
        power_off
    fi
    guest up || wrong "the robot did not come back"
    settle
    case $version in
        old) expected=$from ;;
        new) expected=$to ;;
        word) expected=$(version_of_word "$from" "$to") ;;
    esac
    echo "must run: $expected"
    whole "$expected" "$mode"
    [ "$last" = any ] || last "$last" "$from" "$to"
    told "$expected runs, READY $(fact ready) s after the power; $(value last.why "$(fact update)")"
}

version_of_word() {
    local update
    update=$(g "ganglion update status --json | tail -n 1")
    case $(value last.phase "$update") in
        committed | returned) echo "$2" ;;
        *) echo "$1" ;;
    esac
}

AT_TRIAL='MARK trial .*'
# While the package is copied no update has begun, so the board's own arming setting applies. These rows are
# the control for the others: a robot with this board arms when it is switched on, unless the hold forbids it.
power_cut copy-begin copy now 0.5 old armed none
power_cut copy-middle copy now 2 old armed none
# Staging: signature, check, the copy into the robot's own folder. The robot itself does not change yet, so
# its board's setting applies.
power_cut stage-begin stage 'MARK begin' 0.3 old armed none
power_cut stage-verify stage 'MARK begin' 1.2 old armed none
power_cut stage-copy stage 'MARK packages .*0\.2\.0' 0 old armed none
power_cut stage-end stage 'MARK staged' 0 old armed none
power_cut staged stage 'MARK staged' 3 old armed none
# Cuts while the safety net (the copy of the proven program and the rollback units) and the marker are written.
power_cut net good 'MARK staged' 0.8 old any any
power_cut prepared good "${AT_TRIAL}prepared" 0 old disarmed rolled-back
power_cut prepared-later good "${AT_TRIAL}prepared" 0.4 old disarmed rolled-back
power_cut installing good "${AT_TRIAL}installing" 0 old disarmed rolled-back
power_cut installing-later good "${AT_TRIAL}installing" 0.5 old disarmed rolled-back
# Cuts during the steps of dpkg.
power_cut prerm good 'MARK prerm' 0 old disarmed rolled-back
power_cut preinst good 'MARK preinst' 0 old disarmed rolled-back
power_cut unpack-1 good 'MARK preinst' 0.3 old disarmed rolled-back
power_cut unpack-2 good 'MARK preinst' 0.6 old disarmed rolled-back
power_cut unpack-3 good 'MARK preinst' 0.9 old disarmed rolled-back
power_cut unpack-4 good 'MARK preinst' 1.3 old disarmed rolled-back
power_cut postrm good 'MARK postrm' 0 old disarmed rolled-back
power_cut postrm-later good 'MARK postrm' 0.2 old disarmed rolled-back
power_cut postinst good 'MARK postinst' 0 old disarmed rolled-back
power_cut postinst-later good 'MARK postinst' 0.6 old disarmed rolled-back
power_cut installed good 'MARK postinst' 1.5 old disarmed rolled-back
# Cuts while the new version starts and is tried.
power_cut starting good "${AT_TRIAL}starting" 0 old disarmed rolled-back
power_cut starting-later good "${AT_TRIAL}starting" 1.5 old disarmed rolled-back
power_cut trying good "${AT_TRIAL}trying" 0 old disarmed rolled-back
power_cut trying-middle good "${AT_TRIAL}trying" 2 old disarmed rolled-back
power_cut trying-end good "${AT_TRIAL}trying" 5 old disarmed rolled-back
# Cuts at the commit.
power_cut commit good 'MARK (trial|last) .*committed' 0 word disarmed 'committed|rolled-back'
power_cut commit-later good 'MARK (trial|last) .*committed' 0.5 new disarmed committed
power_cut committed good 'MARK trial gone' 0 new disarmed committed
power_cut committed-later good 'MARK trial gone' 2 new disarmed committed
# Cuts during the rollback from a version that failed.
power_cut back bad "${AT_TRIAL}back" 0 old disarmed rolled-back
power_cut back-stop bad "${AT_TRIAL}back" 0.6 old disarmed rolled-back
power_cut back-unpack bad "${AT_TRIAL}back > MARK preinst" 0.5 old disarmed rolled-back
power_cut back-postinst bad "${AT_TRIAL}back > MARK postinst" 0 old disarmed rolled-back
power_cut back-start bad "${AT_TRIAL}back > MARK postinst" 2 old disarmed rolled-back
# Cuts during a rollback that a person requested: once it has begun, the robot must end with the previous version.
power_cut rollback-installing rollback "${AT_TRIAL}installing" 0.2 new disarmed 'returned|rolled-back'
power_cut rollback-unpack rollback 'MARK preinst' 0.6 new disarmed 'returned|rolled-back'
power_cut rollback-trying rollback "${AT_TRIAL}trying" 0.5 new disarmed 'returned|rolled-back'
# The power is cut again during the boot that does the repair.
power_cut boot-begin good 'MARK preinst' 0.6 old disarmed rolled-back 'MARK trial' 0
power_cut boot-repair good "${AT_TRIAL}trying" 1 old disarmed rolled-back 'MARK trial .*tries\W+1|MARK preinst' 0
power_cut boot-unpack good "${AT_TRIAL}trying" 0 old disarmed rolled-back 'MARK preinst' 0.6
power_cut boot-postinst good 'MARK postrm' 0.2 old disarmed rolled-back 'MARK postinst' 0
