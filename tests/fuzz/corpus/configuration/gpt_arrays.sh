#!/bin/bash
# A launch script of our own in the forms that such scripts have: arrays with comments, a test of arguments, +=, arithmetic.
#SBATCH --job-name=gpt
set -x
export CUDA_DEVICE_MAX_CONNECTIONS=1

GPUS_PER_NODE=8
NNODES=${SLURM_NNODES:-"4"}
NODE_RANK=${RANK:-"0"}
WORLD_SIZE=$(($GPUS_PER_NODE*$NNODES))
CHECKPOINT_PATH=${1:-"checkpoints/gpt"}  # where it goes
DATA_ARG=${2:-"MOCK"}
TP=2
PP=4

DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NNODES
    --master_addr ${MASTER_ADDR:-"localhost"}
)

MODEL_ARGS=(
    --use-mcore-models
    --num-layers 32
    --hidden-size 4096   # width
    --ffn-hidden-size 14336
    --num-attention-heads 32
    --group-query-attention
    --num-query-groups 8
    --seq-length 4096
    --max-position-embeddings 32768
    --normalization RMSNorm
    --position-embedding-type rope
    --disable-bias-linear
    --untie-embeddings-and-output-weights
    --swiglu
    --attention-dropout 0.0
    --hidden-dropout 0.0
)
TRAINING_ARGS=(
    --micro-batch-size 1
    --global-batch-size $((WORLD_SIZE / (TP * PP) * 16))
    --bf16
    --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather
    "--fp8-format hybrid"
    --fp8-param-gather
)
PARALLEL_ARGS="--tensor-model-parallel-size $TP \
    --pipeline-model-parallel-size ${PP} --sequence-parallel"

if [[ "$DATA_ARG" == "MOCK" ]] || [[ -z "$DATA_ARG" ]]; then
    DATA_ARGS=(--mock-data "--vocab-size 128256")
else
    DATA_ARGS=(--data-path "$DATA_ARG" --vocab-size 1)
fi
if [ "$PP" -gt 1 ]; then
    TRAINING_ARGS+=(--num-layers-per-virtual-pipeline-stage 2)
elif [ "$PP" -gt 8 ]; then
    TRAINING_ARGS+=(--recompute-activations)
fi
MODEL_SIZE=8b
case $MODEL_SIZE in
    1b|3b) TRAINING_ARGS+=(--num-layers 16) ;;
    "8b")
        TRAINING_ARGS+=(--lr 3e-4)
        ;;
    *) echo "unknown"; exit 1 ;;
esac
[ -n "$WANDB_API_KEY" ] && LOG_ARGS=(--wandb-project x)
cat <<EOF > ds.json
{"zero_optimization": {"stage": 3}, "flags": "--num-layers 1"}
EOF
touch HACKED; rm -rf $(echo HACKED)

torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py \
    ${MODEL_ARGS[@]} \
    "${TRAINING_ARGS[@]}" $PARALLEL_ARGS \
    ${DATA_ARGS[@]} ${LOG_ARGS[@]} \
    --save $CHECKPOINT_PATH 2>&1 | tee log
