// fast_moe: gate, counts over the links, permute; then per all-to-all one group of sends and receives for each local
// expert index, for which the host waits (FastMoE's smgr->sync); experts one by one in a host loop, every module called, those without tokens
// too. The backward mirrors it: four all-to-alls a step. Source: docs/recorded-runs.md.
#include "model/moe/layer.h"

namespace stepcast {
namespace {

// Framework operations around the experts in one pass: gate, softmax, top-k, counts, permute, weighted sum and the
// bookkeeping between them.
constexpr double framework_calls = 12;

std::vector<long> rows_of_rank(const MoeLayer& layer, const std::vector<int>& load, int rank) {
    const auto first = load.begin() + rank * layer.experts_per_rank();
    return {first, first + layer.experts_per_rank()};
}

// Slots per (source, expert) as 8-byte counts, to every owner.
AllToAll counts_all_to_all(const MoeLayer& layer) {
    const auto cells = static_cast<std::size_t>(layer.ranks) * static_cast<std::size_t>(layer.ranks);
    return {std::vector<Bytes>(cells, Bytes(8.0 * layer.experts_per_rank()))};
}

// Dispatch, the experts of every rank, combine.
void add_experts(Program& program, const MoeLayer& layer, const Routing& routing, Phase phase) {
    const std::vector<bool> none(static_cast<std::size_t>(layer.experts));
    const std::vector<int> load = world_load(routing);
    add_all_to_all_groups(program, layer, routing, phase, Direction::dispatch, none);
    program.synchronise(phase);
    for (int r = 0; r < layer.ranks; ++r) add_modules(program, layer, r, rows_of_rank(layer, load, r), phase);
    add_all_to_all_groups(program, layer, routing, phase, Direction::combine, none);
    program.synchronise(phase);
}

}  // namespace

void add_fast_moe(Program& program, const MoeLayer& layer, const Routing& routing, Phase phase) {
    need_counts(routing, "fast_moe");
    const bool forward = phase == Phase::forward;
    program.ahead("framework", phase, HostWork{HostWork::Kind::framework, framework_calls});
    if (forward) {
        add_gate_forward(program, layer);
        program.on_all("counts", phase, counts_all_to_all(layer));
        program.synchronise(phase);
    }
    add_slot_pass(program, layer, forward ? "permute" : "weighted_sum_backward", phase);
    add_experts(program, layer, routing, phase);
    add_slot_pass(program, layer, forward ? "weighted_sum" : "permute_backward", phase);
    if (!forward) add_gate_backward(program, layer);
}

}  // namespace stepcast
