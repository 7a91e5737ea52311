#!/bin/sh
# Fits the kernel and link laws of the shipped clusters from a folder of published tables:
#   scripts/calibrate-clusters.sh FOLDER [CLUSTER...]
# Starts from the nameplate of model/presets/clusters/CLUSTER.toml, what stands above [fitted], and writes the file anew.
# The folder holds gemm_aiconfigurator.csv, gemm.csv and comm_nccl_aiconfigurator.csv; the repository does not.
set -eu
tables=${1:?usage: scripts/calibrate-clusters.sh FOLDER [CLUSTER...]}
shift
root=$(cd "$(dirname "$0")/.." && pwd)
stepcast=${STEPCAST:-$root/build/release/stepcast}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for cluster in ${*:-dgx-a100 dgx-a100-pcie dgx-h100 dgx-h200 b200-x8}; do
    preset=$root/model/presets/clusters/$cluster.toml
    sed '/^\[fitted\]/,$d' "$preset" >"$work/$cluster.toml"
    "$stepcast" calibrate --measurements "$tables/gemm_aiconfigurator.csv" "$tables/gemm.csv" \
        "$tables/comm_nccl_aiconfigurator.csv" --cluster "$work/$cluster.toml" --out "$work/fitted.toml"
    mv "$work/fitted.toml" "$preset"
done
