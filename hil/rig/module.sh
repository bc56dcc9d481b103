# shellcheck shell=bash
# Unpacks the kernel and builds the plant's module against its headers. Leaves vmlinuz, tree/ and hilplant.ko.

CROSS_TOOLS=aarch64-linux-gnu-

unpack_kernel() {
    local deb version headers
    version=$(cat "$WORK/kernel.version")
    rm -rf "$WORK/tree"
    mkdir "$WORK/tree"
    for deb in "$WORK"/kernel/*.deb; do
        dpkg-deb -x "$deb" "$WORK/tree"
    done
    headers=$WORK/tree/usr/src/linux-headers-$version
    # The headers expect to be in /usr/src; and a vmlinux beside them would require pahole, which is not needed here.
    sed -i "s#^include /.*/\(linux-headers-[^/]*\)/Makefile#include $WORK/tree/usr/src/\1/Makefile#" "$headers/Makefile"
    rm -f "$headers/vmlinux"
    cp "$WORK/tree/boot/vmlinuz-$version" "$WORK/vmlinuz"
}

build_module() {
    local version
    version=$(cat "$WORK/kernel.version")
    rm -rf "$WORK/kmod"
    cp -r "$ROOT/hil/kmod" "$WORK/kmod"
    # Warnings are errors, in the module's sources and in the kernel's headers that they include.
    make -s -C "$WORK/tree/usr/src/linux-headers-$version" M="$WORK/kmod" ARCH=arm64 CROSS_COMPILE=$CROSS_TOOLS \
        KCFLAGS=-Werror modules || return
    "${CROSS_TOOLS}strip" -g -o "$WORK/hilplant.ko" "$WORK/kmod/hilplant.ko"
}

# An error may come from the module, or from a tree that was damaged since it was unpacked, which is cheap to rule out.
build_module_surely() { build_module || { unpack_kernel && build_module; }; }

module_built() {
    local unpacked key
    # The tree contains absolute paths: in another place it must be unpacked again.
    unpacked=$({ cat "$WORK/fetch.done" "$RIG/module.sh"; echo "$WORK"; } | digest)
    key=$(echo "$unpacked $(files_digest hil/kmod)" | digest)
    is_done module "$key" && is_done kernel "$unpacked" && return
    need make "${CROSS_TOOLS}gcc" "${CROSS_TOOLS}strip" bc
    if ! is_done kernel "$unpacked" || [ ! -d "$WORK/tree/usr/src" ]; then
        step "unpacking the kernel" unpack_kernel
        note_done kernel "$unpacked" vmlinuz
    fi
    step "building the plant's module" build_module_surely
    note_done module "$key" hilplant.ko
}
