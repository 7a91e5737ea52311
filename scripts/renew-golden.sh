#!/usr/bin/env bash
# After a change that moves predictions on purpose: writes the moved rows of tests/sim/golden/presets.csv anew, each with
# the reason. usage: scripts/renew-golden.sh "REASON". On a merge conflict in the table take either side and run it again.
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# -ne 1 ] || [ -z "$1" ] || [[ $1 == -* ]]; then
    sed -n '2,3s/^# //p' "$0" >&2
    exit 1
fi
scripts/build.sh release test_sim
STEPCAST_RENEW_BECAUSE=$1 build/release/tests/test_sim "predictions of the presets are those of the golden table" | sed -n '/renewed:/,/^$/p'
git --no-pager diff --stat tests/sim/golden
