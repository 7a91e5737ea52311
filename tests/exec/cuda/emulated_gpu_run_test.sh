#!/usr/bin/env bash
# emulated_gpu_run_test.sh STEPCAST GPU_OPS EMULATION SOURCE: scripts/gpu-run.sh as a whole on the emulated CUDA device, with
# small shapes put in by the wrapper that starts the carried program. Its logic is what is checked; times mean nothing here.
set -uo pipefail
stepcast=$1 gpu_ops=$2 emulation=$3 source=$4
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT

mkdir -p "$here/scripts" "$here/.deps/program"
cp "$source/scripts/gpu-run.sh" "$here/scripts/"
ln -s "$source/model" "$here/model"
cat >"$here/.deps/program/run" <<RUN
#!/usr/bin/env bash
program=\$1
shift
[ "\$program" = stepcast ] || exec "$gpu_ops" --without-times
small() { local one; for one in "\$@"; do shapes+=(--set "workload.\$one"); done; }
shapes=()
case "\$1 \$2" in
    "execute one_gpu_moe_layer") small hidden=64 ffn=128 seq=64 ;;
    "execute llama_1b_pp8") small hidden=64 heads=4 kv_heads=2 ffn=128 vocab=256 seq=13 ;;
    "execute one_gpu_llama3_4_layers") small layers=2 hidden=64 heads=4 kv_heads=2 ffn=128 vocab=256 seq=32 ;;
    "execute coca_zero1")
        small layers=1 hidden=64 heads=4 vision.layers=1 vision.hidden=64 vision.heads=4 decoder.layers=1 \\
            decoder.hidden=64 decoder.heads=4 vocab=256 ffn=128 vision.ffn=128 decoder.ffn=128
        shapes+=(--set parallelism.micro_batch=2 --set runtime.optimizer.groups=4) ;;
    "execute "*) small layers=2 hidden=64 heads=4 ffn=128 vocab=256 seq=32 ;;
    "calibrate "*) shapes=(--steps 2) ;;
esac
arguments=()
for one in "\$@"; do [ "\$one" != 12 ] || one=2; arguments+=("\$one"); done  # steps
exec "$stepcast" "\${arguments[@]}" "\${shapes[@]}"
RUN
chmod +x "$here/.deps/program/run"

LD_LIBRARY_PATH=$emulation GPU_RUN_SECONDS=300 "$here/scripts/gpu-run.sh" "$here/out" >"$here/log" 2>&1
code=$?
wrong=0
expect() {  # PATTERN FILE
    grep -qE "$1" "$here/out/$2" && return
    echo "expected \"$1\" in $2:"
    tail -n 5 "$here/out/$2"
    wrong=1
}
[ $code -eq 0 ] || { echo "exit $code"; tail -n 40 "$here/log"; wrong=1; }
expect 'the carried program runs here' summary.txt
expect 'op tests: [1-9][0-9]+ right, 0 wrong' summary.txt
expect 'calibrated' summary.txt
expect 'held-out fifth' summary.txt
expect '2 processes on one GPU, data parallel: exit 0' summary.txt
expect '4 processes on one GPU, data parallel: exit 0' summary.txt
expect 'done; everything is in' summary.txt
expect 'cases|predicted' compare_all.log
runs=$(ls "$here"/out/runs/*/run.toml 2>/dev/null | wc -l)
[ "$runs" -ge 14 ] || { echo "expected 14 runs or more, found $runs"; tail -n 20 "$here/out/execute.log"; wrong=1; }
! grep -E '^\[.*exit [1-9]' "$here/out/summary.txt" || wrong=1
exit $wrong
