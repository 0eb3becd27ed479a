#!/bin/sh
# hcio's program on a worker: it owns the cases of one run there.
#
#   sh program.sh VERB BASE RUN [ARGUMENTS]        (the run lives in BASE/RUN, a case in BASE/RUN/CASE)
#
# POSIX sh only (dash, bash, busybox). A reply stands between two marker lines, so that greetings of
# a login do no harm; in it `key=value` lines, `@section NAME` lines, and `|text` lines. Times are
# microseconds since the epoch inside and seconds with six decimals in files and replies.
#
# What is in a case's folder:
#   job.fio targets ...   staged files      staged        boot it was staged in
#   arm.N                 attempt N's lock   go.N          who takes it first: the start, or `cancelled`
#   owner, fio            pids               starts        one line for each time fio was executed
#   out/                  fio's output, its working directory
#   started, done         instants; `done` is written last, by rename

LC_ALL=C
export LC_ALL
umask 077
# A non-interactive login of an ordinary user often lacks the sbin folders, where blkid lives.
PATH=$PATH:/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin
PROTOCOL=1
FIO=${HCIO_FIO:-fio} # the inventory may name another one by its path
STEP_US=50000 # /proc/uptime counts in 10 ms; less than this is not a clock step

VERB=${1-}
BASE=${2-}
RUN=${3-}
HOME_DIR=$BASE/$RUN

# ---------------------------------------------------------------- replies

begin() { printf '\n#hcio-begin %s %s\n' "$VERB" "$PROTOCOL"; }
end() { printf '#hcio-end %s\n' "$VERB"; }
kv() { printf '%s=%s\n' "$1" "$2"; }
text() { # NAME: stdin as text lines
    printf '@text %s\n' "$1"
    sed 's/^/|/'
    # A last line without its newline must not swallow what follows.
    printf '\n@end\n'
}
fail() { # CODE TEXT
    printf '\n@fail\n'
    kv error "$1"
    kv text "$2"
    end
    exit 3
}

# ---------------------------------------------------------------- clocks

