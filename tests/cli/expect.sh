# Sourced by the command-line tests: runs the built binary in an empty folder and holds exit code and text against
# what is expected. Arguments of the test: the binary, the source folder.
set -uo pipefail
stepcast=$1
sources=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
failures=0

fail() {
    printf 'FAILED: %s\n' "$1"
    sed 's/^/    stdout: /' "$work/.stdout" | head -n 15
    sed 's/^/    stderr: /' "$work/.stderr" | head -n 15
    failures=$((failures + 1))
}

# run CODE ARGUMENT...: the exit code must be CODE.
run() {
    local code=$1 found
    shift
    command_line="stepcast $*"
    "$stepcast" "$@" >"$work/.stdout" 2>"$work/.stderr" </dev/null
    found=$?
    [ "$found" -eq "$code" ] || fail "$command_line: exit code $found, expected $code"
}
stdout_has() { grep -qF -- "$1" "$work/.stdout" || fail "$command_line: stdout lacks: $1"; }
stderr_has() { grep -qF -- "$1" "$work/.stderr" || fail "$command_line: stderr lacks: $1"; }
stdout_is_empty() { [ ! -s "$work/.stdout" ] || fail "$command_line: stdout should be empty"; }
stderr_is_empty() { [ ! -s "$work/.stderr" ] || fail "$command_line: stderr should be empty"; }
absent() { [ ! -e "$1" ] || fail "$command_line: left $1 behind"; }

# refused TEXT... -- ARGUMENT...: exit code 1, nothing on stdout, one message that has every TEXT.
refused() {
    local texts=()
    while [ "$1" != -- ]; do
        texts+=("$1")
        shift
    done
    shift
    run 1 "$@"
    stdout_is_empty
    local text
    for text in "${texts[@]}"; do stderr_has "$text"; done
    [ "$(wc -l <"$work/.stderr")" -eq 1 ] || fail "$command_line: expected one line on stderr"
}

# json KEY...: stdout is one JSON object and has every KEY (a path: step_s.p50).
json() {
    local file=$work/.stdout
    cmake -DFILE="$file" -DKEYS="$(IFS=,; echo "$*")" -P "$here/has_json_keys.cmake" 2>"$work/.cmake" ||
        fail "$command_line: $(tr -s '\n ' ' ' <"$work/.cmake")"
}

finish() {
    if [ "$failures" -ne 0 ]; then
        echo "$failures failed"
        exit 1
    fi
    echo "all passed"
}
