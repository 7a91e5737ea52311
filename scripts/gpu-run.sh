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

. scripts/gpu-parts.sh

timeout 20 nvidia-smi >"$out/nvidia-smi.txt" 2>&1 || say "nvidia-smi does not answer"
if ! find_program; then
    say "no program here opens the GPU: $(tail -n 1 "$out/program.log")"
    exit 2
fi

# The clock and the power beside all that follows.
nvidia-smi --query-gpu=timestamp,clocks.sm,power.draw,temperature.gpu --format=csv -lms 100 >"$out/clocks.csv" 2>/dev/null &
trap "kill $! 2>/dev/null" EXIT

test_ops
calibrate_here 200 --ranks 1

run gpt2_124m one_gpu_gpt2_124m
run gpt2_124m_graph one_gpu_gpt2_124m run.cuda_graph=true
run gpt2_1.5b one_gpu_gpt2_1.5b
run gpt2_124m_script one_gpu_gpt2_124m_pytorch
run bert_large one_gpu_bert_large
run llama3_4_layers one_gpu_llama3_4_layers
# Scores that stay on chip: each run says which kernel it had.
run gpt2_124m_flash one_gpu_gpt2_124m runtime.attention=flash
run llama3_4_layers_flash one_gpu_llama3_4_layers runtime.attention=flash
run llama3_4_layers_window one_gpu_llama3_4_layers runtime.attention=flash workload.window=1024
run gpt2_1.5b_flash one_gpu_gpt2_1.5b runtime.attention=flash
run bert_large_flash one_gpu_bert_large runtime.attention=flash
# Adapters, fp8, long sequences, few heads of keys, a model whose kernels are as short as their launches.
run llama3_lora one_gpu_llama3_4_layers runtime.attention=flash workload.adapter_rank=16
run llama3_fp8 one_gpu_llama3_4_layers runtime.attention=flash workload.dtype=fp8
run llama3_long one_gpu_llama3_4_layers runtime.attention=flash workload.seq=32768 parallelism.micro_batch=1 parallelism.global_batch=1
run llama3_2_heads_of_keys one_gpu_llama3_4_layers runtime.attention=flash workload.kv_heads=2
run tiny one_gpu_gpt2_124m runtime.attention=flash workload.layers=4 workload.hidden=256 workload.heads=4 workload.ffn=1024 workload.seq=256
run gpt2_1280 one_gpu_gpt2_124m runtime.attention=flash workload.hidden=1280 workload.heads=20 workload.ffn=5120
run gpt2_padded one_gpu_gpt2_124m runtime.attention=flash workload.vocab=50304
run llama_2048 one_gpu_llama3_4_layers runtime.attention=flash workload.layers=8 workload.hidden=2048 workload.heads=16 workload.ffn=8192
run llama3_seq_8192 one_gpu_llama3_4_layers runtime.attention=flash workload.seq=8192 parallelism.micro_batch=1 parallelism.global_batch=1
for experts in 8 24; do run "moe_wide_$experts" one_gpu_moe_layer workload.moe.experts=$experts workload.hidden=2048 workload.ffn=5632; done
for experts in 4 8 16 32 64; do run "moe_$experts" one_gpu_moe_layer workload.moe.experts=$experts; done
one_gpu=(cluster.preset=dgx-h200 cluster.gpus_per_node=1)
run coca coca_zero1 "${one_gpu[@]}" parallelism.dp=1 parallelism.micro_batch=128
for seq in 88 104 124; do
    run "llama_1b_stage_$seq" llama_1b_pp8 "${one_gpu[@]}" parallelism.pp=1 workload.layers=2 workload.seq=$seq
done
say "executed"

compare_all

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
