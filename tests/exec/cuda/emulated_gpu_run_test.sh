#!/usr/bin/env bash
# emulated_gpu_run_test.sh STEPCAST GPU_OPS EMULATION SOURCE one|several [SAID]: scripts/gpu-run.sh or scripts/multi-gpu-run.sh as a
# whole on the emulated CUDA device, with small shapes put in by the wrapper that starts the carried program. Its logic is what is
# checked; times mean nothing here. SAID: what GPU_OPS said when it ran as a test of its own; without the file it runs again.
set -uo pipefail
stepcast=$1 gpu_ops=$2 emulation=$3 source=$4 gpus=$5 said=${6:-}
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT

mkdir -p "$here/scripts" "$here/.deps/program"
cp "$source"/scripts/{gpu-run,multi-gpu-run,gpu-parts}.sh "$here/scripts/"
ln -s "$source/model" "$here/model"
ln -s "$source/import" "$here/import"
[ "$gpus" = one ] && llama=2 heads=4 kv_heads=2 || llama= heads=8 kv_heads=8
cat >"$here/.deps/program/run" <<RUN
#!/usr/bin/env bash
program=\$1
shift
if [ "\$program" = gpu_ops ]; then
    [ ! -s "$said" ] || exec cat "$said"
    exec "$gpu_ops" --without-times
fi
small() { local one; for one in "\$@"; do shapes+=(--set "workload.\$one"); done; }
shapes=()
case "\$1 \$2" in
    "execute one_gpu_moe_layer" | "execute moe_layer_"* | "simulate moe_layer_"*) small hidden=64 ffn=128 seq=64 ;;
    "execute llama_1b_pp8")
        small hidden=64 heads=4 kv_heads=2 ffn=128 vocab=256 seq=13
        shapes+=(--set parallelism.global_batch=2) ;;
    "execute one_gpu_llama3_4_layers" | "simulate one_gpu_llama3_4_layers")
        small ${llama:+layers=$llama} hidden=64 heads=$heads kv_heads=$kv_heads ffn=128 vocab=256 seq=32 ;;
    "execute coca_zero1")
        small layers=1 hidden=64 heads=4 vision.layers=1 vision.hidden=64 vision.heads=4 decoder.layers=1 \\
            decoder.hidden=64 decoder.heads=4 vocab=256 ffn=128 vision.ffn=128 decoder.ffn=128
        shapes+=(--set parallelism.micro_batch=2 --set runtime.optimizer.groups=4) ;;
    "execute "* | "simulate "*)
        small layers=2 hidden=64 heads=4 ffn=128 vocab=256 seq=32
        [ "$gpus" = one ] || shapes+=(--set parallelism.micro_batch=1 --set parallelism.global_batch=4)
        [[ "$gpus" = several || "\$*" = *parallelism.dp=* ]] ||
            shapes+=(--set parallelism.micro_batch=2 --set parallelism.global_batch=2) ;;
    "calibrate --device")
        shapes=(--steps 1)
        [ "$gpus" = one ] || set -- "\${@:1:3}" "\${@:6}" ;;  # without --ranks: all that are there
esac
[ "$gpus" = one ] || [ "\$1" != execute ] || shapes+=(--set run.timeout="180 s")
arguments=()
for one in "\$@"; do [ "\$one" != 12 ] || one=2; arguments+=("\$one"); done  # steps
exec "$stepcast" "\${arguments[@]}" "\${shapes[@]}"
RUN
chmod +x "$here/.deps/program/run"

