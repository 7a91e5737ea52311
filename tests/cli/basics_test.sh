#!/usr/bin/env bash
# What is asked for most: version, help, lists, one prediction as a table and as JSON.
source "$(dirname "$0")/expect.sh"

run 0 --version
stdout_has "stepcast 0.2.0"
run 0 --help
for verb in simulate execute calibrate compare import list; do stdout_has "$verb"; done
run 0 simulate --help
stdout_has "--set"

run 0 list presets
for preset in moe_layer_fast_moe moe_layer_faster_moe moe_layer_mix_moe moe_layer_alltoall host_moe pcie-a100-x4; do
    stdout_has "$preset"
done
run 0 list keys --all
stdout_has "workload.moe.experts"
stdout_has "cluster.link.intra.bandwidth"
run 0 list keys  # twenty of planning, and how many more there are
[ "$(grep -c '^[a-z]*\.' .stdout)" = 20 ] || fail "list keys: $(grep -c '^[a-z]*\.' .stdout) keys"
stdout_has "list keys --all"

# Options of each verb: what must be said and what is asked for most first, an example last.
run 0 help sweep
cp .stdout helped
run 0 sweep --help
cmp -s helped .stdout || fail "help sweep is not sweep --help"
stdout_has "Example: stepcast sweep llama3-70b"
for verb in simulate sweep execute calibrate compare diagnose import list show; do
    run 0 help "$verb"
    example=$(sed -n 's/^Example: stepcast //p' .stdout)
    [ "${example%% *}" = "$verb" ] || fail "help $verb: the example is \"$example\""
done

# Any preset is shown: a framework with the rules of those below it, a family.
run 0 show torchtitan-async
stdout_has 'runtime.gradients.type = "fp32"'
run 0 show falcon
stdout_has 'models = ["falcon"]'

run 0 simulate moe_layer_fast_moe
stdout_has "step"
run 0 simulate moe_layer_fast_moe --json
json experiment cluster.name cluster.calibrated step_s.mean step_s.p10 step_s.p50 step_s.p90 \
    phases_s.forward phases_s.backward phases_s.gradient_sync phases_s.optimizer \
    breakdown_s.compute breakdown_s.memory breakdown_s.exposed_communication breakdown_s.bubble \
    breakdown_s.imbalance breakdown_s.host \
    memory_bytes.peak memory_bytes.weights memory_bytes.gradients memory_bytes.optimizer \
    memory_bytes.activations memory_bytes.buffers \
    fits tokens_per_s model_flops_utilization tasks ranks_simulated

# The same input gives the same output.
cp .stdout first.json
run 0 simulate moe_layer_fast_moe --json
cmp -s first.json .stdout || fail "two runs of $command_line differ"

# Memory as the allocator sees it: fits, or the tensor that fails and what would help.
run 0 simulate gpt3_175b_a100 --memory --set run.allocator=expandable_segments:True
stdout_has "memory as PyTorch's allocator sees it, two steps, stage 0: allocated"
stdout_has "77.44 GiB of 79.15 GiB are left beside the context and NCCL: fits"
run 0 simulate gpt3_175b_a100 --memory --set micro_batch=4 --set cluster.gpu.memory="64 GiB"
stdout_has "OUT OF MEMORY in the forward of micro-batch"
stdout_has "parallelism.recompute = full: -"
run 0 simulate llama3-8b --cluster H100 --gpus 8 --framework torchtitan --memory --set zero=3 --set global_batch=64 \
    --set seq=8192 --set cluster.gpu.memory="40 GiB"
stdout_has "run.allocator = expandable_segments:True: -"
run 0 simulate gpt3_175b_a100 --memory --json
json allocator_bytes.allocated allocator_bytes.reserved allocator_bytes.fragmentation allocator_bytes.fits \
    allocator_bytes.fullest.operator allocator_bytes.kinds.weights allocator_bytes.layers.0.activations \
    allocator_bytes.stages.7.reserved allocator_bytes.over_time.0.1

# Why: the same forecast, and an explanation beside it.
run 0 simulate moe_layer_fast_moe --json --explain
json step_s.mean explain.step_s explain.critical_path.0.kind explain.critical_path_by_link_s.node \
    explain.critical_path_host_s explain.idle.slowest.straggler_s explain.idle.median.stands_for \
    explain.elasticity.parameters.0.key explain.elasticity.parameters.0.step_change_s explain.measure_next.0.key
run 0 simulate moe_layer_fast_moe --explain --out why
stdout_has "critical path"
stdout_has "measure this next"
[ -s why/elasticity.png ] || fail "$command_line: no why/elasticity.png"

