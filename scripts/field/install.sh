# shellcheck shell=bash
# Rows: the package by itself, installed by apt from a file, upgraded and purged. Sourced by
# scripts/field-test.

UNITS="ganglion ganglion-guard ganglion-rebind ganglion-sleep ganglion-tether"

# Lists what a package could leave behind: files and units, except in folders that also change without it.
listing() {
    g "find / -xdev \( -path /proc -o -path /sys -o -path /run -o -path /tmp -o -path /mnt -o -path /var/log -o -path /var/cache \
        -o -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/lib/systemd -o -path /root \) -prune -o -print | sort
        systemctl list-unit-files 'ganglion*' --no-legend || :"
}

install_real() { exits 0 "apt-get -y -qq install $(package_at real) < /dev/null"; }

install_puts_units_and_starts_nothing() {
    load clean
    install_real
    exits 0 "dpkg -V ganglion && test -z \"\$(dpkg --audit)\" && ganglion --version"
    for unit in $UNITS; do
        exits 0 "systemctl cat $unit > /dev/null && echo there"
        same "the state of $unit" "$(g "systemctl is-active $unit || :")" inactive
        same "the enablement of $unit" "$(g "systemctl is-enabled $unit || :")" disabled
    done
    for file in /usr/share/ganglion/manifest.json /usr/lib/sysusers.d/ganglion.conf /usr/lib/udev/rules.d/60-ganglion.rules; do
        exits 0 "test -s $file"
    done
    exits 0 "id ganglion && id ganglion-guard && getent group i2c gpio"
    exits 0 "test ! -e /etc/ganglion/board.toml"
    told "$(value commit "$(g "cat /usr/share/ganglion/manifest.json" | tr -d '\n')" | cut -c1-12)"
}

# With plain apt, as a user who does not know `ganglion update` would upgrade.
install_upgrade_leaves_what_runs() {
    local before after
    load robot
    g "echo '# mine' >> /etc/ganglion/board.toml; find /etc/ganglion -type f -exec sha256sum {} + > /var/tmp/before.sums"
    before=$(g "systemctl show -P MainPID ganglion ganglion-guard | xargs")
    exits 0 "apt-get -y -qq install $(package_at good) < /dev/null"
    after=$(g "systemctl show -P MainPID ganglion ganglion-guard | xargs")
    same "the processes of runtime and guard" "$after" "$before"
    same "the installed version" "$(g "dpkg-query -W -f '\${Version}' ganglion")" "$GOOD"
    exits 0 "sha256sum --check --quiet /var/tmp/before.sums"
    exits 0 "systemctl restart ganglion"
    settle
    same "the program after a restart" "$(FACTS=$(g "$(inspection)"); fact program)" installed
    told "processes $before before and after"
}

install_remove_stops_and_keeps_the_board() {
    load robot
    exits 0 "apt-get -y -qq remove ganglion < /dev/null"
    same "the runtime" "$(g "systemctl is-active ganglion || :")" inactive
    same "the guard" "$(g "systemctl is-active ganglion-guard || :")" inactive
    exits 0 "test -s /etc/ganglion/board.toml && test ! -e /usr/bin/ganglion"
}

install_purge_leaves_nothing() {
    local more
    load clean
    listing > "$WORK/logs/purge.before"
    install_real
    exits 0 "mkdir -p /etc/ganglion && echo 'inherits = \"sim\"' > /etc/ganglion/board.toml"
    exits 0 "install -d -o ganglion /var/lib/ganglion $STATE && touch /var/lib/ganglion/brain.bin"
    listing > "$WORK/logs/purge.installed"
    [ "$(comm -13 "$WORK/logs/purge.before" "$WORK/logs/purge.installed" | wc -l)" -gt 10 ] ||
        wrong "the listing does not show what is installed"
    exits 0 "apt-get -y -qq purge ganglion < /dev/null"
    listing > "$WORK/logs/purge.after"
    # The listing has no users: they stay, as is usual in Debian, because a reused user ID would own the old
    # user's remaining files.
    more=$(comm -13 "$WORK/logs/purge.before" "$WORK/logs/purge.after")
    [ -z "$more" ] || wrong "$(wc -l <<< "$more") entries are left, the first: $(head -n 1 <<< "$more")"
}

# Prints the command blocks of docs/install.md. The row below runs them with three changes: setup is told the
# board, because the guest has no device tree; the units are adapted to an emulated processor; and the trial is
# short. The first package is the real one, so the second is in a separate folder.
documented() { sed -n '/^```sh$/,/^```$/{/^```/d;p}' "$ROOT/docs/install.md"; }

install_as_the_page_says() {
    local line count=0 code
    load clean
    g "mkdir -p /home/visit/new && cp $(package_at real) /home/visit/ && cp $PARCEL_AT/good/* /home/visit/new/"
    while IFS= read -r line; do
        case $line in
            'sudo ganglion setup')
                g "tar -xO -f $PARCEL_AT/robot.tar ./etc/ganglion/board.toml > /home/visit/robot.toml"
                line="$line --board robot.toml --yes"
                ;;
            # A real-time loop would starve an emulated processor, and setup does not start a board that arms
            # by itself.
            'ganglion status')
                g "tar -C / --no-same-owner -xf $PARCEL_AT/robot.tar ./etc/systemd/system ./etc/ganglion/allowed_signers && systemctl daemon-reload && systemctl start ganglion"
                ;;
            *' trial --for 60s') line="${line%60s}5s" ;;
        esac
        code=0
        SAID=$(g "cd /home/visit && $line" 2>&1) || code=$?
        printf '$ %s\n%s\n[exit %s]\n' "$line" "$SAID" "$code"
        [ "$code" = 0 ] || wrong "'$line' ended with $code: $(tail -n 1 <<< "$SAID")"
        count=$((count + 1))
    done < <(documented)
    [ "$count" -ge 10 ] || wrong "only $count commands were found in docs/install.md"
    exits 0 "test ! -e /usr/bin/ganglion && test ! -e /etc/ganglion"
    told "$count commands"
}

row install-docs "every command of docs/install.md, in order, from a fresh system to the purge" install_as_the_page_says
row install-fresh "apt install of the real package: the units exist, nothing is started or enabled" install_puts_units_and_starts_nothing
row install-upgrade "apt upgrade under a running robot: its processes keep running, the board file stays" install_upgrade_leaves_what_runs
row install-remove "removal stops runtime and guard and keeps the board file" install_remove_stops_and_keeps_the_board
row install-purge "purge leaves no file and no unit" install_purge_leaves_nothing
