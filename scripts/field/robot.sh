# shellcheck shell=bash
# A robot in the guest: how it is prepared, how a row reaches it, and what must hold after each row. Sourced
# by scripts/field-test.

STATE=/var/lib/ganglion-update
# Where the parcel with the packages is mounted in the guest.
PARCEL_AT=/mnt/parcel

# --- reaching the robot

# An emulator or connection that outlives this run must not inherit its lock (file descriptor 8).
guest() { "$ROOT/scripts/field-guest" "$@" 8>&-; }

# g COMMAND: runs it in the guest; its output goes to the row's log, unless the caller captures it.
g() { guest ssh "$@" < /dev/null; }

# wrong WORDS: the row failed, for this reason.
wrong() {
    echo "$*" > "$WHY.wrong"
    exit 1
}

# told WORDS: the text that a row prints beside its name if it passes.
told() { echo "$*" > "$WHY"; }

# exits CODE COMMAND: the command in the guest must exit with that code. Its output is in $SAID.
exits() {
    local expected=$1 code=0
    shift
    SAID=$(g "$@" 2>&1) || code=$?
    printf '$ %s\n%s\n[exit %s]\n' "$*" "$SAID" "$code"
    [ "$code" = "$expected" ] || wrong "'$*' ended with $code instead of $expected: $(tail -n 1 <<< "$SAID")"
}

# refused CODE COMMAND: the command must exit with that code and print a reason, not a panic.
refused() {
    exits "$@"
    [ -n "$SAID" ] || wrong "'${*:2}' was refused without a word"
    ! grep -qE 'panicked|RUST_BACKTRACE' <<< "$SAID" || wrong "'${*:2}' panicked"
}

