#include "sim/memory/eager_memory.h"

#include <algorithm>

#include "model/base/numbers.h"
#include "model/machine/libraries.h"
#include "model/runtime_rules.h"
#include "model/transformer/counts.h"
#include "sim/memory/memory_use.h"
#include "sim/memory/process_memory.h"

namespace stepcast {
namespace {

struct Sizes {
    explicit Sizes(const Experiment& e)
        : w(e.workload),
          batch(e.parallelism.micro_batch),
          element(size_of(w.dtype)),
          plain(attention_kernel(e) == AttentionKind::plain) {}

    const Workload& w;
    double batch;
    Bytes element;
    bool plain;
    double tokens = batch * w.seq;
    Bytes outer = tokens * w.hidden * element, inner = tokens * w.ffn * element;
    Bytes scores = batch * w.heads * w.seq * w.seq * element;
    Bytes wide_logits = tokens * w.vocab * Bytes(4);

    [[nodiscard]] Bytes layer() const {
        const Bytes attention = plain ? scores : tokens * w.heads * Bytes(4);
        return 8.0 * outer + 2.0 * inner + tokens * Bytes(16) + attention;
    }
    [[nodiscard]] Bytes ends() const { return 2.0 * outer + tokens * Bytes(8); }
    // What a layer's backward makes on top of the kept tensors: the larger of its two blocks.
    [[nodiscard]] Bytes layer_work() const {
        return std::max(2.0 * outer + 2.0 * inner, 8.0 * outer + (plain ? 2.0 * scores : Bytes(0)));
    }
};

}  // namespace

MemoryUse eager_memory(const Experiment& e) {
    const Sizes s(e);
    const Workload& w = s.w;
    const double parameters = count_parameters(w).total();
    MemoryUse use;
    use.weights = parameters * s.element;
    use.optimizer = w.optimizer == Optimizer::adam ? 2.0 * use.weights : Bytes(0);
    const Bytes layers = w.layers * s.layer(), head_gradient = w.vocab * real(w.hidden) * s.element;
    struct Moment {
        Bytes gradients, activations, work;
        [[nodiscard]] Bytes sum() const { return gradients + activations + work; }
    };
    const Moment loss{Bytes(0), layers + s.ends() + s.wide_logits, 2.0 * s.wide_logits};
    const Moment first_layer{head_gradient, layers, s.layer_work()};
    const Moment last{use.weights, Bytes(0), s.outer};
    const Moment fullest = std::ranges::max({loss, first_layer, last}, {}, &Moment::sum);
    use.gradients = fullest.gradients;
    use.activations = fullest.activations;
    // of each thread that issues products: the script's and the backward's
    use.buffers = fullest.work + 2.0 * product_workspace(e.cluster.gpu);
    const Bytes process = process_memory(e);
    return with_doubt(summed_up(use, e, process), e, process);
}

}  // namespace stepcast
