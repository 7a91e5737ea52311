#!/usr/bin/env bash
# Why a run is slow: compare --waterfall and diagnose, on experiments, rows and logs.
source "$(dirname "$0")/expect.sh"

cat >a.toml <<'TOML'
[workload]
preset = "llama3-8b"
seq = 4096
[cluster]
preset = "dgx-h100"
nodes = 2
[parallelism]
zero = 1
dp = 16
global_batch = 64
TOML
sed 's/seq = 4096/seq = 8192/; s/zero = 1/zero = 3/' a.toml >b.toml

# A waterfall: text, object, page and picture.
run 0 compare a.toml b.toml --waterfall
stdout_has "seq 4096 -> 8192"
stdout_has "zero 1 -> 3"
stderr_is_empty
run 0 compare a.toml b.toml --waterfall --measured 2s,5s --json --out page
json from.forecast_s to.measured_s bars unexplained_s without_effect simulated
for file in report.html summary.md waterfall.png waterfall.svg; do
    [ -s "page/$file" ] || fail "page lacks $file"
done
run 0 compare a.toml b.toml --waterfall --measured -,5s
stdout_has "not explained by the configuration"
refused '--waterfall' 'found 1' -- compare a.toml --waterfall
refused '--waterfall' 'more than two' -- compare a.toml b.toml a.toml --waterfall
refused '--measured' 'expected one of each side' -- compare a.toml b.toml --waterfall --measured 1s,2s,3s
refused '--measured' -- compare a.toml b.toml --waterfall --measured 1s,soon
refused 'more than 0' -- compare a.toml b.toml --waterfall --measured 0s
refused '--trace' -- compare a.toml b.toml --waterfall --trace t.json

# Rows of a table, by name or the only two.
cat >rows.csv <<'CSV'
source,case_id,model,layers,hidden,heads,kv_heads,ffn,vocab,seq,gpus,gpu,tp,pp,dp,zero,mbs,gbs,precision,step_s
mine,short,llama3-8b,32,4096,32,8,14336,128256,4096,8,H100,1,1,8,3,1,16,bf16,1.1
mine,long,llama3-8b,32,4096,32,8,14336,128256,8192,8,H100,1,1,8,3,1,16,bf16,2.3
CSV
run 0 compare rows.csv:short rows.csv:long --waterfall
stdout_has "short: "
stdout_has "not explained by the configuration"
run 0 compare rows.csv --waterfall
stdout_has "seq 4096 -> 8192"
refused 'rows.csv' 'has no case "shrt"' 'did you mean "short"?' -- compare rows.csv:shrt rows.csv:long --waterfall

# A diagnosis: from a step, single steps, a rate, a row; its ends.
run 0 diagnose a.toml --measured 1.8s
stdout_has "nothing is wrong"
run 0 diagnose a.toml --measured 2.4s --set recompute=full
stdout_has "the configuration itself: recompute is on costs"
run 0 diagnose a.toml --measured 4s --json --out why
json verdict measured_s forecast.p10 forecast.p50 causes probability_nothing_is_wrong
[ -s why/report.html ] && [ -s why/summary.md ] || fail "diagnose --out wrote no page"
run 0 diagnose a.toml --measured 4s
stdout_has "cheapest test"
quiet=1.8s,1.81s,1.8s,1.8s,2.9s
run 0 diagnose a.toml --measured $quiet,$quiet,$quiet,$quiet
stdout_has "likely: waits for data"
stdout_has "every 5 steps"
run 0 diagnose a.toml --measured 1s,1s,1.6s
stdout_has "3 single steps: their variation says nothing"
run 0 diagnose a.toml --measured 0.05s
stdout_has "faster than such a run can be"
run 0 diagnose a.toml --measured 10%MFU
stdout_has "wrong count in the MFU"
run 0 diagnose a.toml --measured 4s --ruled-out "network between nodes" --json
grep -q '"name": "network between nodes"' .stdout && fail "a cause that was ruled out is suspected"
run 0 diagnose rows.csv:short
run 0 diagnose a.toml --measured 4s --rank-times 1s,1s,1s,2s
stdout_has "one slow rank"
stdout_has "4 of 16 ranks"
run 1 diagnose a.toml --measured 4s --rank-times "$(printf '1s,%.0s' {1..16})2s"
stderr_has "17 times of 16 ranks"
run 0 diagnose a.toml --measured 4s --seen busy=45% --seen passes=1.7s --seen memory=60GiB --seen clock=95%
stdout_has "utilisation: 45 % of the time"
run 0 diagnose a.toml --measured 4s --seen bus_bandwidth=5GB/s
stdout_has "collectives"
run 0 diagnose a.toml --measured 4s --sound 4.1s
stdout_has "nothing is wrong"
run 0 diagnose rows.csv:long --sound rows.csv:short --measured 5s
stdout_has "without it"
run 0 diagnose a.toml --measured 4s --beside gpus=8,global_batch=8:3.9s
stdout_has "with it"
refused '--seen' 'expected forward, backward, passes' -- diagnose a.toml --measured 4s --seen mood=bad
refused '--seen busy=140%' 'share' -- diagnose a.toml --measured 4s --seen busy=140%
refused '--seen forward=5s' 'within the step' -- diagnose a.toml --measured 4s --seen forward=5s
refused '--beside' 'gpus=8' -- diagnose a.toml --measured 4s --beside gpus=8:fast
refused '--ruled-out' 'did you mean "slow host"?' -- diagnose a.toml --measured 4s --ruled-out "slow hst"
refused 'of which step' '--measured' -- diagnose a.toml
refused '--measured' -- diagnose a.toml --measured fast
# Rates with their units: 64 x 4096 tokens in a step of 2 s are 131,072 a second, 8,192 of each of 16 GPUs.
for two in 2s 2s/it 0.5it/s 8192tokens/s/gpu 8.192ktok/s/gpu "131.072k tokens/s"; do
    run 0 diagnose a.toml --measured "$two"
    stdout_has "measured 2000.0 ms"
