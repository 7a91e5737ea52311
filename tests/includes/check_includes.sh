#!/usr/bin/env bash
# check_includes.sh [ROOT]: fails when a folder includes what it may not. The two tables below are the rule.
set -euo pipefail
cd "${1:-$(dirname "$0")/../..}"

# Folder: project folders that it may include. "." is the root: main.cpp, the map.
folders='
model:      model
measured:   measured model
sim:        sim model measured
import:     import model measured sim
exec:       exec model
calibrate:  calibrate model measured sim import
reports:    reports model measured sim
cli:        cli model measured sim import exec calibrate reports
.:          cli model measured sim import exec calibrate reports
python:     cli model measured sim import calibrate reports
tests:      tests model measured sim import exec calibrate reports
benchmarks: benchmarks tests model measured sim
'

# Header prefix: files (globs) that may include it, and after "at most" how many of them outside tests/.
headers='
toml++/:            model/input/toml_reader.cpp
yaml-cpp/:          import/launch/document.cpp
pugixml.hpp:        import/machine/nccl_topology.cpp
boost/:             model/base/*.cpp model/graph/dependencies.h measured/transfer.cpp sim/network/topology.cpp sim/gantt.cpp sim/scatter.cpp import/profiles/trace_records.h reports/graph_dot.cpp tests/model/graph/*.cpp tests/sim/engine/*.cpp
nlohmann/:          reports/*.cpp reports/json_parts.h model/input/hub_families.h import/profiles/*.cpp import/profiles/json_numbers.h tests/* at most 7
simdjson.h:         import/profiles/kineto.cpp
sqlite3.h:          import/profiles/nsight.cpp tests/*
zlib.h:             import/profiles/byte_stream.cpp tests/*
CLI/:               cli/*.cpp at most 2
ceres/:             calibrate/*.cpp at most 1
Eigen/:             calibrate/*.cpp sim/own_steps.cpp at most 2
cblas.h:            exec/*.cpp at most 2
openblas:           exec/*.cpp at most 2
mpi.h:              exec/mpi_group.h sim/sweep/mpi.cpp
cuda:               exec/cuda/* tests/exec/cuda/emulation/* scripts/pretended-gpu/device.cpp
cublas:             exec/cuda/* tests/exec/cuda/emulation/*
nccl.h:             exec/cuda/* tests/exec/cuda/emulation/*
cudnn_frontend.h:   exec/cuda/cudnn_attention.cpp
cudnn_graph.h:      scripts/pretended-gpu/device.cpp
ucontext.h:         tests/exec/cuda/emulation/*
cxxabi.h:           tests/exec/cuda/emulation/*
dlfcn.h:            exec/shared_library.cpp cli/startup.cpp model/input/presets.cpp
link.h:             model/input/presets.cpp
malloc.h:           cli/startup.cpp
pybind11/:          python/core.cpp
catch2/:            tests/*
benchmark/:         benchmarks/*
fmt/:               *
immintrin.h:        exec/* sim/*
fnmatch.h:          import/launch/shell_variables.cpp
unistd.h:           model/base/whole_files.cpp model/records/run_folder.cpp cli/startup.cpp exec/* calibrate/*.cpp tests/*
gnuplot-iostream.h: reports/gnuplot.cpp
sys/:               model/base/whole_files.cpp model/records/run_folder.cpp exec/* tests/* scripts/pretended-gpu/device.cpp
sched.h:            exec/* tests/exec/*
pthread.h:          exec/* tests/exec/*
signal.h:           exec/* tests/*
fcntl.h:            model/base/whole_files.cpp model/records/run_folder.cpp cli/startup.cpp exec/* tests/*
time.h:             exec/*
'

# A file whose header does not say what it is for says so in its first line.
silent=$(find . -name '*.cpp' -not -path './tests/*' -not -path './build/*' -not -path './out/*' -not -path './.*' -not -path './main.cpp' \
    -not -path './benchmarks/*' -not -path './python/*' | sed 's|^\./||' | sort | while read -r file; do
    [ -e "${file%.cpp}.h" ] || [[ $(head -n 1 "$file") == //* ]] || echo "$file:1: has no header of its name; expected a line that says what it is"
done)
if [ -n "$silent" ]; then
    echo "$silent"
    exit 1
fi

# One line an include: FILE:LINE:#include ...
find . -path ./build -prune -o -path ./out -prune -o -path './.*' -prune -o -type f \
    \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' \) -print |
    sed 's|^\./||' | sort | xargs -r grep -HnE '^[[:space:]]*#[[:space:]]*include' |
    awk -v folders="$folders" -v headers="$headers" '
function glob_matches(file, glob) {
    gsub(/[.+]/, "\\\\&", glob); gsub(/\*/, ".*", glob)
    return file ~ ("^" glob "$")
}
function refuse(text) { print position ": " text; refused = 1 }
function check_project(header,    target) {
    target = header ~ /\// ? substr(header, 1, index(header, "/") - 1) : "."
    if (!(folder in may)) refuse("\"" folder "\" is no folder of the design; add it to tests/includes/check_includes.sh")
    else if (index(" " may[folder] " ", " " target " ") == 0)
        refuse("includes \"" header "\"; " (folder == "." ? "the root" : folder) " may include only: " may[folder])
}
function check_foreign(header,    i, n, globs, j) {
    if (header ~ /^[a-z_0-9]+$/) return  # the standard library
    for (i = 1; i <= rules; ++i) {
        if (index(header, prefix[i]) != 1) continue
        n = split(where[i], globs, " ")
        for (j = 1; j <= n; ++j) if (glob_matches(file, globs[j])) {
            if (limit[i] && file !~ /^tests\// && !seen[i, file]++) {
                if (++users[i] > limit[i])
                    refuse("includes <" header ">; at most " limit[i] " files may (" user_names[i] " do)")
                user_names[i] = user_names[i] (user_names[i] == "" ? "" : ", ") file
            }
            return
        }
        refuse("includes <" header ">; only these may: " where[i])
        return
    }
    refuse("includes <" header ">, which no rule names; add it to tests/includes/check_includes.sh")
}
BEGIN {
    n = split(folders, line, "\n")
    for (i = 1; i <= n; ++i) if (split(line[i], part, /: */) == 2) may[part[1]] = part[2]
    n = split(headers, line, "\n")
    for (i = 1; i <= n; ++i) if (split(line[i], part, /: +/) == 2) {
        prefix[++rules] = part[1]
        if (split(part[2], most, / at most /) == 2) limit[rules] = most[2]
        where[rules] = most[1]
    }
}
{
    split($0, part, ":")
    file = part[1]; position = part[1] ":" part[2]
    folder = file ~ /\// ? substr(file, 1, index(file, "/") - 1) : "."
    if (match($0, /"[^"]+"/)) check_project(substr($0, RSTART + 1, RLENGTH - 2))
    else if (match($0, /<[^>]+>/)) check_foreign(substr($0, RSTART + 1, RLENGTH - 2))
    else refuse("an include of a macro; name the header")
    ++checked
}
END {
    if (!checked) { print "no include line found: wrong folder?"; exit 1 }
    if (refused) exit 1
    print checked " include lines, all allowed"
}'
