#!/usr/bin/env bash
# Fits one GPU to the kernel tables that a PyTorch script measured on it, then predicts the script's whole training steps, which
# the fit has not seen:
#   scripts/pytorch-truth.sh COLLECTED OUT [RUN_FOLDER...]
# COLLECTED holds the script's environment.csv, gemm.csv, batched.csv, memory.csv, launch.csv, steps.csv, moe.csv and
# moe_routing.csv (notes/pytorch.md), as far as they exist. OUT gets h200-x1.toml, the output, tables and plots. Run folders of
# `execute` (for example from scripts/gpu-run.sh) are compared with the script's steps of the same shape. CLUSTER names the
# datasheet to start from (default: the part above [fitted] of h200-x1), STEPCAST the program.
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
set -euo pipefail
if [ $# -lt 2 ]; then
    sed -n '2,9s/^# //p' "$0" >&2
    exit 1
fi
root=$(cd "$(dirname "$0")/.." && pwd)
collected=$1
out=$2
shift 2
stepcast=${STEPCAST:-$root/build/release/stepcast}
preset=${CLUSTER:-$root/model/presets/clusters/h200-x1.toml}
mkdir -p "$out"

tables=()
for name in environment gemm batched memory launch; do
    [ ! -s "$collected/$name.csv" ] || tables+=("$collected/$name.csv")
done
sed '/^\[fitted\]/,$d' "$preset" >"$out/datasheet.toml"
cluster=$out/h200-x1.toml
"$stepcast" calibrate --measurements "${tables[@]}" --cluster "$out/datasheet.toml" --out "$cluster" | tee "$out/calibrate.txt"

steps=()
for name in steps moe; do
    [ ! -s "$collected/$name.csv" ] || steps+=("$collected/$name.csv")
done
for file in "${steps[@]}"; do
    name=$(basename "$file" .csv)
    echo
    "$stepcast" compare "$file" --cluster "$cluster" | tee "$out/$name.txt"
    "$stepcast" compare "$file" --cluster "$cluster" --json >"$out/$name.json"
    # May fail: a program without plots reports that and writes all else.
    "$stepcast" compare "$file" --cluster "$cluster" --out "$out/$name" >/dev/null || true
done

# This program's executed steps, their predictions, and PyTorch's steps.
if [ $# -gt 0 ] && [ -s "$collected/steps.csv" ]; then
    echo
    "$stepcast" compare "$@" "$collected/steps.csv" --cluster "$cluster" >"$out/all.txt"
    sed -n '/^side by side/,/^$/p' "$out/all.txt" | tee "$out/side_by_side.txt"
fi