package_at() { ls "$PARCEL/$1"/*.deb | sed "s|^$PARCEL|$PARCEL_AT|"; }
stage() { echo "ganglion update stage $(package_at "$1")${2:+ $2}"; }

# value KEY.KEY JSON: one value of an object; empty if the value is absent or null.
value() {
    python3 - "$1" "$2" << 'PYTHON'
import json, sys
found = json.loads(sys.argv[2].strip().splitlines()[-1])
for key in sys.argv[1].split("."):
    found = found.get(key) if isinstance(found, dict) else None
print("" if found is None else str(found).lower() if isinstance(found, bool) else found)
PYTHON
}

# --- the console, whose lines trigger a power cut

console_size() { stat -c %s "$WORK/console" 2> /dev/null || echo 0; }

# await SINCE PATTERNS [SECONDS]: waits until the console, from byte SINCE on, has matched the patterns one
# after the other; " > " separates them.
await() {
    local since=$1 rest=$2 limit=$((SECONDS + ${3:-600})) pattern found
    while [ -n "$rest" ]; do
        pattern=${rest%% > *}
        if [ "$pattern" = "$rest" ]; then rest=''; else rest=${rest#* > }; fi
        until found=$(tail -c "+$((since + 1))" "$WORK/console" | grep -abm1 -oE "$pattern"); do
            [ $SECONDS -lt $limit ] || { echo "'$pattern' never appeared on the console"; return 1; }
            sleep 0.02
        done
        since=$((since + ${found%%:*} + 1))
    done
}

# --- preparing the robot

# Shows on the console what `ganglion update` writes to its folder, within about 50 ms. It forks nothing, to
# be fast enough on an emulated processor.
watcher() {
    cat << 'WATCHER'
#!/bin/bash
state=/var/lib/ganglion-update
declare -A before
mkdir -p /run/field-watch
[ -p /run/field-watch/clock ] || mkfifo /run/field-watch/clock
exec 9<> /run/field-watch/clock
shopt -s nullglob
while :; do
    for name in trial staged last packages; do
        now=''
        case $name in
            packages) for file in "$state"/packages/*; do now+=" ${file##*/}"; done ;;
            *) [ ! -e "$state/$name" ] || { IFS= read -r -d '' now < "$state/$name"; now=${now//$'\n'/ }; [ -n "$now" ] || now=empty; } ;;
        esac 2> /dev/null
        [ "$now" = "${before[$name]-}" ] || echo "MARK $name ${now:-gone}" > /dev/ttyS0
        before[$name]=$now
    done
    read -r -t 0.04 -u 9
done
WATCHER
}

# Replaces the guard, which needs a GPIO line that the guest does not have, and takes the real-time priority from
# the runtime, which would otherwise starve the emulated processor. The board arms by itself, so that the robot is
# found armed if the hold did not work.
prepare_files() {
    local root=$WORK/robot-files
    rm -rf "$root"
    mkdir -p "$root/etc/systemd/system"/{ganglion,ganglion-guard}.service.d "$root/etc/systemd/system/sysinit.target.wants" \
        "$root/etc/ganglion" "$root/usr/local/sbin"
    # The targets for the cycle time allow for an emulated processor.
    printf 'inherits = "sim"\n\n[safety]\nauto_arm = true\n\n[targets]\ncycle_p50_ms = 9.0\ncycle_p99_ms = 200.0\n' \
        > "$root/etc/ganglion/board.toml"
    cp "$PARCEL/allowed_signers" "$PARCEL/revoked_signers" "$root/etc/ganglion/"
    cat > "$root/etc/systemd/system/ganglion-guard.service.d/50-field.conf" << 'UNIT'
[Service]
ExecStart=
ExecStart=/bin/sleep infinity
UNIT
    cat > "$root/etc/systemd/system/ganglion.service.d/50-field.conf" << 'UNIT'
[Service]
ExecStart=
ExecStart=/usr/bin/ganglion run --board ${GANGLION_BOARD} --for 60000min --control /run/ganglion/control.sock --snapshot %S/ganglion/brain.bin
LimitRTPRIO=0
Nice=10
TimeoutStartSec=120
TimeoutStopSec=30
WatchdogSec=60
UNIT
    watcher > "$root/usr/local/sbin/field-watch"
    chmod 755 "$root/usr/local/sbin/field-watch"
    cat > "$root/etc/systemd/system/field-watch.service" << 'UNIT'
[Unit]
Description=Shows on the console what ganglion update writes
DefaultDependencies=no
After=local-fs.target
[Service]
ExecStart=/usr/local/sbin/field-watch
UNIT
    ln -sf ../field-watch.service "$root/etc/systemd/system/sysinit.target.wants/"
    tar -C "$root" --owner=root --group=root -cf "$PARCEL/robot.tar" .
    rm -rf "$root"
}

# saved NAME: whether a robot of this name was prepared from the same packages, scripts and disk.
saved() { [ "$(cat "$WORK/saved/$1.key" 2> /dev/null)" = "$STATES_KEY" ] && [ -e "$WORK/saved/$1.live" ]; }
keep_as() {
    guest save "$1"
    echo "$STATES_KEY" > "$WORK/saved/$1.key"
}

# load NAME: resumes a running robot from its prepared state.
load() {
    guest load "$1" && guest up
}

prepare_clean() {
    guest fresh
    guest parcel "$PARCEL"
    guest up
    g "mkdir -p $PARCEL_AT && mount -o ro /dev/vdb $PARCEL_AT"
    keep_as clean
}

# Set up, running and disarmed, with its package kept: the initial state of all updates.
prepare_robot() {
    load clean
    g "apt-get -y -qq install $(package_at base) < /dev/null"
    g "tar -C / --no-same-owner -xf $PARCEL_AT/robot.tar && systemctl daemon-reload && systemctl start field-watch"
    g "ganglion update keep $(package_at base)"
    g "systemctl enable --quiet ganglion ganglion-guard && systemctl start ganglion-guard && systemctl start ganglion"
    g "ganglion disarm && sync"
    keep_as robot
}

# The same robot after a good update: the initial state of a rollback.
prepare_updated() {
    load robot
    g "$(stage good) && ganglion update trial --for 3s && sync"
    keep_as updated
}

# --- checking the robot

# Facts about the guest, one KEY=VALUE per line.
inspection() {
    cat << INSPECTION
echo version=\$(dpkg-query -W -f '\${Version} \${db:Status-Status}' ganglion 2>&1)
echo audit=\$(dpkg --audit | wc -l)
echo verify=\$(dpkg -V ganglion | grep -vc ' c ')
echo leftovers=\$(find /usr /etc -xdev -name '*.dpkg-new' -o -xdev -name '*.dpkg-tmp' | wc -l)
echo marker=\$(test -e $STATE/trial && echo yes || echo no)
echo runtime=\$(systemctl is-active ganglion) 
echo guard=\$(systemctl is-active ganglion-guard)
pid=\$(systemctl show -P MainPID ganglion)
echo pid=\$pid
echo program=\$(cmp -s /proc/\$pid/exe /usr/bin/ganglion && echo installed || echo other)
echo ready=\$(systemctl show -P ActiveEnterTimestampMonotonic ganglion | awk '{printf "%.0f", \$1 / 1e6}')
echo status=\$(ganglion status --json 2>&1 | tail -n 1)
echo update=\$(ganglion update status --json 2>&1 | tail -n 1)
INSPECTION
}

fact() { sed -n "s/^$1=//p" <<< "$FACTS" | head -n 1; }
same() { [ "$2" = "$3" ] || wrong "$1 is '$2' instead of '$3'"; }

# settle: waits until the guest has booted, no repair is running, and the runtime runs or has given up.
settle() {
    g "for i in \$(seq 150); do
        state=\$(systemctl is-active ganglion)
        if [ ! -e $STATE/trial ] && [ \"\$(systemctl list-jobs --no-legend | grep -c .)\" = 0 ]; then
            case \$state in active | failed) exit 0 ;; esac
        fi
        sleep 1
    done; exit 1" || echo "it did not settle within 150 s"
}

# The robot's status as soon as it is armed and not degraded, or after 60 s. A robot degrades for a while near an
# obstacle, or if the emulated machine is too slow for a sensor.
status_when_armed() {
    g "for i in \$(seq 60); do
        status=\$(ganglion status --json 2>&1 | tail -n 1)
        case \$status in *'\"mode\":\"armed\"'*) break ;; esac
        sleep 1
    done; echo \"\$status\""
}

