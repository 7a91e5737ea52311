// Constants of kernels that carry a name, for a machine that nobody measured.
#pragma once

#include "measured/nearest.h"
#include "model/cluster.h"

namespace stepcast {

// Kernels by name: first those of the machines in `near`, then those that only others run, each
// taken whole from one machine. For attention from others, only machines count whose tensor cores
// are fed as near's are: from registers (A100, cards) or from shared memory (Hopper, data-centre
// Blackwell). Libraries use one name ("FlashInfer prefill", "Triton extend attention", "unmasked
// TRT-LLM FMHA") for a different kernel on either kind, so constants of one say nothing about the
// other.
void lay_kernels(Cluster& cluster, const Machines& near, const Machines& all);

// Adds fp8 to a kernel from a machine without fp8: the change is that of the kernel with its name
// on machines that have fp8, with bytes and launches of the casts from that kernel. What fp8
// products lose against 16 bits is work outside the tensor cores. This takes the same time on every
// SM, so it costs less of the rate where tensor cores are slower.
AttentionKernel with_eight_bits(AttentionKernel kernel, const Machines& all, const Gpu& to);

}  // namespace stepcast
