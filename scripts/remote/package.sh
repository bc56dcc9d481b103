# shellcheck shell=bash
# What scripts/flash checks on the laptop before it contacts any robot: the package and the three files beside it.

LARGEST=$((512 << 20)) # bytes; a package has about ten million

# in_manifest KEY PATTERN: sets FOUND to the manifest's value, which must match PATTERN: it becomes part of a command.
in_manifest() {
    local LC_ALL=C pattern="^($2)\$"
    FOUND=${J[$1]-}
    [[ $FOUND =~ $pattern ]] && [ ${#FOUND} -le 64 ] && return
    clean "$FOUND" 60
    fail 65 "$MANIFEST: \"$1\" is '$CLEAN', which is not valid in a manifest of ganglion"
}

# look_at_package PATH: sets PACKAGE, SIZE, DIGEST, SIGNATURE (base64) and what the manifest says. Ends the
# script with a message if something is missing or inconsistent.
look_at_package() {
    PACKAGE=$1
    local folder name shown magic line text
    clean "$1" 120
    shown=$CLEAN
    name=${PACKAGE##*/} folder=.
    [ "$name" = "$PACKAGE" ] || folder=${PACKAGE%/*}/
    MANIFEST=${PACKAGE%.deb}.manifest.json
    [[ $name == *.deb ]] || fail 64 "'$shown' does not end in .deb; scripts/package writes packages to target/packages/"
    [ ! -L "$PACKAGE" ] || fail 65 "$shown is a symbolic link; name the file itself, with its signature and manifest beside it"
    [ -e "$PACKAGE" ] || fail 64 "$shown: no such file"
    [ -f "$PACKAGE" ] && [ -r "$PACKAGE" ] || fail 65 "$shown is not a readable file"
    for file in "$PACKAGE.sig" "$MANIFEST" "$folder/SHA256SUMS"; do
        clean "$file" 160
        [ -f "$file" ] && [ -r "$file" ] ||
            fail 65 "there is no $CLEAN; scripts/package --key FILE writes signature, manifest and sums beside the package"
    done
    SIZE=$(stat -L -c %s -- "$PACKAGE")
    [ "$SIZE" -le $LARGEST ] || fail 65 "$shown has $SIZE bytes; a package of ganglion has at most $LARGEST"
    IFS= read -r -n 7 magic < <(tr -d '\0' < "$PACKAGE") || :
    [ "$magic" = '!<arch>' ] || fail 65 "$shown is not a Debian package"
    DIGEST=$(sha256sum < "$PACKAGE")
    DIGEST=${DIGEST%% *}
    text=''
    while IFS= read -r line; do
        [ "${line:66}" != "$name" ] || text=${line:0:64}
    done < <(head -c 1000000 -- "$folder/SHA256SUMS")
    [ -n "$text" ] || fail 65 "SHA256SUMS beside $shown does not list it; make the package again"
    [ "$text" = "$DIGEST" ] ||
        fail 65 "$shown is damaged or cut short: its SHA-256 is ${DIGEST:0:12}..., SHA256SUMS says ${text:0:12}..."
    [ "$(stat -L -c %s -- "$PACKAGE.sig")" -le 8192 ] || fail 65 "$shown.sig is not a signature of ssh-keygen: too long"
    IFS= read -r line < <(tr -d '\0' < "$PACKAGE.sig") || :
    [ "$line" = '-----BEGIN SSH SIGNATURE-----' ] || fail 65 "$shown.sig is not a signature of ssh-keygen"
    SIGNATURE=$(base64 -w 0 < "$PACKAGE.sig")
    look_at_manifest
}

# Sets VERSION, ARCHITECTURE, COMMIT, GLIBC, DRIVER (empty: none needed) and BOARDS (with a space before and after each).
look_at_manifest() {
    local number=0
    read_json "$(head -c 65536 -- "$MANIFEST" | tr -d '\0')" || fail 65 "$MANIFEST is not one JSON object"
    [ "${J[schema]-}" = 1 ] || fail 65 "$MANIFEST: schema ${J[schema]-is missing}; this script supports 1"
    in_manifest package ganglion
    in_manifest version '[0-9][A-Za-z0-9.+~-]*' && VERSION=$FOUND
    in_manifest architecture 'arm64|amd64' && ARCHITECTURE=$FOUND
    in_manifest commit '[0-9a-f]{40}|null' && COMMIT=$FOUND
    in_manifest glibc '[0-9]{1,3}\.[0-9]{1,3}' && GLIBC=$FOUND
    in_manifest driver '[0-9]{1,5}(\.[0-9]{1,5}){0,2}|null' && DRIVER=${FOUND#null}
    BOARDS=' '
    while [ -n "${J[boards.$number]-}" ]; do
        in_manifest "boards.$number" '[a-z0-9][a-z0-9_-]*'
        BOARDS+="$FOUND "
        number=$((number + 1))
    done
    [ "$BOARDS" != ' ' ] || fail 65 "$MANIFEST names no board"
}
