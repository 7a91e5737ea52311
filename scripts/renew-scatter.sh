#!/usr/bin/env bash
# Estimates the widths of intervals anew: predicts every measured step of shared/truth and calibrate/measurements with the shipped
# presets and writes model/presets/scatter.toml. After every change that moves predictions of measured steps. A minute.
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
set -euo pipefail
cd "$(dirname "$0")/.."
truth=${STEPCAST_TRUTH:-../shared/truth}
[ -d "$truth" ] || { echo "renew-scatter: $truth is not there; expected the tables of measured steps" >&2; exit 1; }
files=()
for file in "$truth"/*.csv calibrate/measurements/*.csv; do
    case $(basename "$file") in  # tables without steps
        *_memory.csv | atlas_* | kernels_* | comm_* | gemm*) ;;
        *) files+=("$file") ;;
    esac
done
build/release/stepcast calibrate --measurements "${files[@]}" --fit scatter --out model/presets/scatter.toml
