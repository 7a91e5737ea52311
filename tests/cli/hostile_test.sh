#!/usr/bin/env bash
# Names, files and places that are made to harm: nothing of them runs, nothing that is read is overwritten, nothing that is
# lost is called done.
source "$(dirname "$0")/expect.sh"

preset=$sources/model/presets/experiments/host_moe.toml
header=source,case_id,model,layers,hidden,heads,kv_heads,ffn,vocab,seq,experts,topk,gpus,gpu,interconnect,tp,pp,vp,dp,ep,cp,sp,zero,mbs,gbs,recompute,precision,metric,value,unit,step_s,ref,notes
# case ID: a case of a preset with that name.
case_of() { printf '%s\nown,"%s",moe_layer_fast_moe,,,,,,,,,,,,,,,,,,,,,,,,,,,,0.05,,\n' "$header" "$1"; }

# The name of an output folder, as gnuplot's script would read it.
case_of plain >c.csv
folder=$'o\nsystem "touch HACKED"\n#'
run 0 compare c.csv --out "$folder"
absent HACKED
[ -s "$folder/scatter.png" ] || fail "$command_line: no plot in a folder of an odd name"

# Settings of the user's home are not read.
mkdir home
printf 'system "touch HACKED"\n' >home/.gnuplot
HOME=$work/home run 0 compare c.csv --out from_home
absent HACKED

# Nor is what the environment says to gnuplot.
GNUTERM='x;system "touch HACKED"' GNUPLOT_LIB=$work/home FIT_SCRIPT='system "touch HACKED"' run 0 compare c.csv --out from_environment
absent HACKED

# A case's name with commands of a terminal, a shell, a table and a page.
case_of $'\e]0;title\a\e[2J`touch HACKED`|<img src=x>[a](b)""19 rack' >evil.csv
run 0 compare evil.csv --out evil
absent HACKED
grep -q "$(printf '\033')" "$work/.stdout" && fail "$command_line: an escape sequence reached the terminal"
grep -q "$(printf '\033')" evil/summary.md && fail "$command_line: an escape sequence reached summary.md"
grep -qF '\`touch HACKED\`\|\<img src=x\>\[a\](b)' evil/summary.md || fail "$command_line: markup reached summary.md"
grep -q "$(printf '\033')" evil/report.html && fail "$command_line: an escape sequence reached report.html"
grep -qF '&#96;touch HACKED&#96;|&lt;img src=x&gt;[a](b)' evil/report.html || fail "$command_line: report.html does not show the name as it stands"
grep -q '<img' evil/report.html && fail "$command_line: markup reached report.html"
grep -q '<img' evil/breakdown.svg && fail "$command_line: markup reached breakdown.svg"
# A case's name that a spreadsheet would take for a formula.
case_of '=1+cmd|x' >formula.csv
run 0 compare formula.csv --out formula
grep -qF "'=1+cmd|x" formula/compare.csv || fail "$command_line: a formula reached compare.csv"
# Without gnuplot the tables are there, and the page says what it lacks.
PATH=/nowhere run 1 compare c.csv --out no_plots
stderr_has 'no gnuplot on PATH'
grep -qF 'The plots are missing' no_plots/report.html || fail "$command_line: report.html does not say that it has no plots"
grep -qF 'The plots are missing' o*/report.html && fail "$command_line: report.html says that it has no plots"
run 1 simulate $'no\e[31m_such'
grep -q "$(printf '\033')" "$work/.stderr" && fail "$command_line: an escape sequence reached the terminal"
printf '[cluster]\npreset = "host"\nname = "a\\nb"\n[workload]\npreset = "moe_layer"\n' >name.toml
refused 'name.toml:3:' 'control characters' -- simulate name.toml

# What never ends or keeps a reader waiting. A reader that waits is ended by the limit and fails the test.
mkfifo pipe pipe.toml pipe.json
for path in /dev/zero pipe; do
    limited() { timeout 20 "$stepcast" "$@"; }
    for verb in "import $path --out x.csv" "compare $path" "calibrate --measurements $path --cluster host --out x.toml" \
        "import c.csv --format custom --pattern $path --out x.csv"; do
        # shellcheck disable=SC2086
        limited $verb >"$work/.stdout" 2>"$work/.stderr" </dev/null
        [ $? -eq 1 ] && grep -q 'no regular file' "$work/.stderr" || fail "stepcast $verb: not refused"
    done
