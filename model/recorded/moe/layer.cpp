#include "model/recorded/moe/layer.h"

#include <algorithm>
#include <numeric>

#include "model/base/numbers.h"
#include "model/base/refuse.h"
#include "model/recorded/moe/fast_moe.h"
#include "model/recorded/moe/mix_moe.h"
#include "model/runtime_rules.h"
#include "model/transformer/counts.h"

namespace stepcast {

MoeLayer moe_layer_of(const Experiment& e) {
    const Workload& w = e.workload;
    const bool whole_model = w.kind == Workload::Kind::transformer;
    return {.ranks = whole_model ? e.parallelism.ep : rank_count(e.cluster),
            .experts = w.moe.experts,
            .tokens = e.parallelism.micro_batch * w.seq,
            .top_k = w.moe.top_k,
            .hidden = w.hidden,
            .ffn = expert_ffn(w),
            .dtype = w.dtype,
            .overlap_chunks = e.parallelism.overlap_chunks,
            .weight_dtype = whole_model && e.runtime.autocast ? Dtype::fp32 : w.dtype,
            .behind_attention = whole_model,
            .unfused = runs_operations(e)};
}

void add_gate_forward(Program& program, const MoeLayer& layer) {
    const Bytes scores = real(layer.tokens) * layer.experts * size_of(layer.dtype);
    program.on_each("gate", Phase::forward,
                    Gemm{layer.tokens, layer.experts, layer.hidden, 1, layer.dtype});
    program.on_each("top_k", Phase::forward, MemoryPass{scores, scores});
}

void add_gate_backward(Program& program, const MoeLayer& layer) {
    program.on_each("gate_dgrad", Phase::backward,
                    Gemm{layer.tokens, layer.hidden, layer.experts, 1, layer.dtype});
    program.on_each("gate_wgrad", Phase::backward,
                    Gemm{layer.hidden, layer.experts, layer.tokens, 1, layer.dtype});
}

void add_slot_pass(Program& program, const MoeLayer& layer, std::string_view name, Phase phase) {
    program.on_each(name, phase, MemoryPass{layer.slots_bytes(), layer.slots_bytes()});
}

void need_counts(const Routing& routing, std::string_view system) {
    if (routing.counts.empty())
        refuse(
            "routing.file: holds block totals per rank, but parallelism.moe_system \"{}\" needs "
            "slots per source rank and expert; "
            "expected a file of counts",
            system);
}

void add_all_to_all_groups(Program& program, const MoeLayer& layer, const Routing& routing,
                           const SlotExchange& exchange, const std::vector<bool>& skip) {
    const auto& [phase, direction] = exchange;
    const bool back = direction == Direction::combine;
    for (int local = 0; local < layer.experts_per_rank(); ++local) {
        AllToAll group = all_to_all(layer.ranks, [&](int from, int to) {
            const int expert = (back ? from : to) * layer.experts_per_rank() + local;
            return skip[as_index(expert)] ? Bytes(0)
                                          : routing.count(back ? to : from, expert) * layer.row();
        });
        if (std::ranges::count(group.bytes, Bytes(0)) == std::ssize(group.bytes)) continue;
        program.ahead("exchange_setup", phase, HostWork{HostWork::Kind::exchange_setup, 1});
        program.on_all(back ? "combine" : "dispatch", phase, std::move(group));
    }
}

std::vector<int> world_load(const Routing& routing) {
    std::vector<int> load(as_index(routing.experts));
    for (int r = 0; r < routing.ranks; ++r)
        for (int e = 0; e < routing.experts; ++e) load[as_index(e)] += routing.count(r, e);
    return load;
}

std::vector<std::size_t> by_load(const std::vector<int>& load) {
    std::vector<std::size_t> order(load.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::ranges::greater{},
                             [&](std::size_t expert) { return load[expert]; });
    return order;
}

std::vector<double> computed_slots(MoeSystem system, long hidden, const Routing& routing) {
    std::vector<bool> everywhere(as_index(routing.experts));
    if (system == MoeSystem::faster_moe) everywhere = shadowed_experts({.hidden = hidden}, routing);
    if (system == MoeSystem::mix_moe) everywhere = popular_experts(routing);
    std::vector<double> slots(as_index(routing.ranks));
    for (int source = 0; source < routing.ranks; ++source)
        for (int expert = 0; expert < routing.experts; ++expert) {
            const int rank =
                everywhere[as_index(expert)] ? source : expert / routing.experts_per_rank();
            slots[as_index(rank)] += routing.count(source, expert);
        }
    return slots;
}

}  // namespace stepcast
