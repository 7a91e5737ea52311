#!/bin/bash
# Of our own: sizes by a name, options as strings, the command put together and evaluated.
set -e
ENV=$1
CURRENT_DIR="$( cd "$( dirname "$0" )" && pwd )"
MODEL_SIZE=${2:-8B}
BATCH_SIZE=$3
GLOBAL_BATCH_SIZE=$4
SEQ_LEN=4096
PR=bf16
TP=4 PP=2 CP=1
SP=true
DO=true
FL=true
AC=sel
OPTIMIZER_OFFLOAD=false
if [ -z ${MP_VP} ]; then
    vp_options=""
else
    vp_options=" --num-layers-per-virtual-pipeline-stage ${MP_VP}"
fi
if [ $ENV = dlc ]; then
    NNODES=${WORLD_SIZE}
    GPUS_PER_NODE=${KUBERNETES_CONTAINER_RESOURCE_GPU}
else
    NNODES=${NNODES:-2}
    GPUS_PER_NODE=${GPUS_PER_NODE:-8}
fi
if [ $MODEL_SIZE = 8B ]; then
NUM_LAYERS=32
HIDDEN_SIZE=4096
NUM_ATTN_HEADS=32
INTERMEDIATE_SIZE=14336
NUM_KEY_VALUE_HEADS=8
MAX_POSITION_EMBEDDINGS=131072
EXTRA_VOCAB_SIZE=256
gqa_options=" \
		    --group-query-attention \
		    --num-query-groups ${NUM_KEY_VALUE_HEADS}"
elif [ $MODEL_SIZE = 70B ]; then
NUM_LAYERS=80
fi
if [ $AC = full ]; then
    activation_checkpoint_options=" \
		    --recompute-method uniform \
            --recompute-num-layers 1 \
		    --recompute-granularity full"
elif [ $AC = sel ]; then
    activation_checkpoint_options=" \
        --recompute-activations"
fi
if [ $PR = fp16 ]; then
    pr_options=" \
		    --fp16"
elif [ $PR = bf16 ]; then
    pr_options=" \
        --bf16"
elif [ $PR = fp8 ]; then
    pr_options=" \
        --bf16 \
        --fp8-format hybrid"
fi
if [ $DO = true ]; then
    do_options=" \
		    --use-distributed-optimizer"
fi
if [ $SP = true ] && [ $TP -gt 1 ]; then
    sp_options=" \
		    --sequence-parallel"
fi
TRAIN_ITERS=$(( ${TRAIN_TOKENS:-1000000} / ${GLOBAL_BATCH_SIZE} / ${SEQ_LEN} ))
megatron_options="  \
        --micro-batch-size ${BATCH_SIZE} \
        --global-batch-size ${GLOBAL_BATCH_SIZE} \
        --train-iters ${TRAIN_ITERS} \
        --num-layers ${NUM_LAYERS} \
        --hidden-size ${HIDDEN_SIZE} \
        --num-attention-heads ${NUM_ATTN_HEADS} \
        --ffn-hidden-size ${INTERMEDIATE_SIZE} \
        --seq-length ${SEQ_LEN} \
        --max-position-embeddings ${MAX_POSITION_EMBEDDINGS} \
        --tensor-model-parallel ${TP} \
        --pipeline-model-parallel-size ${PP} \
        --swiglu \
        --normalization RMSNorm \
        --position-embedding-type rope \
        --untie-embeddings-and-output-weights \
        --disable-bias-linear \
        --attention-dropout 0.0 \
        --hidden-dropout 0.0"
run_cmd="torchrun --nproc_per_node $GPUS_PER_NODE --nnodes $NNODES ../pretrain_llama.py
 ${megatron_options} ${pr_options} ${activation_checkpoint_options} ${do_options} ${sp_options} ${gqa_options} ${vp_options}"
echo ${run_cmd}
eval ${run_cmd}
set +x