uptime_us() { # sets UP, with no fork
    read -r UP _ </proc/uptime
    UP=${UP%.*}${UP#*.}0000
    while :; do case $UP in 0?*) UP=${UP#0} ;; *) break ;; esac done
}

seconds() { # MICROSECONDS: sets SECS to seconds with six decimals, with no fork
    SECS=$1
    while [ ${#SECS} -lt 7 ]; do SECS=0$SECS; done
    SECS=${SECS%??????}.${SECS#"${SECS%??????}"}
}

find_clock() { # sets CLOCK to shell, date or uptime, EPOCH to the epoch at uptime 0
    # bash's own clock needs no fork. An imported variable of that name would stand still.
    NOW=${EPOCHREALTIME-}
    case ${BASH_VERSION-} in 5.* | [6-9].*) CLOCK=shell EPOCH=0 && return ;; esac
    NOW=$(date +%s%N)
    case $NOW in
    *[!0-9]*) CLOCK=uptime ;;
    *) CLOCK=date EPOCH=0 && return ;;
    esac
    # This date has no fractions: see one second begin, and count from there by /proc/uptime.
    if [ -r "$HOME_DIR/clock" ]; then
        read -r _boot EPOCH <"$HOME_DIR/clock"
        uptime_us
        _off=$((($EPOCH + $UP) / 1000000 - $(date +%s)))
        [ "$_boot" = "$(boot)" ] && [ $_off -ge -1 ] && [ $_off -le 0 ] && return
    fi
    _s=$(date +%s)
    while _t=$(date +%s) && [ "$_t" = "$_s" ]; do :; done
    uptime_us
    EPOCH=$(($_t * 1000000 - $UP))
    if [ -d "$HOME_DIR" ]; then
        printf '%s %s\n' "$(boot)" "$EPOCH" >"$HOME_DIR/clock.$$" && mv "$HOME_DIR/clock.$$" "$HOME_DIR/clock"
    fi
}

now() { # sets NOW; one fork with date, none otherwise
    if [ "$CLOCK" = shell ]; then
        NOW=${EPOCHREALTIME%[!0-9]*}${EPOCHREALTIME#*[!0-9]}
    elif [ "$CLOCK" = date ]; then
        NOW=$(date +%s%N)
        NOW=${NOW%???}
    else
        uptime_us
        NOW=$(($EPOCH + $UP))
    fi
}

nap() { # MICROSECONDS
    [ "$1" -gt 0 ] || return 0
    seconds "$1"
    sleep "$SECS" 2>/dev/null || sleep "${SECS%.*}"
}

still() { # MICROSECONDS: the last sleep before the start; with bash nothing has to be forked or reaped
    [ "$1" -gt 0 ] || return 0
    seconds "$1"
    # shellcheck disable=SC3045
    if [ "$CLOCK" = shell ]; then read -r -t "$SECS" _ <&5; else sleep "$SECS" 2>/dev/null || sleep "${SECS%.*}"; fi
}

boot() { read -r _b </proc/sys/kernel/random/boot_id && printf %s "$_b"; }

# ---------------------------------------------------------------- files

sha() { # FILE
    if [ -z "${SHA_TOOL-}" ]; then
        if has sha256sum; then SHA_TOOL=sha256sum; else SHA_TOOL='openssl dgst -sha256 -r'; fi
    fi
    $SHA_TOOL <"$1" 2>/dev/null | cut -c1-64
}
size() { wc -c <"$1" 2>/dev/null | tr -d ' '; }
has() { command -v "$1" >/dev/null 2>&1; }
yesno() { if "$@"; then echo 1; else echo 0; fi; }
free_bytes() { # PATH
    df -Pk "$1" 2>/dev/null | awk 'NR > 1 { kb = $(NF - 2) } END { if (kb != "") printf "%.0f", kb * 1024 }'
}
slurp() { # FILE KEY: sets VALUE from a key=value file, with no fork; false when it isn't there
    VALUE=
    while IFS= read -r _line; do
        case $_line in "$2="*) VALUE=${_line#*=} && return 0 ;; esac
    done <"$1"
    return 1
}

check_name() { # WHAT NAME: names become folders below ours and nothing else
    case $2 in
    '' | .* | */* | *'
'*) fail name "$1 name '$2' is not allowed" ;;
    esac
}

check_base() { # the base is a real folder of ours: in /var/tmp anyone could have made it first
    # shellcheck disable=SC2046
    set -- $(ls -ldn "$BASE" 2>/dev/null)
    case ${1-} in
    d*) ;;
    '') fail base "folder $BASE isn't there" ;;
    *) fail base "$BASE is not a folder of its own" ;;
    esac
    [ "$3" = "$(id -u)" ] || fail base "folder $BASE belongs to uid $3, not to us: name another base"
}

enter_case() { # CASE: sets CASE, DIR, MARK
    CASE=$1
    check_name case "$CASE"
    DIR=$HOME_DIR/$CASE
    MARK="HCIO_CASE=$DIR;"
}

# ---------------------------------------------------------------- processes of a case

# fio's jobs call setsid, so a process group doesn't hold them. All carry our mark in their
# environment; it is read anew right before a signal, so that a pid used again is never hit.
marked() { # sets PIDS, without ourselves
    PIDS=
    for _f in $(grep -lszFx "$MARK" /proc/[0-9]*/environ 2>/dev/null); do
        _p=${_f#/proc/}
        _p=${_p%/environ}
        [ "$_p" = $$ ] || ! is_marked "$_p" || PIDS="$PIDS $_p"
    done
}
is_marked() { grep -qszFx "$MARK" "/proc/$1/environ"; } # -z is no POSIX, but GNU's, busybox's, toybox's
signal_marked() { # SIGNAL [PID TO SPARE]
    marked
    for _p in $PIDS; do
        [ "$_p" = "${2-}" ] || ! is_marked "$_p" || kill "-$1" "$_p" 2>/dev/null
    done
}
start_time() { # PID: sets STARTED_AT to its start in ticks, empty when it isn't there; no fork
    STARTED_AT=
    { read -r _stat <"/proc/$1/stat"; } 2>/dev/null || return 0
    _stat=${_stat##*) }
    # shellcheck disable=SC2086
    set -- $_stat
    [ "$1" = Z ] || STARTED_AT=${20}
}

# ---------------------------------------------------------------- state of a case

attempt_of() { # sets ATTEMPT to the last attempt that isn't cancelled, empty when there is none
    ATTEMPT=
    for _a in "$DIR"/arm.*; do
        [ -e "$_a" ] || continue
        _n=${_a##*.}
        cancelled "$_n" || ATTEMPT=$_n
    done
}
cancelled() { # ATTEMPT
    [ -e "$DIR/go.$1" ] || return 1
    _c=
    read -r _c <"$DIR/go.$1"
    [ "$_c" = cancelled ]
}
owner_alive() {
    [ -e "$DIR/owner" ] || return 1
    read -r _pid _start _boot _at _ <"$DIR/owner" || return 1
    [ "$_boot" = "$(boot)" ] && [ "$_at" = "$ATTEMPT" ] || return 1
    start_time "$_pid"
    [ "$STARTED_AT" = "$_start" ]
}
state_of() { # sets STATE: gone empty staged armed running done lost, and ATTEMPT
    attempt_of
    if [ ! -d "$DIR" ]; then
        STATE=gone
    elif [ -e "$DIR/done" ]; then
        STATE=done
    elif [ -n "$ATTEMPT" ]; then
        if owner_alive; then
            if [ -e "$DIR/go.$ATTEMPT" ]; then STATE=running; else STATE=armed; fi
        elif [ -e "$DIR/done" ]; then
            STATE=done # it ended while we looked
        else
            young_arm && STATE=armed || STATE=lost
        fi
    elif [ -e "$DIR/staged" ]; then
        STATE=staged
    else
        STATE=empty
    fi
}
young_arm() { # the lock is taken, its owner has not written itself down yet
    [ ! -e "$DIR/owner" ] || return 1
    _until=
    read -r _until _ <"$DIR/arm.$ATTEMPT"
    now
    [ -n "$_until" ] && [ "$NOW" -lt $(($_until + 2000000)) ]
}
say_state() {
    state_of
    kv state "$STATE"
    kv attempt "$ATTEMPT"
    now
    seconds "$NOW"
    kv now "$SECS"
}

# ---------------------------------------------------------------- targets

check_targets() { # sets WHY when a target isn't what it was when it was staged; no fork
    WHY=
    [ -r "$DIR/targets" ] || return 0
    while read -r _kind _size _number _path; do
        case $_kind in
        device) check_device "$_path" "$_size" "$_number" ;;
        file) [ -f "$_path" ] || WHY="file $_path isn't there" ;;
        esac
        [ -z "$WHY" ] || return 1
    done <"$DIR/targets"
}
check_device() { # PATH SIZE MAJ:MIN
    [ -b "$1" ] || { WHY="$1 is not a block device" && return; }
    _sys=/sys/dev/block/$3
    [ -r "$_sys/size" ] || { WHY="no device $3 any more ($1)" && return; }
    read -r _sectors <"$_sys/size"
    [ $(($_sectors * 512)) = "$2" ] || { WHY="$1 has $(($_sectors * 512)) bytes, not $2" && return; }
    for _h in "$_sys"/holders/*; do
        [ ! -e "$_h" ] || { WHY="$1 is held by ${_h##*/}" && return; }
    done
    _numbers=" $3 "
    for _part in "$_sys"/*/partition; do
        [ -e "$_part" ] || continue
        read -r _n <"${_part%/partition}/dev"
        _numbers="$_numbers$_n "
    done
    while read -r _ _ _n _ _where _; do
        case $_numbers in *" $_n "*) WHY="$1 is mounted on $_where" && return ;; esac
    done </proc/self/mountinfo
    while read -r _where _; do
        [ "$_where" != "$1" ] || { WHY="$1 is swap" && return; }
    done </proc/swaps
}

# ---------------------------------------------------------------- stage

verb_stage() { # STREAM OFFSET CHECK: the program stands before OFFSET, then a header, then the files
    stream=$1 offset=$2 check=$3
    check_base
    find_clock
    tail -c "+$(($offset + 1))" "$stream" >"$stream.body" || fail space "can't write below $BASE"
    at=$(sed '/^\.$/q' "$stream.body" | wc -c | tr -d ' ')
    head -c "$at" "$stream.body" >"$stream.head" || fail space "can't write below $BASE"
    CASE='' kept=
    : >"$stream.new"
    while IFS= read -r line; do
        case $line in
        'case '*) stage_open "${line#case }" ;;
        'file '*)
            # shellcheck disable=SC2086
            set -- $line
            [ -n "$kept" ] || stage_file "$2" "$3" "${line#file "$2" "$3" }"
            at=$(($at + $2))
            ;;
        .) [ -z "$CASE" ] || stage_close ;;
        esac
    done <"$stream.head"
    [ "$check" != check ] || stage_check
    rm -f "$stream" "$stream.body" "$stream.head" "$stream.new"
}
stage_open() {
    [ -z "$CASE" ] || stage_close
    enter_case "$1"
    state_of
    kept=
    case $STATE in armed | running | done | lost) kept=1 ;; *) mkdir -p "$DIR/out" 2>/dev/null || fail space "can't make $DIR" ;; esac
}
stage_file() { # SIZE SHA NAME
    check_name file "$3"
    [ "$(sha "$DIR/$3" 2>/dev/null)" = "$2" ] && return
    tail -c "+$(($at + 1))" "$stream.body" | head -c "$1" >"$DIR/.$3" || fail space "can't write $DIR/$3: $(free_bytes "$BASE") bytes are free there"
    [ "$(sha "$DIR/.$3")" = "$2" ] || fail checksum "$DIR/$3 arrived changed or short: $(free_bytes "$BASE") bytes are free there"
    mv "$DIR/.$3" "$DIR/$3"
}
stage_close() {
    if [ -z "$kept" ]; then
        # Kept for the done marker: a disk that fills during the case must not hide how it ended.
        [ -e "$DIR/reserve" ] || head -c 65536 /dev/zero >"$DIR/reserve" || fail space "can't write below $DIR"
        printf 'boot=%s\n' "$(boot)" >"$DIR/.staged" && mv "$DIR/.staged" "$DIR/staged" || fail space "can't write below $DIR"
        printf '%s\n' "$CASE" >>"$stream.new"
    fi
    printf '@section %s\n' "$CASE"
    say_state
    kv kept "${kept:-0}"
}
stage_check() { # fio's own word on every new job file
    has "$FIO" || fail fio "no $FIO on this worker (PATH is $PATH)"
    engines=$("$FIO" --enghelp 2>/dev/null </dev/null | sed 1d | tr -d '\t ' | tr '\n' ' ')
    while IFS= read -r name; do stage_judge "$HOME_DIR/$name"; done <"$stream.new"
    printf '@section \n'
    kv engines "$engines"
}
stage_judge() { # FOLDER
    printf '@section %s\n' "${1##*/}"
    missing=
    for _e in $(sed -n 's/^[[:space:]]*ioengine[[:space:]]*=[[:space:]]*\([^[:space:];#]*\).*/\1/p' "$1/job.fio" | sort -u); do
        case $_e in external:*) continue ;; esac
        case " $engines " in *" $_e "*) ;; *) missing="$missing $_e" ;; esac
    done
    kv missing_engines "${missing# }"
    # A call for each: fio carries one file's [global] section over into the next.
    ok=1
    said=$(cd "$1/out" && "$FIO" --parse-only ../job.fio 2>&1 </dev/null) || ok=0
    kv parses $ok
    printf '%s' "$said" | text said
}

