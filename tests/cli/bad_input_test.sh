#!/usr/bin/env bash
# Every kind of bad input: one message with position, found and expected; exit code 1; nothing written half.
source "$(dirname "$0")/expect.sh"

# Words of the command line.
refused '"simulat"' 'did you mean "simulate"?' -- simulat moe_layer_fast_moe
refused '"--jsn"' 'did you mean "--json"?' -- simulate moe_layer_fast_moe --jsn
refused 'moe_layer_fast_mo' 'did you mean "moe_layer_fast_moe"?' -- simulate moe_layer_fast_mo
refused 'EXPERIMENT' -- simulate
refused 'KEY=VALUE' -- simulate moe_layer_fast_moe --set workload.hidden
refused '"tpu"' 'host' 'cuda' -- execute host_moe --device tpu
refused '"llama3-70b" is a workload' '--cluster' -- simulate llama3-70B
refused '"qwen3-235b-a22b" is a workload' -- simulate qwen3-235b
refused 'did you mean "megatron-lm", "megatron-core" or' -- simulate moe_layer_fast_moe --framework megatron
refused '"megatron-core" is a framework: --framework megatron-core' -- simulate megatron-core
refused 'megatron-core' 'is a framework' -- show megatron-core --set seq=1024
refused 'no datasheet is known of one with 60 GB' 'gpu.memory_bandwidth' -- import --gpu A100-60GB --out node.toml
refused 'pcie-a100-x5' 'did you mean "pcie-a100-x4"?' -- simulate moe_layer_fast_moe --set cluster.preset=pcie-a100-x5
run 1
stderr_has "a verb is required"
stdout_is_empty
run 2 execute host_moe --device cuda
stderr_has "no CUDA device: driver not found"

refused '--steps' '0' '1 to 1000000' -- execute host_moe --device host --steps 0

# Keys and values.
refused 'run.allocator' 'expandable_segments:true' "Expected 'True' or 'False' at index 2 in ConfigTokenizer but got 'true'" -- \
    simulate gpt3_175b_a100 --set run.allocator=expandable_segments:true
refused 'memory over time' 'transformers' -- simulate moe_layer_fast_moe --memory
refused '--memory' 'one experiment' -- simulate gpt3_175b_a100 moe_layer_mix_moe --memory
refused 'cluster.overheads.context' 'less than cluster.gpu.memory' -- \
    simulate gpt3_175b_a100 --memory --set "cluster.gpu.memory=1 GiB" --set "cluster.overheads.context=2 GiB"
refused 'workload.hiden' 'did you mean "workload.hidden"?' -- simulate moe_layer_fast_moe --set workload.hiden=1024
refused 'cluster.link.intra.bandwidth' '900 has no unit' 'GB/s' -- \
    simulate moe_layer_fast_moe --set cluster.link.intra.bandwidth=900
refused 'workload.hidden' '-4' -- simulate moe_layer_fast_moe --set workload.hidden=-4
refused 'workload.hidden' '1000000000000' -- simulate moe_layer_fast_moe --set workload.hidden=1000000000000
refused 'parallelism.micro_batch' -- simulate moe_layer_fast_moe --set parallelism.micro_batch=0
refused 'parallelism' '3' '4' -- simulate moe_layer_fast_moe --set parallelism.dp=3
refused 'experts' '6' -- simulate moe_layer_fast_moe --set workload.moe.experts=6
refused 'parallelism.moe_system' 'did you mean "fast_moe"?' -- \
    simulate moe_layer_fast_moe --set parallelism.moe_system=fast_mo

# The same in a file, with its position.
cat >typo.toml <<'TOML'
[workload]
preset = "moe_layer"
hiden = 1024
TOML
refused 'typo.toml:3:1' 'hiden' 'hidden' -- simulate typo.toml
printf '[workload\n' >broken.toml
refused 'broken.toml:1' -- simulate broken.toml
refused 'absent.toml' -- simulate absent.toml
mkdir folder
refused 'folder' -- simulate folder

# A routing file of another shape: 2 ranks where the layer has 4.
cat >routing.csv <<'CSV'
# stepcast routing 1, counts, ranks 2, experts 2
source,expert,slots
0,0,8192
0,1,8192
1,0,8192
1,1,8192
CSV
refused 'routing.csv' '2' '4' -- simulate moe_layer_fast_moe --set routing.kind=file --set routing.file=routing.csv
printf '# stepcast routing 1, counts, ranks 4, experts 16\nsource,expert,slots\n0,0,twelve\n' >routing.csv
refused 'routing.csv:3' 'twelve' -- simulate moe_layer_fast_moe --set routing.kind=file --set routing.file=routing.csv

