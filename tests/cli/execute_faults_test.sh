#!/usr/bin/env bash
# What happens to a run on the host that is stopped, starved or abandoned: the message, the exit code, and that finished
# samples stay readable. Nothing here depends on how long anything takes, only on what has happened.
source "$(dirname "$0")/expect.sh"
mpirun=${3:-}
set -m  # background processes take Ctrl-C

small="--set workload.hidden=64 --set workload.ffn=128"

# Waits until FILE is there or PID has ended.
await() {
    while [ ! -e "$1" ] && kill -0 "$2" 2>/dev/null; do sleep 0.05; done
    [ -e "$1" ] || fail "$command_line: ended before $1 was there"
}
readable() {
    [ -z "$(find "$1" -name '*.part*')" ] || fail "$command_line: left half a file in $1"
    "$stepcast" compare "$1" >"$work/.stdout" 2>"$work/.stderr" || fail "$command_line: compare $1 cannot read it"
    stdout_has "1 of 1 cases predicted"
}

# Ctrl-C.
command_line="execute host_ddp, then Ctrl-C"
"$stepcast" execute host_ddp $small --device host --steps 1000000 --out stopped >"$work/.stdout" 2>"$work/.stderr" &
pid=$!
await stopped/run.toml $pid
kill -INT $pid
wait $pid 2>/dev/null
[ $? -eq 130 ] || fail "$command_line: expected exit code 130"
readable stopped

# A disk that fills up, as a limit on the size of files: traces of 9 tasks still fit, the table of 12 steps does not.
trap '' XFSZ
(ulimit -f 4 && run 1 execute host_ddp $small --device host --steps 40 --out full && stderr_has 'full/run.csv' &&
    stderr_has 'File too large' && exit "$failures") || failures=$((failures + 1))
trap - XFSZ
readable full

# More memory than there is.
refused '512 TiB' 'take fewer ranks' -- execute host_ddp --device host --steps 1 --set workload.hidden=1048576 --set workload.ffn=1048576

if [ -n "$mpirun" ]; then
    # What a rank of two processes meets when the other is stopped by signal SIGNAL.
    abandon() {
        rm -rf lost
        "$mpirun" --allow-run-as-root --oversubscribe -n 2 "$stepcast" execute host_ddp $small --device host \
            --steps 1000000 --set run.timeout="10 s" --out lost >"$work/.stdout" 2>"$work/.stderr" &
        local launcher=$!
        await lost/run.toml $launcher
        kill "-$1" "$(pgrep -P $launcher | tail -n 1)"
        wait $launcher 2>/dev/null
        code=$?
    }
    command_line="mpirun -n 2 execute, a rank stopped"
    abandon STOP
    [ $code -eq 2 ] || fail "$command_line: exit code $code, expected 2"
    grep -qE 'rank [01] did not arrive within 10 s' "$work/.stderr" ||
        fail "$command_line: expected the missing rank to be named"
    readable lost
    command_line="mpirun -n 2 execute, a rank killed"
    abandon KILL
    [ $code -ne 0 ] || fail "$command_line: expected a failure"
    readable lost
fi
finish