# ---------------------------------------------------------------- arm

verb_arm() { # CASE T0 DEADLINE ATTEMPT MARGIN GRACE (all times in microseconds)
    enter_case "$1"
    check_base
    find_clock
    state_of
    case $STATE in
    staged) ;;
    gone | empty) arm_answer unstaged && return ;;
    *) arm_answer already && return ;;
    esac
    [ ! -e "$DIR/arm.$4" ] || { arm_answer used && return; }
    slurp "$DIR/staged" boot
    [ "$VALUE" = "$(boot)" ] || { WHY='the worker booted since it was staged' && arm_answer rebooted && return; }
    check_targets || { arm_answer refused && return; }
    now
    [ $(($2 - $NOW)) -ge "$5" ] || { arm_answer late && return; }
    set -C
    if ! { printf '%s %s\n' "$2" "$3" >"$DIR/arm.$4"; } 2>/dev/null; then
        set +C
        [ -e "$DIR/arm.$4" ] || fail space "can't write below $DIR"
        arm_answer already && return
    fi
    set +C
    # Two attempts armed at once: each that sees the other withdraws; none or one goes on.
    for _other in "$DIR"/arm.*; do
        [ "${_other##*.}" = "$4" ] || cancelled "${_other##*.}" || {
            cancel "$4"
            arm_answer already && return
        }
    done
    detach "$@"
    _tries=0
    while [ ! -e "$DIR/owner.$4" ] && [ $_tries -lt 250 ]; do
        sleep 0.02 2>/dev/null || sleep 1
        _tries=$(($_tries + 1))
    done
    if [ ! -e "$DIR/owner.$4" ]; then
        cancel "$4" && fail owner "the case's process did not start: $(tail -n 3 "$DIR/worker.log" 2>/dev/null | tr '\n' ' ')"
    fi
    if cancelled "$4"; then arm_answer late; else arm_answer armed; fi
}
arm_answer() {
    kv answer "$1"
    kv why "${WHY-}"
    say_state
    if [ -n "$ATTEMPT" ] && read -r _t0 _ <"$DIR/arm.$ATTEMPT"; then
        seconds "${_t0:-0}"
        kv t0 "$SECS"
    fi
    return 0
}
cancel() { # ATTEMPT: true when the start was prevented
    set -C
    { echo cancelled >"$DIR/go.$1"; } 2>/dev/null
    _r=$?
    set +C
    return $_r
}
detach() {
    rm -f "$DIR/owner"
    _session= _shell=sh
    ! has setsid || _session=setsid
    # bash starts slower, but wakes without a fork: at the instant when everyone wakes that counts.
    # shellcheck disable=SC2016
    case $(bash -c 'echo "${EPOCHREALTIME-}"' 2>/dev/null) in ?*) _shell='bash --posix' ;; esac
    (
        trap '' HUP
        HCIO_CASE="$DIR;"
        export HCIO_CASE
        # shellcheck disable=SC2086
        exec $_session $_shell "$HOME_DIR/program.sh" own "$BASE" "$RUN" "$@" \
            </dev/null >>"$DIR/worker.log" 2>&1 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
    ) </dev/null >/dev/null 2>&1 &
}

