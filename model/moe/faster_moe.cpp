// faster_moe: fast_moe with shadowed experts. The most loaded experts' weights are broadcast from their owner and
// computed on every rank for its own tokens; in the backward their gradients are reduced to the owner. Its scheduler
// calls the module of an expert only when it has tokens. The pipelining group is the world, so no all-to-all overlaps experts;
// the host, unless launches block, calls modules while the device exchanges. It waits for the device where it reads the counts, before it
// decides what is shadowed, and at the end of a pass (FastMoE's smgr->sync).
#include <algorithm>

#include "model/moe/layer.h"

namespace stepcast {
namespace {

constexpr double framework_calls = 12;  // as fast_moe

struct Shadowing {
    std::vector<bool> shadowed;  // by expert
    std::vector<int> load;       // slots over all ranks
};

// Rows of each kernel that rank computes: its own experts' world load, then every shadowed expert's local slots.
std::vector<long> rows_of_rank(const MoeLayer& layer, const Routing& routing, const Shadowing& s, int rank) {
    std::vector<long> rows;
    for (int e = 0; e < layer.experts; ++e) {
        const auto i = static_cast<std::size_t>(e);
        if (!s.shadowed[i] && layer.owner(e) == rank) rows.push_back(s.load[i]);
    }
    for (int e = 0; e < layer.experts; ++e)
        if (s.shadowed[static_cast<std::size_t>(e)]) rows.push_back(routing.count(rank, e));
    std::erase(rows, 0);
    return rows;
}

}  // namespace

// The rule as the system has it, constants built in: 50 Gbit/s, 11.5 TFLOP/s, 4-byte data, inner width 2 d. With
// experts sorted by world load B_0 >= B_1 .., shadowing i of them is estimated at
//   3 t_mm B_i + 4 t_slot B_i + i t_model,  t_mm = 4 * 2 d^2 / 11.5e12,  t_slot = 4 d / 6.25e9,  t_model = 16 d^2 / 6.25e9;
// the next one is shadowed while that gets smaller, so while the gap B_i - B_(i+1) exceeds
// t_model / (3 t_mm + 4 t_slot): more than 558 slots for d = 1024.
std::vector<bool> shadowed_experts(const MoeLayer& layer, const Routing& routing) {
    const double d = static_cast<double>(layer.hidden);
    const double bytes_per_second = 50e9 / 8, flops_per_second = 11.5e12, element_bytes = 4;
    const double model_seconds = 2 * (2 * d * d) * element_bytes / bytes_per_second;
    const double slot_seconds = 3 * (4 * 2 * d * d / flops_per_second) + 4 * (d * element_bytes / bytes_per_second);
    const std::vector<int> load = world_load(routing);
    const std::vector<std::size_t> order = by_load(load);
    std::vector<bool> shadowed(load.size());
    for (std::size_t i = 0; i + 1 < order.size(); ++i) {
        if ((load[order[i]] - load[order[i + 1]]) * slot_seconds <= model_seconds) break;
        shadowed[order[i]] = true;
    }
    return shadowed;
}

void add_faster_moe(Program& program, const MoeLayer& layer, const Routing& routing, Phase phase) {
    need_counts(routing, "faster_moe");
    const bool forward = phase == Phase::forward;
    const Shadowing s{shadowed_experts(layer, routing), world_load(routing)};
    const auto for_shadowed = [&](auto add) {
        for (int e = 0; e < layer.experts; ++e)
            if (s.shadowed[static_cast<std::size_t>(e)]) add(e);
    };
    const HostWork schedule{HostWork::Kind::schedule, 1};
    program.ahead("framework", phase, HostWork{HostWork::Kind::framework, framework_calls});
    if (forward) {
        add_gate_forward(program, layer);
        program.on_all("counts", phase, AllGather{Bytes(8.0 * layer.experts * layer.ranks)});
        program.on_each("schedule", phase, schedule, Lane::host);  // reads the counts
        add_slot_pass(program, layer, "permute", phase);
        for_shadowed([&](int e) { program.on_all("shadow_broadcast", phase, Broadcast{layer.expert_weights(), layer.owner(e)}); });
    } else {
        program.ahead("schedule", phase, schedule);
        add_slot_pass(program, layer, "weighted_sum_backward", phase);
    }
    add_all_to_all_groups(program, layer, routing, phase, Direction::dispatch, s.shadowed);
    for (int r = 0; r < layer.ranks; ++r) add_modules(program, layer, r, rows_of_rank(layer, routing, s, r), phase);
    if (!forward)
        for_shadowed([&](int e) { program.on_all("shadow_reduce", phase, Reduce{layer.expert_weights(), layer.owner(e)}); });
    add_all_to_all_groups(program, layer, routing, phase, Direction::combine, s.shadowed);
    program.synchronise(phase);
    add_slot_pass(program, layer, forward ? "weighted_sum" : "permute_backward", phase);
    if (!forward) add_gate_backward(program, layer);
}

}  // namespace stepcast
