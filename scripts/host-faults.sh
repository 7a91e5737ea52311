#!/usr/bin/env bash
# host-faults.sh [RUNS [OUT [SEED]]]: calibrates this machine, executes small experiments with a fault in each (a slow rank, late data, slow
# exchanges, recompute, small buckets, slow launches, one core for two ranks), and prints how often diagnose finds it (notes/diagnose.md). 220 runs take
# half an hour on two cores. It judges nothing: runs beside which a run without a fault is slow too are thrown away and drawn again.
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
set -euo pipefail
cd "$(dirname "$0")/.."
runs=${1:-220} out=${2:-out/host-faults}
mkdir -p "$out"
build/release/tests/injected_faults "$out/host.toml" "$runs" "${3:-9}" | tee "$out/runs.txt" | sed -n '/^| injected/,$p'
