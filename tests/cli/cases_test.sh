#!/usr/bin/env bash
# The inputs of shared/cases, read as shared/cases/README.md says: each line here is one row of its table.
source "$(dirname "$0")/expect.sh"
above=$(cd "$sources/.." && pwd)
until [ -f "$above/shared/cases/README.md" ] || [ "$above" = / ]; do above=$(dirname "$above"); done
cases=${above%/}/shared/cases
[ -f "$cases/README.md" ] || { echo "skipped: shared/cases is not here"; exit 0; }
tried=0

# taken FILE [OPTION...] -- LINE...: import writes each LINE ("tp = 2"), after the ways to ask for it.
taken() {
    local options=() file=$1 line
    shift
    tried=$((tried + 1))
    while [ "$1" != -- ]; do options+=("$1"); shift; done
    shift
    rm -f out.toml
    run 0 import "$cases/$file" "${options[@]}" --out out.toml
    for line in "$@"; do
        grep -qE -- "^$line( |$|,)" out.toml || fail "$command_line: out.toml lacks: $line"
    done
}
says() { local text; for text in "$@"; do stderr_has "$text"; done; }
lacks() { ! grep -qE -- "^$1" out.toml || fail "$command_line: out.toml should not have: $1"; }
# number KEY: of the last output in JSON, the first of that name.
number() { tr ',{' '\n\n' <.stdout | sed -n "s/^ *\"$1\": \([0-9.e+-]*\).*/\1/p" | head -n 1; }
# between LOW HIGH NUMBER WHAT
between() { awk -v l="$1" -v h="$2" -v x="$3" 'BEGIN { exit !(x >= l && x <= h) }' || fail "$command_line: $4 is $3, expected $1 .. $2"; }
# weights LOW HIGH BYTES RANKS FILE OPTION...: billions of weights, of BYTES each and split over RANKS.
weights() {
    local low=$1 high=$2 bytes=$3 ranks=$4 file=$5
    shift 5
    run 0 simulate "$cases/$file" "$@" --json
    between "$low" "$high" "$(awk -v p="$(number weights)" "BEGIN { print p / $bytes * $ranks / 1e9 }")" "billions of weights"
}

taken neox_keys.yml -- 'layers = 30' 'hidden = 3072' 'heads = 24' 'ffn = 12288' 'seq = 2048' 'positions = "rotary"' 'tied = false' \
    'tp = 4' 'pp = 2' 'micro_batch = 6' 'zero = 1' 'recompute = "full"' 'dtype = "fp16"'
run 0 simulate "$cases/neox_keys.yml" --cluster A100 --gpus 64 --json
grep -q '"split": "tp 4, pp 2, dp 8' .stdout || fail "$command_line: dp is not 8"
taken neox_hyphens.yml -- 'layers = 18' 'hidden = 1536' 'heads = 12' 'seq = 1024' 'tp = 2' 'micro_batch = 4' 'zero = 1' 'dtype = "fp16"'
taken nested_overrides.yaml -- 'tp = 2' 'pp = 2' 'ep = 4' 'micro_batch = 3' 'global_batch = 96' 'seq = 2048' 'zero = 1' \
    'exchanges.gradients = "always"' 'recompute = "full"' 'recompute_layers = 2'
