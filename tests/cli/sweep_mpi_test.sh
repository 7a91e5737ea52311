#!/usr/bin/env bash
# A sweep shared by processes: the same answer as by threads, said once; bad input said once.
source "$(dirname "$0")/expect.sh"
mpirun=$3

question="sweep gpt3_175b_a100 --vary parallelism.dp=rest --vary parallelism.tp=2,4,8 --vary parallelism.pp=1..16*2
    --vary parallelism.micro_batch=1,2 --vary parallelism.zero=0..3 --vary parallelism.recompute=none,selective --json"
run 0 $question
cp "$work/.stdout" threads.json
"$mpirun" --allow-run-as-root --oversubscribe -n 3 "$stepcast" $question >processes.json 2>errors.txt ||
    fail "mpirun stepcast $question: failed: $(head -c 500 errors.txt)"
cmp -s processes.json threads.json || fail "mpirun stepcast $question: another answer than by threads"

"$mpirun" --allow-run-as-root --oversubscribe -n 3 "$stepcast" sweep gpt3_175b_a100 --vary parallelism.tp=8..1 \
    >output.txt 2>errors.txt && fail "an empty range under mpirun: expected a failure"
[ "$(grep -c 'empty range' errors.txt)" -eq 1 ] || fail "an empty range under mpirun: expected one complaint"
[ ! -s output.txt ] || fail "an empty range under mpirun: expected nothing on stdout"

# What another launcher left in the environment: said before any work, by whichever rank one is taken for.
for rank in 0 1; do
    OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=$rank run 2 sweep host_moe --vary run.seed=1,2
    stdout_is_empty
    stderr_has "2 processes were started, but MPI finds 1"
done
finish