done
for rate in 400TFLOP/s 0.4PFLOPS; do
    run 0 diagnose a.toml --measured "$rate"
    cp .stdout "rate-${rate%%[A-Z]*}"
done
cmp -s rate-400 rate-0.4 || fail "400 TFLOP/s are not 0.4 PFLOP/s"
# 64 sequences at 16 a second, over 16 GPUs one each; what a person calls a second
for rate in "16 samples/s" "1 samples/sec/gpu" "4 sec/it" "4000 ms/step" "0.25 steps/s" "4 s"; do
    run 0 diagnose a.toml --measured "$rate"
    stdout_has "measured 4000.0 ms"
done
refused '38%MFU' -- diagnose a.toml --measured 38MFU
refused '410TFLOP/s' -- diagnose a.toml --measured 400GFLOP/s
refused '4.31s/it' -- diagnose a.toml --measured 38
refused 'expected more than 0' -- diagnose a.toml --measured 0s
refused 'rows.csv' 'has 2 runs' 'rows.csv:short' -- diagnose rows.csv
refused 'RUN' -- diagnose

# A log: with a configuration its steps are judged; without one it says what is missing.
for step in $(seq 1 40); do
    ms=1800.0
    [ $((step % 10)) -eq 0 ] && ms=3400.0
    printf ' [2025-01-01 00:00:00] iteration %8d/  100 | consumed samples: %d | elapsed time per iteration (ms): %s | learning rate: 1.0E-05 | global batch size: 64 | lm loss: 2.0E+00 |\n' \
        "$step" $((64 * step)) "$ms"
done >train.log
run 0 diagnose a.toml --log train.log
stdout_has "checkpoints"
run 1 diagnose train.log
stderr_has "What is missing is the configuration: --model EXPERIMENT"
run 0 diagnose train.log --model a.toml
stdout_has "checkpoints"


# A log with rates alone: 64 x 4096 tokens over 16 GPUs at 8192 tokens/s are 2 s.
for step in $(seq 10 10 90); do
    echo "[rank0]:step: $step  loss: 7.7  memory: 44.00GiB(46%)  tps: 8,192  tflops: 95.5  mfu: 9.6%"
done >rates.log
run 0 diagnose a.toml --log rates.log
stdout_has "measured 2000.0 ms"

# Beside a log the run may be all that simulate takes, and --set counts: 32 x 4096 tokens over 8 GPUs at 8192 tokens/s are 2 s, twice as
# many sequences 4 s.
asked="--cluster H100 --gpus 8 --set seq=4096 --set global_batch=32 --log rates.log"
run 0 diagnose llama3-8b $asked
stdout_has "measured 2000.0 ms"
run 0 diagnose llama3-8b $asked --set global_batch=64
stdout_has "measured 4000.0 ms"
cat >launch.sh <<'SH'
torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 4 --hidden-size 1024 --num-attention-heads 16 --seq-length 4096 \
    --max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 32 --bf16 --vocab-size 50304
SH
run 0 diagnose launch.sh --cluster H100 --log rates.log
stdout_has "measured 2000.0 ms"
sed 's/--micro-batch-size 1/--micro-batch-size 2/' launch.sh >wider.sh
run 0 compare launch.sh wider.sh --waterfall --cluster H100
stdout_has "micro_batch 1 -> 2"
run 0 diagnose launch.sh --cluster H100 --measured 2s
stdout_has "measured 2000.0 ms"
run 0 compare rates.log --model launch.sh --cluster H100
stdout_has "2000.0 ms"

# DeepSpeed's own line: 32 sequences at 16 a second are 2 s.
for step in $(seq 10 10 120); do
    echo "[2024-05-01 10:00:00,001] [INFO] [timer.py:260:stop] epoch=0/micro_step=$step/global_step=$step, RunningAvgSamplesPerSec=15.9, CurrSamplesPerSec=16.0, MemAllocated=22.51GB, MaxMemAllocated=41.20GB"
done >samples.log
run 0 diagnose launch.sh --cluster H100 --log samples.log
stdout_has "measured 2000.0 ms"

