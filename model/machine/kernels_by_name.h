// Named kernels of a machine that was not measured. Internal to model/machine.
#pragma once

#include "model/machine/nearest.h"

namespace stepcast {

// Those of the machines in `near` first, then those that only others run, each from one machine whole. Of attention's others only machines whose
// tensor cores are fed as near's count: from registers (A100, cards) or from shared memory (Hopper, data-centre Blackwell). Under one name
// ("FlashInfer prefill", "Triton extend attention", "unmasked TRT-LLM FMHA") libraries hold another kernel for either, so that one's constants
// say nothing of the other.
void lay_kernels(Cluster& cluster, const Machines& near, const Machines& all);

// A kernel from a machine without fp8: what 8 bits change is what they change in the kernel of its name on machines that have them. Bytes and
// launches of the casts are that kernel's. What fp8 products lose against those in 16 bits is work outside the tensor cores, the same time on
// every SM, and so less of the rate where tensor cores are slower.
AttentionKernel with_eight_bits(AttentionKernel kernel, const Machines& all, const Gpu& to);

}  // namespace stepcast
