#!/usr/bin/env bash
# Demonstrates the program without a GPU: a search, five recorded training logs and a run on this machine, each compared with its
# prediction. Writes plots, tables and one page with all of them to out/demo/ (report.html; summary.md is the same as Markdown).
# HOST_ACCURACY names a folder in which scripts/host-accuracy.sh has just calibrated this machine; else it is calibrated here.
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install-deps.sh
echo "demo: building preset release (minutes the first time)" >&2
scripts/build.sh release stepcast
stepcast=build/release/stepcast
recorded=calibrate/measurements
out=out/demo
rm -rf "$out"
mkdir -p "$out"

say() { printf '\n== %s\n' "$*"; }
section() { # section TITLE FOLDER: a comparison's summary as a chapter of the page
    printf '\n## %s\n\n' "$1"
    sed -e '/^# /d' -e 's/^## /### /' -e "s#](\([a-z_]*\.png\))#]($2/\1)#" "$out/$2/summary.md"
}

titles=(
    "Which parallel layout of GPT-3 175B over 64 A100" sweep
    "Recorded MoE layers" moe_layer_bench
    "Recorded MoE layers with their routing" moe_phase_trace
    "Recorded whole models under data parallelism" ddp_models
    "Recorded Llama pipeline" pipeline_llama
    "Recorded CoCa under ZeRO-1" zero_coca
    "host_moe on this machine" host
)
page() { # one report.html of all: the sweep's page, which has every script, with the chapters of all folders
    local frame=$out/sweep/report.html i
    sed '/<!-- chapter -->/,$d; s#<title>.*</title>#<title>stepcast demo</title>#' "$frame"
    echo '<h1>stepcast demo</h1><nav><ol>'
    for ((i = 0; i < ${#titles[@]}; i += 2)); do echo "<li><a href=\"#${titles[i + 1]}\">${titles[i]}</a></li>"; done
    echo '</ol></nav><hr>'
    for ((i = 0; i < ${#titles[@]}; i += 2)); do
        sed -n '/<!-- chapter -->/,/<!-- end of chapter -->/p' "$out/${titles[i + 1]}/report.html" |
            sed "0,/<article>/s//<article id=\"${titles[i + 1]}\">/"
    done
    sed '1,/<!-- end of chapter -->/d' "$frame"
}

say "1. which parallel layout: all of GPT-3 175B over 64 A100, the best five proven"
"$stepcast" sweep gpt3_175b_a100 --vary parallelism=all --top 5 --out "$out/sweep"

say "2. recorded: MoE layers on 4 GPUs over PCIe (routing drawn where it was not recorded)"
"$stepcast" compare $recorded/moe_layer_bench.csv --out "$out/moe_layer_bench"

say "3. recorded: the same with its routing and the kernels of every rank"
"$stepcast" compare $recorded/moe_phase_trace.csv --out "$out/moe_phase_trace"

say "4. recorded: GPT-2, BERT and Transformer-XL under data parallelism on those GPUs"
"$stepcast" compare $recorded/ddp_models.csv --out "$out/ddp_models"

say "5. recorded: a Llama 3.2 1B pipeline on 8 GPUs; steps 7 to 10 were kept from the fit"
"$stepcast" compare $recorded/pipeline_llama.csv $recorded/pipeline_llama_later.csv --out "$out/pipeline_llama"

say "6. recorded: CoCa under ZeRO-1 on 4 GPUs"
"$stepcast" compare $recorded/zero_coca.csv --out "$out/zero_coca"

say "7. this machine: measure its GEMM, memory, launch and collective curves"
if [ -s "${HOST_ACCURACY:-}/host.toml" ]; then
    cp "$HOST_ACCURACY"/host.toml "$HOST_ACCURACY"/host-*.* "$out/"
    cat "$HOST_ACCURACY/calibration.txt"
else
    "$stepcast" calibrate --device host --out "$out/host.toml"
fi

say "8. host_moe: executed on 2 ranks, predicted from that calibration"
"$stepcast" execute host_moe --device host --ranks 2 --out "$out/host_run"
"$stepcast" compare "$out/host_run" --cluster "$out/host.toml" --out "$out/host"

{
    echo "# stepcast demo"
    for ((i = 0; i < ${#titles[@]}; i += 2)); do section "${titles[i]}" "${titles[i + 1]}"; done
} >"$out/summary.md"
page >"$out/report.html"

say "written"
find "$out" -path "$out/host_run" -prune -o \( -name '*.png' -o -name '*.md' -o -name '*.csv' -o -name '*.toml' \) -print | sort
echo "$out/host_run/  (every sample and trace of the run)"
echo
echo "all of it on one page, for a browser: $out/report.html"
