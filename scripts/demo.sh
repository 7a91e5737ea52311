#!/usr/bin/env bash
# The main job, without a GPU: recorded MoE runs and a run made on the spot, each held against its prediction.
# Plots, tables and summary.md go to out/demo/.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install-deps.sh
echo "demo: building preset release (minutes the first time)" >&2
scripts/build.sh release stepcast
stepcast=build/release/stepcast
out=out/demo
rm -rf "$out"
mkdir -p "$out"

say() { printf '\n== %s\n' "$*"; }

say "1. recorded: MoE layers on 4 GPUs over PCIe, predicted (routing drawn where it was not recorded) against the median of each run"
"$stepcast" compare calibrate/measurements/*.csv --cluster pcie-a100-x4 --out "$out/recorded"

say "2. this machine: measure its GEMM, memory, launch and collective curves"
"$stepcast" calibrate --device host --out "$out/host.toml"

say "3. host_moe: executed on 2 ranks, predicted from that calibration"
"$stepcast" execute host_moe --device host --ranks 2 --out "$out/host_run"
"$stepcast" compare "$out/host_run" --cluster "$out/host.toml" --out "$out/host"

{
    echo "# stepcast demo"
    printf '\n## Recorded MoE runs\n\n'
    sed -e '/^# /d' -e 's/^## /### /' -e 's#](\([a-z_]*\.png\))#](recorded/\1)#' "$out/recorded/summary.md"
    printf '\n## host_moe on this machine\n\n'
    sed -e '/^# /d' -e 's/^## /### /' -e 's#](\([a-z_]*\.png\))#](host/\1)#' "$out/host/summary.md"
} >"$out/summary.md"

say "written"
find "$out" -path "$out/host_run" -prune -o \( -name '*.png' -o -name '*.md' -o -name '*.csv' -o -name '*.toml' \) -print | sort
echo "$out/host_run/  (every sample and trace of the run)"
