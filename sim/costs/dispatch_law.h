// Kernels that carry the tokens of an expert layer to the ranks of their experts and back; each is
// timed by itself.
#pragma once

#include "model/cluster.h"

namespace stepcast {

// What one rank sends or gets back: rows for other ranks, its own tokens, bytes of a row, and the
// turns that its SMs take over the experts, if an SM serves one expert at a time.
struct DispatchLoad {
    double rows = 0, tokens = 0;
    Bytes row;
    int turns = 0;
    friend bool operator==(const DispatchLoad&, const DispatchLoad&) = default;
};

// W = rows (row + d.row) + tokens d.own row
// t = d.launch + turns d.wave + norm4(W / (link d.efficiency), W / (sms d.per_sm), tokens d.token)
// with norm4(a, b, c) = (a^4 + b^4 + c^4)^(1/4), a soft maximum. A token goes once to each rank
// that holds one of its experts. d.row is what a row costs on top of its bytes (an address, a flag,
// a counter), and d.own what its own rank reads or writes for a token. d.token is what the SMs take
// for a token, however few of its bytes cross: between two ranks of an NVLink domain, fp4 takes as
// long as fp8. In DeepEP's low-latency mode each SM of the device serves one expert in a turn,
// d.wave: 256 experts take two turns of 128 SMs, 128 experts take one, and 8 experts leave all but
// 8 SMs idle (num_warp_groups and num_sms of its internode_ll.cu). Source: DeepEP's and
// TensorRT-LLM's kernels (each SM copies rows on its own and is far slower than the link). One set
// of constants predicts dispatch and combine of five devices, 8 to 24 SMs, to 4 to 5 %
// (notes/kernel-laws.md).
Seconds dispatch_law_time(const DispatchLoad& load, const Dispatch& d, BytesPerSecond link,
                          int sms);

// How many of `ranks` ranks hold at least one of a token's `top_k` experts, drawn at random from
// `experts`:
//   n (1 - prod_{i<k} (1 - (E/n) / (E - i))).
double ranks_of_token(int top_k, int experts, int ranks);

}  // namespace stepcast
