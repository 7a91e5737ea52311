#!/usr/bin/env bash
# scripts/coverage.sh: builds with gcov, runs the suite's test programs and the command-line tests, and prints the share of lines
# that ran in each folder. Required: model, measured, sim, calibrate and reports 92 %, exec on the host 85 %.
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install-deps.sh
build=build/coverage
mkdir -p $build
cmake -S . -B $build -G Ninja -DCMAKE_BUILD_TYPE=Debug -DWITH_CUDA=OFF -DWITH_PYTHON=OFF -DWITH_HOST=ON -DWITH_FITTING=ON \
    -DCMAKE_CXX_FLAGS="--coverage -O1" >/dev/null
cmake --build $build --parallel "$(nproc)" >$build/build.log || { tail -n 30 $build/build.log >&2; exit 1; }
find $build -name '*.gcda' -delete
(cd $build && ctest --parallel "$(nproc)" --timeout 900 >ctest.log 2>&1) || echo "coverage: some tests failed ($build/ctest.log)" >&2
exec python3 - $build <<'PY'
import collections, glob, gzip, json, os, subprocess, sys
build = os.path.abspath(sys.argv[1])
lines = collections.defaultdict(dict)  # file -> line -> times
for notes in glob.glob(build + "/**/*.gcda", recursive=True):
    out = subprocess.run(["gcov", "--json-format", "--stdout", notes], capture_output=True, cwd=build).stdout
    for text in out.splitlines():
        for file in json.loads(text)["files"]:
            path = os.path.relpath(os.path.join(build, file["file"]), os.getcwd())
            for line in file["lines"]:
                n = line["line_number"]
                lines[path][n] = lines[path].get(n, 0) + line["count"]
low = False
for folder, wanted in (("model", 92), ("measured", 92), ("sim", 92), ("calibrate", 92), ("reports", 92), ("exec", 85)):
    seen = [n for path, of in lines.items() if path.startswith(folder + "/") and "/cuda/" not in path for n in of.values()]
    share = 100 * sum(n > 0 for n in seen) / max(1, len(seen))
    low |= share < wanted
    print(f"{folder:<10} {share:5.1f} % of {len(seen)} lines, wanted {wanted} %")
sys.exit(low)
PY
