#include "exec/footprint.h"

#include <algorithm>
#include <cmath>

#include "model/base/lists.h"
#include "model/base/numbers.h"

namespace stepcast {

std::vector<int> participants(std::span<const Place> places) {
    std::vector<int> ranks;
    for (const Place& place : places)
        if (!has(ranks, place.rank())) ranks.push_back(place.rank());
    return ranks;
}

bool has(const std::vector<int>& ranks, int rank) { return contains(ranks, rank); }

bool moves_rows(const TaskGraph& graph) {
    return std::any_of(graph.ops().begin(), graph.ops().end(), [](const Op& op) {
        const auto* fused = std::get_if<FusedGemm>(&op);
        return fused != nullptr && fused->remote_blocks > 0;
    });
}

std::size_t exchanged(const AllToAll& op, std::size_t source, std::size_t target,
                      std::size_t count) {
    return source == target ? 0 : float_count(op.bytes[source * count + target]);
}

ExchangeCounts exchange_counts(const AllToAll& op, std::size_t index, std::size_t count) {
    ExchangeCounts counts;
    for (std::size_t peer = 0; peer < count; ++peer) {
        counts.to.push_back(exchanged(op, index, peer, count));
        counts.from.push_back(exchanged(op, peer, index, count));
    }
    return counts;
}

Part part_of(std::size_t size, std::size_t index, std::size_t count) {
    return {size * index / count, size * (index + 1) / count};
}

namespace {

double floats(Bytes bytes) { return std::ceil(bytes.si() / sizeof(float)); }

struct Sizer {
    std::size_t index, count;

    Footprint operator()(const Gemm& op) const {
        const auto batch = real(op.batch);
        return {{batch * area(op.m, op.k), batch * area(op.k, op.n)}, {batch * area(op.m, op.n)}};
    }
    Footprint operator()(const GroupedGemm& op) const {
        const long rows = std::accumulate(op.rows.begin(), op.rows.end(), 0L);
        const auto groups = std::ranges::count_if(op.rows, [](long r) { return r > 0; });
        const double a = area(rows, op.k), c = area(rows, op.n),
                     weights = real(groups) * area(op.k, op.n);
        return op.weight_gradient ? Footprint{{a, c}, {weights}} : Footprint{{a, weights}, {c}};
    }
    // The fetched rows lie behind the result.
    Footprint operator()(const FusedGemm& op) const {
        const long rows = op.blocks * op.rows_per_block;
        const double moved = real(op.remote_blocks) * floats(op.remote_bytes_per_block);
        return {{area(rows, op.k), area(op.k, op.n)},
                {area(rows, op.n), op.transfer == FusedGemm::Transfer::gather ? moved : 0}};
    }
    // Includes the scores of one head, and in the backward their gradients.
    Footprint operator()(const Attention& op) const {
        const double heads = area(op.batch, op.heads), scores = area(op.seq_q, op.seq_k);
        const double q = heads * area(op.seq_q, op.head_dim),
                     k = heads * area(op.seq_k, op.head_dim);
        return op.backward ? Footprint{{q, k, k, q}, {q, k, k, 2 * scores}}
                           : Footprint{{q, k, k}, {q, scores}};
    }
    Footprint operator()(const MemoryPass& op) const {
        return {{floats(op.read)}, {floats(op.written)}};
    }
    Footprint operator()(const AllReduce& op) const {
        return {{floats(op.bytes)}, {floats(op.bytes)}};
    }
    Footprint operator()(const AllGather& op) const {
        return {{share(op.bytes)}, {floats(op.bytes)}};
    }
    Footprint operator()(const ReduceScatter& op) const {
        return {{floats(op.bytes)}, {share(op.bytes)}};
    }
    Footprint operator()(const Broadcast& op) const { return one_way(op.bytes, op.root); }
    Footprint operator()(const Reduce& op) const {
        return {{floats(op.bytes)}, {is(op.root) ? floats(op.bytes) : 0}};
    }
    Footprint operator()(const AllToAll& op) const {
        Footprint sum;
        for (std::size_t peer = 0; peer < count; ++peer) {
            if (peer == index) continue;
            sum.inputs[0] += floats(op.bytes[index * count + peer]);
            sum.outputs[0] += floats(op.bytes[peer * count + index]);
        }
        return sum;
    }
    Footprint operator()(const SendRecv& op) const { return one_way(op.bytes, 0); }
    Footprint operator()(const Barrier&) const { return {}; }
    Footprint operator()(const HostWork&) const { return {}; }

    [[nodiscard]] Footprint one_way(Bytes bytes, int sender) const {
        return is(sender) ? Footprint{{floats(bytes)}, {}} : Footprint{{}, {floats(bytes)}};
    }
    [[nodiscard]] bool is(int participant) const { return as_int(index) == participant; }
    [[nodiscard]] double share(Bytes bytes) const { return std::ceil(floats(bytes) / real(count)); }
};

}  // namespace

std::size_t float_count(Bytes bytes) { return static_cast<std::size_t>(floats(bytes)); }

Footprint footprint(const Op& op, std::size_t index, std::size_t count) {
    return std::visit(Sizer{index, count}, op);
}

}  // namespace stepcast
