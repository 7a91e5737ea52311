#!/usr/bin/env bash
# Every C++ and CUDA file is as clang-format leaves it (.clang-format; version 14, because versions
# differ in details). Argument: the source folder.
set -euo pipefail
cd "$1"
format=$(command -v clang-format-14 || command -v clang-format || true)
if [ -z "$format" ] || ! "$format" --version | grep -q ' version 14\.'; then
    echo "skipped: clang-format 14 is not here"
    exit 0
fi
files=$(git ls-files '*.cpp' '*.h' '*.cu' 2>/dev/null || find . -name build -prune -o \( -name '*.cpp' -o -name '*.h' -o -name '*.cu' \) -print)
wrong=$(echo "$files" | xargs -P 2 -n 40 "$format" --dry-run 2>&1 | sed -n 's/^\([^:]*\):[0-9].*/\1/p' | sort -u)
[ -z "$wrong" ] || { echo "$wrong"; echo "expected: clang-format -i of these files"; exit 1; }
# Tests hold lines of other tools' files, and the manual roff.
long=$(echo "$files" | grep -vE '^(./)?(tests/|cli/manual.cpp)' | xargs awk 'length($0) > 100 {print FILENAME ":" FNR}')
[ -z "$long" ] || { echo "$long"; echo "expected: lines of at most 100 columns"; exit 1; }
echo "$(echo "$files" | wc -l) files as clang-format leaves them"
