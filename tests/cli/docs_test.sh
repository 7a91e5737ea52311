#!/usr/bin/env bash
# What README and docs/ show is what the commands print: every line below a "$ stepcast ..", up to "..." or an empty line, and
# the recorded runs and the search below "$ scripts/demo.sh". Columns may be spaced otherwise. A prediction that moves on purpose
# moves these texts too; each failure says what the program prints now.
source "$(dirname "$0")/expect.sh"

fail() {
    printf 'FAILED: %s\n' "$1"
    failures=$((failures + 1))
}
squeeze() { sed 's/[[:space:]]\+/ /g; s/^ //; s/ $//'; }

check_line() {
    grep -qxF -- "$1" .squeezed && return
    fail "$2 shows: $1
    but the program prints: $(grep -F -m 1 -- "${1%% *}" .squeezed || echo 'no line like it')"
}

# The commands of the demo whose results are the same on every machine, as it runs them but for --out.
demo() {
    grep -E '^"\$stepcast" (compare \$recorded|sweep)' "$sources/scripts/demo.sh" |
        sed "s#--out [^ ]*##; s#\$recorded#$sources/calibrate/measurements#g; s#\"\$stepcast\"#\"$stepcast\"#"
}

# The traces that docs/measure-and-compare.md begins with: made up by benchmarks/make_trace.py.
cp -r "$sources/tests/data/traced" traces

commands=0
for file in "$sources"/README.md "$sources"/docs/*.md; do
    shown=  # which command's lines follow
    while IFS= read -r line; do
        case $line in
            '$ stepcast '*)
                arguments=${line#'$ stepcast '}
                arguments=${arguments%%  *#*}
                arguments=${arguments//tests\/data/$sources/tests/data}  # which has patterns
                run 0 ${arguments//calibrate\/measurements/$sources/calibrate/measurements}
                squeeze <.stdout >.squeezed
                commands=$((commands + 1))
                shown=command ;;
            '$ scripts/demo.sh'*)
                demo | bash >.stdout 2>.stderr || fail "the demo's commands"
                squeeze <.stdout >.squeezed
                commands=$((commands + 1))
                shown=demo ;;
            '$ cat > '*" <<'END'")  # a file that the commands below read
                file_name=${line#'$ cat > '}
                file_name=${file_name%% *}
                : >"$file_name"
                while IFS= read -r line && [ "$line" != END ]; do printf '%s\n' "$line" >>"$file_name"; done ;;
            '== 8.'* | '```'* | '$ '*) shown= ;;
            '' | '...' | '=='*) ;;  # lines are left out at "...", those after it are printed, too
            *) [ -z "$shown" ] || check_line "$(squeeze <<<"$line")" "$(basename "$file")" ;;
        esac
    done <"$file"
done
# notes/published-steps.md: the errors of rows left out are those in the cluster files, and by the method that stands there.
left_out='five folds by model and layout|left out by model'
for cluster in dgx-a100 dgx-h100 b200-sxm-x8; do
    row=$(awk -v name=$cluster -v left_out="$left_out" '
        # {kind = "step", method = "..", samples = 5, median = 0.1, mape = 0.1, bias = 0.1, worst = 0.2},
        function field(key) { return match($0, key " = [-0-9.e]+") ? substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3) : 0 }
        /kind = "step"/ && $0 ~ left_out { n = field("samples"); median = field("median"); mean = field("mape"); worst = field("worst") }
        END { printf "^[|] %s [|] %d [|] [^|]* [|] %.1f / %.1f [|] %.1f [|]$", name, n, 100 * mean, 100 * median, 100 * worst }' \
        "$sources/model/presets/clusters/$cluster.toml")
    grep -qE -- "$row" "$sources/notes/published-steps.md" || fail "notes/published-steps.md lacks the row of $cluster's file: $row"
done
how='(five folds by model and layout; of b200-sxm-x8 each model)'
grep -qF -- "$how" "$sources/notes/published-steps.md" || fail "notes/published-steps.md does not say: $how"

# docs/files.md: a cases file may have every column that is named there.
awk -F'|' '/^## / { on = /Cases/ }
    on && /^source,case_id/
    on && /^[|] `/ { gsub(/[ `]/, "", $2); print $2 }' "$sources/docs/files.md" | tr ',' '\n' | sort -u >columns
paste -sd, columns >documented.csv
[ "$(wc -l <columns)" -ge 40 ] || fail "docs/files.md names too few columns of a cases file: $(cat documented.csv)"
told=$("$stepcast" compare documented.csv 2>&1) || true
[[ $told != *"is no column"* ]] || fail "docs/files.md: $told"

[ "$commands" -ge 5 ] || fail "only $commands commands were found in README and docs"
finish