# A log of another run than the configuration's, and two answers to what the step is.
sed 's/global batch size: 64/global batch size: 128/' train.log >other.log
run 1 diagnose a.toml --log other.log
stderr_has "took 128 sequences, the configuration says 64"
stderr_has "--set global_batch=128"
run 0 diagnose a.toml --log other.log --set global_batch=128
run 1 diagnose a.toml --log train.log --measured 5s
stderr_has "--measured 5s: the steps of train.log take"
run 0 diagnose a.toml --log train.log --measured 2s
# One that was resumed has two runs; each has a name.
cat train.log train.log >resumed.log
run 1 diagnose a.toml --log resumed.log
stderr_has "has 2 runs; expected one, as resumed.log:resumed-1-megatron-lm"
run 0 diagnose a.toml --log resumed.log:resumed-1-megatron-lm
stdout_has "checkpoints"
true >empty.log
refused 'empty.log' 'is empty' -- diagnose a.toml --log empty.log

# A gate: runs of one configuration in a folder; 1 % of noise within a run.
log() { # FILE MILLISECONDS
    for step in $(seq 1 40); do
        printf ' [2025-01-01 00:00:00] iteration %8d/  100 | consumed samples: %d | elapsed time per iteration (ms): %s | learning rate: 1.0E-05 | global batch size: 64 | lm loss: 2.0E+00 |\n' \
            "$step" $((64 * step)) "$(($2 + (step * 7919) % 19)).0"
    done >"$1"
}
mkdir -p before
for run in 1 2 3 4 5 6; do log before/$run.log $((1800 + run)); done
log same.log 1803
log slow.log 1930
gate="--gate --history before --model a.toml"
run 0 compare same.log $gate
stdout_has "pass: same"
run 4 compare slow.log $gate --junit slow.xml
stdout_has "fail: slow"
grep -q '<failure message=' slow.xml || fail "the JUnit file has no failure"
run 4 compare slow.log $gate --json
json verdict because slower bound seen_at_90_percent steps_for_tolerance false_alarms
mkdir -p one && cp before/1.log one
run 0 compare same.log --gate --history one --model a.toml
stdout_has "one run of history"
stdout_has "such a run takes"
mkdir -p wider && sed 's/global batch size: 64/global batch size: 128/' same.log >wider/1.log
run 1 compare same.log --gate --history wider --model a.toml
stderr_has "wider/1.log: took 128 sequences a step"
stderr_has "--allow"
run 0 compare same.log --gate --history wider --model a.toml --allow
mkdir -p again && cat before/1.log before/2.log >again/resumed.log
run 5 compare same.log --gate --history again --model a.toml
stdout_has "2 runs before"
refused '--history' 'at least one' -- compare same.log --gate --model a.toml
refused '--history nowhere' 'is no folder' -- compare same.log --gate --history nowhere --model a.toml
refused '--false-alarms' 'as 1%' -- compare same.log $gate --false-alarms often
refused '--false-alarms' 'between 0 and 0.5' -- compare same.log $gate --false-alarms 0.9
refused '--gate' 'several' -- compare same.log slow.log $gate

# What nccl-tests measured of the links.
cat >nccl.txt <<'TXT'
# nThread 1 nGpus 1 minBytes 268435456 maxBytes 1073741824 step: 2(factor) warmup iters: 5 iters: 20
# Using devices
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
   268435456      67108864     float     sum      -1   50000.0    5.37   10.07      0   50000.0    5.37   10.07      0
  1073741824     268435456     float     sum      -1  200000.0    5.37   10.07      0  200000.0    5.37   10.07      0
TXT
run 0 diagnose a.toml --measured 4s --nccl-tests nccl.txt --json
grep -q 'collectives between nodes' .stdout || fail "what nccl-tests measured is no evidence"
refused 'nccl-tests' -- diagnose a.toml --measured 4s --nccl-tests a.toml

# A profile of one rank, which ran something else: what it says of kernels is evidence; other files are refused.
traced="$sources/tests/data/traced/rank0.json.gz"
run 0 diagnose a.toml --measured 4s --profile "$traced" --json
grep -q "the profile's kernels" .stdout || fail "what a profile measured is no evidence"
refused 'a.toml' 'neither a PyTorch' -- diagnose a.toml --measured 4s --profile a.toml

# Levers: the difference with its interval, the flag of the framework's script, rates of the machine by name.
levers="simulate llama3-8b --cluster H100 --gpus 16 --set seq=4096 --set global_batch=32 --set recompute=selective --set zero=1 --levers"
run 0 $levers --framework megatron-core
grep -q '[+-]0\.0 %.*[+-]0\.00 GiB' .stdout && fail "levers that change nothing are shown"
stdout_has "drop --recompute-granularity"
stdout_has "--tensor-model-parallel-size 2"
stdout_has "hardware: NICs, twice the rate"
stdout_has "p10 .. p90 of it"
stdout_has "not in the framework: "
run 0 $levers --framework megatron-core --out page --json
json levers.0.flag levers.0.against_now.p10 levers.0.hardware
grep -q 'Levers' page/report.html || fail "the page has no levers"

finish
