#!/usr/bin/env bash
# Measures what a machine with several GPUs can tell, in one call of 15 minutes: scripts/multi-gpu-run.sh [OUT]   (default out/gpus)
# Tests every op, calibrates with all GPUs, writes the forecast of each experiment down before it is executed, executes it with a
# rank on every GPU, and draws predicted against measured. Ends with OUT.tar.gz, to send back; OUT/summary.txt reports all.
# GPUS names how many GPUs to use (all). NCCL_TESTS names a folder with the output of nccl-tests, of this machine or over all GPUs of
# several such machines (then NIC is the bandwidth of one NIC, as "50 GB/s"): their links are then fitted too. Where nccl-tests'
# programs are in PATH, they are run here.
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
set -uo pipefail
cd "$(dirname "$0")/.."
out=${1:-out/gpus}
limit=${GPU_RUN_SECONDS:-880}
rm -rf "$out" "$out.tar.gz"
mkdir -p "$out"
out=$(cd "$out" && pwd)
export STEPCAST_HOME=$PWD
failed=0

. scripts/gpu-parts.sh

timeout 20 nvidia-smi >"$out/nvidia-smi.txt" 2>&1 || say "nvidia-smi does not answer"
timeout 20 nvidia-smi topo -m >"$out/topo.txt" 2>&1
gpus=${GPUS:-$(timeout 20 nvidia-smi -L 2>/dev/null | grep -c '^GPU ')}
if [ "$gpus" -lt 2 ] || [ $((gpus % 2)) -ne 0 ]; then
    say "found $gpus GPUs; expected 2, 4 or 8 (GPUS names how many; scripts/gpu-run.sh is for one)"
    exit 1
fi
if ! find_program; then
    say "no program here opens the GPUs: $(tail -n 1 "$out/program.log")"
    exit 2
fi
say "$gpus GPUs"

test_ops
calibrate_here 330 --ranks "$gpus"

# Links by nccl-tests: what ran here, and what was brought along.
tables=()
import_logs() {
    local log table
    for log in "$@"; do
        [ -f "$log" ] || continue
        table=$out/nccl/$(basename "$log").csv
        part 20 nccl.log "${stepcast[@]}" import "$log" --format nccl-tests --out "$table" && tables+=("$table")
    done
}
mkdir -p "$out/nccl"
for op in all_reduce all_gather reduce_scatter alltoall; do
    ! command -v "${op}_perf" >/dev/null || part 20 "nccl/$op.txt" "${op}_perf" -g "$gpus" -b 1K -e 1G -f 4
done
import_logs "$out"/nccl/*.txt ${NCCL_TESTS:+"$NCCL_TESTS"/*}
if [ ${#tables[@]} -gt 0 ]; then
    # A calibration of one machine knows nothing of its NICs.
    [ -z "${NIC:-}" ] || sed "/^\[link.inter\]/a bandwidth = \"$NIC\"" "$cluster" >"$out/with-nic.toml"
    [ -f "$out/with-nic.toml" ] || cp "$cluster" "$out/with-nic.toml"
    part 60 nccl.log "${stepcast[@]}" calibrate --measurements "${tables[@]}" --cluster "$out/with-nic.toml" --out "$out/with-nccl-tests.toml" &&
        say "links fitted to ${#tables[@]} logs of nccl-tests too: with-nccl-tests.toml"
fi

# The forecast first, then the run: FOLDER NAME OVERRIDES...
forecast_and_run() {
    local folder=$1 name=$2
    shift 2
    local set=(--set "cluster.preset=$cluster" --set "cluster.gpus_per_node=$gpus")
    for override in "$@"; do set+=(--set "$override"); done
    mkdir -p "$out/forecasts"
    part 30 forecast.log "${stepcast[@]}" simulate "$name" "${set[@]}" --out "$out/forecasts/$folder" || failed=1
    run "$folder" "$name" "cluster.preset=$cluster" "cluster.gpus_per_node=$gpus" "$@"
}
gpt2=one_gpu_gpt2_124m llama=one_gpu_llama3_4_layers half=$((gpus / 2))
all=(parallelism.dp="$gpus" parallelism.global_batch=$((8 * gpus)))
forecast_and_run ddp $gpt2 "${all[@]}"
forecast_and_run ddp_graph $gpt2 "${all[@]}" run.cuda_graph=true
forecast_and_run zero1 $gpt2 "${all[@]}" parallelism.zero=1
forecast_and_run zero3 $gpt2 "${all[@]}" parallelism.zero=3
forecast_and_run tensor $llama parallelism.tp="$gpus" parallelism.sequence_parallel=true
forecast_and_run tensor_data $llama parallelism.tp=2 parallelism.dp=$half parallelism.global_batch="$gpus"
forecast_and_run pipeline $llama workload.layers="$gpus" parallelism.pp="$gpus" parallelism.micro_batch=1 parallelism.global_batch=$((2 * gpus))
forecast_and_run pipeline_tensor $llama parallelism.pp=2 parallelism.tp=$half parallelism.micro_batch=1 parallelism.global_batch=8
forecast_and_run context_flash $llama runtime.attention=flash parallelism.cp="$gpus"
for system in alltoall faster_moe mix_moe; do
    forecast_and_run "experts_$system" moe_layer_faster_moe parallelism.dp="$gpus" parallelism.ep="$gpus" \
        workload.moe.experts=$((2 * gpus)) parallelism.moe_system=$system
done
say "executed $(ls -d "$out"/runs/*/ 2>/dev/null | wc -l) experiments"

compare_all
tar -C "$(dirname "$out")" -czf "$out.tar.gz" "$(basename "$out")" &&
    say "done; please send back $out.tar.gz (plots and report: $out/compare/report.html)"
exit $failed
