# shellcheck shell=bash
# What scripts/flash does to one robot: copy, stage, trial. Runs as a separate process; it reports through `event`
# and `progress` and leaves its result in $OWN/result. Needs connection.sh and follow.sh.

# A copy that makes no progress for this long is ended and resumed from where it stopped.
STALLED_S=60

# What the robot's shell runs; none of these scripts contains a quote, because they are sent between quotes.
# shellcheck disable=SC2016 # expanded there
{
# where FOLDER NAME DIGEST: prints `whole`, or how many bytes have been copied and their SHA-256.
REMOTE_WHERE='umask 077; mkdir -p "$HOME/.cache/ganglion-flash/$1" && cd "$HOME/.cache/ganglion-flash/$1" || exit 73
find .. -mindepth 1 -maxdepth 1 -mtime +7 ! -name "$1" ! -name lock -exec rm -rf {} + 2> /dev/null
if [ -f "$2" ] && [ "$(sha256sum < "$2" | cut -c 1-64)" = "$3" ]; then echo whole; exit 0; fi
[ -f "$2.part" ] || : > "$2.part" || exit 73
echo "$(stat -c %s "$2.part") $(sha256sum < "$2.part" | cut -c 1-64)"'

# copy FOLDER NAME OFFSET SIZE: appends standard input. The lock is held only during the copy, and a copy whose
# sender has vanished ends after 20 s. Exit codes: 73 not written, 74 cut short, 75 another copy is running.
# Nothing is synced: a copy that a power cut damages is recognised by its digest.
REMOTE_COPY='umask 077; cd "$HOME/.cache/ganglion-flash/$1" || exit 73
exec 9>> ../lock; flock -n 9 || exit 75
[ "$3" != 0 ] || : > "$2.part" || exit 73
[ "$(stat -c %s "$2.part")" = "$3" ] || exit 74
exec 3<&0
cat >> "$2.part" <&3 9>&- & writer=$!
( before=; still=0
while sleep 5; do
    now=$(stat -c %s "$2.part")
    if [ "$now" = "$before" ]; then still=$((still + 1)); else still=0; fi
    before=$now
    [ $still -lt 4 ] || kill $writer
done ) < /dev/null > /dev/null 2>&1 3<&- 9>&- & watch=$!
wait $writer; rc=$?
kill $watch
[ $rc -lt 128 ] || exit 74
[ $rc = 0 ] || exit 73
[ "$(stat -c %s "$2.part")" = "$4" ] || exit 74
mv "$2.part" "$2" || exit 73'

# stage FOLDER NAME DIGEST SIGNATURE AS_ROOT DOWNGRADE: the signature goes beside the package; the robot verifies it,
# which reads the whole copy. Only if that fails, the digest shows whether the copy is at fault: exit code 74. The
# robot's status before the trial follows as the last line.
REMOTE_STAGE='umask 077; cd "$HOME/.cache/ganglion-flash/$1" || exit 73
printf %s "$4" | base64 -d > "$2.sig" || exit 73
$5 ganglion update stage "$PWD/$2" $6; rc=$?
[ $rc != 65 ] || [ "$(sha256sum < "$2" | cut -c 1-64)" = "$3" ] || rc=74
case $rc in 0 | 65 | 74) cd ..; rm -rf "./$1" ;; esac
[ $rc != 0 ] || timeout 30 $5 ganglion update status --json 2> /dev/null | tail -n 1
exit $rc'
}

# remote SCRIPT WORD...: sets COMMAND to run one of the scripts above on the robot. Each word must be safe
# for the robot's shell.
remote() {
    local LC_ALL=C script=$1 word harmless='^[A-Za-z0-9._+~=/ -]*$'
    shift
    COMMAND="sh -c '$script' sh"
    for word; do
        [[ $word =~ $harmless ]] || fail 70 "an argument for the robot's shell contains a forbidden character"
        COMMAND+=" '$word'"
    done
}

# ends CODE WORD WHY: writes the robot's result and ends the process.
ends() {
    printf '%s\n%s\n%s\n%s %s %s\n' "$1" "$2" "$3" "${TOOK[copy]:--}" "${TOOK[stage]:--}" "${TOOK[trial]:--}" > "$OWN/result"
    exit 0
}

# took PHASE SINCE
took() { TOOK[$1]=$((SECONDS - $2)); }

