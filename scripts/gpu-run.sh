#!/usr/bin/env bash
# Measures all that a GPU machine can tell, in one call of under nine minutes: scripts/gpu-run.sh [OUT]   (default out/gpu)
# Takes the program that scripts/pack-offline.sh packed, or builds one; then tests every op, calibrates, executes the list
# of experiments, and compares. Each part has its own time limit and keeps what it finished; OUT/summary.txt reports all.
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
set -uo pipefail
cd "$(dirname "$0")/.."
out=${1:-out/gpu}
limit=${GPU_RUN_SECONDS:-520}
rm -rf "$out"
mkdir -p "$out"
out=$(cd "$out" && pwd)
export STEPCAST_HOME=$PWD
failed=0

left() { echo $((limit - SECONDS)); }
say() { printf '[%3d s] %s\n' "$SECONDS" "$*" | tee -a "$out/summary.txt"; }
# part SECONDS LOG COMMAND...: runs for at most SECONDS and never beyond the total limit; appends the output to OUT/LOG.
part() {
    local most=$1 log=$out/$2
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

timeout 20 nvidia-smi >"$out/nvidia-smi.txt" 2>&1 || say "nvidia-smi does not answer"
if ! find_program; then
    say "no program here opens the GPU: $(tail -n 1 "$out/program.log")"
    exit 2
fi

part 90 ops.log "${gpu_ops[@]}" || failed=1
say "op tests: $(grep -c '^ok' "$out/ops.log") right, $(grep -c '^WRONG' "$out/ops.log") wrong"
grep 'first heuristic' "$out/ops.log" | tee -a "$out/summary.txt"

cluster=$out/this-gpu.toml
if part 200 calibrate.log "${stepcast[@]}" calibrate --device cuda --ranks 1 --out "$cluster"; then
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
run gpt2_124m one_gpu_gpt2_124m
run gpt2_124m_graph one_gpu_gpt2_124m run.cuda_graph=true
run gpt2_1.5b one_gpu_gpt2_1.5b
run gpt2_124m_script one_gpu_gpt2_124m_pytorch
run bert_large one_gpu_bert_large
run llama3_4_layers one_gpu_llama3_4_layers
for experts in 4 8 16 32 64; do run "moe_$experts" one_gpu_moe_layer workload.moe.experts=$experts; done
one_gpu=(cluster.preset=dgx-h200 cluster.gpus_per_node=1)
run coca coca_zero1 "${one_gpu[@]}" parallelism.dp=1 parallelism.micro_batch=128
for seq in 88 104 124; do
    run "llama_1b_stage_$seq" llama_1b_pp8 "${one_gpu[@]}" parallelism.pp=1 workload.layers=2 workload.seq=$seq
done
say "executed"

# Takes only runs with a record: one that failed before its first sample has none, and an unreadable one would fail the comparison
# of all.
executed=()
for record in "$out"/runs/*/run.toml; do [ ! -f "$record" ] || executed+=("${record%/run.toml}"); done
if [ -f "$cluster" ] && [ ${#executed[@]} -gt 0 ]; then
    part 60 compare_all.log "${stepcast[@]}" compare "${executed[@]}" --cluster "$cluster" --out "$out/compare"
    part 30 compare_all.log "${stepcast[@]}" compare "${executed[@]}" --cluster "$cluster" --json
    cat "$out/compare_all.log" >>"$out/summary.txt"
fi

# Two and four ranks as processes that share the GPU over sockets: tests correctness, not speed.
share() {
    local ranks=$1 pids=() code=0
    rm -f "$out/id"  # of a part that was stopped
    for ((rank = 0; rank < ranks; ++rank)); do
        RANK=$rank WORLD_SIZE=$ranks LOCAL_RANK=$rank STEPCAST_ID_FILE="$out/id" \
            NCCL_HOSTID=stepcast-$rank NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 timeout --kill-after=5 60 "${stepcast[@]}" execute \
            one_gpu_gpt2_124m --device cuda --steps 2 --warmup 1 --set parallelism.dp="$ranks" \
            --set parallelism.micro_batch=1 --set parallelism.global_batch="$ranks" --set cluster.gpus_per_node="$ranks" \
            >"$out/share_${ranks}_$rank.log" 2>&1 &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid" || code=$?; done
    say "$ranks processes on one GPU, data parallel: exit $code (share_${ranks}_*.log)"
}
for ranks in 2 4; do [ "$(left)" -lt 30 ] || share $ranks; done

say "done; everything is in $out"
exit $failed
