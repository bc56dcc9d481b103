# shellcheck shell=bash
# Boots guests: some for the rows, and one to test that the hardware watchdog ends a machine whose kernel crashed.

# Kernel parameters. They switch off features that cost instructions in the guest and that a small robot's system does not
# have: by default, Raspberry Pi OS has no pressure accounting, memory controller, AppArmor or zeroing of allocations. The
# last parameter makes the position of stacks, and so the figures, deterministic.
LEAN="psi=0 cgroup_disable=memory apparmor=0 init_on_alloc=0 randomize_kstack_offset=off"

# The processors that this process may use, one per line.
processors() {
    local part
    for part in $(taskset -cp "$BASHPID" | sed 's/.*: //; s/,/ /g'); do
        seq "${part%-*}" "${part#*-}"
    done
}

# Prints the prefix of QEMU's command line with which machine NTH has its own processor; nothing if there are fewer than NTH
# processors. QEMU's two threads alternate some thousand times a second whenever the guest waits. On one processor, and
# without preemption by the woken thread, this takes two thirds of the time that it takes on two.
apart() {
    local nth=$1 place
    place=$(processors 2> /dev/null | sed -n "${nth}p") || true
    [ -n "$place" ] || return 0
    echo "taskset -c $place"
    if chrt --batch 0 true 2> /dev/null; then
        echo "chrt --batch 0"
    fi
}

# boot SHARE FOLDER LIMIT_S [QEMU OPTION...]: runs SHARE/FOLDER/job in the guest; its results are in the same folder.
# LIMIT_S: wall time. The console's output goes to $CONSOLE.
# Virtual clock: one instruction takes 2^SHIFT ns and idle time is skipped, so the host's load does not affect the guest's
# time; this requires a guest with one processor (QEMU: "-icount"). Host clock: for experiments, never for limits.
# The function execs QEMU: call it in its own process.
boot() {
    local share=$1 folder=$2 limit=$3 clock=()
    shift 3
    case $CLOCK in
        virtual)
            # 64 MiB for translated code: look-ups for a driving robot are faster than if all code of the boot is kept.
            clock=(-accel "tcg,thread=single,tb-size=64" -smp 1 -icount "shift=$SHIFT,sleep=off"
                -rtc "base=2030-01-01T00:00:00,clock=vm")
            ;;
        host) clock=(-accel "tcg,thread=multi" -smp 1) ;;
    esac
    rm -f "$share/$folder/status"
    # shellcheck disable=SC2086 # words
    exec timeout --kill-after=5 "$limit" ${PLACE-} qemu-system-aarch64 -M "virt,gic-version=3" -cpu cortex-a72 -m 768 "${clock[@]}" \
        -nodefaults -no-user-config -no-reboot -display none -monitor none -nic none -serial "file:$CONSOLE" \
        -kernel "$WORK/vmlinuz" -initrd "$WORK/initrd" \
        -append "console=ttyAMA0 rdinit=/init quiet panic=-1 systemd.show_status=0 mitigations=off nokaslr audit=0 $LEAN hil.folder=$folder" \
        -fsdev "local,id=share,path=$share,security_model=none" -device "virtio-9p-pci,fsdev=share,mount_tag=hil" "$@"
}

new_folder() {
    rm -rf "$1"
    mkdir -p "$1"
    echo "$GUEST_LIMIT_S" > "$1/limit"
}

# Prints a guest's output as it appears, until the process ends, but no JSON. Adds to the line of each row the time that it
# took on this machine.
follow() {
    local file=$1 process=$2 line last=$SECONDS
    : > "$file"
    tail -n +1 -f --pid="$process" "$file" 2> /dev/null | while IFS= read -r line; do
        case $line in
            '{"'*) continue ;;
            *' virtual s]')
                line="${line%]}, $((SECONDS - last)) s of this machine]"
                last=$SECONDS
                ;;
        esac
        say "$line"
    done
}

# Process IDs of the machines, which are killed when the run ends.
machines=()
stop_machines() { [ ${#machines[@]} -eq 0 ] || kill "${machines[@]}" 2> /dev/null || true; }

# run_guest FOLDER PLACE: runs the job of a folder of $SHARE, or of $SHARE itself, with the prefix that `apart` printed. The
# guest's lines go to standard error, so that standard output contains only the result. If QEMU fails, this says so; the
# missing results count as failures.
run_guest() {
    local folder=$1 PLACE=$2 code=0 process teller CONSOLE=$WORK/console.log log=$WORK/qemu.log
    [ "$folder" = . ] || { CONSOLE=$SHARE/$folder/console.log log=$SHARE/$folder/qemu.log; }
    # The lock belongs to the run, not to a machine that outlives it.
    boot "$SHARE" "$folder" "$WALL_LIMIT_S" < /dev/null > "$log" 2>&1 8>&- &
    process=$!
    trap 'kill $process 2> /dev/null; exit' TERM
    follow "$SHARE/$folder/said" "$process" &
    teller=$!
    wait "$process" || code=$?
    wait "$teller" || true
    [ "$code" = 0 ] || say "   QEMU ended with $code: $(tail -1 "$log")"
    return 0
}

# Checks that the watchdog, and nothing else, ended a machine whose kernel had crashed; prints the reason if not. A panicking
# kernel spins: at the 2 ns per instruction that the rows use, a guest second of it takes a minute on this machine; at 16 ns
# it takes seconds.
watchdog_ends_a_crash() {
    local share=$WORK/share-watchdog code=0 SHIFT=4 CONSOLE=$WORK/console-watchdog.log process
    local answers=$WORK/qmp.log fifo=$WORK/qmp.in
    new_folder "$share"
    install -m 755 "$RIG/guest/crash" "$share/job"
    rm -f "$fifo"
    mkfifo "$fifo"
    exec 9<> "$fifo"
    echo '{"execute":"qmp_capabilities"}' >&9
    boot "$share" . 300 -device i6300esb -action watchdog=poweroff -qmp stdio <&9 > "$answers" 2>&1 8>&- &
    process=$!
    trap 'kill $process 2> /dev/null; exit' TERM
    wait "$process" || code=$?
    exec 9>&-
    rm -f "$fifo"
    [ -f "$share/armed" ] || { echo "the watchdog was not armed: $(tail -2 "$share/said" 2> /dev/null)"; return 1; }
    [ ! -f "$share/status" ] || { echo "the kernel survived its crash"; return 1; }
    grep -q 'Kernel panic' "$CONSOLE" || { echo "no panic on the console"; return 1; }
    [ "$code" = 0 ] || { echo "nothing ended the machine (QEMU: $code)"; return 1; }
    grep -q '"event": *"WATCHDOG"' "$answers" || { echo "the machine ended without its watchdog"; return 1; }
}