# A routing file with other slots than the experiment's, as counts and as block totals.
printf '# stepcast routing 1, counts, ranks 4, experts 4\nsource,expert,slots\n' >slots.csv
for rank in 0 1 2 3; do for expert in 0 1 2 3; do echo "$rank,$expert,1" >>slots.csv; done; done
refused 'slots.csv' '4 slots' '16384' -- simulate moe_layer_fast_moe --set routing.file=slots.csv
refused 'mix_moe_64.csv' '1064 blocks' -- \
    simulate moe_layer_mix_moe --set "routing.file=$sources/calibrate/measurements/routing/mix_moe_64.csv" --set workload.seq=64
# Logs: absent, a folder, of no known dialect, cut off in a line. The output file stays as it was.
echo "as it was" >samples.csv
refused 'absent.log' -- import absent.log --out samples.csv
refused 'folder' -- import folder --out samples.csv
printf 'hello\nworld\n' >other.log
refused 'other.log' -- import other.log --out samples.csv
cat >cut.log <<'LOG'
[Benchmark] world_size = 4, dtype = float16, model_dim = 1024, hidden_size = 4096, samples = 8192, num_local_experts = 4, topK = 2, a2a_ffn_overlap_degree = 1, device = `cuda:0`
STEP-0: step_time = 43.092896 ms, foward_time = 22.542236, backward_time = 20.199425, perf = 19.14 tflops.
STEP-1: step_time = 26.366977 ms, foward_ti
LOG
refused 'cut.log' -- import cut.log --out samples.csv
[ "$(cat samples.csv)" = "as it was" ] || fail "$command_line: touched samples.csv"
refused 'moe-step' 'moe-steps' -- import cut.log --format moe-step --out new.csv
refused '--pattern FILE' -- import cut.log --format custom --out new.csv
printf 'lines = ["step {#} took {step:parsec}"]\n' >pattern.toml
refused 'pattern.toml:1' 'parsec' 'ms' -- import cut.log --format custom --pattern pattern.toml --out new.csv
refused 'workload.sek' 'did you mean "workload.seq"?' -- import cut.log --input workload.sek=1 --out new.csv
refused '--only-steps 9-3' 'FIRST-LAST' -- import cut.log --only-steps 9-3 --out new.csv

# Options that would be read by nobody: refused, not ignored.
traced=$sources/tests/data/traced
refused '--emit and --json' -- simulate gpt3_175b_a100 --emit megatron --json
refused '--emit and --json' -- sweep gpt3_175b_a100 --vary parallelism.tp=8 --emit megatron --json
refused '--emit' 'one experiment' -- simulate gpt3_175b_a100 moe_layer_mix_moe --emit megatron
refused '--model' 'gpt3_175b_a100' 'workload.preset' -- simulate gpt3_175b_a100 --model llama3-8b
refused '--variant' 'host_moe' -- execute host_moe --device host --variant h100,64,bf16
refused '--env' 'gpt3_175b_a100' -- sweep gpt3_175b_a100 --vary parallelism.tp=8 --env A=B
refused '--set and --gpus' 'are of traces' -- compare "$sources/tests/data/host_runs/block" --set tp=2
for option in "--cluster dgx-h100" "--framework fsdp" "--set tp=2" "--gpus 4" "--out page"; do
    refused 'need --model' -- compare "$traced"/rank*.json.gz $option
done
for option in "--only-steps 2-2" --medians "--phases step"; do
    refused "${option%% *}" 'is of logs' 'rank0.json.gz is one of the profiles' -- import "$traced/rank0.json.gz" $option --out new.csv
done
refused '--op' 'is of profiles' 'cut.log' -- import cut.log --op all_gather --out new.csv
refused 'several words' -- list presets H100 A100
refused 'list keyz' 'did you mean "keys"' -- list keyz
refused '--all' 'list keys' -- list presets --all

# Another tool's file is shown as what it is translated to, and that runs.
run 0 show "$sources/tests/data/launch/gpt_arrays.sh" --cluster dgx-a100
stdout_has '[parallelism]'
run 1 simulate "$sources/tests/data/launch/gpt_arrays.sh"
stderr_has 'gpt_arrays.sh: names no machine; expected --cluster NAME'
refused 'describes a machine' 'import' -- show "$sources/tests/data/newcomer/topo.txt"

# With --emit the flags are the answer, the training stands on stderr, the page where --out says.
run 0 simulate gpt3_175b_a100 --emit megatron --tokens 15T --out emitted
stderr_has 'training on 15 T tokens'
[ -s emitted/report.html ] || fail "$command_line: wrote no page"
run 0 list presets nosuchword
[ ! -s .stdout ] || fail "$command_line: lists what has not the word"
stderr_has 'list presets: no line has "nosuchword"'
run 0 list presets frameworks  # a heading: all below it
stdout_has 'torchtitan-async'
if grep -q 'dgx-h100' .stdout; then fail "$command_line: lists what is below another heading"; fi
run 0 list presets h100
stdout_has 'dgx-h100'
if grep -q 'dgx-a100' .stdout; then fail "$command_line: lists what has not the word"; fi

