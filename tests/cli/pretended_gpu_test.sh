#!/usr/bin/env bash
# Forecasts of memory beside what PyTorch itself allocated and reserved on a pretended GPU (tests/data/pretended_gpu/README.md).
set -euo pipefail
stepcast=$1 root=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
record=$root/scripts/pretended-gpu/record.py recorded=$root/tests/data/pretended_gpu/recorded.csv
python3 "$record" --forecast "$stepcast" "$folder/forecast.csv"
python3 "$record" --beside "$folder/forecast.csv" "$recorded" --within 3 5

# The check can fail: a forecast a tenth too high, and one that is missing.
awk -F, -v OFS=, 'NR == 2 {$2 *= 1.1} {print}' "$folder/forecast.csv" >"$folder/high.csv"
if python3 "$record" --beside "$folder/high.csv" "$recorded" --within 3 5 >"$folder/out" 2>&1; then
    echo "a forecast that is too high passed" >&2
    exit 1
fi
sed '2d' "$folder/forecast.csv" >"$folder/fewer.csv"
if python3 "$record" --beside "$folder/fewer.csv" "$recorded" --within 3 5 >"$folder/out" 2>&1; then
    echo "a missing forecast passed" >&2
    exit 1
fi
