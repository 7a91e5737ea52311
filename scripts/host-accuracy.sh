#!/usr/bin/env bash
# host-accuracy.sh [OUT]: calibrates this machine, executes experiments that the calibration has not seen, and prints predicted
# against measured, with warnings of the quiet check below. It judges nothing: a busy machine is no failure.
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
set -euo pipefail
cd "$(dirname "$0")/.."
stepcast=$PWD/build/release/stepcast
[[ -x ${STEPCAST:-} ]] && stepcast=$STEPCAST
out=${1:-out/host-accuracy}
rm -rf "$out"
mkdir -p "$out"

"$stepcast" calibrate --device host --out "$out/host.toml" >"$out/calibration.txt"

runs=()
run() { # run NAME EXPERIMENT [OPTION]...: repeats until the machine was quiet, at most three times
    local name=$1 attempt
    shift
    for attempt in 1 2 3; do
        rm -rf "${out:?}/$name"  # a finished run is never replaced
        "$stepcast" execute "$@" --device host --out "$out/$name" >"$out/$name.txt"
        grep -q '^quiet = true' "$out/$name/run.toml" && break
        sleep "$attempt"
    done
    runs+=("$out/$name")
}
run moe_uniform host_moe --set routing.kind=uniform
run moe_zipf host_moe --set routing.kind=zipf
run moe_gate host_moe --set routing.kind=random-gate
run ddp host_ddp
run ddp_no_overlap host_ddp --set runtime.exchanges.gradients=never
run pipeline_gpipe host_pipeline --set parallelism.schedule=gpipe
run pipeline_1f1b host_pipeline --set parallelism.schedule=1f1b
run zero1 host_zero1
run block host_block

"$stepcast" compare "${runs[@]}" --cluster "$out/host.toml" --out "$out/compare"
