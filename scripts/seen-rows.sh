#!/bin/sh
# Writes model/presets/seen_rows.txt: the hashes of the rows in folders of published tables, in docs, notes and the shipped measurements. A
# forecast of such a row counts as "seen" and is no evidence. Run it again whenever someone has looked at a table.
#   scripts/seen-rows.sh FOLDER...
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
set -eu
[ $# -gt 0 ] && [ -d "$1" ] || { echo "usage: scripts/seen-rows.sh FOLDER..." >&2; exit 1; }
root=$(cd "$(dirname "$0")/.." && pwd)
stepcast=${STEPCAST:-$root/build/release/stepcast}
list=$root/model/presets/seen_rows.txt
files=$(for folder in "$@"; do ls "$folder"/*.csv; done)
{
    echo "# Rows that were there while the model, its conventions and priors were made, by content (model/records/provenance.h): published"
    echo "# tables, docs/published_runs.csv, notes/*_runs.csv and what is measured in calibrate/measurements. Made by scripts/seen-rows.sh."
    "$stepcast" list rows $files "$root"/docs/*.csv "$root"/notes/*_runs.csv "$root"/calibrate/measurements/*.csv "$root"/calibrate/measurements/h?00/*.csv
} >"$list.new"
mv "$list.new" "$list"