# whole VERSION MODE: checks that VERSION is completely installed and running, that no update is unfinished, and that
# the robot's mode is MODE: disarmed (and never armed since the start), disarmed-again (however often
# it was armed before: this board arms by itself until an update begins), armed (within 60 s), or any.
whole() {
    local version=$1 mode=$2 status update
    FACTS=$(g "$(inspection)")
    printf '%s\n' "$FACTS"
    same "the installed version" "$(fact version)" "$version installed"
    same "the number of lines of dpkg --audit" "$(fact audit)" 0
    same "the number of changed files of the package" "$(fact verify)" 0
    same "the number of files that dpkg left behind" "$(fact leftovers)" 0
    same "whether a marker is left" "$(fact marker)" no
    same "the guard" "$(fact guard)" active
    same "the runtime" "$(fact runtime)" active
    same "the running program" "$(fact program)" installed
    status=$(fact status) update=$(fact update)
    case $mode in
        disarmed)
            same "the mode" "$(value mode "$status")" disarmed
            same "the number of armings" "$(value armings "$status")" 0
            ;;
        disarmed-again) same "the mode" "$(value mode "$status")" disarmed ;;
        armed) same "the mode" "$(value mode "$(status_when_armed)")" armed ;;
        any) ;;
        *) wrong "the row expects an unknown mode '$mode'" ;;
    esac
    same "what 'update status' calls installed" "$(value installed "$update")" "$version"
    same "what 'update status' calls unfinished" "$(value unfinished "$update")" ''
}

# last PHASE FROM TO: checks what `update status` reports about the last finished update. PHASE is one phase, or
# several separated by |, or none: no update has ended yet.
last() {
    local update
    update=$(fact update)
    if [ "$1" = none ]; then
        same "the last update" "$(value last "$update")" ''
        return
    fi
    case "|$1|" in
        *"|$(value last.phase "$update")|"*) ;;
        *) wrong "the last update ended as '$(value last.phase "$update")' instead of '$1'" ;;
    esac
    same "the version before the last update" "$(value last.from "$update")" "$2"
    same "the target version of the last update" "$(value last.to "$update")" "$3"
}
