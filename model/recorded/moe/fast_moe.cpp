#include "model/recorded/moe/fast_moe.h"

#include "model/base/numbers.h"
#include "model/recorded/moe/layer.h"

namespace stepcast {
namespace {

// Framework operations around the experts in one pass: gate, softmax, top-k, counts, permute,
// weighted sum, and bookkeeping.
constexpr double framework_calls = 12;

// Rows of each kernel on `rank`: the world load of its own experts, then the local slots of every
// shadowed expert.
std::vector<long> rows_of_rank(const MoeLayer& layer, const Routing& routing,
                               const std::vector<bool>& shadowed, int rank) {
    const std::vector<int> load = world_load(routing);
    std::vector<long> rows;
    for (int e = 0; e < layer.experts; ++e)
        if (const auto i = as_index(e); !shadowed[i] && layer.owner(e) == rank)
            rows.push_back(load[i]);
    for (int e = 0; e < layer.experts; ++e)
        if (shadowed[as_index(e)]) rows.push_back(routing.count(rank, e));
    return rows;
}

// Sends each expert's slots as an 8-byte count to its owner. With a scheduler, every rank gets the
// counts of all ranks.
void exchange_counts(Program& program, const MoeLayer& layer, bool scheduled) {
    if (scheduled) {
        program.on_all("counts", Phase::forward,
                       AllGather{Bytes(8.0 * layer.experts * layer.ranks)});
        // reads the counts
        return program.on_each("schedule", Phase::forward, HostWork{HostWork::Kind::schedule, 1},
                               Lane::host);
    }
    program.on_all("counts", Phase::forward, all_to_all(layer.ranks, [&](int, int) {
                       return Bytes(8.0 * layer.experts_per_rank());
                   }));
    program.synchronise(Phase::forward);
}

// The experts of one rank in a host loop over `rows` slots each; the host calls every module.
void add_modules(Program& program, const MoeLayer& layer, int rank, const std::vector<long>& rows,
                 Phase phase) {
    for (const long of_expert : rows) {
        program.ahead(rank, "module", phase, HostWork{HostWork::Kind::module, 1});
        if (of_expert == 0) continue;
        for (const NamedOp& kernel :
             perceptron_kernels(layer.expert(), phase, {of_expert}, "expert_"))
            program.on_rank(rank, kernel.name, phase, kernel.op);
    }
}

void add_layer(Program& program, const MoeLayer& layer, const Routing& routing, Phase phase,
               bool scheduled) {
    const bool forward = phase == Phase::forward;
    const std::vector<bool> shadowed =
        scheduled ? shadowed_experts(layer, routing) : std::vector<bool>(as_index(layer.experts));
    const auto for_shadowed = [&](auto add) {
        for (int e = 0; e < layer.experts; ++e)
            if (shadowed[as_index(e)]) add(e);
    };
    program.ahead("framework", phase, HostWork{HostWork::Kind::framework, framework_calls});
    if (forward) {
        add_gate_forward(program, layer);
        exchange_counts(program, layer, scheduled);
    } else if (scheduled) {
        program.ahead("schedule", phase, HostWork{HostWork::Kind::schedule, 1});
    }
    add_slot_pass(program, layer, forward ? "permute" : "weighted_sum_backward", phase);
    if (forward)
        for_shadowed([&](int e) {
            program.on_all("shadow_broadcast", phase,
                           Broadcast{layer.expert_weights(), layer.owner(e)});
        });
    add_all_to_all_groups(program, layer, routing, {phase, Direction::dispatch}, shadowed);
    if (!scheduled) program.synchronise(phase);
    for (int r = 0; r < layer.ranks; ++r) {
        std::vector<long> rows = rows_of_rank(layer, routing, shadowed, r);
        if (scheduled) std::erase(rows, 0);
        add_modules(program, layer, r, rows, phase);
    }
    if (!forward)
        for_shadowed([&](int e) {
            program.on_all("shadow_reduce", phase, Reduce{layer.expert_weights(), layer.owner(e)});
        });
    add_all_to_all_groups(program, layer, routing, {phase, Direction::combine}, shadowed);
    program.synchronise(phase);
    add_slot_pass(program, layer, forward ? "weighted_sum" : "permute_backward", phase);
    if (!forward) add_gate_backward(program, layer);
}

}  // namespace

// FasterMoE's rule with its built-in constants: 50 Gbit/s, 11.5 TFLOP/s, 4-byte data, inner width 2
// d. With experts sorted by world load B_0 >= B_1 .., it estimates the time with i shadowed experts
// as
//   3 t_mm B_i + 4 t_slot B_i + i t_model,  t_mm = 4 * 2 d^2 / 11.5e12,  t_slot = 4 d / 6.25e9,
//   t_model = 16 d^2 / 6.25e9;
// and shadows the next expert while this decreases, that is while the gap B_i - B_(i+1) exceeds
// t_model / (3 t_mm + 4 t_slot): more than 558 slots for d = 1024.
std::vector<bool> shadowed_experts(const MoeLayer& layer, const Routing& routing) {
    const double d = real(layer.hidden);
    const double bytes_per_second = 50e9 / 8, flops_per_second = 11.5e12, element_bytes = 4;
    const double model_seconds = 2 * (2 * d * d) * element_bytes / bytes_per_second;
    const double slot_seconds =
        3 * (4 * 2 * d * d / flops_per_second) + 4 * (d * element_bytes / bytes_per_second);
    const std::vector<int> load = world_load(routing);
    const std::vector<std::size_t> order = by_load(load);
    std::vector<bool> shadowed(load.size());
    for (std::size_t i = 0; i + 1 < order.size(); ++i) {
        if ((load[order[i]] - load[order[i + 1]]) * slot_seconds <= model_seconds) break;
        shadowed[order[i]] = true;
    }
    return shadowed;
}

void add_fast_moe(Program& program, const MoeLayer& layer, const Routing& routing, Phase phase) {
    need_counts(routing, "fast_moe");
    add_layer(program, layer, routing, phase, false);
}

void add_faster_moe(Program& program, const MoeLayer& layer, const Routing& routing, Phase phase) {
    need_counts(routing, "faster_moe");
    add_layer(program, layer, routing, phase, true);
}

}  // namespace stepcast
