# shellcheck shell=bash
# Fetches the guest's Debian 12 packages through a private apt root, so that this machine's own packages stay as they
# are and root is not needed. Leaves parts/*.deb (the guest's), kernel/*.deb (kernel and headers), kernel.version.

GUEST_PACKAGES="base-files base-passwd bash dash coreutils grep sed findutils procps util-linux mount login libc-bin
systemd systemd-sysv udev kmod i2c-tools gpiod rt-tests"
# Debian's PREEMPT_RT kernel of the 6.12 line, the closest to today's Raspberry Pi OS.
KERNEL=linux-image-6.12-rt-arm64
DEBIAN_KEYS=/usr/share/keyrings/debian-archive-keyring.gpg

fetch_key() { { echo "$GUEST_PACKAGES $KERNEL"; cat "$RIG/fetch.sh"; } | digest; }

# This machine's own source, if it is the same Debian (a nearby mirror); otherwise Debian's.
write_sources() {
    local own=/etc/apt/sources.list.d/debian.sources
    if [ -f "$own" ] && grep -q '^Suites:.*bookworm-security' "$own"; then
        cp "$own" "$1"
        return
    fi
    [ -f "$DEBIAN_KEYS" ] || { echo "no $DEBIAN_KEYS: install debian-archive-keyring"; return "$UNAVAILABLE"; }
    cat > "$1" << SOURCES
Types: deb
URIs: http://deb.debian.org/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: $DEBIAN_KEYS

Types: deb
URIs: http://deb.debian.org/debian-security
Suites: bookworm-security
Components: main
Signed-By: $DEBIAN_KEYS
SOURCES
}

fetch() {
    local apt=$WORK/apt here image version common tools
    here=$(dpkg --print-architecture)
    rm -rf "$apt" "$WORK/parts" "$WORK/kernel"
    mkdir -p "$apt"/{lists/partial,archives/partial,sources,conf} "$WORK/parts" "$WORK/kernel"
    : > "$apt/status"
    write_sources "$apt/sources/debian.sources" || return
    # The network settings of this machine (a proxy) apply to the guest's packages too.
    cp /etc/apt/apt.conf.d/* "$apt/conf/" 2> /dev/null || true
    cat > "$apt/apt.conf" << CONF
Dir::Etc "$apt"; Dir::Etc::sourcelist "/dev/null"; Dir::Etc::sourceparts "$apt/sources";
Dir::Etc::parts "$apt/conf"; Dir::Etc::preferences "/dev/null"; Dir::Etc::preferencesparts "/dev/null";
Dir::Etc::trustedparts "/etc/apt/trusted.gpg.d";
Dir::State "$apt"; Dir::State::lists "$apt/lists"; Dir::State::status "$apt/status";
Dir::Cache "$apt"; Dir::Cache::archives "$apt/archives";
APT::Architecture "arm64"; APT::Architectures { "arm64"; "$here"; };
APT::Install-Recommends "false"; APT::Sandbox::User ""; APT::Update::Error-Mode "any";
Acquire::Languages "none"; Acquire::Retries "3"; Debug::NoLocking "true";
DPkg::Post-Invoke { }; APT::Update::Post-Invoke { };
CONF
    export APT_CONFIG=$apt/apt.conf
    apt-get -qq update || { echo "Debian's packages cannot be reached"; return "$UNAVAILABLE"; }
    # shellcheck disable=SC2086 # a list
    apt-get -qq -y install --download-only $GUEST_PACKAGES || { echo "the guest's packages cannot be downloaded"; return "$UNAVAILABLE"; }
    mv "$apt"/archives/*.deb "$WORK/parts/"

    image=$(apt-cache depends "$KERNEL" | sed -n 's/^ *Depends: \(linux-image-.*\)/\1/p' | head -1)
    version=${image#linux-image-}
    [ -n "$version" ] || { echo "$KERNEL is not available"; return "$UNAVAILABLE"; }
    common=$(apt-cache show "linux-headers-$version" | grep -o 'linux-headers-[^ ,]*-common[^ ,]*' | head -1)
    tools=$(apt-cache show "linux-headers-$version" | grep -o 'linux-kbuild-[^ ,]*' | head -1)
    (cd "$WORK/kernel" && apt-get -qq download "$image" "linux-headers-$version" "$common" "$tools:$here") ||
        { echo "the kernel's packages cannot be downloaded"; return "$UNAVAILABLE"; }
    unset APT_CONFIG
    echo "$version" > "$WORK/kernel.version"
    rm -rf "$apt"
}

fetched() {
    local key
    key=$(fetch_key)
    is_done fetch "$key" && return
    need apt-get apt-cache dpkg dpkg-deb
    step "fetching the guest's packages and kernel" fetch
    (cd "$WORK" && printf '%s\n' kernel.version parts/*.deb kernel/*.deb) > "$WORK/fetched"
    mapfile -t outputs < "$WORK/fetched"
    note_done fetch "$key" "${outputs[@]}"
}