# ---------------------------------------------------------------- the owner, one process for one case

verb_own() { # CASE T0 DEADLINE ATTEMPT MARGIN GRACE
    enter_case "$1"
    T0=$2 DEADLINE=$3 N=$4 GRACE=$6
    find_clock
    now
    wall0=$NOW
    uptime_us
    up0=$UP step=0 t0=$T0
    cd "$DIR/out" || exit 1
    start_time $$
    printf '%s %s %s %s\n' $$ "$STARTED_AT" "$(boot)" "$N" >"$DIR/.owner" && mv "$DIR/.owner" "$DIR/owner" || exit 1
    # Its appearance answers arm. Near T0 that is left to the start itself, which may find it too late.
    [ $(($t0 - $NOW)) -lt 3000000 ] || : >"$DIR/owner.$N"
    # The last second is left to one exact sleep. Its beginning is spread over a second, so that many
    # workers on one machine don't measure what is left to sleep at the same instant.
    fine=$((700000 + $$ % 89 * 10000))
    while :; do
        left=$(($t0 - $NOW))
        [ $left -gt $fine ] || break
        left=$(($left - $fine))
        [ $left -lt 20000000 ] || left=20000000
        nap $left
        now
        note_step
    done
    start_case &
    fio_pid=$! # or the process that waits for it: `fio` in the folder names fio itself
    now
    watch_deadline &
    watch_pid=$!
    gave_up=
    trap 'gave_up=1' USR1
    while :; do
        wait $fio_pid
        code=$?
        [ $code -gt 128 ] && [ -z "$gave_up" ] && start_time $fio_pid && [ -n "$STARTED_AT" ] || break
    done
    kill -KILL $watch_pid 2>/dev/null
    [ $code != 98 ] || exit 0
    signal_marked KILL
    finish
}
note_step() { # follow the instant that was meant when somebody sets the clock meanwhile
    uptime_us
    step=$(($NOW - $wall0 - ($UP - $up0)))
    if [ $step -gt $STEP_US ] || [ $step -lt -$STEP_US ]; then t0=$(($T0 + $step)); else t0=$T0 step=0; fi
}
start_case() { # becomes fio, or waits for it
    exec </dev/null >eta.log 2>stderr.log
    check_targets || {
        cancelled "$N" && exit 98
        printf '%s\n' "$WHY" >"$DIR/refused"
        : >"$DIR/owner.$N"
        exit 97
    }
    exec 3>>"$DIR/starts" 4>"$DIR/started"
    # A pipe that nobody writes to: reading it with a time-out is a sleep.
    [ "$CLOCK" != shell ] || { mkfifo "$DIR/still.$N" && exec 5<>"$DIR/still.$N" && rm -f "$DIR/still.$N"; } || exit 1
    read -r self _ </proc/self/stat
    echo "$self" >"$DIR/fio"
    raised=
    raise_priority
    now
    left=$(($t0 - $NOW))
    # Waking is never exact, but this late means that the machine slept or hung: tell, don't start.
    [ $left -gt -2000000 ] || { cancel "$N" && : >"$DIR/owner.$N" && exit 98; }
    [ -e "$DIR/owner.$N" ] || : >"$DIR/owner.$N"
    still $left
    set -C
    true >"$DIR/go.$N" || exit 98
    set +C
    # From here to fio at most one fork: date. (`go` is taken: a disarm can't succeed any more.)
    now
    seconds "$NOW"
    printf '%s %s\n' "$N" "$SECS" >&3
    printf 'started=%s\nstep_us=%s\n' "$SECS" "$step" >&4
    set -- --output=fio.json --output-format=json+ --eta=always --eta-newline=1 ../job.fio
    [ -n "$raised" ] || exec "$FIO" "$@" 3>&- 4>&- 5>&-
    "$FIO" "$@" 3>&- 4>&- 5>&- &
    echo $! >"$DIR/fio"
    wait $!
    exit $?
}
raise_priority() { # sets raised; what is forked from then on (fio) has the ordinary policy again
    # Where many workers share few cores, the first fio to start would hold up who wakes after it.
    # Only where this user may, and only from the ordinary policy: fio itself runs as it always does.
    case $(chrt -p "$self" 2>/dev/null) in *SCHED_OTHER*) ;; *) return 0 ;; esac
    ! chrt -R -f -p 1 "$self" 2>/dev/null || raised=1
}
watch_deadline() { # ends the case whatever fio does: TERM lets it write its JSON, KILL all the rest
    nap $(($t0 - $NOW + $DEADLINE))
    : >"$DIR/deadline"
    read -r _f <"$DIR/fio" && is_marked "$_f" && kill -TERM "$_f" 2>/dev/null
    nap "$GRACE"
    # A subshell's own pid isn't in $$: what follows is done from a process that bears no mark.
    unmarked reap "$CASE" $$
    # Processes that even KILL doesn't end (an I/O that never returns): the owner goes on without.
    nap 2000000
    kill -USR1 $$ 2>/dev/null
}
unmarked() { (unset HCIO_CASE && exec sh "$HOME_DIR/program.sh" "$1" "$BASE" "$RUN" "$2" "$3"); }
verb_reap() { # CASE OWNER: kill what fio left, and neither the owner nor the watch
    enter_case "$1"
    marked
    for _p in $PIDS; do
        [ "$_p" != "$2" ] && [ "$_p" != "$PPID" ] && is_marked "$_p" && kill -KILL "$_p" 2>/dev/null
    done
    return 0
}
finish() {
    now
    note_step
    rm -f "$DIR/reserve"
    by=exited sig=
    if [ -n "$gave_up" ]; then
        code=''
    elif [ $code -gt 128 ]; then
        by=signal sig=$(($code - 128))
    fi
    if [ -e "$DIR/refused" ]; then by=refused; fi
    if [ -e "$DIR/deadline" ]; then by=deadline; fi
    if [ -e "$DIR/stop" ]; then by=stopped; fi
    # Beside the latencies that are asked for fio logs two that nothing reads.
    rm -f series_clat.*.log series_slat.*.log
    # fio's logs are text, a tenth when packed; after the end, so that it costs the case nothing.
    for _log in *_*.log; do [ ! -s "$_log" ] || ! has gzip || gzip -f "$_log" 2>/dev/null; done
    _tries=0
    until write_done && mv "$DIR/.done" "$DIR/done"; do
        _tries=$(($_tries + 1))
        [ $_tries -lt 5 ] || exit 1
        sleep 1
    done
}
write_done() {
    {
        kv ended_by $by
        kv exit "$code"
        kv signal "$sig"
        kv attempt "$N"
        seconds "$T0"
        kv t0 "$SECS"
        slurp "$DIR/started" started
        kv started "$VALUE"
        slurp "$DIR/started" step_us
        kv start_step_us "$VALUE"
        seconds "$NOW"
        kv ended "$SECS"
        kv clock_step_us "$step"
        kv boot "$(boot)"
        kv output_size "$([ ! -e fio.json ] || size fio.json)"
        kv output_sha256 "$([ ! -e fio.json ] || sha fio.json)"
        kv free "$(free_bytes .)"
        _why=
        [ ! -e "$DIR/refused" ] || read -r _why <"$DIR/refused"
        kv why "$_why"
        echo whole=1
    } >"$DIR/.done" && grep -q '^whole=1$' "$DIR/.done"
}

