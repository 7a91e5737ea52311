#!/usr/bin/env bash
# scripts/tidy.sh [FILE...]: runs clang-tidy with the checks of .clang-tidy over these files or all of the product (except CUDA's, which
# need its headers, and those of builds without a library). Exits with 1 if it finds something. Needs clang and clang-tidy of one version
# (Debian: clang-19 clang-tidy-19).
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install-deps.sh
for version in 19 16 14; do
    command -v "clang-tidy-$version" >/dev/null && command -v "clang++-$version" >/dev/null && break
    version=
done
[ -n "$version" ] || { echo "tidy: no clang-tidy; expected the Debian packages clang-19 and clang-tidy-19" >&2; exit 1; }
mkdir -p build/tidy
cmake -S . -B build/tidy -G Ninja -DCMAKE_BUILD_TYPE=Debug -DWITH_CUDA=OFF -DWITH_PYTHON=OFF -DWITH_HOST=ON -DWITH_FITTING=ON -DWITH_PROFILES=ON \
    -DCMAKE_CXX_COMPILER="clang++-$version" -DCMAKE_C_COMPILER="clang-$version" \
    -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DCMAKE_EXPORT_COMPILE_COMMANDS=ON >build/tidy/configure.log
cmake --build build/tidy --target commit >>build/tidy/configure.log  # a generated header
[ $# -gt 0 ] || set -- $(git ls-files main.cpp model measured sim import exec calibrate reports cli | grep '\.cpp$' | grep -v '/cuda/\|/no_')
printf '%s\0' "$@" | xargs -0 -P "$(nproc)" -n 1 "clang-tidy-$version" -p build/tidy --quiet --warnings-as-errors='*' 2>build/tidy/counts.log
echo "tidy: nothing to say of $# files"
