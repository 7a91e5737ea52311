#!/usr/bin/env bash
# The check of model on made-up trees: a right one passes, each wrong line is refused with its position and reason.
set -euo pipefail
check=$(cd "$(dirname "$0")" && pwd)/check_model.sh
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failures=0

put() {  # put FILE LINE
    mkdir -p "$tree/$(dirname "$1")"
    printf '%s\n' "$2" >"$tree/$1"
}
expect() {  # expect refused|allowed FILE LINE [TEXT]
    rm -rf "${tree:?}"/*
    put model/step.cpp 'int ranks = 0;'
    put "$2" "$3"
    local output verdict=allowed
    output=$("$check" "$tree") || verdict=refused
    if [ "$verdict" != "$1" ] || [[ "$output" != *"${4:-}"* ]]; then
        printf 'expected %s: %s\nfound %s: %s\n' "$1" "$3" "$verdict" "$output"
        failures=$((failures + 1))
    fi
}

expect refused model/machine/priors.cpp 'double middle = median(values);' 'model/machine/priors.cpp:1: a statistic'
expect refused model/records/rows.h 'std::optional<double> median_over(const Machines& machines);' 'a statistic'
expect refused model/fit.cpp '#include <boost/math/statistics/linear_regression.hpp>' 'a statistic'
expect refused model/machine/cluster.cpp 'const double high = quantile(all, 0.9);' 'a statistic'
expect allowed model/fitted.h '    KEY(double, median, 0, "of the absolute error", 0, upto::any);'
expect allowed model/records/provenance.cpp 'const char* ignored[] = {"median_us"};  // a median'
expect refused model/block/linear.cpp 'const auto time = bytes / gpu.memory_bandwidth;' 'model/block/linear.cpp:1: a duration'
expect refused model/transformer/step.cpp 'add(Seconds(1e-6 * calls));' 'a duration'
expect refused model/graph/op.cpp 'return flops / c.gpu.peaks[dtype];' 'a duration'
expect allowed model/transformer/step.cpp 'if (cluster.host.recompute > Seconds(0)) return;'
expect allowed model/graph/step_times.cpp 'step.length = Seconds(finish.si() - start.si());'
rm -rf "${tree:?}"/*
mkdir "$tree/model"
if "$check" "$tree" >/dev/null; then
    echo "a tree without files was not refused"
    failures=$((failures + 1))
fi

[ "$failures" -eq 0 ] && echo "the check of model refuses what it should"
