# shellcheck shell=bash
# Rows: scripts/flash and scripts/rollback of the laptop, over a real sshd. Sourced by scripts/field-test.

# laptop COMMAND: runs it with an `ssh` that reads the guest's ssh configuration, in which `robot` is the guest.
laptop() {
    local bin=$WORK/laptop
    mkdir -p "$bin"
    printf '#!/bin/sh\nexec %s -F %s "$@"\n' "$(command -v ssh)" "$WORK/ssh_config" > "$bin/ssh"
    chmod 755 "$bin/ssh"
    PATH=$bin:$PATH "$@"
}

# complete FOLDER: writes the files that scripts/package puts beside a package.
complete() {
    local deb
    deb=$(ls "$1"/*.deb)
    dpkg-deb --fsys-tarfile "$deb" | tar -xO ./usr/share/ganglion/manifest.json > "${deb%.deb}.manifest.json"
    (cd "$1" && sha256sum -- *.deb *.sig *.manifest.json > SHA256SUMS)
    echo "$deb"
}

flash_and_back() {
    local deb start copied flashed code=0
    load robot
    rm -rf "$WORK/flash"
    mkdir -p "$WORK/flash"
    cp "$PARCEL/good/"* "$WORK/flash/"
    deb=$(complete "$WORK/flash")
    start=$SECONDS
    guest copy "$deb" /var/tmp
    copied=$((SECONDS - start))
    start=$SECONDS
    laptop "$ROOT/scripts/flash" "$deb" --target robot --for 1s --yes < /dev/null || code=$?
    flashed=$((SECONDS - start))
    [ "$code" = 0 ] || wrong "scripts/flash ended with $code"
    whole "$GOOD" disarmed
    last committed "$BASE" "$GOOD"
    laptop "$ROOT/scripts/flash" "$deb" --target robot --yes < /dev/null > "$WORK/logs/flash-again.log" || wrong "flashing it again ended with $?"
    grep -q 'already active' "$WORK/logs/flash-again.log" || wrong "it does not say that $GOOD is already active"
    start=$SECONDS
    laptop "$ROOT/scripts/rollback" robot < /dev/null || wrong "scripts/rollback ended with $?"
    told "flashed in $flashed s, copy alone $copied s, rolled back in $((SECONDS - start)) s"
    whole "$BASE" disarmed
    last returned "$GOOD" "$BASE"
}

# The installed program is broken: the proven copy does the rollback.
flash_back_from_a_broken_program() {
    load updated
    g "printf '#!/bin/sh\nexit 1\n' > /usr/bin/broken && chmod 755 /usr/bin/broken && mv /usr/bin/broken /usr/bin/ganglion"
    laptop "$ROOT/scripts/rollback" robot < /dev/null || wrong "scripts/rollback ended with $?"
    whole "$BASE" disarmed
    last returned "$GOOD" "$BASE"
}

row flash-good "scripts/flash from the laptop, the same package again, scripts/rollback" flash_and_back
row flash-rescue "scripts/rollback of a robot whose installed program is broken" flash_back_from_a_broken_program
