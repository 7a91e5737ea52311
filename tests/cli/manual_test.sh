#!/usr/bin/env bash
# Man page, completion of bash and zsh: written by the program, understood by what reads them. What is not installed here is
# said to be skipped.
source "$(dirname "$0")/expect.sh"

mkdir bin && ln -s "$stepcast" bin/stepcast && PATH=$work/bin:$PATH
for what in man bash zsh; do
    run 0 generate $what
    cp .stdout $what
done
refused 'expected bash, zsh, man' -- generate fish
refused '"zsh" is no argument of generate man' -- generate man zsh
run 0 --help
! grep -q '^  generate' .stdout || fail "--help lists the verb generate"
stdout_has "stepcast generate man|bash|zsh"

# The page has every verb and option of --help and nothing that its readers complain about.
verbs=$(sed -n '/^Subcommands:/,$p' .stdout | awk '/^  [a-z]/ { print $1 }')
for verb in $verbs; do
    grep -qx "\.SS stepcast $verb" man || fail "the man page lacks $verb"
    run 0 "$verb" --help
    for option in $(grep -oE '^  (-h,)?--[a-z-]+' .stdout | grep -oE -- '--[a-z-]+'); do
        [ "$option" = --help ] || grep -qF -- "\\fB${option//-/\\-}\\fR" man || fail "the man page lacks $option of $verb"
    done
done
if command -v mandoc >/dev/null; then
    # A page that is written by every build has no date.
    complaints=$(mandoc -T lint -W warning man 2>&1 | grep -v 'missing date')
    [ -z "$complaints" ] || fail "mandoc: $complaints"
else
    echo "skipped: mandoc is not here"
fi
if command -v man >/dev/null; then
    complaints=$(LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -E UTF-8 -l ./man 2>&1 >page)
    [ -z "$complaints" ] || fail "man: $complaints"
    grep -q 'STEPCAST_HOME' page || fail "man shows no STEPCAST_HOME"
fi

# bash: words as a TAB offers them.
complete() {
    bash --norc -c '
        source ./bash
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        _stepcast
        printf "%s\n" "${COMPREPLY[@]}"' complete "$@" 2>&1
}
offered() {  # offered WORD -- TYPED...
    local word=$1
    shift 2
    complete "$@" >offers  # no pipe: grep may leave before its writer, which then fails
    grep -qxF -- "$word" offers || fail "bash: $* <TAB> does not offer $word: $(tr '\n' ' ' <offers)"
}
offered simulate -- stepcast sim
offered --explain -- stepcast simulate --
offered --set -- stepcast simulate gpt3_175b_a100 --s
offered gpt3_175b_a100 -- stepcast simulate gpt
offered dgx-h100 -- stepcast simulate gpt3_175b_a100 --cluster dgx
offered parallelism.tp -- stepcast sweep gpt3_175b_a100 --set parallelism.t
offered host -- stepcast execute host_moe --device ''
offered cost -- stepcast sweep x --objective c
offered presets -- stepcast list ""
touch cases.csv
offered cases.csv -- stepcast list rows ca
offered cases.csv -- stepcast compare ca
for words in "" "= =" "=nosuch =x" "simulate"; do run 0 generate words $words; done  # whatever a shell hands over
[ -z "$(complete stepcast simulate --explain --nosuch)" ] || fail "bash: an option that is not there is completed"
[ "$(complete stepcast s | sort | tr '\n' ' ')" = 'show simulate sweep ' ] || fail "bash: stepcast s<TAB>: $(complete stepcast s)"

# zsh: its own completion system in a terminal of its own.
if command -v zsh >/dev/null; then
    cp zsh _stepcast
    cat >ask.zsh <<'ZSH'
zmodload zsh/zpty
zpty terminal "PS1='ready> ' zsh -f -i"
say() { zpty -w terminal "$1"; }
say "fpath=($PWD \$fpath); autoload -Uz compinit; compinit -u -D; unsetopt beep; LISTMAX=1000; stty cols 200; setopt no_list_packed; echo begun"
# Each answer is waited for, however slow the machine; what never comes ends with the time limit.
for typed offered in "$@"; do
    zpty -n -w terminal "$typed"$'\t\t'
    zpty -r terminal line "*$offered*"
    print -r -- $line
    zpty -n -w terminal $'\x15'
done
ZSH
    timeout 60 zsh -f ask.zsh 'stepcast simulate --expl' 'simulate --explain' \
        'stepcast simulate gpt3_175b_a100 --cluster dgx-' dgx-h100 'stepcast exec' 'stepcast execute' >told 2>&1
    for word in 'simulate --explain' dgx-h100 'stepcast execute'; do
        grep -qF -- "$word" told || fail "zsh does not offer $word: $(tail -c 600 told)"
    done
else
    echo "skipped: zsh is not here"
fi

run 0 --version
[ "$(head -n 1 .stdout)" = "stepcast 0.2.0" ] || fail "--version: first line $(head -n 1 .stdout)"
for part in commit compiler CUDA NCCL MPI; do stdout_has "$part "; done
finish