# A DeepSpeed log with a line of a megabyte, bytes that are no UTF-8, carriage returns and a cut end: counted, not silent.
{
    printf '[2024-02-20 09:55:05,000] [INFO] [Rank 0] time (ms) | fwd: 10.0 | bwd: 20.0 | step: 3.0\r\n'
    head -c 1000000 /dev/zero | tr '\0' 'x'
    printf '\n\377\376\n[2024-02-20 09:55:06,000] [INFO] [Rank 0] time (ms) | fwd: 10.0 | bwd: 20.0 | step: 3.0\n'
    printf '[2024-02-20 09:55:07,000] [INFO] [Rank 0] time (ms) | fwd: 10.0 | bw'
} >rough.log
run 0 import rough.log --out rough.csv
stderr_has 'deepspeed, 1 runs; lines: 2 used, 0 skipped, 3 unknown'
stderr_has 'rough.log:5:'
absent new.csv

# Places that cannot be written: below a plain file.
refused 'samples.csv' -- simulate moe_layer_fast_moe --trace samples.csv/trace.json
refused 'samples.csv' -- compare "$sources/calibrate/measurements/moe_layer_bench.csv" --out samples.csv/out
refused 'samples.csv' -- calibrate --device host --out samples.csv/host.toml

cp "$sources/model/presets/experiments/host_moe.toml" own.toml
refused 'own.toml' 'another file' -- simulate own.toml --trace own.toml
refused 'own.toml' 'another file' -- execute own.toml --device host --steps 1 --trace ./own.toml
cmp -s own.toml "$sources/model/presets/experiments/host_moe.toml" || fail "$command_line: overwrote its experiment"

# A pipe or a link in the place of a file is not replaced.
mkfifo pipe
refused 'pipe' 'no regular file' -- simulate moe_layer_mix_moe --trace pipe
[ -p pipe ] || fail "$command_line: replaced a pipe"
echo "as it was" >target.json
ln -s target.json link.json
run 0 simulate moe_layer_mix_moe --trace link.json
[ -L link.json ] && grep -q traceEvents target.json || fail "$command_line: did not follow a link"

# Cases and measurements.
: >empty.csv
refused 'empty.csv' -- compare empty.csv
printf 'a,b\n1,2\n' >foreign.csv
refused 'foreign.csv' -- compare foreign.csv
refused 'absent.csv' -- compare absent.csv
refused 'device' -- calibrate --out new.toml
refused 'absent.csv' -- calibrate --measurements absent.csv --cluster pcie-a100-x4 --out new.toml
absent new.toml
refused '--ranks 1000' 'cores' -- calibrate --device host --ranks 1000 --out new.toml
absent new.toml
# What a way of calibrating has no use for is refused, before anything is measured or read.
refused '--cross-validate' -- calibrate --device host --cross-validate model --out new.toml
refused '--fit' -- calibrate --device host --fit hardware --out new.toml
refused '--cluster' -- calibrate --device host --cluster pcie-a100-x4 --out new.toml
refused '--ranks' -- calibrate --measurements absent.csv --cluster pcie-a100-x4 --ranks 2 --out new.toml
refused '--fit scatter' '--cluster' -- calibrate --measurements absent.csv --fit scatter --cluster pcie-a100-x4 --out new.toml
refused '--cross-validate' '--framework' -- calibrate --measurements absent.csv --cross-validate ranks --framework eager
refused '--cross-validate' '--out' -- calibrate --measurements absent.csv --cluster pcie-a100-x4 --cross-validate ranks --out new.toml
absent new.toml
refused 'samples.csv' -- calibrate --measurements "$sources/calibrate/measurements/moe_layer_bench.csv" --cross-validate source --out samples.csv/out
cp "$sources/model/presets/clusters/host.toml" start.toml
refused 'start.toml' 'another file' -- calibrate --measurements absent.csv --cluster start.toml --out start.toml
cmp -s start.toml "$sources/model/presets/clusters/host.toml" || fail "$command_line: edited its input"

# A configuration of no known tool is no log and no preset.
printf 'net:\n  depth: 4\n  num_layers: 3\n' > unknown.yaml
refused 'unknown.yaml: YAML with net.num_layers, net.depth: the configuration of no tool that is known' 'GPT-NeoX, nanotron' -- import unknown.yaml --out x.toml
refused 'the configuration of no tool that is known' -- simulate unknown.yaml --cluster H100
printf 'MODEL_ARGS:\n  --num-layers: ${LAYERS}\n' > variable.yaml
refused 'found "${LAYERS}"; expected a whole number' '--env NAME=VALUE' -- import variable.yaml --out x.toml

finish
