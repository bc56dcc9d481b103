# shellcheck shell=bash
# Rows: scripts/flash and scripts/rollback of the laptop, over a real sshd. Sourced by scripts/field-test.

# laptop COMMAND: runs it with an `ssh` in whose configuration `robot` is the guest. Unlike the bench's own, it has
# no shared connection: a script pays for each connection that it makes.
laptop() {
    local bin=$WORK/laptop
    mkdir -p "$bin"
    grep -v '^ *Control' "$WORK/ssh_config" > "$bin/ssh_config"
    printf '#!/bin/sh\nexec %s -F %s "$@"\n' "$(command -v ssh)" "$bin/ssh_config" > "$bin/ssh"
    chmod 755 "$bin/ssh"
    PATH=$bin:$PATH "$@"
}

# How often somebody has logged in to the guest.
logins() { g "journalctl -q -b -u ssh --no-pager | grep -c 'Accepted '"; }
# Seconds on the guest's clock.
guest_s() { g "cut -d . -f 1 /proc/uptime"; }

# complete FOLDER: writes the files that scripts/package puts beside a package.
complete() {
    local deb
    deb=$(ls "$1"/*.deb)
    dpkg-deb --fsys-tarfile "$deb" | tar -xO ./usr/share/ganglion/manifest.json > "${deb%.deb}.manifest.json"
    (cd "$1" && sha256sum -- *.deb *.sig *.manifest.json > SHA256SUMS)
    echo "$deb"
}

flash_and_back() {
    local deb start copied flashed since copied_there flashed_there before code=0
    load robot
    rm -rf "$WORK/flash"
    mkdir -p "$WORK/flash"
    cp "$PARCEL/good/"* "$WORK/flash/"
    deb=$(complete "$WORK/flash")
    start=$SECONDS since=$(guest_s)
    laptop scp -q -S "$WORK/laptop/ssh" "$deb" robot:/var/tmp
    copied=$((SECONDS - start)) copied_there=$(($(guest_s) - since))
    before=$(logins)
    start=$SECONDS since=$(guest_s)
    laptop "$ROOT/scripts/flash" "$deb" --target robot --for 1s --yes < /dev/null || code=$?
    flashed=$((SECONDS - start)) flashed_there=$(($(guest_s) - since))
    [ "$code" = 0 ] || wrong "scripts/flash ended with $code"
    same "the number of logins of one flash" "$(($(logins) - before))" 1
    whole "$GOOD" disarmed
    flashed_there="READY after $(($(fact ready) - since)) s, the end after $flashed_there s"
    last committed "$BASE" "$GOOD"
    laptop "$ROOT/scripts/flash" "$deb" --target robot --yes < /dev/null > "$WORK/logs/flash-again.log" || wrong "flashing it again ended with $?"
    grep -q 'already active' "$WORK/logs/flash-again.log" || wrong "it does not say that $GOOD is already active"
    start=$SECONDS
    laptop "$ROOT/scripts/rollback" robot < /dev/null || wrong "scripts/rollback ended with $?"
    told "flashed in $flashed s, copy alone $copied s, rolled back in $((SECONDS - start)) s;" \
        "by the guest's clock $flashed_there, copy alone $copied_there s"
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
