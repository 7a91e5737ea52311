torchrun pretrain_gpt.py --num-layers 8 --hidden-size 64 --num-attention-heads 4 --seq-length 16 --micro-batch-size 1 --multi-latent-attention
