# shellcheck shell=bash
# What scripts/flash finds on the robots, its verdict on each, and how it shows them. Nothing here changes a robot.

# A package unpacks to about three times its size, and dpkg keeps the old files until the new ones are complete.
UNPACKED=4
# The update's reserve file plus space for its records, in KiB.
RECORDS_KIB=8192
# Concurrent ssh connections while robots are only queried.
LOOKS=8
# Maximum number of lines of facts; a robot sends about 25.
FACTS=60

declare -A F=()          # F[INDEX.NAME]: what a robot reported, made safe to print
VERDICT=() CODES=() WHYS=()

# look INDEX: queries one robot; the answer goes into its folder.
look() {
    local OWN=$WORK/$1 rc=0
    mkdir -p "$OWN"
    call 90 "${HOSTS[$1]}" "sh -s -- $VERSION" < "$HERE/remote/facts.sh" || rc=$?
    echo "$rc" > "$OWN/rc"
    mv "$OWN/out" "$OWN/facts"
}

look_at_robots() {
    local index running=0
    [ ${#HOSTS[@]} -eq 1 ] || echo "querying ${#HOSTS[@]} robots" >&2
    for index in "${!HOSTS[@]}"; do
        if [ $running -ge $LOOKS ]; then
            wait
            running=0
        fi
        look "$index" &
        running=$((running + 1))
    done
    wait
    for index in "${!HOSTS[@]}"; do
        take_facts "$index"
        judge "$index"
    done
}

take_facts() {
    local index=$1 name value lines=0
    while read -r name value && [ $lines -lt $FACTS ]; do
        lines=$((lines + 1))
        case $name in
        status) F[$index.status]=${value:0:65536} ;;
        [a-z]*)
            clean "$name" 20 && name=$CLEAN
            clean "$value" 120
            F[$index.$name]=$CLEAN
            ;;
        esac
    done < <(tr -d '\0' < "$WORK/$index/facts" 2> /dev/null)
}

# refuse INDEX CODE WHY
refuse() {
    VERDICT[$1]=refused CODES[$1]=$2 WHYS[$1]=$3
}

# older_than A B: whether version number A (dots between parts) is lower than B.
older_than() {
    local IFS=. left right index
    read -ra left <<< "$1"
    read -ra right <<< "$2"
    for index in 0 1 2; do
        [ "$((10#${left[index]:-0}))" -eq "$((10#${right[index]:-0}))" ] && continue
        [ "$((10#${left[index]:-0}))" -lt "$((10#${right[index]:-0}))" ]
        return
    done
    return 1
}

is_number() { [[ $1 =~ ^[0-9]{1,6}(\.[0-9]{1,6}){0,3}$ ]]; }

