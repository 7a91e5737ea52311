// A layer keeps what automatic differentiation keeps (sim/memory/layer_memory.cpp), and means and deviations of its two norms (16 bytes a
// token). The ends keep input and result of the final norm with its mean and deviation, and logarithms of the softmax in fp32.
// Gradients have the parameters' type.
// The fullest moment is the softmax's backward (two more fp32 tensors of the logits' size), the first layer's backward (in one of its
// blocks), the last gradient of all, or the optimizer. Checked against the storages that live while PyTorch runs such a step on shapes
// alone (docs/pytorch.md): equal to the MiB.

#include <algorithm>

#include "model/block/operators.h"
#include "model/transformer/counts.h"
#include "sim/memory/layer_memory.h"
#include "sim/memory/memory.h"

namespace stepcast {
namespace {

// cuBLAS takes 32 MiB for each thread that issues products: the script's and the backward's.
const Bytes workspaces = parse_bytes("64 MiB");

}  // namespace

MemoryUse eager_memory(const Experiment& e) {
    const Workload& w = e.workload;
    const RankShape s = rank_shape(e);
    const double tokens = number(s.tokens), parameters = count_parameters(w).total();
    const Bytes outer = s.outer(), inner = s.inner(w.ffn), wide_logits = tokens * w.vocab * Bytes(4);
    const Bytes scores = w.attention == AttentionKind::plain ? tokens * w.heads * w.seq * s.element() : Bytes(0);
    MemoryUse use;
    use.weights = parameters * s.element();
    use.optimizer = w.optimizer == Optimizer::adam ? 2.0 * use.weights : Bytes(0);
    const Bytes layers = w.layers * (layer_memory({e, s, rank_groups(e.parallelism), {}}, 0).kept() + tokens * Bytes(16));
    // What a layer's backward makes on top of the kept tensors: the larger of its two blocks.
    const Bytes layer_work = std::max(2.0 * outer + 2.0 * inner, 8.0 * outer + 2.0 * scores);
    const Bytes head_gradient = w.vocab * static_cast<double>(w.hidden) * s.element();
    struct Moment {
        Bytes gradients, activations, work;
        [[nodiscard]] Bytes sum() const { return gradients + activations + work; }
    };
    const Moment loss{Bytes(0), layers + 2.0 * outer + tokens * Bytes(8) + wide_logits, 2.0 * wide_logits};
    const Moment first_layer{head_gradient, layers, layer_work};
    const Moment last{use.weights, Bytes(0), outer};
    const Moment fullest = std::ranges::max({loss, first_layer, last}, {}, &Moment::sum);
    use.gradients = fullest.gradients;
    use.activations = fullest.activations;
    use.buffers = fullest.work + workspaces;
    return summed_up(use, e);
}

}  // namespace stepcast