# Side by side, with a picture of the step; a training with days, money and energy.
run 0 simulate moe_layer_fast_moe --set parallelism.moe_system=fast_moe --set parallelism.moe_system=alltoall --out beside
stdout_has "against the first"
stdout_has "moe_system = alltoall"
grep -q "moe_system = fast_moe" beside/report.html || fail "$command_line: beside/report.html does not say which key"
[ -s beside/gantt.png ] && [ -s beside/gantt.svg ] || fail "$command_line: no beside/gantt.png"
run 0 simulate moe_layer_fast_moe moe_layer_alltoall --json
stdout_has '"label": "moe_layer_alltoall"'
run 0 simulate moe_layer_fast_moe moe_layer_alltoall --set cluster.preset=pcie-a100-x4 --set cluster.preset=a100-nvlink-x4 --set run.seed=1 --set run.seed=2 --json
stdout_has '"label": "moe_layer_alltoall, a100-nvlink-x4, seed = 2"'
stdout_has '"p50"'
refused 'one experiment' -- simulate moe_layer_fast_moe moe_layer_alltoall --explain
run 0 simulate gpt3_175b_a100 --tokens 300B --json
json training.time_s.p10 training.money.p50 training.energy_j.p90 training.goodput.share training.price_source
run 0 simulate gpt3_175b_a100 --steps 100k
stdout_has "100,000 steps"
refused '--tokens "15X"' 'expected a number' -- simulate gpt3_175b_a100 --tokens 15X
refused '--tokens and --steps' -- simulate gpt3_175b_a100 --tokens 15T --steps 3
refused 'absent.toml' -- simulate gpt3_175b_a100 --tokens 15T --market absent.toml

# A key set on the command line reaches the prediction, quoted or bare.
run 0 simulate moe_layer_fast_moe --json --set workload.moe.experts=64 --set 'cluster.link.intra.bandwidth="4 GB/s"'
json step_s.mean
cmp -s first.json .stdout && fail "$command_line: overrides changed nothing"

run 0 simulate moe_layer_alltoall --trace trace.json
[ -s trace.json ] || fail "$command_line: no trace.json"
cp trace.json .stdout
json traceEvents.0.ph

# Short keys, the values of names, an experiment from a pipe, and what it is made of.
run 0 list keys Schedule
stdout_has "zb-v"
run 0 simulate moe_layer_fast_moe --json --set seq=4096
run 0 show moe_layer_fast_moe
stdout_has "# default"
cp .stdout shown.toml
run 0 simulate ./shown.toml
"$stepcast" simulate - --json <shown.toml >.stdout 2>.stderr || fail "simulate - reads no standard input"
json step_s.mean

# 2 sequences x 4 pieces x 16 GPUs are a step of 128. 63 is no multiple of 8 x 8: in a line of the translation, as the file has one.
on_dgx=(--model llama3-8b --set seq=4096 --cluster dgx-h100)
echo '{"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4, "bf16": {"enabled": true}}' >ds.json
run 0 simulate ds.json "${on_dgx[@]}" --gpus 16 --emit deepspeed
stdout_has '"train_batch_size": 128'
echo '{"train_micro_batch_size_per_gpu": 8, "train_batch_size": 63, "bf16": {"enabled": true}}' >ds.json
run 1 simulate ds.json "${on_dgx[@]}" --gpus 8
stderr_has 'ds.json, translated:13:16: parallelism.global_batch: 63 is no multiple'

# Sisters are fitted with the rows of all of them; leaving one out says so.
printf 'gpu,m,n,k,dtype,time_us\nA100-SXM4-80GB,4096,4096,4096,bf16,600\n' >products.csv
run 0 calibrate --measurements products.csv --cross-validate device
stdout_has 'not unseen: '

# Sources left out in turn, with a picture of it.
cat >steps.csv <<'END'
source,case_id,model,layers,hidden,heads,kv_heads,ffn,vocab,seq,experts,topk,gpus,gpu,interconnect,tp,pp,vp,dp,ep,cp,sp,zero,mbs,gbs,recompute,precision,metric,value,unit,step_s,ref,notes,framework
alice,a,gpt-x,4,2048,16,16,8192,32000,1024,,,8,A100-80GB,,1,1,1,8,,1,,0,1,8,none,BF16,,,,0.03,there,,
bob,b,gpt-x,4,2048,16,16,8192,32000,1024,,,4,A100-80GB,,1,1,1,4,,1,,0,1,8,none,BF16,,,,0.05,there,,
END
run 0 calibrate --measurements steps.csv --cross-validate source
stdout_has 'by software, sources left out'
cp .stdout tables.txt
run 0 calibrate --measurements steps.csv --cross-validate source --out without
stdout_has 'picture: without/left_out.png'
[ "$(head -n -1 .stdout)" = "$(cat tables.txt)" ] || fail "$command_line: other tables than without --out"
[ -s without/left_out.png ] && [ -s without/left_out.svg ] || fail "$command_line: no without/left_out.png"

# A checkout is moved after it was built: the program reads the presets that moved with it.
mkdir -p checkout/build/release/tests checkout/import
cp -r "$sources/model" checkout/model
cp -r "$sources/import/patterns" checkout/import/patterns
cp "$stepcast" checkout/build/release/stepcast
cp "$stepcast" checkout/build/release/tests/program
mv checkout elsewhere
for program in elsewhere/build/release/stepcast elsewhere/build/release/tests/program; do
    (cd / && env -u STEPCAST_HOME "$work/$program" show dgx-h100) >.stdout 2>.stderr || fail "a moved $program finds no preset"
    grep -qF "$work/elsewhere/model/presets/clusters/dgx-h100.toml" .stdout || fail "a moved $program reads other presets"
