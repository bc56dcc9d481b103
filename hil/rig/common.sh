# shellcheck shell=bash
# Functions shared by the parts of the rig: messages, exits, steps, cached results. Sourced by scripts/hil.

# Exit codes: at least one row failed (1), wrong usage (64), a tool or the network is absent (69), the rig broke (70).
readonly FAILED=1 USAGE=64 UNAVAILABLE=69 BROKEN=70

say() { echo "$@" >&2; }
die() {
    local code=$1
    shift
    say "hil: $*"
    exit "$code"
}

# step NAME COMMAND...: runs COMMAND with its output in $WORK/log; prints how long it took, if that is over 2 s. If COMMAND
# fails, prints the end of its output and ends the run.
step() {
    local name=$1 start=$SECONDS code=0
    shift
    say "-- $name"
    "$@" > "$WORK/log" 2>&1 || code=$?
    if [ "$code" -ne 0 ]; then
        tail -25 "$WORK/log" >&2
        [ "$code" = "$UNAVAILABLE" ] || code=$BROKEN
        die "$code" "$name: failed (whole output: $WORK/log)"
    fi
    [ $((SECONDS - start)) -le 2 ] || say "   $((SECONDS - start)) s"
}

need() {
    local tool missing=()
    for tool; do
        command -v "$tool" > /dev/null || missing+=("$tool")
    done
    [ ${#missing[@]} -eq 0 ] || die "$UNAVAILABLE" "not on this machine: ${missing[*]} (docs/virtual-bench.md names the packages)"
}

# The digest of standard input, and the digest of files' names and contents.
digest() { { cat; } | sha256sum | cut -c1-16; }
files_digest() { (cd "$ROOT" && find "$@" -type f -print0 | sort -z | xargs -0 -r sha256sum) | digest; }

# A stage leaves a note: the digest of its inputs, then the checksums of its outputs. It counts as done while both match.
is_done() {
    local note=$WORK/$1.done key=$2
    [ -f "$note" ] && [ "$(head -1 "$note")" = "$key" ] && (cd "$WORK" && tail -n +2 "$note" | sha256sum --check --status)
}
note_done() {
    local note=$WORK/$1.done key=$2
    shift 2
    { echo "$key"; (cd "$WORK" && sha256sum -- "$@"); } > "$note.new"
    mv "$note.new" "$note"
}
