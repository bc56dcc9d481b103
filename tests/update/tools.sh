#!/usr/bin/env bash
# A simulated machine: dpkg, systemctl, systemd-run, ssh-keygen, and the robot's own program, selected by the
# name under which it is called. A package is a file of NAME=VALUE lines. $FAKE is the machine's folder,
# $FAKE/system its root file system. $FAKE/calls has every call, one per line. The call whose number is in
# $FAKE/cut kills the program that made it, before the call acts, or afterwards if $FAKE/cut-after exists.
set -u
tool=${0##*/}
[ "$tool" != ganglion ] || tool=program
value() { local line; while IFS= read -r line; do [ "${line%%=*}" != "$2" ] || { printf '%s' "${line#*=}"; return; }; done < "$1"; }
# systemd's copy of this unit is in $FAKE/loaded. It makes one when it reloads, and if it is asked for a unit of
# which it has none, unless $FAKE/old-systemd exists.
unit=system/etc/systemd/system/ganglion-update-died.service
load() { rm -f "$FAKE/loaded"; [ ! -e "$FAKE/$unit" ] || cp -p "$FAKE/$unit" "$FAKE/loaded"; }
now() { value "$FAKE/installed" "$1"; }

printf '%s %s\n' "$tool" "$*" >> "$FAKE/calls"
if [ -e "$FAKE/cut" ] && [ "$(wc -l < "$FAKE/calls")" -ge "$(cat "$FAKE/cut")" ]; then
    rm "$FAKE/cut"
    if [ ! -e "$FAKE/cut-after" ]; then kill -9 $PPID; exit 9; fi
    cut=yes
fi

install_it() {
    [ "$(value "$1" postinst)" != breaks ] || half=yes
    cp "$1" "$FAKE/installed"
    echo "${half:+half-configured}" > "$FAKE/state"
    mkdir -p "$FAKE/system/usr/bin"
    ln -sf "$FAKE/bin/program" "$FAKE/system/usr/bin/ganglion"
    [ -z "${half:-}" ] || { echo "dpkg: error processing package ganglion: the postinst subprocess failed" >&2; return 1; }
}

act() {
    case "$tool $*" in
        "dpkg-deb --show "*)
            [ "$(head -c 5 "$3")" = name= ] || { echo "dpkg-deb: error: '$3' is not a Debian format archive" >&2; return 2; }
            for key in name version arch size; do printf "%s " "$(value "$3" $key)"; done ;;
        "dpkg-deb --extract "*)
            mkdir -p "$3/usr/bin" "$3/usr/share/ganglion"
            printf '{"boards":["%s"]}' "$(value "$2" board)" > "$3/usr/share/ganglion/manifest.json"
            ln -s "$FAKE/bin/program" "$3/usr/bin/ganglion" ;;
        "dpkg --print-architecture") echo amd64 ;;
        "dpkg --compare-versions "*) [ "$2" != "$4" ] && [ "$(printf '%s\n%s\n' "$2" "$4" | sort -V | head -n 1)" = "$2" ] ;;
        "dpkg --install "*) install_it "${*: -1}" ;;
        "dpkg --configure "*) : ;;
        "dpkg --verify "*) echo "??5??????   c /etc/ganglion/x"; [ "$(now files)" != damaged ] || echo "??5??????     /usr/bin/ganglion" ;;
        "dpkg-query "*) state=$(cat "$FAKE/state"); echo "$(now version) ${state:-installed}" ;;
        "ssh-keygen "*) [ "$(cat)" = "$(cat "${10}" 2> /dev/null)" ] || { echo "Could not verify signature." >&2; return 255; } ;;
        "systemctl start ganglion.service")
            [ "$(now starts)" != never ] || { rm -f "$FAKE/running"; return 1; }
            echo 100 > "$FAKE/running" ;;
        "systemctl stop ganglion.service") rm -f "$FAKE/running" ;;
        "systemctl restart ganglion-guard.service") touch "$FAKE/guard-restarted" ;;
        "systemctl --no-block start "*) [ "$(now starts)" = never ] || echo 100 > "$FAKE/running" ;;
        "systemctl show --value --property ActiveState ganglion-guard.service") cat "$FAKE/guard" ;;
        "systemctl show --value --property ActiveState ganglion.service") [ -e "$FAKE/running" ] && echo active || echo failed ;;
        "systemctl show --value --property MainPID ganglion.service") [ -e "$FAKE/running" ] && cat "$FAKE/running" || echo 0 ;;
        "systemctl show --value --property Result ganglion.service") echo exit-code ;;
        "systemctl daemon-reload") load ;;
        "systemctl show --property LoadState --property NeedDaemonReload ganglion-update-died.service")
            [ -e "$FAKE/loaded" ] || [ -e "$FAKE/old-systemd" ] || load
            [ -e "$FAKE/loaded" ] && echo LoadState=loaded || echo LoadState=not-found
            if [ "$FAKE/$unit" -nt "$FAKE/loaded" ]; then echo NeedDaemonReload=yes; else echo NeedDaemonReload=no; fi ;;
        "systemctl "*) : ;;
        "systemd-run "*) while [ "$1" != -- ]; do shift; done; shift; "$@" ;;
        "program check "*)
            [ "$(value "$FAKE/system/etc/ganglion/board.toml" bad)" != yes ] || { echo "line 1: bad" >&2; return 78; }
            echo '{"settings":[{"key":"targets.cycle_p99_ms","value":"10.0","origin":"built-in/sim.toml:3"}]}' ;;
        "program safe-stop "*) [ ! -e "$FAKE/motors-hang" ] || { echo "the motors may move" >&2; return 69; } ;;
        "program status "*)
            [ -e "$FAKE/running" ] && [ "$(now answers)" != never ] || return 69
            [ "$(now after)" != dies ] || rm "$FAKE/running"
            printf '{"mode":"%s","armings":0,"causes":[%s],"field_us":{"p50":1.0,"p99":%s}}\n' \
                "$(cat "$FAKE/mode")" "$(now cause)" "$(now p99_us)" ;;
        *) echo "$tool: not known here: $*" >&2; return 64 ;;
    esac
}

act "$@"
rc=$?
[ -z "${cut:-}" ] || kill -9 $PPID
exit $rc
