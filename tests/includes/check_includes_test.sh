#!/usr/bin/env bash
# The include check on made-up trees: a right one passes, each wrong one is refused with its position and reason.
set -euo pipefail
check=$(cd "$(dirname "$0")" && pwd)/check_includes.sh
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failures=0

put() {  # put FILE LINE: the tree's file gets one include line
    mkdir -p "$tree/$(dirname "$1")"
    printf '// purpose\n%s\n' "$2" >"$tree/$1"
}
right_tree() {
    rm -rf "${tree:?}"/*
    put model/input/toml_reader.cpp '#include <toml++/toml.h>'
    put model/graph/op.h '#include <vector>'
    put sim/costs/costs.h '#include "model/graph/op.h"'
    put exec/host_device.cpp '#include <cblas.h>'
    put reports/json.cpp '#include <nlohmann/json.hpp>'
    put reports/chrome_trace.cpp '#include <nlohmann/json.hpp>'
    put model/input/hub_families.h '#include <nlohmann/json.hpp>'
    for profile in a b c d; do put import/profiles/$profile.cpp '#include <nlohmann/json.hpp>'; done
    put cli/arguments.cpp '#include <CLI/CLI.hpp>'
    put tests/sim/costs/costs_test.cpp '#include <catch2/catch.hpp>'
}
expect_refused() {  # expect_refused TEXT: after one wrong file was put
    local output
    if output=$("$check" "$tree"); then
        echo "not refused, expected: $1"
        failures=$((failures + 1))
    elif [[ "$output" != *"$1"* ]]; then
        printf 'expected: %s\nfound:    %s\n' "$1" "$output"
        failures=$((failures + 1))
    fi
    right_tree
}

right_tree
"$check" "$tree" || failures=$((failures + 1))

put sim/engine/simulate.cpp '#include "exec/device.h"'
expect_refused 'sim/engine/simulate.cpp:2: includes "exec/device.h"; sim may include only: sim model'
put exec/execute.cpp '#  include "sim/engine/simulate.h"'
expect_refused 'exec/execute.cpp:2: includes "sim/engine/simulate.h"; exec may include only: exec model'
put model/step.cpp '#include "sim/costs/costs.h"'
expect_refused 'model/step.cpp:2: includes "sim/costs/costs.h"'
put calibrate/fit.cpp '#include "exec/device.h"'
expect_refused 'calibrate/fit.cpp:2: includes "exec/device.h"'
put model/experiment.cpp '#include <toml++/toml.h>'
expect_refused 'model/experiment.cpp:2: includes <toml++/toml.h>; only these may: model/input/toml_reader.cpp'
put reports/compare.cpp '#include <CLI/CLI.hpp>'
expect_refused 'reports/compare.cpp:2: includes <CLI/CLI.hpp>; only these may: cli/*.cpp'
put sim/costs/costs.cpp '#include <cuda_runtime.h>'
expect_refused 'sim/costs/costs.cpp:2: includes <cuda_runtime.h>; only these may: exec/cuda/*'
put reports/tables.cpp '#include <nlohmann/json.hpp>'
expect_refused 'at most 7 files may'
put model/graph/op.cpp '#include <catch2/catch.hpp>'
expect_refused 'model/graph/op.cpp:2: includes <catch2/catch.hpp>; only these may: tests/*'
put sim/walk.cpp '#include <vector>'
sed -i 1d "$tree/sim/walk.cpp"
expect_refused 'sim/walk.cpp:1: has no header of its name; expected a line that says what it is'
put model/graph/op.cpp '#include <lua/lua.h>'
expect_refused 'which no rule names'
put util/strings.h '#include "model/graph/op.h"'
expect_refused '"util" is no folder of the design'
put model/graph/op.cpp '#include "../sim/costs.h"'
expect_refused 'model/graph/op.cpp:2: includes "../sim/costs.h"'
rm -rf "${tree:?}"/*
expect_refused 'no include line found'

[ "$failures" -eq 0 ] && echo "the include check refuses what it should"
