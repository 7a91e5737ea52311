#!/usr/bin/env bash
# Tests the Python package from scratch: installs what is missing, runs `pip install .` in a new environment, the tests outside
# the repository with pandas and mypy, and a sweep of a million points. Needs a package index; the first run takes minutes.
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
set -euo pipefail
cd "$(dirname "$0")/.."
sources=$PWD

scripts/install-deps.sh
[ -x build/release/stepcast ] || scripts/build.sh release stepcast
environment=$(mktemp -d)
trap 'rm -rf "$environment"' EXIT
python3 -m venv "$environment"
python=$environment/bin/python
echo "python-test: pip install . (minutes the first time)" >&2
# Names the compiler as CMake does, so that a compiler cache serves both builds.
CXX=${CXX:-c++} "$python" -m pip install --quiet '.[mcp]' pandas pandas-stubs mypy </dev/null

cd "$environment"  # so that nothing of the repository is found
export STEPCAST_PROGRAM=$sources/build/release/stepcast STEPCAST_SOURCES=$sources
for test in "$sources"/tests/python/*_test.py; do "$python" "$test"; done
"$python" -c "import stepcast; print(stepcast.simulate('moe_layer_fast_moe').frame().describe())" >/dev/null
env -u STEPCAST_PROGRAM PATH=/usr/bin:/bin bin/stepcast simulate moe_layer_fast_moe >/dev/null  # the package's own program
"$python" -m mypy --strict --no-error-summary -p stepcast  # the installed package

"$python" - <<'PY'
import time, stepcast
start = time.perf_counter()
found = stepcast.sweep("gpt3_175b_a100", {"parallelism": "all"}, set={"cluster.nodes": 128, "parallelism.global_batch": 1536})
taken = time.perf_counter() - start
print(f"sweep of {found.counts.legal:,} legal points: {taken:.1f} s (reported, not judged: the machine may be busy)")
PY
echo "python-test: all passed"
