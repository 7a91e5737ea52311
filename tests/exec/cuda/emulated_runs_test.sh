#!/usr/bin/env bash
# emulated_runs_test.sh STEPCAST EMULATION SOURCE PART: the program itself on the emulated CUDA device, with small shapes. Every
# run checks its own trace: all tasks there, lanes in order, no task before its predecessors (exit 3 otherwise); random pauses
# before each kernel bring out what is not ordered.
set -uo pipefail
stepcast=$1 part=$4
export STEPCAST_HOME=$3 LD_LIBRARY_PATH=$2 EMULATED_CUDA_DEVICES=4 EMULATED_CUDA_JITTER_US=200 EMULATED_CUDA_LAZY=1
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
wrong=0
small=(--set run.steps=1)
for one in layers=2 hidden=64 heads=4 ffn=128 vocab=256 seq=32; do small+=(--set "workload.$one"); done
gpt2=(one_gpu_gpt2_124m "${small[@]}")

complain() {
    echo "$1"
    shift
    tail -n 8 "$@"
    wrong=1
}
# expect CODE TEXT ARGUMENT...: execute ends with that exit code and says so.
expect() {
    local code=$1 text=$2
    shift 2
    timeout 60 "$stepcast" execute --device cuda "$@" >"$here/log" 2>&1
    local found=$?
    [ $found -eq "$code" ] || complain "exit $found, expected $code: execute $*" "$here/log"
    grep -q -- "$text" "$here/log" || complain "expected \"$text\": execute $*" "$here/log"
}
# sets KEY=VALUE...: as --set arguments, in `set`.
sets() {
    set=()
    local one
    for one in "$@"; do set+=(--set "$one"); done
}
# both RANKS KEY=VALUE...: GPT-2 issued task by task, and replayed as a CUDA graph.
both() {
    sets cluster.gpus_per_node="$1" "${@:2}"
    expect 0 "executed on cuda, $1 rank" "${gpt2[@]}" "${set[@]}" --warmup 1
    expect 0 'replayed as CUDA graphs' "${gpt2[@]}" "${set[@]}" --warmup 2 --set run.cuda_graph=true
}
# wait_for FILE: until a run has written it, at most half a minute.
wait_for() {
    local look
    for ((look = 0; look < 300; ++look)); do
        [ ! -s "$1" ] || return 0
        sleep 0.1
    done
    return 1
}
# processes COUNT ARGUMENT...: as a launcher starts them, `each` on a machine; their exit codes go to `codes`.
processes() {
    local count=$1 pids=() rank
    shift
    for ((rank = 0; rank < count; ++rank)); do
        RANK=$rank WORLD_SIZE=$count LOCAL_RANK=$((rank % ${each:-$count})) STEPCAST_ID_FILE=$here/id \
            NCCL_HOSTID=machine-$((rank / ${each:-$count})) \
            timeout 60 "$stepcast" execute --device cuda "$@" >"$here/log$rank" 2>&1 &
        pids+=($!)
    done
    [ -z "${victim:-}" ] || { wait_for "$here/killed/run.csv" && pkill -9 -P "${pids[victim]}"; }
    codes=
    for pid in "${pids[@]}"; do wait "$pid"; codes+="$? "; done
}
expect_codes() {
    [ "$codes" = "$1" ] || complain "exit codes $codes, expected $1: $2" "$here"/log?
}

one_rank() {
    both 1
    expect 0 'executed on cuda' one_gpu_llama3_4_layers "${small[@]}" --set workload.kv_heads=2
    for dtype in bf16 fp8; do
        expect 0 'executed on cuda' one_gpu_moe_layer --steps 1 --set workload.hidden=64 --set workload.ffn=128 \
            --set workload.seq=64 --set workload.dtype=$dtype
    done
    sets cluster.preset=dgx-h200 cluster.gpus_per_node=1 parallelism.dp=1 parallelism.micro_batch=2
    sets_of_coca=(--set runtime.optimizer.groups=4)
    for tower in workload workload.vision workload.decoder; do
        for one in layers=1 hidden=64 heads=4 ffn=128; do sets_of_coca+=(--set "$tower.$one"); done
    done
    expect 0 'executed on cuda' coca_zero1 --steps 1 "${set[@]}" "${sets_of_coca[@]}"
    # Scores stay on chip, issued and replayed; heads that no kernel takes go through memory, and are named.
    both 1 runtime.attention=flash
    grep -q 'ran flash attention, 4 tasks: own fused kernel' "$here/log" || complain 'expected what ran attention' "$here/log"
    expect 0 'warning: flash attention ran by stepcast.s own kernel' "${gpt2[@]}" --set runtime.attention=flash
    expect 0 'heads of 320 elements are wider than' "${gpt2[@]}" --set runtime.attention=flash \
        --set workload.head_dim=320
    grep -q 'ran flash attention, 4 tasks: through memory' "$here/log" || complain 'expected attention through memory' "$here/log"
    expect 1 'the first step runs task by task' "${gpt2[@]}" --warmup 1 --set run.cuda_graph=true
}

