#!/usr/bin/env bash
# What scripts/gpu-run.sh and scripts/multi-gpu-run.sh share; they set `out`, `limit` and `failed` and source it in the source folder.
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;; esac

left() { echo $((limit - SECONDS)); }
say() { printf '[%3d s] %s\n' "$SECONDS" "$*" | tee -a "$out/summary.txt"; }
# part SECONDS LOG COMMAND...: runs for at most SECONDS and never beyond the total limit; appends the output to OUT/LOG. A rehearsal
# on a busy machine sets GPU_RUN_PATIENCE, by which SECONDS are multiplied.
part() {
    local most=$(($1 * ${GPU_RUN_PATIENCE:-1})) log=$out/$2
    shift 2
    [ "$most" -lt "$(left)" ] || most=$(left)
    if [ "$most" -le 5 ]; then
        say "left out for want of time: $*"
        return 1
    fi
    timeout --kill-after=5 "$most" "$@" >>"$log" 2>&1
    local code=$?
    [ $code -eq 0 ] || say "exit $code: $* (see $(basename "$log"))"
    return $code
}

# CUDA's libraries and NCCL, where this machine has them: first the toolkit's, then those of Python packages.
cuda=${CUDA_HOME:-/usr/local/cuda}
packages=$(python3 -c 'import nvidia; print(list(nvidia.__path__)[0])' 2>/dev/null)
libraries=${LD_LIBRARY_PATH:-}
for folder in "$cuda"/lib64 "$cuda"/targets/x86_64-linux/lib /usr/local/nvidia/lib64 ${packages:+"$packages"/*/lib}; do
    [ ! -d "$folder" ] || libraries=${libraries:+$libraries:}$folder
done
[ ! -d "$packages/nccl" ] || export NCCL_HOME=$packages/nccl
[ ! -d "$packages/cudnn" ] || export CUDNN_HOME=$packages/cudnn
[ ! -f "${packages%/*}/include/cudnn_frontend.h" ] || export CUDNN_FRONTEND_HOME=${packages%/*}
export LD_LIBRARY_PATH=$libraries PATH=$PATH:$cuda/bin

# Whether the program starts and opens the device; its output goes to program.log. A step that fails on an opened device is no
# reason for another build: the parts below report it.
sees_gpu() {
    timeout --kill-after=5 60 "${stepcast[@]}" execute one_gpu_moe_layer --device cuda --steps 1 --warmup 1 >"$out/try.log" 2>&1
    local code=$?
    cat "$out/try.log" >>"$out/program.log"
    [ $code -eq 0 ] || say "exit $code: a first step: $(tail -n 1 "$out/try.log")"
    [ $code -ne 126 ] && [ $code -ne 127 ] && ! grep -qE 'no CUDA device|error while loading|GLIBC' "$out/try.log"
}

# Python can unpack xz on machines without it.
unpack() {
    tar -C "$2" -xJf "$1" 2>/dev/null ||
        python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "$1" "$2"
}

find_program() {
    [ ! -f .deps/program.tar.xz ] || unpack .deps/program.tar.xz .deps >>"$out/program.log" 2>&1
    stepcast=(.deps/program/run stepcast)
    gpu_ops=(.deps/program/run gpu_ops)
    if [ -x .deps/program/run ] && sees_gpu; then
        say "the carried program runs here"
        return
    fi
    say "building: the carried program is missing or does not run here (program.log)"
    for package in .deps/debs/*.deb; do
        [ ! -f "$package" ] || dpkg -x "$package" .deps-root
    done
    part 60 build.log cmake -S . -B build/gpu -G Ninja -DCMAKE_BUILD_TYPE=Release -DWITH_CUDA=ON \
        -DCMAKE_PREFIX_PATH="$PWD/.deps-root/usr" || return 1
    part 240 build.log cmake --build build/gpu -j "$(nproc)" --target stepcast exec_cuda gpu_ops || return 1
    stepcast=(build/gpu/stepcast)
    gpu_ops=(build/gpu/tests/gpu_ops)
    export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$PWD/.deps-root/usr/lib/x86_64-linux-gnu
    say "built"
    sees_gpu
}

# Tests every op; then calibrates with the arguments, into OUT/this-gpu.toml, which becomes `cluster`.
test_ops() {
    part 150 ops.log "${gpu_ops[@]}" || failed=1
    say "op tests: $(grep -c '^ok' "$out/ops.log") right, $(grep -c '^WRONG' "$out/ops.log") wrong"
    grep -E 'first heuristic|copy rate|attention time|does not serve' "$out/ops.log" | tee -a "$out/summary.txt"
}
calibrate_here() {
    cluster=$out/this-gpu.toml
    if part "$1" calibrate.log "${stepcast[@]}" calibrate --device cuda "${@:2}" --out "$cluster"; then
        say "calibrated"
    else
        failed=1
    fi
    # A program without fitting writes only tables; the preset's constants then replace the fit, and the summary says so.
    if [ ! -f "$cluster" ]; then
        say "no cluster was fitted here: compared with the preset h200-x1, which no measurement of this machine went into"
        cp model/presets/clusters/h200-x1.toml "$cluster"
    fi
    grep -E 'held-out|not fitted' "$out/calibrate.log" | tee -a "$out/summary.txt"
}

# Executes an experiment into a run folder: FOLDER NAME OVERRIDES...
run() {
    local folder=$out/runs/$1 name=$2
    shift 2
    local set=()
    for override in "$@"; do set+=(--set "$override"); done
    part 40 execute.log "${stepcast[@]}" execute "$name" --device cuda --steps 12 --out "$folder" "${set[@]}" || failed=1
    # Compares directly after the measurement, as later there may be no time left.
    [ ! -f "$cluster" ] || [ ! -f "$folder/run.toml" ] || part 30 compare.log "${stepcast[@]}" compare "$folder" --cluster "$cluster"
}

# Takes only runs with a record: one that failed before its first sample has none, and an unreadable one would fail the comparison
# of all.
compare_all() {
    local executed=() record
    for record in "$out"/runs/*/run.toml; do [ ! -f "$record" ] || executed+=("${record%/run.toml}"); done
    if [ -f "$cluster" ] && [ ${#executed[@]} -gt 0 ]; then
        part 60 compare_all.log "${stepcast[@]}" compare "${executed[@]}" --cluster "$cluster" --out "$out/compare"
        part 30 compare_all.log "${stepcast[@]}" compare "${executed[@]}" --cluster "$cluster" --json
        cat "$out/compare_all.log" >>"$out/summary.txt"
    fi
}
