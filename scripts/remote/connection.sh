# shellcheck shell=bash
# What scripts/flash and scripts/rollback share: ssh that never asks a question, one connection for all calls to
# a robot, text from a robot made safe to print, and parsing of the JSON in a robot's answers. Bash and coreutils
# only. The caller has set PROGRAM; `call` and what follows it need OWN, a private folder.

# Gives up on an unreachable robot after 10 s, and on a dead connection after 15 s.
SSH=(ssh -T -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5 -o ServerAliveCountMax=3 -o LogLevel=ERROR)

# share_connections: from here on, the first call to a robot authenticates, and the later ones use its connection
# (ControlMaster of ssh_config(5)). If it is cut, or the robot's sshd allows one session on it only, a call
# authenticates again. `end_connections` ends them all; if this script is killed before that, they end after ten
# minutes without a call. A shorter time would end them while a fleet waits for its wave.
SOCKETS=''
share_connections() {
    # A socket's path has at most 104 bytes (108 on Linux), and TMPDIR may be long.
    SOCKETS=$(TMPDIR=/tmp mktemp -d 2> /dev/null) || return 0
    SSH+=(-o ControlMaster=auto -o ControlPersist=600 -o "ControlPath=$SOCKETS/%C")
}
end_connections() {
    local socket
    [ -n "$SOCKETS" ] || return 0
    for socket in "$SOCKETS"/*; do
        [ ! -e "$socket" ] || timeout 5 ssh -O exit -o "ControlPath=$socket" -- robot
    done > /dev/null 2>&1
    rm -rf "$SOCKETS"
}

fail() {
    local code=$1
    shift
    printf '%s: %s\n' "$PROGRAM" "$*" >&2
    exit "$code"
}

# help FILE: prints the comment at the top of the file, without what it says to shellcheck at its end.
print_help() {
    local line
    while IFS= read -r line; do
        case $line in '#!'*) ;; '# shellcheck '*) break ;; '#'*) line=${line#\#}; printf '%s\n' "${line# }" ;; *) break ;; esac
    done < "$1"
}

# clean TEXT [LENGTH]: sets CLEAN to at most LENGTH (default 200) characters of printable ASCII, because a terminal may act on
# other bytes.
clean() {
    local LC_ALL=C
    CLEAN=${1:0:${2:-200}}
    CLEAN=${CLEAN//[$'\t\r\n']/ }
    CLEAN=${CLEAN//[^ -~]/?}
}

# quoted TEXT: sets QUOTED to the cleaned text, at most 400 characters, as a JSON string.
quoted() {
    clean "$1" 400
    QUOTED=${CLEAN//\\/\\\\}
    QUOTED=\"${QUOTED//\"/\\\"}\"
}

# check_host HOST: whether HOST is safe as an argument of ssh: a name, an address or an alias, optionally with
# a user.
check_host() {
    local LC_ALL=C
    [[ $1 =~ ^[A-Za-z0-9_.][A-Za-z0-9_.@:%-]*$ ]] && [ ${#1} -le 200 ]
}

# call SECONDS HOST COMMAND: runs COMMAND on the robot; its output is in $OWN/out and $OWN/err, each at most 256 KiB.
# Standard input is passed on. Returns the code of ssh: 255 if the connection failed, 124 on a timeout.
call() {
    local limit=$1 host=$2
    (ulimit -S -f 256 && exec timeout --foreground "$limit" "${SSH[@]}" -- "$host" "$3" > "$OWN/out" 2> "$OWN/err")
}

# Whether an exit code of `call` comes from ssh, so that the command may still be running on the robot: 255
# the connection failed, 124 a timeout, 141 and 153 its output was too long and ssh was ended here. A program
# that crashed on the robot has a different code.
is_cut() { case $1 in 255 | 124 | 141 | 153) ;; *) false ;; esac; }

# update_command PROGRAM WORDS [THEN]: sets COMMAND. The remote shell keeps running, so that a crash shows up as
# an exit code, not as a failed connection; it may then run a second command.
update_command() { COMMAND="sh -c '$AS_ROOT$1 update $2; rc=\$?${3:+; $3}; exit \$rc'"; }

# said FILE: sets SAID to the last three lines of a file with a robot's output, joined into one line.
said() {
    local line
    SAID=''
    while IFS= read -r line || [ -n "$line" ]; do
        clean "$line"
        SAID+=${SAID:+ }$CLEAN
    done < <(tail -n 3 "$1" 2> /dev/null | tr -d '\0')
    SAID=${SAID:0:400}
}

# ssh_failed HOST: sets CODE and WHY after a `call` whose exit code `is_cut` accepts.
ssh_failed() {
    local host=$1 text
    text=$(tail -c 2000 "$OWN/err" 2> /dev/null | tr -d '\0')
    CODE=77
    case $text in
    *'Permission denied'* | *'Too many authentication failures'*)
        WHY="ssh would ask for a password, and this script answers no questions; run once: ssh-copy-id $host" ;;
    *'Host key verification failed'* | *'REMOTE HOST IDENTIFICATION HAS CHANGED'*)
        WHY="ssh does not know this robot's host key, or knows another one; check it once: ssh $host" ;;
    *)
        CODE=69
        said "$OWN/err"
        WHY="unreachable: ${SAID:-no answer in time}" ;;
    esac
}

# read_json TEXT: stores the values of one JSON object in J, by path: J[unfinished.phase], J[kept.0]. Fails on anything else,
# on a text longer than 64 KiB, and on more than 8 levels of nesting. Escapes other than \" \\ \/ stay as they are.
declare -A J=()
read_json() {
    local LC_ALL=C rest=$1
    J=()
    [ ${#rest} -le 65536 ] && [[ $rest =~ ^[[:space:]]*\{ ]] && json_value '' 0 && [[ $rest =~ ^[[:space:]]*$ ]]
}

skip_space() { rest=${rest#"${rest%%[![:space:]]*}"}; }

# Takes one string off `rest` into TAKEN.
json_string() {
    local part
    TAKEN=''
    [ "${rest:0:1}" = '"' ] || return 1
    rest=${rest:1}
    while :; do
        part=${rest%%[\"\\]*}
        [ "$part" != "$rest" ] || return 1
        TAKEN+=$part
        rest=${rest:${#part}}
        if [ "${rest:0:1}" = '"' ]; then
            rest=${rest:1}
            return 0
        fi
        case ${rest:1:1} in ['"\\/']) TAKEN+=${rest:1:1} ;; *) TAKEN+=${rest:0:2} ;; esac
        rest=${rest:2}
    done
}

# json_value PATH DEPTH: takes one value off `rest` into J.
json_value() {
    local path=$1 depth=$2 end='' number=0 key
    [ "$depth" -le 8 ] || return 1
    skip_space
    case ${rest:0:1} in
    '{') end='}' ;;
    '[') end=']' ;;
    '"')
        json_string || return 1
        J[${path:-.}]=$TAKEN
        return 0
        ;;
    *)
        [[ ${rest:0:64} =~ ^(true|false|null|-?[0-9][0-9.eE+-]*) ]] || return 1
        J[${path:-.}]=${BASH_REMATCH[1]}
        rest=${rest:${#BASH_REMATCH[1]}}
        return 0
        ;;
    esac
    rest=${rest:1}
    skip_space
    while [ "${rest:0:1}" != "$end" ]; do
        key=$number
        if [ "$end" = '}' ]; then
            json_string || return 1
            key=$TAKEN
            skip_space
            [ "${rest:0:1}" = : ] || return 1
            rest=${rest:1}
        fi
        json_value "${path:+$path.}$key" $((depth + 1)) || return 1
        number=$((number + 1))
        skip_space
        case ${rest:0:1} in ,) rest=${rest:1} && skip_space ;; "$end") ;; *) return 1 ;; esac
    done
    rest=${rest:1}
}
