#!/usr/bin/env bash
# The sweep: its answer, bad input, and a sweep that is killed.
source "$(dirname "$0")/expect.sh"

moe="sweep moe_layer_alltoall --vary parallelism.overlap_chunks=1,2,4"
run 0 $moe --vary parallelism.micro_batch=1..4
stdout_has "proven: all 12 feasible configurations were simulated"
run 0 $moe --top 2 --json
json top.0.step_s top.0.settings counts.points counts.legal counts.feasible counts.simulated proven proof
stderr_is_empty

# The experiment's own split need not be legal: 64 GPUs without dp.
gpt="sweep gpt3_175b_a100 --vary parallelism.dp=rest --vary parallelism.tp=2,4,8 --vary parallelism.pp=4,8,16"
run 0 $gpt --vary parallelism.micro_batch=1,2
stdout_has "proven: all 3 feasible configurations were simulated"

# A routing that is drawn ranks by the median over common draws; the winner does not change with the seed, and one draw says so.
systems="sweep moe_layer_mix_moe --vary parallelism.moe_system=fast_moe,faster_moe,mix_moe,alltoall --set routing.kind=random-gate"
for seed in 1 2; do
    run 0 $systems --set routing.draws=100 --set routing.seed=$seed
    stdout_has "1     mix_moe"
    stdout_has "not distinguishable from 1"
    stdout_has "each by its median over 100 common draws"
done
run 0 $systems
stdout_has "ranked by one draw of the routing"

# What --set states of the layout is fixed, by its short name as well; a --vary of the key counts above it.
eight="llama3-8b --cluster H100 --gpus 8 --framework megatron-core --set seq=4096 --set global_batch=64 --top 2"
run 0 sweep $eight --set tp=4 --set parallelism.micro_batch=1
stdout_has "tp = 4"
stdout_has "micro_batch = 1"
run 0 sweep $eight --vary parallelism=all --set tp=4 --vary tp=8
stdout_has "1   8   1"
run 1 sweep $eight --set pp=3
stderr_has "none of"

# The least machines for a training.
run 0 sweep llama3_8b_h100_fsdp --set parallelism.global_batch=64 --vary parallelism.dp=rest --vary cluster.nodes=1,2,4 --tokens 1B --within 5d
stdout_has "are the least that end within 5.0 d"
refused '--tokens 15T' -- sweep llama3_8b_h100_fsdp --vary parallelism.dp=rest --within 5d

# Two frameworks: the best of each in one table, the second against the first; side by side as columns.
two="llama3_8b_h100_fsdp --framework torchtitan --framework fsdp"
run 0 sweep $two --vary parallelism.zero=2,3 --top 2
stdout_has "the best of each"
stdout_has "torchtitan"
stdout_has "against 1"
run 0 simulate $two
stdout_has "framework"
stdout_has "parallel layout"
refused 'fsdp is there twice' -- sweep llama3_8b_h100_fsdp --framework fsdp --framework fsdp --vary parallelism.zero=2,3

# Bad input, before any work.
refused 'parallelism.tpp' 'did you mean "parallelism.tp"?' -- sweep gpt3_175b_a100 --vary parallelism.tpp=1,2
refused '8..1' 'empty range' -- sweep gpt3_175b_a100 --vary parallelism.tp=8..1
refused 'a value is empty' -- sweep gpt3_175b_a100 --vary parallelism.tp=
run 0 sweep llama3_8b_h100_fsdp --json --top 3  # without --vary: every legal split
grep -v -E '"(command|seconds|wall)' .stdout >asked
run 0 sweep llama3_8b_h100_fsdp --vary parallelism=all --json --top 3
grep -v -E '"(command|seconds|wall)' .stdout | cmp -s - asked || fail "sweep without --vary is not parallelism=all"
refused 'excluded by "memory.peak > 20 GiB"' -- \
    $gpt --where "memory.peak < 10 GiB" --where "memory.peak > 20 GiB"
refused 'memory.peek' 'did you mean "memory.peak"?' -- $gpt --where "memory.peek < 1 GiB"
refused 'cluster.price_per_gpu_hour is 0' -- $gpt --objective cost
refused '"fast" is not an objective' -- $gpt --objective fast
refused 'twice the same' -- $gpt --objective step,step
refused '--resume: sweeps are no longer resumed' 'expected the same command without it' -- $gpt --out new --resume
[ ! -e new ] || fail 'a refused sweep left its folder'
refused 'none of 2 configurations is legal' 'is not the number of ranks (2)' -- \
    sweep gpt3_175b_a100 --vary parallelism.tp=3,5
refused 'none of 8 legal configurations is feasible' 'not memory.peak < 1 GiB (2)' -- $gpt --where "memory.peak < 1 GiB"

# 10^12 points: the count first, then an answer all the same.
run 0 sweep llama3_8b_h100_fsdp --vary parallelism.tp=1..1000 --vary parallelism.pp=1..1000 \
    --vary parallelism.dp=1..1000 --vary parallelism.micro_batch=1..1000
stderr_has "1,000,000,000,000 points are asked for"
stdout_has "1,000,000,000,000 points asked for"
stdout_has "proven"

# Killed in the middle: the table has whole lines of what was simulated, and the next sweep begins it anew.
all="sweep gpt3_175b_a100 --vary parallelism=all --vary parallelism.cp=1 --vary parallelism.recompute=none,selective --top 3 --json --threads 2"
run 0 $all
cp "$work/.stdout" whole.json
for pause in 0.1 0.5; do
    rm -rf killed
    "$stepcast" $all --out killed >/dev/null 2>&1 &
    pid=$!
    sleep "$pause"
    kill -9 "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
    [ ! -s killed/sweep.csv ] || [ "$(tail -c 1 killed/sweep.csv | wc -l)" -eq 1 ] || fail "killed after $pause s: half a line"
    run 0 $all --out killed
    cmp -s "$work/.stdout" whole.json || fail "killed after $pause s and asked again: another answer"
    for file in sweep.csv top.csv summary.md; do [ -s "killed/$file" ] || fail "killed/$file is missing"; done
    head -n 1 killed/sweep.csv | grep -q 'parallelism.tp,.*,step_s,refused$' || fail 'sweep.csv has no head'
    [ "$(grep -c ',step_s' killed/sweep.csv)" -eq 1 ] && [ "$(wc -l <killed/sweep.csv)" -gt 3 ] || fail 'sweep.csv is not begun anew'
done
finish