says Primus 'own_moe.yaml is another file'
taken nemo1_llama_line.sh -- 'gated = true' 'norm = "rmsnorm"' 'positions = "rotary"' 'linear_bias = false' 'tied = false' 'zero = 0' 'gpus_per_node = 8'
weights 2.90 2.93 2 2 nemo1_llama_line.sh --cluster H100 --set vocab=32000
taken nemo1_lora_line.sh -- 'adapter_rank = 16' 'nodes = 3' 'gpus_per_node = 4' 'dp = 6' 'seq = 1024'
taken mds_moe.sh -- 'ep = 16' 'moe.interval = 2' 'moe.top_k = 1' 'moe.capacity_factor = 1.25'
weights 2.25 2.35 2 1 mds_moe.sh --cluster A100 --set ep=1
taken mds_ulysses.sh -- 'dp = 2'
says 'problem: ds_sequence_parallel_size'
taken mds_zbh1.sh -- 'schedule = "zb-h1"'
taken mds_one_expert.sh -- 'layers = 12'
lacks 'moe\.'
taken recompute_2021.sh -- 'recompute = "full"'
# one layer at a time: the 0.5 GiB of a layer's inputs per micro-batch, not 2.5
lacks recompute_layers
taken shared_width_zero.json --
weights 6.63 6.65 2 1 shared_width_zero.json --cluster H100 --gpus 8 --set seq=1024
taken unknown_type_heads_per_layer.json --
weights 0.882 0.884 2 1 unknown_type_heads_per_layer.json --cluster H100 --gpus 8 --set seq=1024
taken unknown_type_loops.json --
says 'total_ut_steps'
taken titan_eager_loss.toml -- 'loss.fused = false'
taken titan_selective_experts.toml -- 'recompute = "alternate"'
run 0 simulate "$cases/titan_selective_experts.toml" --cluster H100 --gpus 16 --model qwen3-30b-a3b --json
# 6 GiB saved and a layer at work; with every tensor of the grouped products it would be 36
between 6 12 "$(awk -v b="$(number activations)" 'BEGIN { print b / 2^30 }')" "GiB of activations"
taken attention_output_gate.sh -- 'attention_gate = true'
weights 1.44 1.46 2 1 attention_output_gate.sh --cluster H100
taken heredoc_overlap.sh -- 'exchanges.gradients = "always"' 'gradients.bucket = "100000000 weights"'
taken recipe_args_block.yaml -- 'layers = 20' 'tp = 2' 'pp = 2'
taken env_in_yaml.yaml --env TP=2 --env PP=4 --env MBS=3 --env SEQ_LEN=512 -- 'tp = 2' 'pp = 4' 'micro_batch = 3'
refused '${TP}' --env -- import "$cases/env_in_yaml.yaml" --out out.toml
taken ds_comments.json -- 'zero = 2' 'micro_batch = 2'
says 'train_batch_size = 8 x replicas'
tried=$((tried + 1))
refused 'n = $(ds_ssh' --env -- import "$cases/batch_from_command.sh" --out out.toml
tried=$((tried + 1))
refused own/text-7b --model -- import "$cases/text_part_by_name.json" --out out.toml

tried=$((tried + 1))
run 0 simulate "$cases/volta_default.sh" --cluster V100 --json
between 0.38 0.43 "$(number p50)" seconds
grep -q 'plain' .stdout .stderr || fail "$command_line: plain attention is not told"

# ---- logs and traces
tried=$((tried + 1))
refused 'separate processes' -- import "$cases/nccl_two_singles.log" --out links.csv
taken nccl_old_error_column.log -- 'all_reduce,4,1,33554432,500,501' 'all_reduce,4,1,67108864,990,991'
taken composer_console.log -- 'composer_console-1-composer,composer,,0,0,step,-1,1,2.5,s'
tried=$((tried + 1))
run 0 import "$cases/trace_long_head.json" --out trace.csv
grep -qE 'bf16.*96.*32.*64|96,32,64' trace.gemms.csv || fail "$command_line: trace.gemms.csv lacks the product"

# ---- machines
taken mesh4_nv4.txt -- 'fabric = "nvlink-mesh"' 'bandwidth = "300 GB/s"' 'mesh = \[4, 4, 4, 4, 4, 4\]'
taken mesh8_cube.txt --gpu V100 -- 'fabric = "nvlink-mesh"' 'bandwidth = "150 GB/s"'
taken rccl_topology.xml -- 'gpus_per_node = 2' 'fabric = "nvlink-mesh"'
tried=$((tried + 1))
refused xGMI '--gpu MI300X' -- import "$cases/rocm_topology.txt" --out out.toml
run 0 import "$cases/rocm_topology.txt" --gpu MI300X --out out.toml

inputs=$(find "$cases" -type f ! -name README.md | wc -l)
[ "$tried" -eq "$inputs" ] || fail "$tried of $inputs cases were tried"
finish
