#!/usr/bin/env bash
# Configures and builds a preset: scripts/build.sh release|dev|asan|tsan [TARGET...]
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ ! "${1:-}" =~ ^(release|dev|asan|tsan)$ ]]; then
    echo "usage: scripts/build.sh release|dev|asan|tsan [TARGET...]" >&2
    exit 1
fi
preset=$1
shift
targets=()
[ $# -eq 0 ] || targets=(--target "$@")

# A first build of release compiles batches of files, in half the time (docs/developing.md: how to switch it off before you edit).
batches=()
[ "$preset" != release ] || [ -f build/release/CMakeCache.txt ] || [ -n "${CMAKE_CXX_COMPILER_LAUNCHER:-}" ] || batches=(-DSTEPCAST_UNITY=ON)

mkdir -p "build/$preset"
log=build/$preset/build.log
if ! { cmake --preset "$preset" "${batches[@]}" && cmake --build --preset "$preset" --parallel "$(nproc)" "${targets[@]}"; } </dev/null >"$log" 2>&1; then
    tail -n 60 "$log" >&2
    echo "build: preset $preset failed; the whole output is in $log" >&2
    exit 1
fi
