#!/usr/bin/env bash
# A log that begins with the dump of its arguments is an experiment in every verb: what simulate reads of it, import and compare know, too.
source "$(dirname "$0")/expect.sh"

# 12 layers of 1024 on 4 ranks (tp 2, dp 2), 40 steps of 0.5 s after two of 3 s; 2048 MiB allocated at most, 2560 on rank 1.
{
    echo "------------------------ arguments ------------------------"
    while read -r name value; do printf '  %s ............................ %s\n' "$name" "$value"; done <<'ARGUMENTS'
num_layers 12
hidden_size 1024
ffn_hidden_size 4096
num_attention_heads 16
seq_length 1024
micro_batch_size 2
global_batch_size 16
tensor_model_parallel_size 2
pipeline_model_parallel_size 1
data_parallel_size 2
world_size 4
padded_vocab_size 50304
bf16 True
ARGUMENTS
    echo "-------------------- end of arguments ---------------------"
    for i in $(seq 1 42); do
        ms=500.0
        [ "$i" -gt 2 ] || ms=3000.0
        echo " [2026-01-01 00:00:00] iteration $i/ 42 | elapsed time per iteration (ms): $ms | global batch size: 16 |"
        if [ "$i" -eq 1 ]; then
            echo "[Rank 0] (after 1 iterations) memory (MB) | allocated: 9.0 | max allocated: 2048.0 | reserved: 9.0 | max reserved: 3000.0"
            echo "[Rank 1] (after 1 iterations) memory (MB) | allocated: 9.0 | max allocated: 2560.0 | reserved: 9.0 | max reserved: 3100.0"
        fi
    done
} >megatron.log

run 0 simulate megatron.log --cluster dgx-a100 --gpus 4 --json
predicted=$(sed -n 's/.*"p50": \([^,]*\).*/\1/p' .stdout | head -n 1)
peak=$(sed -n 's/.*"peak": \([^,]*\).*/\1/p' .stdout | head -n 1)

run 0 import megatron.log --out m.csv
stderr_has "m.experiment.toml: the experiment of the log's own arguments"
stderr_has "values taken"
for way in "m.csv" "megatron.log" "megatron.log --model m.experiment.toml"; do
    # shellcheck disable=SC2086
    run 0 compare $way --cluster dgx-a100 --json
    grep -qF "$predicted" .stdout || fail "$command_line: does not predict the $predicted s that simulate does"
    grep -q '"measured_s": 0.5,' .stdout || fail "$command_line: the step is not 0.5 s"
    # 2560 MiB, of the rank that uses most
    grep -q '"measured_peak_bytes": 2684354560' .stdout || fail "$command_line: the peak is not 2560 MiB"
done
[ -n "$peak" ] || fail "simulate: says no peak"
run 1 compare megatron.log
stdout_has "names no machine"
run 0 import megatron.log --out other.csv --model gpt2_ddp
absent other.experiment.toml

# A file of that name which import did not write stays; its own is written anew.
echo "# my experiment" >mine.experiment.toml
refused "mine.experiment.toml: is there and was not written by import" -- import megatron.log --out mine.csv
absent mine.csv
grep -qx "# my experiment" mine.experiment.toml || fail "import: replaced mine.experiment.toml"
run 0 import megatron.log --out m.csv

# What is a file is not called a preset.
echo "something else" >notes.log
refused "notes.log: is a file that says no experiment" -- simulate notes.log
for verb in simulate sweep show; do refused "/notes.log: is a file that says no experiment" "stepcast compare or" -- $verb "$PWD/notes.log"; done
printf 'model,gpus\ngpt,8\n' >rows.csv
refused "rows.csv: is a file that says no experiment" -- simulate ./rows.csv
refused "notes.log: not a log that stepcast recognises" "--format custom --pattern FILE" -- import notes.log --out o.csv
refused "notes.log: not a log" -- compare notes.log --cluster dgx-a100
refused "nothing.log" "is no preset experiment" -- simulate nothing.log

# A trace with a long head, and one that is none.
{
    printf '{"metadata":["'
    head -c 40000 /dev/zero | tr '\0' 'x'
    printf '"],"traceEvents":[{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":5,"dur":25,"args":{"device":0,"stream":7}}]}'
} >long.json
run 0 import long.json --out long.csv
stderr_has "1 events, 1 kernels"
echo '{"a": 1}' >none.json
refused "none.json: is neither a PyTorch profiler's trace" -- import none.json --format profile --out o.csv

finish