# judge INDEX: sets the verdict: refused, active, or flash. The first problem decides; the checks are in the order
# in which a user would fix the problems.
judge() {
    local index=$1 host=${HOSTS[$1]} rc installed board
    rc=$(cat "$WORK/$index/rc")
    VERDICT[index]=flash CODES[index]=0 WHYS[index]=''
    if [ "${F[$index.end]-}" != ok ]; then
        local OWN=$WORK/$index
        if is_cut "$rc"; then
            ssh_failed "$host"
            refuse "$index" "$CODE" "$WHY"
        else
            said "$OWN/err"
            refuse "$index" 69 "its answer broke off: ${SAID:-exit code $rc}"
        fi
        return
    fi
    if [ "${F[$index.rights]-}" = none ]; then
        refuse "$index" 77 "sudo on the robot asks for a password; allow it without one, or log in as root"
        return
    fi
    if [ "${F[$index.architecture]-}" != "$ARCHITECTURE" ]; then
        refuse "$index" 65 "the package is for $ARCHITECTURE, the robot is ${F[$index.architecture]:-of an unknown kind}"
        return
    fi
    read_json "${F[$index.status]-}" || J=()
    if [ "${J[schema]-}" != 1 ] || [ -z "${F[$index.board_file]-}" ] || [ -z "${F[$index.signers]-}" ]; then
        not_set_up "$index"
        return
    fi
    clean "${J[installed]-}" 60
    installed=$CLEAN
    F[$index.installed]=$installed
    F[$index.hold]=${J[hold]-}
    clean "${J[runtime]-}" 20
    F[$index.runtime]=$CLEAN
    clean "${J[board]-${F[$index.board]-}}" 60
    board=$CLEAN
    F[$index.board]=$board
    if [ -n "$board" ] && [[ $BOARDS != *" $board "* ]]; then
        refuse "$index" 65 "its board is $board, the package is for:${BOARDS% }"
    elif ! is_number "${F[$index.glibc]-}" || older_than "${F[$index.glibc]}" "$GLIBC"; then
        refuse "$index" 65 "the package needs glibc $GLIBC, the robot has ${F[$index.glibc]:-none that is known}"
    elif uses_driver "$index" && older_than "${F[$index.driver]}" "$DRIVER"; then
        refuse "$index" 65 "the package needs GPU driver $DRIVER, the robot has ${F[$index.driver]}"
    elif [ -n "${F[$index.busy]-}" ] || [ -n "${J[unfinished.phase]-}" ]; then
        clean "${J[unfinished.phase]:+ (${J[unfinished.phase]}, to ${J[unfinished.to]-?})}"
        refuse "$index" 75 "another flash or update is in progress there$CLEAN"
    elif [ "$installed" = "$VERSION" ]; then
        VERDICT[index]=active
    elif [ "${F[$index.mode]-}" = armed ] || [ "${F[$index.mode]-}" = degraded ]; then
        refuse "$index" 75 "the robot is ${F[$index.mode]}; first: ssh $host ganglion disarm"
    elif [ "${F[$index.order]-}" = older ] && [ -z "$DOWNGRADE" ]; then
        refuse "$index" 65 "$VERSION is older than the installed $installed; add --allow-downgrade if that is intended"
    else
        judge_space "$index"
    fi
}

not_set_up() {
    local index=$1 lacks='no board file'
    [ -z "${F[$index.board_file]-}" ] || lacks='no /etc/ganglion/allowed_signers'
    [ "${J[schema]-}" = 1 ] || lacks='no program that can update'
    refuse "$index" 69 "not set up ($lacks); on the robot: sudo apt install ./ganglion_*.deb && sudo ganglion setup"
}

# Whether the robot has a GPU driver to which the package's minimum applies, and a board that uses it.
uses_driver() {
    [ -n "$DRIVER" ] && is_number "${F[$1.driver]-}" && case ${F[$1.engine]-} in cpu | reference) false ;; esac
}

# judge_space INDEX: refuses a robot without space for the copy in the home folder, the kept package and the records on
# /var, and the files on /usr. Sizes on the same file system are added up.
judge_space() {
    local index=$1 size_kib=$((SIZE / 1024 + 1)) place device needs free
    declare -A need=() least=()
    F[$index.needs]=$((size_kib * (2 + UNPACKED) + RECORDS_KIB))
    for place in home var usr; do
        device=${F[$index.device_$place]:-$place} free=${F[$index.free_$place]-}
        [[ $free =~ ^[0-9]{1,15}$ ]] || free=0
        F[$index.free_$place]=$free
        case $place in
        home) needs=$size_kib ;;
        var) needs=$((size_kib + RECORDS_KIB)) ;;
        usr) needs=$((size_kib * UNPACKED)) ;;
        esac
        need[$device]=$((${need[$device]:-0} + needs))
        [ "${least[$device]:-$free}" -lt "$free" ] || least[$device]=$free
        if [ "${least[$device]}" -lt "${need[$device]}" ]; then
            local name=/$place
            [ $place != home ] || name='the home folder'
            amount "${least[$device]}" && free=$AMOUNT
            amount "${need[$device]}" && needs=$AMOUNT
            refuse "$index" 69 "too little space on $name: $free free, $needs needed"
            return
        fi
    done
}

# amount KIB: sets AMOUNT to a readable size.
amount() {
    local kib=$1
    if [ "$kib" -ge $((1024 * 1024)) ]; then AMOUNT="$((kib / 1048576)).$((kib % 1048576 * 10 / 1048576)) GiB"
    elif [ "$kib" -ge 10240 ]; then AMOUNT="$((kib / 1024)) MiB"
    else AMOUNT="$((kib / 1024)).$((kib % 1024 * 10 / 1024)) MiB"; fi
}

