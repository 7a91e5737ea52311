#!/usr/bin/env bash
# Estimates the widths of intervals anew: predicts every measured step of shared/truth and calibrate/measurements with the shipped
# presets and writes model/presets/scatter.toml. Run it after every change that moves predictions of measured steps; takes four
# minutes of one processor. With --few-shot: the widths of fits to few steps instead, which take an hour.
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
set -euo pipefail
fit=scatter
[ "${1:-}" = --few-shot ] && fit=few-shot
cd "$(dirname "$0")/.."
tables=$(scripts/step-tables.sh)
mapfile -t files <<<"$tables"
truth=$(dirname "${files[0]}")
files+=("$truth"/new/*.csv calibrate/measurements/*.csv)  # new/: tables and threads of those who follow no recipe
build/release/stepcast calibrate --measurements "${files[@]}" --fit "$fit" --out model/presets/scatter.toml
