# shellcheck shell=bash
# Watches an update on a robot, and reconnects after a dropped ssh connection: the robot continues on its own.
# Used by scripts/flash (a trial) and scripts/rollback. The caller defines `progress TEXT` (what happens now)
# and `event TEXT` (a line that stays).

# Attempts to reconnect to a robot, and the pause between them in seconds: about three minutes in all, with ssh's
# own timeout.
TRIES=10
PAUSE_S=10
# Seconds between two queries of a running update.
LOOK_S=3

# Maximum number of lines shown per robot; a trial has about ten.
LINES_SHOWN=200
# The copy of the proven program that an update keeps: it works even if the installed program does not.
RESCUE=/var/lib/ganglion-update/rescue

# read_status FILE: reads the robot's status, the last line of FILE, into J.
read_status() { read_json "$(tail -n 1 "$1" | tr -d '\0')" && [ "${J[schema]-}" = 1 ]; }

# ask_status HOST: reads `ganglion update status` into J; ANSWERED is the program that answered. Returns 0
# with an answer, 1 without one; CODE and WHY then say why.
ask_status() {
    local host=$1 rc=0
    for ANSWERED in ganglion $RESCUE; do
        rc=0
        update_command "$ANSWERED" 'status --json'
        call 30 "$host" "$COMMAND" < /dev/null || rc=$?
        if is_cut "$rc"; then
            ssh_failed "$host"
            return 1
        fi
        read_status "$OWN/out" && return 0
    done
    said "$OWN/err"
    CODE=69 WHY="'ganglion update status' gives no answer there: ${SAID:-exit code $rc}"
    return 1
}

# The robot's record of finished updates, which changes with each one.
remembered() {
    local key text=''
    for key in last.phase last.from last.to last.why; do text+="${J[$key]-}|"; done
    for key in "${!J[@]}"; do
        case $key in history.*) text+="$key=${J[$key]}|" ;; esac
    done
    REMEMBERED=$(printf %s "$text" | sha256sum)
}

# wait_for_end HOST LIMIT_S RC: waits until the robot reports no unfinished update; RC is the exit code of
# `watch`, which already has that report if nothing broke. Returns 0 with the robot's last answer in J, or 1;
# CODE and WHY then say why.
wait_for_end() {
    local host=$1 until=$((SECONDS + $2)) tries=0
    ! is_cut "$3" && read_status "$OWN/status" && [ -z "${J[unfinished.phase]-}" ] && return 0
    while :; do
        if ask_status "$host"; then
            [ -n "${J[unfinished.phase]-}" ] || return 0
            clean "${J[unfinished.phase]}" 20
            progress "the robot goes on by itself: $CLEAN"
            tries=0
            if [ $SECONDS -ge $until ]; then
                CODE=69 WHY="still $CLEAN after $2 s; the robot goes on by itself; check later: ganglion update status"
                return 1
            fi
            sleep $LOOK_S
            continue
        fi
        [ "$CODE" != 77 ] || return 1
        tries=$((tries + 1))
        if [ $tries -ge $TRIES ]; then
            WHY="$WHY ($tries attempts); the robot goes on by itself; check later: ganglion update status"
            return 1
        fi
        progress "no answer, attempt $tries of $TRIES; the robot goes on by itself"
        sleep $PAUSE_S
    done
}

# watch HOST SECONDS PROGRAM WORDS: runs an update there and then asks for the status, which goes to $OWN/status;
# each other line becomes an event. Returns the update's exit code.
watch() {
    local host=$1 limit=$2 line rc=0 lines=0
    update_command "$3" "$4" "timeout 30 ${AS_ROOT}ganglion update status --json 2> /dev/null | tail -n 1"
    : > "$OWN/status"
    {
        timeout --foreground "$limit" "${SSH[@]}" -- "$host" "$COMMAND" < /dev/null 2> >(head -c 65536 > "$OWN/err")
        echo $? > "$OWN/rc"
    } | dd bs=4096 count=4096 2> /dev/null | while IFS= read -r line || [ -n "$line" ]; do # head would buffer lines
        clean "$line" 160
        lines=$((lines + 1))
        case $CLEAN in
        '') continue ;;
        '{'*) printf '%s\n' "$line" > "$OWN/status" && continue ;;
        esac
        [ $lines -gt $LINES_SHOWN ] || event "$CLEAN"
    done
    rc=$(cat "$OWN/rc")
    return "$rc"
}