# The text for the verdict.
verdict_of() {
    case ${VERDICT[$1]} in
    flash) SHOWN=flash ;;
    active) SHOWN='already active' ;;
    refused) SHOWN="refused: ${WHYS[$1]}" ;;
    esac
}

show_plan() {
    local index commit=''
    [ "$COMMIT" = null ] || commit=", commit ${COMMIT:0:12}"
    amount $((SIZE / 1024))
    echo "ganglion $VERSION for $ARCHITECTURE$commit"
    echo "  package   ${PACKAGE##*/}, $AMOUNT, sha256 ${DIGEST:0:12}...; each robot checks its signature itself"
    if [ ${#HOSTS[@]} -eq 1 ]; then
        show_block 0
    else
        show_table
    fi
}

show_block() {
    local index=$1 system remark='' gpu='no driver' free
    show_verdict() { verdict_of "$index" && printf '  verdict   %s\n' "$SHOWN"; }
    printf '\n%s\n' "${HOSTS[$index]}"
    if [ "${F[$index.end]-}" != ok ]; then
        show_verdict
        return
    fi
    system="${F[$index.system]:-unknown system}, ${F[$index.architecture]-}, glibc ${F[$index.glibc]:-?} (needs $GLIBC)"
    [ -z "${F[$index.l4t]-}" ] || system+=", ${F[$index.l4t]}"
    [ -z "${F[$index.driver]-}" ] || gpu="driver ${F[$index.driver]}"
    [ -z "$DRIVER" ] || gpu+=" (needs $DRIVER, where a GPU is used)"
    [ "${F[$index.hold]-}" != true ] || remark=', held: arms only when a person arms it'
    printf '  robot     %s, number %s\n' "${F[$index.model]:-unknown machine}" "${F[$index.number]-?}"
    printf '  system    %s\n  GPU       %s\n' "$system" "$gpu"
    printf '  board     %s\n' "${F[$index.board]:-of its own, extends no shipped board; the robot checks it}"
    printf '  state     runtime %s, %s%s\n' "${F[$index.runtime]:-unknown}" "${F[$index.mode]:-no answer}" "$remark"
    free_of "$index" usr && free="/usr $AMOUNT"
    free_of "$index" var && free+=", /var $AMOUNT"
    if [ -n "${F[$index.needs]-}" ]; then
        amount "${F[$index.needs]}"
        free+=" (needs $AMOUNT)"
    fi
    printf '  free      %s\n' "$free"
    printf '  version   %s -> %s\n' "${F[$index.installed]:-${F[$index.program]:-none}}" "$VERSION"
    show_verdict
    [ "${VERDICT[$index]}" != flash ] || show_steps
}

show_steps() { echo "  steps     copy, stage, try for $TRIAL, then commit; otherwise the robot returns by itself"; }

# free_of INDEX PLACE: sets AMOUNT.
free_of() {
    local free=${F[$1.free_$2]-}
    [[ $free =~ ^[0-9]{1,15}$ ]] || free=0
    amount "$free"
}

show_table() {
    local index width=5 board=5 running=7
    for index in "${!HOSTS[@]}"; do
        [ ${#HOSTS[$index]} -le $width ] || width=${#HOSTS[$index]}
        local name=${F[$index.board]-} installed=${F[$index.installed]-}
        [ ${#name} -le $board ] || board=${#name}
        [ ${#installed} -le $running ] || running=${#installed}
    done
    local form="%-${width}s  %-${board}s  %-${running}s  %-${#VERSION}s  %-9s  %s\n" free
    [ ${#VERSION} -ge 3 ] || form="%-${width}s  %-${board}s  %-${running}s  %-3s  %-9s  %s\n"
    echo
    # shellcheck disable=SC2059 # the widths are numbers of this script
    printf "$form" robot board running new free verdict
    for index in "${!HOSTS[@]}"; do
        verdict_of "$index"
        free='-'
        if [ -n "${F[$index.free_usr]-}" ]; then
            free_of "$index" usr && free=$AMOUNT
        fi
        # shellcheck disable=SC2059
        printf "$form" "${HOSTS[$index]}" "${F[$index.board]:--}" "${F[$index.installed]:--}" "$VERSION" "$free" "$SHOWN"
    done
    echo
    ! [[ ${VERDICT[*]} == *flash* ]] || show_steps
}