threads() {
    both 2 parallelism.dp=2 parallelism.micro_batch=4
    both 4 parallelism.dp=4 parallelism.micro_batch=2 parallelism.zero=3
    both 4 parallelism.tp=4 parallelism.sequence_parallel=true
    both 4 parallelism.dp=2 parallelism.tp=2 parallelism.micro_batch=2 parallelism.zero=1
    both 4 parallelism.pp=2 parallelism.tp=2 parallelism.micro_batch=2
    both 2 parallelism.cp=2
    both 2 parallelism.pp=2 parallelism.vp=2 workload.layers=4 parallelism.micro_batch=2
    sets cluster.gpus_per_node=2 parallelism.pp=2 parallelism.micro_batch=2 runtime.pipeline.blocking=true
    expect 0 'executed on cuda' "${gpt2[@]}" "${set[@]}"
    sets workload.hidden=64 workload.ffn=128 workload.seq=64 workload.moe.experts=8
    for system in alltoall fast_moe faster_moe mix_moe; do
        expect 0 'executed on cuda' moe_layer_faster_moe --steps 1 "${set[@]}" --set parallelism.moe_system=$system
    done
    # Moments that come late, as where processes have the GPU in turn: the step says how well it knows its clock.
    sets cluster.gpus_per_node=2 parallelism.pp=2 parallelism.micro_batch=2 run.cuda_graph=true
    EMULATED_CUDA_LATE_US=3000 expect 0 'executed on cuda' "${gpt2[@]}" "${set[@]}"
}

launched() {
    sets cluster.gpus_per_node=4 parallelism.pp=2 parallelism.tp=2 parallelism.micro_batch=2
    processes 4 "${gpt2[@]}" "${set[@]}"
    expect_codes '0 0 0 0 ' 'a pipeline of tensor-parallel stages'
    sets cluster.gpus_per_node=2 parallelism.dp=2 parallelism.micro_batch=4 run.cuda_graph=true
    processes 2 "${gpt2[@]}" "${set[@]}"
    expect_codes '0 0 ' 'data parallel, replayed'
    sets cluster.gpus_per_node=2 cluster.nodes=2 parallelism.tp=2 parallelism.dp=2 parallelism.micro_batch=2 parallelism.zero=1 \
        runtime.attention=flash
    EMULATED_CUDA_DEVICES=2 each=2 processes 4 "${gpt2[@]}" "${set[@]}" --out "$here/two"
    expect_codes '0 0 0 0 ' 'two machines of two GPUs'
    grep -q 'ran flash attention, .* own fused kernel' "$here/log0" || complain 'expected what ran attention' "$here/log0"
    sets cluster.gpus_per_node=2 parallelism.dp=2 parallelism.micro_batch=4 run.cuda_graph=true
    EMULATED_CUDA_DEVICES=1 processes 2 "${gpt2[@]}" "${set[@]}"
    expect_codes '1 1 ' 'two ranks on one GPU'
    grep -q 'two ranks on one GPU' "$here/log0" || complain 'expected "two ranks on one GPU"' "$here/log0"
    sets cluster.gpus_per_node=2 parallelism.dp=2 parallelism.micro_batch=4
    victim=1 processes 2 "${gpt2[@]}" "${set[@]}" --steps 100000 --out "$here/killed"
    expect_codes '2 137 ' 'a killed rank'
    grep -q 'a peer is gone' "$here/log0" || complain 'expected the rank that has gone' "$here/log0"
    [ -s "$here/killed/run.csv" ] || complain 'no finished samples of the run that was killed' "$here/log0"
    [ ! -e "$here/id" ] || complain "the id's file was left" "$here/log0"
    echo 'of a run that was killed' >"$here/id"
    processes 2 "${gpt2[@]}" "${set[@]}"
    expect_codes '1 1 ' "a file in the place of the id's"
    RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 expect 1 'STEPCAST_ID_FILE' "${gpt2[@]}" "${set[@]}"
}

faults() {
    sets cluster.gpus_per_node=2 parallelism.dp=2 parallelism.micro_batch=4 run.timeout='2 s'
    EMULATED_NCCL_ABSENT=1,2 expect 2 'rank [01], task .*all_reduce.*did not finish within 2 s' "${gpt2[@]}" "${set[@]}"
    EMULATED_NCCL_ERROR=1,2 expect 2 'rank [01], task .*NCCL: unhandled system error' "${gpt2[@]}" "${set[@]}"
    EMULATED_NCCL_ERROR=1,1 expect 2 'error on demand inside a capture' "${gpt2[@]}" "${set[@]}" --set run.cuda_graph=true
    ! grep 'capture is open' "$here/log" || complain 'the capture was left open' "$here/log"
    EMULATED_CUDA_MEMORY=1100000000 expect 1 'rank 0 needs .* the GPU has .* free of' "${gpt2[@]}" "${set[@]}"
    EMULATED_CUDA_DEVICES=1 expect 1 '2 ranks on 1 GPU here' "${gpt2[@]}" "${set[@]}"
    EMULATED_CUDA_DEVICES=0 expect 2 'no CUDA device: a driver, but no GPU' "${gpt2[@]}" "${set[@]}"
    EMULATED_CUDA_DRIVER=12040 expect 2 'driver is older than the toolkit: it serves CUDA 12.4' "${gpt2[@]}"
    EMULATED_CUDA_CAPABILITY=75 expect 1 'bf16, which .* has not' "${gpt2[@]}"
    EMULATED_NVML_REASONS=4 expect 0 'throttled: the power limit' "${gpt2[@]}"
    EMULATED_NVML_PROCESSES=3 expect 0 '3 processes computed on GPU .* is shared' "${gpt2[@]}"
    expect 0 'executed on cuda' "${gpt2[@]}"
    ! grep 'processes computed' "$here/log" || complain 'a GPU of its own is called shared' "$here/log"
    set -m  # else a background process ignores Ctrl-C
    timeout 60 "$stepcast" execute --device cuda "${gpt2[@]}" --steps 100000 --out "$here/stopped" >"$here/log" 2>&1 &
    wait_for "$here/stopped/run.csv"
    pkill -INT -P $!
    wait $! 2>/dev/null
    [ $? -eq 130 ] || complain 'Ctrl-C does not end the run' "$here/log"
    set +m
    "$stepcast" compare "$here/stopped" >"$here/log" 2>&1 || complain 'what Ctrl-C left cannot be compared' "$here/log"
}

"$part"
exit $wrong
