# shellcheck shell=bash
# Packs the guest. base.cpio contains Debian's packages, unconfigured and without their documentation; it is kept for later
# runs. project.cpio adds what a robot gets (the programs, the units and the rules), and the plant's module; it is made for
# each run. The kernel unpacks the two, one after the other. No maintainer script runs, and root is not needed.

# Modules that the guest may load.
GUEST_MODULES="9p 9pnet_virtio virtio_pci i2c-dev configfs autofs4 i6300esb softdog"
# Units that are masked: each costs a process at boot, which is slow in an emulated guest, and none is needed in a machine
# that exists for one run. Users, groups, rules and temporary files of the project are set up by systemd, as on a robot.
MASKED="modprobe@.service modprobe@configfs modprobe@dm_mod modprobe@fuse modprobe@loop modprobe@drm modprobe@efi_pstore
sys-kernel-tracing.mount sys-kernel-config.mount sys-fs-fuse-connections.mount dev-mqueue.mount dev-hugepages.mount
sys-kernel-debug.mount kmod-static-nodes systemd-modules-load systemd-network-generator systemd-remount-fs systemd-sysctl
systemd-udev-trigger systemd-udev-settle systemd-journal-flush systemd-ask-password-wall.path
systemd-ask-password-console.path systemd-hwdb-update systemd-journal-catalog-update systemd-update-done
systemd-firstboot systemd-resolved systemd-timesyncd systemd-networkd systemd-networkd.socket systemd-update-utmp
systemd-binfmt systemd-pstore systemd-random-seed ldconfig systemd-machine-id-commit systemd-boot-system-token
systemd-pcrphase systemd-pcrphase-sysinit"

pack() { find . -print0 | sort -z | cpio --null --create --format=newc --quiet --owner 0:0 --reproducible > "$1"; }

take_module() {
    local name=$1 from=$2 to=$3 file plain depends dependency
    file=$(find "$from" -name "$name.ko*" -o -name "${name//_/-}.ko*" -o -name "${name//-/_}.ko*" | head -1)
    [ -n "$file" ] || return 0      # built in
    plain=$to/$(basename "${file%.xz}")
    [ ! -e "$plain" ] || return 0
    case $file in
        *.xz) xz -dc "$file" > "$plain" ;;
        *) cp "$file" "$plain" ;;
    esac
    depends=$(modinfo -F depends "$plain")
    for dependency in ${depends//,/ }; do
        take_module "$dependency" "$from" "$to"
    done
}

unpack_debian() {
    local deb dir
    for deb in "$WORK"/parts/*.deb; do
        dpkg-deb --fsys-tarfile "$deb" | tar -x --no-same-owner \
            --exclude './usr/share/doc' --exclude './usr/share/man' --exclude './usr/share/locale' \
            --exclude './usr/share/info' --exclude './usr/share/perl*' --exclude './usr/lib/*/perl*' \
            --exclude './usr/lib/python3*' --exclude './usr/share/python3*' --exclude './usr/bin/perl*' \
            --exclude './usr/bin/python*' || return
    done
    for dir in bin sbin lib; do
        [ ! -L $dir ] || continue
        mkdir -p usr/$dir
        cp -a $dir/. usr/$dir/
        rm -rf $dir
        ln -s usr/$dir $dir
    done
    rm -rf usr/share/{bash-completion,zsh,X11,lintian,bug} usr/lib/udev/hwdb.d usr/lib/systemd/{catalog,user} \
        usr/lib/systemd/systemd-networkd* usr/lib/systemd/system-generators/* var/lib/{apt,dpkg} boot/* \
        usr/lib/*/{gconv,engines-3,cryptsetup} usr/lib/*/libperl* usr/lib/*/libdb-5*
    # The two rules that every machine needs; the others are for disks, sound cards and the like.
    find usr/lib/udev/rules.d -type f ! -name '50-udev-default*' ! -name '99-systemd*' -delete
}

configure_debian() {
    local unit
    cp usr/share/base-passwd/passwd.master etc/passwd
    cp usr/share/base-passwd/group.master etc/group
    sed -i 's#^root:[^:]*:#root::#' etc/passwd
    echo bench > etc/hostname
    echo uninitialized > etc/machine-id
    rm -f etc/fstab
    mkdir -p etc/systemd/journald.conf.d proc sys dev run tmp root hil
    printf '[Journal]\nStorage=volatile\nReadKMsg=no\nAudit=no\n' > etc/systemd/journald.conf.d/hil.conf
    # Groups that udev's own maintainer script would have created; its rules refer to them.
    printf 'g %s -\n' input kvm render sgx > usr/lib/sysusers.d/debian-udev.conf
    for unit in $MASKED; do
        case $unit in *.*) ;; *) unit=$unit.service ;; esac
        ln -sf /dev/null "etc/systemd/system/$unit"
    done
    ln -sf /usr/lib/systemd/systemd init
    ln -sf /usr/lib/systemd/system/hil.target etc/systemd/system/default.target
}