# ---------------------------------------------------------------- look at cases

verb_poll() { # CASE...
    find_clock
    for _case in "$@"; do
        enter_case "$_case"
        printf '@section %s\n' "$CASE"
        say_state
        case $STATE in
        running)
            read -r _f <"$DIR/fio" 2>/dev/null && start_time "$_f" && kv alive "$([ -z "$STARTED_AT" ] && echo 0 || echo 1)"
            # fio prints no rates during the ramp; the kernel counts what reached a device all the same.
            # fio's jobs are its children, or its threads.
            { read -r _kids <"/proc/$_f/task/$_f/children"; } 2>/dev/null || _kids=
            # shellcheck disable=SC2046
            kv io_bytes "$(awk '/^(read|write)_bytes:/ { n += $2 } END { if (NR) printf "%.0f", n }' $(for _k in $_f $_kids; do printf '/proc/%s/io ' "$_k"; done) 2>/dev/null)"
            ;;
        lost)
            marked
            set -f
            # shellcheck disable=SC2086
            kv alive "$(set -- $PIDS && echo $#)"
            set +f
            kv free "$(free_bytes "$DIR")"
            ;;
        esac
        case $STATE in running | lost | done)
            [ ! -s "$DIR/started" ] || ! slurp "$DIR/started" started || kv began "$VALUE"
            kv eta "$(tail -c 400 "$DIR/out/eta.log" 2>/dev/null | tr '\r\n\0' '\036\036 ')"
            ;;
        esac
        [ $STATE != done ] || sed 's/^/done./' "$DIR/done"
    done
}

