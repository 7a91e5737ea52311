// Bytes of P parameters on one of n ranks: weights 2 P, gradients 2 P, the bucket buffer (two with
// overlap), and for the rank's own piece an fp32 weight and two moments, 12 P / n (pieces are
// padded as in model/recorded/coca/parts.h). A block keeps these 16-bit tensors for its backward
// (sizes: r rows, k keys, f inner, s scores):
//   attention     norm's input and output, queries, keys, values, result: r each (in a cross block
//                 k for norm, keys and values); scores s, under autocast also the fp32 softmax 2 s
//                 and its cast s; sub-norm r
//   feed-forward  norm's input and output r; inner f before and after the activation, gated 4 f;
//                 sub-norm f
// A recomputed block keeps its input. While its backward runs, it holds all of the above and the
// gradients of two of its largest tensors. The logits are kept with the fp32 log-softmax of the
// loss, whose backward needs their fp32 gradient twice. Not counted: allocator slack, library
// workspaces and the poolers' queries.
#pragma once

#include "model/experiment.h"
#include "sim/results/forecast.h"

namespace stepcast {

// A contrastive captioner under ZeRO stage 1.
MemoryUse coca_memory(const Experiment& experiment);

}  // namespace stepcast
