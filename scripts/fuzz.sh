#!/usr/bin/env bash
# scripts/fuzz.sh MINUTES [TARGET...]: runs libFuzzer on each reader (tests/fuzz/targets.cpp) for that many minutes, with the
# address and undefined-behaviour sanitizers. Findings are in build/fuzz/findings; copy them into tests/fuzz/corpus/TARGET, which
# makes them tests. Installs clang if there is none with libFuzzer.
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
set -euo pipefail
cd "$(dirname "$0")/.."
minutes=${1:?usage: scripts/fuzz.sh MINUTES [TARGET...]}
shift

scripts/install-deps.sh
compiler=$(command -v clang++-19 || command -v clang++-16 || true)
if [ -z "$compiler" ]; then
    root=(); [ "$(id -u)" -eq 0 ] || root=(sudo)
    for version in 19 16; do  # Debian 12 has both
        "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends \
            "clang-$version" "libclang-rt-$version-dev" >/dev/null 2>&1 && break
    done
    compiler=$(command -v clang++-19 || command -v clang++-16) || {
        echo "fuzz: no clang of 16 or newer; expected the Debian package clang-19 with libclang-rt-19-dev" >&2
        exit 1
    }
fi
version=${compiler##*-}

mkdir -p build
cmake -S . -B build/fuzz -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSTEPCAST_FUZZ=ON -DWITH_CUDA=OFF -DWITH_PYTHON=OFF -DWITH_HOST=ON -DWITH_FITTING=ON \
    -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_C_COMPILER="clang-$version" \
    -DCMAKE_CXX_FLAGS="-O1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined" >build/fuzz.log 2>&1 &&
    cmake --build build/fuzz --target fuzz --parallel "$(nproc)" >>build/fuzz.log 2>&1 ||
    { tail -n 40 build/fuzz.log >&2; exit 1; }

[ $# -gt 0 ] || set -- $(ls tests/fuzz/corpus)
found=0
mkdir -p build/fuzz/findings
printf '%-18s %12s %10s %8s\n' target inputs coverage findings
for target in "$@"; do
    mkdir -p "build/fuzz/corpus/$target"
    before=$(find build/fuzz/findings -name "$target-*" | wc -l)
    STEPCAST_FUZZ=$target ASAN_OPTIONS=detect_leaks=0 build/fuzz/tests/fuzz -max_total_time=$((minutes * 60)) -timeout=20 -rss_limit_mb=4096 \
        -max_len=65536 -print_final_stats=1 -artifact_prefix="build/fuzz/findings/$target-" \
        "build/fuzz/corpus/$target" "tests/fuzz/corpus/$target" >"build/fuzz/$target.log" 2>&1 || true
    new=$(($(find build/fuzz/findings -name "$target-*" | wc -l) - before))
    found=$((found + new))
    printf '%-18s %12s %10s %8s\n' "$target" "$(awk '/number_of_executed_units/ {print $2}' "build/fuzz/$target.log")" \
        "$(grep -o 'cov: [0-9]*' "build/fuzz/$target.log" | tail -n 1 | cut -c6-)" "$new"
done
[ "$found" -eq 0 ]