verb_clock() { # a time for each line that comes, and nothing else: unframed
    find_clock
    while read -r _; do
        now
        seconds "$NOW"
        echo "$SECS"
    done
}

# ---------------------------------------------------------------- end cases

verb_disarm() { # CASE
    find_clock
    enter_case "$1"
    attempt_of
    if [ -z "$ATTEMPT" ]; then
        kv answer nothing
    elif cancel "$ATTEMPT"; then
        signal_marked KILL
        rm -f "$DIR/owner"
        kv answer disarmed
    elif cancelled "$ATTEMPT"; then
        kv answer nothing
    else
        kv answer started
    fi
    say_state
}

verb_stop() { # CASE GRACE
    find_clock
    enter_case "$1"
    state_of
    # The start may win at the last moment: then it is a running case like any other.
    if [ "$STATE" = armed ] && cancel "$ATTEMPT"; then
        signal_marked KILL
        rm -f "$DIR/owner"
    fi
    state_of
    case $STATE in
    running)
        : >"$DIR/stop"
        read -r _owner _ <"$DIR/owner"
        read -r _f <"$DIR/fio" && is_marked "$_f" && kill -TERM "$_f" 2>/dev/null
        wait_done "$2" || {
            marked
            for _p in $PIDS; do
                [ "$_p" = "$_owner" ] || ! is_marked "$_p" || kill -KILL "$_p" 2>/dev/null
            done
            wait_done 5000000
        }
        ;;
    lost) signal_marked KILL ;;
    esac
    say_state
}
wait_done() { # MICROSECONDS
    now
    _until=$(($NOW + $1))
    while [ ! -e "$DIR/done" ]; do
        now
        [ "$NOW" -lt "$_until" ] || return 1
        sleep 0.05 2>/dev/null || sleep 1
    done
}

# ---------------------------------------------------------------- results

