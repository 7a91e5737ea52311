#include "model/transformer/muon.h"

#include <algorithm>

#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/block/blocks.h"
#include "model/runtime_rules.h"

namespace stepcast {

void MuonMatrices::add_layer(const LayerContext& c, int layer) {
    const auto add = [](Counts& counts, long out, long in, int count) {
        counts[std::minmax(out, in)] += count;
    };
    const Workload& w = c.experiment.workload;
    for (const SharedBlock& of : layer_blocks(w, c.shape, layer))
        for (const Operator& op : of.block) {
            if (const auto* l = std::get_if<Linear>(&op)) add(dense_, l->out.rank, l->in.rank, 1);
            if (const auto* l = std::get_if<GroupedLinear>(&op))
                add(experts_, l->out.rank, l->in.rank,
                    std::max(1, w.moe.experts / c.experiment.parallelism.ep));
        }
}

// In rounds of twice the ranks the first rank gets the first matrix and the last.
void MuonMatrices::deal(const Counts& counts, int ranks, Counts& own) {
    std::vector<std::pair<long, long>> all;
    for (const auto& [size, count] : counts) all.insert(all.end(), as_index(count), size);
    std::ranges::stable_sort(all, std::greater(), [](const std::pair<long, long>& size) {
        return size.first * size.second;
    });
    const auto round = as_index(2 * ranks);
    for (const std::size_t i : indices_of(all))
        if (i % round == 0 || i % round == round - 1) ++own[all[i]];
}

MuonMatrices::Update MuonMatrices::update(const LayerContext& c) const {
    constexpr int steps = 5;
    const bool dealt = c.experiment.parallelism.zero > 0;
    Counts own;
    deal(dense_, dealt ? c.groups.shard.size() : 1, own);
    deal(experts_, dealt ? c.groups.expert_shard.size() : 1, own);
    Update update;
    for (const auto& [size, count] : own) {
        const auto [m, n] = size;
        Gemm product{.m = m, .n = m, .k = n, .dtype = c.experiment.runtime.optimizer.muon};
        update.products.emplace_back(product, steps * count);  // X X^T
        product.layout = Gemm::Layout::nn;
        product.k = m;
        update.products.emplace_back(product, steps * count);  // its square
        product.n = n;
        update.products.emplace_back(product, steps * count);  // by X
        update.elements += real(count) * real(m) * real(n);
    }
    return update;
}

}  // namespace stepcast
