#!/usr/bin/env bash
# No visitor over the ops (model/graph/op.h) catches all, so that an op that is added does not compile until every place knows it:
# in a file that visits them every generic call operator names a concept of model/graph/op.h. Argument: the source folder.
set -euo pipefail
cd "$1"
found=0
for file in $(grep -rlE 'const (Gemm|AllReduce|Attention|MemoryPass|HostWork)& ?[a-z]*\)|graph\.ops\(\)' --include=*.cpp model sim exec calibrate reports); do
    grep -q 'std::visit(' "$file" || continue
    catch_alls=$(awk '
        /template <(typename|class)/ { generic = NR }
        /operator\(\)\(const [A-Za-z]+& ?[a-z]*\)/ && generic == NR - 1 { print NR ": " $0 }
        /\(const auto&[ a-z]*\)( const)? ?(\{|->)/ { print NR ": " $0 }' "$file")
    [ -z "$catch_alls" ] || { found=1; sed "s#^#$file:#" <<<"$catch_alls"; }
done
[ "$found" -eq 0 ] || { echo "a visitor over ops catches all; name a concept of model/graph/op.h instead"; exit 1; }
