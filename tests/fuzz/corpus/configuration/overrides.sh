#!/bin/bash
#SBATCH --nodes=8
#SBATCH --gpus-per-node=8
#SBATCH --ntasks-per-node=8
srun --mpi=pmix python scripts/run_recipe.py --recipe llama3_70b_pretrain_config \
  model.tensor_model_parallel_size=4 model.pipeline_model_parallel_size=4 model.virtual_pipeline_model_parallel_size=5 \
  model.context_parallel_size=2 model.sequence_parallel=true \
  train.global_batch_size=128 train.micro_batch_size=1 ddp.overlap_grad_reduce=true mixed_precision=bf16_mixed \
  comm_overlap.tp_comm_overlap=true
