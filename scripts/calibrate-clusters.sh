#!/bin/sh
# Fits the shipped clusters from a folder of published tables:
#   scripts/calibrate-clusters.sh FOLDER [CLUSTER...]
# The first fit is of kernel and link laws and begins at the nameplate of model/presets/clusters/CLUSTER.toml (the part above
# [fitted]). The second, for devices with measured steps, is of a few constants that only whole steps tell; it takes seconds.
# All takes minutes per cluster. The folder holds the tables named below and cases; they are not in the repository.
# dgx-h100.toml was made by these commands one by one, with a second fit that began at earlier values: a new run may differ a little.
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
set -eu
tables=${1:?usage: scripts/calibrate-clusters.sh FOLDER [CLUSTER...]}
shift
root=$(cd "$(dirname "$0")/.." && pwd)
stepcast=${STEPCAST:-$root/build/release/stepcast}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The tables of steps to fit. Of dgxc_benchmarking only rows of at most 64 ranks are taken, so that the larger ones stay unseen.
# mlperf_training and nemo_docs are not fitted at all. Each file states the rows that it was fitted to ([fitted.rows]).
steps_of() {
    case $1 in
    dgx-a100) echo vtrain_multi megatron_papers mosaic_mpt pytorch_jax_fsdp ;;
    dgx-h100) echo dgxc_benchmarking megatron_papers mosaic_mpt pytorch_jax_fsdp ;;
    b200-sxm-x8) echo simumax_b200 ;;
    esac
}

# Tables of kernels: those of the atlas for its devices, else gemm.csv, whose B200 is that of b200-sxm-x8.
kernels_of() {
    case $1 in
    b200-sxm-x8) echo gemm ;;
    dgx-a100-pcie | h200-x1) echo gemm_aiconfigurator gemm ;;
    *) echo gemm_aiconfigurator atlas_gemm atlas_attention atlas_mla atlas_quantize atlas_power moe_layer_aiconfigurator atlas_moe ;;
    esac
}
# Tables of links: collectives of 2 and 8 ranks (of 2 and 4 in a tray), dispatch and combine of experts.
links_of() {
    case $1 in h200-x1 | b200-sxm-x8) return 0 ;; esac  # one GPU; links as in b200-x8
    for name in comm_nccl_aiconfigurator atlas_nccl atlas_nccl_int8 atlas_expert_exchange; do
        [ ! -f "$tables/$name.csv" ] || echo "$name"
    done
}

for cluster in ${*:-dgx-a100 dgx-a100-pcie dgx-h100 dgx-h200 h200-x1 b200-x8 b300-x8 gb200-nvl72 b200-sxm-x8 rtx-pro-6000-x8 arc-b60-x8}; do
    preset=$root/model/presets/clusters/$cluster.toml
    sed '/^\[fitted\]/,$d' "$preset" >"$work/$cluster.toml"
    files=
    for name in $(kernels_of "$cluster") $(links_of "$cluster"); do files="$files $tables/$name.csv"; done
    # shellcheck disable=SC2086
    "$stepcast" calibrate --measurements $files --cluster "$work/$cluster.toml" --out "$work/fitted.toml"
    cases=
    for name in $(steps_of "$cluster"); do
        if [ "$name" = dgxc_benchmarking ]; then
            awk -F, 'NR == 1 || $13 <= 64' "$tables/$name.csv" >"$work/$name.csv"
            cases="$cases $work/$name.csv"
        else
            cases="$cases $tables/$name.csv"
        fi
    done
    if [ -n "$cases" ]; then
        mv "$work/fitted.toml" "$work/$cluster.toml"
        "$stepcast" calibrate --measurements $cases --cluster "$work/$cluster.toml" --out "$work/fitted.toml"
    fi
    mv "$work/fitted.toml" "$preset"
done