verb_fetch() { # CASE partial|whole
    find_clock
    enter_case "$1"
    say_state
    [ -e "$DIR/done" ] || [ "$2" = partial ] || fail unfinished "case $CASE is $STATE: it has no done marker yet"
    for _f in "$DIR"/out/* "$DIR/job.fio" "$DIR/done" "$DIR/started" "$DIR/starts" "$DIR/worker.log"; do
        [ -f "$_f" ] || continue
        _copy=$_f
        _size=$(size "$_f")
        _sum=$(sha "$_f")
        # A file may grow while it is read: its sum is right only when the size is what it was.
        [ "$2" = whole ] || _sum=
        printf '@file %s %s %s\n' "$_size" "${_sum:--}" "${_f#"$DIR/"}"
        head -c "$_size" "$_copy"
        echo
    done
}

# ---------------------------------------------------------------- file targets

verb_make_file() { # PATH SIZE
    path=$1 want=$2
    [ -d "$BASE" ] || mkdir -p "$BASE" 2>/dev/null || fail base "can't make folder $BASE"
    check_base
    case $path in /*) ;; *) fail path "$path is not an absolute path" ;; esac
    dir=${path%/*}
    [ -d "$dir/" ] || fail path "folder $dir isn't there"
    [ ! -h "$path" ] || fail foreign "$path is a symbolic link"
    if [ -e "$path" ]; then
        [ -f "$path" ] || fail foreign "$path is not a plain file"
        [ -f "$path.hcio" ] && slurp "$path.hcio" run || fail foreign "$path was not made by hcio (no $path.hcio beside it); it stays as it is"
        if [ "$(size "$path")" = "$want" ]; then
            adopt
            kv answer kept
            return
        fi
    fi
    have=0
    [ ! -e "$path" ] || have=$(size "$path")
    free=$(free_bytes "$dir/")
    # Where df can't tell, the file itself will.
    [ -z "$free" ] || [ $(($free + $have)) -ge "$want" ] || fail space "$dir has $free bytes free, $path needs $want"
    adopt
    rm -f "$path"
    if ! { has fallocate && fallocate -l "$want" "$path"; } 2>/dev/null; then
        head -c "$want" /dev/zero >"$path" || {
            rm -f "$path" "$path.hcio"
            fail space "$dir filled up while $path was made"
        }
    fi
    [ "$(size "$path")" = "$want" ] || fail space "$path has $(size "$path") bytes, not $want"
    kv answer made
}
adopt() { # the run that uses a file last is the one that removes it
    printf 'run=%s\nsize=%s\n' "$RUN" "$want" >"$path.hcio.$$" && mv "$path.hcio.$$" "$path.hcio" || fail space "can't write $path.hcio"
    mkdir -p "$HOME_DIR"
    grep -Fxqs "$path" "$HOME_DIR/.files" || printf '%s\n' "$path" >>"$HOME_DIR/.files"
}

# ---------------------------------------------------------------- runs

each_case() { # sets nothing; prints the names of the run's cases
    for _d in "$HOME_DIR"/*/; do
        _d=${_d%/}
        [ -d "$_d/out" ] && printf '%s\n' "${_d##*/}"
    done
}

verb_list() { # every run below BASE, each case with its state
    find_clock
    [ -d "$BASE" ] || return 0
    check_base
    for _r in "$BASE"/*/; do
        [ -d "$_r" ] || continue
        _r=${_r%/}
        RUN=${_r##*/}
        HOME_DIR=$BASE/$RUN
        printf '@section %s\n' "$RUN"
        each_case | while IFS= read -r _c; do
            enter_case "$_c"
            state_of
            kv "$CASE" "$STATE"
        done
    done
}

verb_clean() { # remove this run's folder, and the file targets that bear its marker
    find_clock
    [ -d "$HOME_DIR" ] || { kv answer nothing && return; }
    check_base
    busy=$(each_case | while IFS= read -r _c; do
        enter_case "$_c"
        state_of
        marked
        case $STATE in armed | running) printf '%s (%s) ' "$CASE" "$STATE" ;; *) [ -z "$PIDS" ] || printf '%s (%s, processes%s) ' "$CASE" "$STATE" "$PIDS" ;; esac
    done)
    [ -z "$busy" ] || fail busy "still at work: ${busy% }"
    removed=0
    if [ -r "$HOME_DIR/.files" ]; then
        while IFS= read -r path; do
            [ -f "$path.hcio" ] && slurp "$path.hcio" run && [ "$VALUE" = "$RUN" ] || continue
            [ -h "$path" ] || [ ! -f "$path" ] || rm -f "$path" && rm -f "$path.hcio" && removed=$(($removed + 1))
        done <"$HOME_DIR/.files"
    fi
    rm -rf "$HOME_DIR" || fail space "can't remove $HOME_DIR"
    kv answer removed
    kv files "$removed"
}

# ---------------------------------------------------------------- facts

