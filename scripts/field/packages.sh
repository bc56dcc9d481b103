# shellcheck shell=bash
# The packages that the rows install: the real one, and newer, broken and forbidden ones made from it. Sourced
# by scripts/field-test.
#
# Each is $PARCEL/NAME/ganglion_VERSION_amd64.deb with its signature. Two versions in a guest differ in the
# version in the control file and in the manifest, and in bytes appended to the program, so that a mixture of
# the two is noticed. Their maintainer scripts first write "MARK NAME ARGUMENT" to the guest's console, so that
# a power cut hits dpkg at a known step.

# The robot's installed version, the new one, and one that is older than both.
BASE=0.1.0 GOOD=0.2.0 OLD=0.0.9
# Versions that must be rolled back, each for its own reason, and versions that must never be installed.
NEVER_READY=0.3.0 DIES=0.4.0 POSTINST_FAILS=0.5.0 WRONG_BOARD=0.6.0 WRONG_ARCHITECTURE=0.7.0 CHECK_FAILS=0.8.0

as_it_is() { :; }

# A program that ends before it is ready, every time it is started.
never_ready() { unit_line "$1" 'ExecStartPre=/bin/sh -c "sleep 1; exit 70"'; }

# A program that becomes ready and dies 5 s later.
dies() { unit_line "$1" 'ExecStartPost=/bin/sh -c "(sleep 5; kill -9 $MAINPID) \&"'; }
unit_line() { sed -i "s|^ExecStart=|$2\n&|" "$1/usr/lib/systemd/system/ganglion.service"; }

postinst_fails() { echo 'exit 1' | insert_after_shebang "$1/DEBIAN/postinst"; }
wrong_board() { manifest_value "$1" boards '["no-such-board"]'; }

# Only the control file names the wrong architecture: the correct manifest must not make it acceptable.
wrong_architecture() { sed -i 's/^Architecture: .*/Architecture: arm64/' "$1/DEBIAN/control"; }

# A program that refuses the robot's board file.
check_fails() {
    printf '#!/bin/sh\necho "this program refuses every board" >&2\nexit 65\n' > "$1/usr/bin/ganglion"
    chmod 755 "$1/usr/bin/ganglion"
}

insert_after_shebang() { sed -i '1r /dev/stdin' "$1"; }

manifest_value() {
    python3 - "$1/usr/share/ganglion/manifest.json" "$2" "$3" << 'PYTHON'
import json, sys
path, key, value = sys.argv[1:]
with open(path) as file:
    manifest = json.load(file)
manifest[key] = json.loads(value)
with open(path, "w") as file:
    json.dump(manifest, file)
PYTHON
}

mark_scripts() {
    local script
    for script in preinst postinst prerm postrm; do
        [ -e "$1/DEBIAN/$script" ] || printf '#!/bin/sh\n' > "$1/DEBIAN/$script"
        echo "echo \"MARK $script \$1\" > /dev/ttyS0 2> /dev/null || :" | insert_after_shebang "$1/DEBIAN/$script"
        chmod 755 "$1/DEBIAN/$script"
    done
}

# repack FOLDER VERSION EDIT: packs the real package again as VERSION, changed by EDIT and signed with the
# fleet's key.
repack() {
    local root=$WORK/repack folder=$PARCEL/$1 version=$2 edit=$3 deb
    rm -rf "$root"
    dpkg-deb -R "$PACKAGE" "$root"
    sed -i "s/^Version: .*/Version: $version/" "$root/DEBIAN/control"
    manifest_value "$root" version "\"$version\""
    printf 'field-test %s' "$version" >> "$root/usr/bin/ganglion"
    "$edit" "$root"
    mark_scripts "$root"
    (cd "$root" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | sort -z | xargs -0 md5sum > DEBIAN/md5sums)
    deb=$folder/ganglion_${version}_amd64.deb
    mkdir -p "$folder"
    # Compressed so that it unpacks fast, because every instruction of the guest is emulated.
    dpkg-deb --root-owner-group -Zgzip -z1 -b "$root" "$deb" > /dev/null
    sign fleet "$deb"
    rm -rf "$root"
}

sign() {
    rm -f "$2.sig"
    ssh-keygen -q -Y sign -f "$PARCEL/keys/$1" -n ganglion-package "$2" 2> /dev/null
}

# spoilt FOLDER: copies the good package to FOLDER, to be corrupted there; prints the path of the copy.
spoilt() {
    mkdir -p "$PARCEL/$1"
    cp "$PARCEL/good/"* "$PARCEL/$1/"
    echo "$PARCEL/$1/ganglion_${GOOD}_amd64.deb"
}

make_keys() {
    local name
    mkdir -p "$PARCEL/keys"
    for name in fleet foreign revoked; do
        ssh-keygen -q -t ed25519 -N '' -C "$name" -f "$PARCEL/keys/$name"
    done
    # The revoked key is also among the allowed ones: the revocation must win.
    for name in fleet revoked; do
        echo "fleet namespaces=\"ganglion-package\" $(cat "$PARCEL/keys/$name.pub")"
    done > "$PARCEL/allowed_signers"
    cp "$PARCEL/keys/revoked.pub" "$PARCEL/revoked_signers"
}

make_packages() {
    local deb
    rm -rf "$PARCEL"
    make_keys
    mkdir -p "$PARCEL/real"
    cp "$PACKAGE" "$PARCEL/real/"
    repack base "$BASE" as_it_is
    repack good "$GOOD" as_it_is
    repack old "$OLD" as_it_is
    repack never-ready "$NEVER_READY" never_ready
    repack dies "$DIES" dies
    repack postinst "$POSTINST_FAILS" postinst_fails
    repack wrong-board "$WRONG_BOARD" wrong_board
    repack wrong-architecture "$WRONG_ARCHITECTURE" wrong_architecture
    repack check-fails "$CHECK_FAILS" check_fails
    deb=$(spoilt tampered)
    # Changes one byte in the middle of the data, which the archive's own checksums may miss.
    printf 'X' | dd of="$deb" bs=1 seek=$(($(stat -c %s "$deb") / 2)) conv=notrunc status=none
    deb=$(spoilt truncated)
    truncate -s $(($(stat -c %s "$deb") / 2)) "$deb"
    deb=$(spoilt unsigned)
    rm "$deb.sig"
    sign foreign "$(spoilt foreign)"
    sign revoked "$(spoilt revoked)"
}
