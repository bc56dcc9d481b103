# shellcheck shell=sh
# What a robot reports about itself before anything is changed: lines of `name value`, the last one `end ok`. Sent over ssh
# and run on the robot, so it uses only POSIX sh, coreutils and what every Debian has. It only reads. $1: the version to be
# installed.
new=$1
# fact NAME VALUE: prints one line, with one space between the words of the value. No program runs, because there
# are twenty facts, and the laptop cuts them anyway.
fact() {
    fact=$1
    set -f
    # shellcheck disable=SC2086 # split into words
    set -- $2
    set +f
    printf %s "$fact"
    printf ' %s' "$@"
    echo
}
quiet() { timeout 20 "$@" 2> /dev/null < /dev/null; }

if [ "$(id -u)" = 0 ]; then
    rights=root as_root=''
elif sudo -n true 2> /dev/null < /dev/null; then
    rights=sudo as_root='sudo -n'
else
    rights=none as_root=''
fi
fact rights "$rights"

fact model "$(tr -d '\0' < /proc/device-tree/model 2> /dev/null || cat /sys/class/dmi/id/product_name 2> /dev/null)"
# A hash, because the number itself would identify the machine elsewhere. A support bundle's name has the same
# digits.
fact number "$({ cat /etc/machine-id 2> /dev/null || uname -n; } | sha256sum | cut -c 1-8)"
fact system "$(sed -n 's/^PRETTY_NAME=//p' /etc/os-release 2> /dev/null | tr -d '"')"
fact l4t "$(head -n 1 /etc/nv_tegra_release 2> /dev/null | cut -d , -f 1,2)"
fact architecture "$(dpkg --print-architecture 2> /dev/null)"
fact glibc "$(getconf GNU_LIBC_VERSION 2> /dev/null | cut -d ' ' -f 2)"
driver=$(quiet nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -n 1)
fact driver "$driver"

# space FOLDER NAME: the KiB available to ordinary users, and the device number of the file system.
space() {
    fact "free_$2" "$(($(stat -f -c '%a * %S / 1024' "$1" 2> /dev/null || echo 0)))"
    fact "device_$2" "$(stat -c %d "$1" 2> /dev/null)"
}
space "$HOME" home
space /var var
space /usr usr

board=$(quiet systemctl show ganglion -p Environment --value | tr ' ' '\n' | sed -n 's/^GANGLION_BOARD=//p' | head -n 1)
[ -n "$board" ] || board=/etc/ganglion/board.toml
if [ -f "$board" ]; then
    fact board_file "$board"
    # The shipped board that the robot's own file extends, or is a copy of.
    base=$(sed -n 's/^inherits *= *"\([^"]*\)".*/\1/p' "$board" 2> /dev/null | head -n 1)
    if [ -z "$base" ]; then
        for shipped in /usr/share/ganglion/boards/*.toml; do
            ! cmp -s "$shipped" "$board" || base=$shipped
        done
    fi
    fact board "$(basename "$base" .toml)"
    [ -z "$driver" ] || fact engine "$(quiet ganglion check "$board" --json |
        sed -n 's/.*"key":"field.engine","origin":"[^"]*","value":"\\"\([a-z0-9-]*\)\\"".*/\1/p' | tail -n 1)"
fi
[ ! -f /etc/ganglion/allowed_signers ] || fact signers yes
# shellcheck disable=SC2086 # two words or none
fact mode "$(quiet $as_root ganglion status --json | tail -n 1 | grep -o '"mode" *: *"[a-z-]*"' | head -n 1 | cut -d '"' -f 4)"

# shellcheck disable=SC2086
status=$(quiet $as_root ganglion update status --json | tail -n 1)
fact status "$status"
[ -n "$status" ] || fact program "$(quiet ganglion --version | head -n 1)"
installed=$(printf %s "$status" | sed -n 's/.*"installed" *: *"\([^"]*\)".*/\1/p')
order=''
if [ -n "$installed" ]; then
    if dpkg --compare-versions "$new" gt "$installed"; then order=newer
    elif dpkg --compare-versions "$new" eq "$installed"; then order=same
    else order=older; fi
fi
fact order "$order"

# Locks that are held, looked up in /proc/locks: trying to lock would hold the lock for a moment.
for lock in /run/ganglion-update.lock "$HOME/.cache/ganglion-flash/lock"; do
    [ -e "$lock" ] && grep -q ":$(stat -c %i "$lock") 0 EOF" /proc/locks 2> /dev/null && fact busy "$lock"
done
fact end ok
