#!/usr/bin/env bash
# scripts/mutate.sh COUNT [SEED]: changes one small thing in a source file of model, sim, calibrate, exec or reports, builds what
# depends on it, and runs the test program of its folder; COUNT times. Says how many changes a test caught and lists those that
# none did. Works in a copy (build/mutate), so that the tree stays as it is.
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
set -euo pipefail
cd "$(dirname "$0")/.."
count=${1:?usage: scripts/mutate.sh COUNT [SEED]}
seed=${2:-1}
copy=build/mutate
mkdir -p "$copy"
tar --exclude=./build --exclude=./.git -cf - . | tar -C "$copy" -xf -
cmake -S "$copy" -B "$copy/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE=-O1 -DWITH_CUDA=OFF -DWITH_HOST=ON \
    -DWITH_FITTING=ON >"$copy/cmake.log"
cmake --build "$copy/build" --parallel "$(nproc)" --target test_model test_sim test_calibrate test_exec test_reports >"$copy/build.log" ||
    { tail -n 30 "$copy/build.log" >&2; exit 1; }
exec python3 scripts/mutate.py "$copy" "$count" "$seed"
