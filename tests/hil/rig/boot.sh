# shellcheck shell=bash
# Boots the guest, once for the rows and once to see the hardware watchdog end a crashed kernel.

# boot SHARE LIMIT_S [QEMU OPTION...]: SHARE/job is run in the guest; what it leaves lies in SHARE. LIMIT_S: wall time.
# Virtual clock: one instruction is 2^SHIFT ns and idle time is skipped, so the host's load does not enter the guest's
# time; that needs one processor (QEMU: "-icount"). Host clock: for looking, never for gates. Becomes QEMU: call it in a
# process of its own.
boot() {
    local share=$1 limit=$2 clock=()
    shift 2
    case $CLOCK in
        virtual)
            clock=(-accel "tcg,thread=single" -smp 1 -icount "shift=$SHIFT,sleep=off"
                -rtc "base=2030-01-01T00:00:00,clock=vm")
            ;;
        host) clock=(-accel "tcg,thread=multi" -smp 1) ;;
    esac
    rm -f "$share/status"
    exec timeout --kill-after=5 "$limit" qemu-system-aarch64 -M "virt,gic-version=3" -cpu cortex-a72 -m 768 "${clock[@]}" \
        -nodefaults -no-user-config -no-reboot -display none -monitor none -nic none -serial "file:$WORK/console.log" \
        -kernel "$WORK/vmlinuz" -initrd "$WORK/initrd" \
        -append "console=ttyAMA0 rdinit=/init quiet panic=-1 systemd.show_status=0 mitigations=off nokaslr audit=0" \
        -fsdev "local,id=share,path=$share,security_model=none" -device "virtio-9p-pci,fsdev=share,mount_tag=hil" "$@"
}

new_share() {
    rm -rf "$1"
    mkdir -p "$1"
    echo "$GUEST_LIMIT_S" > "$1/limit"
}

# What the guest says as it says it, until the process ends.
follow() {
    local file=$1 process=$2
    : > "$file"
    tail -n +1 -f --pid="$process" "$file" 2> /dev/null
}

# Whoever stops the run stops the machine.
qemu_pid=''
stop_qemu() { [ -z "$qemu_pid" ] || kill "$qemu_pid" 2> /dev/null || true; }

# Runs the job in $SHARE; its lines go to standard error, so that standard output keeps the result.
run_rows() {
    local code=0
    boot "$SHARE" "$WALL_LIMIT_S" < /dev/null > "$WORK/qemu.log" 2>&1 &
    qemu_pid=$!
    follow "$SHARE/said" "$qemu_pid" | grep -v '^{.*"passed":' >&2 || true
    wait "$qemu_pid" || code=$?
    qemu_pid=''
    [ "$code" = 0 ] || say "   QEMU ended with $code: $(tail -1 "$WORK/qemu.log")"
    return 0
}

# Says why if not: whether the watchdog, and nothing else, ended a machine whose kernel had crashed. The panic spins, and with the clock
# of the rows a spinning second is a minute of this machine's; 16 ns an instruction make it seconds.
watchdog_ends_a_crash() {
    local share=$WORK/share-watchdog code=0 SHIFT=4 answers=$WORK/qmp.log fifo=$WORK/qmp.in
    new_share "$share"
    install -m 755 "$RIG/guest/crash" "$share/job"
    rm -f "$fifo"
    mkfifo "$fifo"
    exec 9<> "$fifo"
    echo '{"execute":"qmp_capabilities"}' >&9
    boot "$share" 300 -device i6300esb -action watchdog=poweroff -qmp stdio <&9 > "$answers" 2>&1 &
    qemu_pid=$!
    wait "$qemu_pid" || code=$?
    qemu_pid=''
    exec 9>&-
    rm -f "$fifo"
    [ -f "$share/armed" ] || { echo "the watchdog was not armed: $(tail -2 "$share/said" 2> /dev/null)"; return 1; }
    [ ! -f "$share/status" ] || { echo "the kernel survived its crash"; return 1; }
    grep -q 'Kernel panic' "$WORK/console.log" || { echo "no panic on the console"; return 1; }
    [ "$code" = 0 ] || { echo "nothing ended the machine (QEMU: $code)"; return 1; }
    grep -q '"event": *"WATCHDOG"' "$answers" || { echo "the machine ended without its watchdog"; return 1; }
}