pack_base() {
    local version root=$WORK/base modules from file
    version=$(cat "$WORK/kernel.version")
    rm -rf "$root"
    mkdir "$root"
    cd "$root" || return
    unpack_debian || return
    configure_debian || return
    modules=$root/usr/lib/modules/$version
    from=$WORK/tree/lib/modules/$version
    [ -d "$from" ] || from=$WORK/tree/usr/lib/modules/$version
    mkdir -p "$modules"
    for file in $GUEST_MODULES; do
        take_module "$file" "$from" "$modules" || return
    done
    for file in "$modules"/*.ko; do
        "${CROSS_TOOLS}strip" -g "$file"
    done
    cp "$from"/modules.{builtin,order,builtin.modinfo} "$modules/"
    depmod -b "$root" "$version" || return
    pack "$WORK/base.cpio" || return
    rm -rf "$root"
}

# The files of a robot's package, where the package would install them.
install_project() {
    local file place
    for file in "$ROOT"/systemd/*; do
        [ -e "$file" ] || continue
        case $file in
            *.service.d) place=usr/lib/systemd/system/${file##*/} ;;
            *.service | *.socket | *.target | *.slice | *.timer) place=usr/lib/systemd/system/${file##*/} ;;
            *.sysusers) place=usr/lib/sysusers.d/$(basename "$file" .sysusers).conf ;;
            *.tmpfiles) place=usr/lib/tmpfiles.d/$(basename "$file" .tmpfiles).conf ;;
            *.rules) place=usr/lib/udev/rules.d/${file##*/} ;;
            *) continue ;;
        esac
        mkdir -p "$(dirname "$place")"
        cp -r "$file" "$place"
    done
    # If the project has no udev rules: the groups that the buses have on a robot's system.
    if ! compgen -G "usr/lib/udev/rules.d/*ganglion*" > /dev/null; then
        mkdir -p usr/lib/sysusers.d usr/lib/udev/rules.d
        printf 'g i2c -\ng gpio -\n' > usr/lib/sysusers.d/hil.conf
        printf '%s\n' 'SUBSYSTEM=="i2c-dev", GROUP="i2c", MODE="0660"' \
            'SUBSYSTEM=="gpio", KERNEL=="gpiochip*", GROUP="gpio", MODE="0660"' > usr/lib/udev/rules.d/60-hil.rules
    fi
    mkdir -p usr/bin
    # The only manual step of setting up a robot: choosing its board.
    if [ -f "$ROOT/boards/virtual-bench.toml" ]; then
        install -D -m 644 "$ROOT/boards/virtual-bench.toml" etc/ganglion/board.toml
    fi
    for file in "$BINARIES"/ganglion*; do
        case $file in *.d) continue ;; esac
        # Debug information is not needed at run time, and would be 40 MB for the guest to unpack.
        [ ! -x "$file" ] || "${CROSS_TOOLS}strip" -g -o "usr/bin/${file##*/}" "$file"
    done
}

pack_project() {
    local root=$WORK/project
    rm -rf "$root"
    mkdir "$root"
    cd "$root" || return
    install_project || return
    mkdir -p usr/lib/hil usr/lib/systemd/system
    install -m 755 "$RIG/guest/run" usr/lib/hil/run
    install -m 644 "$RIG/guest/hil.target" "$RIG/guest/hil.service" usr/lib/systemd/system/
    install -m 644 "$WORK/hilplant.ko" usr/lib/hil/
    pack "$WORK/project.cpio"
}

image_packed() {
    local key
    key=$(cat "$WORK/fetch.done" "$RIG/image.sh" | digest)
    need cpio xz depmod modinfo
    if ! is_done base "$key"; then
        [ -d "$WORK/tree/usr/src" ] || step "unpacking the kernel" unpack_kernel
        step "packing Debian" pack_base
        note_done base "$key" base.cpio
    fi
    step "packing the project" pack_project
    cat "$WORK/base.cpio" "$WORK/project.cpio" > "$WORK/initrd"
}
