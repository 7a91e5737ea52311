#!/usr/bin/env bash
# scripts/faults.sh [TRIALS] [SEED]: a table of what each command does when something around it fails. "kept": the exit code tells
# the failure, existing files are complete, no partial file remains, and no input was changed. "not tried": a tool for the fault
# is missing. Exits with 1 unless every line is "kept".
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
set -uo pipefail
cd "$(dirname "$0")/.."
trials=${1:-5}
RANDOM=${2:-1}
sources=$PWD
stepcast=${STEPCAST:-$PWD/build/release/stepcast}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
set -m # background jobs receive Ctrl-C
lost=0

line() { # line NAME HOW-MANY LOST
    [ "$3" -eq 0 ] && verdict=kept || { verdict="LOST $3"; lost=$((lost + 1)); }
    printf '%-52s %6s   %s\n' "$1" "$2" "$verdict"
}
untried() { # untried NAME WHAT-IS-MISSING
    printf '%-52s %6s   %s\n' "$1" 0 "not tried: no $2"
    lost=$((lost + 1))
}
once() { # once NAME CODE COMMAND..: must exit with CODE, with a message if that is a failure
    local name=$1 code=$2
    shift 2
    timeout 120 "$@" >out 2>err </dev/null
    local found=$?
    [ "$found" -eq "$code" ] && [ ! -e HACKED ] && { [ "$code" -eq 0 ] || [ -s err ]; }
    line "$name" 1 $?
}

header=source,case_id,model,layers,hidden,heads,kv_heads,ffn,vocab,seq,experts,topk,gpus,gpu,interconnect,tp,pp,vp,dp,ep,cp,sp,zero,mbs,gbs,recompute,precision,metric,value,unit,step_s,ref,notes
printf '%s\nown,a,moe_layer_fast_moe,,,,,,,,,,,,,,,,,,,,,,,,,,,,0.05,,\n' "$header" >cases.csv
cp "$sources/calibrate/measurements/moe_layer_bench.csv" m.csv
cp "$sources/tests/data/moe_steps_excerpt.log" some.log
small="--set workload.hidden=64 --set workload.ffn=128"
declare -A verbs=(
    [simulate]="simulate host_moe --trace D/t.json --explain --out D/why"
    [sweep]="sweep host_moe --vary run.seed=1..64 --out D"
    [execute]="execute host_ddp $small --device host --steps 100000 --out D/run"
    [calibrate]="calibrate --measurements m.csv --cluster pcie-a100-x4 --out D/new.toml"
    [compare]="compare cases.csv --out D"
    [import]="import some.log --out D/samples.csv"
)
printf '%-52s %6s   %s\n' fault trials verdict

# After a signal: no partial file, complete JSON, tables with complete lines, a readable run.
is_whole() {
    [ -z "$(find "$1" -name '*.part*' -o -name '*.err' 2>/dev/null)" ] || return 1
    [ ! -e "$1/t.json" ] || [ "$(tail -c 3 "$1/t.json")" = "]}" ] || return 1
    local table
    for table in "$1"/samples.csv "$1"/compare.csv "$1"/run/run.csv; do
        [ ! -s "$table" ] || [ "$(tail -c 1 "$table" | wc -l)" -eq 1 ] || return 1
    done
    [ ! -e "$1/run/run.toml" ] || "$stepcast" compare "$1/run" >/dev/null 2>&1
}
for verb in simulate sweep execute calibrate compare import; do
    for signal in INT:130 TERM:143 KILL:137; do
        bad=0
        for ((trial = 0; trial < trials; ++trial)); do
            rm -rf D && mkdir D
            # shellcheck disable=SC2086
                env --default-signal=INT,TERM "$stepcast" ${verbs[$verb]} >out 2>err </dev/null &
            pid=$!
            sleep "0.$(printf '%03d' $((RANDOM % 900)))"
            kill "-${signal%:*}" $pid 2>/dev/null
            wait $pid 2>/dev/null
            code=$?
            { [ $code -eq 0 ] || [ $code -eq "${signal#*:}" ]; } && is_whole D || bad=$((bad + 1))
        done
        line "$verb, SIG${signal%:*} at a random moment" "$trials" $bad
    done
