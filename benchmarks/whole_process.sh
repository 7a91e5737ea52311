#!/bin/sh
# CPU time of whole processes, start to exit: median and least of 5 runs of each row. CPU time, not wall time, because
# other jobs share the machine. With -i instructions as well, counted by valgrind (minutes), which nothing disturbs.
# usage: benchmarks/whole_process.sh [-i] [STEPCAST]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
count=no
if [ "${1:-}" = -i ]; then
    count=yes
    shift
fi
stepcast=${1:-$here/../build/release/stepcast}
times=$(mktemp)
trap 'rm -f "$times"' EXIT

measure() {
    name=$1
    shift
    : >"$times"
    for run in 1 2 3 4 5; do
        /usr/bin/env bash -c 'TIMEFORMAT="%U %S %R"; time "$@" >/dev/null 2>&1' - "$stepcast" "$@" 2>>"$times"
    done
    instructions=-
    if [ $count = yes ]; then
        instructions=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null "$stepcast" "$@" 2>&1 >/dev/null |
            sed -n 's/.*refs: *//p' | tr -d ,)
    fi
    awk -v name="$name" -v instructions="$instructions" '
        { cpu[NR] = ($1 + $2) * 1000 }
        END {
            for (i = 1; i <= NR; ++i) for (j = i + 1; j <= NR; ++j) if (cpu[j] < cpu[i]) { t = cpu[i]; cpu[i] = cpu[j]; cpu[j] = t }
            printf "%-44s %6.0f ms median %6.0f ms least %10s M instructions\n", name, cpu[3], cpu[1],
                instructions == "-" ? "-" : sprintf("%.0f", instructions / 1e6)
        }' "$times"
}

moe=$here/experiments/moe_768_all_to_alls.toml
llama=$here/experiments/llama3_405b_16k.toml
measure "stepcast --version" --version
measure "MoE, uniform routing, folded" simulate "$moe"
measure "the same, unfolded on 64 ranks" simulate "$moe" --set routing.kind=zipf --set routing.skew=0
measure "the same, skewed routing, 64 distinct ranks" simulate "$moe" --set routing.kind=random-gate
measure "Llama 3.1 405B, 16,384 GPUs" simulate "$llama"
measure "the same, 2,048 GPUs (dp 16)" simulate "$llama" --set parallelism.dp=16 --set parallelism.global_batch=2048 --set cluster.nodes=256
measure "Llama 3.1 405B, 16,384 GPUs, --explain" simulate "$llama" --explain
