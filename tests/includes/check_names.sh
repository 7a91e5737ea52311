#!/usr/bin/env bash
# Every type of the program has one name: two classes of one name in different headers are one to the linker, and the plugin then
# runs the program's destructor on its own objects. check_names.sh ROOT
set -euo pipefail
cd "$1"
twice=$(grep -rhoE --include='*.h' '^(class|struct|enum class|NAMED_ENUM)[ (][A-Z][A-Za-z0-9]*(,|( final)?( :[^:].*)? \{)' model sim import exec calibrate reports cli |
    tr '(,' '  ' | awk '{ print ($2 == "class") ? $3 : $2 }' | sort | uniq -d)
for name in $twice; do
    echo "$name is defined in more than one header:"
    grep -rnE --include='*.h' "^(class|struct|enum class|NAMED_ENUM)[ (]$name(,|( final)?( :[^:].*)? \{)" model sim import exec calibrate reports cli
done
[ -z "$twice" ]