done

if command -v mpirun >/dev/null; then
    for how in KILL STOP; do
        rm -rf D
        # shellcheck disable=SC2086
        mpirun --allow-run-as-root --oversubscribe -n 2 "$stepcast" execute host_ddp $small --device host --steps 1000000 \
            --set run.timeout="5 s" --out D >out 2>err &
        launcher=$!
        while [ ! -e D/run.toml ] && kill -0 $launcher 2>/dev/null; do sleep 0.1; done
        kill "-$how" "$(pgrep -P $launcher | tail -n 1)"
        wait $launcher
        [ $? -ne 0 ] && "$stepcast" compare D >/dev/null 2>&1
        line "execute over MPI, a rank gets SIG$how" 1 $?
    done
else
    untried "execute over MPI, a rank gets SIGKILL, SIGSTOP" mpirun
fi

# The same with the emulated CUDA device, if it was built; then with ranks as threads, which continue after a stop.
emulated=$(dirname "$stepcast")/tests/exec/cuda/emulation/lib
if compgen -G "$emulated/*" >/dev/null; then
    tiny="--set run.timeout=5s --set cluster.gpus_per_node=2 --set parallelism.dp=2 --set parallelism.micro_batch=4"
    for one in layers=2 hidden=64 heads=4 ffn=128 vocab=256 seq=32; do tiny+=" --set workload.$one"; done
    for how in KILL STOP; do
        rm -rf D
        pids=()
        for rank in 0 1; do
            # shellcheck disable=SC2086
            RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank STEPCAST_ID_FILE=$work/id_$how EMULATED_CUDA_DEVICES=2 LD_LIBRARY_PATH=$emulated \
                "$stepcast" execute one_gpu_gpt2_124m $tiny --device cuda --steps 100000 --out D >out$rank 2>err$rank </dev/null &
            pids+=($!)
        done
        while [ ! -e D/run.toml ] && kill -0 "${pids[0]}" 2>/dev/null; do sleep 0.1; done
        kill "-$how" "${pids[1]}"
        wait "${pids[0]}"
        [ $? -eq 2 ] && [ -s err0 ] && "$stepcast" compare D >/dev/null 2>&1
        line "execute on emulated CUDA, a rank gets SIG$how" 1 $?
        kill -KILL "${pids[1]}" 2>/dev/null
        wait "${pids[1]}" 2>/dev/null
    done
else
    untried "execute on emulated CUDA, a rank gets SIGKILL, SIGSTOP" "$emulated"
fi
rm -rf D
# shellcheck disable=SC2086
"$stepcast" execute host_ddp $small --device host --steps 20 --out D >out 2>err </dev/null &
pid=$!
while [ ! -e D/run.toml ] && kill -0 $pid 2>/dev/null; do sleep 0.1; done
kill -STOP $pid 2>/dev/null
sleep 1
kill -CONT $pid 2>/dev/null
wait $pid
[ $? -eq 0 ] && is_whole D
line "execute over threads, stopped and let go on" 1 $?

for verb in "simulate host_moe" "sweep host_moe --vary run.seed=1,2" "compare cases.csv" "import some.log --out ok.csv" "list presets"; do
    # shellcheck disable=SC2086
    [ "${verb%% *}" = import ] || { "$stepcast" $verb >/dev/full 2>err; [ $? -eq 1 ] && [ -s err ]; line "${verb%% *}, standard output on a full disk" 1 $?; }
    # shellcheck disable=SC2086
    [ "${verb%% *}" = import ] || { "$stepcast" $verb >&- 2>err; [ $? -eq 1 ] && [ -s err ]; line "${verb%% *}, standard output closed" 1 $?; }