done
timeout 20 "$stepcast" simulate pipe.toml >"$work/.stdout" 2>"$work/.stderr" </dev/null
[ $? -eq 1 ] || fail "simulate pipe.toml: not refused"
timeout 20 "$stepcast" simulate host_moe --set workload.preset=pipe.json >"$work/.stdout" 2>"$work/.stderr" </dev/null
[ $? -eq 1 ] || fail "simulate --set workload.preset=pipe.json: not refused"
truncate -s 1G huge.toml
refused 'huge.toml' '1073741824 bytes' -- simulate huge.toml
{ printf 'a'; printf '.a%.0s' $(seq 20000); echo ' = 1'; } >deep.toml
refused 'deep.toml:1' 'more than 32 parts' -- simulate deep.toml
{ printf 'a'; printf '.a%.0s' $(seq 20000); echo ']'; } | sed 's/^/[/' >deep.toml
refused 'deep.toml:1' -- simulate deep.toml
{ printf '{"model_type": '; printf '[%.0s' $(seq 100000); } >deep.json
refused 'deep.json' 'nested' -- simulate host_moe --set workload.preset=./deep.json

# No output takes the place of a file that is read, through whatever chain it is named.
mkdir chain
printf 'preset = "torchtitan"\nabout = "base"\n' >chain/base.toml
printf 'preset = "base.toml"\nabout = "ours"\n' >chain/ours.toml
printf 'preset = "dgx-h100"\n' >chain/machine.toml
printf '[workload]\npreset = "llama3-8b"\n[cluster]\npreset = "machine.toml"\n[framework]\npreset = "ours.toml"\n[parallelism]\ndp = 8\nzero = 3\n' >chain/run.toml
printf '%s,framework,routing\nown,one,chain/run.toml,,,,,,,,,,8,,,,,,,,,,,,,,,,,,4.5,,,chain/ours.toml,\n' "$header" >chain/steps.csv
cp -r chain chain_before
for output in base.toml ours.toml machine.toml run.toml; do
    refused "chain/$output" 'expected another file to write' -- simulate chain/run.toml --trace "chain/$output"
    refused "chain/$output" 'expected another file to write' -- \
        calibrate --measurements chain/steps.csv --cluster dgx-h100 --framework chain/ours.toml --fit framework --out "chain/$output"
done
refused chain/steps.csv 'expected another file to write' -- \
    calibrate --measurements chain/steps.csv --cluster dgx-h100 --fit hardware --out chain/steps.csv
diff -r chain chain_before >"$work/.stdout" || fail "a file that is read was written over"
# What a comment names is not read.
touch chain/spare.toml
printf '# as spare.toml\n[run]\nseed = 1  # spare.toml has 2\n' >>chain/run.toml
run 0 simulate chain/run.toml --trace chain/spare.toml

# Output that is lost.
for verb in "simulate host_moe" "simulate host_moe --json" "list presets" "list keys" "--help" "--version" "compare c.csv" \
    "sweep host_moe --vary run.seed=1,2"; do
    # shellcheck disable=SC2086
    "$stepcast" $verb >/dev/full 2>"$work/.stderr"
    [ $? -eq 1 ] || fail "stepcast $verb >/dev/full: a full disk is called done"
    # shellcheck disable=SC2086
    "$stepcast" $verb >&- 2>"$work/.stderr"
    [ $? -eq 1 ] || fail "stepcast $verb >&-: a closed output is called done"
done