flash_robot() {
    set +m
    SENDER=''
    trap '[ -z "$SENDER" ] || kill -TERM -- "-$SENDER"; exit 143' TERM
    HOST=${HOSTS[$1]} OWN=$WORK/$1 INDEX=$1 AS_ROOT=''
    [ "${F[$1.rights]}" = root ] || AS_ROOT='sudo -n '
    FOLDER=${DIGEST:0:32} NAME=ganglion_${VERSION}_$ARCHITECTURE.deb
    declare -gA TOOK=()
    copy_package
    stage_package
    try_package
}

# ---- copy

copy_package() {
    local start=$SECONDS tries=0 rc before=0
    REACHED=0 # bytes copied at the last check
    while :; do
        rc=0
        copy_rest || rc=$?
        # Counts attempts in a row that made no progress.
        [ $REACHED -le $before ] || tries=0
        before=$REACHED
        case $rc in
        0) break ;;
        73) said "$OWN/err" && ends 69 failed "the copy cannot be written there: ${SAID:-no space, or a read-only disk}" ;;
        77) ends 77 failed "$WHY" ;;
        *)
            tries=$((tries + 1))
            if [ $tries -ge $TRIES ]; then
                [ $rc != 75 ] || ends 75 failed 'another flash is copying to this robot'
                ends 69 unreachable "the connection broke $tries times in a row while copying; the next flash resumes the copy"
            fi
            progress "connection lost while copying; attempt $tries of $TRIES"
            sleep $((rc == 75 || tries > 2 ? PAUSE_S : 2))
            ;;
        esac
    done
    took copy $start
}

# Makes one attempt; returns 0 if the whole package has been copied, otherwise the robot's exit code, or 255.
copy_rest() {
    local rc=0 offset digest mine start rate
    remote "$REMOTE_WHERE" "$FOLDER" "$NAME" "$DIGEST"
    call 90 "$HOST" "$COMMAND" < /dev/null || rc=$?
    if [ $rc != 0 ]; then
        ! is_cut $rc || ssh_failed "$HOST"
        [ "${CODE-}" != 77 ] || rc=77
        return $rc
    fi
    read -r offset digest < "$OWN/out" || offset=0
    if [ "$offset" = whole ]; then
        event copy 'the package is there already'
        return 0
    fi
    [[ $offset =~ ^[0-9]{1,12}$ ]] && [ "$offset" -lt "$SIZE" ] || offset=0
    REACHED=$offset
    if [ "$offset" != 0 ]; then
        read -r mine _ < <(head -c "$offset" -- "$PACKAGE" | sha256sum)
        if [ "$mine" = "$digest" ]; then
            event copy "resuming an earlier copy at $((offset * 100 / SIZE)) %"
        else
            event copy 'what an earlier copy left is not the beginning of this package; starting over'
            offset=0
        fi
    fi
    start=$SECONDS
    send_rest "$offset" || return $?
    rate=$((SECONDS - start))
    amount $(((SIZE - offset) / 1024))
    event copy "copied $AMOUNT in $rate s"
}

# send_rest OFFSET: pipes the rest of the package to the robot and reports progress.
send_rest() {
    local offset=$1 start=$SECONDS sent=0 quarter=$(($1 * 4 / SIZE)) now before=0 moved=$SECONDS
    remote "$REMOTE_COPY" "$FOLDER" "$NAME" "$offset" "$SIZE"
    rm -f "$OWN/rc"
    set -m # a separate process group, so that a stalled copy can be ended
    {
        LC_ALL=C dd if="$PACKAGE" bs=64K iflag=skip_bytes skip="$offset" status=progress 2> "$OWN/dd" |
            call 86400 "$HOST" "$COMMAND"
        echo "${PIPESTATUS[1]}" > "$OWN/rc"
    } &
    SENDER=$!
    set +m
    while kill -0 "$SENDER" 2> /dev/null && [ ! -e "$OWN/rc" ]; do
        sleep 0.2
        # dd writes its count repeatedly on one line; only the last one counts.
        now=$(tail -c 120 "$OWN/dd" 2> /dev/null | tr '\r' '\n' | tail -n 1)
        now=${now%% *}
        [[ $now =~ ^[0-9]{1,12}$ ]] && sent=$now
        if [ "$sent" != "$before" ]; then
            before=$sent moved=$SECONDS
            progress_of_copy $((offset + sent)) "$sent" $((SECONDS - start))
            if [ $(((offset + sent) * 4 / SIZE)) -gt "$quarter" ] && [ $((offset + sent)) -lt "$SIZE" ]; then
                quarter=$(((offset + sent) * 4 / SIZE))
                [ -n "$LIVE" ] || event copy "$SAYS"
            fi
        elif [ $((SECONDS - moved)) -ge $STALLED_S ] && [ "$sent" != 0 ]; then
            kill -TERM -- "-$SENDER"
            break
        fi
    done
    wait "$SENDER" 2> /dev/null
    SENDER=''
    now=$(cat "$OWN/rc" 2> /dev/null || echo 255)
    return "$now"
}

