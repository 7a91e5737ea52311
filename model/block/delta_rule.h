// The kernels of the chunked gated delta rule in flash-linear-attention 0.6.0 with the products of
// each (fla/ops/gated_delta_rule/chunk.py, chunk_fwd.py and wy_fast.py, fla/ops/common/
// chunk_delta_h.py and chunk_o.py): Q tokens of a chunk, K width of a key, V of a value, of each
// value head. A kernel keeps a product's factor on chip for the next; each product here reads and
// writes its own, about 1.6 times the bytes at Q = 64, K = V = 128. The triangular system of a
// chunk is not counted beside its Q x Q x K product.
#pragma once

#include <array>
#include <utility>

#include "model/base/numbers.h"
#include "model/block/block_pass.h"

namespace stepcast {

struct DeltaKernel {
    enum class Size : std::uint8_t { tokens, key, value };
    struct Product {
        Size m, n, k;
        int times = 1;
    };
    std::string_view name;
    std::vector<Product> products;
};

inline const std::vector<DeltaKernel>& delta_forward() {
    using enum DeltaKernel::Size;
    static const std::vector<DeltaKernel> kernels{
        {"delta_system", {{tokens, tokens, key}}},
        {"delta_corrections", {{tokens, key, tokens}, {tokens, value, tokens}}},
        {"delta_states", {{tokens, value, key}, {key, value, tokens}}},
        {"delta_output", {{tokens, value, key}, {tokens, tokens, key}, {tokens, value, tokens}}}};
    return kernels;
}

// The corrections and states run again.
inline const std::vector<DeltaKernel>& delta_backward() {
    using enum DeltaKernel::Size;
    static const std::vector<DeltaKernel> kernels{
        {"delta_corrections", {{tokens, key, tokens}, {tokens, value, tokens}}},
        {"delta_states", {{tokens, value, key}, {key, value, tokens}}},
        {"delta_values_backward", {{tokens, tokens, key}, {tokens, value, tokens}}},
        {"delta_states_backward", {{tokens, value, key}, {key, value, tokens, 2}}},
        {"delta_output_backward",
         {{tokens, tokens, value}, {tokens, key, value, 3}, {tokens, key, tokens, 2}}},
        {"delta_corrections_backward",
         {{tokens, tokens, key, 2},
          {tokens, tokens, value},
          {tokens, tokens, tokens, 2},
          {tokens, key, tokens, 3},
          {tokens, value, tokens}}}};
    return kernels;
}

// Equal in every style.
struct DeltaRulePasses : BlockPass {
    // Norms of queries and keys, and in the backward the sum of the two gradients of the keys.
    void operator()(const DeltaRule& op) const {
        const Bytes keys = s.inner((op.key_heads * (2 * op.key_dim)).rank),
                    sum = s.inner((op.value_heads * op.key_dim).rank);
        forward("delta_norms", MemoryPass{keys, keys}, 2);
        for (const DeltaKernel& kernel : ahead != nullptr ? delta_forward() : delta_backward())
            products_of(op, kernel);
        backward("delta_key_sum", MemoryPass{2.0 * sum, sum});
        backward("delta_norms_backward", MemoryPass{2.0 * keys, keys}, 2);
    }

private:
    void products_of(const DeltaRule& op, const DeltaKernel& kernel) const {
        constexpr long chunk = 64;  // fla's chunk_size
        const long chunks = s.batch * ((s.seq_q + chunk - 1) / chunk) * op.value_heads.rank;
        const std::array<long, 3> sizes{chunk, op.key_dim, op.value_dim};
        const auto size = [&](DeltaKernel::Size of) { return sizes[as_index(of)]; };
        float launches = 1;  // of the kernel
        for (const DeltaKernel::Product& one : kernel.products) {
            Gemm product{size(one.m), size(one.n), size(one.k), chunks * one.times, s.storage};
            product.unmeasured = Unmeasured::delta_rule;
            planner().compute(kernel.name, product, std::exchange(launches, 0));
        }
    }
};

}  // namespace stepcast