wrong=0
expect() {  # PATTERN FILE
    grep -qE "$1" "$here/out/$2" && return
    echo "expected \"$1\" in $2:"
    tail -n 5 "$here/out/$2"
    wrong=1
}
# expect_runs COUNT: executed, each with what ran its kinds of tasks.
expect_runs() {
    local runs
    runs=$(grep -ls '^kernels = \[' "$here"/out/runs/*/run.toml | wc -l)
    [ "$runs" -ge "$1" ] || { echo "expected $1 runs or more, found $runs"; tail -n 20 "$here/out/execute.log"; wrong=1; }
}
ends() {  # SCRIPT [TABLE]...: runs it, and expects what both say, and those tables too
    LD_LIBRARY_PATH=$emulation GPU_RUN_SECONDS=1700 GPU_RUN_PATIENCE=5 "$here/scripts/$1" "$here/out" >"$here/log" 2>&1
    local code=$? kind
    [ $code -eq 0 ] || { echo "exit $code"; tail -n 40 "$here/log"; wrong=1; }
    expect 'the carried program runs here' summary.txt
    expect 'op tests: [1-9][0-9]+ right, 0 wrong' summary.txt
    expect 'copy rate: [4-9][0-9] kernels' summary.txt
    expect 'calibrated' summary.txt
    expect 'held-out fifth' summary.txt
    for kind in gemm memory "${@:2}"; do
        [ "$(wc -l <"$here/out/this-gpu-$kind.csv")" -gt 20 ] || { echo "this-gpu-$kind.csv has few rows"; wrong=1; }
    done
    expect 'cases|predicted' compare_all.log
    ! grep -E '^\[.*exit [1-9]' "$here/out/summary.txt" || wrong=1
}

one() {
    ends gpu-run.sh
    expect '2 processes on one GPU, data parallel: exit 0' summary.txt
    expect '4 processes on one GPU, data parallel: exit 0' summary.txt
    expect 'done; everything is in' summary.txt
    expect 'flash_attention|flash attention, [0-9]+ tasks: own fused kernel' runs/llama3_4_layers_flash/run.toml
    expect_runs 17
}

# Four GPUs, and what nccl-tests said of two such machines: 60 us, and 320 kB/s of the 400 of four NICs: below what the emulated
# links inside a machine move, as between real ones. An all-reduce of 8 ranks moves 1.75 times its bytes.
several() {
    mkdir "$here/nccl"
    {
        echo '# Collective test starting: all_reduce_perf'
        echo '# Using devices'
        for rank in {0..7}; do
            echo "#  Rank  $rank Group  0 Pid 1 on node$((rank / 4)) device  $((rank % 4)) [0000:0$((rank % 4)):00] emulated CUDA device (tests only)"
        done
        echo '#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong'
        for power in {10..30}; do
            awk -v bytes=$((1 << power)) 'BEGIN { us = 60 + 1.75 * bytes / 0.32; gb = bytes / us / 1e3
                printf "%d %d float sum -1 %.2f %.9f %.9f 0 %.2f %.9f %.9f 0\n", bytes, bytes / 4, us, gb, 1.75 * gb, us, gb, 1.75 * gb }'
        done
    } >"$here/nccl/two_nodes.log"
    export EMULATED_CUDA_DEVICES=4 EMULATED_CUDA_LAZY=1 GPUS=4 NCCL_TESTS=$here/nccl NIC='100 kB/s'
    ends multi-gpu-run.sh collectives
    expect ',all_reduce,4,' this-gpu-collectives.csv
    expect 'links fitted to 1 logs of nccl-tests too' summary.txt
    expect '^ring_efficiency' with-nccl-tests.toml
    expect 'please send back' summary.txt
    expect_runs 12
    [ "$(ls -d "$here"/out/forecasts/*/ | wc -l)" -ge 12 ] || { echo 'expected a forecast of every run'; wrong=1; }
    local sent file
    sent=$(tar -tzf "$here/out.tar.gz")
    for file in compare/report.html compare/scatter.png this-gpu.toml summary.txt; do
        grep -q "out/$file" <<<"$sent" || { echo "expected $file in what is sent back"; wrong=1; }
    done
    GPUS=3 "$here/scripts/multi-gpu-run.sh" "$here/odd" >"$here/log" 2>&1
    grep -q 'found 3 GPUs; expected 2, 4 or 8' "$here/log" || { echo 'expected a refusal of three GPUs'; wrong=1; }
}

"$gpus"
exit $wrong
