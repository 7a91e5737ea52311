#include "model/recorded/moe/alltoall_unfused.h"

#include <numeric>

#include "model/base/numbers.h"
#include "model/recorded/moe/layer.h"

namespace stepcast {
namespace {

struct Capacity {
    long slots;            // of one expert from one rank
    Bytes tokens, buffer;  // a rank's tokens; its buffer over all experts
};

Capacity capacity_of(const MoeLayer& layer) {
    const long slots =
        static_cast<long>(layer.top_k) * ((layer.tokens + layer.experts - 1) / layer.experts);
    return {slots, real(layer.tokens) * layer.row(), real(slots * layer.experts) * layer.row()};
}

void exchange(Program& program, const MoeLayer& layer, const Capacity& c, std::string_view name,
              Phase phase) {
    if (layer.ranks == 1) return;
    program.on_all(name, phase,
                   all_to_all(layer.ranks, [&](int, int) { return c.buffer / layer.ranks; }));
}

// For each choice, moves its rows between a tensor in token order and the buffer.
void move_choices(Program& program, const MoeLayer& layer, const Capacity& c, std::string_view name,
                  Phase phase) {
    for (int choice = 0; choice < layer.top_k; ++choice)
        program.on_each(name, phase, MemoryPass{c.tokens, c.tokens});
}
void fill_buffer(Program& program, const MoeLayer& layer, const Capacity& c, std::string_view name,
                 Phase phase) {
    program.on_each("zeros", phase, MemoryPass{Bytes(0), c.buffer});
    move_choices(program, layer, c, name, phase);
}
void sum_choices(Program& program, const MoeLayer& layer, const Capacity& c, std::string_view name,
                 Phase phase) {
    move_choices(program, layer, c, name, phase);
    for (int choice = 1; choice < layer.top_k; ++choice)
        program.on_each("sum", phase, MemoryPass{2.0 * c.tokens, c.tokens});
}

// Biases are added after each product. In the backward they are summed over the slots before the
// product.
void add_batched_experts(Program& program, const MoeLayer& layer, const Capacity& c, Phase phase) {
    const auto local = as_index(layer.experts_per_rank());
    const std::vector<long> rows(local, c.slots * layer.ranks);
    const auto all = real(std::accumulate(rows.begin(), rows.end(), 0L));
    for (const NamedOp& kernel : perceptron_kernels(layer.expert(), phase, rows, "expert_", true)) {
        const Bytes result = all * (kernel.name.ends_with("1") ? layer.ffn_row() : layer.row());
        if (kernel.name.starts_with("dgrad"))
            program.on_each("bias_gradient", phase, MemoryPass{result, Bytes(0)});
        program.on_each(kernel.name, phase, kernel.op);
        if (kernel.name.starts_with("expert_"))
            program.on_each("bias", phase, MemoryPass{result, result});
    }
}

}  // namespace

void add_unfused_alltoall(Program& program, const MoeLayer& layer, Phase phase) {
    const Capacity c = capacity_of(layer);
    const bool forward = phase == Phase::forward;
    if (forward) add_gate_forward(program, layer);
    fill_buffer(program, layer, c, forward ? "encode" : "decode_backward", phase);
    for (int choice = 0; choice < layer.top_k && !forward; ++choice)
        program.on_each("gate_gradients", phase, MemoryPass{2.0 * c.tokens, Bytes(0)});
    exchange(program, layer, c, "dispatch", phase);
    add_batched_experts(program, layer, c, phase);
    exchange(program, layer, c, "combine", phase);
    sum_choices(program, layer, c, forward ? "decode" : "encode_backward", phase);
    if (forward) return;
    add_gate_backward(program, layer);
    // adds the gradients from experts and gate
    program.on_each("sum", phase, MemoryPass{2.0 * c.tokens, c.tokens});
}

}  // namespace stepcast
