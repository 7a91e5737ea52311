#!/usr/bin/env bash
# A test without what it needs is skipped, not passed: its message is the one that CTest looks for
# (SKIP_REGULAR_EXPRESSION in tests/CMakeLists.txt). Argument: the source folder.
set -euo pipefail
cd "$1"
expression='skipped: .* is not t?here|skipped: no CUDA device|"skipped: " \+ name'
wrong=$(grep -rn '"skipped' tests --include=*.cpp --include=*.h --include=*.sh --include=*.py | grep -v '^tests/includes/' | grep -vE "$expression" || true)
[ -z "$wrong" ] || { echo "$wrong"; echo "expected: skipped: NAME is not here (is_absent() in tests/truth.h)"; exit 1; }
# Folders beside the project are looked up in one place, which also says that they are absent.
wrong=$(grep -rnE '/ "shared"|parent_path\(\) / "(traces|configs|cases|logs|truth)"' tests --include=*.cpp --include=*.h | grep -v '^tests/truth.h' || true)
[ -z "$wrong" ] || { echo "$wrong"; echo "expected: shared_folder() of tests/truth.h"; exit 1; }
