#!/usr/bin/env bash
# A trace is of the step that is printed, and says which draw that is.
source "$(dirname "$0")/expect.sh"

for preset in gpt2_ddp llama3_8b_h100_fsdp moe_layer_mix_moe host_pipeline; do
    run 0 simulate $preset --json --trace trace.json
    printed=$(sed -n 's/.*"p50": \([^,]*\).*/\1/p' .stdout | head -n 1)
    end=$(sed -n 's/.*"ts":\([0-9.]*\),"dur":\([0-9.]*\).*/\1 \2/p' trace.json |
        awk '$1 + $2 > end { end = $1 + $2 } END { printf "%.10g", end / 1e6 }')
    # Events are written to a tenth of a nanosecond.
    awk -v a="$printed" -v b="$end" 'BEGIN { exit !(a > 0 && b - a < 1e-9 && a - b < 1e-9) }' ||
        fail "$command_line: prints a step of $printed s, the trace ends at $end s"
    head -n 1 trace.json | grep -q '"origin":"simulated".*"step_s":.*"draw":"[0-9]* of [0-9]*".*"noise":' ||
        fail "$command_line: the trace does not say what it is of"
done
head -n 1 trace.json | grep -q '"draw":"1 of 1","noise":"none"' || fail "host_pipeline has one draw without noise"

# An executed step has the same shape: the same lanes, names and keys for the same ranks.
shape() { sed -n 's/"ts":[0-9.]*,"dur":[0-9.]*,//p' "$1" | sort -u; }
run 0 simulate host_moe --trace simulated.json
run 0 execute host_moe --device host --steps 1 --warmup 1 --trace executed.json
head -n 1 executed.json | grep -q '"origin":"executed".*"sample":' || fail "the executed trace does not say what it is of"
[ "$(shape simulated.json)" = "$(shape executed.json)" ] || fail "a simulated and an executed step of host_moe differ in shape"

finish
