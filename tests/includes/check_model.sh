#!/usr/bin/env bash
# check_model.sh [ROOT]: nothing in model computes a duration or a statistic. Durations are sim's, or measured; statistics of
# measured samples and machines are measured/'s. Comments, texts and declared keys may use the words.
set -euo pipefail
cd "${1:-$(dirname "$0")/../..}"

statistics='median|quantile|percentile|stddev|std_dev|variance|regression|least_squares|outlier|boost/math/statistics'
# A time from a size and a rate, or of a number. Times that keys state may be compared with none.
rate='[A-Za-z_.>-]*(bandwidth|peaks|efficiency)'
durations="/ *$rate|Seconds\((0[^)]|[^0)])"
builders='^model/(block|transformer|recorded)/|^model/graph/(op|task_graph|dependencies|group)\.|^model/(step|rank_groups|routing)\.'

files=$(find model -name '*.cpp' -o -name '*.h' | sort)
[ -n "$files" ] || { echo "no file of model found: wrong folder?"; exit 1; }
refused=0
refuse() {  # refuse FILE PATTERN WHAT: each line of code on stdin that has the pattern
    local found
    found=$(grep -niE "$2" || [ $? -eq 1 ]) || exit 1
    [ -z "$found" ] || { sed "s#^\([0-9]*\):.*#$1:\1: $3#" <<<"$found"; refused=1; }
}
for file in $files; do
    # An include keeps its name; KEY(..) declares what files state.
    code=$(sed -E 's#//.*##; s/^[[:space:]]*KEY(_NAMED)?\(.*//; /#include/! s/"([^"\\]|\\.)*"/""/g' "$file")
    refuse "$file" "$statistics" "a statistic; its place is measured/" <<<"$code"
    if [[ $file =~ $builders ]]; then refuse "$file" "$durations" "a duration; its place is sim/" <<<"$code"; fi
done
[ "$refused" -eq 0 ] || exit 1
echo "$(wc -w <<<"$files") files of model compute no duration and no statistic"