done

# What nobody runs is said beside the forecast: a framework of other steps, an idle key, a device without the kernel.
run 0 simulate moe_layer_fast_moe --framework native
stdout_has 'note: framework native changes nothing of a step of workload.kind moe_layer'
run 0 simulate llama3-8b --cluster dgx-h100 --gpus 8 --framework megatron-core --set seq=4096 --set parallelism.zero=2 --set workload.window_share=0.5 --set moe.ffn=512
stdout_has 'note: workload.moe.ffn = 512 changes nothing: workload.moe.experts is 0'
stdout_has 'note: workload.window_share = 0.5 changes nothing: workload.window is 0'
stdout_has 'note: parallelism.zero = 2, which framework megatron-core cannot run'
run 0 simulate gpt2-124m --cluster V100-16GB --gpus 1 --set workload.dtype=fp16 --set runtime.attention=flash
stdout_has 'note: runtime.attention = flash is not there on V100-SXM2-16GB'
run 0 simulate gpt2-124m --cluster V100 --gpus 1 --set workload.dtype=fp16 --json
stdout_has 'runtime.attention = plain: V100-SXM2 has no flash kernel below compute capability 80'
run 0 sweep llama3-8b --cluster dgx-h100 --gpus 8 --set seq=4096 --set global_batch=16 --set tp=8 --set workload.mla.q_rank=64 --vary micro_batch=1,2
stderr_has 'note: workload.mla.q_rank = 64 changes nothing: workload.mla.kv_rank is 0'

run 1 sweep llama3-8b --cluster dgx-h100 --gpus 8 --set seq=4096 --set global_batch=16 --set 'cluster.gpu.memory=1 B' --vary micro_batch=1,2
stderr_has 'note: cluster.gpu.memory = 1 B is that of no machine'

# Lists are varied too. 32 layers over two stages.
run 0 sweep llama3-8b --cluster dgx-h100 --gpus 8 --set seq=4096 --set global_batch=16 --set tp=4 --set pp=2 --vary 'stage_layers=[16,16],[17,15],[20,12]' --out lists
stdout_has '[17,15]'
grep -qF '"[16,16]",' lists/top.csv || fail "$command_line: top.csv has no list: $(head -n 3 lists/top.csv)"

# Help of a script is help and changes nothing.
for script in "$sources"/scripts/*.sh; do
    before=$(ls -la "$sources" "$sources/scripts" 2>/dev/null; ls -la "$sources/out" 2>/dev/null)
    timeout 20 "$script" --help >.stdout 2>.stderr </dev/null || fail "$script --help: exit code $?"
    [ -s .stdout ] || fail "$script --help says nothing"
    [ "$before" = "$(ls -la "$sources" "$sources/scripts" 2>/dev/null; ls -la "$sources/out" 2>/dev/null)" ] ||
        fail "$script --help changed the folder"
done

# Names from before November 2026, as files and scripts still have them, say what the present ones do (docs/files.md).
same() { cmp -s "$1" "$2" || fail "$1 and $2 differ"; }
cat >earlier.toml <<'END'
name = "mine"
attention = "flash"
eager = true
gradients = "training"
bucket_weights = 40e6
overlap = false
overlap_tp = true
expert_tensor_parallel = false
tied = false
[host]
layer = "1 ms"
module_forward = "0.4 ms"
END
cat >present.toml <<'END'
name = "mine"
[runtime]
attention = "flash"
kernels = "eager"
module_hooks = true
gradients.type = "training"
gradients.bucket = "40e6 weights"
exchanges.gradients = "zero3"
exchanges.tensor = "split_sequence"
experts.tensor_parallel = "none"
[cluster.host]
layer = "1 ms"
[unstated]
tied = false
[[when]]
if = {parallelism.zero = 3}
set = {cluster.host.module_forward = "0.4 ms"}
END
for start in "mixtral-8x7b --cluster dgx-h100 --gpus 16 --set tp=2 --set ep=4 --set sequence_parallel=true" \
    "gpt2-124m --cluster dgx-h100 --gpus 8 --set parallelism.zero=3"; do
    for framework in earlier present; do
        run 0 simulate $start --set micro_batch=1 --framework $framework.toml --json
        cp .stdout $framework.json
    done
    same earlier.json present.json
    earlier=(--set parallelism.eager=false --set parallelism.overlap=false --set parallelism.gradient_dtype=fp32 --set workload.fused_loss=false)
    present=(--set runtime.kernels=fused --set runtime.exchanges.gradients=never --set runtime.gradients.type=fp32 --set runtime.loss.fused=false)
    run 0 simulate $start --set micro_batch=1 --framework present.toml --json "${earlier[@]}"
    cp .stdout earlier.json
    run 0 simulate $start --set micro_batch=1 --framework present.toml --json "${present[@]}"
    cp .stdout stated.json
    same earlier.json stated.json
    ! cmp -s present.json stated.json || fail "$start: neither name changes the forecast"
done

finish
