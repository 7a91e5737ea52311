// Constants of one GPU's kernels on another: an SM fills its pipelines, takes exponentials and copies equally fast on all
// measured devices, A100 to Arc; what differs is how fast its tensor cores and its share of the memory are beside that.
#pragma once

#include <vector>

#include "model/cluster.h"

namespace stepcast {

// What is a time on an SM counts more elements where its tensor cores are faster: fill of loops over keys and k, exponentials
// in widths of a head; and more bytes where its memory is: passes beside the products.
// Blackwell Ultra takes exponentials twice as fast as other Blackwell (NVIDIA, "Inside NVIDIA Blackwell Ultra", 2025).
AttentionKernel moved(AttentionKernel kernel, const Gpu& from, const Gpu& to);
ExpertKernel moved(ExpertKernel kernel, const Gpu& from, const Gpu& to);

// How far the rates of two devices' SMs are apart, as a logarithm; 0 where one states no SMs.
double rate_distance(const Gpu& a, const Gpu& b);

// A cast is as fast as the memory or as the SMs copy, whichever is slower: the rate of an SM is the median of the machines'.
CastCosts moved_casts(const std::vector<Cluster>& from, CastCosts casts, const Gpu& to);

// By what the share of the datasheet peak in products differs from that of `near`: the faster an SM's tensor cores, the less of
// their rate registers and shared memory can feed. One slope of the logarithm over all machines.
double efficiency_ratio(const std::vector<Cluster>& all, const std::vector<Cluster>& near, const Gpu& to);

}  // namespace stepcast