verb_facts() { # [file:PATH | device:PATH]...
    find_clock
    now
    seconds "$NOW"
    kv now "$SECS"
    kv clock $CLOCK
    kv boot "$(boot)"
    kv uid "$(id -u)"
    kv user "$(id -un 2>/dev/null)"
    kv hostname "$(cat /proc/sys/kernel/hostname)"
    kv kernel "$(uname -sr)"
    kv machine "$(uname -m)"
    kv cpus "$(grep -c '^processor' /proc/cpuinfo)"
    kv memory "$(awk '/^MemTotal:/ { printf "%.0f", $2 * 1024 }' /proc/meminfo)"
    kv memory_available "$(awk '/^MemAvailable:/ { printf "%.0f", $2 * 1024 }' /proc/meminfo)"
    kv fio_path "$(command -v "$FIO")"
    ! has "$FIO" || {
        kv fio_version "$("$FIO" --version 2>/dev/null </dev/null)"
        kv engines "$("$FIO" --enghelp 2>/dev/null </dev/null | sed 1d | tr -d '\t ' | tr '\n' ' ')"
    }
    for _tool in setsid sha256sum lsblk blkid wipefs fallocate; do kv "has_$_tool" "$(yesno has $_tool)"; done
    facts_base
    facts_devices
    for _want in "$@"; do
        case $_want in
        file:*) facts_file "${_want#file:}" ;;
        device:*)
            printf '@section link:%s\n' "${_want#device:}"
            kv real "$(readlink -f "${_want#device:}" 2>/dev/null)"
            kv block "$(yesno [ -b "${_want#device:}" ])"
            ;;
        esac
    done
}
facts_base() {
    _up=$BASE
    while [ ! -e "$_up" ] && [ -n "$_up" ]; do _up=${_up%/*}; done
    kv base_free "$(free_bytes "${_up:-/}")"
    # shellcheck disable=SC2046
    [ ! -e "$BASE" ] || kv base_owner "$(set -- $(ls -ldn "$BASE") && echo "$3")"
    kv base_writable "$(yesno [ -w "${_up:-/}" ])"
}
facts_devices() {
    if has lsblk; then
        _columns=NAME,KNAME,PATH,TYPE,SIZE,RO,RM,FSTYPE,PTTYPE,SERIAL,WWN,HCTL,MODEL,MAJ:MIN
        { lsblk -J -b -o "$_columns,MOUNTPOINTS" 2>/dev/null || lsblk -J -b -o "$_columns,MOUNTPOINT" 2>/dev/null; } | text lsblk
    fi
    text mounts </proc/self/mountinfo
    text swaps </proc/swaps
    for _sys in /sys/class/block/*; do
        read -r _sectors <"$_sys/size" 2>/dev/null || continue
        _k=${_sys##*/}
        case $_k in ram*) continue ;; esac
        [ "$_sectors" != 0 ] || continue
        facts_device
    done
}
facts_device() { # _sys, _k, _sectors; udev's data base can be old or absent, so the device itself is read
    _node=/dev/$(printf %s "$_k" | tr '!' /)
    printf '@section device:%s\n' "$_k"
    kv path "$_node"
    kv size $(($_sectors * 512))
    read -r _v <"$_sys/ro" && kv ro "$_v"
    read -r _v <"$_sys/dev" && kv number "$_v"
    [ ! -e "$_sys/partition" ] || {
        _v=$(readlink -f "$_sys")
        _v=${_v%/*}
        kv parent "${_v##*/}"
    }
    _held=
    for _h in "$_sys"/holders/*; do [ ! -e "$_h" ] || _held="$_held ${_h##*/}"; done
    kv holders "${_held# }"
    kv readable "$(yesno [ -r "$_node" ])"
    kv writable "$(yesno [ -w "$_node" ])"
    _probed= _types=
    if has blkid; then
        # Status 2 is said both of an empty device and of one that can't be opened: only silence is empty.
        _out=$(blkid -p -o export "$_node" 2>&1 </dev/null)
        case $?:$_out in
        0:*)
            _probed=blkid
            _types=$(printf '%s\n' "$_out" | sed -n 's/^TYPE=//p; s/^PTTYPE=/pt:/p' | tr '\n' ' ')
            ;;
        2:) _probed=blkid ;;
        8:*) _probed=blkid _types=ambivalent ;;
        esac
    fi
    if has wipefs && _out=$(wipefs -p "$_node" 2>/dev/null </dev/null); then
        _probed="$_probed wipefs"
        _types="$_types $(printf '%s\n' "$_out" | sed -n '/^#/d; s/.*,//p' | tr '\n' ' ')"
    fi
    # shellcheck disable=SC2086
    kv signatures "$(echo $_types)"
    kv probed "${_probed# }"
}
facts_file() { # PATH
    printf '@section file:%s\n' "$1"
    _kind=absent
    if [ -h "$1" ]; then
        _kind=link
    elif [ -f "$1" ]; then
        _kind=file
    elif [ -b "$1" ]; then
        _kind=block
    elif [ -d "$1" ]; then
        _kind=folder
    elif [ -e "$1" ]; then
        _kind=other
    fi
    kv kind $_kind
    [ $_kind != file ] || kv size "$(size "$1")"
    [ ! -r "$1.hcio" ] || { slurp "$1.hcio" run && kv made_by "$VALUE"; }
    _dir=${1%/*}
    _dir=${_dir:-/}
    kv folder "$(yesno [ -d "$_dir" ])"
    kv writable "$(yesno [ -w "$_dir" ])"
    kv free "$(free_bytes "$_dir")"
    kv filesystem "$(stat -f -c %T "$_dir" 2>/dev/null)"
}

# ---------------------------------------------------------------- which verb

# The last line runs it: a program that arrived cut short does nothing.
main() {
    case $VERB in
    stage | arm | own | poll | clock | disarm | stop | fetch | make_file | list | clean | facts | reap) ;;
    *) VERB=unknown && begin && fail verb "no such verb" ;;
    esac
    case $VERB in facts | list) ;; *) check_name run "$RUN" ;; esac
    shift 3
    case $VERB in
    own | reap | clock) "verb_$VERB" "$@" ;;
    *) begin && "verb_$VERB" "$@" && end ;;
    esac
}
main "$@"