# progress_of_copy DONE SENT SECONDS
progress_of_copy() {
    local rate=0 left=''
    [ "$3" -eq 0 ] || rate=$(($2 / $3))
    [ "$rate" -eq 0 ] || left=", $((($SIZE - $1) / rate)) s left"
    SAYS="copying: $(($1 * 100 / SIZE)) %, $((rate / 1000000)).$((rate / 100000 % 10)) MB/s$left"
    progress "$SAYS" -
}

# ---- stage

stage_package() {
    local start=$SECONDS rc=0 tries=0 damaged=0 answer
    progress 'staging: the robot verifies signature, board and space'
    while :; do
        rc=0
        remote "$REMOTE_STAGE" "$FOLDER" "$NAME" "$DIGEST" "$SIGNATURE" "${AS_ROOT% }" "$DOWNGRADE"
        call 300 "$HOST" "$COMMAND" < /dev/null || rc=$?
        if [ $rc = 74 ]; then
            damaged=$((damaged + 1))
            [ $damaged -lt 2 ] || ends 69 failed 'the copy had a wrong SHA-256 twice; is the disk of the robot failing?'
            event copy 'the copy has another SHA-256 than the package; copying again from the beginning'
            copy_package
            continue
        fi
        is_cut $rc || break
        # Staging twice is harmless; an interrupted attempt may have removed the copy after staging it.
        tries=$((tries + 1))
        ssh_failed "$HOST"
        [ $CODE != 77 ] && [ $tries -lt $TRIES ] || ends "$CODE" unreachable "$WHY"
        progress "no answer while staging, attempt $tries of $TRIES"
        sleep $PAUSE_S
        copy_package
    done
    if [ $rc != 0 ]; then
        said "$OWN/err"
        case $rc in 65 | 69 | 75 | 77) ;; *) SAID="${SAID:-exit code $rc}" rc=69 ;; esac
        ends $rc refused "the robot refuses the package: ${SAID:-exit code $rc}"
    fi
    took stage $start
    answer=$(head -c 2000 "$OWN/out" | tr -d '\0')
    case ${answer%%\{*} in
    *'already active'*) ends 0 active 'already active' ;;
    esac
    event stage "staged in ${TOOK[stage]} s: signature, board and space are good"
}

# ---- trial

try_package() {
    local start=$SECONDS rc=0 before
    read_status "$OWN/out" || ask_status "$HOST" || ends "$CODE" unreachable "$WHY; staged, not tried"
    remembered
    before=$REMEMBERED
    progress "trying $VERSION for $TRIAL"
    watch "$HOST" $((TRIAL_S + 600)) ganglion "trial --for $TRIAL" || rc=$?
    said "$OWN/err"
    if is_cut $rc; then
        event trial 'connection lost; the robot goes on by itself'
        progress 'connection lost; the robot goes on by itself'
        sleep 1
    fi
    if ! wait_for_end "$HOST" $((TRIAL_S + 600)) $rc; then
        took trial $start
        [ $rc != 0 ] || ends 0 committed "committed; afterwards: $WHY"
        ends "$CODE" unreachable "$WHY"
    fi
    took trial $start
    remembered
    judge_trial "$rc" "$before"
}

# judge_trial EXIT_CODE BEFORE: J has the robot's present record of updates, BEFORE is the digest of the one before the trial.
judge_trial() {
    local rc=$1 before=$2 why phase=${J[last.phase]-}
    clean "${J[last.why]-}"
    why=$CLEAN
    if [ "${J[installed]-}" = "$VERSION" ] && [ "$phase" = committed ] && [ "${J[last.to]-}" = "$VERSION" ]; then
        ends 0 committed ''
    elif [ "$REMEMBERED" = "$before" ]; then
        is_cut "$rc" && ends 69 unreachable 'the connection broke before the trial began; the package is staged: flash again'
        case $rc in 65 | 69 | 75 | 77) ;; *) SAID="${SAID:-exit code $rc}" rc=75 ;; esac
        ends "$rc" refused "the robot does not try it: ${SAID:-exit code $rc}"
    elif [ "$phase" = both-bad ]; then
        ends 75 both-bad "neither $VERSION nor the previous version works: motors stopped; run scripts/support-bundle $HOST"
    else
        clean "${J[installed]:-an unknown version}" 60
        ends 75 rolled-back "${why:-no reason given}; $CLEAN runs"
    fi
}
