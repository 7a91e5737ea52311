#!/usr/bin/env bash
# Redraws the pictures of docs/images with the shipped presets, after a change that moves predictions or plots; takes five minutes.
# The first two need the tables of shared/truth; without these they stay as they are. scripts/renew-images.sh [BINARY]: draws with this
# program in place of the one that it builds.
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
set -euo pipefail
cd "$(dirname "$0")/.."
stepcast=${1:-build/release/stepcast}
[ $# -gt 0 ] || scripts/build.sh release stepcast
drawn=$(mktemp -d)
trap 'rm -rf "$drawn"' EXIT

# draw PICTURE PLOT VERB ARGUMENT..: runs the command and copies its plot.
draw() {
    local picture=$1 plot=$2
    shift 2
    "$stepcast" "$@" --out "$drawn/$picture" >/dev/null
    cp "$drawn/$picture/$plot" "docs/images/$picture.png"
}
if mapfile -t tables < <(scripts/step-tables.sh) && [ ${#tables[@]} -gt 0 ]; then
    truth=$(dirname "${tables[0]}")
    draw errors_by_size left_out.png calibrate --measurements "${tables[@]}" "$truth"/new/*.csv --cross-validate source
    draw devices devices.png compare "$truth"/atlas_[^c]*.csv  # all but custom_all_reduce, which has no cost model
fi
draw sweep_map map.png sweep gpt3_175b_a100 --vary parallelism=all
draw recorded_experts experts.png compare calibrate/measurements/moe_layer_bench.csv
draw host_attribution attribution.png compare tests/data/host_runs/*/ --cluster tests/data/host_runs/host.toml
if command -v dot >/dev/null; then  # Debian's graphviz
    "$stepcast" simulate llama3_8b_h100_fsdp --set workload.layers=2 --set parallelism.pp=2 --set parallelism.dp=4 \
        --set parallelism.zero=0 --set parallelism.global_batch=4 --graph "$drawn/step.dot" >/dev/null
    dot -Tsvg "$drawn/step.dot" >docs/images/task_graph.svg
fi
git --no-pager diff --stat docs/images
