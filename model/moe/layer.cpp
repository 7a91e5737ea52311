#include "model/moe/layer.h"

#include <string>

#include "model/errors.h"

namespace stepcast {

void add_gate_forward(Program& program, const MoeLayer& layer) {
    const Bytes scores = static_cast<double>(layer.tokens) * layer.experts * size_of(layer.dtype);
    program.on_each("gate", Phase::forward, Gemm{layer.tokens, layer.experts, layer.hidden, 1, layer.dtype});
    program.on_each("top_k", Phase::forward, MemoryPass{scores, scores});
}

void add_gate_backward(Program& program, const MoeLayer& layer) {
    program.on_each("gate_dgrad", Phase::backward, Gemm{layer.tokens, layer.hidden, layer.experts, 1, layer.dtype});
    program.on_each("gate_wgrad", Phase::backward, Gemm{layer.hidden, layer.experts, layer.tokens, 1, layer.dtype});
}

void add_slot_pass(Program& program, const MoeLayer& layer, std::string_view name, Phase phase) {
    program.on_each(name, phase, MemoryPass{layer.slots_bytes(), layer.slots_bytes()});
}

void need_counts(const Routing& routing, std::string_view system) {
    if (routing.counts.empty())
        throw ConfigError("routing.file: holds block totals per rank, but parallelism.moe_system \"" +
                          std::string(system) + "\" needs slots per source rank and expert; expected a file of counts");
}

void add_expert_forward(Program& program, const MoeLayer& layer, int rank, long rows) {
    const Bytes inner = static_cast<double>(rows) * layer.ffn_row();
    program.on_rank(rank, "expert_gemm1", Phase::forward, Gemm{rows, layer.ffn, layer.hidden, 1, layer.dtype});
    program.on_rank(rank, "gelu", Phase::forward, MemoryPass{inner, inner});
    program.on_rank(rank, "expert_gemm2", Phase::forward, Gemm{rows, layer.hidden, layer.ffn, 1, layer.dtype});
}

void add_expert_backward(Program& program, const MoeLayer& layer, int rank, long rows) {
    const Bytes inner = static_cast<double>(rows) * layer.ffn_row();
    program.on_rank(rank, "dgrad2", Phase::backward, Gemm{rows, layer.ffn, layer.hidden, 1, layer.dtype});
    program.on_rank(rank, "wgrad2", Phase::backward, Gemm{layer.ffn, layer.hidden, rows, 1, layer.dtype});
    program.on_rank(rank, "gelu_backward", Phase::backward, MemoryPass{2.0 * inner, inner});
    program.on_rank(rank, "dgrad1", Phase::backward, Gemm{rows, layer.hidden, layer.ffn, 1, layer.dtype});
    program.on_rank(rank, "wgrad1", Phase::backward, Gemm{layer.hidden, layer.ffn, rows, 1, layer.dtype});
}

}  // namespace stepcast