done
trap '' XFSZ
for verb in simulate sweep calibrate compare import; do
    rm -rf D && mkdir D
    # shellcheck disable=SC2086
    (ulimit -f 1; "$stepcast" ${verbs[$verb]} >/dev/null 2>err </dev/null)
    [ $? -eq 1 ] && is_whole D
    line "$verb, its disk is full" 1 $?
    # shellcheck disable=SC2086
    "$stepcast" ${verbs[$verb]//D/\/proc\/none} >out 2>err </dev/null
    [ $? -eq 1 ]
    line "$verb, its folder cannot be written" 1 $?
done
trap - XFSZ
if unshare -m true 2>/dev/null; then
    mkdir -p ro
    for verb in simulate sweep execute calibrate compare import; do
        # shellcheck disable=SC2086
        unshare -m sh -c 'mount -t tmpfs -o ro none ro && exec "$@"' sh "$stepcast" ${verbs[$verb]//D/ro} >out 2>err </dev/null
        [ $? -eq 1 ] && grep -q 'Read-only' err
        line "$verb, its disk is read-only" 1 $?
    done
else
    untried "every verb, its disk is read-only" "right to mount"
fi

rm -rf D
# shellcheck disable=SC2086
env --default-signal=INT,TERM "$stepcast" execute host_ddp $small --device host --steps 1000000 --out D >out 2>err &
pid=$!
while [ ! -e D/run.toml ] && kill -0 $pid; do sleep 0.1; done
# shellcheck disable=SC2086
once "execute, two writers of one folder" 1 "$stepcast" execute host_ddp $small --device host --steps 2 --out D
kill -INT $pid && wait $pid
[ $? -eq 130 ] && is_whole .
line "execute, ended between samples" 1 $?
# shellcheck disable=SC2086
once "execute, into a finished run" 1 "$stepcast" execute host_ddp $small --device host --steps 2 --out D

cp m.csv before
once "calibrate, output in the place of its input" 1 "$stepcast" calibrate --measurements m.csv --cluster pcie-a100-x4 --out m.csv
cmp -s m.csv before
line "  .. which is untouched" 1 $?

mkdir -p fake empty
printf '#!/bin/sh\nkill -9 $$\n' >fake/gnuplot && chmod +x fake/gnuplot
once "compare, gnuplot dies" 1 env PATH="$work/fake:$PATH" "$stepcast" compare cases.csv --out D1
[ -s D1/compare.csv ] && [ -s D1/summary.md ]
line "  .. the tables are there" 1 $?
once "compare, no gnuplot" 1 env PATH="$work/empty" "$stepcast" compare cases.csv --out D2
[ -s D2/compare.csv ]
line "  .. the tables are there" 1 $?
once "execute, no MPI launcher on PATH" 0 env PATH="$work/empty" "$stepcast" execute host_moe --device host --steps 1 --warmup 0

"$stepcast" simulate host_moe --json >plain.json
for locale in de_DE.UTF-8 tr_TR.UTF-8 nowhere; do
    LC_ALL=$locale "$stepcast" simulate host_moe --json 2>err | cmp -s - plain.json
    line "simulate, LC_ALL=$locale" 1 $?
done
env -u HOME "$stepcast" simulate host_moe --json | cmp -s - plain.json
line "simulate, no HOME" 1 $?
(cd / && "$stepcast" simulate host_moe --json) | cmp -s - plain.json
line "simulate, another working folder" 1 $?
mkdir -p moved/bin moved/share/stepcast/model
cp "$stepcast" moved/bin/ && cp -r "$sources/model/presets" moved/share/stepcast/model/
moved/bin/stepcast simulate host_moe --json | cmp -s - plain.json
line "simulate, a moved installation" 1 $?
if command -v faketime >/dev/null; then
    faketime --exclude-monotonic -f '-1y x100' "$stepcast" execute host_moe --device host --steps 2 --warmup 0 >/dev/null 2>&1
    line "execute, a clock that jumps (faketime)" 1 $?
else
    untried "execute, a clock that jumps" faketime
fi
[ "$lost" -eq 0 ]