# Outputs in the place of inputs, and places that cannot be written, before any work.
keeps() { # keeps FILE COMMAND..: refused, and the file is what it was
    local file=$1
    shift
    cp "$file" before
    refused 'another file' -- "$@"
    cmp -s before "$file" || fail "$command_line: overwrote $file"
}
cp "$preset" own.toml
cp "$sources/model/presets/clusters/host.toml" own_cluster.toml
cp "$sources/calibrate/measurements/moe_layer_bench.csv" m.csv
printf '[workload]\npreset = "moe_layer"\ndtype = "fp32"\n[cluster]\npreset = "own_cluster.toml"\n[parallelism]\ndp = 2\nep = 2\n' >refers.toml
keeps own.toml simulate own.toml --trace own.toml
keeps own_cluster.toml simulate refers.toml --trace own_cluster.toml
keeps own_cluster.toml simulate host_moe --set cluster.preset=own_cluster.toml --trace own_cluster.toml
keeps m.csv calibrate --measurements m.csv --cluster own_cluster.toml --out m.csv
keeps own_cluster.toml calibrate --measurements m.csv --cluster own_cluster.toml --out own_cluster.toml
mkdir results
case_of plain >results/compare.csv
keeps results/compare.csv compare results/compare.csv --out results
# Pictures, pages, further tables, prices.
for name in breakdown.svg scatter.png report.html kernels.md; do
    case_of plain >"results/$name"
    keeps "results/$name" compare "results/$name" --out results
done
printf "gpu,op,m,n,k,groups,dtype,time_us\nA100,gemm,4096,4096,4096,1,bf16,600\n" >results/kernels.csv
keeps results/kernels.csv compare results/kernels.csv --out results
cp own.toml results/gantt.svg
keeps results/gantt.svg simulate results/gantt.svg --out results
keeps results/gantt.svg sweep results/gantt.svg --vary run.seed=1,2 --out results
cp "$sources/model/presets/market.toml" prices.toml
keeps prices.toml simulate host_moe --tokens 1T --market prices.toml --trace prices.toml
printf 'lines = ["step {#} took {step:ms}"]\n' >pattern.toml
printf 'step 1 took 3\n' >some.log
keeps pattern.toml import some.log --format custom --pattern pattern.toml --out pattern.toml
keeps some.log import some.log --format custom --pattern pattern.toml --out some.log
cp own.toml top.csv && mkdir swept && cp own.toml swept/own.toml && ln swept/own.toml swept/top.csv
keeps swept/own.toml sweep swept/own.toml --vary run.seed=1,2 --out swept
echo file >plain
for verb in "calibrate --device host --out plain/host.toml" "calibrate --device host --out /proc/none/host.toml" \
    "simulate host_moe --trace plain/t.json" "compare c.csv --out plain/out" "sweep host_moe --vary run.seed=1,2 --out plain/out"; do
    # shellcheck disable=SC2086
    refused 'cannot be' -- $verb
done

# A copy of the program that was moved reads what lies beside it, never the tree it was built in.
mkdir -p moved/bin
cp "$stepcast" moved/bin/stepcast
(
    stepcast=$work/moved/bin/stepcast
    refused 'moved/share/stepcast' -- simulate host_moe
    mkdir -p moved/share/stepcast/model
    cp -r "$sources/model/presets" moved/share/stepcast/model/
    run 0 simulate host_moe --json
    cd / && run 0 simulate host_moe
    exit "$failures"
) || failures=$((failures + 1))
# Of a build its installation; a program that is installed already is moved.
if [ -f "$(dirname "$stepcast")/CMakeCache.txt" ]; then
    cmake --install "$(dirname "$stepcast")" --prefix "$work/installed" >/dev/null 2>&1 || fail "cmake --install: failed"
else
    cp -r "$(dirname "$(dirname "$stepcast")")" "$work/installed"
fi
(
    stepcast=$work/installed/bin/stepcast
    cd / && run 0 simulate host_moe && run 0 list presets && run 0 import "$work/some.log" --format custom --pattern "$work/pattern.toml" --out "$work/i.csv"
    exit "$failures"
) || failures=$((failures + 1))
mkdir -p elsewhere/model/presets/experiments
cp "$preset" elsewhere/model/presets/experiments/mine.toml
STEPCAST_HOME=$work/elsewhere refused '"host_moe" is no preset experiment' 'mine' -- simulate host_moe
finish
