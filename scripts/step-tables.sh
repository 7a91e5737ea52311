#!/usr/bin/env bash
# Prints the paths of the tables of published steps in shared/truth (STEPCAST_TRUTH names another folder), one per line.
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
set -euo pipefail
truth=${STEPCAST_TRUTH:-$(dirname "$0")/../../shared/truth}
[ -d "$truth" ] || { echo "step-tables: $truth is not there; expected the tables of measured steps" >&2; exit 1; }
for file in "$truth"/*.csv; do
    case $(basename "$file") in  # tables of kernels, exchanges and memory have no steps
        *_memory.csv | *_aiconfigurator.csv | atlas_* | kernels_* | comm_* | gemm*) ;;
        *) echo "$file" ;;
    esac
done
