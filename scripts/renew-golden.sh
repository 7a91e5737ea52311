#!/usr/bin/env bash
# Run after an intended change of predictions: rewrites the changed rows of tests/sim/golden/*.csv, each with the reason, and the outputs
# in docs/python.md and the notebook. usage: scripts/renew-golden.sh "REASON". On a merge conflict take either side and run it again.
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# -ne 1 ] || [ -z "$1" ] || [[ $1 == -* ]]; then
    sed -n '2,4s/^# //p' "$0" >&2
    exit 1
fi
scripts/build.sh release test_sim
STEPCAST_RENEW_BECAUSE=$1 build/release/tests/test_sim "*of the golden table" | sed -n '/renewed:/,/^$/p'
if grep -q '^STEPCAST_PYTHON:INTERNAL=ON' build/release/CMakeCache.txt; then
    scripts/build.sh release _core
    python=$(sed -n 's/^STEPCAST_PYTHON_PROGRAM:INTERNAL=//p' build/release/CMakeCache.txt)
    STEPCAST_SOURCES=$PWD PYTHONPATH=$PWD/build/release/python "$python" tests/python/documents_test.py --renew
fi
git --no-pager diff --stat tests/sim/golden docs
