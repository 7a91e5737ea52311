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

# A disk that fills up, as a limit on the size of files: traces of 9 tasks still fit, the table of 40 steps does not.
trap '' XFSZ
(ulimit -f 10 && run 1 execute host_ddp $small --device host --steps 40 --out full && stderr_has 'full/run.csv' &&
    stderr_has 'File too large' && exit "$failures") || failures=$((failures + 1))
trap - XFSZ
readable full

# A second run neither joins nor replaces one: not while it goes on, not after it.
command_line="execute --out twice at once"
"$stepcast" execute host_ddp $small --device host --steps 1000000 --out twice >"$work/.stdout" 2>"$work/.stderr" &
pid=$!
await twice/run.toml $pid
refused 'twice' 'another run is writing it' -- execute host_ddp $small --device host --steps 2 --out twice
command_line="execute, SIGTERM"
kill -TERM $pid
wait $pid 2>/dev/null
[ $? -eq 143 ] || fail "$command_line: expected exit code 143"
grep -q 'ended by a signal' twice/run.toml || fail "$command_line: the run does not say that it was ended"
cp -r twice before
refused 'twice' 'holds a run already' -- execute host_ddp $small --device host --steps 2 --out twice
diff -r twice before >/dev/null || fail "$command_line: changed the run that was there"
readable twice

# A second signal ends at once.
command_line="execute, two signals"
"$stepcast" execute host_ddp $small --device host --steps 1000000 --out hasty >"$work/.stdout" 2>"$work/.stderr" &
pid=$!
await hasty/run.toml $pid
kill -INT $pid
kill -INT $pid 2>/dev/null
wait $pid 2>/dev/null
[ $? -eq 130 ] || fail "$command_line: expected exit code 130"
readable hasty

# What was changed after the run, or belongs to another.
command_line="execute, then changed"
run 0 execute host_ddp $small --device host --steps 2 --out changed
for change in 's/hidden = 64/hidden = 65/ experiment.toml' 's/^0,/99999999,/ trace_0001.csv' 's/nodes = 1/nodes = 2/ cluster.toml'; do
    rm -rf bad && cp -r changed bad
    sed -i "${change% *}" "bad/${change##* }"
    refused "bad/${change##* }" -- compare bad
done
cp trace_0000.csv bad/ 2>/dev/null
run 0 execute host_moe --device host --steps 2 --out other
rm -rf bad && cp -r changed bad && cp other/trace_0000.csv bad/
refused 'bad/trace_0000.csv' 'of another run' -- compare bad

# A pod or torchrun may state a rank of its own: on the host one process holds all ranks, and writes.
command_line="execute with RANK=1 WORLD_SIZE=2"
RANK=1 WORLD_SIZE=2 run 0 execute host_ddp $small --device host --steps 1 --out pod
readable pod

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
    command_line="mpirun -n 2 execute on one core"
    taskset -c "$(taskset -cp $$ | sed 's/.*[: ]\([0-9]*\).*/\1/;s/[-,].*//')" "$mpirun" --allow-run-as-root --oversubscribe --bind-to none -n 2 \
        "$stepcast" execute host_ddp $small --device host --steps 1 >"$work/.stdout" 2>"$work/.stderr" || fail "$command_line: failed"
    grep -q '2 ranks share 1 cores' "$work/.stdout" "$work/.stderr" || fail "$command_line: no word of it"
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
